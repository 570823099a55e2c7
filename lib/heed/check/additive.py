"""Checks of chapter 03, additive attention."""

import torch

from heed.attention import masked_softmax
from heed.check import close, exercise, expect, expect_close, expect_shape, without
from heed.scores import AdditiveScore, additive_score


def same(answer, tensor):
    """Is the answer this tensor, up to rounding?"""
    return torch.is_tensor(answer) and close(answer, tensor)


@exercise
@without(
    torchs=("softmax", "softmin", "logsumexp", "attention"),
    sentence="`{}` is what you are to write: use exp, a sum and the mask.",
)
def masked_weights(answer):
    """the weights follow the scores, the mask and the sum of one, also where nothing may be seen"""

    def yours(scores, mask):
        weights = answer(scores, mask)
        kept = torch.equal(answer.given[0], scores)
        expect(kept, "Your function overwrites the scores it is given: change a copy.")
        return weights

    scores = torch.tensor([[0.0, 1.0, 3.0], [2.0, -1.0, 0.5]], dtype=torch.float64)
    mask = torch.tensor([[True, False, True], [True, True, True]])
    whole = scores.exp() / scores.exp().sum(-1, keepdim=True)
    zeroed = scores * mask
    expect_close(
        yours(scores, mask),
        masked_softmax(scores, mask),
        "the weights",
        typical={
            "Each column sums to one; the weights of one query lie in a row, so sum over the last axis.":
                masked_softmax(scores.T, mask.T).T,
            "The mask is not used: the hidden key gets a weight, too.": whole,
            "The hidden weight is zero, but the row sums to less than one: apply the mask before you sum.":
                whole * mask,
            "A score of 0 is no hidden score, for e⁰ = 1. A hidden key needs e^s = 0.": zeroed.softmax(-1),
            "True means that the query may look there; here it looks where the mask is False.":
                masked_softmax(scores, ~mask),
        },
    )
    high = yours(scores + 1000, mask)
    expect(not high.isnan().any(), "Scores of 1000 give nan: subtract each row's largest score before exp.")
    expect_close(high, masked_softmax(scores, mask), "the weights of scores that are 1000 larger")
    apart = yours(scores + torch.tensor([[1000.0], [0.0]]), mask)
    expect_close(
        apart,
        masked_softmax(scores, mask),
        "the weights, one row 1000 higher than the other",
        typical={
            "The second row is lost beside one that is 1000 higher: subtract each row's own largest score.":
                masked_softmax(scores, mask) * torch.tensor([[1.0], [0.0]]),
        },
    )
    last = torch.tensor([[True, True, False], [True, True, True]])
    clamped = (scores - scores.amax(-1, keepdim=True)).exp() * last
    expect_close(
        yours(scores, last),
        masked_softmax(scores, last),
        "the weights where the largest score is hidden",
        typical={
            "Where the largest score is hidden, the row sums to less than one: clamp at a tiny number.":
                clamped / clamped.sum(-1, keepdim=True).clamp(min=1),
        },
    )
    mask[1] = False
    nowhere = yours(scores, mask)
    expect(
        not nowhere.isnan().any(),
        "A row that may look nowhere gives nan: somewhere it is 0/0, or −∞ − (−∞).",
    )
    expect((nowhere[1] == 0).all(), "A query that may look nowhere should get zeros, and here it does not.")
    loud = yours(scores + torch.tensor([0.0, 0.0, 1000.0]), last & torch.tensor([[True], [False]]))
    expect(
        torch.allclose(loud[0], masked_softmax(scores, last)[0]),
        "A hidden score of 1000 changes the others: put hidden scores far below all before you subtract.",
    )
    expect_close(
        yours(scores - 1000 * last, last),
        masked_softmax(scores, last),
        "the weights of visible scores near −1000 beside a hidden one",
        typical={
            "Visible scores of −1000 beside a hidden one get lost: put the hidden one far below them.":
                masked_softmax(scores, last) * torch.tensor([[0.0], [1.0]]),
        },
    )


