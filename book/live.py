"""What strict nbval leaves out when it runs a notebook: a plugin for pytest, loaded by `conftest.py`.

nbval compares text, and forgets pictures, the kind of an output and the order of different kinds. Here every
cell that nbval has run is held against what is stored: as many outputs, of the same kinds, in the same order,
and each picture the same to the eye, or, where a cell is tagged `varies`, alike. At the end stands how long
each notebook took.

With HEED_ROUNDING=1 (or another seed) in the environment, weights start a last digit away: see `rounding.py`.
"""

import os

import pytest
from nbval.plugin import IPyNbCell, NbCellError
from notebooks import joined, opening, tags
from pictures import complaint

BUDGET = 120  # seconds a chapter may take on two cores; reported, never a failure

# With several workers, the files that take longest come first, so that no worker is left with one at the end.
LONGEST = (
    "chapters/11_annotated_transformer.ipynb",
    "chapters/solutions/01_recurrent_networks.ipynb",
    "chapters/00_tour.ipynb",
    "chapters/02_sequence_to_sequence.ipynb",
    "chapters/solutions/02_sequence_to_sequence.ipynb",
    "chapters/01_recurrent_networks.ipynb",
    "chapters/03_additive_attention.ipynb",
    "chapters/solutions/03_additive_attention.ipynb",
    "chapters/14_a_real_translator.ipynb",
    "chapters/solutions/00_preface.ipynb",
    "tests/test_engine.py",
    "tests/test_distributed.py",
    "tests/test_commands.py",
    "tests/test_html.py",
    "tests/test_site.py",
    "tests/test_book_rounding.py",
)


def pytest_configure(config):
    """Where there are other workers, each of them and of its kernels keeps to one thread."""
    if getattr(config, "workerinput", {}).get("workercount", 1) > 1:
        os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(config, items):
    """Put the longest files first where workers share them, then the other notebooks, then the rest."""

    def place(item):
        name = item.path.relative_to(config.rootpath).as_posix()
        return LONGEST.index(name) if name in LONGEST else len(LONGEST) + (item.path.suffix != ".ipynb")

    if hasattr(config, "workerinput"):
        items.sort(key=place)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """After nbval has started a kernel, and before the first cell: what every kernel opens with."""
    result = yield
    kernel = isinstance(item, IPyNbCell) and item.parent.kernel
    if kernel and not hasattr(kernel, "opened"):
        code = opening(os.environ.get("HEED_ROUNDING"))
        reply = kernel.kc.execute_interactive(code, store_history=False, timeout=120)
        if reply["content"]["status"] != "ok":
            raise RuntimeError(f"The kernel of {item.path.name} did not open: {reply['content']}")
        kernel.opened = True
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """After nbval has run a cell and found the text the same, look at the rest."""
    result = yield
    if isinstance(item, IPyNbCell) and item.test_outputs is not None:
        different = compare(item.cell, joined(item.test_outputs))
        if different:
            raise NbCellError(item.cell_num, different, item.cell.source)
    return result


def compare(cell, live):
    """What is different between a cell's stored outputs and live ones, in words; None where nothing is."""
    stored = joined(cell.outputs)
    if [kind(output) for output in stored] != [kind(output) for output in live]:
        return f"stored outputs are {[*map(kind, stored)]}, and running the cell gives {[*map(kind, live)]}"
    if "nbval-ignore-output" in tags(cell):
        return None
    found = (complaint(old, new, "varies" in tags(cell)) for old, new in zip(stored, live, strict=True))
    return next(filter(None, found), None)


def kind(output):
    """What sort of output this is: its type, and the stream or the formats."""
    if output.output_type == "stream":
        return f"stream {output.name}"
    return " ".join([output.output_type, *sorted(output.get("data", {}))])


def pytest_terminal_summary(terminalreporter):
    """A table of seconds for each notebook."""
    seconds = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            file, _, cell = getattr(report, "nodeid", "").partition("::")
            if file.endswith(".ipynb") and cell:
                seconds[file] = seconds.get(file, 0.0) + getattr(report, "duration", 0.0)
    if seconds:
        terminalreporter.section(f"seconds for each notebook (a chapter has {BUDGET} on two cores)")
        for file in sorted(seconds):
            over = "   over the budget" if seconds[file] > BUDGET else ""
            terminalreporter.write_line(f"{seconds[file]:8.1f}  {file}{over}")
