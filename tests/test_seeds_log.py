"""The committed log of chapter 11's other seeds is of the cells of now, and says what the chapter says."""

import re
from pathlib import Path

import nbformat
import pytest

SCRIPT = Path(__file__).parents[1] / "assets" / "11_annotated_transformer" / "seeds.py"
AGAIN = "python assets/11_annotated_transformer/seeds.py brings the log up to date"


@pytest.fixture(scope="module")
def answers(script):
    """The chapter's prose, as one text."""
    cells = nbformat.read(script.CHAPTER, 4).cells
    return " ".join(cell.source for cell in cells if cell.cell_type == "markdown")


def test_the_log_is_of_the_cells_of_now(script, log):
    assert log["cells"] == script.digest(), AGAIN


def test_another_seed_reaches_the_cells(script):
    kind = script.SublayerConnection
    one, other = (script.chapter(seed)["sizes"](kind, n_layers=2)[0] for seed in (0, 1))
    assert one != other


def test_the_squares_lie_where_the_chapter_says(log, answers):
    low, high = map(float, re.search(r"five other seeds: (\d+) to (\d+)", answers).groups())
    assert len(log["squares"]) == 5
    assert all(low <= square <= high for square in log["squares"].values())


def test_the_ends_are_those_of_the_chapter_and_in_its_order(log, answers):
    ends = log["ends"]
    for name in ("ours", "generator of RMS 1", "no norm before attention"):
        one, two = ends[name].values()
        assert f"at {one:.2f} and {two:.2f}" in answers, name
    zero, one, two = ends["tables of size 1, no factor"].values()
    assert f"{zero:.2f}, {one:.2f} and {two:.2f} with three seeds" in answers
    for seed in ("1", "2"):
        near, *last = (ends[name][seed] for name in ("ours", "no factor √d_model", "W_q and W_k of RMS 1"))
        between = [ends[name][seed] for name in ("generator of RMS 1", "no norm before attention")]
        assert near < min(between) < max(between) < last[0] < last[1]


def test_the_shares_are_those_of_the_chapter(log, answers):
    assert "with two others, seven and eight of ten" in answers
    assert sorted(round(10 * share) for share in log["right"].values()) == [7, 8]
