"""A chapter as a file: its name, its first cell, how it is run, and the one form in which it is stored.

A stored notebook depends on nothing but its text and what its cells print: ids come from the cells' text,
counts run from 1 to n, and of the metadata only tags, alternative texts, and the folds that the tags ask for
stay. A chapter's title is followed by its minutes. Running it twice leaves no diff.
"""

import base64
import hashlib
from pathlib import Path

import minutes
import nbformat
from cells import folding, is_code, tags
from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell
from opening import TOUR
from pictures import complaint

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = ROOT / "chapters"
COVER = ROOT / "assets" / "readme.png"

SETUP = """\
# Set-up: one thread, for tensors are small here; on Colab, the course.
import importlib.util
import sys

import torch

torch.set_num_threads(1)
if importlib.util.find_spec("heed") is None:
    !git clone --quiet --depth 1 https://github.com/heed-course/heed course
    %pip install --quiet -e course
    sys.path.insert(0, "course/lib")"""

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebooks(chapters=CHAPTERS):
    """All notebooks of the book, in reading order: the tour; a chapter, then its solutions."""
    found = [*chapters.glob("*.ipynb"), *chapters.glob("solutions/*.ipynb")]
    return sorted(found, key=lambda path: (not is_tour(path), path.name, is_solution(path)))


def is_solution(path):
    """Does this notebook hold solutions, and not a chapter?"""
    return path.parent.name == "solutions"


def is_tour(path):
    """Is this the tour, which is no chapter and has neither number, rows nor exercises?"""
    return path.stem == Path(TOUR).stem


def is_chapter(path):
    """Is this a chapter, and neither solutions nor the tour?"""
    return not is_solution(path) and not is_tour(path)


def number(path):
    """The chapter's number, from the first two letters of the file's name."""
    return int(path.name[:2])


def read(path):
    """The notebook in this file."""
    return nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)


def text(notebook):
    """The notebook as it is written into its file."""
    return nbformat.writes(notebook) + "\n"


def write(notebook, path):
    """Store the notebook, with the same line ends on every system."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(notebook), encoding="utf-8", newline="\n")


def normal(notebook):
    """The notebook in its stored form. It is a new notebook; the one given stays as it was."""
    cells = [cell for cell in notebook.cells if "setup" not in tags(cell) and cell.source != SETUP]
    setups = [cell for cell in notebook.cells if is_code(cell) and cell not in cells]
    ran = any(cell.get("execution_count") for cell in setups)
    setup = new_code_cell(SETUP, metadata={"tags": ["setup"]}, execution_count=1 if ran else None)
    took = minutes.counted(notebook)
    seen, count, stored = {}, 0, []
    for cell in [setup, *cells]:
        source = "\n".join(line.rstrip() for line in cell.source.split("\n")).strip("\n")
        if not source:
            continue
        if cell.cell_type not in ("markdown", "code"):
            raise ValueError(f"A {cell.cell_type} cell has no place in a chapter: {source[:60]!r}")
        if not is_code(cell):
            source = minutes.with_head(source, took)
        twin = seen[cell.cell_type, source] = seen.get((cell.cell_type, source), 0) + 1
        kept = {key: cell.metadata[key] for key in ("alt", "tags") if cell.metadata.get(key)}
        name = hashlib.sha256(f"{cell.cell_type} {twin} {source}".encode()).hexdigest()[:12]
        if not is_code(cell):
            pasted = {"attachments": cell.attachments} if cell.get("attachments") else {}
            stored.append(new_markdown_cell(source, id=name, metadata=kept, **pasted))
            continue
        count += 1
        outputs = [tidy(output, count, kept) for output in joined(cell.get("outputs", []))]
        done, folds = count if cell.get("execution_count") else None, folding(cell)
        stored.append(
            new_code_cell(source, id=name, metadata=kept | folds, execution_count=done, outputs=outputs)
        )
    return nbformat.from_dict({"cells": stored, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5})


def joined(outputs):
    """Leave out displays that ended empty (a progress bar does), and join what was written in pieces."""
    pieces = []
    for output in outputs:
        if output.output_type == "display_data" and not output.data:
            continue
        last = pieces[-1] if pieces else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            pieces.append(nbformat.from_dict(output))
    return pieces


def tidy(output, count, kept):
    """One output in its stored form: a picture has its alternative text and, if it varies, its outline."""
    if output.output_type == "execute_result":
        output.execution_count = count
    if "data" in output:
        drawn, outline = "image/png" in output.data, output.metadata.get("outline")
        output.metadata = {"image/png": {"alt": kept["alt"]}} if drawn and "alt" in kept else {}
        if drawn:
            output.data["image/png"] = output.data["image/png"].strip()
        if drawn and outline and "varies" in kept.get("tags", []):
            output.metadata["outline"] = outline
    return output


def opening(rounding=None):
    """What a kernel runs before the first cell: figures carry outlines; a seed disturbs what is trained."""
    calls = [("outline.py", "draw", "")] + [("rounding.py", "disturb", rounding)] * bool(rounding)
    folder = Path(__file__).parent
    return "\n".join(
        f"__import__('runpy').run_path({str(folder / file)!r})['{name}']({words})"
        for file, name, words in calls
    )


class ThisPython(KernelSpecManager):
    """Finds one kernel only: the Python that runs this program."""

    def get_kernel_spec(self, kernel_name):
        return self.kernel_spec_class(resource_dir=RESOURCES, **get_kernel_dict())


class ThisKernel(AsyncKernelManager):
    """Starts that kernel, whatever other kernels the machine has."""

    def __init__(self, **settings):
        super().__init__(kernel_spec_manager=ThisPython(), **settings)


def run(notebook, folder, timeout=600):
    """The notebook, run from top to bottom in a new kernel that starts in the folder, in its stored form.

    Raises nbclient's CellExecutionError where a cell raises.
    """
    fresh = normal(notebook)
    for cell in fresh.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    fresh.cells.insert(0, new_code_cell(opening()))
    client = NotebookClient(fresh, kernel_manager_class=ThisKernel, timeout=timeout, record_timing=False)
    client.extra_arguments = ["--log-level=ERROR"]
    client.execute(cwd=str(folder))
    del fresh.cells[0]
    return normal(fresh)


def keep_what_varies(new, old):
    """Give cells whose output may vary the output they had, if their text is the same.

    What a cell tagged `nbval-ignore-output` shows (a time, a figure of times) is another at every run. The
    picture of a cell tagged `varies` is another on every processor.
    """
    before = {cell.id: cell for cell in old.cells if cell.get("outputs")}
    for cell in new.cells:
        stored = before[cell.id].outputs if cell.id in before else None
        if stored and "nbval-ignore-output" in tags(cell):
            cell.outputs = stored
        elif stored and "varies" in tags(cell) and len(stored) == len(cell.outputs):
            cell.outputs = [*map(old_or_new, stored, cell.outputs)]
    return normal(new)


def old_or_new(old, new):
    """Of two outputs the old one, if both are pictures, it has an outline, and the new one is like it."""
    drawn = all("image/png" in output.get("data", {}) for output in (old, new))
    return old if drawn and "outline" in old.metadata and not complaint(old, new, roughly=True) else new


def cover(paths):
    """The README's figure, as the bytes of a PNG: that of the one cell that is tagged `cover`."""
    cells = [cell for path in paths for cell in read(path).cells if "cover" in tags(cell)]
    figures = [o.data["image/png"] for c in cells for o in c.outputs if "image/png" in o.get("data", {})]
    if len(figures) != 1:
        raise ValueError(f"One figure must be tagged cover, for the README; {len(figures)} are.")
    return base64.b64decode(figures[0])
