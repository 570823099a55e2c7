"""Sentences of chapter 06's checks that no wrong answer in its solutions asks for."""

import math

import pytest
import torch
from torch.nn import functional as F

from heed import check
from heed.attention import dependence
from heed.check.self_attention import STACKS, view


def stepped(scale=5**0.5, total=True, mixed=True, divided=True, start=-torch.inf, shift=True):
    """The single pass, with one step of it changed."""

    def answer(q, stream):
        largest, sum_, mixture = torch.tensor(start).double(), 0.0, 0.0
        for k, v in stream:
            s = q @ k / scale
            new = torch.maximum(largest, s) if shift else torch.zeros(())
            shrink = (largest - new).exp() if shift else 1.0
            largest, weight = new, (s - new).exp()
            sum_ = sum_ * (shrink if total else 1) + weight
            mixture = mixture * (shrink if mixed else 1) + weight * v
        return mixture / (sum_ if divided else 1)

    return answer


def last_value(q, stream):
    last = None
    for _, v in stream:
        last = v
    return last


def mean_value(q, stream):
    n, total = 0, 0.0
    for _, v in stream:
        n, total = n + 1, total + v
    return total / n


def largest_value(q, stream):
    best, most = None, -math.inf
    for k, v in stream:
        best, most = (v, q @ k) if q @ k > most else (best, most)
    return best


def first_score_for_ever(q, stream):
    first, total, mixture = None, 0.0, 0.0
    for k, v in stream:
        s = q @ k / math.sqrt(len(q))
        first = s if first is None else first
        total, mixture = total + (s - first).exp(), mixture + (s - first).exp() * v
    return mixture / total


ONE_PASS = [
    ("✓", stepped()),
    ("not scaled", stepped(scale=1.0)),
    ("it is its square root", stepped(scale=5.0)),
    ("both sums have to shrink", stepped(total=False, mixed=False)),
    ("not the mixture alone", stepped(total=False)),
    ("not the sum of the weights alone", stepped(mixed=False)),
    ("not divided by the sum", stepped(divided=False)),
    ("subtract the largest score", stepped(shift=False)),
    ("not from 0", stepped(start=0.0)),
    ("not the first one for ever", first_score_for_ever),
    ("Only the last pair", last_value),
    ("plain mean", mean_value),
    ("Only the value of the largest", largest_value),
]


@pytest.mark.parametrize("sentence, answer", ONE_PASS, ids=[sentence for sentence, _ in ONE_PASS])
def test_one_pass_names_the_mistake(capsys, sentence, answer):
    check.one_pass(answer)
    assert sentence in capsys.readouterr().out


COLUMNS = {
    "Keys ask and queries answer": lambda Q, K, V: V @ (Q.T @ K / math.sqrt(3)).softmax(0),
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


VIEWS = {
    "✓": view,
    "holes are filled": lambda n, k, g, m: torch.arange(n) >= n - 1 - sum((k - 1) * g**i for i in range(m)),
    "growth ** 0 = 1": lambda n, k, g, m: view(n, k, g, m, first=1),
    "k − 1 steps back": lambda n, k, g, m: view(n, k + 1, g, m),
    "count as undilated": lambda n, k, g, m: view(n, k, 1, m),
    "one upon the other": lambda n, k, g, m: torch.tensor(
        [n - 1 - j in {i * g**layer for layer in range(m) for i in range(k)} | {0} for j in range(n)]
    ),
    "The order is reversed": lambda *case: view(*case).flip(0),
    "one layer too few": lambda n, k, g, m: view(n, k, g, max(0, m - 1)),
    "one layer too many": lambda n, k, g, m: view(n, k, g, m + 1),
    "comes round": lambda *case: view(*case, wraps=True),
    "torch.bool": lambda *case: view(*case).long(),
    "should be a tensor": lambda *case: view(*case).tolist(),
    "it sees [": lambda n, k, g, m: view(n, k, g, m) if m < 3 else view(n, k, g, m) & (torch.arange(n) != 1),
}


@pytest.mark.parametrize("sentence", VIEWS)
def test_seen_by_last_names_the_mistake(capsys, sentence):
    check.seen_by_last(VIEWS[sentence])
    assert sentence in capsys.readouterr().out


def real_view(n, k, growth, layers):
    """On which inputs does the last output of a real stack depend? All weights are 1: nothing cancels."""

    def stack(x):
        for layer in range(layers):
            padded = F.pad(x.T, ((k - 1) * growth**layer, 0))
            x = F.conv1d(padded, torch.ones(1, 1, k), dilation=growth**layer).T
        return x

    return dependence(stack, torch.ones(n, 1))[-1] > 0


@pytest.mark.parametrize("case", STACKS)
def test_the_last_output_of_a_real_stack_depends_on_these_inputs(case):
    torch.set_default_dtype(torch.float64)
    assert torch.equal(view(*case), real_view(*case))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("growth", [1, 2, 3, 4, 5])
def test_there_are_holes_where_the_growth_exceeds_the_width(k, growth):
    seen = view(40, k, growth, 3)
    assert seen[seen.long().argmax() :].all() == (growth <= k)


LATEST = [
    ("✓", {1: 1.0, 2: 0.55, 3: 0.43, 4: 0.3835}.get),
    ("more than a blind guess", lambda n: 0.1),
    ("some are equal", lambda n: 1 / n),
    ("the digit of any pair", lambda n: 0.1 + 0.9 / n),
    ("divide by n", lambda n: n * LATEST[0][1](n)),
    ("no one says which", lambda n: 1),
    ("With 2 pairs the best share is 0.5500", lambda n: 0.9 if n == 2 else 1.0),
    ("With 1 pairs", lambda n: 0.3),
    ("should be a number", lambda n: str(n)),
]


@pytest.mark.parametrize("sentence, answer", LATEST, ids=[sentence for sentence, _ in LATEST])
def test_best_latest_names_the_mistake(capsys, sentence, answer):
    check.best_latest(answer)
    assert sentence in capsys.readouterr().out


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
        (lambda: (by_hand()[0].T, *by_hand()[1:]), "W_q is transposed"),
        (lambda: (*by_hand()[:2], by_hand()[2].T), "W_v is transposed"),
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
