"""What chapter 11's small trainings give with three seeds each. Written to seeds.json.

    python assets/11_annotated_transformer/seeds.py            everything, about ten minutes on one core
    python assets/11_annotated_transformer/seeds.py begins     some parts; the others stay as they are

It runs the chapter's own cells, with another number where the seed stands.

- `cells`: for each part a digest of what its cells do; another one says that the log is the older of the two
- `begins`: F5, the first and the last loss of each initialisation
- `joints`: laboratory L1, the loss after a hundred updates of each model with one wrong joint
- `longer`: the same after three hundred updates, for two of them
- `dates`: section 11.4, the share of unseen dates that the Transformer writes exactly
- `roots`: the same with the paper's schedule, whose rate falls with the root of the step
- `no mask`, `no positions`: the same without the causal mask, and without positions; two seeds
- `no network`: the same with feed-forward networks that return 0
- `no root`: the same without the factor √d before the positions
- `anagrams`: what it writes without positions for the first three of them, with the first seed
- `changes`: laboratory L4, the first and the last loss with one change of the weights
- `large`: laboratory L4, the last loss with large embedding matrices and no factor
"""

import ast
import hashlib
import json
import math
import os
import platform
import random
import re
import sys
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
    *('languages = "de"', "class Pile(EncoderDecoder):", "def loss(model, batch):", "def write_all("),
    *("def attend(", "def real(", "class Heads(nn.Module):", "class FeedForward(nn.Module):"),
    *("class Norm(nn.Module):", "class EncoderBlock(", "class DecoderBlock(", "def waves(", "class Embed("),
    *("class Transformer(nn.Module):", "def initial(", "def smoothed_loss(", "def learn("),
    *("BEGINS = {", "class NoPadding(", "def outer_x("),
)
DATES = 'languages = "de"', "def write_all(", "def smoothed_loss("
PAGE = ("def attend(", "def real(", "class Heads(nn.Module):", "class FeedForward(nn.Module):",
        "class Norm(nn.Module):", "class EncoderBlock(", "class DecoderBlock(", "def waves(", "class Embed(",
        "class Transformer(nn.Module):", "def initial(", "BEGINS = {")  # fmt: skip
WRONG = "class Pile(EncoderDecoder):", "class NoPadding(", "def outer_x("
WRITING = "dates", "roots", "no mask", "no positions", "no network", "no root", "anagrams"
UNUSED = {  # cells that a part does not need
    "begins": (*DATES, *WRONG),
    **dict.fromkeys(WRITING, (*WRONG, "def learn(", "BEGINS = {", "def loss(model, batch):")),
    **dict.fromkeys(("changes", "large", "joints", "longer"), (*DATES, *PAGE)),
}
THINGS = (
    *(math, random, torch, nn, MultiHeadAttention, causal_mask, padding_mask, batches, dates, pad),
    *(exact_match, DecoderLayer, SublayerConnection, Characters, Vocabulary, train),
    *(EncoderDecoder, make_model),
)
GIVEN = {"nn": nn, "F": F, "BOS": BOS, "PAD": PAD, **{thing.__name__: thing for thing in THINGS}}
SEEDS = 0, 1, 2


def sources():
    """The chapter's cells, by what stands in them; without the training of the pile."""
    cells = [cell.source for cell in nbformat.read(CHAPTER, 4).cells if cell.cell_type == "code"]
    found = {mark: next(source for source in cells if mark in source) for mark in CELLS}
    return found


def meant(mark, source):
    """A cell without comments and blank lines; of the page's own cells the functions and classes alone."""
    if mark in PAGE[:-1]:
        nodes = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        lines = source.split("\n")
        source = "\n".join("\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in nodes)
    lines = (re.sub(r"\s*#.*", "", line) for line in source.split("\n"))
    return "\n".join(line for line in lines if line.strip())


def digest(part):
    """Of the cells that a part runs; another one if what they do may have changed."""
    kept = (meant(mark, cell) for mark, cell in sources().items() if mark not in UNUSED.get(part, ()))
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:12]


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


def main(parts):
    torch.set_default_dtype(torch.float64)
    names, log = chapter(), json.loads(LOG.read_text(encoding="utf-8")) if parts else {"cells": {}}
    log |= {"seeds": SEEDS, "versions": {"torch": version("torch")}, "hardware": processor()}
    for name, part in PARTS.items():
        if not parts or name in parts:
            log["cells"][name], log[name] = digest(name), part(names)
            print(name, log[name], flush=True)
            LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


