"""Figures that the reader moves: each is one function here, one script beside it, and a still picture."""

from heed.plot.movers.beam_tree import beam_tree
from heed.plot.movers.completing import completing
from heed.plot.movers.dials import dials
from heed.plot.movers.mask_painter import mask_painter
from heed.plot.movers.one_mixture import one_mixture
from heed.plot.movers.saturation import saturation

__all__ = ["beam_tree", "completing", "dials", "mask_painter", "one_mixture", "saturation"]
