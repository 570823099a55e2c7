"""Sentences of chapter 16's checks that no wrong answer in its solutions asks for."""

import math

import pytest
import torch

from heed import check


def firsts(starts):
    places = torch.arange(starts.shape[1]).expand_as(starts)
    return torch.where(starts, places, 0).cummax(dim=1).values


def together(starts):
    word = starts.long().cumsum(1)
    return word[:, :, None] == word[:, None, :]


WORDS = {
    "only if all of its pieces": lambda starts, dice, share: (
        together(starts) <= (dice < share)[:, None, :]
    ).all(-1),
    "Only first pieces": lambda starts, dice, share: starts & (dice < share),
    "turn it round": lambda starts, dice, share: dice.gather(1, firsts(starts)) >= share,
}


def steps(log_p, ids, gap, vocab):
    rows = ids.expand(vocab, -1).clone()
    rows[:, gap] = torch.arange(vocab)
    return log_p(rows)[:, gap - 1 : -1].gather(-1, rows[:, gap:, None])[..., 0]


GAP = {
    "Only one word after": lambda *given: steps(*given)[:, :2].sum(1).softmax(0),
    "means over the positions": lambda *given: steps(*given).mean(1).softmax(0),
    "log-probabilities of sentences": lambda *given: steps(*given).sum(1),
    "do not sum to one": lambda *given: steps(*given).sum(1).exp(),
}


def at(n_source, n):
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return i, j, (j < n_source) | (j <= i)


PREFIX = {
    "Everyone sees everyone": lambda m, n: torch.ones(n, n, dtype=torch.bool),
    "The target sees ahead": lambda m, n: (at(m, n)[1] < m) | (at(m, n)[0] >= m),
    "The source sees the target": lambda m, n: (at(m, n)[0] < m) | (at(m, n)[1] <= at(m, n)[0]),
    "does not see itself": lambda m, n: (at(m, n)[1] < m).expand(n, n),
    "This is the transpose": lambda m, n: at(m, n)[2].T,
    "here it means that it may not": lambda m, n: ~at(m, n)[2],
    "should be bool": lambda m, n: at(m, n)[2].long(),
}

BITS = {
    "These are nats": lambda p, tokens: -p.sum() / sum(map(len, tokens)),
    "Divided by ln 2 twice": lambda p, tokens: -p.sum() * math.log(2) / sum(map(len, tokens)),
    "perplexity": lambda p, tokens: (-p.mean()).exp(),
    "The sign": lambda p, tokens: p.sum() / math.log(2) / sum(map(len, tokens)),
}


def counted(embeddings=1, layer=lambda d: 12 * d * d + 13 * d, last=2, places=1):
    return lambda v, n, d, k: (embeddings * v + places * n) * d + k * layer(d) + last * d


SIZE = {
    "The positions are missing": counted(places=0),
    "The biases": counted(layer=lambda d: 12 * d * d + 4 * d),
    "The norms are missing": counted(layer=lambda d: 12 * d * d + 9 * d, last=0),
    "The norm after the last": counted(last=0),
    "W_o is one of them": counted(layer=lambda d: 11 * d * d + 12 * d),
    "8 d² entries": counted(layer=lambda d: 6 * d * d + 13 * d),
    "Return a whole number": lambda *given: float(counted()(*given)),
    "more": lambda *given: counted()(*given) - 1,
}

CASES = [
    pytest.param(name, sentence, wrong, id=f"{name}: {sentence}")
    for name, wrongs in (
        ("whole_words", WORDS),
        ("fill_gap", GAP),
        ("prefix_mask", PREFIX),
        ("bits_per_character", BITS),
        ("gpt2_parameters", SIZE),
    )
    for sentence, wrong in wrongs.items()
]


@pytest.mark.parametrize("name, sentence, wrong", CASES)
def test_a_mistake_gets_its_sentence(capsys, name, sentence, wrong):
    getattr(check, name)(wrong)
    said = capsys.readouterr().out
    assert "✗ Not yet: " in said and sentence in said


def test_the_last_piece_is_not_the_first(capsys):
    def backwards(starts, dice, share):
        ends = starts.roll(-1, 1)
        ends[:, -1] = True
        return dice.flip(1).gather(1, firsts(ends.flip(1))).flip(1) < share

    check.whole_words(backwards)
    assert "The last piece of a word decides" in capsys.readouterr().out
