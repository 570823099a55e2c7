"""The committed log of two more learning rates belongs to the script beside it, and is whole."""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "assets" / "02_sequence_to_sequence"
SCRIPT = FOLDER / "rates.py"


def medians(runs):
    """The median exact match of three seeds, for each number of digits."""
    return [sorted(run["by_digits"][digits] for run in runs)[1] for digits in "3456"]


def test_the_log_has_all_runs_and_the_settings_of_the_script(script, log):
    assert [(run["rate"], run["seed"]) for run in log["runs"]] == script.RUNS
    settings = {name: value for name, value in script.lengths().SETTINGS.items() if name != "rate"}
    assert log["settings"] == settings and log["hardware"] == script.HARDWARE


def test_half_and_twice_the_learning_rate_do_worse(script, log):
    earlier = json.loads((FOLDER / "lengths.json").read_text(encoding="utf-8"))["runs"]
    here = medians([run for run in earlier if (run["model"], run["d_hidden"]) == ("plain", 128)])
    for rate in {rate for rate, _ in script.RUNS}:
        there = medians([run for run in log["runs"] if run["rate"] == rate])
        assert all(a < b for a, b in zip(there, here, strict=True))


def test_a_short_training_is_measured(script, monkeypatch):
    other = script.lengths()
    other.SETTINGS |= {"n_train": 60, "n_test_per_digits": 5, "d_embed": 3, "batch": 7, "n_steps": 2}
    monkeypatch.setattr(script, "lengths", lambda: other)
    monkeypatch.setattr(other.torch, "set_num_threads", lambda n: None)
    monkeypatch.setattr(other.torch, "set_default_dtype", lambda dtype: None)
    run = script.measure(0.5, 0, d_hidden=5)
    assert run["rate"] == 0.5 and run["loss"] == pytest.approx(run["test_loss"], rel=0.9)
