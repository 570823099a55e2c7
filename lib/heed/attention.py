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


def fused_attention(q, k, v, mask=None, bias=None, dropout=0.0):
    """`attention` in one of torch's kernels, which never stores the weights: it returns the mixture alone.

    q: (..., n_q, d_k)
    k: (..., n_k, d_k)
    v: (..., n_k, d_v)
    mask: bool, True where the query may look; broadcasts to (..., n_q, n_k)
    bias: added to the scores; broadcasts to (..., n_q, n_k)
    dropout: probability with which a weight is dropped

    Returns (..., n_q, d_v).
    Raises ValueError if the mask is not bool or does not fit the scores.
    """
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)  # (..., n_q, d_v)
    check_mask(mask, (*q.shape[:-1], k.shape[-2]))
    mask = torch.atleast_2d(mask)  # the kernel takes no other
    somewhere = mask.any(dim=-1, keepdim=True)
    allowed = mask | ~somewhere
    if bias is not None:
        allowed = bias.masked_fill(~allowed, float("-inf"))  # (..., n_q, n_k)
    mixture = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout)
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


def causal_mask(n, start=0):
    """mask[i, j] is True when position start + i may look at position j: at itself and at all before it.

    n: number of queries
    start: number of tokens before the first query, where a cache holds them

    Returns (n, start + n), bool; without `start` a lower-triangular matrix of ones.
    """
    return torch.ones(n, start + n, dtype=torch.bool).tril(start)  # (n, n_k)


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

    The projections of all heads are one matrix each, so the number of parameters does not depend on h.

    Training and decoding run the same `forward`. A variant overrides one of its steps: `queries` or
    `keys_values` (rotary positions, fewer keys than queries), `bias` (ALiBi, relative positions), or `mix`.
    In self-attention the queries are the last n_q of the n_k tokens: query i stands at position
    n_k - n_q + i, with a cache and without.
    """

    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__()
        check_heads(d_model, n_heads)
        self.n_heads = n_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.weights = MaskedSoftmax()
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None, cache=None):
        """Project, attend in each head, join the heads.

        q: (b, n_q, d_model)
        k: (b, n_k, d_model)
        v: (b, n_k, d_model)
        mask: bool, True where the query may look; broadcasts to (b, h, n_q, n_k)
        cache: keys and values of earlier calls (`heed.decode.GrowingCache` or `FixedCache`); n_k then counts
            them, too

        Returns (b, n_q, d_model).
        """
        start = 0 if cache is None else cache.n  # how many tokens came before
        q = self.queries(q, start)  # (b, h, n_q, d_k)
        k, v = self.keys_values(k, v, start) if cache is None else cache.keys_values(self, k, v)
        return self.W_o(merge_heads(self.mix(q, k, v, mask)))  # (b, n_q, d_model)

    def queries(self, q, start):
        """q: (b, n_q, d_model). start: position of the first. Returns (b, h, n_q, d_k)."""
        return split_heads(self.W_q(q), self.n_heads)  # (b, h, n_q, d_k)

    def keys_values(self, k, v, start):
        """k, v: (b, n_k, d_model). start: position of the first. Returns two tensors (b, h, n_k, d_k)."""
        return split_heads(self.W_k(k), self.n_heads), split_heads(self.W_v(v), self.n_heads)

    def bias(self, q, k):
        """What a variant adds to the scores: None, or a tensor that broadcasts to them."""
        return None

    def mix(self, q, k, v, mask):
        """Attention in each head: in one kernel where that is faster and nobody records the weights.

        q: (b, h, n_q, d_k)
        k: (b, h, n_k, d_k)
        v: (b, h, n_k, d_k)

        Returns (b, h, n_q, d_k).
        """
        bias, dropout = self.bias(q, k), self.dropout.p if self.training else 0.0
        if fused_is_faster(q, k, dropout) and not self.weights._forward_hooks:  # nobody records
            return fused_attention(q, k, v, mask, bias, dropout)  # (b, h, n_q, d_k)
        scores = scaled_scores(q, k) if bias is None else scaled_scores(q, k) + bias  # (b, h, n_q, n_k)
        return expectation(self.dropout(self.weights(scores, mask)), v)  # (b, h, n_q, d_k)


def check_heads(d_model, n_heads):
    """Refuse a width that the heads cannot share equally, and name the nearest number of heads that can."""
    if d_model < 1:
        raise ValueError(f"{d_model=} leaves the heads nothing to share.")
    if n_heads < 1 or d_model % n_heads:
        fits = [h for h in range(1, d_model + 1) if d_model % h == 0]
        nearest = min(fits, key=lambda h: abs(h - n_heads))
        raise ValueError(f"{d_model=} is not divisible by {n_heads=}; the nearest that works is {nearest}.")
