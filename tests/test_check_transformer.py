"""Sentences of chapter 11's checks that no wrong answer in its solutions asks for."""

import functools

import pytest
import torch

from heed import check
from heed.attention import causal_mask, padding_mask
from heed.text import BOS


def told(capsys, checked, answer):
    """What the check says to this answer."""
    checked(answer)
    return capsys.readouterr().out


def decoded(model, memory, source_mask, written):
    """The decoder's vectors, with the right masks."""
    target_mask = padding_mask(written) & causal_mask(written.shape[1])
    return model.decode(memory, source_mask, written, target_mask)


@pytest.mark.parametrize(
    ("last", "sentence"),
    [
        (lambda model, x: model.generator(x[:, -1]), "✓"),
        (lambda model, x: model.generator(x), "scores of all positions"),
        (lambda model, x: model.generator(x[:, 0]), "behind the first token"),
        (lambda model, x: model.generator(x[:, -1]).exp(), "These are probabilities"),
        (lambda model, x: x[:, -1], "the decoder's vectors"),
    ],
)
def test_the_next_scores(capsys, last, sentence):
    def answer(model, *given):
        return last(model, decoded(model, *given))

    assert sentence in told(capsys, check.next_scores, answer)


def test_the_sources_mask_is_handed_on(capsys):
    def answer(model, memory, source_mask, written):
        return model.generator(decoded(model, memory, torch.ones_like(source_mask), written)[:, -1])

    assert "source's padding is looked at" in told(capsys, check.next_scores, answer)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            lambda attention, masks: [
                functools.partial(lambda mask, x: attention(x, x, x, mask), mask) for mask in masks
            ],
            "✓",
        ),
        (
            lambda attention, masks: [lambda x, mask=mask: attention(x, x, x, mask) for mask in masks[::-1]],
            "opposite order",
        ),
        (lambda attention, masks: [attention(*3 * [torch.zeros(1, 5, 14).double()])], "has run already"),
        (lambda attention, masks: masks, "cannot be called"),
        (lambda attention, masks: [lambda x: x], "3 masks"),
        (lambda attention, masks: [lambda x, i=i: attention(x, x, x, masks[i]) for i in range(3)], "✓"),
    ],
)
def test_functions_with_masks_of_their_own(capsys, answer, sentence):
    assert sentence in told(capsys, check.bound, answer)


def post_norm(order=(0, 1, 2), source="memory", residual=(True, True, True), norms=(0, 1, 2), swap=False):
    """The paper's layer, or one with a mistake."""

    def answer(layer, x, memory, source_mask, target_mask):
        k = memory if source == "memory" else x
        source_mask, target_mask = (target_mask, source_mask) if swap else (source_mask, target_mask)
        functions = (
            lambda x: layer.self_attention(x, x, x, target_mask),
            lambda x: layer.source_attention(x, k, k, source_mask if source == "memory" else None),
            layer.feed_forward,
        )
        for i in order:
            x = layer.sublayer[norms[i]].norm(x * residual[i] + functions[i](x))
        return x

    return answer


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (post_norm(), "✓"),
        (post_norm(order=(1, 0, 2)), "comes before self-attention"),
        (post_norm(order=(0, 1)), "feed-forward network is missing"),
        (post_norm(order=(0, 2)), "Source attention is missing"),
        (post_norm(source="x"), "the decoder answers"),
        (post_norm(residual=(False, False, False)), "Not yet: The residual is missing"),
        (post_norm(residual=(False, True, True)), "At self-attention the residual is missing"),
        (post_norm(residual=(True, False, True)), "At source attention the residual is missing"),
        (post_norm(residual=(True, True, False)), "At the feed-forward network the residual is missing"),
        (post_norm(swap=True), "has the source's mask"),
        (post_norm(norms=(0, 0, 0)), "One norm is used three times"),
    ],
)
def test_the_papers_decoder_layer(capsys, answer, sentence):
    assert sentence in told(capsys, check.post_norm_decoder_layer, answer)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda x, W_1, b_1, W_2, b_2: (x @ W_1.T + b_1).clamp(min=0) @ W_2.T + b_2, "✓"),
        (lambda x, W_1, b_1, W_2, b_2: (x @ W_1.T + b_1) @ W_2.T + b_2, "no non-linearity"),
        (lambda x, W_1, b_1, W_2, b_2: x @ W_1.T @ W_2.T, "no non-linearity, and"),
        (lambda x, W_1, b_1, W_2, b_2: ((x @ W_1.T + b_1) @ W_2.T + b_2).relu(), "stands at the end"),
        (lambda x, W_1, b_1, W_2, b_2: (x @ W_1.T + b_1).relu() @ W_2.T, "b_2 is missing"),
        (lambda x, W_1, b_1, W_2, b_2: (x @ W_1.T).relu() @ W_2.T + b_2, "b_1 is missing"),
        (lambda x, W_1, b_1, W_2, b_2: x + (x @ W_1.T + b_1).relu() @ W_2.T + b_2, "input is added"),
    ],
)
def test_the_feed_forward_network(capsys, answer, sentence):
    assert sentence in told(capsys, check.feed_forward, answer)


