"""The committed log behind section 2.3 belongs to the script beside it, and is whole."""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "assets" / "02_sequence_to_sequence"
SCRIPT = FOLDER / "dates.py"


def test_the_log_has_three_seeds_and_the_settings_of_the_script(script, log):
    assert log["settings"] == script.SETTINGS and log["hardware"] == script.HARDWARE
    assert [run["seed"] for run in log["runs"]] == [0, 1, 2]
    for run in log["runs"]:
        assert run["step"] == list(range(0, script.SETTINGS["n_steps"] + 1, 100))
        assert len(run["loss"]) == len(run["tokens"]) == len(run["dates"]) == len(run["step"])
        assert all(whole <= token for whole, token in zip(run["dates"], run["tokens"], strict=True))


def test_a_short_training_is_looked_at_before_and_after(script, monkeypatch):
    small = {"n_train": 90, "n_test": 7, "d_embed": 3, "d_hidden": 5, "batch": 11, "n_steps": 2}
    for name, value in small.items():
        monkeypatch.setitem(script.SETTINGS, name, value)
    run = script.measure(seed=0)
    assert run["step"] == [0, 2] and len(run["dates"]) == 2 and run["loss"][1] < run["loss"][0]
