"""What else could explain chapter 04's number? Other scores, rates and lengths of training, on its dates.

    python controls.py

writes controls.json beside this file. Every run trains the model of chapter 03 (48 / 96, batches of 64 with
pool=6) with another score in its decoder, and counts the right dates of 300 as the chapter does. Weights are
drawn in double precision, so that seed 0 of the chapter's own settings is the chapter's run. On one core it
takes about half an hour; a run that is in the log already is not repeated. The scores:

    additive         that of chapter 03
    plain, scaled    a dot product of two projections
    slow             plain, and an update of Adam moves the projections by an eighth, as if they alone had an
                     eighth of the rate
    cosine           of the two projections, times a factor that is learned and begins at 10
"""

import json
import platform
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import heed
from heed.alignment import AttentionSeq2Seq
from heed.data import batches, dates, pad
from heed.evaluate import exact_match
from heed.recurrent import free_run
from heed.scores import AdditiveScore, DotScore, ScaledDotScore
from heed.text import Characters, Vocabulary
from heed.train import sequence_loss, train

SEEDS = (0, 1, 2)
RATE = 4e-3
HARDWARE = "one thread of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_name("controls.json")
D_Q, D_K = 96, 2 * 96


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


class CosineScore(DotScore):
    """The cosine of the two projections, times one learned factor."""

    def __init__(self, d_q, d_k, d_hidden):
        super().__init__(d_q, d_k, d_hidden)
        self.factor = nn.Parameter(torch.tensor(10.0))

    def compare(self, q, projected):
        q, k = F.normalize(self.V(q), dim=-1), F.normalize(projected, dim=-1)
        return self.factor * q @ k.mT


SCORES = {
    "additive": AdditiveScore,
    "plain": DotScore,
    "scaled": ScaledDotScore,
    "slow": SlowScore,
    "cosine": CosineScore,
}
RUNS = [  # score, width, rate, updates
    ("additive", 96, RATE, 200),
    ("additive", 512, RATE, 200),
    ("plain", 8, RATE, 200),
    ("plain", 512, RATE, 200),
    ("scaled", 512, RATE, 200),
    ("slow", 512, RATE, 200),
    ("cosine", 512, RATE, 200),
    ("plain", 512, RATE / 4, 800),
    ("plain", 512, RATE, 1000),
]


def learn(kind, width, rate, updates, seed):
    """Train one model, and count the dates that it writes right."""
    torch.manual_seed(seed)
    model = AttentionSeq2Seq(len(sources), len(targets), d_embed=48, d_hidden=96)
    model.decoder.score = SCORES[kind](D_Q, D_K, width)
    began = time.process_time()
    losses = train(model, batches(encoded, 64, seed, pool=6), sequence_loss, updates, rate, seed=seed)
    written = ["".join(targets.decode(row)) for row in free_run(model, ids, n_max=12)]
    return {
        "score": kind, "width": width, "rate": rate, "updates": updates, "seed": seed,
        "exact": round(exact_match(written, wanted), 4), "loss": round(sum(losses[-10:]) / 10, 4),
        "seconds": round(time.process_time() - began),
    }  # fmt: skip


def main():
    """Make the runs that the log lacks, and put each into it as soon as it is done."""
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {"runs": []}
    log["what"] = f"exact match on {len(wanted)} unseen dates; seconds of the processor"
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log["hardware"] = HARDWARE
    log["seeds"] = SEEDS
    done = {(r["score"], r["width"], r["rate"], r["updates"], r["seed"]) for r in log["runs"]}
    for settings in RUNS:
        for seed in SEEDS:
            if (*settings, seed) not in done:
                log["runs"].append(learn(*settings, seed))
                LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
                print(*settings, seed, log["runs"][-1]["exact"], log["runs"][-1]["seconds"], flush=True)


torch.set_default_dtype(torch.float64)  # before the weights are drawn, as in the chapter
train_set, test_set = dates(8000, "train"), dates(300, "test")
sources = Characters.build(pair.source for pair in train_set)
targets = Vocabulary.build(pair.target for pair in train_set)
encoded = [(sources.encode(p.source), targets.encode(p.target, bos=True, eos=True)) for p in train_set]
ids, wanted = pad([sources.encode(p.source) for p in test_set]), [p.target for p in test_set]

if __name__ == "__main__":
    main()
