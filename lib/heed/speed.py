"""What makes training quick and teaches nothing: each piece does what a plainer one does, in less time.

The plain pieces stay where they are taught. `quick` puts these in their places, in a model that is already
there, and the tests hold each against the plain one. The times are those of a step of a small translator
(3 + 3 layers, d_model 256, 2,500 tokens) on two cores of a processor; `make bench` measures them again.
"""

import copy
import ctypes
import math
import os
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from heed.layers import LayerNorm


def keep_memory():
    """Ask the C library to keep freed memory for the next step, for this process, from now on.

    glibc hands every large block back to the system when it is freed, and the next step gets it back page by
    page, each page filled with zeros first. Here blocks of any size come from one heap that does not shrink.
    torch's matrix library may also remember how to multiply more shapes: token batches have hundreds.

    `heed.engine.fit` and the commands call it; nothing undoes it.

    Returns whether the heap was set: it is on Linux with glibc. How many shapes the matrix library remembers
    is set everywhere.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "10000")  # read at the first product
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # musl has none
        return False
    no_blocks_apart, never_shrink, grow_by = (-4, 0), (-1, 2**31 - 1), (-2, 2**26)
    return all([mallopt(*setting) for setting in (no_blocks_apart, never_shrink, grow_by)])


# --- Dropout from random bytes ----------------------------------------------------------------------------


def random_bytes(shape):
    """Bytes drawn evenly from 0 … 255, of this shape. They follow torch's seed, whose generator seeds theirs.

    torch draws 24 bits or more for each number; one byte is enough to compare with p.
    """
    n = math.prod(shape)
    generator = np.random.Generator(np.random.SFC64(int(torch.randint(2**63 - 1, ()))))
    drawn = generator.integers(0, 2**64 - 1, size=(n + 7) // 8, dtype=np.uint64, endpoint=True)
    return torch.from_numpy(drawn.view(np.uint8)[:n]).view(shape)


def byte_mask(x, dropped):
    """Zeros with probability dropped / 256, elsewhere what keeps the mean: 256 / (256 − dropped)."""
    mask = torch.empty_like(x, memory_format=torch.contiguous_format)
    torch.ge(random_bytes(x.shape), dropped, out=mask)
    return mask.mul_(256 / (256 - dropped))


class ByteDropout(nn.Dropout):
    """`nn.Dropout` on a processor, with p rounded to 256ths: 0.1 becomes 26/256. Other devices: as ever.

    x: any shape

    Returns the same shape.
    """

    def forward(self, x):
        dropped = round(256 * self.p)
        if not self.training or dropped in (0, 256) or x.device.type != "cpu":
            return super().forward(x)
        return x * byte_mask(x.detach(), dropped)


# --- Layer norm in one kernel -----------------------------------------------------------------------------


class FusedLayerNorm(LayerNorm):
    """`LayerNorm` by torch's one kernel instead of seven operations.

    x: (..., d_model)

    Returns (..., d_model).
    """

    def forward(self, x):
        return F.layer_norm(x, self.a.shape, self.a, self.b, self.eps)  # (..., d_model)


QUICK = {LayerNorm: FusedLayerNorm, nn.Dropout: ByteDropout}


def quick(model):
    """Let the modules of a model that have a quicker twin here be that twin. Returns the model.

    Parameters, buffers and their names stay as they are, so a checkpoint fits both.
    """
    for module in model.modules():
        module.__class__ = QUICK.get(type(module), type(module))
    return model


# --- Matrices in the order in which they are multiplied ---------------------------------------------------


class PackedLinear(nn.Module):
    """`nn.Linear` without a gradient, whose matrix lies in memory as the processor's products read it.

    Before a product the matrix library copies a matrix into blocks that suit the processor: for `nn.Linear`
    each time, as its weights may have changed, and here once.

    Takes and returns what `nn.Linear` does. Raises RuntimeError where torch has no such product.
    """

    def __init__(self, linear):
        super().__init__()
        self.bias = linear.bias
        self.blocks = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())

    def forward(self, x):
        return torch.ops.mkldnn._linear_pointwise(x, self.blocks, self.bias, "none", [], "")


def packed(model):
    """A copy of a model to decode with: every `nn.Linear` is packed. The copy shares all other weights.

    It must be made again when the weights change, and cannot be trained, saved or sent to another process.
    The operations are those that torch's compiler calls; where torch has none (another device or precision,
    another build), the model itself comes back.
    """
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    twin = copy.deepcopy(model, shared)
    layers = {name: m for name, m in twin.named_modules() if type(m) is nn.Linear}
    try:
        for name, linear in layers.items():
            ready = PackedLinear(linear)
            ready(linear.weight.detach()[:1])  # some builds say only now that they cannot
            twin.set_submodule(name, ready)
    except (AttributeError, RuntimeError):
        return model
    return twin


def arg_max(scores):
    """`scores.argmax(-1)`: on a CPU by NumPy, which finds it in a tenth of torch's time.

    scores: (n, vocab)

    Returns (n,), the first of equally high ones.
    """
    if scores.device.type != "cpu":
        return scores.argmax(-1)
    exact = torch.promote_types(scores.dtype, torch.float32)  # NumPy has no bfloat16
    return torch.from_numpy(scores.detach().to(exact).numpy().argmax(-1))


# --- Cross-entropy without a matrix of probabilities ------------------------------------------------------


class LinearCrossEntropy(torch.autograd.Function):
    """Scores, log-softmax, smoothed cross-entropy and all their gradients, some rows at a time.

    The plain way writes the scores, their softmax and two gradients, four matrices of n × vocab. The gradient
    is known as soon as the softmax is, p − q, and is written over the scores at once.

    torch's `F.linear_cross_entropy` (2.13) works in pieces only without smoothing; with it, a warning says
    that `options` are ignored, and the plain way is taken.
    """

    @staticmethod
    def forward(ctx, x, weight, bias, target, smoothing, rows, learn):
        n, vocab = len(target), len(weight)
        x = F.pad(x, (0, 0, 0, -n % 256))  # a few heights only: the matrix library prepares for each
        scores = x @ weight.t()
        loss = torch.zeros((), dtype=torch.promote_types(x.dtype, torch.float32), device=x.device)
        bias = bias.to(loss.dtype)
        for i in range(0, n, rows):
            part, y = scores[i : min(i + rows, n)], target[i : i + rows, None]
            log_p = (part + bias).log_softmax(-1)
            shared = smoothing / vocab * log_p.sum() if smoothing else 0.0  # a log p may be −∞: 0 · ∞ is nan
            loss -= (1 - smoothing) * log_p.gather(1, y).sum() + shared
            if learn:
                gradient = log_p.exp_().sub_(smoothing / vocab)
                part.copy_(gradient.scatter_add_(1, y, gradient.new_full(y.shape, smoothing - 1)))
        if learn:
            ctx.save_for_backward((scores @ weight)[:n], scores.t() @ x, scores.sum(0))
        return loss

    @staticmethod
    def backward(ctx, outer):
        x, weight, bias = ctx.saved_tensors
        return x * outer, weight * outer, bias * outer, None, None, None, None


def linear_cross_entropy(x, weight, bias, target, smoothing=0.0, rows=None):
    """The sum of F.cross_entropy(F.linear(x, weight, bias), target, label_smoothing=smoothing), in one go.

    x: (n, d_model)
    weight: (vocab, d_model)
    bias: (vocab,)
    target: (n,), ids of real tokens only
    rows: how many rows are worked on at a time; if it is not given, so many as stay in a processor's cache,
        and on a GPU, which wants large pieces, 4,096

    Returns a number, in float32 at least. It can be differentiated once.
    Raises ValueError for a smoothing below 0, or 1 and above.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"Smoothing must be at least 0 and below 1; got {smoothing}.")
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weight, bias = x.to(dtype), weight.to(dtype), bias.to(dtype)
    rows = rows or (64 if x.device.type == "cpu" else 4096)
    learn = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (x, weight, bias))
    return LinearCrossEntropy.apply(x, weight, bias, target, smoothing, rows, learn)
