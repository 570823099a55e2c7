"""Position codes, added to a token's vector: attention alone sees no order.

This module knows nothing about layers.
"""

import torch
from torch import nn


def sinusoids(n, d_model, base=10_000.0):
    """Write each position as a row of sines and cosines, from fast to slow.

        PE(pos, 2i)   = sin(pos / base^(2i/d_model)),  i < d_model/2
        PE(pos, 2i+1) = cos(pos / base^(2i/d_model))
        (Vaswani et al. 2017, section 3.5)

    Computed in float64: far from the start, an angle in float32 is wrong in its
    first digits.

    Returns (n, d_model), float64. Raises ValueError if d_model is odd: sine and
    cosine come in pairs.
    """
    if d_model % 2:
        raise ValueError(
            "Sines and cosines come in pairs, so d_model must be even; "
            f"it is {d_model}."
        )
    position = torch.arange(n, dtype=torch.float64)[:, None]  # (n, 1)
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

    A position beyond n_max raises a ValueError.
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
        if end > len(self.embedding):
            raise ValueError(
                f"Position {end - 1} has no vector: there are "
                f"{len(self.embedding)} positions. Make the model with "
                f"n_max={end} or more, or use PositionalEncoding, which grows."
            )
        return self.dropout(x + self.embedding[start:end])  # (b, n, d_model)
