"""What do warm-up and decay of the learning rate change, before and after the norm? The runs of chapter 12.

    python warmup.py

writes warmup.json beside this file. On one core it takes some twelve minutes; `python warmup.py rates` (or
`tasks`, `variants`, `short`) makes one part alone, with three seeds. Each run trains a small Transformer
(2 + 2 layers, d_model 32, 4 heads, d_ff 64, no dropout) on sequences of eight digits, 32 fresh ones at each
update, with Adam (0.9, 0.98), without clipping and without smoothing.

    rates       reversal, 300 updates; post-norm and pre-norm, four schedules, three peaks (the fall
                alone at two of them); and one more schedule in post-norm at the highest
    tasks       copying and reversal, post-norm, warm-up and decay, 150 to 300 updates
    variants    reversal, post-norm, the highest peak: constant and clipped to norm 1; constant with Adam's
                usual betas; ten updates of warm-up, then decay; constant, four times as many updates
    short       reversal, post-norm, 150 updates

The schedules, as shares of the peak, of n updates, w of them warm-up (100 if nothing else is said):

    constant        1
    decay           from 1 in a straight line to 0
    warm-up         in a straight line to 1 at update w, then 1
    root            in a straight line to 1 at update w, then as the inverse square root (the paper's)
    line            in a straight line to 1 at update w, then in a straight line to 0
"""

import json
import platform
import sys
import time
from pathlib import Path

import torch

import heed
from heed.data import Batch
from heed.decode import greedy
from heed.loss import translation_loss
from heed.schedule import inverse_root, noam, trapezoid
from heed.text import BOS, EOS, UNK
from heed.transformer import make_model

SEEDS = (0, 1, 2)
UPDATES, WARMUP, BATCH, LENGTH, HELD_OUT = 300, 100, 32, 8, 500
VOCAB = UNK + 1 + 10
SIZES = {"n_layers": 2, "d_model": 32, "d_ff": 64, "n_heads": 4, "dropout": 0.0}
PEAK = noam(WARMUP, SIZES["d_model"], WARMUP)  # 0.0177: the highest rate of the paper's formula
PEAKS = (2e-3, 6e-3, PEAK)
HARDWARE = "1 core of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_name("warmup.json")


def share(schedule, step, n, w):
    """The share of the peak at update `step` of n; w updates of warm-up."""
    if schedule == "constant":
        return 1.0
    if schedule == "decay":
        return trapezoid((step - 1) / n, 0)
    if schedule == "warm-up":
        return min(1.0, step / w)
    if schedule == "root":
        return inverse_root(step / n, w / n)
    return trapezoid(step / (n + 1), w / (n + 1))


def drawn(b, generator, task="reverse", n=LENGTH):
    """A batch of b sequences of n digits, and the same again, or reversed."""
    source = torch.randint(UNK + 1, VOCAB, (b, n), generator=generator)
    answer = source.flip(1) if task == "reverse" else source
    return Batch(source, torch.cat([torch.full((b, 1), BOS), answer, torch.full((b, 1), EOS)], dim=1))


def learn(norm, schedule, peak, seed, n=UPDATES, w=WARMUP, task="reverse", clip=None, betas=(0.9, 0.98)):
    """Train one model. Returns the mean loss of its last ten updates, and the share of exact answers."""
    torch.manual_seed(seed)
    model = make_model(VOCAB, VOCAB, **SIZES, norm=norm)
    adam = torch.optim.Adam(model.parameters(), betas=betas, eps=1e-9)
    generator, losses = torch.Generator().manual_seed(seed), []
    for step in range(1, n + 1):
        for group in adam.param_groups:
            group["lr"] = peak * share(schedule, step, n, w)
        batch = drawn(BATCH, generator, task)
        loss = translation_loss(model, batch, 0.0) / batch.n_tokens
        adam.zero_grad()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        adam.step()
        losses.append(loss.item())
    test = drawn(HELD_OUT, torch.Generator().manual_seed(1000 + seed), task)
    said = greedy(model.eval(), test.source, LENGTH + 2)
    right = [row == target[1:-1] for row, target in zip(said, test.target.tolist(), strict=True)]
    return round(sum(losses[-10:]) / 10, 4), sum(right) / HELD_OUT


def entry(**options):
    """One line of the log: these options, and for each seed its loss, its exact answers, its seconds."""
    found = dict(options)
    runs = []
    for seed in SEEDS:
        began = time.process_time()
        runs.append((*learn(seed=seed, **options), round(time.process_time() - began, 1)))
    for key, column in zip(("loss", "exact", "seconds"), zip(*runs, strict=True), strict=True):
        found[key] = [*column]
    print(found, flush=True)
    return found


COLD = {"norm": "post", "schedule": "constant", "peak": PEAK}
RATES = [
    {"norm": norm, "schedule": schedule, "peak": peak}
    for peak in sorted(PEAKS, reverse=True)
    for norm in ("post", "pre")
    for schedule in ("constant", "decay", "root", "line")
    if (schedule, peak) != ("decay", min(PEAKS))
] + [COLD | {"schedule": "warm-up"}]
TASKS = [
    {"norm": "post", "schedule": "line", "peak": PEAK, "n": n, "task": task}
    for n in (300, 250, 200, 150)
    for task in ("copy", "reverse")
]
VARIANTS = [
    COLD | {"clip": 1.0},
    COLD | {"betas": (0.9, 0.999)},
    COLD | {"schedule": "line", "w": 10},
    COLD | {"n": 4 * UPDATES},
]
SHORT = [
    {"norm": "post", "schedule": schedule, "peak": peak, "n": 150}
    for schedule, peak in (("line", PEAK), ("line", 6e-3), ("constant", 2e-3))
]
JOBS = {"rates": RATES, "tasks": TASKS, "variants": VARIANTS, "short": SHORT}


def main(parts):
    """Make these parts, and put each line into the log as soon as it is there."""
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {}
    log["what"] = "for each seed: mean loss per token of the last ten updates, share exact, seconds"
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log |= {"hardware": HARDWARE, "seeds": SEEDS, "updates": UPDATES, "batch": BATCH, "sizes": SIZES}
    for part in parts:
        log[part] = []
        for options in JOBS[part]:
            log[part].append(entry(**options))
            LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    main(sys.argv[1:] or [*JOBS])
