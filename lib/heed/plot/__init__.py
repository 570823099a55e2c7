"""Figures of the course: maps of weights, curves, bars, drawings of networks, and an explorer of attention.

This module takes arrays and labels; it knows no models. Importing it sets fonts, palette and resolution.
Every drawing returns its Axes, so that anything can be added before `plt.show()`; the explorer is HTML.
"""

from heed.plot.charts import bars, curves, hbars, heatmap, heatmaps, scoremap
from heed.plot.explorer import explorer
from heed.plot.networks import alignment, attending, network
from heed.plot.scoreboard import Scoreboard
from heed.plot.style import style

__all__ = [
    "Scoreboard",
    "alignment",
    "attending",
    "bars",
    "curves",
    "explorer",
    "hbars",
    "heatmap",
    "heatmaps",
    "network",
    "scoremap",
    "style",
]

style()
