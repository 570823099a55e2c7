"""Checks of chapter 07, masks."""

import torch
from torch.nn import functional as F

from heed.attention import attention, causal_mask, dependence, masked_softmax
from heed.check import close, exercise, expect, expect_close, expect_shape, without
from heed.scores import scaled_dot_score
from heed.text import BOS, EOS


def expect_mask(mask, true, typical):
    """The answer is this Boolean mask; `typical` as for `expect_close`."""
    given = type(mask).__name__
    expect(isinstance(mask, torch.Tensor), f"The mask should be a tensor, and is of type {given}.")
    for sentence, wrong in typical.items():
        expect(not (mask.shape == wrong.shape and torch.equal(mask.bool(), wrong)), sentence)
    expect_shape(mask, true.shape, "the mask")
    expect(mask.dtype == torch.bool, f"The mask is {mask.dtype}, and should be bool: a comparison gives one.")
    differ = (mask != true).nonzero()
    if len(differ):
        i, j = differ[0].tolist()
        expect(False, f"mask[{i}, {j}] is {bool(mask[i, j])}, and should be {bool(true[i, j])}.")


@exercise
def cheat(yours):
    """every position looks at the next one, and a causal mask takes exactly that score away"""
    for n in (2, 3, 5, 12, 30):
        found = yours(n)
        expect(
            isinstance(found, tuple | list) and len(found) == 2,
            "Return two matrices, W_q and W_k.",
        )
        W_q, W_k = (torch.as_tensor(W).double() for W in found)
        expect_shape(W_q, (n, n), "W_q")
        expect_shape(W_k, (n, n), "W_k")
        expect(
            W_q.isfinite().all() and W_k.isfinite().all(),
            "The matrices hold infinite numbers or NaN: weights are finite, and a large one is enough.",
        )
        weights = (W_q.T @ W_k / n**0.5).softmax(-1)
        ahead, back, own = (weights.diagonal(offset) for offset in (1, -1, 0))
        expect(
            not torch.allclose(weights, weights.new_full((), 1 / n)),
            "All scores are equal, so every position looks everywhere.",
        )
        expect(
            back.min() < 0.6 or ahead.min() > 0.99,
            "Every position looks at the one before it: W_q and W_k are exchanged, or the shift is.",
        )
        expect(own.min() < 0.6, "Every position looks at itself: one of the two matrices has to be shifted.")
        expect(
            n < 3 or weights[:-1, 1:].argmax(-1).equal(torch.arange(n - 1)),
            "For some positions another key has the largest weight: only the score (i, i + 1) may be large.",
        )
        expect(
            ahead.min() > 0.99,
            f"With n = {n} the next position has only {ahead.min():.2f} of the weight: the others are n − 1, "
            "and the score is divided by √n.",
        )


@exercise
def window_mask(yours):
    """each position sees itself and the width − 1 before it"""
    for n, width in ((7, 3), (5, 1), (3, 11)):
        i, j = torch.arange(n)[:, None], torch.arange(n)
        true = (j <= i) & (j > i - width)
        wrong = {
            "It is one too wide: with width 1 a position sees only itself.": (j <= i) & (j >= i - width),
            "It is one too narrow: the position itself counts as one of the width.":
                (j <= i) & (j > i - width + 1),
            "The past beyond the window is still visible: a causal mask is half of the condition.": j <= i,
            "The window reaches into the future as well: j must not exceed i.": (i - j).abs() < width,
            "The window lies in the future: rows are queries i, columns are keys j.":
                (j >= i) & (j < i + width),
            "True and False are exchanged: True means that i may look at j.": ~true,
            "A position does not see itself.": (j < i) & (j >= i - width),
        }
        expect_mask(yours(n, width), true, {s: w for s, w in wrong.items() if not torch.equal(w, true)})


