"""Marks: random digits, some of which carry a mark, A or B or C … Which digits carry the marks?"""

from typing import NamedTuple

import torch


class Marks(NamedTuple):
    """Lists of digits with their marks, and the digits that are marked.

    digits: (b, n), from 0 to 9
    flags: (b, n), 0 where nothing is marked, 1 for mark A, 2 for mark B, …; no mark occurs twice in a list
    answers: (b, n_marks), the digit at mark A, at mark B, …
    """

    digits: torch.Tensor
    flags: torch.Tensor
    answers: torch.Tensor


def marks(n_lists, n_digits, n_marks, generator):
    """Draw lists of digits, and mark n_marks positions of each. Digits and positions are random.

    n_lists: how many lists
    n_digits: digits in each list
    n_marks: marks in each list, at most n_digits
    generator: a torch.Generator, which decides everything

    Returns a `Marks`. Raises ValueError for fewer marks than one or more than there are digits.
    """
    if not 1 <= n_marks <= n_digits:
        raise ValueError(f"{n_marks=} is not from 1 to {n_digits=}: no position has two marks.")
    digits = torch.randint(10, (n_lists, n_digits), generator=generator)
    order = torch.rand(n_lists, n_digits, generator=generator, dtype=torch.float64)
    marked = order.argsort(dim=-1)[:, :n_marks]
    flags = torch.zeros_like(digits).scatter(1, marked, torch.arange(1, n_marks + 1).repeat(n_lists, 1))
    return Marks(digits, flags, digits.gather(1, marked))
