"""Checks of chapter 16, BERT and GPT."""

import math

import torch

from heed.check import exercise, expect, expect_close, expect_shape


def starts_of_words(b=4, n=17):
    """Where words begin: True for the first piece of each word, and for the first piece of a row."""
    starts = torch.rand(b, n) < 0.5
    starts[:, 0] = True
    return starts


def asked_by_words(starts, dice, share):
    """All pieces of a word are asked for if the first one's number is below the share."""
    places = torch.arange(starts.shape[1]).expand_as(starts)
    first = torch.where(starts, places, 0).cummax(dim=1).values
    return dice.gather(1, first) < share


@exercise
def whole_words(yours):
    """all pieces of a word are hidden, or none, and one number decides"""
    for share in (0.15, 0.5):
        starts = starts_of_words()
        dice = torch.rand(starts.shape, dtype=torch.float64)
        true = asked_by_words(starts, dice, share)
        word = starts.long().cumsum(1)
        ours = dice < share
        together = word[:, :, None] == word[:, None, :]  # (b, n, n): pieces of one word
        last = starts.roll(-1, 1)
        last[:, -1] = True
        backwards = asked_by_words(last.flip(1), dice.flip(1), share).flip(1)
        expect_close(
            yours(starts, dice, share),
            true,
            "what is asked for",
            typical={
                "Each piece follows its own number; that of a word's first piece decides for all of them.":
                    ours,
                "A word is hidden as soon as any of its pieces is chosen: long words are hidden too often.":
                    (together & ours[:, None, :]).any(-1),
                "A word is hidden only if all of its pieces are chosen: long words hardly ever are.":
                    (together & ~ours[:, None, :]).any(-1).logical_not(),
                "Only first pieces are asked for; the rest of their words should be, too.": ours & starts,
                "The last piece of a word decides; let the first one.": backwards,
                "These are the pieces that stay: turn it round.": ~true,
            },
        )  # fmt: skip


def made_up(vocab=7, d=5):
    """A language model with a long memory: from ids (b, n) to log P of what comes next, (b, n, vocab)."""
    table, out = torch.randn(vocab, d, dtype=torch.float64), torch.randn(d, vocab, dtype=torch.float64)

    def log_p(ids):
        state, rows = torch.zeros(len(ids), d, dtype=torch.float64), []
        for i in range(ids.shape[1]):
            state = torch.tanh(table[ids[:, i]] + 0.8 * state.roll(1, dims=-1))
            rows.append((2 * state @ out).log_softmax(-1))
        return torch.stack(rows, dim=1)

    return log_p


def tried(log_p, ids, gap, vocab):
    """Every word in the gap: log P of each position from the gap on, (vocab, n − gap)."""
    rows = ids.expand(vocab, -1).clone()
    rows[:, gap] = torch.arange(vocab)
    said = log_p(rows)[:, gap - 1 : -1]
    return said.gather(-1, rows[:, gap:, None])[..., 0]


@exercise
def fill_gap(yours):
    """a decoder fills a gap, if it reads the sentence once with every word"""
    vocab = 7
    log_p = made_up(vocab)
    for n, gap in ((6, 2), (5, 1), (8, 5), (4, 3)):
        ids = torch.randint(vocab, (n,))
        steps = tried(log_p, ids, gap, vocab)
        true = steps.sum(1).softmax(0)
        given = yours(log_p, ids, gap, vocab)
        typical = {
            "These are the probabilities of the next word: what stands after the gap has no say yet.":
                steps[:, 0].softmax(0),
            "Only one word after the gap has a say; take all of them.": steps[:, :2].sum(1).softmax(0),
            "The word itself is left out: its own log P, given what stands before, belongs to the sum.":
                steps[:, 1:].sum(1).softmax(0),
            "These are means over the positions: log-probabilities of a sentence are added.":
                steps.mean(1).softmax(0),
            "These are log-probabilities of sentences; over the words of the gap they should become "
            "probabilities.": steps.sum(1),
            "They do not sum to one: divide by the sum over all words.": steps.sum(1).exp(),
        }  # fmt: skip
        if gap < n - 2:
            expect_close(given, true, "the probabilities", typical=typical)
        else:  # at the end, some of the mistakes are none
            expect_close(given, true, f"with the gap at {gap} of {n} words, the result")


