"""The committed log of chapter 05's hulls belongs to the script beside it, and says what the chapter says."""

import statistics
from pathlib import Path

import nbformat
import pytest
import torch

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "assets" / "05_kinds_of_attention" / "hulls.py"


@pytest.fixture(scope="module")
def prose():
    """The chapter's text, as one."""
    cells = nbformat.read(ROOT / "chapters" / "05_kinds_of_attention.ipynb", 4).cells
    return " ".join(cell.source for cell in cells if cell.cell_type == "markdown").replace("\n", " ")


def column(log, key, name, n):
    """One number a seed, in ascending order."""
    return sorted(run[log["sizes"].index(n)] for run in log[key][name])


def test_every_model_has_its_seeds_and_sizes(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert log["sizes"] == list(script.SIZES) and log["updates"] == script.UPDATES
    for key in ("exact", "edges"):
        assert set(log[key]) == set(script.POINTS)
        for runs in log[key].values():
            assert [len(run) for run in runs] == [len(script.SIZES)] * len(script.SEEDS)


def test_each_rate_is_the_better_of_the_two(script, log):
    assert log["rates"] == list(script.RATES) and set(log["search"]) == set(script.POINTS)
    for name, tried in log["search"].items():
        assert min(tried) < max(tried) and log["rate"][name] == log["rates"][tried.index(max(tried))]
        assert max(tried) == log["edges"][name][0][log["sizes"].index(10)]


def test_the_parameters_are_those_of_the_models(script, log):
    for name, n in log["parameters"].items():
        assert n == sum(p.numel() for p in script.make(name).parameters())
    assert log["parameters"]["pointer"] < log["parameters"]["positions"] == log["parameters"]["labels"]


def test_random_labels_are_labels_of_the_input_and_of_the_output(script):
    torch.manual_seed(0)
    model, batch = script.make("labels"), script.point_sets(3, 7, seed=0)
    weights = model(batch.x.float(), batch.y)
    assert weights.shape == (3, batch.y.shape[1], 7)
    assert torch.allclose(weights.sum(-1), torch.ones(()))
    assert not torch.equal(weights, model(batch.x.float(), batch.y))


def test_edges_are_of_the_closed_path(script):
    assert script.edges(torch.tensor([2, 0, 5, 2, -1])) == {(2, 0), (0, 5), (5, 2)}


def test_the_chapters_numbers_are_the_logs(log, prose):
    def span(name, n):
        low, *_, high = (round(100 * share) for share in column(log, "exact", name, n))
        return low, high

    low, high = span("labels", 12)
    assert f"(0.{low} to 0.{high} at 12 points)" in prose
    middle = {n: statistics.median(column(log, "exact", "pointer, no mask", n)) for n in (12, 20)}
    assert f"about {100 * middle[12]:.0f} hulls in 100" in prose
    assert "and at 20 about 31" in prose and abs(100 * middle[20] - 31) < 1.5
    low, high = span("pointer", 12)
    assert f"(with the mask {low} to {high})" in prose
    for share in column(log, "edges", "pointer", 30):
        assert 0.7 < share < 0.8
