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
from course_map import course_map, gains
from mirrors import definitions, mirror, mirrored
from nbformat.v4 import new_code_cell as code
from nbformat.v4 import new_markdown_cell as prose
from nbformat.v4 import new_output
from notebooks import ROOT, keep_what_varies, normal, read, run, text, write
from PIL import Image
from rules import complaints, rules, shows_the_library

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
        print("✓ double: it doubles" if yours(3) == 6 else "○ Not started: fill in the function above")"""

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
    code("def double(x): ...\n\n\ncheck.double(double)", metadata={"tags": ["exercise"]}),
]


def written():
    """The chapter as an author leaves it, before it has run: a word of prose before every cell."""
    first = [prose("# 0 · Tiny"), prose(course_map([]), metadata={"tags": ["course-map"]})]
    notebook = nbformat.v4.new_notebook(cells=first)
    for cell in copy.deepcopy(CELLS[:-1]):
        notebook.cells += [prose("A cell follows: $a! = b$ and `simply!`."), cell]
    notebook.cells += [prose(EXERCISE), copy.deepcopy(CELLS[-1])]
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
    "stored by another program": (
        lambda notebook: coded(notebook, 1).metadata.update(collapsed=True),
        "is_in_stored_form",
    ),
    "no set-up cell": (without(0), "opens_with_setup"),
    "another set-up cell": (change(0, "it does nothing", "nothing happens"), "opens_with_setup"),
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
    "most cells long": (
        lambda notebook: [coded(notebook, i).update(source="x = 6\n" * 9) for i in range(1, 9)],
        "is_mostly_brief",
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


def test_a_chapter_beyond_the_preface_needs_figures_exercises_and_its_rows(chapter):
    broken = {line.split(":")[0] for line in chapter(name="01_tiny")}
    assert {"has_figures", "has_exercises", "covers_its_rows"} <= broken


def test_every_rule_is_broken_by_some_test_here(tmp_path):
    every = {*rules(tmp_path / "01.ipynb"), *rules(tmp_path / "solutions" / "01.ipynb")}
    names = {rule.__name__ for rule in every}
    spoiled = {rule for _, rule in SPOILED.values()}
    assert names == spoiled | {"has_figures", "covers_its_rows", "solves_every_exercise"}


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


def shown_by(library, *cells, taught=("tiny",), later=None):
    """What the rule says when each chapter, from 01 on, mirrors these stubs."""
    paths = []
    for i, stub in enumerate(cells, start=1):
        path = library / "chapters" / f"{i:02}_x.ipynb"
        write(normal(nbformat.v4.new_notebook(cells=[code("# lib/heed/tiny.py\n" + stub)])), path)
        paths.append(path)
    return list(shows_the_library(paths, taught, later or {}, library))


def test_every_public_name_is_shown_once(library):
    everything = "SIZE = A = B = 0\ndef twice(): ...\nclass Thing: ..."
    assert shown_by(library, everything) == []
    assert shown_by(library, everything, "A = 0") == ["tiny.A is mirrored 2 times: 01_x.ipynb, 02_x.ipynb"]
    assert [line.split(" is ")[0] for line in shown_by(library, "SIZE = 0\nA = 0", "B = 0")] == [
        "tiny.twice",
        "tiny.Thing",
    ]
    rest = "SIZE = A = B = 0\ndef twice(): ..."
    assert shown_by(library, rest, later={"tiny.Thing": 9}) == []
    assert "is written" in shown_by(library, rest, later={"tiny.Thing": 1})[0]
    assert "mirrored already" in shown_by(library, everything, later={"tiny.Thing": 9})[0]
    assert "no such name" in shown_by(library, everything, later={"tiny.Thong": 9})[0]


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


def test_a_new_chapter_is_empty_and_in_stored_form(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tool, "CHAPTERS", tmp_path / "chapters")
    tool.new(["04_score_functions"])
    path = tmp_path / "chapters" / "04_score_functions.ipynb"
    assert read(path).cells[1].source == "# 4 · Score functions"
    assert not any("stored_form" in line or "setup" in line for line in complaints(path))
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
    assert written.startswith("| 07 | [Masks](07_masks.ipynb) | ") and written.endswith(" | 15 min |")
    assert planned.startswith("| 08 | Heads *(planned)* | ")
    assert [line.split(" | ")[2] for line in (written, planned)] == [gains()[7], gains()[8]]
    assert "| S1 | a \\| b | The \\| mask | 7.2, 7.3 | 7.2 | 7.1, 7.2 |" in lines
    assert "| S2 | c | open | open | open | open |" in lines
    assert "| S3 | d | 08 Heads |" in lines
    assert any("Of 3 rows, 1 have" in line for line in lines)
    assert "<details><summary>07 Masks: 2 rows, 1 open</summary>" in lines
    assert lines.count("</details>") == 2


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
    11: ("a stub that says something else", rewrite(11, "○ Not begun\n")),
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


@pytest.mark.soak
@pytest.mark.parametrize(
    "workers, asked, red",
    [
        ("-n0", ["-o", "testpaths=tests/test_book.py"], True),  # a call for everything, without chapters/
        ("-n2", ["-o", "testpaths=tests/test_book.py"], True),
        ("-n2", ["tests/test_book.py"], False),  # a call for one file
    ],
)
def test_a_whole_run_without_the_notebooks_is_red(workers, asked, red):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", workers, *asked],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")},
        capture_output=True,
        encoding="utf-8",
    )
    failed = "FAILED tests/test_book.py::test_all_notebooks_are_run_by_this_call"
    assert (failed in done.stdout) == red and " passed" in done.stdout, done.stdout
