"""Attention: from scores to weights, and from weights to a mixture of the values.

This module does not know in what layer or model it is used.
"""

import math
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import functional as F

from heed.text import PAD


def masked_softmax(scores, mask=None):
    """Turn each row of scores into weights that sum to one over the keys the query may look at.

        α_i = exp(s_i) / Σ_j exp(s_j),  j over the positions where mask is True

    scores: (..., n_q, n_k)
    mask: bool, True where the query may look; broadcasts to (..., n_q, n_k)

    Returns (..., n_q, n_k). A query that may look nowhere gets zeros, and sends back a gradient of zero.
    Raises ValueError if the mask is not bool or does not fit the scores.
    """
    if mask is None:
        return scores.softmax(dim=-1)  # (..., n_q, n_k)
    check_mask(mask, scores.shape)
    hidden = scores.masked_fill(~mask, float("-inf"))  # (..., n_q, n_k)
    return hidden.softmax(dim=-1).masked_fill(~mask, 0.0)  # (..., n_q, n_k)


def check_mask(mask, shape):
    """Refuse a mask that is not bool, or that does not broadcast to the shape of the scores, in words."""
    meaning = "A mask is a bool tensor in which mask[i, j] is True when query i may look at key j"
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
        given = getattr(mask, "dtype", type(mask).__name__)
        raise ValueError(f"{meaning}; this one is {given}. A comparison such as `ids != PAD` gives one.")
    fits = mask.dim() <= len(shape) and all(
        m in (1, s) for m, s in zip(reversed(mask.shape), reversed(shape), strict=False)
    )
    if not fits:
        raise ValueError(
            f"{meaning}; it must broadcast to {tuple(shape)}, but this one is {tuple(mask.shape)}."
        )


def expectation(weights, values):
    """Mix the values: the mean of a value drawn with the weights as probabilities.

        att(X, q) = Σ_i α_i x_i = E_{z ∼ p(z|X,q)}[x_z]

    weights: (..., n_q, n_k)
    values: (..., n_k, d_v)

    Returns (..., n_q, d_v).
    """
    return weights @ values  # (..., n_q, d_v)


class MaskedSoftmax(nn.Module):
    """`masked_softmax` as a module: all weights pass through it, and there `record` can see them."""

    def forward(self, scores, mask=None):
        return masked_softmax(scores, mask)


@contextmanager
def record(model):
    """Collect a model's attention weights while the block is open, from the computation that really runs.

        with record(model) as maps:
            model(source, target_in)
        maps["decoder.attention"]    # a list: one tensor of weights for each time this layer ran

    Yields a dictionary from each layer's name to the list of its weights, in the order of computation.
    Raises ValueError if the model has no layer with attention.
    """
    layers = {name: m for name, m in model.named_modules() if isinstance(m, MaskedSoftmax)}
    if not layers:
        raise ValueError(f"{type(model).__name__} has no attention to record: it holds no MaskedSoftmax.")
    maps = {name: [] for name in layers}

    def keep(seen):
        return lambda module, inputs, weights: seen.append(weights.detach())

    hooks = [layer.register_forward_hook(keep(maps[name])) for name, layer in layers.items()]
    try:
        yield maps
    finally:
        for hook in hooks:
            hook.remove()


# --- Scaled dot-product attention, and several of them side by side ---------------------------------------


def attention(q, k, v, mask=None):
    """Mix the values, weighting each by how well its key answers the query.

        Attention(Q, K, V) = softmax(QKᵀ / √d_k) V      (Vaswani et al. 2017, eq. 1)

    q: (..., n_q, d_k)
    k: (..., n_k, d_k)
    v: (..., n_k, d_v)
    mask: bool, True where the query may look; broadcasts to (..., n_q, n_k)

    Returns the mixture (..., n_q, d_v) and the weights (..., n_q, n_k).
    Raises ValueError if the mask is not bool or does not fit the scores.
    """
    weights = masked_softmax(scaled_scores(q, k), mask)  # (..., n_q, n_k)
    return expectation(weights, v), weights


def scaled_scores(q, k):
    """Compare each query with each key by their dot product, divided by √d_k.

    q: (..., n_q, d_k)
    k: (..., n_k, d_k)

    Returns (..., n_q, n_k).
    """
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (..., n_q, n_k)


