"""Tests of the tests: a small made-up chapter is spoiled in every way we know, and the suite must turn red.

The chapter is run once, in a real kernel, and stored; left alone, it is green. Most ways of spoiling it are
found by the rules, without running; the last test runs strict nbval with our plugin on a chapter that is
spoiled in many cells at once, and expects exactly these cells to fail.
"""

import base64
import copy
import io
import os
import re
import shutil
import subprocess
import sys

import chapters as tool
import nbformat
import pytest
from cells import tags
from course_map import course_map, gains, readme
from minutes import Minutes, counted
from mirrors import LATER, definitions, mirror, mirrored
from nbformat.v4 import new_code_cell as code
from nbformat.v4 import new_markdown_cell as prose
from nbformat.v4 import new_output
from notebooks import ROOT, SETUP, is_chapter, keep_what_varies, normal, notebooks, read, run, text, write
from PIL import Image
from rules import ANY, FORM, TOUR, complaints, rules, shows_the_library

FIGURE = """\
import matplotlib.pyplot as plt

plt.plot([1, 2], label="{0}")
plt.title("It rises")
plt.show()"""

EXERCISE = """\
### Exercise 0.1 · code · ●○○ · 5 min

Write a function that doubles its argument, so that three becomes six.

<details><summary>Hint 1</summary>

What is the sum of a number and itself?

</details>"""

CHECK = """\
class check:
    def double(yours):
        held = yours(3) == 6
        print("✓ double: it doubles" if held else "○ Not started: fill it in")"""

VARIES = """\
import time

assert time.time() > 0
print(time.time())"""

PROGRESS = """\
from IPython.display import display

print("begun")
bar = display({}, raw=True, display_id=True)
bar.update({"text/plain": "half"}, raw=True)
bar.update({}, raw=True)
print("done")"""

ASKED = """\
squares = [n**2 for n in range(5)]
steps = [after - before for before, after in zip(squares, squares[1:])]
print("steps of the curve:")
print(steps)"""

DRAWN = """\
# figure: the curve and its steps
plt.bar(range(4), steps, label="steps")
plt.title("The curve, cut up")
plt.legend()
plt.show()"""

HELD = """\
# check: what the answer says
assert steps == [1, 3, 5, 7], "the odd numbers are expected"
print("✓ the four steps are odd")"""

QUESTION = """\
## How a curve rises

> **Question.** The curve $y = x^2$ rises from 0 to 16 in four steps. By how much does
> each of them rise?

The next cell measures it."""

ANSWER = """\
<details><summary>Answer</summary>

By the odd numbers one, three, five, seven. Between two squares lies twice the smaller root, and one.

</details>"""

CELLS = [  # the code cells; the numbers in the tests below count them from 0, the set-up cell
    code("x = 6\nprint(x)"),
    code("x = 7 * x\nprint(x)"),
    code(FIGURE.format("a"), metadata={"alt": "A straight line that rises from one to two"}),
    code(FIGURE.format("b"), metadata={"alt": "Another straight line, from one to two"}),
    code(FIGURE.format("c"), metadata={"alt": "A third straight line, from one to two"}),
    code("# lib/heed/attention.py\ndef expectation(): ..."),
    code("x"),
    code(VARIES, metadata={"tags": ["nbval-ignore-output"]}),
    code(PROGRESS),
    code(CHECK),
    code(ASKED, metadata={"tags": ["hide-output"]}),
    code(DRAWN, metadata={"tags": ["hide-input", "hide-output"], "alt": "Four bars, each higher by two"}),
    code(HELD, metadata={"tags": ["hide-input"]}),
    code("def double(x): ...\n\n\ncheck.double(double)", metadata={"tags": ["exercise"]}),
]


def written():
    """The chapter as an author leaves it, before it has run: a word of prose before every cell."""
    first = [prose("# 0 · Tiny"), prose(course_map([]), metadata={"tags": ["course-map"]})]
    notebook = nbformat.v4.new_notebook(cells=first)
    *plain, asked, drawn, held, exercise = copy.deepcopy(CELLS)
    for cell in plain:
        notebook.cells += [prose("A cell follows: $a! = b$ and `simply!`."), cell]
    notebook.cells += [prose(QUESTION), asked, drawn, prose(ANSWER), held]
    notebook.cells += [prose("## Sources"), prose("## Exercises"), prose(EXERCISE), exercise]
    return normal(mirror(notebook))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The chapter as it ran."""
    return run(written(), tmp_path_factory.mktemp("kernel"))


def solutions(stored):
    """The chapter's solutions, with outputs written by hand."""
    answer = "def double(x):\n    return {}\n\n\ncheck.double(double)"
    said = {
        "2 * x": "✓ double: it doubles",
        "x**2": "✗ Not yet: three became nine, so the argument was squared.",
        "x": "✗ Not yet: three is still three, so nothing was added to it.",
    }
    notebook = nbformat.v4.new_notebook(cells=[prose("### Exercise 0.1\n\n" + "Words. " * 20)])
    for tag, value in zip(("solution", "wrong", "wrong"), said, strict=True):
        line = new_output("stream", name="stdout", text=said[value] + "\n")
        notebook.cells.append(code(answer.format(value), metadata={"tags": [tag]}, outputs=[line]))
    notebook = normal(notebook)
    for i, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), start=1):
        cell.execution_count = i
    return notebook


@pytest.fixture
def chapter(tmp_path, stored):
    """Chapter and solutions in a folder, and what the rules say after something has been done to them."""

    def after(spoil=None, name="00_tiny", where=""):
        path = tmp_path / "chapters" / f"{name}.ipynb"
        pages = {"": copy.deepcopy(stored), "solutions": solutions(stored)}
        if spoil:
            spoil(pages[where])
        for folder, notebook in pages.items():
            write(notebook, path.parent / folder / path.name)
        return complaints(path.parent / where / path.name)

    return after


