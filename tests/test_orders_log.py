"""The log of the two orders in chapter 03 belongs to the script beside it, and is whole."""

from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "assets" / "03_additive_attention" / "orders.py"


def test_every_run_is_there_once_with_the_scripts_settings(script, log):
    assert log["settings"] == script.SETTINGS and log["hardware"] == script.HARDWARE
    assert [script.name_of(run) for run in log["runs"]] == script.RUNS
    for run in log["runs"]:
        assert [*run["by_digits"]] == ["3", "4", "5", "6"]
        assert all(0 <= share <= 1 for share in run["by_digits"].values())


def test_the_parameters_are_those_of_the_models(script, log):
    sizes = {run["model"]: run["n_parameters"] for run in log["runs"]}
    n_source, n_target = 19, 37
    grown = {name: script.make(name, n_source, n_target) for name in script.MODELS}
    counted = {name: sum(p.numel() for p in model.parameters()) for name, model in grown.items()}
    assert counted["attend first"] == counted["no query"] and sizes["attend first"] == sizes["no query"]
    assert counted["update first"] < counted["input feeding"] < counted["attend first"] < counted["plain"]
    assert sizes["update first"] < sizes["input feeding"] < sizes["attend first"] < sizes["plain"]


@pytest.mark.parametrize("name", ["update first", "input feeding"])
def test_step_by_step_equals_all_at_once(script, name):
    torch.manual_seed(0)
    model = script.make(name, 11, 13)
    source, target = torch.randint(4, 11, (2, 5)), torch.randint(4, 13, (2, 7))
    state, memory = model.start(source)
    for t, logits in enumerate(model(source, target).unbind(dim=1)):
        step, state = model.step(target[:, t], state, memory)
        assert torch.allclose(step, logits, atol=1e-5)


def test_only_input_feeding_hands_a_context_to_the_next_state(script):
    torch.manual_seed(0)
    for name, fed in (("update first", False), ("input feeding", True)):
        model = script.make(name, 11, 13)
        source, y = torch.randint(4, 11, (2, 5)), torch.tensor([6, 7])
        state, memory = model.start(source)
        other = (memory[0].flip(1), *memory[1:])
        states = [model.step(y, state, m)[1] for m in (memory, other)]
        after = [s[1] if fed else s for s in states]
        assert torch.equal(*after) == (not fed)


def test_a_short_training_counts_every_length(script):
    small = script.SETTINGS | {"n_train": 40, "n_test_per_digits": 3, "batch": 8}
    run = script.measure(("no query", 1, 0), small)
    assert [*run["by_digits"]] == [3, 4, 5, 6] and run["n_steps"] == 1
