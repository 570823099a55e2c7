"""The course's corpora, and the way from their pairs to tensors.

Everything generated is made on the spot from real language data (Babel's CLDR, num2words), is seeded, and is
split so that the test set asks for more than memory. This package knows nothing about models.
"""

from heed.data.batch import Batch, batches, pad, pad_batch
from heed.data.corpus import SPLITS, Pair, split_of
from heed.data.dates import DATE_LANGUAGES, dates
from heed.data.numbers import NUMBER_LANGUAGES, numbers

__all__ = [
    "DATE_LANGUAGES",
    "NUMBER_LANGUAGES",
    "SPLITS",
    "Batch",
    "Pair",
    "batches",
    "dates",
    "numbers",
    "pad",
    "pad_batch",
    "split_of",
]
