"""Sentences of chapter 12's checks that no wrong answer in its solutions asks for."""

import random

import pytest
import torch

from heed import check
from heed.data import pad
from heed.schedule import noam
from heed.text import BOS, EOS, PAD


def rows(targets):
    return pad([[BOS, *row, EOS] for row in targets])


READS = {
    "Return four things": lambda r, t: (r[:, :-1], r[:, 1:]),
    "its last column too": lambda r, t: (r, r[:, 1:], r[:, 1:] != PAD, 3),
    "before the padding": lambda r, t: (pad([[BOS, *row] for row in t]), r[:, 1:], r[:, 1:] != PAD, 3),
    "BOS is missing": lambda r, t: (pad(t), r[:, 1:], r[:, 1:] != PAD, 3),
    "The decoder must say what it reads": lambda r, t: (r[:, :-1], r[:, :-1], r[:, 1:] != PAD, 3),
    "leave BOS out": lambda r, t: (r[:, :-1], r, r[:, 1:] != PAD, 3),
    "EOS is missing": lambda r, t: (r[:, :-1], pad(t), r[:, 1:] != PAD, 3),
    "a mask is torch.bool": lambda r, t: (r[:, :-1], r[:, 1:], (r[:, 1:] != PAD).long(), 3),
    "EOS does not count here": lambda r, t: (r[:, :-1], r[:, 1:], r[:, 1:] > EOS, 3),
    "counts is True at padding": lambda r, t: (r[:, :-1], r[:, 1:], r[:, 1:] == PAD, 3),
    "n counts all positions": lambda r, t: (r[:, :-1], r[:, 1:], r[:, 1:] != PAD, r[:, 1:].numel()),
    "n is 3, and 7 predictions count": lambda r, t: (r[:, :-1], r[:, 1:], r[:, 1:] != PAD, 3),
    "✓ read_and_say": lambda r, t: (r[:, :-1], r[:, 1:], r[:, 1:] != PAD, (r[:, 1:] != PAD).sum()),
}


@pytest.mark.parametrize("sentence", READS)
def test_read_and_say_names_the_mistake(capsys, sentence):
    check.read_and_say(lambda targets: READS[sentence](rows(targets), targets))
    assert sentence in capsys.readouterr().out


def smoothing(logits, target, e):
    return parts(logits, target, 1 - e, e / 5)


def parts(logits, target, of, rest):
    keep = target != PAD
    log_p = logits[keep].log_softmax(-1)
    return -(of * log_p.gather(1, target[keep][:, None])[:, 0] + rest * log_p.sum(-1)).sum()


SMOOTH = {
    "This is the mean over the tokens": lambda x, y, e: smoothing(x, y, e) / (y != PAD).sum(),
    "There is no smoothing in it": lambda x, y, e: smoothing(x, y, 0.0),
    "The penalty is the SUM": lambda x, y, e: parts(x, y, 1 - e, e),
    "keeps its full weight 1": lambda x, y, e: parts(x, y, 1, e / 5),
    "the two are interchanged": lambda x, y, e: parts(x, y, e, (1 - e) / 5),
    "The sign is wrong": lambda x, y, e: -smoothing(x, y, e),
    "0 · log 0": lambda x, y, e: smoothing(x, y, e) * torch.nan,
    "its axis is the vocabulary": lambda x, y, e: (
        -((1 - e) * x.log_softmax(0).gather(1, y[:, None])[:, 0] + e * x.log_softmax(0).mean(-1))[
            y != PAD
        ].sum()
    ),
    "over the tokens it is a sum": lambda x, y, e: (
        parts(x, y, 1 - e, 0) - e * x[y != PAD].log_softmax(-1).mean()
    ),
    "✓ smooth_cross_entropy": smoothing,
    "This is the mean over all rows": lambda x, y, e: smoothing(x, y, e) / len(y),
}


@pytest.mark.parametrize("sentence", SMOOTH)
def test_smooth_cross_entropy_names_the_mistake(capsys, sentence):
    check.smooth_cross_entropy(SMOOTH[sentence])
    assert sentence in capsys.readouterr().out


