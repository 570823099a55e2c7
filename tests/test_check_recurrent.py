"""Sentences of chapter 01's checks that no wrong answer in its solutions asks for."""

import pytest
import torch

from heed import check


def backwards(step):
    """An answer to exercise 1.12 that goes back from one row to the one before by this step."""

    def back_through_time(states, W_h, gradient):
        rows = [gradient]
        for h in states[1:].flip(0):
            rows.insert(0, step(rows[0], (1 - h**2).diag() @ W_h))
        return torch.stack(rows)

    return back_through_time


@pytest.mark.parametrize(
    ("step", "sentence"),
    [(lambda g, J: g @ J, "✓"), (lambda g, J: J @ g, "g @ J_t, not as J_t @ g")],
    ids=["right", "the Jacobian from the left"],
)
def test_the_gradient_is_multiplied_from_the_left(capsys, step, sentence):
    check.back_through_time(backwards(step))
    assert sentence in capsys.readouterr().out


def test_scores_are_no_probabilities(capsys):
    def perplexity(scores, ids):
        p = scores.gather(-1, ids[..., None])[..., 0]
        return (-p[ids != 0].log()).mean().exp()

    check.perplexity(perplexity)
    assert "The perplexity is nan. The logarithm of a negative score?" in capsys.readouterr().out


def drawer_of(seen=(20.0, 0.0), gate=(0.0, -40.0), back=(0.0, 0.0), bias=(20.0, 0.0)):
    """An answer to exercise 1.4: weights of the candidate and of z, what they see of h, biases of z and g."""

    def drawer():
        W_x = torch.tensor([[0.0, 0.0], gate, seen])
        W_h = torch.tensor([[0.0], [back[0]], [back[1]]])
        return W_x, W_h, torch.tensor([0.0, *bias]), torch.zeros(3)

    return drawer


DRAWERS = {
    "✓ drawer": drawer_of(),
    "the wrong way round": drawer_of(gate=(0.0, 40.0), bias=(-20.0, 0.0)),
    "one after the other": drawer_of(seen=(0.0, 20.0)),
    "three words with the flag 0": drawer_of(bias=(-20.0, 0.0)),
    "It fades": drawer_of(gate=(0.0, -10.0), bias=(5.0, 0.0)),
    "Return four tensors": lambda: torch.zeros(3, 2),
    "W_x": lambda: (torch.zeros(2, 3), torch.zeros(3, 1), torch.zeros(3), torch.zeros(3)),
    "near 0, and g near": lambda: (torch.zeros(3, 2), torch.zeros(3, 1), torch.zeros(3), torch.zeros(3)),
}


@pytest.mark.parametrize("sentence", DRAWERS)
def test_drawer_names_the_mistake(capsys, sentence):
    check.drawer(DRAWERS[sentence])
    assert sentence in capsys.readouterr().out
