"""Recall: a list of names, each with a digit, and then one of the names again. Which digit did it have?"""

from typing import NamedTuple

import torch

RECALL_NAMES = (
    *("Ada", "Ali", "Amy", "Ana", "Ben", "Bob", "Cem", "Dan", "Ela", "Eva", "Gus"),
    *("Hao", "Ian", "Ida", "Ivo", "Jan", "Kai", "Lea", "Leo", "Lin", "Mei", "Mia"),
    *("Noa", "Oli", "Pia", "Raj", "Ron", "Sam", "Tom", "Uma", "Yan", "Zoe"),
)  # fmt: skip
BLANK = 10  # in the place of the question's digit


class Recall(NamedTuple):
    """Lists and the answers to their questions.

    tokens: (b, n, 2), in each token a name and a digit; the last one is the question, and its digit is BLANK
    answers: (b), the digit of the name that is asked for
    distances: (b), how many tokens before the question its pair stands: 1 is next to it
    """

    tokens: torch.Tensor
    answers: torch.Tensor
    distances: torch.Tensor


def recall(n_lists, n_pairs, generator):
    """Draw lists of pairs. No name occurs twice in a list; digits and questions are random.

    n_lists: how many lists
    n_pairs: pairs in each list, from 1 to 32; the question comes after them
    generator: a torch.Generator, which decides everything

    Returns a `Recall`. Raises ValueError for fewer pairs than one or more than there are names.
    """
    if not 1 <= n_pairs <= len(RECALL_NAMES):
        raise ValueError(f"{n_pairs=} is not from 1 to {len(RECALL_NAMES)}: no name occurs twice in a list.")
    keys = torch.rand(n_lists, len(RECALL_NAMES), generator=generator, dtype=torch.float64)
    names = keys.argsort(dim=-1)[:, :n_pairs]
    digits = torch.randint(10, (n_lists, n_pairs), generator=generator)
    asked = torch.randint(n_pairs, (n_lists,), generator=generator)
    row = torch.arange(n_lists)
    question = torch.stack([names[row, asked], torch.full((n_lists,), BLANK)], dim=-1)
    tokens = torch.cat([torch.stack([names, digits], dim=-1), question[:, None]], dim=1)
    return Recall(tokens, digits[row, asked], n_pairs - asked)
