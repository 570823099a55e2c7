"""The committed log behind chapter 12's L3: it belongs to its script, and carries what the chapter says."""

from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "assets" / "12_training"
SCRIPT = FOLDER / "smoothing.py"


def test_every_run_has_its_seeds(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    wanted = [(n, smoothing) for n in script.EXAMPLES for smoothing in script.SMOOTHINGS]
    assert [(run["examples"], run["smoothing"]) for run in log["runs"]] == wanted
    assert all(len(run["gap"]) == len(run["accuracy"]) == len(script.SEEDS) for run in log["runs"])


def test_what_the_chapter_says(log):
    runs = {(run["examples"], run["smoothing"]): run for run in log["runs"]}
    for n in log["examples"]:
        for seed in range(3):
            sure = [runs[n, smoothing]["confidence"][seed] for smoothing in log["smoothings"]]
            assert sure == sorted(sure, reverse=True)
    plain, smooth = runs[60, 0.0], runs[60, 0.1]
    for i in range(len(log["seeds"])):
        assert plain["confidence"][i] - plain["accuracy"][i] > 0.15
        assert smooth["gap"][i] < plain["gap"][i] / 2
    for n, best in ((60, (0.1, 0.2)), (100, (0.05,)), (300, (0.0,))):
        assert min(log["smoothings"], key=lambda s: sum(runs[n, s]["gap"])) in best
    for smoothing in (0.05, 0.1, 0.2):
        assert all(abs(gap - smoothing) < 0.02 for gap in runs[300, smoothing]["gap"])


def test_the_gap_on_paper(script):
    confidence = torch.tensor([0.95, 0.95, 0.55, 0.55])
    right = torch.tensor([1.0, 0.0, 1.0, 0.0])
    assert script.gap(confidence, right) == pytest.approx((0.45 + 0.05) / 2)
    assert script.gap(torch.tensor([1.0, 1.0]), torch.tensor([1.0, 1.0])) == 0


def test_a_model_that_is_always_the_same_is_asked_for_digits_alone(script):
    class Fixed(torch.nn.Module):
        def forward(self, source, target_in):
            return torch.zeros(*target_in.shape, 1)

        def generator(self, x):
            return torch.full((*x.shape[:-1], script.VOCAB), -3.0)

    confidence, right, nll = script.asked(Fixed(), seed=0)
    assert confidence.shape == right.shape == nll.shape == (script.HELD_OUT * script.LENGTH,)
    assert torch.allclose(nll, torch.tensor(3.0))
