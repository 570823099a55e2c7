"""Additive, dot-product and bilinear scores: by hand, against torch's own layers, properties, learning."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from heed.scores import (
    AdditiveScore,
    BilinearScore,
    DotScore,
    ScaledDotScore,
    additive_score,
    bilinear_score,
    dot_score,
    scaled_dot_score,
)

B, N_Q, N_K, D_Q, D_K, D_HIDDEN = 2, 3, 5, 7, 11, 13


def test_on_paper():
    q, k = torch.tensor([[1.0]]), torch.tensor([[0.0], [1.0], [-1.0]])
    W, U, v = torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0], [1.0]]), torch.tensor([1.0, -1.0])
    scores = additive_score(q, k, W, U, v)  # tanh(k) − tanh(2k + 1)
    expected = [math.tanh(x) - math.tanh(2 * x + 1) for x in (0.0, 1.0, -1.0)]
    assert torch.allclose(scores, torch.tensor([expected]))


def test_equals_a_network_of_torch_layers_forward_and_gradient():
    torch.manual_seed(0)
    ours = AdditiveScore(D_Q, D_K, D_HIDDEN).double()
    theirs = nn.Sequential(
        nn.Linear(D_K + D_Q, D_HIDDEN, bias=False), nn.Tanh(), nn.Linear(D_HIDDEN, 1, bias=False)
    )
    theirs = theirs.double()
    with torch.no_grad():
        theirs[0].weight.copy_(torch.cat([ours.W.weight, ours.U.weight], dim=1))
        theirs[2].weight.copy_(ours.v.weight)
    q = torch.randn(B, N_Q, D_Q, dtype=torch.float64, requires_grad=True)
    k = torch.randn(B, N_K, D_K, dtype=torch.float64, requires_grad=True)
    pairs = torch.cat([k[:, None].expand(B, N_Q, N_K, D_K), q[:, :, None].expand(B, N_Q, N_K, D_Q)], dim=-1)
    a, b = ours(q, k), theirs(pairs)[..., 0]
    assert torch.allclose(a, b, atol=1e-12)
    direction = torch.randn_like(a)
    for mine, other in zip(
        torch.autograd.grad(a, (q, k), direction), torch.autograd.grad(b, (q, k), direction), strict=True
    ):
        assert torch.allclose(mine, other, atol=1e-10)


def test_function_and_module_are_one():
    torch.manual_seed(0)
    score = AdditiveScore(D_Q, D_K, D_HIDDEN)
    q, k = torch.randn(B, N_Q, D_Q), torch.randn(B, N_K, D_K)
    by_function = additive_score(q, k, score.W.weight, score.U.weight, score.v.weight[0])
    assert torch.allclose(score(q, k), by_function, atol=1e-6)
    assert torch.allclose(score.compare(q, score.project(k)), by_function, atol=1e-6)


def test_a_score_depends_on_its_own_pair_only():
    torch.manual_seed(0)
    score = AdditiveScore(D_Q, D_K, D_HIDDEN)
    q, k = torch.randn(B, N_Q, D_Q), torch.randn(B, N_K, D_K)
    before = score(q, k)
    k[:, 3], q[:, 1] = 100.0, -100.0
    after = score(q, k)
    same = torch.ones(N_Q, N_K, dtype=torch.bool)
    same[:, 3] = same[1] = False
    assert torch.equal(before[:, same], after[:, same]) and not torch.allclose(
        before[:, ~same], after[:, ~same]
    )


def test_scores_are_bounded_by_v():
    torch.manual_seed(0)
    score = AdditiveScore(D_Q, D_K, D_HIDDEN)
    scores = score(1e3 * torch.randn(B, N_Q, D_Q), 1e3 * torch.randn(B, N_K, D_K))
    assert (scores.abs() <= score.v.weight.abs().sum() + 1e-5).all()


# --- Dot product, scaled dot product, bilinear --------------------------------------------------------


def pairs(d_q=D_K, d_k=D_K):
    """Random queries and keys that gradients reach."""
    torch.manual_seed(0)
    q = torch.randn(B, N_Q, d_q, dtype=torch.float64, requires_grad=True)
    return q, torch.randn(B, N_K, d_k, dtype=torch.float64, requires_grad=True)


def test_dot_products_on_paper():
    q, k = torch.tensor([[1.0, 1.0], [0.0, 2.0]]), torch.tensor([[1.0, 1.0], [4.0, 0.0], [0.0, -1.0]])
    assert dot_score(q, k).tolist() == [[2.0, 4.0, -1.0], [2.0, 0.0, -2.0]]
    four = torch.ones(1, 4), torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    assert scaled_dot_score(*four).tolist() == [[5.0]]  # 10 / √4
    W = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]])  # (d_k, d_q)
    x, asked = torch.tensor([[3.0, 5.0]]), torch.tensor([[1.0, 10.0, 7.0]])
    assert bilinear_score(asked, x, W).tolist() == [[3 * 10.0 + 5 * 2.0]]


def test_dot_scores_equal_einsum_and_torch_s_attention_forward_and_gradient():
    q, k = pairs()
    plain = torch.einsum("bqd,bkd->bqk", q, k)
    values = torch.eye(N_K, dtype=torch.float64).expand(B, N_K, N_K)
    theirs = F.scaled_dot_product_attention(q, k, values)  # the values are one-hot: these are the weights
    ours = scaled_dot_score(q, k).softmax(-1)
    for a, b in ((dot_score(q, k), plain), (ours, theirs)):
        assert torch.allclose(a, b, atol=1e-12)
        direction = torch.randn_like(a)
        mine, other = (torch.autograd.grad(c, (q, k), direction, retain_graph=True) for c in (a, b))
        assert all(torch.allclose(m, o, atol=1e-10) for m, o in zip(mine, other, strict=True))


def test_bilinear_scores_equal_torch_s_bilinear_forward_and_gradient():
    q, k = pairs(D_Q)
    torch.manual_seed(1)
    ours = BilinearScore(D_Q, D_K).double()
    W = ours.W.weight
    assert W.shape == (D_K, D_Q)
    many = k[:, None].expand(B, N_Q, N_K, D_K), q[:, :, None].expand(B, N_Q, N_K, D_Q)
    a, b = ours(q, k), F.bilinear(*(part.contiguous() for part in many), W[None])[..., 0]
    assert torch.allclose(a, b, atol=1e-12)
    direction = torch.randn_like(a)
    mine, other = (torch.autograd.grad(c, (q, k, W), direction) for c in (a, b))
    assert all(torch.allclose(m, o, atol=1e-10) for m, o in zip(mine, other, strict=True))


@pytest.mark.parametrize(
    ("module", "scale"), [(DotScore, 1.0), (ScaledDotScore, D_HIDDEN**-0.5)], ids=["dot", "scaled"]
)
def test_a_dot_product_of_two_projections_is_a_bilinear_score(module, scale):
    q, k = pairs(D_Q)
    score = module(D_Q, D_K, D_HIDDEN).double()
    W = scale * score.U.weight.T @ score.V.weight  # (d_k, d_q)
    assert torch.allclose(score(q, k), bilinear_score(q, k, W), atol=1e-12)
    narrow = module(D_Q, D_K, 2).double()
    assert torch.linalg.matrix_rank(narrow.U.weight.T @ narrow.V.weight) == 2


MODULES = {
    "dot": lambda: DotScore(D_Q, D_K, D_HIDDEN),
    "scaled": lambda: ScaledDotScore(D_Q, D_K, D_HIDDEN),
    "bilinear": lambda: BilinearScore(D_Q, D_K),
}


@pytest.mark.parametrize("name", MODULES)
def test_projecting_first_changes_nothing_and_pairs_are_apart(name):
    torch.manual_seed(0)
    score = MODULES[name]().double()
    q, k = (x.detach() for x in pairs(D_Q))
    before = score(q, k)
    assert torch.allclose(score.compare(q, score.project(k)), before)
    k[:, 3], q[:, 1] = 100.0, -100.0
    after = score(q, k)
    same = torch.ones(N_Q, N_K, dtype=torch.bool)
    same[:, 3] = same[1] = False
    assert torch.allclose(before[:, same], after[:, same])
    assert not torch.allclose(before[:, ~same], after[:, ~same])


@given(st.integers(1, 40), st.floats(-3, 3), st.integers(0, 99))
def test_scores_are_linear_in_the_query_and_do_not_turn(d, factor, seed):
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(n, d, generator=generator, dtype=torch.float64) for n in (N_Q, N_K))
    Q, _ = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))
    assert torch.allclose(dot_score(factor * q, k), factor * dot_score(q, k))
    assert torch.allclose(dot_score(q @ Q, k @ Q), dot_score(q, k))  # turned together: nothing changes
    assert torch.allclose(dot_score(q, k), dot_score(k, q).T)
    assert (dot_score(q, k).abs() <= q.norm(dim=-1)[:, None] * k.norm(dim=-1) + 1e-9).all()  # Cauchy–Schwarz


@pytest.mark.parametrize("d", [4, 64, 1024])
def test_the_scale_keeps_the_variance_at_one(d):
    generator = torch.Generator().manual_seed(d)
    q, k = (torch.randn(300, d, generator=generator, dtype=torch.float64) for _ in "qk")
    assert abs(dot_score(q, k).var() / d - 1) < 0.1
    assert abs(scaled_dot_score(q, k).var() - 1) < 0.1


@pytest.mark.parametrize("name", ["scaled", "bilinear"])
def test_a_score_learns_what_to_compare(name):
    """The query is the key, its entries reversed: by itself a dot product does not find it."""
    torch.manual_seed(0)
    score = ScaledDotScore(D_K, D_K, D_K) if name == "scaled" else BilinearScore(D_K, D_K)
    optimiser = torch.optim.Adam(score.parameters(), lr=1e-2)
    for _ in range(300):
        k = torch.randn(64, N_K, D_K)
        q, target = k[:, :1].flip(-1), torch.zeros(64, dtype=torch.long)
        scores = score(q, k)[:, 0]
        optimiser.zero_grad()
        F.cross_entropy(scores, target).backward()
        optimiser.step()
    assert (scores.argmax(-1) == 0).double().mean() > 0.9
    assert (dot_score(q, k)[:, 0].argmax(-1) == 0).double().mean() < 0.5
