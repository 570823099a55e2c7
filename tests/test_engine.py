"""The engine: it steps as a loop by hand would, goes on as if nothing had been, and ends as it says."""

import errno
import importlib
import inspect
import itertools
import json
import math
import os
import random
import re
import shutil
import signal
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file
from torch import nn

from heed import engine
from heed.alignment import AttentionSeq2Seq
from heed.checkpoint import CheckpointError, average, load, save
from heed.engine import (
    Interrupted,
    choose_device,
    choose_precision,
    fit,
    hidden_matrices,
    make_optimizers,
)
from heed.engine.devices import synchronize
from heed.engine.folder import MARK
from heed.engine.optimizers import Muon, orthogonal
from heed.engine.parallel import shard, whole
from heed.engine.precision import InBFloat16
from heed.engine.run import TrainState
from heed.engine.signals import ENDING, Signals
from heed.recurrent import Classifier, Seq2Seq, Tagger
from heed.schedule import trapezoid
from heed.transformer import make_model

torch.set_num_threads(1)
VOCAB = tiny.VOCAB


def weights(folder):
    return load(folder / "checkpoint.pt")["model"]


def same(one, two, exactly=True):
    """Two states are equal: to the last bit, or but for rounding."""
    assert one.keys() == two.keys()
    return all(
        torch.equal(one[name], two[name]) if exactly else torch.allclose(one[name], two[name], atol=1e-9)
        for name in one
    )


def timeless(folder):
    """The log without what a clock says."""
    clocks = {"seconds", "tokens_per_second"}
    return [{key: value for key, value in line.items() if key not in clocks} for line in tiny.log(folder)]


# --- The step -----------------------------------------------------------------------------------------------


def by_hand(updates, warmup=0.25, rate=0.02, clip=0.3):
    """The same training as a loop of ten lines, with AdamW for everything."""
    model, made = tiny.Plain(), tiny.batches()
    optimiser = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0)
    plan, losses = made.epoch(0) + made.epoch(1), []
    for step in range(updates):
        optimiser.param_groups[0]["lr"] = rate * trapezoid((step + 0.5) / updates, warmup)
        batch = made.batch(plan[step])
        value = tiny.loss(model, batch) / batch.n_tokens
        gradient = torch.autograd.grad(value, list(model.parameters()))
        norm = torch.stack([g.norm() for g in gradient]).norm()
        for p, g in zip(model.parameters(), gradient, strict=True):
            p.grad = g * min(1.0, clip / (norm + 1e-6))
        optimiser.step()
        losses.append(value.item())
    return model, losses


@pytest.mark.parametrize("micro_batches", [1, 2, 7])
def test_it_takes_the_steps_of_a_loop_by_hand_in_any_number_of_micro_batches(tmp_path, micro_batches):
    hand, losses = by_hand(13)
    options = {"updates": 13, "optimizer": "adamw", "warmup": 0.25, "clip": 0.3}
    model, _ = tiny.run(tmp_path, "Plain", micro_batches=micro_batches, **options)
    assert len(tiny.batches().epoch(0)) < 13  # the second epoch is begun, in its own order
    assert np.allclose(tiny.losses(tmp_path), losses, rtol=1e-9)
    assert same(model.state_dict(), hand.state_dict(), exactly=False)


def test_more_micro_batches_than_rows_leave_some_empty_and_change_nothing(tmp_path):
    for n in (1, 5):
        tiny.run(tmp_path / str(n), "Plain", n_tokens=11, micro_batches=n, updates=17)
    assert min(map(len, tiny.batches(11).epoch(0))) < 5
    assert same(weights(tmp_path / "1"), weights(tmp_path / "5"), exactly=False)


def test_the_schedule_counts_updates_and_no_micro_batches(tmp_path):
    tiny.run(tmp_path, micro_batches=3, updates=10, warmup=0.2)
    rates = [line["lr"] for line in tiny.log(tmp_path) if "lr" in line]
    assert np.allclose(rates, [0.02 * trapezoid((step + 0.5) / 10, 0.2) for step in range(10)])


def test_loss_and_norm_of_a_line_are_means_over_its_steps(tmp_path):
    tiny.run(tmp_path / "each", "Plain", updates=13, clip=100.0)
    tiny.run(tmp_path / "some", "Plain", updates=13, clip=100.0, log_every=5)
    each = [line for line in tiny.log(tmp_path / "each") if "loss" in line]
    some = [line for line in tiny.log(tmp_path / "some") if "loss" in line]
    assert [line["step"] for line in some] == [5, 10, 13] and some[-1]["tokens"] == each[-1]["tokens"]
    tokens = np.diff([0, *(line["tokens"] for line in each)])
    for line, lines in zip(some, (slice(0, 5), slice(5, 10), slice(10, 13)), strict=True):
        assert math.isclose(
            line["loss"], np.average([line["loss"] for line in each[lines]], weights=tokens[lines])
        )
        assert math.isclose(line["norm"], np.mean([line["norm"] for line in each[lines]]))


def test_it_learns(tmp_path):
    _, result = tiny.run(tmp_path, updates=300, lr=0.03, log_every=100, validate=tiny.mean_loss)
    assert result.value < 1.9 < math.log(VOCAB)  # after a word, one word in five is random


# --- The optimizers -----------------------------------------------------------------------------------------


def test_muon_leaves_out_the_output_layers_of_all_models_of_the_course():
    V = 11
    models = {
        "transformer": (make_model(V, V, 1, 6, 7, 2), 4 + 2 + 8 + 2),
        "seq2seq": (Seq2Seq(V, V, 3, 5), 0),
        "with attention": (
            AttentionSeq2Seq(V, V, 3, 5),
            1 + 3,
        ),  # the first state, and the three of the score
        "tagger": (Tagger(V, 13, 3, 5), 0),
        "classifier": (Classifier(V, 13, 3, 5), 0),
    }
    for name, (model, n) in models.items():
        found = hidden_matrices(model)
        assert len(found) == n and not {V, 13} & {len(p) for p in found}, name


