"""The loop for long trainings, in one process or in many. It knows neither the model nor the task.

It is given the loss as a function and the data as batches, and sees to the rest: the optimiser and its schedule,
the device and its precision, checkpoints and exact resume, the log, the average, the processes.

A *step* is one update of the weights, however many parts or processes have computed its gradient.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """What has become of a training.

    steps: updates made, those before a resume included; epochs, tokens (real target tokens) and seconds likewise
    loss: mean loss a token since the last line but one of the log
    value: what `validate` gave for the weights in use, None without it
    used: which weights were chosen and are now in the model: "last", "best" or "average"
    ended: why it ended: "updates", "minutes" or "patience"
    """

    steps: int
    epochs: int
    tokens: int
    seconds: float
    loss: float
    value: float | None
    used: str
    ended: str


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

    Called again with the same folder it goes on where the last checkpoint was made. With `updates` alone, a run
    that was killed and resumed ends with the same weights as one that was left alone, to the last bit.

    model: on the CPU or wherever it is; fit moves it to the device
    batches: a `heed.data.TokenBatches`, or what else has epoch(k), part(indices, i, n) and batch(indices)
    loss: loss(model, batch) -> the SUM of the loss over the batch's real target tokens. fit divides by the tokens
        of the whole step, over all parts and processes, so that how a step is shared out does not change it
    folder: gets log.jsonl, checkpoint.pt (the latest), best.pt, average.pt, model.safetensors (what is to be used)
    updates, minutes: where to end; one of them, or both and whichever comes first. How far the run has come,
        max(step / updates, elapsed / minutes), drives the rate. Minutes count from this call on, all included
    optimiser: "adamw"; or "muon" for the hidden matrices, and AdamW for embeddings, generator, norms and biases
    rate: the highest learning rate. Muon's is scaled to move a matrix as far as AdamW's would
    rest_rate: AdamW's beside Muon; the same as `rate` if it is not given
    decay: decoupled weight decay, of matrices only
    warmup, cooldown: shares of the run in which the rate rises from zero and falls to zero, in straight lines;
        without `cooldown` it falls from the end of the warm-up on
    clip: the largest norm of the gradient that is let through whole
    parts: a step's batch is computed in so many parts, to save memory; the steps stay the same
    precision: "fp32"; "bf16" for autocast; "auto": bf16 where a short measurement finds it faster
    compiled: use torch.compile, with dynamic shapes
    sharded: with many processes, share out the parameters as well (FSDP), for models that outgrow one device
    device: "cuda", "mps", "cpu"; the first of these that is there if it is not given
    seed: for dropout; the batches carry a seed of their own
    every: after so many updates, and after the last one: validate, snapshot, checkpoint
    log_every: a line of the log after so many updates
    validate: validate(model) -> a number, or a dictionary whose first number decides. The model is in eval mode,
        without gradients. With many processes each calls it, and that of the first counts
    better: min if a small value of `validate` is good (a loss), max if a large one is (BLEU)
    patience: end after so many validations in a row without a new best one
    keep: average the weights of the last `keep` snapshots at the end, one every `every` updates; 0 for no average
    fingerprint: what the run depends on (recipe, vocabulary); a checkpoint with another one is refused

    What is used in the end: the best by `validate` of the best, the last and the average; without `validate` the
    average, or the last weights if there is no average. The model holds it on return, in eval mode, on the device.

    Ctrl-C or SIGTERM: the update is finished, a checkpoint saved, and `Interrupted` says where (a KeyboardInterrupt).

    Returns a Result. Raises ValueError for arguments that make no sense, for a loss that is no longer a finite number,
    and CheckpointError (a ValueError) for a checkpoint that is not of this run, or a disk that is full.
    """
    raise NotImplementedError