@exercise
def sampled_attention(yours):
    """the mean of many draws comes close to Σ α_i x_i, and of few draws it does not"""
    weights = torch.tensor([[0.7, 0.2, 0.1, 0.0], [0.0, 0.1, 0.3, 0.6]], dtype=torch.float64)
    values = torch.tensor([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0], [8.0, 8.0]], dtype=torch.float64)

    def draw(n):
        return yours(weights, values, n, torch.Generator().manual_seed(n))

    mean, exact = draw(20000), weights @ values
    expect_shape(mean, exact.shape, "the mean")
    even, likeliest = values.mean(0).expand_as(exact), values[weights.argmax(-1)]
    off = (mean - exact).abs().max()
    expect((mean - even).abs().max() > 0.3, "All positions are drawn equally often; draw by their weights.")
    expect((mean - likeliest).abs().max() > 0.3, "Only the likeliest position is drawn; draw others, too.")
    expect((mean / 20000 - exact).abs().max() > 0.3, "This is the sum of the draws.")
    expect(off < 0.3, f"20000 draws should come within 0.3 of the expectation; yours are {off:.2f} away.")
    expect(off > 1e-9, "This is the exact expectation. The exercise is to reach it by drawing.")
    expect(
        torch.equal(draw(20), draw(20)),
        "Two generators with the same seed give two results: hand `generator` on to what draws.",
    )
    few = draw(2)
    picked = torch.cdist(few, (values[:, None] + values).flatten(0, 1) / 2).min(-1).values
    expect((picked < 1e-9).all(), "With n = 2 the result should be the mean of two of the values.")
    whole = 20 * draw(20) / 8
    expect((whole - whole.round()).abs().max() < 1e-9, "With n = 20 it is the mean of 20 of the values.")


@exercise
def one_further(yours):
    """whatever the query is, the candidate one further scores highest"""
    given = yours()
    expect(isinstance(given, tuple | list) and len(given) == 3, "Return three tensors: W, U and v.")
    for name, tensor, shape in zip("WUv", given, ((2, 1), (2, 2), (2,)), strict=True):
        expect_shape(tensor, shape, name)
    W, U, v = (tensor.double() for tensor in given)
    asked, places = torch.arange(-3.0, 4).double(), torch.arange(-6.0, 7).double()
    scores = additive_score(torch.stack([asked, torch.ones(7).double()], -1), places[:, None], W, U, v)
    found = places[scores.argmax(-1)]
    expect(scores.std() > 1e-9, "All scores are the same: the units cancel, or the cliffs are too far apart.")
    wanted = scores[places == (asked + 1)[:, None]]
    shared = (scores == wanted[:, None]).sum(-1) > 1
    expect(
        not (shared & (wanted == scores.amax(-1))).all(),
        "The top is flat: x = q + 1 shares the highest score with others. Bring the cliffs closer.",
    )
    for wrong, sentence in (
        (asked, "The score is highest at x = q, as in the figure; it should be highest at x = q + 1."),
        (asked - 1, "The score is highest at x = q − 1: one step back. Shift the cliffs the other way."),
        (-asked, "The score is highest at x = −q: the query enters with the wrong sign."),
        (1 - asked, "The score is highest at x = 1 − q: the query enters with the wrong sign."),
        (-asked - 1, "The score is highest at x = −q − 1: the query enters with the wrong sign."),
    ):
        expect(not torch.equal(found, wrong), sentence)
    expect(
        found.unique().numel() > 1 or found[0].abs() == 6,
        f"The ridge is at x = {found[0]:.0f} whatever the query is: look at U's first column.",
    )
    lowest = places[scores.argmin(-1)]
    expect(not torch.equal(lowest, asked + 1), "The score is lowest at x = q + 1: reverse the sign of v.")
    expect(
        found.unique().numel() > 1,
        f"The score is highest at x = {found[0]:.0f} whatever the query is: that is a cliff, and no ridge.",
    )
    expect(
        torch.equal(found, asked + 1),
        f"For q = {asked[0]:.0f} the score is highest at x = {found[0]:.0f} instead of {asked[0] + 1:.0f}.",
    )
    fine = torch.linspace(-6, 6, 241).double()  # steps of 0.05
    for q in (-3.0, 0.0, 3.0):
        scores = additive_score(torch.tensor([[q, 1.0]]).double(), fine[:, None], W, U, v)[0]
        top = fine[scores > scores.max() - 1e-9].mean()
        expect(
            (top - q - 1).abs() < 0.05,
            f"Of whole candidates x = q + 1 wins, but for q = {q:.0f} it is at x = {top:.2f}: check U.",
        )


