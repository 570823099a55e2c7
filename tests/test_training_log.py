"""The committed log behind chapter 12: it belongs to its script, and carries what the chapter says."""

import json
from pathlib import Path

import pytest
import torch

from heed.text import BOS, EOS

SCRIPT = Path(__file__).parents[1] / "assets" / "12_training" / "training.py"


@pytest.fixture(autouse=True)
def double():
    """The script's models are made in float64."""
    torch.set_default_dtype(torch.float64)


def shares(log, part, **options):
    """The lists right, seed by seed, in the line with exactly these options."""
    known = {
        "right",
        "known",
        "sure",
        "digits",
        "sure_wrong",
        "gap",
        "loss",
        "positions",
        "padding",
        "seconds",
    }
    [line] = [e for e in log[part] if {k: v for k, v in e.items() if k not in known} == options]
    return line["right"]


def test_every_part_has_its_lines_and_seeds(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    for part, jobs in script.JOBS.items():
        lines = [{k: v for k, v in line.items() if k not in script.FOUND} for line in log[part]]
        assert lines == json.loads(json.dumps(jobs))
        assert all(len(line[key]) == len(script.SEEDS) for line in log[part] for key in script.FOUND)


def test_without_the_shift_the_loss_is_nothing_and_so_is_the_number(log):
    [line] = log["shift"]
    assert max(line["loss"]) < 0.001 and max(line["right"]) == 0


def test_warm_up_decides_and_the_way_down_helps(log):
    post = {e["schedule"]: e["right"] for e in log["rates"] if e["norm"] == "post"}
    pre = {e["schedule"]: e["right"] for e in log["rates"] if e["norm"] == "pre"}
    assert max(post["constant"] + post["fall"]) < 0.005
    assert [round(x, 2) for x in (min(post["rise"]), max(post["rise"]))] == [0.06, 0.18]
    assert [round(x, 2) for x in (min(post["root"]), max(post["root"]))] == [0.44, 0.60]
    assert [round(x, 2) for x in (min(post["line"]), max(post["line"]))] == [0.61, 0.91]
    assert [round(x, 2) for x in (min(pre["constant"]), max(pre["fall"]))] == [0.03, 0.22]
    assert [round(x, 2) for x in (min(pre["line"]), max(pre["line"]))] == [0.90, 0.93]


def test_neither_time_nor_clipping_nor_other_betas_replace_the_warm_up(log):
    for line in log["variants"]:
        assert "w" in line or max(line["right"]) == 0
    short = {line["w"]: line["right"] for line in log["variants"] if "w" in line}
    assert min(short[20]) > 0.48 and max(short[10]) > 0.6 and min(short[10]) < 0.1 and max(short[5]) < 0.1


def test_sorted_lists_fail_and_parts_do_not(log):
    cut = shares(log, "batches", kind="cut")
    assert min(cut + shares(log, "batches", kind="padded", size=56)) > 0.96
    assert max(shares(log, "batches", kind="all sorted")) < 0.27
    assert 0.39 < min(shares(log, "batches", kind="all sorted", peak=0.008)) < 0.52
    assert 0.55 < min(shares(log, "batches", kind="all sorted", n=1600)) < 0.77
    four = shares(log, "batches", kind="all sorted", budget=100, together=4)
    assert 0.62 < min(four) and max(four) < 0.91
    assert [round(x, 2) for x in sorted(shares(log, "batches", kind="cut", own=True))] == [0.87, 0.95, 0.98]
    cost = {(e["kind"], e.get("size"), e.get("budget"), e.get("own")): e["positions"] for e in log["batches"]}
    assert round(cost["padded", None, None, None][0], -3) == 315_000
    assert round(cost["cut", None, None, None][0], -3) == 316_000
    assert round(cost["padded", 56, None, None][0], -3) == 558_000


def test_smoothing_lowers_certainty_and_not_the_number(script, log):
    lines = {(e["lists"], e["smoothing"]): e for e in log["smoothing"]}
    few, doubting = lines[300, 0.0], lines[300, 0.1]
    assert min(few["known"] + doubting["known"]) == 1.0
    assert 0.1 < min(few["right"] + doubting["right"]) and max(few["right"] + doubting["right"]) < 0.28
    for sure, digits in zip(few["sure"], few["digits"], strict=True):
        assert sure > 0.92 and digits < 0.8
    for i in range(3):
        assert doubting["sure"][i] < 0.82 and doubting["gap"][i] < few["gap"][i] / 2
    assert all(0.89 < sure < 0.91 for sure in lines[script.KNOWN, 0.1]["sure"])
    assert min(lines[script.KNOWN, 0.1]["digits"]) > 0.99


def test_dropout_helps_with_few_lists_whatever_the_seed(log):
    without, with_it = (line["right"] for line in log["dropout"])
    assert all(b > a + 0.08 for a, b in zip(without, with_it, strict=True))
    assert [round(x, 2) for x in (min(without), max(without))] == [0.36, 0.58]
    assert [round(x, 2) for x in (min(with_it), max(with_it))] == [0.61, 0.66]
    assert min(known for line in log["dropout"] for known in line["known"]) > 0.99


def test_copying_and_writing_backwards_are_learnt(log):
    assert min(share for line in log["tasks"] for share in line["right"]) > 0.99


def test_the_lists_and_their_backwards(script):
    known, unseen = script.known_and_unseen()
    assert (len(known), len(unseen)) == (20_000, 500)
    source, target = known[0]
    assert target == [BOS, *source[::-1], EOS] and 3 <= len(source) <= 12
    assert not {tuple(source) for source, _ in known} & {tuple(source) for source, _ in unseen}


def test_parts_are_full_and_hold_every_pair_once(script):
    pairs = script.drawn(56, "some")
    parts = script.fill(pairs, 100)
    assert sorted(map(str, pairs)) == sorted(str(pair) for part in parts for pair in part)
    assert all(len(part) * max(len(target) for _, target in part) <= 100 for part in parts)


def test_a_run_starts_and_ends(script, monkeypatch):
    monkeypatch.setattr(script, "UNSEEN", 8)
    found = script.run(0, kind="cut", lists=60, n=2, dropout=0.1)
    assert set(found) == set(script.FOUND) and found["positions"] > 0
