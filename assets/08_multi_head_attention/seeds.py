"""The models of chapter 08 with five seeds each: its Conditions and its laboratory quote them.

    python seeds.py

writes seeds.json beside this file, in some minutes on one core. First weights, batches and updates are the
chapter's, so the first seed gives the chapter's own numbers, up to rounding.

    one, two, four  that many heads, on lists of twelve digits with two marks; their weights on A and on B
    wrong           two heads, cut by a view alone; also on lists of other lengths, and on lists of thirteen
                    with and without a mark on the token that is torn between the heads
    near            every token says the digit before it and the marked digit: one, two, four heads, pruned
    knowing         one head whose keys and values are digit plus mark, on the same lists
    patient         one head for the digit before and the marked one, ten times as many updates at 0.003

All shares are of unseen lists: at A, at B, both; for `near` they are of tokens: before, marked, both.
"""

import json
import platform
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import heed
from heed.attention import MultiHeadAttention, record
from heed.tasks import endless, marks
from heed.train import train

SEEDS = (0, 1, 2, 3, 4)
D, LENGTHS = 32, (11, 12, 13, 24)
HARDWARE = "1 core of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_name("seeds.json")


class WrongView(MultiHeadAttention):
    """Heads that are cut by a view alone."""

    def wrong(self, x):
        """Cut the list in halves instead of each token (b, h, n, d_k)."""
        b, n, d_model = x.shape
        return x.view(b, self.n_heads, n, d_model // self.n_heads)

    def queries(self, q, start):
        return self.wrong(self.W_q(q))

    def keys_values(self, k, v, start):
        return self.wrong(self.W_k(k)), self.wrong(self.W_v(v))


class Reader(nn.Module):
    """One learned query asks; two linear read-outs say the digits at A and at B."""

    def __init__(self, layer):
        super().__init__()
        self.flags, self.digits = nn.Embedding(3, D), nn.Embedding(10, D)
        self.query = nn.Parameter(0.1 * torch.randn(D))
        self.layer = layer
        self.read_out = nn.Linear(D, 2 * 10)

    def forward(self, batch):
        q = self.query.expand(len(batch.digits), 1, -1)
        y = self.layer(q, self.flags(batch.flags), self.digits(batch.digits))
        return self.read_out(y).view(-1, 2, 10)


class Knowing(Reader):
    """A Reader whose keys and values know digit and mark."""

    def forward(self, batch):
        q = self.query.expand(len(batch.digits), 1, -1)
        x = self.flags(batch.flags) + self.digits(batch.digits)
        return self.read_out(self.layer(q, x, x)).view(-1, 2, 10)


class Tagger(nn.Module):
    """Every token but the first says the digit before it, and the marked one."""

    def __init__(self, n_heads):
        super().__init__()
        self.digits, self.flags, self.positions = (nn.Embedding(n, D) for n in (10, 2, 12))
        self.layer = MultiHeadAttention(D, n_heads)
        self.read_out = nn.Linear(D, 2 * 10)

    def forward(self, batch):
        x = self.digits(batch.digits) + self.flags(batch.flags) + self.positions.weight
        return self.read_out(self.layer(x, x, x)[:, 1:]).unflatten(-1, (2, 10))


def wanted(model, batch):
    """The answers: (b, 2) of a Reader, (b, 11, 2) of a Tagger."""
    if isinstance(model, Reader):
        return batch.answers
    before = batch.digits[:, :-1]
    return torch.stack([before, batch.answers.expand_as(before)], dim=-1)


def loss(model, batch):
    """The mean loss per answer."""
    return F.cross_entropy(model(batch).flatten(0, -2), wanted(model, batch).flatten())


def read(layer, seed, *sizes, kind=Reader):
    """A Reader, trained as the chapter trains it."""
    torch.manual_seed(seed)
    model = kind(layer(D, *sizes))
    train(model, endless(marks, 64, 12, 2, seed=seed), loss, 600, rate=5e-3)
    return model


def tag(n_heads, seed, updates=300, rate=1e-2):
    """A Tagger, trained as the chapter trains it."""
    torch.manual_seed(seed)
    model = Tagger(n_heads)
    train(model, endless(marks, 32, 12, 1, seed=0), loss, updates, rate)
    return model


def unseen(n_lists, n, n_marks):
    """The lists of the test."""
    return marks(n_lists, n, n_marks, torch.Generator().manual_seed(1))


@torch.no_grad()
def score(model, batch):
    """The shares of right answers: the first, the second, both."""
    right = model(batch).argmax(dim=-1) == wanted(model, batch)
    return rounded([*right.double().flatten(0, -2).mean(dim=0), right.all(dim=-1).double().mean()])


@torch.no_grad()
def score_without(model, heads, batch):
    """The same shares without these heads, counted from 0."""
    W_o, d_k = model.layer.W_o.weight, D // model.layer.n_heads
    whole = W_o.clone()
    for i in heads:
        W_o[:, d_k * i : d_k * (i + 1)] = 0
    shares = score(model, batch)
    W_o.copy_(whole)
    return shares


def rounded(numbers):
    return [round(float(number), 4) for number in numbers]


@torch.no_grad()
def weights(model, batch):
    """The weights of every head (b, h, n_q, n_k)."""
    with record(model) as maps:
        model(batch)
    return maps["layer.weights"][0]


def looked(model, batch):
    """For every head its mean weights on A and on B."""
    rows = weights(model, batch)[:, :, 0]  # (b, h, n)
    at = ((rows * (batch.flags == mark)[:, None]).sum(dim=-1).mean(dim=0) for mark in (1, 2))
    return [rounded(pair) for pair in zip(*at, strict=True)]


def of_marks(seed):
    """The entry of one seed for the lists with two marks."""
    lists = {n: unseen(4000, n, 2) for n in LENGTHS}
    entry = {}
    for name, n_heads in (("one", 1), ("two", 2), ("four", 4)):
        model = read(MultiHeadAttention, seed, n_heads)
        entry[name] = {"shares": score(model, lists[12]), "looks": looked(model, lists[12])}
        entry[name]["thirteen"] = score(model, lists[13])
    entry["four"]["without"] = {
        "".join(str(i + 1) for i in heads): score_without(model, heads, lists[12])
        for heads in ((0,), (1,), (2,), (3,), *(sides(entry["four"]["looks"])))
    }
    wrong, torn = read(WrongView, seed, 2), lists[13].flags[:, 6]
    entry["wrong"] = {str(n): score(wrong, batch) for n, batch in lists.items()}
    for name, rows in (("torn", torn > 0), ("whole", torn == 0)):
        entry["wrong"][name] = score(wrong, type(lists[13])(*(part[rows] for part in lists[13])))
    return entry


def sides(looks):
    """The heads that look at A more than at B, and the others."""
    at_A = tuple(i for i, (a, b) in enumerate(looks) if a > b)
    return at_A, tuple(i for i in range(len(looks)) if i not in at_A)


def of_near(seed):
    """The entry of one seed for the digit before and the marked one."""
    lists, entry = unseen(500, 12, 1), {}
    for n_heads in (1, 2, 4):
        model = tag(n_heads, seed)
        entry[str(n_heads)] = score(model, lists)
    rows = weights(model, lists)  # (b, 4, 12, 12)
    near = rows.diagonal(-1, 2, 3).mean(dim=(0, 2))
    far = (rows[:, :, 1:] * lists.flags[:, None, None]).sum(dim=-1).mean(dim=(0, 2))
    entry["near"], entry["far"] = rounded(near), rounded(far)
    entry["without"] = [score_without(model, [i], lists) for i in range(4)]
    for name, row in (("near", near), ("far", far)):
        entry[f"without any {name}"] = score_without(model, [i for i in range(4) if row[i] > 0.4], lists)
    return entry


def main():
    """Measure everything, seed by seed, and write the log."""
    log = {
        "what": "shares of right answers in unseen lists, for each seed",
        "versions": {
            "heed": heed.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "hardware": HARDWARE,
        "seeds": SEEDS,
    }
    for part, measure in (("marks", of_marks), ("near", of_near)):
        log[part] = []
        for seed in SEEDS:
            log[part].append(measure(seed))
            print(part, seed, log[part][-1], flush=True)
    tests = unseen(500, 12, 1), unseen(4000, 12, 2)
    log["longer"] = [score(tag(1, seed, 900), tests[0]) for seed in SEEDS[:3]]
    log["patient"] = [score(tag(1, seed, 3000, 3e-3), tests[0]) for seed in SEEDS[:3]]
    one_head = [read(MultiHeadAttention, seed, 1, kind=Knowing) for seed in SEEDS]
    log["knowing"] = [score(model, tests[1]) for model in one_head]
    LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    main()
