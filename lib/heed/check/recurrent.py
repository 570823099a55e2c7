"""Checks of chapter 01, recurrent networks."""

from itertools import product
from math import tanh

import torch

from heed.check import AUTOGRAD, exercise, expect, expect_close, expect_shape, without
from heed.evaluate import Span


@exercise
def remember(yours):
    """the state knows whether there was a "not", however long ago"""
    numbers = yours()
    numbers = numbers.tolist() if isinstance(numbers, torch.Tensor) else numbers
    count = len(numbers) if isinstance(numbers, tuple | list) else 1
    expect(count == 3, f"Three numbers are expected, w_x, w_h and b; the function returns {count}.")
    w_x, w_h, b = (float(number) for number in numbers)

    def last(word_is_not):
        h = 0.0
        for x in word_is_not:
            h = tanh(w_x * x + w_h * h + b)
        return h

    # the sum in the six cases (h, x), with the sign that it needs
    sums = {1: (w_x + b, w_x - w_h + b, w_h + b, w_x + w_h + b), -1: (b, b - w_h)}
    weak = all(sign * a > 0 for sign, rows in sums.items() for a in rows)

    def near(h, wanted, sentence):
        signs = f"All signs are right, but h is {h:.2f}, not near {wanted}: "
        signs += "multiply all three numbers by the same factor."
        expect(h * wanted > 0.9, signs if weak else sentence)

    h = last([0])
    near(h, -1, f"After one other word the state should be near −1, and it is {h:.2f}: here b decides alone.")
    h = last([1])
    near(h, 1, f"Right after “not” as the first word, the state should be near 1, and it is {h:.2f}.")
    h = last([1, 0])
    near(h, 1, f"The state forgets: one word after “not” it is {h:.2f}. The old state must weigh more.")
    h = last([0, 1])
    near(h, 1, f"A “not” after another word is missed, h is {h:.2f}: w_x is too small compared with w_h.")
    for words in product([0, 1], repeat=6):
        h, wanted = last(words), 1 if any(words) else -1
        near(h, wanted, f"After the inputs {list(words)} the state is {h:.2f} instead of {wanted}.")
    many = [0] * 100_000
    h = last([1, *many])
    near(h, 1, f"The state fades: {len(many)} words after “not” it is {h:.2f}. Is w_h large enough?")
    h = last(many)
    near(h, -1, f"After {len(many)} other words the state has left −1, it is {h:.2f}.")
    h = last([*many, 1])
    near(h, 1, f"A “not” after {len(many)} other words is missed, h is {h:.2f}.")


def kept_in(weights, words):
    """The states of a GRU with one number of state that reads words, (n, 2)."""
    W_x, W_h, b_x, b_h = weights
    h, states = torch.zeros(1, 1, dtype=torch.float64), []
    for word in words:
        r_x, z_x, g_x = (word[None] @ W_x.T + b_x).chunk(3, dim=-1)
        r_h, z_h, g_h = (h @ W_h.T + b_h).chunk(3, dim=-1)
        r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
        h = z * h + (1 - z) * torch.tanh(g_x + r * g_h)
        states.append(h.item())
    return states


@exercise
@without(*AUTOGRAD, sentence="`{}` trains: the numbers are to be chosen by hand.")
def drawer(yours):
    """what was put in is there a thousand words later, and is replaced at once"""
    answer = yours()
    right = isinstance(answer, tuple | list) and len(answer) == 4 and all(map(torch.is_tensor, answer))
    expect(right, "Return four tensors: W_x, W_h, b_x and b_h.")
    weights = [part.detach().double() for part in answer]
    shapes = {"W_x": (3, 2), "W_h": (3, 1), "b_x": (3,), "b_h": (3,)}
    for part, (name, shape) in zip(weights, shapes.items(), strict=True):
        expect_shape(part, shape, name)
    put = torch.tensor([[1.0, 1], [-1, 1], [1, 1], [-1, 1]], dtype=torch.float64)
    values = torch.randint(0, 2, (1000,)) * 2 - 1
    values[:3] = -1
    waits = torch.stack([values, torch.zeros(1000)], dim=-1).double()

    def far_off(words, wanted):
        return max(abs(h - w) for h, w in zip(kept_in(weights, words), wanted, strict=True)) >= 0.1

    at_once, there = far_off(put, put[:, 0]), torch.cat([put[:1], waits])
    flipped = torch.stack([there[:, 0], 1 - there[:, 1]], dim=-1)
    other_way = not far_off(flipped, [1.0] * 1001)
    sentence = "The gate works the wrong way round: in (1.7) z = 1 keeps; where the flag is 1, z must be 0."
    expect(not (at_once and other_way), sentence)
    after = kept_in(weights, put)
    said = ", ".join(f"{h:.2f}" for h in after)
    where = "Where the flag is 1 z must be near 0, and g near the value."
    sentence = f"+1, −1, +1, −1 were put in, one after the other, and the states are {said}. {where}"
    expect(not at_once, sentence)
    short = kept_in(weights, there[:4])
    sentence = f"+1 was put in, and three words with the flag 0 later it is {short[3]:.2f}."
    expect(short[3] > 0.5, f"{sentence} There z must be near 1, whatever the value.")
    for sign in (1.0, -1.0):
        words = torch.cat([torch.tensor([[sign, 1.0]], dtype=torch.float64), waits])
        h = kept_in(weights, words)[-1]
        sentence = f"It fades: {sign:+.0f} was put in, and a thousand words later it is {h:.2f}."
        expect(abs(h - sign) < 0.1, f"{sentence} What is left is z to the power of 1,000.")
    empty = kept_in(weights, waits)[-1]
    expect(abs(empty) < 0.1, f"Nothing was put in, and after a thousand words the drawer holds {empty:.2f}.")