@exercise
def prefix_mask(yours):
    """the source sees itself, the rest sees the source and what stands before: two stacks in one"""
    for n_source, n in ((3, 7), (1, 4), (5, 6)):
        given = yours(n_source, n)
        expect_shape(given, (n, n), "the mask")
        expect(given.dtype == torch.bool, f"The mask is {given.dtype}, and should be bool.")
        i, j = torch.arange(n)[:, None], torch.arange(n)
        causal = j <= i
        inside = (i < n_source) & (j < n_source)
        after = (i >= n_source) & (j >= n_source)
        sentences = {
            "Nobody sees ahead: but the tokens of the source may see all of the source.": causal,
            "Everyone sees everyone: so the target sees what it has to say.": torch.ones_like(causal),
            "The target does not see the source.": inside | (after & causal),
            "The target sees ahead: behind the source the mask is causal.": (j < n_source) | after,
            "The source sees the target: only what is written sees both.": causal | (i < n_source),
            "The target does not see itself: there is nothing of what it has written.":
                (j < n_source).expand(n, n),
            "This is the transpose: row i says whom token i sees.": (causal | (j < n_source)).T,
            "True means that i may look at j; here it means that it may not.": ~(causal | (j < n_source)),
        }  # fmt: skip
        true = causal | (j < n_source)
        if n_source > 1:
            for sentence, wrong in sentences.items():
                expect(torch.equal(wrong, true) or not torch.equal(given, wrong), sentence)
        expect(
            torch.equal(given, true),
            f"With {n_source} tokens of source and {n} in all, the mask differs from the right one in "
            f"{int((given != true).sum())} places.",
        )


@exercise
def bits_per_character(yours):
    """one number for all vocabularies"""
    for tokens in (["The", " mask", " is", " a", " question", "."], ["K", "e", "ys", " a", "nd", " values"]):
        log_p = -3 * torch.rand(len(tokens), dtype=torch.float64) - 0.1
        n, ln2 = sum(map(len, tokens)), math.log(2)
        lengths = torch.tensor([len(token) for token in tokens], dtype=torch.float64)
        bits = -log_p / ln2
        expect_close(
            yours(log_p, tokens),
            bits.sum() / n,
            "the result",
            typical={
                "These are nats: a bit is ln 2 of them.": -log_p.sum() / n,
                "Divided by ln 2 twice, or multiplied where it should be divided.": -log_p.sum() * ln2 / n,
                "These are bits a token: a larger vocabulary has fewer and dearer tokens.": bits.mean(),
                "This is a perplexity of tokens: two vocabularies cannot be compared by it.":
                    (-log_p.mean()).exp(),
                "A mean of ratios lets short tokens count as much as long ones: divide the sum of all bits "
                "by the sum of all characters.": (bits / lengths).mean(),
                "The sign: probabilities are below 1, and their logarithms are negative.": -bits.sum() / n,
            },
        )  # fmt: skip


@exercise
def gpt2_parameters(yours):
    """every matrix, every bias, every norm"""
    for vocab, n_positions, d, n_layers in ((11, 5, 10, 3), (50257, 1024, 768, 12)):
        embeddings = (vocab + n_positions) * d
        true = embeddings + n_layers * (12 * d * d + 13 * d) + 2 * d
        given = yours(vocab, n_positions, d, n_layers)
        expect(
            isinstance(given, int) and not isinstance(given, bool),
            f"Return a whole number; this is of type {type(given).__name__}.",
        )
        for sentence, wrong in {
            "The last matrix is counted twice: what is read and what is said share one.": true + vocab * d,
            "The positions are missing: here they are learned, a vector for each.": true - n_positions * d,
            "The biases of the linear layers are missing: 9 d in each layer.": true - n_layers * 9 * d,
            "The norms are missing: a scale and a shift, two norms in each layer and one at the end.":
                true - n_layers * 4 * d - 2 * d,
            "The norm after the last layer is missing.": true - 2 * d,
            "Only matrices are counted: biases and norms have parameters, too.":
                embeddings + n_layers * 12 * d * d,
            "Attention has four matrices: W_o is one of them.": true - n_layers * (d * d + d),
            "The feed-forward network is 4 d wide: its two matrices have 8 d² entries.":
                true - n_layers * 6 * d * d,
        }.items():  # fmt: skip
            expect(given != wrong, sentence)
        sizes = f"{vocab=}, {n_positions=}, {d=}, {n_layers=}"
        expect(given == true, f"For {sizes} there are {true - given:+,} more.")


