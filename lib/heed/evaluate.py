"""Measures of quality: they compare texts or tags, and know no model."""

import json
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest


def exact_match(predictions, references):
    """The share of predictions that equal their reference to the letter.

    Returns a number from 0 to 1. Raises ValueError when the two lists differ in
    length or are empty.
    """
    check_pairs(predictions, references)
    pairs = zip(predictions, references, strict=True)
    return sum(p == r for p, r in pairs) / len(references)


def check_pairs(predictions, references):
    """Raise a ValueError for lists that cannot be compared one by one."""
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

    B-KIND begins a span, I-KIND continues it, O is outside. An I-KIND that
    continues nothing of its kind begins a span of its own, as in the CoNLL-2000
    scorer (Tjong Kim Sang & Buchholz 2000).

    Returns a set of `Span`. Raises ValueError for a tag that is none of these,
    with its position.
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
    """Score tagged sentences by whole spans: kind, first and last token.

        precision = right / predicted
        recall = right / wanted
        F1 = 2 · right / (predicted + wanted)

    predictions, references: lists of sentences, each a list of BIO tags

    Returns `F1`; a share of nothing counts as 0, and F1 as 1 if nothing was
    wanted and nothing predicted.
    Raises ValueError when the numbers of sentences, or the lengths of two
    sentences, differ.
    """
    check_pairs(predictions, references)
    right = predicted = wanted = 0
    for i, (p, r) in enumerate(zip(predictions, references, strict=True)):
        if len(p) != len(r):
            raise ValueError(f"Sentence {i} has {len(p)} predicted tags and {len(r)} true ones.")
        found, true = spans(p), spans(r)
        right += len(found & true)
        predicted += len(found)
        wanted += len(true)
    if predicted + wanted == 0:
        return F1(1.0, 1.0, 1.0)
    precision, recall = right / max(predicted, 1), right / max(wanted, 1)
    return F1(precision, recall, 2 * right / (predicted + wanted))


# --- Translations -------------------------------------------------------------


class Score(NamedTuple):
    """A measure of a whole text, from 0 to 100, with its 95 % interval.

    `signature` says how it was measured; `low` and `high` are the ends.
    """

    value: float
    signature: str
    low: float
    high: float


def bleu(hypotheses, references, n_resamples=1000):
    """How many runs of one to four words a translation shares with a human one.

    As sacreBLEU counts them (Papineni et al. 2002; Post 2018): words as in
    WMT's script 13a, upper and lower case kept apart, of a text as a whole.

    hypotheses, references: lists of strings, not cut into words
    n_resamples: how many texts are drawn for the interval; 1 for none

    Returns `Score`, whose interval is what `sacrebleu --confidence` prints.
    Raises ValueError for lists that are empty, of different lengths, or not of
    strings.
    """
    return with_interval(BLEU(), hypotheses, references, n_resamples)


def chrf(hypotheses, references, n_resamples=1000):
    """How many runs of one to six characters it shares with a human one.

    (Popović 2015) Takes, returns and raises what `bleu` does.
    """
    return with_interval(CHRF(), hypotheses, references, n_resamples)


def with_interval(metric, hypotheses, references, n_resamples):
    """The score of a text by one of sacreBLEU's metrics, as a `Score`."""
    check_texts(hypotheses, references)
    texts = hypotheses, [references]
    try:
        score = metric.corpus_score(*texts, n_bootstrap=n_resamples)
    except TypeError:  # chrF is 0.0 on some resamples: Python 3.11 finds no mean
        system, given = ("", hypotheses), {"": type(metric)(references=[references])}
        test = PairedTest([system, system], given, None, "bs", n_resamples)
        (signature,), (_, (found, _)) = (x.values() for x in test())
        low, high = found.mean - found.ci, found.mean + found.ci
        return Score(found.score, str(signature), float(low), float(high))
    signature = str(metric.get_signature())
    text = score.format(width=6, signature=signature, is_json=True)
    printed = json.loads(text)  # without the next two if every resample is zero
    mean = printed.get("confidence_mean", score.score)
    margin = printed.get("confidence_var", 0.0)
    return Score(score.score, signature, mean - margin, mean + margin)


class Comparison(NamedTuple):
    """The scores of two systems on the same sentences, and their difference."""

    a: float
    b: float
    difference: float
    low: float
    high: float
    p: float


def paired(a, b, references, n_resamples=1000, seed=12345):
    """Is system a better than b? BLEU's difference on resampled sentences.

    A test set is a sample: other sentences would have given other scores. So a
    thousand test sets are drawn from this one, with replacement. Both systems
    meet the same hard sentences in each (Koehn 2004).

        p = share of the resamples whose difference is as far from the
            resamples' mean as a − b is from 0

    a, b, references: lists of strings, the translations of the same sentences

    Returns `Comparison`: the two scores, their difference with its 95 %
    interval, and p, two-sided.
    Raises ValueError for lists that are empty, of different lengths, or not of
    strings.
    """
    counts = [sentence_counts(system, references) for system in (a, b)]
    n, rng = len(references), np.random.default_rng(seed)
    value_a, value_b = (bleu_of(c.sum(axis=0)) for c in counts)
    times = rng.multinomial(n, np.full(n, 1 / n), size=n_resamples)
    drawn_a, drawn_b = ([bleu_of(row) for row in times @ c] for c in counts)
    differences = np.array(drawn_a) - np.array(drawn_b)
    difference = value_a - value_b
    low, high = np.quantile(differences, [0.025, 0.975])
    far = np.abs(differences - differences.mean()) >= abs(difference)
    p = (far.sum() + 1) / (n_resamples + 1)  # + 1: the text itself is one draw
    interval = float(low), float(high)
    return Comparison(value_a, value_b, difference, *interval, float(p))


def sentence_counts(hypotheses, references):
    """What BLEU counts, one row per sentence; a text's score is of their sum.

    Returns ten numbers a sentence: right runs of one to four words, all runs,
    both lengths (ours, reference).
    """
    check_texts(hypotheses, references)
    metric = BLEU(effective_order=True)  # for one sentence; changes no count
    pairs = zip(hypotheses, references, strict=True)
    scores = [metric.sentence_score(h, [r]) for h, r in pairs]
    rows = [[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores]
    return np.array(rows)


def bleu_of(counts):
    """The BLEU of a text with these counts, smoothed as `bleu`'s is."""
    *runs, sys_len, ref_len = counts.tolist()
    counts = runs[:4], runs[4:], sys_len, ref_len
    return BLEU.compute_bleu(*counts, smooth_method="exp").score


def check_texts(hypotheses, references):
    """Raise a ValueError for anything but two equally long lists of strings."""
    for name, texts in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(texts, str):
            raise ValueError(f"The {name} are one string; for one sentence, give a list: [{texts[:40]!r}].")
        wrong = [i for i, text in enumerate(texts) if not isinstance(text, str)]
        if wrong:
            found = type(texts[wrong[0]]).__name__
            raise ValueError(f"The {name} must be strings, but number {wrong[0]} is of type {found}.")
    check_pairs(hypotheses, references)
