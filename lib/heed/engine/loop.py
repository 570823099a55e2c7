"""The training loop. A step is an update of the weights; the rest of the engine is what its lines call."""

import time
from dataclasses import dataclass
from pathlib import Path

from torch.nn.utils import clip_grad_norm_

from heed.checkpoint import rng_preserved
from heed.engine.arguments import check, check_unchanged, lr_schedule
from heed.engine.devices import batch_to
from heed.engine.folder import owned
from heed.engine.optimizers import make_optimizers, set_lr
from heed.engine.parallel import parallelize
from heed.engine.precision import choose_precision
from heed.engine.run import Run, TrainState, how_far, latest
from heed.engine.signals import Signals
from heed.engine.world import World
from heed.speed import keep_memory


def fit(
    model,
    batches,
    loss,
    folder,
    *,
    # where it ends
    updates=None,
    minutes=None,
    patience=None,
    # the optimizer
    optimizer="muon",
    lr=2e-3,
    adamw_lr=None,
    weight_decay=0.0,
    clip=1.0,
    # the schedule
    schedule="trapezoid",
    warmup=0.05,
    cooldown=None,
    # how it is computed
    micro_batches=1,
    precision="auto",
    device=None,
    sharded=False,
    seed=0,
    # what is validated, and what is kept
    every=500,
    checkpoint_minutes=10,
    log_every=10,
    validate=None,
    better=min,
    keep=0,
    fingerprint="",
):
    """Train a model in place, for so many updates or minutes, and keep in `folder` what is needed to resume.

    Called again with the same folder it resumes the latest checkpoint. With `updates` alone, a run that was
    killed and resumed ends with the same weights as one that was left alone, to the last bit, if as many
    threads compute.

    model: wherever it is; fit moves it to the device
    batches: a `heed.data.TokenBatches`, or what else has epoch(k), part(indices, i, n) and
        batch(indices), a dataclass with tensors and `n_tokens`, its real target tokens
    loss: loss(model, batch) -> the SUM of the loss over the batch's real target tokens. fit divides by the
        tokens of the whole step, so that it does not matter in how many micro-batches and processes it is
        computed
    folder: gets log.jsonl, checkpoint.pt (the latest), best.pt, snapshots/, average.pt and model.safetensors,
        which is to be used. New, empty, or from an earlier call; all processes must see it

    Where it ends
    updates, minutes: one of them, or both and whichever comes first. How far the run has come,
        max(step / updates, elapsed / minutes), drives the learning rate. Minutes count from this call on, and
        those that were spent before a resume count, too; the last validation and the average come after them
    patience: after so many validations in a row without a new best one

    The optimizer
    optimizer: "adamw"; or "muon" for the hidden matrices, with AdamW for embeddings, output layer, vectors
    lr: the highest learning rate. Muon's is scaled to move a matrix as far as AdamW's would
    adamw_lr: AdamW's beside Muon; the same as `lr` if it is not given
    weight_decay: decoupled, of matrices only
    clip: the largest norm of the gradient; a larger gradient is scaled down to it

    The schedule
    schedule: "trapezoid"; or "noam", which falls with the root of the progress and knows no cooldown
    warmup, cooldown: shares of the run in which the learning rate rises from zero and falls to zero, in
        straight lines; without `cooldown` it falls from the end of the warm-up on

    How it is computed
    micro_batches: a step's batch is computed in so many, to save memory; the steps stay the same
    precision: "fp32"; "bf16": in bfloat16 with float32 master weights, as `engine.precision` says; "auto":
        bf16 where a short measurement finds it faster
    device: "cuda", "mps", "cpu"; the first of these that is available if it is not given
    sharded: with many processes, shard the parameters among them (FSDP), for models that outgrow one device.
        The model stays sharded on return; model.safetensors is whole
    seed: for dropout; the batches carry a seed of their own

    What is validated, and what is kept
    every: after so many updates, and after the last one: validate, snapshot, checkpoint
    checkpoint_minutes: a checkpoint after so many minutes as well; None for no more than `every` asks for
    log_every: a line of the log after so many updates
    validate: validate(model) -> a number, or a dictionary whose first number decides. The model is in eval
        mode, without gradients, in the precision of the run (autocast); of a sharded one it is a whole copy.
        Every process calls it, and the result of rank 0 counts. NaN and infinity are never the best
    better: min if a small value of `validate` is good (a loss), max if a large one is (BLEU)
    keep: average the last `keep` snapshots at the end, one every `every` updates; 0 for no average
    fingerprint: what the run depends on (recipe, vocabulary); a checkpoint with another one is refused

    A resumed run may change: updates and minutes, to train longer; patience, checkpoint_minutes, log_every,
    validate; and micro_batches, device, sharded and the number of processes, which change rounding and what
    dropout draws.
    Every other changed argument is refused, and so are other batches.

    Used in the end: the best by `validate` of the last weights, the best ones and the average; without
    `validate` the average, or else the last. The model holds them on return, in eval mode, on the device.

    Ctrl-C, SIGTERM or SIGHUP: the update is finished (one in several micro-batches is given up, as if it had
    not been begun), a checkpoint saved, and an `Interrupted` (a KeyboardInterrupt) says where. A second
    Ctrl-C acts at once.

    What an earlier run has left in the folder without a checkpoint is moved into earlier-1, -2, …, and not
    deleted. On Linux the process keeps freed memory from this call on (`heed.speed.keep_memory`).

    Returns a Result. Raises ValueError for arguments that make no sense, for a folder that is not a run's own
    or in which another run is writing, and for a loss that is no longer a finite number; CheckpointError (a
    ValueError) for a checkpoint that is not of this run or was made with other arguments, and for a full
    disk; ProcessLost (a ValueError) if another process of the training has ended before its time.
    """
    arguments = check(dict(locals()))
    lr_share = lr_schedule(schedule, warmup, cooldown)
    keep_memory()
    world, folder = World(device), Path(folder)
    try:
        with rng_preserved(), world.explaining_losses(folder), owned(folder, world), Signals() as signals:
            # A new run, or the latest checkpoint
            saved = latest(folder, world, fingerprint)
            state = TrainState.of(saved)
            began = time.monotonic() - state.seconds
            if saved:
                check_unchanged(saved, arguments, batches, fit)
            state.precision = state.precision or world.broadcast(choose_precision(world.device, precision))
            parallel = parallelize(model.to(world.device), loss, world, sharded, state.precision)
            optimizers = make_optimizers(model, optimizer, lr, adamw_lr, weight_decay, state.precision)
            plan = batches.epoch(state.epoch)
            with Run(parallel, optimizers, state, world, folder, fingerprint) as run:
                run.resume(saved, seed) if saved else run.start(seed, arguments, plan)
                while True:
                    # The batch of this step, of which this process computes some micro-batches
                    if state.batch == len(plan):
                        state.epoch, state.batch = state.epoch + 1, 0
                        plan = batches.epoch(state.epoch)
                    mine, n_tokens = world.micro_batches(batches, plan[state.batch], micro_batches)
                    seconds = time.monotonic() - began
                    n_tokens, state.seconds, signal = world.agree(n_tokens, seconds, signals.caught)
                    if signal:
                        raise run.interrupted(signal)
                    progress, ended = how_far(state, updates, minutes, patience)
                    if ended:
                        break

                    # The step: the gradient of the mean loss per token, and the update of the weights
                    set_lr(optimizers, lr_share(progress))
                    model.train()
                    total, before = 0.0, run.before_step() if len(mine) > 1 else None
                    for i, (batch, counts) in enumerate(mine, 1):
                        if i > 1 and (signal := world.any(signals.caught)):
                            run.undo_step(before)
                            raise run.interrupted(signal)
                        with parallel.gradient_sync(last=i == len(mine)):
                            value = parallel.loss(batch_to(batch, world.device)) * counts
                            (value * (world.size / n_tokens)).backward()  # gradients are averaged over ranks
                        total = total + value.detach()
                    norm = clip_grad_norm_(model.parameters(), clip)
                    for each in optimizers:
                        each.step()
                        each.zero_grad(set_to_none=True)
                    state.step += 1
                    state.batch += 1
                    state.tokens += n_tokens

                    # What is said of it, and what is kept
                    run.add(total, norm)
                    if state.step % log_every == 0:
                        run.report(progress)
                    if state.step % every == 0:
                        run.validate_and_save(validate, better, keep)
                    run.save_by_clock(checkpoint_minutes)
                used, value = run.finish(ended, validate, better, keep)
    finally:
        model.eval()
    return Result(state.step, state.epoch + 1, state.tokens, state.seconds, value, used, ended)


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
