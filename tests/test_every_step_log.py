"""The committed log of the control in F3 of chapter 02 belongs to the script beside it, and is whole."""

from pathlib import Path

import pytest
import torch

from heed.recurrent import free_run
from heed.text import BOS, EOS, PAD

FOLDER = Path(__file__).parents[1] / "assets" / "02_sequence_to_sequence"
SCRIPT = FOLDER / "every_step.py"


def test_every_run_of_the_script_is_in_the_log_with_its_settings(script, log):
    assert [script.name_of(run) for run in log["runs"]] == script.RUNS
    assert log["settings"] == script.lengths().SETTINGS and log["hardware"] == script.HARDWARE


def test_the_equally_large_model_is_as_large(log):
    sizes = {run["model"]: run["n_parameters"] for run in log["runs"]}
    assert sizes["plain"] == pytest.approx(sizes["every"], rel=0.02)


def test_step_by_step_is_what_one_call_says(script):
    torch.manual_seed(3)
    model = script.EveryStep(11, 7, 3, 5).double()
    source = torch.tensor([[7, 4, 9, 5], [8, 6, PAD, PAD]])
    ids = free_run(model, source, 5)
    read = torch.cat([torch.full((2, 1), BOS), ids[:, :-1]], dim=1)
    said = model(source, read).argmax(dim=-1)
    real = ids != PAD
    assert torch.equal(said[real], ids[real]) and (ids[:, 0] != EOS).any()


def test_all_that_the_decoder_gets_is_the_last_state(script):
    torch.manual_seed(3)
    model = script.EveryStep(11, 7, 3, 5).double()
    source, target = torch.tensor([[7, 4, 9, 5]]), torch.tensor([[BOS, 4, 5]])
    state = model.encoder(source)
    assert torch.equal(model(source, target), model.decode(target, state, state)[0])


def test_a_short_training_is_measured(script, monkeypatch):
    other = script.lengths()
    other.SETTINGS |= {"n_train": 60, "n_test_per_digits": 5, "d_embed": 3, "batch": 7, "n_steps": 2}
    monkeypatch.setattr(script, "lengths", lambda: other)
    monkeypatch.setattr(other.torch, "set_num_threads", lambda n: None)
    monkeypatch.setattr(other.torch, "set_default_dtype", lambda dtype: None)
    run = script.measure(("every", 5, 6, 0))
    assert run["model"] == "every" and [*run["by_digits"]] == [3, 4, 5, 6]
    assert run["loss"] == pytest.approx(run["test_loss"], rel=0.5)
