"""The course's toy tasks: small, generated on the spot, with an exact answer to every question.

A task is a function that draws a batch. What it draws is decided by its arguments and its generator, or seed;
`endless` turns it into a stream for a training. This package knows nothing about models.
"""

import torch

from heed.tasks.debts import DEBT_WORDS, DEBTORS, Debts, debts
from heed.tasks.documents import Documents, document_batch, documents
from heed.tasks.lookback import MARKED, NO_ANSWER, Lookback, any_length, latest_mark, three_back
from heed.tasks.lookups import LOOKUP_NAMES, Lookups, lookups
from heed.tasks.marks import Marks, marks
from heed.tasks.pictures import PICTURES, pictures, torn
from heed.tasks.points import NOTHING, PointBatch, hulls, point_batch, point_sets
from heed.tasks.recall import BLANK, RECALL_NAMES, Recall, recall
from heed.tasks.stories import PORTS, STORY_WORDS, THINGS, Stories, moving_stories, stories
from heed.tasks.voyages import VOYAGE_WORDS, Voyages, short_voyages, voyages

__all__ = [
    "BLANK",
    "DEBTORS",
    "DEBT_WORDS",
    "LOOKUP_NAMES",
    "MARKED",
    "NOTHING",
    "NO_ANSWER",
    "PICTURES",
    "PORTS",
    "RECALL_NAMES",
    "STORY_WORDS",
    "THINGS",
    "VOYAGE_WORDS",
    "Debts",
    "Documents",
    "Lookback",
    "Lookups",
    "Marks",
    "PointBatch",
    "Recall",
    "Stories",
    "Voyages",
    "any_length",
    "debts",
    "document_batch",
    "documents",
    "endless",
    "hulls",
    "latest_mark",
    "lookups",
    "marks",
    "moving_stories",
    "pictures",
    "point_batch",
    "point_sets",
    "recall",
    "short_voyages",
    "stories",
    "three_back",
    "torn",
    "voyages",
]


def endless(draw, *sizes, seed):
    """A stream without end of `draw(*sizes, generator=…)`: a fresh batch for every update.

        endless(marks, 64, 12, 2, seed=0)

    draw: a task of this package, or any function that draws with a torch.Generator
    seed: the same seed gives the same stream
    """
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield draw(*sizes, generator=generator)