@exercise
@without(
    additive_score,
    AdditiveScore.forward,
    AdditiveScore.compare,
    sentence="`{}` is what you are to write: two products, tanh and v.",
)
def contexts(yours):
    """each sentence gets its own mixture of its own states, and padding has no share"""
    s, h, W, U, v = (torch.randn(*shape).double() for shape in ((2, 3), (2, 5, 3), (3, 3), (3, 3), (3,)))
    swapped = additive_score(s[:, None], h, U, W, v).softmax(-1) @ h  # (2, 1, 3)
    expect(
        not same(yours(s, h, W, U, v, torch.ones(2, 5).bool()), swapped[:, 0]),
        "W and U are interchanged: W belongs to the states h, U to the query s.",
    )
    b, n, d_hidden, d_memory = 2, 5, 3, 7
    s, h = torch.randn(b, d_hidden).double(), torch.randn(b, n, d_memory).double()
    W, U, v = (torch.randn(*shape).double() for shape in ((3, d_memory), (3, d_hidden), (3,)))
    mask = torch.tensor([[True] * 5, [True, True, True, False, False]])
    scores = additive_score(s[:, None], h, W, U, v)[:, 0]  # (b, n)

    def mix(weights):
        return (weights[:, None] @ h)[:, 0]

    linear = (h @ W.T + (s @ U.T)[:, None]) @ v  # (b, n)
    expect_close(
        yours(s, h, W, U, v, mask),
        mix(masked_softmax(scores, mask)),
        "the context",
        typical={
            "Padding has a share in the context: the mask is not used.": mix(scores.softmax(-1)),
            "The weights no longer sum to one: the mask came after the softmax.":
                mix(scores.softmax(-1) * mask),
            "Padding is all that is looked at: True means that the decoder may look there.":
                mix(masked_softmax(scores, ~mask)),
            "The query is not used: add U s to W h.": mix(masked_softmax(torch.tanh(h @ W.T) @ v, mask)),
            "The softmax ran over the sentences of the batch; it belongs on the source axis.":
                mix(masked_softmax(scores.T, mask.T).T),
            "The tanh is missing, so that the query has no say.": mix(masked_softmax(linear, mask)),
            "The states are mixed with their scores; turn the scores into weights first.": mix(scores * mask),
            "What is mixed are the projected keys W h; take the states h themselves.":
                (masked_softmax(scores, mask)[:, None] @ (h @ W.T))[:, 0],
            "These are the weights; the context is the mixture of the states.": masked_softmax(scores, mask),
            "Every source state counts the same here: that is a mean, and no attention.":
                mix(mask.double() / mask.sum(-1, keepdim=True)),
        },
    )


