"""Sentences of chapter 14's checks that no wrong answer in its solutions asks for."""

from itertools import pairwise

import pytest
import torch

from heed import check
from heed.check.translator import from_the_right, merge_all


def changes_the_list(word, merges):
    merges.pop()
    return merge_all(word, merges)


SPLIT = {
    "nothing was merged": lambda word, merges: list(word),
    "It belongs to the caller": changes_the_list,
    "A list of tokens is wanted": lambda word, merges: word,
    "must be the word again": lambda word, merges: merge_all(word, merges)[:-1],
    "a merge goes through the word from left to right": from_the_right,
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


def as_one_string(words):
    found = counts(words)
    return min(found, key=lambda pair: (-found[pair], "".join(pair)))


def letters_only(words):
    found = {pair: n for pair, n in counts(words).items() if len("".join(pair)) == 2}
    return min(found, key=lambda pair: (-found[pair], pair)) if found else ("", "")


def rarest(words):
    found = counts(words)
    return min(found, key=lambda pair: (found[pair], pair))


PAIRS = {
    "stands first in the alphabet": last_of_equals,
    "several letters": letters_only,
    "token by token": as_one_string,
    "the pair is ('u', 'n'), and not": rarest,
}


@pytest.mark.parametrize("sentence", PAIRS)
def test_best_pair_names_the_mistake(capsys, sentence):
    check.best_pair(PAIRS[sentence])
    assert sentence in capsys.readouterr().out


def with_parts(first=None, bias=None, second=None):
    """Right, but for the parts that are made by these functions of a tensor and the order."""

    def answer(W_1, b_1, W_2, order):
        back = [order.index(i) for i in range(len(order))]
        return (
            first(W_1, order, back) if first else W_1[order],
            bias(b_1, order, back) if bias else b_1[order],
            second(W_2, order, back) if second else W_2[:, order],
        )

    return answer


def changes_its_inputs(W_1, b_1, W_2, order):
    W_1[:] = W_1[order]
    return W_1, b_1[order], W_2[:, order]


def of_the_shown_case(W_1, b_1, W_2, order):
    order = [2, 0, 1, 4, 3]
    return W_1[order[: len(W_1)]], b_1[order[: len(b_1)]], W_2[:, order[: len(b_1)]]


ORDERS = {
    "It belongs to the caller": changes_its_inputs,
    "Three tensors are wanted": lambda W_1, b_1, W_2, order: {"W_1": W_1[order]},
    "W_2 keeps its shape (4, 5)": with_parts(second=lambda x, order, back: x.T),
    "The first matrix is as it was": with_parts(first=lambda x, order, back: x),
    "This is the order backwards": with_parts(first=lambda x, order, back: x[back]),
    "The bias is as it was": with_parts(bias=lambda x, order, back: x),
    "The bias goes the other way": with_parts(bias=lambda x, order, back: x[back]),
    "The second matrix is as it was": with_parts(second=lambda x, order, back: x),
    "not its inverse": with_parts(second=lambda x, order, back: x[:, back]),
    "of another layer": of_the_shown_case,
}


@pytest.mark.parametrize("sentence", ORDERS)
def test_reordered_names_the_mistake(capsys, sentence):
    check.reordered(ORDERS[sentence])
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
