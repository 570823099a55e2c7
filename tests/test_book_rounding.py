"""Tests of the rounding test: what hangs on the last digit is found, the rest passes, wrong figures fail.

Two notebooks are run by strict nbval with our plugin, in processes of their own, as `make soak` does it.
"""

import copy
import io
import os
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import chapters as tool
import live
import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell as code
from nbformat.v4 import new_output
from notebooks import ROOT, keep_what_varies, normal, run, tags, write
from outline import outline

from heed.plot import heatmap

# p -> 4p(1 − p): what is added to p doubles at each step, so after sixty steps a last digit is a first one.
CHAOS = """\
import torch

torch.set_default_dtype(torch.float64)
start = torch.tensor([0.1, 0.2, 0.3, 0.4])
p = torch.nn.Parameter(start.clone())


def step():
    p.grad = p.detach() - 4 * p.detach() * (1 - p.detach())"""

TRAINED = """\
p.data.copy_(start)
optimizer = torch.optim.SGD([p], lr=1.0)
for _ in range({0}):
    step()
    optimizer.step()
print([f"{{x:.3f}}" for x in p.tolist()])"""

BY_HAND = """\
p = torch.nn.Parameter(start.clone())
for _ in range(100):
    step()
    with torch.no_grad():
        p -= p.grad
print([f"{x:.3f}" for x in p.tolist()])"""

CLAIM = "assert 0 <= p.min() and p.max() <= 1\nprint('p stays between 0 and 1')"
DRAWN = """\
import matplotlib.pyplot as plt

plt.plot(p.tolist())
plt.show()
assert 0 <= p.min() and p.max() <= 1"""
RANDOM = "print(torch.manual_seed(0).initial_seed(), torch.rand(3))"

DIGITS = {  # code cell -> does it survive the rounding test?
    1: (CHAOS, True),
    2: (TRAINED.format(5), True),  # a short training does not magnify much
    3: (RANDOM + "\n" + TRAINED.format(5) + "\nprint(torch.rand(3))", True),  # the RNG is as ever
    4: (TRAINED.format(100), False),
    5: (CLAIM, True),
    6: (DRAWN, False),
    7: (BY_HAND, False),
}

# --- A figure, and others that are stored in its place ------------------------------------------------------

FIGURE = """\
import matplotlib.pyplot as plt
from heed.plot import bars, curves, heatmap

y = [3.0, 2.0, 1.2, 0.8, 0.7]
curves(range(5), {"ours": y, "theirs": [3.0] * 5}, title="It falls", xlabel="updates", ylabel="loss")
plt.show()
assert y[4] < y[0]"""

ALIKE = "as it is", "another rounding"
STORED = {  # what is changed in the cell whose figure is stored
    "as it is": ("It falls", "It falls"),
    "another rounding": ("1.2, 0.8, 0.7", "1.25, 0.75, 0.78"),
    "a missing curve": (', "theirs": [3.0] * 5', ""),
    "a curve too many": ("[3.0] * 5", '[3.0] * 5, "other": [1.0] * 5'),
    "another name of a curve": ('"theirs"', '"others"'),
    "another label": ('"loss"', '"accuracy"'),
    "another title": ("It falls", "It rises"),
    "another axis": ("plt.show()", 'plt.yscale("log"); plt.show()'),
    "other limits": ("plt.show()", "plt.ylim(0, 9); plt.show()"),
    "an upside-down curve": ("y,", "y[::-1],"),
    "an upside-down axis": ("plt.show()", "plt.gca().invert_yaxis(); plt.show()"),
    "a curve elsewhere": ('"theirs": [3.0] * 5', '"theirs": [2.0] * 5'),
    "swapped curves": ('"ours": y, "theirs": [3.0] * 5', '"theirs": [3.0] * 5, "ours": y'),
    "another size": ("plt.show()", "plt.gcf().set_size_inches(4, 6); plt.show()"),
    "another background": ("plt.show()", 'plt.gca().set_facecolor("grey"); plt.show()'),
    "bars": ("curves(range(5), {", "bars(range(5), {"),
    "a map": ("plt.show()", 'plt.close("all"); heatmap([[0.1, 0.9], [0.5, 0.5]]); plt.show()'),
}


def notebook(*cells):
    """A notebook of these cells; each that draws has an alternative text and hangs on a training."""
    varies = {"alt": "A falling curve above which another one stays level", "tags": ["varies"]}
    made = [code(cell, metadata=varies if "plt.show()" in cell else {}) for cell in cells]
    return normal(nbformat.v4.new_notebook(cells=made))


