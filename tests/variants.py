"""Attention as others build it: what `MultiHeadAttention` must be open for."""

from heed.position import ALiBi, RelativeBias, Rotary
from heed.scale import GroupedQueryAttention, LinearAttention, SlidingWindow


class MultiQuery(GroupedQueryAttention):
    """One key and one value head for all queries."""


class LastThree(SlidingWindow):
    """A query sees the last three tokens only."""

    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__(d_model, n_heads, dropout, window=3)


KINDS = ALiBi, RelativeBias, Rotary, MultiQuery, LastThree, LinearAttention
VARIANTS = {kind.__name__: kind for kind in KINDS}