def fused_attention(q, k, v, mask=None, dropout=0.0):
    """`attention` in one kernel of torch's that never writes the weights down: the same mixture, alone.

    q: (..., n_q, d_k)
    k: (..., n_k, d_k)
    v: (..., n_k, d_v)
    mask: bool, True where the query may look; broadcasts to (..., n_q, n_k)
    dropout: the share of the weights that is dropped

    Returns (..., n_q, d_v).
    Raises ValueError if the mask is not bool or does not fit the scores.
    """
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout)  # (..., n_q, d_v)
    check_mask(mask, (*q.shape[:-1], k.shape[-2]))
    mask = torch.atleast_2d(mask)  # the kernel takes no other
    somewhere = mask.any(dim=-1, keepdim=True)
    somehow = mask | ~somewhere
    mixture = F.scaled_dot_product_attention(q, k, v, attn_mask=somehow, dropout_p=dropout)  # (..., n_q, d_v)
    return mixture.masked_fill(~somewhere, 0.0)  # (..., n_q, d_v)


def fused_is_faster(q, k, dropout=0.0):
    """Whether `fused_attention` takes less time than `attention` here: a rule that was measured.

    On graphics processors it does, and on any device without a gradient. On a processor its backward pass is
    faster from 32 tokens on, in bfloat16 from 1,024 on; with dropout there is no fused one.

    q: (..., n_q, d_k)
    k: (..., n_k, d_k)
    """
    if q.device.type != "cpu" or not (q.requires_grad or k.requires_grad):
        return True
    return dropout == 0 and max(q.shape[-2], k.shape[-2]) >= (1024 if q.dtype == torch.bfloat16 else 32)


def causal_mask(n):
    """mask[i, j] is True when position i may look at position j: at itself and at what stands before it.

    Returns the lower-triangular table of ones (n, n), bool.
    """
    return torch.ones(n, n, dtype=torch.bool).tril()  # (n, n)


def padding_mask(ids):
    """mask[i, 0, 0, j] is True when token j of sentence i is real: every head and every query may look at it.

    ids: (b, n_k)

    Returns (b, 1, 1, n_k), bool; the axes are sentence, head, query, key.
    """
    return (ids != PAD)[:, None, None, :]  # (b, 1, 1, n_k)


def split_heads(x, n_heads):
    """Cut each token's vector into h pieces and put the heads before the tokens.

    x: (b, n, d_model)

    Returns (b, h, n, d_k) with d_k = d_model / h.
    """
    b, n, d_model = x.shape
    return x.view(b, n, n_heads, d_model // n_heads).transpose(1, 2)  # (b, h, n, d_k)


def merge_heads(x):
    """Put the pieces of each token side by side again: the inverse of `split_heads`.

    x: (b, h, n, d_k)

    Returns (b, n, h*d_k).
    """
    return x.transpose(1, 2).flatten(2)  # (b, n, h*d_k)


class MultiHeadAttention(nn.Module):
    """h attentions side by side, each in its own d_k = d_model / h dimensions.

        head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)
        MultiHead(Q, K, V) = [head_1; …; head_h] W^O      (Vaswani et al. 2017, section 3.2.2)

    The projections of all heads are one matrix each, so the number of parameters does not depend on h. The
    weights are written down while somebody records them, and where that is faster.
    """

    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__()
        check_heads(d_model, n_heads)
        self.n_heads = n_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.weights = MaskedSoftmax()
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None):
        """q: (b, n_q, d_model). k, v: (b, n_k, d_model). mask: broadcasts to (b, h, n_q, n_k).

        Returns (b, n_q, d_model).
        """
        q, k, v = (split_heads(W(x), self.n_heads) for W, x in ((self.W_q, q), (self.W_k, k), (self.W_v, v)))
        dropout = self.dropout.p if self.training else 0.0
        if fused_is_faster(q, k, dropout) and not self.weights._forward_hooks:  # nobody records
            return self.W_o(merge_heads(fused_attention(q, k, v, mask, dropout)))  # (b, n_q, d_model)
        weights = self.dropout(self.weights(scaled_scores(q, k), mask))  # (b, h, n_q, n_k)
        return self.W_o(merge_heads(expectation(weights, v)))  # (b, n_q, d_model)


def check_heads(d_model, n_heads):
    """Refuse a width that the heads cannot share equally, and name the nearest number of heads that can."""
    if d_model < 1:
        raise ValueError(f"{d_model=} leaves the heads nothing to share.")
    if n_heads < 1 or d_model % n_heads:
        fits = [h for h in range(1, d_model + 1) if d_model % h == 0]
        nearest = min(fits, key=lambda h: abs(h - n_heads))
        raise ValueError(f"{d_model=} is not divisible by {n_heads=}; the nearest that works is {nearest}.")
