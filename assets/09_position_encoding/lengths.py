"""Six ways to show a position, trained on short lists and tested on long ones: the log of chapter 09.

    python lengths.py

writes lengths.json beside this file, in about half an hour on one core; `python lengths.py short` (or
`longer`) measures one part alone.

    short     800 updates. Each way with each learning rate (and the relative bias with each clip, too), three
              seeds; taken is what has the highest mean accuracy on validation lists of 30 tokens
    longer    2,400 updates with the rate, and the clip, that `short` has taken

The models differ only in how they are shown positions: embeddings of width 32, one layer of causal attention
with four heads and a residual connection, a read-out with one hidden layer of 64. Training lists have 5 to 20
tokens, 64 lists an update, every update new ones. Both tasks of `heed.data.lookback` ask each token for an
earlier digit. Of a test list of 80 tokens the log keeps the accuracy at positions 1 to 10, 11 to 20, …, 71 to
80: the mask is causal, so position 10 of a list of 80 is position 10 of a list of 10.
"""

import json
import platform
import sys
import time
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import heed
from heed.attention import MultiHeadAttention, causal_mask
from heed.data import NO_ANSWER, latest_mark, lookbacks, three_back
from heed.position import ALiBi, LearnedPosition, PositionalEncoding, RelativeBias, Rotary
from heed.train import train

SEEDS = (0, 1, 2)
RATES = (2e-3, 4e-3, 8e-3)
CLIPS = (4, 8, 16)
LENGTHS = (5, 20)
D, N_HEADS, D_READ, BATCH = 32, 4, 64, 64
N_VALIDATION, N_TEST = 30, 80
UPDATES = {"short": 800, "longer": 2400}
HARDWARE = "1 core of an x86-64 server processor, shared with other work; float32"
LOG = Path(__file__).with_name("lengths.json")

TASKS = {"three back": three_back, "latest mark": latest_mark}


class Reader(nn.Module):
    """A causal tagger: at every token, which earlier digit is asked for?"""

    def __init__(self, attention=MultiHeadAttention, position=None):
        super().__init__()
        self.embedding = nn.Embedding(20, D)
        self.position = position() if position else nn.Identity()
        self.attention = attention(D, N_HEADS)
        self.read_out = nn.Sequential(nn.Linear(D, D_READ), nn.ReLU(), nn.Linear(D_READ, 10))

    def forward(self, tokens):
        x = self.position(self.embedding(tokens))
        mask = causal_mask(tokens.shape[1])
        return self.read_out(x + self.attention(x, x, x, mask))


WAYS = {
    "none": Reader,
    "learned": lambda: Reader(position=lambda: LearnedPosition(D, 0.0, n_max=N_TEST)),
    "sinusoids": lambda: Reader(position=lambda: PositionalEncoding(D, 0.0)),
    "ALiBi": lambda: Reader(ALiBi),
    "RoPE": lambda: Reader(Rotary),
}
CLIPPED = {clip: lambda clip=clip: Reader(partial(RelativeBias, clip=clip)) for clip in CLIPS}
NAMES = ("none", "learned", "sinusoids", "relative bias", "ALiBi", "RoPE")


def make(name, clip=None):
    """A fresh model of this name."""
    return CLIPPED[clip]() if name == "relative bias" else WAYS[name]()


def accuracies(model, task, n, seed, window=10, n_lists=2000):
    """The share of right answers in each window of positions, of lists of n tokens."""
    tokens, answers = TASKS[task](n_lists, n, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        right = model(tokens).argmax(dim=-1) == answers
    asked = answers != NO_ANSWER
    windows = zip(right.split(window, dim=1), asked.split(window, dim=1), strict=True)
    return [round((r.sum() / a.sum()).item(), 4) for r, a in windows]


def learn(name, task, rate, seed, updates, clip=None):
    """Train one model. Returns its validation accuracy, its test accuracies and the seconds."""

    def loss(model, batch):
        logits = model(batch.tokens).flatten(0, 1)
        return F.cross_entropy(logits, batch.answers.flatten(), ignore_index=NO_ANSWER)

    torch.manual_seed(seed)
    model, began = make(name, clip), time.monotonic()
    train(model, lookbacks(TASKS[task], BATCH, LENGTHS, seed), loss, updates, rate)
    seconds = round(time.monotonic() - began, 1)
    (validation,) = accuracies(model, task, N_VALIDATION, 1000, window=N_VALIDATION)
    return validation, accuracies(model, task, N_TEST, 1001), seconds


def runs(name, task, rate, updates, clip=None):
    """One entry of the log: all seeds."""
    entry = {"way": name, "task": task, "rate": rate, "clip": clip}
    found = [learn(name, task, rate, seed, updates, clip) for seed in SEEDS]
    for key, column in zip(("validation", "test", "seconds"), zip(*found, strict=True), strict=True):
        entry[key] = [*column]
    print(updates, name, task, rate, clip, entry["validation"], entry["seconds"], flush=True)
    return entry


def best(entries):
    """The entry with the highest mean validation accuracy, with what all the others had."""
    chosen = max(entries, key=lambda entry: sum(entry["validation"]))
    tried = [[entry["rate"], entry["clip"], entry["validation"]] for entry in entries]
    return chosen | {"tried": tried}


def settings(name):
    """What is tried for this way: pairs of a rate and a clip."""
    return [(rate, clip) for rate in RATES for clip in (CLIPS if name == "relative bias" else (None,))]


def main(parts):
    """Measure these parts, and put each entry into the log as soon as it is done."""
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {}
    log["what"] = "share of right answers at positions 1 to 10, 11 to 20, … of 2,000 test lists of 80 tokens"
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log |= {"hardware": HARDWARE, "seeds": SEEDS, "rates": RATES, "clips": CLIPS, "lengths": LENGTHS}
    log["parameters"] = {name: sum(p.numel() for p in make(name, 8).parameters()) for name in NAMES}
    for part in parts:
        log[part] = []
        for task in TASKS:
            for name in NAMES:
                tried = settings(name)
                if part == "longer":
                    short = next(e for e in log["short"] if (e["way"], e["task"]) == (name, task))
                    tried = [(short["rate"], short["clip"])]
                entries = [runs(name, task, rate, UPDATES[part], clip) for rate, clip in tried]
                log[part].append(best(entries))
                LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:] or [*UPDATES])
