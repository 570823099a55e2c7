"""Checks of chapter 12, training."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from heed.check import close, exercise, expect, expect_close, expect_shape, without
from heed.data import Batch, TokenBatches, pad, pad_batch
from heed.loss import label_smoothing, smoothed
from heed.schedule import noam
from heed.text import BOS, EOS, PAD


@exercise
@without(pad_batch, Batch.target_in.fget, Batch.target_out.fget)
def read_and_say(yours):
    """what the decoder reads, what it must say, and which predictions count"""
    for targets in ([[4, 5, 6], [7], []], [[8, 9], [9, 8]]):
        given = yours(targets)
        expect(
            isinstance(given, tuple | list) and len(given) == 4,
            "Return four things: reads, says, counts and n.",
        )
        reads, says, counts, n = given
        rows = pad([[BOS, *row, EOS] for row in targets])
        real, longest = rows[:, 1:] != PAD, rows.shape[1]
        bare = pad([row for row in targets])
        expect_close(
            reads,
            rows[:, :-1],
            "reads",
            typical={
                "The decoder reads what it must say: take the target without its LAST column.": rows[:, 1:],
                "The decoder reads the whole target, its last column too: nothing is left to be said there.":
                    rows,
                "BOS is missing: each target is BOS … EOS.": bare,
            } | ({} if real.all() else {
                "EOS is cut off from every row before the padding; cut the last COLUMN off, after it.":
                    pad([[BOS, *row] for row in targets]),
            }),
        )  # fmt: skip
        expect_close(
            says,
            rows[:, 1:],
            "says",
            typical={
                "The decoder must say what it reads: shift by one, the target without its FIRST column.":
                    rows[:, :-1],
                "The decoder must say the whole target here: leave BOS out.": rows,
                "EOS is missing: the model must learn to stop.": bare,
            },
        )  # fmt: skip
        expect_shape(counts, (len(targets), longest - 1), "counts")
        expect(counts.dtype == torch.bool, f"counts is {counts.dtype}; a mask is torch.bool.")
        expect(
            torch.equal(real, (rows[:, :-1] != PAD)) or not torch.equal(counts, rows[:, :-1] != PAD),
            "counts looks at what is READ; at a row's EOS it must say PAD, and that does not count.",
        )
        expect(
            not torch.equal(counts, real & (rows[:, 1:] != EOS)),
            "EOS does not count here; but the model must learn to stop.",
        )
        expect(not torch.equal(counts, ~real), "counts is True at padding; it should be True elsewhere.")
        expect(torch.equal(counts, real), "counts should be True where what must be said is not PAD.")
        expect(not isinstance(n, torch.Tensor) or n.dim() == 0, "n should be one number.")
        n = int(n)
        expect(n != real.numel() or real.all(), "n counts all positions; padding is not to be predicted.")
        expect(
            n != int((rows != PAD).sum()),
            "n counts BOS as well; nobody has to say it.",
        )
        expect(n == int(real.sum()), f"n is {n}, and {int(real.sum())} predictions count.")


TARGET = torch.tensor([1, 4, PAD, 2, 3, PAD, 1])
Q = smoothed(TARGET, 5, 0.3, torch.float64)


def builds_no_q(name, arguments, result):
    """No tensor holds the smoothed targets, of all rows or of those that count."""
    for tensor in (*arguments, result):
        built = isinstance(tensor, torch.Tensor) and (close(tensor, Q) or close(tensor, Q[TARGET != PAD]))
        expect(not built, "This builds q, a row of the vocabulary for each token: equation 12.6 needs none.")


@exercise
@without(smoothed, label_smoothing, torchs=("cross_entropy",), look=builds_no_q)
def smooth_cross_entropy(yours):
    """torch's smoothed cross-entropy, summed over the tokens that count"""
    logits = torch.randn(7, 5, dtype=torch.float64)
    target, keep = TARGET, TARGET != PAD
    for epsilon in (0.3, 0.0):
        log_p = logits.log_softmax(-1)
        right = log_p.gather(1, target[:, None])[:, 0]

        def total(of, rest, rows=keep, right=right, log_p=log_p):
            return -(of * right + rest * log_p.sum(-1))[rows].sum()

        e, n = epsilon, int(keep.sum())
        true = F.cross_entropy(logits, target, ignore_index=PAD, label_smoothing=epsilon, reduction="sum")
        everywhere = torch.ones_like(keep)
        wrong = {
            "Rows whose target is PAD are in the sum: leave them out.": total(1 - e, e / 5, everywhere),
            "This is the mean over the tokens; return the sum.": true / n,
            "This is the mean over all rows, PAD's too; return the sum.": true / len(target),
        }
        if epsilon:
            wrong |= {
                "There is no smoothing in it: ε is not used.": total(1, 0),
                "The penalty is the mean over tokens and vocabulary; over the tokens it is a sum.":
                    -(1 - e) * right[keep].sum() - e * log_p[keep].mean(),
                "ε is shared among the wrong tokens only, V − 1 of them; in equation 12.6 the right one gets "
                "its share, too.":
                    -((1 - e) * right + e / 4 * (log_p.sum(-1) - right))[keep].sum(),
                "The penalty is the SUM over the vocabulary, times ε; it is the mean: divide by V.":
                    total(1 - e, e),
                "The right token keeps its full weight 1: it should be 1 − ε.": total(1, e / 5),
                "The right token has weight ε and all tokens share 1 − ε: the two are interchanged.":
                    total(e, (1 - e) / 5),
            }  # fmt: skip
        logs = logits.log_softmax(0)
        if isinstance(given := yours(logits, target, epsilon), torch.Tensor) and given.dim() == 0:
            column = -((1 - e) * logs.gather(1, target[:, None])[:, 0] + e / 5 * logs.sum(-1))[keep].sum()
            axis = "The softmax runs over the tokens; its axis is the vocabulary, dim=-1."
            expect(not close(given, column), axis)
            expect(not close(given, -true), "The sign is wrong: a loss is −log p.")
            expect(not given.isnan(), "The loss is nan: is there a 0 · log 0 in it?")
        expect_close(given, true, "the loss", typical=wrong)


