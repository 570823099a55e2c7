"""The loop: batches in, steps out, and what keeps a long run safe. A step is an update of the weights."""

import random
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from heed.checkpoint import (
    CheckpointError,
    average,
    load,
    random_state,
    restore_random_state,
    save,
    save_weights,
)
from heed.engine.devices import autocast, choose_precision
from heed.engine.log import Log, Screen
from heed.engine.models import Alone, Copied, Sharded, whole
from heed.engine.optimisers import compute_in, optimisers, set_rates
from heed.engine.processes import Team
from heed.engine.signals import Interrupted, Signals
from heed.schedule import inverse_root, trapezoid
from heed.speed import keep_memory


@dataclass(frozen=True)
class Result:
    """What has become of a training.

    steps: updates made, those before a resume included; epochs begun, tokens (real target tokens) and
        seconds likewise
    value: what `validate` gave for the weights in use, None without it
    used: which weights were chosen and are now in the model: "last", "best" or "average"
    ended: why it ended: "updates", "minutes" or "patience"
    """

    steps: int
    epochs: int
    tokens: int
    seconds: float
    value: float | None
    used: str
    ended: str


@dataclass
class Place:
    """Where a training stands, in numbers: what a checkpoint holds beside weights and chance."""

    precision: str = ""  # chosen once a run, by measurement; a resumed run computes as it began
    step: int = 0
    epoch: int = 0
    batch: int = 0  # the next one of this epoch
    tokens: int = 0
    said_step: int = 0  # step and tokens at the latest line of the log
    said_tokens: int = 0
    seconds: float = 0.0
    seen: int = 0  # the latest step that was validated and saved
    value: float | None = None  # what its validation gave
    best: float | None = None  # the best of all validations so far
    misses: int = 0  # how many in a row were not the best


def fit(
    model,
    batches,
    loss,
    folder,
    *,
    updates=None,
    minutes=None,
    optimiser="muon",
    rate=2e-3,
    rest_rate=None,
    decay=0.0,
    schedule="trapezoid",
    warmup=0.05,
    cooldown=None,
    clip=1.0,
    parts=1,
    precision="auto",
    compiled=False,
    sharded=False,
    device=None,
    seed=0,
    every=500,
    log_every=10,
    validate=None,
    better=min,
    patience=None,
    keep=0,
    fingerprint="",
):
    """Train a model in place, for so many updates or minutes, and keep in `folder` what is needed to go on.

    Called again with the same folder it goes on where the last checkpoint was made. With `updates` alone, a
    run that was killed and resumed ends with the same weights as one that was left alone, to the last bit.

    model: wherever it is; fit moves it to the device
    batches: a `heed.data.TokenBatches`, or what else has epoch(k), part(indices, i, n) and
        batch(indices), a dataclass with tensors and `n_tokens`, its real target tokens
    loss: loss(model, batch) -> the SUM of the loss over the batch's real target tokens. fit divides by the
        tokens of the whole step, so that it does not matter in how many parts and processes it is computed
    folder: gets log.jsonl, checkpoint.pt (the latest), best.pt, snapshots/, average.pt and model.safetensors,
        which is to be used; all processes must see it
    updates, minutes: where to end; one of them, or both and whichever comes first. How far the run has come,
        max(step / updates, elapsed / minutes), drives the rate. Minutes count from this call on, and those
        that were spent before a resume count, too; the last validation and the average come after them
    optimiser: "adamw"; or "muon" for the hidden matrices, and AdamW for embeddings, generator, norms, biases
    rate: the highest learning rate. Muon's is scaled to move a matrix as far as AdamW's would
    rest_rate: AdamW's beside Muon; the same as `rate` if it is not given
    decay: decoupled weight decay, of matrices only
    schedule: "trapezoid"; or "noam", whose rate falls with the root of the progress and knows no cooldown
    warmup, cooldown: shares of the run in which the rate rises from zero and falls to zero, in straight
        lines; without `cooldown` it falls from the end of the warm-up on
    clip: the largest norm of the gradient that is let through whole
    parts: a step's batch is computed in so many parts, to save memory; the steps stay the same
    precision: "fp32"; "bf16": float32 weights, and all else in bfloat16 (sharded: the products alone);
        "auto": bf16 where a short measurement finds it faster
    compiled: use torch.compile, with dynamic shapes
    sharded: share out the parameters among the processes (FSDP), for models that outgrow one device
    device: "cuda", "mps", "cpu"; the first of these that is there if it is not given
    seed: for dropout; the batches carry a seed of their own
    every: after so many updates, and after the last one: validate, snapshot, checkpoint
    log_every: a line of the log after so many updates
    validate: validate(model) -> a number, or a dictionary whose first number decides. The model is in eval
        mode, without gradients, in the precision of the run. With many processes each calls it, and that of
        the first counts
    better: min if a small value of `validate` is good (a loss), max if a large one is (BLEU)
    patience: end after so many validations in a row without a new best one
    keep: average the last `keep` snapshots at the end, one every `every` updates; 0 for no average
    fingerprint: what the run depends on (recipe, vocabulary); a checkpoint with another one is refused

    Used in the end: the best by `validate` of the last weights, the best ones and the average; without
    `validate` the average, or else the last. The model holds them on return, in eval mode, on the device.

    Ctrl-C or SIGTERM: the update is finished, a checkpoint saved, and an `Interrupted` (a KeyboardInterrupt)
    says where. A second Ctrl-C acts at once.

    Returns a Result. Raises ValueError for arguments that make no sense and for a loss that is no longer a
    finite number; CheckpointError (a ValueError) for a checkpoint that is not of this run, or began with
    another optimiser, rate or decay, or for a full disk; ProcessLost (a ValueError) if another process of
    the training has ended before its time.
    """
    check(updates, minutes, parts=parts, every=every, log_every=log_every, patience=patience)
    share = share_of_rate(schedule, warmup, cooldown)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    keep_memory()
    chance, team = random_state(), Team(device)
    try:
        with team.together(folder), Signals() as signals:
            kind = Alone if team.count == 1 else Sharded if sharded else Copied
            spread = kind(model.to(team.device), loss, team)
            moved_by = optimisers(model, optimiser, rate, rest_rate, decay)
            run = Run(spread, moved_by, folder, team, clip, compiled, fingerprint)
            resumed = run.resume(seed)
            began = time.monotonic() - run.place.seconds
            with (
                Log(folder, team.first, resumed and run.place.step) as run.log,
                Screen(team.first) as run.screen,
            ):
                if not resumed:
                    run.begin(seed, precision)
                run.introduce(resumed)
                place = run.place
                plan = batches.epoch(place.epoch)
                while True:
                    if place.batch == len(plan):
                        place.epoch, place.batch, plan = place.epoch + 1, 0, batches.epoch(place.epoch + 1)
                    shares, tokens = team.shares(batches, plan[place.batch], parts)
                    tokens, place.seconds, signal = team.agree(
                        tokens, time.monotonic() - began, signals.caught
                    )
                    if signal:
                        raise run.interrupted()
                    progress, ended = how_far(place, updates, minutes, patience)
                    if ended:
                        break
                    run.update(shares, tokens, share(progress))
                    if place.step % log_every == 0:
                        run.report(progress)
                    if place.step % every == 0:
                        run.look(validate, better, keep)
                if place.said_step < place.step:
                    run.report(1.0)
                if place.seen < place.step:
                    run.look(validate, better, keep)
                used, value = run.choose(validate, better, keep)
                run.log.write(step=place.step, ended=ended, used=used, value=value)
    finally:
        restore_random_state(chance)
        model.eval()
    return Result(place.step, place.epoch + 1, place.tokens, place.seconds, value, used, ended)


