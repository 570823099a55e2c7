"""Checks of chapter 10, residuals and normalisation."""

import math
from itertools import combinations

import torch

from heed.check import AUTOGRAD, exercise, expect, expect_close, expect_shape, without


def drawn(*shapes):
    """Random tensors of these shapes."""
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


@exercise
def identity_layer(yours):
    """a feed-forward layer with a ReLU that returns its input"""
    for d in (1, 3, 5):
        given = yours(d)
        expect(isinstance(given, tuple | list) and len(given) == 4, "Return W_1, b_1, W_2, b_2.")
        W_1, b_1, W_2, b_2 = (torch.as_tensor(t).double() for t in given)
        expect_shape(W_1, (2 * d, d), f"W_1 for d = {d}")
        expect_shape(b_1, (2 * d,), f"b_1 for d = {d}")
        expect_shape(W_2, (d, 2 * d), f"W_2 for d = {d}")
        expect_shape(b_2, (d,), f"b_2 for d = {d}")
        (x,) = drawn((7, d))
        out = torch.relu(x @ W_1.T + b_1) @ W_2.T + b_2
        far = torch.relu(1000 * x @ W_1.T + b_1) @ W_2.T + b_2
        expect_close(
            out,
            x,
            "the layer's output",
            typical={
                "The layer returns max(0, x): what is negative is lost in the ReLU. Let the other half of "
                "the hidden entries carry −x.":
                    torch.relu(x),
                "The layer returns |x|: the part that carried −x must be subtracted again.": x.abs(),
                "The layer returns 2x: x comes back twice.": 2 * x,
                "The layer returns −x: the signs of W_2 are reversed.": -x,
                "The layer returns zeros: relu(x) and relu(−x) cannot cancel, so what does W_2 do?":
                    torch.zeros_like(x),
            },
        )  # fmt: skip
        expect(
            torch.allclose(far, 1000 * x),
            "It works for small entries only: a bias lifts them above zero. Inputs may be of any size.",
        )


@exercise
def paths_by_length(yours):
    """all paths through the stack, sorted by the number of layers that they pass through"""
    J = drawn(*[(3, 3)] * 4)
    true = by_length(J)
    reverse, neighbours = by_length(J[::-1]), by_length(J, gaps=False)
    sizes = torch.tensor([math.comb(4, k) for k in range(5)]).double()[:, None, None]
    expect_close(
        yours(J),
        true,
        "the sums",
        typical={
            "The factors are in reverse order: x passes through the first layer first, so J[0] is the factor "
            "on the right.":
                reverse,
            "Only runs of neighbouring layers are counted; a path may also pass by a layer in the middle.":
                neighbours,
            "These are means over the paths; add them up.": true / sizes,
            "The path that passes by every layer is missing: for k = 0 the sum is I.": true[1:],
            "For k = 0 the sum is I, not a matrix of ones.": torch.cat([torch.ones(1, 3, 3), true[1:]]),
            "This is the sum over all paths; sort them by length.": true.sum(0),
            "The first entry is missing its I.": torch.cat([torch.zeros(1, 3, 3), true[1:]]),
        },
    )  # fmt: skip
    expect_close(yours(J[:1]), by_length(J[:1]), "with a single layer, the result")


def by_length(J, gaps=True):
    """Entry k: the sum, over all choices of k layers, of their product, the last layer on the left."""
    total = torch.zeros(len(J) + 1, *J[0].shape, dtype=J[0].dtype)
    for k in range(len(J) + 1):
        for chosen in combinations(range(len(J)), k):
            if gaps or k == 0 or chosen[-1] - chosen[0] == k - 1:
                product = torch.eye(len(J[0]), dtype=J[0].dtype)
                for i in chosen:
                    product = J[i] @ product
                total[k] += product
    return total


