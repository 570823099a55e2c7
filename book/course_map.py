"""The course map of chapter 00: where each row of the curriculum is explained, run, checked and tried.

The rows stand in assets/00_preface/curriculum.json. The places come from the tags of the chapters' cells:
`explains:S1`, `runs:S1`, `checks:S1`, `tries:S1`. What has no place yet is shown as open.
"""

import json
import re

from notebooks import ROOT, is_solution, number, read, tags

CURRICULUM = ROOT / "assets" / "00_preface" / "curriculum.json"
PLACES = {"explains:": "explained", "runs:": "run", "checks:": "checked", "tries:": "tried"}


def curriculum():
    """The rows of the course: dictionaries with id, chapter, title and what."""
    return json.loads(CURRICULUM.read_text(encoding="utf-8"))


def places(paths):
    """Where the tags of all chapters point: (row, kind) -> links, in reading order."""
    found = {}
    for path in paths:
        if is_solution(path):
            continue
        section = path.stem
        for cell in read(path).cells:
            for line in cell.source.splitlines() if cell.cell_type == "markdown" else []:
                heading = re.match(r"#{1,6}\s+(.*)", line)
                section = heading[1] if heading else section
            for kind in PLACES:
                for row in tags(cell, kind):
                    link = f"[{label(section)}]({path.name})"
                    links = found.setdefault((row, kind), [])
                    links += [] if link in links else [link]
    return found


def label(section):
    """A section's title, short enough for a table: an exercise is named by its number alone."""
    return escaped(section.split(" · ")[0] if section.startswith("Exercise") else section)


def escaped(words):
    """Words for a cell of a table, in which a bare | would end the cell."""
    return words.replace("|", "\\|")


def table(rows, found):
    """The Markdown table of these rows."""
    lines = ["| | what | explained | run | checked | tried |", "|---|---|---|---|---|---|"]
    for row in rows:
        links = [", ".join(found.get((row["id"], kind), ["open"])) for kind in PLACES]
        lines.append(f"| {row['id']} | {escaped(row['what'])} | {' | '.join(links)} |")
    return "\n".join(lines)


def course_map(paths, rows=None):
    """The whole text of the map: a table for each written chapter, then one list of what is still open."""
    rows = rows or curriculum()
    found, written = places(paths), {number(path): path for path in paths if not is_solution(path)}
    done = sum(all((row["id"], kind) in found for kind in PLACES) for row in rows)
    left = len(rows) - done
    parts = [f"Of {len(rows)} rows, {done} are explained, run, checked and tried; {left} are open."]
    titles = {row["chapter"]: row["title"] for row in rows}
    planned = []
    for chapter, title in titles.items():
        mine = [row for row in rows if row["chapter"] == chapter]
        if chapter in written:
            parts += [f"**[{chapter:02} {title}]({written[chapter].name})**", table(mine, found)]
        else:
            planned += [f"| {row['id']} | {escaped(row['what'])} | {chapter:02} {title} |" for row in mine]
    if planned:
        head = ["| | what | chapter |", "|---|---|---|"]
        summary = f"<details><summary>Open: {len(planned)} rows of chapters that are planned</summary>"
        parts += [summary, "\n".join(head + planned), "</details>"]
    return "\n\n".join(parts)


def map_cell(notebook):
    """The cell that holds the map: the one tagged `course-map`."""
    cells = [cell for cell in notebook.cells if "course-map" in tags(cell)]
    if len(cells) != 1 or cells[0].cell_type != "markdown":
        raise ValueError(f"Chapter 00 needs one Markdown cell tagged course-map; it has {len(cells)}.")
    return cells[0]


def redrawn(notebook, paths):
    """The notebook with the map drawn anew."""
    map_cell(notebook).source = course_map(paths)
    return notebook
