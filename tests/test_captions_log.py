"""The committed lengths of captions belong to their script, and to Multi30k where it is at hand."""

import os
from pathlib import Path

import pytest

from heed.data import Pair, multi30k

FOLDER = Path(__file__).parents[1] / "assets" / "12_training"
SCRIPT = FOLDER / "lengths.py"


def test_the_counts_are_those_of_29000_pairs(log):
    assert sum(n for *_, n in log["lengths"]) == log["pairs"] == 29000
    assert all(source >= 1 and target >= 3 and n >= 1 for source, target, n in log["lengths"])
    assert log["lengths"] == sorted(log["lengths"])


def test_the_script_counts_words_and_two_more_on_the_right(script):
    texts = ("ein Hund", "a dog"), ("zwei Hunde", "two dogs"), ("ja", "oh yes")
    pairs = [Pair(*both, "de") for both in texts]
    assert script.counted(pairs) == [[1, 4, 1], [2, 4, 2]]


@pytest.mark.skipif("HEED_DATA" not in os.environ, reason="HEED_DATA does not name a folder with Multi30k")
def test_the_counts_are_those_of_the_corpus(script, log):
    assert script.counted(multi30k("train")) == log["lengths"]