@exercise
def bio_tags(yours):
    """the tags say where each name begins, goes on and ends"""

    def written(n, marked, first, inside, over=0):
        tags = ["O"] * n
        for kind, start, end in sorted(marked, key=lambda span: span.start):
            for i in range(start, max(start + 1, min(end + over, n))):
                tags[i] = f"{first if i == start else inside}-{kind}"
        return tags

    cases = [
        (8, {Span("PLACE", 3, 5), Span("MONTH", 6, 7)}),
        (5, {Span("MONEY", 0, 2), Span("MONEY", 2, 5)}),
        (3, set()),
        (1, {Span("LANGUAGE", 0, 1)}),
    ]
    typical = {
        "The end of a span is the first word after it; your tags continue one word too far.": ("B", "I", 1),
        "The end of a span is the first word after it; your tags stop one word too early.": ("B", "I", -1),
        "A span begins with B-; yours begins with I-.": ("I", "I", 0),
        "Only the first word of a span gets B-, the others get I-.": ("B", "B", 0),
        "The kind is right, and B- and I- are the wrong way round.": ("I", "B", 0),
    }
    for n, marked in cases:
        tags = yours(n, set(marked))
        expect(isinstance(tags, list), f"A list of tags is wanted, and this is a {type(tags).__name__}.")
        expect(len(tags) == n, f"{n} words need {n} tags, and there are {len(tags)}.")
        right = written(n, marked, "B", "I")
        dashes = [str(tag).replace("_", "-") for tag in tags]
        expect(tags == right or dashes != right, "A hyphen stands before the kind, as in B-PLACE.")
        expect(tags == right or set(dashes) != {"O"}, "Every tag is O, although words are marked.")
        upper = [tag.upper() for tag in dashes]
        expect(tags == right or upper != right, "Only the case is wrong: write B-PLACE, not b-place.")
        for sentence, way in typical.items():
            expect(tags == right or tags != written(n, marked, *way), sentence)
        for span in marked:
            rest = written(n, marked - {span}, "B", "I")
            expect(tags == right or tags != rest, f"One span is missing: {tuple(span)} in {n} words.")
        expect(tags == right, f"For {n} words and {sorted(map(tuple, marked))} it should be {right}.")


@exercise
def perplexity(yours):
    """every real letter counts once, and padding not at all"""
    scores = torch.randn(3, 5, 7, dtype=torch.float64)
    ids = torch.tensor([[4, 5, 6, 2, 2], [5, 2, 0, 0, 0], [1, 4, 2, 0, 0]])
    real = ids != 0
    loss = -scores.log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    p = (-loss[real]).exp()
    raw = -scores.gather(-1, ids[..., None])[..., 0]
    along = [(-scores.log_softmax(i).gather(-1, ids[..., None])[..., 0])[real].mean().exp() for i in (0, 1)]
    by_name = torch.stack([row[mask].mean() for row, mask in zip(loss, real, strict=True)])
    answer = yours(scores, ids)
    without = isinstance(answer, torch.Tensor) and bool(answer.isnan().any())
    expect(not without, "The perplexity is nan. The logarithm of a negative score? log_softmax comes first.")
    expect_close(
        answer,
        loss[real].mean().exp(),
        "the perplexity",
        typical={
            "Padding counts as well: leave out the positions where ids is 0.": loss.mean().exp(),
            "This is the mean of −log p; the perplexity is exp of it.": loss[real].mean(),
            "This is exp of the sum; it should be exp of the mean.": loss[real].sum().exp(),
            "The losses of padding are set to 0, but its positions still count in the mean.":
                (loss * real).mean().exp(),
            "Each name counts the same here, however short; each letter should.": by_name.mean().exp(),
            "This is the mean of the names' perplexities; take the mean before exp, over all letters.":
                by_name.exp().mean(),
            "This is the mean of 1/p; take the mean of −log p first, and exp of that.":
                loss[real].exp().mean(),
            "This is 1 over the mean of p; take the mean of −log p, and exp of that.": 1 / p.mean(),
            "The logarithm is missing: this is exp of the mean of −p.": (-p).mean().exp(),
            "The logarithm and the minus are missing: this is exp of the mean of p.": p.mean().exp(),
            "These are scores, not logarithms of probabilities: log_softmax is missing.":
                raw[real].mean().exp(),
            "The sign is wrong: a perplexity below 1 would be surer than sure.": (-loss[real].mean()).exp(),
            "log_softmax runs over the batch (dim=0); it should run over the letters, dim=-1.": along[0],
            "log_softmax runs over the positions (dim=1); it should run over the letters, dim=-1.": along[1],
            "The logarithm is the natural one, so the power is one of e, not of 2.": 2 ** loss[real].mean(),
        },
    )


