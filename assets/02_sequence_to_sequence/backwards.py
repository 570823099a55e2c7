"""The plain runs of lengths.py with every source reversed, "c b a" for "a b c". Written to backwards.json.

    python assets/02_sequence_to_sequence/backwards.py

Task, network, 600 updates, batches and measurements are those of lengths.py, whose functions this script
calls: a state of 128 numbers, three seeds. A run that stands in the log already is not made again.

- `seed`: which run; all other keys are explained in lengths.py
"""

import importlib.util
import json
import platform
from pathlib import Path

import torch

LOG = Path(__file__).with_suffix(".json")
SEEDS = (0, 1, 2)
HARDWARE = "one thread on a core of an AMD EPYC (CPU); other work ran beside it: seconds are upper bounds"


def lengths():
    """The script lengths.py as a module whose sources are reversed."""
    spec = importlib.util.spec_from_file_location("lengths", Path(__file__).with_name("lengths.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    forwards = module.encoded
    module.encoded = lambda *task: [(source[::-1], target) for source, target in forwards(*task)]
    return module


def fresh():
    """A log without runs."""
    return {
        "about": "made by backwards.py, whose first lines say how to read it",
        "settings": lengths().SETTINGS,
        "versions": {"python": platform.python_version(), "torch": torch.__version__.split("+")[0]},
        "hardware": HARDWARE,
        "runs": [],
    }


def main():
    """Make the runs that the log does not have yet."""
    for seed in SEEDS:
        log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else fresh()
        if seed in [run["seed"] for run in log["runs"]]:
            continue
        log["runs"].append(lengths().measure(("plain", 128, 6, seed)))
        LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
        print(seed, log["runs"][-1]["by_digits"], log["runs"][-1]["by_place"], flush=True)


if __name__ == "__main__":
    main()
