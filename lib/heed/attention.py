"""Attention: from scores to weights, and from weights to a mixture of values.

This module does not know in what layer or model it is used.
"""

from contextlib import contextmanager
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from heed.scores import scaled_dot_score
from heed.text import PAD


def masked_softmax(scores, mask=None):
    """Turn each row of scores into weights that sum to one over visible keys.

        α_i = exp(s_i) / Σ_j exp(s_j),  j over the positions where mask is True

    scores: (..., n_q, n_k)
    mask: bool, True where the query may look; broadcasts to (..., n_q, n_k)

    Returns (..., n_q, n_k). A query that may look nowhere gets zeros, and sends
    back a gradient of zero.
    Raises ValueError if the mask is not bool or does not fit the scores.
    """
    if mask is None:
        return scores.softmax(dim=-1)  # (..., n_q, n_k)
    check_mask(mask, scores.shape)
    hidden = scores.masked_fill(~mask, float("-inf"))  # (..., n_q, n_k)
    return hidden.softmax(dim=-1).masked_fill(~mask, 0.0)  # (..., n_q, n_k)


def check_mask(mask, shape):
    """Raise a ValueError that says what is wrong if a mask cannot be used.

    It must be bool and broadcast to `shape`, that of the scores.
    """
    meaning = "A mask is a bool tensor in which mask[i, j] is True when query i may look at key j"
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
        given = getattr(mask, "dtype", type(mask).__name__)
        raise ValueError(f"{meaning}; this one is {given}. A comparison such as `ids != PAD` gives one.")
    sizes = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.dim() > len(shape) or any(m not in (1, s) for m, s in sizes):
        raise ValueError(
            f"{meaning}; it must broadcast to {tuple(shape)}, but this one is {tuple(mask.shape)}."
        )


def expectation(weights, values):
    """Mix the values: the mean of one drawn with the weights as probabilities.

        att(X, q) = Σ_i α_i x_i = E_{z ∼ p(z|X,q)}[x_z]

    weights: (..., n_q, n_k)
    values: (..., n_k, d_v)

    Returns (..., n_q, d_v).
    """
    return weights @ values  # (..., n_q, d_v)


class MaskedSoftmax(nn.Module):
    """`masked_softmax` as a module, where `record` sees all weights pass."""

    def forward(self, scores, mask=None):
        return masked_softmax(scores, mask)

    @property
    def recorded(self):
        """Whether somebody waits for the weights, so that they must be stored."""
        return bool(self._forward_hooks)


@contextmanager
def record(model):
    """Collect a model's attention weights, while the block is open, as it runs.

        with record(model) as maps:
            model(source, target_in)
        maps["decoder.attention"]    # a list: one tensor for each time it ran

    Yields a dictionary from each layer's name to the list of its weights, in
    the order of computation.
    Raises ValueError if the model has no layer with attention.
    """
    modules = model.named_modules()
    layers = {name: m for name, m in modules if isinstance(m, MaskedSoftmax)}
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


def dependence(f, x):
    """How strongly each output position depends on each input position.

        D_ij = ‖∂y_i / ∂x_j‖,  y = f(x)      (Frobenius norm of a block)

    Where D_ij is zero, output i does not see input j, to first order at this
    x; with a causal mask that is everything above the diagonal.

    f: differentiable; takes a matrix of n_in rows and returns one of n_out
    x: (n_in, d_in)

    Returns (n_out, n_in).
    Raises ValueError if x, or what f returns, is not a matrix.
    """
    jacobian = torch.autograd.functional.jacobian(f, x)
    if x.dim() != 2 or jacobian.dim() != 4:
        n_axes = jacobian.dim() - x.dim()
        raise ValueError(
            "dependence needs one sequence, a row a position: "
            f"x has {x.dim()} axes and f(x) has {n_axes}, not 2 and 2."
        )
    return jacobian.square().sum(dim=(1, 3)).sqrt()  # (n_out, n_in)


