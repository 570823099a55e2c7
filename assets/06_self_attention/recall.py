"""Which layer finds a pair far back? Recurrence, convolution and self-attention on the task of chapter 06.

    python recall.py

writes recall.json beside this file. On one core it takes about an hour and a half; `python recall.py pairs`
(or `last`, `first`, `patience`, `why`, `unasked`, `kept`) measures one part alone, with three seeds. In the
first two parts and in `kept` each model is trained with each of the learning rates; the rate with the highest
mean accuracy on validation lists is taken, and its accuracy on test lists is logged.

    pairs       lists of 2 to 32 pairs, the question last; 1,000 updates
    last        32 pairs, and the right answer is the digit of the latest pair, whatever the name; 300 updates
    first       8 pairs, the question before them or after them; 3,000 updates, at the rate of 0.008
    patience    4 pairs, the question last; 10,000 updates, at the rate of 0.008
    why         ablations of self-attention (8 pairs, 1,000 updates, 0.004), and convolutions that multiply
                beside those that do not (4 pairs, 3,000 updates, 0.002)
    unasked     32 pairs; eight of the names are never asked for in training, and only these are asked for in
                the test; 300 or 1,500 updates, at the rate of 0.004
    kept        one query for all lists beside a query from the question; in both a hidden layer gets the
                question's own vector beside the mixture (8 pairs, 1,000 updates)

The models differ in one layer only; all read out their answer at the last token:

    self-attention      one head, 64 wide, no residual connection, no positions, no mask
    GRU                 one layer, 64 wide
    convolutions        three causal layers of width 3, ReLU, residual connections: the last token sees seven
    dilated             five such layers, dilations 1, 2, 4, 8, 16: the last token sees all
    one query           self-attention whose query is one learned vector, the same for every token and list
    kept, one query     the same, and then a hidden layer that sees the mixture and the question
    kept, own query     self-attention with such a hidden layer
    tied                self-attention whose query and key have one matrix
    tied, hidden        the same, where no token sees itself
    anew                self-attention, and the names' vectors are drawn anew for each update
    anew, tied, hidden  all of this
    own matrices        self-attention with another key matrix and another value matrix at every position
    multiplying         three dilated layers, 1, 2, 4, each of which adds the product of two convolutions
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
from heed.tasks import endless, recall
from heed.train import train

SEEDS = (0, 1, 2)
RATES = (1e-3, 2e-3, 4e-3, 8e-3)
PAIRS = (2, 4, 8, 16, 32)
BATCH, D = 32, 64
ASKED = 24  # in `unasked` only the first so many names are asked for in training
HARDWARE = "1 core of an x86-64 server processor, shared with other work; float32"
LOG = Path(__file__).with_name("recall.json")


class SelfAttention(nn.Module):
    """The layer of the chapter, in torch's kernel."""

    def __init__(self):
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Linear(D, D, bias=False) for _ in range(3))

    def forward(self, x):
        return F.scaled_dot_product_attention(self.W_q(x), self.W_k(x), self.W_v(x))


