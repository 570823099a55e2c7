"""The figures of the tour and of all chapters as one page of slides, made from the pages of an edition.

A slide is a figure, under the title of its section, with the sentence that describes it and a link to its
place. The page scrolls from slide to slide, prints one slide a sheet, and needs no script.
"""

import html
import re
from pathlib import Path

import opening

PIECE = re.compile(
    r"<h(?P<level>[1-3])>(?P<title>.*?)<a class=\"headerlink\""
    r"|class=\"heed-named\" id=\"(?P<address>figure-[\w-]+)\">\s*(?P<picture><img .*?>)",
    re.DOTALL,
)
PAGE = Path(__file__).with_name("slides.html")


def plain(title):
    """A heading as text: without tags, its formulas in letters."""
    title = re.sub(r"\\sqrt\{?(\w)\}?", r"√\1", re.sub(r"<.*?>|\\[()]", "", title))
    title = re.sub(r"[{}\\]", "", title.replace(r"\|", "‖"))
    return " ".join(html.unescape(title).split())


def figures(text):
    """The figures of a page, in order: (address, title of the section, its picture's address, words)."""
    title = ""
    for piece in PIECE.finditer(text, text.index("<article")):
        if piece["title"]:
            title = plain(piece["title"])
            continue
        said = dict(re.findall(r'(alt|src)="(.*?)"', piece["picture"]))
        yield piece["address"], title, said["src"], said.get("alt", "")


SLIDE = """<section id="{address}">
<h2>{title}</h2>
<figure><img src="{picture}" alt="" loading="lazy"><figcaption>{words}</figcaption></figure>
<p><span>{chapter}</span> <a href="{page}#{address}">{name}</a></p>
</section>"""


def write(root, pages):
    """Write slides.html; nothing where no chapter has a figure."""
    slides, contents = [], []
    for page, title in opening.pages(root / "chapters"):
        shown = [*figures((pages / page).read_text(encoding="utf-8"))]
        title = html.escape(plain(title))
        for address, section, picture, words in shown:
            name = re.sub(r"-(\w+)-(\d+)$", r" \1.\2", address)
            parts = {"address": address, "title": html.escape(section), "words": words, "name": name}
            parts |= {"picture": picture.removeprefix("../"), "chapter": title, "page": page}
            slides.append(SLIDE.format(**parts))
        if shown:
            contents.append(f'<li><a href="#{shown[0][0]}">{title}</a></li>')
    if slides:
        text = PAGE.read_text(encoding="utf-8")
        for name, piece in (("n", str(len(slides))), ("contents", contents), ("slides", slides)):
            text = text.replace(f"<!-- {name} -->", piece if isinstance(piece, str) else "\n".join(piece))
        (pages / "slides.html").write_text(text, encoding="utf-8", newline="\n")
