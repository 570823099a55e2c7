"""Checks of chapter 05, kinds of attention."""

import torch
from torch.nn import functional as F

from heed.attention import attention
from heed.check import AUTOGRAD, exercise, expect, expect_close, expect_shape, without
from heed.tasks import hulls


def onehot(z, n):
    """The row with a 1 at position z."""
    return F.one_hot(torch.tensor(z), n).double()


@exercise
@without(*AUTOGRAD, sentence="`{}` is autograd: the gradient of log α_z is a one-hot row minus the weights.")
def score_gradient(yours):
    """(f − b) (one-hot − α) for every draw, and its mean is the exact gradient"""
    alpha = torch.tensor([0.5, 0.25, 0.125, 0.125]).double()
    losses = torch.tensor([5.0, 8.0, 0.0, 10.0]).double()
    baseline = 3.0
    for z in (1, 0):
        loss, log_gradient = losses[z].item(), onehot(z, 4) - alpha
        expect_close(
            yours(alpha, z, loss, baseline),
            (loss - baseline) * log_gradient,
            f"the gradient for the draw {z}",
            typical={
                "The baseline is not used: take it from the loss.": loss * log_gradient,
                "The baseline is added; it has to be taken away from the loss.":
                    (loss + baseline) * log_gradient,
                "The sign is reversed: a one-hot row minus the weights, for descent turns it round later.":
                    (baseline - loss) * log_gradient,
                "This is the gradient of α_z; that of log α_z is one-hot − α, without the factor α_z.":
                    (loss - baseline) * alpha[z] * log_gradient,
                "Only the drawn score gets a gradient; the softmax lowers the others: subtract α.":
                    (loss - baseline) * onehot(z, 4),
                "Only the drawn score gets a gradient; every score has a part −α_i.":
                    (loss - baseline) * onehot(z, 4) * log_gradient,
                "This is the gradient of log α_z alone: multiply it by what the draw costs.": log_gradient,
            },
        )  # fmt: skip
    rows = torch.stack([yours(alpha, z, losses[z].item(), baseline) for z in range(4)])
    expect_close(alpha @ rows, alpha * (losses - alpha @ losses), "the mean over all draws")


@exercise
def best_baseline(yours):
    """no other baseline gives a smaller variance, for any weights and losses"""
    for logs, losses in (((0.0, 0.0, 0.0, 0.0), (5.0, 8.0, 0.0, 10.0)), ((2.0, 0.5, -1.0), (1.0, 4.0, 9.0))):
        alpha, losses = torch.tensor(logs).double().softmax(-1), torch.tensor(losses).double()
        squares = (torch.eye(len(alpha)).double() - alpha).square().sum(-1)
        true = (alpha * squares * losses).sum() / (alpha * squares).sum()
        answer = torch.as_tensor(yours(alpha, losses), dtype=torch.float64)
        if len(alpha) == 4:
            expect(answer.dim() == 0, f"The baseline is one number; yours is {tuple(answer.shape)}.")
            expect_close(answer, true, "the baseline for equal weights")
            continue
        expect_close(
            answer,
            true,
            "the baseline",
            typical={
                "This is the expected loss. It is best only if all draws have gradients of the same length.":
                    alpha @ losses,
                "This is the mean of the losses as if all weights were equal.": losses.mean(),
                "Weigh with α_i ‖∇ log α_i‖²: here the norm is not squared.":
                    (alpha * squares.sqrt() * losses).sum() / (alpha * squares.sqrt()).sum(),
                "Likely draws count more: the weights α_i are missing.":
                    (squares * losses).sum() / squares.sum(),
                "Divide by the sum of the α_i ‖∇ log α_i‖².": (alpha * squares * losses).sum(),
            },
        )  # fmt: skip


