"""Sentences of chapter 07's checks that no wrong answer in its solutions asks for."""

import pytest
import torch

from heed import check
from heed.attention import causal_mask, dependence
from heed.text import BOS


def said(capsys, name, answer):
    getattr(check, name)(answer)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "answer, sentence",
    [
        (lambda n, width: causal_mask(n), "The past beyond the window is still visible"),
        (lambda n, width: ~causal_mask(n).triu(1 - width), "True and False are exchanged"),
        (lambda n, width: causal_mask(n).triu(2 - width), "one too narrow"),
        (lambda n, width: causal_mask(n).triu(1 - width).T, "The window lies in the future"),
        (lambda n, width: [[True]], "should be a tensor"),
    ],
)
def test_windows(capsys, answer, sentence):
    assert sentence in said(capsys, "window_mask", answer)


@pytest.mark.parametrize(
    "answer, sentence",
    [
        (lambda mask: mask.double(), "Adding 1 and 0 hides nothing"),
        (lambda mask: (~mask).double(), "Adding 0 and 1 hides nothing"),
        (lambda mask: mask.logical_not_().double(), "changes the mask that it is given"),
        (lambda mask: mask.float().log(), "should be torch.float64"),
    ],
)
def test_masks_to_add(capsys, answer, sentence):
    assert sentence in said(capsys, "additive_mask", answer)


def test_the_logarithm_is_a_right_answer(capsys):
    assert "✓" in said(capsys, "additive_mask", lambda mask: mask.double().log())


def test_packed_names_with_the_wrong_comparison(capsys):
    out = said(capsys, "packed_mask", lambda ids: (ids[:, None] == ids) & causal_mask(len(ids)))
    assert "compare the numbers of their names" in out
    transposed = lambda ids: ((n := (ids == BOS).cumsum(0))[:, None] == n) & causal_mask(len(ids)).T  # noqa: E731
    assert "Rows and columns are exchanged" in said(capsys, "packed_mask", transposed)


def shifted(n, by, size):
    return size * torch.ones(n - abs(by)).diag(by).double()


@pytest.mark.parametrize(
    "answer, sentence",
    [
        (lambda n: (torch.eye(n), shifted(n, 1, 8 * n**0.5)), "\N{CHECK MARK} cheat"),
        (lambda n: (shifted(n, -1, 60.0), torch.eye(n)), "\N{CHECK MARK} cheat"),
        (lambda n: (torch.eye(n), 99 * torch.eye(n).roll(1, 1)), "\N{CHECK MARK} cheat"),
        (lambda n: (torch.eye(n), shifted(n, -1, 60.0)), "looks at the one before it"),
        (lambda n: (torch.eye(n), 99 * torch.eye(n)), "looks at itself"),
        (lambda n: (torch.eye(n), shifted(n, 1, 9.0)), "divided by \N{SQUARE ROOT}n"),
        (lambda n: (torch.eye(n), shifted(n, 1, 1.0)), "has only"),
        (lambda n: (torch.eye(n), 99 * torch.ones(n, n).triu(1).cumsum(1)), "another key has the largest"),
        (lambda n: (torch.zeros(n, n), torch.zeros(n, n)), "All scores are equal"),
        (lambda n: (torch.eye(n), torch.ones(n, n) / 0), "infinite numbers"),
        (lambda n: torch.eye(n), "Return two matrices"),
        (lambda n: (torch.eye(n), torch.eye(n + 1)), "W_k"),
    ],
)  # fmt: skip
def test_a_cheat_by_hand(capsys, answer, sentence):
    assert sentence in said(capsys, "cheat", answer)


def seen(f, x):
    """What `dependence` returns."""
    return torch.autograd.functional.jacobian(f, x).square().sum((1, 3)).sqrt()


def test_a_table_of_derivatives_is_a_right_leak_test_and_its_reverse_is_not(capsys):
    right = lambda f, x: bool((seen(f, x).triu(1) > 0).any())  # noqa: E731
    assert "✓" in said(capsys, "leaks_future", right)
    assert "the wrong way round" in said(capsys, "leaks_future", lambda f, x: not right(f, x))
    assert "finds none of the six" in said(capsys, "leaks_future", lambda f, x: False)
    assert "reports a leak in causal attention" in said(capsys, "leaks_future", lambda f, x: True)
    small = lambda f, x: bool((seen(f, x).triu(1) > 1e-3).any())  # noqa: E731
    assert "misses a small leak" in said(capsys, "leaks_future", small)
    largest = lambda f, x: seen(f, x).triu(1).max().item()  # noqa: E731
    assert "Return True or False" in said(capsys, "leaks_future", largest)


def test_where_does_not_save_the_gradient(capsys):
    def where(scores):
        weights = scores.softmax(-1)
        return torch.where(weights.isnan(), torch.zeros_like(weights), weights)

    assert "the gradient is NaN" in said(capsys, "safe_softmax", where)


def test_exp_without_the_largest_score(capsys):
    def by_hand(scores):
        e = scores.exp()
        return e / e.sum(-1, keepdim=True).clamp(min=1e-300)

    assert "Scores of 1000 go wrong" in said(capsys, "safe_softmax", by_hand)


def test_a_leak_test_that_looks_at_part_of_the_table_only(capsys):
    def partly(rows, columns, offset=1):
        def leaks(f, x):
            x = x.clone().requires_grad_()
            y = f(x)
            for i in range(len(y))[rows]:
                for entry in y[i][columns]:
                    gradient = torch.autograd.grad(entry, x, retain_graph=True)[0]
                    later = gradient[i + 1 : i + 1 + offset] if offset else gradient[i + 1 :]
                    if (later != 0).any():
                        return True
            return False

        return leaks

    whole = slice(None)
    assert "exactly two rows ahead" in said(capsys, "leaks_future", partly(whole, whole))
    assert "into a middle row" in said(capsys, "leaks_future", partly(slice(1), whole, 0))
    assert "into the last entry" in said(capsys, "leaks_future", partly(whole, slice(1), 0))
    assert "✓" in said(capsys, "leaks_future", partly(whole, whole, 0))


def test_a_softmax_over_a_fixed_axis(capsys):
    def fixed(scores):
        empty = (scores == float("-inf")).all(dim=1, keepdim=True)
        return scores.masked_fill(empty, 0.0).softmax(dim=1).masked_fill(empty, 0.0)

    assert "four axes" in said(capsys, "safe_softmax", fixed)


def test_a_test_of_padding_that_never_finds_or_is_reversed(capsys):
    right = lambda f, x, real: bool((dependence(f, x)[real][:, ~real] > 0).any())  # noqa: E731
    assert "✓" in said(capsys, "sees_padding", right)
    assert "does not notice that there is no mask" in said(capsys, "sees_padding", lambda f, x, real: False)
    assert "the wrong way round" in said(capsys, "sees_padding", lambda *given: not right(*given))
    first = lambda f, x, real: bool((dependence(f, x)[:1][:, ~real] > 0).any()) and bool(real[0])  # noqa: E731
    assert "With padding on the left" in said(capsys, "sees_padding", first)