@exercise
def rate_of_micro_batch(yours):
    """the rate of the update that this micro-batch becomes a part of"""
    cases = [(i, micro, 64, 10) for micro in (1, 4, 10) for i in (0, 3, 4, 9, 39, 40, 399)]
    given = [float(yours(*case)) for case in cases]

    def said(step):
        return [noam(step(i, micro), d, w) for i, micro, d, w in cases]

    def same(other):
        return all(abs(a - b) < 1e-9 for a, b in zip(given, other, strict=True))

    typical = {
        "The schedule counts micro-batches: only every `micro`-th of them makes an update.":
            lambda i, m: i + 1,
        "The first `micro` micro-batches belong to update 1, and yours counts updates from 2 on.":
            lambda i, m: i // m + 2,
        "The last micro-batch of an update already gets the next rate: round down, then add one.":
            lambda i, m: (i + 1) // m + 1,
        "The first micro-batches of an update still get the rate of the one before.":
            lambda i, m: max(1, (i + 1) // m),
        "Only the first updates are right: i // micro updates are finished, and this one comes after them.":
            lambda i, m: max(1, i // m),
    }  # fmt: skip
    for sentence, step in typical.items():
        expect(not same(said(step)), sentence)
    expect(
        not same([noam(i // m + 1, d, w * m) for i, m, d, w in cases]),
        "warmup is multiplied by `micro`; it counts updates already.",
    )
    for (i, micro, d, w), mine in zip(cases, given, strict=True):
        true = noam(i // micro + 1, d, w)
        expect(
            abs(mine - true) < 1e-9,
            f"i={i}, micro={micro}: the rate is {true:.5f}, and yours says {mine:.5f}.",
        )


@exercise
@without(TokenBatches.epoch)
def cut_by_tokens(yours):
    """every pair once, within the budget on both sides, and no batch ends before it is full"""
    generator = torch.Generator().manual_seed(1)
    many = torch.randint(1, 20, (60, 2), generator=generator).tolist()
    sides = many, [(2, 2), (9, 3), (3, 9), (2, 3), (5, 4)], [(1, 8), (8, 1), (2, 2), (4, 4), (8, 8)], [(7, 7)]
    for lengths, budget in zip(sides, (60, 12, 16, 7), strict=True):
        lengths = [tuple(pair) for pair in lengths]
        plan = [list(rows) for rows in yours(lengths, budget)]
        found = sorted(i for rows in plan for i in rows)
        expect(
            all(isinstance(i, int) for i in found),
            "A batch holds indices into `lengths`, whole numbers.",
        )
        expect(
            found not in (sorted(map(max, lengths)), sorted(n for n, _ in lengths)),
            "These are lengths; a batch holds the indices of the pairs.",
        )
        expect(set(found) <= set(range(len(lengths))), "There is an index that no pair has.")
        missing = set(range(len(lengths))) - set(found)
        lost = f"Pair {min(missing, default=0)} of {len(lengths)} is in no batch: is the last one kept?"
        expect(not missing, lost)
        expect(len(found) == len(lengths), "A pair stands in two batches, or twice in one.")
        for rows in filter(None, plan):
            both = [len(rows) * max(lengths[i][side] for i in rows) for side in (0, 1)]
            real = [sum(lengths[i][side] for i in rows) for side in (0, 1)]
            expect(
                max(both) <= budget or max(real) > budget,
                "The budget counts real tokens and forgets the padding: it holds for rows times the longest.",
            )
            expect(
                max(both) <= budget,
                f"A batch has {max(both)} positions on one side, and the budget is {budget}: the longest "
                "source and the longest target must both fit.",
            )
        expect(all(plan), "There is an empty batch: make one only when a pair stands in it.")
        tops = [[max(lengths[i]) for i in rows] for rows in plan]
        tops.sort(key=lambda widths: (max(widths), min(widths), -len(widths)))  # full ones before the last
        expect(
            all(max(a) <= min(b) for a, b in pairwise(tops)),
            "Pairs of unlike length share a batch: sort by the longer side of each pair first.",
        )
        for before, after in pairwise(tops):
            room = (len(before) + 1) * min(after)
            expect(
                room > budget,
                f"A batch ends too soon: one more pair would make {room} positions; {budget} are allowed.",
            )


def moves(grads, rate, b1, b2, eps, corrected=True, variant=""):
    """Adam's moves for one weight; `variant` names a mistake."""
    m, v, made = 0.0, 0.0, []
    for t, g in enumerate(grads, start=1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * (g if variant == "no square" else g * g)
        c1, c2 = (1 - b1**t, 1 - b2**t) if corrected else (1.0, 1.0)
        if variant == "stored":
            m, v = m / c1, v / c2
            c1 = c2 = 1.0
        root = abs(v / c2) ** 0.5
        made.append(-rate * (m / c1) / ((v / c2 + eps) ** 0.5 if variant == "under" else root + eps))
    return made


@exercise
@without("Adam.step", "_single_tensor_adam")
def adam_moves(yours):
    """the moves of torch's Adam, update by update"""
    cases = (
        ([0.5, 0.5, 0.5], 0.1, 0.9, 0.98, 1e-9),
        ([3.0, -1.0, 0.0, 2.0, -0.001], 0.025, 0.9, 0.98, 1e-9),
        ([1e-3, 2.0, 1e-3], 1.0, 0.5, 0.9, 0.1),
    )
    for grads, rate, b1, b2, eps in cases:
        given = yours(list(grads), rate, b1, b2, eps)
        expect(
            isinstance(given, list | tuple | torch.Tensor), "Return a list, with a move for each gradient."
        )
        expect(len(given) == len(grads), f"{len(grads)} gradients make {len(grads)} moves, not {len(given)}.")
        given = [float(move) for move in given]
        weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        adam = torch.optim.Adam([weight], lr=rate, betas=(b1, b2), eps=eps)
        places = [0.0]
        for g in grads:
            weight.grad = torch.tensor([g], dtype=torch.float64)
            adam.step()
            places.append(weight.item())
        true = [b - a for a, b in pairwise(places)]

        def is_like(other, given=given):
            return all(abs(a - b) <= 1e-7 * max(1, abs(b)) for a, b in zip(given, other, strict=True))

        def made(corrected=True, variant="", case=(grads, rate, b1, b2, eps)):
            return moves(*case, corrected, variant)

        typical = {
            "The sign is wrong: a move goes against the gradient.": [-move for move in true],
            "The means are not corrected for their start at zero: divide them by 1 − β₁ᵗ and 1 − β₂ᵗ.":
                made(corrected=False),
            "The corrected means are stored, and corrected again in the next update.": made(variant="stored"),
            "eps stands under the root; Adam adds it to the root.": made(variant="under"),
            "v is a mean of gradients; it should be one of their SQUARES.": made(variant="no square"),
            "Each gradient is divided by its own size alone: the means are missing.":
                [-rate * g / (abs(g) + eps) for g in grads],
            "These are the places of the weight; return its moves, one for each update.": places[1:],
            "The rate is not in it.": [move / rate for move in true],
        }  # fmt: skip
        for sentence, wrong in typical.items():
            expect(is_like(true) or not is_like(wrong), sentence)
        for t, (mine, move) in enumerate(zip(given, true, strict=True), start=1):
            expect(
                abs(mine - move) <= 1e-7 * max(1, abs(move)),
                f"Gradients {grads}: update {t} moves by {move:.5f}, and yours says {mine:.5f}.",
            )


@exercise
@without(torchs=("dropout",))
def dropped(yours):
    """zeros where the draw says so, the mean kept, and nothing at evaluation"""
    x = torch.randn(6, 5, dtype=torch.float64) + 3
    draws = torch.rand(6, 5, dtype=torch.float64)
    for p in (0.3, 0.6):
        keep = (draws >= p).double()
        still = yours(x, p, draws, False)
        expect_close(
            still,
            x,
            "the result at evaluation",
            typical={
                "Entries are dropped at evaluation: there every entry stays as it is.": x * keep / (1 - p),
                "Entries are multiplied by 1 − p at evaluation. Then training must not divide; here it does, "
                "and evaluation changes nothing.": x * (1 - p),
                "Entries are divided by 1 − p at evaluation, and none is dropped: their mean is too large.":
                    x / (1 - p),
            },
        )  # fmt: skip
        expect_close(
            yours(x, p, draws, True),
            x * keep / (1 - p),
            "the result in training",
            typical={
                "The kept entries are not divided by 1 − p: the mean shrinks.": x * keep,
                "The kept entries are divided by p; they are kept with probability 1 − p.": x * keep / p,
                "The kept entries are multiplied by 1 − p; that makes the mean smaller still.":
                    x * keep * (1 - p),
                "This keeps what it should drop: an entry is dropped where its draw is BELOW p.":
                    x * (1 - keep) / (1 - p),
                "Nothing is dropped in training.": x,
                "All entries of a row share the first draw; every entry has a draw of its own.":
                    x * keep[:, :1] / (1 - p),
            },
        )  # fmt: skip
    all_kept = yours(x, 0.0, draws, True)
    expect_close(all_kept, x, "the result with p = 0")
