"""Label smoothing: on paper, against torch, and at its edges."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from heed.data import Hidden, pad_batch
from heed.loss import (
    label_smoothing,
    language_model_loss,
    masked_language_model_loss,
    smoothed,
    translation_loss,
)
from heed.text import PAD
from heed.transformer import MaskedLanguageModel, make_language_model, make_model

N, VOCAB = 5, 7


def test_on_paper():
    assert torch.allclose(smoothed(torch.tensor([1]), 4, 0.4), torch.tensor([[0.1, 0.7, 0.1, 0.1]]))


@settings(max_examples=30)
@given(st.floats(0, 0.9), st.integers(0, 2**31))
def test_equals_torchs_cross_entropy_up_to_the_entropy_of_the_target(smoothing, seed):
    torch.manual_seed(seed)
    logits = torch.randn(N, VOCAB, dtype=torch.float64, requires_grad=True)
    target = torch.randint(0, VOCAB, (N,))
    ours = label_smoothing(logits.log_softmax(-1), target, smoothing)
    theirs = F.cross_entropy(logits, target, label_smoothing=smoothing, reduction="sum")
    q = smoothed(target, VOCAB, smoothing, torch.float64)
    entropy = -torch.special.xlogy(q, q).sum()
    assert torch.allclose(ours, theirs - entropy, rtol=0, atol=1e-10)
    a, b = (torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in (ours, theirs))
    assert torch.allclose(a, b, rtol=0, atol=1e-10)


def test_no_smoothing_is_finite_and_is_the_negative_log_likelihood():
    log_p = torch.tensor([[0.5, 0.25, 0.25]]).log()
    assert math.isclose(label_smoothing(log_p, torch.tensor([1]), 0.0).item(), math.log(4), rel_tol=1e-6)


def test_being_too_sure_costs():
    def loss(p):
        rest = (1 - p) / (VOCAB - 1)
        row = torch.full((1, VOCAB), rest)
        row[0, 0] = p
        return label_smoothing(row.log(), torch.tensor([0]), 0.1).item()

    best = 0.9 + 0.1 / VOCAB
    assert abs(loss(best)) < 1e-6 and loss(0.9999) > loss(best) and loss(0.5) > loss(best)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, 2.0])
def test_a_smoothing_that_is_no_share_raises(smoothing):
    with pytest.raises(ValueError, match=str(smoothing)):
        smoothed(torch.tensor([1]), 4, smoothing)


@pytest.mark.parametrize("sides", ["translation", "language model"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_torchs_over_the_real_tokens(smoothing, sides):
    torch.manual_seed(0)
    sizes = {"n_layers": 1, "d_model": 6, "d_ff": 10, "n_heads": 2, "dropout": 0.0}
    batch = pad_batch([([5, 6, 7], [1, 4, 12, 8, 2]), ([9], [1, 10, 2])])
    if sides == "translation":
        model, loss, read = make_model(11, 13, **sizes).double(), translation_loss, [batch.source]
    else:
        model, loss, read = make_language_model(13, **sizes).double(), language_model_loss, []
    ours = loss(model, batch, smoothing)
    scores = model.generator.proj(model(*read, batch.target_in)).transpose(1, 2)
    options = {"ignore_index": PAD, "label_smoothing": smoothing, "reduction": "sum"}
    theirs = F.cross_entropy(scores, batch.target_out, **options)
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-10)
    weights = list(model.parameters())
    for a, b in zip(*(torch.autograd.grad(loss, weights) for loss in (ours, theirs)), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-10)


def masked_model():
    torch.manual_seed(0)
    return make_language_model(13, 1, 6, 10, 2, 0.0, MaskedLanguageModel).double()


def test_the_loss_of_hidden_tokens_is_torchs_over_them_alone():
    model = masked_model()
    batch = Hidden(torch.tensor([[5, 4, 7, 9], [4, 8, 0, 0]]), torch.tensor([[0, 6, 7, 0], [11, 0, 0, 0]]))
    ours = masked_language_model_loss(model, batch)
    scores = model.generator.proj(model(batch.ids)).transpose(1, 2)
    theirs = F.cross_entropy(scores, batch.target, ignore_index=PAD, reduction="sum")
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-10)
    weights = list(model.parameters())
    for a, b in zip(*(torch.autograd.grad(loss, weights) for loss in (ours, theirs)), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-10)


def test_what_was_hidden_is_not_read():
    """Another true word behind the mask is another loss, under the same probabilities."""
    model, read = masked_model(), torch.tensor([[5, 4, 7]])
    losses = [
        masked_language_model_loss(model, Hidden(read, torch.tensor([[0, word, 0]]))) for word in range(1, 13)
    ]
    p = torch.stack(losses).neg().exp()
    rest = model.generator(model(read))[0, 1, 0].exp()  # of padding
    assert math.isclose(p.sum().item() + rest.item(), 1.0, rel_tol=1e-9)
