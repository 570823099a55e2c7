"""The log behind L5, L6 and the closing figure of chapter 01 belongs to its script and carries the text."""

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
    assert log["rates"] == {part: list(rates) for part, rates in script.RATES.items()}
    assert [entry["model"] for entry in log["first"]] == list(script.CELLS)
    assert [entry["model"] for entry in log["tagger"]] == list(script.TAGGERS)
    jobs = [(n, cell) for n in (5, 10, 40) for cell in ("wide RNN", "RNN, identity start", "GRU")]
    assert [(entry["n"], entry["model"]) for entry in log["far"]] == jobs
    for part, rates in script.RATES.items():
        for entry in log[part]:
            assert [float(rate) for rate in entry["runs"]] == list(rates)
            assert all(len(runs) == len(script.SEEDS) for runs in entry["runs"].values())


def test_as_torch_initialises_them_the_rnn_and_the_lstm_guess_and_the_gru_recalls(log):
    runs = {entry["model"]: entry["runs"] for entry in log["first"]}
    for model in ("RNN", "wide RNN", "LSTM", "small LSTM"):
        assert all(0.2 < share < 0.3 for shares in runs[model].values() for share in shares)
    assert all(share == 1 for rate in ("0.01", "0.03") for share in runs["GRU"][rate])
    assert max(runs["GRU"]["0.001"]) < 0.3 and 0.7 < min(runs["GRU"]["0.003"])


def test_with_another_start_the_lstm_recalls_and_the_rnn_in_part(log):
    runs = {entry["model"]: entry["runs"] for entry in log["first"]}
    assert all(min(runs["LSTM, gate open"][rate]) > 0.99 for rate in ("0.003", "0.01", "0.03"))
    assert all(0.5 < share < 0.75 for share in runs["RNN, identity start"]["0.001"])
    assert all(max(runs["RNN, identity start"][rate]) < 0.3 for rate in ("0.003", "0.01", "0.03"))


def test_the_distance_at_which_the_rnn_gives_up(log):
    best = {(e["model"], e["n"]): max(e["runs"].values(), key=sum) for e in log["far"]}
    assert min(best["wide RNN", 5]) > 0.99 and max(best["wide RNN", 10] + best["wide RNN", 40]) < 0.3
    assert min(best["RNN, identity start", 5] + best["RNN, identity start", 10]) > 0.99
    assert max(best["RNN, identity start", 40]) < 0.3
    assert min(best["GRU", 5] + best["GRU", 10] + best["GRU", 40]) > 0.99


def test_the_second_direction_counts_for_more_than_the_gates(log):
    f1 = {entry["model"]: best_tagger(entry) for entry in log["tagger"]}
    one = [runs for model, runs in f1.items() if model.startswith("one way")]
    two = [runs for model, runs in f1.items() if model.startswith("two ways")]
    assert max(map(sum, one)) / 3 < 0.78 and min(map(sum, two)) / 3 > 0.86
    assert max(map(max, one)) < min(map(min, two))


def test_three_seeds_of_the_lessons_taggers_in_the_closing_figure(log):
    """As in the lesson: rate 0.01, and the left-to-right tagger with the vanilla layer."""
    at = {entry["model"]: entry["runs"]["0.01"] for entry in log["tagger"]}
    for run in at["two ways GRU"]:
        assert run["two-meaning names"] > 0.93 and run["words not in training"] > 0.8
        assert run["names not in training, whole"] > 0.8
    for run in at["one way RNN"]:
        assert 0.85 < run["two-meaning names"] < 0.93 and 0.6 < run["words not in training"] < 0.7


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
