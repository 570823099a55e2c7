"""Score functions: how well does a key answer a query? One number a pair.

This module does not know where scores are used. Rows are tokens; `q` stands
before `k`.
"""

import math

import torch
from torch import nn


def additive_score(q, k, W, U, v):
    """Compare each query with each key through one small hidden layer.

        s(x, q) = vᵀ tanh(W x + U q)          where x is the key
        (Bahdanau et al. 2015, appendix A.1.2)

    q: (..., n_q, d_q)
    k: (..., n_k, d_k)
    W: (d_hidden, d_k)
    U: (d_hidden, d_q)
    v: (d_hidden)

    Returns one score for each pair (..., n_q, n_k).
    """
    keys = (k @ W.T).unsqueeze(-3)  # (..., 1, n_k, d_hidden)
    queries = (q @ U.T).unsqueeze(-2)  # (..., n_q, 1, d_hidden)
    return torch.tanh(keys + queries) @ v  # (..., n_q, n_k)


class AdditiveScore(nn.Module):
    """`additive_score` with its three parameters, W, U and v, learned.

    W x does not depend on the query. A decoder that asks about the same keys
    at every step computes it once, with `project`, and then only `compare`s
    (Bahdanau et al. 2015, appendix A.1.2).
    """

    def __init__(self, d_q, d_k, d_hidden):
        super().__init__()
        self.W = nn.Linear(d_k, d_hidden, bias=False)
        self.U = nn.Linear(d_q, d_hidden, bias=False)
        self.v = nn.Linear(d_hidden, 1, bias=False)

    def forward(self, q, k):
        """Return one score for each pair (..., n_q, n_k).

        q: (..., n_q, d_q)
        k: (..., n_k, d_k)
        """
        return self.compare(q, self.project(k))

    def project(self, k):
        """k: (..., n_k, d_k). Returns W x for each key (..., n_k, d_hidden)."""
        return self.W(k)

    def compare(self, q, projected):
        """Return the scores (..., n_q, n_k) of keys that `project` has seen.

        q: (..., n_q, d_q)
        projected: (..., n_k, d_hidden)
        """
        keys = projected.unsqueeze(-3)  # (..., 1, n_k, d_hidden)
        queries = self.U(q).unsqueeze(-2)  # (..., n_q, 1, d_hidden)
        return self.v(torch.tanh(keys + queries)).squeeze(-1)  # (..., n_q, n_k)


def dot_score(q, k):
    """Compare each query with each key by their dot product: Q Kᵀ.

        s(x, q) = xᵀ q = |x| |q| cos θ        where x is the key
        (Luong et al. 2015, section 3.1: "dot")

    q: (..., n_q, d_k)
    k: (..., n_k, d_k)

    Returns one score for each pair (..., n_q, n_k).
    """
    return q @ k.transpose(-2, -1)  # (..., n_q, n_k)


def scaled_dot_score(q, k):
    """`dot_score` divided by √d_k, so that its variance does not grow with d_k.

        s(x, q) = xᵀ q / √d_k                 (Vaswani et al. 2017, eq. 1)

    q: (..., n_q, d_k)
    k: (..., n_k, d_k)

    Returns one score for each pair (..., n_q, n_k).
    """
    return dot_score(q, k) / math.sqrt(q.shape[-1])  # (..., n_q, n_k)


def bilinear_score(q, k, W):
    """Compare each query with each key through one matrix.

        s(x, q) = xᵀ W q                      where x is the key
        (Luong et al. 2015, section 3.1: "general", with their W transposed)

    q: (..., n_q, d_q)
    k: (..., n_k, d_k)
    W: (d_k, d_q)

    Returns one score for each pair (..., n_q, n_k).
    """
    return dot_score(q, k @ W)  # (..., n_q, n_k)


class DotScore(nn.Module):
    """`dot_score` after two learned projections: a bilinear score, W = UᵀV.

        s(x, q) = (U x)ᵀ (V q) = xᵀ (UᵀV) q        where x is the key

    The rank of W is at most d_hidden.
    """

    def __init__(self, d_q, d_k, d_hidden):
        super().__init__()
        self.U = nn.Linear(d_k, d_hidden, bias=False)
        self.V = nn.Linear(d_q, d_hidden, bias=False)

    def forward(self, q, k):
        """Return one score for each pair (..., n_q, n_k).

        q: (..., n_q, d_q)
        k: (..., n_k, d_k)
        """
        return self.compare(q, self.project(k))

    def project(self, k):
        """k: (..., n_k, d_k). Returns U x for each key (..., n_k, d_hidden)."""
        return self.U(k)

    def compare(self, q, projected):
        """Return the scores (..., n_q, n_k) of keys that `project` has seen.

        q: (..., n_q, d_q)
        projected: (..., n_k, d_hidden)
        """
        return dot_score(self.V(q), projected)  # (..., n_q, n_k)


class ScaledDotScore(DotScore):
    """`DotScore`, divided by √d_hidden."""

    def compare(self, q, projected):
        """As in `DotScore`, but scaled: (..., n_q, n_k).

        q: (..., n_q, d_q)
        projected: (..., n_k, d_hidden)
        """
        return scaled_dot_score(self.V(q), projected)  # (..., n_q, n_k)


class BilinearScore(nn.Module):
    """`bilinear_score` with its matrix W learned; `W.weight` is W itself."""

    def __init__(self, d_q, d_k):
        super().__init__()
        self.W = nn.Linear(d_q, d_k, bias=False)

    def forward(self, q, k):
        """Return one score for each pair (..., n_q, n_k).

        q: (..., n_q, d_q)
        k: (..., n_k, d_k)
        """
        return self.compare(q, self.project(k))

    def project(self, k):
        """k: (..., n_k, d_k). Returns Wᵀ x for each key (..., n_k, d_q)."""
        return k @ self.W.weight  # (..., n_k, d_q)

    def compare(self, q, projected):
        """Return the scores (..., n_q, n_k) of keys that `project` has seen.

        q: (..., n_q, d_q)
        projected: (..., n_k, d_q)
        """
        return dot_score(q, projected)  # (..., n_q, n_k)
