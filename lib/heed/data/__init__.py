"""The course's corpora, and the way from their pairs to tensors.

Everything generated is made on the spot from real language data (Babel's CLDR, num2words), is seeded, and is
split so that the test set asks for more than memory. This package knows nothing about models.
"""

from heed.data.batch import Batch, batches, pad, pad_batch
from heed.data.corpus import SPLITS, Pair, split_of
from heed.data.dates import DATE_LANGUAGES, dates
from heed.data.documents import Documents, document_batches, documents
from heed.data.marks import Marks, mark, marks
from heed.data.multi30k import multi30k
from heed.data.names import NAME_LANGUAGES, Named, place_names
from heed.data.numbers import NUMBER_LANGUAGES, numbers
from heed.data.points import NOTHING, PointBatch, hulls, point_batches, point_sets
from heed.data.recall import BLANK, RECALL_NAMES, Recall, recall, recalls
from heed.data.sentences import TAGS, Tagged, tagged_sentences
from heed.data.templates import AMBIGUOUS
from heed.data.tokens import Padding, TokenBatches

__all__ = [
    "AMBIGUOUS",
    "BLANK",
    "DATE_LANGUAGES",
    "NAME_LANGUAGES",
    "NOTHING",
    "NUMBER_LANGUAGES",
    "RECALL_NAMES",
    "SPLITS",
    "TAGS",
    "Batch",
    "Documents",
    "Marks",
    "Named",
    "Padding",
    "Pair",
    "PointBatch",
    "Recall",
    "Tagged",
    "TokenBatches",
    "batches",
    "dates",
    "document_batches",
    "documents",
    "hulls",
    "mark",
    "marks",
    "multi30k",
    "numbers",
    "pad",
    "pad_batch",
    "place_names",
    "point_batches",
    "point_sets",
    "recall",
    "recalls",
    "split_of",
    "tagged_sentences",
]
