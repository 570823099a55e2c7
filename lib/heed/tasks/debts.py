"""Debts: a name, "owes", another name, among words that do not matter. Who owes?"""

from typing import NamedTuple

import torch

from heed.tasks.recall import RECALL_NAMES

DEBTORS = RECALL_NAMES[:20]  # ids 0 to 19: whoever can owe, or be owed
OWES, WHO = 20, 21
FILLERS = ("now", "still", "again", "money", "today", "often", "well", "perhaps")
DEBT_WORDS = (*DEBTORS, "owes", "who?", *FILLERS)


class Debts(NamedTuple):
    """Sentences, and who owes in each.

    tokens: (b, n), ids of DEBT_WORDS; the last one asks "who?"
    answers: (b), the name before "owes", an id from 0 to 19
    others: (b), the name after it
    """

    tokens: torch.Tensor
    answers: torch.Tensor
    others: torch.Tensor


def debts(n_sentences, generator, n_fillers=5):
    """Draw sentences. Two different names, in an order that is random, stand before and after "owes".

    n_sentences: how many sentences
    generator: a torch.Generator, which decides everything
    n_fillers: words that do not matter; where they stand is random

    Returns a `Debts` of sentences with n = 4 + n_fillers tokens.
    """
    n = 3 + n_fillers

    def chosen(among, count):  # different numbers from 0 to among - 1, in random order
        keys = torch.rand(n_sentences, among, generator=generator, dtype=torch.float64)
        return keys.argsort(dim=-1)[:, :count]

    answers, others = chosen(len(DEBTORS), 2).unbind(dim=-1)
    fillers = torch.randint(len(FILLERS), (n_sentences, n), generator=generator)
    tokens = WHO + 1 + fillers
    places = chosen(n, 3).sort(dim=-1).values
    debt = torch.stack([answers, torch.full_like(answers, OWES), others], dim=-1)
    tokens.scatter_(1, places, debt)
    who = torch.full((n_sentences, 1), WHO)
    return Debts(torch.cat([tokens, who], dim=1), answers, others)
