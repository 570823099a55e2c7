"""Six ways to show a position, trained on short lists and tested on long ones: the log of chapter 09.

    python lengths.py

writes lengths.json beside this file, in about half an hour on one core. Each way is trained with every
learning rate (and the relative bias with each clip, too), for 800 updates and with a seed of its own. The
setting with the highest accuracy on validation lists of 30 tokens (the first of equals) is trained again with
three other seeds: these are the runs of the log. A run whose loss is no longer a number counts as zero.

The models differ only in how they are shown positions: embeddings of width 32, one layer of causal attention
with four heads and a residual connection, a read-out with one hidden layer of 64. Training lists have 5 to 20
tokens, 64 lists an update, every update new ones. Both tasks of `heed.tasks.lookback` ask each token for an
earlier digit. Of a test list of 80 tokens the log keeps the accuracy at positions 0 to 9, 10 to 19, …, 70 to
79: the mask is causal, so position 9 of a list of 80 is position 9 of a list of 10.
"""

import json
import platform
import time
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import heed
from heed.attention import MultiHeadAttention, causal_mask
from heed.position import ALiBi, LearnedPosition, PositionalEncoding, RelativeBias, Rotary
from heed.tasks import NO_ANSWER, any_length, endless, latest_mark, three_back
from heed.train import train

SEEDS, SEARCH_SEED = (0, 1, 2), 3
RATES = (4e-3, 8e-3, 1.6e-2, 3.2e-2, 6.4e-2)
CLIPS = (8, 16)
LENGTHS = (5, 20)
D, N_HEADS, D_READ, BATCH = 32, 4, 64, 64
N_VALIDATION, N_TEST = 30, 80
UPDATES = 800
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


def learn(name, task, rate, seed, clip=None, updates=UPDATES):
    """Train one model. Returns its validation accuracy, its test accuracies and the seconds."""

    def loss(model, batch):
        logits = model(batch.tokens).flatten(0, 1)
        return F.cross_entropy(logits, batch.answers.flatten(), ignore_index=NO_ANSWER)

    torch.manual_seed(seed)
    model, began = make(name, clip), time.monotonic()
    try:
        train(model, endless(any_length, TASKS[task], BATCH, LENGTHS, seed=seed), loss, updates, rate)
    except ValueError:  # the loss is no longer a number
        return 0.0, [0.0] * (N_TEST // 10), 0.0
    seconds = round(time.monotonic() - began, 1)
    (validation,) = accuracies(model, task, N_VALIDATION, 1000, window=N_VALIDATION)
    return validation, accuracies(model, task, N_TEST, 1001), seconds


def settings(name):
    """What is tried for this way: pairs of a rate and a clip."""
    return [(rate, clip) for rate in RATES for clip in (CLIPS if name == "relative bias" else (None,))]


def chosen(name, task):
    """One entry of the log: the best setting by the search, trained with all seeds."""
    tried = []
    for rate, clip in settings(name):
        validation, test, seconds = learn(name, task, rate, SEARCH_SEED, clip)
        tried.append([rate, clip, validation])
        print("search", name, task, rate, clip, validation, test, seconds, flush=True)
    rate, clip, _ = max(tried, key=lambda one: one[2])
    entry = {"way": name, "task": task, "rate": rate, "clip": clip, "tried": tried}
    found = [learn(name, task, rate, seed, clip) for seed in SEEDS]
    for key, column in zip(("validation", "test", "seconds"), zip(*found, strict=True), strict=True):
        entry[key] = [*column]
    print(name, task, rate, clip, entry["test"], entry["seconds"], flush=True)
    return entry


def main():
    """Measure everything, and put each entry into the log as soon as it is done."""
    log = {"what": "share of right answers at positions 0 to 9, 10 to 19, … of 2,000 test lists of 80 tokens"}
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log |= {"hardware": HARDWARE, "seeds": SEEDS, "search seed": SEARCH_SEED, "rates": RATES, "clips": CLIPS}
    log["lengths"] = LENGTHS
    log["parameters"] = {name: sum(p.numel() for p in make(name, 8).parameters()) for name in NAMES}
    log["runs"] = []
    for task in TASKS:
        for name in NAMES:
            log["runs"].append(chosen(name, task))
            LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
