"""How many heads? The same width and the same parameters, cut into 1 to 32 heads, on the tasks of chapter 08.

    python heads.py

writes heads.json beside this file, in about half an hour on one core; `python heads.py marks` (or another
part) measures one part alone, with three seeds. Every entry is trained with each of the learning rates; the
rate with the highest mean accuracy on validation lists is taken, and its accuracy on test lists is logged.

    marks     12 digits, of which 2 or 4 are marked: say all marked digits
    recall    12 pairs of one of 32 names and a digit, then one of the names: say its digit (chapter 06)
    wide      2 marks, one head in a layer four times as wide, which has fifteen times as many parameters
    longer    recall with the narrowest heads, 3,000 updates instead of 600, at the rate of 0.01
    apart     recall with 32 heads whose keys or values are wider than one number, at the rate of 0.01
    full      heads as wide as the model, whose joined output W^O reduces: recall with 32 heads, 4 marks with
              2 heads; and a control, 32 heads that share a model five times as wide, with fewer parameters

In all parts one query is asked, an update takes 64 lists, and the read-out is linear. In `marks` the
query is a learned vector, the keys are made of the marks alone and the values of the digits alone.
"""

import json
import platform
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import heed
from heed.attention import MultiHeadAttention, attention, merge_heads, split_heads
from heed.tasks import endless, marks, recall
from heed.train import train

SEEDS = (0, 1, 2)
RATES = (2.5e-3, 5e-3, 1e-2, 2e-2, 4e-2)
HEADS = (1, 2, 4, 8, 16, 32)
D, WIDE, WIDER, BATCH, UPDATES, N = 32, 128, 160, 64, 600, 12
LONGER = 3000
HARDWARE = "1 core of an x86-64 server processor, shared with other work; float32"
LOG = Path(__file__).with_name("heads.json")


class Apart(nn.Module):
    """Heads whose queries and keys have one width, and whose values have another."""

    def __init__(self, d, n_heads, d_k, d_v):
        super().__init__()
        self.n_heads = n_heads
        self.W_q, self.W_k = (nn.Linear(d, n_heads * d_k) for _ in range(2))
        self.W_v, self.W_o = nn.Linear(d, n_heads * d_v), nn.Linear(n_heads * d_v, d)

    def forward(self, q, k, v):
        q, k, v = (split_heads(x, self.n_heads) for x in (self.W_q(q), self.W_k(k), self.W_v(v)))
        return self.W_o(merge_heads(attention(q, k, v)[0]))


class Reader(nn.Module):
    """Ask with one learned query; read every marked digit from what comes back."""

    def __init__(self, n_marks, n_heads, d):
        super().__init__()
        self.flags, self.digits = nn.Embedding(1 + n_marks, d), nn.Embedding(10, d)
        self.query = nn.Parameter(0.1 * torch.randn(d))
        self.attention = MultiHeadAttention(d, n_heads)
        self.read_out = nn.Linear(d, 10 * n_marks)

    def forward(self, batch):
        q = self.query.expand(len(batch.digits), 1, -1)
        z = self.attention(q, self.flags(batch.flags), self.digits(batch.digits))
        return self.read_out(z[:, 0]).unflatten(-1, (-1, 10))


class Recaller(nn.Module):
    """The last token asks; its answer is read from what comes back."""

    def __init__(self, n_heads, d):
        super().__init__()
        self.names, self.digits = nn.Embedding(32, d), nn.Embedding(11, d)
        self.attention = MultiHeadAttention(d, n_heads)
        self.read_out = nn.Linear(d, 10)

    def forward(self, batch):
        names, digits = batch.tokens.unbind(-1)
        x = self.names(names) + self.digits(digits)
        return self.read_out(self.attention(x[:, -1:], x, x)).view(-1, 1, 10)


def make(task, n, n_heads, d):
    """A fresh model."""
    return Recaller(n_heads, d) if task == "recall" else Reader(n, n_heads, d)


def fresh(task, n, seed):
    """Endless training lists."""
    if task == "recall":
        return endless(recall, BATCH, n, seed=seed)
    return endless(marks, BATCH, N, n, seed=seed)


def held_out(task, n, seed):
    """4,000 lists that no training has seen."""
    generator = torch.Generator().manual_seed(seed)
    return recall(4000, n, generator) if task == "recall" else marks(4000, N, n, generator)


def answers(batch):
    """The digits to be said (b, n_answers)."""
    return batch.answers.view(len(batch.answers), -1)


def loss(model, batch):
    """The mean loss per answer."""
    return F.cross_entropy(model(batch).flatten(0, 1), answers(batch).flatten())


def learn(task, n, n_heads, d, rate, seed, updates=UPDATES, widths=None):
    """Train one model, with widths (d_k, d_v) if they are given.

    Returns the share of validation and of test lists with no mistake, and the seconds.
    """
    torch.manual_seed(seed)
    model, began = make(task, n, n_heads, d), time.monotonic()
    if widths:
        model.attention = Apart(d, n_heads, *widths)
    train(model, fresh(task, n, seed), loss, updates, rate)
    seconds, shares = time.monotonic() - began, []
    for other in (1000, 1001):
        batch = held_out(task, n, other)
        with torch.no_grad():
            right = (model(batch).argmax(-1) == answers(batch)).all(-1)
        shares.append(round(right.double().mean().item(), 4))
    return *shares, round(seconds, 2)


def best(task, n, n_heads, d, rates=RATES, updates=UPDATES, widths=None):
    """The entry of the rate with the highest mean accuracy on the validation lists."""
    entries = []
    for rate in rates:
        runs = [learn(task, n, n_heads, d, rate, seed, updates, widths) for seed in SEEDS]
        entry = {"task": task, "n": n, "heads": n_heads, "d_model": d, "updates": updates}
        entry |= {"rate": rate} | ({"widths": widths} if widths else {})
        for key, column in zip(("validation", "test", "seconds"), zip(*runs, strict=True), strict=True):
            entry[key] = [*column]
        entries.append(entry)
        print(task, n, n_heads, d, rate, entry["test"], entry["seconds"], flush=True)
    chosen = max(entries, key=lambda entry: sum(entry["validation"]))
    return chosen | {"all rates": {str(entry["rate"]): entry["validation"] for entry in entries}}


def main(parts):
    """Measure these parts, and put each entry into the log as soon as it is done."""
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {}
    log["what"] = "share of 4,000 test lists without a mistake, for each seed, at the best of the rates"
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log |= {"hardware": HARDWARE, "seeds": SEEDS, "rates": RATES, "batch": BATCH}
    for part in parts:
        log[part] = []
        for job in JOBS[part]:
            log[part].append(best(*job))
            LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


JOBS = {  # part -> (task, number of marks or pairs, heads, width, rates, updates, widths)
    "marks": [("marks", n, h, D) for n in (2, 4) for h in HEADS],
    "recall": [("recall", 12, h, D) for h in HEADS],
    "wide": [("marks", 2, 1, WIDE)],
    "longer": [("recall", 12, h, D, (1e-2,), LONGER) for h in HEADS[-2:]],
    "apart": [("recall", 12, 32, D, (1e-2,), UPDATES, widths) for widths in ((1, 1), (4, 1), (1, 4))],
    "full": [
        ("recall", 12, 32, D, RATES, UPDATES, (D, D)),
        ("marks", 4, 2, D, RATES, UPDATES, (D, D)),
        ("recall", 12, 32, WIDER),
    ],
}


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:] or [*JOBS])
