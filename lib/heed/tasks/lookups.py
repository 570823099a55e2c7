"""Looking up: a list of names, each with a digit, and then questions that name two of them. Both digits?"""

from typing import NamedTuple

import torch

LOOKUP_NAMES = 128


class Lookups(NamedTuple):
    """Lists of pairs, and questions.

    names: (b, n), of the pairs, from 0 to 127; none occurs twice in a list
    digits: (b, n), of the pairs
    asked: (b, n_questions, 2), the two names of each question
    answers: (b, n_questions, 2), their digits
    """

    names: torch.Tensor
    digits: torch.Tensor
    asked: torch.Tensor
    answers: torch.Tensor


def lookups(n_lists, n_pairs, generator, n_questions=8):
    """Draw lists of pairs, and the same number of questions about each. All is random.

    n_lists: how many lists
    n_pairs: pairs in each list, from 1 to 128; or a pair, the least and the most, and it is drawn for all
    generator: a torch.Generator, which decides everything
    n_questions: questions about each list; a name may be asked for more than once

    Returns `Lookups`. Raises ValueError for fewer pairs than one or more than there are names.
    """
    low, high = n_pairs if isinstance(n_pairs, tuple) else (n_pairs, n_pairs)
    if not 1 <= low <= high <= LOOKUP_NAMES:
        raise ValueError(f"{n_pairs=} is not from 1 to {LOOKUP_NAMES}: no name occurs twice in a list.")
    n = int(torch.randint(low, high + 1, (), generator=generator))
    order = torch.rand(n_lists, LOOKUP_NAMES, generator=generator, dtype=torch.float64)
    names = order.argsort(dim=-1)[:, :n]
    digits = torch.randint(10, (n_lists, n), generator=generator)
    at = torch.randint(n, (n_lists, n_questions, 2), generator=generator)
    row = torch.arange(n_lists)[:, None, None]
    return Lookups(names, digits, names[row, at], digits[row, at])
