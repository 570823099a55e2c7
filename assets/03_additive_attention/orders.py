"""Attend and then update, or update and then attend? Chapter 03's number, for both orders and two controls.

    python assets/03_additive_attention/orders.py

writes orders.json beside this file: German numbers of one to six digits into English, three seeds.
Numbers of three to six digits are counted, none of which is in the training set. A run that stands in the log
already is not made again. On one core it takes about ten minutes. The models:

    attend first    the model of chapter 03
    no query        the same, whose query is cut before training (U = 0): all steps have the same weights
    update first    the order of Luong et al. (2015): the state is updated, then it attends; the output reads
                    tanh(W_c [c; s])
    input feeding   the same, and the next update reads tanh(W_c [c; s]), too (section 3.3 there)
    plain           the encoder-decoder of chapter 02, twice as wide

- `model`, `n_steps`, `seed`, `n_parameters`: which run
- `by_digits`: exact match by number of digits
- `seconds`: of training
"""

import json
import platform
import re
import time
from pathlib import Path

import torch
from torch import nn

import heed
from heed.alignment import AttentionSeq2Seq
from heed.data import batches, numbers, pad
from heed.evaluate import exact_match
from heed.recurrent import Seq2Seq, free_run
from heed.text import Characters, Vocabulary
from heed.train import sequence_loss, train

SETTINGS = {
    "n_train": 8000,
    "digits": [1, 6],
    "n_test_per_digits": 250,
    "d": 64,
    "batch": 32,
    "rate": 6e-3,
    "dtype": "float64",
}
MODELS = {  # and their updates
    "attend first": (250,),
    "no query": (250, 750),
    "update first": (250, 750),
    "input feeding": (250,),
    "plain": (250,),
}
RUNS = [(name, n, seed) for name, updates in MODELS.items() for n in updates for seed in range(3)]
HARDWARE = "one thread of an x86-64 server processor, shared with other work: seconds are upper bounds"
LOG = Path(__file__).with_suffix(".json")


class UpdateFirst(AttentionSeq2Seq):
    """Luong's order, with the additive score: all states first, then one look for each of them."""

    def __init__(self, source_vocab, target_vocab, d):
        super().__init__(source_vocab, target_vocab, d, d)
        self.decoder.cell = nn.GRU(d, d, batch_first=True)
        self.join = nn.Linear(3 * d, d, bias=False)
        self.decoder.out = nn.Linear(d, target_vocab)

    def write(self, target_in, s, memory):
        """The logits (b, n_target, vocab) of several steps, and the last state (b, d)."""
        h, keys, mask = memory
        states, last = self.decoder.cell(self.decoder.embed(target_in), s[None])  # (b, n_target, d)
        e = self.decoder.score.compare(states, keys)  # (b, n_target, n_source)
        c = self.decoder.attention(e, mask[:, None]) @ h  # (b, n_target, 2*d)
        return self.decoder.out(torch.tanh(self.join(torch.cat([c, states], dim=-1)))), last[0]

    def forward(self, source, target_in):
        return self.write(target_in, *self.start(source))[0]

    def step(self, y, state, memory):
        logits, state = self.write(y[:, None], state, memory)
        return logits[:, 0], state


class InputFeeding(UpdateFirst):
    """`UpdateFirst` whose state reads what the last step has said it saw, so that the steps must wait."""

    def __init__(self, source_vocab, target_vocab, d):
        super().__init__(source_vocab, target_vocab, d)
        self.decoder.cell = nn.GRUCell(2 * d, d)

    def start(self, source):
        s, memory = super().start(source)
        return (s, torch.zeros_like(s)), memory

    forward = AttentionSeq2Seq.forward  # step by step again

    def step(self, y, state, memory):
        (s, seen), (h, keys, mask) = state, memory
        s = self.decoder.cell(torch.cat([self.decoder.embed(y), seen], dim=-1), s)  # (b, d)
        e = self.decoder.score.compare(s[:, None], keys)  # (b, 1, n_source)
        c = (self.decoder.attention(e, mask[:, None]) @ h)[:, 0]  # (b, 2*d)
        seen = torch.tanh(self.join(torch.cat([c, s], dim=-1)))  # (b, d)
        return self.decoder.out(seen), (s, seen)


def words(text):
    """The words and signs of a text: "twenty-three" is twenty, -, three."""
    return re.findall(r"\w+|[^\w\s]", text)


def make(name, n_source, n_target):
    """A fresh model of this name."""
    d = SETTINGS["d"]
    if name == "plain":
        return Seq2Seq(n_source, n_target, d, 2 * d)
    if name in ("update first", "input feeding"):
        return {"update first": UpdateFirst, "input feeding": InputFeeding}[name](n_source, n_target, d)
    model = AttentionSeq2Seq(n_source, n_target, d, d)
    if name == "no query":
        nn.init.zeros_(model.decoder.score.U.weight).requires_grad_(False)
    return model


def measure(run, settings=SETTINGS):
    """Train one model, and count."""
    name, n_steps, seed = run
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # before the model is made: then its first weights are, too
    pairs = numbers(settings["n_train"], "train", digits=settings["digits"], languages=["de"])
    source = Characters.build(pair.source for pair in pairs)
    target = Vocabulary.build(words(pair.target) for pair in pairs)
    encoded = [(source.encode(p.source), target.encode(words(p.target), bos=True, eos=True)) for p in pairs]
    torch.manual_seed(seed)
    model = make(name, len(source), len(target))
    began = time.monotonic()
    stream = batches(encoded, settings["batch"], seed, pool=6)
    train(model, stream, sequence_loss, n_steps, settings["rate"], seed=seed)
    seconds = time.monotonic() - began
    by_digits = {}
    for k in range(3, 7):
        test = numbers(settings["n_test_per_digits"], "test", digits=(k, k), languages=["de"])
        rows = free_run(model, pad([source.encode(pair.source) for pair in test]), n_max=40)
        answers = [target.decode(row) for row in rows]
        by_digits[k] = round(exact_match(answers, [words(pair.target) for pair in test]), 4)
    return {
        "model": name,
        "n_steps": n_steps,
        "seed": seed,
        "n_parameters": sum(p.numel() for p in model.parameters()),
        "by_digits": by_digits,
        "seconds": round(seconds, 1),
    }


def name_of(run):
    """A run's place in RUNS."""
    return run["model"], run["n_steps"], run["seed"]


def fresh():
    """A log without runs."""
    return {
        "about": "made by orders.py, whose first lines say how to read it",
        "settings": SETTINGS,
        "versions": {
            "heed": heed.__version__,
            "torch": torch.__version__.split("+")[0],
            "python": platform.python_version(),
        },
        "hardware": HARDWARE,
        "runs": [],
    }


def main():
    """Make the runs that the log does not have yet."""
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else fresh()
    for run in RUNS:
        if run not in map(name_of, log["runs"]):
            log["runs"].append(measure(run))
            log["runs"].sort(key=lambda run: RUNS.index(name_of(run)))
            LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
            print(log["runs"][-1], flush=True)


if __name__ == "__main__":
    main()
