"""The notebooks with which a chapter begins: all that its form asks for, with … where the author goes on."""

from mirrors import LATER
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from notebooks import normal

CHAPTER = [
    """\
# {n} · {title}

What the task is, and what number says how well it is done. …""",
    ("hide-input", "# figure: the task, drawn\n…"),
    """\
## {n}.1 What fails

…""",
    ("", "x = 1  # …: what runs, small and quick"),
    "And the number. …",
    ("fails", "x  # …: the number, and it is low"),
    """\
> **Question.** What will happen when …?""",
    ("hide-output", 'print("what happened:")\nprint(x)'),
    """\
<details><summary>Answer</summary>

The finding in the first sentence. Then the reason that makes it so. …

</details>

**One sentence of gain. …**

<details><summary>Conditions</summary>

Seeds, settings, ranges, exceptions. …

</details>""",
    """\
## {n}.2 The mechanism

On paper. Then the loop, then the matrix product. …""",
    ("", "loop = sum(range(4))  # …\nmatrix = 6  # …"),
    ("hide-input", '# check: … the loop and the matrix product agree\nassert loop == matrix\nprint("✓ …")'),
    """\
The library's version. (This cell is a stub: `python book/chapters.py mirror {nn}` fills it in.)""",
    ("hide-input", "# lib/heed/{module}.py\ndef {name}(): ..."),
    "And the number again. …",
    ("repaired", "matrix  # …: the number, and it is high"),
    """\
**Another sentence of gain. …**""",
    """\
## {n}.3 The next failure

…

**A third sentence of gain. …**""",
    """\
## What to remember

- One sentence of gain. …
- Another sentence of gain. …
- A third sentence of gain. …""",
    """\
## Exercises""",
    """\
### Exercise {n}.1 · code · ●○○ · 10 min

What to do, in two or three sentences. …

<details><summary>Hint 1</summary>

A question that leads on. …

</details>""",
    (
        "exercise",
        "from heed import check\n\n\ndef answer(x): ...\n\n\ncheck.answer(answer)",
    ),
    """\
## Further""",
    """\
### F1 · What is not the story

…""",
    """\
## The laboratory""",
    """\
### L1 · A control

…""",
    """\
## Sources

- Author (year). *Title*. Venue. …""",
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
