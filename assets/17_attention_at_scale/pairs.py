"""How many pairs a layer holds: chapter 17's last figure and its laboratory quote it.

    python pairs.py

writes pairs.json beside this file, in about a quarter of an hour on one core; where it was stopped, it
goes on. Lists have 8 to 128 pairs in training; a question names two of them, and counts as right if both
digits are. Every number is a share of 4,000 questions about unseen lists.

    chapter   the chapter's own five layers, with its 600 updates: seed 0 gives the chapter's numbers, up to
              rounding (for the sum up to a seed: its first weights are others)
    pairs     every layer after 1,600 updates
    at twice the rate, seed 0   the same, one seed, on other lists
"""

import json
import platform
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import heed
from heed.attention import MultiHeadAttention, causal_mask
from heed.scale import GroupedQueryAttention, LinearAttention, SlidingWindow
from heed.tasks import LOOKUP_NAMES, endless, lookups
from heed.train import train

SEEDS = (0, 1, 2)
RATE, UPDATES, SHORT = 0.01, 1600, 600
TWICE = "at twice the rate, seed 0"
PAIRS = (8, 16, 32, 64, 128)
D = 64
HARDWARE = "1 core of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_name("pairs.json")


class Wide(LinearAttention):
    """Two heads of queries and keys d_k wide, and of values as wide as ever."""

    def __init__(self, d_k):
        super().__init__(D, 2)
        self.W_q, self.W_k = nn.Linear(D, 2 * d_k), nn.Linear(D, 2 * d_k)


LAYERS = {
    "8 heads of keys": partial(MultiHeadAttention, D, 8),
    "2 heads of keys": partial(GroupedQueryAttention, D, 8, n_kv_heads=2),
    "1 head of keys": partial(GroupedQueryAttention, D, 8),
    "1 head": partial(MultiHeadAttention, D, 1),
    "window of 16": partial(SlidingWindow, D, 8, window=16),
    **{f"linear, {d_k} wide": partial(Wide, d_k) for d_k in (8, 32, 128)},
}
CHAPTER = ("8 heads of keys", "1 head of keys", "1 head", "window of 16", "linear, 32 wide")


class Asker(nn.Module):
    """One layer: questions look at the pairs, at one another behind them, and at themselves."""

    def __init__(self, layer):
        super().__init__()
        self.names, self.digits = nn.Embedding(LOOKUP_NAMES, D), nn.Embedding(10, D)
        self.first, self.second = nn.Embedding(LOOKUP_NAMES, D), nn.Embedding(LOOKUP_NAMES, D)
        self.layer, self.read_out = layer, nn.Linear(D, 2 * 10)

    def forward(self, batch):
        pairs = self.names(batch.names) + self.digits(batch.digits)
        asked = self.first(batch.asked[..., 0]) + self.second(batch.asked[..., 1])
        x, n = torch.cat([pairs, asked], dim=1), asked.shape[1]
        y = self.layer(asked, x, x, causal_mask(n, pairs.shape[1]))
        return self.read_out(y).unflatten(-1, (2, 10))


def loss(model, batch):
    """The mean loss per digit."""
    return F.cross_entropy(model(batch).flatten(0, -2), batch.answers.flatten())


def learn(make, rate, updates, seed):
    """A trained model."""
    torch.manual_seed(seed)
    model = Asker(make())
    train(model, endless(lookups, 32, (8, 128), seed=seed), loss, updates, rate=rate)
    return model


@torch.no_grad()
def score(model, n_pairs, seed=1):
    """The share of questions of which both digits are right."""
    batch = lookups(500, n_pairs, torch.Generator().manual_seed(seed))
    right = (model(batch).argmax(dim=-1) == batch.answers).all(dim=-1)
    return round(right.double().mean().item(), 4)


def scores(model, seed=1):
    return [score(model, n_pairs, seed) for n_pairs in PAIRS]


def every_seed(make, updates):
    """What models of all seeds get, a row for each."""
    return [scores(learn(make, RATE, updates, seed)) for seed in SEEDS]


def entry(make):
    """The entry of one layer that was trained for longer."""
    parameters = sum(p.numel() for p in make().parameters())
    return {"parameters": parameters, "test": every_seed(make, UPDATES)}


def main():
    """Measure everything, and write the log."""
    log = {
        "what": "shares of questions of which both digits are right: a row for each seed, a column for each "
        "number of pairs",
        "versions": {
            "heed": heed.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "hardware": HARDWARE,
        "seeds": SEEDS,
        "pairs in a list": PAIRS,
        "rate": RATE,
        "updates": [SHORT, UPDATES],
    }
    done = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {}
    parts = {
        "chapter": ({name: LAYERS[name] for name in CHAPTER}, lambda make: every_seed(make, SHORT)),
        "pairs": (LAYERS, entry),
        TWICE: (LAYERS, lambda make: scores(learn(make, 2 * RATE, UPDATES, SEEDS[0]), seed=2)),
    }
    for part, (layers, measure) in parts.items():
        log[part] = {}
        for name, make in layers.items():
            log[part][name] = done.get(part, {}).get(name) or measure(make)
            print(part, name, log[part][name], flush=True)
            LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    main()