def coded(notebook, number):
    """The code cell of this number."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"][number]


# --- Spoiled, and found without running ---------------------------------------------------------------------


def test_the_chapter_left_alone_is_green(chapter):
    assert chapter() == []
    assert chapter(where="solutions") == []


def cleared(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None


def cleared_but_counted(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []


def set_source(number, source):
    def spoil(notebook):
        coded(notebook, number).source = source

    return spoil


def change(number, old, new):
    def spoil(notebook):
        cell = coded(notebook, number)
        assert cell.source.count(old) == 1
        cell.source = cell.source.replace(old, new)

    return spoil


def say(words):
    def spoil(notebook):
        notebook.cells[3].source = words

    return spoil


def ask(words):
    def spoil(notebook):
        notebook.cells[-2].source = words

    return spoil


def add_output(number, **output):
    def spoil(notebook):
        coded(notebook, number).outputs.append(nbformat.from_dict(output))

    return spoil


def set_tags(number, *names):
    def spoil(notebook):
        coded(notebook, number).metadata["tags"] = list(names)

    return spoil


def rewrite_first(number, line):
    def spoil(notebook):
        output = coded(notebook, number).outputs[0]
        output.text = "\n".join([line, *output.text.split("\n")[1:]])

    return spoil


def set_count(number, count):
    def spoil(notebook):
        coded(notebook, number).execution_count = count

    return spoil


def swap_cells(notebook):
    cells = notebook.cells
    first, second = [i for i, cell in enumerate(cells) if cell.cell_type == "code"][1:3]
    cells[first], cells[second] = cells[second], cells[first]


def without(number):
    def spoil(notebook):
        notebook.cells.remove(coded(notebook, number))

    return spoil


def silence(notebook):
    del notebook.cells[5]


def silence_before_a_cell_after_a_folded_one(notebook):
    fold = coded(notebook, 13)
    notebook.cells.insert(notebook.cells.index(fold) + 1, code("x", execution_count=14))


def nameless(notebook):
    del coded(notebook, 3).metadata["alt"]


def twice_the_figure(notebook):
    coded(notebook, 3).outputs *= 2


def stream(name, words):
    return {"output_type": "stream", "name": name, "text": words}


def html(words):
    return {"output_type": "display_data", "metadata": {}, "data": {"text/html": words, "text/plain": "x"}}


SVG = {"output_type": "display_data", "metadata": {}, "data": {"image/svg+xml": "<svg/>", "text/plain": "x"}}
ERROR = {"output_type": "error", "ename": "KeyError", "evalue": "'x'", "traceback": []}

LAST = "    return weights @ values  # (..., n_q, d_v)"
SWAPPED = "    return weights @ values  # (..., d_v, n_q)"

SPOILED = {
    "cleared": (cleared, "is_not_cleared"),
    "cleared, counts left": (cleared_but_counted, "is_not_cleared"),
    "a cell never ran": (set_count(2, None), "is_run_in_order"),
    "a cell ran again": (set_count(2, 99), "is_run_in_order"),
    "cells swapped after they ran": (swap_cells, "is_run_in_order"),
    "stderr left": (add_output(1, **stream("stderr", "UserWarning: old\n")), "runs_clean"),
    "an error left": (add_output(1, **ERROR), "runs_clean"),
    "hidden by a tag": (set_tags(1, "nbval-skip"), "runs_clean"),
    "an error hidden by a tag": (set_tags(1, "nbval-raises-exception"), "runs_clean"),
    "an exception expected": (set_tags(1, "raises-exception"), "runs_clean"),
    "hidden by a comment": (set_source(1, "# NBVAL_IGNORE_OUTPUT\nprint(6)"), "runs_clean"),
    "output may vary, and nothing is asserted": (
        set_source(8, "import time\n\nprint(time.time())"),
        "varies_beside_an_assertion",
    ),
    "a picture may vary, and nothing is asserted": (set_tags(3, "varies"), "varies_beside_an_assertion"),
    "a picture may vary, and has no outline": (set_tags(3, "varies"), "outlines_what_varies"),
    "a picture may vary, and there is none": (set_tags(1, "varies"), "outlines_what_varies"),
    "a path of a machine shown": (add_output(1, **stream("stdout", "/home/me/heed\n")), "names_no_machine"),
    "a path of a machine used": (set_source(1, "print(open('/tmp/x').read())"), "names_no_machine"),
    "a path on Windows": (add_output(1, **stream("stdout", "C:\\Users\\me\n")), "names_no_machine"),
    "an address in memory": (add_output(1, **stream("stdout", "<f at 0x7f65d40>\n")), "names_no_machine"),
    "a temporary name": (add_output(1, **stream("stdout", "ipykernel_77/1.py\n")), "names_no_machine"),
    "SVG": (add_output(3, **SVG), "draws_png"),
    "SVG in HTML": (add_output(1, **html("<div><svg></svg></div>")), "draws_png"),
    "an over-long cell": (set_source(1, "\n".join(["x = 6"] * 41)), "has_short_cells"),
    "a line that scrolls": (set_source(1, f"print({'6 + ' * 20}6)"), "fits_the_page"),
    "a fold without its tag": (
        lambda notebook: coded(notebook, 1).metadata.update(jupyter={"source_hidden": True}),
        "is_in_stored_form",
    ),
    "a tag without its fold": (set_tags(1, "hide-output"), "is_in_stored_form"),
    "minutes by hand": (
        lambda notebook: notebook.cells[1].update(source="# 0 · Tiny\n\n*7 minutes to read*"),
        "is_in_stored_form",
    ),
    "a fold without a name": (change(13, "# check: what the answer says\n", ""), "names_its_folds"),
    "a fold with half a name": (change(13, "what the answer says", "steps"), "names_its_folds"),
    "folded text": (
        lambda notebook: notebook.cells[3].metadata.update(tags=["hide-input"]),
        "names_its_folds",
    ),
    "a folded check that says nothing": (
        lambda notebook: coded(notebook, 13).update(outputs=[]),
        "says_what_held",
    ),
    "a folded check that says ✓": (
        lambda notebook: coded(notebook, 13).outputs[0].update(text="✓ held\n"),
        "says_what_held",
    ),
    "a folded check that says more": (
        lambda notebook: coded(notebook, 13).outputs[0].update(text="✓ the steps are odd\n[1, 3, 5, 7]\n"),
        "says_what_held",
    ),
    "a folded check that prints numbers": (
        lambda notebook: coded(notebook, 13).outputs[0].update(text="0.97\n"),
        "says_what_held",
    ),
    "stored by another program": (
        lambda notebook: coded(notebook, 1).metadata.update(collapsed=True),
        "is_in_stored_form",
    ),
    "no set-up cell": (without(0), "opens_with_setup"),
    "another set-up cell": (change(0, "one thread", "two threads"), "opens_with_setup"),
    "no alternative text": (nameless, "describes_its_figures"),
    "two figures in a cell": (twice_the_figure, "describes_its_figures"),
    "an image without words": (say("![](../assets/x.png)"), "describes_its_figures"),
    "a dead link": (say("See [there](99_nowhere.ipynb)."), "links_to_files"),
    "simply": (say("Simply call it."), "keeps_the_style"),
    "an exclamation mark": (say("It works!"), "keeps_the_style"),
    "another notebook imported": (set_source(1, "from solutions import answer"), "imports_the_course"),
    "a private module imported": (set_source(1, "import heed._private"), "imports_the_course"),
    "trained from float32": (set_source(1, "train(model, batches, loss, 400)"), "trains_in_double"),
    "a drifted mirrored cell": (change(6, "weights @ values", "weights  @ values"), "mirrors_the_library"),
    "a truncated mirrored cell": (change(6, LAST, ""), "mirrors_the_library"),
    "a mirrored cell without its docstring": (
        set_source(6, "# lib/heed/attention.py\ndef expectation(weights, values):\n" + LAST),
        "mirrors_the_library",
    ),
    "a swapped shape in a mirrored cell": (change(6, LAST, SWAPPED), "mirrors_the_library"),
    "a line behind a mirrored cell": (
        lambda notebook: coded(notebook, 6).update(source=coded(notebook, 6).source + "\nexpectation = None"),
        "mirrors_the_library",
    ),
    "a mirrored cell of no file": (change(6, "heed/attention", "heed/attentoin"), "mirrors_the_library"),
    "a mirrored cell that hides": (change(6, "# lib/heed", "# from lib/heed"), "mirrors_the_library"),
    "a mirrored cell that is not Python": (change(6, "return", "return ("), "mirrors_the_library"),
    "no prose before a cell": (silence, "speaks_before_code"),
    "no prose before a cell after a folded one": (
        silence_before_a_cell_after_a_folded_one,
        "speaks_before_code",
    ),
    "an unknown row": (set_tags(1, "runs:S999"), "tags_known_rows"),
    "a row checked by nothing": (set_tags(1, "checks:S1"), "tags_known_rows"),
    "a name of the library taken": (set_source(1, "def masked_softmax(x): ..."), "defines_nothing_twice"),
    "the map is old": (lambda notebook: notebook.cells[2].update(source="nothing"), "draws_the_map"),
    "no map": (lambda notebook: notebook.cells[2].metadata.clear(), "draws_the_map"),
    "a kind that is none": (ask(EXERCISE.replace("code", "quiz")), "has_exercises"),
    "no minutes": (ask(EXERCISE.replace(" · 5 min", "")), "has_exercises"),
    "no hint": (ask(EXERCISE.split("<details>")[0]), "has_exercises"),
    "no stub": (without(-1), "has_exercises"),
    "a stub without its check": (set_source(-1, "def double(x): ..."), "has_exercises"),
    "a stub that is solved": (
        lambda notebook: coded(notebook, -1).outputs[0].update(text="✓ double: it doubles\n"),
        "has_exercises",
    ),
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_spoiled_chapter_is_red(chapter, how):
    spoil, rule = SPOILED[how]
    assert rule in {line.split(":")[0] for line in chapter(spoil)}


SPOILED_SOLUTIONS = {
    "a solution that fails": (0, "✗ Not yet: three became nine, so the argument was squared."),
    "a wrong answer that passes": (1, "✓ double: it doubles"),
    "a wrong answer that stops the check": (1, "✗ Not yet: your code raised KeyError (line 2 of the cell)."),
    "a wrong answer without a sentence": (1, "✗ Not yet: no."),
    "the same sentence twice": (1, "✗ Not yet: three is still three, so nothing was added to it."),
}


@pytest.mark.parametrize("how", SPOILED_SOLUTIONS)
def test_solutions_that_say_something_else_are_red(chapter, how):
    number, words = SPOILED_SOLUTIONS[how]

    def spoil(notebook):
        coded(notebook, number + 1).outputs[0].text = words + "\n"

    assert any(line.startswith("solves_every_exercise") for line in chapter(spoil, where="solutions"))


@pytest.mark.parametrize(
    "spoil", [without(1), without(3), change(2, "double(x)", "halve(x)"), set_tags(3, "solution")]
)
def test_solutions_with_a_cell_missing_or_mistaken_are_red(chapter, spoil):
    assert any(line.startswith("solves_every_exercise") for line in chapter(spoil, where="solutions"))


def test_training_in_double_is_fine(chapter):
    source = "import torch\n\ntorch.set_default_dtype(torch.float64)\ntrain(model)"
    assert not any("trains_in_double" in line for line in chapter(set_source(1, source)))


def test_a_chapter_beyond_the_preface_needs_exercises_and_its_rows(chapter):
    broken = {line.split(":")[0] for line in chapter(name="01_tiny")}
    assert {"has_exercises", "covers_its_rows"} <= broken


# --- The form -----------------------------------------------------------------------------------------------

PNG = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "", "text/plain": "x"}}
CONDITIONS = "<details><summary>Conditions</summary>\n\nThree seeds.\n\n</details>"
ASKED_AND_ANSWERED = """\
> **Question.** How many?

