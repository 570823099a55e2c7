"""The committed log of chapter 07's six bugs is of the cells of now, and says what the chapter says."""

from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "assets" / "07_masks" / "leaks.py"
AGAIN = "python assets/07_masks/leaks.py brings the log up to date"
LEAKS = (
    *("no causal mask", "the triangle reaches one too far", "0 after the softmax"),
    *("0 before the softmax", "softmax over the queries"),
)


def of(log, name, key):
    return [run[key] for run in log["runs"] if run["name"] == name]


def test_the_log_is_of_the_cells_of_now(script, log):
    assert log["cells"] == script.digest(), AGAIN
    assert log["seeds"] == script.SEEDS and log["hardware"] == script.HARDWARE


def test_every_bug_has_every_seed(script, log):
    for name in ("none", *LEAKS, "the token itself is hidden"):
        assert of(log, name, "seed") == script.SEEDS
    assert len(log["runs"]) == 7 * len(script.SEEDS)


@pytest.mark.parametrize("name", LEAKS)
def test_every_leak_lowers_the_loss_and_spoils_the_writing_in_every_seed(log, name):
    assert max(of(log, name, "loss")) < min(of(log, "none", "loss")) - 0.2
    assert max(of(log, name, "familiar")) < min(of(log, "none", "familiar")) - 0.05


def test_the_first_model_is_right_in_98_of_100(log):
    assert all(0.97 < share < 0.99 for share in of(log, "no causal mask", "right"))


def test_another_seed_reaches_the_cells(script):
    one, other = (script.chapter(seed)["trained"].__code__.co_consts for seed in (0, 1))
    assert one != other
