"""A damaged picture that a Hopfield network completes, pixel by pixel."""

import numpy as np
from matplotlib.colors import ListedColormap

from heed.plot.charts import as_array, signed
from heed.plot.movers.mover import Mover, picture, whole
from heed.plot.style import COLOURS, written

SHADES = ListedColormap(["white", "#C9C9C9", "#08306B"])  # light, not known, dark
FRAMES = 5


def completing(X, names, start, order, title="The torn picture is completed, and the energy falls"):
    """Show how one of several stored pictures comes back from its upper half; the reader chooses and asks.

    Pixel by pixel the state takes the sign of its field, x_i ← sign Σ_j W_ij x_j, with W = Σ x xᵀ, W_ii = 0,
    and its energy is −½ xᵀ W x.

    X: (n, d), 1 to 6 pictures of 1 and −1, as many pixels high as wide, 4 to 16
    names: n names
    start: which picture is shown first
    order: the numbers of all pixels, in the order in which they are updated
    title: the finding

    Returns a Mover. Raises ValueError if these do not fit together.
    """
    X, order = as_array(X), [int(i) for i in order]
    names = [written(name) for name in names]
    if X.ndim != 2 or not 1 <= len(X) <= 6 or len(names) != len(X) or not (abs(X) == 1).all():
        raise ValueError(
            f"1 to 6 pictures of 1 and −1 need as many names; {len(names)} names, shape {X.shape}"
        )
    side = round(X.shape[1] ** 0.5)
    if side**2 != X.shape[1] or not 4 <= side <= 16 or sorted(order) != [*range(side**2)]:
        raise ValueError(
            f"pictures of {X.shape[1]} pixels, {len(order)} of them in order: a square from 4 × 4 to 16 × 16 "
            "is needed, and each pixel once"
        )
    start = whole(start, "start", 0, len(X) - 1)
    pixels = ["".join("#" if pixel > 0 else "." for pixel in row) for row in X]
    given = {"pictures": pixels, "names": names, "start": start, "order": order}

    states, energies = course(X, np.where(np.arange(side**2) < side**2 // 2, X[start], 0), order)
    figure = picture(7.4, 3.9, title)
    frames = [round(side**2 * i / (FRAMES - 1)) for i in range(FRAMES)]
    axes = figure.subplot_mosaic([[*frames], ["energy"] * FRAMES], height_ratios=[1, 1.15])
    for asked in frames:
        axes[asked].imshow(states[asked].reshape(side, side), cmap=SHADES, vmin=-1, vmax=1)
        axes[asked].set(xticks=[], yticks=[])
        axes[asked].set_title(f"{asked} updated", fontsize=11, pad=4)
        for spine in axes[asked].spines.values():
            spine.set_visible(True)
    axes["energy"].plot(energies, color=COLOURS["blue"])
    axes["energy"].set(xlabel="pixels updated", ylabel="energy E", xlim=(0, side**2), xticks=frames)
    axes["energy"].yaxis.set_major_formatter(lambda value, _: signed(f"{value:,.0f}"))
    return Mover("completing", given, figure, title)


def course(X, x, order):
    """The states and their energies while pixels are asked in this order.

    X: (n, d). x: (d), the state at first. order: numbers of pixels

    Returns len(order) + 1 states, and as many energies.
    """
    W = X.T @ X - len(X) * np.eye(X.shape[1])
    states = [np.array(x, dtype=float)]
    for i in order:
        after = states[-1].copy()
        after[i] = np.sign(W[i] @ after) or after[i]
        states.append(after)
    return states, [-(x @ W @ x) / 2 for x in states]
