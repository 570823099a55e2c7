"""The committed log of the tour's stops: it belongs to its script, and to what the tour says."""

from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[1] / "assets" / "00_tour" / "stops.py"


def of(log, name, what="right"):
    return [run[what] for run in log["runs"] if run["stop"] == name]


def test_every_stop_has_its_seeds(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert {"heed", "torch", "python"} == set(log["versions"])
    assert [(run["stop"], run["seed"]) for run in log["runs"]] == [
        (name, seed) for name in script.STOPS for seed in script.SEEDS
    ]
    assert all(run["updates"] == script.STOPS[run["stop"]][1] for run in log["runs"])


def test_what_a_date_is_asked_belongs_to_the_data(script, log):
    assert log["asked"] == [pair.source for pair in script.test_set[:6]]
    wanted = [pair.target for pair in script.test_set[:6]]
    assert all(written == wanted for written in of(log, "additive", "written"))


@pytest.mark.parametrize("name", ["vector", "scaled", "no positions", "positions", "no mask", "transformer"])
def test_a_model_of_the_script_reads_scores_and_writes(script, name):
    kind, _, sizes = script.STOPS[name]
    torch.manual_seed(0)
    model = script.make(kind, sizes).eval()
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    x = script.pad([script.sources.encode(pair.source) for pair in script.test_set[:3]])
    y = torch.tensor([[script.BOS, 5, 6]] * 3)
    assert model(x, y).shape == (3, 3, len(script.targets))
    assert len(script.write(model, x)) == 3
    ahead = y.clone()
    ahead[:, 2] = 7
    with torch.no_grad():
        same = torch.allclose(model(x, y)[:, :2], model(x, ahead)[:, :2], atol=1e-5)
        order = torch.tensor([[2, 0, 1]])
        bag = torch.allclose(model(x[:1, :3], y[:1]), model(x[:1, :3][:, order[0]], y[:1]), atol=1e-5)
    assert same == (name != "no mask")
    assert bag == (name == "no positions")
