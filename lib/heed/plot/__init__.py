"""Figures of the course: maps of weights, curves, bars, networks, an explorer of attention, movers.

This module takes arrays and labels; it knows no models. Importing it sets fonts, palette and resolution.
Every drawing returns its Axes, so that anything can be added before `plt.show()`; the explorer is HTML, and a
mover, as the last line of a cell, is a still picture and the HTML that moves it.
"""

from heed.plot.charts import bars, curves, hbars, heatmap, heatmaps, scoremap
from heed.plot.explorer import explorer
from heed.plot.movers import beam_tree, completing, dials, mask_painter, one_mixture, saturation
from heed.plot.networks import alignment, attending, network
from heed.plot.scoreboard import Scoreboard
from heed.plot.style import style

__all__ = [
    "Scoreboard",
    "alignment",
    "attending",
    "bars",
    "beam_tree",
    "completing",
    "curves",
    "dials",
    "explorer",
    "hbars",
    "heatmap",
    "heatmaps",
    "mask_painter",
    "network",
    "one_mixture",
    "saturation",
    "scoremap",
    "style",
]

style()
