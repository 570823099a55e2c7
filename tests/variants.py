"""Attention as others build it, in a few lines each: what `MultiHeadAttention` must be open for."""

from torch import nn

from heed.attention import MultiHeadAttention, split_heads
from heed.position import ALiBi, RelativeBias, Rotary, distances


class MultiQuery(MultiHeadAttention):
    """One key and one value head for all queries (Shazeer 2019): the cache holds an h-th."""

    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__(d_model, n_heads, dropout)
        self.W_k, self.W_v = (nn.Linear(d_model, d_model // n_heads) for _ in range(2))

    def keys_values(self, k, v, start):
        return split_heads(self.W_k(k), 1), split_heads(self.W_v(v), 1)

    def mix(self, q, k, v, mask):
        return super().mix(q, k.expand(-1, self.n_heads, -1, -1), v.expand(-1, self.n_heads, -1, -1), mask)


class SlidingWindow(MultiHeadAttention):
    """A query sees the last three tokens only."""

    def mix(self, q, k, v, mask):
        near = distances(q, k) < 3
        return super().mix(q, k, v, near if mask is None else near & mask)


VARIANTS = {kind.__name__: kind for kind in (ALiBi, RelativeBias, Rotary, MultiQuery, SlidingWindow)}
