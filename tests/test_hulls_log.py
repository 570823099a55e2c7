"""The committed log of chapter 05's hulls belongs to the script beside it, and says what the chapter says."""

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


def column(log, length, name, n=10):
    """Exact hulls of 100, one number a seed, in ascending order."""
    return sorted(round(100 * run[log["sizes"].index(n)]) for run in log[length][name])


def test_every_model_has_its_seeds_and_sizes(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert log["sizes"] == list(script.SIZES) and log["updates"] == [script.SHORT, script.LONG]
    for length in ("short", "long"):
        assert set(log[length]) == set(script.MODELS)
        for runs in log[length].values():
            assert [len(run) for run in runs] == [len(script.SIZES)] * len(script.SEEDS)


def test_each_rate_is_the_better_of_the_two(script, log):
    assert log["rates"] == list(script.RATES) and log["short rate"] == script.RATE
    assert set(log["search"]) == set(script.MODELS)
    for name, tried in log["search"].items():
        assert min(tried) < max(tried) and log["rate"][name] == log["rates"][tried.index(max(tried))]
        assert max(tried) == log["long"][name][0][log["sizes"].index(8)]


def test_the_parameters_are_those_of_the_models(script, log):
    for name, n in log["parameters"].items():
        assert n == sum(p.numel() for p in script.make(name).parameters())
    assert log["parameters"]["pointer"] < log["parameters"]["words"] == log["parameters"]["random words"]


def test_random_words_are_words_of_the_input_and_of_the_output(script):
    torch.manual_seed(0)
    model, batch = script.make("random words"), script.point_sets(3, 7, seed=0)
    weights = model(batch.x.float(), batch.y)
    assert weights.shape == (3, batch.y.shape[1], 7)
    assert torch.allclose(weights.sum(-1), torch.ones(()))
    assert not torch.equal(weights, model(batch.x.float(), batch.y))


def test_a_path_without_a_mask_is_cut(script):
    torch.manual_seed(0)
    written = script.point(script.make("pointer, no mask"), script.point_sets(50, 7, seed=0).x.float())
    assert written.shape[1] <= 9


def test_the_order_of_the_chapter_holds_in_every_seed(log):
    for n in (9, 10, 12, 15, 20):
        words, practised, pointer = (column(log, "long", name, n) for name in list(log["long"])[:3])
        assert words[-1] < practised[0] and practised[-1] < pointer[0]
    short = [column(log, "short", name) for name in list(log["short"])[:3]]
    assert short[1][-1] < short[0][0] and short[0][-1] < short[2][0]


def test_the_chapters_numbers_are_the_logs(log, prose):
    def span(length, name, n=10):
        low, _, high = column(log, length, name, n)
        return f"{low} to {high}"

    for length in ("short", "long"):
        for name in ("words", "pointer"):
            assert span(length, name) in prose, (length, name)
    assert span("long", "random words") in prose and column(log, "short", "random words") == [0, 0, 0]
    assert f"{span('short', 'words', 8)} hulls of 8 points" in prose
    median = {name: column(log, "long", name)[1] for name in log["long"]}
    assert f"gets about {median['random words']}. The words of 5.1 then get {median['words']}" in prose
    assert f"and the pointer gets {median['pointer']}" in prose
    gain = (median["random words"] - median["words"]) / (median["pointer"] - median["words"])
    assert "Four fifths of the difference is practice" in prose and 0.75 < gain < 0.85
    twelve = [column(log, "long", name, 12)[1] for name in ("words", "random words")]
    assert f"Of 100 hulls of 12 points, words get {twelve[0]} right, and random words {twelve[1]}" in prose
    assert f"the log has {median['pointer, no mask']} hulls of 100" in prose
