"""The log behind chapter 12's F5 and L2 belongs to its script, and carries what the chapter says."""

from pathlib import Path

import pytest
import torch

from heed.schedule import noam
from heed.text import BOS, EOS

FOLDER = Path(__file__).parents[1] / "assets" / "12_training"
SCRIPT = FOLDER / "warmup.py"


def exact(log, part="rates"):
    """(norm, schedule, peak to three digits) -> the shares of all seeds."""
    return {(e["norm"], e["schedule"], round(e["peak"], 3)): e["exact"] for e in log[part]}


def test_every_part_has_its_runs_and_seeds(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert (log["updates"], log["batch"], log["sizes"]) == (script.UPDATES, script.BATCH, script.SIZES)
    for part, jobs in script.JOBS.items():
        assert len(log[part]) == len(jobs)
        for entry, options in zip(log[part], jobs, strict=True):
            given = {key: entry[key] for key in options}
            assert given == {key: list(v) if isinstance(v, tuple) else v for key, v in options.items()}
            assert len(entry["exact"]) == len(entry["loss"]) == len(script.SEEDS)


def test_the_highest_peak_is_the_papers_for_this_width_and_warmup(script):
    assert script.PEAK == max(noam(step, 32, 100) for step in range(1, 400)) == max(script.PEAKS)
    assert round(script.PEAK, 4) == 0.0177


def test_what_the_chapter_says_of_rates_and_schedules(log):
    found = exact(log)
    low = {key: min(shares) for key, shares in found.items()}
    assert max(found["post", "constant", 0.018] + found["post", "decay", 0.018]) == 0
    for norm in ("post", "pre"):
        assert low[norm, "line", 0.018] == 1.0 and low[norm, "line", 0.006] > 0.99
        assert 0.9 < low[norm, "root", 0.018] and max(found[norm, "root", 0.018]) < 0.99
    assert min(low["post", "decay", 0.006], low["pre", "decay", 0.006]) > 0.97
    assert low["post", "constant", 0.002] > 0.9
    assert 0.6 < low["pre", "constant", 0.018] and 0.6 < low["pre", "decay", 0.018] < 0.9
    assert max(found["post", "line", 0.002]) < min(found["post", "constant", 0.002])
    warm = found["post", "warm-up", 0.018]
    assert 0.44 <= min(warm) and max(warm) < 0.64


def test_a_higher_rate_needs_fewer_updates(log):
    fast, slow, small = (entry["exact"] for entry in log["short"])
    assert all(a > b > c for a, b, c in zip(fast, slow, small, strict=True))
    assert 0.65 < min(fast) and max(fast) < 0.975 and min(slow) < 0.2 < 0.85 < max(slow) and max(small) < 0.4


def test_what_the_laboratory_says_of_the_variants(log):
    for entry in log["variants"]:
        if entry.get("w") == 10:
            assert min(entry["exact"]) < 0.1 and max(entry["exact"]) > 0.9
        else:
            assert max(entry["exact"]) == 0


def test_copying_takes_about_as_many_updates_as_reversing(log):
    for entry in log["tasks"]:
        if entry["n"] > 150:
            assert min(entry["exact"]) >= (0.998 if entry["n"] > 200 else 0.98)
    copy, reverse = (e["exact"] for e in log["tasks"] if e["n"] == 150)
    assert min(copy) < max(reverse) and min(reverse) < max(copy) and max(copy + reverse) < 0.98


@pytest.mark.parametrize(
    "schedule, shares",
    [
        ("constant", [1, 1, 1, 1]),
        ("decay", [1, 0.7, 0.5, 0.1]),
        ("warm-up", [0.25, 1, 1, 1]),
        ("root", [0.25, 1, 6**-0.5 * 2, 0.1**0.5 * 2]),
        ("line", [0.25, 1, 5 / 7, 1 / 7]),
    ],
)
def test_the_schedules_on_paper(script, schedule, shares):
    steps = [1, 4, 6, 10]
    found = [script.share(schedule, step, 10, 4) for step in steps]
    assert found == pytest.approx(shares)


def test_the_answers_are_the_digits_or_the_digits_reversed(script):
    for task in ("copy", "reverse"):
        batch = script.drawn(5, torch.Generator().manual_seed(0), task)
        answer = batch.source.flip(1) if task == "reverse" else batch.source
        assert torch.equal(batch.target[:, 1:-1], answer)
        assert (batch.target[:, 0] == BOS).all() and (batch.target[:, -1] == EOS).all()


def test_a_run_learns_a_little_at_once(script):
    loss, share = script.learn("pre", "line", 6e-3, seed=0, n=30, w=10)
    assert loss < 2.4 and 0 <= share <= 1