def test_hidden_matrices_are_neither_tables_nor_what_is_tied_to_one_nor_the_generator():
    model = tiny.Tiny()
    assert [id(p) for p in hidden_matrices(model)] == [id(layer.weight) for layer in model.layers]
    model.generator.weight = nn.Parameter(torch.ones(VOCAB, 5))
    assert len(hidden_matrices(model)) == 2
    model.other = nn.Linear(5, VOCAB)
    assert len(hidden_matrices(model)) == 3
    model.other.weight = model.table.weight
    assert len(hidden_matrices(model)) == 2


@pytest.mark.parametrize("name", ["muon", "adamw"])
def test_every_parameter_has_one_optimiser_and_only_matrices_decay(name):
    model = tiny.Tiny()
    groups = [group for o in make_optimizers(model, name, 0.5, weight_decay=0.1) for group in o.param_groups]
    ours = [id(p) for group in groups for p in group["params"]]
    assert sorted(ours) == sorted(id(p) for p in model.parameters())
    assert {(group["weight_decay"], p.dim()) for group in groups for p in group["params"]} == {
        (0.1, 2),
        (0.0, 1),
    }


def test_muon_moves_a_matrix_in_all_directions_alike_and_the_rest_as_adamw_does(tmp_path):
    model = tiny.Tiny()
    moved_by = make_optimizers(model, "muon", 0.5, adamw_lr=0.25)
    assert [group["max_lr"] for o in moved_by for group in o.param_groups] == [0.5, 0.25, 0.25]
    before = model.layers[0].weight.detach().clone()
    for p in model.parameters():
        p.grad = torch.rand_like(p)
    for optimiser in moved_by:
        optimiser.step()
    values = torch.linalg.svdvals(before - model.layers[0].weight) / (0.5 * 0.2 * 5**0.5)
    assert values.max() / values.min() < 2.5 and 0.6 < values.mean() < 1.3
    gradient = torch.linalg.svdvals(model.layers[0].weight.grad)
    assert gradient.max() / gradient.min() > 10  # what Muon was given was far from even


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (5, 5)])
def test_muon_is_torchs_to_the_last_bit_in_bf16_and_nearly_so_in_fp32(shape, precision):
    torch.manual_seed(0)
    ours, theirs = (nn.Parameter(w) for w in torch.randn(shape).expand(2, *shape).clone())
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    moved_by = [
        Muon([ours], 0.1, 0.3, dtype),
        torch.optim.Muon([theirs], 0.1, 0.3, adjust_lr_fn="match_rms_adamw"),
    ]
    for _ in range(3):
        ours.grad = torch.randn(shape)
        theirs.grad = ours.grad.clone()
        for optimiser in moved_by:
            optimiser.step()
    assert torch.equal(ours, theirs) if precision == "bf16" else torch.allclose(ours, theirs, atol=5e-3)


