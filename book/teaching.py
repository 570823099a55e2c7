"""The page for those who teach: twelve weeks, and what of the chapters each of them uses.

`teaching.md` names chapters, sections, cells by their first line, exercises and checks; `complaints` looks
all of them up, and a test asks it. The table of minutes is counted.
"""

import re
from pathlib import Path

import minutes
import nbformat
from cells import EXERCISE, EXERCISE_FORM, is_code, tags

PAGE = Path(__file__).with_name("teaching.md")
WEEK = re.compile(r"^## Week (\d+) · (.*)$", re.MULTILINE)
CHAPTER = re.compile(r"\]\((chapters/\d\d_\w+\.ipynb)\)")
NAMED = re.compile(r"\b(\d+\.\d+)(?: \(`check\.(\w+)`\))?")
SLIDES = """\
Every figure of the book is on <a href="slides.html">one page of slides</a>, chapter by chapter, with the
sentence that describes it: for a projector, or for paper."""


def weeks(text):
    """The page's weeks: (number, title, chapters, what is shown live, the homework)."""
    starts = [*WEEK.finditer(text)]
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        body = " ".join(text[start.end() : end.start() if end else None].split())
        live, homework = body.split("- **Homework**", 1)
        yield int(start[1]), start[2], [*dict.fromkeys(CHAPTER.findall(body))], live, homework


def holds(path):
    """A chapter's exercises -> (check, minutes, kind), numbers of sections, first lines of cells, minutes."""
    notebook = nbformat.read(path, as_version=4)
    exercises, sections, lines = {}, set(), set()
    for cell, after in zip(notebook.cells, [*notebook.cells[1:], None], strict=True):
        first = cell.source.split("\n", 1)[0].rstrip()
        if is_code(cell):
            lines.add(first.lstrip("# "))
        elif (asked := EXERCISE.fullmatch(first)) and (form := EXERCISE_FORM.fullmatch(asked[3])):
            stub = after.source if after and "exercise" in tags(after) else ""
            check = re.search(r"^check\.(\w+)\(", stub, re.MULTILINE)
            exercises[f"{asked[1]}.{asked[2]}"] = (check and check[1], int(form[3]), form[1])
        sections |= {*re.findall(r"^## (\d+\.\d+) ", "" if is_code(cell) else cell.source, re.MULTILINE)}
    return exercises, sections, lines, minutes.counted(notebook)


def complaints(text, root):
    """One sentence for everything that the page names and the chapters do not have."""
    for number, _, chapters, live, homework in weeks(text):
        held = [holds(root / chapter) for chapter in chapters]
        exercises = {name: each for chapter in held for name, each in chapter[0].items()}
        for name, check in NAMED.findall(homework):
            if name not in exercises:
                yield f"week {number}: no chapter of it has an exercise {name}"
            elif (exercises[name][0] or "") != check and (check or exercises[name][2] == "code"):
                yield f"week {number}: exercise {name} has check {exercises[name][0]}, not {check or None}"
        for name, _ in NAMED.findall(live):
            if not any(name in chapter[1] for chapter in held):
                yield f"week {number}: no chapter of it has a section {name}"
        for line in re.findall(r"`(figure: .*?)`", live):
            if not any(line in chapter[2] for chapter in held):
                yield f"week {number}: no cell of it begins with {line!r}"


def table(text, root):
    """A row for each week: its chapters, the minutes to read, the minutes of its exercises."""
    rows = ["| week | | chapters | to read | homework |", "|---|---|---|---|---|"]
    for number, title, chapters, _, homework in weeks(text):
        held = [holds(root / chapter) for chapter in chapters]
        exercises = {name: each[1] for chapter in held for name, each in chapter[0].items()}
        read = sum(minutes.rounded(chapter[3].body, 5) for chapter in held)
        for_all = NAMED.findall(homework.split("For the quick")[0])
        asked = minutes.hours(sum(exercises.get(name, 0) for name, _ in for_all))
        names = ", ".join(f"[{int(Path(chapter).name[:2])}]({chapter})" for chapter in chapters)
        rows.append(f"| {number} | {title} | {names} | {read} minutes | {asked} |")
    return "\n".join(rows)


def there(root):
    """Whether the book has every chapter that the page names."""
    return all((root / chapter).is_file() for chapter in CHAPTER.findall(PAGE.read_text(encoding="utf-8")))


def page(root):
    """The page as Markdown; nothing for a book that lacks one of its chapters."""
    if not there(root):
        return ""
    text = PAGE.read_text(encoding="utf-8")
    return text.replace("<!-- weeks -->", table(text, root)).replace("<!-- slides -->", SLIDES)
