"""Sentences of chapter 04's checks that no wrong answer in its solutions asks for."""

import pytest
import torch

from heed import check
from heed.scores import dot_score


def told(capsys, name, answer):
    getattr(check, name)(answer)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (dot_score, "These are the dot products"),
        (lambda q, k: dot_score(q, k) / k.norm(dim=-1), "The queries still have their lengths"),
        (lambda q, k: dot_score(q, k) / 3**0.5, "This is √d again"),
        (lambda q, k: dot_score(q / q.norm(dim=0), k / k.norm(dim=0)), "The norm runs over the wrong axis"),
    ],
)
def test_cosines(capsys, answer, sentence):
    assert sentence in told(capsys, "cosine_table", answer)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (dot_score, "this is the dot product"),
        (lambda q, k: -(torch.cdist(q, k) ** 2), "`cdist` is what you are to write"),
        (lambda q, k: -((q[:, None] - k) ** 2).sum(-1) / 2, "This makes a tensor of shape (n_q, n_k, d)"),
        (lambda q, k: -(q.square().sum(-1, True) + (k * k).sum(-1)) + 2 * q @ k.T, "take half of it"),
        (lambda q, k: dot_score(q, k) - k.square().sum(-1) / 2, "|q|² is missing"),
    ],
)
def test_closeness(capsys, answer, sentence):
    assert sentence in told(capsys, "closeness", answer)


def subtracting(copies, length, ahead=1, behind=0):
    """Queries that look at two keys each: at `copies` of the next value, and of this one."""

    def differences(v):
        one = torch.eye(len(v), dtype=v.dtype)
        keys = torch.block_diag(one, one)
        queries = torch.cat([one[ahead : len(v) - 1 + ahead], one[behind : len(v) - 1 + behind]], dim=-1)
        return length * queries, keys, torch.cat([copies[0] * v, copies[1] * v])

    return differences


def written_out(v):
    one = 50 * torch.eye(len(v) - 1, dtype=v.dtype)
    return one, one, v[1:] - v[:-1]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (subtracting((2, -2), 50), "✓"),
        (subtracting((2, -2), 1), "make the queries longer"),
        (subtracting((1, -1), 50), "Half of each difference"),
        (subtracting((1, -1), 1), "(And the queries should be longer.)"),
        (subtracting((-2, 2), 50), "The signs are reversed: these"),
        (subtracting((-1, 1), 50), "The signs are reversed, and the values must be doubled"),
        (subtracting((1, 1), 50), "This is the mean of the two"),
        (subtracting((2, 2), 50), "needs a minus sign"),
        (subtracting((1, 1), 50, behind=1), "the next value alone"),
        (subtracting((1, 1), 50, ahead=0), "its own value alone"),
        (subtracting((3, -2), 50), "The result is off by up to"),
        (subtracting((2, -2), torch.inf), "nan"),
        (written_out, "let attention subtract, not V"),
        (lambda v: (v, v, v), "Five values have four differences"),
        (lambda v: (v[1:], v, v[1:]), "Each key has a value"),
        (lambda v: (v[1:], v[:, :2], v), "equally wide, not 3 and 2"),
        (lambda v: (v[1:], v, v[:, :2]), "as wide as one of `v`"),
        (lambda v: (v[1:], v), "Return three tensors"),
        (lambda v: (v[1:], v, v[0]), "V should be a matrix"),
        (lambda v: subtracting((2, -2), 50)(v[:5]), "eight values have seven"),
    ],
)
def test_differences(capsys, answer, sentence):
    assert sentence in told(capsys, "differences", answer)


def backwards(change=lambda a, g: a * (g - (a * g).sum(-1, keepdim=True)), factor=1.0, weights=None):
    """The backward pass of attention, with a mistake."""

    def attention_backward(q, k, v, G):
        scores = q @ k.T / q.shape[-1] ** 0.5
        a = scores.softmax(-1)
        s = factor * change(a, G @ v.T) / q.shape[-1] ** 0.5
        return s @ k, s.T @ q, (weights(q, k) if weights else a).T @ G

    return attention_backward


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (backwards(), "✓"),
        (backwards(factor=2**0.5), "were divided by √d_k, and the gradient of q lacks"),
        (backwards(factor=2**-0.5), "the gradient of q is divided by √d_k twice"),
        (backwards(lambda a, g: g), "the gradient of q goes around the softmax"),
        (backwards(lambda a, g: a * (1 - a) * g), "only the diagonal arrives in the gradient of q"),
        (backwards(lambda a, g: a * g), "subtract each row's mean"),
        (backwards(lambda a, g: a * (g - (a * g).sum(0))), "over the queries in the gradient of q"),
        (backwards(lambda a, g: a * (g - g.mean(-1, keepdim=True))), "subtracted without the weights"),
        (backwards(factor=-1.0), "The signs are reversed in the gradient of q"),
        (backwards(weights=lambda q, k: q @ k.T / 2**0.5), "is made of the scores"),
        (backwards(weights=lambda q, k: (q @ k.T).softmax(-1)), "those of `attend`"),
        (lambda *x: (backwards()(*x)[0], *backwards(factor=-1)(*x)[1:]), "reversed in the gradient of k"),
        (lambda *given: backwards()(*given)[:2], "Return three tensors"),
    ],
)
def test_backward_passes(capsys, answer, sentence):
    assert sentence in told(capsys, "attention_backward", answer)


def test_the_smallest_singular_values_are_not_what_is_kept(capsys):
    def smallest(W, r):
        left, sizes, right = torch.linalg.svd(W, full_matrices=False)
        left, sizes, right = left[:, :4], sizes[:4], right[:4]  # the rest is zero
        roots = sizes[-r:].sqrt()[:, None]
        return roots * left[:, -r:].T, roots * right[-r:]

    assert "The smallest singular values are kept" in told(capsys, "two_projections", smallest)


def test_singular_values_may_go_to_one_side_alone(capsys):
    def one_side(W, r):
        left, sizes, right = torch.linalg.svd(W, full_matrices=False)
        return left[:, :r].T, sizes[:r, None] * right[:r]

    assert "✓" in told(capsys, "two_projections", one_side)


def test_a_key_of_zeros_counts_as_well(capsys):
    def keys_forgotten(q, k):
        return dot_score(q, k) / (q.norm(dim=-1)[:, None].clamp(min=1e-12) * k.norm(dim=-1))

    assert "A key of zeros" in told(capsys, "cosine_table", keys_forgotten)


def test_the_first_wrong_point_is_named(capsys):
    V = torch.tensor([[1.0, 1.0], [-0.2, 1.0]])
    said = told(capsys, "next_on_the_circle", lambda n: (torch.eye(2), V))
    assert "✗" in said and "point 0 finds point 1," not in said


def test_points_that_find_themselves(capsys):
    assert "symmetric" in told(capsys, "next_on_the_circle", lambda n: (torch.eye(2), torch.eye(2)))
    assert "finds itself" in told(capsys, "next_on_the_circle", lambda n: (torch.eye(2), 2 * torch.eye(2)))
