"""Figures of the course: maps of weights, curves, bars, and drawings of networks.

This module takes arrays and labels; it knows no models. Importing it sets fonts, palette and resolution.
Every function returns the Axes it drew on, so that anything can be added before `plt.show()`.
"""

from heed.plot.cells import cell
from heed.plot.charts import bars, curves, hbars, heatmap, scoremap
from heed.plot.networks import alignment, attending, network
from heed.plot.style import style

__all__ = [
    "alignment",
    "attending",
    "bars",
    "cell",
    "curves",
    "hbars",
    "heatmap",
    "network",
    "scoremap",
    "style",
]

style()
