"""From a recipe's corpora to pairs of ids: sentences are read once, and everything else is made of these."""

import hashlib
import math
from array import array
from pathlib import Path
from typing import NamedTuple

from heed.data import multi30k
from heed.text import Subwords


class Corpus(NamedTuple):
    """The sentences that a recipe trains and validates with: pairs (source, target) of strings."""

    train: list
    val: list | None

    @classmethod
    def read(cls, recipe):
        """Read them. Raises ValueError as `sentences` does."""
        val = sentences(recipe, "val") if recipe["data"]["val"] else None
        return cls(sentences(recipe, "train"), val)

    @property
    def fingerprint(self):
        """What tells these sentences from all others."""
        return fingerprint(line for pair in [*self.train, *(self.val or [])] for line in pair)


def sentences(recipe, split):
    """The pairs of one split of a recipe's data: (source, target), strings without blanks around them.

    split: "train", "val" or "test"

    Raises ValueError if the recipe names no such corpus, and as `parallel` and `multi30k` do.
    """
    corpus = recipe["data"][split]
    if corpus is None:
        raise ValueError(f"The recipe names no sentences to {split} with: [data] {split} is missing.")
    if corpus == "multi30k":
        return [(source, target) for source, target, _ in multi30k(split)]
    return parallel(*corpus)


def parallel(source, target):
    """Two files of parallel lines as pairs: each line of the one is the translation of the other's.

    Raises ValueError for a file that is missing, empty or not UTF-8, for files of different length, and if
    no pair has words on both sides.
    """
    sources, targets = _lines(source), _lines(target)
    if len(sources) != len(targets):
        raise ValueError(
            f"{source} has {len(sources)} lines and {target} has {len(targets)}; parallel files have equally "
            "many. Look for a sentence that was broken in two, or a line that was lost."
        )
    pairs = list(zip(sources, targets, strict=True))
    if not any(a and b for a, b in pairs):
        raise ValueError(f"In {source} and {target} no pair has words on both sides.")
    return pairs


def _lines(path):
    """Only a line feed ends a line: str.splitlines would also split at rarer characters inside a sentence."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error.reason} at byte {error.start}.") from None
    if not text.strip():
        raise ValueError(f"{path} is empty: there is no sentence in it.")
    return [line.strip() for line in text.removesuffix("\n").split("\n")]


def learn_subwords(recipe, pairs):
    """The vocabulary that a recipe asks for: one for both languages, learnt from the training pairs."""
    return Subwords.learn([line for pair in pairs for line in pair], recipe["data"]["vocabulary"])


def encoded(pairs, subwords, longest=math.inf):
    """Pairs of sentences as pairs of ids, as batches want them: the target from BOS to EOS.

    Empty sentences, which teach nothing, and those of more than `longest` tokens are left out. The ids are
    arrays of four bytes each: as Python's own numbers a large corpus would not fit into memory.
    """
    texts = ((source, target) for source, target in pairs if source and target)
    ids = ((array("i", subwords.encode(s)), array("i", subwords.encode(t, True, True))) for s, t in texts)
    return [pair for pair in ids if max(map(len, pair)) <= longest]


def fingerprint(strings):
    """What tells one list of strings from every other: the SHA-256 of them all, in hexadecimal digits."""
    digest = hashlib.sha256()
    for string in strings:
        data = string.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