@exercise
@without(*AUTOGRAD, torchs=("backward",), sentence="`{}` is not the exercise: write the gradient by hand.")
def norm_backward(yours):
    """the gradient of layer norm with respect to its input"""
    x, g = drawn((4, 6), (4, 6))
    x = 3 * x + 1
    eps = 0.5
    leaf = x.clone().requires_grad_()
    out = torch.nn.functional.layer_norm(leaf, (6,), eps=eps)
    (true,) = torch.autograd.grad(out, leaf, g)
    n, root = out.detach(), (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt()

    def mean(t):
        return t.mean(-1, keepdim=True)

    expect_close(
        yours(x, g, eps),
        true,
        "the gradient",
        typical={
            "Only the division is in it: mean and standard deviation depend on x, too.": g / root,
            "The part that comes through the deviation is missing: subtract n times the mean of g n.":
                (g - mean(g)) / root,
            "The part that comes through the mean is missing: subtract the mean of g.":
                (g - n * mean(g * n)) / root,
            "Divide by the root at the end: a larger x has a smaller gradient.":
                g - mean(g) - n * mean(g * n),
            "This divides by the variance; it is its root.": (g - mean(g) - n * mean(g * n)) / root.square(),
            "n is the normalised x, not x: (x − mean) / root.":
                (g - mean(g) - x * mean(g * x)) / root,
            "These are sums over the entries; both are means.":
                (g - g.sum(-1, keepdim=True) - n * (g * n).sum(-1, keepdim=True)) / root,
            "The means run over all tokens at once; each token has its own: give `mean` the last axis.":
                (g - g.mean() - n * (g * n).mean()) / root,
            "One of the two corrections is a sum over the entries; both are means.":
                (g - mean(g) - n * (g * n).sum(-1, keepdim=True)) / root,
            "The means run over the tokens; they belong to the last axis.":
                (g - g.mean(0) - n * (g * n).mean(0)) / root,
            "This is the unbiased deviation: divide by d, not by d − 1.":
                (lambda r, m: (g - mean(g) - m * mean(g * m)) / r)(
                    (x.var(-1, keepdim=True) + eps).sqrt(),
                    (x - mean(x)) / (x.var(-1, keepdim=True) + eps).sqrt(),
                ),
            "ε is missing under the root.":
                (lambda r, m: (g - mean(g) - m * mean(g * m)) / r)(
                    x.std(-1, unbiased=False, keepdim=True),
                    (x - mean(x)) / x.std(-1, unbiased=False, keepdim=True),
                ),
            "The sign of the part along n is reversed: subtract n times the mean of g n.":
                (g - mean(g) + n * mean(g * n)) / root,
            "The sign of the mean of g is reversed: subtract it.":
                (g + mean(g) - n * mean(g * n)) / root,
            "The signs of the two corrections are reversed: subtract them.":
                (g + mean(g) + n * mean(g * n)) / root,
        },
    )  # fmt: skip


@exercise
def scale_for_torch(yours):
    """the same outputs from nn.LayerNorm as from a norm with the unbiased deviation"""
    for d in (4, 7):
        (a,) = drawn((d,))
        expect_close(
            yours(a),
            a * math.sqrt((d - 1) / d),
            f"the scale for d = {d}",
            typical={
                "The factor is upside down: the unbiased deviation is larger, so its outputs are smaller.":
                    a * math.sqrt(d / (d - 1)),
                "This is the factor between the variances; the outputs are divided by their roots.":
                    a * (d - 1) / d,
                "The factor is upside down, and it is that of the variances: take the root.":
                    a * d / (d - 1),
                "This is the scale as it was: then the outputs are too large.": a,
            },
        )  # fmt: skip


@exercise
def logit_shares(yours):
    """each part of the sum has its share of the logit, and the shares add up to it"""
    for n, d in ((5, 6), (3, 8)):
        parts, a, w = drawn((n, d), (d,), (d,))
        parts = parts + torch.arange(1.0, n + 1, dtype=torch.float64)[:, None]  # their means differ
        eps = 0.5

        def normal(x, root, a=a):
            return (x - x.mean(-1, keepdim=True)) / root * a

        def root_of(x, eps=eps, unbiased=False):
            return (x.var(-1, unbiased=unbiased, keepdim=True) + eps).sqrt()

        total = parts.sum(0)
        root = root_of(total)
        true = normal(parts, root) @ w
        given = yours(parts, a, w, eps)
        so_far = parts.cumsum(0)
        on_the_way = normal(so_far, root_of(so_far)) @ w
        expect_close(
            given,
            true,
            f"the shares of {n} parts",
            typical={
                "Each part is divided by its own root, so the shares do not add up to the logit: divide all "
                "by the root of the sum.":
                    normal(parts, root_of(parts)) @ w,
                "These are logits along the way, one after each layer. What has each part added?": on_the_way,
                "These are differences of logits along the way, and each divides by another root: divide all "
                "by the root of the sum.":
                    torch.cat([on_the_way[:1], on_the_way.diff()]),
                "The parts are not centred: each gives up the mean of its own entries.":
                    (parts / root * a) @ w,
                "The mean of the sum is taken from every part; each gives up the mean of its own entries.":
                    ((parts - total.mean()) / root * a) @ w,
                "The mean is taken over the parts; it belongs to the last axis.":
                    ((parts - parts.mean(0)) / root * a) @ w,
                "This is the unbiased deviation: divide by d, not by d − 1.":
                    normal(parts, root_of(total, unbiased=True)) @ w,
                "ε is missing under the root.": normal(parts, root_of(total, 0.0)) @ w,
                "Nothing is divided: where is the root of the sum's variance?": normal(parts, 1.0) @ w,
                "This divides by the variance; it is its root.": normal(parts, root**2) @ w,
                "The scale a is missing.": normal(parts, root, 1.0) @ w,
                "This is the whole logit: return one number for each part.": true.sum(),
                "Of each part there is one number: multiply by w, and add up over the entries.":
                    normal(parts, root),
            },
        )  # fmt: skip
    expect(
        torch.equal(yours.given[0], parts),
        "The parts that were handed in have changed: `parts -= …` writes into them. Say `parts = parts - …`.",
    )


@exercise
def three_factors(yours):
    """with the identity a layer's factor is 1 + F', and paths may cancel the one past all layers"""
    given, paths = yours()
    given = [float(value) for value in given]
    expect(len(given) == 3, f"Return three factors, for (a), (b) and (c); found {len(given)}.")
    for letter, value, slope in zip("abc", given, (-0.5, -1.0, 3.0), strict=True):
        for wrong, sentence in (
            (slope**3, "that is the stack without the identity. Each layer adds its input to F."),
            ((1 + slope) * 3, "three layers multiply: raise the factor of one to the third power."),
            ((1 - slope) ** 3, "the sign of F' is reversed: y = x + F(x)."),
            (1.0, "the path past all layers gives 1, and the other paths are added to it."),
            (1 + slope, "that is the factor of one layer."),
        ):
            right = abs((1 + slope) ** 3 - wrong) < 1e-9
            expect(right or abs(value - wrong) > 1e-9, f"({letter}) {wrong:g}: {sentence}")
        true = (1 + slope) ** 3
        expect(abs(value - true) < 1e-6, f"({letter}) {value:g}: what is 1 + F' here, and its third power?")
    paths = sorted(float(value) for value in paths)
    expect(len(paths) == 8, f"Three layers have eight paths; found {len(paths)}.")
    expect(min(paths) < 0, "A path through one layer has the factor F' = -1/2: where is the sign?")
    true = sorted((-0.5) ** k for k in (0, 1, 1, 1, 2, 2, 2, 3))
    expect(all(abs(a - b) < 1e-6 for a, b in zip(paths, true, strict=True)),
           "Through k layers a path has the factor (-1/2)^k, and there are 1, 3, 3, 1 of them.")  # fmt: skip


@exercise
def normed_on_paper(yours):
    """layer norm sees neither shift nor factor, and no entry of d can exceed the root of d - 1"""
    a, b, c, n_outputs, largest = yours()
    cases = (
        ("a", a, [-1, -1, 1, 1], {
            "these are the deviations; divide them by their root mean square": [-2, -2, 2, 2],
            "the variance is not the divisor: take its root": [-0.5, -0.5, 0.5, 0.5],
            "divide by d, not by d − 1": [-(0.75**0.5), -(0.75**0.5), 0.75**0.5, 0.75**0.5],
        }),
        ("b", b, [-5 / 3, 1 / 3, 1 / 3, 1], {
            "the factor 100 cancels": [-500 / 3, 100 / 3, 100 / 3, 100],
            "these are the deviations; divide them by their root mean square": [-500, 100, 100, 300],
            "divide by d, not by d − 1": [-5 / 12**0.5, 1 / 12**0.5, 1 / 12**0.5, 3 / 12**0.5],
        }),
        ("c", c, [0, 0, 0, 0], {
            "all deviations are zero, and ε keeps the division defined": [1, 1, 1, 1],
            "the mean is subtracted first": [3, 3, 3, 3],
        }),
    )  # fmt: skip
    for letter, value, true, typical in cases:
        value = torch.as_tensor(value, dtype=torch.float64)
        expect_shape(value, (4,), f"the output of ({letter})")
        for sentence, wrong in typical.items():
            far = (value - torch.tensor(wrong, dtype=torch.float64)).abs().max()
            expect(far > 5e-3, f"({letter}): {sentence}.")
        far = (value - torch.tensor(true, dtype=torch.float64)).abs().max()
        shown = [round(x, 3) for x in value.tolist()]
        expect(far < 5e-3, f"({letter}) {shown}: mean, deviations, the root of the mean of their squares?")
    expect(n_outputs != 2, "(d): there is a third, where the two entries are equal.")
    expect(n_outputs == 3, f"(d) {n_outputs}: the deviations are (t, −t). What is left of t?")
    expect(callable(largest), "(e): return a function of d.")
    for d in (2, 5, 17):
        value = float(largest(d))
        expect(
            abs(value - d**0.5) > 1e-6, "(e): at √d all others would be 0, and the entries must add up to 0."
        )
        expect(abs(value - (d - 1)) > 1e-6 or d == 2, "(e): that is the largest square; take its root.")
        expect(abs(value - (d - 1) ** 0.5) < 1e-6, f"(e): for d = {d} the vector (1, 0, …, 0) tells.")
