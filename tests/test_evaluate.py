"""Exact match and span F1, by hand and by property."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heed.evaluate import F1, Span, exact_match, span_f1, spans


def test_exact_match_on_paper():
    assert exact_match(["a", "b", "c", "d"], ["a", "x", "c", "D"]) == 0.5
    assert exact_match([[1, 2]], [[1, 2]]) == 1.0


def test_spans_on_paper():
    assert spans("B-A I-A O B-B B-B I-B".split()) == {Span("A", 0, 2), Span("B", 3, 4), Span("B", 4, 6)}


@pytest.mark.parametrize(
    "tags, found",
    [
        ("O O", set()),
        ("I-A I-A", {Span("A", 0, 2)}),  # an I- that continues nothing begins a span
        ("B-A I-B", {Span("A", 0, 1), Span("B", 1, 2)}),
        ("B-A O I-A", {Span("A", 0, 1), Span("A", 2, 3)}),
        ("O B-A", {Span("A", 1, 2)}),
        ("", set()),
    ],
)
def test_spans_at_the_edges(tags, found):
    assert spans(tags.split()) == found


def test_f1_on_paper():
    truth = ["B-A I-A O B-B".split(), "O B-A".split()]
    guess = ["B-A I-A B-B B-B".split(), "B-A B-A".split()]
    # wanted 3, predicted 5, right 3
    assert span_f1(guess, truth) == F1(3 / 5, 1.0, 6 / 8)


def test_half_a_span_is_wrong_twice():
    assert span_f1(["B-A O".split()], ["B-A I-A".split()]) == F1(0.0, 0.0, 0.0)
    assert span_f1(["B-B I-B".split()], ["B-A I-A".split()]).f1 == 0.0


def test_equal_spans_in_two_sentences_count_twice():
    assert span_f1([["B-A"], ["O"]], [["B-A"], ["B-A"]]) == F1(1.0, 0.5, 2 / 3)


def test_nothing_wanted_nothing_predicted():
    assert span_f1([["O"]], [["O"]]) == F1(1.0, 1.0, 1.0)
    assert span_f1([["B-A"]], [["O"]]) == F1(0.0, 0.0, 0.0)


@given(st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), max_size=12))
def test_spans_do_not_overlap_and_truth_scores_one(tags):
    found = sorted(spans(tags), key=lambda s: s.start)
    assert all(a.end <= b.start for a, b in pairwise(found))
    assert sum(s.end - s.start for s in found) == sum(tag != "O" for tag in tags)
    assert span_f1([tags], [tags]).f1 == 1.0


def test_refusals():
    with pytest.raises(ValueError, match=r"1.*2"):
        exact_match(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="empty"):
        exact_match([], [])
    with pytest.raises(ValueError, match=r"Sentence 0.*1.*2"):
        span_f1([["O"]], [["O", "O"]])
    for wrong in ("B", "X-A", "B-", "b-A"):
        with pytest.raises(ValueError, match=f"Tag 1.*{wrong}"):
            spans(["O", wrong])