def test_orthogonal_sends_each_singular_value_through_the_polynomial_five_times():
    m = torch.randn(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    u, s, v = torch.linalg.svd(m, full_matrices=False)
    s = s / s.norm()
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    assert torch.allclose(orthogonal(m), u @ s.diag() @ v, atol=1e-12)
    assert torch.allclose(orthogonal(m.T), orthogonal(m).T, atol=1e-12)
    assert torch.equal(orthogonal(torch.zeros(3, 2)), torch.zeros(3, 2))


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp32", torch.float32)])
def test_muon_computes_in_the_precision_of_the_run(tmp_path, monkeypatch, precision, dtype):
    used = set()

    def noted(matrix):
        used.add(matrix.dtype)
        return orthogonal(matrix)

    monkeypatch.setattr(importlib.import_module(Muon.__module__), "orthogonal", noted)
    tiny.run(tmp_path, optimizer="muon", precision=precision, updates=2)
    assert used == {dtype}


# --- Exact resume -------------------------------------------------------------------------------------------


class Broken(Exception):
    pass


def breaking_off_at(step):
    """A validation that ends the run as a crash would, with the step's own checkpoint not yet written."""
    left = itertools.count(1)

    def validate(model):
        torch.rand(3)
        if next(left) == step:
            raise Broken
        return tiny.mean_loss(model)

    return validate


@pytest.mark.parametrize("optimizer, precision", [("muon", "bf16"), ("adamw", "fp32")])
def test_a_resumed_run_equals_the_run_left_alone_to_the_last_bit(tmp_path, optimizer, precision):
    options = {"updates": 23, "every": 4, "log_every": 3, "keep": 3}
    options |= {"optimizer": optimizer, "precision": precision}
    alone, result = tiny.run(tmp_path / "alone", validate=tiny.mean_loss, **options)
    for n in (1, 2, 3):
        with pytest.raises(Broken):
            tiny.run(tmp_path / "broken", validate=breaking_off_at(n), **options)
    resumed, other = tiny.run(tmp_path / "broken", validate=tiny.mean_loss, **options)
    assert same(resumed.state_dict(), alone.state_dict())
    assert timeless(tmp_path / "broken") == timeless(tmp_path / "alone")
    for name in ("best.pt", "average.pt", "snapshots/000000020.pt"):
        assert same(load(tmp_path / "broken" / name)["model"], load(tmp_path / "alone" / name)["model"])
    assert (other.steps, other.tokens, other.used) == (23, result.tokens, result.used)


def test_it_resumes_with_the_weights_of_the_first_call_and_not_with_those_it_is_given(tmp_path):
    alone, _ = tiny.run(tmp_path / "alone")
    with pytest.raises(Broken):
        tiny.run(tmp_path / "broken", validate=breaking_off_at(1))
    other = tiny.Tiny(seed=7)
    fit(
        other,
        tiny.batches(),
        tiny.loss,
        tmp_path / "broken",
        updates=23,
        lr=0.02,
        every=5,
        precision="fp32",
    )
    assert same(other.state_dict(), alone.state_dict())


CHANGES = [
    {"optimizer": "adamw"},
    {"lr": 0.03},
    {"adamw_lr": 0.01},
    {"weight_decay": 0.1},
    {"clip": 0.5},
    {"schedule": "noam"},
    {"warmup": 0.1},
    {"cooldown": 0.1},
    {"precision": "bf16"},
    {"seed": 1},
    {"every": 7},
    {"better": max},
    {"keep": 2},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_a_run_is_not_resumed_with_another_argument(tmp_path, change):
    tiny.run(tmp_path, updates=3)
    ((name, value),) = change.items()
    was = {"lr": 0.02, "every": 5, "precision": "fp32", "better": "min"}
    was = json.dumps(was.get(name, inspect.signature(fit).parameters[name].default))
    now = json.dumps("max" if value is max else value)
    with pytest.raises(CheckpointError, match=re.escape(f"other arguments: {name} was {was} and is {now}. ")):
        tiny.run(tmp_path, **change)
    assert len(tiny.losses(tmp_path)) == 3


@pytest.mark.parametrize("change", [{"n_tokens": 31}, {"n": 40}, {"n": 7}], ids=str)
def test_a_run_is_not_resumed_with_other_batches(tmp_path, change):
    tiny.run(tmp_path, updates=12)
    with pytest.raises(CheckpointError, match=r"batches was \"\d+ batches, .* and is \"\d+ batches"):
        tiny.run(tmp_path, **change)


def test_what_may_change_in_a_resumed_run(tmp_path):
    tiny.run(tmp_path, updates=3)
    free = {"updates": 9, "minutes": 50.0, "patience": 3, "log_every": 2, "validate": tiny.mean_loss}
    _, result = tiny.run(tmp_path, **free, micro_batches=2, sharded=True)
    assert result.steps == 9
    _, result = tiny.run(tmp_path, updates=11, precision="auto")  # it goes on as it began
    assert result.steps == 11
    parameters = inspect.signature(fit).parameters
    named = {"updates", "minutes", "patience", "checkpoint_minutes", "log_every", "validate"}
    named |= {"micro_batches", "device", "sharded"}
    fixed = {name for change in CHANGES for name in change}
    assert named | fixed | {"model", "batches", "loss", "folder", "fingerprint"} == set(parameters)
    words = re.search(r"A resumed run may change: (.*?)\.\n", fit.__doc__, re.DOTALL)[1]
    assert all(re.search(rf"\b{name}\b", words) for name in named)


def test_a_key_of_a_later_version_does_not_make_a_checkpoint_a_stranger(tmp_path):
    """What a checkpoint does not know had its default; what this version does not know is left out."""
    tiny.run(tmp_path, updates=3, fingerprint="f")
    path = tmp_path / "checkpoint.pt"
    saved = load(path)
    for name in ("warmup", "weight_decay", "better"):
        del saved["arguments"][name]
    del saved["state"]["misses"]
    saved["arguments"]["of a later version"] = saved["state"]["of a later version"] = 3
    save(path, saved, "f")
    with pytest.raises(CheckpointError, match=r"warmup was 0\.05 and is 0\.2"):
        tiny.run(tmp_path, warmup=0.2, fingerprint="f")
    _, result = tiny.run(tmp_path, updates=5, fingerprint="f")
    assert result.steps == 5 and TrainState.of(None) == TrainState()


def test_a_run_that_has_ended_stays_as_it_is(tmp_path):
    model, result = tiny.run(tmp_path, validate=tiny.mean_loss, keep=2)
    lines = timeless(tmp_path)
    again, other = tiny.run(tmp_path, validate=tiny.mean_loss, keep=2)
    assert same(again.state_dict(), model.state_dict()) and timeless(tmp_path) == lines
    assert (other.steps, other.value, other.ended) == (result.steps, result.value, result.ended)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_any_file_loses_nothing(tmp_path, monkeypatch, moment):
    options = {"updates": 7, "every": 2, "keep": 2, "validate": tiny.mean_loss}
    alone, _ = tiny.run(tmp_path / "alone", **options)
    replace, n, broken = os.replace, 0, True

    def crashing(one, two, calls, n):
        crash = next(calls) == n
        if not crash or moment == "after":
            replace(one, two)
        if crash:
            raise Broken

    while broken:
        n, broken, folder = n + 1, False, tmp_path / f"file {n}"
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", partial(crashing, calls=itertools.count(1), n=n))
            try:
                tiny.run(folder, **options)
            except Broken:
                broken = True
        resumed, _ = tiny.run(folder, **options)
        assert same(resumed.state_dict(), alone.state_dict()) and timeless(folder) == timeless(
            tmp_path / "alone"
        )
        names = [sorted(path.name for path in run.rglob("*")) for run in (folder, tmp_path / "alone")]
        assert names[0] == names[1]
    assert n > 15  # the log, six checkpoints, the best, four snapshots, the average, the weights


@pytest.mark.soak
def test_kill_9_at_twenty_random_moments_loses_nothing(tmp_path):
    rng, seen = random.Random(0), set()
    options = {"updates": 200, "every": 3, "keep": 2}
    alone, result = tiny.run(tmp_path / "alone", **options)
    for _ in range(20):
        ready = tiny.processes.Event()
        process = tiny.start(tiny.run, tmp_path / "killed", ready=ready, **options)
        ready.wait(5)  # in vain if the run has come to its end
        time.sleep(rng.uniform(0.0, 2 * result.seconds / 20))
        process.kill()
        process.join()
        seen.add(load(tmp_path / "killed" / "checkpoint.pt")["state"]["step"])
    assert len(seen) > 5, f"the kills came after steps {sorted(seen)}: they show little"
    resumed, _ = tiny.run(tmp_path / "killed", **options)
    assert same(resumed.state_dict(), alone.state_dict())
    assert timeless(tmp_path / "killed") == timeless(tmp_path / "alone")


def test_a_run_goes_on_in_the_precision_in_which_it_began(tmp_path, monkeypatch):
    with pytest.raises(Broken):
        tiny.run(tmp_path, validate=breaking_off_at(2))
    monkeypatch.setattr(engine.loop, "choose_precision", lambda *_: "bf16")
    tiny.run(tmp_path, precision="auto")
    assert load(tmp_path / "checkpoint.pt")["state"]["precision"] == "fp32"
    with pytest.raises(Broken):
        tiny.run(tmp_path / "new", precision="auto", validate=breaking_off_at(1))
    assert load(tmp_path / "new" / "checkpoint.pt")["state"]["precision"] == "bf16"


# --- Accidents ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ENDING)
def test_ctrl_c_finishes_the_update_saves_and_says_where(tmp_path, monkeypatch, number):
    before, calls = signal.getsignal(number), itertools.count(1)
    if before == signal.SIG_IGN:
        pytest.skip("ignored by whoever started these tests, as under nohup")
    alone, _ = tiny.run(tmp_path / "alone")

    def interrupted_loss(model, batch, plain=tiny.loss):
        if next(calls) == 8:
            signal.raise_signal(number)
        return plain(model, batch)

    with monkeypatch.context() as patch:
        patch.setattr(tiny, "loss", interrupted_loss)
        with pytest.raises(Interrupted, match=r"after step 8\..*checkpoint\.pt") as caught:
            tiny.run(tmp_path / "stopped")
    assert isinstance(caught.value, KeyboardInterrupt) and caught.value.signal == number
    assert signal.getsignal(number) is before
    assert load(tmp_path / "stopped" / "checkpoint.pt")["state"]["step"] == 8
    assert (
        load_file(tmp_path / "stopped" / "model.safetensors").keys()
        == load_file(tmp_path / "alone" / "model.safetensors").keys()
    )
    resumed, _ = tiny.run(tmp_path / "stopped")
    assert same(resumed.state_dict(), alone.state_dict())


@pytest.mark.parametrize("kind, micro_batches", [("Tiny", 3), ("Plain", 2)])
def test_a_signal_between_two_micro_batches_gives_up_the_step_as_if_it_had_not_begun(
    tmp_path, monkeypatch, kind, micro_batches
):
    """Dropout has drawn, buffers have moved, gradients are there: none of it is left."""
    alone, _ = tiny.run(tmp_path / "alone", kind, micro_batches=micro_batches)
    calls = itertools.count(1)

    def interrupted_loss(model, batch, plain=tiny.loss):
        if next(calls) == 7 * micro_batches + 1:  # the first part of the eighth step
            signal.raise_signal(signal.SIGTERM)
        return plain(model, batch)

    with monkeypatch.context() as patch:
        patch.setattr(tiny, "loss", interrupted_loss)
        with pytest.raises(Interrupted, match=r"after step 7\."):
            tiny.run(tmp_path / "stopped", kind, micro_batches=micro_batches)
    assert next(calls) == 7 * micro_batches + 2  # no further part was computed
    resumed, _ = tiny.run(tmp_path / "stopped", kind, micro_batches=micro_batches)
    assert same(resumed.state_dict(), alone.state_dict())
    assert timeless(tmp_path / "stopped") == timeless(tmp_path / "alone")


def test_a_micro_batch_without_rows_is_not_computed(tmp_path, monkeypatch):
    calls, plain = [], tiny.loss
    monkeypatch.setattr(tiny, "loss", lambda model, batch: (calls.append(batch), plain(model, batch))[1])
    tiny.run(tmp_path, n_tokens=11, micro_batches=100_000, updates=17)
    assert len(calls) == sum(len(indices) for indices in every_epoch(tiny.batches(11), 17))


def every_epoch(made, n):
    """The first n batches of a run."""
    return [indices for k in range(n) for indices in made.epoch(k)][:n]


def test_a_hangup_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup has it
    try:
        with Signals() as signals:
            signal.raise_signal(signal.SIGHUP)
            assert not signals.caught and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_checkpoint_by_the_clock_changes_nothing_but_what_is_lost(tmp_path, monkeypatch):
    alone, _ = tiny.run(tmp_path / "alone", every=1000)
    saved, plain = [], engine.run.save

    def noted(path, checkpoint, fingerprint):
        saved.append((path.name, checkpoint.get("state", {}).get("step")))
        plain(path, checkpoint, fingerprint)

    monkeypatch.setattr(engine.run, "save", noted)
    model, _ = tiny.run(tmp_path / "often", every=1000, checkpoint_minutes=1e-9)
    assert [step for name, step in saved if name == "checkpoint.pt"] == [*range(24), 23]
    assert same(model.state_dict(), alone.state_dict()) and timeless(tmp_path / "often") == timeless(
        tmp_path / "alone"
    )
    saved.clear()
    tiny.run(tmp_path / "seldom", every=1000, checkpoint_minutes=50)
    assert [step for name, step in saved if name == "checkpoint.pt"] == [0, 23]


def test_a_loss_that_is_no_number_is_not_saved_by_the_clock(tmp_path, monkeypatch):
    calls, plain = itertools.count(1), tiny.loss
    monkeypatch.setattr(
        tiny, "loss", lambda model, batch: plain(model, batch) * (math.nan if next(calls) > 7 else 1.0)
    )
    with pytest.raises(ValueError, match="no longer a finite number"):
        tiny.run(tmp_path, every=1000, log_every=1000, checkpoint_minutes=1e-9)
    assert load(tmp_path / "checkpoint.pt")["state"]["step"] == 7


def test_a_second_ctrl_c_acts_at_once_unless_it_is_the_first_one_handed_on():
    with Signals() as signals:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        signals.when -= 2
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_full_disk_ends_the_run_and_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    alone, _ = tiny.run(tmp_path / "alone")
    fsync, left = os.fsync, itertools.count(1)

    def full(number):
        if next(left) > 12:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(number)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(CheckpointError, match="No space left on device"):
            tiny.run(tmp_path / "full")
    step = load(tmp_path / "full" / "checkpoint.pt")["state"]["step"]
    assert 0 < step < 23 and not list((tmp_path / "full").glob("*.part"))
    resumed, _ = tiny.run(tmp_path / "full")
    assert same(resumed.state_dict(), alone.state_dict())


def test_a_checkpoint_of_another_recipe_or_a_cut_one_is_refused(tmp_path):
    tiny.run(tmp_path, fingerprint="one")
    model = tiny.Tiny(seed=7)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for words, damage in (("'one'.*'two'", False), ("is cut", True)):
        path = tmp_path / "checkpoint.pt"
        if damage:
            path.write_bytes(path.read_bytes()[:1999])
        with pytest.raises(CheckpointError, match=words):
            fit(model, tiny.batches(), tiny.loss, tmp_path, updates=23, fingerprint="two", precision="fp32")
    assert same(model.state_dict(), before)


def test_a_loss_that_is_no_number_ends_the_run_before_it_is_saved(tmp_path, monkeypatch):
    calls = itertools.count(1)
    plain = tiny.loss
    monkeypatch.setattr(
        tiny, "loss", lambda model, batch: plain(model, batch) * (math.nan if next(calls) == 8 else 1.0)
    )
    with pytest.raises(ValueError, match=r"no longer a finite number, after step 5 and until step 10"):
        tiny.run(tmp_path, log_every=5)
    saved = load(tmp_path / "checkpoint.pt")
    assert saved["state"]["step"] == 5
    assert all(torch.isfinite(tensor).all() for tensor in saved["model"].values())


# --- The folder ---------------------------------------------------------------------------------------------


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["best.pt", "snapshots/000000005.pt", "thesis.txt"])
def test_a_folder_that_holds_something_and_no_mark_is_left_alone(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine", encoding="utf-8")
    with pytest.raises(
        ValueError, match=f"is no folder of a training: it holds {Path(name).parts[0]} and no"
    ):
        tiny.run(tmp_path)
    assert names(tmp_path) == [str(Path(name))] and (tmp_path / name).read_text(encoding="utf-8") == "mine"


def test_a_new_run_in_its_own_folder_moves_aside_what_an_old_one_has_left_and_nothing_else(tmp_path, capsys):
    tiny.run(tmp_path, keep=2, validate=tiny.mean_loss)
    (tmp_path / "checkpoint.pt").unlink()
    for name in ("snapshots/good.pt", "snapshots/7.pt", "notes.txt", "checkpoint.pt.77-ab.part"):
        (tmp_path / name).write_text("mine", encoding="utf-8")
    old = ["best.pt", "average.pt", "model.safetensors", "log.jsonl", "snapshots/000000020.pt"]
    before = {name: (tmp_path / name).read_bytes() for name in old}
    tiny.run(tmp_path, updates=3)
    assert f"is in {tmp_path / 'earlier-1'} now" in capsys.readouterr().out
    assert {"best.pt", "average.pt", "snapshots/000000020.pt"}.isdisjoint(names(tmp_path))
    assert all((tmp_path / "earlier-1" / name).read_bytes() == before[name] for name in old)
    assert "checkpoint.pt.77-ab.part" not in names(tmp_path)  # of a run that was killed
    assert {"notes.txt", "snapshots/good.pt", "snapshots/7.pt"} <= set(names(tmp_path))
    (tmp_path / "checkpoint.pt").unlink()
    tiny.run(tmp_path, updates=3)
    assert (tmp_path / "earlier-2" / "model.safetensors").is_file()


def test_a_damaged_checkpoint_is_never_started_over(tmp_path):
    tiny.run(tmp_path, updates=3, validate=tiny.mean_loss)
    path = tmp_path / "checkpoint.pt"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    before = names(tmp_path)
    with pytest.raises(CheckpointError, match=r"is damaged.*give it another name.*earlier-1.*not deleted"):
        tiny.run(tmp_path, updates=5)
    assert names(tmp_path) == before


def test_a_file_of_another_name_among_the_snapshots_does_not_stop_a_resume(tmp_path):
    with pytest.raises(Broken):
        tiny.run(tmp_path, keep=2, validate=breaking_off_at(3))
    for name in ("good.pt", "zzz.pt", "5.pt"):
        (tmp_path / "snapshots" / name).write_bytes(b"no checkpoint")
    _, result = tiny.run(tmp_path, keep=2)
    assert result.used == "average" and (tmp_path / "snapshots" / "good.pt").exists()


def test_a_child_does_not_hold_the_lock_after_the_death_of_its_parent(tmp_path):
    """A killed run leaves a child behind, forked while it trained: the folder is free all the same."""
    ready, done = tiny.processes.Event(), tiny.processes.Event()
    first = tiny.start(with_child, tmp_path, ready, done)
    assert ready.wait(200)
    with pytest.raises(ValueError, match="Another run is writing"):
        tiny.run(tmp_path)
    first.kill()
    first.join()
    child = int((tmp_path / "child").read_text(encoding="utf-8"))
    os.kill(child, 0)  # it is alive
    _, result = tiny.run(tmp_path, updates=2, every=1)
    assert result.steps == 2
    os.kill(child, signal.SIGKILL)


def with_child(folder, ready, done):
    """Train in this folder, and fork on the way."""

    def forking(model):
        pid = os.fork()
        if pid == 0:
            time.sleep(300)
            os._exit(0)
        (folder / "child").write_text(str(pid), encoding="utf-8")
        ready.set()
        done.wait(100)
        return 1.0

    tiny.run(folder, updates=2, every=1, validate=forking)


@pytest.mark.parametrize("number, refused", [(errno.ENOLCK, False), (errno.EIO, True)])
def test_a_lock_that_cannot_be_had_is_said(tmp_path, monkeypatch, capsys, number, refused):
    def none(file):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(engine.folder, "lock", none)
    if refused:
        with pytest.raises(ValueError, match=r"\.heed cannot be locked: Input/output error"):
            tiny.run(tmp_path)
    else:
        tiny.run(tmp_path, updates=1)
        assert "has no locks (No locks available)" in capsys.readouterr().err


def test_a_folder_that_cannot_be_one_is_said_in_words(tmp_path):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match="file cannot be the folder of a training: File exists"):
        tiny.run(tmp_path / "file")


def test_a_folder_that_is_removed_while_it_trains_is_not_a_full_disk(tmp_path, monkeypatch):
    def removing(model):
        shutil.rmtree(tmp_path / "run")
        return 1.0

    with pytest.raises(CheckpointError, match=r"there is no folder .*run \(any more\)") as said:
        tiny.run(tmp_path / "run", validate=removing)
    assert "Make room" not in str(said.value)


def held(folder, ready, done):
    """Train in this folder until `done` is set."""

    def waiting(model):
        ready.set()
        done.wait(100)
        return 1.0

    tiny.run(folder, updates=2, every=1, validate=waiting)


def test_a_second_run_in_the_same_folder_is_refused_and_the_first_one_goes_on(tmp_path):
    ready, done = tiny.processes.Event(), tiny.processes.Event()
    first = tiny.start(held, tmp_path, ready, done)
    assert ready.wait(200)
    before = names(tmp_path)
    with pytest.raises(ValueError, match=r"^Another run is writing to .*, or train in another folder\.$"):
        tiny.run(tmp_path)
    assert names(tmp_path) == before
    done.set()
    first.join(200)
    assert first.exitcode == 0 and tiny.log(tmp_path)[-1]["ended"] == "updates"
    tiny.run(tmp_path, updates=2, every=1)  # the lock has ended with its run


def test_a_run_that_was_killed_leaves_no_lock_behind(tmp_path):
    """One kill -9; the test with twenty is for a longer sitting."""
    alone, _ = tiny.run(tmp_path / "alone", updates=7, every=1)
    ready, done = tiny.processes.Event(), tiny.processes.Event()
    process = tiny.start(held_at_first, tmp_path / "killed", ready, done)
    assert ready.wait(200)
    process.kill()
    process.join()
    assert (tmp_path / "killed" / MARK).exists()
    resumed, _ = tiny.run(tmp_path / "killed", updates=7, every=1)
    assert same(resumed.state_dict(), alone.state_dict())


def held_at_first(folder, ready, done):
    """Train in this folder and wait in the third validation."""
    left = itertools.count(1)

    def waiting(model):
        if next(left) == 3:
            ready.set()
            done.wait(100)
        return 1.0

    tiny.run(folder, updates=7, every=1, validate=waiting)


# --- Validation, patience, average --------------------------------------------------------------------------


@pytest.mark.parametrize("better", [min, max])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_validation_that_is_no_finite_number_is_never_the_best(tmp_path, better, bad):
    options = {"updates": 6, "every": 2, "keep": 2, "better": better}
    model, result = tiny.run(tmp_path / "a", validate=scripted([bad, 5.0, bad, bad]), **options)
    assert (result.used, result.value) == ("best", 5.0)
    assert same(model.state_dict(), load(tmp_path / "a" / "best.pt")["model"])
    assert load(tmp_path / "a" / "best.pt")["step"] == 4
    _, result = tiny.run(tmp_path / "b", validate=scripted([bad, bad, bad, 5.0]), **options)
    assert (result.used, result.value) == ("average", 5.0) and not (tmp_path / "b" / "best.pt").exists()
    _, result = tiny.run(tmp_path / "c", validate=scripted([bad] * 4), **options)
    assert result.used == "last"
    _, result = tiny.run(tmp_path / "d", validate=scripted([bad] * 99), **options | {"patience": 2})
    assert (result.ended, result.steps) == ("patience", 4)


def scripted(values):
    """A validation that says these values, one after another."""
    values = iter(values)
    return lambda model: next(values)


@pytest.mark.parametrize("better, sign", [(min, 1), (max, -1)])
def test_patience_ends_the_run_and_the_best_weights_are_used(tmp_path, better, sign):
    values = [sign * value for value in (5.0, 3.0, 3.0, 4.0, 1.0)]
    options = {"updates": 100, "every": 4, "patience": 2, "better": better}
    model, result = tiny.run(tmp_path, validate=scripted(values), **options)
    assert (result.ended, result.steps) == ("patience", 16)
    assert (result.used, result.value) == ("best", sign * 3.0)
    best = load(tmp_path / "best.pt")
    assert best["step"] == 8 and best["value"] == sign * 3.0
    assert same(model.state_dict(), best["model"])
    stored = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(tensor, best["model"][name]) for name, tensor in stored.items())


