"""Sentences of chapter 06's checks that no wrong answer in its solutions asks for."""

import math

import pytest
import torch
from torch.nn import functional as F

from heed import check
from heed.attention import dependence
from heed.check.self_attention import STACKS, needed


def softmaxed(scores, dim=-1):
    return scores.exp() / scores.exp().sum(dim, keepdim=True)


ONE = {
    "✓": lambda s: softmaxed(s / math.sqrt(3)),
    "not scaled": softmaxed,
    "it is its square root": lambda s: softmaxed(s / 3),
    "weights of all queries sum to one": lambda s: softmaxed(s / math.sqrt(3), 0),
    "scores themselves are the weights": lambda s: s / math.sqrt(3),
    "not divided by their sum": lambda s: (s / math.sqrt(3)).exp(),
    "mixed as they are": lambda s: softmaxed(s / math.sqrt(3)),
    "These are the weights": lambda s: softmaxed(s / math.sqrt(3)),
}


@pytest.mark.parametrize("sentence", ONE)
def test_one_at_a_time_names_the_mistake(capsys, sentence):
    def answer(x, W_q, W_k, W_v):
        q, k, v = ([W @ x_i for x_i in x] for W in (W_q, W_k, W_v))
        weights = ONE[sentence](torch.stack([torch.stack([q_i @ k_j for k_j in k]) for q_i in q]))
        v = x if sentence == "mixed as they are" else v
        z = torch.stack([sum(a * v_j for a, v_j in zip(row, v, strict=True)) for row in weights])
        return weights if sentence == "These are the weights" else z

    check.one_at_a_time(answer)
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


def sees(n, k, growth, layers):
    """Does the last output of a real stack depend on the first input? All weights are 1: nothing cancels."""

    def stack(x):
        for l in range(layers):
            padded = F.pad(x.T, ((k - 1) * growth**l, 0))
            x = F.conv1d(padded, torch.ones(1, 1, k), dilation=growth**l).T
        return x

    return dependence(stack, torch.ones(n, 1))[-1, 0] > 0


@pytest.mark.parametrize("n, k, growth", [case for case in STACKS if case[0] < 100])
def test_a_stack_of_so_many_layers_sees_the_first_token_and_of_one_less_does_not(n, k, growth):
    layers = needed(n, k, growth)
    assert sees(n, k, growth, layers)
    assert layers == 0 or not sees(n, k, growth, layers - 1)


def test_where_the_growth_exceeds_the_width_a_stack_may_never_see_it():
    assert not any(sees(4, 3, 5, layers) for layers in range(5))
    assert all(growth <= k for _, k, growth in STACKS)


def squares(f, x):
    x = x.clone().requires_grad_()
    y = f(x)
    entries = [torch.autograd.grad(entry, x, retain_graph=True)[0] for entry in y.flatten()]
    return torch.stack(entries).view(*y.shape, *x.shape).square()


DEPENDENCE = {
    "take the root": lambda f, x: squares(f, x).sum((1, 3)),
    "sums of absolute values": lambda f, x: squares(f, x).sqrt().sum((1, 3)),
    "Rows and columns are interchanged": lambda f, x: squares(f, x).sum((1, 3)).sqrt().T,
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
