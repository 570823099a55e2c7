"""data.debts: who owes is decided by the order of the words, and by nothing else."""

from itertools import islice

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.tasks import DEBT_WORDS, DEBTORS, debts, endless
from heed.tasks.debts import OWES, WHO


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_words_are_distinct():
    assert len(set(DEBT_WORDS)) == len(DEBT_WORDS) and DEBT_WORDS[:20] == DEBTORS
    assert (DEBT_WORDS[OWES], DEBT_WORDS[WHO]) == ("owes", "who?")


@settings(max_examples=30)
@given(st.integers(0, 7), st.integers(0, 2**31))
def test_two_names_stand_about_owes_and_the_first_one_owes(n_fillers, seed):
    tokens, answers, others = debts(7, seeded(seed), n_fillers)
    assert tokens.shape == (7, 4 + n_fillers)
    for row, answer, other in zip(tokens.tolist(), answers.tolist(), others.tolist(), strict=True):
        assert row.pop() == WHO and WHO not in row
        assert [word for word in row if word <= OWES] == [answer, OWES, other]
        assert answer != other


def test_every_name_owes_and_every_place_is_taken_equally_often():
    tokens, answers, _ = debts(40000, seeded())
    shares = answers.bincount(minlength=20) / len(answers)
    assert torch.allclose(shares, torch.full_like(shares, 1 / 20), atol=0.005)
    taken = (tokens[:, :-1] <= OWES).double().mean(dim=0)
    assert torch.allclose(taken, torch.full_like(taken, 3 / 8), atol=0.015)


def test_the_seed_decides_and_no_batch_comes_again():
    first, second = islice(endless(debts, 3, seed=1), 2)
    assert not torch.equal(first.tokens, second.tokens)
    for mine, again in zip(first, next(endless(debts, 3, seed=1)), strict=True):
        assert torch.equal(mine, again)
