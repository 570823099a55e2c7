"""What strict nbval leaves out when it runs a notebook: a plugin for pytest, loaded by `conftest.py`.

nbval compares text, and forgets pictures, the kind of an output and the order of different kinds. Here every
cell that nbval has run is held against what is stored: as many outputs, of the same kinds, in the same order,
and each picture the same to the eye. At the end stands how long each notebook took.
"""

import pytest
from nbval.plugin import IPyNbCell, NbCellError
from notebooks import joined, tags
from pictures import TOLERANCE, difference

BUDGET = 120  # seconds a chapter may take on two cores; reported, never a failure


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """After nbval has run a cell and found the text the same, look at the rest."""
    result = yield
    if isinstance(item, IPyNbCell) and item.test_outputs is not None:
        complaint = compare(item.cell, joined(item.test_outputs))
        if complaint:
            raise NbCellError(item.cell_num, complaint, item.cell.source)
    return result


def compare(cell, live):
    """What is different between a cell's stored outputs and live ones, in words; None where nothing is."""
    stored = joined(cell.outputs)
    if [kind(output) for output in stored] != [kind(output) for output in live]:
        return f"stored outputs are {[*map(kind, stored)]}, and running the cell gives {[*map(kind, live)]}"
    if "nbval-ignore-output" in tags(cell):
        return None
    for old, new in zip(stored, live, strict=True):
        if "image/png" in old.get("data", {}):
            far = difference(old.data["image/png"], new.data["image/png"])
            if far > TOLERANCE:
                return f"the stored picture differs from the new one by {far:.3f} of 255 a pixel, on average"
    return None


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