def test_the_average_is_of_the_last_snapshots_buffers_included(tmp_path):
    model, result = tiny.run(tmp_path, updates=23, every=5, keep=3)
    snapshots = sorted((tmp_path / "snapshots").iterdir())
    assert [int(path.stem) for path in snapshots] == [15, 20, 23]
    mean = average(load(path)["model"] for path in snapshots)
    assert result.used == "average" and same(model.state_dict(), mean)
    assert same(load(tmp_path / "average.pt")["model"], mean)
    assert torch.equal(load_file(tmp_path / "model.safetensors")["scale"], mean["scale"])
    assert not torch.equal(mean["scale"], weights(tmp_path)["scale"])


@pytest.mark.parametrize("last, mean, used", [(2.0, 1.0, "average"), (1.0, 2.0, "last")])
def test_with_a_validation_the_better_of_average_and_last_is_used(tmp_path, last, mean, used):
    values = [3.0, 3.0, 3.0, 3.0, last, mean]
    model, result = tiny.run(tmp_path, updates=23, every=5, keep=3, validate=scripted(values))
    assert (result.used, result.value) == (used, min(last, mean))
    expected = load(tmp_path / "average.pt")["model"] if used == "average" else weights(tmp_path)
    assert same(model.state_dict(), expected)


def test_looking_does_not_change_the_run(tmp_path):
    def curious(model):
        assert not model.training and not torch.is_grad_enabled()
        return float(torch.rand(())) + random.random() + float(tiny.mean_loss(model)["loss"])

    tiny.run(tmp_path / "blind")
    tiny.run(tmp_path / "seeing", validate=curious, keep=2, every=3)
    assert same(weights(tmp_path / "blind"), weights(tmp_path / "seeing"))
    assert tiny.losses(tmp_path / "blind") == tiny.losses(tmp_path / "seeing")


