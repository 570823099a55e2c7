"""How long must each model learn, and what is the gain due to? Exact match on unseen dates during training.

    python patience.py

writes patience.json beside this file: five models, three seeds each, measured after every 50 updates. On two
cores it takes about a quarter of an hour; `python patience.py "no query"` measures one of them alone.
The models:

    plain        the encoder-decoder of chapter 02
    plain 168    the same, 168 wide instead of 96: as many parameters as the two next
    no query     attention whose query is cut (U = 0): one learned mixture of all states serves every step
    attention    the model of chapter 03
    one way      attention to an encoder that reads forwards only: fewer parameters

The learning rate of each falls to zero over its own number of updates. So the two last are measured a second
time on the schedule of the plain model, up to the goal: `python patience.py "same schedule"`.
"""

import json
import platform
import sys
import time
from contextlib import suppress
from pathlib import Path

import torch
from torch import nn

import heed
from heed.alignment import AttentionDecoder, AttentionSeq2Seq
from heed.data import batches, dates, pad
from heed.evaluate import exact_match
from heed.recurrent import CheckedEmbedding, Seq2Seq, free_run, last_state
from heed.text import PAD, Characters, Vocabulary
from heed.train import sequence_loss, train

SEEDS = (0, 1, 2)
UPDATES = {"plain": 2000, "plain 168": 2000, "no query": 600, "attention": 300, "one way": 300}
EVERY = 50
GOAL = 0.85  # in the second measurement, a run ends here
HARDWARE = "2 cores of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_name("patience.json")

train_set, test_set = dates(8000, "train"), dates(300, "test")
sources = Characters.build(pair.source for pair in train_set)
targets = Vocabulary.build(pair.target for pair in train_set)
encoded = [(sources.encode(p.source), targets.encode(p.target, bos=True, eos=True)) for p in train_set]
ids, wanted = pad([sources.encode(p.source) for p in test_set]), [p.target for p in test_set]


class Reached(Exception):
    """The goal is reached."""


class OneWay(nn.Module):
    """`AttentionSeq2Seq` with an encoder that reads forwards only."""

    def __init__(self, source_vocab, target_vocab, d_embed, d_hidden):
        super().__init__()
        self.embed = CheckedEmbedding(source_vocab, d_embed, padding_idx=PAD)
        self.reads = nn.GRU(d_embed, d_hidden, batch_first=True)
        self.first = nn.Linear(d_hidden, d_hidden)
        self.decoder = AttentionDecoder(target_vocab, d_embed, d_hidden, d_memory=d_hidden)

    def start(self, source):
        """The first state is made from the last state of the encoder: it has read everything."""
        states, _ = self.reads(self.embed(source))  # (b, n_source, d_hidden)
        memory = states, self.decoder.score.project(states), source != PAD
        return torch.tanh(self.first(last_state(states, source))), memory

    forward, step = AttentionSeq2Seq.forward, AttentionSeq2Seq.step


MODELS = {"plain": Seq2Seq, "plain 168": Seq2Seq, "one way": OneWay}  # the others: AttentionSeq2Seq
WIDTHS = {"plain 168": 168}  # the others: 96


def make(name):
    """A fresh model of this name."""
    kind, width = MODELS.get(name, AttentionSeq2Seq), WIDTHS.get(name, 96)
    return kind(len(sources), len(targets), d_embed=48, d_hidden=width).double()


def learn(name, seed, updates, goal=2.0):
    """Train one model. Returns its exact match after every 50 updates, and the seconds it took."""
    torch.manual_seed(seed)
    model = make(name)
    if name == "no query":
        torch.nn.init.zeros_(model.decoder.score.U.weight).requires_grad_(False)
    exact = []

    def watch(step):
        answers = ["".join(targets.decode(row)) for row in free_run(model, ids, n_max=12)]
        exact.append(round(exact_match(answers, wanted), 4))
        if exact[-1] >= goal:
            raise Reached

    began = time.monotonic()
    stream = batches(encoded, 64, seed)
    with suppress(Reached):
        train(model, stream, sequence_loss, updates, seed=seed, watch=watch, every=EVERY)
    return exact, round(time.monotonic() - began)


def main(names):
    """Measure these, and put each into the log as soon as it is done."""
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {"exact": {}, "seconds": {}}
    log["what"] = f"share of {len(test_set)} unseen dates written exactly right, after every {EVERY} updates"
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log["hardware"] = HARDWARE
    log["seeds"] = SEEDS
    log["parameters"] = {name: sum(p.numel() for p in make(name).parameters()) for name in UPDATES}
    log["updates"] = {name: list(range(0, n + 1, EVERY)) for name, n in UPDATES.items()}
    for name in [name for name in UPDATES if name in names]:
        runs = [learn(name, seed, UPDATES[name]) for seed in SEEDS]
        log["exact"][name], log["seconds"][name] = [list(column) for column in zip(*runs, strict=True)]
        store(log)
    for name in ["attention", "no query"] if "same schedule" in names else []:
        runs = [learn(name, seed, UPDATES["plain"], GOAL)[0] for seed in SEEDS]
        log.setdefault("exact, same schedule", {})[name] = runs
        store(log)


def store(log):
    """Write the log into its file."""
    LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1:] or [*UPDATES, "same schedule"])
