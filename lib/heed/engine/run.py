"""What is kept of a training: state, log, checkpoints, snapshots, validation, the weights to be used."""

import math
import random
import time
from dataclasses import dataclass, fields

import numpy as np
import torch

from heed.checkpoint import (
    DamagedError,
    average,
    load,
    rng_preserved,
    rng_state,
    save,
    save_weights,
    set_rng_state,
)
from heed.engine.arguments import described
from heed.engine.folder import set_aside, snapshot_name, snapshots
from heed.engine.log import Log, Screen, say
from heed.engine.parallel import whole
from heed.engine.precision import autocast
from heed.engine.signals import Interrupted


@dataclass
class TrainState:
    """Where a training stands, in numbers: what a checkpoint holds beside weights and RNG states."""

    precision: str = ""  # chosen once a run, by measurement; a resumed run computes as it began
    step: int = 0
    epoch: int = 0
    batch: int = 0  # the next one of this epoch
    tokens: int = 0
    logged_step: int = 0  # step and tokens at the latest line of the log
    logged_tokens: int = 0
    seconds: float = 0.0
    validated_step: int = 0  # the latest step that was validated and saved
    value: float | None = None  # what its validation gave
    best: float | None = None  # the best of all validations so far
    misses: int = 0  # how many in a row were not the best

    @classmethod
    def of(cls, saved):
        """The state in a checkpoint, or a new one for None. A field that is missing there has its default."""
        known = {field.name for field in fields(cls)}
        there = saved["state"].items() if saved else ()
        return cls(**{name: value for name, value in there if name in known})


def latest(folder, world, fingerprint):
    """What the checkpoint in this folder holds; None if rank 0 sees none."""
    path = folder / "checkpoint.pt"
    try:
        return load(path, fingerprint) if world.broadcast(path.is_file()) else None
    except DamagedError as error:
        raise DamagedError(
            f"{error} To start again, give it another name: what else is in the folder is then moved into "
            f"{folder / 'earlier-1'} (or -2, …), and not deleted."
        ) from error


def how_far(state, updates, minutes, patience):
    """The progress at the middle of the next update, from 0 to 1; and why the run is over, if it is."""
    by_step = 0.0 if updates is None else (state.step + 0.5) / updates
    by_clock = 0.0 if minutes is None else state.seconds / (60 * minutes)
    ends = {
        "updates": updates is not None and state.step >= updates,
        "minutes": by_clock >= 1,
        "patience": patience is not None and state.misses >= patience,
    }
    return min(1.0, max(by_step, by_clock)), next((why for why in ends if ends[why]), None)


def is_better(value, best, better):
    """Whether a validation's value beats the best one so far; NaN and infinity never do."""
    if value is None or not math.isfinite(value):
        return False
    return best is None or not math.isfinite(best) or (better(value, best) == value != best)


