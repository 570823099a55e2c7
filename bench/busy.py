"""What an update costs beside other programs, with one thread and with all, and what is chosen then.

    python -m bench.busy               # some minutes, on a machine without other work

The ten-minute recipe, AdamW. The other programs add numbers: none, one, and one a core.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import torch

from bench.__main__ import machine, versions
from bench.race.data import read
from heed.engine import choose_threads, fit
from heed.loss import translation_loss
from heed.recipe import build

LOG = Path(__file__).parents[1] / "assets" / "14_a_real_translator" / "busy.json"
ADDING = [sys.executable, "-c", "n = 0\nwhile True: n += 1"]


def seconds_an_update(data, n_threads, updates):
    """The median gap between the updates of a training, but for the first three."""
    torch.set_num_threads(n_threads)
    model = build({"model": {**data.model, "norm": "pre"}, "training": {"seed": 0}}, len(data.subwords))
    began = []

    def loss(model, batch):
        began.append(time.perf_counter())
        return translation_loss(model, batch, data.smoothing)

    with tempfile.TemporaryDirectory() as folder:
        fit(
            model, data.batches(0), loss, folder, updates=updates, optimizer="adamw", lr=1e-4, device="cpu",
            checkpoint_minutes=None,
        )  # fmt: skip
    return statistics.median(b - a for a, b in pairwise(began[3:]))


def beside(n_others, data, updates, rounds):
    """With so many other programs: threads -> seconds an update, by turns; and the choice at each round."""
    others = [subprocess.Popen(ADDING) for _ in range(n_others)]
    n_threads = torch.get_num_threads()
    seconds, chosen = {n: [] for n in sorted({1, n_threads})}, []
    try:
        for _ in range(rounds):
            torch.set_num_threads(n_threads)
            chosen.append(choose_threads())
            for n, found in seconds.items():
                found.append(round(seconds_an_update(data, n, updates), 3))
    finally:
        for other in others:
            other.kill()
            other.wait()
        torch.set_num_threads(n_threads)
    return {"other programs": n_others, "chosen": chosen, "seconds an update": seconds}


def main(to=LOG, updates=9, rounds=2):
    with tempfile.TemporaryDirectory() as folder:
        data = read(Path(folder))
    rows = []
    for n_others in sorted({0, 1, os.cpu_count() or 1}):
        rows.append(beside(n_others, data, updates, rounds))
        print(rows[-1], flush=True)
    log = {"device": machine(), "versions": versions(), "updates": updates, "beside": rows}
    to.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
