"""Checks of chapter 14, a real translator."""

from itertools import pairwise

import torch

from heed.check import exercise, expect, expect_close, without
from heed.text import Subwords

MERGES = [("u", "n"), ("un", "d"), ("h", "und"), ("r", "o"), ("hund", "e"), ("o", "t")]
MERGES += [("n", "n"), ("b", "u")]


def merge_all(word, merges):
    """Make each merge in turn, wherever its pair stands, from left to right."""
    tokens = list(word)
    for left, right in merges:
        i = 0
        while i < len(tokens) - 1:
            if (tokens[i], tokens[i + 1]) == (left, right):
                tokens[i : i + 2] = [left + right]
            i += 1
    return tokens


def merge_once(word, merges):
    """The same, but a pair is merged only where it stands first."""
    tokens = list(word)
    for pair in merges:
        found = [i for i, two in enumerate(pairwise(tokens)) if two == pair]
        for i in found[:1]:
            tokens[i : i + 2] = ["".join(pair)]
    return tokens


def from_the_right(word, merges):
    """The same as `merge_all`, but each merge goes through the word from right to left."""
    found = merge_all(word[::-1], [(right[::-1], left[::-1]) for left, right in merges])
    return [token[::-1] for token in reversed(found)]


def longest_first(word, merges):
    """The longest known token at each position, whatever was merged when."""
    known, tokens = {*word, *("".join(pair) for pair in merges)}, []
    while word:
        n = max(n for n in range(1, len(word) + 1) if word[:n] in known)
        tokens, word = [*tokens, word[:n]], word[n:]
    return tokens


@exercise
@without(Subwords.__init__)
def split_word(yours):
    """every word is cut by the merges, in the order in which they were learned"""
    for word in ("hunde", "rot", "bund", "unrund", "rotunde", "", "unnot", "annnn", "annn"):
        answer = yours(word, MERGES)
        kept = yours.given[1] == MERGES
        expect(kept, "The list of merges has changed. It belongs to the caller: leave it whole.")
        expect(isinstance(answer, list | tuple), f"A list of tokens is wanted, and {answer!r} is none.")
        answer, right = list(answer), merge_all(word, MERGES)
        expect(
            "".join(map(str, answer)) == word,
            f"Side by side the tokens of {word!r} must be the word again, and they are {answer}.",
        )
        for wrong, sentence in (
            (list(word), "nothing was merged"),
            (merge_once(word, MERGES), "a merge is made wherever its pair stands, not only the first time"),
            (longest_first(word, MERGES), "the order of the merges decides, and not which token is longest"),
            (from_the_right(word, MERGES), "a merge goes through the word from left to right"),
            (merge_all(word, MERGES[::-1]), "make the merges in the order in which they were learned"),
        ):
            expect(answer != wrong or wrong == right, f"{word!r} became {answer}: {sentence}.")
        expect(answer == right, f"{word!r} became {answer}; it should be {right}.")


@exercise
def best_pair(yours):
    """the most frequent pair, counted with the words' frequencies, the alphabet deciding between equals"""
    once = {tuple("hund"): 1, tuple("und"): 1, tuple("bunt"): 1}
    expect(yours(once) == ("u", "n"), f"In hund, und, bunt the pair is ('u', 'n'), and not {yours(once)!r}.")
    rare = {tuple("ab"): 1, tuple("abc"): 1, tuple("xy"): 5}
    expect(
        yours(rare) != ("a", "b"),
        "A word that occurs five times counts five times: (x, y) is more frequent than (a, b).",
    )
    expect(yours(rare) == ("x", "y"), f"With xy five times the pair is ('x', 'y'), and not {yours(rare)!r}.")
    twice = {("l", "a", "l", "a"): 2, ("x", "y"): 3}
    expect(
        yours(twice) != ("x", "y"),
        "In l·a·l·a the pair (l, a) stands twice, so with two such words it counts four.",
    )
    expect(yours(twice) == ("l", "a"), f"For lala the pair is ('l', 'a'), and not {yours(twice)!r}.")
    equal = {("z", "a"): 2, ("b", "y"): 2, ("b", "x"): 2}
    expect(
        yours(equal) not in (("z", "a"), ("b", "y")),
        "Three pairs occur twice here. The one that stands first in the alphabet is wanted: ('b', 'x').",
    )
    expect(yours(equal) == ("b", "x"), f"Among equals ('b', 'x') is the first, and not {yours(equal)!r}.")
    merged = {("un", "d"): 3, ("b", "un"): 2}
    expect(yours(merged) == ("un", "d"), "Tokens may have several letters: for un·d the pair is ('un', 'd').")
    joined = {("ab", "a"): 1, ("a", "bc"): 1}
    expect(
        yours(joined) == ("a", "bc"),
        "Compare pairs token by token, not the strings they make: ('a', 'bc') stands before ('ab', 'a').",
    )


