"""The committed log of the planted bugs belongs to its script and to the bugs of now, and is what it says."""

from collections import Counter
from pathlib import Path

import pytest
from mutants import table

FOLDER = Path(__file__).parents[1] / "assets" / "12_training"
SCRIPT = FOLDER / "bugs.py"
AGAIN = "python assets/12_training/bugs.py brings the log up to date"


def test_the_log_holds_every_bug_of_now_in_the_order_of_the_table(script, log):
    there = [(*script.change(bug), bug["test"]) for bug in log["bugs"]]
    assert there == [(*script.change(bug), bug["test"]) for bug in script.taking_part()], AGAIN
    assert len({bug["why"] for bug in log["bugs"]}) == len(there)  # --only names a bug by its why


def test_every_module_that_a_training_goes_through_has_bugs(script):
    for name in script.MODULES:
        assert any(bug["at"].startswith(name) for bug in table()), name


def test_the_log_has_the_settings_of_the_script(script, log):
    assert log["settings"] == script.SETTINGS and log["hardware"] == script.HARDWARE, AGAIN
    assert [run["seed"] for run in log["healthy"]] == script.SETTINGS["seeds"]
    assert {"python", "torch"} == log["versions"].keys()


def test_what_is_said_of_a_bug_follows_from_its_run(script, log):
    for bug in log["bugs"]:
        assert bug | script.judged(bug, log["healthy"]) == bug, bug["why"]
        if bug["error"] is None:
            assert len(bug["curve"]) == 12 and 0 <= bug["greedy"] <= 1 and 0 <= bug["beam"] <= 1


def test_the_healthy_library_learns_the_task_with_every_seed(script, log):
    for run in log["healthy"]:
        others = [other for other in log["healthy"] if other is not run]
        assert run["error"] is None and min(run["greedy"], run["beam"]) > 0.95
        assert script.verdict(run, others) == "misses it" and not script.answers_show_it(run, others)


def test_the_curve_misses_ten_bugs_that_leave_a_trace(log):
    missed = [bug for bug in log["bugs"] if bug["verdict"] == "misses it" and bug["differs"]]
    assert len(missed) >= 10


def made(curve=(), final=1.0, error=None, greedy=1.0, beam=1.0):
    """A run with a curve of twelve ones, some of them replaced: {place: value}."""
    return {
        "curve": [dict(curve).get(i, 1.0) for i in range(12)],
        "final": final,
        "error": error,
        "greedy": greedy,
        "beam": beam,
    }


HEALTHY = [made(final=0.9), made(final=1.1)]  # widened: from 0.8 to 1.2; each point from 0.95 to 1.05


@pytest.mark.parametrize(
    "run, says",
    [
        (made(), "misses it"),
        (made(final=0.81), "misses it"),
        (made(final=1.21), "shows it"),
        (made(final=float("nan")), "shows it"),
        (made(final=0.79), "looks better than healthy"),
        (made({0: 9, 1: 9}), "misses it"),
        (made({0: 9, 1: 9, 2: 9}), "shows it"),
        (made({0: 0.94, 5: 0.94, 11: 0.94}), "looks better than healthy"),
        (made({0: 9, 1: 9, 2: 9}, final=0.79), "looks better than healthy"),
        (made({0: 9, 1: 9, 10: 0, 11: 0}), "misses it"),
        (made(error="ValueError: no"), "stops with an error"),
        ({"curve": [], "final": None, "error": "KeyError: 1"}, "stops with an error"),
    ],
)
def test_what_a_curve_says(script, run, says):
    assert script.verdict(run, HEALTHY) == says


def test_what_the_answers_say(script):
    assert script.answers_show_it(made(greedy=0.94), HEALTHY) is True
    assert script.answers_show_it(made(beam=0.0), HEALTHY) is True
    assert script.answers_show_it(made(greedy=0.96, beam=0.96), HEALTHY) is False
    assert script.answers_show_it({"error": "KeyError: 1"}, HEALTHY) is None


def test_pieces_are_as_equal_as_can_be(script):
    assert script.pieces([1, 2, 3, 4, 5], 2) == [1.5, 4.0]
    assert script.pieces([1, 2, 3], 3) == [1.0, 2.0, 3.0]
    assert script.pieces([1, 2], 3) == []


def test_held_out_sequences_are_new_and_every_answer_is_the_sequence_reversed(script):
    learned, held_out = script.sequences()
    assert (len(learned), len(held_out)) == (script.SETTINGS["n_train"], script.SETTINGS["n_held_out"])
    assert not {tuple(source) for source, _ in learned} & {tuple(source) for source, _ in held_out}
    for source, target in learned + held_out:
        assert target[1:-1] == source[::-1] and set(source).isdisjoint({target[0], target[-1]})
    low, high = script.SETTINGS["lengths"]
    lengths = Counter(len(source) for source, _ in held_out)
    assert [*sorted(lengths)] == [*range(low, high + 1)] and min(lengths.values()) >= 10


def test_the_table_has_a_line_for_every_run_and_one_for_every_verdict(script, log):
    lines = [*script.rows(log)]
    assert len(lines) == 1 + len(log["healthy"]) + len(log["bugs"]) + len(script.VERDICTS) + 1
    assert lines[-1] == f"runs still to be made: {len(script.taking_part()) - len(log['bugs'])}"


def test_a_short_training_is_cut_off_and_goes_on(script, tmp_path, monkeypatch):
    small = {"updates": 4, "every": 2, "cut_off_after": 3, "tokens": 100, "n_train": 20, "n_held_out": 5}
    for name, value in small.items():
        monkeypatch.setitem(script.SETTINGS, name, value)
    monkeypatch.setitem(script.SETTINGS, "model", script.SETTINGS["model"] | {"n_layers": 1})
    run = script.measure(0, tmp_path / "cut")
    monkeypatch.setitem(script.SETTINGS, "cut_off_after", 5)
    assert script.measure(0, tmp_path / "whole") == run
    assert [len(script.logged(tmp_path / name, "loss")) for name in ("cut", "none")] == [1, 0]
