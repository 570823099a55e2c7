"""Which planted bugs does the curve of the training loss show, and which does it miss? Written to bugs.json.

    python assets/12_training/bugs.py                        make the runs that the log lacks; the table
    python assets/12_training/bugs.py --only "no residual"   make the run of this bug again

tests/mutants.toml lists bugs: one change each, in one place of the library. For each bug in a module that a
training goes through, a small Transformer learns to reverse letters with a library that has this bug. All
else is as it should be. The run does what a long one does: batches by tokens, steps in two micro-batches,
smoothing, warm-up, clipping, checkpoints, validation, the average of the last weights. Once it is cut off,
and goes on from its checkpoint. In the end the model writes, greedily and by beam. (Linux or macOS; on a
quiet core some minutes for every ten bugs.)

- `healthy`: the library as it is, one run a seed
- `bugs`: what the table says (`at`, `why`, `old`, `new`, `test`), and the run with seed 0
- `curve`: the training loss in twelve pieces of the run, the mean of each; `final`: that of the last tenth;
  both as the training's own log says, for that is what a reader would look at
- `validation`: the loss on the held-out sequences without smoothing, by the library's own function
- `greedy`, `beam`: the share of held-out sequences reversed exactly
- `used`: which weights the training chose in the end; `error`: the last line, if it stopped with one
- `digest`: of all losses, validations and answers to the last digit; `differs`: whether it is another one
  than that of the healthy run. If not, the bug leaves no trace in such a run
- `verdict`, `answers_show_it`: by the functions of these names
- `seconds`: of the processor
"""

import argparse
import contextlib
import hashlib
import io
import json
import platform
import random
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import version
from itertools import count, pairwise, product
from multiprocessing import get_context
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
from mutants import LIBRARY, planted, table

LOG = Path(__file__).with_suffix(".json")
MODULES = (
    *("scores.", "attention.", "position.", "layers.", "transformer.", "speed.", "loss."),
    *("schedule.", "data.batch.", "data.tokens.", "checkpoint.", "engine.", "decode."),
)
SETTINGS = {
    "letters": 6,
    "lengths": [3, 7],
    "n_train": 2000,
    "n_held_out": 200,
    "model": {"n_layers": 2, "d_model": 32, "d_ff": 64, "n_heads": 4, "dropout": 0.1},
    "tokens": 2000,
    "updates": 300,
    "lr": 3e-2,
    "warmup": 0.2,
    "smoothing": 0.1,
    "micro_batches": 2,
    "every": 25,
    "keep": 3,
    "cut_off_after": 130,
    "width": 4,
    "seeds": [0, 1, 2, 3, 4],
    "precision": "fp32",
}
HARDWARE = "one thread on a core of an AMD EPYC (CPU); other work ran beside it: seconds are upper bounds"
SECONDS = 600  # of the processor; a run that takes more is stopped
VERDICTS = ("stops with an error", "shows it", "looks better than healthy", "misses it")


# --- What a run says ----------------------------------------------------------------------------------------


def verdict(run, healthy):
    """What the training loss alone says of a run. The rule is older than the first run with a bug.

    'stops with an error': while it trains or while it writes, and no curve is needed.
    'shows it': the final loss is clearly above those of the healthy runs, or three of the twelve points are.
    'looks better than healthy': it is clearly below them, or three points are: a bug that readers celebrate.
    'misses it': all else. Clearly is what `side` says; the final loss counts more than the points.

    run: with its curve, its final loss and its error, None if there was none
    healthy: the same of the healthy runs
    """
    if run["error"]:
        return "stops with an error"
    points = zip(run["curve"], *(other["curve"] for other in healthy), strict=True)
    sides = [side(x, others) for x, *others in points]
    final = side(run["final"], [other["final"] for other in healthy])
    seen = final or next((which for which in (1, -1) if sides.count(which) >= 3), 0)
    return {1: "shows it", -1: "looks better than healthy", 0: "misses it"}[seen]


def side(x, healthy):
    """Where x lies: 1 clearly above the healthy numbers, -1 clearly below them, 0 neither.

    Clearly outside is outside of their range widened at both ends, by half of its width and at least by 5 %
    of its middle.
    """
    low, high = min(healthy), max(healthy)
    margin = max((high - low) / 2, 0.05 * (high + low) / 2)
    return -1 if x < low - margin else 0 if x <= high + margin else 1


def answers_show_it(run, healthy):
    """Whether the held-out answers, greedy or by beam, are clearly worse than those of the healthy runs.

    Returns None for a run that has not come to its answers.
    """
    if run["error"]:
        return None
    return any(side(run[how], [other[how] for other in healthy]) < 0 for how in ("greedy", "beam"))


# --- One run ------------------------------------------------------------------------------------------------


