"""Sentences of chapter 17's checks that no wrong answer in its solutions asks for."""

import pytest
import torch

from heed import check
from heed.scale import linear_recurrent


def joined(a, b, one, other):
    return torch.maximum(a[0], b[0]), one * a[1] + other * b[1], one * a[2] + other * b[2]


def upside_down(a, b):
    m = torch.maximum(a[0], b[0])
    return joined(a, b, (m - a[0]).exp(), (m - b[0]).exp())


def shrunk(a, b):
    m = torch.maximum(a[0], b[0])
    base = torch.where(m == -torch.inf, 0.0, m)
    return joined(a, b, (a[0] - base).exp(), (b[0] - base).exp())


def halved(a, b):
    return torch.maximum(a[0], b[0]), (a[1] + b[1]) / 2, (a[2] + b[2]) / 2


JOIN = {
    "The factor is upside down": upside_down,
    "brought to m = 0": lambda a, b: joined(a, b, a[0].exp(), b[0].exp()),
    "A mean of both halves": halved,
    "Return three tensors": lambda a, b: shrunk(a, b)[:2],
    "total has shape": lambda a, b: (shrunk(a, b)[0], shrunk(a, b)[1][:, 0], shrunk(a, b)[2]),
    "m differs most": lambda a, b: (torch.minimum(a[0], b[0]), *shrunk(a, b)[1:]),
    "the second has read nothing": lambda a, b: shrunk(b, b) if (b[1] == 0).all() else shrunk(a, b),
}


@pytest.mark.parametrize("sentence", JOIN)
def test_join_names_the_mistake(capsys, sentence):
    check.join(JOIN[sentence])
    assert sentence in capsys.readouterr().out


def masked(q, k, v, hidden):
    scores = (q @ k.T / q.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return weights @ v / weights.sum(-1, keepdim=True)


def triangle(q):
    return torch.ones(len(q), len(q), dtype=torch.bool)


TILES = {
    "Every query sees all keys": lambda q, k, v, size: masked(q, k, v, ~triangle(q)),
    "look into the future": lambda q, k, v, size: masked(q, k, v, triangle(q).tril(-1)),
    "Some rows are nan": lambda q, k, v, size: masked(q, k, v, triangle(q).triu()),
    "a table, or a row of tiles": lambda q, k, v, size: masked(q, k, v, triangle(q).triu(1)),
    "or a row of tiles. Hold": lambda *given: one_softmax_a_row(*given),
    "Return a tensor": lambda q, k, v, size: [q],
    "for large scores": lambda q, k, v, size: without_largest(q, k, v, size),
}


def one_softmax_a_row(q, k, v, size):
    """The queries of a tile meet all keys so far, in one softmax."""
    z = []
    for i in range(0, len(q), size):
        scores = q[i : i + size] @ k[: i + size].T / q.shape[-1] ** 0.5
        future = torch.ones_like(scores, dtype=torch.bool).triu(1 + i)
        scores = scores.masked_fill(future, -torch.inf)
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        z.append(weights @ v[: i + size] / weights.sum(-1, keepdim=True))
    return torch.cat(z)


def without_largest(q, k, v, size):
    """Sums of exponentials as they are."""
    z = []
    for i in range(0, len(q), size):
        total, mixed = 0, 0
        for j in range(0, i + 1, size):
            scores = q[i : i + size] @ k[j : j + size].T / q.shape[-1] ** 0.5
            if i == j:
                scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
            weights = scores.clamp(max=600).exp()
            total, mixed = total + weights.sum(-1, keepdim=True), mixed + weights @ v[j : j + size]
        z.append((mixed / total).nan_to_num(0.0))
    return torch.cat(z)


@pytest.mark.parametrize("sentence", TILES)
def test_causal_tiles_names_the_mistake(capsys, sentence):
    check.causal_tiles(TILES[sentence])
    assert sentence in capsys.readouterr().out


POOLED = {
    "are added; take their mean": lambda W, h, g: W.unflatten(0, (g, h // g, -1)).sum(1).flatten(0, 1),
    "the first of its heads": lambda W, h, g: W.unflatten(0, (g, h // g, -1))[:, 0].flatten(0, 1),
    "The columns are pooled": lambda W, h, g: W.unflatten(1, (-1, h // g)).mean(-1),
    "the matrix has shape": lambda W, h, g: W.unflatten(0, (g, h // g, -1)).mean(1),
    "the matrix for 1 groups": lambda W, h, g: W.unflatten(0, (2, 3, -1)).mean(1).flatten(0, 1),
}


@pytest.mark.parametrize("sentence", POOLED)
def test_pooled_names_the_mistake(capsys, sentence):
    check.pooled(POOLED[sentence])
    assert sentence in capsys.readouterr().out


def chunked(q, k, v, size, own=True, old=True, late=False, forget=False, apart=False):
    S, s, z = q.new_zeros(q.shape[1], v.shape[1]), q.new_zeros(q.shape[1], 1), []
    for Q, K, V in zip(q.split(size), k.split(size), v.split(size), strict=True):
        weights = (Q @ K.T).tril() * own
        if late:
            S, s = S + K.T @ V, s + K.sum(0)[:, None]
        mixed, total = weights @ V, weights.sum(-1, keepdim=True)
        if apart:
            z.append(mixed / total + (Q @ S / (Q @ s)).nan_to_num(0.0))
        else:
            z.append((mixed + old * Q @ S) / (total + old * Q @ s))
        if not late:
            S, s = K.T @ V + S * (not forget), K.sum(0)[:, None] + s * (not forget)
    return torch.cat(z)


def table(q, k, v, size):
    weights = (q @ k.T).tril()
    return weights @ v / weights.sum(-1, keepdim=True)


def rows_of_tiles(q, k, v, size):
    """No state: the queries of a chunk meet all keys so far."""
    z = []
    for i in range(0, len(q), size):
        weights = (q[i : i + size] @ k[: i + size].T).tril(i)
        z.append(weights @ v[: i + size] / weights.sum(-1, keepdim=True))
    return torch.cat(z)


CHUNKS = {
    "Every chunk begins anew": lambda *given: chunked(*given, old=False),
    "A query does not see its own chunk": lambda *given: chunked(*given, own=False),
    "divided part by part": lambda *given: chunked(*given, apart=True),
    "The own chunk is counted twice": lambda *given: chunked(*given, late=True),
    "Only the last chunk is in the state": lambda *given: chunked(*given, forget=True),
    "that is the table": table,
    "numbers: that is the table. Hold": rows_of_tiles,
    "the mixtures has shape": lambda *given: chunked(*given).T,
}


@pytest.mark.parametrize("sentence", CHUNKS)
def test_chunks_names_the_mistake(capsys, sentence):
    check.chunks(CHUNKS[sentence])
    assert sentence in capsys.readouterr().out


def test_the_answers_that_these_are_slips_of_are_right(capsys):
    check.join(shrunk)
    check.chunks(chunked)
    assert capsys.readouterr().out.count("✓") == 2


def test_a_loop_over_tokens_with_the_right_sums_is_told_apart(capsys):
    def loop(q, k, v, size):
        S, s, z = 0, 0, []
        for t in range(len(q)):
            S, s = S + k[t, :, None] * v[t], s + k[t]
            z.append(q[t] @ S / (q[t] @ s))
        return torch.stack(z)

    check.chunks(loop)
    assert "token by token" in capsys.readouterr().out
    check.chunks(lambda q, k, v, size: linear_recurrent(q.log(), k.log(), v)[0])
    assert "`linear_recurrent` does it" in capsys.readouterr().out
