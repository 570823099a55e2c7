"""Checks of chapter 05, kinds of attention."""

import torch

from heed.check import exercise, expect, expect_close, expect_shape, without
from heed.tasks import hulls


@exercise
@without(torchs=("softmax", "multinomial", "exponential", "cumsum"), sentence="Do without `{}`.")
def noisy_choice(yours):
    """the position of the largest sum is a sample of the softmax, for any scores"""
    for e in (torch.tensor([0.0, 1.0, -0.5, 1.5]).double(), torch.tensor([3.0, 2.5, 1.0]).double()):
        n, u = len(e), torch.rand(40_000, len(e)).double()
        z = yours(e, u)
        expect_shape(z, (len(u),), "the positions")
        expect(z.dtype == torch.long, f"Return positions, as argmax gives them, and not {z.dtype}.")
        expect(0 <= z.min() and z.max() < n, f"Of {n} scores, the positions are 0 to {n - 1}.")
        gap = (torch.bincount(z, minlength=n) / len(u) - e.softmax(0)).abs().max().item()
        for sentence, noisy in (
            ("Every draw gives the same position: the noise is missing.", e.expand_as(u)),
            ("u itself is the noise: a score that is higher by more than 1 always wins.", e + u),
            ("ln u is added, and not the logarithm of the time: one logarithm is missing.", e + u.log()),
            ("−ln u is added: the slowest clock wins, and one logarithm is missing.", e - u.log()),
            ("The sign of the noise is wrong: the smallest time has to win.", e + (-u.log()).log()),
            ("The scores are multiplied by the noise; logarithms add.", e * -(-u.log()).log()),
            ("e is taken for a speed; it is the logarithm of one.", e / -u.log()),
            ("This noise is the logit of u, the difference of two such noises; take one.", e + u.logit()),
        ):
            expect(gap < 0.0125 or not torch.equal(z, noisy.argmax(-1)), sentence)
        expect(gap < 0.0125, f"A position comes up too often or too seldom, by {100 * gap:.0f} in 100 draws.")
        expect(torch.equal(z, yours(e, u)), "Make the noise of u: with the same u, the draw is the same.")
        for i in range(n):
            pushed = u.clone()
            pushed[:, i] = 1 - 1e-12
            won = yours(e, pushed) == i
            expect(won.all() or not won.any(), "Give each score a noise of its own, made of its own u_i.")


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
@without(hulls)
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
