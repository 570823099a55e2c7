"""The decoder with attention: its recurrence written out, properties, learning."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from heed.alignment import (
    AttentionSeq2Seq,
    BidirectionalEncoder,
    PointerNetwork,
    PositionWriter,
    point,
    pointer_loss,
    unused,
)
from heed.attention import record
from heed.recurrent import free_run, gru_step
from heed.scores import additive_score
from heed.tasks import PointBatch, endless, hulls, point_batch, point_sets
from heed.text import BOS, EOS, PAD

B, N_SOURCE, N_TARGET, D_EMBED, D_HIDDEN, VOCAB = 2, 3, 5, 7, 11, 13


def model_and_ids():
    torch.manual_seed(0)
    model = AttentionSeq2Seq(VOCAB, VOCAB, D_EMBED, D_HIDDEN).double()
    return model, torch.randint(4, VOCAB, (B, N_SOURCE)), torch.randint(4, VOCAB, (B, N_TARGET))


def step_of(gru):
    """The hand-written step with the weights of torch's GRU or GRUCell."""
    suffix = "_l0" if isinstance(gru, nn.GRU) else ""
    weights = [getattr(gru, name + suffix) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    return lambda x, h: gru_step(x, h, *weights)


def test_the_whole_model_written_out_for_one_sentence():
    model, source, target = model_and_ids()
    x, zero = model.encoder.embed(source)[0], torch.zeros(D_HIDDEN, dtype=torch.float64)
    left, right, h = [], [], zero
    for i in range(N_SOURCE):
        h = step_of(model.encoder.forwards)(x[i], h)
        left.append(h)
    h = zero
    for i in reversed(range(N_SOURCE)):
        h = step_of(model.encoder.backwards)(x[i], h)
        right.insert(0, h)
    states = torch.stack([torch.cat(pair) for pair in zip(left, right, strict=True)])
    s, decoder, logits, maps = torch.tanh(model.first(right[0])), model.decoder, [], []
    for y in target[0]:
        scores = additive_score(
            s[None], states, decoder.score.W.weight, decoder.score.U.weight, decoder.score.v.weight[0]
        )
        weights = scores[0].softmax(-1)
        c = sum(a * state for a, state in zip(weights, states, strict=True))
        e = decoder.embed.weight[y]
        s = step_of(decoder.cell)(torch.cat([e, c]), s)
        logits.append(decoder.out(torch.cat([s, c, e])))
        maps.append(weights)
    with record(model) as recorded:
        out = model(source, target)
    assert torch.allclose(out[0], torch.stack(logits), atol=1e-12)
    assert torch.allclose(torch.cat(recorded["decoder.attention"], dim=1)[0], torch.stack(maps), atol=1e-12)


def test_the_encoder_equals_torchs_bidirectional_gru_forward_and_gradient():
    torch.manual_seed(0)
    encoder = BidirectionalEncoder(VOCAB, D_EMBED, D_HIDDEN).double()
    theirs = nn.GRU(D_EMBED, D_HIDDEN, batch_first=True, bidirectional=True, dtype=torch.float64)
    with torch.no_grad():
        for name, p in encoder.forwards.named_parameters():
            getattr(theirs, name).copy_(p)
        for name, p in encoder.backwards.named_parameters():
            getattr(theirs, name + "_reverse").copy_(p)
    source = torch.randint(4, VOCAB, (B, N_SOURCE))
    ours, reference = encoder(source), theirs(encoder.embed(source))[0]
    assert torch.allclose(ours, reference, atol=1e-12)
    direction, table = torch.randn_like(ours), encoder.embed.weight
    a, b = (torch.autograd.grad(out, table, direction, retain_graph=True)[0] for out in (ours, reference))
    assert torch.allclose(a, b, atol=1e-10)


@settings(max_examples=15)
@given(
    st.lists(st.lists(st.integers(4, VOCAB - 1), min_size=1, max_size=5), min_size=1, max_size=4),
    st.integers(1, 3),
)
def test_padding_is_invisible_and_gets_no_weight(rows, extra):
    model, _, _ = model_and_ids()
    n = max(map(len, rows))
    short = torch.tensor([r + [PAD] * (n - len(r)) for r in rows])
    long = nn.functional.pad(short, (0, extra), value=PAD)
    target = torch.randint(4, VOCAB, (len(rows), N_TARGET))
    with record(model) as maps:
        out = model(long, target)
    assert torch.allclose(out, model(short, target), atol=1e-12)
    assert torch.equal(free_run(model, short, 6), free_run(model, long, 6))
    for weights in maps["decoder.attention"]:
        assert (weights[(long == PAD)[:, None]] == 0).all()
        assert torch.allclose(weights.sum(-1), torch.ones(1, dtype=torch.float64))


def test_a_source_of_padding_alone_gives_finite_numbers_gradients_and_an_empty_row():
    model, _, target = model_and_ids()
    source = torch.tensor([[PAD] * 3, [4, 5, 6]])
    model(source, target).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert (free_run(model, source, 4)[0] == PAD).all()


def test_no_step_sees_the_words_after_it():
    model, source, target = model_and_ids()
    changed = target.clone()
    changed[:, 3] = (changed[:, 3] - 3) % (VOCAB - 4) + 4
    a, b = model(source, target), model(source, changed)
    assert torch.equal(a[:, :3], b[:, :3]) and not torch.allclose(a[:, 3:], b[:, 3:])


def test_free_run_reads_what_it_wrote():
    model, source, _ = model_and_ids()
    ids = free_run(model, source, 8)
    read = torch.cat([torch.full((B, 1), BOS), ids[:, :-1]], dim=1)
    written = ids != PAD
    assert torch.equal(model(source, read).argmax(-1)[written], ids[written])


def test_it_learns_to_reverse_what_a_plain_model_of_the_same_size_does_not():
    from heed.data import batches
    from heed.recurrent import Seq2Seq
    from heed.train import sequence_loss, train

    rows = torch.randint(4, VOCAB, (600, 9), generator=torch.Generator().manual_seed(0)).tolist()
    pairs = [(row, [BOS, *reversed(row), EOS]) for row in rows]
    source = torch.tensor(rows[500:])
    share = {}
    for kind in (Seq2Seq, AttentionSeq2Seq):
        torch.manual_seed(0)
        model = kind(VOCAB, VOCAB, 16, 32).double()
        train(model, batches(pairs[:500], 50, seed=0), sequence_loss, 200, rate=1e-2)
        out = free_run(model, source, 12)[:, :9]
        share[kind] = (out == source.flip(1)).all(1).double().mean().item() if out.shape[1] == 9 else 0.0
    assert share[AttentionSeq2Seq] > 0.95 and share[Seq2Seq] < 0.3, share


def test_an_id_outside_the_vocabulary_is_named():
    model, source, target = model_and_ids()
    source[1, 2] = VOCAB
    with pytest.raises(ValueError, match=f"{VOCAB}.*1, 2"):
        model(source, target)


# --- pointing ----------------------------------------------------------------------------------------------

N, PATH = 7, torch.tensor([[2, 0, 5, 2], [1, 3, 1, -1]])  # positions of N points; the second path is shorter


def pointers():
    torch.manual_seed(0)
    return [PointerNetwork(2, D_HIDDEN).double(), PositionWriter(11, 2, 3, D_HIDDEN).double()]


def test_unused_on_paper():
    mask = unused(torch.tensor([[0, 1, 3, 0]]), 4)[0]
    true, false = True, False
    assert mask.tolist() == [
        [true, true, true, true],
        [false, true, true, true],
        [true, false, true, true],
        [true, false, true, false],
    ]


@settings(max_examples=30)
@given(st.permutations(range(N)))
def test_a_true_path_is_never_hidden(order):
    y = torch.tensor([[*order, order[0]]])
    assert unused(y, N).gather(-1, y[..., None]).all()


def test_the_pointer_written_out_for_one_set():
    model, _ = pointers()
    x, y = torch.randn(1, N, 2, dtype=torch.float64), PATH[:1]
    read, zero = model.read, torch.zeros(D_HIDDEN, dtype=torch.float64)
    left, right, h = [], [], zero
    for i in range(N):
        h = step_of(read.forwards)(x[0, i], h)
        left.append(h)
    h = zero
    for i in reversed(range(N)):
        h = step_of(read.backwards)(x[0, i], h)
        right.insert(0, h)
    states = torch.stack([torch.cat(pair) for pair in zip(left, right, strict=True)])
    s, rows = h, []
    for t in range(4):
        s = step_of(read.writes)(read.start if t == 0 else x[0, y[0, t - 1]], s)
        parameters = model.score.W.weight, model.score.U.weight, model.score.v.weight[0]
        rows.append(additive_score(s[None], states, *parameters)[0].softmax(-1))
    assert torch.allclose(model(x, y)[0], torch.stack(rows), atol=1e-12)


@pytest.mark.parametrize("kind", [0, 1])
def test_each_step_is_a_distribution_over_what_is_unused_and_sees_no_later_answer(kind):
    model, x = pointers()[kind], torch.randn(2, N, 2, dtype=torch.float64)
    mask = unused(PATH, N)
    weights = model(x, PATH, mask)
    assert torch.allclose(weights.sum(-1), torch.ones(1, dtype=torch.float64)) and (weights[~mask] == 0).all()
    changed = PATH.clone()
    changed[:, 2] = 4
    other = model(x, changed)
    assert torch.equal(model(x, PATH)[:, :3], other[:, :3])
    assert not torch.allclose(model(x, PATH)[:, 3], other[:, 3])


def test_the_writer_uses_its_positions_and_the_first_n_words_alone():
    _, model = pointers()
    x = torch.randn(1, N, 2, dtype=torch.float64)
    before = model(x, PATH[:1])
    with torch.no_grad():
        model.position.weight[N:] += 1
        model.out.bias[N:] += 100
    assert torch.equal(before, model(x, PATH[:1]))
    with torch.no_grad():
        model.position.weight[0] += 1
    assert not torch.allclose(before, model(x, PATH[:1]))


def test_the_loss_is_torchs_cross_entropy_where_a_path_has_not_ended_forward_and_gradient():
    model, _ = pointers()
    x = torch.randn(2, N, 2, dtype=torch.float64)
    h, s = model.read(x, PATH)
    scores = model.score(s, h).masked_fill(~unused(PATH, N), -torch.inf)
    theirs = nn.functional.cross_entropy(scores.flatten(0, 1), PATH.flatten(), ignore_index=-1)
    ours = pointer_loss(model, PointBatch(x, PATH))
    assert torch.allclose(ours, theirs)
    parameters = [*model.parameters()]
    for mine, other in zip(
        torch.autograd.grad(ours, parameters), torch.autograd.grad(theirs, parameters), strict=True
    ):
        assert torch.allclose(mine, other, atol=1e-12)


@pytest.mark.parametrize("kind", [0, 1])
def test_point_closes_each_path_and_reads_what_it_wrote(kind):
    model, x = pointers()[kind], torch.randn(50, N, 2, dtype=torch.float64)
    y = point(model, x)
    for row in y.tolist():
        path = [i for i in row if i >= 0]
        assert path[0] == path[-1] and len(set(path)) == len(path) - 1 and row[: len(path)] == path
    again = model(x, y, unused(y, N)).argmax(-1)
    assert torch.equal(again[y >= 0], y[y >= 0])


def test_a_path_that_has_closed_stays_closed():
    def model(x, y, mask):
        lowest, highest = torch.arange(N, 0, -1.0), torch.arange(1.0, N + 1)
        second = highest if y.shape[1] == 1 else lowest  # begins at the end, then goes up from the beginning
        return mask * torch.stack([lowest, second])[:, None]

    y = point(model, torch.zeros(2, N, 2))
    assert y.tolist() == [[0, 1, 0, *[-1] * (N - 2)], [N - 1, *range(N)]]


def test_no_step_waits_for_a_gpu():
    """On torch's device without numbers whatever depends on a number fails, as it would wait on a GPU."""
    model, source, target_in = model_and_ids()
    logits = model.to("meta")(source.to("meta"), target_in.to("meta"))
    assert logits.shape == (B, N_TARGET, VOCAB)


def test_a_pointer_learns_hulls_of_four_points_and_points_at_more():
    from heed.train import train

    torch.manual_seed(0)
    model, test = PointerNetwork(2, 24).double(), point_sets(200, 4, seed=1)
    stream = (PointBatch(batch.x.double(), batch.y) for batch in endless(point_batch, 64, (3, 4), seed=0))

    def right():
        pairs = zip(point(model, test.x.double()), hulls(test.x), strict=True)
        return sum(torch.equal(a[a >= 0], b[b >= 0]) for a, b in pairs)

    before = right()
    train(model, stream, pointer_loss, 250, rate=1e-2)
    assert before < 30 and right() > 60, (before, right())
    assert point(model, torch.rand(3, 19, 2, dtype=torch.float64)).max() < 19
