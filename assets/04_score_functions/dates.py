"""The same model, another score: how many dates are right, and how far has the softmax saturated?

    python dates.py

writes dates.json beside this file. Every run trains the model of chapter 03 (48 / 96, batches of 64 with
pool=6, 200 updates) with another score in its decoder, three seeds each. On one core it takes about half an
hour; a run that is in the log already is not repeated. Initial weights are drawn in single precision and then
become double, so that a seed stands for other weights than in the chapter. The runs:

    widths    a dot product of two projections, plain and scaled, 8 to 512 wide, at the rate of chapter 03
    four      additive, plain and scaled, 64 wide, and bilinear: (nearly) the same number of parameters,
              at the rate of chapter 03, half of it and twice as much
    rates     plain and scaled, 512 wide, at other rates: the same for both
    starts    plain, 512 wide, both projections begun smaller by 512^(−1/4), as if the scores were scaled
              at the first step and never again
    others    plain, 512 wide, in which an update moves U and V by an eighth, as if they alone had an eighth
              of the rate; and a score 512 wide that is divided by 512 instead of its root

After every 25 updates: exact match on 300 unseen dates, written freely. And, with the right tokens given,
means over all steps: the standard deviation of a row's scores, the entropy of its weights in nats, the
largest weight, and the norm of the softmax's Jacobian. Of the bilinear score, the singular values of W before
and after training, and exact match when only the largest of them are kept.
"""

import json
import platform
import sys
import time
from pathlib import Path

import torch

import heed
from heed.alignment import AttentionSeq2Seq
from heed.attention import record
from heed.data import Batch, batches, dates, pad
from heed.evaluate import exact_match
from heed.recurrent import free_run
from heed.scores import AdditiveScore, BilinearScore, DotScore, ScaledDotScore
from heed.text import PAD, Characters, Vocabulary
from heed.train import sequence_loss, train

SEEDS = (0, 1, 2)
UPDATES, EVERY = 200, 25
RATE = 4e-3
WIDTHS = (8, 64, 512)
RATES = (1e-3, 2e-3, 8e-3)  # beside RATE
RANKS = (1, 2, 4, 8, 16, 32, 64, 96)
HARDWARE = "one thread of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_name("dates.json")
D_Q, D_K = 96, 2 * 96


class DividedScore(DotScore):
    """`DotScore`, divided by d_hidden and not by its root."""

    def compare(self, q, projected):
        return super().compare(q, projected) / projected.shape[-1]


class SlowScore(DotScore):
    """`DotScore` whose matrices are an eighth of its parameters: an update of Adam moves them by less."""

    def __init__(self, d_q, d_k, d_hidden):
        super().__init__(d_q, d_k, d_hidden)
        with torch.no_grad():
            for matrix in self.parameters():
                matrix.mul_(8)

    def project(self, k):
        return super().project(k) / 8

    def compare(self, q, projected):
        return super().compare(q, projected) / 8


SCORES = {
    "additive": lambda width: AdditiveScore(D_Q, D_K, width),
    "plain": lambda width: DotScore(D_Q, D_K, width),
    "scaled": lambda width: ScaledDotScore(D_Q, D_K, width),
    "bilinear": lambda width: BilinearScore(D_Q, D_K),
    "slow": lambda width: SlowScore(D_Q, D_K, width),
    "divided": lambda width: DividedScore(D_Q, D_K, width),
}
FOUR = "additive", "plain", "scaled", "bilinear"
GROUPS = {
    "widths": [(kind, width, RATE, 1.0) for width in WIDTHS for kind in ("plain", "scaled")],
    "four": [(kind, 64, rate, 1.0) for rate in (RATE, 2e-3, 8e-3) for kind in FOUR],
    "rates": [(kind, 512, rate, 1.0) for rate in RATES for kind in ("plain", "scaled")],
    "starts": [("plain", 512, RATE, 512**-0.25)],
    "others": [(kind, 512, RATE, 1.0) for kind in ("slow", "divided")],
}
RUNS = [run for group in GROUPS.values() for run in group]
FIRST = [("plain", 512), ("scaled", 512), ("plain", 8), ("scaled", 8), ("bilinear", 64), ("additive", 64)]
RUNS.sort(key=lambda run: run[:2] not in FIRST)  # what the chapter needs most comes first

