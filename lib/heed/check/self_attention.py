"""Checks of chapter 06, self-attention."""

import math
import sys
import weakref
from collections import deque
from itertools import product

import torch

from heed.attention import SelfAttention, attention, dependence
from heed.check import exercise, expect, expect_close, expect_shape, without
from heed.tasks import recall


def drawn(*shapes):
    """Random tensors of these shapes."""
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


LIVE = []  # weak references to the tensors that an answer has made and not yet dropped


def in_passing(name, arguments, result):
    """Of a long stream an answer keeps a few small tensors at a time."""
    if isinstance(result, torch.Tensor):
        LIVE[:] = [reference for reference in LIVE if reference() is not None]
        expect(len(LIVE) < 40 and result.numel() < 40, KEPT)
        LIVE.append(weakref.ref(result))


KEPT = (
    "What has passed is kept here: when the next pair comes, no more than the largest score so far and two "
    "sums may be left of all pairs before it."
)


def passing(keys, values):
    """Hand out pairs, one at a time, and look at what the reader's code holds of those before."""
    LIVE.clear()
    for k, v in zip([*keys], [*values], strict=True):
        asking = sys._getframe().f_back
        held = asking.f_locals.values() if asking else ()
        kinds = list | tuple | dict | set | deque | str
        expect(not any(isinstance(x, kinds) and len(repr(x)) > 2000 for x in held), KEPT)
        yield k.clone(), v.clone()


def running(scores, v, total=True, mixed=True):
    """The sums of a single pass, each shrunk at a new largest score or not."""
    largest, sum_, mixture = scores[:1].squeeze(), torch.zeros(()), torch.zeros_like(v[0])
    for s, v_j in zip(scores, v, strict=True):
        shrink = (largest - torch.maximum(largest, s)).exp()
        largest = torch.maximum(largest, s)
        sum_ = sum_ * (shrink if total else 1) + (s - largest).exp()
        mixture = mixture * (shrink if mixed else 1) + (s - largest).exp() * v_j
    return mixture / sum_


@exercise
@without(library=True, torchs=("softmax", "attention", "logsumexp"), look=in_passing)
def one_pass(yours):
    """attention in a single pass, with scores up to a thousand and no pair kept"""
    q, k, v = drawn((5,), (200, 5), (200, 3))
    k *= 2
    scores = k @ q
    s = scores / math.sqrt(5)
    weights = (s - s.max()).exp()
    expect_close(
        yours(q, passing(k, v)),
        s.softmax(-1) @ v,
        "the mixture",
        typical={
            "The scores are not scaled: divide them by √d_k.": scores.softmax(-1) @ v,
            "The scores are divided by d_k; it is its square root.": (scores / 5).softmax(-1) @ v,
            "At a new largest score both sums have to shrink: they were made with the old one.":
                running(s, v, False, False),
            "At a new largest score the sum of the weights has to shrink, too, not the mixture alone.":
                running(s, v, False, True),
            "At a new largest score the mixture has to shrink, too, not the sum of the weights alone.":
                running(s, v, True, False),
            "The mixture is not divided by the sum of the weights.": weights @ v,
            "The mixture is not divided by the sum of the weights. ": s.exp() @ v,
            "This is the plain mean of the values.": v.mean(0),
            "Only the value of the largest score comes back: the others have their weights, too.":
                v[s.argmax()],
            "Only the last pair counts here.": v[-1],
        },
    )  # fmt: skip
    for sentence, add in (
        ("Scores may reach 1,000, and e to the 1,000th is no number any more: subtract the largest score so "
         "far before `exp`.", 990.0),
        ("Where all scores are near -1,000, all weights became 0: start from the first score, or from -inf, "
         "not from 0.", -1010.0),
    ):  # fmt: skip
        lifted = k + (add * math.sqrt(5) / (q @ q)) * q  # every score grows by `add`
        result = yours(q, passing(lifted, v))
        expect(isinstance(result, torch.Tensor) and result.isfinite().all(), sentence)
        expect_close(result, (s + add).softmax(-1) @ v, f"the mixture, with {add:g} added to all scores,")
    add = torch.linspace(-990, 990, 200)  # the first score is the smallest, the last one the largest
    rising = k + (add[:, None] * math.sqrt(5) / (q @ q)) * q
    result = yours(q, passing(rising, v))
    expect(isinstance(result, torch.Tensor) and result.isfinite().all(),
           "Scores may rise from -1,000 to 1,000: subtract the largest so far, not the first one for ever.")
    expect_close(result, (s + add).softmax(-1) @ v, "the mixture, with scores that rise,")
    for n in (1, 2):
        expect_close(yours(q, passing(k[:n], v[:n])), s[:n].softmax(-1) @ v[:n], f"the mixture of {n}")