# --- Hard attention: one position; and attention in two steps ------------------


def most_probable(weights):
    """Put all weight on the key that has most of it: hard attention's argmax.

        z = argmax_i α_i,  att(X, q) = x_z

    weights: (..., n_q, n_k)

    Returns rows (..., n_q, n_k) with a single 1. They carry no gradient.
    """
    z = weights.argmax(dim=-1)  # (..., n_q)
    return F.one_hot(z, weights.shape[-1]).to(weights.dtype)


def sampled(weights, generator=None):
    """Put all weight on one key, drawn with the weights as probabilities.

        z ∼ p(z = i | X, q) = α_i,  att(X, q) = x_z

    weights: (..., n_q, n_k), each row sums to one

    Returns rows (..., n_q, n_k) with a single 1. They carry no gradient.
    """
    n_k = weights.shape[-1]
    rows = weights.detach().reshape(-1, n_k)
    z = torch.multinomial(rows, 1, generator=generator)
    return F.one_hot(z.view(weights.shape[:-1]), n_k).to(weights.dtype)


def straight_through(weights, choice):
    """Go forwards with the choice, and backwards as if it were the weights.

        choice + (α − stop(α)),  stop: a constant for the gradient
        (after Bengio, Léonard & Courville 2013, who draw bits)

    weights: (..., n_q, n_k)
    choice: (..., n_q, n_k), rows with a single 1

    Returns (..., n_q, n_k), equal to the choice.
    """
    return choice + (weights - weights.detach())  # (..., n_q, n_k)


def reinforce(weights, choice, loss, baseline=0.0):
    """A number whose gradient is, on average, that of the expected loss.

        ∇ E[f(x_z)] = E[(f(x_z) − b) ∇ log α_z]        (Williams 1992)

    weights: (..., n_q, n_k)
    choice: (..., n_q, n_k), the rows that `sampled` drew from the weights
    loss: (..., n_q), what each choice costs
    baseline: b, any number that does not depend on the choice

    Returns (..., n_q). Only its gradient has a meaning.
    """
    chosen = (weights * choice).sum(dim=-1)  # (..., n_q)
    return (loss - baseline).detach() * chosen.log()  # (..., n_q)


def structured_attention(sentence_scores, word_scores, values, mask=None):
    """Look in two steps: which sentence, and which word in it.

        α_ji = β_j γ_ji,  att = Σ_j β_j Σ_i γ_ji x_ji
        (after Yang et al. 2016)

    β is a softmax over the sentences, and γ_j one over the words of sentence j.

    sentence_scores: (..., n_sentences)
    word_scores: (..., n_sentences, n_words)
    values: (..., n_sentences, n_words, d_v)
    mask: bool, True at real words; broadcasts to (..., n_sentences, n_words)

    Returns the mixture (..., d_v) and the weights (..., n_sentences, n_words).
    """
    there = None if mask is None else mask.any(dim=-1)
    beta = masked_softmax(sentence_scores, there)  # (..., n_sentences)
    gamma = masked_softmax(word_scores, mask)  # (..., n_sentences, n_words)
    weights = beta[..., None] * gamma  # (..., n_sentences, n_words)
    return (weights[..., None] * values).sum(dim=(-3, -2)), weights


# --- Scaled dot-product attention, and several of them side by side -----------


def attention(q, k, v, mask=None):
    """Mix the values, weighting each by how well its key answers the query.

        Attention(Q, K, V) = softmax(QKᵀ / √d_k) V
        (Vaswani et al. 2017, eq. 1)

    q: (..., n_q, d_k)
    k: (..., n_k, d_k)
    v: (..., n_k, d_v)
    mask: bool, True where the query may look; broadcasts to (..., n_q, n_k)

    Returns the mixture (..., n_q, d_v) and the weights (..., n_q, n_k).
    Raises ValueError if the mask is not bool or does not fit the scores.
    """
    weights = masked_softmax(scaled_dot_score(q, k), mask)  # (..., n_q, n_k)
    return expectation(weights, v), weights


