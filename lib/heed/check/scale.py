"""Checks of chapter 17, attention at scale."""

import math

import torch
from torch.nn import functional as F

from heed.attention import attention, causal_mask
from heed.check import Refusing, exercise, expect, expect_close, expect_shape, without
from heed.scale import linear_attention, linear_recurrent, online_softmax, tiled_attention

N_Q, D_K, D_V = 5, 3, 2
IT_IS_DONE = "`{}` does it: write it yourself, with `exp` and `@`."


def drawn(*shapes):
    """Random tensors of these shapes."""
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


def read(scores, v):
    """The state m, total, mixed of a softmax that has read these scores (n_q, n) and values (n, d_v)."""
    if scores.shape[1] == 0:
        empty = scores.new_zeros(len(scores), 1)
        return empty - math.inf, empty, empty.expand(-1, v.shape[1])
    m = scores.amax(dim=1, keepdim=True)
    weights = (scores - m).exp()
    return m, weights.sum(dim=1, keepdim=True), weights @ v


def joined_without(a, b):
    """Sums added as they are, at the larger m."""
    return torch.maximum(a[0], b[0]), a[1] + b[1], a[2] + b[2]


def joined_by(a, b, sign):
    """Sums multiplied by the wrong factor, or added at m = 0."""
    m = torch.maximum(a[0], b[0])
    if sign == 0:
        factors = a[0].exp(), b[0].exp()
    else:
        factors = (m - a[0]).exp(), (m - b[0]).exp()
    return m, *(factors[0] * x + factors[1] * y for x, y in zip(a[1:], b[1:], strict=True))


@exercise
@without(online_softmax)
def join(yours):
    """two halves, in any cut and also where nothing was read, make the whole"""
    scores, v = drawn((N_Q, 12), (12, D_V))
    scores = 4 * scores
    whole = read(scores, v)
    a, b = read(scores[:, :7], v[:7]), read(scores[:, 7:], v[7:])
    names = "m", "total", "mixed"
    state = yours(a, b)
    expect(isinstance(state, tuple | list) and len(state) == 3, "Return three tensors: m, total and mixed.")
    slips = {
        "The sums are added as they are. Each belongs to its own m: shrink it to the new one.":
            joined_without(a, b),
        "The factor is upside down: e^(m − m'), with the old m first, is at most 1.": joined_by(a, b, 1),
        "The sums are brought to m = 0, and the new m says otherwise.": joined_by(a, b, 0),
        "A mean of both halves gives each the same part, whatever it weighs.":
            (whole[0], (a[1] + b[1]) / 2, (a[2] + b[2]) / 2),
    }  # fmt: skip
    for sentence, slip in slips.items():
        both = zip(state, slip, strict=True)
        same = [isinstance(x, torch.Tensor) and x.shape == y.shape for x, y in both]
        sums = zip(state[1:], slip[1:], strict=True)
        expect(not (all(same) and all(torch.allclose(x, y) for x, y in sums)), sentence)
    for name, x, true in zip(names, state, whole, strict=True):
        expect_close(x, true, name)
    large = [(m + 5000.0, total, mixed) for m, total, mixed in (a, b)]
    for name, x, true in zip(names, yours(*large), (whole[0] + 5000.0, *whole[1:]), strict=True):
        expect(isinstance(x, torch.Tensor) and x.isfinite().all(),
               f"With scores of about 5,000 {name} overflows: form m − m' before you exponentiate.")
        expect_close(x, true, f"with scores of about 5,000, {name}")
    nothing = read(scores[:, :0], v[:0])
    for pair, true, what in (
        ((whole, nothing), whole, "the second has read nothing"),
        ((nothing, whole), whole, "the first has read nothing"),
        ((nothing, nothing), nothing, "both have read nothing"),
    ):
        for name, x, right in zip(names, yours(*pair), true, strict=True):
            expect_shape(x, right.shape, name)
            expect(not x.isnan().any(), f"Where {what}, {name} is nan: −∞ − (−∞) is not a number.")
            expect_close(x, right, f"where {what}, {name}")


def seen(n, size, kind):
    """Masks of causal attention, after a slip."""
    i, j = torch.arange(n)[:, None], torch.arange(n)
    if kind == "in the tile":
        return i % size >= j % size
    return {"all": (i >= j) | True, "future": j >= i, "strict": j < i}[kind]


