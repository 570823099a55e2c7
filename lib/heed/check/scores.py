"""Checks of chapter 04, score functions."""

import torch

from heed.attention import attention
from heed.check import (
    AUTOGRAD,
    PRODUCTS,
    Refusing,
    close,
    exercise,
    expect,
    expect_close,
    expect_shape,
    without,
)
from heed.scores import bilinear_score, dot_score, scaled_dot_score


def draw(*shape):
    """A random tensor in double precision."""
    return torch.randn(*shape, dtype=torch.float64)


@exercise
@without(torchs=("cosine_similarity",))
def cosine_table(yours):
    """the cosine of the angle of each query with each key, whatever their lengths"""
    q, k = draw(2, 3), draw(5, 3)
    table, q_length, k_length = dot_score(q, k), q.norm(dim=-1, keepdim=True), k.norm(dim=-1)
    true = table / (q_length * k_length)
    expect_close(
        yours(q, k),
        true,
        "the table",
        typical={
            "These are the dot products; divide by the lengths of the query and of the key.": table,
            "The keys still have their lengths: divide by |x|, too.": table / q_length,
            "The queries still have their lengths: divide by |q|, too.": table / k_length,
            "The length is the root of the sum of squares; here the root is missing.":
                table / (q_length * k_length) ** 2,
            "The norm runs over the wrong axis: a vector is a row, its length a sum over the last axis.":
                dot_score(q / q.norm(dim=0), k / k.norm(dim=0)),
            "One length for all: `norm` needs `dim=-1`, or it takes the whole matrix as one vector.":
                table / (q.norm() * k.norm()),
            "This is √d again: it is the same for all pairs, and is no length.": table / 3**0.5,
        },
    )
    zero = torch.zeros(1, 3, dtype=torch.float64)
    with_zero = yours(torch.cat([q, zero]), torch.cat([k, zero]))
    for part, name in ((with_zero[-1], "query"), (with_zero[:, -1], "key")):
        expect(not part[:-1].isnan().any(), f"A {name} of zeros gives 0/0 = nan; give it the cosine 0.")
    expect(not with_zero.isnan().any(), "A query and a key of zeros give nan; give them the cosine 0.")
    expect(
        (with_zero[-1] == 0).all() and (with_zero[:, -1] == 0).all(),
        "A vector of zeros should get the cosine 0 with everything.",
    )


@exercise
def closeness(yours):
    """minus half the squared distance of each query to each key, from one matrix product"""
    q, k = draw(4, 3), draw(6, 3)
    table, qq, kk = dot_score(q, k), q.square().sum(-1, keepdim=True), k.square().sum(-1)
    true = -0.5 * torch.cdist(q, k) ** 2
    tables = []

    def look(name, arguments, result):
        if not isinstance(result, torch.Tensor):
            return
        expect(
            not (result.dim() > 2 and min(result.shape) > 1),
            "This makes a tensor of shape (n_q, n_k, d); multiply the square out, and use `q @ k.T`.",
        )
        tables.extend([name] if name in PRODUCTS and result.numel() == len(q) * len(k) else [])

    with Refusing(torchs=("dist",), look=look):
        answer = yours(q, k)
    expect_close(
        answer,
        true,
        "the scores",
        typical={
            "The sign is wrong: the closest key should have the highest score.": -true,
            "This is minus the whole squared distance; take half of it.": 2 * true,
            "This is the distance without its square.": -0.5 * torch.cdist(q, k),
            "|x|² and |q|² are missing: this is the dot product.": table,
            "|q|² is missing. The softmax would not notice, for the row shifts as a whole.":
                table - kk / 2,
            "|x|² is missing: long keys are still favoured.": table - qq / 2,
            "The lengths enter with the wrong sign: −|x − q|²/2 = xᵀq − |x|²/2 − |q|²/2.":
                table + kk / 2 + qq / 2,
            "The lengths enter without their squares.": table - qq.sqrt() / 2 - kk.sqrt() / 2,
        },
    )  # fmt: skip
    expect(tables, "The scores are right, and made one after the other: all dot products are `q @ k.T`.")
    expect(len(tables) == 1, f"The scores are right, but of {len(tables)} matrix products; one is enough.")


