"""The scoreboard: what a reader sees as text and as HTML, and what it refuses."""

import pytest

from heed.plot import Scoreboard


def test_on_paper():
    board = Scoreboard("both right", "seconds").add("one head", 0.2449, 7)
    assert repr(board.add("two & two", 1.0, "8")) == (
        "           both right  seconds\none head         0.24        7\ntwo & two        1.00        8"
    )
    html = board._repr_html_()
    assert html.count("<tr>") == 3 and "two &amp; two" in html
    assert [bold in html for bold in ('bold">0.24', 'bold">1.00')] == [False, True]


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"one head: 2 values for 1 columns \('right',\)"):
        Scoreboard("right").add("one head", 1, 2)


def test_a_long_table_shows_its_first_row_and_its_last_ones():
    board = Scoreboard("n", last=2)
    for i in range(5):
        board.add(f"row {i}", i)
    assert [row[0] for row in board.shown()] == ["row 0", "row 3", "row 4"]
    assert "row 2" not in repr(board) + board._repr_html_()
