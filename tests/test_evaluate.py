"""Exact match, span F1, BLEU and chrF: by hand, against sacreBLEU, by property."""

import ast
import inspect
import json
import random
import subprocess
import sys
from itertools import pairwise
from math import exp

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from heed import evaluate
from heed.evaluate import F1, Span, bleu, chrf, exact_match, paired, span_f1, spans


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


# --- BLEU and chrF ------------------------------------------------------------------------------------------


def test_bleu_on_paper():
    reference = ["the cat sat on the mat"]
    # 5 of 6 words, 3 of 5 pairs, 2 of 4 triples, 1 of 3 fours; as long as the reference
    assert bleu(["the cat sat on a mat"], reference).value == pytest.approx(100 * (1 / 12) ** 0.25)
    # nothing wrong, and one word short: the brevity penalty alone
    assert bleu(["the cat sat on the"], reference).value == pytest.approx(100 * exp(1 - 6 / 5))
    # a word too many costs precision: 6/7, 5/6, 4/5, 3/4
    assert bleu(["the cat sat on the mat mat"], reference).value == pytest.approx(100 * (3 / 7) ** 0.25)
    assert bleu(reference, reference).value == pytest.approx(100)


def test_bleu_of_a_text_is_not_the_mean_of_its_sentences():
    said, meant = ["the cat sat on a mat", "the cat sat on the"], ["the cat sat on the mat"] * 2
    # 10 of 11, 7 of 9, 5 of 7, 3 of 5; eleven words for twelve
    together = (10 / 11 * 7 / 9 * 5 / 7 * 3 / 5) ** 0.25 * exp(1 - 12 / 11)
    assert bleu(said, meant).value == pytest.approx(100 * together)


def test_bleu_knows_upper_case_and_parts_the_full_stop():
    lower, upper = ["a dog runs through the snow ."], ["A dog runs through the snow."]
    assert bleu(upper, lower).value == pytest.approx(100 * (6 / 7 * 5 / 6 * 4 / 5 * 3 / 4) ** 0.25)
    assert bleu(["a dog runs through the snow."], lower).value == pytest.approx(100)


def test_chrf_of_a_text_with_hardly_anything_in_common_has_an_interval():
    score = chrf(["a zz zzz", *["qq www"] * 5], ["abc def", "gh ij"] * 3)
    assert score.low < score.value < score.high < 10 and "nc:6" in score.signature


def test_the_other_way_to_an_interval_has_the_same_one(monkeypatch):
    said, meant = texts(20, 0.3, seed=0)
    usual = chrf(said, meant, 100)

    def refuse(self, *texts, n_bootstrap):
        raise TypeError("no mean")

    monkeypatch.setattr(evaluate.CHRF, "corpus_score", refuse)
    assert chrf(said, meant, 100)[2:] == pytest.approx(usual[2:]) and usual.low < usual.value


def test_chrf_on_paper():
    # of characters one in two is right, of pairs none; a third is nowhere
    assert chrf(["ab"], ["ac"]).value == pytest.approx(25.0)
    assert chrf(["ab"], ["ab"]).value == pytest.approx(100.0)


@pytest.mark.parametrize("seed", [None, 11])
def test_the_signature_says_how_it_was_measured(monkeypatch, seed):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    default = bleu(*texts(11, 0.3, seed=0), n_resamples=7)
    if seed:
        monkeypatch.setenv("SACREBLEU_SEED", str(seed))
    score = bleu(*texts(11, 0.3, seed=0), n_resamples=7)
    named = f"seed:{seed or 12345}", f"version:{sacrebleu.__version__}"
    expected = {"nrefs:1", "bs:7", "case:mixed", "tok:13a", "smooth:exp", *named}
    assert expected <= set(score.signature.split("|"))
    assert (score == default) is (seed is None) and score.value == default.value
    assert "nc:6" in chrf(["a"], ["a"]).signature.split("|")


def texts(n, p, seed):
    """n references of 5 to 13 words, and translations in which each word is right with probability 1 − p."""
    rng = random.Random(seed)
    references = [rng.choices("abcdefghijk", k=rng.randint(5, 13)) for _ in range(n)]
    said = [
        [rng.choice("abcdefghijk") if rng.random() < p else word for word in words] for words in references
    ]
    return [" ".join(words) for words in said], [" ".join(words) for words in references]