@exercise
def next_value(yours):
    """every position gets the value of the next one, and the last one that of the first"""
    given = yours()
    expect(isinstance(given, tuple | list) and len(given) == 2, "Return two tensors: Q and K.")
    q, k = given
    expect(all(isinstance(t, torch.Tensor) and t.dim() == 2 for t in given), "Q and K should be matrices.")
    expect(len(q) == len(k) == 4, f"Q and K need four rows each, and have {len(q)} and {len(k)}.")
    expect(q.shape == k.shape, f"Queries and keys must be equally wide, not {q.shape[1]} and {k.shape[1]}.")
    weights = attention(q.double(), k.double(), torch.eye(4).double())[1]
    expect(not weights.isnan().any(), "The weights are nan: scores must be finite.")
    looks, place = weights.argmax(-1), torch.arange(4)
    for wrong, sentence in (
        (place, "Every position gets its own value: roll the queries by one."),
        ((place - 1) % 4, "Every position gets the value before it: roll the other way, or swap Q and K."),
        (3 - place, "The values come back in reversed order; row 0 should get v_1, row 1 should get v_2."),
    ):
        expect(not torch.equal(looks, wrong), sentence)
    expect(weights.std() > 1e-6, "All weights are equal: no query prefers a key.")
    for i in range(4):
        wanted = (i + 1) % 4
        expect(looks[i] == wanted, f"Row {i} looks at position {looks[i]}, and should look at {wanted}.")
    least = weights.amax(-1).min()
    expect(
        least > 0.999,
        f"Each row looks at the right position, but with a weight of {least:.2f}: make the scores larger.",
    )


@exercise
def flat_scores(yours):
    """one softmax over these scores gives the weights of both steps"""
    sentence = torch.tensor([0.5, -1.0, 2.0]).double()
    word = torch.randn(3, 5).double() + torch.tensor([[0.0], [3.0], [-1.0]])
    beta, gamma = sentence.softmax(-1), word.softmax(-1)
    answer = yours(sentence, word)
    true = beta[:, None] * gamma

    def flat(scores):
        return scores.flatten().softmax(-1).view_as(word)

    expect(isinstance(answer, torch.Tensor), "Return a tensor with a score for each word.")
    expect(answer.shape == word.shape, f"There are 3 x 5 words, and your scores are {tuple(answer.shape)}.")
    expect(
        not torch.allclose(answer, true),
        "These are the weights β γ themselves; the exercise asks for the scores: take the logarithm.",
    )
    expect_close(
        flat(answer),
        true,
        "the softmax over your scores",
        typical={
            "Sentence score plus word score: normalise the word scores inside each sentence first.":
                flat(sentence[:, None] + word),
            "The words' softmax runs over the sentences: γ sums to one inside each sentence, last axis.":
                flat(beta.log()[:, None] + word.log_softmax(0)),
            "The sentence scores have no say here.": flat(gamma.log()),
            "The word scores have no say here.": flat(beta.log()[:, None].expand_as(word)),
            "Probabilities multiply, so their logarithms add: this adds β and γ.":
                flat(beta[:, None] + gamma),
            "This is the softmax of β γ: take the logarithm first.": flat(true),
            "The logarithms are multiplied; they have to be added.": flat(beta.log()[:, None] * gamma.log()),
        },
    )  # fmt: skip


@exercise
@without(hulls, "qhull_edges")
def next_corner(yours):
    """from every corner of 40 hulls the largest score is at the next one"""
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(40, 9, 2, generator=generator, dtype=torch.float64)
    asked, answers, true, clockwise = [], [], [], []
    for x, path in zip(points, hulls(points).tolist(), strict=True):
        path = [i for i in path if i >= 0]
        arrived = torch.tensor([0.0, -1.0]).double()
        for t, here in enumerate(path[:-1]):
            scores = yours(x, here, arrived)
            expect_shape(scores, (9,), "the scores")
            expect(not scores.isnan().any(), "A score is nan: is it that of the point where you stand?")
            asked.append(here)
            answers.append(int(scores.argmax()))
            true.append(path[t + 1])
            clockwise.append(path[t - 1] if t else path[-2])
            arrived = x[path[t + 1]] - x[here]
    n = len(true)
    same = [sum(a == b for a, b in zip(answers, other, strict=True)) for other in (true, asked, clockwise)]
    expect(same[1] < 0.5 * n, "The point where you stand gets the largest score: give it −∞.")
    expect(
        same[2] < 0.5 * n,
        "Your path goes back to the corner before: the smallest turn to the left must score highest.",
    )
    expect(same[1] == 0, f"At {same[1]} of {n} corners you stay where you are: give that point −∞.")
    expect(
        same[0] == n or same[0] < 0.3 * n,
        f"{same[0]} of {n} corners are right. A difference of angles may be negative: take it modulo 2π.",
    )
    expect(same[0] == n, f"Only {same[0]} of {n} corners are right.")