@exercise
def update_then_attend(yours):
    """the new state asks, and the attentional vector is tanh(W_c [c; s])"""
    b, n, d, d_memory, d_embed = 2, 5, 3, 7, 4
    y, s, h = (torch.randn(*shape).double() for shape in ((b, d_embed), (b, d), (b, n, d_memory)))
    A, B, C = (torch.randn(*shape).double() for shape in ((d, d_embed), (d, d), (d_memory, d)))
    W_c = torch.randn(d, d_memory + d).double()

    def update(y, s):
        return torch.tanh(y @ A.T + s @ B.T)  # (b, d)

    def score(q, h):
        return (h @ C @ q[..., None])[..., 0]  # (b, n)

    def mix(weights):
        return (weights[:, None] @ h)[:, 0]  # (b, d_memory)

    def joined(*parts):
        return torch.cat(parts, dim=-1) @ W_c.T  # (b, d)

    given = yours(y, s, h, update, score, W_c)
    expect(isinstance(given, tuple | list) and len(given) == 2, "Return two: the vector and the new state.")
    vector, state = given
    new = update(y, s)
    weights, early = score(new, h).softmax(-1), score(s, h).softmax(-1)
    c = mix(weights)
    expect(
        not (same(vector, new) and same(state, joined(c, new).tanh())),
        "The two are interchanged: the vector comes first, then the state.",
    )
    expect_close(
        vector,
        joined(c, new).tanh(),
        "the attentional vector",
        typical={
            "This looks before the update: in Luong's order the *new* state is the query.":
                joined(mix(early), new).tanh(),
            "The query is new, but beside the context stands the old state.": joined(c, s).tanh(),
            "Nothing is updated here: the old state asks, and stands beside the context.":
                joined(mix(early), s).tanh(),
            "In [c; s] the context stands first, and here the state does.": joined(new, c).tanh(),
            "The tanh is missing: the attentional vector is tanh(W_c [c; s]).": joined(c, new),
            "The softmax ran over the sentences of the batch; it belongs on the source axis.":
                joined(mix(score(new, h).softmax(0)), new).tanh(),
            "The states are mixed with their scores; turn the scores into weights first.":
                joined(mix(score(new, h)), new).tanh(),
            "Every source state counts the same here: the scores are not used.":
                joined(h.mean(1), new).tanh(),
        },
    )
    expect_close(
        state,
        new,
        "the state",
        typical={
            "The old state comes back; hand on the one that `update` returned.": s,
            "The attentional vector is handed on as the state. The GRU needs its own state back.":
                joined(c, new).tanh(),
        },
    )


@exercise
def same_key(yours):
    """two equal keys share their weight, however sharp, and the mean of their values comes back"""
    expect_close(
        torch.tensor(float(yours()), dtype=torch.float64),
        torch.tensor(5.5, dtype=torch.float64),
        "the value",
        typical={
            f"{value:g}: {why}": torch.tensor(value, dtype=torch.float64)
            for value, why in {
                9.0: "so does a dictionary, which overwrites. Here both keys are as close to the "
                     "query: which weights have they?",
                2.0: "the first entry has no precedence: both keys are as close to the query.",
                11.0: "that is the sum of the two values, and the weights sum to one: each has a half.",
                3.5: "the other keys are farther away, and at a sharpness of 30 they have no weight.",
            }.items()
        },
    )  # fmt: skip


@exercise
def second_stranger(yours):
    """a second blue bar lowers the saliency by an eighth and the focus by a third"""
    saliency, focus = (torch.tensor(float(value), dtype=torch.float64) for value in yours())
    for value, true, what, typical in (
        (saliency, 1.75, "the saliency", {
            2.0: "It was 2 with eight neighbours that differ. Does the new bar differ, too?",
            2.25: "It falls: one of the eight neighbours is at distance 0 now.",
            1.0: "One neighbour of eight is equal now, and not half of them.",
            14 / 9: "A bar has eight neighbours; it is not one of its own.",
            0.25: "That is by how much it falls. What is left?",
        }),
        (focus, 0.6675, "the factor of the focus", {
            0.5: "Two share now, but they take from the many as well: the orange bars held almost half.",
            1.0: "The weights sum to one, and a second bar fits the query as well as the first.",
            0.3387: "The share afterwards, or by how much it falls: divide what is left by what was.",
            1.498: "Afterwards over before: the share falls.",
        }),
    ):  # fmt: skip
        for wrong, sentence in typical.items():
            expect(abs(value - wrong) > 0.01, sentence)
        expect(abs(value - true) < 0.015, f"{what} is {value.item():.3g}; it should be about {true:.3g}.")
