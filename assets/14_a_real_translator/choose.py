"""How the ten-minute recipe was chosen on held-out captions, and what it gives with three seeds by the clock.

    HEED_DATA=... python assets/14_a_real_translator/choose.py --hardware "two cores of ..."

1. `search`: CHANGES of the recipe, one training each with seed 0, for as many updates as fit into a third of
   the ten minutes. (The seconds an update are given, from a run that had the machine to itself; so other work
   beside the search changes nothing.) The held-out loss is noted; the test captions are not read.
2. `clock`: the FINALISTS are trained for ten minutes by the clock with seed 0, on a machine without other
   work. The lower held-out loss decides; that one is trained by the clock with the other seeds.
3. `neighbours`: is anything near the chosen one better? NEIGHBOURS change one thing each, and get as many
   updates as fit into the same time, by the ratio of their steps. The held-out loss is that of a caption, for
   with another vocabulary a caption has another number of tokens.
4. `measure`: all weights that were trained by the clock translate the test captions, once.

What has been done is not done again; it lies in --work. It writes choose.json, which chapter 14 reads.
"""

import argparse
import json
import platform
import sys
from pathlib import Path

import torch

from heed import recipe
from heed.decode import beam, greedy, translations
from heed.evaluate import bleu
from heed.text import Subwords

HERE = Path(__file__).parent
RECIPE = HERE.parents[1] / "recipes" / "multi30k-10min.toml"
MINUTES = 10
BEFORE = {"training.lr": 0.004, "training.adamw_lr": 0.002, "model.n_layers": 3, "model.dropout": 0.1}
TWICE = BEFORE | {"training.lr": 0.008, "training.adamw_lr": 0.004}
CHANGES = {  # name: seconds an update, settings
    "as before": (0.543, BEFORE),
    "rates × 2": (0.543, TWICE),
    "rates × 4": (0.543, BEFORE | {"training.lr": 0.016, "training.adamw_lr": 0.008}),
    "rates × 2, no dropout": (0.494, TWICE | {"model.dropout": 0.0}),
    "rates × 2, 2 + 2 layers": (0.392, TWICE | {"model.n_layers": 2}),
}
FINALISTS = ("rates × 2, no dropout", "rates × 2, 2 + 2 layers")
SEEDS = (0, 1, 2)
CHOSEN = "rates × 2, 2 + 2 layers"
NEIGHBOURS = {  # name: updates, settings
    "as chosen": (440, {}),
    "3,000 sub-words": (512, {"data.vocabulary": 3000}),
    "4,000 sub-words": (500, {"data.vocabulary": 4000}),
    "8,000 sub-words": (390, {"data.vocabulary": 8000}),
    "batches of 2,400 tokens": (579, {"training.tokens": 2400}),
    "batches of 4,800 tokens": (305, {"training.tokens": 4800}),
    "d_ff 1,024": (367, {"model.d_ff": 1024}),
    "rates × 1.5": (440, {"training.lr": 0.012, "training.adamw_lr": 0.006}),
}


def train(folder, settings, updates=None, seed=0):
    """Train the changed recipe, for so many updates or else by the clock. Returns what the log keeps."""
    told = [f"{key}={value}" for key, value in settings.items()] + [f"training.seed={seed}"]
    counted = [f"training.updates={updates}", "training.every=60"] if updates else []
    made = recipe.read(RECIPE, told + counted)
    made["training"]["minutes"] = None if updates else MINUTES
    if not (folder / "log.jsonl").is_file() or "ended" not in last(folder):
        recipe.train(made, folder)
    end = last(folder)
    return {"updates": end["step"], "used": end["used"], "held-out loss": round(end["value"], 3)}


def last(folder):
    """The last line of a training's log."""
    return json.loads((folder / "log.jsonl").read_text(encoding="utf-8").splitlines()[-1])


def per_caption(folder, loss):
    """The held-out loss of a whole caption: that of a token, times the tokens of a caption."""
    made, subwords = recipe.read(folder / "recipe.toml"), Subwords.load(folder / "subwords.json")
    targets = [ids for _, ids in recipe.encoded(recipe.sentences(made, "val"), subwords)]
    return round(loss * sum(len(ids) - 1 for ids in targets) / len(targets), 2)


def neighbours(work):
    """name -> what the log keeps of each of NEIGHBOURS."""
    found = {}
    for name, (updates, settings) in NEIGHBOURS.items():
        folder = work / "neighbours" / name
        found[name] = {"settings": settings, **train(folder, CHANGES[CHOSEN][1] | settings, updates)}
        found[name]["held-out loss of a caption"] = per_caption(folder, last(folder)["value"])
        print("neighbours,", name, found[name], flush=True)
    return found


def measured(folder, pairs):
    """BLEU on the test captions, with its interval: greedy, and a beam of four."""
    translator = recipe.load_translator(folder, precision="fp32")
    sources, references = zip(*pairs, strict=True)
    found = {}
    for name, search in {"greedy": greedy, "beam of 4": beam}.items():
        said = translations(translator.model, translator.subwords, sources, search=search)
        score = bleu(said, references)
        found[name] = {"bleu": round(score.value, 2), "interval": [round(score.low, 2), round(score.high, 2)]}
    return found | {"signature": score.signature}


def main():
    words = argparse.ArgumentParser(description="Choose the recipe of ten minutes, and run it by the clock.")
    words.add_argument("--work", type=Path, default=Path("runs", "choose"), help="where the trainings lie")
    words.add_argument("--until", choices=("search", "neighbours", "clock", "measure"), default="measure")
    words.add_argument("--hardware", default="two cores", help="where the clock was run, in words")
    words.add_argument("--to", type=Path, default=HERE / "choose.json")
    words = words.parse_args()
    search = {}
    for name, (seconds, settings) in CHANGES.items():
        updates = int(60 * MINUTES / 3 / seconds)
        found = train(words.work / "search" / name, settings, updates)
        search[name] = {"settings": settings, "seconds an update": seconds, **found}
        print("search,", name, found, flush=True)
    if words.until == "search":
        return

    near = neighbours(words.work)
    if words.until == "neighbours":
        return

    def by_clock(name, seed):
        found = train(words.work / "clock" / f"{name}-{seed}", CHANGES[name][1], seed=seed)
        return {"seed": seed, **found}

    runs = {name: [by_clock(name, 0)] for name in FINALISTS}
    chosen = min(FINALISTS, key=lambda name: runs[name][0]["held-out loss"])
    runs[chosen] += [by_clock(chosen, seed) for seed in SEEDS[1:]]
    assert chosen == CHOSEN
    if words.until == "clock":
        return
    pairs = recipe.sentences(recipe.read(RECIPE), "test")
    for name, of in runs.items():
        for run in of:
            run |= measured(words.work / "clock" / f"{name}-{run['seed']}", pairs)
            print("clock,", name, run, flush=True)
    log = {
        "task": "Multi30k, German to English; chosen on the held-out captions, BLEU on test_2016_flickr",
        "hardware": words.hardware,
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "search": {"what": "a third of ten minutes, in updates, seed 0", "found": search},
        "neighbours": {"what": "each with one change of the chosen one, as much time, seed 0", "found": near},
        "clock": {"minutes": MINUTES, "chosen": chosen, "runs": runs},
    }
    words.to.write_text(json.dumps(log, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    sys.exit(main())
