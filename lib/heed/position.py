"""Positions: attention alone sees no order, and these are ways to show it one.

Added to a token's vector (`PositionalEncoding`, `LearnedPosition`), added to
the scores (`RelativeBias`, `ALiBi`), or by rotating queries and keys
(`Rotary`). The last three are kinds of `MultiHeadAttention`; this module knows
nothing about layers.
"""

import torch
from torch import nn

from heed.attention import MultiHeadAttention


def sinusoids(n, d_model, base=10_000.0, start=0):
    """Write each position as a row of sines and cosines, from fast to slow.

        PE(pos, 2c)   = sin(pos / base^(2c/d_model)),  c < d_model/2
        PE(pos, 2c+1) = cos(pos / base^(2c/d_model))
        (Vaswani et al. 2017, section 3.5)

    Computed in float64: in float32 the angle of a far position is imprecise,
    near position 100,000 from the third decimal on.

    start: the first of the n positions

    Returns (n, d_model), float64. Raises ValueError if d_model is odd: sine and
    cosine come in pairs.
    """
    if d_model % 2:
        raise ValueError(f"Sines and cosines come in pairs, so d_model must be even; it is {d_model}.")
    position = torch.arange(start, start + n, dtype=torch.float64)[:, None]
    rate = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angle = position * rate
    pairs = torch.stack([angle.sin(), angle.cos()], dim=-1)
    return pairs.flatten(1)  # (n, d_model)


class PositionalEncoding(nn.Module):
    """Add `sinusoids` to the vectors, then drop out.

    More positions are computed when a sentence needs them.
    (Vaswani et al. 2017, sections 3.5 and 5.4)
    """

    def __init__(self, d_model, dropout, n_max=512):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        encoding = sinusoids(n_max, d_model).float()
        self.register_buffer("encoding", encoding, persistent=False)

    def forward(self, x, start=0):
        """Add the code, from position `start` on.

        x: (b, n, d_model)

        Returns (b, n, d_model).
        """
        end = start + x.shape[1]
        if end > len(self.encoding):
            more = sinusoids(2 * end, x.shape[2])  # (n_max, d_model)
            self.encoding = more.to(self.encoding)  # (n_max, d_model)
        code = self.encoding[start:end].to(x.dtype)  # (n, d_model)
        return self.dropout(x + code)  # (b, n, d_model)


class LearnedPosition(nn.Module):
    """Add a learned vector for each position, then drop out.

    (Gehring et al. 2017; Vaswani et al. 2017, table 3, row E)
    """

    def __init__(self, d_model, dropout, n_max=512):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.embedding = nn.Parameter(0.02 * torch.randn(n_max, d_model))

    def forward(self, x, start=0):
        """Add the vectors, from position `start` on.

        x: (b, n, d_model)

        Returns (b, n, d_model). Raises ValueError if a position has no vector.
        """
        end = start + x.shape[1]
        check_positions(end, len(self.embedding))
        return self.dropout(x + self.embedding[start:end])  # (b, n, d_model)


def check_positions(n, n_max):
    """Raise a ValueError if n positions are more than there are vectors."""
    if n > n_max:
        raise ValueError(
            f"Position {n - 1} has no vector: there are {n_max} positions. "
            f"Make the model with n_max={n} or more, "
            "or use PositionalEncoding, which grows."
        )


# --- Positions inside attention: in the scores, or in queries and keys --------


def distances(q, k):
    """How many tokens each key is before each query; negative if it is after.

        D_ij = i − j

    The queries are the last n_q of the n_k tokens, as when a cache holds the
    keys of earlier tokens.

    q: (..., n_q, d_k)
    k: (..., n_k, d_k)

    Returns (n_q, n_k), whole numbers. Raises ValueError for more queries than
    keys: distances are for self-attention.
    """
    n_q, n_k = q.shape[-2], k.shape[-2]
    if n_q > n_k:
        raise ValueError(f"Distances are for self-attention; {n_q=} > {n_k=}.")
    position = torch.arange(n_k, device=q.device)  # (n_k)
    return position[n_k - n_q :, None] - position  # (n_q, n_k)


class RelativeBias(MultiHeadAttention):
    """Add to each score a learned number for its distance, one per head.

        s_ij = q_iᵀk_j / √d_k + b[i − j]
        (after Raffel et al. 2020, section 2.1, who put far distances into
        buckets; clipping is Shaw et al. 2018, section 3.2)

    Distances above `clip` share one number, and so do those below −clip.
    """

    def __init__(self, d_model, n_heads, dropout=0.0, clip=8):
        super().__init__(d_model, n_heads, dropout)
        self.clip = clip
        self.by_distance = nn.Parameter(torch.zeros(n_heads, 2 * clip + 1))

    def bias(self, q, k):
        """q: (b, h, n_q, d_k). k: (b, h, n_k, d_k). Returns (h, n_q, n_k)."""
        near = distances(q, k).clamp(-self.clip, self.clip)  # (n_q, n_k)
        return self.by_distance[:, near + self.clip]  # (h, n_q, n_k)


class ALiBi(MultiHeadAttention):
    """Subtract from each score a penalty that grows with the distance.

    s_ij = q_iᵀk_j / √d_k − m |i − j|,  m = 2^(−8/h), 2^(−16/h), …, 2^(−8)
    (after Press et al. 2022, section 3, who have j ≤ i; nothing is learned)
    """

    def bias(self, q, k):
        """q: (b, h, n_q, d_k). k: (b, h, n_k, d_k). Returns (h, n_q, n_k)."""
        head = torch.arange(1, self.n_heads + 1).to(q)  # (h)
        slope = 2.0 ** (-8 * head / self.n_heads)  # (h)
        return -slope[:, None, None] * distances(q, k).abs()  # (h, n_q, n_k)


def rotated(x, start=0, base=10_000.0):
    """Rotate each pair of entries by the angle of its dial at its position.

        (a, b) → (a cos θ − b sin θ, a sin θ + b cos θ)
        θ = pos / base^(2c/d_k) for pair c of the entries
        (Su et al. 2021, section 3.2)

    x: (..., n, d_k), with an even d_k
    start: position of the first of the n vectors

    Returns (..., n, d_k).
    """
    code = sinusoids(*x.shape[-2:], base, start).to(x)  # (n, d_k)
    sin, cos = code[:, 0::2], code[:, 1::2]
    a, b = x[..., 0::2], x[..., 1::2]
    pairs = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)
    return pairs.flatten(-2)  # (..., n, d_k)


class Rotary(MultiHeadAttention):
    """Rotate queries and keys: positions enter a score only as a distance.

    s_ij = (R_i q_i)ᵀ(R_j k_j) / √d_k = (R_{i−j} q_i)ᵀ k_j / √d_k
    (RoPE: Su et al. 2021, section 3.2; values are not rotated)
    """

    def queries(self, q, start):
        """q: (b, n_q, d_model). Returns (b, h, n_q, d_k)."""
        return rotated(super().queries(q, start), start)  # (b, h, n_q, d_k)

    def keys_values(self, k, v, start):
        """k: (b, n_k, d_model). v: (b, n_k, d_model).

        Returns two tensors (b, h, n_k, d_k).
        """
        k, v = super().keys_values(k, v, start)
        return rotated(k, start), v
