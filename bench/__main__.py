"""How fast the course's translator trains and decodes, beside others and beside what the processor can do.

    python -m bench                    # all of it: some minutes, on a machine without other work
    python -m bench training --rounds 3

All figures are ratios of what was measured in the same run, by turns. Models are untrained, 3 + 3 layers of
width 256; the sentences are Multi30k's.
"""

import argparse
import datetime
import json
import platform
import sys
import time
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import torch

from bench.decoding import decoding
from bench.memory import memory
from bench.peers import has_ctranslate2, has_transformers
from bench.size import of_multi30k
from bench.training import training

GOALS = {
    "heed, Muon ÷ faster peer": 2,
    "heed, Muon ÷ classic loop": 20,
    "heed, Muon, share of the matrix rate": 0.45,
    "heed, workers ÷ generate, float32": 2,
    "heed, workers ÷ CTranslate2, float32, workers": 1,
}


def machine():
    """The processor in words, and how many threads compute."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads"


def versions():
    """What computed, and in which version."""
    there = ["torch"]
    there += ["transformers"] if has_transformers() else []
    there += ["ctranslate2"] if has_ctranslate2() else []
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in there}}


def table(results):
    """The ratios as lines of text: the median of the rounds, the lowest and highest, the goal."""
    if not results:
        yield "No ratios: what this would be compared with is not installed."
        return
    width = max(map(len, results))
    yield f"{'':{width}}  median     from       to     goal"
    for name, (value, low, high) in results.items():
        goal = GOALS.get(name, "")
        yield f"{name:{width}}  {value:6.2f}   {low:6.2f}   {high:6.2f}   {goal:>6}".rstrip()


def memory_table(results, log):
    """Mebibytes against lengths, and how fast they grow."""
    if not results:
        yield "Memory is not measured: this system does not tell how much a process has had at the most."
        return
    yield "MiB that one training step takes, sequence length " + ", ".join(map(str, log["length"]))
    for name, sizes in log["MiB"].items():
        row = "".join(f"{size:9,.1f}" for size in sizes)
        yield f"{name:9}{row}   grows with length to the {results[name]:.2f}"


def main(words=None):
    """Measure what is asked for, print the tables, write the log. Returns the status for the system."""
    parser = argparse.ArgumentParser("python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="training, decoding, memory; else all")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured; else 5")
    about = "where the log goes; else runs/bench.json"
    parser.add_argument("--to", type=Path, default=Path("runs", "bench.json"), metavar="FILE", help=about)
    words = parser.parse_args(words)
    parts = {"training": training, "decoding": decoding, "memory": memory}
    for part in words.parts:
        if part not in parts:
            parser.error(f"{part} is none of {', '.join(parts)}.")
    began = time.monotonic()
    try:
        size = replace(of_multi30k(), rounds=words.rounds)
        if not has_transformers():
            print("Hugging Face's transformers is not installed: measured without Marian and `generate`.")
        log = {"device": machine(), "versions": versions(), "date": datetime.date.today().isoformat()}
        print(log["device"], *(f"{name} {number}" for name, number in log["versions"].items()), sep=", ")
        for part in words.parts or parts:
            results, log[part] = parts[part](size)
            log[part]["results"] = results
            lines = memory_table(results, log[part]) if part == "memory" else table(results)
            print("", *lines, *filter(None, [log[part].get("how")]), sep="\n", flush=True)
    except ValueError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    words.to.parent.mkdir(parents=True, exist_ok=True)
    words.to.write_text(json.dumps(log, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
    print(f"\n{time.monotonic() - began:.0f} seconds; the numbers of every round are in {words.to}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
