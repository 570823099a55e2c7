"""The committed log behind the solution of exercise 2.8 belongs to the script beside it, and is whole."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "assets" / "02_sequence_to_sequence"
SCRIPT = FOLDER / "backwards.py"


def test_the_log_has_three_seeds_and_the_settings_of_the_script(script, log):
    assert log["settings"] == script.lengths().SETTINGS and log["hardware"] == script.HARDWARE
    assert [run["seed"] for run in log["runs"]] == [*script.SEEDS]
    assert all((run["model"], run["d_hidden"]) == ("plain", 128) for run in log["runs"])


def test_sources_are_reversed_and_targets_are_not(script):
    backwards = script.lengths()
    pairs, _, source, target = backwards.task(6)
    text, ids = pairs[0], backwards.encoded(pairs[:1], source, target)[0]
    assert source.decode(ids[0]) == text.source[::-1]
    assert target.decode(ids[1]) == backwards.words(text.target)


def test_a_short_training_is_measured(script, monkeypatch):
    other = script.lengths()
    other.SETTINGS |= {"n_train": 60, "n_test_per_digits": 5, "d_embed": 3, "batch": 7, "n_steps": 2}
    monkeypatch.setattr(other.torch, "set_num_threads", lambda n: None)
    monkeypatch.setattr(other.torch, "set_default_dtype", lambda dtype: None)
    run = other.measure(("plain", 5, 6, 0))
    assert [*run["by_digits"]] == [3, 4, 5, 6] and run["loss"] == pytest.approx(run["test_loss"], rel=0.5)
