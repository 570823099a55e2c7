"""Does training give the same digits on another type of processor, or with another number of threads?

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
import tempfile
from pathlib import Path

import torch

from heed.alignment import AttentionSeq2Seq
from heed.data import batches
from heed.text import Vocabulary
from heed.train import sequence_loss, train

KINDS = "default", "avx2", "avx512"
WAYS = "made in single precision, then .double()", "made in double precision"
SEEDS = 0, 1, 2


def trained(n_steps, way, seed):
    """Train on reversed words, as in the preface; return the first weights, in a row, and the last loss."""
    if way == WAYS[1]:
        torch.set_default_dtype(torch.float64)
    vocabulary, rng = Vocabulary("abcdefghi"), random.Random(0)
    words = ["".join(rng.choices("abcdefghi", k=7)) for _ in range(500)]
    pairs = [(vocabulary.encode(w), vocabulary.encode(w[::-1], bos=True, eos=True)) for w in words]
    torch.manual_seed(seed)
    model = AttentionSeq2Seq(len(vocabulary), len(vocabulary), d_embed=16, d_hidden=32).double()
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    return weights, train(model, batches(pairs, 50, seed=0), sequence_loss, n_steps, rate=1e-2)[-1]


def settings():
    """The processor types that this processor can play, with one thread; and its own with two."""
    own = torch.backends.cpu.get_cpu_capability().lower()
    told = [(kind, 1) for kind in KINDS[: KINDS.index(own) + 1]] + [(own, 2)]
    return {
        f"{kind}, {n} thread{'s' * (n > 1)}": {"ATEN_CPU_CAPABILITY": kind, "OMP_NUM_THREADS": str(n)}
        for kind, n in told
    }


def measured(way, seed, folder):
    """What all settings give with this seed: how far apart the first weights are, and the last losses."""
    weights, losses, to = [], {}, Path(folder, "trained.pt")
    for name, told in settings().items():
        call = [sys.executable, __file__, way, str(seed), to]
        subprocess.run(call, env=os.environ | told, check=True)
        first, losses[name] = torch.load(to)
        weights.append(first)
    apart = torch.stack(weights).aminmax(dim=0)
    return {
        "seed": seed,
        "first weights apart": (apart.max - apart.min).max().item(),
        "losses": losses,
    }


if __name__ == "__main__":
    if len(sys.argv) > 1:
        torch.save(trained(150, sys.argv[1], int(sys.argv[2])), sys.argv[3])
        sys.exit()
    with tempfile.TemporaryDirectory() as folder:
        ways = {way: [measured(way, seed, folder) for seed in SEEDS] for way in WAYS}
    log = {
        "what": "the preface's network: how far its first weights differ at most, and its loss after "
        "150 updates",
        "hardware": f"{platform.machine()} CPU with {torch.backends.cpu.get_cpu_capability()}",
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "ways": ways,
    }
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
