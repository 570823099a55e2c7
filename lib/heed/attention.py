"""Attention: from scores to weights, and from weights to a mixture of the values.

This module does not know in what layer or model it is used.
"""

from contextlib import contextmanager

import torch
from torch import nn


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