def changed_at(places, dropout=False, seen=lambda j: range(j), back=True):
    """A leak test that changes the tokens at these places, and compares the outputs that `seen` names."""

    def answer(model, source, target_in):
        mode, found = model.training, False
        model.train(dropout)
        before = model(source, target_in)
        for j in places(target_in.shape[1]):
            changed = target_in.clone()
            changed[:, j] = BOS
            found |= not torch.allclose(model(source, changed)[:, seen(j)], before[:, seen(j)])
        model.train(mode if back else False)
        return found

    return answer


def all_later(n):
    """Every place that something before it could peek at."""
    return range(1, n)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (changed_at(all_later), "✓"),
        (changed_at(lambda n: [n - 1]), "from token 2 to output 0"),
        (changed_at(all_later, seen=lambda j: [j - 1]), "from token 2 to output 0"),
        (changed_at(all_later, seen=lambda j: [0]), "from token 4 to output 2"),
        (changed_at(lambda n: [0]), "is let go"),
        (changed_at(all_later, dropout=True), "dropout alone"),
        (changed_at(all_later, back=False), "left in eval mode"),
        (lambda *given: not changed_at(lambda n: [n - 1])(*given), "interchanged"),
        (lambda model, source, target_in: torch.tensor(True), "Return True or False"),
    ],
)
def test_a_leak_is_found(capsys, answer, sentence):
    assert sentence in told(capsys, check.leaks, answer)


def averaging(
    weigh=lambda mask: mask / mask.sum(dim=-1, keepdim=True), size=lambda d_model: d_model, **options
):
    """The reader's layer, or one with a mistake."""

    class Averaging(torch.nn.Module):
        def __init__(self, d_model):
            super().__init__()
            if size(d_model):
                self.size = size(d_model)
            self.W = torch.nn.Linear(d_model, d_model)
            if options.get("more"):
                self.V = torch.nn.Linear(d_model, d_model)
            if options.get("shared"):
                self.W.__class__ = Shared

        def forward(self, x, mask):
            added = self.W(weigh(mask).to(x.dtype) @ x)
            if options.get("in_place"):
                x += added
                return x
            return x + added if options.get("residual", True) else added

    return Averaging


def turned(mask):
    """Columns for rows; what nobody may look at stays zero."""
    return mask.mT / mask.mT.sum(dim=-1, keepdim=True).clamp(min=1)


class Shared(torch.nn.Linear):
    def __deepcopy__(self, memo):
        return self


def over(n):
    """Rows divided by a number."""
    return lambda mask: mask.double() / n


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (averaging(), "✓"),
        (averaging(size=lambda d_model: None), "reads `layer.size`"),
        (averaging(size=lambda d_model: 1), "would even run"),
        (averaging(size=lambda d_model: 14), "width 15 says that its size is 14"),
        (averaging(lambda mask: torch.full(mask.shape, 1 / 5)), "every position averages all"),
        (averaging(over(1)), "These are sums"),
        (averaging(over(5)), "divided by all positions"),
        (averaging(lambda mask: torch.eye(5).expand(mask.shape)), "sees itself alone"),
        (
            averaging(lambda mask: mask.mT / mask.mT.sum(dim=-1, keepdim=True).clamp(min=1)),
            "side of the keys",
        ),
        (averaging(residual=False), "residual is missing"),
        (averaging(more=True), "W alone has 210"),
        (averaging(in_place=True), "changed in place"),
        (averaging(shared=True), "share one W"),
        (torch.nn.Identity, "should be an nn.Linear"),
        (lambda d_model: None, "Hand over your class"),
    ],
)
def test_a_layer_that_the_stack_accepts(capsys, answer, sentence):
    assert sentence in told(capsys, check.averaging, answer)
