"""Additive scores: by hand, against torch's own layers, properties."""

import math

import torch
from torch import nn

from heed.scores import AdditiveScore, additive_score

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
