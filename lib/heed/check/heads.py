"""Checks of chapter 08, multi-head attention."""

import math

import torch

from heed.attention import MultiHeadAttention, attention, merge_heads, split_heads
from heed.check import Refusing, exercise, expect, expect_close, without

B, N_Q, N_K, D, H = 2, 5, 7, 12, 3
D_K = D // H


def drawn(*shapes):
    """Random tensors of these shapes."""
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


def joined(mixtures):
    """Heads (b, h, n_q, d_k) side by side: (b, n_q, d_model)."""
    return torch.cat(mixtures.unbind(1), dim=-1)


def slips(q, k, v, h, mask=None):
    """The heads of projected q, k, v side by side, after a slip; by what the reader is told then."""
    d_model, d_k = q.shape[-1], q.shape[-1] // h
    Q, K, V = (split_heads(x, h) for x in (q, k, v))
    cut = [x.view(len(x), h, -1, d_k) for x in (q, k, v)]
    strided = [x.unflatten(-1, (d_k, h)).permute(0, 3, 1, 2) for x in (q, k, v)]
    hidden = ~(torch.ones(1, 1, dtype=torch.bool) if mask is None else mask)

    def mixed(root, axis=-1):
        """With another divisor of the scores, or with a softmax along another axis."""
        scores = (Q @ K.mT / root).masked_fill(hidden, -math.inf)
        return joined(scores.softmax(axis) @ V)

    return {
        "The heads are cut by a view alone: make (b, n, h, d_k) first, and then move the heads forward.":
            joined(attention(*cut, mask)[0]),
        "The heads are cut and merged by a view alone, so a head holds a part of the sentence: cut into "
        "(b, n, h, d_k), and transpose.":
            attention(*cut, mask)[0].reshape(q.shape),
        "The heads are not transposed back before they are merged.":
            attention(Q, K, V, mask)[0].reshape(q.shape),
        "Each token is cut into d_k pieces of h entries: the heads are the third axis, (b, n, h, d_k).":
            joined(attention(*strided, mask)[0]),
        "Each head takes every h-th entry of a token: the heads are the third axis, (b, n, h, d_k).":
            attention(*strided, mask)[0].permute(0, 2, 3, 1).flatten(2),
        "The scores are divided by √d_model; each head is d_k = d_model / h wide.":
            mixed(math.sqrt(d_model)),
        "The scores are divided by d_k; its root is meant, √d_k.": mixed(d_k),
        "The scores are not scaled: divide them by √d_k.": mixed(1.0),
        "For each key the weights of all queries sum to one; they should sum to one for each query.":
            mixed(math.sqrt(d_k), axis=-2),
        "The weights of all heads sum to one together: the softmax belongs on the axis of the keys.":
            mixed(math.sqrt(d_k), axis=1),
        "This is one head as wide as the model.":
            attention(q[:, None], k[:, None], v[:, None], mask)[0].flatten(0, 1),
        "Keys and values are interchanged: queries meet keys, and values are mixed.":
            joined(attention(Q, V, K, mask)[0]),
    }  # fmt: skip


