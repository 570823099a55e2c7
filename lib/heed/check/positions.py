"""Checks of chapter 09, position encoding."""

import dis
import inspect

import torch
from torch.nn import functional as F

from heed.check import NotYet, close, exercise, expect, expect_close, expect_shape, without
from heed.position import rotated, sinusoids


def rates(d):
    """The angle of each dial for one position, d/2 of them."""
    return 10_000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def paired(sin, cos):
    """Each sine, and behind it its cosine."""
    return torch.stack([sin, cos], dim=-1).flatten(-2)


def code(position, d):
    """The codes of these positions, which need not be whole."""
    angle = position[..., None] * rates(d)
    return paired(angle.sin(), angle.cos())


def loops(yours):
    """Does the code of this function go back anywhere?"""
    codes = [getattr(inspect.unwrap(yours), "__code__", None)]
    for code in codes:
        codes += [inner for inner in getattr(code, "co_consts", ()) if inspect.iscode(inner)]
    steps = [step for code in codes if code for step in dis.get_instructions(code)]
    return any("JUMP_BACKWARD" in step.opname for step in steps)


@exercise
def who_notices(yours):
    """a sum has no order, however many layers of sums there are; what sees its neighbours has one"""
    said = {*yours()}
    expect(said <= {*"abcd"}, f"The models are called a to d; found {sorted(map(str, said))}.")
    for letter, sentence in {
        "a": "(a) cannot notice: a mean is the same in any order, and what reads it out sees nothing else.",
        "b": "(b) cannot notice: the first layer shuffles its outputs with its inputs, and so do all others.",
        "c": "(c) cannot notice: *who?* sees every token, so one layer gives it the same two sums.",
    }.items():
        expect(letter not in said, sentence)
    expect("d" in said, "(d) notices: a convolution gives *owes* a vector that depends on its neighbours.")