@exercise
@without(
    attention,
    SelfAttention.forward,
    "by_rows",
    "by_columns",
    torchs=("attention",),
    sentence="`{}` is what you are to write: projections, scores, softmax and mixture.",
)
def one_matrix(yours):
    """from columns to columns, with one matrix for the three projections"""
    d_k, d_v = 3, 2
    I, W = drawn((7, 5), (2 * d_k + d_v, 7))
    Q, K, V = (W @ I).split([d_k, d_k, d_v])
    scale = math.sqrt(d_k)
    expect_close(
        yours(I, W, d_k),
        V @ (K.T @ Q / scale).softmax(0),
        "O",
        typical={
            "Each row of KᵀQ sums to one; the scores of one query stand in a column.":
                V @ (K.T @ Q / scale).softmax(1),
            "This is V times the softmax of QᵀK, where a row holds one query; take KᵀQ.":
                V @ (Q.T @ K / scale).softmax(1),
            "Keys ask and queries answer here: the scores of KᵀQ are meant, and W has the rows of W^Q before "
            "those of W^K.":
                V @ (Q.T @ K / scale).softmax(0),
            "The scores are not scaled: divide them by √d_k.": V @ (K.T @ Q).softmax(0),
            "The scores are scaled by the rows of W; d_k is the number of rows of W^Q alone.":
                V @ (K.T @ Q / math.sqrt(len(W))).softmax(0),
            "The tokens are rows here: return O as (d_v, n), a column a token.":
                (V @ (K.T @ Q / scale).softmax(0)).T,
        },
    )  # fmt: skip
    expect(
        tuple(yours(I, torch.cat([W, W[:2]]), d_k).shape) == (d_v + 2, 5),
        "With four rows for W^V the output should have four rows: d_v is what is left of W's rows.",
    )


STACKS = [
    (n, k, growth, layers)
    for n in (1, 5, 13, 40)
    for k in (2, 3)
    for growth in (1, 2, 3, 4, 5)
    for layers in (0, 1, 2, 3)
]


def view(n, k, growth, layers, first=0, wraps=False):
    """(n) bools: does the last of n outputs see this input? Each layer adds one of its k steps back."""
    steps = {0}
    for layer in range(first, first + layers):
        steps = {step + i * growth**layer for step in steps for i in range(k)}
    seen = torch.zeros(n, dtype=torch.bool)
    for step in steps:
        if step < n or wraps:
            seen[(n - 1 - step) % n] = True
    return seen


def filled(n, k, growth, layers):
    """The view without its holes: everything from the farthest step on."""
    farthest = sum((k - 1) * growth**layer for layer in range(layers))
    return torch.arange(n) >= n - 1 - farthest


def either(n, k, growth, layers):
    """What one layer sees or another, instead of what they see together."""
    seen = view(n, 1, 1, 0)
    for layer in range(layers):
        seen |= view(n, k, growth, 1, first=layer)
    return seen


@exercise
def seen_by_last(yours):
    """which inputs the last output sees, holes and all"""
    given = {case: yours(*case) for case in STACKS}
    for case, seen in given.items():
        expect_shape(seen, (case[0],), "the view")
        expect(seen.dtype == torch.bool, f"The view is {seen.dtype}; return True and False, torch.bool.")
    typical = {
        "The holes are filled here: a far input is seen, and a nearer one need not be.": filled,
        "The dilation of the first layer is growth ** 0 = 1.": lambda n, k, g, m: view(n, k, g, m, first=1),
        "A layer of width k takes k inputs, the token itself among them, so it goes k − 1 steps back.":
            lambda n, k, g, m: view(n, k + 1, g, m),
        "All layers count as undilated: layer l takes steps of growth ** l.":
            lambda n, k, g, m: view(n, k, 1, m),
        "Layers work one upon the other: a step of one is added to a step of each other.": either,
        "The order is reversed: the last entry belongs to the last input, which is always seen.":
            lambda *case: view(*case).flip(0),
        "This has one layer too few.": lambda n, k, g, m: view(n, k, g, max(0, m - 1)),
        "This has one layer too many.": lambda n, k, g, m: view(n, k, g, m + 1),
        "What lies before the first input is zeros; here it comes round to the end of the list.":
            lambda *case: view(*case, wraps=True),
    }  # fmt: skip
    for sentence, wrong in typical.items():
        expect(any(not torch.equal(given[case], wrong(*case)) for case in STACKS), sentence)
    for n, k, growth, layers in STACKS:
        true, mine = (
            x.nonzero().flatten().tolist() for x in (view(n, k, growth, layers), given[n, k, growth, layers])
        )
        expect(mine == true, f"{n=}, {k=}, {growth=}, {layers=}: it sees {true}, and yours says {mine}.")


