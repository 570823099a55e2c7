"""Sentences of chapter 08's checks that no wrong answer in its solutions asks for."""

import pytest
import torch

from heed import check


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


def by_hand(m, loud=30.0, copies=True, first=1):
    d = 10 * m
    query, W_k, W_v = torch.zeros(d), torch.zeros(d, d), torch.zeros(d, d)
    for i in range(m):
        query[10 * i] = loud
        W_k[10 * i, i + first] = 1
        W_v[10 * i : 10 * (i + 1), :10] = torch.eye(10)
    return [query, torch.eye(d), W_k, W_v if copies else torch.eye(d), torch.eye(d)]


def changed(i, change):
    def answer(m):
        given = by_hand(m)
        given[i] = change(given[i])
        return given

    return answer


BY_HAND = {
    "five tensors": lambda m: by_hand(m)[:4],
    "Return five": lambda m: torch.zeros(5),
    "W_k, for m=2, has shape": changed(2, lambda W: W[:10]),
    "query holds a number that is not finite": lambda m: by_hand(m, float("inf")),
    "lists of 12 digits": lambda m: by_hand(m, 5.0),
    "50 digits": lambda m: by_hand(m, 12.0),
    "the weight 0.31": lambda m: by_hand(m, 5.0),
    "Head 1 gives all tokens one weight": lambda m: by_hand(m, 0.0),
    "without a mark: entry 0": lambda m: by_hand(m, first=0),
    "No head looks at mark A": changed(2, lambda W: W.sum(1)[:, None] * (torch.arange(len(W)) == 2)),
    "Head 2 finds its token": lambda m: by_hand(m, copies=False),
    "Does W_o bring the digit at A": changed(4, lambda W: W.flip(0)),
}


@pytest.mark.parametrize("sentence", BY_HAND)
def test_heads_by_hand_names_the_mistake(capsys, sentence):
    check.heads_by_hand(BY_HAND[sentence])
    assert sentence in capsys.readouterr().out


def test_heads_by_hand_may_look_in_any_order(capsys):
    def turned(m):
        query, W_q, W_k, W_v, W_o = by_hand(m)
        order = torch.arange(10 * m).view(m, 10).flip(0).flatten()
        return query, W_q, W_k[order], W_v, W_o[order]

    check.heads_by_hand(turned)
    assert capsys.readouterr().out.startswith("✓")


def wide(W_q, W_k, W_v, W_o, h, on_queries=1.0, on_keys=1.0):
    d = len(W_q)

    def widened(W):
        rows = torch.zeros(h, d, d, dtype=W.dtype)
        rows[:, : d // h] = W.reshape(h, d // h, d)
        return rows.flatten(0, 1)

    factor = torch.tensor(h**0.5)
    return (
        widened(W_q * factor**on_queries),
        widened(W_k * factor**on_keys),
        widened(W_v),
        widened(W_o.T).T,
    )


def whole(W_q, W_k, W_v, W_o, h):
    return *(W.repeat(h, 1) for W in (W_q, W_k, W_v)), W_o.repeat(1, h)


WIDE = {
    "√h times too small": lambda *given: wide(*given, 0, 0),
    "√h times too large": lambda *given: wide(*given, 1, 1),
    "h times too small: multiply": lambda *given: wide(*given, -1, 0),
    "h times too large: where": lambda *given: wide(*given, 3, 0),
    "rows of a narrow one.": lambda *given: (*whole(*given)[:3], whole(*given)[3] / given[-1]),
    "outputs are added up": whole,
    "Return four matrices": lambda *given: wide(*given)[:3],
    "W_q has shape (12, 12)": lambda *given: given[:4],
    "W_o has shape": lambda *given: (*wide(*given)[:3], given[3]),
}


@pytest.mark.parametrize("sentence", WIDE)
def test_full_width_names_the_mistake(capsys, sentence):
    check.full_width(WIDE[sentence])
    assert sentence in capsys.readouterr().out


def test_full_width_takes_the_factor_on_either_side(capsys):
    for factors in ((1, 0), (0, 1), (0.5, 0.5)):
        check.full_width(lambda *given, factors=factors: wide(*given, *factors))
        assert capsys.readouterr().out.startswith("✓")


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
