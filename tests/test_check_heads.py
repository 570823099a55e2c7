"""Sentences of chapter 08's checks that no wrong answer in its solutions asks for."""

import pytest
import torch

from heed import check
from heed.attention import split_heads


def split(x, h):
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


def merged(x):
    return x.transpose(1, 2).flatten(2)


def softmaxed(scores, dim=-1):
    return (scores / 2).softmax(dim)  # d_k = 4


MANY = {
    "cut by a view alone: make": lambda Q, K, V, W, h: (
        merged(softmaxed(wrong(Q, h) @ wrong(K, h).mT) @ wrong(V, h)) @ W.T
    ),
    "d_k pieces of h entries": lambda Q, K, V, W, h: (
        merged(softmaxed(turned(Q, h) @ turned(K, h).mT) @ turned(V, h)) @ W.T
    ),
    "not scaled": lambda Q, K, V, W, h: (
        merged((split(Q, h) @ split(K, h).mT).softmax(-1) @ split(V, h)) @ W.T
    ),
    "divided by d_k; its root": lambda Q, K, V, W, h: (
        merged((split(Q, h) @ split(K, h).mT / 4).softmax(-1) @ split(V, h)) @ W.T
    ),
    "every h-th entry": lambda Q, K, V, W, h: (
        (softmaxed(turned(Q, h) @ turned(K, h).mT) @ turned(V, h)).permute(0, 2, 3, 1).flatten(2) @ W.T
    ),
    "Keys and values are interchanged": lambda Q, K, V, W, h: right(Q, V, K, h) @ W.T,
    "weights of all queries": lambda Q, K, V, W, h: (
        merged(softmaxed(split(Q, h) @ split(K, h).mT, -2) @ split(V, h)) @ W.T
    ),
    "weights of all heads sum": lambda Q, K, V, W, h: (
        merged(softmaxed(split(Q, h) @ split(K, h).mT, 1) @ split(V, h)) @ W.T
    ),
    "one head as wide": lambda Q, K, V, W, h: (Q @ K.mT / 12**0.5).softmax(-1) @ V @ W.T,
    "W_o is missing": lambda Q, K, V, W, h: right(Q, K, V, h),
    "applied as x @ W_o": lambda Q, K, V, W, h: right(Q, K, V, h) @ W,
    "The heads are summed": lambda Q, K, V, W, h: heads(Q, K, V, h).sum(1).repeat(1, 1, h) @ W.T,
}


def wrong(x, h):
    return x.reshape(x.shape[0], h, x.shape[1], -1)


def turned(x, h):
    return x.unflatten(-1, (-1, h)).permute(0, 3, 1, 2)


def heads(Q, K, V, h):
    return softmaxed(split(Q, h) @ split(K, h).mT) @ split(V, h)


def right(Q, K, V, h):
    return merged(heads(Q, K, V, h))


def test_many_heads_names_a_matrix_that_is_not_transposed(capsys):
    def untransposed(q, k, v, W_q, W_k, W_v, W_o, h):
        return right(q @ W_q, k @ W_k, v @ W_v, h) @ W_o

    check.many_heads(untransposed)
    assert "multiplied as x @ W;" in capsys.readouterr().out
    check.many_heads(lambda *given: untransposed(*given[:6], given[6].T, given[7]))
    assert "W_q, W_k and W_v are applied" in capsys.readouterr().out


@pytest.mark.parametrize("sentence", MANY)
def test_many_heads_names_the_mistake(capsys, sentence):
    check.many_heads(
        lambda q, k, v, W_q, W_k, W_v, W_o, h: MANY[sentence](q @ W_q.T, k @ W_k.T, v @ W_v.T, W_o, h)
    )
    assert sentence in capsys.readouterr().out


def slopes(losses, n, h, start=1.0):
    gates = torch.full((n, h), start, requires_grad=True)
    return torch.autograd.grad(losses(gates).sum(), gates)[0]


IMPORTANCE = {
    "absolute value is missing": lambda *given: slopes(*given).mean(0),
    "sum over the lists": lambda *given: slopes(*given).abs().sum(0),
    "mean over the heads": lambda *given: slopes(*given).abs().mean(1),
    "derivatives of each list": lambda *given: slopes(*given).abs(),
    "at gates of 0": lambda *given: slopes(*given, 0.0).abs().mean(0),
    "are squared": lambda *given: slopes(*given).square().mean(0),
    "one row for each list": lambda losses, n, h: losses(torch.ones(h)),
}


@pytest.mark.parametrize("sentence", IMPORTANCE)
def test_importance_of_heads_names_the_mistake(capsys, sentence):
    check.importance_of_heads(IMPORTANCE[sentence])
    assert sentence in capsys.readouterr().out


def laid(order):
    def answer(x, h):
        b, n, d = x.shape
        return x.as_strided((b, h, n, d // h), order(n, d, d // h, h))

    return answer


STRIDES = {
    "This is a copy": lambda x, h: laid(lambda n, d, d_k, h: (n * d, d_k, d, 1))(x, h).contiguous(),
    "lie h numbers apart": laid(lambda n, d, d_k, h: (n * d, 1, d, h)),
    "Every sentence is the first one": laid(lambda n, d, d_k, h: (0, d_k, d, 1)),
    "All heads are the first one": laid(lambda n, d, d_k, h: (n * d, 0, d, 1)),
    "interchanged": laid(lambda n, d, d_k, h: (n * d, d, d_k, 1)),
    "h numbers further on": laid(lambda n, d, d_k, h: (n * d, h, d, 1)),
    "`as_strided` alone": split_heads,
    "one number further on": laid(lambda n, d, d_k, h: (n * d, 1, d, 1)),
}


@pytest.mark.parametrize("sentence", STRIDES)
def test_heads_by_stride_names_the_mistake(capsys, sentence):
    check.heads_by_stride(STRIDES[sentence])
    assert sentence in capsys.readouterr().out


def total(d, h, w, kv, bias=True):
    return sum((d + bias) * rows * w for rows in (h, kv, kv)) + (h * w + bias) * d


COUNTS = {
    "biases of the four": lambda d, h, w, kv: total(d, h, w, kv, bias=False),
    "W_o is missing": lambda d, h, w, kv: total(d, h, w, kv) - (h * w + 1) * d,
    "there are two": lambda d, h, w, kv: total(d, h, w, kv) - (d + 1) * kv * w,
    "only n_kv_heads": lambda d, h, w, kv: total(d, h, w, h),
    "more than one head": lambda d, h, w, kv: total(d, h, w, 1),
    "W_q, too": lambda d, h, w, kv: total(d, h, w, kv) - (h - kv) * w * (d + 1),
    "and yours says 7": lambda d, h, w, kv: 7,
}


@pytest.mark.parametrize("sentence", COUNTS)
def test_parameters_of_names_the_mistake(capsys, sentence):
    check.parameters_of(COUNTS[sentence])
    assert sentence in capsys.readouterr().out
