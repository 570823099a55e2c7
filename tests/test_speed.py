"""Every quick piece does what the plain one does."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import heed
from heed.layers import LayerNorm
from heed.speed import (
    ByteDropout,
    FusedLayerNorm,
    PackedLinear,
    arg_max,
    keep_memory,
    linear_cross_entropy,
    packed,
    quick,
    random_bytes,
)
from heed.transformer import make_model

N, D_MODEL, VOCAB = 67, 5, 11


def rows(n=N, dtype=torch.float64):
    torch.manual_seed(n)
    sizes = (n, D_MODEL), (VOCAB, D_MODEL), (VOCAB,)
    leaves = [torch.randn(size, dtype=dtype, requires_grad=True) for size in sizes]
    return leaves, torch.randint(0, VOCAB, (n,))


@settings(max_examples=20)
@given(st.integers(1, 300), st.floats(0, 0.9), st.integers(1, 100))
def test_the_loss_in_pieces_is_torchs_loss_and_so_are_its_gradients(n, smoothing, piece):
    (x, weight, bias), target = rows(n)
    ours = linear_cross_entropy(x, weight, bias, target, smoothing, piece)
    scores = F.linear(x, weight, bias)
    theirs = F.cross_entropy(scores, target, label_smoothing=smoothing, reduction="sum")
    assert torch.allclose(ours, theirs, rtol=1e-12, atol=1e-10)
    grads = [torch.autograd.grad(3 * loss, (x, weight, bias)) for loss in (ours, theirs)]
    for a, b in zip(*grads, strict=True):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-10)


def test_the_loss_under_autocast_is_near_and_in_single_precision():
    (x, weight, bias), target = rows(dtype=torch.float32)
    plain = linear_cross_entropy(x, weight, bias, target, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = linear_cross_entropy(x, weight, bias, target, 0.1)
    rounded.backward()
    assert rounded.dtype == torch.float32 and x.grad.dtype == torch.float32
    assert abs(rounded - plain) < 0.02 * plain


def test_the_loss_of_scores_far_apart_is_finite():
    (x, weight, bias), target = rows()
    loss = linear_cross_entropy(1e4 * x, weight, bias, target, 0.1)
    loss.backward()
    assert loss.isfinite() and x.grad is not None and weight.grad.isfinite().all()


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, 1.5])
def test_a_smoothing_that_is_no_share_raises(smoothing):
    (x, weight, bias), target = rows()
    with pytest.raises(ValueError, match=f"must be at least 0 and below 1; got {smoothing}"):
        linear_cross_entropy(x, weight, bias, target, smoothing)


def test_a_forbidden_token_costs_what_it_costs_torch():
    (x, weight, bias), target = rows()
    bias.data[3], target[target == 3] = -torch.inf, 4
    ours, theirs = linear_cross_entropy(x, weight, bias, target), F.linear(x, weight, bias)
    assert torch.allclose(ours, F.cross_entropy(theirs, target, reduction="sum"), rtol=1e-12)


def test_bytes_are_even_and_follow_torchs_seed():
    torch.manual_seed(3)
    drawn, more = random_bytes((256, 1009)), random_bytes((256, 1009))
    torch.manual_seed(3)
    again = random_bytes((256, 1009))
    assert torch.equal(drawn, again) and not torch.equal(drawn, more)
    counts = torch.bincount(drawn.flatten().long(), minlength=256).double()
    chi2 = ((counts - 1009) ** 2 / 1009).sum()  # 255 degrees of freedom: mean 255, deviation 22.6
    assert len(counts) == 256 and 255 - 5 * 22.6 < chi2 < 255 + 5 * 22.6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("p", [0.1, 0.25, 0.5])
def test_dropout_drops_its_share_keeps_the_mean_and_sends_back_what_it_let_through(p, dtype):
    torch.manual_seed(5)
    x = torch.ones(499, 1009, dtype=dtype, requires_grad=True)
    y = ByteDropout(p)(x)
    share, kept = round(256 * p) / 256, y[y != 0]
    dropped = (y == 0).double()
    spread = (share * (1 - share) / dropped.numel()) ** 0.5
    assert abs(dropped.mean() - share) < 5 * spread
    assert torch.allclose(kept.double(), torch.tensor(1 / (1 - share)).double(), rtol=4e-3)
    assert dropped.mean(0).std() < 1.2 * (share * (1 - share) / 499) ** 0.5  # no column is favoured
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert y.dtype == dtype


def test_neighbours_are_dropped_independently():
    torch.manual_seed(7)
    y = ByteDropout(0.5)(torch.ones(1_000_003)) == 0
    together = (y[1:] & y[:-1]).double().mean()
    assert abs(together - 0.25) < 0.003


def test_no_dropout_is_none():
    x = torch.randn(7, 11)
    assert torch.equal(ByteDropout(0.0)(x), x) and torch.equal(ByteDropout(0.5).eval()(x), x)


@pytest.mark.parametrize("p", [0.001, 0.999])
def test_a_share_too_small_for_a_byte_is_dropped_by_torch(p):
    """p is less than 1/512 away from none or all, where rounded to 256ths it would be none or all."""
    torch.manual_seed(11)
    y = ByteDropout(p)(torch.ones(1_000_003))
    spread = (p * (1 - p) / y.numel()) ** 0.5
    assert abs((y == 0).double().mean() - p) < 5 * spread
    assert torch.allclose(y[y != 0], torch.tensor(1 / (1 - p)))


def test_dropping_all_or_nearly_all_stays_finite():
    assert ByteDropout(0.999)(torch.ones(1009)).isfinite().all()
    assert not ByteDropout(1.0)(torch.ones(1009)).any()


def test_nothing_to_drop_is_nothing():
    assert ByteDropout(0.5)(torch.ones(3, 0, 5)).shape == (3, 0, 5)


@pytest.mark.parametrize("case", ["no_grad", "nothing to learn", "learning"])
def test_a_loss_without_a_gradient_is_not_asked_for_one(case):
    """Validation would pay for three products and use one."""
    torch.manual_seed(3)
    x, weight, bias = torch.randn(9, 5), torch.randn(7, 5), torch.randn(7)
    target, products = torch.randint(7, (9,)), []
    for tensor in (x, weight, bias):
        tensor.requires_grad_(case != "nothing to learn")

    class Counted(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            products.extend([1] * function.__name__.startswith(("mm", "addmm", "bmm")))
            return function(*args, **kwargs or {})

    with torch.set_grad_enabled(case == "learning"), Counted():
        loss = linear_cross_entropy(x, weight, bias, target, 0.1)
    assert len(products) == (3 if case == "learning" else 1) and loss.requires_grad == (case == "learning")
    scores = F.linear(x, weight, bias)
    assert torch.allclose(loss, F.cross_entropy(scores, target, label_smoothing=0.1, reduction="sum"))


def test_on_a_gpu_the_loss_works_on_large_pieces():
    n, sizes, real = 5000, [], torch.Tensor.log_softmax
    x, weight, bias = (
        torch.empty(n, 3, device="meta"),
        torch.empty(7, 3, device="meta"),
        torch.empty(7, device="meta"),
    )

    def seen(part, *axis):
        sizes.append(len(part))
        return real(part, *axis)

    for device, most in (("meta", 4096), ("cpu", 64)):
        sizes.clear()
        given = (t if device == "meta" else torch.randn(t.shape) for t in (x, weight, bias))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.Tensor, "log_softmax", seen)
            patch.setattr(torch, "is_autocast_enabled", lambda device: False)
            linear_cross_entropy(*given, torch.zeros(n, dtype=torch.long, device=device))
        assert max(sizes) == most and sum(sizes) == n


def test_one_kernel_gives_the_layer_norm_of_seven():
    torch.manual_seed(0)
    plain, fused = LayerNorm(D_MODEL).double(), FusedLayerNorm(D_MODEL).double()
    plain.a.data = fused.a.data = torch.randn(D_MODEL, dtype=torch.float64)
    x = torch.randn(3, N, D_MODEL, dtype=torch.float64, requires_grad=True)
    assert torch.allclose(plain(x), fused(x), rtol=0, atol=1e-12)
    a, b = (torch.autograd.grad(norm(x).square().sum(), x)[0] for norm in (plain, fused))
    assert torch.allclose(a, b, rtol=0, atol=1e-10)


def test_a_quick_model_is_the_same_model():
    torch.manual_seed(0)
    model = make_model(11, 13, n_layers=2, d_model=6, d_ff=10, n_heads=2, dropout=0.3).double().eval()
    names, source, target = list(model.state_dict()), torch.tensor([[5, 6, 7]]), torch.tensor([[1, 8]])
    before = model(source, target)
    kinds = {type(m) for m in quick(model).modules()}
    assert {ByteDropout, FusedLayerNorm} <= kinds and not {nn.Dropout, LayerNorm} & kinds
    assert list(model.state_dict()) == names
    assert torch.allclose(model(source, target), before, rtol=0, atol=1e-10)


def log_p(model):
    with torch.no_grad():
        x = model(torch.tensor([[5, 6, 7], [8, 4, 0]]), torch.tensor([[1, 9, 10], [1, 12, 5]]))
        return model.generator(x).float()


def small(dtype):
    """A small model in which every bias counts."""
    torch.manual_seed(1)
    model = quick(make_model(11, 13, n_layers=2, d_model=18, d_ff=10, n_heads=3, dropout=0.3)).eval()
    for p in model.parameters():  # biases too
        p.data += 0.3 * torch.randn(p.shape)
    return model.to(dtype)


def packs(dtype):
    """Whether this processor and this build of torch pack matrices of this type."""
    return isinstance(packed(nn.Sequential(nn.Linear(3, 5).to(dtype)))[0], PackedLinear)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_packed_model_computes_the_same_and_leaves_the_other_as_it_was(dtype):
    if not packs(dtype):
        pytest.skip(f"no packed products in {dtype} here")
    model = small(dtype)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    twin = packed(model)
    kinds = [{type(m) for m in each.modules()} for each in (model, twin)]
    assert nn.Linear in kinds[0] and PackedLinear in kinds[1]
    assert PackedLinear not in kinds[0] and nn.Linear not in kinds[1]
    assert twin.source_embed[0].embedding.weight is model.source_embed[0].embedding.weight
    assert torch.allclose(log_p(twin), log_p(model), atol=1e-5 if dtype == torch.float32 else 0.1)
    assert log_p(model).std() > 1
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.skipif(not packs(torch.float32), reason="no packed products here")
@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_layer_is_the_layer(bias):
    torch.manual_seed(2)
    layer, x = nn.Linear(23, 7, bias=bias), torch.randn(5, 3, 23)
    assert torch.allclose(PackedLinear(layer)(x), layer(x), atol=1e-5)


def test_what_cannot_be_packed_stays_as_it_is(monkeypatch):
    model = small(torch.float64)
    assert packed(model) is model
    monkeypatch.setattr(PackedLinear, "forward", lambda self, x: torch.ops.mkldnn.no_such_operation(x))
    model = small(torch.float32)
    assert packed(model) is model


@given(st.integers(1, 9), st.integers(1, 70), st.sampled_from([torch.float64, torch.float32, torch.bfloat16]))
def test_the_highest_score_is_where_torch_finds_it_and_the_first_of_equal_ones(n, vocab, dtype):
    scores = torch.randn(n, vocab).mul(3).round().to(dtype)
    scores[:, 0] = -torch.inf
    assert torch.equal(arg_max(scores), scores.max(-1).indices)
    assert arg_max(torch.zeros(n, vocab, dtype=dtype)).tolist() == [0] * n


def test_scores_that_differ_in_the_last_digit_are_told_apart():
    scores = torch.tensor([[1.0, 1.0 + 1e-12, 1.0]], dtype=torch.float64)
    assert arg_max(scores).tolist() == [1]


COUNT = """
import resource, sys, torch
from heed.speed import keep_memory

def pages_of_ten_blocks():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(2**24)  # 64 MiB; glibc by itself keeps blocks of up to 32
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

kept = "keep" in sys.argv and keep_memory()
pages_of_ten_blocks()
print(kept, pages_of_ten_blocks())
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc",
    reason="only glibc is asked to keep memory",
)
def test_memory_that_is_kept_is_not_handed_out_page_by_page_again(monkeypatch):
    for name in ("GLIBC_TUNABLES", "LD_PRELOAD", *filter(re.compile("MALLOC_").match, os.environ)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(heed.__file__).parents[1]))  # the library under test
    pages = {}
    for word in ("leave", "keep"):
        command = [sys.executable, "-c", COUNT, word]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        kept, pages[word] = done.stdout.split()
        assert kept == str(word == "keep")
    # ten blocks are 163,840 pages, or 320 large ones
    assert int(pages["leave"]) >= 300 and int(pages["keep"]) < int(pages["leave"]) / 10


def test_where_there_is_no_glibc_no_memory_is_kept(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert keep_memory() is False
