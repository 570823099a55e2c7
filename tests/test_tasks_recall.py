"""data.recall: lists of pairs, and a question that exactly one of them answers."""

from itertools import islice

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.tasks import BLANK, RECALL_NAMES, endless, recall


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_names_are_distinct():
    assert len(set(RECALL_NAMES)) == len(RECALL_NAMES) == 32


@settings(max_examples=30)
@given(st.integers(1, 32), st.integers(0, 2**31))
def test_the_last_token_asks_for_one_of_the_pairs_and_does_not_answer(n_pairs, seed):
    tokens, answers, distances = recall(7, n_pairs, seeded(seed))
    assert tokens.shape == (7, n_pairs + 1, 2)
    for rows, answer, distance in zip(tokens.tolist(), answers.tolist(), distances.tolist(), strict=True):
        *pairs, (asked, blank) = rows
        assert blank == BLANK and all(digit != BLANK for _, digit in pairs)
        assert dict(pairs)[asked] == answer
        assert pairs[-distance] == [asked, answer]


def test_no_name_occurs_twice():
    tokens = recall(50, 32, seeded()).tokens
    assert all(len(set(names)) == 32 for names in tokens[:, :-1, 0].tolist())


def test_every_pair_and_every_digit_is_asked_for_equally_often():
    _, answers, distances = recall(40000, 5, seeded())
    for counts in (answers.bincount(minlength=10), distances.bincount(minlength=6)[1:]):
        shares = counts / counts.sum()
        assert torch.allclose(shares, torch.full_like(shares, 1 / len(shares)), atol=0.015)


def test_the_seed_decides_and_no_batch_comes_again():
    first, second = islice(endless(recall, 3, 5, seed=1), 2)
    assert not torch.equal(first.tokens, second.tokens)
    for mine, again in zip(first, next(endless(recall, 3, 5, seed=1)), strict=True):
        assert torch.equal(mine, again)
    assert not torch.equal(first.tokens, next(endless(recall, 3, 5, seed=2)).tokens)


@pytest.mark.parametrize("n_pairs", [0, 33])
def test_too_few_or_too_many_pairs_are_refused(n_pairs):
    with pytest.raises(ValueError, match=f"n_pairs={n_pairs} is not from 1 to 32"):
        recall(2, n_pairs, seeded())
