"""tasks.lookups: a list of pairs, and questions that name two of them."""

from itertools import islice

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.tasks import LOOKUP_NAMES, endless, lookups


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@settings(max_examples=30)
@given(st.integers(1, LOOKUP_NAMES), st.integers(1, 9), st.integers(0, 2**31))
def test_no_name_comes_twice_and_the_answers_stand_beside_the_names(n_pairs, n_questions, seed):
    names, digits, asked, answers = lookups(3, n_pairs, seeded(seed), n_questions)
    assert names.shape == digits.shape == (3, n_pairs)
    assert asked.shape == answers.shape == (3, n_questions, 2)
    for row, said, questions, true in zip(names, digits, asked, answers, strict=True):
        digit_of = dict(zip(row.tolist(), said.tolist(), strict=True))
        assert len(digit_of) == n_pairs and max(digit_of) < LOOKUP_NAMES
        assert [digit_of[name] for name in questions.flatten().tolist()] == true.flatten().tolist()


def test_every_place_is_asked_for_and_every_name_and_digit_occurs_equally_often():
    names, digits, asked, _ = lookups(20000, 5, seeded())
    places = (names[:, None, :] == asked[..., :1]).nonzero()[:, 2]
    for drawn, n in ((places, 5), (digits.flatten(), 10), (names.flatten(), LOOKUP_NAMES)):
        shares = drawn.bincount(minlength=n) / len(drawn)
        assert torch.allclose(shares, torch.full_like(shares, 1 / n), atol=0.01)
    assert not torch.equal(asked[..., 0], asked[..., 1])


def test_a_pair_of_numbers_gives_every_length_between_them_one_for_all_lists():
    found = {len(batch.names[0]) for batch in islice(endless(lookups, 2, (3, 6), seed=0), 60)}
    assert found == {3, 4, 5, 6}


def test_the_seed_decides_and_no_batch_comes_again():
    first, second = islice(endless(lookups, 3, 5, seed=1), 2)
    assert not torch.equal(first.digits, second.digits)
    for mine, again in zip(first, next(endless(lookups, 3, 5, seed=1)), strict=True):
        assert torch.equal(mine, again)


@pytest.mark.parametrize("n_pairs", [0, 129, (0, 5), (5, 129), (7, 6)])
def test_too_few_or_too_many_pairs_are_refused(n_pairs):
    with pytest.raises(ValueError, match="is not from 1 to 128"):
        lookups(2, n_pairs, seeded())
