"""What a small writer of numbers makes of six planted bugs, with three seeds. Written to leaks.json.

    python assets/07_masks/leaks.py

It runs the chapter's own cells, and trains with three seeds. (A few minutes.)

- `cells`: a digest of these cells; another one says that the log is older than the chapter
- `runs`: one for each bug and each seed; "none" is the repaired model
- `loss`, `right`: on the unseen lines, the loss per token and the share of next letters that come out right
- `lines`: the share of 200 written lines that are numbers
- `alone`, `padded`, `hidden`: the repaired model goes on from first halves of the unseen lines, and so many
  of 1 become numbers: one at a time; in one batch, padded in front; the same with the pads hidden
"""

import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path

import nbformat

LOG = Path(__file__).with_suffix(".json")
CHAPTER = LOG.parents[2] / "chapters" / "07_masks.ipynb"
CELLS = (  # what stands in each cell that is run, in the order of the chapter
    *("# data: known and unseen", "class Writer(", "# training: learn", "# scoring: score", "def past("),
    *("def zero_after(", "# prefixes: ", "def real(", ".masked_fill(~mask, 0.0)  # new", "def reach("),
)
SEEDS = [0, 1, 2]
HARDWARE = "one thread on a core of an AMD EPYC (CPU)"


def sources():
    """The chapter's cells, by what stands in them."""
    cells = [cell.source for cell in nbformat.read(CHAPTER, 4).cells if cell.cell_type == "code"]
    return {mark: next(source for source in cells if mark in source) for mark in CELLS}


def digest():
    """Of all cells together; another one if a letter has changed."""
    return hashlib.sha256("\n".join(sources().values()).encode()).hexdigest()[:12]


def chapter():
    """The names that the cells define."""
    names = {}
    for source in sources().values():
        exec(source, names)
    return names


def measure(names, weigh, seed):
    """Train one writer, and look at what it says and writes. Returns it, too."""
    model = names["learn"](weigh, seed)
    with names["torch"].no_grad():
        loss = names["loss"](model, names["held_out"]).item()
    right, lines = names["score"](model)
    return model, {"loss": round(loss, 3), "right": round(right, 3), "lines": round(lines, 3)}


def go_on(names, model):
    """How many prefixes become numbers, in three ways."""
    hide, past, real = (names[name] for name in ("hide", "past", "real"))
    found = {"alone": names["one_by_one"](model), "padded": names["finished"](model)}
    model.weigh = lambda scores, ids: hide(scores, past(ids) & real(ids))
    return {way: round(share, 3) for way, share in {**found, "hidden": names["finished"](model)}.items()}


def main():
    """Make all runs, and store them."""
    runs, names = [], chapter()
    healthy = lambda scores, ids: names["hide"](scores, names["past"](ids))  # noqa: E731
    for seed in SEEDS:
        for name, weigh in {"none": healthy, **names["bugs"]}.items():
            model, found = measure(names, weigh, seed)
            more = go_on(names, model) if name == "none" else {}
            runs.append({"name": name, "seed": seed, **found, **more})
            print(runs[-1], flush=True)
    log = {
        "about": "made by leaks.py, whose first lines say how to read it",
        "cells": digest(),
        "seeds": SEEDS,
        "versions": {"python": platform.python_version(), "torch": version("torch").split("+")[0]},
        "hardware": HARDWARE,
        "runs": runs,
    }
    LOG.write_text(f"{json.dumps(log, indent=1, ensure_ascii=False)}\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
