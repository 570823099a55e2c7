"""The course map of chapter 00: the list of chapters, and where each row of the curriculum is explained, run,
checked and tried.

The rows stand in assets/00_preface/curriculum.json, what a chapter leaves you with in the README's table,
whose last column, the minutes, is counted from the chapters. The places come from the tags of the chapters'
cells: `explains:S1`, `runs:S1`, `checks:S1`, `tries:S1`. What has no place yet is shown as open.
"""

import json
import re

from cells import headings, tags
from minutes import counted, hours
from notebooks import ROOT, is_chapter, number, read

CURRICULUM = ROOT / "assets" / "00_preface" / "curriculum.json"
README = ROOT / "README.md"
ROW = re.compile(r"^(\| (\d\d) \| .+? \| (.+?) \|)(.*) \|$", re.MULTILINE)  # a chapter's, in its table
PLACES = {"explains:": "explained", "runs:": "run", "checks:": "checked", "tries:": "tried"}
HEAD = "", "what", "explained", "run", "checked", "tried in exercise"
ROWS = (
    "What the course teaches stands in *rows*, each with an id: S for structures and models, E for "
    "equations, Q for questions that readers ask and an experiment answers. Each row comes with the sections "
    "in which it is explained, run, and checked by an assertion, and with the exercises in which you try it."
)


def curriculum():
    """The rows of the course: dictionaries with id, chapter, title and what."""
    return json.loads(CURRICULUM.read_text(encoding="utf-8"))


def gains():
    """What each chapter leaves you with, in the words of the README: number -> words."""
    table = ROW.findall(README.read_text(encoding="utf-8"))
    return {int(chapter): words for _, chapter, words, _ in table}


def readme(paths):
    """The README's text, with the minutes of the chapters in its table as they are counted now."""
    took = {number(path): counted(read(path)).words(to=5) for path in paths if is_chapter(path)}
    return ROW.sub(
        lambda row: f"{row[1]}{f' {time}' if (time := took.get(int(row[2]))) else ''} |",
        README.read_text(encoding="utf-8"),
    )


def places(books):
    """Where the tags of all chapters point: (row, kind) -> numbers of sections or exercises, in order.

    books: the chapters, path -> notebook
    """
    found = {}
    for path, notebook in books.items():
        section = here = path.stem
        for cell in notebook.cells:
            for level, heading in headings(cell):
                exercise = re.match(r"Exercise ([\d.]+)", heading)
                numbered = re.match(r"\d+\.\d+|L\d+", heading)
                if numbered or (level <= 2 and not exercise):
                    section = numbered[0] if numbered else escaped(heading)
                here = exercise[1] if exercise else section
            for kind in PLACES:
                for row in tags(cell, kind):
                    seen = found.setdefault((row, kind), [])
                    seen += [] if here in seen else [here]
    return found


def escaped(words):
    """Words for a cell of a table, in which a bare | would end the cell."""
    return words.replace("|", "\\|")


def table(head, rows):
    """A Markdown table: the words of its head, and a list of words for each row."""
    return "\n".join(f"| {' | '.join(words)} |" for words in [head, ["---"] * len(head), *rows])


def folded(summary, words):
    """Words that fold out."""
    return f"<details><summary>{summary}</summary>\n\n{words}\n\n</details>"


def together(times):
    """How long the chapters take together, in a sentence."""
    parts = {
        "to read": sum(time.body for time in times),
        "for Further": sum(time.further for time in times),
        "for the laboratories": sum(time.laboratory for time in times),
        "of exercises": sum(time.exercises for time in times),
    }
    return f"Together: {', '.join(f'{hours(n)} {what}' for what, n in parts.items() if n)}."


def course_map(paths, rows=None):
    """The whole text of the map: the chapters in a list, how long they take, and their rows, folded."""
    rows, leaves = rows or curriculum(), gains()
    books = {path: read(path) for path in paths if is_chapter(path)}
    written = {number(path): path for path in books}
    found = places(books)
    still_open = [r["id"] for r in rows if not all((r["id"], kind) in found for kind in PLACES)]
    listed, folds, planned, here = [], [], [], []
    for chapter, title in {row["chapter"]: row["title"] for row in rows}.items():
        mine = [row for row in rows if row["chapter"] == chapter]
        path, leaf = written.get(chapter), leaves.get(chapter, "")
        if path is None:
            listed.append([f"{chapter:02}", f"{title} *(planned)*", leaf, ""])
            planned += [[row["id"], escaped(row["what"]), f"{chapter:02} {title}"] for row in mine]
            continue
        here.append(counted(books[path]))
        listed.append([f"{chapter:02}", f"[{title}]({path.name})", leaf, here[-1].words(to=5)])
        left = sum(row["id"] in still_open for row in mine)
        where = [[", ".join(found.get((row["id"], kind), ["open"])) for kind in PLACES] for row in mine]
        lines = [[row["id"], escaped(row["what"]), *there] for row, there in zip(mine, where, strict=True)]
        summary = f"{chapter:02} {title}: {len(mine)} rows, {f'{left} open' if left else 'all done'}"
        folds.append(folded(summary, table(HEAD, lines)))
    if planned:
        summary = f"Chapters that are planned: {len(planned)} rows, all open"
        folds.append(folded(summary, table(["", "what", "chapter"], planned)))
    done = len(rows) - len(still_open)
    count = f"Of {len(rows)} rows, {done} have all of these; {len(still_open)} are open."
    chapters = table(["", "chapter", "what it leaves you with", "how long"], listed)
    taught = folded(f"What is taught where: {len(rows)} rows", "\n\n".join([f"{ROWS} {count}", *folds]))
    return "\n\n".join([chapters, *([together(here)] if here else []), taught])


def map_cell(notebook):
    """The cell that holds the map: the one tagged `course-map`."""
    cells = [cell for cell in notebook.cells if "course-map" in tags(cell)]
    if len(cells) != 1 or cells[0].cell_type != "markdown":
        raise ValueError(f"Chapter 00 needs one Markdown cell tagged course-map; it has {len(cells)}.")
    return cells[0]


def redrawn(notebook, paths):
    """The notebook with the map as it is now."""
    map_cell(notebook).source = course_map(paths)
    return notebook
