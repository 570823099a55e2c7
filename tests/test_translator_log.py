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


def test_an_hour_gains_what_the_chapter_says(prose):
    assert "gained about one point" in prose
    entries = logged("experiments.json")["entries"]
    [hour] = [entry["measured"]["bleu"] for entry in entries if entry["kind"] == "longer"]
    assert 0.4 < hour - logged("losses.json")["bleu"] < 1.6
