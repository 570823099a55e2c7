"""A mask that the reader paints, with the weights that come of it."""

import numpy as np
from matplotlib.patches import Rectangle

from heed.plot.charts import as_array, heatmap
from heed.plot.movers.mover import Mover, picture, rounded
from heed.plot.style import COLOURS, written


def mask_painter(
    tokens, scores, mask=None, pad="␣", title="The mask says among which keys a query divides its weight"
):
    """Show which keys each query may look at, and the weights that come of its scores; the reader paints.

    Outlined are the leaks: a query that sees a later token, or padding. (The query of a padded place may see
    what it likes: nobody reads its output.) A query that may look nowhere has zeros as weights, as in
    `masked_softmax`.

    tokens: 2 to 10 tokens, which are queries and keys
    scores: (n, n), queries in rows
    mask: True where the query may look (n, n), bool; the causal and the padding mask if left out
    pad: the token that is padding
    title: the finding

    Returns a Mover. Raises ValueError if tokens, scores and mask do not fit together.
    """
    tokens, scores = [written(token) for token in tokens], as_array(scores)
    n = len(tokens)
    if not 2 <= n <= 10:
        raise ValueError(f"a mask to paint needs 2 to 10 tokens, and there are {n}")
    if scores.shape != (n, n) or not np.isfinite(scores).all():
        raise ValueError(f"{n} tokens need {n} × {n} finite scores; these have shape {scores.shape}")
    padded = np.array([token == pad for token in tokens])
    mask = np.tri(n, dtype=bool) & ~padded if mask is None else np.asarray(mask)
    if mask.shape != (n, n) or mask.dtype != bool:
        raise ValueError(f"mask must be bool, {n} × {n}, True = may look; it is {mask.dtype}, {mask.shape}")
    scores = np.array(rounded(scores, 2))
    given = {"tokens": tokens, "pad": pad, "scores": scores.tolist(), "mask": mask.astype(int).tolist()}

    figure = picture(max(4.4, 0.5 * n + 1.2), 0.5 * n + 1.3, title)
    ax = figure.subplots()
    heatmap(masked(scores, mask), tokens, tokens, "", "key", "query", ax=ax)
    ax.collections[-1].colorbar.remove()
    edge = {"fill": False, "edgecolor": COLOURS["red"], "linewidth": 2, "zorder": 4}
    for i, j in np.ndindex(n, n):
        if not mask[i, j]:
            hidden = Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor="#D5D9DE", edgecolor="white", zorder=3)
            ax.add_patch(hidden)
        elif not padded[i] and (j > i or padded[j]):
            ax.add_patch(Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, **edge))
    return Mover("mask_painter", given, figure, title)


def masked(scores, mask):
    """The softmax over each row's visible keys; zeros where there are none."""
    e = np.where(mask, np.exp(scores), 0)
    return e / np.maximum(e.sum(axis=1, keepdims=True), 1e-300)
