"""Lists of digits written backwards: rates, batches, smoothing, dropout. The runs of chapter 12.

    python training.py                    all parts; on one core some thirty minutes
    python training.py rates batches      these parts alone

writes training.json beside this file, line by line; lines that are there already are kept. Each line has
three seeds. A small Transformer (one layer on each side, d_model 32, d_ff 64, 4 heads, norm after sublayers,
no dropout) learns from 20,000 lists of three to twelve digits, short ones more often than long ones. If
nothing else is said it makes 400 updates of 32 lists with Adam (0.9, 0.98); the rate rises for 50 of them to
0.025 and then falls to zero.

- `right`: the share of 500 unseen lists that it writes backwards without a mistake
- `known`: the same of the lists that it has learned from, 500 of them at most
- `loss`: per token, the mean of the last ten updates; with smoothing, if the run has it
- `positions`: how many positions of sources and targets were computed, padding included; `padding`: its share
- `sure`, `digits`: with the true digits so far before it, the mean probability of the token that it holds
  most probable, and the share of these that are right; `sure_wrong`: the mean probability of those that are
  wrong; `gap`: the expected calibration error, by ten bins (Guo et al. 2017)
- `seconds`: of the processor, training alone

The parts:

    shift       the decoder reads the very tokens that it must say
    rates       norm and schedule: `constant`, `fall`: to zero, `rise`: then constant, `root`: the paper's,
                `line`: up and down
    variants    one change each of the constant rate, and of the warm-up
    batches     how the lists of an update are chosen, and in which parts they are computed
    tasks       writing backwards and copying, with 600 updates
    smoothing   by number of known lists, and epsilon; 56 lists an update, in parts
    dropout     300 known lists; a model twice as wide, norm before the sublayer, 1,600 updates up to 0.01;
                with dropout at all four places and without
"""

import json
import platform
import random
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import heed
from heed.data import pad_batch
from heed.decode import greedy
from heed.text import BOS, EOS, PAD
from heed.transformer import make_model

SEEDS = (0, 1, 2)
KNOWN, UNSEEN, SHORTEST, LONGEST, VOCAB = 20_000, 500, 3, 12, 14
UPDATES, WARMUP, PEAK, LISTS = 400, 50, 0.025, 32
HARDWARE = "1 core of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_suffix(".json")


# --- The lists ----------------------------------------------------------------------------------------------


def drawn(n, name):
    """n pairs: the ids of a list, and of the same backwards with BOS and EOS. The name decides which."""
    rng, pairs = random.Random(name), []
    for _ in range(n):
        digits = rng.choices(range(4, VOCAB), k=SHORTEST + int((LONGEST - SHORTEST + 1) * rng.random() ** 2))
        pairs.append((digits, [BOS, *digits[::-1], EOS]))
    return pairs


def known_and_unseen():
    """The lists to learn from, and those to be tested on: none of them is among the first."""
    known = drawn(KNOWN, "known")
    there = {tuple(source) for source, _ in known}
    return known, [pair for pair in drawn(4 * UNSEEN, "unseen") if tuple(pair[0]) not in there][:UNSEEN]


def copies(pairs):
    """The same lists, to be written as they are."""
    return [(source, [BOS, *source, EOS]) for source, _ in pairs]


# --- The updates: each is a list of batches -----------------------------------------------------------------


def at_random(pairs, seed, size):
    """`size` pairs at a time, each pair once in a round."""
    rng = random.Random(seed)
    while True:
        order = rng.sample(pairs, len(pairs))
        for i in range(0, len(order) - size + 1, size):
            yield order[i : i + size]


def fill(pairs, budget):
    """Sort by length, fill up to the budget, begin the next: lists of pairs."""
    parts = [[]]
    for pair in sorted(pairs, key=lambda pair: len(pair[1])):
        if (len(parts[-1]) + 1) * len(pair[1]) > budget:
            parts.append([])
        parts[-1].append(pair)
    return parts


def padded(pairs, seed, size=LISTS):
    """One batch an update, padded to its longest list."""
    for chosen in at_random(pairs, seed, size):
        yield [pad_batch(chosen)]


