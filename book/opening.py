"""The opening page of the HTML edition: what stands in `index.md`, filled from the README and the chapters.

The README's table says what a chapter leaves its reader with and, in a column `how long` or `minutes`, how
long it takes; a chapter that has no link there is planned. The cover is the README's picture. The explorer is
the stored output of a chapter: with the script it carries, it works on this page as it does there.
"""

import json
import re
from pathlib import Path

import teaching
import translating

INDEX = Path(__file__).with_name("index.md")
PARTS = {
    "": range(0, 1),  # the preface stands before all parts
    "Part I — Sequences before attention": range(1, 3),
    "Part II — Attention": range(3, 6),
    "Part III — Self-attention": range(6, 10),
    "Part IV — The Transformer": range(10, 15),
    "Part V — Beyond": range(15, 18),
}
TOUR = "00_tour.ipynb"  # no chapter: it stands before all of them, and in no table
STARTS = {
    "You have an hour": TOUR,
    "You are new to it": 1,
    "You know recurrent networks": 3,
    "You came for the annotated Transformer": 11,
}
SOLUTIONS_PAGE = """# Solutions

For each exercise the answer and the way to it; for code also the wrong answers that come up most, and what
their checks say of them. Try first: each exercise has hints.

"""
TEACHING = "- **Teach** with it: [twelve weeks](teaching.md), and all figures as slides."
EXPLORER = '<div class="heed-explorer"'  # how the HTML of `heed.plot.explorer` begins


def page(chapters):
    """The opening page as Markdown.

    chapters: folder of `NN_name.ipynb` and `solutions/NN_name.ipynb`; the README lies beside it

    What a book lacks (a README, a cover, an explorer, a reader's first chapter), its page leaves out.
    Raises ValueError for a notebook whose name does not start with the number of a chapter.
    """
    rows = table(chapters)
    pieces = {
        "cover": cover(chapters.parent),
        "starts": starts(rows | tour(chapters)),
        "translator": translating.section(chapters.parent),
        "explorer": explorer(chapters),
        "chapters": listed(rows),
        "contents": contents(chapters),
        "teaching": TEACHING * teaching.there(chapters.parent),
    }
    text = INDEX.read_text(encoding="utf-8")
    for name, piece in pieces.items():
        text = text.replace(f"<!-- {name} -->", piece)
    return text


def table(chapters):
    """What there is to say of each chapter, written or planned: number -> source, title, leaves, time.

    source: its notebook, None if the chapter is planned
    leaves: what it leaves its reader with; may be empty, as `time` may
    """
    rows, names = {}, []
    for line in readme(chapters.parent).splitlines():
        fields = [field.strip() for field in line.removeprefix("|").removesuffix("|").split("|")]
        if line.startswith("| | chapter |"):
            names = fields
        elif names and fields[0].isdecimal():
            row = dict(zip(names, fields, strict=True))
            title = re.sub(r"\[(.+)\]\(.+\)| \*\(planned\)\*", r"\1", row["chapter"])
            time = row.get("how long") or row.get("minutes", "")
            time += " minutes" * time.isdecimal()
            leaves = row["what it leaves you with"]
            rows[int(fields[0])] = {"source": None, "title": title, "leaves": leaves, "time": time}
        elif not line.startswith("|"):
            names = []
    for path in written(chapters):
        row = rows.setdefault(int(path.name[:2]), {"title": heading(path), "leaves": "", "time": ""})
        row["source"] = f"chapters/{path.name}"
    return dict(sorted(rows.items()))


def tour(chapters):
    """What there is to say of the tour, under its name, as `table` has it of chapters; or nothing."""
    if not (chapters / TOUR).is_file():
        return {}
    leaves = "one task, from one vector to the Transformer, then a real sentence"
    return {TOUR: {"source": f"chapters/{TOUR}", "title": "The tour", "leaves": leaves, "time": "an hour"}}


def pages(chapters):
    """(page, title with its number) of the tour and of every chapter that is written, in reading order."""
    rows = tour(chapters) | {number: row for number, row in table(chapters).items() if row["source"]}
    for number, row in rows.items():
        title = row["title"] if number == TOUR else f"{number} · {row['title']}"
        yield Path(row["source"]).with_suffix(".html").as_posix(), title


