"""Chapter 11's promise: the open cells of 11.2 and 11.3 are a Transformer in an empty file.

What 11.4 defines in the open, the loss, the loop and the three tests, needs nothing else, either.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import nbformat

CHAPTER = Path(__file__).parents[1] / "chapters" / "11_annotated_transformer.ipynb"
ALONE = "import sys\nsys.modules['heed'] = None  # as if it were not installed\n"
USE = """
from types import SimpleNamespace

torch.manual_seed(1)
source, target = torch.randint(4, 13, (8, 5)), torch.randint(4, 17, (8, 7))
source[1::2, 3:], target[:, 0] = PAD_ID, 1
batch = SimpleNamespace(source=source, target_in=target[:, :-1], target_out=target[:, 1:])
model = initial(Transformer(13, 17, 2, 16, 24, 4))
first = smoothed_loss(model, batch).item()
fit(model, iter([batch] * 120), n_steps=120)
assert smoothed_loss(model, batch).item() < first / 2
assert wrong(model, source, batch.target_in) == [False, False, False]


class Leaking(Transformer):
    def forward(self, source, target_in):
        memory = self.encode(source, real(source))
        return self.decode(memory, real(source), target_in, real(target_in))


assert wrong(initial(Leaking(13, 17, 2, 16, 24, 4)), source, batch.target_in) == [True, False, False]
print("it runs")
"""


def open_code():
    """The section's number and the source of every open code cell of the body."""
    section = None
    for cell in nbformat.read(CHAPTER, 4).cells:
        heading = re.match(r"## (?:11\.(\d) )?", cell.source) if cell.cell_type == "markdown" else None
        if heading:
            section = heading[1]
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "code" and section and not {"hide-input", "exercise"} & {*tags}:
            yield int(section), cell.source


def defines(source):
    """Does a cell hold definitions and nothing else?"""
    return all(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in ast.parse(source).body)


def run(tmp_path, *sources):
    """What an empty file with these cells prints, run by a Python that does not find the course."""
    path = tmp_path / "mine.py"
    path.write_text("\n\n".join([ALONE, *sources]), encoding="utf-8")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_open_cells_run_in_an_empty_file(tmp_path):
    cells = list(open_code())
    built = [source for section, source in cells if section in (2, 3)]
    trained = [source for section, source in cells if section == 4 and defines(source)]
    said = run(tmp_path, *built, *trained, USE)
    assert "torch.Size([2, 7, 17])" in said  # the model's scores
    assert "True" in said  # the shuffle, in float32
    assert said.endswith("it runs\n")


def test_each_part_is_defined_in_the_open():
    names = {
        node.name
        for section, source in open_code()
        if section > 1
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    assert names >= {
        "Heads",
        "Norm",
        "EncoderBlock",
        "DecoderBlock",
        "Transformer",
        "fit",
        "future",
        "padding",
    }
