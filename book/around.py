"""What stands around the text of a page: its neighbours with their minutes, its solutions.

A link to a page that is shared shows its title, a sentence, and one picture for the whole book: the README's,
on a sheet of the shape that is asked for.
"""

import html
import re
from pathlib import Path

import minutes
import nbformat
import opening
from PIL import Image

CHAPTER = re.compile(r"chapters/(\d\d_\w+)")
SOLUTIONS = re.compile(r"chapters/solutions/(\d\d_\w+)")
NOT_FOUND = Path(__file__).with_name("not_found.html")
LEAD = "Attention and Transformers, in notebooks that run."
SHEET, MARGIN = (1200, 630), 40  # pixels of the picture that a shared link shows


def add(app, pagename, templatename, context, doctree):
    """Hand to the templates what this page has around it."""
    root = Path(app.srcdir)
    _, before, after = app.builder.relations.get(pagename, (None, None, None))
    for name, page in (("prev", before), ("next", after)):
        if page and context.get(name):
            context[name] = {**context[name], "minutes": to_read(root / app.env.doc2path(page, base=False))}
    context["heed_beside"] = beside(app, pagename)
    context["heed_title"] = re.sub("<.*?>", "", context.get("title") or "Heed")
    context["heed_says"] = says(root, pagename)
    context["heed_site"] = app.config.html_baseurl
    context["heed_picture"] = picture_says(root)


def to_read(path):
    """The honest minutes of a chapter's body in words; of any other page nothing."""
    if not CHAPTER.fullmatch(f"chapters/{path.stem}") or path.parent.name != "chapters":
        return ""
    read = minutes.rounded(minutes.counted(nbformat.read(path, as_version=4)).body, 5)
    return f"{read} minutes to read"


def beside(app, pagename):
    """From a chapter to its solutions, and from these back to it."""
    for form, there, words in (
        (CHAPTER, "chapters/solutions/{}", "Solutions of this chapter"),
        (SOLUTIONS, "chapters/{}", "Back to the chapter"),
    ):
        found = form.fullmatch(pagename)
        if found and (page := there.format(found[1])) in app.env.found_docs:
            return {"link": app.builder.get_relative_uri(pagename, page), "title": words}
    return None


def says(root, pagename):
    """One sentence of a page: what a chapter leaves its reader with."""
    found = CHAPTER.fullmatch(pagename) or SOLUTIONS.fullmatch(pagename)
    rows = opening.table(root / "chapters") if found else {}
    leaves = next(
        (row["leaves"] for row in rows.values() if row["source"] == f"chapters/{found[1]}.ipynb"), ""
    )
    solved = "Solutions. " if SOLUTIONS.fullmatch(pagename) else ""
    return f"{solved}{leaves[:1].upper()}{leaves[1:]}. {LEAD}" if leaves else LEAD


def picture_says(root):
    """The alternative text of the README's picture; nothing where there is none."""
    found = re.match(r"!\[(.+?)\]", opening.cover(root), re.DOTALL)
    return " ".join(found[1].split()) if found else ""


def write_picture(root, pages):
    """Put the README's picture on a white sheet of 1200 × 630, for links that are shared."""
    if not picture_says(root):
        return
    sheet = Image.new("RGB", SHEET, "white")
    with Image.open(root / "assets" / "readme.png") as file:
        cover = file.convert("RGBA")
    room = [side - 2 * MARGIN for side in SHEET]
    scale = min(room[0] / cover.width, room[1] / cover.height)
    size = [max(1, round(scale * side)) for side in cover.size]
    cover = cover.resize(size, Image.Resampling.LANCZOS)
    sheet.paste(cover, tuple((a - b) // 2 for a, b in zip(SHEET, size, strict=True)), cover)
    sheet.save(pages / "_static" / "open-graph.png", optimize=True)


def write_not_found(root, pages):
    """The page for an address that leads nowhere: it needs no other file, as it is shown anywhere."""
    lines = [
        f'<li><a href="{page}">{html.escape(title)}</a></li>'
        for page, title in opening.pages(root / "chapters")
    ]
    text = NOT_FOUND.read_text(encoding="utf-8").replace("<!-- chapters -->", "\n".join(lines))
    (pages / "404.html").write_text(text, encoding="utf-8", newline="\n")