def fused_attention(q, k, v, mask=None, bias=None, dropout=0.0):
    """`attention` in one of torch's kernels, which never stores the weights.

    Where k and v have fewer heads than q, each of theirs serves several of q's.

    q: (..., n_q, d_k)
    k: (..., n_k, d_k)
    v: (..., n_k, d_v)
    mask: bool, True where the query may look; broadcasts to (..., n_q, n_k)
    bias: added to the scores; broadcasts to (..., n_q, n_k)
    dropout: probability with which a weight is dropped

    Returns the mixture alone (..., n_q, d_v).
    Raises ValueError if the mask is not bool or does not fit the scores.
    """
    shared = q.dim() > 3 and q.shape[-3] > k.shape[-3]
    kernel = partial(F.scaled_dot_product_attention, enable_gqa=shared)
    if mask is None:
        return kernel(q, k, v, bias, dropout)  # (..., n_q, d_v)
    check_mask(mask, (*q.shape[:-1], k.shape[-2]))
    mask = torch.atleast_2d(mask)  # the kernel takes no other
    somewhere = mask.any(dim=-1, keepdim=True)
    allowed = mask | ~somewhere
    if bias is not None:
        allowed = bias.masked_fill(~allowed, float("-inf"))  # (..., n_q, n_k)
    mixture = kernel(q, k, v, allowed, dropout)
    return mixture.masked_fill(~somewhere, 0.0)  # (..., n_q, d_v)


def fused_is_faster(q, k, dropout=0.0):
    """Whether `fused_attention` takes less time than `attention`, as measured.

    On graphics processors it does. On a CPU without a gradient it does too, but
    not for one query in each of many sequences, which is how a model writes. On
    a CPU its backward pass is faster from 32 tokens on, in bfloat16 from 1,024;
    with dropout there is no fused one.

    q: (..., n_q, d_k)
    k: (..., n_k, d_k)
    """
    if q.device.type != "cpu":
        return True
    if not (q.requires_grad or k.requires_grad):
        return q.shape[-2] > 1 or len(q) < 32
    enough = 1024 if q.dtype == torch.bfloat16 else 32
    return dropout == 0 and max(q.shape[-2], k.shape[-2]) >= enough


def causal_mask(n, start=0):
    """mask[i, j] is True when position start + i may look at position j.

    A position may look at itself and at all positions before it.

    n: number of queries
    start: number of tokens before the first query, where a cache holds them

    Returns (n, start + n), bool; without `start` it is lower-triangular.
    """
    return torch.ones(n, start + n, dtype=torch.bool).tril(start)  # (n, n_k)


def padding_mask(ids):
    """mask[s, 0, 0, j] is True when token j of sentence s is real.

    Every head and every query may look at a real token.

    ids: (b, n_k)

    Returns (b, 1, 1, n_k), bool; the axes are sentence, head, query, key.
    """
    return (ids != PAD)[:, None, None, :]  # (b, 1, 1, n_k)


class SelfAttention(nn.Module):
    """Every token of a sequence asks all tokens of the same sequence, at once.

    Q = X W_Qᵀ,  K = X W_Kᵀ,  V = X W_Vᵀ
    Z = softmax(QKᵀ / √d_k) V
    (Vaswani et al. 2017, eq. 1, where q, k and v come from one sequence)
    """

    def __init__(self, d_model, d_k, d_v):
        super().__init__()
        self.W_q = nn.Linear(d_model, d_k, bias=False)
        self.W_k = nn.Linear(d_model, d_k, bias=False)
        self.W_v = nn.Linear(d_model, d_v, bias=False)
        self.weights = MaskedSoftmax()

    def forward(self, x, mask=None):
        """Return a new vector for each token (..., n, d_v).

        x: (..., n, d_model), one row per token
        mask: True where the query may look; broadcasts to (..., n, n)
        """
        q, k, v = self.W_q(x), self.W_k(x), self.W_v(x)
        alpha = self.weights(scaled_dot_score(q, k), mask)  # (..., n, n)
        return expectation(alpha, v)  # (..., n, d_v)


