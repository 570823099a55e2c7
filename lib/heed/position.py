"""Where a token stands: codes that are added to its vector, because attention alone does not see order.

This module knows nothing about layers.
"""

import torch
from torch import nn


def sinusoids(n, d_model, base=10_000.0):
    """Write each position as a row of sines and cosines, from fast to slow.

        PE(pos, 2i)   = sin(pos / base^(2i/d_model))
        PE(pos, 2i+1) = cos(pos / base^(2i/d_model)),  i < d_model/2   (Vaswani et al. 2017, sec. 3.5)

    Computed in float64: far from the start, an angle in float32 is wrong in its first digits.

    Returns (n, d_model), float64. Raises ValueError if d_model is odd: sine and cosine come in pairs.
    """
    if d_model % 2:
        raise ValueError(f"Sines and cosines come in pairs, so d_model must be even; it is {d_model}.")
    position = torch.arange(n, dtype=torch.float64)[:, None]  # (n, 1)
    rate = base ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angle = position * rate
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)  # (n, d_model)


class PositionalEncoding(nn.Module):
    """Add `sinusoids` to the vectors, then drop out. More positions are computed when a sentence needs them.

    (Vaswani et al. 2017, sections 3.5 and 5.4)
    """

    def __init__(self, d_model, dropout, n_max=512):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("encoding", sinusoids(n_max, d_model).float(), persistent=False)

    def forward(self, x, start=0):
        """x: (b, n, d_model). start: the position of the first token. Returns (b, n, d_model)."""
        end = start + x.shape[1]
        if end > len(self.encoding):
            self.encoding = sinusoids(2 * end, x.shape[2]).to(self.encoding)  # (n_max, d_model)
        return self.dropout(x + self.encoding[start:end].to(x.dtype))  # (b, n, d_model)


class LearnedPosition(nn.Module):
    """Add a learned vector for each position, then drop out. A position beyond n_max raises a ValueError.

    (Gehring et al. 2017; Vaswani et al. 2017, table 3, row E)
    """

    def __init__(self, d_model, dropout, n_max=512):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.embedding = nn.Parameter(0.02 * torch.randn(n_max, d_model))

    def forward(self, x, start=0):
        """x: (b, n, d_model). start: the position of the first token. Returns (b, n, d_model).

        Raises ValueError if the last position has no vector.
        """
        end = start + x.shape[1]
        if end > len(self.embedding):
            raise ValueError(
                f"Position {end - 1} has no vector: there are {len(self.embedding)} positions. "
                f"Make the model with n_max={end} or more, or use PositionalEncoding, which grows."
            )
        return self.dropout(x + self.embedding[start:end])  # (b, n, d_model)
