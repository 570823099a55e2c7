"""Convex hulls of more points than in training: what a word for each position gets, and what a pointer gets.

    python hulls.py

writes hulls.json beside this file: three seeds of each model, trained on sets of 5 to 8 random points and
tested on up to 20, for as many updates as in the chapter and for five times as many. With one thread it takes
a quarter of an hour; `python hulls.py pointer` measures one model alone. The models:

    words              PositionWriter with 20 words; the words 8 to 19 never occur in training
    random words       the same, but at every call the points have other words, drawn from all 20
    pointer            PointerNetwork
    pointer, no mask   the same, trained and tested without a mask over used positions

The long training is tried with two learning rates at seed 0; the better one, by the exact hulls of 8 points,
is taken for the other seeds. The short one has the chapter's rate.
"""

import json
import platform
import sys
import time
from pathlib import Path

import torch

import heed
from heed.alignment import PointerNetwork, PositionWriter, point, pointer_loss
from heed.attention import expectation
from heed.tasks import endless, point_batch, point_sets
from heed.train import train

SEEDS = (0, 1, 2)
SHORT, LONG = 1000, 5000  # updates
RATE, RATES = 8e-3, (4e-3, 8e-3)  # of the short training; tried for the long one
TRAINED, SIZES = (5, 8), (5, 8, 9, 10, 12, 15, 20)
N_SETS, BATCH, D_HIDDEN, D_POSITION = 500, 32, 64, 16
MODELS = ("words", "random words", "pointer", "pointer, no mask")
HARDWARE = "1 thread of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_name("hulls.json")


class RandomWords(PositionWriter):
    """`PositionWriter` with other words for the points at every call, so that each word is trained."""

    def forward(self, x, y, mask=None):
        word = torch.randperm(self.position.num_embeddings)[: x.shape[1]]
        position = self.position.weight[word].expand(len(x), -1, -1)
        h, s = self.read(torch.cat([x, position], dim=-1), y)
        c = expectation(self.score(s, h).softmax(-1), h)
        logits = self.out(torch.cat([s, c], dim=-1))[..., word]
        return self.attention(logits, mask)


class Unmasked(PointerNetwork):
    """`PointerNetwork` that may point at any position at any time; a path that does not close is cut."""

    def forward(self, x, y, mask=None):
        if y.shape[1] > x.shape[1] + 1:
            return torch.nn.functional.one_hot(y[:, :1], x.shape[1]).to(x.dtype)
        return super().forward(x, y)


def make(name):
    """A fresh model of this name."""
    if name.endswith("words"):
        return {"words": PositionWriter, "random words": RandomWords}[name](
            max(SIZES), 2, D_POSITION, D_HIDDEN
        )
    return {"pointer": PointerNetwork, "pointer, no mask": Unmasked}[name](2, D_HIDDEN)


def exact(model, n):
    """The share of unseen sets of n points whose hull is written exactly."""
    batch = point_sets(N_SETS, n, seed=1000 + n)
    pairs = zip(point(model, batch.x), batch.y, strict=True)
    return sum(torch.equal(a[a >= 0], b[b >= 0]) for a, b in pairs) / N_SETS


def learn(name, seed, updates, rate):
    """Train one model. Returns the share of exact hulls for each size, and the seconds it took."""
    torch.manual_seed(seed)
    model, began = make(name), time.process_time()
    train(model, endless(point_batch, BATCH, TRAINED, seed=seed), pointer_loss, updates, rate, seed=seed)
    seconds = round(time.process_time() - began)
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # random words are drawn in the test, too
        found = [exact(model, n) for n in SIZES]
    print(name, seed, updates, rate, seconds, found, flush=True)
    return found, seconds


def main(names):
    """Measure these, and put each into the log as soon as it is done."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {}
    log["what"] = f"share of {N_SETS} unseen sets with the exact hull, by size; trained on 5 to 8 points"
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log |= {"hardware": HARDWARE, "seeds": SEEDS, "updates": (SHORT, LONG), "sizes": SIZES}
    log |= {"short rate": RATE, "rates": RATES}
    log["parameters"] = {name: sum(p.numel() for p in make(name).parameters()) for name in MODELS}
    for name in [name for name in MODELS if name in names]:
        short = [learn(name, seed, SHORT, RATE) for seed in SEEDS]
        tried = {rate: learn(name, 0, LONG, rate) for rate in RATES}
        search = [tried[rate][0][SIZES.index(8)] for rate in RATES]
        rate = RATES[search.index(max(search))]
        long = [tried[rate], *(learn(name, seed, LONG, rate) for seed in SEEDS[1:])]
        log.setdefault("search", {})[name] = search
        log.setdefault("rate", {})[name] = rate
        for length, runs in (("short", short), ("long", long)):
            log.setdefault(length, {})[name] = [found for found, _ in runs]
            log.setdefault("seconds", {}).setdefault(length, {})[name] = [seconds for _, seconds in runs]
        LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:] or list(MODELS))