def check(updates, minutes, **counts):
    """Refuse a run without an end, and counts that are none."""
    if updates is None and minutes is None:
        raise ValueError("Say where the training ends: after so many updates, or minutes, or both.")
    if minutes is not None and not minutes > 0:
        raise ValueError(f"A training takes more than {minutes} minutes.")
    for name, count in {"updates": updates, **counts}.items():
        if count is not None and (count < 1 or count != int(count)):
            raise ValueError(f"{name} is a whole number from 1 on; it is {count}.")


def share_of_rate(schedule, warmup, cooldown):
    """How the progress of a run, from 0 to 1, decides the share of the highest rate: as a function."""
    known = {
        "trapezoid": partial(trapezoid, warmup=warmup, cooldown=cooldown),
        "noam": partial(inverse_root, warmup=warmup),
    }
    if schedule not in known:
        raise ValueError(f'The schedule is "trapezoid" or "noam", and not {schedule!r}.')
    known[schedule](0.0)
    return known[schedule]


def how_far(place, updates, minutes, patience):
    """The share of the run that lies behind, at the middle of the next update; why it is over, if it is."""
    by_step = 0.0 if updates is None else (place.step + 0.5) / updates
    by_clock = 0.0 if minutes is None else place.seconds / (60 * minutes)
    ends = {
        "updates": updates is not None and place.step >= updates,
        "minutes": by_clock >= 1,
        "patience": patience is not None and place.misses >= patience,
    }
    return min(1.0, max(by_step, by_clock)), next((why for why in ends if ends[why]), None)


def rates(memories):
    """The optimiser, highest rate and decay of each group of parameters, in words, from the states of all."""
    groups = [group for memory in memories for group in memory["param_groups"]]
    return ", ".join(
        f"{'muon' if 'momentum' in group else 'adamw'} {group['highest']:g} and {group['weight_decay']:g}"
        for group in groups
    )


