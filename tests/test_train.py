"""The training loop: what it does to the weights, what it must not touch, and what it refuses."""

import math

import pytest
import torch
from torch import nn

from heed.alignment import AttentionSeq2Seq
from heed.data import Batch
from heed.recurrent import Seq2Seq
from heed.text import BOS, EOS, PAD
from heed.train import sequence_loss, train
from heed.transformer import make_model


def stream(value=1.0):
    while True:
        yield torch.tensor([value], dtype=torch.float64)


def distance(model, batch):
    return (model(batch) - 3).pow(2).sum()


def line(p=0.0):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(1, 4), nn.Dropout(p), nn.Linear(4, 1)).double()


def test_the_loss_on_paper():
    class Fixed(nn.Module):
        def forward(self, source, target_in):
            return torch.tensor([1 / 8, 1 / 8, 1 / 4, 1 / 2]).log().expand(*target_in.shape, 4)

    batch = Batch(torch.tensor([[3], [3]]), torch.tensor([[BOS, 3, 3, EOS], [BOS, EOS, PAD, PAD]]))
    expected = -(2 * math.log(1 / 2) + 2 * math.log(1 / 4)) / 4  # 3, 3, EOS and EOS; padding does not count
    assert math.isclose(sequence_loss(Fixed(), batch).item(), expected, rel_tol=1e-6)


def test_padding_does_not_change_the_loss():
    torch.manual_seed(0)
    model = Seq2Seq(7, 7, 5, 3).double()
    short = Batch(torch.tensor([[4, 5]]), torch.tensor([[BOS, 6, EOS]]))
    long = Batch(torch.tensor([[4, 5, PAD]]), torch.tensor([[BOS, 6, EOS, PAD, PAD]]))
    assert torch.allclose(sequence_loss(model, short), sequence_loss(model, long))


@pytest.mark.parametrize("d_model", [22, 14])
def test_vectors_are_not_taken_for_scores_even_where_they_are_as_wide(d_model):
    vocab = 22
    model = make_model(vocab, vocab, n_layers=1, d_model=d_model, d_ff=7, n_heads=2, dropout=0.0)
    batch = Batch(torch.tensor([[4, 5]]), torch.tensor([[BOS, 6, EOS]]))
    with pytest.raises(ValueError, match="EncoderDecoder returns vectors, not scores"):
        sequence_loss(model, batch)
    for kind in (Seq2Seq, AttentionSeq2Seq):
        assert sequence_loss(kind(vocab, vocab, 5, 3), batch).isfinite()


def test_it_learns_and_returns_every_loss():
    model = line()
    losses = train(model, stream(), distance, 300, rate=0.05)
    assert len(losses) == 300 and losses[-1] < 1e-6 < losses[0]
    assert not model.training


def test_one_update_is_one_step_of_adam_with_a_clipped_gradient():
    model, twin = line(), line()
    train(model, stream(), distance, 1, rate=0.1, clip=0.5)
    optimiser = torch.optim.SGD(twin.parameters(), lr=1.0)
    optimiser.zero_grad()
    distance(twin, next(stream())).backward()
    norm = torch.stack([p.grad.norm() for p in twin.parameters()]).norm()
    assert norm > 0.5
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        g = q.grad * 0.5 / (norm + 1e-6)
        assert torch.allclose(
            p, q - 0.1 * g / (g.abs() + 1e-8), atol=1e-9
        )  # Adam's first step: g / (|g| + ε)


def test_three_updates_start_from_a_fresh_gradient_each():
    model, twin = line(), line()
    train(model, stream(), distance, 3, rate=0.1, clip=0.5)
    optimiser, batches = torch.optim.Adam(twin.parameters()), stream()
    for step in range(3):
        gradient = torch.autograd.grad(distance(twin, next(batches)), list(twin.parameters()))
        norm = torch.stack([g.norm() for g in gradient]).norm()
        for p, g in zip(twin.parameters(), gradient, strict=True):
            p.grad = g * min(1.0, 0.5 / (norm.item() + 1e-6))
        optimiser.param_groups[0]["lr"] = 0.1 * (3 - step) / 3
        optimiser.step()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(p, q, atol=1e-12)


def test_the_rate_falls_in_a_line():
    model, seen = nn.Linear(1, 1, bias=False).double(), []

    def tilt(model, batch):
        seen.append(model.weight.item())
        return model.weight.sum()  # a constant gradient: Adam moves by the rate, whatever the gradient

    train(model, stream(), tilt, 4, rate=0.4)
    moves = [a - b for a, b in zip(seen, [*seen[1:], model.weight.item()], strict=True)]
    assert torch.allclose(torch.tensor(moves), torch.tensor([0.4, 0.3, 0.2, 0.1]), atol=1e-6)


def test_the_same_seed_gives_the_same_run_with_dropout_and_leaves_the_worlds_chance_alone():
    torch.manual_seed(5)
    untouched = torch.rand(3)
    torch.manual_seed(5)
    runs = [train(line(p=0.5), stream(), distance, 20, seed=seed) for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]
    torch.manual_seed(5)
    model = line()
    torch.manual_seed(5)
    train(model, stream(), distance, 3)
    assert torch.equal(torch.rand(3), untouched)


def test_watch_sees_the_model_at_rest_first_every_so_often_and_last():
    model, seen = line(p=0.5), []

    def watch(step):
        seen.append((step, model.training, torch.is_grad_enabled()))

    train(model, stream(), distance, 25, watch=watch, every=10)
    assert seen == [(0, False, False), (10, False, False), (20, False, False), (25, False, False)]


def test_watching_does_not_change_the_run():
    runs = []
    for watch in (None, lambda step: None):
        runs.append(train(line(p=0.5), stream(), distance, 20, watch=watch, every=3))
    assert runs[0] == runs[1]


def test_refusals():
    with pytest.raises(ValueError, match="nan"):
        train(line(), stream(math.nan), distance, 3)
    with pytest.raises(ValueError, match="after 1 of 3"):
        train(line(), [torch.ones(1, dtype=torch.float64)], distance, 3)


def test_the_progress_line_is_silent_where_nobody_looks(capfd):
    train(line(), stream(), distance, 50)
    assert capfd.readouterr() == ("", "")
