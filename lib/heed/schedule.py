"""The learning rate as a function of the step.

A step is an update of the weights, not a batch.
"""


def noam(step, d_model, warmup, factor=1.0):
    """Rise in a straight line for `warmup` steps, then fall with the root.

        rate = factor · d_model^(−½) · min(step^(−½), step · warmup^(−3/2))
        (Vaswani et al. 2017, eq. 3)

    step: 1, 2, 3, …, the update that is about to be made

    Returns the rate. Raises ValueError for a step or a warmup below 1.
    """
    if step < 1 or warmup < 1:
        raise ValueError(f"step and warmup must be at least 1; got {step=}, {warmup=}.")
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def trapezoid(progress, warmup, cooldown=None):
    """Rise in a straight line, stay, fall in a straight line to zero.

        share = min(1, progress / warmup, (1 − progress) / cooldown)

    progress: how much of the run lies behind, from 0 to 1, by updates or by the
        clock
    warmup, cooldown: shares of the run for the way up and down; without
        `cooldown` nothing lies between them

    Returns a number from 0 to 1.
    """
    cooldown = 1 - warmup if cooldown is None else cooldown
    check_shares(progress, warmup, cooldown)
    up = progress / warmup if progress < warmup else 1.0
    down = (1 - progress) / cooldown if 1 - progress < cooldown else 1.0
    return min(up, down)


def check_shares(progress, warmup, cooldown):
    """Raise ValueError for shares that do not fit into one run."""
    least = min(progress, warmup, cooldown)
    if least < 0 or max(progress, warmup + cooldown) > 1 + 1e-9:
        raise ValueError(
            "Shares of a run are at least 0, and together at most 1; "
            f"got {progress=}, {warmup=}, {cooldown=}."
        )


def inverse_root(progress, warmup):
    """The schedule of `noam` as a share of its peak.

    It rises in a straight line, then falls with the root.

        share = min(progress / warmup, √(warmup / progress))

    progress: how much of the run lies behind, from 0 to 1, by updates or by the
        clock
    warmup: share of the run for the way up

    Returns a number from 0 to 1. Raises ValueError for a negative progress and
    a warm-up that is no share.
    """
    if progress < 0 or not 0 < warmup <= 1:
        raise ValueError(
            f"progress must be at least 0, and warmup above 0 and at most 1; got {progress=}, {warmup=}."
        )
    if progress < warmup:
        return progress / warmup
    return (warmup / progress) ** 0.5
