"""The parts of a layer and the layers, held against torch's own, forward and gradient."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from heed.attention import MultiHeadAttention, causal_mask, padding_mask
from heed.layers import (
    DecoderLayer,
    Embeddings,
    EncoderLayer,
    LayerNorm,
    PositionwiseFeedForward,
    PostNormConnection,
    RMSNorm,
    SublayerConnection,
    clones,
)
from heed.text import PAD

B, N, N_SOURCE, D_MODEL, D_FF, H, VOCAB = 2, 5, 3, 14, 11, 7, 13
CONNECTIONS = [SublayerConnection, PostNormConnection]


def same(ours, theirs, inputs):
    """Equal in value and in the gradient of every input, in double precision."""
    torch.manual_seed(1)
    direction = torch.randn_like(ours)
    assert torch.allclose(ours, theirs, atol=1e-10)
    for a, b in zip(
        torch.autograd.grad(ours, inputs, direction),
        torch.autograd.grad(theirs, inputs, direction),
        strict=True,
    ):
        assert torch.allclose(a, b, atol=1e-10)


def double(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def copied(theirs, ours):
    """Write our attention's weights into torch's."""
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.W_q.weight, ours.W_k.weight, ours.W_v.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.W_q.bias, ours.W_k.bias, ours.W_v.bias]))
        theirs.out_proj.load_state_dict(ours.W_o.state_dict())


def test_clones_are_copies_with_parameters_of_their_own():
    one = nn.Linear(2, 3)
    copies = clones(one, 3)
    assert all(torch.equal(c.weight, one.weight) and c.weight is not one.weight for c in copies)
    assert len({id(p) for p in copies.parameters()}) == 6


def test_layer_norm_on_paper():
    norm = LayerNorm(2, eps=0.0)
    assert torch.allclose(norm(torch.tensor([[1.0, 3.0]])), torch.tensor([[-1.0, 1.0]]))
    norm.a.data, norm.b.data = torch.tensor([2.0, 3.0]), torch.tensor([10.0, 20.0])
    assert torch.allclose(norm(torch.tensor([[1.0, 3.0]])), torch.tensor([[8.0, 23.0]]))


@pytest.mark.parametrize("size", [2, D_MODEL])
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_layer_norm_equals_torchs(size, scale):
    torch.manual_seed(0)
    x = (scale * torch.randn(B, N, size, dtype=torch.float64)).requires_grad_()
    same(LayerNorm(size).double()(x), nn.LayerNorm(size, dtype=torch.float64)(x), [x])


def test_layer_norm_of_a_constant_is_finite():
    x = torch.full((1, D_MODEL), 5.0, requires_grad=True)
    out = LayerNorm(D_MODEL)(x)
    out.sum().backward()
    assert torch.equal(out, torch.zeros_like(out)) and x.grad.isfinite().all()


def test_rms_norm_on_paper():
    norm = RMSNorm(2, eps=0.0)
    assert torch.allclose(norm(torch.tensor([[1.0, 7.0]])), torch.tensor([[0.2, 1.4]]))
    norm.a.data = torch.tensor([10.0, 5.0])
    assert torch.allclose(norm(torch.tensor([[1.0, 7.0]])), torch.tensor([[2.0, 7.0]]))


@pytest.mark.parametrize("size", [2, D_MODEL])
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_rms_norm_equals_torchs(size, scale):
    torch.manual_seed(0)
    x = (scale * torch.randn(B, N, size, dtype=torch.float64)).requires_grad_()
    ours, theirs = RMSNorm(size).double(), nn.RMSNorm(size, eps=1e-5, dtype=torch.float64)
    ours.a.data = theirs.weight.data = torch.randn(size, dtype=torch.float64)
    same(ours(x), theirs(x), [x])
    direction = torch.randn(B, N, size, dtype=torch.float64)
    ours(x).backward(direction)
    theirs(x).backward(direction)
    assert torch.allclose(ours.a.grad, theirs.weight.grad)


def test_rms_norm_of_zeros_is_zero():
    x = torch.zeros(1, D_MODEL, requires_grad=True)
    out = RMSNorm(D_MODEL)(x)
    out.sum().backward()
    assert torch.equal(out, torch.zeros_like(out)) and x.grad.isfinite().all()


@given(st.integers(2, 11), st.floats(0.1, 100), st.floats(-10, 10), st.integers(0, 999))
def test_what_each_norm_does_not_see(size, factor, shift, seed):
    x = torch.randn(3, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    layer, rms = LayerNorm(size, eps=0.0).double(), RMSNorm(size, eps=0.0).double()
    assert torch.allclose(layer(factor * x + shift), layer(x), atol=1e-6)
    assert torch.allclose(rms(factor * x), rms(x))
    assert torch.allclose(rms(x - x.mean(-1, keepdim=True)), layer(x), atol=1e-6)


def test_feed_forward_equals_torchs_layers_and_keeps_positions_apart():
    torch.manual_seed(0)
    ours = PositionwiseFeedForward(D_MODEL, D_FF, dropout=0.0).double()
    x = double(B, N, D_MODEL)
    same(ours(x), nn.Sequential(ours.W_1, nn.ReLU(), ours.W_2)(x), [x])
    assert torch.allclose(ours(x)[:, 2:3], ours(x[:, 2:3]))


def test_embeddings_are_scaled_and_padding_is_zero():
    embed = Embeddings(D_MODEL, VOCAB)
    ids = torch.tensor([[4, 5, PAD]])
    assert torch.allclose(embed(ids)[0, 0], embed.embedding.weight[4] * math.sqrt(D_MODEL))
    assert (embed(ids)[0, 2] == 0).all()
    with pytest.raises(ValueError, match=rf"{VOCAB}.*0, 1"):
        embed(torch.tensor([[4, VOCAB]]))


def like(connection):
    """torch's words for a layer like ours."""
    return {"batch_first": True, "norm_first": connection is SublayerConnection, "dtype": torch.float64}


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_an_encoder_layer_equals_torchs(connection):
    torch.manual_seed(0)
    attention, ff = MultiHeadAttention(D_MODEL, H), PositionwiseFeedForward(D_MODEL, D_FF, 0.0)
    ours = EncoderLayer(D_MODEL, attention, ff, 0.0, connection).double()
    theirs = nn.TransformerEncoderLayer(D_MODEL, H, D_FF, 0.0, **like(connection))
    copied(theirs.self_attn, attention)
    theirs.linear1.load_state_dict(ff.W_1.state_dict())
    theirs.linear2.load_state_dict(ff.W_2.state_dict())
    x, ids = double(B, N, D_MODEL), torch.tensor([[4, 5, 6, 7, 8], [4, 5, 6, PAD, PAD]])
    out = theirs(x, src_key_padding_mask=ids == PAD)
    same(ours(x, padding_mask(ids)), out, [x])


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_a_decoder_layer_equals_torchs(connection):
    torch.manual_seed(0)
    attention, source = MultiHeadAttention(D_MODEL, H), MultiHeadAttention(D_MODEL, H)
    ff = PositionwiseFeedForward(D_MODEL, D_FF, 0.0)
    ours = DecoderLayer(D_MODEL, attention, source, ff, 0.0, connection).double()
    theirs = nn.TransformerDecoderLayer(D_MODEL, H, D_FF, 0.0, **like(connection))
    copied(theirs.self_attn, attention)
    copied(theirs.multihead_attn, source)
    theirs.linear1.load_state_dict(ff.W_1.state_dict())
    theirs.linear2.load_state_dict(ff.W_2.state_dict())
    x, memory = double(B, N, D_MODEL), double(B, N_SOURCE, D_MODEL)
    ids = torch.tensor([[4, 5, 6], [4, 5, PAD]])
    out = theirs(x, memory, tgt_mask=~causal_mask(N), memory_key_padding_mask=ids == PAD)
    same(ours(x, memory, padding_mask(ids), causal_mask(N)), out, [x, memory])


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_each_sublayer_has_a_norm_of_its_own(connection):
    layer = EncoderLayer(D_MODEL, nn.Identity(), nn.Identity(), 0.1, connection)
    assert layer.sublayer[0].norm.a is not layer.sublayer[1].norm.a


def test_the_residual_passes_on_what_the_sublayer_blocks():
    x = double(B, N, D_MODEL)
    connection = SublayerConnection(D_MODEL, 0.0).double()
    (gradient,) = torch.autograd.grad(connection(x, torch.zeros_like).sum(), x)
    assert torch.equal(gradient, torch.ones_like(x))


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_dropout_falls_on_the_sublayers_output_alone(connection):
    torch.manual_seed(0)
    layer = connection(D_MODEL, 1.0).double()
    x = double(B, N, D_MODEL)
    expected = x if connection is SublayerConnection else layer.norm(x)
    assert torch.allclose(layer(x, lambda x: 100 + x), expected)
