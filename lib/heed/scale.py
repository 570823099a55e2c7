"""Attention at scale: the same mixture in less memory, and layers that hold less.

`tiled_attention` is exact. The layers below it hold fewer keys and values, or
forget. They are kinds of `MultiHeadAttention`; this module knows nothing about
models.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from heed.attention import (
    MultiHeadAttention,
    check_mask,
    expectation,
    fused_attention,
    fused_is_faster,
    split_heads,
)
from heed.position import distances
from heed.scores import scaled_dot_score


def online_softmax(m, total, mixed, scores, v):
    """Take more scores and their values into a softmax that is under way.

        m' = max(m, max_j s_j)
        total' = e^(m − m') total + Σ_j e^(s_j − m')
        mixed' = e^(m − m') mixed + Σ_j e^(s_j − m') v_j
        (m and total: Milakov & Gimelshein 2018, algorithm 3; mixed: Dao et al.
        2022, algorithm 1)

    When all scores have come, the mixture is mixed / total. A score of −∞ hides
    its value.

    m: (..., n_q, 1), the largest score so far; at first the lowest of its dtype
    total: (..., n_q, 1), at first zeros
    mixed: (..., n_q, d_v), at first zeros
    scores: (..., n_q, n_k), of the keys that come now
    v: (..., n_k, d_v), their values

    Returns the new m, total and mixed.
    """
    new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))  # (..., n_q, 1)
    shrink = (m - new).exp()  # (..., n_q, 1)
    weights = (scores - new).exp()  # (..., n_q, n_k)
    total = shrink * total + weights.sum(dim=-1, keepdim=True)  # (..., n_q, 1)
    mixed = shrink * mixed + weights @ v  # (..., n_q, d_v)
    return new, total, mixed


def tiled_attention(q, k, v, mask=None, size=512):
    """`attention` tile by tile: no table of all queries and keys is ever stored.

    Backwards, each tile is computed again (Dao et al. 2022, algorithms 1 and 4).
    What is stored grows with n_q + n_k. A query that may look nowhere gets
    zeros, and sends back a gradient of zero.

    q: (..., n_q, d_k)
    k: (..., n_k, d_k)
    v: (..., n_k, d_v)
    mask: bool, True where the query may look; broadcasts to (..., n_q, n_k)
        Or a function of the positions i of some queries, a column, and j of
        some keys, a row, that gives the mask of their tile, such as
        `lambda i, j: j <= i`. Where it hides a tile, that is left out.
    size: so many queries and so many keys make a tile

    Returns the mixture (..., n_q, d_v).
    Raises ValueError if the mask is not bool or does not fit, or for a size
    below 1.
    """
    if size < 1:
        raise ValueError(f"A tile has one query and one key or more; {size=}.")
    axes = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    q, k, v = (x.expand(*axes, -1, -1) for x in (q, k, v))
    return TiledAttention.apply(q, k, v, mask, size)  # (..., n_q, d_v)


class TiledAttention(torch.autograd.Function):
    """The two passes of `tiled_attention`.

    With P the weights and dZ the gradient of the mixture Z = PV,

        dV = Pᵀ dZ,  dP = dZ Vᵀ,  dS = P ⊙ (dP − rowsum(dZ ⊙ Z))
        dQ = dS K / √d_k,  dK = dSᵀ Q / √d_k
        (Dao et al. 2022, appendix B.2)
    """

    @staticmethod
    def forward(ctx, q, k, v, mask, size):
        lowest, z, L = torch.finfo(q.dtype).min, [], []
        for i in cuts(q, size):
            m = torch.full_like(q[..., i, :1], lowest)
            total = torch.zeros_like(m)
            mixed = torch.zeros_like(m) * v[..., :1, :]
            for j in cuts(k, size):
                scores = tile(q, k, mask, i, j)
                if scores is not None:
                    m, total, mixed = online_softmax(m, total, mixed, scores, v[..., j, :])
            total = total.clamp(min=1)  # below 1 only where all is hidden
            z.append(mixed / total)
            L.append(m + total.log())
        z, L = torch.cat(z, dim=-2), torch.cat(L, dim=-2)
        ctx.save_for_backward(q, k, v, z, L)
        ctx.mask, ctx.size = mask, size
        return z

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dz):
        q, k, v, z, L = ctx.saved_tensors
        dq, dk, dv = (torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
        root, mean = math.sqrt(q.shape[-1]), (dz * z).sum(dim=-1, keepdim=True)
        for i in cuts(q, ctx.size):
            for j in cuts(k, ctx.size):
                scores = tile(q, k, ctx.mask, i, j)
                if scores is None:
                    continue
                P = (scores - L[..., i, :]).exp()
                dS = P * (dz[..., i, :] @ v[..., j, :].mT - mean[..., i, :]) / root
                dv[..., j, :] += P.mT @ dz[..., i, :]
                dq[..., i, :] += dS @ k[..., j, :]
                dk[..., j, :] += dS.mT @ q[..., i, :]
        return dq, dk, dv, None, None


def cuts(x, size):
    """Slices that cut the tokens of x into pieces of `size`, the last one shorter."""
    n = x.shape[-2]
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def tile(q, k, mask, i, j):
    """The scores of some queries and some keys; None if all of them are hidden.

    i, j: slices of the queries and of the keys
    """
    seen = None
    if callable(mask):
        rows = torch.arange(i.start, i.stop, device=q.device)[:, None]
        columns = torch.arange(j.start, j.stop, device=q.device)
        seen = mask(rows, columns)
        check_mask(seen, (*q.shape[:-2], len(rows), len(columns)))
        if not seen.any():
            return None
    elif mask is not None:
        shape = (*q.shape[:-1], k.shape[-2])
        check_mask(mask, shape)
        seen = mask.expand(shape)[..., i, j]
    scores = scaled_dot_score(q[..., i, :], k[..., j, :])
    return scores if seen is None else scores.masked_fill(~seen, -math.inf)


# --- Fewer keys and values, a window, a sum -----------------------------------


class GroupedQueryAttention(MultiHeadAttention):
    """Several heads of queries share one head of keys and values.

    head_i = Attention(Q W_i^Q, K W_g^K, V W_g^V),  g: the group of head i
    (Ainslie et al. 2023; with one group for all, multi-query: Shazeer 2019)

    A cache holds n_kv_heads / n_heads of what it held.
    """

    def __init__(self, d_model, n_heads, dropout=0.0, n_kv_heads=1):
        super().__init__(d_model, n_heads, dropout)
        check_groups(n_heads, n_kv_heads)
        self.n_kv_heads = n_kv_heads
        d_shared = n_kv_heads * (d_model // n_heads)
        self.W_k = nn.Linear(d_model, d_shared)
        self.W_v = nn.Linear(d_model, d_shared)

    def keys_values(self, k, v, start):
        """k: (b, n_k, d_model). v: (b, n_k, d_model).

        Returns both, split into n_kv_heads heads.
        """
        k = split_heads(self.W_k(k), self.n_kv_heads)
        v = split_heads(self.W_v(v), self.n_kv_heads)
        return k, v

    def mix(self, q, k, v, mask):
        """Attend in each head; the fused kernel copies no keys.

        q: (b, h, n_q, d_k)

        Returns (b, h, n_q, d_k).
        """
        dropout = self.dropout.p if self.training else 0.0
        if not self.weights.recorded and fused_is_faster(q, k, dropout):
            return fused_attention(q, k, v, mask, self.bias(q, k), dropout)
        n_shared_by = self.n_heads // self.n_kv_heads
        k, v = (x.repeat_interleave(n_shared_by, dim=1) for x in (k, v))
        return super().mix(q, k, v, mask)


def check_groups(n_heads, n_kv_heads):
    """Raise a ValueError if heads of queries cannot share equally.

    It names the nearest number of heads of keys that can be shared.
    """
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        fits = [n for n in range(1, n_heads + 1) if n_heads % n == 0]
        nearest = min(fits, key=lambda n: abs(n - n_kv_heads))
        raise ValueError(
            f"{n_heads} heads of queries cannot share {n_kv_heads} of keys and values equally; "
            f"the nearest that works is n_kv_heads={nearest}."
        )


class SlidingWindow(MultiHeadAttention):
    """A query sees the last few tokens only, itself among them.

    mask[i, j] = i − j < window
    (Child et al. 2019, section 4; Beltagy et al. 2020, section 3.1)

    Tokens after it are for the mask to hide.
    """

    def __init__(self, d_model, n_heads, dropout=0.0, window=512):
        super().__init__(d_model, n_heads, dropout)
        if window < 1:
            raise ValueError(f"A window holds the token itself or more; {window=}.")
        self.window = window

    def mix(self, q, k, v, mask):
        """Attend in each head, where both the mask and the window let it.

        q: (b, h, n_q, d_k)
        k: (b, h, n_k, d_k)
        v: (b, h, n_k, d_k)

        Returns (b, h, n_q, d_k).
        """
        near = distances(q, k) < self.window  # (n_q, n_k)
        return super().mix(q, k, v, near if mask is None else near & mask)


def positive(x):
    """A feature map: what it returns has no negative entries.

    φ(x) = elu(x) + 1      (Katharopoulos et al. 2020, eq. 7)
    """
    return F.elu(x) + 1


def linear_attention(q, k, v, mask=None):
    """Attention whose weights are proportional to φ(q)ᵀφ(k).

        z_i = Σ_j φ(q_i)ᵀφ(k_j) v_j / Σ_j φ(q_i)ᵀφ(k_j),  φ(x) = elu(x) + 1
        (Katharopoulos et al. 2020, eq. 4)

    Without a mask the keys are summed first, and no table of all queries and
    keys is made; with one it is.

    q: (..., n_q, d_k)
    k: (..., n_k, d_k)
    v: (..., n_k, d_v)
    mask: bool, True where the query may look; broadcasts to (..., n_q, n_k)

    Returns the mixture (..., n_q, d_v); zeros for a query that may look nowhere.
    Raises ValueError if the mask is not bool or does not fit.
    """
    q, k = positive(q), positive(k)
    if mask is None:
        S = k.mT @ v  # (..., d_k, d_v)
        s = k.sum(dim=-2)[..., None]  # (..., d_k, 1)
        return (q @ S) / (q @ s)
    check_mask(mask, (*q.shape[:-1], k.shape[-2]))
    weights = (q @ k.mT).masked_fill(~mask, 0.0)  # (..., n_q, n_k)
    total = weights.sum(dim=-1, keepdim=True)  # (..., n_q, 1)
    return weights @ v / total.masked_fill(total == 0, 1.0)


def linear_recurrent(q, k, v, state=None):
    """Causal `linear_attention`, a token at a time: what it holds does not grow.

        S_t = S_{t−1} + φ(k_t) v_tᵀ,  s_t = s_{t−1} + φ(k_t)
        z_t = S_tᵀ φ(q_t) / s_tᵀ φ(q_t)
        (Katharopoulos et al. 2020, eqs. 18 to 20)

    q: (..., n, d_k)
    k: (..., n, d_k)
    v: (..., n, d_v)
    state: S and s after earlier tokens; None where there are none

    Returns the mixtures (..., n, d_v), and the state after the last token.
    """
    q, k = positive(q), positive(k)
    S, s = state or (0.0, 0.0)
    mixtures = []
    for t in range(q.shape[-2]):
        S = S + k[..., t, :, None] * v[..., t, None, :]  # (..., d_k, d_v)
        s = s + k[..., t, :]  # (..., d_k)
        total = (s * q[..., t, :]).sum(dim=-1, keepdim=True)
        mixtures.append((q[..., t, None, :] @ S)[..., 0, :] / total)
    return torch.stack(mixtures, dim=-2), (S, s)


class LinearAttention(MultiHeadAttention):
    """`linear_attention` in each head: a sum takes the place of all keys.

    While it writes, `linear_recurrent` gives its numbers from a state of
    d_k d_v + d_k numbers a head, however long the text is
    (Katharopoulos et al. 2020).
    """

    def mix(self, q, k, v, mask):
        """Attend in each head; weights are stored where someone asks for them."""
        dropped = self.training and self.dropout.p > 0
        if not (self.weights.recorded or dropped):
            return linear_attention(q, k, v, mask)
        scores = (positive(q) @ positive(k).mT).log()  # (b, h, n_q, n_k)
        weights = self.dropout(self.weights(scores, mask))  # (b, h, n_q, n_k)
        return expectation(weights, v)  # (b, h, n_q, d_k)
