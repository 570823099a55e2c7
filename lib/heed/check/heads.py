"""Checks of chapter 08, multi-head attention."""

import math

import torch
from torch.nn import functional as F

from heed.attention import MultiHeadAttention, attention, merge_heads, split_heads
from heed.check import NotYet, Refusing, exercise, expect, expect_close, expect_shape, without

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
    *(split_heads, merge_heads, attention, MultiHeadAttention.forward),
    *("attend", "MultiHead.split", "MultiHead.forward"),
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


def worst_lists(m, n, count):
    """Lists of n digits with m marks: in each, all tokens without a mark hold one and the same digit.

    Returns digits and flags, (count, n) each, and the marked digits (count, m).
    """
    flags = torch.zeros(count, n, dtype=torch.long)
    flags[:, :m] = torch.arange(1, m + 1)
    flags = flags.gather(1, torch.rand(count, n, dtype=torch.float64).argsort(dim=-1))
    said = torch.randint(10, (count, m))
    others = torch.randint(10, (count, 1)).expand(count, n)
    table = torch.cat([torch.zeros_like(said[:, :1]), said], dim=-1)
    return torch.where(flags > 0, table.gather(1, flags), others), flags, said


def run_by_hand(query, W_q, W_k, W_v, W_o, m, digits, flags):
    """What a layer of m heads, each ten wide, says: weights (count, m, n) and logits (count, m, 10)."""
    k, v = (F.one_hot(x, 10 * m).double() @ W.T for x, W in ((flags, W_k), (digits, W_v)))
    q = (query @ W_q.T).expand(len(digits), 1, -1)
    z, weights = attention(*(split_heads(x, m) for x in (q, k, v)))
    return weights[:, :, 0], (merge_heads(z) @ W_o.T).view(-1, m, 10)


@exercise
def heads_by_hand(yours):
    """the marked digits in every list, and nothing was trained"""
    names = "query", "W_q", "W_k", "W_v", "W_o"
    for m in (2, 3):
        d, given = 10 * m, yours(m)
        five = isinstance(given, list | tuple) and len(given) == 5
        expect(five, "Return five tensors: the query, W_q, W_k, W_v, W_o.")
        for name, tensor in zip(names, given, strict=True):
            expect_shape(tensor, (d,) if name == "query" else (d, d), f"{name}, for m={m},")
            finite = f"{name} holds a number that is not finite; a large one is enough."
            expect(tensor.isfinite().all(), finite)
        given = [tensor.detach().double() for tensor in given]
        for n in (12, 50):
            digits, flags, said = worst_lists(m, n, 400)
            weights, logits = run_by_hand(*given, m, digits, flags)
            first, second = logits.topk(2, dim=-1).values.unbind(-1)
            right = (logits.argmax(-1) == said) & (first > second + 1e-9)
            if not right.all():
                share = right.double().mean().item()
                on = [[w[flags == mark].mean().item() for mark in range(m + 1)] for w in weights.unbind(1)]
                raise NotYet(what_is_lost(on, given[3], n, share))


def what_is_lost(on, W_v, n, share):
    """Why some digits are not said, in a sentence.

    on: for each head its mean weight on a token without a mark, on A, on B, …
    share: of the answers that are right, in lists of n digits
    """
    m, looks = len(on), [row.index(max(row)) for row in on]
    for i, row in enumerate(on):
        if max(row) - min(row) < 1e-9:
            return f"Head {i + 1} gives all tokens one weight: does the query meet the keys in its entries?"
        if looks[i] == 0:
            return f"Head {i + 1} looks at the tokens without a mark: entry 0 of a key means none, entry 1 A."
    for mark in range(1, m + 1):
        if mark not in looks:
            return f"No head looks at mark {'ABC'[mark - 1]}."
    values = (torch.eye(10 * m, dtype=torch.float64)[:10] @ W_v.T).view(10, m, 10)
    for i, rows in enumerate(values.unbind(1)):
        if torch.linalg.matrix_rank(rows - rows.mean(0)) < 9:
            return (
                f"Head {i + 1} finds its token, but its values do not tell the ten digits apart: every head "
                "needs a copy of the digit in its own ten entries."
            )
    low = min(row[mark] for row, mark in zip(on, looks, strict=True))
    if low < 0.5:
        return (
            f"In lists of {n} digits {share:.0%} of the answers are right: a marked token has the weight "
            f"{low:.2f}, and the others together outvote it. Mind √d_k."
        )
    return (
        "The heads look at the marks, and their values hold the digits. Does W_o bring the digit at A into "
        "the first ten entries, and is every W applied as x @ W.T?"
    )


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
            "This is how much the loss changes when a gate is closed; (8.5) asks for the derivative at 1.":
                closed.abs().mean(0),
            "The derivatives are squared; take their absolute value.": slopes.square().mean(0),
        },
    )  # fmt: skip


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


@exercise
def full_width(yours):
    """the narrow heads are full-width ones, whose spare entries are zero"""
    for h in (H, 2):
        x, y = drawn((B, N_Q, D), (B, N_K, D))
        narrow = drawn(*[(D, D)] * 4)
        given = yours(*narrow, h)
        expect(
            isinstance(given, list | tuple) and len(given) == 4,
            "Return four matrices: W_q, W_k, W_v, W_o.",
        )
        for name, W in zip(("W_q", "W_k", "W_v"), given, strict=False):
            expect_shape(W, (h * D, D), name)
        expect_shape(given[3], (D, h * D), "W_o")
        W_q, W_k, W_v, W_o = (W.double() for W in given)
        q, k, v = (split_heads(t @ W.T, h) for t, W in ((x, W_q), (y, W_k), (y, W_v)))
        result = merge_heads(attention(q, k, v)[0]) @ W_o.T

        def with_scores(factor, q=x @ narrow[0].T, k=y @ narrow[1].T, v=y @ narrow[2].T, W_o=narrow[3], h=h):
            heads = attention(*(split_heads(t, h) for t in (factor * q, k, v)))[0]
            return merge_heads(heads) @ W_o.T

        one_head = with_scores(1, h=1)
        expect_close(
            result,
            with_scores(1),
            "the output of the wide layer",
            typical={
                "The scores are √h times too small: the wide heads divide them by √d_model, and the narrow "
                "ones divided by √(d_model / h).": with_scores(h**-0.5),
                "The scores are √h times too large: the factor √h belongs to the queries or to the keys, and "
                "not to both.": with_scores(h**0.5),
                "The scores are h times too small: multiply by √h where you divide.": with_scores(1 / h),
                "The scores are h times too large: where does the factor come from?": with_scores(h),
                "Each wide head is the whole old layer as a single head: give it the rows of a narrow one.":
                    one_head,
                "Each wide head is the whole old layer as a single head, and the outputs are added up: give "
                "it the rows of a narrow one, and its columns of W_o.": h * one_head,
            },
        )  # fmt: skip


def count(d_model, n_heads, d_k, n_kv_heads):
    """The parameters of W_q, W_k, W_v and W_o, with biases."""
    queries = (d_model + 1) * n_heads * d_k
    keys = values = (d_model + 1) * n_kv_heads * d_k
    return queries + keys + values + (n_heads * d_k + 1) * d_model
