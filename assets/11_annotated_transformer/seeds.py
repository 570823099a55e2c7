"""What chapter 11's small trainings give with three seeds each. Written to seeds.json.

    python assets/11_annotated_transformer/seeds.py

It runs the chapter's own cells, with another number where the seed stands. (About six minutes on one core.)

- `cells`: a digest of these cells; another one says that the log is older than the chapter
- `joints`: section 11.6, the loss after a hundred updates of each model with one wrong joint
- `begins`: section 11.5, the first and the last loss of each initialisation
- `changes`: laboratory L4, the same with one change of the weights
- `large`: laboratory L4, the last loss with large embedding matrices and no factor
- `dates`: section 11.6, the share of unseen dates that the Transformer writes exactly
- `roots`: the same with the paper's schedule, whose rate falls with the root of the step
"""

import hashlib
import json
import math
import os
import platform
import random
from importlib.metadata import version
from pathlib import Path

import nbformat
import torch
from torch import nn
from torch.nn import functional as F

from heed.attention import MultiHeadAttention, causal_mask, padding_mask
from heed.data import batches, dates, pad
from heed.evaluate import exact_match
from heed.layers import DecoderLayer, SublayerConnection
from heed.text import BOS, PAD, Characters, Vocabulary
from heed.train import train
from heed.transformer import EncoderDecoder, make_model

LOG = Path(__file__).with_suffix(".json")
CHAPTER = LOG.parents[2] / "chapters" / "11_annotated_transformer.ipynb"
CELLS = (  # what stands in each cell that is run, in the order of the chapter
    *(
        'languages = "de"',
        "sources = Characters.build",
        "class Pile(EncoderDecoder):",
        "def loss(model, batch):",
    ),
    *("def write_all(", "class Swapped(DecoderLayer):", "def learn(", "def ours(", "class NoPadding("),
    *("def outer_x(", "def smoothed_loss(", "def rate("),
)
THINGS = (
    *(
        math,
        random,
        torch,
        nn,
        MultiHeadAttention,
        causal_mask,
        padding_mask,
        batches,
        dates,
        pad,
        exact_match,
    ),
    *(DecoderLayer, SublayerConnection, Characters, Vocabulary, train, EncoderDecoder, make_model),
)
GIVEN = {"nn": nn, "F": F, "BOS": BOS, "PAD": PAD, **{thing.__name__: thing for thing in THINGS}}
SEEDS = 0, 1, 2


def sources():
    """The chapter's cells, by what stands in them; without the training of the pile."""
    cells = [cell.source for cell in nbformat.read(CHAPTER, 4).cells if cell.cell_type == "code"]
    found = {mark: next(source for source in cells if mark in source) for mark in CELLS}
    found["def loss(model, batch):"] = found["def loss(model, batch):"].split("\n\n\npile")[0]
    return found


def digest():
    """Of all cells together; another one if a letter has changed."""
    return hashlib.sha256("\n".join(sources().values()).encode()).hexdigest()[:12]


def chapter(seed=0):
    """The names that the cells define, with this seed in the place of 0."""
    names = dict(GIVEN)
    for source in sources().values():
        exec(source.replace("manual_seed(0)", f"manual_seed({seed})"), names)
    return names


def one_matrix(*ends):
    """A change: matrices whose names end so are drawn with a standard deviation of 1."""

    def change(model):
        for name, p in model.named_parameters():
            if name.endswith(ends):
                nn.init.normal_(p)

    return change


def processor():
    """What it ran on."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.is_file() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{(names or [platform.processor()])[0]}, {torch.get_num_threads()} of {os.cpu_count()} cores"


def main():
    torch.set_default_dtype(torch.float64)
    names = chapter()
    log = {
        "cells": digest(),
        "seeds": SEEDS,
        "versions": {"torch": version("torch")},
        "hardware": processor(),
    }

    def large(model):
        names["no_factor"](model)
        for embed in model.source_embed, model.target_embed:
            nn.init.normal_(embed[0].weight)

    def both(change):
        runs = [names["learn"](change, seed) for seed in SEEDS]
        return [[losses[0].item(), losses[-1].item()] for losses in runs]

    log["dates"], log["roots"] = [], []
    for seed in SEEDS:
        for kind in ("dates", "roots"):
            other = chapter(seed)
            if kind == "roots":
                other["rate"] = lambda step, n_steps: 0.5 * 64**-0.5 * min(step**-0.5, step * 100**-1.5)
            model = other["make"](EncoderDecoder)
            other["fit"](model, batches(other["encoded"], 64, seed=seed), 500)
            texts, goals = zip(*((pair.source, pair.target) for pair in other["test_set"]), strict=True)
            log[kind].append(exact_match(other["write_all"](model, texts), goals))
            print(kind, seed, log[kind][-1], flush=True)
    ours = both(names["ours"])
    log["changes"] = {
        "ours": ours,
        "generator": both(one_matrix("generator.proj.weight")),
        "outer x": both(names["outer_x"]),
        "no factor": both(names["no_factor"]),
        "W_q and W_k": both(one_matrix("W_q.weight", "W_k.weight")),
    }
    print(log["changes"], flush=True)
    begins = {"torch's": "torchs", "deviation 1": "ones", "zeros": "zeros"}
    log["begins"] = {"ours": ours, **{name: both(names[change]) for name, change in begins.items()}}
    log["large"] = [last for _, last in both(large)]
    print(log["begins"], flush=True)
    joints = {name: change for name, change in names["JOINTS"].items() if "q from the memory" not in name}
    log["joints"] = {name: [last for _, last in both(change)] for name, change in joints.items()}
    LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
    print(json.dumps(log, indent=1))


if __name__ == "__main__":
    main()
