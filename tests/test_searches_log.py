"""The committed log of chapter 13's searches belongs to its script, and carries what the chapter says."""

import hashlib
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from heed import recipe
from heed.data.multi30k import multi30k
from heed.decode import greedy
from heed.evaluate import bleu_of, sentence_counts

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "assets" / "13_decoding" / "searches.py"


def by_width(log, key, penalty):
    rows = {(entry["width"], entry["penalty"]): entry[key] for entry in log["beams"]}
    return [rows[width, penalty] for width in (1, 2, 4, 8, 16)]


def test_the_log_is_of_the_committed_model_and_whole(script, log):
    model = (script.COMMITTED / "model.safetensors").read_bytes()
    assert log["model"] == hashlib.sha256(model).hexdigest()
    assert log["captions"] == {"val": 1014, "test": 1000}
    assert log["hardware"] == script.HARDWARE and log["seeds"] == list(script.SEEDS)
    jobs = [*((w, a) for a in script.PENALTIES for w in script.WIDTHS), *script.OTHERS]
    assert [(entry["width"], entry["penalty"]) for entry in log["beams"]] == jobs
    assert [entry["how"] for entry in log["samples"]] == [*script.DRAWS]
    assert all(len(entry["bleu"]) == len(script.SEEDS) for entry in log["samples"])
    assert {name: np.array(rows).shape for name, rows in log["counts"].items()} == {
        "greedy": (1000, 10), "bare": (1000, 10), "beam": (1000, 10),
    }  # fmt: skip


def test_without_a_penalty_a_wider_beam_writes_shorter_and_more_probable(log):
    assert all(a > b for a, b in pairwise(by_width(log, "tokens", 0.0)))
    assert all(a < b for a, b in pairwise(by_width(log, "log_p", 0.0)))
    bleu = by_width(log, "bleu", 0.0)
    assert max(bleu) > bleu[0] + 0.3 and max(bleu) > bleu[-1] + 0.3


def test_what_the_text_says_in_words(log):
    assert 0.5 < log["errors"]["more probable"] < 0.6  # about half
    assert 1 / 8 < log["empty"]["more probable"] < 1 / 6  # one in seven
    assert log["paired"]["p"] < 0.01 and log["paired"]["low"] > 0
    assert 0.04 < log["rounded"] < 0.09


def test_more_probable_is_not_what_people_write(log):
    assert all(entry["log_p"] < -20 for entry in log["human"].values())
    assert log["human"]["val"]["tokens"] == log["reference tokens"]
    test = log["test"]
    order = [test["greedy"]["log_p"], log["drawn"]["log_p"], test["beam"]["log_p"], test["bare"]["log_p"]]
    assert order == sorted(order)
    assert abs(log["drawn"]["bleu"] - test["greedy"]["bleu"][0]) < 0.3  # more probable, and no better


def test_the_gains_have_their_intervals(log, script):
    jobs = [(width, penalty) for width in script.GAINS for penalty in script.PENALTIES]
    assert [(entry["width"], entry["penalty"]) for entry in log["gains"]] == jobs
    beams = {(entry["width"], entry["penalty"]): entry["bleu"] for entry in log["beams"]}
    for entry in log["gains"]:
        gain, low, high = entry["gain"]
        assert low < gain < high
        measured = beams[entry["width"], entry["penalty"]] - beams[1, 0.0]
        assert math.isclose(gain, measured, abs_tol=0.15)  # float32, another run


def test_a_beam_of_one_is_greedy_whatever_the_penalty(log):
    one = [entry for entry in log["beams"] if entry["width"] == 1]
    assert len({(entry["bleu"], entry["tokens"], entry["log_p"]) for entry in one}) == 1


def test_the_counts_give_the_bleu_of_the_test_captions(log):
    for name, rows in log["counts"].items():
        rows = np.array(rows)
        value, low, high, signature = log["test"][name]["bleu"]
        assert math.isclose(bleu_of(rows.sum(0)), value, abs_tol=0.006)
        assert low < value < high and "tok:13a" in signature
        assert (rows[:, :4] <= rows[:, 4:8]).all() and (rows[:, 4] == rows[:, 8]).all()
    human = [np.array(rows)[:, 9] for rows in log["counts"].values()]
    assert all((words == human[0]).all() for words in human)


def test_the_greedy_counts_are_those_of_the_model(log, script):
    """A few captions again: all of them take long. One of them may differ by rounding."""
    try:
        pairs = multi30k("test")[:20]
    except ValueError:
        pytest.skip("Multi30k is not at hand")
    translator = recipe.load_translator(script.COMMITTED)
    said = translator.translate([pair.source for pair in pairs], greedy)
    counts = sentence_counts(said, [pair.target for pair in pairs]).tolist()
    equal = sum(a == b for a, b in zip(counts, log["counts"]["greedy"][:20], strict=True))
    assert equal >= 18