@exercise
@without(sinusoids, "hands")
def code_at(yours):
    """the hands of all dials, at any position and in any shape"""
    for pos, d in (
        (torch.arange(5.0), 8),
        (torch.tensor(731.0), 10),
        (torch.tensor([[0.0, 2.5, -3.0], [40.25, 7.0, -0.5]]), 6),
        (torch.arange(-2, 3), 4),
    ):
        given = pos.double()
        angle, half = (
            given[..., None] * 10_000.0 ** (-torch.arange(d // 2, dtype=torch.float64) * step / d)
            for step in (2, 1)
        )
        true = paired(angle.sin(), angle.cos())
        typical = {
            "All sines come first, and then all cosines: here each cosine stands behind its sine.":
                torch.cat([angle.sin(), angle.cos()], dim=-1),
            "Cosine and sine are exchanged: the sine of each dial comes first.":
                paired(angle.cos(), angle.sin()),
            "The dials are too close together: the exponent is 2c/d, and 2c is 0, 2, 4, …":
                paired(half.sin(), half.cos()),
            "The dials run from slow to fast, or ever faster: mind the sign of the exponent.":
                paired((given[..., None] / rates(d)).sin(), (given[..., None] / rates(d)).cos()),
            "These are the angles; take their sines and cosines.": paired(angle, angle),
            "These are the codes of whole positions; 2.5 lies between two of them, with hands of its own.":
                code(given.floor(), d),
            "A position below 0 gets the code of its absolute value; its hands have turned the other way.":
                code(given.abs(), d),
            "The result is flat; a table of positions should stay a table, with one axis more.":
                true.reshape(-1, d) if pos.dim() > 1 else true.flatten()[:0],
        }  # fmt: skip
        typical = {s: w for s, w in typical.items() if not close(w, true)}
        where = f"the code of positions in the shape {tuple(pos.shape)}"
        expect_close(yours(given if pos.is_floating_point() else pos, d), true, where, typical)
    loop = "The codes are right, but made in a loop: `pos[..., None]` times a row has all angles at once."
    expect(not loops(yours), loop)


@exercise
def read_position(yours):
    """a position can be read off its code, with noise on it, too"""
    for d in (8, 16, 32):
        table = sinusoids(5000, d)
        for pos in (0, 1, 6, 44, 710, 4999):
            given = whole(yours(table[pos]), f"for width {d}")
            fast = int(torch.atan2(table[pos, 0], table[pos, 1]).remainder(2 * torch.pi).round())
            expect(
                given == pos or given != fast or pos < 6,
                f"For position {pos} you return {fast}: the fast dial alone cannot tell its turns apart.",
            )
            expect(given == pos, f"The code is that of position {pos}, and you return {given}.")
    for pos in (1234, 17, 4321):
        noisy = sinusoids(5000, 16)[pos] + 0.05 * torch.randn(16, dtype=torch.float64)
        sentence = (
            f"Without noise you are right. With a little noise on the code of position {pos}, no row of the "
            "table is exactly equal to it{}: take the nearest one."
        )
        try:
            given = yours(noisy)
        except (IndexError, RuntimeError, ValueError, TypeError):
            raise NotYet(sentence.format(", and your code raises an error")) from None
        except NotYet:
            raise NotYet(sentence.format(", and you return nothing")) from None
        nothing = given is None or (isinstance(given, torch.Tensor) and given.numel() != 1)
        expect(not nothing, sentence.format(", and you find none"))
        given = whole(given, "with noise")
        expect(given == pos, sentence.format(f", and you return {given}"))


def whole(given, where):
    """One whole number, also in a tensor."""
    if isinstance(given, torch.Tensor) and given.numel() == 1:
        given = given.item()
    number = isinstance(given, int | float) and not isinstance(given, bool) and float(given).is_integer()
    expect(number, f"Return one whole number; {where} it is {given!r}.")
    return int(given)


@exercise
def apart(yours):
    """the shift between two codes, wherever they stand"""
    for first, shift in (
        (3.0, 2),
        (40.25, 17),
        (30.5, -11),
        (1e6 + 0.3, 250),
        (-77.7, -499),
        (12.0, 0),
        (5.0, 44),
    ):
        for d in (8, 32):
            here, there = (code(torch.tensor(pos, dtype=torch.float64), d) for pos in (first, first + shift))
            said = f"The positions are {first:g} and {first + shift:g}, and the width is {d}"
            given = whole(yours(here, there), "for two codes")
            expect(
                given != -shift or not shift,
                f"{said}: the shift is {shift}, and you return {given}. Turn the second back by the first, "
                "not the first by the second; their dot product is the same both ways.",
            )
            turn = round((shift + torch.pi) % (2 * torch.pi) - torch.pi)
            expect(
                given not in (turn, round(shift % (2 * torch.pi))) or given == shift,
                f"{said}: the shift is {shift}, and you return {given}: the fast dial alone cannot tell "
                "its turns apart.",
            )
            table = sinusoids(5000, d)
            read = [(table @ one).argmax().item() for one in (here, there)]
            expect(
                given == shift or given != read[1] - read[0],
                f"{said}: the shift is {shift}, and you return {given}. A table of the positions 0 to 4,999 "
                "has not got these two; nobody needs to know them.",
            )
            expect(given == shift, f"{said}: the shift is {shift}, and you return {given}.")


OWN = "`{}` is not yours to call here: products, exponentials and a softmax are enough."


def turned(x, sign=1):
    """RoPE as in section 9.4, clockwise; with −1 the other way."""
    n, d = x.shape[-2:]
    at = code(torch.arange(n, dtype=torch.float64), d)
    sin, cos = sign * at[:, 0::2], at[:, 1::2]
    a, b = x[..., 0::2], x[..., 1::2]
    return paired(a * cos + b * sin, b * cos - a * sin)


def mixed(q, k, v, mask, scale, after=False, axis=-1):
    """Attention; the mask hides before the softmax or multiplies after it."""
    scores = q @ k.mT / scale
    weights = scores.softmax(axis) * mask if after else scores.masked_fill(~mask, -torch.inf).softmax(axis)
    return weights @ v


@exercise
@without(torchs=("scaled_dot_product", "multi_head_attention"), library=True, sentence=OWN)
def causal_rope(yours):
    """one causal layer with RoPE gives what torch's fused function gives"""
    for b, n, d_model, d_k, d_v in ((2, 5, 8, 6, 4), (3, 7, 6, 4, 3), (1, 1, 4, 2, 2)):
        x = torch.randn(b, n, d_model, dtype=torch.float64)
        W_q, W_k, W_v = (torch.randn(rows, d_model, dtype=torch.float64) for rows in (d_k, d_k, d_v))
        q, k, v = x @ W_q.T, x @ W_k.T, x @ W_v.T
        past, root = torch.ones(n, n, dtype=torch.bool).tril(), d_k**0.5
        true = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
        everything = torch.ones_like(past)
        halves = [halfway(t) for t in (q, k)]
        typical = {
            "The mask is multiplied after the softmax, where a hidden key has already taken its share.":
                mixed(turned(q), turned(k), v, past, root, after=True),
            "Scores of the future are 0 before the softmax, and e⁰ is 1: they need −∞.":
                ((turned(q) @ turned(k).mT / root) * past).softmax(-1) @ v,
            "Every token sees the future: the mask is missing.":
                mixed(turned(q), turned(k), v, everything, root),
            "The mask is upside down: a query sees what comes after it.":
                mixed(turned(q), turned(k), v, past.mT, root),
            "Nothing is rotated: the layer does not know any distance.": mixed(q, k, v, past, root),
            "Only the queries are rotated: their positions then do not cancel.":
                mixed(turned(q), k, v, past, root),
            "Only the keys are rotated: their positions then do not cancel.":
                mixed(q, turned(k), v, past, root),
            "It turns the other way, cosine first: by (9.4) a pair becomes (a cos + b sin, b cos − a sin).":
                mixed(turned(q, -1), turned(k, -1), v, past, root),
            "Queries and keys turn in opposite directions: that adds their positions; subtract them.":
                mixed(turned(q), turned(k, -1), v, past, root),
            "The scores are not divided by √d_k.": mixed(turned(q), turned(k), v, past, 1.0),
            f"The scores are divided by √d_model; what is multiplied is d_k = {d_k} wide.":
                mixed(turned(q), turned(k), v, past, d_model**0.5),
            "The softmax runs over the queries; the weights of one query sum to one over the keys.":
                mixed(turned(q), turned(k), v, past, root, axis=-2),
            "The pairs are entries c and c + d_k/2; in 9.4 they are 2c and 2c + 1.":
                mixed(*halves, v, past, root),
        }  # fmt: skip
        early = turned(x)
        for values, too in ((v, ""), (early @ W_v.T, ", and so the values")):
            sentence = f"The tokens are rotated{too}; project first, and rotate queries and keys."
            typical[sentence] = mixed(early @ W_q.T, early @ W_k.T, values, past, root)
        if d_v % 2 == 0:
            typical["The values are rotated, too; what is mixed must not depend on where it stands."] = mixed(
                turned(q), turned(k), turned(v), past, root
            )
        typical = {s: w for s, w in typical.items() if not close(w, true)}
        given = yours(x, W_q, W_k, W_v)
        if isinstance(given, torch.Tensor) and given.isnan().any():
            raise NotYet("There is nan: is the first token left without any key? It sees itself.")
        expect_close(given, true, f"the output for {b=}, {n=}, {d_k=}", typical)
    expect(
        all(close(after, before) for after, before in zip(yours.given, (x, W_q, W_k, W_v), strict=True)),
        "What was given is changed: compute new tensors.",
    )


def halfway(x):
    """RoPE, clockwise, where entry c and entry c + d_k/2 are a pair."""
    n, d = x.shape[-2:]
    at = code(torch.arange(n, dtype=torch.float64), d)
    sin, cos = at[:, 0::2], at[:, 1::2]
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos + b * sin, b * cos - a * sin], dim=-1)


