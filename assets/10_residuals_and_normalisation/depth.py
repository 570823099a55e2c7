"""Which stacks of feed-forward layers can say back their own token? The log of chapter 10.

    python depth.py

writes depth.json beside this file; on one core it takes forty minutes, and `python depth.py rates` (or
`warmup`, `start`, `large`, `large_warm`, `fewer`, `longer`) measures one part alone. Three seeds each,
float64, no dropout. There are ten tokens, and every update sees all ten; what is logged is how many the
trained model says back.

    rates       fifty layers, five kinds of stack; 200 updates, the rate falls to 0
    warmup      the same with 50 updates of warm-up, post-norm, three rates
    start       the same without warm-up, other initialisations, three rates
    large       the same with first weights three times as large, five kinds, three rates
    large_warm  the same with 50 updates of warm-up, three kinds, three rates
    fewer       5 to 20 layers
    longer      norm alone and bare, 1,000 updates, two rates

All rates are logged. The kinds differ in nothing but their connections; a norm has 2 * 32 parameters, a
feed-forward layer 4,192.

All runs of one row are trained at once: `vmap` runs one model with several sets of parameters. The updates
are those of `heed.train.train` (Adam, gradient clipped to norm 1, the rate falls in a straight line).
"""

import json
import platform
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

import heed
from heed.layers import LayerNorm, PositionwiseFeedForward, PostNormConnection, SublayerConnection

SEEDS = (0, 1, 2)
RATES = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
TOKENS, D, D_FF = 10, 32, 64
HARDWARE = "1 core of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_name("depth.json")


class Residual(nn.Module):
    """The residual alone: y = x + F(x)."""

    def forward(self, x, sublayer):
        return x + sublayer(x)


class Norm(nn.Module):
    """The norm alone, after the sublayer: y = LN(F(x))."""

    def __init__(self):
        super().__init__()
        self.norm = LayerNorm(D)

    def forward(self, x, sublayer):
        return self.norm(sublayer(x))


class Bare(nn.Module):
    """Neither: y = F(x)."""

    def forward(self, x, sublayer):
        return sublayer(x)


KINDS = {
    "bare": Bare,
    "norm alone": Norm,
    "residual alone": Residual,
    "post-norm": lambda: PostNormConnection(D, 0.0),
    "pre-norm": lambda: SublayerConnection(D, 0.0),
}
LAST = {"residual, last norm": Residual}  # a control: the norm at the end alone


class Layer(nn.Module):
    """A feed-forward layer in its connection."""

    def __init__(self, kind):
        super().__init__()
        self.feed_forward = PositionwiseFeedForward(D, D_FF, 0.0)
        self.connection = (KINDS | LAST)[kind]()

    def forward(self, x):
        return self.connection(x, self.feed_forward)


class Repeater(nn.Module):
    """Embed the tokens, apply the layers, and say which token it was; pre-norm has one norm more."""

    def __init__(self, kind, depth):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, D)
        last = [LayerNorm(D)] if kind in ("pre-norm", *LAST) else []
        self.layers = nn.Sequential(*(Layer(kind) for _ in range(depth)), *last)
        self.read_out = nn.Linear(D, TOKENS)

    def forward(self, ids):
        return self.read_out(self.layers(self.embedding(ids)))


def torchs(linear, gain):
    """What `nn.Linear` does by itself."""


def xavier(linear, gain):
    """Uniform, with variance 2 / (fan-in + fan-out); no bias."""
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)


def careful(linear, gain):
    """Normal, with variance gain / fan-in, gain 2 after which ReLU halves and 1 elsewhere; no bias."""
    nn.init.normal_(linear.weight, std=(gain / linear.in_features) ** 0.5)
    nn.init.zeros_(linear.bias)


def large(linear, gain):
    """Three times the weights that `nn.Linear` has drawn."""
    with torch.no_grad():
        linear.weight.mul_(3)


STARTS = {"torch's": torchs, "Xavier": xavier, "careful": careful, "large": large}


def make(kind, depth, start="torch's"):
    """A fresh model."""
    model = Repeater(kind, depth)
    for module in model.modules():
        if isinstance(module, PositionwiseFeedForward):
            STARTS[start](module.W_1, 2)
            STARTS[start](module.W_2, 1)
    return model.eval()