class Recurrence(nn.Module):
    """A GRU that returns its states."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(D, D, batch_first=True)

    def forward(self, x):
        return self.gru(x)[0]


class Convolution(nn.Module):
    """Each token sees itself and two before it, `dilation` apart."""

    def __init__(self, dilation=1):
        super().__init__()
        self.conv = nn.Conv1d(D, D, kernel_size=3, dilation=dilation)
        self.reach = 2 * dilation

    def forward(self, x):
        before = F.pad(x.transpose(-2, -1), (self.reach, 0))
        return x + torch.relu(self.conv(before)).transpose(-2, -1)


class OneQuery(SelfAttention):
    """Nothing is compared: every token asks with the same learned vector."""

    def __init__(self):
        super().__init__()
        self.query = nn.Parameter(torch.randn(D))

    def forward(self, x):
        q = self.query.expand(len(x), 1, D)
        return F.scaled_dot_product_attention(q, self.W_k(x), self.W_v(x))


class Tied(SelfAttention):
    """Query and key are one projection; a hidden token does not see itself."""

    def __init__(self, hidden=False):
        super().__init__()
        self.W_q = self.W_k
        self.hidden = hidden

    def forward(self, x):
        k = self.W_k(x)
        others = ~torch.eye(x.shape[1], dtype=torch.bool) if self.hidden else None
        return F.scaled_dot_product_attention(k, k, self.W_v(x), others)


class Kept(nn.Module):
    """A mixture, and beside it the question itself, go through a hidden layer."""

    def __init__(self, mixing):
        super().__init__()
        self.mixing = mixing
        self.hidden = nn.Sequential(nn.Linear(2 * D, 4 * D), nn.ReLU(), nn.Linear(4 * D, D))

    def forward(self, x):
        both = torch.cat([self.mixing(x)[:, -1:], x[:, -1:]], dim=-1)
        return self.hidden(both)


class OwnMatrices(SelfAttention):
    """Nothing is shared between positions but the query matrix."""

    def __init__(self, n=9):
        super().__init__()
        bound = D**-0.5
        self.keys, self.values = (
            nn.Parameter(torch.empty(n, D, D).uniform_(-bound, bound)) for _ in range(2)
        )

    def forward(self, x):
        k, v = (torch.einsum("bnd,nde->bne", x, W) for W in (self.keys, self.values))
        return F.scaled_dot_product_attention(self.W_q(x), k, v)


class Multiplying(Convolution):
    """A convolution that adds the product of two mixtures, entry by entry."""

    def __init__(self, dilation=1):
        super().__init__(dilation)
        self.other = nn.Conv1d(D, D, kernel_size=3, dilation=dilation)

    def forward(self, x):
        before = F.pad(x.transpose(-2, -1), (self.reach, 0))
        return x + (self.conv(before) * self.other(before)).transpose(-2, -1)


LAYERS = {
    "self-attention": SelfAttention,
    "GRU": Recurrence,
    "convolutions": lambda: nn.Sequential(*(Convolution() for _ in range(3))),
    "dilated": lambda: nn.Sequential(*(Convolution(2**i) for i in range(5))),
}

ABLATIONS = {
    "one query": OneQuery,
    "own matrices": OwnMatrices,
    "tied": Tied,
    "tied, hidden": lambda: Tied(hidden=True),
    "anew": SelfAttention,
    "anew, tied, hidden": lambda: Tied(hidden=True),
    "kept, one query": lambda: Kept(OneQuery()),
    "kept, own query": lambda: Kept(SelfAttention()),
    "multiplying": lambda: nn.Sequential(*(Multiplying(2**i) for i in range(3))),
}


class Recaller(nn.Module):
    """Embed names and digits, apply the layer, read the answer out at the last token."""

    def __init__(self, layer):
        super().__init__()
        self.names, self.digits = nn.Embedding(32, D), nn.Embedding(11, D)
        self.layer, self.read_out = layer, nn.Linear(D, 10)

    def forward(self, tokens):
        names, digits = tokens.unbind(-1)
        y = self.layer(self.names(names) + self.digits(digits))
        return self.read_out(y[:, -1])


def make(name):
    """A fresh model of this name."""
    model = Recaller((LAYERS | ABLATIONS)[name]())
    model.names.requires_grad_(not name.startswith("anew"))
    return model


def turned(batch, task):
    """The batch as this task has it; where some names are not asked for, as it is tested."""
    tokens, answers, distances = batch
    if task == "unasked":
        rows = tokens[:, -1, 0] >= ASKED
        tokens, answers, distances = tokens[rows], answers[rows], distances[rows]
    if task == "first":
        tokens = tokens.roll(1, dims=1)
    if task == "last":
        answers = tokens[:, -2, 1]
    return tokens, answers, distances


def learn(name, task, n_pairs, rate, seed, updates):
    """Train one model. Returns its accuracy on validation and on test lists, by distance, and the seconds."""

    def loss(model, batch):
        tokens, answers, _ = turned(batch, task)
        if task == "unasked":
            rows = batch.tokens[:, -1, 0] < ASKED
            tokens, answers = batch.tokens[rows], batch.answers[rows]
        if not model.names.weight.requires_grad:
            model.names.weight.normal_()
        return F.cross_entropy(model(tokens), answers)

    torch.manual_seed(seed)
    model, began = make(name), time.monotonic()
    try:
        size = BATCH * 4 // 3 if task == "unasked" else BATCH  # a quarter of it is left out
        train(model, endless(recall, size, n_pairs, seed=seed), loss, updates, rate)
    except ValueError:  # the loss is no longer a number
        return 0.0, 0.0, {}, 0.0
    seconds, right = time.monotonic() - began, []
    for held_out in (1000, 1001):
        batch = recall(4000, n_pairs, torch.Generator().manual_seed(held_out))
        tokens, answers, distances = turned(batch, task)
        with torch.no_grad():
            right.append((model(tokens).argmax(-1) == answers).double())
    near = {}
    for low in (2**i for i in range(6)):
        chosen = (distances >= low) & (distances < 2 * low)
        if chosen.any():
            near[str(low)] = round(right[1][chosen].mean().item(), 4)
    return *(round(r.mean().item(), 4) for r in right), near, round(seconds, 2)


def best(name, task, n_pairs, rates, updates):
    """The entry of the rate with the highest mean accuracy on the validation lists."""
    entries = []
    for rate in rates:
        runs = [learn(name, task, n_pairs, rate, seed, updates) for seed in SEEDS]
        entry = {"model": name, "task": task, "pairs": n_pairs, "updates": updates, "rate": rate}
        for key, column in zip(
            ("validation", "test", "by distance", "seconds"), zip(*runs, strict=True), strict=True
        ):
            entry[key] = [*column]
        entries.append(entry)
        print(name, task, n_pairs, updates, rate, entry["test"], entry["seconds"], flush=True)
    chosen = max(entries, key=lambda entry: sum(entry["validation"]))
    chosen["all rates"] = {str(entry["rate"]): entry["validation"] for entry in entries}
    return chosen


def main(parts):
    """Measure these parts, and put each entry into the log as soon as it is done."""
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {}
    log["what"] = (
        "share of 4,000 test lists whose digit is said, for each seed; by distance: from 2^i to 2^(i+1) - 1"
    )
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log |= {"hardware": HARDWARE, "seeds": SEEDS, "rates": RATES, "batch": BATCH}
    log["parameters"] = {name: sum(p.numel() for p in make(name).parameters()) for name in LAYERS}
    for part in parts:
        log[part] = []
        for job in JOBS[part]:
            log[part].append(best(*job))
            LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


JOBS = {  # part -> (model, task, pairs, rates, updates)
    "pairs": [(name, "pairs", n, RATES, 1000) for name in LAYERS for n in PAIRS],
    "last": [(name, "last", 32, RATES, 300) for name in LAYERS],
    "first": [
        (name, task, 8, (8e-3,), 3000) for task in ("first", "pairs") for name in ("GRU", "self-attention")
    ],
    "patience": [(name, "pairs", 4, (8e-3,), 10000) for name in LAYERS],
    "why": [(name, "pairs", 8, (4e-3,), 1000) for name in ("one query", "own matrices")]
    + [(name, "pairs", 4, (2e-3,), 3000) for name in ("multiplying", "dilated")],
    "unasked": [("self-attention", "unasked", 32, (4e-3,), updates) for updates in (300, 1500)]
    + [
        (name, "unasked", 32, (4e-3,), 300) for name in ("tied", "tied, hidden", "anew", "anew, tied, hidden")
    ],
    "kept": [(name, "pairs", 8, RATES, 1000) for name in ("kept, one query", "kept, own query")],
}


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:] or [*JOBS])
