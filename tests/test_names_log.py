"""The log of chapter 01's scoreboard belongs to its script and carries the text."""

from pathlib import Path

import torch

SCRIPT = Path(__file__).parents[1] / "assets" / "01_recurrent_networks" / "names.py"
KEYS = "distance", "layer", "width", "directions", "updates"


def of(log, *job):
    [entry] = [entry for entry in log["runs"] if tuple(entry[key] for key in KEYS) == job]
    return entry


def test_every_job_has_its_seeds(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["rate"] == script.RATE
    assert log["hardware"] == script.HARDWARE
    assert [tuple(entry[key] for key in KEYS) for entry in log["runs"]] == list(script.JOBS)
    assert all(len(entry["found"]) == len(script.SEEDS) for entry in log["runs"])


def test_near_two_directions_count_and_gates_do_not(script, log):
    near, width = script.UPDATES, 64
    one = of(log, 0, "RNN", 64, 1, near)["found"] + of(log, 0, "RNN", 96, 1, near)["found"]
    both = of(log, 0, "RNN", width, 2, near)["found"]
    assert max(one) < 0.7 and min(both) > 0.78
    wide = of(log, 0, "RNN", 121, 2, near)["found"]
    assert min(wide) >= max(of(log, 0, "GRU", width, 2, near)["found"]) - 0.01


def test_far_away_gates_count(script, log):
    far = script.FAR
    assert min(of(log, 3, "RNN", 64, 2, far)["found"] + of(log, 20, "GRU", 64, 2, far)["found"]) > 0.99
    assert max(of(log, 20, "RNN", 64, 2, far)["found"] + of(log, 20, "LSTM", 64, 2, far)["found"]) < 0.3
    wide = of(log, 20, "RNN", 121, 2, far)["found"] + of(log, 20, "RNN", 121, 2, 5 * far)["found"]
    assert 0.2 < min(wide) < max(wide) < 0.55


def test_controls_have_as_many_parameters(log):
    size = {tuple(entry[key] for key in KEYS[1:4]): entry["parameters"] for entry in log["runs"]}
    assert abs(size["RNN", 96, 1] / size["RNN", 64, 2] - 1) < 0.02
    assert abs(size["RNN", 121, 2] / size["GRU", 64, 2] - 1) < 0.02


def test_the_script_draws_what_the_chapter_says(script):
    for words, tags in script.digressions(20, 50, seed=0):
        kind = tags[20].removeprefix("B-")
        assert script.KINDS[kind] == (words[0], words[20]) and len(words) == len(tags) == 22
        assert set(words[1:20]) <= set(script.FILLERS)


def test_the_script_runs(script, monkeypatch):
    torch.set_default_dtype(torch.float64)
    size, found = script.run(3, "RNN", 5, 2, 2, seed=0)
    assert size > 0 and 0 <= found <= 1