def test_it_leaves_the_rng_states_alone_and_has_a_seed_of_its_own(tmp_path):
    random.seed(5), torch.manual_seed(5)
    expected = random.random(), torch.rand(3)
    random.seed(5), torch.manual_seed(5)
    model = tiny.Tiny()
    torch.manual_seed(5)
    fit(model, tiny.batches(), tiny.loss, tmp_path / "a", updates=5, precision="fp32")
    assert random.random() == expected[0] and torch.equal(torch.rand(3), expected[1])
    runs = [tiny.run(tmp_path / f"seed {i}", updates=5, seed=seed)[0] for i, seed in enumerate((0, 0, 1))]
    assert same(runs[0].state_dict(), runs[1].state_dict())
    assert not same(runs[0].state_dict(), runs[2].state_dict())


# --- Time, devices, words -----------------------------------------------------------------------------------


def test_minutes_end_a_run_and_drive_the_learning_rate(tmp_path, monkeypatch):
    clock = itertools.count()  # every look at it takes a second
    for module in (engine.loop, engine.run):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    _, result = tiny.run(tmp_path, updates=None, minutes=1, warmup=0.1, log_every=100, every=100)
    assert result.ended == "minutes" and 60 <= result.seconds <= 62
    tiny.run(tmp_path / "both", updates=7, minutes=1, warmup=0.0)
    rates = [line["lr"] for line in tiny.log(tmp_path / "both") if "lr" in line]
    assert len(rates) == 7 and rates == sorted(rates, reverse=True)
    assert tiny.log(tmp_path / "both")[-1]["ended"] == "updates"


