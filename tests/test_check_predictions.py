"""Predictions have a check, too: what one might believe gets the sentence that says why not."""

import pytest

from heed import check

ROWS = [[1 / i if j < i else 0 for j in range(4)] for i in range(1, 5)]
BOS, A, B = (
    {"a": 0.6, "b": 0.4, "<eos>": 0},
    {"a": 0.1, "b": 0.1, "<eos>": 0.8},
    {"a": 0.8, "b": 0.1, "<eos>": 0.1},
)
SOFT = [0.09003, 0.24473, 0.66524]


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("two_meanings", ([2, 3, 3], 0.76), "read alone"),
        ("two_meanings", ([3, 2, 3], 0.76), "one tag for *Chad*"),
        ("two_meanings", ([2, 2, 2], 0.76), "no two of the three"),
        ("two_meanings", ([1, 2, 3], 0.76), "country's tag"),
        ("two_meanings", ([2, 1, 3], 0.76), "after *flew to*"),
        ("two_meanings", ([2, 4, 3], 0.76), "cannot have 4"),
        ("two_meanings", ([2, 2, 3], 1), "still has one tag"),
        ("two_meanings", ([2, 2, 3], 0.5), "more frequent tag"),
        ("asked_twice", (30 / 7, 30 / 7, 4.5), "the question's own"),
        ("asked_twice", (2, 7, 4.5), "which pair came last"),
        ("asked_twice", (3.75, 7, 4.5), "which pair came last"),
        ("asked_twice", (3.75, 3.75, 7), "which pair came first"),
        ("asked_twice", (3.75, 3.75, 3.75), "small beside the others"),
        ("same_state", ([8], [8], [2, 2, 2, 2]), "are the same"),
        ("same_state", ([8], [0, 8], [0, 0, 8]), "✓"),
        ("same_state", ([8], [9, -1], [2, 6]), "no digit"),
        ("same_state", ([4, 4], [4, 3, 1], [4, 2, 2]), "largest digit 4"),
        ("never_ends", {"<bos>": BOS, "a": A, "b": B}, "0 have"),
        ("never_ends", {"<bos>": BOS, "a": B, "b": A}, "2 have"),
        ("never_ends", {"<bos>": BOS, "a": A | {"b": 0.9}, "b": B}, "no distribution"),
        ("never_ends", {"<bos>": BOS, "a": {"a": 0.45, "b": 0.45, "<eos>": 0.1}, "b": B}, "equally likely"),
        ("never_ends", {"<bos>": BOS, "b": B}, "found ['<bos>', 'b']"),
        ("same_key", 2, "precedence"),
        ("same_key", 3.5, "farther away"),
        ("same_key", 7, "differs"),
        ("second_stranger", (2, 2 / 3), "Does the new bar differ"),
        ("second_stranger", (1.75, 0.34), "divide what is left"),
        ("second_stranger", (1.75, 0.8), "should be about"),
        ("on_paper", ([3 / 5, 1 / 5, 1 / 5], 3.2, 29 / 6), "the query of *Ben ?*"),
        ("on_paper", ([1, 3, 1], 16, 29 / 6), "divide them by their sum"),
        ("on_paper", ([1 / 5, 3 / 5, 1 / 5], 3.2, 5.8), "divide by 6"),
        ("equal_scores", (ROWS, 1, 1), "what a query gives away"),
        ("equal_scores", (ROWS, 1, 4), "only the first"),
        ("equal_scores", ([row[::-1] for row in ROWS[::-1]], 4, 25 / 12), "looks ahead"),
        ("equal_scores", (ROWS, 0, 25 / 12), "Count from 1"),
        ("what_fits", ("abcde", "abce", "b"), "(c) with (4, 1, 4) does not fit"),
        ("what_fits", ("abd", "abd", "b"), "(c) with (4, 1, 4) fits"),
        ("what_fits", ("abd", "abce", "e"), "(e) means what"),
        ("what_fits", ("abx", "abce", "b"), "called a to e"),
        ("nothing_hidden", ([1 / 3] * 3, [1 / 3] * 3, [1 / 3] * 3), "(b): In float64"),
        ("nothing_hidden", (SOFT, SOFT, [1 / 3] * 3), "(a): All three"),
        ("nothing_hidden", ([1 / 3] * 3, SOFT, [1, 0, 0]), "(c) are not those"),
    ],
)
def test_a_prediction_gets_its_sentence(name, answer, said, capsys):
    getattr(check, name)(lambda: answer)
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda mask: True, "sliding window of three sealed"),
        (lambda mask: False, "a causal mask not sealed"),
        (lambda mask: bool((mask.double() @ mask.double() == mask).all()), "a causal mask not sealed"),
        (lambda mask: bool(mask[0].sum() <= 1), "sliding window"),
        (lambda mask: mask, "True or False"),
        (lambda mask: bool(((mask.int() @ mask.int()).bool() == mask).all()), "✓"),
    ],
)
def test_a_sealed_mask_is_told_by_two_looks(answer, said, capsys):
    check.sealed(answer)
    assert said in capsys.readouterr().out
