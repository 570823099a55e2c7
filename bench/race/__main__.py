"""The race: after so many minutes, who translates better?

    python -m bench.race all               # one contestant after the other, ten minutes each; then the table
    python -m bench.race all --together    # at the same time, each on two cores of its own
    python -m bench.race search            # the search of the learning rates, by updates

Single steps: run, launch, score, gather, figure.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from datetime import date
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path

import torch

from bench.__main__ import machine
from bench.race import score as scoring
from bench.race.clock import PARTS, Clock
from bench.race.contestants import CONTESTANTS, guessing
from bench.race.data import read
from heed.engine import choose_precision
from heed.recipe import encoded

HERE = Path(__file__).parents[2]
ASSETS = HERE / "assets" / "14_a_real_translator"
SEARCHED, RACED = ASSETS / "race-search.json", ASSETS / "race.json"
RECURRENT = ("recurrent-muon", "recurrent-adamw")
PACKAGES = ("torch", "transformers", "accelerate", "joeynmt")


def write(file, what):
    """A log, as all are written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(what, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


def there(names):
    """Those of the contestants that can take part here; of the others it is said why they cannot."""
    able = []
    for name in names:
        missing = CONTESTANTS[name].missing
        if missing:
            print(f"{name} does not take part: {', '.join(missing)} is not installed.", flush=True)
        else:
            able.append(name)
    return able


def versions():
    """What computes, in which version; what is not installed is left out."""
    found = {"python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


# --- The search ---------------------------------------------------------------------------------------------


def trial(name, rate, updates, data, device="cpu", seed=0):
    """The held-out loss after so many updates, and the seconds that they took."""
    torch.set_num_threads(1)
    contestant, worst = CONTESTANTS[name], guessing(len(data.subwords))
    model = contestant.build(len(data.subwords), data.model, seed).to(device)
    clock = Clock(None, updates=updates)
    try:
        contestant.train(model, data, clock, rate, seed)
    except ValueError as error:  # the loss is no longer a finite number
        print(f"{name}, rate {rate:g}: {error}", flush=True)
        return worst, clock.seconds
    held_out = encoded(data.held_out, data.subwords)
    loss = scoring.held_out_loss(contestant, model.eval(), held_out, data.tokens)
    return (round(loss, 4) if loss < worst else worst), clock.seconds


def best(found):
    """The rate of the lowest held-out loss. found: rate as a word -> loss."""
    return float(min(found, key=found.get))


def wanted(name, found):
    """The rates that are still to be tried: the contestant's own; then, up to twice, one beyond an edge."""
    rates = CONTESTANTS[name].rates
    todo = [rate for rate in rates if f"{rate:g}" not in found]
    if todo or len(found) >= len(rates) + 2:
        return todo
    tried = sorted(map(float, found))
    beyond = {tried[0]: tried[0] / 2, tried[-1]: 2 * tried[-1]}
    return [beyond[best(found)]] if best(found) in beyond else []


def told(connection, work, given):
    """In a process of its own: what the work returns goes through the connection."""
    with open(os.devnull, "w", encoding="utf-8") as sys.stdout:
        connection.send(work(*given))


def side_by_side(jobs, work, at_a_time, until):
    """Do jobs in processes of their own. Yields (job, what came of it), None for one that failed.

    jobs: tuples of arguments; a list, to which the caller may append while this goes on
    until: time.monotonic() after which no more is waited for
    """
    context, running = get_context("fork" if hasattr(os, "fork") else "spawn"), []
    while (jobs or running) and time.monotonic() < until:
        while jobs and len(running) < at_a_time:
            job, (mine, theirs) = jobs.pop(0), context.Pipe(duplex=False)
            process = context.Process(target=told, args=(theirs, work, job))
            process.start()
            theirs.close()
            running.append((job, mine, process))
        for entry in list(running):
            job, mine, process = entry
            if mine.poll(0.05):
                try:
                    came = mine.recv()
                except EOFError:
                    came = None
                process.join()
                running.remove(entry)
                yield job, came
    for _, _, process in running:
        process.kill()


def do_search(words):
    """Try the rates, all contestants' first ones first. What the log has is not tried again."""
    updates = words.updates or 200
    log = {"what": "", "updates": updates, "seed": 0, "held-out loss": {}}
    if words.log.is_file():
        log = json.loads(words.log.read_text(encoding="utf-8"))
        if log["updates"] != updates:
            raise ValueError(f"{words.log} holds a search of {log['updates']} updates.")
    log["what"] = "Highest learning rate of each contestant -> held-out loss after so many updates"
    log |= {"versions": versions(), "date": date.today().isoformat()}
    data, until = read(words.folder, words.pairs), time.monotonic() + words.seconds
    found, names = log["held-out loss"], there(words.names or CONTESTANTS)
    todo = {name: wanted(name, found.setdefault(name, {})) for name in names}
    ranks = range(max(map(len, todo.values()), default=0))
    jobs = [(name, todo[name][k]) for k in ranks for name in names if k < len(todo[name])]
    asked = set(jobs)
    jobs = [(name, rate, updates, data, words.device) for name, rate in jobs]
    for (name, rate, *_), came in side_by_side(jobs, trial, words.processes or 1, until):
        if came is None:
            print(f"{name}, rate {rate:g}: failed", flush=True)
            continue
        found[name][f"{rate:g}"], seconds = came
        print(f"{name}, rate {rate:g}: {came[0]:.3f}, {seconds:.0f} s", flush=True)
        write(words.log, log)
        more = [rate for rate in wanted(name, found[name]) if (name, rate) not in asked]
        asked |= {(name, rate) for rate in more}
        jobs += [(name, rate, updates, data, words.device) for rate in more]
    log["device"] = device_in_words(words.device)  # not before: no process can be forked from one with a GPU
    log["held-out loss"] = {
        name: dict(sorted(of.items(), key=lambda pair: float(pair[0]))) for name, of in found.items() if of
    }
    write(words.log, log)


def device_in_words(device):
    """What computes."""
    return torch.cuda.get_device_name() if torch.device(device).type == "cuda" else machine()


def rate_of(name, file):
    """The best rate that the search has found; the first of the contestant's own where it has found none."""
    found = json.loads(file.read_text(encoding="utf-8"))["held-out loss"] if file.is_file() else {}
    return best(found[name]) if found.get(name) else CONTESTANTS[name].rates[0]


# --- The race -----------------------------------------------------------------------------------------------


def do_run(words):
    """One contestant, in this process."""
    torch.set_num_threads(words.threads)
    [name] = words.names
    contestant, rate = CONTESTANTS[name], words.rate or rate_of(name, words.log)
    folder = words.folder / f"{name}-{words.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "log.jsonl").exists():
        raise ValueError(f"{folder} holds a run already.")
    data, device = read(words.folder, words.pairs), torch.device(words.device)
    sizes = data.model if words.dropout is None else data.model | {"dropout": words.dropout}
    model = contestant.build(len(data.subwords), sizes, words.seed).to(device)
    clock = Clock(folder, None if words.updates else words.minutes, words.updates)
    clock.say(
        name=name, seed=words.seed, rate=rate, dropout=sizes["dropout"], minutes=clock.minutes,
        parts=clock.parts, device=device_in_words(device), threads=words.threads,
        precision=choose_precision(device), versions=versions(),
        parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
        date=date.today().isoformat(),
    )  # fmt: skip
    contestant.train(model, data, clock, rate, words.seed)
    print(f"{name}: {clock.updates} updates, {clock.tokens} tokens, {clock.seconds:.1f} s", flush=True)


def cores_of(text):
    """ "0-3,6" -> [0, 1, 2, 3, 6]."""
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def command(words, name):
    """What runs one contestant."""
    more = ["--rate", str(words.rate)] if words.rate else []
    more += ["--pairs", str(words.pairs)] if words.pairs else []
    return [
        sys.executable, "-m", "bench.race", "run", name, "--folder", str(words.folder),
        "--seed", str(words.seed), "--minutes", str(words.minutes), "--threads", str(words.threads),
        "--log", str(words.log), *more,
    ]  # fmt: skip


def start(words, name, cores=None):
    """A process of its own, in a session of its own, on some cores. Its words go to NAME-SEED.txt."""
    words.folder.mkdir(parents=True, exist_ok=True)
    surroundings = {**os.environ, "OMP_NUM_THREADS": str(words.threads), "CUDA_VISIBLE_DEVICES": ""}
    surroundings |= {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}

    def place():
        os.sched_setaffinity(0, cores)

    with (words.folder / f"{name}-{words.seed}.txt").open("w", encoding="utf-8") as said:
        return subprocess.Popen(
            command(words, name), cwd=HERE, env=surroundings, stdin=subprocess.DEVNULL, stdout=said,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=place if cores else None,
        )  # fmt: skip


def contenders(words):
    """Who takes part: those that are named; else all, of the recurrent ones the better."""
    if words.names:
        return there(words.names)
    log = json.loads(words.log.read_text(encoding="utf-8"))["held-out loss"] if words.log.is_file() else {}
    lesser = max(RECURRENT, key=lambda name: min(log.get(name, {"": math.inf}).values()))
    return there(name for name in CONTESTANTS if name != lesser)


def do_launch(words):
    """All at the same time, each on cores of its own. Returns the processes, and does not wait."""
    read(words.folder, words.pairs)  # the sub-words are learnt once
    cores, started = cores_of(words.cores) if words.cores else sorted(os.sched_getaffinity(0)), []
    names = contenders(words)
    if len(cores) < words.threads * len(names):
        raise ValueError(
            f"{len(names)} contestants of {words.threads} threads: more than {len(cores)} cores."
        )
    for i, name in enumerate(names):
        own = cores[i * words.threads : (i + 1) * words.threads]
        started.append((name, start(words, name, own)))
        print(f"{name}: process {started[-1][1].pid}, cores {own}", flush=True)
    return started


def awaited(name, process, folder, seed):
    """Wait for a contestant; if it failed, say what it said last."""
    if process.wait():
        said = (folder / f"{name}-{seed}.txt").read_text(encoding="utf-8").splitlines()
        print(f"{name} has failed: {' '.join(said[-3:])}", flush=True)


def do_all(words):
    """Everything: the trainings that are not there, the scores, the log, the table, the figure."""
    for seed in words.seeds:
        words.seed = seed
        if words.together:
            for name, process in do_launch(words):
                awaited(name, process, words.folder, seed)
            continue
        read(words.folder, words.pairs)
        for name in contenders(words):
            if (words.folder / f"{name}-{seed}" / f"{PARTS:02}.pt").is_file():
                continue
            print(f"{name}, seed {seed}: {words.minutes:g} minutes", flush=True)
            awaited(name, start(words, name), words.folder, seed)
    do_score(words)
    do_gather(words)
    do_figure(words)


# --- What it was worth --------------------------------------------------------------------------------------


def do_score(words):
    began = time.monotonic()
    watch = words.seconds if words.watch else None
    scoring.score_all(
        words.folder, words.captions, words.processes, words.parts, words.device, watch, words.pairs
    )
    print(f"Scored in {time.monotonic() - began:.0f} s.", flush=True)


def do_gather(words):
    """The runs of this folder, added to those that the log has."""
    old = json.loads(words.to.read_text(encoding="utf-8"))["runs"] if words.to.is_file() else []
    new = scoring.gathered(words.folder)
    mine, order = {(run["name"], run["seed"]) for run in new}, list(CONTESTANTS)
    runs = new + [run for run in old if (run["name"], run["seed"]) not in mine]
    log = {
        "task": "Multi30k, German to English",
        "loss": "cross-entropy per sub-word of the held-out captions, without smoothing",
        "bleu": "of greedy translations of the held-out captions; test: of the test captions",
        "runs": sorted(runs, key=lambda run: (order.index(run["name"]), run["seed"])),
    }
    write(words.to, log)


def do_figure(words):
    from bench.race.figure import draw, table

    log = json.loads(words.to.read_text(encoding="utf-8"))
    print(*table(log), sep="\n")
    draw(log, words.to.with_suffix(".png"))


COMMANDS = {
    "all": do_all, "run": do_run, "launch": do_launch, "search": do_search, "score": do_score,
    "gather": do_gather, "figure": do_figure,
}  # fmt: skip


def main(words=None):
    """Do what is asked for. Returns the status for the system."""
    parser = argparse.ArgumentParser("python -m bench.race", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CONTESTANTS)}; else all")
    parser.add_argument("--folder", type=Path, default=Path("runs", "race"), help="where the trainings lie")
    parser.add_argument("--log", type=Path, default=SEARCHED, help="the search's log")
    parser.add_argument("--to", type=Path, default=Path("runs", "race", "race.json"), help="the race's log")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of a run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of `all`")
    parser.add_argument("--rate", type=float, help="the learning rate; else the search's best")
    parser.add_argument("--dropout", type=float, help="of a run; else the recipe's")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, help="fewer pairs to train with, to try things out")
    parser.add_argument("--updates", type=int, help="of a run, in place of minutes; of each trial, else 200")
    parser.add_argument("--together", action="store_true", help="all at once, each on cores of its own")
    parser.add_argument("--cores", help="such as 0-13; else all")
    parser.add_argument("--captions", type=int, default=1014, help="held-out captions to translate")
    parser.add_argument("--parts", type=int, nargs="+", help="of each run, to score; else all")
    parser.add_argument("--processes", type=int, help="that score, else one a core; that search, else one")
    parser.add_argument("--device", default="cpu", help="that computes; `all` and `launch` race on CPUs")
    parser.add_argument("--watch", action="store_true", help="score while the race goes on")
    parser.add_argument("--seconds", type=float, default=math.inf, help="of the search, or the watch")
    words = parser.parse_args(words)
    for name in words.names:
        if name not in CONTESTANTS:
            parser.error(f"{name} is none of {', '.join(CONTESTANTS)}.")
    try:
        COMMANDS[words.command](words)
    except ValueError as error:
        print(f"race: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