@exercise
def differences(yours):
    """every row is the next value minus this one, though all weights are positive"""
    v = draw(5, 3)
    given = yours(v)
    expect(isinstance(given, tuple | list) and len(given) == 3, "Return three tensors: Q, K and V.")
    for name, tensor in zip("QKV", given, strict=True):
        flat = isinstance(tensor, torch.Tensor) and tensor.dim() == 2
        expect(flat, f"{name} should be a matrix, with a row for each vector.")
    q, k, values = (tensor.double() for tensor in given)
    expect(len(q) == 4, f"Five values have four differences, so Q needs four rows, and not {len(q)}.")
    expect(len(k) == len(values), f"Each key has a value: K has {len(k)} rows and V {len(values)}.")
    wide = [tensor.shape[1] for tensor in (q, k, values)]
    expect(wide[0] == wide[1], f"Queries and keys must be equally wide, not {wide[0]} and {wide[1]}.")
    expect(wide[2] == 3, f"A value should be as wide as one of `v`, 3, and not {wide[2]}.")
    known = torch.cosine_similarity(values[:, None], v, dim=-1).abs().amax(-1) > 1 - 1e-9
    expect(
        (known | (values == 0).all(-1)).all(),
        "A row of your V is no row of `v` times a number: let attention subtract, not V.",
    )
    typical = {
        "Half of each difference: the two weights are one half, so the values must be doubled.":
            (v[1:] - v[:-1]) / 2,
        "The signs are reversed: these are v_i − v_{i+1}.": v[:-1] - v[1:],
        "The signs are reversed, and the values must be doubled: these are (v_i − v_{i+1})/2.":
            (v[:-1] - v[1:]) / 2,
        "This is the mean of the two: one of them needs a key of its own, with the value −v_i.":
            (v[1:] + v[:-1]) / 2,
        "This is the sum of the two: the value that is subtracted needs a minus sign.": v[1:] + v[:-1],
        "Every query returns the next value alone.": v[1:],
        "Every query returns its own value alone.": v[:-1],
    }  # fmt: skip

    def near(mixture, other):
        return bool((mixture - other).abs().max() < 1e-3)

    mixture, sharp = (attention(factor * q, k, values)[0] for factor in (1, 100))
    for sentence, wrong in typical.items():
        expect(not near(mixture, wrong), sentence)
    expect(
        near(mixture, v[1:] - v[:-1]) or not near(sharp, v[1:] - v[:-1]),
        "The queries look at the right keys, and at the others, too: make the queries longer.",
    )
    for sentence, wrong in typical.items():
        expect(not near(sharp, wrong), f"{sentence} (And the queries should be longer.)")
    expect(not mixture.isnan().any(), "The result is nan: scores must be finite.")
    far = (mixture - (v[1:] - v[:-1])).abs().max().item()
    expect(far < 1e-3, f"The result is off by up to {far:.3f}; which keys does each query look at?")
    q, k, values = (tensor.double() for tensor in yours(draw(8, 2)))
    expect(len(q) == 7, "Right for five values; eight values have seven differences.")