def cut(pairs, seed, size=56, budget=100):
    """The update is drawn at random, and then cut into parts of like length."""
    for chosen in at_random(pairs, seed, size):
        yield [*map(pad_batch, fill(chosen, budget))]


def all_sorted(pairs, seed, budget=400, together=1):
    """All pairs are sorted into batches; the batches are shuffled, and so many of them make an update."""
    rng = random.Random(seed)
    while True:
        plan = fill(rng.sample(pairs, len(pairs)), budget)
        rng.shuffle(plan)
        for i in range(0, len(plan) - together + 1, together):
            yield [*map(pad_batch, plan[i : i + together])]


KINDS = {"padded": padded, "cut": cut, "all sorted": all_sorted}


# --- One run ------------------------------------------------------------------------------------------------


def share(schedule, step, n=UPDATES, w=WARMUP):
    """The share of the peak at update `step` of n; w updates of warm-up."""
    up = min(1.0, step / w)
    return {
        "constant": 1.0,
        "fall": (n + 1 - step) / n,
        "rise": up,
        "root": min(up, (w / step) ** 0.5),
        "line": min(step / w, (n + 1 - step) / (n + 1 - w)),
    }[schedule]


def new_model(seed, n_layers=1, d_model=32, norm="post", dropout=0.0):
    """An untrained model."""
    torch.manual_seed(seed)
    return make_model(VOCAB, VOCAB, n_layers, d_model, 2 * d_model, 4, dropout, norm)


def loss_sum(model, batch, smoothing=0.0, shift=True):
    """The loss of a batch, summed over the tokens that count."""
    reads, says = (batch.target_in, batch.target_out) if shift else (batch.target, batch.target)
    logits = model.generator.proj(model(batch.source, reads)).flatten(0, 1)
    y, how = says.flatten(), {"ignore_index": PAD, "label_smoothing": smoothing}
    return F.cross_entropy(logits, y, reduction="sum", **how)


def divisors(parts, own):
    """By what each part's loss is divided: by the count of all, or by its own and the number of parts."""
    counts = [part.n_tokens for part in parts]
    return [len(parts) * n for n in counts] if own else [sum(counts)] * len(parts)


def learn(
    model, updates, schedule="line", peak=PEAK, n=UPDATES, w=WARMUP, smoothing=0.0, clip=None,
    betas=(0.9, 0.98), own=False, shift=True,
):  # fmt: skip
    """Train in place. Returns what it has cost, and the mean loss of the last ten updates."""
    adam = torch.optim.Adam(model.parameters(), betas=betas, eps=1e-9)
    losses, positions, real, began = [], 0, 0, time.process_time()
    for step in range(1, n + 1):
        adam.param_groups[0]["lr"] = peak * share(schedule, step, n, w)
        parts = next(updates)
        adam.zero_grad()
        losses.append(0.0)
        for part, divisor in zip(parts, divisors(parts, own), strict=True):
            loss = loss_sum(model, part, smoothing, shift) / divisor
            loss.backward()
            losses[-1] += loss.item()
            positions += part.source.numel() + part.target_in.numel()
            real += int(part.source_mask.sum() + (part.target_in != PAD).sum())
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        adam.step()
    model.eval()
    return {
        "loss": round(sum(losses[-10:]) / 10, 4),
        "positions": positions,
        "padding": round(1 - real / positions, 3),
        "seconds": round(time.process_time() - began, 1),
    }


def right(model, pairs):
    """The share of pairs that it writes without a mistake."""
    said = greedy(model, pad_batch(pairs).source, LONGEST + 2)
    return sum(row == target[1:-1] for row, (_, target) in zip(said, pairs, strict=True)) / len(pairs)


@torch.no_grad()
def certainty(model, pairs):
    """For every token that counts: how probable the most probable one is, and whether it is right."""
    batch = pad_batch(pairs)
    best = model.generator(model(batch.source, batch.target_in)).max(dim=-1)
    hits = best.indices == batch.target_out
    return best.values.exp()[batch.target_mask], hits[batch.target_mask].double()