def most_frequent(n):
    """How often, on average, the most frequent of n random digits occurs among them."""
    lists = list(product(range(10), repeat=n))
    return sum(max(map(digits.count, digits)) for digits in lists) / len(lists)


@exercise
def best_latest(yours):
    """how often the latest digit can be said at best, without any order"""
    sizes = 1, 2, 3, 4
    given = [yours(n) for n in sizes]
    expect(all(isinstance(g, int | float) for g in given), "The share should be a number, such as 0.55.")
    typical = {
        "The tokens are seen, though not their order: more than a blind guess is possible.": lambda n: 0.1,
        "That would be so if all n digits were different; they are random, and some are equal.":
            lambda n: 1 / n,
        "That is what one gets by saying the digit of any pair; the digit that occurs most often is more "
        "often the latest.":
            lambda n: 0.1 + 0.9 / n,
        "This is how often the most frequent digit occurs; divide by n.": most_frequent,
        "With n digits that are all told in order this would be so; here no one says which is the latest.":
            lambda n: 1,
    }  # fmt: skip
    for sentence, wrong in typical.items():
        expect(any(abs(g - wrong(n)) > 1e-6 for g, n in zip(given, sizes, strict=True)), sentence)
    for g, n in zip(given, sizes, strict=True):
        true = most_frequent(n) / n
        expect(abs(g - true) < 1e-6, f"With {n} pairs the best share is {true:.4f}, and yours says {g:.4f}.")


@exercise
@without(
    dependence,
    torch.autograd.functional.jacobian,
    torch.func.jacrev,
    torch.func.jacfwd,
    sentence="`{}` is what you are to write: call `torch.autograd.grad` once for each entry of the output.",
)
def my_dependence(yours):
    """the norm of each block of the Jacobian"""
    x, A, W = drawn((5, 3), (4, 5), (2, 3))
    W[1] = -W[0]  # the derivatives of the two entries cancel in a sum
    W[1, 0] += 1
    A[1, 2] = 0

    def f(x):
        return torch.tanh(A @ x @ W.T)

    x = x.requires_grad_()
    jacobian = torch.autograd.functional.jacobian(f, x)  # (4, 2, 5, 3)
    squares = jacobian.square()
    result = yours(f, x.detach())
    expect_close(
        result.detach() if isinstance(result, torch.Tensor) else result,
        dependence(f, x),
        "the dependence",
        typical={
            "This is the sum of squares: take the root.": squares.sum((1, 3)),
            "The derivatives of all entries are summed before they are squared, and cancel: call `grad` for "
            "one entry y[i, a] after the other.":
                jacobian.sum(1).square().sum(-1).sqrt(),
            "The norms of single entries are added; add the squares, and take one root at the end.":
                squares.sum(3).sqrt().sum(1),
            "These are sums of absolute values; the norm is the root of the sum of squares.":
                jacobian.abs().sum((1, 3)),
            "Rows and columns are interchanged: a row is an output.": squares.sum((1, 3)).sqrt().T,
            "Only the first entry of each output is used.": squares[:, 0].sum(-1).sqrt(),
            "Only the last entry of each output is used: add up over the entries.":
                squares[:, -1].sum(-1).sqrt(),
        },
    )  # fmt: skip


