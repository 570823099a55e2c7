"""The book as one text: the prose of all chapters but this one, a paragraph a line.

    python assets/16_bert_and_gpt/prose.py

writes prose.txt beside this file. Headings, tables, code blocks, formulas, lists of sources and markup are
left out, and so is every sentence with a formula of more than one letter ($d_k$ counts as one). A sentence
that stands in the book twice is kept once.
"""

import json
import re
from pathlib import Path

from heed.data import split_of

HERE = Path(__file__).parent
CHAPTERS = Path(__file__).parents[2] / "chapters"
TEXT = HERE / "prose.txt"
SKIPPED = {"What to remember", "Sources"}  # the first repeats what was said, the second holds names
LEAST = 40  # characters of a paragraph


def paragraphs(cells):
    """The paragraphs of one chapter's Markdown cells, as plain text."""
    skipped, found = False, []
    for cell in cells:
        source = "".join(cell["source"])
        for block in re.split(r"\n\s*\n|\n(?=[#>|-] )", without_blocks(source)):
            heading = re.match(r"\s*(#+) (.*)", block)
            if heading:
                skipped = heading[2] in SKIPPED if len(heading[1]) < 3 else skipped
            elif not skipped and not block.lstrip().startswith(("|", "![")):
                found.append(plain(block))
    return found


def without_blocks(source):
    """Markdown without code blocks, displayed formulas, comments, summaries and tags of HTML."""
    blocks = r"```.*?```|\$\$.*?\$\$|<!--.*?-->|<summary>.*?</summary>|<[^<>]+>"
    return re.sub(blocks, "\n\n", source, flags=re.DOTALL)


def plain(block):
    """One block without markup, and without the sentences that hold a formula or half a line of code."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(block.split()))
    text = re.sub(r"\$([A-Za-z](?:[_^][A-Za-z])?)\$", r"\1", re.sub(r"^(>|[-*]|\d+\.) ", "", text))
    text = re.sub(r"\*\*|(?<!\w)\*|\*(?!\w)", "", text)
    kept = [s for s in re.split(r"(?<=[.?!])\s+(?=[A-Z“\"(`])", text) if "$" not in s and s[-1:] in ".?!)”"]
    return " ".join(kept).replace("`", "")


def book(chapters=CHAPTERS):
    """All paragraphs of the book, each once, in their order."""
    seen, found = set(), []
    for path in sorted(chapters.glob("[0-9]*.ipynb")):
        if path.name.startswith("16_"):
            continue
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        for text in paragraphs(cell for cell in cells if cell["cell_type"] == "markdown"):
            new = [s for s in re.split(r"(?<=[.?!])\s+", text) if s not in seen]
            seen.update(new)
            if len(" ".join(new)) >= LEAST:
                found.append(" ".join(new))
    return found


def split(part, text=TEXT):
    """The paragraphs of the stored text that belong to one part: "train", "val" or "test"."""
    lines = text.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if split_of(line) == part]


if __name__ == "__main__":
    found = book()
    TEXT.write_text("".join(line + "\n" for line in found), encoding="utf-8", newline="\n")
    print(f"{len(found):,} paragraphs, {sum(map(len, found)):,} characters")
