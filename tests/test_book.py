"""The stored notebooks keep the rules of the book (book/rules.py), and all of them are run.

The rules look and run nothing. Running is strict nbval's part, in the same call: `pytest` with its options in
pyproject.toml collects `chapters/` beside `tests/`, and conftest.py adds what nbval does not compare.
"""

import pytest
from course_map import README, readme
from notebooks import COVER, cover, is_chapter, is_solution, is_tour, notebooks, number
from rules import complaints, shows_the_library

PAGES = notebooks()
PROMISED = {0, 1, 2, 3}
WRITTEN = {number(path) for path in PAGES if is_chapter(path)}

whole = pytest.mark.skipif(
    not PROMISED <= WRITTEN, reason=f"chapters {sorted(PROMISED - WRITTEN)} are not written yet"
)


def hold(complaints):
    """Fail, and list the complaints, if there are any."""
    lines = list(complaints)
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{'solutions/' * is_solution(path)}{path.stem}")
def test_a_stored_notebook_keeps_the_rules(path):
    hold(complaints(path))


@whole
def test_no_two_chapters_have_one_number_and_each_has_solutions():
    chapters = [path for path in PAGES if is_chapter(path)]
    assert len(WRITTEN) == len(chapters)
    for path in chapters:
        assert (path.parent / "solutions" / path.name).is_file(), path.name


@whole
def test_the_tour_is_read_first_and_has_no_solutions():
    assert [is_tour(path) for path in PAGES] == [True] + [False] * (len(PAGES) - 1)


@whole
def test_the_readme_shows_the_figure_that_its_chapter_stores():
    assert COVER.read_bytes() == cover(PAGES), "python book/chapters.py cover copies it"


@whole
def test_the_readme_tells_the_minutes_that_are_counted_now():
    assert README.read_text(encoding="utf-8") == readme(PAGES), "python book/chapters.py map writes them"


@whole
def test_every_public_name_of_a_taught_module_is_shown_in_a_chapter():
    hold(shows_the_library(PAGES))


def test_all_notebooks_are_run_by_this_call(request):
    run = {str(item.path) for item in request.session.items if item.path.suffix == ".ipynb"}
    option = request.config.option
    if option.keyword or option.markexpr != "not soak" or option.file_or_dir:
        pytest.skip("this call asks for some tests only; `make test` runs the notebooks, too")
    assert run == {str(path) for path in PAGES}