def test_the_log_says_where_and_how_and_every_line_is_json(tmp_path):
    tiny.run(tmp_path, validate=tiny.mean_loss, keep=2)
    first, *lines = tiny.log(tmp_path)
    assert first["parameters"] == 138 and (first["device"], first["precision"]) == ("cpu", "fp32")
    assert [line["step"] for line in lines if "loss" in line] == list(range(1, 24))
    assert [line["step"] for line in lines if "validation" in line] == [5, 10, 15, 20, 23, 23]
    assert lines[-1]["ended"] == "updates"
    assert all(line["tokens_per_second"] > 0 and line["norm"] > 0 for line in lines if "loss" in line)
    assert lines[-4]["tokens"] == sum(
        tiny.batches().batch(i).n_tokens for i in every_epoch(tiny.batches(), 23)
    )


def test_device_and_precision_are_said_once_and_nothing_else(tmp_path, capfd):
    tiny.run(tmp_path)
    assert capfd.readouterr() == ("Training 138 parameters: cpu, fp32.\n", "")


def test_the_progress_line_shows_loss_speed_and_time_left(capsys, monkeypatch):
    with engine.log.Screen() as screen:
        screen.terminal = True
        screen.line(0.25, 1200, 3.14159, 6400.4, 100.0)
        screen.value = 2.5
        screen.line(0.5, 1300, 3.0, 6400.4, 7300.0)
    shown = capsys.readouterr().err
    assert "█████·" in shown and "step 1,200  loss 3.142  6,400 tokens/s  5:00 left" in shown
    assert "loss 3.000  validation 2.500  6,400 tokens/s  2:01:40 left" in shown


