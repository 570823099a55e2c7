"""The committed log behind sections 9.1 to 9.3: it is its script's, and carries what the chapter says."""

from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[1] / "assets" / "09_position_encoding" / "starts.py"


@pytest.fixture(scope="module")
def of(log):
    def find(way, updates, below):
        (run,) = (r for r in log["runs"] if (r["way"], r["updates"], r["below"]) == (way, updates, below))
        return torch.tensor(run["from 0"]), torch.tensor(run["elsewhere"])

    return find


def test_every_run_has_its_seeds_and_beginnings(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert log["elsewhere"] == list(script.ELSEWHERE) and len(log["elsewhere"]) == 33
    assert [(run["way"], run["updates"], run["below"]) for run in log["runs"]] == [*script.RUNS]
    for run in log["runs"]:
        assert len(run["from 0"]) == len(run["seconds"]) == len(script.SEEDS)
        assert torch.tensor(run["elsewhere"]).shape == (len(script.SEEDS), 33)


def test_nobody_without_positions_is_right_in_more_than_half(of):
    assert max(part.max() for part in of("none", 3000, 1)) <= 0.5


def test_trained_at_0_hands_and_vectors_know_nothing_elsewhere(of):
    for way in ("random", "dials"):
        near, far = of(way, 600, 1)
        assert near.min() > 0.98 and far.mean(dim=1).max() < 0.75


def test_trained_anywhere_hands_go_beyond_and_vectors_do_not(of):
    near, far = of("dials", 600, 200)[1].split([7, 26], dim=1)
    assert near.mean(dim=1).min() > 0.98 and far.mean(dim=1).min() > 0.95
    near, far = of("random", 3000, 200)[1].split([7, 26], dim=1)
    assert near.mean(dim=1).min() > 0.98 and far.mean(dim=1).max() < 0.55


def test_rotated_queries_and_keys_are_right_everywhere(of):
    near, far = of("RoPE", 600, 1)
    assert near.min() > 0.98 and (far - near[:, None]).abs().max() < 1e-3


def test_the_test_has_each_sentence_with_its_exchange(script):
    tokens, answers = script.pairs(7)
    assert torch.equal(tokens[:7].sort(dim=1).values, tokens[7:].sort(dim=1).values)
    assert (answers[:7] != answers[7:]).all()


def test_a_run_learns(script):
    torch.set_default_dtype(torch.float64)
    try:
        model = script.learn("RoPE", 250, 1, seed=0)
        assert script.score(model) > 0.6 and abs(script.score(model) - script.score(model, 500)) < 0.01
    finally:
        torch.set_default_dtype(torch.float32)
