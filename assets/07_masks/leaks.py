"""What a small writer of names makes of six planted bugs, with three seeds. Written to leaks.json.

    python assets/07_masks/leaks.py

It runs the chapter's own cells, with another number where the seed stands. (A few minutes.)

- `cells`: a digest of these cells; another one says that the log is older than the chapter
- `runs`: one for each bug and each seed; "none" is the repaired model
- `train`: mean of the loss per token in the last twenty updates
- `loss`, `right`: on the unseen names, the loss per token and the share of next letters that come out right
- `familiar`: the share of trigrams in 200 written texts that occur in a training name
- `repeated`: the share of letters in these texts that equal the letter before
- `empty`: the share of texts without a letter
"""

import hashlib
import json
import platform
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import nbformat

LOG = Path(__file__).with_suffix(".json")
CHAPTER = LOG.parents[2] / "chapters" / "07_masks.ipynb"
CELLS = (  # what stands in each cell that is run, in the order of the chapter
    *("from itertools import", "def names_of(", "class Writer(", "def real_letters("),
    *("def runs_of(", "def on_unseen(", "def write(", "def familiar("),
    *("# lib/heed/attention.py\ndef causal_mask(", "def zero_after(", "def past_letters("),
    "def with_weights(",
)
SEEDS = [0, 1, 2]
HARDWARE = "one thread on a core of an AMD EPYC (CPU)"
CUTS = {  # where a cell goes on to train, draw or print, it is cut off
    "def real_letters(": "writer, losses",
    "def runs_of(": "ax = curves",
    "def names_of(": "print(",
    "def on_unseen(": "print(",
    "def familiar(": "nonsense =",
    "def zero_after(": "second, may",
    "def past_letters(": "causal, causal_losses",
}


def sources():
    """The chapter's cells, by what stands in them, without what trains or draws."""
    cells = [cell.source for cell in nbformat.read(CHAPTER, 4).cells if cell.cell_type == "code"]
    found = {mark: next(source for source in cells if mark in source) for mark in CELLS}
    for mark, end in CUTS.items():
        found[mark] = found[mark].split(end)[0]
    return found


def digest():
    """Of all cells together; another one if a letter has changed."""
    return hashlib.sha256("\n".join(sources().values()).encode()).hexdigest()[:12]


def chapter(seed):
    """The names that the cells define, with this seed in the place of 2."""
    names = {}
    for source in sources().values():
        source = source.replace("manual_seed(2)", f"manual_seed({seed})")
        exec(source.replace("seed=2", f"seed={seed}"), names)
    return names


def measure(names, bug):
    """Train one writer, and look at what it says and writes."""
    model, losses = names["trained"](*bug)
    loss, right = names["on_unseen"](model)
    texts = names["write"](model, 200)
    pairs = [pair for text in texts for pair in pairwise(text)]
    return {
        "train": round(sum(losses[-20:]) / 20, 3),
        "loss": round(loss, 3),
        "right": round(right, 3),
        "familiar": round(names["familiar"](texts), 3),
        "repeated": round(sum(a == b for a, b in pairs) / max(1, len(pairs)), 3),
        "empty": sum(not text for text in texts) / len(texts),
    }


def main():
    """Make all runs, and store them."""
    runs = []
    for seed in SEEDS:
        names = chapter(seed)
        for name, bug in {"none": (names["past_letters"],), **names["bugs"]}.items():
            runs.append({"name": name, "seed": seed, **measure(names, bug)})
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
