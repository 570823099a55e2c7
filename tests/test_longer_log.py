"""The committed log behind section 2.4 belongs to the script beside it, and holds what the text says."""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "assets" / "02_sequence_to_sequence"
SCRIPT = FOLDER / "longer.py"


def shares(log, d_hidden, digits):
    """Exact match of the three seeds of one width, from the lowest to the highest."""
    runs = [run for run in log["runs"] if run["d_hidden"] == d_hidden]
    return sorted(run["by_digits"][digits] for run in runs)


def test_every_run_of_the_script_is_in_the_log_with_its_settings(script, log):
    assert [script.name_of(run) for run in log["runs"]] == script.RUNS
    settings = {name: value for name, value in script.lengths().SETTINGS.items() if name != "n_steps"}
    assert log["settings"] == settings and log["hardware"] == script.HARDWARE


def test_runs_that_the_other_log_has_too_differ_by_rounding_alone(log):
    earlier = json.loads((FOLDER / "lengths.json").read_text(encoding="utf-8"))["runs"]
    both = [
        (new, old)
        for new in log["runs"]
        for old in earlier
        if (old["model"], old["d_hidden"], old["seed"], 600)
        == ("plain", new["d_hidden"], new["seed"], new["n_steps"])
    ]
    assert len(both) == 2
    for new, old in both:
        assert new["n_parameters"] == old["n_parameters"]
        assert new["by_digits"] == pytest.approx(old["by_digits"], abs=0.021)


def test_the_text_quotes_the_medians_at_six_digits(log):
    earlier = json.loads((FOLDER / "lengths.json").read_text(encoding="utf-8"))
    earlier["runs"] = [run for run in earlier["runs"] if run["model"] == "plain"]
    medians = [shares(earlier, 128, "6")[1], shares(log, 128, "6")[1], shares(log, 256, "6")[1]]
    chapter = FOLDER.parents[1] / "chapters" / "02_sequence_to_sequence.ipynb"
    cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
    words = " ".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    plain, updates, wider = (round(100 * share) for share in medians)
    rises = f"from {plain} right in 100 to {updates} with more updates, and to {wider} with the wider state"
    assert rises in words


def test_up_to_five_digits_every_run_gets_more_than_85_in_100(log):
    assert min(shares(log, width, digits)[0] for width in (128, 256) for digits in "345") > 0.85


def test_a_short_training_is_measured(script, monkeypatch):
    other = script.lengths()
    other.SETTINGS |= {"n_train": 60, "n_test_per_digits": 5, "d_embed": 3, "batch": 7}
    monkeypatch.setattr(script, "lengths", lambda: other)
    monkeypatch.setattr(other.torch, "set_num_threads", lambda n: None)
    monkeypatch.setattr(other.torch, "set_default_dtype", lambda dtype: None)
    run = script.measure((5, 2, 0))
    assert run["n_steps"] == 2 and [*run["by_digits"]] == [3, 4, 5, 6]
    assert run["loss"] == pytest.approx(run["test_loss"], rel=0.5)
