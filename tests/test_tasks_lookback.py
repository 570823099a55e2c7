"""data.lookback: every token asks for an earlier digit, and the answers are those of a loop."""

from itertools import islice

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.tasks import (
    MARKED,
    NO_ANSWER,
    any_length,
    endless,
    latest_mark,
    three_back,
)
from heed.tasks.lookback import SHARE_MARKED


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@settings(max_examples=30)
@given(st.integers(4, 40), st.integers(0, 2**31))
def test_three_back_is_three_back(n, seed):
    tokens, answers = three_back(5, n, seeded(seed))
    assert tokens.shape == (5, n) and tokens.max() < MARKED
    for row, answer in zip(tokens.tolist(), answers.tolist(), strict=True):
        assert answer == [NO_ANSWER] * 3 + row[:-3]


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(0, 2**31))
def test_latest_mark_is_what_a_loop_remembers(n, seed):
    for row, answer in zip(*(t.tolist() for t in latest_mark(5, n, seeded(seed))), strict=True):
        kept, expected = NO_ANSWER, []
        for token in row:
            kept = token - MARKED if token >= MARKED else kept
            expected.append(kept)
        assert answer == expected


def test_digits_and_marks_are_as_frequent_as_they_should_be():
    tokens, _ = latest_mark(500, 80, seeded())
    shares = (tokens % MARKED).flatten().bincount(minlength=10) / tokens.numel()
    assert torch.allclose(shares, torch.full_like(shares, 0.1), atol=0.01)
    assert abs((tokens >= MARKED).double().mean() - SHARE_MARKED) < 0.01


@pytest.mark.parametrize("task", [three_back, latest_mark])
def test_lengths_are_drawn_and_the_seed_decides(task):
    drawn = [batch.tokens.shape for batch in islice(endless(any_length, task, 2, (5, 8), seed=0), 60)]
    assert {n for _, n in drawn} == {5, 6, 7, 8}
    first, second = islice(endless(any_length, task, 3, (20, 20), seed=1), 2)
    assert not torch.equal(first.tokens, second.tokens)
    assert torch.equal(first.tokens, next(endless(any_length, task, 3, (20, 20), seed=1)).tokens)


def test_a_list_without_an_answer_is_refused():
    with pytest.raises(ValueError, match="n=3 tokens; 4 is the least"):
        three_back(2, 3, seeded())
