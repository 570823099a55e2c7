"""Rules for folded cells: what is folded says by its first line, or by what it prints, what it is."""

from itertools import pairwise

from cells import (
    HIDE_INPUT,
    HIDE_OUTPUT,
    LABORATORY,
    asserts,
    headings,
    hides_input,
    is_code,
    pictures,
    printed,
    tags,
)
from mirrors import mirrored_file


def names_its_folds(path, notebook):
    """A folded input begins with a comment of three words or more: JupyterLab shows that line of it."""
    for cell in notebook.cells:
        first = cell.source.split("\n", 1)[0]
        if not is_code(cell) and {HIDE_INPUT, HIDE_OUTPUT} & {*tags(cell)}:
            yield f"a Markdown cell is tagged as folded; it begins {first[:40]!r}"
        named = first.startswith("# ") and len(first[2:].split()) >= 3
        if is_code(cell) and hides_input(cell) and not named and not mirrored_file(cell.source):
            yield (
                "a folded cell begins with a comment that names it, `# check: loop and matrices agree`; "
                f"this one begins {first[:40]!r}"
            )


def says_what_held(path, notebook):
    """A folded check prints one line that says in words what held: `✓ both libraries agree to ten digits`."""
    for cell in notebook.cells:
        if is_code(cell) and hides_input(cell) and asserts(cell) and not pictures(cell):
            lines = printed(cell).splitlines()
            if len(lines) != 1 or not lines[0].startswith("✓ ") or len(lines[0].split()) < 4:
                yield (
                    "a folded check prints one line, `✓ ` and what held, in words; the one that begins "
                    f"{cell.source[:40]!r} prints {printed(cell)[:60]!r}"
                )


def asserts_once_in_the_open(path, notebook):
    """In each section of the lesson one cell at most asserts in the open: what is the lesson."""
    section, found = None, {}
    for cell in notebook.cells:
        titles = [words for level, words in headings(cell) if level == 2]
        section = titles[-1] if titles else section
        if asserts(cell) and not hides_input(cell) and section != LABORATORY:
            found.setdefault(section, []).append(cell.source.split("\n", 1)[0])
    for section, firsts in found.items():
        if len(firsts) > 1:
            yield f"{len(firsts)} cells of {section!r} assert in the open; fold all but one: {firsts}"


def speaks_before_code(path, notebook):
    """Prose stands before every code cell; a folded one, which has a name, may follow another."""
    for (_, before), (i, cell) in pairwise(enumerate(notebook.cells, start=1)):
        if is_code(cell) and is_code(before) and not hides_input(cell):
            yield f"no prose before the code cell that begins {cell.source[:40]!r} (number {i} of all cells)"