@exercise
def look_three_back(yours):
    """one query and one key, and every token looks three back"""
    n, past = 200, torch.ones(200, 200, dtype=torch.bool).tril()
    for d_k in (32, 16):
        answer = yours(d_k)
        pair = isinstance(answer, tuple | list) and len(answer) == 2
        expect(pair, f"Return two tensors, q and k; it is {type(answer).__name__}.")
        q, k = answer
        for name, vector in (("q", q), ("k", k)):
            expect_shape(vector, (d_k,), name)
        q, k = (vector.double().expand(n, d_k) for vector in (q, k))
        scores = (turned(q) @ turned(k).mT / d_k**0.5).masked_fill(~past, -torch.inf)
        expect(not scores[past].isnan().any(), "Some scores are nan: q or k are too long.")
        weights = scores.softmax(dim=-1)
        expect(
            scores[-1].max() - scores[-1].min() > 1e-9,
            "All scores are equal, at every distance: is q or k zero?",
        )
        looked = (torch.arange(n) - weights.argmax(dim=-1))[3:]
        wrong = (looked != 3).nonzero().flatten()
        if len(wrong):
            i, seen = wrong[0].item() + 3, looked[wrong[0]].item()
            turn = (
                " A query turned the other way asks for the token three *ahead*."
                if seen == 0 or i == seen
                else ""
            )
            far = (
                " Too few dials turn: after some steps all of them look alike again."
                if seen > 3 and i != seen
                else ""
            )
            raise NotYet(
                f"With d_k = {d_k}, position {i} gives its largest weight to the token {seen} back, not 3."
                f"{turn}{far}"
            )
        at_three = weights.diagonal(-3)
        worst, i = at_three.min().item(), at_three.argmin().item() + 3
        if worst <= 0.9:
            sharper = (30 * scores).softmax(dim=-1)
            rival = weights[i].clone()
            rival[i - 3] = 0
            said = (
                f"The largest weight is the right one, but only {worst:.2f} with d_k = {d_k}, at position {i}"
            )
            enough = sharper.diagonal(-3).min() > 0.9
            long = "nothing says how long q may be."
            back = i - rival.argmax().item()
            near = f"the token {back} back is nearly as good, and a longer q will not help much."
            raise NotYet(f"{said}: {long if enough else near}")