@exercise
def reordered(yours):
    """the hidden units stand in the new order, and the function is the same"""
    torch.manual_seed(0)
    W_1, b_1, W_2 = torch.randn(5, 3).double(), torch.randn(5).double(), torch.randn(4, 5).double()
    order = [2, 0, 1, 4, 3]  # not its own inverse
    back = [order.index(i) for i in range(5)]
    answer, given = yours(W_1, b_1, W_2, order), yours.given
    same = all(torch.equal(now, then) for now, then in zip(given[:3], (W_1, b_1, W_2), strict=True))
    expect(
        same and given[3] == order,
        "What was given has changed. It belongs to the caller: make new tensors.",
    )
    three = isinstance(answer, tuple | list) and len(answer) == 3
    expect(
        three and all(isinstance(each, torch.Tensor) for each in answer),
        "Three tensors are wanted, in this order: the first matrix, its bias, the second matrix.",
    )
    for name, mine, shape in zip(("W_1", "b_1", "W_2"), answer, ((5, 3), (5,), (4, 5)), strict=True):
        expect(tuple(mine.shape) == shape, f"{name} keeps its shape {shape}; yours is {tuple(mine.shape)}.")
    first, bias, second = answer
    expect_close(
        first,
        W_1[order],
        "the first matrix",
        typical={
            "The first matrix is as it was: its rows, one a hidden unit, are to be reordered.": W_1,
            "This is the order backwards: row 0 of the new matrix is row order[0] of the old one.": W_1[back],
        },
    )
    expect_close(
        bias,
        b_1[order],
        "the bias",
        typical={
            "The bias is as it was, so each hidden unit has another unit's bias.": b_1,
            "The bias goes the other way than the rows of the first matrix.": b_1[back],
        },
    )
    expect_close(
        second,
        W_2[:, order],
        "the second matrix",
        typical={
            "The second matrix is as it was: it reads unit 0 where another unit stands now.": W_2,
            "The columns of the second matrix follow the order of the first one's rows, not its inverse.": (
                W_2[:, back]
            ),
        },
    )
    x = torch.randn(7, 3).double()
    before = (x @ W_1.T + b_1).relu() @ W_2.T
    expect_close((x @ first.T + bias).relu() @ second.T, before, "what the layer computes")
    other = yours(torch.eye(3).double(), torch.zeros(3).double(), torch.ones(2, 3).double(), [1, 2, 0])
    expect_close(other[0], torch.eye(3).double()[[1, 2, 0]], "the first matrix of another layer")


@exercise
def mean_distance(yours):
    """the mean distance at which a token of this head looks"""
    weights = torch.randn(5, 5).double().softmax(-1)
    positions = torch.arange(5).double()
    far = (positions[:, None] - positions).abs()
    answer = torch.as_tensor(yours(weights), dtype=torch.float64)
    expect_close(
        answer,
        (weights * far).sum() / 5,
        "the mean distance",
        typical={
            "This is the sum over all rows; the mean over the n rows is wanted.": (weights * far).sum(),
            "The mean runs over all n² cells. A row's weights sum to one: divide by the n rows only.": (
                weights * far
            ).mean(),
            "Without |…| looking ahead and looking back cancel out.": (
                weights * (positions[:, None] - positions)
            ).sum()
            / 5,
            "Without |…| looking ahead and looking back cancel out: take the absolute value.": (
                weights * (positions - positions[:, None])
            ).sum()
            / 5,
            "This is the squared distance.": (weights * far**2).sum() / 5,
            "The weights are not used: all positions count the same here.": far.mean(),
            "Only the position with the largest weight counts here; all count, each by its weight.": (
                weights.argmax(-1) - torch.arange(5)
            )
            .abs()
            .double()
            .mean(),
        },
    )
    itself = torch.as_tensor(yours(torch.eye(3).double()), dtype=torch.float64)
    expect_close(itself, torch.zeros(()).double(), "the distance of a head that looks at the token itself")
