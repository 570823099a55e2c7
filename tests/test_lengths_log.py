"""The committed log behind chapters 02 and 03 belongs to the script beside it, and is whole."""

from pathlib import Path

import pytest

from heed.data import numbers

FOLDER = Path(__file__).parents[1] / "assets" / "02_sequence_to_sequence"
SCRIPT = FOLDER / "lengths.py"


def test_every_run_of_the_script_is_in_the_log_with_its_settings(script, log):
    assert [script.name_of(run) for run in log["runs"]] == script.RUNS
    assert log["settings"] == script.SETTINGS


def test_groups_count_all_test_numbers_and_agree_with_each_other(script, log):
    for run in log["runs"]:
        n = script.SETTINGS["n_test_per_digits"]
        assert list(run["by_digits"]) == [str(k) for k in range(3, run["most_digits"] + 1)]
        assert sum(run["n_by_length"].values()) == n * len(run["by_digits"])
        by_length = sum(run["by_length"][key] * count for key, count in run["n_by_length"].items())
        assert by_length / sum(run["n_by_length"].values()) == pytest.approx(run["exact_match"], abs=1e-3)
        by_digits = sum(run["by_digits"].values()) / len(run["by_digits"])
        assert by_digits == pytest.approx(run["exact_match"], abs=1e-3)


def test_no_counted_number_was_trained_on(script):
    _, tests, _, _ = script.task(6)
    trained = {pair.source for pair in numbers(20000, "train", digits=(3, 6), languages=["de"])}
    assert not trained & {pair.source for pairs in tests.values() for pair in pairs}


def test_words_come_apart_at_signs(script):
    assert script.words("two thousand, twenty-three") == ["two", "thousand", ",", "twenty", "-", "three"]