@exercise
@without(
    *(split_heads, merge_heads, attention, MultiHeadAttention.forward, "by_loop"),
    torchs=("attention",),
    sentence="`{}` does it: write it yourself, with `softmax` and `@`.",
)
def many_heads(yours):
    """split, attend in each head, merge, join"""
    q, k, v = drawn((B, N_Q, D), (B, N_K, D), (B, N_K, D))
    W_q, W_k, W_v, W_o = drawn(*[(D, D)] * 4)
    given = q @ W_q.T, k @ W_k.T, v @ W_v.T
    right = attention(*(split_heads(x, H) for x in given))[0]
    untransposed = attention(*(split_heads(x, H) for x in (q @ W_q, k @ W_k, v @ W_v)))[0]
    expect_close(
        yours(q, k, v, W_q, W_k, W_v, W_o, H),
        joined(right) @ W_o.T,
        "the output",
        typical={told: heads @ W_o.T for told, heads in slips(*given, H).items()}
        | {
            "The heads are not joined: W_o is missing.": joined(right),
            "The tokens are multiplied as x @ W; here every W is applied as x @ W.T.":
                joined(untransposed) @ W_o,
            "W_q, W_k and W_v are applied as x @ W; here every W is applied as x @ W.T.":
                joined(untransposed) @ W_o.T,
            "W_o is applied as x @ W_o; here every W is applied as x @ W.T.": joined(right) @ W_o,
            "The heads are summed; put them side by side, and apply W_o.":
                right.sum(1).repeat(1, 1, H) @ W_o.T,
        },
    )  # fmt: skip
    few, many = (calls(yours, q[:b], k[:b], v[:b], W_q, W_k, W_v, W_o, h) for b, h in ((1, 2), (B, 6)))
    expect(
        few == many,
        f"The output is right, but {few} of torch's functions run for one sentence with two heads, {many} "
        f"for {B} sentences with six: there is a loop. Make the heads an axis, (b, h, n, d_k).",
    )


def calls(yours, *given):
    """How many of torch's functions run in this call of yours."""
    names = []
    with Refusing(look=lambda name, arguments, result: names.append(name)):
        yours(*given)
    return len(names)


@exercise
def importance_of_heads(yours):
    """the mean over lists of the size of each gate's derivative"""
    n_lists, n_heads = 7, 3
    slopes, curve = drawn((n_lists, n_heads), (n_lists, n_heads))
    slopes[:, 0] -= slopes[:, 0].mean()  # derivatives of both signs cancel

    def losses(gates):
        expect(
            isinstance(gates, torch.Tensor) and tuple(gates.shape) == (n_lists, n_heads),
            f"`losses` takes gates of shape ({n_lists}, {n_heads}), one row for each list; it was given "
            f"{tuple(gates.shape) if isinstance(gates, torch.Tensor) else type(gates).__name__}.",
        )
        gates = gates.double()
        return (slopes * gates + curve * (gates - 1) ** 2).sum(-1)

    closed = curve - slopes  # what closing one gate adds to each list's loss
    at_zero = slopes - 2 * curve
    result = yours(losses, n_lists, n_heads)
    if isinstance(result, torch.Tensor):
        result = result.detach().double()
    expect_close(
        result,
        slopes.abs().mean(0),
        "the importance",
        typical={
            "The mean is taken before the absolute value, so derivatives of opposite signs cancel.":
                slopes.mean(0).abs(),
            "The absolute value is missing.": slopes.mean(0),
            "This is the sum over the lists; take the mean.": slopes.abs().sum(0),
            "These are the derivatives of the mean loss, summed: they are n_lists times too small.":
                slopes.abs().mean(0) / n_lists,
            "This is the mean over the heads; take it over the lists.": slopes.abs().mean(1),
            "These are the derivatives of each list: take the mean over the lists.": slopes.abs(),
            "The derivatives are taken at gates of 0; the model runs at gates of 1.": at_zero.abs().mean(0),
            "This is how much the loss changes when a gate is closed; (8.6) asks for the derivative at 1.":
                closed.abs().mean(0),
            "The derivatives are squared; take their absolute value.": slopes.square().mean(0),
        },
    )  # fmt: skip


def by_stride_alone(name, arguments, result):
    """No other function may make a tensor. (Of a copy the check has more to say.)"""
    made = result if isinstance(result, list | tuple) else [result]
    other = name not in ("as_strided", "contiguous", "clone") and any(map(torch.is_tensor, made))
    expect(not other, f"Use `as_strided` alone: this calls `{name}`.")