@exercise
@without(torchs=("scaled_dot_product",), library=True, sentence=OWN)
def four_scores(yours):
    """a score of sums is a sum of four scores"""
    n, d_model, d_k = 5, 6, 3
    x, p = torch.randn(2, n, d_model, dtype=torch.float64)
    W_q, W_k = torch.randn(2, d_k, d_model, dtype=torch.float64)

    def table(asking, asked):
        return (asking @ W_q.T) @ (asked @ W_k.T).T / d_k**0.5

    true = [table(x, x), table(x, p), table(p, x), table(p, p)]
    given = yours(x, p, W_q, W_k)
    expect(
        isinstance(given, tuple | list | torch.Tensor) and len(given) == 4,
        "Return four tables, one for each product of a term of the query with a term of the key.",
    )
    given = list(given)
    names = "word asks word", "word asks position", "position asks word", "position asks position"
    for name, one, right, other in zip(names, given, true, [*true[:1], *true[2:0:-1], true[3]], strict=True):
        typical = {
            f"The table “{name}” has the asking ones in columns; they belong in rows.": right.T,
            "The two mixed tables are exchanged: words ask the second, positions the third.": other,
            f"The table “{name}” is not divided by √d_k.": right * d_k**0.5,
            f"The table “{name}” is divided by √d_model; keys are d_k wide.": right * (d_k / d_model) ** 0.5,
            f"The table “{name}” is a table of weights; the scores are wanted.": right.softmax(-1),
        }
        typical = {s: w for s, w in typical.items() if not close(w, right)}
        expect_close(one, right, f"the table “{name}”", typical)
    expect(all(map(close, yours.given, (x, p, W_q, W_k))), "What was given is changed: compute new tensors.")


def by_halves(x, start=0):
    """RoPE where entry c and entry c + d_k/2 are a pair."""
    code = sinusoids(*x.shape[-2:], start=start).to(x)
    sin, cos = code[:, 0::2], code[:, 1::2]
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


@exercise
@without("rotated_by_halves")
def rotated_halves(yours):
    """entries c and c + d_k/2 are rotated as a pair"""
    for shape, start in (((5, 8), 0), ((2, 3, 4, 6), 7)):
        x = torch.randn(shape, dtype=torch.float64)
        n, d = shape[-2:]
        code = sinusoids(n, d, start=start)
        sin, cos = code[:, 0::2], code[:, 1::2]
        a, b = x.chunk(2, dim=-1)
        first, later = code.chunk(2, dim=-1)
        typical = {
            "This is the layout of `rotated`: the pairs are entries 2c and 2c + 1.": rotated(x, start),
            "The pairs are the right ones, but they are joined as in `rotated`: first all a, then all b.":
                paired(a * cos - b * sin, a * sin + b * cos),
            "It turns the wrong way: it is a cos θ − b sin θ, and a sin θ + b cos θ.":
                torch.cat([a * cos + b * sin, b * cos - a * sin], dim=-1),
            "The first position is taken to be 0: use `start`.": by_halves(x, 0),
            "Sine and cosine are exchanged.":
                torch.cat([a * sin - b * cos, a * cos + b * sin], dim=-1),
            "The code is cut into halves as well; in `sinusoids` the sines are the even columns.":
                torch.cat([a * later - b * first, a * first + b * later], dim=-1),
            "The pairs are still the entries 2c and 2c + 1, and only the result is joined by halves.":
                rotated(x, start)[..., [*range(0, d, 2), *range(1, d, 2)]],
        }  # fmt: skip
        typical = {s: w for s, w in typical.items() if not close(w, by_halves(x, start))}
        given = yours(x) if start == 0 else yours(x, start)
        expect_close(given, by_halves(x, start), "the result", typical)
