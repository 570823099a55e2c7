"""What all corpora share: pairs, the three splits, and errors for what cannot be had."""

import hashlib
from typing import NamedTuple

SPLITS = ("train", "val", "test")


class Pair(NamedTuple):
    """A text, what it is to become, and the language of the source."""

    source: str
    target: str
    language: str


def split_of(key):
    """Say to which split a thing belongs: eight tenths to train, one tenth to val, one tenth to test.

    key: a string that names the thing, such as "1987-03-05"; equal keys always lie in the same split

    The choice depends on the key alone, and not on a seed or on Python's own hashes, which change from run to
    run: so no sample of the training set can ever meet the test set.
    """
    tenth = int.from_bytes(hashlib.sha256(key.encode()).digest()) % 10
    return SPLITS[max(0, tenth - 7)]


def check_request(n, split):
    """Raise a ValueError for a number of samples below zero, or a split that does not exist."""
    if n < 0:
        raise ValueError(f"a corpus has 0 samples or more, but {n=}")
    if split not in SPLITS:
        raise ValueError(f"{split=} is unknown: choose one of {', '.join(SPLITS)}")


def check_languages(languages, known):
    """Raise a ValueError for no language at all, or one that a corpus does not have."""
    unknown = [language for language in languages if language not in known]
    if unknown or not languages:
        wanted = f"no data for {', '.join(map(repr, unknown))}" if unknown else "no language was given"
        raise ValueError(f"{wanted}: choose some of {', '.join(known)}, as in languages=({known[0]!r},)")


def cut(names, split):
    """The names that belong to one split, where there are too few for chance: at least one for val and test.

    The names are put into an order that depends on each name alone; of these, one tenth each (at least one)
    is val and test.
    """
    ordered = sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())
    n_held_out = max(1, len(ordered) // 10)
    val, test = ordered[:n_held_out], ordered[n_held_out : 2 * n_held_out]
    return {"val": val, "test": test, "train": ordered[2 * n_held_out :]}[split]
