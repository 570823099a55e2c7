"""Do the plain runs of lengths.py with 128 units do better at another learning rate? Written to rates.json.

    python assets/02_sequence_to_sequence/rates.py

Task, network, 600 updates, batches and measurements are those of lengths.py, whose functions this script
calls; the initial learning rate is half and twice that of lengths.py, three seeds each. A run that stands in
the log already is not made again.

- `rate`, `seed`: which run; all other keys are explained in lengths.py
"""

import importlib.util
import json
import platform
from pathlib import Path

import torch

LOG = Path(__file__).with_suffix(".json")
RUNS = [(rate, seed) for rate in (4e-3, 16e-3) for seed in range(3)]
HARDWARE = "one thread on a core of an AMD EPYC (CPU); other work ran beside it: seconds are upper bounds"


def lengths():
    """The script lengths.py as a module."""
    spec = importlib.util.spec_from_file_location("lengths", Path(__file__).with_name("lengths.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(rate, seed, d_hidden=128):
    """Train one plain model and count."""
    script = lengths()
    script.SETTINGS["rate"] = rate
    return {"rate": rate} | script.measure(("plain", d_hidden, 6, seed))


def fresh():
    """A log without runs."""
    return {
        "about": "made by rates.py, whose first lines say how to read it",
        "settings": {name: value for name, value in lengths().SETTINGS.items() if name != "rate"},
        "versions": {"python": platform.python_version(), "torch": torch.__version__.split("+")[0]},
        "hardware": HARDWARE,
        "runs": [],
    }


def main():
    """Make the runs that the log does not have yet."""
    for rate, seed in RUNS:
        log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else fresh()
        if (rate, seed) in [(run["rate"], run["seed"]) for run in log["runs"]]:
            continue
        log["runs"].append(measure(rate, seed))
        log["runs"].sort(key=lambda run: RUNS.index((run["rate"], run["seed"])))
        LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
        print(rate, seed, log["runs"][-1]["by_digits"], flush=True)


if __name__ == "__main__":
    main()
