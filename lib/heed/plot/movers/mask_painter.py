"""A mask that the reader paints, with the weights that come of it, and what two layers make of it."""

import numpy as np
from matplotlib.patches import Rectangle

from heed.plot.charts import as_array, heatmap
from heed.plot.movers.mover import Mover, picture, rounded
from heed.plot.style import COLOURS, written


def mask_painter(
    tokens, scores, mask=None, pad="␣", title="The mask says among which keys a query divides its weight"
):
    """Show which keys each query may look at, and the weights that come of its scores; the reader paints.

    A table beside it says on which tokens an output depends: 1 where its query looks, 2 where it looks at a
    query that does, in the layer below. Each layer adds its input, so an output depends on its own token.

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

    figure = picture(min(6.8, 1.0 * n + 2.2), min(0.5 * n, 2.6) + 1.5, title)
    weights, table = figure.subplots(1, 2)
    heatmap(masked(scores, mask), tokens, tokens, "the mask and its weights", "key", "query", ax=weights)
    ways = layers(mask)
    heatmap(np.where(ways, 0.2, 0), tokens, tokens, "after two layers", "token", "output", ax=table)
    for ax in (weights, table):
        ax.collections[-1].colorbar.remove()
        ax.set_title(ax.get_title(), fontsize=11)
    for number in list(table.texts):
        number.remove()
    edge = {"fill": False, "edgecolor": COLOURS["red"], "linewidth": 2, "zorder": 4}
    for i, j in np.ndindex(n, n):
        leaks = not padded[i] and i != j and (j > i or padded[j])
        if not mask[i, j]:
            hidden = Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor="#D5D9DE", edgecolor="white", zorder=3)
            weights.add_patch(hidden)
        elif not padded[i] and (j > i or padded[j]):
            weights.add_patch(Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, **edge))
        table.text(j, i, {0: "", 3: "·"}.get(ways[i, j], ways[i, j]), ha="center", va="center", fontsize=11)
        if ways[i, j] and leaks:
            table.add_patch(Rectangle((j - 0.47, i - 0.47), 0.94, 0.94, **edge))
    return Mover("mask_painter", given, figure, title)


def layers(mask):
    """How many layers an output needs to reach each token: 1, 2; 0 for never; 3 where it is its own only."""
    seen = np.asarray(mask, dtype=int)
    return np.where(seen, 1, np.where(np.eye(len(seen)), 3, np.where(seen @ seen, 2, 0)))


def masked(scores, mask):
    """The softmax over each row's visible keys; zeros where there are none."""
    e = np.where(mask, np.exp(scores), 0)
    return e / np.maximum(e.sum(axis=1, keepdims=True), 1e-300)
