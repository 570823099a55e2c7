"""What may stand in a recipe: for each section its keys, and for each key what it may hold.

A key without a default may be left out, and is None then. The keys of [model] are parameters of
`heed.transformer.make_model`; those of [training], but for the first three, of `heed.engine.fit`.
"""

import math
from typing import NamedTuple


class Key(NamedTuple):
    """What a key may hold, and what it is if a recipe leaves it out."""

    default: object
    wanted: str  # what the value must be, as a phrase …
    fits: object  # … and as a function: fits(value) -> bool


def is_number(value):
    """Whether this is a number that one can calculate with: TOML's true, inf and nan are none."""
    return type(value) is int or (type(value) is float and math.isfinite(value))


def count(default, least=1):
    """A whole number, `least` or more."""
    wanted = f"a whole number, {least} or more"
    return Key(default, wanted, lambda value: type(value) is int and value >= least)


def above_zero(default):
    """A number above 0."""
    return Key(default, "a number above 0", lambda value: is_number(value) and value > 0)


def share(default):
    """A number from 0 to below 1."""
    return Key(default, "a number from 0 to below 1", lambda value: is_number(value) and 0 <= value < 1)


def switch(default):
    """Yes or no."""
    return Key(default, "true or false", lambda value: type(value) is bool)


def one_of(default, *words):
    """The default or another one of these words."""
    words = (default, *words)
    return Key(default, " or ".join(f'"{word}"' for word in words), lambda value: value in words)


def corpus():
    """Sentences and their translations: the word multi30k, or the names of two files."""

    def fits(value):
        return value == "multi30k" or (
            type(value) is list and len(value) == 2 and all(type(name) is str for name in value)
        )

    return Key(None, '"multi30k" or two files of parallel lines, ["train.de", "train.en"]', fits)


def text():
    """Any string."""
    return Key(None, "a string", lambda value: type(value) is str)


SECTIONS = {
    "data": {
        "train": corpus(),
        "val": corpus(),
        "test": corpus(),
        "vocabulary": count(6000, 261),  # sub-words, one vocabulary for both languages
        "longest": count(256, 3),  # tokens; a longer sentence is left out of the training, and counted
    },
    "model": {
        "n_layers": count(6),
        "d_model": count(512),
        "d_ff": count(2048),
        "n_heads": count(8),
        "dropout": share(0.1),
        "norm": one_of("pre", "post"),  # where the norm of a sublayer stands; the paper's is "post"
    },
    "training": {
        "tokens": count(2500),  # target tokens in the batch of a step, padding included
        "smoothing": share(0.1),  # of the labels
        "validate": one_of("loss", "bleu"),
        "updates": count(None),
        "minutes": above_zero(None),  # of wall clock, from the command's first line on
        "patience": count(None),
        "optimizer": one_of("muon", "adamw"),
        "lr": above_zero(2e-3),
        "adamw_lr": above_zero(None),
        "weight_decay": share(0.0),
        "clip": above_zero(1.0),
        "schedule": one_of("trapezoid", "noam"),
        "warmup": share(0.05),
        "cooldown": share(None),
        "micro_batches": count(1),
        "precision": one_of("auto", "bf16", "fp32"),
        "sharded": switch(False),
        "seed": count(0, 0),
        "every": count(500),
        "log_every": count(10),
        "keep": count(0, 0),
    },
    "made": {"data": text(), "vocabulary": text()},  # fingerprints, written by the training and not by people
}

FORMER = {  # a key's name in earlier versions -> its name now
    "valid": "val",
    "optimiser": "optimizer",
    "rate": "lr",
    "rest_rate": "adamw_lr",
    "decay": "weight_decay",
    "parts": "micro_batches",
}
