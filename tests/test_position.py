"""Positions: by hand, the rotation, growth, refusal; three kinds of attention that know distances."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from heed.attention import MultiHeadAttention, causal_mask, merge_heads, record, split_heads
from heed.decode import FixedCache, GrowingCache
from heed.position import (
    ALiBi,
    LearnedPosition,
    PositionalEncoding,
    RelativeBias,
    Rotary,
    distances,
    rotated,
    sinusoids,
)
from heed.tasks import NO_ANSWER, any_length, endless, three_back
from heed.train import train

B, N, D_MODEL = 2, 5, 14


def test_on_paper():
    table = sinusoids(3, 4)
    for position in range(3):
        slow = position / 100  # 10000^(2/4) = 100
        expected = [math.sin(position), math.cos(position), math.sin(slow), math.cos(slow)]
        assert torch.allclose(table[position], torch.tensor(expected, dtype=torch.float64), atol=1e-15)


@settings(max_examples=50)
@given(st.integers(0, 5000), st.integers(0, 5000))
def test_a_shift_is_one_rotation_whatever_the_position(position, k):
    table = sinusoids(10_001, 8)
    sin_p, cos_p = table[position, 0::2], table[position, 1::2]
    sin_k, cos_k = table[k, 0::2], table[k, 1::2]
    assert torch.allclose(table[position + k, 0::2], sin_p * cos_k + cos_p * sin_k, atol=1e-9)
    assert torch.allclose(table[position + k, 1::2], cos_p * cos_k - sin_p * sin_k, atol=1e-9)


def test_every_position_has_the_same_length_and_another_code():
    table = sinusoids(2000, 16)
    assert torch.allclose(table.norm(dim=1), torch.full((2000,), math.sqrt(8), dtype=torch.float64))
    assert len(torch.unique(table.round(decimals=9), dim=0)) == 2000


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match="even; it is 7"):
        sinusoids(3, 7)


def test_the_module_adds_the_table_from_where_it_starts():
    x = torch.randn(B, N, D_MODEL)
    encoding = PositionalEncoding(D_MODEL, dropout=0.0)
    whole = encoding(torch.zeros(1, 9, D_MODEL))
    assert torch.allclose(encoding(x), x + sinusoids(N, D_MODEL).float())
    assert torch.allclose(encoding(x, start=4), x + whole[:, 4:9])


def test_the_table_grows_and_nothing_is_cut():
    encoding = PositionalEncoding(D_MODEL, dropout=0.0, n_max=3)
    x = torch.zeros(1, 100, D_MODEL)
    assert torch.allclose(encoding(x)[0], sinusoids(100, D_MODEL).float())
    assert "table" not in encoding.state_dict()


def test_learned_positions_are_learned_and_end():
    learned = LearnedPosition(D_MODEL, dropout=0.0, n_max=6)
    learned(torch.zeros(B, N, D_MODEL)).sum().backward()
    assert (learned.embedding.grad[:N] == B).all() and (learned.embedding.grad[N:] == 0).all()
    assert torch.equal(learned(torch.zeros(1, 2, D_MODEL), start=4)[0], learned.embedding[4:])
    with pytest.raises(ValueError, match=r"Position 8 .*6 positions.*n_max=9"):
        learned(torch.zeros(B, N, D_MODEL), start=4)


def test_dropout_acts_in_training_only():
    torch.manual_seed(0)
    encoding = PositionalEncoding(D_MODEL, dropout=0.5)
    x = torch.ones(B, N, D_MODEL)
    assert (encoding(x) == 0).any()
    assert torch.equal(encoding.eval()(x), x + sinusoids(N, D_MODEL).float())


def test_a_start_is_where_the_table_would_be():
    assert torch.equal(sinusoids(5, 8, start=7), sinusoids(12, 8)[7:])


# --- Positions inside attention -----------------------------------------------

KINDS = [RelativeBias, ALiBi, Rotary]
H, D_K = 3, 4


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def made(kind, seed=0):
    """A layer whose parameters are all random, also those that start at zero."""
    layer = kind(H * D_K, H).double()
    for number, parameter in enumerate(layer.parameters()):
        parameter.data = drawn(*parameter.shape, seed=seed + number)
    return layer


def weights_of(layer, x, mask=None):
    with record(layer) as maps:
        layer(x, x, x, mask)
    return maps["weights"][0]


def test_distances_on_paper():
    q, k = torch.zeros(2, 1), torch.zeros(3, 1)
    assert distances(k, k).tolist() == [[0, -1, -2], [1, 0, -1], [2, 1, 0]]
    assert distances(q, k).tolist() == [[1, 0, -1], [2, 1, 0]]


def test_more_queries_than_keys_have_no_distances():
    with pytest.raises(ValueError, match=r"n_q=5 > n_k=4"):
        ALiBi(8, 2)(torch.zeros(1, 5, 8), torch.zeros(1, 4, 8), torch.zeros(1, 4, 8))


def test_alibi_on_paper():
    layer = ALiBi(16, 8)
    q = torch.zeros(1, 8, 3, 2)
    bias = layer.bias(q, q)
    assert bias[:, 1, 0].tolist() == [-(2.0**-i) for i in range(1, 9)]  # the slopes of the paper for 8 heads
    assert torch.allclose(bias[3], -torch.tensor([[0, 1, 2], [1, 0, 1], [2, 1, 0]]) / 16)
    assert [p.shape for p in layer.parameters()] == [p.shape for p in MultiHeadAttention(16, 8).parameters()]


def test_the_relative_bias_on_paper():
    layer = RelativeBias(4, 2, clip=1)
    layer.by_distance.data = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    bias = layer.bias(torch.zeros(1, 2, 3, 2), torch.zeros(1, 2, 3, 2))
    assert bias[0].tolist() == [[2, 1, 1], [3, 2, 1], [3, 3, 2]]
    assert bias[1].tolist() == [[5, 4, 4], [6, 5, 4], [6, 6, 5]]
    bias.sum().backward()
    assert layer.by_distance.grad.tolist() == [[3, 3, 3], [3, 3, 3]]


def test_a_new_relative_bias_prefers_nothing():
    assert (RelativeBias(4, 2).by_distance == 0).all()


def test_a_rotation_on_paper():
    """base 1: every dial turns by one radian a position."""
    x = torch.tensor([[1.0, 0.0, 0.0, 1.0]] * 3, dtype=torch.float64)
    for pos, row in enumerate(rotated(x, base=1.0).tolist()):
        expected = [math.cos(pos), math.sin(pos), -math.sin(pos), math.cos(pos)]
        assert all(math.isclose(a, b, abs_tol=1e-12) for a, b in zip(row, expected, strict=True))


@settings(max_examples=30)
@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 2**31))
def test_a_rotation_is_a_product_of_complex_numbers_forward_and_gradient(start, shift, seed):
    x = drawn(2, N, D_MODEL, seed=seed).requires_grad_()
    pos = torch.arange(start, start + N, dtype=torch.float64)[:, None]
    angle = pos * 10_000 ** (-torch.arange(0, D_MODEL, 2, dtype=torch.float64) / D_MODEL)
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angle), angle)
    theirs, mine = torch.view_as_real(turned).flatten(-2), rotated(x, start)
    assert torch.allclose(mine, theirs, atol=1e-12)
    assert torch.allclose(mine.norm(dim=-1), x.norm(dim=-1))  # a rotation keeps norms
    again = torch.stack([rotated(row[None], shift)[0] for row in mine[0]])  # one more turn, the same for all
    assert torch.allclose(again, rotated(x[:1], start + shift)[0], atol=1e-8)
    weight = drawn(2, N, D_MODEL, seed=seed + 1)
    gradients = [torch.autograd.grad((y * weight).sum(), x, retain_graph=True)[0] for y in (theirs, mine)]
    assert torch.allclose(*gradients, atol=1e-12)


def test_rotation_keeps_the_dtype_and_refuses_an_odd_width():
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        assert rotated(torch.ones(N, 4, dtype=dtype)).dtype == dtype
    with pytest.raises(ValueError, match="even; it is 5"):
        rotated(torch.ones(N, 5))


@settings(max_examples=30)
@given(st.integers(0, 5000), st.integers(0, 2**31))
def test_rotated_scores_depend_on_the_distance_alone(shift, seed):
    q, k = drawn(N, D_MODEL, seed=seed), drawn(N, D_MODEL, seed=seed + 1)
    here, there = (rotated(q, s) @ rotated(k, s).T for s in (0, shift))
    assert torch.allclose(here, there, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_tokens_are_weighted_by_their_distance_alone(kind):
    """All tokens are equal: row i of the causal weights is proportional to the last i + 1 of the last row."""
    x = drawn(1, 1, H * D_K).expand(1, 9, -1)
    weights = weights_of(made(kind), x, causal_mask(9))[0]
    for i in range(9):
        last = weights[:, -1, 8 - i :]
        assert torch.allclose(weights[:, i, : i + 1], last / last.sum(-1, keepdim=True))
    assert not torch.allclose(weights[:, -1], torch.full((H, 9), 1 / 9, dtype=torch.float64), atol=1e-2)


@pytest.mark.parametrize("kind", [RelativeBias, ALiBi])
def test_a_bias_is_torchs_float_mask_forward_and_gradient(kind):
    layer, x = made(kind), drawn(B, N, H * D_K, seed=9).requires_grad_()
    q, k, v = (split_heads(W(x), H) for W in (layer.W_q, layer.W_k, layer.W_v))
    seen = layer.bias(q, k).masked_fill(~causal_mask(N), -torch.inf)
    theirs = layer.W_o(merge_heads(F.scaled_dot_product_attention(q, k, v, seen)))
    mine = layer(x, x, x, causal_mask(N))
    assert torch.allclose(mine, theirs)
    leaves = [x, *layer.parameters()]
    gradients = [torch.autograd.grad(y.square().sum(), leaves, retain_graph=True) for y in (mine, theirs)]
    for a, b in zip(*gradients, strict=True):
        assert torch.allclose(a, b, atol=1e-10)


def test_rotary_is_plain_attention_of_rotated_queries_and_keys():
    layer, x = made(Rotary), drawn(B, N, H * D_K, seed=9)
    q, k, v = (split_heads(W(x), H) for W in (layer.W_q, layer.W_k, layer.W_v))
    theirs = layer.W_o(merge_heads(F.scaled_dot_product_attention(rotated(q), rotated(k), v)))
    assert torch.allclose(layer(x, x, x), theirs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [(1,) * 7, (3, 1, 2, 1), (7,)])
def test_with_a_growing_cache_as_without(kind, steps):
    layer, x = made(kind).eval(), drawn(B, 7, H * D_K, seed=9)
    cache, rows = GrowingCache(), []
    with torch.no_grad():
        for part in x.split(steps, dim=1):
            rows.append(layer(part, part, part, causal_mask(part.shape[1], cache.n), cache))
        assert torch.allclose(torch.cat(rows, dim=1), layer(x, x, x, causal_mask(7)), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_with_a_fixed_cache_as_without(kind):
    layer, x, memory = made(kind).eval(), drawn(B, 2, H * D_K, seed=9), drawn(B, N, H * D_K, seed=8)
    cache = FixedCache()
    with torch.no_grad():
        whole = layer(x, memory, memory)
        for _ in range(2):
            assert torch.allclose(layer(x, memory, memory, None, cache), whole, atol=1e-12)


class Looking(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embedding, self.attention = nn.Embedding(10, 32), kind(32, 4)
        self.read_out = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.read_out(x + self.attention(x, x, x, causal_mask(tokens.shape[1])))


@pytest.mark.parametrize("kind", [RelativeBias, Rotary])
def test_a_layer_learns_to_look_three_back(kind):
    torch.manual_seed(0)
    model = Looking(kind)

    def loss(model, batch):
        return F.cross_entropy(model(batch.tokens).mT, batch.answers, ignore_index=NO_ANSWER)

    train(model, endless(any_length, three_back, 64, (5, 20), seed=0), loss, n_steps=300, rate=8e-3)
    test = three_back(200, 20, torch.Generator().manual_seed(1))
    right = model(test.tokens).argmax(-1) == test.answers
    assert right[:, 3:].double().mean() > 0.9