def test_where_there_is_no_terminal_there_is_a_line_a_minute(capsys, monkeypatch):
    clock = iter([0.0, 30.0, 61.0, 61.0, 90.0, 125.0, 125.0])
    monkeypatch.setattr("heed.train.time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(engine.log, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with engine.log.Screen() as screen:
        for step in (1, 2, 3, 4):
            screen.line(0.25, step, 3.0, 6400.4, 100.0)
    shown = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[0] for line in shown] == ["step 2", "step 4"]


def test_that_nobody_reads_what_is_said_ends_no_training(tmp_path, monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", encoding="utf-8") as nowhere:
        monkeypatch.setattr("sys.stdout", nowhere)
        _, result = tiny.run(tmp_path, updates=3)
    assert result.steps == 3


@pytest.mark.parametrize(("all_four", "two", "one", "fastest"), [(1, 2, 3, 4), (3, 1, 2, 2), (3, 2, 1, 1)])
def test_as_many_threads_as_are_fastest(all_four, two, one, fastest, monkeypatch):
    taken = {4: all_four, 2: two, 1: one}
    monkeypatch.setattr(engine.devices, "seconds_a_product", lambda: taken[torch.get_num_threads()])
    torch.set_num_threads(4)
    assert engine.choose_threads() == fastest
    assert torch.get_num_threads() == 4  # choosing alone changes nothing


def test_one_thread_is_not_measured(monkeypatch):
    monkeypatch.setattr(engine.devices, "seconds_a_product", None)
    torch.set_num_threads(1)
    assert engine.choose_threads() == 1


def test_the_time_of_a_product_is_a_mean_over_a_while(monkeypatch):
    now = iter([5.0, 5.0, 6.0, 7.0, 8.0, 9.0, 9.5])
    monkeypatch.setattr(engine.devices.time, "perf_counter", lambda: next(now))
    assert engine.devices.seconds_a_product(3, 2, measured=3.5) == (9.5 - 5.0) / 4


def test_bf16_is_taken_where_it_is_faster(monkeypatch):
    cpu = torch.device("cpu")
    for bf16, expected in ((1.0, "bf16"), (3.0, "fp32")):
        monkeypatch.setattr(
            engine.precision, "seconds", lambda device, enabled, bf16=bf16: bf16 if enabled else 2.0
        )
        assert choose_precision(cpu, "auto") == expected
        assert choose_precision(cpu, "bf16") == "bf16" and choose_precision(cpu, "fp32") == "fp32"

    def none(device, enabled):
        raise RuntimeError("no bfloat16")

    monkeypatch.setattr(engine.precision, "seconds", none)
    assert choose_precision(cpu, "auto") == "fp32"
    with pytest.raises(ValueError, match="has no bfloat16"):
        choose_precision(cpu, "bf16")


def test_in_bf16_products_are_made_in_bf16_and_weights_stay_float32(tmp_path, monkeypatch):
    seen, plain = set(), tiny.loss

    def watched(model, batch):
        seen.add(model(batch.target_in).dtype)
        return plain(model, batch)

    monkeypatch.setattr(tiny, "loss", watched)
    model, _ = tiny.run(tmp_path, updates=3, precision="bf16")
    assert seen == {torch.bfloat16} and model.table.weight.dtype == torch.float32


def test_bf16_rounds_the_weights_for_the_step_and_the_gradients_come_back_in_float32():
    module = nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        module.weight.fill_(1 + 2**-10)  # too fine for bfloat16
    y = InBFloat16(module)(torch.ones(1, 3, dtype=torch.bfloat16))
    assert y.dtype == torch.bfloat16 and y.tolist() == [[3.0, 3.0]]
    y.sum().backward()
    assert module.weight.grad.dtype == torch.float32 and module.weight[0, 0].item() == 1 + 2**-10


def test_what_is_not_sharded_is_whole_and_stays_so():
    tensor = torch.rand(3, 2)
    assert whole(tensor) is tensor and shard(tensor, torch.rand(3, 2)) is tensor


def test_a_batch_goes_to_the_device_and_a_processor_needs_no_waiting():
    batch = tiny.batches().batch([0, 1])
    moved = engine.batch_to(batch, torch.device("meta"))
    assert (
        moved.source.device.type == moved.target.device.type == "meta" and batch.source.device.type == "cpu"
    )
    assert synchronize(torch.device("cpu")) is None


def test_a_gpu_gets_its_batch_from_memory_that_stays_in_its_place(monkeypatch):
    """There need not be one here: what torch is asked for is written down."""
    asked = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda x: [asked.append("pin"), x][1])
    monkeypatch.setattr(torch.Tensor, "to", lambda x, *where, **how: [asked.append((*where, how)), x][1])
    engine.batch_to(tiny.batches().batch([0, 1]), torch.device("cuda"))
    assert asked == ["pin"] * 2 + [(torch.device("cuda"), {"non_blocking": True})] * 2
    engine.batch_to(tiny.batches().batch([0, 1]), torch.device("cpu"))
    assert asked[4:] == [(torch.device("cpu"), {"non_blocking": False})] * 2


