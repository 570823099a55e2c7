"""Sentences of chapter 01's checks that no wrong answer in its solutions asks for."""

import pytest
import torch

from heed import check


def backwards(step):
    """An answer to exercise 1.9 that goes back from one row to the one before by this step."""

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
