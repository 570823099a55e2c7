"""What `fit` refuses: arguments that make no sense, and in a resumed run those that have changed."""

import hashlib
import inspect
import json
from functools import partial

from heed.checkpoint import CheckpointError
from heed.schedule import inverse_root, trapezoid

# The arguments that decide the course of a run: they are saved with it, and a resumed run must have the same.
FIXED = (
    *("optimizer", "lr", "adamw_lr", "weight_decay", "clip", "schedule", "warmup", "cooldown"),
    *("precision", "seed", "every", "better", "keep"),
)
POSITIVE = ("minutes", "lr", "adamw_lr", "clip", "checkpoint_minutes")
COUNTS = ("updates", "patience", "micro_batches", "every", "log_every")


def check(arguments):
    """Refuse arguments of `fit`, a dictionary, that make no sense. Returns those that decide the course."""
    if arguments["updates"] is None and arguments["minutes"] is None:
        raise ValueError("fit needs updates or minutes, or both: it would never end.")
    for name in POSITIVE:
        if arguments[name] is not None and not arguments[name] > 0:
            raise ValueError(f"{name} must be positive; got {arguments[name]}.")
    for name in COUNTS:
        value = arguments[name]
        if value is not None and not (value >= 1 and value % 1 == 0):
            raise ValueError(f"{name} must be a whole number from 1 on; got {value}.")
    for name in ("keep", "weight_decay"):
        if not arguments[name] >= 0:
            raise ValueError(f"{name} must not be negative; got {arguments[name]}.")
    if arguments["better"] not in (min, max):
        raise ValueError(f"better must be min or max; got {arguments['better']!r}.")
    return deciding(arguments)


def deciding(arguments):
    """Those of FIXED, as a checkpoint holds them."""
    return {name: arguments[name] for name in FIXED} | {"better": arguments["better"].__name__}


def check_unchanged(saved, arguments, batches, function):
    """Refuse to resume a checkpoint with other arguments or batches; what has changed is named.

    An argument that the checkpoint does not have, for it was written before there was one, had its default.

    saved: the checkpoint's state
    arguments: what `check` has returned
    function: `fit`, which has the defaults
    """
    defaults = deciding({name: p.default for name, p in inspect.signature(function).parameters.items()})
    given = arguments | {"batches": described(batches.epoch(0))}
    was = {name: (defaults | saved["arguments"])[name] for name in given}
    if given["precision"] == "auto":  # it goes on as it began
        given["precision"] = was["precision"]
    elif was["precision"] == "auto":
        was["precision"] = saved["state"]["precision"]
    changed = [
        f"{name} was {json.dumps(was[name])} and is {json.dumps(given[name])}"
        for name in given
        if given[name] != was[name]
    ]
    if changed:
        raise CheckpointError(
            f"The checkpoint was made with other arguments: {'; '.join(changed)}. Resume it with the "
            "same ones, or train in another folder."
        )


def described(plan):
    """What tells the batches of an epoch from others: their number, and a hash of their indices."""
    digest = hashlib.sha256(json.dumps([list(map(int, indices)) for indices in plan]).encode())
    return f"{len(plan)} batches, {digest.hexdigest()[:12]}"


def lr_schedule(schedule, warmup, cooldown):
    """How the progress of a run, from 0 to 1, decides the share of the highest learning rate: a function."""
    known = {
        "trapezoid": partial(trapezoid, warmup=warmup, cooldown=cooldown),
        "noam": partial(inverse_root, warmup=warmup),
    }
    if schedule not in known:
        raise ValueError(f'schedule must be "trapezoid" or "noam"; got {schedule!r}.')
    known[schedule](0.0)
    return known[schedule]
