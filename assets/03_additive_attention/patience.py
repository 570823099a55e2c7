"""How long must each model learn? Exact match on unseen dates during training, without and with attention.

    python patience.py

writes patience.json beside this file: three seeds, the same width and batches for both models, measured after
every 50 updates. On two cores it takes about six minutes.
"""

import json
import platform
import time
from pathlib import Path

import torch

import heed
from heed.alignment import AttentionSeq2Seq
from heed.data import batches, dates, pad
from heed.evaluate import exact_match
from heed.recurrent import Seq2Seq, free_run
from heed.text import Characters, Vocabulary
from heed.train import sequence_loss, train

SEEDS = (0, 1, 2)
UPDATES = {"plain": 2000, "attention": 300}
MODELS = {"plain": Seq2Seq, "attention": AttentionSeq2Seq}
EVERY = 50

train_set, test_set = dates(8000, "train"), dates(300, "test")
sources = Characters.build(pair.source for pair in train_set)
targets = Vocabulary.build(pair.target for pair in train_set)
encoded = [(sources.encode(p.source), targets.encode(p.target, bos=True, eos=True)) for p in train_set]
ids, wanted = pad([sources.encode(p.source) for p in test_set]), [p.target for p in test_set]


def learn(name, seed):
    """Train one model. Returns its exact match after every 50 updates, and the seconds it took."""
    torch.manual_seed(seed)
    model = MODELS[name](len(sources), len(targets), d_embed=48, d_hidden=96).double()
    exact = []

    def watch(step):
        answers = ["".join(targets.decode(row)) for row in free_run(model, ids, n_max=12)]
        exact.append(round(exact_match(answers, wanted), 4))

    began = time.monotonic()
    stream = batches(encoded, 64, seed)
    train(model, stream, sequence_loss, UPDATES[name], seed=seed, watch=watch, every=EVERY)
    return exact, round(time.monotonic() - began)


log = {
    "what": "share of 300 unseen dates written exactly right, after every 50 updates",
    "versions": {"heed": heed.__version__, "torch": torch.__version__, "python": platform.python_version()},
    "hardware": "2 cores of an x86-64 server processor, shared with other work; float64",
    "seeds": list(SEEDS),
    "updates": {name: list(range(0, n + 1, EVERY)) for name, n in UPDATES.items()},
    "exact": {name: [] for name in UPDATES},
    "seconds": {name: [] for name in UPDATES},
}
for name in UPDATES:
    for seed in SEEDS:
        exact, seconds = learn(name, seed)
        log["exact"][name].append(exact)
        log["seconds"][name].append(seconds)
        print(name, seed, exact[-1], seconds, flush=True)
        path = Path(__file__).with_name("patience.json")
        path.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
