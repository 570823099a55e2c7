"""Checks of chapter 09, position encoding."""

import dis
import inspect
import math

import torch

from heed.check import close, exercise, expect, expect_close, without
from heed.position import rotated, sinusoids


def rates(d):
    """The angle of each clock for one position, d/2 of them."""
    return 10_000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def paired(sin, cos):
    """Each sine, and behind it its cosine."""
    return torch.stack([sin, cos], dim=-1).flatten(-2)


def at(position):
    """The codes of these positions, width 8, which need not be whole."""
    angle = position[:, None] * rates(8)
    return paired(angle.sin(), angle.cos())


def loops(yours):
    """Does the code of this function go back anywhere?"""
    codes = [getattr(inspect.unwrap(yours), "__code__", None)]
    for code in codes:
        codes += [inner for inner in getattr(code, "co_consts", ()) if inspect.iscode(inner)]
    steps = [step for code in codes if code for step in dis.get_instructions(code)]
    return any("JUMP_BACKWARD" in step.opname for step in steps)


@exercise
@without(sinusoids, "clock_hands")
def code_of(yours):
    """the hands of all clocks at one position"""
    for pos, d in ((5, 8), (0, 6), (731, 10)):
        angle = pos * rates(d)
        half = pos * 10_000.0 ** (-torch.arange(d // 2, dtype=torch.float64) / d)
        typical = {
            "All sines come first, and then all cosines: here each cosine stands behind its sine.":
                torch.cat([angle.sin(), angle.cos()]),
            "Cosine and sine are exchanged: the sine of each clock comes first.":
                paired(angle.cos(), angle.sin()),
            "The clocks are too close together: the exponent is 2c/d, and 2c is 0, 2, 4, …":
                paired(half.sin(), half.cos()),
            "The clocks run from slow to fast, or ever faster: mind the sign of the exponent.":
                paired((pos / rates(d)).sin(), (pos / rates(d)).cos()),
            "These are the angles; take their sines and cosines.": paired(angle, angle),
        }  # fmt: skip
        typical = {s: w for s, w in typical.items() if not close(w, sinusoids(pos + 1, d)[pos])}
        expect_close(yours(pos, d), sinusoids(pos + 1, d)[pos], f"the code of position {pos}", typical)
    loop = "The code is right, but made in a loop: `torch.arange(0, d, 2)` is 2c for all clocks."
    expect(not loops(yours), loop)


@exercise
def read_position(yours):
    """a position can be read off its code"""
    for d in (8, 16, 32):
        table = sinusoids(5000, d)
        for pos in (0, 1, 6, 44, 710, 4999):
            given = yours(table[pos])
            if isinstance(given, torch.Tensor) and given.numel() == 1:
                given = given.item()
            expect(
                isinstance(given, int | float) and float(given).is_integer(),
                f"Return one whole number; for width {d} it is {given!r}.",
            )
            fast = int(torch.atan2(table[pos, 0], table[pos, 1]).remainder(2 * torch.pi).round())
            expect(
                given == pos or given != fast or pos < 6,
                f"For position {pos} you return {fast}: the fast clock alone cannot tell its turns apart.",
            )
            expect(given == pos, f"The code is that of position {pos}, and you return {given}.")
    noise = 0.05 * torch.randn(16, dtype=torch.float64)
    given = yours(sinusoids(5000, 16)[1234] + noise)
    expect(
        given == 1234,
        "With a little noise on the code of position 1234 it fails: compare with all codes, "
        "and do not ask that they be equal.",
    )


@exercise
def moved(yours):
    """a shift rotates every clock, wherever it stands"""
    for first, shift in ((3, 2), (40, 17), (30, -11), (7, 0), (40.25, 17)):
        here = first + torch.arange(5, dtype=torch.float64)
        codes, true, delta = at(here), at(here + shift), shift * rates(8)
        sin, cos = codes[:, 0::2], codes[:, 1::2]
        later = sin * delta.cos() + cos * delta.sin()
        typical = {
            "It turns the wrong way: the codes are those of positions − shift.":
                at(here - shift),
            "The new cosines are computed from the new sines: keep the old ones until both are done.":
                paired(later, cos * delta.cos() - later * delta.sin()),
            "Both lines have a plus: the cosine of a sum is cos cos − sin sin.":
                paired(later, cos * delta.cos() + sin * delta.sin()),
            "The codes of the shift are added; a shift turns the clocks.":
                codes + paired(delta.sin(), delta.cos()),
            "The rows are moved, and those that fall off come back at the other end; the codes have to turn.":
                codes.roll(-shift, 0),
            "These are the first positions + shift: the codes need not begin at position 0.":
                at(here - first + shift),
            "These come from a table of whole positions; the codes that are given stand between two of them.":
                at(here.round() + shift),
        }  # fmt: skip
        typical = {s: w for s, w in typical.items() if not close(w, true)}
        expect_close(yours(codes, shift), true, f"the tensor of codes, moved by {shift},", typical)
        expect(close(yours.given[0], codes), "The codes that were given are changed: return new ones.")


@exercise
def one_matrix_for_both(yours):
    """one matrix for a word and its position: a sum of two of its columns"""
    E, R = (torch.randn(n, 3, dtype=torch.float64) for n in (7, 5))
    typical = {
        "The positions come first; [w; p] has the word first.": torch.cat([R.T, E.T], dim=1),
        "The rows of E and R are the rows of W; W has d rows, and a word picks a column.": torch.cat([E, R]),
    }
    expect_close(yours(E, R), torch.cat([E.T, R.T], dim=1), "W", typical)


def bucketed(distance, n_buckets, far):
    """T5's buckets for distances that are not negative."""
    near = n_buckets // 2
    grown = (distance.clamp(min=1) / near).log() / math.log(far / near) * (n_buckets - near)
    return torch.where(distance < near, distance, (near + grown.long()).clamp(max=n_buckets - 1))


@exercise
def bucket(yours):
    """near distances have a number of their own, far ones share"""
    for n_buckets, far in ((32, 128), (8, 20)):
        near, distance = n_buckets // 2, torch.arange(3 * far)
        ratio = (distance.clamp(min=1) / near).log() / math.log(far / near)
        line = ((distance - near) / (far - near) * (n_buckets - near)).floor()
        again = (ratio * (n_buckets - near)).long().clamp(max=near - 1)
        true = bucketed(distance, n_buckets, far)
        typical = {
            "Distances beyond `far` get buckets that do not exist: they all belong to the last one.":
                torch.where(distance < near, distance, near + (ratio * (n_buckets - near)).long()),
            "The far groups are all of one size; they should grow: take the logarithm of distance / near.":
                torch.where(distance < near, distance, (near + line.long()).clamp(max=n_buckets - 1)),
            "The far buckets start again at 0: add those of the near distances.":
                torch.where(distance < near, distance, again),
            "Distances are clipped, and none is shared before that: it is half of the buckets for near ones.":
                distance.clamp(max=n_buckets - 1),
            "The bucket is rounded to the nearest whole number; cut it off instead.":
                torch.where(
                    distance < near, distance,
                    (near + (ratio * (n_buckets - near)).round().long()).clamp(max=n_buckets - 1),
                ),
        }  # fmt: skip
        typical = {s: w for s, w in typical.items() if not close(w, true)}
        given = yours(distance, n_buckets, far)
        expect(
            not (isinstance(given, torch.Tensor) and given.is_floating_point()),
            "The buckets should be whole numbers, for they will index a table: end with `.long()`.",
        )
        expect_close(given, true, f"the row of buckets for {n_buckets=} and {far=}", typical)


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
