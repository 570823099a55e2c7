"""Sentences of chapter 10's checks that no wrong answer in its solutions asks for."""

import math

import pytest
import torch
from torch.nn.functional import layer_norm

from heed import check


def identity(d, W_1=(1, -1), W_2=(1, -1), b_2=0.0):
    I = torch.eye(d)
    first, second = torch.cat([s * I for s in W_1]), torch.cat([s * I for s in W_2], dim=1)
    return first, torch.zeros(2 * d), second, torch.full((d,), b_2)


IDENTITY = {
    "Return W_1, b_1, W_2, b_2": lambda d: identity(d)[:3],
    "has shape": lambda d: (identity(d)[0].T, *identity(d)[1:]),
    "relu(x) and relu(−x) cannot cancel": lambda d: identity(d, W_2=(0, 0)),
    "2x": lambda d: identity(d, W_2=(2, -2)),
    "signs of W_2": lambda d: identity(d, W_2=(-1, 1)),
    "differs": lambda d: identity(d, b_2=0.5),
}


@pytest.mark.parametrize("sentence", IDENTITY)
def test_identity_layer_names_the_mistake(capsys, sentence):
    check.identity_layer(IDENTITY[sentence])
    assert sentence in capsys.readouterr().out


def sums(J):
    """The right answer."""
    total = [torch.eye(len(J[0]), dtype=J[0].dtype)] + [torch.zeros_like(J[0])] * len(J)
    for J_l in J:
        shorter = [torch.zeros_like(J_l), *total[:-1]]
        total = [p + J_l @ s for p, s in zip(total, shorter, strict=True)]
    return torch.stack(total)


def without_first(J, first):
    total = sums(J)
    total[0] = first
    return total


PATHS = {
    "means over the paths": lambda J: torch.stack(
        [row / math.comb(len(J), k) for k, row in enumerate(sums(J))]
    ),
    "passes by every layer is missing": lambda J: sums(J)[1:],
    "not a matrix of ones": lambda J: without_first(J, 1.0),
    "sort them by length": lambda J: sums(J).sum(0),
    "missing its I": lambda J: without_first(J, 0.0),
}


@pytest.mark.parametrize("sentence", PATHS)
def test_paths_by_length_names_the_mistake(capsys, sentence):
    check.paths_by_length(PATHS[sentence])
    assert sentence in capsys.readouterr().out


def test_paths_by_length_takes_right_answers(capsys):
    check.paths_by_length(sums)
    assert "✓" in capsys.readouterr().out


def parts(x, eps):
    root = (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt()
    return (x - x.mean(-1, keepdim=True)) / root, root


def mean(t):
    return t.mean(-1, keepdim=True)


BACKWARD = {
    "through the mean is missing": lambda x, g, n, r: (g - n * mean(g * n)) / r,
    "Divide by the root": lambda x, g, n, r: g - mean(g) - n * mean(g * n),
    "divides by the variance": lambda x, g, n, r: (g - mean(g) - n * mean(g * n)) / r**2,
    "not x": lambda x, g, n, r: (g - mean(g) - x * mean(g * x)) / r,
    "These are sums": lambda x, g, n, r: (g - 6 * mean(g) - 6 * n * mean(g * n)) / r,
    "over all tokens at once": lambda x, g, n, r: (g - g.mean() - n * (g * n).mean()) / r,
    "One of the two": lambda x, g, n, r: (g - mean(g) - 6 * n * mean(g * n)) / r,
    "run over the tokens": lambda x, g, n, r: (g - g.mean(0) - n * (g * n).mean(0)) / r,
    "the part along n is": lambda x, g, n, r: (g - mean(g) + n * mean(g * n)) / r,
    "the mean of g is reversed": lambda x, g, n, r: (g + mean(g) - n * mean(g * n)) / r,
    "signs of the two": lambda x, g, n, r: (g + mean(g) + n * mean(g * n)) / r,
}


@pytest.mark.parametrize("sentence", BACKWARD)
def test_norm_backward_names_the_mistake(capsys, sentence):
    check.norm_backward(lambda x, g, eps: BACKWARD[sentence](x, g, *parts(x, eps)))
    assert sentence in capsys.readouterr().out


def test_norm_backward_names_a_forgotten_epsilon(capsys):
    def wrong(x, g, eps):
        n, r = parts(x, 0.0)
        return (g - mean(g) - n * mean(g * n)) / r

    check.norm_backward(wrong)
    assert "ε is missing" in capsys.readouterr().out


SCALES = {
    "take the root": lambda a: a * len(a) / (len(a) - 1),
    "as it was": lambda a: a,
}


@pytest.mark.parametrize("sentence", SCALES)
def test_scale_for_torch_names_the_mistake(capsys, sentence):
    check.scale_for_torch(SCALES[sentence])
    assert sentence in capsys.readouterr().out


def test_scale_for_torch_makes_the_two_norms_equal():
    torch.manual_seed(0)
    x, a = torch.randn(5, 7, dtype=torch.float64), torch.randn(7, dtype=torch.float64)
    trained = a * (x - mean(x)) / x.std(-1, keepdim=True)
    assert torch.allclose(layer_norm(x, (7,), a * math.sqrt(6 / 7), eps=0.0), trained)


def test_norm_backward_does_not_take_autograd(capsys):
    def wrong(x, g, eps):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(layer_norm(x, x.shape[-1:], eps=eps), x, g)[0]

    check.norm_backward(wrong)
    assert "✗" in capsys.readouterr().out


def test_pre_norm_stack_leaves_its_input_alone(capsys):
    def wrong(x, sublayers, norms, last):
        for f, n in zip(sublayers, norms, strict=True):
            x += f(n(x))
        return last(x)

    check.pre_norm_stack(wrong)
    assert "has changed" in capsys.readouterr().out


def stacked(step, end=True):
    def wrong(x, sublayers, norms, last):
        for f, n in zip(sublayers, norms, strict=True):
            x = step(x, f, n, last)
        return last(x) if end else x

    return wrong


def to_the_first(x, sublayers, norms, last):
    for f, n in zip(sublayers, norms, strict=True):
        y = x + f(n(x))
    return last(y)


STACKS = {
    "without the last norm": stacked(lambda x, f, n, last: n(x + f(x)), end=False),
    "no residual": stacked(lambda x, f, n, last: f(n(x))),
    "norms are not used": stacked(lambda x, f, n, last: x + f(x)),
    "what the sublayer returns; it belongs": stacked(lambda x, f, n, last: x + n(f(x))),
    "adds to the first x": to_the_first,
    "after every layer": stacked(lambda x, f, n, last: last(x + f(n(x))), end=False),
}


@pytest.mark.parametrize("sentence", STACKS)
def test_pre_norm_stack_names_the_mistake(capsys, sentence):
    check.pre_norm_stack(STACKS[sentence])
    assert sentence in capsys.readouterr().out
