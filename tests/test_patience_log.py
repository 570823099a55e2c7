"""The committed log behind L3 of chapter 03 belongs to the script beside it, and is whole."""

import json
import re
from pathlib import Path

import torch

FOLDER = Path(__file__).parents[1] / "assets" / "03_additive_attention"
SCRIPT = FOLDER / "patience.py"


def test_every_model_has_its_seeds_and_updates(script, log):
    assert log["seeds"] == list(script.SEEDS) and log["hardware"] == script.HARDWARE
    assert set(log["exact"]) == set(log["seconds"]) == set(script.UPDATES)
    for name, n in script.UPDATES.items():
        assert log["updates"][name] == list(range(0, n + 1, script.EVERY))
        assert [len(run) for run in log["exact"][name]] == [n // script.EVERY + 1] * len(script.SEEDS)


def test_the_parameters_are_those_of_the_models(script, log):
    for name, n in log["parameters"].items():
        assert n == sum(p.numel() for p in script.make(name).parameters())
    sizes = log["parameters"]
    assert abs(sizes["plain 168"] / sizes["attention"] - 1) < 0.01 and sizes["no query"] == sizes["attention"]


def test_an_encoder_that_reads_forwards_does_not_know_what_follows(script):
    torch.manual_seed(0)
    model = script.make("one way")
    ids = torch.tensor([[5, 6, 7, 8]])
    other = torch.tensor([[5, 6, 7, 9]])
    states, others = model.start(ids)[1][0], model.start(other)[1][0]
    assert torch.equal(states[:, :3], others[:, :3]) and not torch.equal(states[:, 3], others[:, 3])


def test_on_one_schedule_every_run_ends_at_the_goal(script, log):
    assert set(log["exact, same schedule"]) == {"attention", "no query"}
    for runs in log["exact, same schedule"].values():
        assert len(runs) == len(script.SEEDS)
        assert all(max(run[:-1]) < script.GOAL <= run[-1] for run in runs)


def test_a_run_ends_after_its_updates_or_at_the_goal(script, monkeypatch):
    monkeypatch.setattr(script, "EVERY", 1)
    assert len(script.learn("no query", seed=0, updates=2)[0]) == 3
    assert script.learn("plain", seed=0, updates=2, goal=0.0)[0] == [0.0]


def test_the_chapters_table_is_the_logs(log):
    chapter = FOLDER.parents[1] / "chapters" / "03_additive_attention.ipynb"
    cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
    rows = {}
    for line in (line for cell in cells for line in "".join(cell["source"]).splitlines()):
        name, *fields = [field.strip() for field in line.removeprefix("|").removesuffix("|").split("|")]
        rows.setdefault(name, [re.sub(r" \(.*", "", field) for field in fields])
    names = "plain", "plain 168", "no query", "attention"
    assert rows["dates: parameters"] == [f"{log['parameters'][name]:,}" for name in names]
    need = {name: [50 * [x >= 0.85 for x in run].index(True) for run in log["exact"][name]] for name in names}
    assert rows["dates: updates until 85 in 100 are right"] == [span(need[name]) for name in names]
    for name, field in zip(names, rows["dates: seconds until then"], strict=True):
        each = log["seconds"][name], log["updates"][name][-1]
        clock = [round(n * s / each[1]) for n, s in zip(need[name], each[0], strict=True)]
        assert field == ("" if name == "plain 168" else span(clock))  # that one ran on another day


def span(numbers):
    """The lowest and the highest, as the chapter writes them: `950 to 1,050`, or `100` if all are equal."""
    low, high = min(numbers), max(numbers)
    return f"{low:,} to {high:,}" if low < high else f"{low:,}"
