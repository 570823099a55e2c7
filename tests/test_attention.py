"""Masked softmax, expectation and the recorder: by hand, against torch, properties, refusals."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from heed.attention import MaskedSoftmax, expectation, masked_softmax, record

B, N_Q, N_K, D_V = 2, 3, 5, 11


def test_a_softmax_one_can_do_on_paper():
    weights = masked_softmax(torch.tensor([[0.0, math.log(2), math.log(3)]]))
    assert torch.allclose(weights, torch.tensor([[1 / 6, 2 / 6, 3 / 6]]))
    weights = masked_softmax(
        torch.tensor([[0.0, math.log(2), math.log(3)]]), torch.tensor([True, False, True])
    )
    assert torch.allclose(weights, torch.tensor([[1 / 4, 0, 3 / 4]]))


def test_an_expectation_one_can_do_on_paper():
    mixed = expectation(torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[4.0, 0.0], [0.0, 8.0], [4.0, 4.0]]))
    assert torch.equal(mixed, torch.tensor([[3.0, 3.0]]))


def test_equals_torch_where_nothing_is_hidden_forward_and_gradient():
    torch.manual_seed(0)
    scores = torch.randn(B, N_Q, N_K, dtype=torch.float64, requires_grad=True)
    direction = torch.randn_like(scores)
    everything = torch.ones(N_Q, N_K, dtype=torch.bool)
    ours, theirs = masked_softmax(scores, everything), scores.softmax(-1)
    assert torch.allclose(ours, theirs, atol=1e-12) and torch.equal(masked_softmax(scores), theirs)
    a, b = (torch.autograd.grad(w, scores, direction, retain_graph=True)[0] for w in (ours, theirs))
    assert torch.allclose(a, b, atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**31), st.lists(st.booleans(), min_size=N_K, max_size=N_K))
def test_rows_sum_to_one_over_what_may_be_seen(seed, seen):
    torch.manual_seed(seed)
    scores, mask = 10 * torch.randn(B, N_Q, N_K, dtype=torch.float64), torch.tensor(seen)
    weights = masked_softmax(scores, mask)
    assert (weights[..., ~mask] == 0).all() and (weights >= 0).all()
    assert torch.allclose(weights.sum(-1), torch.full((B, N_Q), float(any(seen)), dtype=torch.float64))
    if any(seen):
        assert torch.allclose(
            weights[..., mask], scores[..., mask].softmax(-1)
        )  # as if the rest were not there


@settings(max_examples=20, deadline=None)
@given(st.floats(-1e6, 1e6), st.permutations(range(N_K)))
def test_a_constant_changes_nothing_and_order_goes_through(c, order):
    torch.manual_seed(0)
    scores = torch.randn(N_Q, N_K, dtype=torch.float64)
    assert torch.allclose(masked_softmax(scores + c), masked_softmax(scores), atol=1e-9)
    assert torch.allclose(masked_softmax(scores[:, order]), masked_softmax(scores)[:, order])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_row_that_may_look_nowhere_is_zero_and_sends_back_zero(dtype):
    scores = torch.randn(N_Q, N_K).to(dtype).requires_grad_()
    mask = torch.ones(N_Q, N_K, dtype=torch.bool)
    mask[1] = False
    weights = masked_softmax(scores, mask)
    weights.pow(2).sum().backward()
    assert (weights[1] == 0).all() and (scores.grad[1] == 0).all()
    assert weights.isfinite().all() and scores.grad.isfinite().all()
    assert weights.dtype == dtype


def test_large_scores_do_not_overflow():
    weights = masked_softmax(torch.tensor([[1e4, 0.0, 1e4]]), torch.tensor([True, True, False]))
    assert torch.equal(weights, torch.tensor([[1.0, 0.0, 0.0]]))


@pytest.mark.parametrize("mask", [torch.ones(N_Q, N_K), torch.ones(N_K, dtype=torch.long), [[True] * N_K]])
def test_a_mask_of_another_type_is_refused_with_its_meaning(mask):
    with pytest.raises(ValueError, match=r"True when query i may look at key j.*(torch|list)"):
        masked_softmax(torch.zeros(N_Q, N_K), mask)


@pytest.mark.parametrize("shape", [(N_Q,), (N_K, N_Q), (N_Q, N_K, 1), (B, 1, N_Q, N_K)])
def test_a_mask_of_another_shape_is_refused_with_both_shapes(shape):
    with pytest.raises(ValueError, match=rf"\({N_Q}, {N_K}\).*\({', '.join(map(str, shape))},?\)"):
        masked_softmax(torch.zeros(N_Q, N_K), torch.ones(shape, dtype=torch.bool))


def test_expectation_is_the_mean_of_draws():
    generator = torch.Generator().manual_seed(0)
    weights, values = torch.tensor([0.1, 0.2, 0.7]), torch.randn(3, D_V, generator=generator)
    drawn = values[torch.multinomial(weights, 100_000, replacement=True, generator=generator)].mean(0)
    assert torch.allclose(expectation(weights[None], values)[0], drawn, atol=0.02)


def test_record_collects_what_ran_and_lets_go():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = MaskedSoftmax(), MaskedSoftmax()

        def forward(self, scores):
            return self.second(self.first(scores))

    model, scores = Two(), torch.randn(N_Q, N_K, requires_grad=True)
    with record(model) as maps:
        model(scores)
        out = model(2 * scores)
    model(scores)
    assert {name: len(seen) for name, seen in maps.items()} == {"first": 2, "second": 2}
    assert torch.equal(maps["second"][1], out) and not maps["second"][1].requires_grad
    with pytest.raises(RuntimeError), record(model):
        raise RuntimeError
    assert not model.first._forward_hooks
    with pytest.raises(ValueError, match="Linear"), record(nn.Linear(2, 2)):
        pass
