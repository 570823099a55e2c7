"""The committed log behind L5 of chapter 02 belongs to the script beside it, and is whole."""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "assets" / "02_sequence_to_sequence"
SCRIPT = FOLDER / "forms.py"


def test_the_log_has_three_seeds_all_forms_and_the_settings_of_dates(script, log):
    assert log["settings"] == script.settings() and log["hardware"] == script.HARDWARE
    assert [run["seed"] for run in log["runs"]] == [0, 1, 2]
    for run in log["runs"]:
        assert [*run["forms"]] == [*script.FORMS] == [*run["wrong"]]
        for form, share in run["forms"].items():
            n_wrong = round((1 - share) * log["settings"]["n_test"])
            assert len(run["wrong"][form]) == min(3, n_wrong)


def test_a_short_training_reads_every_form(script):
    small = {"n_train": 90, "n_test": 7, "d_embed": 3, "d_hidden": 5, "batch": 11, "n_steps": 2}
    run = script.measure(0, script.settings() | small)
    assert run["test_set"] == 0 and run["forms"] == dict.fromkeys(script.FORMS, 0)
    assert run["wrong"]["%Y-%m-%d"][0][0][4::3] == "--"
