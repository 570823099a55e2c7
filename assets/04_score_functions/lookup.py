"""The look-up of F4 with other seeds, rates and initialisations.

    python lookup.py

writes lookup.json beside this file, in a few minutes on one core. A model looks up one of 16 symbols in a
list and says the value that stands beside it; query and key vectors of the 32 symbols are two embedding
matrices. The runs:

    widths    plain and scaled, 8, 64 and 512 wide, at the rate of the chapter, 400 updates
    rates     plain and scaled, 512 wide, at three other rates
    longer    plain, 512 wide, five times as many updates
    starts    plain, 512 wide, both embedding matrices begun smaller by 512^(−1/4)

Each with three seeds: the share of right values on 1,000 new lists, and at initialisation, over 1,000 lists,
the mean of the entropy of the weights (nats) and the median norm of the loss's gradient with respect to a
list's scores.
"""

import json
import platform
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import heed
from heed.scores import dot_score, scaled_dot_score
from heed.train import train

SEEDS = (0, 1, 2)
UPDATES, RATE = 400, 1e-2
HARDWARE = "one thread of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_name("lookup.json")
KINDS = {"plain": dot_score, "scaled": scaled_dot_score}
RUNS = [  # score, width, rate, updates, initialisation times
    *((kind, d, RATE, UPDATES, 1.0) for d in (8, 64, 512) for kind in KINDS),
    *((kind, 512, rate, UPDATES, 1.0) for rate in (1e-3, 3e-3, 3e-2) for kind in KINDS),
    ("plain", 512, RATE, 5 * UPDATES, 1.0),
    ("plain", 512, RATE, UPDATES, 512**-0.25),
]


def lookups(seed, b=64):
    """Endless batches: 16 of 32 symbols with a value each, one of the symbols, and its value."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        keys = torch.rand(b, 32, generator=generator).argsort(dim=-1)[:, :16]
        values = torch.randint(32, (b, 16), generator=generator)
        asked = torch.randint(16, (b, 1), generator=generator)
        yield keys, values, keys.gather(1, asked), values.gather(1, asked)[:, 0]


class LookUp(nn.Module):
    """Say the value that stands beside the symbol asked for."""

    def __init__(self, d, score):
        super().__init__()
        self.query, self.key = nn.Embedding(32, d), nn.Embedding(32, d)
        self.value, self.out = nn.Embedding(32, 16), nn.Linear(16, 32)
        self.score = score

    def forward(self, keys, values, asked):
        """The logits of the value (b, 32); the scores (b, 1, 16) stay in `scores`."""
        self.scores = self.score(self.query(asked), self.key(keys))
        return self.out((self.scores.softmax(dim=-1) @ self.value(values))[:, 0])


def loss(model, batch):
    """Cross-entropy of the value."""
    return F.cross_entropy(model(*batch[:3]), batch[3])


def learn(kind, d, rate, updates, start, seed):
    """Train one, and measure it before and after."""
    torch.set_default_dtype(torch.float64)  # before the weights are drawn, as in the chapter
    torch.manual_seed(seed)
    model = LookUp(d, KINDS[kind])
    with torch.no_grad():
        for table in (model.query, model.key):
            table.weight.mul_(start)
    test = next(lookups(1000, b=1000))
    first = F.cross_entropy(model(*test[:3]), test[3], reduction="sum")
    gradient = torch.autograd.grad(first, model.scores)[0].norm(dim=-1)
    weights = model.scores.softmax(dim=-1)
    entropy = -torch.special.xlogy(weights, weights).sum(dim=-1).mean()
    train(model, lookups(seed), loss, updates, rate=rate, seed=seed)
    right = (model(*test[:3]).argmax(dim=-1) == test[3]).double().mean()
    return {
        "score": kind, "width": d, "rate": rate, "updates": updates, "start": start, "seed": seed,
        "right": round(right.item(), 3), "entropy": round(entropy.item(), 3),
        "gradient": float(f"{gradient.median():.3g}"),
    }  # fmt: skip


def main():
    """Make all runs, and write the log."""
    log = {
        "what": "share of right values on 1,000 new lists; entropy and median gradient at initialisation",
        "versions": {
            "heed": heed.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "hardware": HARDWARE,
        "seeds": SEEDS,
        "runs": [],
    }
    for settings in RUNS:
        log["runs"] += [learn(*settings, seed) for seed in SEEDS]
        print(*settings, [run["right"] for run in log["runs"][-3:]], flush=True)
    LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