<details><summary>Answer</summary>

Seven, for a reason.

</details>"""


def formed():
    """A chapter in the form, as far as its rules look: not run, and about nothing."""
    figure = code("# figure: the task, drawn\nplt.show()", metadata={"tags": ["hide-input"]}, outputs=[PNG])
    cells = [
        prose("# 15 · Tiny\n\nSay how many."),
        figure,
        prose("## 15.1 One\n\n" + "word " * 100),
        code("x = 0.2", metadata={"tags": ["fails"]}),
        prose(f"{ASKED_AND_ANSWERED}\n\n**One is few.**\n\n{CONDITIONS}"),
        prose("## 15.2 Two"),
        code("assert x", metadata={"tags": ["repaired"]}),
        prose("**Two are enough.**"),
        prose("## 15.3 Three\n\n**Three are many.**"),
        prose("## What to remember\n\n- One is few.\n- Two are enough.\n- Three are many."),
        prose("## Exercises"),
        prose("## Further"),
        prose("### F1 · More"),
        prose("## The laboratory"),
        prose("### L1 · Seeds"),
        prose("## Sources"),
    ]
    return nbformat.v4.new_notebook(cells=cells)


def in_the_form(tmp_path, old="", new="", spoil=None):
    """What the rules of the form say of that chapter, after a change of its text, or of its cells."""
    notebook = formed()
    for cell in notebook.cells:
        cell.source = cell.source.replace(old, new) if old else cell.source
    if spoil:
        spoil(notebook.cells)
    return "\n".join(
        f"{rule.__name__}: {line}" for rule in FORM for line in rule(tmp_path / "15_tiny.ipynb", notebook)
    )


def before_the_repair(words):
    return lambda cells: cells.insert(5, prose(words))


ONCE_MORE = f"{ASKED_AND_ANSWERED}\n\n" * 3
MISSHAPEN = {  # what is done -> the words of the complaint
    "many words": (before_the_repair("word " * 2001), "words, and 2000 are"),
    "many lines": (lambda cells: cells.insert(5, code("x = 1\n" * 151)), "lines, and 150 are"),
    "many definitions": (lambda cells: cells.insert(5, code("def f(): ...\n" * 9)), "definitions, and 8"),
    "many Questions": (before_the_repair(ONCE_MORE), "questions, and 3"),
    "many figures": (lambda cells: cells.extend([cells[1]] * 5 + cells[:0]) or cells.insert(5, cells[1]), ""),
    "a lawyer": (
        before_the_repair("<details><summary>Why</summary>\n\n" + "word " * 90 + "</details>"),
        "words are folded",
    ),
    "a late failure": (lambda cells: cells.insert(3, prose("word " * 300)), "the failure comes after"),
    "a late repair": (before_the_repair("word " * 1201), "its repair 12"),
    "no repair": (lambda cells: cells[6].metadata.update(tags=[]), "`fails` and `repaired`"),
    "no picture of the task": (lambda cells: cells.pop(1), "no figure stands before"),
    "two assertions in a section": (lambda cells: cells.insert(6, code("assert 1")), "assert in the open"),
    "an output before the answer": (
        lambda cells: (
            cells[4].update(source="> **Question.** How many?")
            or cells.insert(5, code("x", outputs=[PNG]))
            or cells.insert(
                6, prose("<details><summary>Answer</summary>\n\nSeven.</details>\n\n**One is few.**")
            )
        ),
        "shows its output",
    ),
    "no answer": (
        lambda cells: cells[4].update(source="> **Question.** How many?\n\n**One is few.**"),
        "no answer",
    ),
}
MISNAMED = {  # (old text, new text) -> the words of the complaint
    ("## 15.3 Three", "### Three"): "three or four sections",
    ("## 15.3 Three", "## 15.4 Three"): "three or four sections",
    ("## Sources", "## Read next\n\n## Sources"): "closes with",
    ("## What to remember", "## Well"): "closes with",
    ("### F1 · More", "### F2 · More"): "are headed",
    ("### L1 · Seeds", "### Seeds"): "are headed",
    ("**Two are enough.**", "Two are enough."): "ends in",
    ("- Two are enough.", "- Two are plenty."): "What to remember lists",
    ("Three seeds.\n\n</details>", f"Three seeds.\n\n</details>\n\n{CONDITIONS}"): "with 2 Conditions",
}
del MISSHAPEN["many figures"]


def test_a_chapter_in_the_form_is_green(tmp_path):
    assert in_the_form(tmp_path) == ""


@pytest.mark.parametrize("how", MISSHAPEN)
def test_a_misshapen_chapter_is_red(tmp_path, how):
    spoil, words = MISSHAPEN[how]
    assert words in in_the_form(tmp_path, spoil=spoil)


@pytest.mark.parametrize("how", MISNAMED, ids=str)
def test_a_chapter_out_of_order_is_red(tmp_path, how):
    assert MISNAMED[how] in in_the_form(tmp_path, *how)


def toured():
    """A tour in its form, as far as its rules look."""

    def figure():
        source, folded = "# figure: the task, drawn\nplt.show()", {"tags": ["hide-input"]}
        return code(source, metadata=folded, outputs=[PNG])

    cells = [prose("# Tour · Tiny\n\nSay how many."), figure()]
    for i in range(1, 9):
        cells += [
            prose(f"## Stop {i} · One more\n\n{'word ' * 50}\n\n$$x = {i} \\tag{{{i}}}$$"),
            figure(),
            prose("A row."),
            code(f'board.add("{i}", 1)'),
            prose(f"**Add {i}.**\n\n→ [Chapter {i:02}]({i:02}_tiny.ipynb) tells it."),
        ]
    return [*cells, prose("## What to remember\n\n" + "\n".join(f"- Add {i}." for i in range(1, 9)))]


def of_the_tour(tmp_path, spoil=None):
    """What the rules of its form say of that tour."""
    cells = copy.deepcopy(toured())
    if spoil:
        spoil(cells)
    notebook, path = nbformat.v4.new_notebook(cells=cells), tmp_path / "00_tour.ipynb"
    return "\n".join(f"{rule.__name__}: {line}" for rule in TOUR for line in rule(path, notebook))


ASTRAY = {  # what is done -> the words of the complaint; cells 2 to 6 are the first stop
    "many words": (lambda cells: cells.insert(4, prose("word " * 4001)), "words, and 4000 are"),
    "many lines": (lambda cells: [cells.insert(4, code("x = 1\n" * 15)) for _ in range(14)], "and 200 are"),
    "many minutes": (lambda cells: cells.insert(4, prose("$$x$$\n" * 60)), "minutes, and 60 are"),
    "many Questions": (
        lambda cells: cells.insert(4, prose(f"{ASKED_AND_ANSWERED}\n\n" * 4)),
        "questions, and",
    ),
    "a lawyer": (
        lambda cells: cells.insert(4, prose(f"<details><summary>Why</summary>{' word' * 900}</details>")),
        "words are folded",
    ),
    "a long cell": (lambda cells: cells[5].update(source="x = 1\n" * 16), "15 are the most"),
    "no picture of the task": (lambda cells: cells.pop(1), "no figure stands before"),
    "no picture": (lambda cells: cells.pop(3), "has no picture"),
    "no equation": (lambda cells: cells[2].update(source="## Stop 1 · One more"), "has no equation"),
    "no row": (lambda cells: cells[5].update(source="x = 1"), "has no row"),
    "no code": (lambda cells: cells.pop(5), "has no code in the open"),
    "no link": (lambda cells: cells[6].update(source="**Add 1.**"), "has no link"),
    "a missing stop": (
        lambda cells: cells[7].update(source="## Stop 3 · One more $$x$$"),
        "eight or nine stops",
    ),
    "another memory": (
        lambda cells: cells[-1].update(source="## What to remember\n\n- Add."),
        "remember lists",
    ),
}


def test_a_tour_in_the_form_is_green(tmp_path):
    assert of_the_tour(tmp_path) == ""


@pytest.mark.parametrize("how", ASTRAY)
def test_a_tour_gone_astray_is_red(tmp_path, how):
    spoil, words = ASTRAY[how]
    assert words in of_the_tour(tmp_path, spoil)


def test_the_tour_is_no_chapter(tmp_path):
    for name in ("00_preface", "00_tour", "solutions/00_preface", "01_one"):
        write(normal(nbformat.v4.new_notebook(cells=[prose("# 0 · x")])), tmp_path / f"{name}.ipynb")
    found = notebooks(tmp_path)
    assert [path.stem for path in found] == ["00_tour", "00_preface", "00_preface", "01_one"]
    assert [is_chapter(path) for path in found] == [False, True, False, True]
    assert rules(found[0]) == ANY + TOUR
    assert tool.chosen(["tour"], tmp_path) == found[:1]
    assert tool.chosen(["00"], tmp_path) == found[1:3]


def test_every_rule_is_broken_by_some_test_here(tmp_path):
    every = {*rules(tmp_path / "04.ipynb"), *rules(tmp_path / "solutions" / "01.ipynb")} - {*FORM}
    spoiled = {rule for _, rule in SPOILED.values()}
    assert {rule.__name__ for rule in every} == spoiled | {"covers_its_rows", "solves_every_exercise"}


# --- The tool -----------------------------------------------------------------------------------------------

TINY = '''
import functools

SIZE: int = 3
A, B = 1, 2


@functools.cache
@staticmethod
def twice(x):
    """Double it."""
    # why: because
    return 2 * x  # (b, n)


class Thing:
    size = SIZE


def _hidden(): ...
'''


@pytest.fixture
def library(tmp_path):
    """A library of one module."""
    (tmp_path / "lib" / "heed").mkdir(parents=True)
    (tmp_path / "lib" / "heed" / "tiny.py").write_text(TINY, encoding="utf-8")
    return tmp_path


def test_definitions_are_whole():
    found = definitions(TINY)
    assert list(found) == ["SIZE", "A", "B", "twice", "Thing", "_hidden"]
    assert found["twice"].startswith("@functools.cache\n@staticmethod\ndef twice")
    assert found["twice"].endswith("return 2 * x  # (b, n)")
    assert found["A"] == found["B"] == "A, B = 1, 2"


def test_a_stub_becomes_the_librarys_text(library):
    stub = "# lib/heed/tiny.py\nSIZE = 0\nA, B = ...\ndef twice(): ...\nclass Thing: ..."
    want = TINY.split("import functools\n\n")[1].split("\n\n\ndef _hidden")[0]
    assert mirrored(stub, library) == "# lib/heed/tiny.py\n" + want.replace("2\n\n\n@", "2\n\n\n@")
    assert mirrored(mirrored(stub, library), library) == mirrored(stub, library)


@pytest.mark.parametrize("stub", ["x.py\nA = 1", "tiny.py\nC = 1", "tiny.py", "tiny.py\nA = ("])
def test_a_cell_that_mirrors_nothing_is_refused(library, stub):
    with pytest.raises(ValueError, match="the mirrored cell"):
        mirrored(f"# lib/heed/{stub}", library)


def shown_by(library, stub, later=(), plumbing=()):
    """What the rule says when chapter 1 mirrors this stub."""
    path = library / "chapters" / "01_x.ipynb"
    cells = [prose("Text."), code("# lib/heed/tiny.py\n" + stub)]
    write(normal(nbformat.v4.new_notebook(cells=cells)), path)
    return list(shows_the_library([path], ("tiny",), dict.fromkeys(later, 9), plumbing, library))


def test_every_public_name_is_shown_promised_or_plumbing(library):
    rest = "SIZE = A = B = 0\ndef twice(): ..."
    everything = f"{rest}\nclass Thing: ..."
    assert shown_by(library, everything) == []
    assert [line.split(" is ")[0] for line in shown_by(library, "SIZE = A = B = 0")] == [
        "tiny.Thing",
        "tiny.twice",
    ]
    assert shown_by(library, rest, later=["tiny.Thing"]) == []
    assert shown_by(library, rest, plumbing=["tiny.Thing"]) == []
    assert "shown already" in shown_by(library, everything, later=["tiny.Thing"])[0]
    assert "no such name" in shown_by(library, everything, later=["tiny.Thong"])[0]


def test_running_twice_leaves_no_diff(stored, tmp_path):
    again = keep_what_varies(run(stored, tmp_path), stored)
    assert text(again) == text(stored)
    assert all(output.get("data") != {} for cell in again.cells for output in cell.get("outputs", []))


def test_what_varies_is_kept_only_while_the_cell_is_the_same(stored):
    old, new = copy.deepcopy(stored), copy.deepcopy(stored)
    coded(new, 8).outputs[0].text = "later\n"
    assert coded(keep_what_varies(copy.deepcopy(new), old), 8).outputs == coded(old, 8).outputs
    coded(new, 8).source += "\n# another"
    assert coded(keep_what_varies(normal(new), old), 8).outputs[0].text == "later\n"


def test_the_stored_form_is_its_own_stored_form(stored):
    assert text(normal(stored)) == text(stored)
    picture = coded(stored, 3).outputs[0]
    assert picture.metadata == {"image/png": {"alt": "A straight line that rises from one to two"}}


def test_folds_are_stored_from_the_tags_and_from_nothing_else(stored):
    cells = [coded(stored, i).metadata for i in (0, 11, 12, 13, 1)]
    folds = [{key: cell.get(key) for key in ("jupyter", "collapsed") if key in cell} for cell in cells]
    assert folds == [
        {"jupyter": {"source_hidden": True}},
        {"jupyter": {"outputs_hidden": True}, "collapsed": True},
        {"jupyter": {"source_hidden": True, "outputs_hidden": True}, "collapsed": True},
        {"jupyter": {"source_hidden": True}},
        {},
    ]
    spoiled = copy.deepcopy(stored)
    coded(spoiled, 1).metadata.update(jupyter={"outputs_hidden": True}, collapsed=True, scrolled=True)
    del coded(spoiled, 11).metadata["collapsed"]
    assert text(normal(spoiled)) == text(stored)
    assert not any("jupyter" in cell.metadata for cell in stored.cells if cell.cell_type == "markdown")


def test_a_set_up_cell_of_yesterday_is_replaced_and_counts_as_run(stored):
    spoiled = copy.deepcopy(stored)
    spoiled.cells[0].source = "# An older one"
    assert text(normal(spoiled)) == text(stored)
    spoiled.cells[0].execution_count = None
    assert normal(spoiled).cells[0].execution_count is None


PAGE = [  # honest minutes: of each cell that counts, beside it
    (prose("# 7 · Masks\n\n*99 minutes to read*\n\n" + "word " * 258), 2),
    (code("x = 1\n\ny = 2\n" * 12), 2),
    (code("# data: all of it\n" * 60, metadata={"tags": ["hide-input"]}), 0),
    (prose("word " * 130 + "<details><summary>Answer</summary>\n\n" + "word " * 130 + "</details>"), 2),
    (prose("<details><summary>Conditions</summary>\n\n" + "word " * 500 + "</details>"), 0),
    (prose("> **Question.** " + "word " * 129 + "\n\n$$x = y$$\n\n| a | table |"), 1 + 1 + 1),
    (prose("## What to remember\n\n" + "word " * 900), 0),
    (prose("### Exercise 7.1 · predict · ●○○ · 25 min\n\n" + "word " * 900), 0),
    (code("x = 1\n" * 40), 0),
    (prose("## The laboratory"), None),
]


def picture():
    return new_output("display_data", data={"image/png": "", "text/plain": "x"})


def test_minutes_are_counted_by_what_stands_open():
    cells = [code(SETUP, metadata={"tags": ["setup"]}), *(copy.deepcopy(cell) for cell, _ in PAGE)]
    cells[3].outputs = [picture(), picture(), picture()]  # a figure of a folded cell is looked at
    cells += [prose("### L1 · Seeds\n\n" + "word " * 126), code("x = 1", outputs=[picture()])]
    took = counted(nbformat.v4.new_notebook(cells=cells))
    assert took.body == pytest.approx(sum(n for _, n in PAGE[:-1]) + 3, abs=0.05)
    assert took.laboratory == pytest.approx(1 + 1 / 12 + 1, abs=0.05)
    assert (took.further, took.exercises) == (0, 25)
    assert took.words() == "12 minutes to read, 2 for the laboratory, 25 minutes of exercises"
    assert took.words(to=5) == "10 minutes to read, 5 for the laboratory, 25 minutes of exercises"


@pytest.mark.parametrize(
    "minutes, words",
    [
        (5, "5 minutes"),
        (44, "45 minutes"),
        (45, "1 hour"),
        (74, "1 hour"),
        (75, "1½ hours"),
        (115, "2 hours"),
        (160, "2½ hours"),
    ],
)
def test_exercises_are_told_in_half_hours(minutes, words):
    assert Minutes(20, 0, 0, minutes).words() == f"20 minutes to read, {words} of exercises"
    assert Minutes(20, 0, 0, 0).words() == "20 minutes to read"


def test_the_head_of_a_chapter_tells_its_minutes_and_no_other_cell_does():
    notebook = nbformat.v4.new_notebook(cells=[cell for cell, _ in copy.deepcopy(PAGE)])
    head = "*10 minutes to read, 5 for the laboratory, 25 minutes of exercises*"
    assert normal(notebook).cells[1].source.startswith(f"# 7 · Masks\n\n{head}\n\nword")
    cells = [prose("# 7 · Masks"), prose("*1 minute to read*"), prose("# 8 apples")]
    bare = nbformat.v4.new_notebook(cells=cells)
    sources = [cell.source for cell in normal(bare).cells[1:]]
    assert sources == ["# 7 · Masks\n\n*5 minutes to read*", "*1 minute to read*", "# 8 apples"]
    assert text(normal(normal(bare))) == text(normal(bare))
    solved = nbformat.v4.new_notebook(cells=[prose("# Solutions 7 · Masks")])
    assert normal(solved).cells[1].source == "# Solutions 7 · Masks"


def test_the_readme_tells_the_minutes_of_written_chapters(tmp_path):
    path = tmp_path / "07_masks.ipynb"
    write(nbformat.v4.new_notebook(cells=[prose("# 7 · Masks\n\n" + "word " * 5200)]), path)
    rows = {line[2:4]: line for line in readme([path]).split("\n") if line[:3] == "| 0"}
    assert rows["07"].endswith("leaks | 40 minutes to read |") and rows["01"].endswith(f"{gains()[1]} | |")
    assert gains()[7] == "the future, the padding, and leaks"


def test_check_tells_the_minutes_of_a_chapter(begun, capsys):
    with pytest.raises(SystemExit):
        tool.check(["04"])
    assert (
        "\n04: 2 minutes to read, 1 for Further, 1 for the laboratory, 10 minutes of ex"
        in capsys.readouterr().out
    )


def test_a_raw_cell_is_refused_and_not_taken_for_code(stored):
    spoiled = copy.deepcopy(stored)
    spoiled.cells.insert(2, nbformat.v4.new_raw_cell("neither text nor code"))
    with pytest.raises(ValueError, match="raw cell has no place in a chapter: 'neither text nor code'"):
        normal(spoiled)


def test_from_a_draft_to_a_notebook_and_back(stored, tmp_path, monkeypatch, capsys):
    pytest.importorskip("jupytext", reason="jupytext, the authors' private tool, is not installed")
    monkeypatch.setattr(tool, "CHAPTERS", tmp_path / "chapters")
    monkeypatch.setattr(tool, "DRAFTS", tmp_path / "drafts")
    path, draft = tmp_path / "chapters" / "00_tiny.ipynb", tmp_path / "drafts" / "00_tiny.py"
    write(stored, path)
    tool.redraft(["00"])
    with pytest.raises(SystemExit, match="exists already"):
        tool.redraft(["00"])
    tool.draft(["00"])
    assert path.read_text(encoding="utf-8") == text(stored)
    draft.write_text(draft.read_text(encoding="utf-8").replace("x = 6", "x = 5"), encoding="utf-8")
    tool.draft(["00"])
    assert coded(read(path), 1).outputs == [] and coded(read(path), 2).outputs == coded(stored, 2).outputs
    assert "is_run_in_order" in "".join(complaints(path))


@pytest.fixture
def begun(tmp_path, monkeypatch, capsys):
    """A chapter and its solutions as the tool begins them, in a folder of their own."""
    monkeypatch.setattr(tool, "CHAPTERS", tmp_path / "chapters")
    monkeypatch.setitem(LATER, "scores.dot_score", 4)  # as before that chapter was written
    tool.new(["04_score_functions"])
    return tmp_path / "chapters" / "04_score_functions.ipynb"


def test_a_new_chapter_asks_only_for_what_its_author_has_to_fill_in(begun):
    notebook = read(begun)
    assert notebook.cells[1].source.startswith("# 4 · Score functions\n\n*5 minutes to read, 5 for Further")
    assert text(normal(notebook)) == begun.read_text(encoding="utf-8")
    everything = " ".join(str(tags(cell)) for cell in notebook.cells)
    assert all(tag in everything for tag in ("hide-input", "hide-output", "exercise"))
    assert {line.split(":")[0] for line in complaints(begun)} == {
        "is_run_in_order",
        "is_not_cleared",
        "shows_its_task_first",
        "mirrors_the_library",
        "says_what_held",
        "has_exercises",
        "covers_its_rows",
    }
    solved = complaints(begun.parent / "solutions" / begun.name)
    assert {line.split(":")[0] for line in solved} == {
        "is_run_in_order",
        "is_not_cleared",
        "solves_every_exercise",
    }
    mirror(notebook)  # its stub names something of the library
    with pytest.raises(SystemExit, match="exists already"):
        tool.new(["04_score_functions"])


def test_the_map_says_what_the_tags_say(tmp_path):
    notebook = nbformat.v4.new_notebook(
        cells=[
            prose("# 7 · Masks\n\n## The | mask", metadata={"tags": ["explains:S1"]}),
            prose("## 7.2 Both\n\n```\n# no heading\n```"),
            prose("### On paper"),
            code("assert True", metadata={"tags": ["runs:S1", "checks:S1"]}),
            prose("### Exercise 7.1 · code · ●○○ · 5 min", metadata={"tags": ["tries:S1"]}),
            prose("### Exercise 7.2 · code · ●○○ · 10 min", metadata={"tags": ["tries:S1"]}),
            prose("### As a loop"),
            code("assert 1", metadata={"tags": ["runs:S1"]}),
            prose("## 7.3 Once more"),
            code("assert 2", metadata={"tags": ["runs:S1"]}),
        ]
    )
    write(notebook, tmp_path / "07_masks.ipynb")
    rows = [
        {"id": "S1", "chapter": 7, "title": "Masks", "what": "a | b"},
        {"id": "S2", "chapter": 7, "title": "Masks", "what": "c"},
        {"id": "S3", "chapter": 8, "title": "Heads", "what": "d"},
    ]
    lines = course_map([tmp_path / "07_masks.ipynb"], rows).splitlines()
    written, planned = [line for line in lines if line.startswith("| 0")]
    assert written.startswith("| 07 | [Masks](07_masks.ipynb) | ") and written.endswith(
        " | 5 minutes to read, 15 minutes of exercises |"
    )
    assert planned.startswith("| 08 | Heads *(planned)* | ")
    assert [line.split(" | ")[2] for line in (written, planned)] == [gains()[7], gains()[8]]
    assert "| S1 | a \\| b | The \\| mask | 7.2, 7.3 | 7.2 | 7.1, 7.2 |" in lines
    assert "| S2 | c | open | open | open | open |" in lines
    assert "| S3 | d | 08 Heads |" in lines
    assert any("Of 3 rows, 1 have" in line for line in lines)
    assert "<details><summary>07 Masks: 2 rows, 1 open</summary>" in lines
    assert "Together: 5 minutes to read, 15 minutes of exercises." in lines
    assert lines.count("</details>") == 3
    assert "<details><summary>What is taught where: 3 rows</summary>" in lines


# --- Spoiled, and found by running --------------------------------------------------------------------------


def painted(picture, size=None):
    """The picture with a small grey square in it, or in another size."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    image = image.resize(size) if size else image
    image.paste((90, 90, 90), (20, 20, 34, 34))
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode()