class Run:
    """One training, in one process: the model, what moves it, and the place where it stands."""

    def __init__(self, spread, optimisers, folder, team, clip, compiled, fingerprint):
        self.spread, self.optimisers, self.folder, self.team = spread, optimisers, folder, team
        self.model, self.place, self.clip, self.fingerprint = spread.model, Place(), clip, fingerprint
        self.compiled = compiled
        exact = torch.float32 if team.device.type == "mps" else torch.float64
        self.sums = torch.zeros(2, dtype=exact, device=team.device)  # loss and norm since the last line

    # --- Where it begins --------------------------------------------------------------------------------

    def begin(self, seed, precision):
        """Start from the weights that the model has. A checkpoint shows at once whether one can be saved."""
        for old in [self.folder / "best.pt", self.folder / "average.pt", *self.snapshots()]:
            if self.team.first:
                old.unlink(missing_ok=True)
        self.place.precision = self.team.of_first(choose_precision(self.team.device, precision))
        self.sow(seed)
        self.log.write(**self.facts(), seed=seed, torch=torch.__version__, threads=torch.get_num_threads())
        self.save()

    def resume(self, seed):
        """Go on from the checkpoint, if there is one. Returns whether there is."""
        path = self.folder / "checkpoint.pt"
        if not self.team.of_first(path.is_file()):
            return False
        state = load(path, self.fingerprint)
        begun, asked = rates(state["optimisers"]), rates(o.state_dict() for o in self.optimisers)
        if begun != asked:
            raise CheckpointError(
                f"{path} began with {begun} (optimiser, rate and decay) and is to go on with {asked}. "
                "Go on as it began, or train in another folder."
            )
        self.place = Place(**state["place"])
        self.spread.set_weights(state["model"])
        for optimiser, memory in zip(self.optimisers, state["optimisers"], strict=True):
            self.spread.set_memory(optimiser, memory)
        self.sums.copy_(state["sums"] / self.team.count)
        for late in self.snapshots()[::-1]:
            if int(late.stem) > self.place.step and self.team.first:
                late.unlink()
        self.sow(seed + self.place.step)
        if len(state["random"]) == self.team.count:  # with more processes, or fewer, it is another chance
            restore_random_state(state["random"][self.team.rank])
        return True

    def sow(self, seed):
        """Let chance begin here; in each process elsewhere, so that they do not drop out the same."""
        for sower in (random.seed, np.random.seed, torch.manual_seed):
            sower((seed + self.team.rank) % 2**32)

    def facts(self):
        """How large the model is, where and how it is trained."""
        return {
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "device": str(self.team.device),
            "precision": self.place.precision,
            "processes": self.team.count,
        }

    def introduce(self, resumed):
        """Get ready to compute, and say once where and how this runs."""
        self.mark = self.place.tokens, time.monotonic()  # for the speed
        self.spread.compute_in(self.place.precision)
        compute_in(self.optimisers, self.place.precision)
        compute = self.spread.compute
        self.compute = torch.compile(compute, dynamic=True) if self.compiled else compute
        if self.team.first:
            n, device, precision, processes = self.facts().values()
            many = f", {processes} processes" if processes > 1 else ""
            since = f", from step {self.place.step:,} on" if resumed else ""
            print(f"Training {n:,} parameters: {device}, {precision}{many}{since}.", flush=True)

    # --- The step ---------------------------------------------------------------------------------------

    def update(self, shares, tokens, share):
        """One step: the gradient of the mean loss a token, over all parts and processes, and the move.

        shares: what this process computes, pairs (batch, whether it counts)
        tokens: those of all processes together
        share: of the highest rate
        """
        set_rates(self.optimisers, share)
        self.model.train()
        total = 0.0
        for i, (batch, counts) in enumerate(shares, 1):
            with self.spread.gradients_shared(now=i == len(shares)):
                value = self.compute(batch_on(batch, self.team.device)) * counts
                (value * (self.team.count / tokens)).backward()  # the processes' gradients will be averaged
            total = total + value.detach()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self.sums += torch.stack([total, whole(norm) / self.team.count]).to(self.sums)
        self.place.step += 1
        self.place.batch += 1
        self.place.tokens += tokens

    def report(self, progress):
        """Write a line of the log: the means since the line before it."""
        place = self.place
        loss, norm = self.finite_sums()
        loss, norm = loss / (place.tokens - place.said_tokens), norm / (place.step - place.said_step)
        tokens, now = place.tokens - self.mark[0], time.monotonic()
        speed = tokens / max(now - self.mark[1], 1e-9)
        rate = self.optimisers[0].param_groups[0]["lr"]
        self.log.write(
            step=place.step,
            epoch=place.epoch,
            loss=loss,
            norm=norm,
            rate=rate,
            tokens=place.tokens,
            tokens_per_second=round(speed),
            seconds=round(place.seconds, 2),
        )
        self.screen.line(progress, place.step, loss, speed, place.seconds)
        self.sums.zero_()
        self.mark = place.tokens, now
        place.said_step, place.said_tokens = place.step, place.tokens

    def finite_sums(self):
        """Loss and norm of the gradient, of all processes, since the last line; refused if not finite."""
        loss, norm = self.team.sum(self.sums).tolist()
        if not np.isfinite(loss + norm):
            raise ValueError(
                f"The loss is no longer a finite number, after step {self.place.said_step} and until step "
                f"{self.place.step}. The checkpoint is from before that. Try a lower rate, a longer warm-up."
            )
        return loss, norm

    # --- Looking at the model, and keeping it ---------------------------------------------------------------

    def look(self, validate, better, keep):
        """Validate, keep the best, take a snapshot, save. None of this changes the run."""
        place, began = self.place, time.monotonic()
        self.finite_sums()
        state = self.spread.weights()
        if validate:
            place.value = self.validated(validate, "last")
            first = place.best is None
            place.misses += 1
            if first or (better(place.value, place.best) == place.value != place.best):
                place.best, place.misses = place.value, 0
                self.keep("best.pt", state)
        if keep:
            (self.folder / "snapshots").mkdir(exist_ok=True)
            self.keep(f"snapshots/{place.step:09}.pt", state)
            for old in self.snapshots()[:-keep]:
                if self.team.first:
                    old.unlink()
        place.seen = place.step
        self.save(state)
        self.mark = self.mark[0], self.mark[1] + time.monotonic() - began

    def validated(self, validate, weights):
        """The value by which weights are compared; all that `validate` says goes into the log."""
        chance = random_state()
        self.model.eval()
        with torch.no_grad(), autocast(self.team.device, self.place.precision):
            said = validate(self.model)
        restore_random_state(chance)
        said = said if isinstance(said, dict) else {"value": said}
        said = self.team.of_first({name: float(value) for name, value in said.items()})
        place = self.place
        self.log.write(
            step=place.step,
            epoch=place.epoch,
            seconds=round(place.seconds, 2),
            weights=weights,
            validation=said,
        )
        return next(iter(said.values()))

    def snapshots(self):
        """The snapshots that are there, the oldest first."""
        return sorted((self.folder / "snapshots").glob("*.pt"))

    def keep(self, name, weights):
        """Write these weights to a file of their own."""
        if self.team.first:
            kept = {"step": self.place.step, "value": self.place.value, "model": weights}
            save(self.folder / name, kept, self.fingerprint)

    def save(self, model_state=None):
        """Write the checkpoint: all that the next step depends on."""
        model_state = model_state or self.spread.weights()
        state = {
            "place": vars(self.place),
            "model": model_state,
            "optimisers": [self.spread.memory(optimiser) for optimiser in self.optimisers],
            "sums": self.team.sum(self.sums),
            "random": self.team.of_all(random_state()),
        }
        if self.team.first:
            self.log.to_disk()
            save(self.folder / "checkpoint.pt", state, self.fingerprint)

    def interrupted(self):
        """Save all, and return what is to be raised."""
        self.finite_sums()
        self.save()
        self.write_weights()
        where = self.folder / "checkpoint.pt"
        return Interrupted(
            f"Stopped after step {self.place.step:,}. {where} holds all: the same call goes on from there."
        )

    def choose(self, validate, better, keep):
        """Give the model the weights that are to be used, and write them. Returns their name and value."""
        self.team.of_first(None)  # now the files of the first process are there
        state = self.spread.weights()
        weights = {"last": {name: tensor.clone() for name, tensor in state.items()}}
        values = {"last": self.place.value}
        if validate and (self.folder / "best.pt").is_file():
            kept = load(self.folder / "best.pt", self.fingerprint)
            weights["best"], values["best"] = kept["model"], kept["value"]
        latest = self.snapshots()[-keep:] if keep else []
        if len(latest) > 1:
            weights["average"] = average(load(path, self.fingerprint)["model"] for path in latest)
            self.keep("average.pt", weights["average"])
            if validate:
                self.spread.set_weights(weights["average"])
                values["average"] = self.validated(validate, "average")
        used = better(values, key=values.get) if validate else list(weights)[-1]
        self.spread.set_weights(weights[used])
        self.write_weights()
        return used, values.get(used)

    def write_weights(self):
        """Write the weights that the model has now as the ones to be used."""
        state = self.spread.weights()
        if self.team.first:
            save_weights(self.folder / "model.safetensors", self.model, state)


def batch_on(batch, device):
    """The same batch, its tensors on this device."""
    moved = {name: x.to(device) for name, x in vars(batch).items() if isinstance(x, torch.Tensor)}
    return replace(batch, **moved)
