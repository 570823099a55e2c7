"""Checks of chapter 04, score functions."""

import torch

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
from heed.scores import bilinear_score, dot_score


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
            "|q|² is missing. (The softmax would not notice. Which section says why?)": table - kk / 2,
            "|x|² is missing: long keys are still favoured.": table - qq / 2,
            "The lengths enter with the wrong sign: −|x − q|²/2 = xᵀq − |x|²/2 − |q|²/2.":
                table + kk / 2 + qq / 2,
            "The lengths enter without their squares.": table - qq.sqrt() / 2 - kk.sqrt() / 2,
        },
    )  # fmt: skip
    expect(tables, "The scores are right, and made one after the other: all dot products are `q @ k.T`.")
    expect(len(tables) == 1, f"The scores are right, but of {len(tables)} matrix products; one is enough.")


@exercise
@without(*AUTOGRAD, sentence="`{}` is autograd, which makes what you are to write: use formula (4.6).")
def softmax_jacobian(yours):
    """entry (j, i) is ∂α_j/∂s_i, for every row of weights"""
    a = draw(3, 5).softmax(-1)
    outer = a[:, :, None] * a[:, None]
    true = torch.diag_embed(a) - outer
    one = torch.eye(5, dtype=torch.float64)
    answer = yours(a)
    expect_close(
        answer,
        true,
        "the Jacobian",
        typical={
            "The outer product α αᵀ is missing: a weight also falls when another score rises.":
                torch.diag_embed(a),
            "The diagonal is missing: α_j rises with its own score.": -outer,
            "The sign of the outer product is wrong.": torch.diag_embed(a) + outer,
            "The sign of the whole is wrong: a weight rises with its own score.": -true,
            "δ_ij is 1 on the diagonal, and is multiplied by α_j: here the identity matrix stands alone.":
                one - outer,
            "Only the diagonal is right, α_j (1 − α_j); off the diagonal the entry is −α_j α_i.":
                torch.diag_embed(a * (1 - a)),
            "This is the diagonal alone, as a row: a matrix for each row of weights is asked.": a * (1 - a),
        },
    )  # fmt: skip
    expect_close(yours(a[0]), true[0], "the Jacobian of one row of weights, (n_k)")


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
