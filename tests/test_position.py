"""Position codes: by hand, the rotation property, growth, refusal."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.position import LearnedPosition, PositionalEncoding, sinusoids

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
