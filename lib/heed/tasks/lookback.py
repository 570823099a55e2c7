"""Looking back: lists of digits in which every token asks for an earlier one.

In one task the answer stands a fixed distance back, in the other one at the latest mark, at any distance.
"""

from typing import NamedTuple

import torch

NO_ANSWER = -100  # what torch's cross-entropy ignores
MARKED = 10  # a marked digit is 10 + digit
SHARE_MARKED = 0.125


class Lookback(NamedTuple):
    """Lists of digits, and an answer for each token.

    tokens: (b, n), 0 to 9, and in one task 10 to 19 for a marked digit
    answers: (b, n), the digit that is asked for; NO_ANSWER where there is none
    """

    tokens: torch.Tensor
    answers: torch.Tensor


def three_back(n_lists, n, generator):
    """For each token, the digit that stands three tokens before it.

    n_lists: how many lists
    n: tokens in each list, 4 or more
    generator: a torch.Generator, which decides everything

    Returns a `Lookback`. Raises ValueError for lists that are too short for any answer.
    """
    if n < 4:
        raise ValueError(f"Three tokens back there is none in lists of {n=} tokens; 4 is the least.")
    tokens = torch.randint(10, (n_lists, n), generator=generator)
    answers = torch.full_like(tokens, NO_ANSWER)
    answers[:, 3:] = tokens[:, :-3]
    return Lookback(tokens, answers)


def latest_mark(n_lists, n, generator):
    """For each token, the digit at the latest mark: its own if it is marked, or the nearest one before it.

    One token in eight is marked. n_lists, n and generator: as for `three_back`; here n may be 1

    Returns a `Lookback`.
    """
    digits = torch.randint(10, (n_lists, n), generator=generator)
    marked = torch.rand(n_lists, n, generator=generator, dtype=torch.float64) < SHARE_MARKED
    latest = torch.where(marked, torch.arange(n), -1).cummax(dim=-1).values
    answers = digits.gather(1, latest.clamp(min=0)).masked_fill(latest < 0, NO_ANSWER)
    return Lookback(digits + MARKED * marked, answers)


def any_length(task, n_lists, lengths, generator):
    """Lists of `task(n_lists, n, …)`, all of one length n, which is drawn first.

    task: `three_back` or `latest_mark`
    lengths: the shortest n and the longest one
    generator: a torch.Generator, which decides everything
    """
    low, high = lengths
    n = int(torch.randint(low, high + 1, (), generator=generator))
    return task(n_lists, n, generator)
