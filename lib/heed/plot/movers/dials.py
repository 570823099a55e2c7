"""A position as the hands of d/2 dials, and what a shift does to them."""

import numpy as np

from heed.plot.charts import signed
from heed.plot.movers.mover import Mover, picture, whole
from heed.plot.style import COLOURS

MOST = 60  # positions, and the largest shift


def dials(d=8, position=5, shift=3, title="A shift turns each hand by its own angle, at every position"):
    """Show two positions, Δ apart, as hands on d/2 dials, with their dot product; the reader moves both.

    Hand i starts at 12 and turns clockwise by 1 / 10000^{2i/d} for each position (Vaswani et al. 2017,
    section 3.5), so its tip is (sin, cos). Below stands the dot product against Δ: its curve stays where it
    is when the position moves.

    d: width of the code, even, from 2 to 16
    position, shift: to begin with, whole numbers from 0 to 60
    title: the finding

    Returns a Mover. Raises ValueError for other numbers.
    """
    d = whole(d, "d", 2, 16)
    position, shift = whole(position, "position", 0, MOST), whole(shift, "shift", 0, MOST)
    if d % 2:
        raise ValueError(f"{d=} is odd; a dial takes two entries, sine and cosine")
    given = {"d": d, "most": MOST, "position": position, "shift": shift}

    n_columns = min(4, d // 2)
    n_rows = -(-d // 2 // n_columns)
    figure = picture(5.6, 1.7 * n_rows + 2.1, title)
    grid = figure.add_gridspec(n_rows + 1, n_columns)
    here, there = hands(position, d), hands(position + shift, d)  # (d/2, 2) each
    turning = np.linspace(0, 2 * np.pi, 100)
    for i, (tip, other) in enumerate(zip(here, there, strict=True)):
        ax = figure.add_subplot(grid[divmod(i, n_columns)])
        ax.plot(np.sin(turning), np.cos(turning), color="#BBBBBB", linewidth=1.2)
        for (x, y), name, dashes in ((other, "orange", (2, 1)), (tip, "blue", ())):
            ax.plot([0, 0.92 * x], [0, 0.92 * y], color=COLOURS[name], linewidth=2.6, dashes=dashes)
        ax.set(aspect="equal", xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        turn = f"{shift / 10_000 ** (2 * i / d):.2g}"
        ax.set_xlabel(f"turn {turn}\ncos {signed(f'{tip @ other:.2f}')}", fontsize=9)
    ax = figure.add_subplot(grid[n_rows, :])
    shifts = np.linspace(0, MOST, 4 * MOST + 1)
    products = np.cos(shifts[:, None] / 10_000 ** (2 * np.arange(d // 2) / d)).sum(axis=1)
    ax.plot(shifts, products, color=COLOURS["green"])
    ax.plot([shift], [(here * there).sum()], "o", color=COLOURS["green"], markersize=8)
    ax.set(xlabel="shift Δ", ylabel="dot product", ylim=(None, d / 2 + 0.4), yticks=(0, d / 4, d / 2))
    ax.set_title(
        f"blue: position {position}, orange: {position + shift}; dot product "
        + signed(f"{(here * there).sum():.2f}"),
        fontsize=10,
    )  # fmt: skip
    return Mover("dials", given, figure, title)


def hands(position, d):
    """The tips of the d/2 hands at one position (d/2, 2)."""
    angles = position / 10_000 ** (2 * np.arange(d // 2) / d)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1)