def readme(root):
    """The README's text; none where there is no README."""
    path = root / "README.md"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def written(chapters):
    """The chapters that exist, in order, without the tour. Raises ValueError for a name without a number."""
    paths = sorted(path for path in chapters.glob("*.ipynb") if path.name != TOUR)
    numbers = [number for part in PARTS.values() for number in part]
    for path in paths:
        if not path.name[:2].isdecimal() or int(path.name[:2]) not in numbers:
            raise ValueError(f"{path.name}: a chapter is called NN_name.ipynb, NN from 00 to 17; rename it.")
    return paths


def cells(path):
    """The cells of a notebook, as they are stored."""
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def heading(path):
    """A chapter's own title, without its number: of `# 3 · Additive attention` what follows the point."""
    text = "\n".join("".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "markdown")
    found = re.search(r"^# (?:\d+ · )?(.+)$", text, re.MULTILINE)
    return found[1] if found else path.stem


def cover(root):
    """The README's picture with its alternative text, and the words below it."""
    picture, words = r"^!\[.+?\]\(assets/readme\.png\)", r"(\n\n\*.+?\*(?=\n\n))?"
    found = re.search(picture + words, readme(root), re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def starts(rows):
    """A line for each kind of reader, with the chapter to begin with."""
    lines = [
        f"- {reader}: **[{row['title']}]({row['source']})**, {row['leaves']} ({row['time']})"
        for reader, number in STARTS.items()
        if (row := rows.get(number)) and row["source"]
    ]
    return "\n".join(["## Where to start", "", *lines]) if lines else ""


def explorer(chapters):
    """The first explorer that a chapter has put out, and where it is from."""
    outputs = (
        (path, "".join(output.get("data", {}).get("text/html", "")))
        for path in written(chapters)
        for cell in cells(path)
        for output in cell.get("outputs", [])
    )
    for path, shown in outputs:
        if shown.startswith(EXPLORER):
            return f"""## Look inside a translator

This network has translated a sentence, and each of its heads shows what it looked at. Point at a row, or
choose a layer, a head, a word. It is the network of [chapter {int(path.name[:2])}](chapters/{path.name}).

{raw(f'<div class="heed-live">{shown}</div>')}"""
    return ""


def listed(rows):
    """All chapters, part by part: title, what it leaves you with, how long; planned ones are called so."""
    tables = []
    for part, numbers in PARTS.items():
        lines = []
        for number in numbers:
            if row := rows.get(number):
                title = f"{row['title']} *(planned)*"
                if row["source"]:
                    title = f"[{row['title']}]({row['source']})"
                lines.append(f"| {number} | {title} | {row['leaves']} | {row['time']} |")
        if lines:
            head = ["| | chapter | what it leaves you with | how long |", "|---|---|---|---|"]
            tables += [f"### {part}"] * bool(part) + ["\n".join(head + lines)]
    return "\n\n".join(tables)


def raw(html):
    """HTML that goes into the page as it is, blank lines included."""
    return f"````````{{raw}} html\n{html}\n````````"


def solutions(chapters):
    """The page that leads to all solutions, as Markdown; nothing where there are none."""
    names = [f"chapters/solutions/{path.stem}" for path in sorted(chapters.glob("solutions/*.ipynb"))]
    tree = ["```{toctree}", ":maxdepth: 1", "", *names, "```", ""]
    return SOLUTIONS_PAGE + "\n".join(tree) if names else ""


def contents(chapters):
    """The contents beside every page: the chapters that exist, part by part, and what else there is."""
    paths = written(chapters)
    trees = {
        part: [f"chapters/{path.stem}" for path in paths if int(path.name[:2]) in numbers]
        for part, numbers in PARTS.items()
    }
    trees[""][:0] = [Path(row["source"]).with_suffix("").as_posix() for row in tour(chapters).values()]
    others = {"solutions": solutions(chapters), "teaching": teaching.there(chapters.parent), "keys": True}
    trees["Beside the chapters"] = [name for name, there in others.items() if there]
    options = [":hidden:", ":maxdepth: 1"]
    return "\n".join(
        "\n".join(["```{toctree}", *options, f":caption: {part}" * bool(part), "", *names, "```", ""])
        for part, names in trees.items()
        if names
    )
