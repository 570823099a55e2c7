"""The committed log of chapter 07's six bugs is of the cells of now, and says what the chapter says."""

from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "assets" / "07_masks" / "leaks.py"
AGAIN = "python assets/07_masks/leaks.py brings the log up to date"
LEAKS = "no causal mask", "one too far", "0 after", "0 before", "over the queries"
BOUND = 0.885  # letters right for whoever knows the unseen lines, and sees only the past


def of(log, name, key):
    return [run[key] for run in log["runs"] if run["name"] == name]


def test_the_log_is_of_the_cells_of_now(script, log):
    assert log["cells"] == script.digest(), AGAIN
    assert log["seeds"] == script.SEEDS and log["hardware"] == script.HARDWARE


def test_every_bug_has_every_seed(script, log):
    for name in ("none", *LEAKS, "not itself"):
        assert of(log, name, "seed") == script.SEEDS
    assert len(log["runs"]) == 7 * len(script.SEEDS)


@pytest.mark.parametrize("name", LEAKS)
def test_every_leak_beats_the_bound_and_spoils_the_writing_in_every_seed(log, name):
    assert max(of(log, name, "loss")) < min(of(log, "none", "loss")) - 0.15
    assert min(of(log, name, "right")) > 0.94 > BOUND > max(of(log, "none", "right"))
    assert max(of(log, name, "lines")) < 0.06 < 0.7 < min(of(log, "none", "lines"))


def test_the_ranges_of_the_conditions(log):
    assert min(of(log, "no causal mask", "right")) > 0.998 and max(of(log, "no causal mask", "lines")) < 0.03
    for key, told in {
        "right": "0.83 to 0.84",
        "lines": "0.74 to 0.89",
        "alone": "0.76 to 0.89",
        "padded": "0.52 to 0.79",
    }.items():
        assert f"{min(of(log, 'none', key)):.2f} to {max(of(log, 'none', key)):.2f}" == told
    assert of(log, "none", "alone") == of(log, "none", "hidden")


def test_another_seed_trains_another_model(script):
    names = script.chapter()
    first = [names["Writer"](None).letter.weight for seed in (0, 1) if names["torch"].manual_seed(seed)]
    assert not first[0].equal(first[1])