@exercise
@without(*AUTOGRAD, sentence="`{}` is autograd: use formula (1.4), one step back after the other.")
def back_through_time(yours):
    """the gradient travels back through every step, as autograd says"""
    n, d = 5, 3
    W_h, gradient = torch.randn(d, d, dtype=torch.float64), torch.randn(d, dtype=torch.float64)
    h = torch.zeros(d, dtype=torch.float64, requires_grad=True)
    states = []
    for x in torch.randn(n, d, dtype=torch.float64):
        h = torch.tanh(x + W_h @ h)
        states.append(h)
    true = torch.stack(torch.autograd.grad(states[-1] @ gradient, states))
    states = torch.stack(states).detach()

    def wrongly(back):
        rows = [gradient]
        for t in range(n - 1, 0, -1):
            rows.insert(0, back(rows[0], t))
        return torch.stack(rows)

    slope = 1 - states**2
    given = {"states": states, "W_h": W_h, "gradient": gradient}
    answer = yours(*given.values())
    for (name, before), now in zip(given.items(), yours.given, strict=True):
        expect(torch.equal(now, before), f"The function changes {name} in place; make a new tensor instead.")
    expect_close(
        answer,
        true,
        "the matrix of gradients",
        typical={
            "The rows are in the order of computing; row 0 belongs to the first state.": true.flip(0),
            "Forwards the product was W_h @ h; backwards the sum runs over the first index: g @ W_h.":
                wrongly(lambda g, t: W_h @ (g * slope[t])),
            "The gradient is a row: it is multiplied with the Jacobian as g @ J_t, not as J_t @ g.":
                wrongly(lambda g, t: slope[t] * (W_h @ g)),
            "The slope of tanh, 1 − h², is missing.": wrongly(lambda g, t: g @ W_h),
            "The slope belongs to the later state, h_t, through whose tanh the gradient goes back.":
                wrongly(lambda g, t: (g * slope[t - 1]) @ W_h),
            "The slope is taken after W_h; going back, the tanh comes first.":
                wrongly(lambda g, t: (g @ W_h) * slope[t]),
            "These are the gradients with respect to a, before the tanh: each row has one slope too many.":
                true * slope,
            "The state is a tanh already: its slope is 1 − h², without another tanh.":
                wrongly(lambda g, t: (g * (1 - states[t].tanh() ** 2)) @ W_h),
            "The slope of tanh is 1 − h², and here it is 1 − h.":
                wrongly(lambda g, t: (g * (1 - states[t])) @ W_h),
            "The rows are sums over time; each should be the gradient with respect to one state alone.":
                true.flip(0).cumsum(0).flip(0),
            "All rows are the gradient of the last state: each step back must change it.":
                gradient.expand(n, d),
        },
    )


@exercise
def two_meanings(yours):
    """one tag for all that looks the same: what is seen bounds what can be right"""
    most, share = yours()
    expect(len(most) == 3, f"Three numbers are wanted for (a), one a tagger, and there are {len(most)}.")
    table, left, both = map(int, most)
    for name, number in (("table", table), ("left-to-right tagger", left), ("two-way tagger", both)):
        expect(0 <= number <= 3, f"(a) Of three words *Chad* the {name} cannot have {number} right.")
    expect(table != 3, "(a) The table has one tag for *Chad*, and the test wants two different ones.")
    expect(table == 2, "(a) The table may choose the country's tag: then how many of the three are right?")
    expect(left != 3, "(a) From the left, both first words are read alone: one state and one tag for both.")
    expect(left == 2, "(a) Of the first words one can be right. And after *flew to* the country can be told.")
    expect(both == 3, "(a) From both sides, no two of the three stand among the same words.")
    expect(abs(share - 1) > 1e-6, "(b) It has seen all answers, and still has one tag for a word: not all.")
    expect(abs(share - 38 / 5) > 1e-6, "(b) A share is wanted, not a mean of counts: divide by fifty.")
    names = "(b) A word that is a name 5 times of 10: either tag is right 5 times."
    expect(abs(share - 33 / 50) > 1e-6 and abs(share - 43 / 50) > 1e-6, names)
    expect(abs(share - 0.76) < 0.005, f"(b) {share:.3g}? Count for each word its more frequent tag.")