train_set, test_set = dates(8000, "train"), dates(300, "test")
sources = Characters.build(pair.source for pair in train_set)
targets = Vocabulary.build(pair.target for pair in train_set)
encoded = [(sources.encode(p.source), targets.encode(p.target, bos=True, eos=True)) for p in train_set]
ids, wanted = pad([sources.encode(p.source) for p in test_set]), [p.target for p in test_set]
answers = pad([targets.encode(p.target, bos=True, eos=True) for p in test_set])
given = Batch(ids, answers)


def make(kind, width, start=1.0):
    """A fresh model with this score."""
    model = AttentionSeq2Seq(len(sources), len(targets), d_embed=48, d_hidden=96)
    model.decoder.score = SCORES[kind](width)
    model = model.double()
    if start != 1.0:
        with torch.no_grad():
            for matrix in model.decoder.score.parameters():
                matrix.mul_(start)
    return model


def saturation(model):
    """How far apart the scores are, and what the softmax makes of them: means over all steps."""
    seen = []
    hook = model.decoder.attention.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    with torch.no_grad(), record(model) as maps:
        model(given.source, given.target_in)
    hook.remove()
    real = (ids != PAD)[:, None]  # (b, 1, n_source)
    scores, weights = torch.cat(seen, dim=1), torch.cat(maps["decoder.attention"], dim=1)
    n = real.sum(-1)  # (b, 1)
    mean = (scores * real).sum(-1) / n  # (b, n_target)
    spread = (((scores - mean[..., None]) ** 2 * real).sum(-1) / n).sqrt()
    entropy = -torch.special.xlogy(weights, weights).sum(-1)
    # the Jacobian is diag(α) − ααᵀ; the square of its norm is Σ α_i² − 2 Σ α_i³ + (Σ α_i²)²
    square = weights.square().sum(-1)
    passes = (square - 2 * weights.pow(3).sum(-1) + square**2).clamp(min=0).sqrt()
    means = spread.mean(), entropy.mean(), weights.amax(-1).mean(), passes.mean()
    names = "spread", "entropy", "largest", "jacobian"
    return {name: float(f"{mean:.4g}") for name, mean in zip(names, means, strict=True)}


def learn(kind, width, rate, start, seed):
    """Train one model, and measure it after every 25 updates."""
    torch.manual_seed(seed)
    model = make(kind, width, start)
    run = {"score": kind, "width": width, "rate": rate, "start": start, "seed": seed}
    run["parameters"] = sum(p.numel() for p in model.decoder.score.parameters())
    if kind == "bilinear":
        first = torch.linalg.svdvals(model.decoder.score.W.weight.detach())
        run["singular values, before"] = [float(f"{value:.4g}") for value in first]
    columns = {"exact": [], "spread": [], "entropy": [], "largest": [], "jacobian": []}

    def watch(step):
        written = ["".join(targets.decode(row)) for row in free_run(model, ids, n_max=12)]
        columns["exact"].append(round(exact_match(written, wanted), 4))
        for name, mean in saturation(model).items():
            columns[name].append(mean)

    began = time.monotonic()
    stream = batches(encoded, 64, seed, pool=6)
    losses = train(model, stream, sequence_loss, UPDATES, rate, seed=seed, watch=watch, every=EVERY)
    run |= columns | {"loss": round(sum(losses[-10:]) / 10, 4), "seconds": round(time.monotonic() - began)}
    if kind == "bilinear":
        W = model.decoder.score.W.weight.detach()
        left, values, right = torch.linalg.svd(W, full_matrices=False)
        run["singular values"] = [float(f"{value:.4g}") for value in values]
        run["kept"] = {}
        for rank in RANKS:
            W.copy_(left[:, :rank] * values[:rank] @ right[:rank])
            written = ["".join(targets.decode(row)) for row in free_run(model, ids, n_max=12)]
            run["kept"][rank] = round(exact_match(written, wanted), 4)
    return run


def main():
    """Make the runs that the log lacks, and put each into it as soon as it is done."""
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {"runs": []}
    log["what"] = f"exact match on {len(test_set)} unseen dates and saturation, after every {EVERY} updates"
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log["hardware"] = HARDWARE
    log["seeds"] = SEEDS
    log["updates"] = list(range(0, UPDATES + 1, EVERY))
    done = {(r["score"], r["width"], r["rate"], r["start"], r["seed"]) for r in log["runs"]}
    for settings in dict.fromkeys(RUNS):
        for seed in SEEDS:
            if (*settings, seed) not in done:
                log["runs"].append(learn(*settings, seed))
                LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
                print(*settings, seed, log["runs"][-1]["exact"], log["runs"][-1]["seconds"], flush=True)


if __name__ == "__main__":
    sys.exit(main())
