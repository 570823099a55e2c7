"""The committed log behind parts L5 and L6 of chapter 01: it belongs to its script, and carries what the chapter says."""

from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "assets" / "01_recurrent_networks"
SCRIPT = FOLDER / "recurrent.py"


def best_tagger(entry):
    """Span F1 with the learning rate that is best on average."""
    return max(([run["span F1"] for run in runs] for runs in entry["runs"].values()), key=sum)


def test_every_model_has_its_rates_and_seeds(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert log["rates"] == list(script.RATES)
    assert [entry["model"] for entry in log["first"]] == list(script.CELLS)
    assert [entry["model"] for entry in log["tagger"]] == list(script.TAGGERS)
    jobs = [(n, cell) for n in (5, 10, 40) for cell in ("wide RNN", "GRU")]
    assert [(entry["n"], entry["model"]) for entry in log["far"]] == jobs
    for entry in [*log["first"], *log["tagger"], *log["far"]]:
        assert [float(rate) for rate in entry["runs"]] == list(script.RATES)
        assert all(len(runs) == len(script.SEEDS) for runs in entry["runs"].values())


def test_the_rnn_and_the_lstm_guess_and_the_gru_and_the_open_lstm_recall(log):
    runs = {entry["model"]: entry["runs"] for entry in log["first"]}
    for model in ("RNN", "wide RNN", "LSTM", "small LSTM"):
        assert all(0.2 < share < 0.3 for shares in runs[model].values() for share in shares)
    assert all(share == 1 for rate in ("0.01", "0.03") for share in runs["GRU"][rate])
    assert min(min(shares) for shares in runs["LSTM, gate open"].values()) > 0.99


def test_the_distance_at_which_the_rnn_gives_up(log):
    best = {(e["model"], e["n"]): max(e["runs"].values(), key=sum) for e in log["far"]}
    assert min(best["wide RNN", 5]) > 0.99 and max(best["wide RNN", 10] + best["wide RNN", 40]) < 0.3
    assert min(best["GRU", 5] + best["GRU", 10] + best["GRU", 40]) > 0.99


def test_the_second_direction_counts_for_more_than_the_gates(log):
    f1 = {entry["model"]: best_tagger(entry) for entry in log["tagger"]}
    one = [runs for model, runs in f1.items() if model.startswith("one way")]
    two = [runs for model, runs in f1.items() if model.startswith("two ways")]
    assert max(map(sum, one)) / 3 < 0.78 and min(map(sum, two)) / 3 > 0.86
    assert max(map(max, one)) < min(map(min, two))


def test_three_seeds_of_the_two_way_tagger_repair_both_failures(log):
    [entry] = [entry for entry in log["tagger"] if entry["model"] == "two ways GRU"]
    for run in entry["runs"]["0.01"]:
        assert run["two-meaning names"] > 0.93 and run["words not in training"] > 0.8


def test_equal_parameters(script, log):
    size = {entry["model"]: entry["parameters"] for entry in [*log["first"], *log["tagger"]]}
    assert abs(size["wide RNN"] / size["GRU"] - 1) < 0.01
    assert abs(size["small LSTM"] / size["GRU"] - 1) < 0.02
    assert abs(size["one way wide GRU"] / size["two ways GRU"] - 1) < 0.01
    for name, make in script.CELLS.items():
        assert script.parameters(make()) == size[name]


@pytest.mark.parametrize("name", ["RNN", "LSTM, gate open"])
def test_the_script_runs(script, name):
    torch.set_default_dtype(torch.float64)
    assert 0 <= script.first(name, 3, 1e-2, seed=0, n_steps=2) <= 1
