"""The committed log behind F4 of chapter 09: it belongs to its script, and carries what the chapter says."""

from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "assets" / "09_position_encoding"
SCRIPT = FOLDER / "lengths.py"


@pytest.fixture(scope="module")
def tests_of(log):
    def find(task, way):
        (entry,) = (e for e in log["runs"] if (e["task"], e["way"]) == (task, way))
        return torch.tensor(entry["test"])  # (seeds, windows of ten positions)

    return find


def test_every_way_has_its_tasks_settings_and_seeds(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert log["search seed"] == script.SEARCH_SEED not in script.SEEDS
    assert log["rates"] == list(script.RATES) and log["clips"] == list(script.CLIPS)
    done = [(entry["task"], entry["way"]) for entry in log["runs"]]
    assert done == [(task, way) for task in script.TASKS for way in script.NAMES]
    for entry in log["runs"]:
        assert torch.tensor(entry["test"]).shape == (len(script.SEEDS), script.N_TEST // 10)
        assert [(rate, clip) for rate, clip, _ in entry["tried"]] == script.settings(entry["way"])
        assert max(entry["tried"], key=lambda one: one[2])[:2] == [entry["rate"], entry["clip"]]


def test_the_parameters_are_those_of_the_models(script, log):
    assert list(log["parameters"]) == list(script.NAMES)
    for way, n in log["parameters"].items():
        assert n == sum(p.numel() for p in script.make(way, 8).parameters())
    plain = log["parameters"]["none"]
    assert {way for way, n in log["parameters"].items() if n != plain} == {"learned", "relative bias"}


def test_no_way_wins_both_tasks(script, tests_of):
    for task, winner in (("three back", "relative bias"), ("latest mark", "ALiBi")):
        others = [tests_of(task, way)[:, -1].max() for way in script.NAMES if way != winner]
        assert tests_of(task, winner)[:, -1].min() > 0.9 > max(others) + 0.02


def test_alibi_fails_early_learned_and_sinusoids_at_twenty_and_rope_later(script, tests_of):
    assert tests_of("three back", "ALiBi")[:, 1].max() < 0.65
    for way in ("learned", "sinusoids"):
        for task in script.TASKS:
            assert tests_of(task, way)[:, 1].min() > 0.9 and tests_of(task, way)[:, 2].max() < 0.8
    rope = tests_of("three back", "RoPE")
    assert rope[:, 2].min() > 0.95 and rope[:, 4].max() < 0.5


def test_a_causal_mask_alone_is_better_than_a_guess(tests_of):
    none = tests_of("latest mark", "none")
    assert none[:, 0].min() > 0.85
    for way in ("learned", "sinusoids", "RoPE"):
        assert tests_of("latest mark", way)[:, -1].max() < none[:, -1].min()


def test_a_run_learns_and_a_list_of_80_has_eight_windows(script, monkeypatch):
    validation, test, _ = script.learn("RoPE", "three back", rate=8e-3, seed=0, updates=150)
    assert validation > 0.3 and len(test) == 8 and test[0] > 0.5
    monkeypatch.setattr(script, "train", lambda *given: (_ for _ in ()).throw(ValueError("nan")))
    assert script.learn("RoPE", "three back", rate=1.0, seed=0, updates=1) == (0.0, [0.0] * 8, 0.0)


def test_a_window_counts_answers_only(script):
    class Right(torch.nn.Module):
        def forward(self, tokens):
            shifted = tokens.roll(3, dims=1)
            return torch.nn.functional.one_hot(shifted, 10).double()

    assert script.accuracies(Right(), "three back", 30, seed=0, n_lists=20) == [1.0, 1.0, 1.0]
    assert script.accuracies(Right(), "three back", 30, 0, 30, n_lists=20) == [1.0]