def strict(folder, *options, **variables):
    """Run strict nbval in the folder: (the cells that failed, what was printed)."""
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    own = {
        key: value for key, value in os.environ.items() if not key.startswith(("HEED_", "PYTEST_", "OMP_"))
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", *options, "."],
        cwd=folder,
        env=own | {"PYTHONPATH": f"{ROOT / 'book'}{os.pathsep}{ROOT / 'lib'}"} | variables,
        capture_output=True,
        encoding="utf-8",
    )
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)::Cell (\d+)", done.stdout, re.MULTILINE)
    return {(file, int(cell)) for file, cell in failed}, done.stdout


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A folder with one notebook, stored as it ran: some of its cells hang on the last digit."""
    folder = tmp_path_factory.mktemp("digits")
    write(run(notebook(*(source for source, _ in DIGITS.values())), folder), folder / "00_digits.ipynb")
    return folder


def test_without_the_rounding_test_every_cell_passes(digits):
    failed, printed = strict(digits)
    assert not failed and "8 passed" in printed, printed


def test_what_hangs_on_the_last_digit_is_found_and_nothing_else(digits):
    failed, printed = strict(digits, HEED_ROUNDING="1")
    assert {cell for _, cell in failed} == {cell for cell, (_, stays) in DIGITS.items() if not stays}, printed


def test_to_take_the_outline_leaves_the_picture_as_it_is():
    def drawn(look):
        figure, axes = plt.subplots(1, 2, figsize=(7.4, 3.6))
        for ax in axes:
            heatmap(np.eye(7), title="Where it looks", xlabel="keys", ylabel="queries", ax=ax)
        outlined = look(figure)
        stream = io.BytesIO()
        figure.savefig(stream, bbox_inches="tight")
        again = outline(figure)
        plt.close(figure)
        return stream.getvalue(), outlined or again

    assert drawn(outline) == drawn(lambda figure: None)


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """A notebook of one figure many times, stored with pictures of others; and the notebook as it is run."""
    folder = tmp_path_factory.mktemp("figures")
    assert all(FIGURE.count(old) == 1 for old, _ in STORED.values())
    whole = [f"{FIGURE}\ni = {i}" for i in range(len(STORED))]
    spoiled = [cell.replace(*change) for cell, change in zip(whole, STORED.values(), strict=True)]
    stored, asked = run(notebook(*spoiled), folder), notebook(*whole)
    for cell, is_ in zip(stored.cells, asked.cells, strict=True):
        cell.source, cell.id = is_.source, is_.id
    return stored, run(asked, folder)


def test_a_picture_that_varies_is_compared_by_its_outline(figures, tmp_path):
    write(figures[0], tmp_path / "00_figures.ipynb")
    failed, printed = strict(tmp_path)
    passed = [how for i, how in enumerate(STORED, start=1) if ("00_figures.ipynb", i) not in failed]
    assert passed == [*ALIKE], printed


def test_a_picture_that_varies_is_renewed_only_if_it_is_not_like_the_old_one(figures):
    stored, live = figures
    kept = keep_what_varies(copy.deepcopy(live), stored)
    cells = ([cell for cell in n.cells if "varies" in tags(cell)] for n in (stored, live, kept))
    for how, *three in zip(STORED, *cells, strict=True):
        old, new, now = (cell.outputs[0].data["image/png"] for cell in three)
        assert now == (old if how in ALIKE else new), how


WARNS = """\
import os
import warnings


def test_warns():
    assert os.environ["OMP_NUM_THREADS"] == "1"
    warnings.warn("w")
"""


def test_workers_share_the_files_and_each_keeps_the_rules(tmp_path):
    cells = "import os\n\nprint(os.environ['OMP_NUM_THREADS'])", "x = 6", "print(7 * x)", "print(x)"
    two = notebook(*cells)
    for count, cell in enumerate(two.cells, start=1):
        cell.execution_count = count
    for cell, said in zip(two.cells[1:], ("1", "", "42", "7"), strict=True):  # the last is wrong
        cell.outputs = [new_output("stream", name="stdout", text=f"{said}\n")] if said else []
    for name in ("00_a", "01_b"):
        write(two, tmp_path / f"{name}.ipynb")
    (tmp_path / "test_it.py").write_text(WARNS, encoding="utf-8")
    failed, printed = strict(tmp_path, "-n2")
    assert failed == {("00_a.ipynb", 4), ("01_b.ipynb", 4)} and "3 failed, 8 passed" in printed, printed
    assert "UserWarning: w" in printed, "a warning is no error in a worker"
    for name in ("00_a", "01_b"):
        assert re.search(rf"^ +\d+\.\d  {name}\.ipynb$", printed, re.MULTILINE), "no table of seconds"


def test_the_longest_files_come_first_where_workers_share_them():
    assert all((ROOT / name).is_file() for name in live.LONGEST)
    last = ["chapters/00_preface.ipynb", "tests/test_attention.py", "tests/test_book.py"]
    items = [SimpleNamespace(path=ROOT / name) for name in [*last[::-1], *live.LONGEST[::-1]]]
    live.pytest_collection_modifyitems(SimpleNamespace(rootpath=ROOT, workerinput={}), items)
    found = [item.path.relative_to(ROOT).as_posix() for item in items]
    assert found == [*live.LONGEST, last[0], *last[:0:-1]]


@pytest.mark.parametrize("red", [set(), {"2"}])
def test_soak_runs_a_chapter_and_its_solutions_with_three_seeds_and_says_which_failed(monkeypatch, red):
    calls = []

    def pretended(command, cwd, env):
        calls.append((env["HEED_ROUNDING"], [word for word in command if word.endswith(".ipynb")]))
        return SimpleNamespace(returncode=int(env["HEED_ROUNDING"] in red))

    monkeypatch.setattr(tool.subprocess, "run", pretended)
    with pytest.raises(SystemExit, match="with seed 2" if red else "0"):
        tool.soak(["00"])
    files = [str(ROOT / "chapters" / name) for name in ("00_preface.ipynb", "solutions/00_preface.ipynb")]
    assert calls == [(seed, files) for seed in ("1", "2", "3")]