def gap(confidence, hits, n_bins=10):
    """The expected calibration error."""
    bins = (confidence * n_bins).long().clamp(max=n_bins - 1)
    parts = [bins == k for k in bins.unique()]
    return sum(abs((confidence[part] - hits[part]).sum()) for part in parts).item() / len(bins)


def run(seed, kind="padded", size=None, budget=None, together=None, lists=KNOWN, task="backwards", **options):
    """One run, with these options. Returns what the log keeps of it."""
    known, unseen = known_and_unseen()
    known = known[:lists]
    if task == "copy":
        known, unseen = copies(known), copies(unseen)
    sizes = {"size": size, "budget": budget, "together": together}
    updates = KINDS[kind](known, seed, **{key: value for key, value in sizes.items() if value})
    made = {key: options.pop(key) for key in ("n_layers", "d_model", "norm", "dropout") if key in options}
    model = new_model(seed, **made)
    found = learn(model, updates, **options)
    confidence, hits = certainty(model, unseen)
    wrong = confidence[hits == 0]
    return {
        "right": right(model, unseen),
        "known": right(model, known[:UNSEEN]),
        "sure": round(confidence.mean().item(), 4),
        "digits": round(hits.mean().item(), 4),
        "sure_wrong": round(wrong.mean().item(), 4) if len(wrong) else None,
        "gap": round(gap(confidence, hits), 4),
        **found,
    }


# --- The log ------------------------------------------------------------------------------------------------

COLD = {"schedule": "constant"}
CUT = {"kind": "cut", "budget": 200}
FEW = {"lists": 300, "d_model": 64, "norm": "pre", "peak": 0.01, "w": 100, "n": 1600}
JOBS = {
    "shift": [{"schedule": "constant", "shift": False}],
    "rates": [
        {"norm": norm, "schedule": schedule}
        for norm in ("post", "pre")
        for schedule in ("constant", "fall", "rise", "root", "line")
    ],
    "batches": [
        {"kind": "padded"},
        {"kind": "padded", "size": 56},
        {"kind": "cut"},
        CUT,
        {"kind": "cut", "own": True},
        {"kind": "all sorted"},
        {"kind": "all sorted", "peak": 0.008},
        {"kind": "all sorted", "peak": 0.0025},
        {"kind": "all sorted", "norm": "pre"},
        {"kind": "all sorted", "n": 1600},
        {"kind": "all sorted", "budget": 100, "together": 4},
    ],
    "variants": [
        COLD | {"n": 1600},
        COLD | {"clip": 1.0},
        COLD | {"betas": (0.9, 0.999)},
        *({"w": w} for w in (5, 10, 20)),
    ],
    "tasks": [CUT | {"task": task, "n": 600} for task in ("backwards", "copy")],
    "smoothing": [
        CUT | {"lists": lists, "smoothing": smoothing} for lists in (300, KNOWN) for smoothing in (0.0, 0.1)
    ],
    "dropout": [FEW, FEW | {"dropout": 0.1}],
}


FOUND = "right known sure digits sure_wrong gap loss positions padding seconds".split()


def entry(options):
    """One line of the log: these options, and for each seed what came of it."""
    runs = [run(seed, **options) for seed in SEEDS]
    line = {**options, **{key: [found[key] for found in runs] for key in runs[0]}}
    print(options, line["right"], line["seconds"], flush=True)
    return line


def main(parts):
    """Make these parts, and put each line into the log as soon as it is there."""
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {}
    log["what"] = "made by training.py, whose first lines say what the words mean; a number for each seed"
    versions = {"heed": heed.__version__, "torch": torch.__version__, "python": platform.python_version()}
    log |= {"versions": versions, "hardware": HARDWARE, "seeds": SEEDS}
    for part in parts:
        there, log[part] = log.get(part, []), []
        for options in JOBS[part]:
            wanted = json.loads(json.dumps(options))  # tuples become lists
            kept = [line for line in there if {key: line[key] for key in line if key not in FOUND} == wanted]
            log[part].append(kept[0] if kept else entry(options))
            LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    main(sys.argv[1:] or [*JOBS])