def test_value_interval_and_signature_are_those_that_the_command_sacrebleu_prints(tmp_path, monkeypatch):
    """On a text with short sentences, an empty one, capitals, quotation marks and a full stop."""
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    monkeypatch.delenv("SACREBLEU_FORMAT", raising=False)
    said, meant = texts(53, 0.3, seed=0)
    said += ["a b", "", "The dog runs.", "“Nein”, sagt er ."]
    meant += ["a b", "c", "the dog runs .", "„Nein“, sagt er."]
    for name, lines in (("said", said), ("meant", meant)):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    words = "meant -i said --metrics bleu chrf --confidence --confidence-n 301 --width 5 --format json"
    command = [sys.executable, "-m", "sacrebleu", *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=True)
    for measure, printed in zip((bleu, chrf), json.loads(done.stdout), strict=True):
        score = measure(said, meant, n_resamples=301)
        assert score.value == pytest.approx(printed["score"], abs=1e-5)
        assert (score.low + score.high) / 2 == pytest.approx(printed["confidence_mean"], abs=2e-5)
        assert (score.high - score.low) / 2 == pytest.approx(printed["confidence_var"], abs=2e-5)
        assert score.signature == printed["signature"]
    assert paired(said, meant, meant, n_resamples=7).a == bleu(said, meant).value


def test_nothing_private_is_called():
    attributes = [n.attr for n in ast.walk(ast.parse(inspect.getsource(evaluate))) if hasattr(n, "attr")]
    private = [name for name in attributes if name[0] == "_" and name[:2] != "__"]
    assert "corpus_score" in attributes and private == []


def test_without_resamples_the_interval_is_the_value():
    score = bleu(*texts(11, 0.3, seed=0), n_resamples=1)
    assert score.low == score.value == score.high > 0 and "bs:" not in score.signature
    nothing = bleu(["a"], ["b"])
    assert (nothing.low, nothing.value, nothing.high) == (0, 0, 0)


def test_four_times_the_sentences_halve_the_interval():
    few, many = (bleu(*texts(n, 0.3, seed=0)) for n in (97, 388))
    assert (few.high - few.low) / (many.high - many.low) == pytest.approx(2, rel=0.25)


def test_two_systems_are_compared_on_the_same_sentences():
    said, meant = texts(101, 0.3, seed=0)
    better = [m if i % 10 == 0 else s for i, (s, m) in enumerate(zip(said, meant, strict=True))]
    result, score, other = paired(better, said, meant), bleu(better, meant), bleu(said, meant)
    assert (result.a, result.b) == (score.value, other.value)
    assert result.difference == score.value - other.value and 0 < result.low < result.difference < result.high
    assert result.high - result.low < 0.75 * (
        score.high - score.low
    )  # paired: the hard sentences are the same
    assert score.low < other.high and result.p < 0.02
    back = paired(said, better, meant)
    assert (back.difference, back.low, back.high) == pytest.approx(
        (-result.difference, -result.high, -result.low)
    )
    assert back.p == result.p


def test_systems_that_say_little_are_compared_with_their_own_scores():
    """No run of four words is right, and the score is smoothed."""
    said, other, meant = ["a b c x e"], ["x b c y z"], ["a b c d e"]
    result = paired(said, other, meant, n_resamples=3)
    assert 0 < result.b == bleu(other, meant).value < result.a == bleu(said, meant).value


def test_a_system_is_no_better_than_itself_and_perfection_beats_nonsense():
    said, meant = texts(53, 0.3, seed=0)
    assert paired(said, said, meant)[2:] == (0, 0, 0, 1)
    assert paired(meant, said[::-1], meant).p == 1 / 1001


def test_p_is_small_as_often_as_it_should_be_where_there_is_no_difference():
    p = []
    for seed in range(60):
        said, meant = texts(67, 0.3, seed)
        rng = random.Random(seed)
        noise = [
            " ".join(rng.choice("abcdefghijk") if rng.random() < 0.3 else w for w in m.split()) for m in meant
        ]
        p.append(paired(said, noise, meant, n_resamples=100).p)
    assert sum(x < 0.1 for x in p) <= 15 and sum(x < 0.5 for x in p) >= 15 and sum(x > 0.5 for x in p) >= 15


@pytest.mark.parametrize(
    "hypotheses, references, message",
    [
        (["a", "b"], ["a"], "2.*1"),
        ([], [], "empty"),
        ("a", ["a"], "hypotheses are one string"),
        (["a"], "a", "references are one string"),
        (["a", ["b"]], ["a", "b"], "number 1.*list"),
        (["a"], [None], "references.*number 0.*NoneType"),
    ],
)
@pytest.mark.parametrize(
    "measure", [bleu, chrf, lambda a, b: paired(a, a, b)], ids=["bleu", "chrf", "paired"]
)
def test_texts_that_cannot_be_compared(measure, hypotheses, references, message):
    with pytest.raises(ValueError, match=message):
        measure(hypotheses, references)
