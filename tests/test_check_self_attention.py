"""Sentences of chapter 06's checks that no wrong answer in its solutions asks for."""

import math

import pytest
import torch

from heed import check
from heed.attention import dependence


def rows(x, W_q, W_k, W_v):
    return x @ W_q.T, x @ W_k.T, x @ W_v.T


ONE = {
    "not scaled": lambda q, k, v, x: (q @ k.T).softmax(-1) @ v,
    "it is its square root": lambda q, k, v, x: (q @ k.T / 3).softmax(-1) @ v,
    "weights of all queries sum to one": lambda q, k, v, x: (q @ k.T / math.sqrt(3)).softmax(0) @ v,
    "scores themselves are the weights": lambda q, k, v, x: q @ k.T / math.sqrt(3) @ v,
    "not divided by their sum": lambda q, k, v, x: (q @ k.T / math.sqrt(3)).exp() @ v,
    "mixed as they are": lambda q, k, v, x: (q @ k.T / math.sqrt(3)).softmax(-1) @ x,
    "These are the weights": lambda q, k, v, x: (q @ k.T / math.sqrt(3)).softmax(-1),
}


@pytest.mark.parametrize("sentence", ONE)
def test_one_at_a_time_names_the_mistake(capsys, sentence):
    check.one_at_a_time(lambda x, *W: ONE[sentence](*rows(x, *W), x))
    assert sentence in capsys.readouterr().out


COLUMNS = {
    "so keys ask and queries answer": lambda Q, K, V: V @ (Q.T @ K / math.sqrt(3)).softmax(0),
    "not scaled": lambda Q, K, V: V @ (K.T @ Q).softmax(0),
    "scaled by the rows of W": lambda Q, K, V: V @ (K.T @ Q / math.sqrt(8)).softmax(0),
    "tokens are rows here": lambda Q, K, V: (V @ (K.T @ Q / math.sqrt(3)).softmax(0)).T,
}


@pytest.mark.parametrize("sentence", COLUMNS)
def test_one_matrix_names_the_mistake(capsys, sentence):
    def wrong(I, W, d_k):
        return COLUMNS[sentence](*(W @ I).split([d_k, d_k, len(W) - 2 * d_k]))

    check.one_matrix(wrong)
    assert sentence in capsys.readouterr().out


def test_one_matrix_notices_a_fixed_width_of_the_values(capsys):
    def fixed(I, W, d_k):
        Q, K, V = W[:3] @ I, W[3:6] @ I, W[6:8] @ I
        return V @ (K.T @ Q / math.sqrt(d_k)).softmax(0)

    check.one_matrix(fixed)
    assert "d_v is what is left" in capsys.readouterr().out


def layers(n, k, growth, more=0, first=1):
    view, count, dilation = 1, 0, first
    while view < n:
        view, count, dilation = view + (k - 1) * dilation, count + 1, dilation * growth
    return count + more


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda n, k, g: layers(n, k, g, first=g), "growth ** 0 = 1"),
        (lambda n, k, g: max(0, layers(n, k, g, -1)), "one layer less"),
        (lambda n, k, g: layers(n, k, g, 1), "one layer more"),
        (lambda n, k, g: (n - 1) / (k - 1), "whole number"),
        (lambda n, k, g: 2, "it takes 0 layers, and yours says 2"),
    ],
)
def test_layers_needed_names_the_mistake(capsys, wrong, sentence):
    check.layers_needed(wrong)
    assert sentence in capsys.readouterr().out


def squares(f, x):
    return torch.autograd.functional.jacobian(f, x).square()


DEPENDENCE = {
    "take the root": lambda f, x: squares(f, x).sum((1, 3)),
    "sums of absolute values": lambda f, x: squares(f, x).sqrt().sum((1, 3)),
    "Rows and columns are interchanged": lambda f, x: dependence(f, x).T,
    "Only the first entry": lambda f, x: squares(f, x)[:, 0].sum(-1).sqrt(),
    "Only the last entry": lambda f, x: squares(f, x)[:, -1].sum(-1).sqrt(),
}


@pytest.mark.parametrize("sentence", DEPENDENCE)
def test_my_dependence_names_the_mistake(capsys, sentence):
    check.my_dependence(DEPENDENCE[sentence])
    assert sentence in capsys.readouterr().out


def by_hand(factor=12.0, blank=-1.0, values=None):
    names = torch.eye(32, 43)
    W_k = names.clone()
    W_k[:, 42] = blank
    return factor * math.sqrt(32) * names, W_k, torch.eye(43)[32:42] if values is None else values


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: by_hand()[:2], "Return three tensors"),
        (lambda: (*by_hand()[:2], torch.eye(43)[32:]), "W_v has shape (11, 43)"),
        (lambda: by_hand(factor=0.0), "All tokens get the same weight"),
        (lambda: by_hand(factor=-12.0), "does not look most at the pair"),
        (lambda: by_hand(values=torch.eye(43)[:10]), "look at W_v"),
        (lambda: by_hand(blank=0.0), "it has the same name"),
        (lambda: by_hand(factor=3.0), "it is only 0."),
    ],
)
def test_recall_by_hand_names_the_mistake(capsys, wrong, sentence):
    check.recall_by_hand(wrong)
    assert sentence in capsys.readouterr().out