RATES = {
    "from 2 on": lambda i, m, d, w: noam(i // m + 2, d, w),
    "Only the first updates are right": lambda i, m, d, w: noam(max(1, i // m), d, w),
    "of the one before": lambda i, m, d, w: noam(max(1, (i + 1) // m), d, w),
    "warmup is multiplied": lambda i, m, d, w: noam(i // m + 1, d, w * m),
    "i=0, micro=1: the rate is": lambda i, m, d, w: 0.1,
}


@pytest.mark.parametrize("sentence", RATES)
def test_rate_of_micro_batch_names_the_mistake(capsys, sentence):
    check.rate_of_micro_batch(RATES[sentence])
    assert sentence in capsys.readouterr().out


def filled(lengths, budget, key=max, drop=0, first=True):
    plan = [[]] if first else [[], []]
    for i in sorted(range(len(lengths)), key=lambda i: key(lengths[i])):
        if plan[-1] and (len(plan[-1]) + 1) * max(max(lengths[j]) for j in [*plan[-1], i]) > budget:
            plan.append([])
        plan[-1].append(i)
    return plan


def by_source(lengths, budget):
    plan = [[]]
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if plan[-1] and (len(plan[-1]) + 1) * lengths[i][0] > budget:
            plan.append([])
        plan[-1].append(i)
    return plan


CUTS = {
    "There is an empty batch": lambda lengths, budget: filled(lengths, budget, first=False),
    "is in no batch": lambda lengths, budget: filled(lengths, budget)[:-1],
    "stands in two batches": lambda lengths, budget: [*filled(lengths, budget), [0]],
    "Pairs of unlike length share": lambda lengths, budget: filled(lengths, budget, key=lambda pair: 0),
    "These are lengths": lambda lengths, budget: [[max(pair)] for pair in lengths],
    "There is an index that no pair has": lambda lengths, budget: [[len(lengths)]],
    "A batch ends too soon": lambda lengths, budget: [[i] for i in range(len(lengths))],
    "indices into `lengths`": lambda lengths, budget: [[pair] for pair in lengths],
    "must both fit": lambda lengths, budget: by_source(lengths, budget),
    "✓ cut_by_tokens": filled,
}


@pytest.mark.parametrize("sentence", CUTS)
def test_cut_by_tokens_names_the_mistake(capsys, sentence):
    check.cut_by_tokens(CUTS[sentence])
    assert sentence in capsys.readouterr().out


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_batches_is_up_to_the_reader(capsys, seed):
    check.cut_by_tokens(lambda *given: random.Random(seed).sample(plan := filled(*given), len(plan)))
    assert "✓" in capsys.readouterr().out


def adam(grads, rate, b1, b2, eps, corrected=True, sign=-1, root=True, square=2):
    m, v, made = 0.0, 0.0, []
    for t, g in enumerate(grads, start=1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * abs(g) ** square
        c1, c2 = (1 - b1**t, 1 - b2**t) if corrected else (1, 1)
        size = (v / c2) ** 0.5 + eps if root else (v / c2 + eps) ** 0.5
        made.append(sign * rate * (m / c1) / size)
    return made


MOVES = {
    "Return a list": lambda g, r, a, b, e: 0.1,
    "3 gradients make 3 moves": lambda g, r, a, b, e: adam(g, r, a, b, e)[1:],
    "The sign is wrong": lambda *given: adam(*given, sign=1),
    "not corrected for their start": lambda *given: adam(*given, corrected=False),
    "the means are missing": lambda g, r, a, b, e: [-r * x / (abs(x) + e) for x in g],
    "eps stands under the root": lambda *given: adam(*given, root=False),
    "The rate is not in it": lambda g, r, a, b, e: adam(g, 1.0, a, b, e),
    "return its moves": lambda *given: [sum(adam(*given)[: i + 1]) for i in range(len(given[0]))],
    "update 2 moves by": lambda *given: [*adam(*given)[:1], 7.0, *adam(*given)[2:]],
    "✓ adam_moves": adam,
}


@pytest.mark.parametrize("sentence", MOVES)
def test_adam_moves_names_the_mistake(capsys, sentence):
    check.adam_moves(MOVES[sentence])
    assert sentence in capsys.readouterr().out


def test_adam_moves_knows_a_mean_without_squares_and_a_mean_corrected_twice(capsys):
    def no_square(grads, rate, b1, b2, eps):
        m, v, made = 0.0, 0.0, []
        for t, g in enumerate(grads, start=1):
            m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g
            made.append(-rate * m / (1 - b1**t) / (abs(v / (1 - b2**t)) ** 0.5 + eps))
        return made

    def twice(grads, rate, b1, b2, eps):
        m, v, made = 0.0, 0.0, []
        for t, g in enumerate(grads, start=1):
            m = (b1 * m + (1 - b1) * g) / (1 - b1**t)
            v = (b2 * v + (1 - b2) * g * g) / (1 - b2**t)
            made.append(-rate * m / (v**0.5 + eps))
        return made

    check.adam_moves(no_square)
    check.adam_moves(twice)
    said = capsys.readouterr().out
    assert "mean of gradients" in said and "corrected again" in said


def kept(x, p, draws, training):
    return x * (draws >= p) / (1 - p) if training else x


DROPPED = {
    "Entries are dropped at evaluation": lambda x, p, d, t: kept(x, p, d, True),
    "Then training must not divide": lambda x, p, d, t: kept(x, p, d, t) if t else x * (1 - p),
    "their mean is too large": lambda x, p, d, t: kept(x, p, d, t) if t else x / (1 - p),
    "are not divided by 1 − p": lambda x, p, d, t: x * (d >= p) if t else x,
    "are divided by p": lambda x, p, d, t: x * (d >= p) / p if t else x,
    "smaller still": lambda x, p, d, t: x * (d >= p) * (1 - p) if t else x,
    "keeps what it should drop": lambda x, p, d, t: x * (d < p) / (1 - p) if t else x,
    "Nothing is dropped in training": lambda x, p, d, t: x,
    "share the first draw": lambda x, p, d, t: x * (d[:, :1] >= p) / (1 - p) if t else x,
    "✓ dropped": kept,
    "what you are to write": lambda x, p, d, t: torch.nn.functional.dropout(x, p, t),
}


@pytest.mark.parametrize("sentence", DROPPED)
def test_dropped_names_the_mistake(capsys, sentence):
    check.dropped(DROPPED[sentence])
    assert sentence in capsys.readouterr().out


def test_zeros_in_place_do_not_pass(capsys):
    check.dropped(lambda x, p, draws, training: x.zero_() + draws.zero_())
    check.adam_moves(lambda grads, *more: [0.0 for _ in grads])
    assert capsys.readouterr().out.count("✗") == 2
