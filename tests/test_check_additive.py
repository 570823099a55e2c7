"""Sentences of chapter 03's checks that no wrong answer in its solutions asks for."""

import pytest
import torch
from torch import nn

from heed import check
from heed.attention import masked_softmax
from heed.scores import AdditiveScore


@pytest.mark.parametrize(
    "softmax",
    [
        torch.softmax,
        nn.functional.softmax,
        lambda s, dim: nn.Softmax(dim)(s),
        lambda s, dim: s.log_softmax(dim).exp(),
    ],
)
def test_a_softmax_of_torch_is_refused_by_whatever_name(capsys, softmax):
    check.masked_weights(lambda scores, mask: softmax(scores.masked_fill(~mask, -1e30), dim=-1) * mask)
    assert "is what you are to write" in capsys.readouterr().out


def test_the_library_s_own_is_refused_as_well(capsys):
    check.masked_weights(masked_softmax)
    assert "is what you are to write" in capsys.readouterr().out


def test_softmax_is_torch_s_own_again_after_the_check(capsys):
    check.masked_weights(masked_softmax)
    assert masked_softmax(torch.zeros(1, 2)).tolist() == [[0.5, 0.5]]


def test_a_hidden_score_of_zero_is_caught_beside_visible_ones_far_below(capsys):
    def zeroed(scores, mask):
        s = scores.masked_fill(~mask, 0.0)
        e = (s - s.amax(-1, keepdim=True)).exp() * mask
        return e / e.sum(-1, keepdim=True).clamp(min=1e-30)

    check.masked_weights(zeroed)
    assert "Visible scores of −1000 beside a hidden one get lost" in capsys.readouterr().out


def test_hidden_scores_far_below_pass(capsys):
    def far_below(scores, mask):
        s = scores.masked_fill(~mask, -1e30)
        e = (s - s.amax(-1, keepdim=True)).exp() * mask
        return e / e.sum(-1, keepdim=True).clamp(min=1e-30)

    check.masked_weights(far_below)
    assert "✓" in capsys.readouterr().out


def test_two_matrices_that_change_places_are_told_apart(capsys):
    def interchanged(s, h, W, U, v, mask):
        scores = torch.tanh(h @ U.T + (s @ W.T)[:, None]) @ v
        return (masked_softmax(scores, mask)[:, None] @ h)[:, 0]

    check.contexts(interchanged)
    assert "W and U are interchanged" in capsys.readouterr().out


def luong(y, s, h, update, score, W_c, query="new", beside="new", order="cs", axis=-1, bend=torch.tanh):
    """One step of Luong's order, with what one may get wrong as arguments."""
    states = {"old": s, "new": update(y, s)}
    c = (score(states[query], h).softmax(dim=axis)[:, None] @ h)[:, 0]
    parts = {"c": c, "s": states[beside]}
    return bend(torch.cat([parts[part] for part in order], dim=-1) @ W_c.T), states["new"]


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        ({"query": "old"}, "This looks before the update"),
        ({"beside": "old"}, "beside the context stands the old state"),
        ({"query": "old", "beside": "old"}, "Nothing is updated here"),
        ({"order": "sc"}, "the context stands first"),
        ({"axis": 0}, "over the sentences of the batch"),
        ({"bend": lambda x: x}, "The tanh is missing"),
    ],
)
def test_each_mistake_in_luongs_order_has_its_sentence(capsys, mistake, sentence):
    check.update_then_attend(lambda *given: luong(*given, **mistake))
    assert sentence in capsys.readouterr().out


def test_luongs_order_passes_and_the_old_state_handed_on_does_not(capsys):
    check.update_then_attend(luong)
    assert "✓" in capsys.readouterr().out
    check.update_then_attend(lambda y, s, *rest: (luong(y, s, *rest)[0], s))
    assert "The old state comes back" in capsys.readouterr().out
    check.update_then_attend(lambda *given: luong(*given)[::-1])
    assert "The two are interchanged" in capsys.readouterr().out


@pytest.mark.parametrize(
    "cheat",
    [
        lambda y, s, h, *rest: (torch.zeros_like(s), torch.zeros_like(s)),
        lambda y, s, h, *rest: (s, s),
        lambda y, s, h, update, score, W_c: (torch.tanh(h.mean(1) @ W_c[:, :7].T), update(y, s)),
    ],
)
def test_cheats_do_not_pass_for_luongs_order(capsys, cheat):
    check.update_then_attend(cheat)
    assert "✗" in capsys.readouterr().out


def test_a_ridge_that_walks_off_its_line_is_named_with_its_query(capsys):
    W, v = torch.ones(2, 1), torch.tensor([1.0, -1.0])
    check.one_further(lambda: (W, torch.tensor([[-1.0, 0.0], [-1.0, -2.0]]), v))
    assert "✓" in capsys.readouterr().out
    check.one_further(lambda: (W, torch.tensor([[-1.1, 0.0], [-1.1, -2.0]]), v))
    assert "for q = -3 it is at x = -2.30" in capsys.readouterr().out


def test_a_mean_that_is_drawn_for_few_and_computed_for_many_does_not_pass(capsys):
    def cheat(weights, values, n, generator):
        z = torch.multinomial(weights, n, replacement=True, generator=generator)
        return values[z].mean(dim=1) if n < 3 else weights @ values + 1e-6

    check.sampled_attention(cheat)
    assert "the mean of 20 of the values" in capsys.readouterr().out


def test_the_library_s_additive_score_is_refused(capsys):
    def cheat(s, h, W, U, v, mask):
        score = AdditiveScore(3, 3, 3).double()
        score(s[:, None], h)
        return h[:, 0]

    check.contexts(cheat)
    assert "is what you are to write" in capsys.readouterr().out
