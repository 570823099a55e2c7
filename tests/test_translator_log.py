"""What chapter 14 says in words is what its logs hold; its list of partners can be looked up."""

import json
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "assets" / "14_a_real_translator"
CHAPTER = ROOT / "chapters" / "14_a_real_translator.ipynb"


def logged(name):
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def prose():
    """The chapter's prose, as one text."""
    cells = nbformat.read(CHAPTER, 4).cells
    return " ".join(cell.source for cell in cells if cell.cell_type == "markdown")


def test_every_partner_stands_in_its_caption():
    partners = logged("partners.json")
    assert len(partners) >= 20
    for caption, pairs in partners.items():
        assert caption.endswith(".") and len(pairs) >= 2
        for german, english in pairs.items():
            assert re.search(rf"\b{german}\b", caption) and re.fullmatch(r"[a-z]+", english)


def test_the_corpus_is_as_large_as_the_chapter_says(prose):
    assert "a third of a million words in each language" in prose
    counts = logged("counts.json")
    for language in ("German", "English"):
        assert counts[f"words of the {language} captions"] == pytest.approx(1e6 / 3, rel=0.05)


def test_the_score_is_of_the_stored_model_with_its_signature():
    measured = logged("losses.json")
    low, high = measured["interval"]
    assert low < measured["bleu"] < high < low + 4
    assert re.match(r"nrefs:1\|.*tok:13a.*version:", measured["signature"])


def test_the_updates_and_their_scores_are_those_that_the_chapter_checks():
    entries = logged("experiments.json")["entries"]
    used = [e for e in entries if e["kind"] == "training" and e["used"]]
    chosen = [e for e in entries if e["kind"] in ("elsewhere", "longer")] + used
    found = sorted((e["measured"]["updates"], e["measured"]["bleu"]) for e in chosen)
    assert found == [(434, 31.7), (1470, 38.6), (2636, 39.4)]


def test_no_sentence_of_ours_is_a_training_caption(prose):
    assert "None of our sentences, here and below, is a training caption" in prose
    assert logged("counts.json")["sentences of ours that are captions"] == 0
    script = (FOLDER / "counts.py").read_text(encoding="utf-8")
    cells = nbformat.read(CHAPTER, 4).cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    sentences = re.search(r"SENTENCES = \[(.*?)\]", code, re.DOTALL)[1]
    explored = re.findall(r"explore\((\".*?\")\)", code)
    for sentence in [*re.findall(r"\".*?\"", sentences), *explored]:
        assert sentence in script


def test_nicht_and_sieben_are_equally_rare_with_their_translations(prose):
    counts = logged("counts.json")
    pattern = r"Of the (\d+) captions with \*nicht\*, (\d+) have .* of the (\d+) with \*sieben\*, (\d+) have"
    found = re.search(pattern, prose)
    wanted = [counts["nicht"], counts["captions with nicht and its translation"]]
    wanted += [counts["sieben"], counts["captions with sieben and its translation"]]
    assert [int(n) for n in found.groups()] == wanted


def test_the_captions_with_ohne_are_as_the_chapter_says(prose):
    counts = logged("counts.json")
    assert "so do 8 of the 17 with *Mann ohne*; the one with *Kind ohne* does not" in prose
    found = {"Mann": (17, 8), "Frau": (0, 0), "Kind": (1, 0), "Junge": (1, 1), "Mädchen": (1, 1)}
    for person, (n, shirtless) in found.items():
        assert counts[f"captions with {person} ohne"] == n
        assert counts[f"of these, with shirtless ({person})"] == shirtless