def split_heads(x, n_heads):
    """Cut each token's vector into h pieces; put the heads before the tokens.

    x: (b, n, d_model)

    Returns (b, h, n, d_k) with d_k = d_model / h.
    """
    b, n, d_model = x.shape
    x = x.view(b, n, n_heads, d_model // n_heads)  # (b, n, h, d_k)
    return x.transpose(1, 2)  # (b, h, n, d_k)


def merge_heads(x):
    """Put each token's pieces side by side again: the inverse of `split_heads`.

    x: (b, h, n, d_k)

    Returns (b, n, h*d_k).
    """
    return x.transpose(1, 2).flatten(2)  # (b, n, h*d_k)


class MultiHeadAttention(nn.Module):
    """h attentions side by side, each in its own d_k = d_model / h dimensions.

        head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)
        MultiHead(Q, K, V) = [head_1; …; head_h] W^O
        (Vaswani et al. 2017, section 3.2.2)

    A variant overrides one of the steps: `queries`, `keys_values`, `bias` or
    `mix`. In self-attention the queries are the last n_q of the n_k tokens:
    query i has position n_k - n_q + i, with a cache and without.
    """

    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__()
        check_heads(d_model, n_heads)
        self.n_heads = n_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)
        self.weights = MaskedSoftmax()
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask=None, cache=None):
        """Project, attend in each head, join: returns (b, n_q, d_model).

        q: (b, n_q, d_model)
        k: (b, n_k, d_model)
        v: (b, n_k, d_model)
        mask: True where the query may look; broadcasts to (b, h, n_q, n_k)
        cache: keys and values of earlier calls (`heed.decode`), also in n_k
        """
        start = 0 if cache is None else cache.n  # how many tokens came before
        q = self.queries(q, start)  # (b, h, n_q, d_k)
        if cache is None:
            k, v = self.keys_values(k, v, start)  # (b, h, n_k, d_k) each
        else:
            k, v = cache.keys_values(self, k, v)
        mixture = self.mix(q, k, v, mask)  # (b, h, n_q, d_k)
        return self.W_o(merge_heads(mixture))  # (b, n_q, d_model)

    def queries(self, q, start):
        """Project and split the queries; the first has position `start`."""
        return split_heads(self.W_q(q), self.n_heads)

    def keys_values(self, k, v, start):
        """Project and split keys and values; the first has position `start`."""
        k = split_heads(self.W_k(k), self.n_heads)
        v = split_heads(self.W_v(v), self.n_heads)
        return k, v

    def bias(self, q, k):
        """What a variant adds to the scores; None where it adds nothing."""
        return None

    def mix(self, q, k, v, mask):
        """Attend in each head; the fused kernel never stores the weights."""
        bias = self.bias(q, k)
        dropout = self.dropout.p if self.training else 0.0
        if not self.weights.recorded and fused_is_faster(q, k, dropout):
            return fused_attention(q, k, v, mask, bias, dropout)
        scores = scaled_dot_score(q, k)  # (b, h, n_q, n_k)
        if bias is not None:
            scores = scores + bias  # (b, h, n_q, n_k)
        weights = self.dropout(self.weights(scores, mask))  # (b, h, n_q, n_k)
        return expectation(weights, v)  # (b, h, n_q, d_k)


def check_heads(d_model, n_heads):
    """Raise a ValueError if the heads cannot share the width equally.

    It names the nearest number of heads that can.
    """
    if d_model < 1:
        raise ValueError(f"{d_model=} leaves the heads nothing to share.")
    if n_heads < 1 or d_model % n_heads:
        fits = [h for h in range(1, d_model + 1) if d_model % h == 0]
        nearest = min(fits, key=lambda h: abs(h - n_heads))
        raise ValueError(f"{d_model=} is not divisible by {n_heads=}; the nearest that works is {nearest}.")
