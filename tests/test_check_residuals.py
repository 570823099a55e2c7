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


def shares(parts, a, w, eps):
    """The right answer."""
    total = parts.sum(0)
    root = (total.var(unbiased=False) + eps).sqrt()
    return ((parts - mean(parts)) / root * a) @ w


def rooted(x, eps=0.5):
    return (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt()


def along_the_way(parts, a, w, eps):
    return layer_norm(parts.cumsum(0), w.shape, a, eps=eps) @ w


def in_differences(parts, a, w, eps):
    logits = along_the_way(parts, a, w, eps)
    return torch.cat([logits[:1], logits.diff()])


def in_place(parts, a, w, eps):
    root = rooted(parts.sum(0), eps)
    parts -= mean(parts)
    return (parts / root * a) @ w


SHARES = {
    "by its own root": lambda parts, a, w, eps: layer_norm(parts, w.shape, a, eps=eps) @ w,
    "What has each part added": along_the_way,
    "differences of logits": in_differences,
    "not centred": lambda parts, a, w, eps: (parts / rooted(parts.sum(0)) * a) @ w,
    "mean of the sum": lambda parts, a, w, eps: (
        ((parts - parts.sum(0).mean()) / rooted(parts.sum(0)) * a) @ w
    ),
    "over the parts": lambda parts, a, w, eps: ((parts - parts.mean(0)) / rooted(parts.sum(0)) * a) @ w,
    "unbiased": lambda parts, a, w, eps: ((parts - mean(parts)) / (parts.sum(0).var() + eps).sqrt() * a) @ w,
    "ε is missing": lambda parts, a, w, eps: shares(parts, a, w, 0.0),
    "Nothing is divided": lambda parts, a, w, eps: ((parts - mean(parts)) * a) @ w,
    "divides by the variance": lambda parts, a, w, eps: shares(parts, a, w, eps) / rooted(parts.sum(0)),
    "scale a is missing": lambda parts, a, w, eps: shares(parts, torch.ones_like(a), w, eps),
    "one number for each part": lambda parts, a, w, eps: shares(parts, a, w, eps).sum(),
    "multiply by w": lambda parts, a, w, eps: (parts - mean(parts)) / rooted(parts.sum(0)) * a,
    "have changed": in_place,
    "should be a tensor": lambda parts, a, w, eps: shares(parts, a, w, eps).tolist(),
    "differs most": lambda parts, a, w, eps: torch.ones(len(parts), dtype=parts.dtype),
}


@pytest.mark.parametrize("sentence", SHARES)
def test_logit_shares_names_the_mistake(capsys, sentence):
    check.logit_shares(SHARES[sentence])
    assert sentence in capsys.readouterr().out


def test_logit_shares_takes_right_answers_which_add_up(capsys):
    check.logit_shares(shares)
    assert "✓" in capsys.readouterr().out
    torch.manual_seed(0)
    parts, a, w = (torch.randn(shape, dtype=torch.float64) for shape in ((4, 6), 6, 6))
    assert torch.isclose(shares(parts, a, w, 1e-5).sum(), layer_norm(parts.sum(0), (6,), a, eps=1e-5) @ w)


THREE, B = [1, -0.5, -0.5, -0.5, 0.25, 0.25, 0.25, -0.125], [-5 / 3, 1 / 3, 1 / 3, 1]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (([1 / 8, 0, 64], THREE), "✓"),
        (([1 / 8, -1, 64], THREE), "without the identity"),
        (([1.5, 0, 12], THREE), "three layers multiply"),
        (([27 / 8, 0, 64], THREE), "sign of F' is reversed"),
        (([1 / 8, 1, 64], THREE), "path past all layers gives 1"),
        (([1 / 2, 0, 4], THREE), "factor of one layer"),
        (([1 / 8, 0, 60], THREE), "third power"),
        (([1 / 8, 0], THREE), "Return three factors"),
        (([1 / 8, 0, 64], THREE[:4]), "eight paths"),
        (([1 / 8, 0, 64], [abs(path) for path in THREE]), "where is the sign"),
        (([1 / 8, 0, 64], [-0.5] * 8), "there are 1, 3, 3, 1"),
    ],
)
def test_three_factors_names_the_mistake(answer, sentence, capsys):
    check.three_factors(lambda: answer)
    assert sentence in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({}, "✓"),
        ({0: [-2, -2, 2, 2]}, "(a): these are the deviations"),
        ({0: [-0.5, -0.5, 0.5, 0.5]}, "take its root"),
        ({0: [-1, -1, 1]}, "has shape"),
        ({1: [-500 / 3, 100 / 3, 100 / 3, 100]}, "the factor 100 cancels"),
        ({1: [-5 / 12**0.5, 1 / 12**0.5, 1 / 12**0.5, 3 / 12**0.5]}, "not by d − 1"),
        ({1: [1, 7, 7, 9]}, "mean, deviations"),
        ({2: [1, 1, 1, 1]}, "keeps the division defined"),
        ({3: 2}, "there is a third"),
        ({3: 4}, "What is left of t"),
        ({4: 3.0}, "return a function"),
        ({4: math.sqrt}, "must add up to 0"),
        ({4: lambda d: d - 1}, "take its root"),
        ({4: lambda d: math.log(d)}, "tells"),
    ],
)
def test_normed_on_paper_names_the_mistake(changed, sentence, capsys):
    right = [[-1, -1, 1, 1], B, [0, 0, 0, 0], 3, lambda d: math.sqrt(d - 1)]
    check.normed_on_paper(lambda: [changed.get(i, value) for i, value in enumerate(right)])
    assert sentence in capsys.readouterr().out
