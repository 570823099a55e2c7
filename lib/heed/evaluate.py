"""Measures of quality. They compare what was written with what should have been, and know no model."""

from typing import NamedTuple


def exact_match(predictions, references):
    """The share of predictions that equal their reference, whole and to the letter.

    Returns a number from 0 to 1. Raises ValueError when the two lists differ in length or are empty.
    """
    check_pairs(predictions, references)
    return sum(p == r for p, r in zip(predictions, references, strict=True)) / len(references)


def check_pairs(predictions, references):
    """Refuse lists that cannot be compared one by one."""
    if len(predictions) != len(references):
        raise ValueError(f"There are {len(predictions)} predictions for {len(references)} references.")
    if not references:
        raise ValueError("There is nothing to compare: both lists are empty.")


class Span(NamedTuple):
    """Tokens start … end−1 of a sentence, marked as one thing of one kind."""

    kind: str
    start: int
    end: int


def spans(tags):
    """Read the marked spans off a list of BIO tags.

    B-KIND begins a span, I-KIND goes on with it, O is outside. An I-KIND that continues nothing of its kind
    begins a span of its own, as in the CoNLL-2000 scorer (Tjong Kim Sang & Buchholz 2000).

    Returns a set of `Span`. Raises ValueError for a tag that is none of these, with its position.
    """
    found, kind, start = set(), None, 0
    for i, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        if tag != "O" and (prefix not in ("B", "I") or not name):
            raise ValueError(f"Tag {i} is {tag!r}; a BIO tag is 'O', 'B-KIND' or 'I-KIND'.")
        if kind is not None and (prefix != "I" or name != kind):
            found.add(Span(kind, start, i))
            kind = None
        if tag != "O" and kind is None:
            kind, start = name, i
    return found


class F1(NamedTuple):
    """Precision, recall and their harmonic mean, each from 0 to 1."""

    precision: float
    recall: float
    f1: float


def span_f1(predictions, references):
    """Score tagged sentences by whole spans: right kind, right first token, right last token, or wrong.

        precision = right / predicted,  recall = right / wanted,  F1 = 2 · right / (predicted + wanted)

    predictions, references: lists of sentences, each a list of BIO tags

    Returns `F1`; a share of nothing counts as 0, and F1 as 1 if nothing was wanted and nothing predicted.
    Raises ValueError when the numbers of sentences, or the lengths of two sentences, differ.
    """
    check_pairs(predictions, references)
    right = predicted = wanted = 0
    for i, (p, r) in enumerate(zip(predictions, references, strict=True)):
        if len(p) != len(r):
            raise ValueError(f"Sentence {i} has {len(p)} predicted tags and {len(r)} true ones.")
        found, true = spans(p), spans(r)
        right, predicted, wanted = right + len(found & true), predicted + len(found), wanted + len(true)
    if predicted + wanted == 0:
        return F1(1.0, 1.0, 1.0)
    return F1(right / max(predicted, 1), right / max(wanted, 1), 2 * right / (predicted + wanted))
