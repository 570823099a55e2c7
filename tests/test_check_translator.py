"""Sentences of chapter 14's checks that no wrong answer in its solutions asks for."""

from itertools import pairwise

import pytest
import torch

from heed import check
from heed.check.translator import merge_all


def changes_the_list(word, merges):
    merges.pop()
    return merge_all(word, merges)


SPLIT = {
    "nothing was merged": lambda word, merges: list(word),
    "It belongs to the caller": changes_the_list,
    "A list of tokens is wanted": lambda word, merges: word,
    "must be the word again": lambda word, merges: merge_all(word, merges)[:-1],
    "it should be": lambda word, merges: merge_all(word, merges[:5] + merges[6:]),
}


@pytest.mark.parametrize("sentence", SPLIT)
def test_split_word_names_the_mistake(capsys, sentence):
    check.split_word(SPLIT[sentence])
    assert sentence in capsys.readouterr().out


def counts(words):
    found = {}
    for tokens, n in words.items():
        for pair in pairwise(tokens):
            found[pair] = found.get(pair, 0) + n
    return found


def last_of_equals(words):
    found = counts(words)
    return max(found, key=lambda pair: (found[pair], pair))


def letters_only(words):
    found = {pair: n for pair, n in counts(words).items() if len("".join(pair)) == 2}
    return min(found, key=lambda pair: (-found[pair], pair)) if found else ("", "")


def rarest(words):
    found = counts(words)
    return min(found, key=lambda pair: (found[pair], pair))


PAIRS = {
    "stands first in the alphabet": last_of_equals,
    "several letters": letters_only,
    "the pair is ('u', 'n'), and not": rarest,
}


@pytest.mark.parametrize("sentence", PAIRS)
def test_best_pair_names_the_mistake(capsys, sentence):
    check.best_pair(PAIRS[sentence])
    assert sentence in capsys.readouterr().out


def mean(states):
    averaged = {}
    for name, last in states[-1].items():
        entries = torch.stack([state[name] for state in states])
        averaged[name] = entries.mean(0) if last.is_floating_point() else last.clone()
    return averaged


STATES = {
    "divide by the number of states": lambda s: {n: sum(t[n] for t in s) for n in s[0]},
    "This is the last state": lambda s: {n: t.clone() for n, t in s[-1].items()},
    "do not forget the first one": lambda s: mean(s[1:]),
    "A dictionary is wanted": lambda s: [*mean(s).values()],
    "is missing": lambda s: {"W": mean(s)["W"]},
    "a counter, whole numbers": lambda s: mean(s) | {"steps": torch.tensor(10)},
}


@pytest.mark.parametrize("sentence", STATES)
def test_mean_state_names_the_mistake(capsys, sentence):
    check.mean_state(STATES[sentence])
    assert sentence in capsys.readouterr().out


def differences(weights):
    positions = torch.arange(len(weights)).double()
    return positions[:, None] - positions


DISTANCES = {
    "This is the sum over all rows": lambda w: (w * differences(w).abs()).sum(),
    "all n² cells": lambda w: (w * differences(w).abs()).mean(),
    "looking ahead and looking back": lambda w: -(w * differences(w)).sum() / len(w),
    "squared distance": lambda w: (w * differences(w) ** 2).sum() / len(w),
    "The weights are not used": lambda w: differences(w).abs().mean(),
    "Only the position with the largest weight": lambda w: (
        (w.argmax(-1) - torch.arange(len(w))).abs().double().mean()
    ),
}


@pytest.mark.parametrize("sentence", DISTANCES)
def test_mean_distance_names_the_mistake(capsys, sentence):
    check.mean_distance(DISTANCES[sentence])
    assert sentence in capsys.readouterr().out
