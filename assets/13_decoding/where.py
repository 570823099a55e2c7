"""Where the time of greedy decoding goes: matrix products, other operations, and all between them.

    HEED_DATA=... python assets/13_decoding/where.py

writes where.json beside this file. The committed model of chapter 14 translates the first 500 test captions
of Multi30k in float32, in this process with one thread, as `python -m heed translate` does (packed matrices),
and CTranslate2 does the same: ROUNDS times in turn, seconds by the clock. Once more ours runs under torch's
profiler, which adds up each operation's own time. What the clock has and the operations have not is Python
and torch's dispatch. It wants a machine on which nothing else is running.
"""

import json
import os
import platform
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import torch
from engine import COMMITTED, processor
from torch.profiler import ProfilerActivity, profile

from heed import recipe
from heed.data import multi30k
from heed.recipe.export import Exported, export
from heed.workers import Workers

LOG = Path(__file__).with_suffix(".json")
CAPTIONS, ROUNDS = 500, 5
PRODUCTS = ("addmm", "::mm", "bmm", "linear", "attention", "matmul", "packed")  # in an operation's name


def seconds(function):
    """By the clock."""
    began = time.perf_counter()
    function()
    return round(time.perf_counter() - began, 3)


def main():
    translator = recipe.load_translator(COMMITTED)
    sources = [pair.source for pair in multi30k("test")[:CAPTIONS]]
    workers = Workers(translator.model, 1)

    def ours():
        return translator.translate(sources, workers=workers)

    with tempfile.TemporaryDirectory() as parent:
        engine = Exported(export(translator, Path(parent) / "float32", "float32"))
        same = sum(a == b for a, b in zip(ours(), engine.translate(sources, width=1), strict=True))
        clock = [(seconds(ours), seconds(lambda: engine.translate(sources, width=1))) for _ in range(ROUNDS)]
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        ours()
    own = {event.key: event.self_cpu_time_total / 1e6 for event in seen.key_averages()}
    products = {name: each for name, each in own.items() if any(part in name for part in PRODUCTS)}
    log = {
        "what": f"seconds for {CAPTIONS} captions, greedy, float32, one thread: see where.py",
        "hardware": f"1 thread of {processor()} ({os.cpu_count()} cores visible)",
        "versions": {
            "torch": torch.__version__,
            "ctranslate2": version("ctranslate2"),
            "python": platform.python_version(),
        },
        "equal": same,
        "ours": [each for each, _ in clock],
        "engine": [each for _, each in clock],
        "operations": sum(event.count for event in seen.key_averages()),
        "products": round(sum(products.values()), 3),
        "other operations": round(sum(own.values()) - sum(products.values()), 3),
        "longest": {name: round(own[name], 3) for name in sorted(own, key=own.get, reverse=True)[:12]},
    }
    LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
    print(json.dumps(log, indent=1))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