@exercise
def additive_mask(yours):
    """0 where the query may look, −∞ elsewhere, and no NaN"""
    mask = torch.tensor([[True, False, False], [True, True, False], [True, True, True]])
    true = torch.zeros(3, 3, dtype=torch.float64).masked_fill(~mask, float("-inf"))
    added = yours(mask)
    expect(torch.equal(yours.given[0], mask), "Your function changes the mask that it is given.")
    expect_shape(added, (3, 3), "the mask to add")
    expect(
        not added.isnan().any(),
        "It contains NaN: 0 · (−∞) is not 0. Fill, do not multiply.",
    )
    finite = added.double()
    expect(
        not (finite[~mask].isfinite().all() and (finite[~mask] < -1e3).all()),
        "A large negative number is not −∞: in a row where all is hidden, the query would see everything.",
    )
    expect_close(
        added,
        true,
        "the mask to add",
        typical={
            "True and False are exchanged: where the mask is True, add 0.":
                true.new_zeros(3, 3).masked_fill(mask, float("-inf")),
            "Adding 1 and 0 hides nothing: a hidden score must become −∞.": mask.double(),
            "Adding 0 and 1 hides nothing: a hidden score must become −∞.": (~mask).double(),
            "This is the logarithm of the wrong side: where the mask is True, add 0.": (~mask).double().log(),
        },
    )
    cube = torch.ones(2, 1, 1, 3, dtype=torch.bool)
    expect_shape(yours(cube), cube.shape, "the mask to add, for a mask of four axes,")


@exercise
def packed_mask(yours):
    """each token sees itself and the earlier tokens of its own name"""
    ids = torch.tensor([BOS, 5, 6, EOS, BOS, 7, EOS, BOS, 5, 6, 8, EOS])
    name = (ids == BOS).cumsum(0)
    past = causal_mask(len(ids))
    late = (ids == EOS).cumsum(0)
    early = late - (ids == EOS).long()
    true = (name[:, None] == name) & past
    assert torch.equal(early[:, None] == early, name[:, None] == name)
    expect_mask(
        yours(ids),
        true,
        {
            "Tokens see later tokens of their own name: the causal condition is missing.":
                name[:, None] == name,
            "Tokens see the names before their own: compare the numbers of the two names.": past,
            "Each <eos> belongs to the next name: count where names begin, at <bos>.":
                (late[:, None] == late) & past,
            "A token sees the names that come before or are its own: the numbers must be equal, not ordered.":
                (name[:, None] >= name) & past & (name[:, None] >= name),
            "True and False are exchanged: True means that i may look at j.": ~true,
            "Rows and columns are exchanged: the row is the query.": true.T,
            "A token does not see itself.": true & ~torch.eye(len(ids), dtype=torch.bool),
            "Tokens see only those with the same id: compare the numbers of their names, not the ids.":
                (ids[:, None] == ids) & past,
        },
    )
    three = torch.tensor([BOS, 9, 9])
    expect_mask(yours(three), causal_mask(3), {})


def _mixed(weigh, norm=False):
    """A self-attention on rows whose weights come from weigh(scores, mask)."""

    def f(x):
        mask = causal_mask(len(x))
        y = x + weigh(scaled_dot_score(x, x), mask) @ x
        return F.layer_norm(y, y.shape[-1:]) if norm else y

    return f


def _bugs():
    """Six planted bugs, each a function of rows with a leak."""
    hidden = float("-inf")
    one_more = lambda n: torch.ones(n, n).tril(1).bool()  # noqa: E731
    return {
        "no mask at all": _mixed(lambda s, mask: s.softmax(-1)),
        "a triangle that reaches one too far": _mixed(lambda s, mask: masked_softmax(s, one_more(len(s)))),
        "0 after the softmax": _mixed(lambda s, mask: s.softmax(-1) * mask),
        "0 before the softmax": _mixed(lambda s, mask: s.masked_fill(~mask, 0.0).softmax(-1)),
        "a softmax over the queries": _mixed(lambda s, mask: s.masked_fill(~mask, hidden).softmax(-2)),
        "a mean over the positions": lambda x: attention(x, x, x, causal_mask(len(x)))[0] - x.mean(0),
    }