@exercise
@without(*AUTOGRAD, sentence="`{}` is autograd, which makes what you are to write: go back line by line.")
def attention_backward(yours):
    """the gradients of q, k and v are those of autograd"""
    q, k, v, G = draw(3, 2), draw(5, 2), draw(5, 7), draw(3, 7)
    a, root = scaled_dot_score(q, k).softmax(-1), 2**0.5
    to_a = G @ v.T
    to_s = a * (to_a - (a * to_a).sum(-1, keepdim=True))
    given = yours(q, k, v, G)
    expect(isinstance(given, tuple | list) and len(given) == 3, "Return three tensors: for q, k and v.")
    expect_close(
        given[2],
        a.T @ G,
        "the gradient of v",
        typical={
            "The gradient of v is made of the scores; it takes the weights.": scaled_dot_score(q, k).T @ G,
            "Without √d_k in the scores the weights are others: they are those of `attend`.":
                dot_score(q, k).softmax(-1).T @ G,
        },
    )  # fmt: skip
    mistakes = {
        "The scores were divided by √d_k, and {} lacks this factor.": root * to_s,
        "Once is enough: {} is divided by √d_k twice.": to_s / root,
        "The gradient of the weights must pass J first; {} goes around the softmax.": to_a,
        "Of J only the diagonal arrives in {}, α (1 − α): a weight also falls when another score rises.":
            a * (1 - a) * to_a,
        "In {} the softmax is only α ⊙ g: subtract each row's mean αᵀg.": a * to_a,
        "The mean αᵀg is taken over the queries in {}; each row has its own.":
            a * (to_a - (a * to_a).sum(0)),
        "In {} the mean of g is subtracted without the weights: it is αᵀg.":
            a * (to_a - to_a.mean(-1, keepdim=True)),
        "The signs are reversed in {}.": -to_s,
    }  # fmt: skip
    for answer, name, back in zip(given, "qk", (lambda s: s @ k, lambda s: s.T @ q), strict=False):
        name = f"the gradient of {name}"
        typical = {text.format(name): back(wrong) / root for text, wrong in mistakes.items()}
        expect_close(answer, back(to_s) / root, name, typical)


@exercise
def two_projections(yours):
    """UᵀV is the best matrix of rank r, and of rank r exactly"""
    left, right = torch.linalg.qr(draw(5, 4))[0], torch.linalg.qr(draw(7, 4))[0]
    sizes = torch.tensor([9.0, 5.0, 2.0, 1.0], dtype=torch.float64)
    W, r = (left * sizes) @ right.T, 2
    given = yours(W, r)
    expect(isinstance(given, tuple | list) and len(given) == 2, "Return two tensors: U and V.")
    for name, tensor, shape in zip("UV", given, ((r, 5), (r, 7)), strict=True):
        expect_shape(tensor, shape, name)
    U, V = given

    def kept(power, which):
        return (left[:, which] * sizes[which] ** power) @ right[:, which].T

    first, last = slice(0, r), slice(-r, None)
    expect_close(
        U.T @ V,
        kept(1, first),
        "UᵀV",
        typical={
            "The singular values are missing: U and V hold only directions.": kept(0, first),
            "U and V both hold the whole singular values, so UᵀV has their squares: "
            "take the roots, or give the values to only one of the two.":
                kept(2, first),
            "The smallest singular values are kept; the best matrix of rank r keeps the largest.":
                kept(1, last),
            "Only the root of the singular values arrives in UᵀV: one of U and V lacks its share.":
                kept(0.5, first),
        },
    )  # fmt: skip
    U, V = yours(W, 4)
    expect(close(U.T @ V, W), "With r = 4, the rank of this W, UᵀV should be W itself.")


@exercise
def next_on_the_circle(yours):
    """each point asks for the next one, with two projections of width two"""
    given = yours(12)
    expect(isinstance(given, tuple | list) and len(given) == 2, "Return two tensors: U and V.")
    for name, tensor in zip("UV", given, strict=True):
        expect_shape(tensor, (2, 2), name)
    for n in (5, 12):
        U, V = (matrix.double() for matrix in yours(n))
        angle = 2 * torch.pi * torch.arange(n).double() / n
        points = torch.stack([angle.sin(), angle.cos()], dim=-1)
        found = bilinear_score(points, points, U.T @ V).argmax(-1)
        here = torch.arange(n)
        expect(
            not close(U, V),
            "U = V makes the score symmetric, and no symmetric score finds the next point.",
        )
        expect(
            not torch.equal(found, here),
            f"For n = {n} each point finds itself: it is turned too little, or not at all.",
        )
        expect(
            not torch.equal(found, (here - 1) % n),
            f"For n = {n} each point finds the one before: turn the other way, or interchange U and V.",
        )
        expect(
            not torch.equal(found, (here + 2) % n),
            f"For n = {n} each point finds the next but one: U and V both turn. One turn is enough.",
        )
        for i, j in enumerate(found.tolist()):
            wanted = (i + 1) % n
            expect(j == wanted, f"For n = {n} point {i} finds point {j}, and should find point {wanted}.")
