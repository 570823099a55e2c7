"""The course's corpora, and the way from their pairs to tensors; the toy tasks stand in `heed.tasks`.

Everything generated is made on the spot from real language data (Babel's CLDR, num2words), is seeded, and is
split so that the test set asks for more than memory. This package knows nothing about models.
"""

from heed.data.batch import Batch, batches, pad, pad_batch
from heed.data.corpus import SPLITS, Pair, split_of
from heed.data.dates import DATE_LANGUAGES, dates
from heed.data.hidden import Hidden, hide_tokens
from heed.data.multi30k import multi30k
from heed.data.names import NAME_LANGUAGES, Named, place_names
from heed.data.numbers import NUMBER_LANGUAGES, numbers
from heed.data.sentences import TAGS, Tagged, tagged_sentences
from heed.data.templates import AMBIGUOUS
from heed.data.tokens import Padding, TokenBatches

__all__ = [
    "AMBIGUOUS",
    "DATE_LANGUAGES",
    "NAME_LANGUAGES",
    "NUMBER_LANGUAGES",
    "SPLITS",
    "TAGS",
    "Batch",
    "Hidden",
    "Named",
    "Padding",
    "Pair",
    "Tagged",
    "TokenBatches",
    "batches",
    "dates",
    "hide_tokens",
    "multi30k",
    "numbers",
    "pad",
    "pad_batch",
    "place_names",
    "split_of",
    "tagged_sentences",
]