@exercise
@without(dependence)
def leaks_future(yours):
    """it finds six planted bugs and a leak behind a layer norm, and rejects no causal function"""
    x = torch.randn(5, 4, dtype=torch.float64)
    strict = lambda s, mask: masked_softmax(s, mask.tril(-1))  # noqa: E731
    healthy = {
        "causal attention": _mixed(masked_softmax),
        "causal attention behind a layer norm": _mixed(masked_softmax, norm=True),
        "an attention that hides the token itself (a bug, but no leak)": _mixed(strict),
        "a function that looks only at the first row": lambda x: x[:1].expand_as(x).sin(),
    }

    def says(f):
        said = yours(f, x)
        expect(torch.equal(yours.given[1], x), "Your test changes the x that it is given: work on a copy.")
        if isinstance(said, torch.Tensor) and said.numel() == 1:
            said = bool(said)
        expect(isinstance(said, bool), f"Return True or False, and not a {type(said).__name__}.")
        return said

    found = {name: says(f) for name, f in _bugs().items()}
    accused = [name for name, f in healthy.items() if says(f)]
    missed = [name for name, leak in found.items() if not leak]
    expect(
        not (len(missed) == len(found) and len(accused) == len(healthy)),
        "It answers the wrong way round: True means that there is a leak.",
    )
    expect(
        "causal attention" not in accused,
        "It reports a leak in causal attention. Output i may depend on the rows up to i: look at j > i only.",
    )
    these = " and ".join(accused)
    expect(not accused, f"It reports a leak in {these}: look at later rows only, and for exactly zero.")
    expect(len(missed) < len(found), "It finds none of the six planted bugs.")
    expect(not missed, f"It misses {' and '.join(missed)}: try every output row i and all later rows j > i.")
    n, d = x.shape

    def only(i, j, column):
        """The identity, and one leak: entry `column` of output i also sees row j."""

        def f(x):
            place = torch.zeros(n, d, dtype=x.dtype)
            place[i, column] = 1.0
            return x + place * x[j].sin().sum()

        return f

    for i, j, column, sentence in (
        (0, 2, 0, "It misses an output that looks exactly two rows ahead: try all later rows."),
        (2, 3, 0, "It misses a leak into a middle row: try every output row, not only the first."),
        (0, 4, d - 1, "It misses a leak into the last entry of a row: try every entry of an output row."),
    ):
        expect(says(only(i, j, column)), sentence)
    behind = _mixed(lambda s, mask: s.softmax(-1), norm=True)
    expect(
        says(behind),
        "It misses a leak behind a layer norm, where the entries of a row always sum to the same number: "
        "differentiate each entry, or a sum with random weights.",
    )
    tiny = lambda f: lambda x: 1e-6 * f(x)  # noqa: E731
    expect(
        says(tiny(_bugs()["0 after the softmax"])),
        "It misses a small leak: ask whether the derivative is zero, not whether it is small.",
    )


def _padded(where):
    """A self-attention on rows with a padding mask: on the side of the keys, of the queries, or none."""

    def f(x, real):
        n = len(x)
        mask = {"keys": real[None, :], "queries": real[:, None], "none": torch.ones(1, n, dtype=torch.bool)}
        return x + attention(x, x, x, mask[where].expand(n, n))[0]

    return f


@exercise
def sees_padding(yours):
    """it finds a mask on the query side and a missing mask, and rejects no correct mask"""
    x = torch.randn(6, 3, dtype=torch.float64)
    reals = {
        "right": torch.tensor([True] * 4 + [False] * 2),
        "left": torch.tensor([False] * 2 + [True] * 4),
    }

    def says(f, real):
        said = yours(lambda rows: f(rows, real), x, real)
        if isinstance(said, torch.Tensor) and said.numel() == 1:
            said = bool(said)
        expect(isinstance(said, bool), f"Return True or False, and not a {type(said).__name__}.")
        return said

    def leaves_pads(x, real):
        return _padded("keys")(x, real).masked_fill(~real[:, None], 0.0) + x * ~real[:, None]

    def ahead(x, real):
        return x + attention(x, x, x, real[None, :] & causal_mask(len(x)))[0]

    for side, real in reals.items():
        found = {where: says(_padded(where), real) for where in ("keys", "queries", "none")}
        expect(
            found != {"keys": True, "queries": False, "none": False},
            "It answers the wrong way round: True means that a real row depends on padding.",
        )
        expect(
            not found["keys"] or says(leaves_pads, real),
            "It rejects a correct mask, in which padding looks at real rows. That is allowed; rows of the "
            "table are outputs, columns are inputs.",
        )
        expect(
            not found["keys"] or says(ahead, real),
            "It rejects a correct mask, with which a row looks ahead. Padding is not the future: use `real`.",
        )
        expect(
            not found["keys"],
            "It rejects a correct mask. Outputs at padding may depend on anything: test those at real rows.",
        )
        expect(found["none"], f"With padding on the {side} it does not notice that there is no mask.")
        expect(
            found["queries"],
            f"With padding on the {side} it misses a mask on the side of the queries: take outputs at real "
            "rows, inputs at padding.",
        )


