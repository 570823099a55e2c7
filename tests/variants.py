"""Attention as others build it, in a few lines each: what `MultiHeadAttention` must be open for."""

import torch
from torch import nn

from heed.attention import MultiHeadAttention, split_heads


def distances(q, k):
    """How far back each key lies from each query, the last n_q of the n_k tokens: (n_q, n_k)."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    return torch.arange(n_k - n_q, n_k)[:, None] - torch.arange(n_k)


class ALiBi(MultiHeadAttention):
    """A penalty that grows with the distance, steeper in each head (Press et al. 2022)."""

    def bias(self, q, k):
        slopes = 2.0 ** -torch.arange(1, self.n_heads + 1, dtype=q.dtype)
        return -slopes[:, None, None] * distances(q, k).abs()  # (h, n_q, n_k)


class RelativeBias(MultiHeadAttention):
    """A learned number for each distance, clipped, and head (Raffel et al. 2020, without its buckets)."""

    def __init__(self, d_model, n_heads, dropout=0.0, n_distances=7):
        super().__init__(d_model, n_heads, dropout)
        self.by_distance = nn.Parameter(torch.randn(n_heads, n_distances))

    def bias(self, q, k):
        return self.by_distance[:, distances(q, k).clamp(0, self.by_distance.shape[1] - 1)]  # (h, n_q, n_k)


class Rotary(MultiHeadAttention):
    """Queries and keys rotated by an angle that grows with their position (Su et al. 2021)."""

    @staticmethod
    def rotated(x, start):
        position = torch.arange(start, start + x.shape[-2], dtype=x.dtype)[:, None]
        rate = 10_000.0 ** (-torch.arange(0, x.shape[-1], 2, dtype=x.dtype) / x.shape[-1])
        return torch.view_as_real(
            torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
            * torch.polar(torch.ones_like(position * rate), position * rate)
        ).flatten(-2)

    def queries(self, q, start):
        return self.rotated(super().queries(q, start), start)

    def keys_values(self, k, v, start):
        k, v = super().keys_values(k, v, start)
        return self.rotated(k, start), v


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
