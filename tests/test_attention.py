"""Masked softmax, expectation and the recorder: by hand, against torch, properties, refusals."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from variants import VARIANTS

from heed.attention import (
    MaskedSoftmax,
    MultiHeadAttention,
    SelfAttention,
    attention,
    causal_mask,
    dependence,
    expectation,
    fused_attention,
    fused_is_faster,
    masked_softmax,
    merge_heads,
    most_probable,
    padding_mask,
    record,
    reinforce,
    sampled,
    split_heads,
    straight_through,
    structured_attention,
)
from heed.tasks import endless, marks
from heed.text import PAD
from heed.train import train

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


@settings(max_examples=50)
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


@settings(max_examples=20)
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


# --- Scaled dot-product attention and several heads ------------------------------------------------------

H, D_K, D_MODEL = 7, 2, 14


def double(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_scaled_attention_on_paper():
    q, k = torch.tensor([[2.0, 0.0, 0.0, 0.0]]), torch.eye(4)[:2] * math.log(3)
    mixture, weights = attention(q, k, torch.tensor([[4.0], [8.0]]))  # scores [ln 3, 0]
    assert torch.allclose(weights, torch.tensor([[0.75, 0.25]])) and torch.allclose(
        mixture, torch.tensor([[5.0]])
    )


@pytest.mark.parametrize("masked", [False, True])
def test_explicit_fused_and_torchs_own_agree_forward_and_gradient(masked):
    torch.manual_seed(0)
    q, k, v = double(B, H, N_Q, D_K), double(B, H, N_K, D_K), double(B, H, N_K, D_V)
    mask = (torch.rand(B, 1, N_Q, N_K) < 0.6) | (torch.arange(N_K) == 0) if masked else None
    ours, fused = attention(q, k, v, mask)[0], fused_attention(q, k, v, mask)
    theirs = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    direction = torch.randn_like(ours)
    gradients = [torch.autograd.grad(out, (q, k, v), direction) for out in (ours, fused, theirs)]
    assert torch.allclose(ours, theirs, atol=1e-10) and torch.allclose(fused, theirs, atol=1e-10)
    for a, b, c in zip(*gradients, strict=True):
        assert torch.allclose(a, c, atol=1e-10) and torch.allclose(b, c, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("compute", [lambda *a: attention(*a)[0], fused_attention])
def test_a_query_that_may_look_nowhere_gets_zeros_and_gives_finite_gradients(compute, dtype):
    torch.manual_seed(0)
    q, k, v = (torch.randn(B, H, n, D_K).to(dtype).requires_grad_() for n in (N_Q, N_K, N_K))
    mask = torch.ones(B, 1, N_Q, N_K, dtype=torch.bool)
    mask[0, :, 1] = False
    out = compute(q, k, v, mask)
    out.pow(2).sum().backward()
    assert (out[0, :, 1] == 0).all() and (q.grad[0, :, 1] == 0).all()
    assert all(t.grad.isfinite().all() for t in (q, k, v))


@pytest.mark.parametrize("masked", [False, True])
def test_a_bias_is_added_to_the_scores_fused_or_not_forward_and_gradient(masked):
    q, k, v = (torch.randn(B, 3, n, D_K, dtype=torch.float64) for n in (N_Q, N_K, N_K))
    bias, mask = torch.randn(3, N_Q, N_K, dtype=torch.float64, requires_grad=True), None
    if masked:
        mask = torch.rand(B, 1, N_Q, N_K) < 0.5
        mask[0, 0, 1] = False  # a query that may look nowhere
    explicit = masked_softmax(q @ k.mT / math.sqrt(D_K) + bias, mask) @ v
    fused = fused_attention(q, k, v, mask, bias)
    assert torch.allclose(fused, explicit, atol=1e-12)
    weight = torch.randn_like(explicit)
    gradients = [torch.autograd.grad((x * weight).sum(), bias)[0] for x in (explicit, fused)]
    assert torch.allclose(*gradients, atol=1e-12) and gradients[0].isfinite().all()


@pytest.mark.parametrize("kind", VARIANTS.values(), ids=VARIANTS)
def test_a_variant_computes_the_same_fused_or_recorded(kind):
    layer = kind(22, 11).double()
    for parameter in layer.parameters():  # a bias that starts at zero would change nothing
        torch.nn.init.normal_(parameter, std=0.3)
    x, mask = torch.randn(B, 9, 22, dtype=torch.float64), causal_mask(9)
    with torch.no_grad():
        fused = layer(x, x, x, mask)
        with record(layer) as maps:
            recorded = layer(x, x, x, mask)
    assert torch.allclose(fused, recorded, atol=1e-12) and len(maps["weights"]) == 1
    assert not torch.allclose(fused, MultiHeadAttention.forward(plain_twin(layer), x, x, x, mask), atol=1e-3)


def plain_twin(layer):
    """A plain layer with the weights of a variant, as far as they fit."""
    twin = MultiHeadAttention(22, layer.n_heads).double()
    fits = {name: p for name, p in layer.state_dict().items() if name in twin.state_dict()}
    fits = {name: p for name, p in fits.items() if p.shape == twin.state_dict()[name].shape}
    twin.load_state_dict(fits, strict=False)
    return twin


def test_attention_is_blind_to_order():
    torch.manual_seed(0)
    q, k, v, order = double(N_Q, D_K), double(N_K, D_K), double(N_K, D_V), torch.randperm(N_K)
    assert torch.allclose(attention(q, k[order], v[order])[0], attention(q, k, v)[0])


def test_masks_on_paper():
    assert causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert padding_mask(torch.tensor([[4, PAD], [4, 5]])).tolist() == [[[[True, False]]], [[[True, True]]]]
    both = causal_mask(2) & padding_mask(torch.tensor([[4, PAD]]))
    assert both.shape == (1, 1, 2, 2) and both[0, 0].tolist() == [[True, False], [True, False]]


@pytest.mark.parametrize("n", [1, 2, 7])
def test_the_causal_mask_is_torchs_own_forward_and_gradient(n):
    torch.manual_seed(0)
    given = [double(B, H, n, D_K) for _ in range(3)]
    ours, _ = attention(*given, causal_mask(n))
    theirs = torch.nn.functional.scaled_dot_product_attention(*given, is_causal=True)
    assert torch.allclose(ours, theirs)
    for a, b in zip(*(torch.autograd.grad(y.sin().sum(), given) for y in (ours, theirs)), strict=True):
        assert torch.allclose(a, b)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(0, 9))
def test_the_causal_mask_is_the_rule_and_with_a_start_its_last_rows(n, start):
    rule = [[j <= start + i for j in range(start + n)] for i in range(n)]
    assert causal_mask(n, start).tolist() == rule
    assert torch.equal(causal_mask(n, start), causal_mask(start + n)[start:])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2**31))
def test_padding_on_either_side_is_invisible_to_real_tokens(left, right, seed):
    torch.manual_seed(seed)
    x, ids = torch.randn(1, N_K, D_K, dtype=torch.float64), torch.full((1, N_K), PAD + 4)
    alone, _ = attention(x, x, x, causal_mask(N_K))
    ids = nn.functional.pad(ids, (left, right), value=PAD)
    x = nn.functional.pad(x, (0, 0, left, right), value=9.0)
    mask = padding_mask(ids)[:, 0] & causal_mask(left + N_K + right)
    for y in (attention(x, x, x, mask)[0], fused_attention(x, x, x, mask)):
        assert torch.allclose(y[:, left : left + N_K], alone)
        assert (y[:, :left] == 0).all()  # they may look nowhere


def test_masks_broadcast_to_the_rule_of_four_loops():
    ids = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, PAD, PAD], [PAD, PAD, 5, 6, 7]])
    both = (padding_mask(ids) & causal_mask(5)).expand(3, H, 5, 5)
    for s, h, i, j in product(range(3), range(H), range(5), range(5)):
        assert both[s, h, i, j] == (ids[s, j] != PAD and j <= i)


def test_heads_are_cut_and_merged_without_mixing():
    x = torch.arange(B * N_Q * D_MODEL).view(B, N_Q, D_MODEL)
    heads = split_heads(x, H)
    assert heads.shape == (B, H, N_Q, D_K) and torch.equal(merge_heads(heads), x)
    assert torch.equal(heads[1, 3, 2], x[1, 2, 3 * D_K : 4 * D_K])


def torchs(ours):
    """nn.MultiheadAttention with our weights."""
    theirs = nn.MultiheadAttention(D_MODEL, H, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.W_q.weight, ours.W_k.weight, ours.W_v.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.W_q.bias, ours.W_k.bias, ours.W_v.bias]))
        theirs.out_proj.load_state_dict(ours.W_o.state_dict())
    return theirs


@pytest.mark.parametrize("n_k", [N_Q, N_K])
def test_multi_head_attention_equals_torchs_and_a_loop_over_heads(n_k):
    torch.manual_seed(0)
    ours = MultiHeadAttention(D_MODEL, H).double()
    q, k, v = double(B, N_Q, D_MODEL), double(B, n_k, D_MODEL), double(B, n_k, D_MODEL)
    mask = torch.rand(N_Q, n_k) < 0.7
    mask[:, 0] = True
    theirs = torchs(ours)(q, k, v, attn_mask=~mask)[0]
    with record(ours) as maps:
        out = ours(q, k, v, mask)
    parts = []
    for i in range(H):
        own = slice(i * D_K, (i + 1) * D_K)
        project = [
            x @ W.weight[own].T + W.bias[own] for x, W in ((q, ours.W_q), (k, ours.W_k), (v, ours.W_v))
        ]
        mixture, weights = attention(*project, mask)
        parts.append(mixture)
        assert torch.allclose(maps["weights"][0][:, i], weights, atol=1e-12)
    assert torch.allclose(out, ours.W_o(torch.cat(parts, dim=-1)), atol=1e-12)
    assert torch.allclose(out, theirs, atol=1e-10)
    direction = torch.randn_like(out)
    for a, b in zip(*(torch.autograd.grad(o, (q, k, v), direction) for o in (out, theirs)), strict=True):
        assert torch.allclose(a, b, atol=1e-10)


@pytest.mark.parametrize(("n_heads", "mixture"), [(1, [5, 0, 5, 0]), (2, [6.4, 0, 3.6, 0])])
def test_heads_on_paper(n_heads, mixture):
    # 7 and 3 are marked; one head scores both marks alike, each of two heads scores one of them ln 8
    layer, s = MultiHeadAttention(4, n_heads).double(), 2**0.5 * math.log(8)
    for W in (layer.W_q, layer.W_k, layer.W_v, layer.W_o):
        W.weight.data, W.bias.data = torch.eye(4).double(), torch.zeros(4).double()
    q, k = [[s, 0, 0, s]], [[1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0]]
    v = [[7, 0, 7, 0], [3, 0, 3, 0], [5, 0, 5, 0]]
    out = layer(*(torch.tensor([rows], dtype=torch.float64) for rows in (q, k, v)))
    assert torch.allclose(out, torch.tensor([[mixture]], dtype=torch.float64))


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(H)), st.integers(0, 2**31))
def test_the_order_of_the_heads_does_not_matter(order, seed):
    torch.manual_seed(seed)
    layer, other = MultiHeadAttention(D_MODEL, H).double(), MultiHeadAttention(D_MODEL, H).double()
    rows = torch.cat([torch.arange(D_K) + D_K * head for head in order])
    moved = {
        name: tensor[:, rows] if name == "W_o.weight" else tensor if "W_o" in name else tensor[rows]
        for name, tensor in layer.state_dict().items()
    }
    other.load_state_dict(moved)
    q, k = double(B, N_Q, D_MODEL), double(B, N_K, D_MODEL)
    assert torch.allclose(layer(q, k, k), other(q, k, k))


@pytest.mark.parametrize(("n_heads", "low", "high"), [(1, 0.0, 0.5), (2, 0.9, 1.0)])
def test_two_heads_learn_to_say_two_marked_digits_and_one_does_not(n_heads, low, high):
    torch.manual_seed(0)
    layer, digits, flags = MultiHeadAttention(32, n_heads), nn.Embedding(10, 32), nn.Embedding(3, 32)
    model = nn.ModuleList([layer, digits, flags, nn.Linear(32, 20), nn.Linear(1, 32)])

    def logits(batch):
        q = 0.1 * model[4](torch.zeros(len(batch.digits), 1, 1))
        return model[3](layer(q, flags(batch.flags), digits(batch.digits))).view(-1, 2, 10)

    def loss(_, batch):
        return nn.functional.cross_entropy(logits(batch).flatten(0, 1), batch.answers.flatten())

    train(model, endless(marks, 64, 6, 2, seed=0), loss, n_steps=200, rate=1e-2)
    batch = marks(500, 6, 2, torch.Generator().manual_seed(1))
    right = (logits(batch).argmax(-1) == batch.answers).all(-1).double().mean()
    assert low <= right <= high


def test_the_number_of_parameters_does_not_depend_on_the_heads():
    assert (
        len({sum(p.numel() for p in MultiHeadAttention(12, h).parameters()) for h in (1, 2, 3, 4, 6, 12)})
        == 1
    )


@pytest.mark.parametrize("n_heads, nearest", [(5, 7), (0, 1), (20, 14)])
def test_heads_that_do_not_divide_the_width_are_refused(n_heads, nearest):
    with pytest.raises(ValueError, match=rf"d_model=14 .*n_heads={n_heads}.*{nearest}"):
        MultiHeadAttention(D_MODEL, n_heads)


@pytest.mark.parametrize("mask", [torch.arange(40) > 3, torch.tensor(True)])
def test_a_mask_of_fewer_axes_is_the_same_for_every_query_fused_or_not(mask):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 40, 6, dtype=torch.float64)
    assert torch.allclose(fused_attention(x, x, x, mask), attention(x, x, x, mask)[0], atol=1e-12)


@pytest.mark.parametrize(("n", "fused"), [(5, False), (37, True)])
def test_the_layer_computes_the_same_fused_recorded_or_explicit(n, fused, monkeypatch):
    torch.manual_seed(n)
    layer, x = MultiHeadAttention(D_MODEL, H).double(), torch.randn(B, n, D_MODEL, dtype=torch.float64)
    mask = causal_mask(n) & (torch.arange(n) > 0)  # the first query may look nowhere
    called = []
    kernel = torch.nn.functional.scaled_dot_product_attention
    watched = lambda *a, **k: called.append(1) or kernel(*a, **k)  # noqa: E731
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    out = layer(x, x, x, mask)
    assert bool(called) == fused
    with torch.no_grad():
        assert torch.allclose(layer(x, x, x, mask), out, rtol=0, atol=1e-10)
    assert len(called) == 1 + fused  # without a gradient always
    with record(layer) as maps:
        recorded = layer(x, x, x, mask)
    assert len(called) == 1 + fused and maps["weights"][0].shape == (B, H, n, n)
    assert torch.allclose(recorded, out, rtol=0, atol=1e-10)
    sums = maps["weights"][0].sum(-1)
    assert torch.allclose(sums[:, :, 1:], torch.ones_like(sums[:, :, 1:])) and not sums[:, :, 0].any()


def test_the_rule_looks_at_length_type_gradient_and_dropout():
    def fits(n, dtype=torch.float32, gradient=True, dropout=0.0, b=1):
        q = torch.zeros(b, n, 2, dtype=dtype, requires_grad=gradient)
        return fused_is_faster(q, q, dropout)

    assert not fits(31) and fits(32) and fits(3, gradient=False)
    assert not fits(1, gradient=False, b=32)
    assert fits(1, gradient=False, b=31) and fits(2, gradient=False, b=32)
    assert not fits(1023, torch.bfloat16) and fits(1024, torch.bfloat16) and not fits(2048, dropout=0.1)


def test_dropout_falls_on_the_weights_while_training():
    torch.manual_seed(0)
    layer = MultiHeadAttention(D_MODEL, H, dropout=0.5)
    x = torch.randn(B, 37, D_MODEL)
    assert not torch.allclose(layer(x, x, x), layer(x, x, x))
    layer.eval()
    assert torch.allclose(layer(x, x, x), layer(x, x, x))


def test_dependence_on_paper():
    # y_0 = 2 x_0, y_1 = (x_0 + x_1)²: at x = (1, 3) the derivatives are 2, 0 and 8, 8
    def f(x):
        return torch.stack([2 * x[0], (x[0] + x[1]) ** 2])

    found = dependence(f, torch.tensor([[1.0], [3.0]]))
    assert torch.allclose(found, torch.tensor([[2.0, 0.0], [8.0, 8.0]]))


def test_dependence_is_the_norm_of_a_block_of_the_jacobian():
    torch.manual_seed(0)
    x = torch.randn(N_K, 7, dtype=torch.float64)
    W = torch.randn(D_V, 7, dtype=torch.float64)
    A = torch.randn(N_Q, N_K, dtype=torch.float64)
    found = dependence(lambda x: A @ x @ W.T, x)  # ∂y_i/∂x_j = A_ij W
    assert torch.allclose(found, A.abs() * W.norm())


def test_dependence_refuses_what_is_not_a_matrix():
    with pytest.raises(ValueError, match=r"x has 3 axes and f\(x\) has 3, not 2 and 2"):
        dependence(lambda x: x, torch.ones(1, 2, 3))
    with pytest.raises(ValueError, match=r"x has 2 axes and f\(x\) has 1"):
        dependence(lambda x: x.sum(0), torch.ones(2, 3))


# --- hard attention ----------------------------------------------------------------------------------------

ALPHA = torch.tensor([0.5, 0.25, 0.125, 0.125], dtype=torch.float64)
POINTS = torch.tensor([[0.0, 1.0], [4.0, 0.0], [2.0, 2.0], [3.0, 5.0]], dtype=torch.float64)
COSTS = torch.tensor([5.0, 8.0, 0.0, 10.0], dtype=torch.float64)  # squared distances from the third


def of_scores(surrogate):
    """The gradients of all four draws, a row each, at the scores whose weights are ALPHA."""
    scores = ALPHA.log().repeat(4, 1).requires_grad_()
    alpha = scores.softmax(-1)
    return torch.autograd.grad(surrogate(alpha, torch.eye(4, dtype=torch.float64)).sum(), scores)[0]


def exact():
    return ALPHA * (COSTS - ALPHA @ COSTS)


def test_the_most_probable_key_gets_all_weight_and_no_gradient():
    weights = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]], requires_grad=True)
    choice = most_probable(weights)
    assert torch.equal(choice, torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])) and not choice.requires_grad
    values = torch.randn(3, D_V)
    assert torch.equal(expectation(choice, values), values[[1, 0]])


@settings(max_examples=30)
@given(st.integers(0, 2**31))
def test_a_choice_is_a_row_with_a_single_one_where_the_weight_is_not_zero(seed):
    torch.manual_seed(seed)
    mask = torch.rand(B, N_Q, N_K) < 0.6
    mask[..., 0] = True
    weights = masked_softmax(torch.randn(B, N_Q, N_K), mask)
    for choice in (most_probable(weights), sampled(weights)):
        assert choice.shape == weights.shape and choice.dtype == weights.dtype
        assert (choice.sum(-1) == 1).all() and ((choice == 0) | (choice == 1)).all()
        assert (weights[choice.bool()] > 0).all()


def test_samples_follow_the_weights_and_the_generator():
    weights = ALPHA.expand(20000, 4)
    drawn = sampled(weights, torch.Generator().manual_seed(0))
    assert (drawn.mean(0) - ALPHA).abs().max() < 0.02
    assert torch.equal(drawn, sampled(weights, torch.Generator().manual_seed(0)))
    assert not torch.equal(drawn, sampled(weights, torch.Generator().manual_seed(1)))


def test_straight_through_is_the_choice_forwards_and_the_weights_backwards():
    weights = torch.rand(N_Q, N_K, dtype=torch.float64, requires_grad=True)
    choice = most_probable(weights)
    passed = straight_through(weights, choice)
    direction = torch.randn_like(passed)
    assert torch.allclose(passed, choice, atol=1e-12)
    assert torch.equal(torch.autograd.grad(passed, weights, direction)[0], direction)


def test_reinforce_on_paper():
    rows = of_scores(lambda alpha, choice: reinforce(alpha, choice, choice @ COSTS))
    by_hand = COSTS[:, None] * (torch.eye(4, dtype=torch.float64) - ALPHA)
    assert torch.allclose(rows, by_hand)


@pytest.mark.parametrize("baseline", [0.0, 4.75, -100.0])
def test_the_mean_of_reinforce_is_the_exact_gradient_whatever_the_baseline(baseline):
    rows = of_scores(lambda alpha, choice: reinforce(alpha, choice, choice @ COSTS, baseline))
    assert torch.allclose(ALPHA @ rows, exact())


def test_a_baseline_lowers_the_variance():
    spread = []
    for baseline in (0.0, float(ALPHA @ COSTS)):
        rows = of_scores(lambda alpha, choice, b=baseline: reinforce(alpha, choice, choice @ COSTS, b))
        spread.append(float(ALPHA @ (rows - exact()).square().sum(-1)))
    assert spread[1] < spread[0]


def test_reinforce_sends_nothing_back_to_the_loss():
    loss = torch.ones(1, requires_grad=True)
    weights = torch.tensor([[0.5, 0.5]], requires_grad=True)
    reinforce(weights, most_probable(weights), 2 * loss).sum().backward()
    assert loss.grad is None and weights.grad is not None


def test_straight_through_is_unbiased_for_a_linear_loss_alone():
    slope = torch.tensor([2.0, -1.0], dtype=torch.float64)
    linear, costs = lambda alpha, choice: straight_through(alpha, choice) @ POINTS @ slope, POINTS @ slope
    assert torch.allclose(ALPHA @ of_scores(linear), ALPHA * (costs - ALPHA @ costs))

    def square(alpha, choice):
        return (straight_through(alpha, choice) @ POINTS - POINTS[2]).square().sum(-1)

    assert not torch.allclose(ALPHA @ of_scores(square), exact(), atol=0.1)


def test_reinforce_learns_the_cheapest_choice():
    generator, scores = torch.Generator().manual_seed(0), torch.zeros(50, 4, dtype=torch.float64)
    for _ in range(200):
        scores.requires_grad_()
        weights = scores.softmax(-1)
        choice = sampled(weights, generator)
        loss = reinforce(weights, choice, choice @ COSTS, baseline=3.0).sum()
        scores = scores.detach() - 0.1 * torch.autograd.grad(loss, scores)[0]
    assert (scores.argmax(-1) == 2).double().mean() > 0.9


# --- structured attention ----------------------------------------------------------------------------------


def test_structured_attention_on_paper():
    mixed, weights = structured_attention(
        torch.tensor([0.0, math.log(3)]),
        torch.tensor([[0.0, 0.0], [math.log(2), 0.0]]),
        torch.tensor([[[8.0], [16.0]], [[0.0], [4.0]]]),
    )
    assert torch.allclose(weights, torch.tensor([[1 / 8, 1 / 8], [1 / 2, 1 / 4]]))
    assert torch.allclose(mixed, torch.tensor([4.0]))


def test_structured_attention_is_one_softmax_of_torchs_over_log_probabilities():
    torch.manual_seed(0)
    sentences = torch.randn(B, N_Q, dtype=torch.float64, requires_grad=True)
    words = torch.randn(B, N_Q, N_K, dtype=torch.float64, requires_grad=True)
    values = torch.randn(B, N_Q, N_K, D_V, dtype=torch.float64)
    mixed, weights = structured_attention(sentences, words, values)
    flat = (sentences.log_softmax(-1)[..., None] + words.log_softmax(-1)).flatten(1).softmax(-1)
    other = torch.einsum("bk,bkd->bd", flat, values.flatten(1, 2))
    assert torch.allclose(weights.flatten(1), flat) and torch.allclose(mixed, other)
    direction = torch.randn_like(mixed)
    for mine, theirs in zip(
        torch.autograd.grad(mixed, (sentences, words), direction),
        torch.autograd.grad(other, (sentences, words), direction),
        strict=True,
    ):
        assert torch.allclose(mine, theirs, atol=1e-12)


@settings(max_examples=30)
@given(st.integers(0, 2**31))
def test_hidden_words_and_empty_sentences_get_no_weight(seed):
    torch.manual_seed(seed)
    mask = torch.rand(B, N_Q, N_K) < 0.4
    mask[:, 0, 0] = True
    values = torch.randn(B, N_Q, N_K, D_V)
    _, weights = structured_attention(torch.randn(B, N_Q), torch.randn(B, N_Q, N_K), values, mask)
    assert (weights[~mask] == 0).all() and torch.allclose(weights.sum((1, 2)), torch.ones(B))


def test_a_document_of_nothing_gives_zeros():
    nothing = torch.zeros(N_Q, N_K, dtype=torch.bool)
    scores, values = (torch.randn(N_Q), torch.randn(N_Q, N_K)), torch.ones(N_Q, N_K, 1)
    mixed, weights = structured_attention(*scores, values, nothing)
    assert (mixed == 0).all() and (weights == 0).all()


# --- self-attention ----------------------------------------------------------------------------------------

ADA_BEN_ADA = torch.tensor([[1.0, 0, 7, 0], [0, 1, 3, 0], [1, 0, 0, 1]]).double()  # "Ada 7", "Ben 3", "Ada ?"


def on_paper():
    """The layer of chapter 06 that one can do on paper: a name that matches scores ln 3."""
    layer = SelfAttention(d_model=4, d_k=2, d_v=1)
    layer.W_q.weight.data = math.sqrt(2) * math.log(3) * torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0]])
    layer.W_k.weight.data = torch.tensor([[1.0, 0, 0, -1], [0, 1, 0, -1]])
    layer.W_v.weight.data = torch.tensor([[0.0, 0, 1, 0]])
    return layer.double()


def self_attention(d_model=7, d_k=3, d_v=D_V):
    torch.manual_seed(0)
    return SelfAttention(d_model, d_k, d_v).double()


def test_self_attention_on_paper():
    layer = on_paper()
    with record(layer) as maps, torch.no_grad():
        z = layer(ADA_BEN_ADA)
    expected = torch.tensor([[3 / 5, 1 / 5, 1 / 5], [3 / 13, 9 / 13, 1 / 13], [3 / 5, 1 / 5, 1 / 5]]).double()
    assert torch.allclose(maps["weights"][0], expected)
    assert torch.allclose(z, torch.tensor([[24 / 5], [48 / 13], [24 / 5]]).double())


@pytest.mark.parametrize("masked", [False, True])
def test_self_attention_equals_torchs_forward_and_gradient(masked):
    layer, x = self_attention(), torch.randn(B, N_K, 7, dtype=torch.float64, requires_grad=True)
    mask = causal_mask(N_K) if masked else None
    kernel = nn.functional.scaled_dot_product_attention
    z, theirs = layer(x, mask), kernel(layer.W_q(x), layer.W_k(x), layer.W_v(x), mask)
    assert torch.allclose(z, theirs)
    inputs, direction = (x, *layer.parameters()), torch.randn_like(z)
    for mine, other in zip(
        torch.autograd.grad(z, inputs, direction), torch.autograd.grad(theirs, inputs, direction), strict=True
    ):
        assert torch.allclose(mine, other)


def test_self_attention_equals_torchs_module_with_one_head_and_no_output_projection():
    layer, torchs = (
        self_attention(7, 7, 7),
        nn.MultiheadAttention(7, 1, bias=False, batch_first=True).double(),
    )
    torchs.in_proj_weight.data = torch.cat([layer.W_q.weight, layer.W_k.weight, layer.W_v.weight]).detach()
    torchs.out_proj.weight.data = torch.eye(7, dtype=torch.float64)
    x = torch.randn(B, N_K, 7, dtype=torch.float64)
    with record(layer) as maps:
        z = layer(x)
    mixture, weights = torchs(x, x, x)
    assert torch.allclose(z, mixture) and torch.allclose(maps["weights"][0], weights)


@settings(max_examples=20)
@given(st.permutations(range(N_K)))
def test_self_attention_is_permutation_equivariant(order):
    layer, x = self_attention(), torch.randn(N_K, 7, dtype=torch.float64)
    assert torch.allclose(layer(x[order]), layer(x)[order])


@settings(max_examples=20)
@given(st.integers(1, N_K - 1))
def test_self_attention_sees_no_further_than_its_mask(n):
    layer, x = self_attention(), torch.randn(N_K, 7, dtype=torch.float64)
    assert torch.allclose(layer(x, causal_mask(N_K))[:n], layer(x[:n], causal_mask(n)))
    assert (dependence(lambda x: layer(x, causal_mask(N_K)), x).triu(1) == 0).all()


def test_rows_and_columns_are_one_self_attention():
    layer, x = self_attention(), torch.randn(N_K, 7, dtype=torch.float64, requires_grad=True)
    W_q, W_k, W_v = (W.weight for W in (layer.W_q, layer.W_k, layer.W_v))
    Q, K, V = W_q @ x.T, W_k @ x.T, W_v @ x.T  # columns are tokens
    O = V @ (K.T @ Q / math.sqrt(3)).softmax(dim=0)
    assert torch.allclose(O.T, layer(x))
    for W in (x, W_q, W_k, W_v):
        mine = torch.autograd.grad(layer(x).square().sum(), W)[0]
        theirs = torch.autograd.grad(O.square().sum(), W, retain_graph=True)[0]
        assert torch.allclose(mine, theirs)


def test_self_attention_learns_to_recall():
    torch.manual_seed(0)
    embed, layer, read_out = nn.Embedding(8, 16), SelfAttention(16, 16, 16), nn.Linear(16, 4)
    parameters = [*embed.parameters(), *layer.parameters(), *read_out.parameters()]
    digits, optimiser = nn.Embedding(5, 16), torch.optim.Adam(parameters, lr=1e-2)
    optimiser.add_param_group({"params": digits.parameters()})
    for _ in range(150):
        names = torch.rand(32, 8).argsort(-1)[:, :4]
        said, asked = torch.randint(4, (32, 4)), torch.randint(4, (32, 1))
        names = torch.cat([names, names.gather(1, asked)], dim=1)
        seen = torch.cat([said, torch.full((32, 1), 4)], dim=1)
        logits = read_out(layer(embed(names) + digits(seen))[:, -1])
        answers = said.gather(1, asked)[:, 0]
        loss = nn.functional.cross_entropy(logits, answers)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert (logits.argmax(-1) == answers).double().mean() > 0.95
