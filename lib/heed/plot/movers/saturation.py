"""Softmax over sums of d products, with and without the division by √d."""

import numpy as np

from heed.plot.charts import as_array
from heed.plot.movers.mover import Mover, picture, rounded
from heed.plot.style import COLOURS


def saturation(q, k, title=""):
    """Show the weights that a query gives its keys, at every width that the reader chooses, plain or scaled.

    The score at width d is the sum of the first d products; the reader moves d through the powers of two, and
    divides by √d or not. Beside the weights stands the largest entry of the softmax's Jacobian,
    diag(w) − wwᵀ, through which every gradient reaches the scores. On paper: the largest width, both ways.

    q: (d,), entries with mean 0 and variance 1; with ±1 the scores are whole numbers, on every machine
    k: (n, d), of 2 to 6 keys
    title: the finding; the largest weights with and without the division if left out

    Returns a Mover. Raises ValueError if q and k do not fit together, or a number is not finite.
    """
    q, k = as_array(q), as_array(k)
    if q.ndim != 1 or k.ndim != 2 or k.shape[1:] != q.shape or len(q) < 2 or not 2 <= len(k) <= 6:
        raise ValueError(
            f"q must have shape (d,) and k (n, d), with d of 2 or more and n from 2 to 6; "
            f"they have {q.shape} and {k.shape}"
        )
    sums = np.cumsum(k * q, axis=1)  # (n, d)
    if not np.isfinite(sums).all():
        raise ValueError("q and k must be finite numbers, and a product of theirs is not")
    d = len(q)
    widths = [*(2**i for i in range(d.bit_length()) if 2**i < d), d]
    scores = rounded([sums[:, width - 1] for width in widths], 3)
    names = ["k" + "₁₂₃₄₅₆"[i] for i in range(len(k))]
    given = {"widths": widths, "width": d, "scores": scores, "names": names}

    plain, scaled = (softmax(np.array(scores[-1]) / by) for by in (1, d**0.5))
    title = title or (
        f"At width {d} the largest weight is {plain[0].max():.2f}; divided by √d, {scaled[0].max():.2f}"
    )
    figure = picture(5.6, 3.3, title)
    axes = figure.subplots(ncols=2, sharey=True)
    for ax, (weights, slope), name in zip(axes, (plain, scaled), ("plain", "divided by √d"), strict=True):
        bars = ax.bar(names, weights, color=COLOURS["blue"])
        ax.bar_label(bars, [f"{weight:.2f}" for weight in weights], padding=2, fontsize=8)
        ax.grid(axis="x", visible=False)
        ax.set_title(f"{name}\nlargest derivative {power(slope)}", fontsize=10)
        ax.set(xlabel="key", ylim=(0, 1.1))
    axes[0].set_ylabel(f"weight at d = {d}")
    return Mover("saturation", given, figure, title)


def softmax(scores):
    """The weights, and the largest entry w (1 − w) of their Jacobian, to its last digits."""
    e = np.exp(scores - scores.max())
    rest = np.array([np.delete(e, i).sum() for i in range(len(e))])
    return e / e.sum(), (e * rest).max() / e.sum() ** 2


def power(number):
    """Two figures of a small number: 0.25, 0.0031, 2.1·10⁻⁷."""
    if number == 0 or number >= 0.00095:
        return f"{float(f'{number:.2g}'):g}"
    digits, exponent = f"{number:.1e}".split("e-")
    return f"{digits}·10⁻{''.join('⁰¹²³⁴⁵⁶⁷⁸⁹'[int(digit)] for digit in str(int(exponent)))}"
