"""The committed log behind chapter 10: it belongs to its script, and carries what is said."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from heed.train import train

FOLDER = Path(__file__).parents[1] / "assets" / "10_residuals_and_normalisation"
SCRIPT = FOLDER / "depth.py"


@pytest.fixture(autouse=True)
def double():
    """The script computes in double precision."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def test_every_part_has_its_jobs_rates_and_seeds(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert log["rates"] == list(script.RATES)
    for part, jobs in script.JOBS.items():
        for entry, job in zip(log["parts"][part], jobs, strict=True):
            assert {key: entry[key] for key in job if key != "rates"} == {
                key: value for key, value in job.items() if key != "rates"
            }
            assert list(entry["by rate"]) == [str(rate) for rate in job.get("rates", script.RATES)]
            assert all(len(counts) == len(script.SEEDS) for counts in entry["by rate"].values())


def test_the_parameters_are_those_of_the_models(script, log):
    assert list(log["parameters"]) == list(script.KINDS)
    for kind, n in log["parameters"].items():
        assert n == sum(p.numel() for p in script.make(kind, 50).parameters())
    assert max(log["parameters"].values()) < 1.016 * min(log["parameters"].values())


def test_what_the_body_and_further_say(log):
    found = {entry["kind"]: entry["by rate"] for entry in log["parts"]["rates"]}
    assert all(max(counts) == 1 for counts in found["bare"].values())
    assert max(map(sum, found["norm alone"].values())) < 30
    assert all(max(found["norm alone"][rate]) == 1 for rate in ("0.001", "0.003", "0.01"))
    for kind in ("residual alone", "pre-norm"):
        assert all(min(counts) == 10 for counts in found[kind].values())
    post = found["post-norm"]
    assert all(min(counts) == 10 for rate, counts in post.items() if float(rate) <= 3e-3)
    assert max(post["0.01"]) <= 2
    warm = log["parts"]["warmup"][0]["by rate"]
    assert min(warm["0.01"]) == 10
    large = {e["kind"]: {r: sum(c) / 30 for r, c in e["by rate"].items()} for e in log["parts"]["large"]}
    assert [*large["pre-norm"].values()] == [1, 1, 1]
    assert [round(share, 2) for share in large["post-norm"].values()] == [0.97, 0.7, 0.1]
    assert (
        round(large["residual alone"]["0.0001"], 2)
        == round(large["residual, last norm"]["0.0001"], 2)
        == 0.97
    )
    warmed = {
        e["kind"]: {r: sum(c) / 30 for r, c in e["by rate"].items()} for e in log["parts"]["large_warm"]
    }
    assert [round(share, 2) for share in warmed["post-norm"].values()] == [0.97, 0.8, 0.1]
    assert all(shares["0.01"] <= 0.1 for shares in warmed.values())


def test_what_the_laboratory_says(log):
    parts = log["parts"]
    start = {(entry["start"], entry["kind"]): entry["by rate"] for entry in parts["start"]}
    assert min(start["careful", "bare"]["0.001"]) >= 8
    assert max(map(max, start["Xavier", "bare"].values())) <= 3
    assert min(start["Xavier", "norm alone"]["0.0001"]) >= 9
    large = {entry["kind"]: entry["by rate"] for entry in parts["large"]}
    assert min(map(min, large["pre-norm"].values())) == 10
    for kind in ("residual alone", "residual, last norm", "post-norm"):
        assert max(large[kind]["0.01"]) <= 3
    assert all(min(counts) == 10 for counts in parts["longer"][0]["by rate"].values())
    assert all(max(counts) == 1 for counts in parts["longer"][1]["by rate"].values())


@pytest.mark.parametrize("kind", ["bare", "norm alone", "residual alone", "post-norm", "pre-norm"])
def test_all_runs_at_once_are_the_runs_of_the_chapters_loop(script, kind):
    runs = [(3e-3, 0), (1e-2, 1)]
    counts = []
    for rate, seed in runs:
        torch.manual_seed(seed)
        model, ids = script.make(kind, 2), torch.arange(script.TOKENS)
        train(model, iter([ids] * 25), lambda model, ids: F.cross_entropy(model(ids), ids), 25, rate)
        counts.append((model(ids).argmax(-1) == ids).sum().item())
    assert script.learn(kind, 2, runs, n_steps=25) == counts
    assert counts[0] < counts[1] or counts[0] == 10


@pytest.mark.parametrize("start", ["Xavier", "careful"])
def test_an_initialisation_has_the_variance_that_it_says(script, start):
    torch.manual_seed(0)
    model = script.make("bare", 20, start)
    layers = [layer.feed_forward for layer in model.layers]
    wanted = {"Xavier": (1 / 48, 1 / 48), "careful": (1 / 16, 1 / 64)}[start]
    for name, variance in zip(("W_1", "W_2"), wanted, strict=True):
        weights = torch.cat([getattr(layer, name).weight.flatten() for layer in layers])
        assert abs(weights.var().item() / variance - 1) < 0.05
        assert all((getattr(layer, name).bias == 0).all() for layer in layers)


def test_warm_up_rises_and_falls(script):
    shares = [script.schedule(step, 200, 50) for step in range(200)]
    assert shares[0] == 1 / 50 and shares[49] == shares[50] == 1 and 0 < shares[-1] < 0.01
    assert script.schedule(0, 200) == 1