@exercise
@without(masked_softmax)
def safe_softmax(yours):
    """zeros for a row that is all −∞, and a finite gradient everywhere"""
    hidden = float("-inf")
    scores = torch.tensor([[0.0, 1.0, hidden], [hidden] * 3, [2.0, -1.0, 0.5]], dtype=torch.float64)
    given = scores.clone().requires_grad_()
    weights = yours(given)
    kept = torch.equal(yours.given[0].detach(), scores)
    expect(kept, "Your function overwrites the scores that it is given.")
    expect_shape(weights, scores.shape, "the weights")
    expect(not weights.isnan().any(), "The row that is all −∞ gives NaN: 0/0.")
    mask = scores.isfinite()
    true = masked_softmax(scores, mask)
    even = true.clone()
    even[1] = 1 / 3
    large = scores.masked_fill(~mask, 0.0).softmax(-1)
    expect_close(
        weights,
        true,
        "the weights",
        typical={
            "The empty row looks at every key: after the softmax, its weights must become 0.": even,
            "A score of 0 is not hidden: replace the scores of *empty* rows only.": large,
            "The softmax runs over the queries; it belongs on the last axis.":
                scores.softmax(-2).nan_to_num(0.0),
        },
    )
    expect(weights.requires_grad, "No gradient passes back to the scores.")
    gradient = torch.autograd.grad(weights.sin().sum(), given)[0]
    expect(
        gradient.isfinite().all(),
        "The output is right, but the gradient is NaN: it passes through 0/0. The NaN must not arise at all.",
    )
    four = torch.randn(2, 3, 2, 5, dtype=torch.float64)
    four = four.masked_fill(torch.rand(2, 3, 2, 5) < 0.5, hidden)
    expect_close(yours(four), masked_softmax(four, four.isfinite()), "the weights of scores with four axes")
    copy = scores.clone().requires_grad_()
    wanted = torch.autograd.grad(masked_softmax(copy, mask).sin().sum(), copy)[0]
    expect(close(gradient, wanted), "The weights are right, and their gradient is not that of a softmax.")
    loud = torch.tensor([[1000.0, 1000.0, hidden]], dtype=torch.float64)
    expect(
        torch.allclose(yours(loud), torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64)),
        "Scores of 1000 go wrong: use torch's softmax, or subtract the largest score first.",
    )


@exercise
def equal_scores(yours):
    """row i divides its weight equally among i keys, and the first key gets the most"""
    weights, key, total = yours()
    weights = torch.as_tensor(weights, dtype=torch.float64)
    visible = torch.ones(4, 4, dtype=torch.float64).tril()
    expect_close(
        weights,
        visible / visible.sum(-1, keepdim=True),
        "the weights",
        typical={
            "¼ for each key that is seen: the rows do not sum to one. Divide by what is seen.":
                visible / 4,
            "These are ones and zeros: each row must sum to one.": visible,
            "Each query may look back; here each looks ahead.":
                visible.T / visible.T.sum(-1, keepdim=True),
            "The columns sum to one here, and the rows should: each query divides a weight of 1.":
                visible / visible.sum(0, keepdim=True),
        },
    )  # fmt: skip
    expect(key == 1, f"Key {key} gets less than another: who is seen by the most queries? Count from 1.")
    value = float(total)
    expect(abs(value - 1) > 1e-6, "1 is what a query gives away. A key receives from several queries.")
    expect(abs(value - 4) > 1e-6, "Four queries see key 1, and only the first gives it all of its weight.")
    expect(abs(value - 25 / 12) < 5e-3, f"Key 1 receives {value:.4g}; add its column: 1 + ½ + ⅓ + ¼.")


