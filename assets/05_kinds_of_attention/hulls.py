"""Convex hulls of more points than in training: who still finds them?

    python hulls.py

writes hulls.json beside this file: five models, three seeds each, trained on sets of 5 to 10 random points
and tested on up to 30. With one thread it takes ten minutes; `python hulls.py pointer` measures one alone.
The models:

    positions          PositionWriter, whose vocabulary is 30 positions; the last 20 never occur in training
    labels             the same, but at every update the points have other labels, drawn from all 30
    pointer            PointerNetwork
    pointer, 5 to 20   the same, trained on sets of 5 to 20 points
    pointer, no mask   the same as pointer, trained and tested without a mask over used positions

Each is trained with two learning rates at seed 0; the better one, by the share of edges found with 10 points,
is taken for the other seeds. A hull counts as exact if its edges are, from whichever corner the path begins.
"""

import json
import platform
import sys
import time
from itertools import pairwise
from pathlib import Path

import torch

import heed
from heed.alignment import PointerNetwork, PositionWriter, point, pointer_loss
from heed.attention import expectation
from heed.tasks import endless, point_batch, point_sets
from heed.train import train

SEEDS = (0, 1, 2)
RATES = (4e-3, 8e-3)
UPDATES = 2500
SIZES = (5, 8, 10, 12, 15, 20, 30)
N_SETS, BATCH, D_HIDDEN, D_POSITION = 500, 64, 64, 16
HARDWARE = "1 thread of an x86-64 server processor, shared with other work; float32"
LOG = Path(__file__).with_name("hulls.json")


class Labels(PositionWriter):
    """`PositionWriter` with other labels for the points at every call, so that each label is trained."""

    def forward(self, x, y, mask=None):
        label = torch.randperm(self.position.num_embeddings)[: x.shape[1]]
        position = self.position.weight[label].expand(len(x), -1, -1)
        h, s = self.read(torch.cat([x, position], dim=-1), y)
        c = expectation(self.score(s, h).softmax(-1), h)
        logits = self.out(torch.cat([s, c], dim=-1))[..., label]
        return self.attention(logits, mask)


class Unmasked(PointerNetwork):
    """`PointerNetwork` that may point at any position at any time; a path that does not close is cut."""

    def forward(self, x, y, mask=None):
        if y.shape[1] > x.shape[1] + 1:
            return torch.nn.functional.one_hot(y[:, :1], x.shape[1]).to(x.dtype)
        return super().forward(x, y)


POINTS = {"positions": (5, 10), "labels": (5, 10), "pointer": (5, 10), "pointer, 5 to 20": (5, 20)}
POINTS["pointer, no mask"] = (5, 10)
KINDS = {"positions": PositionWriter, "labels": Labels}  # the others: PointerNetwork


def make(name):
    """A fresh model of this name."""
    if name in KINDS:
        return KINDS[name](max(SIZES), 2, D_POSITION, D_HIDDEN)
    return (Unmasked if name.endswith("no mask") else PointerNetwork)(2, D_HIDDEN)


def edges(row):
    """The edges of a closed path, as a set of pairs of positions."""
    row = [i for i in row.tolist() if i >= 0]
    return set(pairwise(row))


def measure(model, n):
    """The share of unseen sets of n points with the exact hull, and the share of true edges written."""
    batch = point_sets(N_SETS, n, seed=1000 + n)
    pairs = [(edges(a), edges(b)) for a, b in zip(point(model, batch.x), batch.y, strict=True)]
    exact = sum(written == true for written, true in pairs) / N_SETS
    found = sum(len(written & true) for written, true in pairs) / sum(len(true) for _, true in pairs)
    return round(exact, 4), round(found, 4)


def learn(name, seed, rate):
    """Train one model. Returns exact hulls and edges found for each size, and the seconds it took."""
    torch.manual_seed(seed)
    model, began = make(name), time.process_time()
    train(model, endless(point_batch, BATCH, POINTS[name], seed=seed), pointer_loss, UPDATES, rate, seed=seed)
    seconds = round(time.process_time() - began)
    exact, edges = zip(*(measure(model, n) for n in SIZES), strict=True)
    print(name, seed, rate, seconds, exact, edges, flush=True)
    return list(exact), list(edges), seconds


def main(names):
    """Measure these, and put each into the log as soon as it is done."""
    torch.set_num_threads(1)
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {}
    log["what"] = f"share of {N_SETS} unseen sets with the exact hull, and of their edges found, by size"
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log |= {"hardware": HARDWARE, "seeds": SEEDS, "updates": UPDATES, "sizes": SIZES, "rates": RATES}
    log["parameters"] = {name: sum(p.numel() for p in make(name).parameters()) for name in POINTS}
    for name in [name for name in POINTS if name in names]:
        tried = {rate: learn(name, 0, rate) for rate in RATES}
        search = {rate: edges[SIZES.index(10)] for rate, (_, edges, _) in tried.items()}
        rate = max(search, key=search.get)
        runs = [tried[rate], *(learn(name, seed, rate) for seed in SEEDS[1:])]
        log.setdefault("search", {})[name] = [search[rate] for rate in RATES]
        for part, key in enumerate(("exact", "edges", "seconds")):
            log.setdefault(key, {})[name] = [run[part] for run in runs]
        log.setdefault("rate", {})[name] = rate
        LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:] or list(POINTS))
