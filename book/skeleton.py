"""The notebooks with which a chapter begins: all that its form asks for, with … where the author goes on."""

from mirrors import LATER
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from notebooks import normal

CHAPTER = [
    """\
# {n} · {title}

What fails without this chapter's idea, and what you will have built when you have read it. …

You need …. Solutions to the exercises stand in a [notebook of their own](solutions/{file}).""",
    """\
## {n}.0 What fails

One failure, in front of the reader. …""",
    ("", "x = 1  # …: what runs, small and quick"),
    """\
> **Question.** What will happen when …? Decide before you unfold the output.""",
    ("hide-output", 'print("what happened:")\nprint(x)'),
    """\
<details><summary>Answer</summary>

The finding in the first sentence. Then the reason, in one sentence or two, that makes it so. …

</details>""",
    """\
## {n}.1 The mechanism

The smallest example, for paper. Then the loop, then the matrix product. …""",
    ("", "loop = sum(range(4))  # …\nmatrix = 6  # …"),
    ("hide-input", '# check: … the loop and the matrix product agree\nassert loop == matrix\nprint("✓ …")'),
    """\
The library says the same. (This cell is a stub: `python book/chapters.py mirror {nn}` fills it in.
The first chapter that teaches a name shows it in the open; a later one folds it and links to the first.)""",
    ("", "# lib/heed/{module}.py\ndef {name}(): ..."),
    """\
## What this does not show

One box for all that the lesson leaves open: seeds, sizes, other explanations, and which
part of the laboratory looks at them. …""",
    """\
## What to remember

- One sentence a section, at most six, that one can say the next day. …""",
    """\
## Sources

Authors, *title* (venue, year). …

Read next: …""",
    """\
## Exercises""",
    """\
### Exercise {n}.1 · code · ●○○ · 10 min

What to write, in two or three sentences. …

<details><summary>Hint 1</summary>

A question that leads on. …

</details>""",
    (
        "exercise",
        "from heed import check\n\n\ndef answer(x):\n    raise NotImplementedError\n\n\ncheck.answer(answer)",
    ),
    """\
## The laboratory

*Optional.* Controls, ablations, seeds, costs, and what else could explain it.
Nothing in a later chapter depends on it. …""",
    """\
### L1 · A control

…""",
]

SOLUTIONS = [
    "# Solutions {n} · {title}",
    """\
### Exercise {n}.1

The answer, and why it is right; then two mistakes that a clever reader makes, and how the check tells
them apart. …""",
    (
        "solution",
        "from heed import check\n\n\ndef answer(x):\n    return x  # …\n\n\ncheck.answer(answer)",
    ),
    "A mistake: …",
    ("wrong", "def answer(x):\n    return 2 * x  # …\n\n\ncheck.answer(answer)"),
    "Another: …",
    ("wrong", "def answer(x):\n    return x + 1  # …\n\n\ncheck.answer(answer)"),
]


def chapter(n, title):
    """The first notebook of a chapter, in stored form. Its stub is a name that LATER promises to it."""
    promised = [full.split(".") for full, number in LATER.items() if number == n]
    module, name = promised[0] if promised else ("<module>", "name")
    return filled(CHAPTER, n, title, module=module, name=name)


def solutions(n, title):
    """The first notebook of its solutions, in stored form."""
    return filled(SOLUTIONS, n, title)


def filled(cells, n, title, **words):
    """A notebook of these cells: a text is Markdown, a pair is (tag, code)."""
    file = f"{n:02}_{title.lower().replace(' ', '_')}.ipynb"
    words |= {"n": n, "nn": f"{n:02}", "title": title, "file": file}
    made = []
    for cell in cells:
        tag, source = (None, cell) if isinstance(cell, str) else cell
        for key, value in words.items():
            source = source.replace(f"{{{key}}}", str(value))
        metadata = {"tags": [tag]} if tag else {}
        made.append(new_markdown_cell(source) if tag is None else new_code_cell(source, metadata=metadata))
    return normal(new_notebook(cells=made))