def sequences():
    """Pairs (letters, the same reversed) as lists of ids, no two alike: to learn from, and held out."""
    from heed.text import BOS, EOS, UNK

    rng, found = random.Random(0), {}
    while len(found) < SETTINGS["n_train"] + SETTINGS["n_held_out"]:
        n = rng.randint(*SETTINGS["lengths"])
        found[tuple(UNK + 1 + rng.randrange(SETTINGS["letters"]) for _ in range(n))] = True
    pairs = [([*ids], [BOS, *ids[::-1], EOS]) for ids in found]
    return pairs[SETTINGS["n_held_out"] :], pairs[: SETTINGS["n_held_out"]]


def new_model(seed):
    """An untrained model: the quick dropout, but the plain layer norm, so that bugs of both take part."""
    import torch

    from heed.speed import ByteDropout
    from heed.text import UNK
    from heed.transformer import make_model, tie

    torch.manual_seed(seed)
    vocab = UNK + 1 + SETTINGS["letters"]
    model = tie(make_model(vocab, vocab, **SETTINGS["model"]))
    for module in model.modules():
        if type(module) is torch.nn.Dropout:
            module.__class__ = ByteDropout
    return model


class CutOff(Exception):
    """Something from outside has ended the training."""


def measure(seed, folder):
    """Train in this folder, with one cut; then write. Returns what the log keeps, but for the losses."""
    import torch

    from heed.data import TokenBatches, pad, pad_batch
    from heed.decode import beam, greedy
    from heed.engine import fit
    from heed.loss import translation_loss

    learned, held_out = sequences()
    held, calls = pad_batch(held_out), count()
    options = {name: SETTINGS[name] for name in ("updates", "lr", "warmup", "micro_batches", "every", "keep")}
    options |= {"precision": SETTINGS["precision"], "device": "cpu", "log_every": 5, "seed": seed}

    def loss(model, batch):
        if next(calls) == SETTINGS["cut_off_after"] * SETTINGS["micro_batches"]:
            raise CutOff
        return translation_loss(model, batch, SETTINGS["smoothing"])

    def validate(model):
        return translation_loss(model, held, 0.0).item() / held.n_tokens

    def train():
        model, batches = new_model(seed), TokenBatches(learned, SETTINGS["tokens"], seed)
        return model, fit(model, batches, loss, folder, validate=validate, **options)

    torch.set_num_threads(1)
    try:
        model, result = train()
    except CutOff:
        model, result = train()
    source, wanted = pad([source for source, _ in held_out]), [target[1:-1] for _, target in held_out]
    answers = [greedy(model, source), beam(model, source, SETTINGS["width"])]
    greedily, by_beam = (sum(map(list.__eq__, said, wanted)) / len(wanted) for said in answers)
    whole = json.dumps([logged(folder, "loss"), logged(folder, "validation"), answers])
    return {
        "validation": round(result.value, 4),
        "greedy": greedily,
        "beam": by_beam,
        "used": result.used,
        "digest": hashlib.sha256(whole.encode()).hexdigest()[:12],
    }


def logged(folder, key):
    """What stands under this key in the log of a training, in order."""
    path = folder / "log.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [line[key] for line in map(json.loads, lines) if key in line]


