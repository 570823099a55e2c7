"""Does the same training give the same digits on another type of processor?

torch chooses its kernels by what the processor can do; ATEN_CPU_CAPABILITY makes it choose those of an older
type. Each setting trains the preface's network in a process of its own.

    python assets/00_preface/precision.py
"""

import json
import os
import platform
import random
import subprocess
import sys
from pathlib import Path

KINDS = "default", "avx2", "avx512"
WAYS = "made in single precision, then .double()", "made in double precision"


def loss_after(n_steps, way):
    """Train on reversed words, as in the preface; return the last loss."""
    import torch

    from heed.alignment import AttentionSeq2Seq
    from heed.data import batches
    from heed.text import Vocabulary
    from heed.train import sequence_loss, train

    if way == WAYS[1]:
        torch.set_default_dtype(torch.float64)
    vocabulary, rng = Vocabulary("abcdefghi"), random.Random(0)
    words = ["".join(rng.choices("abcdefghi", k=7)) for _ in range(500)]
    pairs = [(vocabulary.encode(w), vocabulary.encode(w[::-1], bos=True, eos=True)) for w in words]
    torch.manual_seed(0)
    model = AttentionSeq2Seq(len(vocabulary), len(vocabulary), d_embed=16, d_hidden=32).double()
    return train(model, batches(pairs, 50, seed=0), sequence_loss, n_steps, rate=1e-2)[-1]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(loss_after(150, sys.argv[1]))
        sys.exit()
    import torch

    losses = {}
    for way in WAYS:
        for kind in KINDS:
            told = {**os.environ, "ATEN_CPU_CAPABILITY": kind}
            done = subprocess.run(
                [sys.executable, __file__, way], env=told, capture_output=True, text=True, check=True
            )
            losses.setdefault(way, {})[kind] = float(done.stdout)
    log = {
        "what": "loss after 150 updates of the preface's network, seed 0, by assumed processor type",
        "hardware": f"{platform.machine()} CPU with AVX-512, {torch.get_num_threads()} thread(s)",
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "loss": losses,
    }
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