def dates_of(seed, **changes):
    """What the page's Transformer writes, trained with this seed, and what is right.

    changes: functions of the page that are exchanged, by name
    """
    names = chapter(seed)
    names.update(changes)
    torch.manual_seed(seed)
    sizes = len(names["sources"]), len(names["targets"]), 1, 64, 128, 4, 0.0
    model = names["initial"](names["Transformer"](*sizes))
    names["fit"](model, batches(names["encoded"], 64, seed=seed), 500)
    return names["write_all"](model, names["texts"]), names["goals"]


def written(seeds=SEEDS, **changes):
    """The share of unseen dates that it writes exactly, for each seed."""
    return [exact_match(*dates_of(seed, **changes)) for seed in seeds]


def bag(n, d, device=None):
    """No positions: in the place of `waves`."""
    return torch.zeros(n, d)


def unscaled(names):
    """Embeddings without the factor √d: in the place of `Embed`."""

    class Unscaled(names["Embed"]):
        def forward(self, ids):
            x = self.embedding(ids)
            return self.dropout(x + names["waves"](*x.shape[1:], ids.device))

    return Unscaled


class NoNetwork(nn.Module):
    """Returns 0: in the place of `FeedForward`."""

    def __init__(self, d_model, d_ff):
        super().__init__()

    def forward(self, x):
        return torch.zeros_like(x)


def root(step, n_steps):
    """The paper's schedule, with the same peak as the chapter's."""
    return 6e-3 * min(step / 100, (100 / step) ** 0.5)


def begins(names):
    """The first and the last loss of each initialisation of the page's Transformer."""
    found = {}
    for name, begin in names["BEGINS"].items():
        found[name] = []
        for seed in SEEDS:
            torch.manual_seed(seed)
            losses = names["learn"](begin(names["Transformer"](13, 13, 2, 32, 64, 4, 0.0)), seed)
            found[name].append([losses[0].item(), losses[-1].item()])
    return found


def library(names, change, n_steps=100):
    """The first and the last loss of the library's model with a change, for each seed."""
    found = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = make_model(13, 13, n_layers=2, d_model=32, d_ff=64, n_heads=4, dropout=0.0)
        change(model)
        losses = names["learn"](model, seed, n_steps)
        found.append([losses[0].item(), losses[-1].item()])
    return found


def changes(names):
    """Four changes of the weights, one at a time."""
    kinds = {
        "ours": lambda model: None,
        "generator": one_matrix("generator.proj.weight"),
        "outer x": names["outer_x"],
        "no factor": names["no_factor"],
        "W_q and W_k": one_matrix("W_q.weight", "W_k.weight"),
    }
    return {name: library(names, change) for name, change in kinds.items()}


def large(names):
    """Embedding matrices with entries of standard deviation 1, and no factor."""

    def change(model):
        names["no_factor"](model)
        for embed in model.source_embed, model.target_embed:
            nn.init.normal_(embed[0].weight)

    return [last for _, last in library(names, change)]


def joints(names):
    """The last loss with each wrong joint; one of them cannot be trained."""
    kinds = {name: change for name, change in names["JOINTS"].items() if "q from the memory" not in name}
    return {name: [last for _, last in library(names, change)] for name, change in kinds.items()}


def longer(names):
    """The last loss after three hundred updates, of the right model and without a causal mask."""
    kinds = "nothing", "no causal mask"
    return {name: [last for _, last in library(names, names["JOINTS"][name], 300)] for name in kinds}


PARTS = {
    "begins": begins,
    "longer": longer,
    "joints": joints,
    "changes": changes,
    "large": large,
    "dates": lambda names: written(),
    "roots": lambda names: written(rate=root),
    "no mask": lambda names: written((0, 1), past=lambda ids: torch.tensor(True)),
    "no positions": lambda names: written((0, 1), waves=bag),
    "no network": lambda names: written(FeedForward=NoNetwork),
    "no root": lambda names: written(Embed=unscaled(names)),
    "anagrams": lambda names: dates_of(0, waves=bag)[0][:3],
}

if __name__ == "__main__":
    main(sys.argv[1:])
