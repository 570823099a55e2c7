"""The course's corpora, and the way from their pairs to tensors.

Everything generated is made on the spot from real language data (Babel's CLDR, num2words), is seeded, and is
split so that the test set asks for more than memory. This package knows nothing about models.
"""

from heed.data.batch import Batch, batches, pad, pad_batch

__all__ = ["Batch", "batches", "pad", "pad_batch"]
