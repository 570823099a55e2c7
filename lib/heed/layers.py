"""The parts of a Transformer's layer, and the two layers that are made of them.

This module knows nothing about tasks.
"""

import copy
import math

import torch
from torch import nn

from heed.text import PAD, check_ids


def clones(module, n):
    """n copies of a module, each with parameters of its own.

    A deep copy: a list that holds one module n times would be one layer that is
    applied n times.
    """
    return nn.ModuleList(copy.deepcopy(module) for _ in range(n))


class LayerNorm(nn.Module):
    """Give each vector mean 0 and variance 1, then a learned scale and shift.

        LN(x) = a ⊙ (x − mean(x)) / √(var(x) + ε) + b
        (Ba et al. 2016, eq. 4)

    The variance is the biased one, the mean of the squares, and ε stands under
    the root, as in torch's nn.LayerNorm.

    x: (..., d_model)

    Returns (..., d_model).
    """

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.a = nn.Parameter(torch.ones(d_model))
        self.b = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)  # (..., d_model)
        variance = centred.square().mean(dim=-1, keepdim=True)  # (..., 1)
        scale = torch.rsqrt(variance + self.eps)  # (..., 1)
        return self.a * centred * scale + self.b  # (..., d_model)


class RMSNorm(nn.Module):
    """Give each vector mean square 1, then a learned scale: no mean, no shift.

        RMS(x) = √(mean(x²) + ε),  y = a ⊙ x / RMS(x)
        (Zhang & Sennrich 2019, with ε as in torch's nn.RMSNorm)

    Where the mean of x is zero it is LN without b.

    x: (..., d_model)

    Returns (..., d_model).
    """

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.a = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        square = x.square().mean(dim=-1, keepdim=True)  # (..., 1)
        return self.a * x * torch.rsqrt(square + self.eps)  # (..., d_model)


class SublayerConnection(nn.Module):
    """A residual round a sublayer, with the norm before it (pre-norm).

        y = x + Dropout(F(LN(x)))
        (Xiong et al. 2020; so in the Annotated Transformer and in most code)

    The path from end to end stays free of norms.
    """

    def __init__(self, size, dropout):
        super().__init__()
        self.norm = LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        """Return x plus what the sublayer adds (b, n, d_model).

        x: (b, n, d_model)
        sublayer: a function that keeps the shape
        """
        return x + self.dropout(sublayer(self.norm(x)))  # (b, n, d_model)


class PostNormConnection(nn.Module):
    """A residual round a sublayer, with the norm after it (post-norm).

    y = LN(x + Dropout(F(x)))
    (Vaswani et al. 2017, sections 3.1 and 5.4)
    """

    def __init__(self, size, dropout):
        super().__init__()
        self.norm = LayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        """Return the normalised sum of x and sublayer(x) (b, n, d_model).

        x: (b, n, d_model)
        sublayer: a function that keeps the shape
        """
        return self.norm(x + self.dropout(sublayer(x)))  # (b, n, d_model)


class PositionwiseFeedForward(nn.Module):
    """A network with one hidden layer that treats every position alike, alone.

        FFN(x) = max(0, x W_1 + b_1) W_2 + b_2      (Vaswani et al. 2017, eq. 2)

    x: (b, n, d_model)

    Returns (b, n, d_model).
    """

    def __init__(self, d_model, d_ff, dropout):
        super().__init__()
        self.W_1 = nn.Linear(d_model, d_ff)
        self.W_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        hidden = self.dropout(torch.relu(self.W_1(x)))  # (b, n, d_ff)
        return self.W_2(hidden)  # (b, n, d_model)


class Embeddings(nn.Module):
    """One learned vector for each token, multiplied by √d_model.

    (Vaswani et al. 2017, section 3.4)
    ids: (b, n)

    Returns (b, n, d_model). Raises ValueError for an id outside the vocabulary;
    on a GPU, which the check would keep waiting, torch itself stops.
    """

    def __init__(self, d_model, vocab):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d_model, padding_idx=PAD)

    def forward(self, ids):
        vocab, d_model = self.embedding.weight.shape
        if ids.device.type == "cpu":
            check_ids(ids, vocab)
        return self.embedding(ids) * math.sqrt(d_model)  # (b, n, d_model)


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each in a connection."""

    def __init__(
        self, size, self_attention, feed_forward, dropout,
        connection=SublayerConnection,
    ):  # fmt: skip
        super().__init__()
        self.size = size
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.sublayer = nn.ModuleList(connection(size, dropout) for _ in range(2))

    def forward(self, x, mask, cache=None):
        """Carry the tokens through the layer.

        x: (b, n, d_model)
        mask: as for the layer's attention
        cache: one of `heed.decode`'s, or None

        Returns (b, n, d_model).
        """
        x = self.sublayer[0](x, lambda x: self.self_attention(x, x, x, mask, cache))  # (b, n, d_model)
        return self.sublayer[1](x, self.feed_forward)  # (b, n, d_model)


class DecoderLayer(nn.Module):
    """Self-attention, source attention, a feed-forward network, connected."""

    def __init__(
        self, size, self_attention, source_attention, feed_forward, dropout,
        connection=SublayerConnection,
    ):  # fmt: skip
        super().__init__()
        self.size = size
        self.self_attention = self_attention
        self.source_attention = source_attention
        self.feed_forward = feed_forward
        self.sublayer = nn.ModuleList(connection(size, dropout) for _ in range(3))

    def forward(self, x, memory, source_mask, target_mask, cache=None):
        """In source attention the decoder asks (q), the memory answers (k, v).

        x: (b, n, d_model)
        memory: (b, n_source, d_model)
        source_mask: (b, 1, 1, n_source)
        target_mask: (b, 1, n, n)
        cache: a pair, for self-attention and for source attention
            (`heed.decode`), or None

        Returns (b, n, d_model).
        """
        own, source = cache or (None, None)
        x = self.sublayer[0](x, lambda x: self.self_attention(x, x, x, target_mask, own))
        x = self.sublayer[1](
            x,
            lambda x: self.source_attention(x, memory, memory, source_mask, source),
        )
        return self.sublayer[2](x, self.feed_forward)  # (b, n, d_model)
