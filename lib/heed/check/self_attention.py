"""Checks of chapter 06, self-attention."""

import math

import torch

from heed.attention import SelfAttention, attention, dependence
from heed.check import PRODUCTS, exercise, expect, expect_close, expect_shape, without
from heed.tasks import recall


def drawn(*shapes):
    """Random tensors of these shapes."""
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


def one_vector(name, arguments, result):
    """No product of two matrices, and no tensor with an entry for each pair and each dimension."""

    def axes(x):
        return sum(n > 1 for n in x.shape) if isinstance(x, torch.Tensor) else 0

    matrices = [x for x in arguments if axes(x) > 1]
    at_once = axes(result) > 2 or (name in PRODUCTS and len(matrices) > 1)
    expect(not at_once, f"`{name}` takes all tokens at once here: one vector at a time, in two loops.")


@exercise
@without(torchs=("softmax", "attention"), look=one_vector)
def one_at_a_time(yours):
    """every token asks all tokens, and mixes their values"""
    x, W_q, W_k, W_v = drawn((5, 7), (3, 7), (3, 7), (2, 7))
    q, k, v = x @ W_q.T, x @ W_k.T, x @ W_v.T
    scores = q @ k.T
    alpha, own = (scores / math.sqrt(3)).softmax(-1), torch.eye(5, dtype=torch.bool)
    expect_close(
        yours(x, W_q, W_k, W_v),
        alpha @ v,
        "the output",
        typical={
            "The scores are not scaled: divide them by √d_k.": scores.softmax(-1) @ v,
            "The scores are divided by √d_model; d_k is the number of rows of W_q.":
                (scores / math.sqrt(7)).softmax(-1) @ v,
            "The scores are divided by d_k; it is its square root.": (scores / 3).softmax(-1) @ v,
            "Queries and keys are interchanged: z_i needs the scores of query i for all keys.":
                (scores.T / math.sqrt(3)).softmax(-1) @ v,
            "For each key the weights of all queries sum to one; they should sum to one for each query.":
                (scores / math.sqrt(3)).softmax(0) @ v,
            "The scores themselves are the weights here: take exp, and divide by the sum.":
                scores / math.sqrt(3) @ v,
            "The exponentials are not divided by their sum.": (scores / math.sqrt(3)).exp() @ v,
            "The tokens are mixed as they are: project them with W_v first.": alpha @ x,
            "A token is among its own keys: do not leave out j = i.":
                (scores / math.sqrt(3)).masked_fill(own, -torch.inf).softmax(-1) @ v,
            "These are the weights: mix the values with them.": alpha,
        },
    )  # fmt: skip


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
            "The scores are QᵀK, and the softmax runs down the columns: so keys ask and queries answer.":
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


LENGTHS = 1, 2, 3, 4, 7, 8, 12, 63, 64, 1000
STACKS = [(n, k, growth) for n in LENGTHS for k in (2, 3, 5) for growth in (1, 2, 3, 5) if growth <= k]


@exercise
def layers_needed(yours):
    """the smallest number of layers whose view reaches the first token"""
    true = {case: needed(*case) for case in STACKS}
    given = {case: yours(*case) for case in STACKS}
    expect(
        all(isinstance(n, int) or float(n).is_integer() for n in given.values()),
        "The number of layers should be a whole number.",
    )
    typical = {
        "A layer of width k adds k − 1 tokens to the view, not k: it sees the token itself, too.":
            lambda n, k, g: needed(n, k + 1, g),
        "The view must reach n − 1 tokens to the left, not n: the last token is in it from the beginning.":
            lambda n, k, g: needed(n + 1, k, g),
        "All layers count as undilated: layer l adds (k − 1) · growth ** l.": lambda n, k, g: needed(n, k, 1),
        "The dilation of the first layer is growth ** 0 = 1.": lambda n, k, g: needed(n, k, g, g),
        "This is one layer less than it takes: round up.": lambda n, k, g: max(0, needed(n, k, g) - 1),
        "This is one layer more than it takes.": lambda n, k, g: needed(n, k, g) + 1,
    }  # fmt: skip
    for sentence, wrong in typical.items():
        expect(any(given[case] != wrong(*case) for case in STACKS), sentence)
    for (n, k, growth), layers in true.items():
        mine = given[n, k, growth]
        expect(mine == layers, f"{n=}, {k=}, {growth=}: it takes {layers} layers, and yours says {mine}.")


def needed(n, k, growth, dilation=1):
    """The number of layers until the last of n outputs sees the first input, for a growth of at most k."""
    view, layers = 1, 0
    while view < n:
        view, layers, dilation = view + (k - 1) * dilation, layers + 1, dilation * growth
    return layers


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