def schedule(step, n_steps, warmup=0):
    """The share of the rate in this update: up in a straight line, then down to zero."""
    up = (step + 1) / warmup if step < warmup else 1.0
    return min(up, (n_steps - step) / (n_steps - warmup))


def learn(kind, depth, runs, start="torch's", n_steps=200, warmup=0, betas=(0.9, 0.999)):
    """Train one model for each (rate, seed), all at once. Returns how many tokens each says back."""
    models = []
    for _, seed in runs:
        torch.manual_seed(seed)
        models.append(make(kind, depth, start))
    names, shapes = zip(*((name, p.shape) for name, p in models[0].named_parameters()), strict=True)
    sizes = [shape.numel() for shape in shapes]
    theta = torch.stack([torch.cat([p.detach().flatten() for p in m.parameters()]) for m in models])
    ids, rates = torch.arange(TOKENS), torch.tensor([rate for rate, _ in runs])[:, None]

    def say(row):
        parts = (p.view(shape) for p, shape in zip(row.split(sizes), shapes, strict=True))
        return functional_call(models[0], dict(zip(names, parts, strict=True)), (ids,))

    slope = vmap(grad(lambda row: F.cross_entropy(say(row), ids)))
    first, second = torch.zeros_like(theta), torch.zeros_like(theta)
    for step in range(n_steps):
        g = slope(theta)
        g = g * (1 / (g.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1)
        first.lerp_(g, 1 - betas[0])
        second.lerp_(g.square(), 1 - betas[1])
        rate = rates * schedule(step, n_steps, warmup) / (1 - betas[0] ** (step + 1))
        scale = (second / (1 - betas[1] ** (step + 1))).sqrt() + 1e-8
        theta = theta - rate * first / scale
    with torch.no_grad():
        return (vmap(say)(theta).argmax(-1) == ids).sum(-1).tolist()


def rows(rates=RATES, **setting):
    """One entry a setting: how many of the ten tokens are said back, by rate, for each seed."""
    began = time.monotonic()
    runs = [(rate, seed) for rate in rates for seed in SEEDS]
    given = {key: value for key, value in setting.items() if key != "part"}
    counts = learn(runs=runs, **given)
    by_rate = {str(rate): counts[i * len(SEEDS) : (i + 1) * len(SEEDS)] for i, rate in enumerate(rates)}
    entry = given | {"by rate": by_rate, "seconds": round(time.monotonic() - began, 1)}
    print(entry, flush=True)
    return entry


FEW = (1e-4, 1e-3, 1e-2)
JOBS = {
    "rates": [{"kind": kind, "depth": 50} for kind in KINDS],
    "warmup": [{"kind": "post-norm", "depth": 50, "warmup": 50, "rates": (3e-3, 1e-2, 3e-2)}],
    "start": [{"kind": kind, "depth": 50, "start": "Xavier", "rates": FEW} for kind in KINDS]
    + [{"kind": kind, "depth": 50, "start": "careful", "rates": FEW} for kind in ("bare", "residual alone")],
    "large": [
        {"kind": kind, "depth": 50, "start": "large", "rates": FEW}
        for kind in ("residual alone", *LAST, "post-norm", "pre-norm", "norm alone")
    ],
    "large_warm": [
        {"kind": kind, "depth": 50, "start": "large", "warmup": 50, "rates": FEW}
        for kind in ("residual alone", *LAST, "post-norm")
    ],
    "fewer": [{"kind": "bare", "depth": depth} for depth in (5, 10, 20)]
    + [{"kind": "norm alone", "depth": 20}],
    "longer": [
        {"kind": kind, "depth": depth, "n_steps": 1000, "rates": RATES[:2]}
        for kind, depth in (("norm alone", 50), ("bare", 20))
    ],
}


def main(parts):
    """Measure these parts, and put each entry into the log as soon as it is done."""
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {}
    log["what"] = "how many of the ten tokens a model says back after training, by rate, for each seed"
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log |= {"hardware": HARDWARE, "seeds": SEEDS, "rates": RATES}
    log["parameters"] = {k: sum(p.numel() for p in make(k, 50).parameters()) for k in KINDS}
    for part in parts:
        entries = log.setdefault("parts", {})[part] = []
        for job in JOBS[part]:
            entries.append(rows(**job))
            LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    main(sys.argv[1:] or [*JOBS])
