"""The committed log behind section 9.6: it belongs to its script, and carries what the chapter says."""

from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "assets" / "09_position_encoding"
SCRIPT = FOLDER / "lengths.py"


@pytest.fixture(scope="module")
def tests_of(log):
    def find(task, way, part="short"):
        (entry,) = (e for e in log[part] if (e["task"], e["way"]) == (task, way))
        return torch.tensor(entry["test"])  # (seeds, windows of ten positions)

    return find


def test_every_way_has_its_tasks_settings_and_seeds(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert log["rates"] == list(script.RATES) and log["clips"] == list(script.CLIPS)
    for part in [part for part in script.UPDATES if part in log]:
        done = [(entry["task"], entry["way"]) for entry in log[part]]
        assert done == [(task, way) for task in script.TASKS for way in script.NAMES]
        for entry in log[part]:
            assert torch.tensor(entry["test"]).shape == (len(script.SEEDS), script.N_TEST // 10)
    for entry in log["short"]:
        tried = [(rate, clip) for rate, clip, _ in entry["tried"]]
        assert tried == script.settings(entry["way"])
        best = max(entry["tried"], key=lambda one: sum(one[2]))
        assert best == [entry["rate"], entry["clip"], entry["validation"]]
    for short, longer in zip(log["short"], log.get("longer", log["short"]), strict=True):
        assert (short["rate"], short["clip"]) == (longer["rate"], longer["clip"])


def test_the_parameters_are_those_of_the_models(script, log):
    assert list(log["parameters"]) == list(script.NAMES)
    for way, n in log["parameters"].items():
        assert n == sum(p.numel() for p in script.make(way, 8).parameters())
    plain = log["parameters"].pop("none")
    assert {way for way, n in log["parameters"].items() if n != plain} == {"learned", "relative bias"}


@pytest.mark.parametrize("part", ["short"])
def test_no_way_wins_both_tasks(script, tests_of, part):
    for task, winner in (("three back", "relative bias"), ("latest mark", "ALiBi")):
        others = [tests_of(task, way, part)[:, -1].max() for way in script.NAMES if way != winner]
        assert tests_of(task, winner, part)[:, -1].min() > max(others) + 0.1


@pytest.mark.parametrize("part", ["short"])
def test_learned_positions_guess_at_once_and_rope_later(tests_of, part):
    assert tests_of("three back", "learned", part)[:, 2:].max() < 0.2
    rope = tests_of("three back", "RoPE", part)
    assert rope[:, 2].min() > 0.9 and rope[:, -1].max() < 0.3


def test_a_run_learns_and_a_list_of_80_has_eight_windows(script):
    validation, test, _ = script.learn("RoPE", "three back", rate=8e-3, seed=0, updates=150)
    assert validation > 0.3 and len(test) == 8 and test[0] > 0.5


def test_a_window_counts_answers_only(script):
    class Right(torch.nn.Module):
        def forward(self, tokens):
            shifted = tokens.roll(3, dims=1)
            return torch.nn.functional.one_hot(shifted, 10).double()

    assert script.accuracies(Right(), "three back", 30, seed=0, n_lists=20) == [1.0, 1.0, 1.0]
    assert script.accuracies(Right(), "three back", 30, 0, 30, n_lists=20) == [1.0]
