"""What may stand in a recipe: for each section its keys, and for each key what it may hold and what it means.

A key without a default may be left out, and is None then. The keys of [model] are parameters of
`heed.transformer.make_model`; those of [training], but for the first three, of `heed.engine.fit`. `reference`
is what `python -m heed keys` prints, and the page of the HTML edition.
"""

import json
import math
from typing import NamedTuple


class Key(NamedTuple):
    """What a key may hold, what it is if a recipe leaves it out, and what it is for."""

    default: object
    wanted: str  # what the value must be, as a phrase …
    fits: object  # … and as a function: fits(value) -> bool
    meaning: str = ""
    free: bool = False  # whether a training that is resumed may have another value


def is_number(value):
    """Whether this is a number that one can calculate with: TOML's true, inf and nan are none."""
    return type(value) is int or (type(value) is float and math.isfinite(value))


def is_too_large(value):
    """Whether this number would not fit where it goes: 62 bits if it is whole, a float32 if it is not."""
    return (type(value) is int and abs(value) >= 2**62) or (is_number(value) and abs(value) >= 1e30)


def count(default, meaning, least=1, most=math.inf):
    """A whole number, `least` or more, and at most `most`."""
    wanted = f"a whole number, {least} or more" + (f", at most {most:,}" if most < math.inf else "")
    return Key(default, wanted, lambda value: type(value) is int and least <= value <= most, meaning)


def above_zero(default, meaning):
    """A number above 0."""
    return Key(default, "a number above 0", lambda value: is_number(value) and value > 0, meaning)


def share(default, meaning):
    """A number from 0 to below 1."""
    wanted = "a number from 0 to below 1"
    return Key(default, wanted, lambda value: is_number(value) and 0 <= value < 1, meaning)


def switch(default, meaning):
    """Yes or no."""
    return Key(default, "true or false", lambda value: type(value) is bool, meaning)


def one_of(words, meaning):
    """One of these words; the first is the default."""
    wanted = " or ".join(f'"{word}"' for word in words)
    return Key(words[0], wanted, lambda value: value in words, meaning)


def corpus(meaning):
    """Sentences and their translations: the word multi30k, or the names of two files."""

    def fits(value):
        return value == "multi30k" or (
            type(value) is list and len(value) == 2 and all(type(name) is str for name in value)
        )

    return Key(None, '"multi30k" or two files of parallel lines, ["train.de", "train.en"]', fits, meaning)


def text(meaning):
    """Any string."""
    return Key(None, "a string", lambda value: type(value) is str, meaning)


def free(key):
    """The key, whose value may be another one when a training is resumed."""
    return key._replace(free=True)


SECTIONS = {
    "data": {
        "train": corpus("sentences to learn from"),
        "val": corpus("sentences to validate with while it trains; without them nothing is validated"),
        "test": free(corpus("sentences that `evaluate` translates and scores")),
        "vocabulary": count(6000, "sub-words, one vocabulary for both languages", least=261),
        "longest": count(256, "tokens; a longer sentence is left out of the training, and counted", least=3),
    },
    "model": {
        "n_layers": count(6, "layers of the encoder, and as many of the decoder", most=10_000),
        "d_model": count(512, "width of a token's vector: even, and divisible by n_heads", most=2**20),
        "d_ff": count(2048, "width inside a feed-forward layer", most=2**24),
        "n_heads": count(8, "heads of each attention", most=2**20),
        "dropout": share(0.1, "probability with which an entry is dropped while it trains"),
        "norm": one_of(("pre", "post"), "where the norm of a sublayer stands; the paper's is post"),
    },
    "training": {
        "tokens": count(2500, "target tokens in the batch of an update, padding included"),
        "smoothing": share(0.1, "share of the label's probability that is shared by all tokens"),
        "validate": one_of(("loss", "bleu"), "what is measured on the sentences of [data] val"),
        "updates": free(count(None, "it ends after so many updates of the weights")),
        "minutes": free(above_zero(None, "it ends after so many minutes, from the command's first line on")),
        "patience": free(count(None, "it ends after so many validations in a row without a new best one")),
        "optimizer": one_of(("muon", "adamw"), "muon is for hidden matrices, with AdamW for the rest"),
        "lr": above_zero(2e-3, "the highest learning rate"),
        "adamw_lr": above_zero(None, "AdamW's highest learning rate beside Muon; else lr"),
        "weight_decay": share(0.0, "decoupled weight decay, of matrices"),
        "clip": above_zero(1.0, "the largest norm of the gradient; a larger one is scaled down"),
        "schedule": one_of(("trapezoid", "noam"), "how the learning rate rises and falls"),
        "warmup": share(0.05, "share of the run in which the learning rate rises"),
        "cooldown": share(None, "share in which it falls to zero; else all that is left after the warm-up"),
        "micro_batches": free(count(1, "an update's batch is computed in so many parts, to save memory")),
        "precision": one_of(("auto", "bf16", "fp32"), "auto: bfloat16 where it is measured to be faster"),
        "sharded": free(switch(False, "with many processes: whether the parameters are shared out (FSDP)")),
        "seed": count(0, "of the first weights, the batches and dropout", least=0),
        "every": count(500, "updates between two validations, snapshots and checkpoints"),
        "checkpoint_minutes": free(above_zero(10, "a checkpoint after so many minutes as well")),
        "log_every": free(count(10, "updates between two lines of log.jsonl")),
        "keep": count(0, "how many snapshots are kept, and averaged in the end; 0 for none", least=0),
    },
    "made": {
        "data": text("the sentences' fingerprint, written by the training and not by people"),
        "vocabulary": text("the sub-words' fingerprint, likewise"),
    },
}

FORMER = {  # a key's name in earlier versions -> its name now
    "valid": "val",
    "optimiser": "optimizer",
    "rate": "lr",
    "rest_rate": "adamw_lr",
    "decay": "weight_decay",
    "parts": "micro_batches",
}


def reference():
    """All keys, a tuple each: section, key, default as TOML, what it must be, its meaning, if it is free."""
    for section, keys in SECTIONS.items():
        for name, key in keys.items():
            default = "" if key.default is None else json.dumps(key.default)
            yield section, name, default, key.wanted, key.meaning, key.free
