"""Does exact match still fall with the length after more updates, or with a wider state?

    python assets/02_sequence_to_sequence/longer.py

writes longer.json beside this file. The task, the batches and the measurements are those of lengths.py,
whose functions this script calls: a state of 128 numbers after 2,400 updates instead of 600, and one of 256
after 600, three seeds each. (Two of the last are in lengths.json, too; rounding alone makes two such runs
differ by up to 0.02.) The learning rate starts at the same value for all of them and falls to zero over the
updates of the run. A run that stands in the log already is not made again.

- `d_hidden`, `n_steps`, `seed`: which run; all other keys are explained in lengths.py
"""

import importlib.util
import json
import platform
from pathlib import Path

import torch

LOG = Path(__file__).with_suffix(".json")
# (d_hidden, updates, seed)
RUNS = [(*size, seed) for size in ((128, 2400), (256, 600)) for seed in range(3)]
HARDWARE = "one thread on a core of an AMD EPYC (CPU); other work ran beside it: seconds are upper bounds"


def lengths():
    """The script lengths.py as a module."""
    spec = importlib.util.spec_from_file_location("lengths", Path(__file__).with_name("lengths.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(run):
    """Train one plain model and count."""
    d_hidden, n_steps, seed = run
    script = lengths()
    script.SETTINGS["n_steps"] = n_steps
    return {"n_steps": n_steps} | script.measure(("plain", d_hidden, 6, seed))


def fresh():
    """A log without runs."""
    settings = {name: value for name, value in lengths().SETTINGS.items() if name != "n_steps"}
    return {
        "about": "made by longer.py, whose first lines say how to read it",
        "settings": settings,
        "versions": {"python": platform.python_version(), "torch": torch.__version__.split("+")[0]},
        "hardware": HARDWARE,
        "runs": [],
    }


def name_of(run):
    """A run's place in RUNS."""
    return run["d_hidden"], run["n_steps"], run["seed"]


def main():
    """Make the runs that the log does not have yet."""
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else fresh()
    for run in RUNS:
        if run in map(name_of, log["runs"]):
            continue
        log["runs"].append(measure(run))
        log["runs"].sort(key=lambda run: RUNS.index(name_of(run)))
        LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
        print(*run, next(r["by_digits"] for r in log["runs"] if name_of(r) == run), flush=True)


if __name__ == "__main__":
    main()
