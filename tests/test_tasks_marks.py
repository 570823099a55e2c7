"""data.marks: digits, some of them marked, and the digits at the marks."""

from itertools import islice

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.tasks import endless, marks


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(0, 11), st.integers(0, 2**31))
def test_every_mark_stands_once_and_its_digit_is_the_answer(n_marks, more, seed):
    digits, flags, answers = marks(7, n_marks + more, n_marks, seeded(seed))
    assert digits.shape == flags.shape == (7, n_marks + more) and answers.shape == (7, n_marks)
    for said, row, true in zip(digits.tolist(), flags.tolist(), answers.tolist(), strict=True):
        assert sorted(flag for flag in row if flag) == [*range(1, n_marks + 1)]
        assert [said[row.index(j)] for j in range(1, n_marks + 1)] == true


def test_every_position_and_every_digit_is_marked_equally_often():
    _, flags, answers = marks(40000, 5, 2, seeded())
    for counts in (answers[:, 0].bincount(minlength=10), (flags == 2).sum(0), (flags == 1).sum(0)):
        shares = counts / counts.sum()
        assert torch.allclose(shares, torch.full_like(shares, 1 / len(shares)), atol=0.015)


def test_the_seed_decides_and_no_batch_comes_again():
    first, second = islice(endless(marks, 3, 5, 2, seed=1), 2)
    assert not torch.equal(first.digits, second.digits)
    for mine, again in zip(first, next(endless(marks, 3, 5, 2, seed=1)), strict=True):
        assert torch.equal(mine, again)
    assert not torch.equal(first.digits, next(endless(marks, 3, 5, 2, seed=2)).digits)


@pytest.mark.parametrize("n_marks", [0, 6])
def test_too_few_or_too_many_marks_are_refused(n_marks):
    with pytest.raises(ValueError, match=f"n_marks={n_marks} is not from 1 to n_digits=5"):
        marks(2, 5, n_marks, seeded())
