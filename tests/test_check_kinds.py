"""Sentences of chapter 05's checks that no wrong answer in its solutions asks for."""

import pytest
import torch

from heed import check


def walk(e, u):
    """The sample that a single random number gives: subtract the weights until it is negative."""
    z, left = torch.zeros(len(u), dtype=torch.long), u * e.exp().sum()
    for weight in e.exp():
        left = left - weight
        z += left >= 0
    return z


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda e, u: e.expand_as(u).argmax(-1), "the noise is missing"),
        (lambda e, u: (e - u.log()).argmax(-1), "the slowest clock wins"),
        (lambda e, u: (e + (-u.log()).log()).argmax(-1), "The sign of the noise is wrong"),
        (lambda e, u: (e * -(-u.log()).log()).argmax(-1), "logarithms add"),
        (lambda e, u: (e / -u.log()).argmax(-1), "it is the logarithm of one"),
        (lambda e, u: (e + u.logit()).argmax(-1), "the difference of two such noises"),
        (lambda e, u: (2 * e - (-u.log()).log()).argmax(-1), "too often or too seldom"),
        (lambda e, u: e - (-u.log()).log(), "should have (40000,)"),
        (lambda e, u: (e - (-u.log()).log()).amax(-1), "Return positions"),
        (lambda e, u: (e - (-u.log()).log()).argmax(-1) + 1, "the positions are 0 to 3"),
        (lambda e, u: (e - (-torch.rand_like(u).log()).log()).argmax(-1), "with the same u"),
        (lambda e, u: walk(e, u[:, 0]), "made of its own u_i"),
        (lambda e, u: (-u.log() / e.exp()).argmin(-1), "✓"),
        (lambda e, u: (e - (-(1 - u).log()).log()).argmax(-1), "✓"),
    ],
)
def test_noises_are_told_apart(capsys, answer, sentence):
    check.noisy_choice(answer)
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
