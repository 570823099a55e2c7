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


def summed(model, batch_parts, loss_sum, scale, clear=True):
    if clear:
        model.zero_grad()
    losses = [loss_sum(model, part) * scale(part) for part in batch_parts]
    sum(losses).backward()
    return sum(losses).item()


def total(batch_parts):
    return sum(part.n_tokens for part in batch_parts)


ADDED = {
    "and the means are added": lambda m, p, f: summed(m, p, f, lambda part: 1 / part.n_tokens),
    "The sums are not divided": lambda m, p, f: summed(m, p, f, lambda part: 1),
    "divided by the number of parts, too": lambda m, p, f: summed(
        m, p, f, lambda part: 1 / total(p) / len(p)
    ),
    "The parameters have no gradient": lambda m, p, f: m.zero_grad() or 1.0,
    "The loss is the sum over all tokens": lambda m, p, f: (
        summed(m, p, f, lambda part: 1 / total(p)) * total(p)
    ),
    "✓ accumulate": lambda m, p, f: summed(m, p, f, lambda part: 1 / total(p)),
}


@pytest.mark.parametrize("sentence", ADDED)
def test_accumulate_names_the_mistake(capsys, sentence):
    check.accumulate(ADDED[sentence])
    assert sentence in capsys.readouterr().out


def test_accumulate_notices_the_mean_of_means_and_the_last_part_as_a_loss(capsys):
    def last(model, batch_parts, loss_sum):
        summed(model, batch_parts, loss_sum, lambda part: 1 / total(batch_parts))
        return loss_sum(model, batch_parts[-1]).item() / total(batch_parts)

    def means(model, batch_parts, loss_sum):
        summed(model, batch_parts, loss_sum, lambda part: 1 / total(batch_parts))
        values = [loss_sum(model, part).item() / part.n_tokens for part in batch_parts]
        return sum(values) / len(values)

    check.accumulate(last)
    check.accumulate(means)
    said = capsys.readouterr().out
    assert "the last part alone" in said and "the mean of the parts' means" in said
