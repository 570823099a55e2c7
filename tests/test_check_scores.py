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


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (torch.diag_embed, "The outer product α αᵀ is missing"),
        (lambda a: -a[..., None] * a[..., None, :], "The diagonal is missing"),
        (lambda a: torch.diag_embed(a) + a[..., None] * a[..., None, :], "sign of the outer product"),
        (lambda a: torch.diag_embed(a) - a[:, :, None] * a[:, None], "✗"),  # three axes only
    ],
)
def test_jacobians(capsys, answer, sentence):
    assert sentence in told(capsys, "softmax_jacobian", answer)


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