@exercise
def what_fits(yours):
    """which masks fit two heads and which fit four, and which one fits by accident"""
    two, four, accident = yours()
    shapes = {"a": (4, 1, 1, 4), "b": (4, 4), "c": (4, 1, 4), "d": (2, 4, 4), "e": (4, 4, 4)}
    for h, said in ((2, two), (4, four)):
        said = {*said}
        expect(said <= {*shapes}, f"The masks are called a to e; found {sorted(said)}.")
        for letter, shape in shapes.items():
            try:
                torch.broadcast_to(torch.ones(shape), (4, h, 4, 4))
                fits = True
            except RuntimeError:
                fits = False
            pair = f"({letter}) with {shape} {'fits' if fits else 'does not fit'} (4, {h}, 4, 4)"
            why = "no axis disagrees" if fits else "one axis has neither length 1 nor that length"
            expect((letter in said) == fits, f"{pair}: aligned at the right, {why}.")
    expect(accident != "d", "(d) is a window for each head, as meant. Whose sentences land on the queries?")
    missed = f"({accident}) means what its author intended, or raises a ValueError with two heads."
    expect(accident == "b", missed)


@exercise
def nothing_hidden(yours):
    """what is left of three hidden scores, replaced, added in float64, added in float32"""
    third = torch.full((3,), 1 / 3, dtype=torch.float64)
    plain = torch.tensor([1.0, 2, 3], dtype=torch.float64).softmax(-1)
    nothing = torch.zeros(3, dtype=torch.float64)
    replaced = "All three scores are equal then, and a softmax gives them equal weights, whatever the number."
    shifted = "In float64 all three keep their differences, and the softmax does not see what was added."
    rounded = "Near 10⁹ neighbouring float32 numbers are 64 apart: what becomes of 1, 2 and 3?"
    for value, true, what, typical in zip(
        yours(),
        (third, plain, third),
        ("the weights of (a)", "the weights of (b)", "the weights of (c)"),
        ((replaced, nothing, plain), (shifted, third, nothing), (rounded, plain, nothing)),
        strict=True,
    ):
        value = torch.as_tensor(value, dtype=torch.float64)
        expect_shape(value, (3,), what)
        sentence, *wrong = typical
        expect(all((value - it).abs().max() > 5e-3 for it in wrong), f"{what}: {sentence}")
        expect((value - true).abs().max() < 5e-3, f"{what} are not those. {sentence}")


@exercise
def sealed(yours):
    """a mask is sealed exactly if two looks reach no farther than one"""
    n = 5
    i, j = torch.arange(n)[:, None], torch.arange(n)
    pads = j >= 3
    line = torch.tensor([0, 0, 1, 1, 1])
    masks = {
        "a causal mask": j <= i,
        "causal and padding, where the pads see themselves": ((j <= i) & ~pads) | (i == j),
        "a sliding window of three": (j <= i) & (i - j < 3),
        "a mask that looks one too far": j <= i + 1,
        "packed lines": (line[:, None] == line) & (j <= i),
        "one that sees itself and the first": (j == i) | (j == 0),
        "pairs that see each other in a chain": (i - j).abs() <= 1,
        "no mask": torch.ones(n, n, dtype=torch.bool),
    }
    for name, mask in masks.items():
        reached = mask
        for _ in range(n):
            reached = (reached.double() @ mask.double()) > 0
        true = bool((reached == mask).all())
        said = yours(mask)
        single = isinstance(said, bool) or (torch.is_tensor(said) and said.numel() == 1)
        expect(single, f"True or False is asked for, and {type(said).__name__} came back.")
        why = "no number of looks reaches more than one" if true else "two looks reach more than one"
        expect(bool(said) == true, f"You call {name} {'sealed' if said else 'not sealed'}: {why}.")