@pytest.mark.parametrize(
    "options, words",
    [
        ({"updates": None}, "needs updates or minutes"),
        ({"updates": 0}, "updates must be a whole number from 1 on; got 0"),
        ({"updates": math.inf}, "updates must be a whole number from 1 on; got inf"),
        ({"checkpoint_minutes": 0}, "checkpoint_minutes must be positive; got 0"),
        ({"minutes": -3}, "minutes must be positive; got -3"),
        ({"lr": 0}, "lr must be positive; got 0"),
        ({"clip": 0.0}, "clip must be positive; got 0"),
        ({"micro_batches": 0}, "micro_batches must be a whole"),
        ({"every": 2.5}, "every must be a whole number from 1 on; got 2.5"),
        ({"patience": -1}, "patience must be a whole"),
        ({"keep": -1}, "keep must not be negative; got -1"),
        ({"better": abs}, "better must be min or max"),
        ({"warmup": 0.7, "cooldown": 0.4}, r"warmup=0\.7, cooldown=0\.4"),
        ({"optimizer": "sgd"}, "optimizer must be .* got 'sgd'"),
        ({"precision": "fp8"}, "precision must be .* got 'fp8'"),
    ],
)
def test_refusals(tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        tiny.run(tmp_path, **options)


def test_a_device_that_is_not_there_is_refused_and_the_best_one_is_chosen(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device().type == "cpu"
    with pytest.raises(ValueError, match="no device cuda here; available: cpu"):
        choose_device("cuda")
    with pytest.raises(ValueError, match="no device abacus here; available: cpu"):
        choose_device("abacus")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert (choose_device().type, choose_device("mps").type) == ("cuda", "mps")
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(ValueError, match="no device cuda:2 here; available: cuda, cuda:0, cuda:1, mps, cpu"):
        choose_device("cuda:2")


def test_a_line_that_was_cut_or_is_none_is_dropped_and_comes_again(tmp_path):
    with pytest.raises(Broken):
        tiny.run(tmp_path / "cut", validate=breaking_off_at(2))
    path = tmp_path / "cut" / "log.jsonl"
    path.write_text(path.read_text(encoding="utf-8")[:-17], encoding="utf-8")
    assert "step" in json.loads(path.read_text(encoding="utf-8").splitlines()[-2])
    with path.open("ab") as file:
        file.write(b'\n[1]\n{"step": null}\n"ended"\n\xff\xfe\n' + 5000 * b"[" + b"\n")
    tiny.run(tmp_path / "cut")
    assert [line["step"] for line in tiny.log(tmp_path / "cut") if "loss" in line] == list(range(1, 24))
