"""Hidden tokens: by hand, in their shares, and nothing is lost."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heed.data import Hidden, hide_tokens
from heed.text import PAD, SPECIAL

VOCAB, MASK = 23, 4


def drawn(b, n, seed=0):
    """Random sentences of 1 to n tokens, without the mask."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, VOCAB, (b, n), generator=generator)
    lengths = torch.randint(1, n + 1, (b, 1), generator=generator)
    return ids.masked_fill(torch.arange(n) >= lengths, PAD)


def test_a_batch_by_hand():
    batch = Hidden(torch.tensor([[7, 4, 9], [4, 8, 0]]), torch.tensor([[0, 6, 0], [5, 8, 0]]))
    assert batch.n_tokens == 3  # 6 and 5 behind masks, and an 8 that stands there


def test_all_of_one_sentence_by_hand(monkeypatch):
    """With the random numbers given: chosen below 0.5; below 0.8 the mask, from 0.9 on another token."""
    ids = torch.tensor([[11, 12, 13, 14, 15, PAD]])
    numbers = iter([[0.1, 0.2, 0.3, 0.6, 0.4, 0.1], [0.7, 0.85, 0.9, 0.1, 0.79, 0.1]])
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor([next(numbers)]))
    monkeypatch.setattr(torch, "randint", lambda *_, **__: torch.tensor([[20, 20, 20, 20, 20, 20]]))
    batch = hide_tokens(ids, VOCAB, MASK, share=0.5)
    assert batch.ids.tolist() == [[MASK, 12, 20, 14, MASK, PAD]]
    assert batch.target.tolist() == [[11, 12, 13, PAD, 15, PAD]]


def test_the_shares_are_80_10_10_of_the_chosen():
    ids = drawn(500, 40)
    batch = hide_tokens(ids, VOCAB, MASK, 0.15, torch.Generator().manual_seed(1))
    chosen = batch.target != PAD
    assert chosen.sum() / (ids != PAD).sum() == pytest.approx(0.15, abs=0.01)
    masked, same = (batch.ids == MASK)[chosen], (batch.ids == ids)[chosen]
    # a random token is the mask or the true one in one case of 19 each
    assert masked.double().mean() == pytest.approx(0.8 + 0.1 / 19, abs=0.02)
    assert same.double().mean() == pytest.approx(0.1 + 0.1 / 19, abs=0.02)
    others = batch.ids[chosen][~masked & ~same]
    assert set(others.tolist()) == {*range(len(SPECIAL), VOCAB)} - {MASK}


@given(st.integers(1, 5), st.integers(1, 11), st.floats(0.01, 1.0), st.integers(0, 99))
def test_nothing_is_lost(b, n, share, seed):
    """Of what is not chosen nothing changes, padding is never chosen, and the target gives back the rest."""
    ids = drawn(b, n, seed)
    before = ids.clone()
    batch = hide_tokens(ids, VOCAB, MASK, share, torch.Generator().manual_seed(seed))
    chosen = batch.target != PAD
    assert torch.equal(ids, before)
    assert torch.equal(torch.where(chosen, batch.target, batch.ids), ids)
    assert not chosen[ids == PAD].any()
    assert batch.n_tokens == chosen.sum() and (share < 1 or torch.equal(chosen, ids != PAD))


def test_a_generator_decides_and_the_global_one_stays():
    ids, state = drawn(3, 7), torch.get_rng_state()
    one, same, other = (
        hide_tokens(ids, VOCAB, MASK, 0.5, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)
    )
    assert torch.equal(one.ids, same.ids) and not torch.equal(one.ids, other.ids)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("share", [0, -0.1, 1.5])
def test_an_impossible_share_is_refused(share):
    with pytest.raises(ValueError, match=f"share={share}"):
        hide_tokens(drawn(2, 3), VOCAB, MASK, share)


@pytest.mark.parametrize("mask", [PAD, 3, VOCAB])
def test_a_mask_that_is_no_token_of_its_own_is_refused(mask):
    with pytest.raises(ValueError, match=f"mask={mask}"):
        hide_tokens(drawn(2, 3), VOCAB, mask)
