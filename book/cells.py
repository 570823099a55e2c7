"""One cell: its tags, its folds, its headings, its code, and what it shows."""

import ast
import re

from IPython.core.inputtransformer2 import TransformerManager

HIDE_INPUT, HIDE_OUTPUT = "hide-input", "hide-output"
EXERCISE = re.compile(r"### Exercise (\d+)\.(\d+)(.*)")
EXERCISE_FORM = re.compile(r" · (predict|code|investigate) · (●○○|●●○|●●●) · (\d+) min$")
LABORATORY = "The laboratory"


def tags(cell, prefix=""):
    """The cell's tags that begin with the prefix, without it: tags(cell, "runs:") -> ["S1"]."""
    return [tag.removeprefix(prefix) for tag in cell.metadata.get("tags", []) if tag.startswith(prefix)]


def is_code(cell):
    """Is this a code cell?"""
    return cell.cell_type == "code"


def hides_input(cell):
    """Is the cell's code folded? That of the set-up cell always is."""
    return bool({HIDE_INPUT, "setup"} & {*tags(cell)})


def hides_output(cell):
    """Is what the cell shows folded?"""
    return HIDE_OUTPUT in tags(cell)


def folding(cell):
    """The metadata with which JupyterLab folds the cell, from the cell's tags."""
    hidden = {"source_hidden": True} if hides_input(cell) else {}
    hidden |= {"outputs_hidden": True} if hides_output(cell) else {}
    return ({"jupyter": hidden} if hidden else {}) | ({"collapsed": True} if hides_output(cell) else {})


def headings(cell):
    """The headings of a Markdown cell: (level, words)."""
    text = re.sub(r"```.*?```", "", cell.source, flags=re.DOTALL) if cell.cell_type == "markdown" else ""
    return [(len(marks), words) for marks, words in re.findall(r"^(#{1,6})\s+(.*)", text, re.MULTILINE)]


def pictures(cell):
    """The outputs of a cell that are pictures."""
    return [output for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]


def printed(cell):
    """What the cell has printed, as stored."""
    return "".join(output.get("text", "") for output in cell.outputs if output.output_type == "stream")


def python(source):
    """A cell's syntax tree; magics such as %pip are turned into calls first. Empty if it is not Python."""
    try:
        return ast.parse(TransformerManager().transform_cell(source))
    except SyntaxError:
        return ast.parse("")


def asserts(cell):
    """Does the cell's own code assert something? What a mirrored cell shows is the library's."""
    if not is_code(cell) or cell.source.startswith("# lib/"):
        return False
    return any(
        isinstance(node, ast.Assert) or (isinstance(node, ast.Attribute) and node.attr == "assert_close")
        for node in ast.walk(python(cell.source))
    )
