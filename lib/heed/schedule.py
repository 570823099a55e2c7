"""The learning rate as a function of the step. A step is an update of the weights, not a batch."""


def noam(step, d_model, warmup, factor=1.0):
    """Rise in a straight line for `warmup` steps, then fall with the root of the step.

        rate = factor · d_model^(−½) · min(step^(−½), step · warmup^(−3/2))      (Vaswani et al. 2017, eq. 3)

    step: 1, 2, 3, …, the update that is about to be made

    Returns the rate. Raises ValueError for a step or a warmup below 1.
    """
    if step < 1 or warmup < 1:
        raise ValueError(f"Steps are counted from 1 and warm-up takes at least one; {step=}, {warmup=}.")
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
