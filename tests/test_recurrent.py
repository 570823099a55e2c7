"""Recurrent cells and the four shapes: by hand, against torch, properties, two derivations, learning."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from heed.recurrent import (
    CheckedEmbedding,
    Classifier,
    ConditionalLanguageModel,
    Seq2Seq,
    Tagger,
    flip,
    free_run,
    gru_step,
    last_state,
    lstm_step,
    rnn_step,
    unroll,
)
from heed.text import BOS, EOS, PAD

B, N, D_IN, D_HIDDEN, VOCAB = 2, 3, 5, 7, 11


def double(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


# --- By hand -------------------------------------------------------------------------------------------


def test_rnn_step_on_paper():
    x, h = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]])
    new = rnn_step(
        x, h, torch.tensor([[1.0, -1.0]]), torch.tensor([[2.0]]), torch.tensor([-4.0]), torch.tensor([-0.5])
    )
    assert torch.allclose(new, torch.tensor([[math.tanh(0.5)]]))  # 1 − 2 − 4 + 6 − 0.5


def test_gru_with_closed_gates_keeps_or_replaces_its_state():
    h, zero = torch.tensor([[0.25]]), torch.zeros(3, 1)
    for z, expected in ((50.0, 0.25), (-50.0, math.tanh(1.0))):
        bias = torch.tensor([0.0, z, 1.0])
        assert torch.allclose(
            gru_step(torch.zeros(1, 1), h, zero, zero, bias, torch.zeros(3)), torch.tensor([[expected]])
        )


def test_lstm_with_open_forget_gate_remembers():
    h, c, zero = torch.tensor([[0.5]]), torch.tensor([[2.0]]), torch.zeros(4, 1)
    bias = torch.tensor([-50.0, 50.0, 1.0, 50.0])  # input shut, forget gate open, candidate, output open
    h, c = lstm_step(torch.zeros(1, 1), h, c, zero, zero, bias, torch.zeros(4))
    assert torch.allclose(c, torch.tensor([[2.0]])) and torch.allclose(h, torch.tanh(c))


# --- Agrees with torch ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step, cell", [(rnn_step, nn.RNNCell), (gru_step, nn.GRUCell), (lstm_step, nn.LSTMCell)]
)
def test_steps_equal_torch_forward_and_gradient(step, cell):
    torch.manual_seed(0)
    theirs = cell(D_IN, D_HIDDEN, dtype=torch.float64)
    weights = [theirs.weight_ih, theirs.weight_hh, theirs.bias_ih, theirs.bias_hh]
    x, h, c = double(B, D_IN), double(B, D_HIDDEN), double(B, D_HIDDEN)
    states = (h, c) if step is lstm_step else (h,)
    ours = step(x, *states, *weights)
    reference = theirs(x, states if step is lstm_step else h)
    if step is not lstm_step:
        ours, reference = (ours,), (reference,)
    wanted = [x, *states, *weights]
    for a, b in zip(ours, reference, strict=True):
        direction = torch.randn_like(a)
        assert torch.allclose(a, b, atol=1e-12)
        mine = torch.autograd.grad(a, wanted, direction, retain_graph=True, allow_unused=True)
        other = torch.autograd.grad(b, wanted, direction, retain_graph=True, allow_unused=True)
        for i, (g, r) in enumerate(zip(mine, other, strict=True)):
            g, r = (
                torch.zeros(()) if t is None else t for t in (g, r)
            )  # c' does not depend on the output gate
            assert torch.allclose(g, r, atol=1e-10), f"gradient {i} differs"


# --- Properties ----------------------------------------------------------------------------------------

sentences = st.lists(st.lists(st.integers(4, VOCAB - 1), min_size=1, max_size=6), min_size=1, max_size=4)


def padded(rows, extra=0):
    n = max(map(len, rows)) + extra
    return torch.tensor([row + [PAD] * (n - len(row)) for row in rows])


@settings(max_examples=20)
@given(sentences, st.integers(1, 3))
def test_padding_is_invisible_in_every_shape(rows, extra):
    torch.manual_seed(0)
    short, long, labels = padded(rows), padded(rows, extra), torch.zeros(len(rows), dtype=torch.long)
    n = short.shape[1]
    tagger = Tagger(VOCAB, 3, D_IN, D_HIDDEN).double()
    classifier = Classifier(VOCAB, 3, D_IN, D_HIDDEN).double()
    writer = ConditionalLanguageModel(3, VOCAB, D_IN, D_HIDDEN).double()
    seq2seq = Seq2Seq(VOCAB, VOCAB, D_IN, D_HIDDEN).double()
    real = short != PAD
    assert torch.allclose(tagger(short)[real], tagger(long)[:, :n][real])
    assert torch.allclose(classifier(short), classifier(long))
    assert torch.allclose(writer(labels, short), writer(labels, long)[:, :n])
    assert torch.allclose(seq2seq(short, short), seq2seq(long, short))
    assert torch.equal(free_run(seq2seq, short, 5), free_run(seq2seq, long, 5))


@settings(max_examples=20)
@given(sentences)
def test_flip_reverses_and_again_gives_back(rows):
    ids = padded(rows, 1)
    x = torch.randn(*ids.shape, D_IN)
    turned = flip(x, ids)
    for row, a, b in zip(rows, x, turned, strict=True):
        assert torch.equal(b[: len(row)], a[: len(row)].flip(0)) and torch.equal(b[len(row) :], a[len(row) :])
    assert torch.equal(flip(turned, ids), x)


def test_last_state_is_that_of_the_last_real_token():
    states, ids = torch.randn(B, N, D_HIDDEN), torch.tensor([[4, 5, PAD], [4, 5, 6]])
    assert torch.equal(last_state(states, ids), torch.stack([states[0, 1], states[1, 2]]))
    assert torch.equal(last_state(states, torch.full((B, N), PAD)), torch.zeros(B, D_HIDDEN))


def test_a_decoder_does_not_see_the_future_and_a_tagger_does():
    torch.manual_seed(0)
    source = torch.tensor([[4, 5, 6, 7]])
    changed = torch.tensor([[4, 5, 6, 8]])
    seq2seq, tagger = Seq2Seq(VOCAB, VOCAB, D_IN, D_HIDDEN), Tagger(VOCAB, 3, D_IN, D_HIDDEN)
    a, b = seq2seq(source, source), seq2seq(source, changed)
    assert torch.equal(a[:, :3], b[:, :3]) and not torch.allclose(a[:, 3], b[:, 3])
    assert not torch.allclose(tagger(source)[:, 0], tagger(changed)[:, 0])


# --- Two derivations -----------------------------------------------------------------------------------


def test_the_tagger_is_two_hand_written_recurrences():
    torch.manual_seed(0)
    tagger = Tagger(VOCAB, 3, D_IN, D_HIDDEN).double()
    ids = torch.tensor([[4, 9, 6, 10]])
    x = tagger.embed(ids)[0]

    def run(gru, inputs):
        h, states = torch.zeros(D_HIDDEN, dtype=torch.float64), []
        for token in inputs:
            h = gru_step(token, h, gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0)
            states.append(h)
        return torch.stack(states)

    both = torch.cat([run(tagger.forwards, x), run(tagger.backwards, x.flip(0)).flip(0)], dim=-1)
    assert torch.allclose(tagger(ids)[0], tagger.out(both), atol=1e-12)


def test_step_by_step_equals_all_at_once():
    torch.manual_seed(0)
    model = Seq2Seq(VOCAB, VOCAB, D_IN, D_HIDDEN).double()
    source, target = torch.randint(4, VOCAB, (B, 4)), torch.randint(4, VOCAB, (B, 6))
    state, memory = model.start(source)
    steps = []
    for y in target.unbind(1):
        logits, state = model.step(y, state, memory)
        steps.append(logits)
    assert torch.allclose(torch.stack(steps, 1), model(source, target), atol=1e-12)


def test_free_run_reads_what_it_wrote():
    torch.manual_seed(1)
    model = Seq2Seq(VOCAB, VOCAB, D_IN, D_HIDDEN).double()
    source = torch.randint(4, VOCAB, (B, 4))
    ids = free_run(model, source, 8)
    read = torch.cat([torch.full((B, 1), BOS), ids[:, :-1]], dim=1)
    again = model(source, read).argmax(-1)  # one pass under the model's own words as teacher
    written = ids != PAD
    assert torch.equal(again[written], ids[written])


# --- Edges ---------------------------------------------------------------------------------------------


def counting(stop_after):
    """A step whose likeliest token is 4, 5, 6, … and EOS after `stop_after` tokens."""

    def step(y, state):
        logits = torch.zeros(len(y), VOCAB)
        logits[torch.arange(len(y)), torch.where(state >= torch.tensor(stop_after), EOS, 4 + state)] = 1
        return logits, state + 1

    return step


def test_unroll_stops_each_row_at_its_own_eos():
    start = torch.zeros(2, dtype=torch.long)
    ids = unroll(counting([1, 3]), start, 2, 9, lambda logits: logits.argmax(-1))
    assert ids.tolist() == [[4, EOS, PAD, PAD], [4, 5, 6, EOS]]


def test_unroll_gives_up_at_n_max_without_losing_a_token():
    ids = unroll(counting([9, 9]), torch.zeros(2, dtype=torch.long), 2, 3, lambda logits: logits.argmax(-1))
    assert ids.tolist() == [[4, 5, 6], [4, 5, 6]]
    with pytest.raises(ValueError, match="n_max must be at least 1; got 0"):
        unroll(counting([1]), torch.zeros(1, dtype=torch.long), 1, 0, None)


def test_empty_source_gives_an_empty_row():
    torch.manual_seed(0)
    model = Seq2Seq(VOCAB, VOCAB, D_IN, D_HIDDEN)
    ids = free_run(model, torch.tensor([[PAD, PAD], [4, 5]]), 5)
    assert (ids[0] == PAD).all() and (ids[1] != PAD).any()


@pytest.mark.parametrize("wrong", [-1, VOCAB])
def test_an_id_without_a_row_is_named(wrong):
    with pytest.raises(ValueError, match=rf"{wrong}.*1, 2.*{VOCAB}"):
        CheckedEmbedding(VOCAB, D_IN)(torch.tensor([[4, 4, 4], [4, 4, wrong]]))


def test_samples_come_with_their_seed_and_differ_with_another():
    torch.manual_seed(0)
    model = ConditionalLanguageModel(3, VOCAB, D_IN, D_HIDDEN)
    labels = torch.tensor([0, 1, 2])
    a, b, c = (model.sample(labels, 20, seed) for seed in (0, 0, 1))
    assert torch.equal(a, b) and not (a.shape == c.shape and torch.equal(a, c))


def test_samples_follow_the_models_probabilities():
    model = ConditionalLanguageModel(1, 6, 2, 2)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
        model.out.bias.copy_(torch.tensor([0.0, 0.0, 0.5, 0.0, 0.25, 0.25]).log().clamp(min=-50))
    first = model.sample(torch.zeros(20_000, dtype=torch.long), 1, seed=0)[:, 0]
    share = torch.bincount(first, minlength=6) / len(first)
    assert torch.allclose(share, torch.tensor([0.0, 0.0, 0.5, 0.0, 0.25, 0.25]), atol=0.02)


# --- Learns --------------------------------------------------------------------------------------------


def test_each_shape_overfits_one_batch():
    torch.manual_seed(0)
    ids = torch.randint(4, VOCAB, (5, 6))
    labels = torch.tensor([0, 1, 2, 0, 1])
    tags = torch.randint(0, 3, (5, 6))
    target = torch.cat([torch.full((5, 1), BOS), ids.flip(1)], dim=1)
    tagger, classifier = Tagger(VOCAB, 3, 8, 24), Classifier(VOCAB, 3, 8, 24)
    writer, seq2seq = ConditionalLanguageModel(5, VOCAB, 8, 24), Seq2Seq(VOCAB, VOCAB, 8, 24)
    rows = torch.arange(5)
    for model, run, goal in (
        (tagger, lambda: tagger(ids), tags),
        (classifier, lambda: classifier(ids), labels),
        (writer, lambda: writer(rows, target[:, :-1]), target[:, 1:]),
        (seq2seq, lambda: seq2seq(ids, target[:, :-1]), target[:, 1:]),
    ):
        optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(150):
            loss = nn.functional.cross_entropy(run().flatten(0, -2), goal.flatten())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        assert (run().argmax(-1) == goal).all(), type(model).__name__
