"""Sentences of chapter 05's checks that no wrong answer in its solutions asks for."""

import pytest
import torch
from torch.nn import functional as F

from heed import check


def onehot(z, alpha):
    return F.one_hot(torch.tensor(z), len(alpha)).double()


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda alpha, z, loss, b: loss * (onehot(z, alpha) - alpha), "The baseline is not used"),
        (lambda alpha, z, loss, b: (loss + b) * (onehot(z, alpha) - alpha), "The baseline is added"),
        (lambda alpha, z, loss, b: (loss - b) * (alpha - onehot(z, alpha)), "The sign is reversed"),
        (lambda alpha, z, loss, b: onehot(z, alpha) - alpha, "gradient of log α_z alone"),
    ],
)
def test_gradients_of_a_choice_are_told_apart(capsys, answer, sentence):
    check.score_gradient(answer)
    assert sentence in capsys.readouterr().out


EYE = torch.eye(4)


@pytest.mark.parametrize(
    ("q", "k", "sentence"),
    [
        (EYE, 40 * EYE, "its own value"),
        (EYE.flip(0), 40 * EYE, "reversed order"),
        (0 * EYE, EYE, "All weights are equal"),
        (EYE[:3], EYE, "four rows each"),
        (EYE, torch.ones(4, 3), "equally wide"),
        (EYE[[1, 2, 3, 3]], 40 * EYE, "Row 3 looks at position 3"),
        (EYE, 40 * EYE.roll(1, dims=0), "✓"),
    ],
)
def test_queries_and_keys_are_told_apart(capsys, q, k, sentence):
    check.next_value(lambda: (q, k))
    assert sentence in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda s, w: s.log_softmax(-1)[:, None] + w.log_softmax(0), "over the sentences"),
        (lambda s, w: w.log_softmax(-1), "The sentence scores have no say"),
        (lambda s, w: s[:, None].expand_as(w), "The word scores have no say"),
        (lambda s, w: s.softmax(-1)[:, None] + w.softmax(-1), "this adds β and γ"),
        (lambda s, w: (s.softmax(-1)[:, None] * w.softmax(-1)).log(), "✓"),
    ],
)
def test_scores_of_two_steps_are_told_apart(capsys, answer, sentence):
    check.flat_scores(answer)
    assert sentence in capsys.readouterr().out


def turn_to(points, here, arrived):
    ahead = points - points[here]
    return torch.atan2(ahead[:, 1], ahead[:, 0]) - torch.atan2(arrived[1], arrived[0])


def left(points, here, arrived):
    return -turn_to(points, here, arrived).remainder(2 * torch.pi)


def distance(points, here, arrived):
    return -(points - points[here]).norm(dim=-1)


def furthest(points, here, arrived):
    return (points - points[here]).norm(dim=-1)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (distance, "The point where you stand gets the largest score"),
        (furthest, "corners are right"),
        (lambda *given: left(*given)[:3], "should have (9,)"),
    ],
)
def test_pointers_by_hand_are_told_apart(capsys, answer, sentence):
    check.next_corner(answer)
    assert sentence in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda alpha, losses: losses.mean(), "as if all weights were equal"),
        (lambda alpha, losses: 0.0 * losses, "The baseline is one number"),
    ],
)
def test_other_baselines_are_told_apart(capsys, answer, sentence):
    check.best_baseline(answer)
    assert sentence in capsys.readouterr().out