@exercise
@without(look=by_stride_alone)
def heads_by_stride(yours):
    """the heads are cut by strides alone"""
    for b, n, h, d_k in ((2, 5, 3, 4), (3, 2, 5, 7), (1, 4, 1, 3)):
        d = h * d_k
        x = torch.arange(b * n * d, dtype=torch.float64).view(b, n, d)
        result = yours(x, h)
        expect(
            not isinstance(result, torch.Tensor)
            or result.untyped_storage().data_ptr() == yours.given[0].untyped_storage().data_ptr(),
            "This is a copy: the result should share the storage of x.",
        )

        def laid(shape, strides, x=x):
            last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
            return x.as_strided(shape, strides) if last < x.numel() else torch.zeros(())

        true = split_heads(x, h)
        typical = {
            "A step to the next head goes n * d_k numbers on: that is a view without a transpose.":
                laid((b, h, n, d_k), (n * d, n * d_k, d_k, 1)),
            "The axes are (b, n, h, d_k); the heads should come before the tokens.":
                laid((b, n, h, d_k), (n * d, d, d_k, 1)),
            "The entries of a head lie h numbers apart; they should lie next to each other.":
                laid((b, h, n, d_k), (n * d, 1, d, h)),
            "Every sentence is the first one: the stride of the batch axis is n * d_model.":
                laid((b, h, n, d_k), (0, d_k, d, 1)),
            "All heads are the first one: the stride of the heads is d_k.":
                laid((b, h, n, d_k), (n * d, 0, d, 1)),
            "The strides of the heads and of the tokens are interchanged.":
                laid((b, h, n, d_k), (n * d, d, d_k, 1)),
            "The next head lies h numbers further on; it should lie d_k further on.":
                laid((b, h, n, d_k), (n * d, h, d, 1)),
            "The next head lies one number further on; it should lie d_k further on.":
                laid((b, h, n, d_k), (n * d, 1, d, 1)),
        }  # fmt: skip
        typical = {sentence: wrong for sentence, wrong in typical.items() if not wrong.equal(true)}
        expect_close(result, true, "the result", typical)


@exercise
def parameters_of(yours):
    """the parameters of a layer with heads of any width, keys and values shared or not"""
    cases = [
        (d, h, d_k, kv)
        for d in (12, 32)
        for h in (1, 4, 6)
        for d_k in (3, 8)
        for kv in {1, 2, h}
        if h % kv == 0
    ]
    given = {case: yours(*case) for case in cases}
    true = {case: count(*case) for case in cases}
    typical = {
        "The biases of the four projections are missing.": lambda d, h, w, kv: 2 * d * h * w + 2 * d * kv * w,
        "The bias of W_o has d_model entries, as many as it returns.":
            lambda d, h, w, kv: count(d, h, w, kv) - d + h * w,
        "W_o is missing: it takes n_heads * d_k entries to d_model.":
            lambda d, h, w, kv: count(d, h, w, kv) - h * w * d - d,
        "This counts one projection of keys or of values; there are two.":
            lambda d, h, w, kv: count(d, h, w, kv) - kv * w * (d + 1),
        "There are only n_kv_heads heads of keys and of values.": lambda d, h, w, kv: count(d, h, w, h),
        "There is more than one head of keys and of values: n_kv_heads of them.":
            lambda d, h, w, kv: count(d, h, w, 1),
        "The width of the heads is d_k, which need not be d_model / n_heads.":
            lambda d, h, w, kv: 2 * d * d + 2 * d + 2 * (d + 1) * d * kv // h,
        "W_q, too, has n_heads heads: n_heads * d_k rows.":
            lambda d, h, w, kv: count(d, h, w, kv) - (h - kv) * w * (d + 1),
    }  # fmt: skip
    for sentence, wrong in typical.items():
        expect(any(given[case] != wrong(*case) for case in cases), sentence)
    for (d, h, w, kv), number in true.items():
        mine = given[d, h, w, kv]
        expect(
            mine == number,
            f"d_model={d}, n_heads={h}, d_k={w}, n_kv_heads={kv}: there are {number} parameters, and yours "
            f"says {mine}.",
        )


def count(d_model, n_heads, d_k, n_kv_heads):
    """The parameters of W_q, W_k, W_v and W_o, with biases."""
    queries = (d_model + 1) * n_heads * d_k
    keys = values = (d_model + 1) * n_kv_heads * d_k
    return queries + keys + values + (n_heads * d_k + 1) * d_model