@exercise
@without(
    *(attention, tiled_attention, "attend", "tiles"),
    torchs=("scaled_dot_product", "softmax"),
    sentence=IT_IS_DONE,
)
def causal_tiles(yours):
    """causal attention, tile by tile, with none above the diagonal and no table"""
    n, size = 37, 4
    q, k, v = drawn((n, D_K), (n, D_K), (n, D_V))
    q = 3 * q

    def masked(kind):
        scores = (q @ k.T / math.sqrt(D_K)).masked_fill(~seen(n, size, kind), -math.inf)
        return scores.softmax(dim=-1) @ v

    true = attention(q, k, v, causal_mask(n))[0]
    largest, products = [0], []

    def look(name, arguments, result):
        if isinstance(result, torch.Tensor):
            largest.append(result.numel())
        if "matmul" in name or name in ("mm", "einsum"):
            products.append(name)

    with Refusing(look=look):
        z = yours(q, k, v, size)
    expect(isinstance(z, torch.Tensor), f"Return a tensor; this is of type {type(z).__name__}.")
    expect(
        not z.isnan().any(),
        "Some rows are nan. A query sees itself, so none is without a key; or is −∞ subtracted from −∞?",
    )
    expect_close(
        z,
        true,
        "the mixtures",
        typical={
            "Every query sees all keys: the mask is missing.": masked("all"),
            "Queries look into the future: query i sees the keys j ≤ i.": masked("future"),
            "Every tile is masked as if it stood on the diagonal: compare positions in the sequence.":
                masked("in the tile"),
        },
    )  # fmt: skip
    expect(
        max(largest) <= n * D_K,
        f"One of your tensors has {max(largest)} numbers: with n = {n} that is a table, or a row of tiles. "
        f"Hold a tile of {size} × {size}, and what belongs to the queries or keys.",
    )
    tiles = -(-n // size)
    expect(
        len(products) <= tiles * (tiles + 1) + 2,
        f"The mixtures are right, and {len(products)} products were formed. {tiles * (tiles + 1)} are "
        "enough, two a tile: leave out the tiles above the diagonal.",
    )
    expect_close(yours(1e3 * q, k, v, size), attention(1e3 * q, k, v, causal_mask(n))[0], "for large scores")


@exercise
def pooled(yours):
    """each group begins as the mean of the heads that it replaces"""
    h, g, d_model = 6, 2, 12
    (W,) = drawn((h * D_K, d_model))
    heads = W.unflatten(0, (g, h // g, D_K))
    expect_close(
        yours(W, h, g),
        heads.mean(dim=1).flatten(0, 1),
        "the matrix",
        typical={
            "The heads of a group are added; take their mean.": heads.sum(dim=1).flatten(0, 1),
            "Group 1 takes every second head. Its heads stand one after another.":
                W.unflatten(0, (h // g, g, D_K)).mean(dim=0).flatten(0, 1),
            "Each group keeps the first of its heads and drops the others.": heads[:, 0].flatten(0, 1),
            "Neighbouring rows are pooled, and they are entries of one head. Give the heads an axis first.":
                W.unflatten(0, (g * D_K, h // g)).mean(dim=1),
            "The columns are pooled, and they are the model's own entries.":
                W.unflatten(1, (-1, h // g)).mean(dim=-1),
        },
    )  # fmt: skip
    for groups in (1, 3, 6):
        expect_close(
            yours(W, h, groups),
            W.unflatten(0, (groups, h // groups, D_K)).mean(dim=1).flatten(0, 1),
            f"the matrix for {groups} groups",
        )


def linear(q, k, v, numerator, denominator):
    """Linear attention with one mask above the line and another one below it."""
    weights = q @ k.T
    return (weights * numerator) @ v / (weights * denominator).sum(dim=-1, keepdim=True)


@exercise
@without(*(linear_attention, linear_recurrent), sentence=IT_IS_DONE)
def chunks(yours):
    """causal linear attention, a chunk at a time, with a state between chunks"""
    n, size = 37, 5
    q, k, v = drawn((n, D_K), (n, D_K), (n, D_V))
    q, k = F.elu(q) + 1, F.elu(k) + 1
    i, j = torch.arange(n)[:, None], torch.arange(n)
    causal, whole, same = i >= j, i // size >= j // size, i // size == j // size
    steps, largest = [], [0]

    def look(name, arguments, result):
        steps.append(name)
        if isinstance(result, torch.Tensor):
            largest.append(result.numel())

    with Refusing(look=look):
        z = yours(q, k, v, size)
    expect_close(
        z,
        linear(q, k, v, causal, causal),
        "the mixtures",
        typical={
            "Queries see their whole chunk, the future included. Mask the table within it, and add the chunk "
            "to the state afterwards.": linear(q, k, v, whole, whole),
            "Every chunk begins anew: the state of the earlier ones is missing.":
                linear(q, k, v, same & causal, same & causal),
            "A query does not see its own chunk: add the masked table within it.":
                linear(q, k, v, causal & ~same, causal & ~same),
            "The denominator is that of the chunk alone: the sum of earlier keys belongs there, too.":
                linear(q, k, v, causal, same & causal),
            "Numerator and denominator are divided part by part. Add both parts of each, then divide.":
                parts(q, k, v, causal & same, causal & ~same),
            "The own chunk is counted twice: add it to the state after its queries have been answered.":
                linear(q, k, v, causal.double() + (same & whole), causal.double() + (same & whole)),
            "Only the last chunk is in the state: add to it.":
                linear(q, k, v, near(i, j, size) & causal, near(i, j, size) & causal),
        },
    )  # fmt: skip
    expect(
        max(largest) <= n * D_K,
        f"One of your tensors has {max(largest)} numbers: that is the table. Hold {size} × {size} of it.",
    )
    with Refusing(look=look):
        steps.clear()
        yours(q, k, v, n)
        once = len(steps)
        steps.clear()
        yours(q, k, v, 1)
    expect(
        len(steps) > 2 * once or once < 2,
        "As many steps are taken for one chunk as for many: the loop goes token by token.",
    )


def near(i, j, size):
    """Whether key j is in the chunk of query i or in the one before it."""
    return i // size - j // size <= 1


def parts(q, k, v, inside, before):
    """The sum of two quotients, where the first chunk has one only."""
    return linear(q, k, v, inside, inside) + linear(q, k, v, before, before).nan_to_num(0.0)