class Run:
    """What one process keeps of a training, and says of it. Rank 0 alone writes; it is a context.

    parallel: the model, as `parallelize` has made it
    state: a TrainState, which the loop moves on
    """

    def __init__(self, parallel, optimizers, state, world, folder, fingerprint):
        self.parallel, self.optimizers, self.state, self.world = parallel, optimizers, state, world
        self.model, self.folder, self.fingerprint = parallel.model, folder, fingerprint
        self.log, self.screen = None, Screen(world.rank == 0)
        exact = torch.float32 if world.device.type == "mps" else torch.float64
        self.sums = torch.zeros(2, dtype=exact, device=world.device)  # loss and norm since the last line

    def __enter__(self):
        self.screen.__enter__()
        return self

    def __exit__(self, *error):
        self.screen.__exit__(*error)
        if self.log:
            self.log.__exit__(*error)

    # --- Where it begins ----------------------------------------------------------------------------------

    def start(self, seed, arguments, plan):
        """Start from the weights that the model has. A checkpoint shows at once whether one can be saved."""
        self.arguments = arguments | {"batches": described(plan)}
        aside = set_aside(self.folder) if self.world.rank == 0 else None
        if aside:
            say(f"What an earlier training has left in {self.folder} is in {aside} now.")
        self.seed(seed)
        self.log = Log(self.folder, self.world.rank == 0)
        self.log.append(**self.facts(), seed=seed, torch=torch.__version__, threads=torch.get_num_threads())
        self.save()
        self.announce("")

    def resume(self, saved, seed):
        """Go on from a checkpoint."""
        state, self.arguments = self.state, saved["arguments"]
        self.parallel.load_state_dict(saved["model"])
        for optimizer, of_it in zip(self.optimizers, saved["optimizers"], strict=True):
            self.parallel.load_optimizer_state(optimizer, of_it)
        self.sums.copy_(saved["sums"] / self.world.size)
        for late in snapshots(self.folder):
            if int(late.stem) > state.step and self.world.rank == 0:
                late.unlink()
        self.seed(seed + state.step)
        if len(saved["rng"]) == self.world.size:  # with another number of processes dropout differs
            set_rng_state(saved["rng"][self.world.rank])
        self.log = Log(self.folder, self.world.rank == 0, state.step)
        self.announce(f", from step {state.step:,} on")

    def seed(self, seed):
        """Seed all random number generators; each rank's differently, so that dropout differs."""
        for seeded in (random.seed, np.random.seed, torch.manual_seed):
            seeded((seed + self.world.rank) % 2**32)

    def facts(self):
        """How large the model is, where and how it is trained."""
        return {
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "device": str(self.world.device),
            "precision": self.state.precision,
            "processes": self.world.size,
        }

    def announce(self, since):
        """Say once where and how this runs; the clock of the speed starts."""
        self.clock, self.saved_at = (self.state.tokens, time.monotonic()), self.state.seconds
        self.screen.value = self.state.value
        n, device, precision, processes = self.facts().values()
        many = f", {processes} processes" if processes > 1 else ""
        say(f"Training {n:,} parameters: {device}, {precision}{many}{since}.")

    # --- The log --------------------------------------------------------------------------------------------

    def add(self, loss, norm):
        """Count a step's loss, of this rank, and the norm of its gradient, of all ranks."""
        self.sums += torch.stack([loss, whole(norm) / self.world.size]).to(self.sums)

    def report(self, progress):
        """Append a line to the log: the means since the line before it."""
        state = self.state
        loss, norm = self.finite_sums()
        loss, norm = loss / (state.tokens - state.logged_tokens), norm / (state.step - state.logged_step)
        tokens, now = state.tokens - self.clock[0], time.monotonic()
        speed = tokens / max(now - self.clock[1], 1e-9)
        self.log.append(
            step=state.step,
            epoch=state.epoch,
            loss=loss,
            norm=norm,
            lr=self.optimizers[0].param_groups[0]["lr"],
            tokens=state.tokens,
            tokens_per_second=round(speed),
            seconds=round(state.seconds, 2),
        )
        self.screen.line(progress, state.step, loss, speed, state.seconds)
        self.sums.zero_()
        self.clock = state.tokens, now
        state.logged_step, state.logged_tokens = state.step, state.tokens

    def finite_sums(self):
        """Loss and norm of the gradient, of all ranks, since the last line. ValueError if not finite."""
        loss, norm = self.world.all_reduce(self.sums).tolist()
        if not np.isfinite(loss + norm):
            raise ValueError(
                f"The loss is no longer a finite number, after step {self.state.logged_step} and until step "
                f"{self.state.step}. The checkpoint is from before that. Try a lower lr, a longer warm-up."
            )
        return loss, norm

    # --- Validation, snapshots, checkpoints -----------------------------------------------------------------

    def validate_and_save(self, validate, better, keep):
        """Validate, keep the best, take a snapshot, save. None of this changes the run."""
        state, began = self.state, time.monotonic()
        self.finite_sums()
        weights = self.parallel.state_dict()
        if validate:
            state.value = self.screen.value = self.validated(validate, "last")
            state.misses += 1
            if is_better(state.value, state.best, better):
                state.best, state.misses = state.value, 0
                self.keep("best.pt", weights)
        if keep:
            (self.folder / "snapshots").mkdir(exist_ok=True)
            self.keep(f"snapshots/{snapshot_name(state.step)}", weights)
            for old in snapshots(self.folder)[:-keep]:
                if self.world.rank == 0:
                    old.unlink()
        state.validated_step = state.step
        self.save(weights)
        self.clock = self.clock[0], self.clock[1] + time.monotonic() - began

    def validated(self, validate, weights):
        """The value by which weights are compared; all that `validate` returns goes into the log."""
        with rng_preserved(), torch.no_grad(), autocast(self.world.device, self.state.precision):
            with self.parallel.whole_model() as model:
                said = validate(model)
        said = said if isinstance(said, dict) else {"value": said}
        said = self.world.broadcast({name: float(value) for name, value in said.items()})
        state = self.state
        self.log.append(
            step=state.step,
            epoch=state.epoch,
            seconds=round(state.seconds, 2),
            weights=weights,
            validation=said,
        )
        return next(iter(said.values()))

    def keep(self, name, weights):
        """Save these weights to a file of their own."""
        if self.world.rank == 0:
            kept = {"step": self.state.step, "value": self.state.value, "model": weights}
            save(self.folder / name, kept, self.fingerprint)

    def save_by_clock(self, minutes):
        """Save the checkpoint, if so many minutes have passed since the last one."""
        if minutes is not None and self.state.seconds - self.saved_at >= 60 * minutes:
            self.finite_sums()
            self.save()

    def save(self, weights=None):
        """Save the checkpoint: all that the next step depends on."""
        self.saved_at = self.state.seconds
        checkpoint = {
            "state": vars(self.state),
            "arguments": self.arguments,
            "model": weights or self.parallel.state_dict(),
            "optimizers": [self.parallel.optimizer_state(optimizer) for optimizer in self.optimizers],
            "sums": self.world.all_reduce(self.sums),
            "rng": self.world.all_gather(rng_state()),
        }
        if self.world.rank == 0:
            self.log.to_disk()
            save(self.folder / "checkpoint.pt", checkpoint, self.fingerprint)

    def before_step(self):
        """What a step changes before its update: all random states, and the model's buffers."""
        return rng_state(), {name: buffer.clone() for name, buffer in self.model.named_buffers()}

    def undo_step(self, before):
        """As if the step had not been begun."""
        set_rng_state(before[0])
        for name, buffer in self.model.named_buffers():
            if name in before[1] and before[1][name].shape == buffer.shape:
                buffer.copy_(before[1][name])
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def interrupted(self, signal):
        """Save all, and return what is to be raised."""
        self.finite_sums()
        self.save()
        self.save_weights()
        where = self.folder / "checkpoint.pt"
        text = f"Stopped after step {self.state.step:,}. {where} holds all: the same call resumes it."
        return Interrupted(text, signal)

    # --- Where it ends --------------------------------------------------------------------------------------

    def finish(self, ended, validate, better, keep):
        """Report and save what is not yet, then choose the weights. Returns their name and value."""
        if self.state.logged_step < self.state.step:
            self.report(1.0)
        if self.state.validated_step < self.state.step:
            self.validate_and_save(validate, better, keep)
        used, value = self.choose(validate, better, keep)
        self.log.append(step=self.state.step, ended=ended, used=used, value=value)
        return used, value

    def choose(self, validate, better, keep):
        """Give the model the weights that are to be used, and save them. Returns their name and value."""
        self.world.broadcast(None)  # now the files of rank 0 are there
        weights = {"last": {name: tensor.clone() for name, tensor in self.parallel.state_dict().items()}}
        values = {"last": self.state.value}
        if validate and (self.folder / "best.pt").is_file():
            kept = load(self.folder / "best.pt", self.fingerprint)
            weights["best"], values["best"] = kept["model"], kept["value"]
        recent = snapshots(self.folder)[-keep:] if keep else []
        if len(recent) > 1:
            weights["average"] = average(load(path, self.fingerprint)["model"] for path in recent)
            self.keep("average.pt", weights["average"])
            if validate:
                self.parallel.load_state_dict(weights["average"])
                values["average"] = self.validated(validate, "average")
        used = next(reversed(weights))
        if validate:
            used = "last"
            for name, value in values.items():
                if is_better(value, values[used], better):
                    used = name
        self.parallel.load_state_dict(weights[used])
        self.save_weights()
        return used, values.get(used)

    def save_weights(self):
        """Save the weights that the model has now as the ones to be used."""
        weights = self.parallel.state_dict()
        if self.world.rank == 0:
            save_weights(self.folder / "model.safetensors", self.model, weights, self.fingerprint)