def repaint(number, size=None):
    def spoil(notebook):
        data = coded(notebook, number).outputs[0].data
        data["image/png"] = painted(data["image/png"], size)

    return spoil


def rewrite(number, words):
    def spoil(notebook):
        coded(notebook, number).outputs[0].text = words

    return spoil


def clear(number):
    def spoil(notebook):
        coded(notebook, number).outputs = []

    return spoil


def as_display(number):
    def spoil(notebook):
        output = coded(notebook, number).outputs[0]
        output.output_type = "display_data"
        del output["execution_count"]

    return spoil


LIVE = {  # code cell -> how it is spoiled
    1: ("a changed number", rewrite(1, "9\n")),
    2: ("an output from cells run in another order", rewrite(2, "294\n")),
    3: ("a replaced picture", repaint(3)),
    4: ("a picture of another size", repaint(4, (320, 240))),
    5: ("a missing picture", clear(5)),
    6: ("a picture too many", lambda n: coded(n, 6).outputs.append(coded(n, 3).outputs[0])),
    7: ("another kind of output", as_display(7)),
    8: ("a cleared cell whose output may vary", clear(8)),
    9: ("a line too many", rewrite(9, "begun\nhalf\ndone\n")),
    11: ("a folded output that changed", rewrite(11, "steps of the curve:\n[1, 3, 5, 9]\n")),
    12: ("a folded picture that changed", repaint(12)),
    13: ("a folded check that says something else", rewrite(13, "✓ the four steps are even\n")),
    14: ("a stub that says something else", rewrite(14, "○ Not begun\n")),
}


def test_running_finds_each_spoiled_cell_and_no_other(stored, tmp_path):
    spoiled = copy.deepcopy(stored)
    for _, spoil in LIVE.values():
        spoil(spoiled)
    write(stored, tmp_path / "00_whole.ipynb")
    write(spoiled, tmp_path / "00_spoiled.ipynb")
    shutil.copy(ROOT / "conftest.py", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    options = "-q -rfE --nbval --nbval-current-env --color=no -p no:cacheprovider -p no:xdist -o addopts="
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options.split(), "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "book")},
        capture_output=True,
        encoding="utf-8",
    )
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)::Cell (\d+)", done.stdout, re.MULTILINE)
    assert {(file, int(n)) for file, n in failed} == {("00_spoiled.ipynb", n) for n in LIVE}, done.stdout
    assert f"{len(LIVE)} failed" in done.stdout
    assert re.search(r"^ +\d+\.\d  00_whole\.ipynb$", done.stdout, re.MULTILINE), "no table of seconds"
