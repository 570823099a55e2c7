"""The authors' tool: from the first cell to a chapter that is stored as it ran.

    python book/chapters.py new 04_score_functions    a chapter and its solutions, to be filled in
    python book/chapters.py draft 04                  drafts/04_score_functions.py -> the notebook
    python book/chapters.py redraft 04                the notebook -> drafts/04_score_functions.py
    python book/chapters.py mirror                    rewrite mirrored cells from the library
    python book/chapters.py map                       redraw the course map in chapter 00
    python book/chapters.py cover                     copy the README's figure out of its chapter
    python book/chapters.py run 04                    run in place, store in the book's own form
    python book/chapters.py fresh 04                  run, and renew also the outputs that always vary
    python book/chapters.py check 04                  say what the book's rules still ask for
    python book/chapters.py soak 04                   does it hang on rounding? with three seeds

After the verb come chapters: numbers (a chapter and its solutions), `tour`, or paths; none means all.
CONTRIBUTING.md tells the whole way.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import course_map
import rules
import skeleton
from minutes import report
from mirrors import mirror
from nbclient.exceptions import CellExecutionError
from notebooks import (
    CHAPTERS,
    COVER,
    ROOT,
    cover,
    is_solution,
    is_tour,
    keep_what_varies,
    normal,
    notebooks,
    read,
    run,
    text,
    write,
)

DRAFTS = ROOT / "drafts"
SEEDS = "1", "2", "3"  # of the rounding test


def chosen(words, folder=None, suffix=".ipynb"):
    """The files that the words mean: a number stands for a chapter and its solutions, a path for itself."""
    folder = folder or CHAPTERS
    everything = sorted([*folder.glob(f"*{suffix}"), *folder.glob(f"solutions/*{suffix}")])
    files = []
    for word in words:
        fits = [path for path in everything if means(word, path)] or [Path(word).resolve()]
        if not fits[0].is_file():
            sys.exit(f"There is no chapter {word} in {folder.name}/.")
        files += fits
    return files if words else everything


def means(word, path):
    """Whether a word means this file: `tour` the tour, a number a chapter, its solutions and drafts."""
    return word == "tour" if is_tour(path) else path.name.startswith(f"{word}_")


def shown(path):
    """A path as an author reads it."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def store(notebook, path):
    """Write the notebook if it has changed, and say which."""
    if path.is_file() and path.read_text(encoding="utf-8") == text(notebook):
        print(f"{shown(path)}: as it was")
    else:
        write(notebook, path)
        print(f"{shown(path)}: written")


def new(words):
    """Begin these chapters and their solutions, with all that the form asks for, to be filled in."""
    for word in words or sys.exit("Name the chapter, as in: new 04_score_functions"):
        title = word[3:].replace("_", " ").capitalize()
        for path, notebook in (
            (CHAPTERS / f"{word}.ipynb", skeleton.chapter(int(word[:2]), title)),
            (CHAPTERS / "solutions" / f"{word}.ipynb", skeleton.solutions(int(word[:2]), title)),
        ):
            if path.exists():
                sys.exit(f"{shown(path)} exists already.")
            store(notebook, path)


def jupytext():
    """The authors' private tool for drafts; the course does without."""
    try:
        import jupytext
    except ModuleNotFoundError:
        sys.exit("Drafts need jupytext: .venv/bin/python -m pip install jupytext")
    return jupytext


def draft(words):
    """Turn drafts into notebooks: mirrored cells filled in, outputs kept where the text is the same."""
    for path in chosen(words, DRAFTS, ".py"):
        notebook = jupytext().reads(path.read_text(encoding="utf-8"), fmt="py:percent")
        notebook = normal(mirror(notebook))
        target = CHAPTERS / path.relative_to(DRAFTS).with_suffix(".ipynb")
        before = {cell.id: cell for cell in normal(read(target)).cells} if target.is_file() else {}
        for cell in notebook.cells:
            if cell.cell_type == "code" and cell.id in before:
                cell.outputs, cell.execution_count = before[cell.id].outputs, before[cell.id].execution_count
        store(normal(notebook), target)


def redraft(words):
    """Turn notebooks into drafts, and leave a draft that is there alone."""
    for path in chosen(words):
        target = DRAFTS / path.relative_to(CHAPTERS).with_suffix(".py")
        if target.exists():
            sys.exit(f"{shown(target)} exists already. Delete it to have it made anew from the notebook.")
        notebook = read(path)
        notebook.metadata["jupytext"] = {
            "notebook_metadata_filter": "-all",
            "cell_metadata_filter": "tags,alt,-all",
        }
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(jupytext().writes(notebook, fmt="py:percent"), encoding="utf-8", newline="\n")
        print(f"{shown(target)}: written")


def renew(words):
    """Rewrite mirrored cells from the library."""
    for path in chosen(words):
        try:
            store(normal(mirror(read(path))), path)
        except ValueError as error:
            sys.exit(f"{shown(path)}: {error}.")


def draw_map(words):
    """Redraw the course map in chapter 00, and count the minutes in the README's table."""
    path = chosen(words or ["00"])[0]
    course_map.README.write_text(course_map.readme(notebooks()), encoding="utf-8", newline="\n")
    store(normal(course_map.redrawn(read(path), notebooks(path.parent))), path)


def copy_cover(words):
    """Copy the figure of the one cell that is tagged `cover` to where the README shows it."""
    COVER.write_bytes(cover(notebooks()))
    print(f"{shown(COVER)}: written")


def execute(words, keep=keep_what_varies):
    """Run notebooks in place, each in a new kernel that starts in the notebook's own folder."""
    for path in chosen(words):
        before, began = read(path), time.monotonic()
        try:
            after = run(before, path.parent)
        except CellExecutionError as error:
            sys.exit(f"{shown(path)}: a cell failed, and the file was left as it was.\n{error}")
        print(f"{time.monotonic() - began:6.1f} s  ", end="")
        store(keep(after, normal(before)), path)


def refresh(words):
    """Run notebooks in place and keep no output, not even one that is tagged as varying."""
    execute(words, keep=lambda new, old: new)


def check(words):
    """Print each chapter's minutes, and what the rules still ask for; fail if there is anything."""
    for path in chosen(words):
        if not is_solution(path):
            print(f"{'tour' if is_tour(path) else path.name[:2]}: {report(read(path))}")
    complaints = [f"{shown(path)}: {line}" for path in chosen(words) for line in rules.complaints(path)]
    complaints += rules.shows_the_library(notebooks())
    print("\n".join(complaints) or "Every rule of the book is kept.")
    sys.exit(bool(complaints))


def soak(words):
    """Test notebooks with the weights disturbed in their last digit, once with each of three seeds."""
    red = []
    for seed in SEEDS:
        print(f"HEED_ROUNDING={seed}", flush=True)
        pytest = [sys.executable, "-m", "pytest", "-q", "-n", "logical", *map(str, chosen(words))]
        red += [seed] * bool(
            subprocess.run(pytest, cwd=ROOT, env=os.environ | {"HEED_ROUNDING": seed}).returncode
        )
    sys.exit(f"Not every cell survived the rounding test with seed {', '.join(red)}." if red else 0)


VERBS = {
    "new": new,
    "draft": draft,
    "redraft": redraft,
    "mirror": renew,
    "map": draw_map,
    "cover": copy_cover,
    "run": execute,
    "fresh": refresh,
    "check": check,
    "soak": soak,
}

if __name__ == "__main__":
    verb, *words = sys.argv[1:] or ["help"]
    if verb not in VERBS:
        sys.exit(__doc__)
    VERBS[verb](words)
