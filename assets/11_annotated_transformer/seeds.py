"""What chapter 11's small experiments give with other seeds than the chapter's. Written to seeds.json.

    python assets/11_annotated_transformer/seeds.py

It runs the chapter's own cells, with another number where the seed stands. (About two minutes.)

- `cells`: a digest of these cells; another one says that the log is older than the chapter
- `squares`: section 11.2, the mean square of the numbers behind twelve fresh pre-norm layers, seeds 1 to 5
- `ends`: section 11.7, the loss after a short training, for each beginning and each seed
- `right`: section 11.8, the share of unseen dates that the Transformer writes exactly, seeds 1 and 2
"""

import hashlib
import json
import math
import random
from importlib.metadata import version
from pathlib import Path

import nbformat
import torch
from torch import nn
from torch.nn import functional as F

from heed.attention import MultiHeadAttention, padding_mask
from heed.data import batches, dates, pad
from heed.evaluate import exact_match
from heed.layers import PositionwiseFeedForward, SublayerConnection
from heed.text import BOS, PAD, Characters, Vocabulary
from heed.train import train
from heed.transformer import Encoder, EncoderDecoder, EncoderLayer, make_model

LOG = Path(__file__).with_suffix(".json")
CHAPTER = LOG.parents[2] / "chapters" / "11_annotated_transformer.ipynb"
CELLS = (  # what stands in each cell that is run, in the order of the chapter
    *("def sizes(", "def ours(", "rng = random.Random(0)", "def learn(", "def generator_one("),
    *("def no_factor(", "changes = {", 'languages = "de"', "class Pile(EncoderDecoder):", "def trained("),
)
THINGS = (
    *(math, random, torch, MultiHeadAttention, padding_mask, batches, dates, pad, train),
    *(Characters, Vocabulary, PositionwiseFeedForward, SublayerConnection),
    *(Encoder, EncoderDecoder, EncoderLayer, make_model),
)
GIVEN = {"nn": nn, "F": F, "BOS": BOS, "PAD": PAD, **{thing.__name__: thing for thing in THINGS}}



def sources():
    """The chapter's cells, by what stands in them; of several, the last. `changes` without its trainings."""
    cells = [cell.source for cell in nbformat.read(CHAPTER, 4).cells if cell.cell_type == "code"]
    found = {mark: [source for source in cells if mark in source][-1] for mark in CELLS}
    found["changes = {"] = found["changes = {"].split("changed = ")[0]
    return found


def digest():
    """Of all cells together; another one if a letter has changed."""
    return hashlib.sha256("\n".join(sources().values()).encode()).hexdigest()[:12]


def chapter(seed):
    """The names that the cells define, with this seed in the place of 0."""
    names = dict(GIVEN)
    for source in sources().values():
        source = source.replace("manual_seed(0)", f"manual_seed({seed})")
        exec(source.replace("seed=0", f"seed={seed}"), names)
    return names


def large_table(names):
    """A beginning: numbers of size 1 in the tables, and no factor."""

    def begin(model):
        names["no_factor"](model)
        for embed in (model.source_embed, model.target_embed):
            nn.init.normal_(embed[0].weight)

    return begin


def main():
    torch.set_default_dtype(torch.float64)
    names = chapter(0)
    begin = {"ours": names["ours"], **names["changes"]}
    log = {"cells": digest(), "versions": {"torch": version("torch")}}
    log["squares"] = {n: chapter(n)["sizes"](SublayerConnection)[0][-1] ** 2 for n in range(1, 6)}
    log["ends"] = {name: {n: names["learn"](begin[name], n)[1][-1].item() for n in (1, 2)} for name in begin}
    rows = {n: names["learn"](large_table(names), n)[1][-1].item() for n in (0, 1, 2)}
    log["ends"]["tables of size 1, no factor"] = rows
    log["right"] = {}
    for n in (1, 2):
        other = chapter(n)
        model, _ = other["trained"](EncoderDecoder, 300)
        texts, goals = zip(*((pair.source, pair.target) for pair in other["test_set"]), strict=True)
        log["right"][n] = exact_match(other["write_all"](model, texts), goals)
    LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
    print(json.dumps(log, indent=1))


if __name__ == "__main__":
    main()
