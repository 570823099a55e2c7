"""Sentences that begin at any position: the second log of chapter 09.

    python starts.py

writes starts.json beside this file, in about five minutes on one core. Model, task and training are those
of sections 9.1 to 9.4: one layer of self-attention, 64 wide, says who owes whom. It is shown positions in
one of four ways: not at all, by a random vector for each, by the hands of 32 dials, and by turning
queries and keys (RoPE). Training sentences begin at position 0, or, where the log says so, at one that is
drawn for each batch from 0 to 199. The test has 1,000 sentences, each with its two names exchanged, too:
whoever does not see the order gives no more than half of the right answers.
"""

import json
import platform
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import heed
from heed.tasks import DEBT_WORDS, DEBTORS, debts, endless
from heed.train import train

SEEDS, D, BATCH, RATE = (0, 1, 2), 64, 64, 4e-3
UPDATES, LONGER, FARTHEST = 600, 3000, 200
ELSEWHERE = range(10, 1000, 30)
HARDWARE = "1 core of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_name("starts.json")

RUNS = (  # how positions are shown, updates, and where training sentences begin: below this position
    ("none", LONGER, 1),
    ("random", UPDATES, 1),
    ("dials", UPDATES, 1),
    ("random", UPDATES, FARTHEST),
    ("dials", UPDATES, FARTHEST),
    ("random", LONGER, FARTHEST),
    ("dials", LONGER, FARTHEST),
    ("RoPE", UPDATES, 1),
)


def hands(pos, d):
    """The tips of d/2 hands at each position (n, d): sines and cosines, interleaved."""
    angles = pos[:, None] * 10_000 ** (-torch.arange(0, d, 2) / d)  # (n, d/2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def rotate(x, pos):
    """Turn each pair of entries clockwise, by the angle of its hand."""
    turn, a, b = hands(pos, x.shape[-1]), x[..., 0::2], x[..., 1::2]
    sin, cos = turn[:, 0::2], turn[:, 1::2]
    return torch.stack([a * cos + b * sin, b * cos - a * sin], dim=-1).flatten(-2)


def nothing(x, pos):
    """No position."""
    return x


def add_hands(x, pos):
    """The hands, added."""
    return x + hands(pos, x.shape[-1])


def random_vectors():
    """A random vector for each of 1,100 positions, about as long as the hands."""
    vectors = torch.randn(1100, D, generator=torch.Generator().manual_seed(9)) / 2**0.5
    return lambda x, pos: x + vectors[pos]


class Answerer(nn.Module):
    """One layer of self-attention, read out at the last token."""

    def __init__(self, add=nothing, turn=nothing):
        super().__init__()
        self.add, self.turn = add, turn
        self.words = nn.Embedding(len(DEBT_WORDS), D)
        self.W_q = nn.Linear(D, D, bias=False)
        self.W_k = nn.Linear(D, D, bias=False)
        self.W_v = nn.Linear(D, D, bias=False)
        self.read_out = nn.Sequential(nn.Linear(D, 64), nn.ReLU(), nn.Linear(64, len(DEBTORS)))

    def forward(self, tokens, start=0):
        pos = start + torch.arange(tokens.shape[1])
        x = self.add(self.words(tokens), pos)  # (b, n, d)
        q, k, v = self.W_q(x), self.W_k(x), self.W_v(x)
        q, k = self.turn(q, pos), self.turn(k, pos)
        scores = q @ k.transpose(-2, -1) / k.shape[-1] ** 0.5
        x = x + scores.softmax(dim=-1) @ v
        return self.read_out(x[:, -1])


def make(way):
    """A fresh model."""
    added = {"random": random_vectors, "dials": lambda: add_hands}
    return Answerer(turn=rotate) if way == "RoPE" else Answerer(added.get(way, lambda: nothing)())


def learn(way, updates, below, seed):
    """Train one model."""
    places = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = make(way)

    def loss(model, batch):
        start = torch.randint(below, (), generator=places).item()
        return F.cross_entropy(model(batch.tokens, start), batch.answers)

    train(model, endless(debts, BATCH, seed=seed), loss, updates, rate=RATE)
    return model


def pairs(n=1000):
    """Sentences and whom they answer: n, and the same with the two names exchanged."""
    given = debts(n, torch.Generator().manual_seed(1))
    swapped, names = given.tokens.clone(), given.tokens < len(DEBTORS)
    swapped[names] = swapped[names].view(-1, 2).flip(dims=[1]).flatten()
    return torch.cat([given.tokens, swapped]), torch.cat([given.answers, given.others])


@torch.no_grad()
def score(model, start=0):
    """The share of right answers where all sentences begin at this position."""
    tokens, answers = pairs()
    return (model(tokens, start).argmax(dim=-1) == answers).double().mean().item()


def main():
    """Measure everything, and put each entry into the log as soon as it is done."""
    log = {"what": "share of right answers among 2,000, by the position at which the test sentences begin"}
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log |= {"hardware": HARDWARE, "seeds": SEEDS, "elsewhere": [*ELSEWHERE], "runs": []}
    for way, updates, below in RUNS:
        entry = {"way": way, "updates": updates, "below": below, "from 0": [], "elsewhere": [], "seconds": []}
        for seed in SEEDS:
            began = time.process_time()
            model = learn(way, updates, below, seed)
            entry["seconds"].append(round(time.process_time() - began, 1))
            entry["from 0"].append(round(score(model), 4))
            entry["elsewhere"].append([round(score(model, start), 4) for start in ELSEWHERE])
        means = [round(sum(row) / len(row), 3) for row in entry["elsewhere"]]
        print(way, updates, below, entry["from 0"], means, entry["seconds"], flush=True)
        log["runs"].append(entry)
        LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    main()