@exercise
def recall_by_hand(yours):
    """the last output is the digit that was asked for, whatever the length of the list"""
    given = yours()
    expect(isinstance(given, tuple | list) and len(given) == 3, "Return three tensors: W_q, W_k and W_v.")
    W_q, W_k, W_v = (torch.as_tensor(W).double() for W in given)
    for name, W in (("W_q", W_q), ("W_k", W_k), ("W_v", W_v)):
        expect(
            W.dim() != 2 or W.shape[0] != 43 or W.shape[1] == 43,
            f"{name} is transposed: it is applied as x @ {name}.T, so it has 43 columns, not 43 rows.",
        )
    d_k = W_q.shape[0]
    expect_shape(W_q, (d_k, 43), "W_q")
    expect_shape(W_k, (d_k, 43), "W_k")
    expect_shape(W_v, (10, 43), "W_v")
    for n_pairs in (8, 32, 2, 1):
        tokens, answers, distances = recall(300, n_pairs, torch.Generator().manual_seed(n_pairs))
        one_hot = torch.nn.functional.one_hot
        x = torch.cat([one_hot(tokens[..., 0], 32), one_hot(tokens[..., 1], 11)], dim=-1).double()
        z, weights = attention(x @ W_q.T, x @ W_k.T, x @ W_v.T)
        z, weights, row = z[:, -1], weights[:, -1], torch.arange(300)
        true, place = one_hot(answers, 10).double(), n_pairs - distances
        at, itself = weights[row, place], weights[:, -1]
        if ((z - true).abs() < 0.01).all():
            continue
        lists = f"with {n_pairs} pairs"
        expect(
            not (weights - weights[:, :1]).abs().max() < 1e-6,
            "All tokens get the same weight: the scores do not depend on the names.",
        )
        expect(
            not ((itself - at).abs() < 1e-6).all(),
            "The question looks at itself as much as at the right pair, for it has the same name: "
            "a blank must lower a key's score.",
        )
        expect(
            itself.mean() < 0.5,
            "The question looks at itself most of all: a blank must lower a key's score, for every query.",
        )
        expect(
            (at >= weights.amax(-1) - 1e-9).all(),
            f"{lists} the question does not look most at the pair that it asks for: "
            f"does the score depend on the name alone?",
        )
        share = at.min().item()
        expect(
            share > 0.99,
            f"The right pair has the largest weight, but {lists} it is only {share:.2f}: the scores must be "
            "larger, and remember that they are divided by √d_k.",
        )
        expect(
            False,
            f"{lists} the question looks at the right pair, but what comes back is not the digit's one-hot "
            "vector: look at W_v.",
        )


@exercise
def on_paper(yours):
    """Ben's key gets three fifths, and a fourth token takes its share from all others"""
    weights, mixture, later = yours()
    for value, true, what, typical in (
        (weights, [1 / 5, 3 / 5, 1 / 5], "the weights of Ben ?", {
            "The weights of *Ada ?*; the query of *Ben ?* is Ben's name.": [3 / 5, 1 / 5, 1 / 5],
            "The question itself has a key, and its score is 0, not −∞: e⁰ = 1.": [1 / 4, 3 / 4, 0],
            "These are the values of $e^s$; divide them by their sum.": [1, 3, 1],
        }),
        (mixture, 16 / 5, "the mixture of Ben ?", {
            "This is Ben's digit. The other tokens have weights above 0, and 7 and 0 are mixed in.": 3,
            "The question's own value is 0, and its weight of a fifth still counts in the sum.": 4,
            "The mean of the digits: the three weights are not equal.": 10 / 3,
        }),
        (later, 29 / 6, "what Ada ? gets with Cem in the list", {
            "As before, without Cem. His score is 0 for every query, and e⁰ is 1.": 24 / 5,
            "Cem has a weight, and his value is 5: it is in the sum, too.": 24 / 6,
            "The sum of the weights has grown as well: divide by 6.": 29 / 5,
        }),
    ):  # fmt: skip
        value, true = (torch.as_tensor(x, dtype=torch.float64) for x in (value, true))
        wrong = {key: torch.as_tensor(x, dtype=torch.float64) for key, x in typical.items()}
        expect_close(value, true, what, wrong)


@exercise
def asked_twice(yours):
    """two equal scores get equal weights, wherever their tokens stand and however large they are"""
    first, second, sharp = (float(number) for number in yours())
    last = {
        "The digit of the last pair: no score knows which pair came last.": 2,
        "The digit of the first pair: no score knows which pair came first.": 7,
    }
    for value, true, what, typical in (
        (first, 15 / 4, "(a) z_4", {
            "Four tokens share the weight: the question's own e⁰ = 1 is in the sum.": 30 / 7,
            "*Ben 3* has a weight, too: e⁰ = 1 of 8.": 27 / 7,
            "The mean of Ada's digits. The other two tokens have an eighth each.": 9 / 2,
            "*Ada ?* asks for both: each has the weight 3/8.": 24 / 6,
        } | last),
        (second, 15 / 4, "(a) z_4 with the digits exchanged", {
            "The mean of Ada's digits. The other two tokens have an eighth each.": 9 / 2,
            "The sum has the same terms as before, in another order.": 35 / 8,
        } | {sentence: 9 - digit for sentence, digit in last.items()}),
        (sharp, 9 / 2, "(b) z_4 with large scores", {
            "The scores for *Ben 3* and for the question are 0, and small beside the others.": 15 / 4,
            "All four weights equal: that is for scores times 0.": 3,
        } | last),
    ):  # fmt: skip
        wrong = {sentence: torch.tensor(float(number)).double() for sentence, number in typical.items()}
        expect_close(torch.tensor(value).double(), torch.tensor(true).double(), what, wrong)