def pieces(numbers, n):
    """The means of n pieces of a list, as equal as can be; none if there are too few numbers."""
    cuts = [len(numbers) * i // n for i in range(n + 1)] if len(numbers) >= n else [0]
    return [round(sum(numbers[i:j]) / (j - i), 4) for i, j in pairwise(cuts)]


def alone(seed, library, folder):
    """In a process of its own: import the library from this folder, and say what becomes of a run."""
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    sys.path.insert(0, str(library))
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            said = {"error": None, **measure(seed, folder)}
        except Exception as error:
            lines = str(error).replace(str(folder), "…").strip().splitlines()
            said = {"error": f"{type(error).__name__}: {lines[-1].strip() if lines else ''}"}
    ours = Path(sys.modules["heed"].__file__)
    if not ours.is_relative_to(library):
        raise RuntimeError(f"{ours} has run, and not the copy in {library}")
    return said | {"seconds": round(time.process_time(), 1)}


def run(seed, library):
    """One run in a process of its own. Returns what the log keeps."""
    processes = get_context("forkserver")  # one process imports torch, once, and all others begin as its copy
    processes.set_forkserver_preload(["torch._dynamo"])
    folder = Path(tempfile.mkdtemp(dir=library.parent))
    try:
        with ProcessPoolExecutor(1, mp_context=processes) as one:
            said = one.submit(alone, seed, library, folder).result()
    except BrokenProcessPool:
        said = {"error": f"stopped after {SECONDS} seconds", "seconds": SECONDS}
    losses = logged(folder, "loss")
    curve, tenths = pieces(losses, 12), pieces(losses, 10)
    shutil.rmtree(folder)
    return {"curve": curve, "final": tenths[-1] if tenths else None, **said}


# --- The log ------------------------------------------------------------------------------------------------


def taking_part():
    """The bugs of the table that stand in modules that such a run goes through."""
    return [bug for bug in table() if bug["at"].startswith(MODULES)]


def change(bug):
    """What makes a bug this one, whatever test finds it."""
    return tuple(bug.get(key) for key in ("at", "why", "old", "new"))


def fresh():
    """A log without runs."""
    return {
        "about": "made by bugs.py, whose first lines say how to read it",
        "settings": SETTINGS,
        "versions": {"python": platform.python_version(), "torch": version("torch").split("+")[0]},
        "hardware": HARDWARE,
        "healthy": [],
        "bugs": [],
    }


def judged(run, healthy):
    """What one sees of a run with a bug, beside the healthy runs."""
    return {
        "differs": run.get("digest") != healthy[0]["digest"],
        "verdict": verdict(run, healthy),
        "answers_show_it": answers_show_it(run, healthy),
    }


def main(only=None):
    """Make the runs that the log lacks, and that of the bug `only` again. Each is stored when it is made.

    All are of one processor and one library, or what leaves no trace would seem to differ: a healthy run
    is made first, and if it is not the one in the log, the log begins anew.
    """
    bugs = taking_part()
    if only and only not in [bug["why"] for bug in bugs]:
        raise SystemExit(f"These modules have no bug {only!r}.")
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else fresh()
    log = log if log["settings"] == SETTINGS else fresh()
    made = {change(run): run for run in log["bugs"] if run["why"] != only}

    def store():
        found = [made[change(bug)] | bug for bug in bugs if change(bug) in made]
        log["bugs"] = [bug | judged(bug, log["healthy"]) for bug in found]
        text = json.dumps(log, indent=1, ensure_ascii=False)
        LOG.write_text(f"{text}\n", encoding="utf-8", newline="\n")

    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder).resolve() / "lib"
        shutil.copytree(LIBRARY, library / "heed", ignore=shutil.ignore_patterns("__pycache__"))
        planned = [(bug, *planted(bug, library / "heed")) for bug in bugs]
        if log["healthy"] and {*map(change, bugs)} - made.keys():
            if run(SETTINGS["seeds"][0], library).get("digest") != log["healthy"][0]["digest"]:
                print("Here a healthy run ends otherwise: all runs are made again.", flush=True)
                log, made = fresh(), {}
        for seed in SETTINGS["seeds"][len(log["healthy"]) :]:
            log["healthy"].append({"seed": seed, **run(seed, library)})
            store()
            print(seed, log["healthy"][-1], flush=True)
        for bug, file, text in planned:
            if change(bug) not in made:
                path = library / "heed" / file
                whole = path.read_text(encoding="utf-8")
                path.write_text(text, encoding="utf-8")
                made[change(bug)] = bug | run(SETTINGS["seeds"][0], library)
                path.write_text(whole, encoding="utf-8")
                store()
                print(f"{len(made)} of {len(bugs)}", bug["why"], flush=True)
    store()
    print(*rows(log), sep="\n")


def rows(log):
    """The table, line by line: by what the curve says, and then by what the answers say."""
    order = {(what, seen): i for i, (what, seen) in enumerate(product(VERDICTS, (None, True, False)))}
    yield f"{'the curve':24} {'answers':8} {'final':>6} {'valid':>6} {'greedy':>6} {'beam':>6}  the bug"
    for seed in log["healthy"]:
        yield line("healthy", "", seed, f"seed {seed['seed']}")
    for bug in sorted(log["bugs"], key=lambda bug: order[bug["verdict"], bug["answers_show_it"]]):
        answers = {None: "", True: "show it", False: "miss it" if bug["differs"] else "as ever"}
        yield line(bug["verdict"], answers[bug["answers_show_it"]], bug, f"{bug['at']}: {bug['why']}")
    for what in VERDICTS:
        here = [bug for bug in log["bugs"] if bug["verdict"] == what]
        traces = sum(not bug["differs"] for bug in here)
        shown = sum(bool(bug["answers_show_it"]) for bug in here)
        yield f"{what}: {len(here)}; {shown} of them are seen in the answers, {traces} leave no trace at all"
    yield f"runs still to be made: {len(taking_part()) - len(log['bugs'])}"


def line(what, answers, run, name):
    """One line of the table."""
    numbers = [run["final"], *(run.get(key) for key in ("validation", "greedy", "beam"))]
    columns = " ".join(f"{'' if x is None else f'{x:.3f}':>6}" for x in numbers)
    return f"{what:24} {answers:8} {columns}  {name}" + (f"  [{run['error']}]" if run["error"] else "")


if __name__ == "__main__":
    words = argparse.ArgumentParser(description="Train with each planted bug; which does the loss show?")
    words.add_argument("--only", metavar="WHY", help="make the run of this bug again")
    main(words.parse_args().only)
