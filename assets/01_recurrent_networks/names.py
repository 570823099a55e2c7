"""Names that training lacks: the rows of chapter 01's scoreboard, with three seeds and their controls.

    python names.py

writes names.json beside this file; on one core it takes a quarter of an hour. What the file has already
is not run again. 400 updates of 32 sentences each, 250 for the digressions; Adam, 0.01 falling to zero.
Logged is the share of the names with a word that training lacks that are found whole; guessing the kind
of a name whose place is known gets 0.25 of the digressions.

    near        the sentences of the chapter, from templates
    far n       digressions: the first word decides the kind of a name n words later; the words
                between are drawn from the four first words and four others

    one way, both ways     left to right; both directions
    width                  numbers of state in each direction. With 96 a left-to-right RNN has as many
                           parameters as one that reads both ways with 64; with 121 an RNN has as many as a
                           GRU with 64
    identity               the RNN whose W_h is the identity matrix before training
"""

import json
import platform
import random
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import heed
from heed.data import TAGS, pad, tagged_sentences
from heed.evaluate import spans
from heed.recurrent import flip
from heed.text import PAD, UNK, Vocabulary

SEEDS = (0, 1, 2)
UPDATES, FAR, RATE = 400, 250, 1e-2
HARDWARE = "1 core of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_name("names.json")
KINDS = {
    "PLACE": ("in", "Zorvania"),
    "LANGUAGE": ("speaks", "Blimpish"),
    "MONEY": ("costs", "Quonks"),
    "MONTH": ("since", "Novuary"),
}
FILLERS = [*(hint for hint, _ in KINDS.values()), "er", "well", "so", "then"]
LAYERS = {"RNN": nn.RNN, "identity": nn.RNN, "GRU": nn.GRU, "LSTM": nn.LSTM}
JOBS = [  # distance (0: near), layer, width, directions, updates
    (0, "RNN", 64, 1, UPDATES),
    (0, "RNN", 96, 1, UPDATES),
    (0, "RNN", 64, 2, UPDATES),
    (0, "RNN", 121, 2, UPDATES),
    (0, "GRU", 64, 2, UPDATES),
    (3, "RNN", 64, 2, FAR),
    (20, "RNN", 64, 2, FAR),
    (20, "RNN", 121, 2, FAR),
    (20, "GRU", 64, 2, FAR),
    (20, "identity", 64, 2, FAR),
    (20, "LSTM", 64, 2, FAR),
    (20, "RNN", 121, 2, 5 * FAR),
]


def digressions(n, count, seed):
    """Sentences whose first word decides the kind of a name n words later: pairs (words, tags)."""
    draw, found = random.Random(seed), []
    for _ in range(count):
        kind, (hint, name) = draw.choice(list(KINDS.items()))
        words = [hint, *draw.choices(FILLERS, k=n - 1), name, "."]
        found.append((words, ["O"] * n + [f"B-{kind}", "O"]))
    return found


def corpus(n):
    """Training and test for one distance, and the vocabulary of all training sentences."""
    training = [tuple(s) for s in tagged_sentences(3000)]
    spoken = [(words[:-2], tags) for words, tags in digressions(5, 100, 0)]  # without the name
    words = Vocabulary.build(words for words, _ in training + spoken)
    if n:
        return digressions(n, 3000, 0), digressions(n, 600, 1), words
    test = [tuple(s) for s in tagged_sentences(600, "test")]
    return training, [s for s in test if s not in training], words


class Tagger(nn.Module):
    """The tagger of the chapter, in one direction or both."""

    def __init__(self, vocab, n_tags, layer, width, directions):
        super().__init__()
        self.embed = nn.Embedding(vocab, 32, padding_idx=PAD)
        self.forwards = LAYERS[layer](32, width, batch_first=True)
        if directions == 2:
            self.backwards = LAYERS[layer](32, width, batch_first=True)
        self.out = nn.Linear(directions * width, n_tags)
        if layer == "identity":
            for rnn in (self.forwards, self.backwards):
                nn.init.eye_(rnn.weight_hh_l0)

    def forward(self, ids):
        x = self.embed(ids)
        states = self.forwards(x)[0]
        if hasattr(self, "backwards"):
            right = flip(self.backwards(flip(x, ids))[0], ids)
            states = torch.cat([states, right], dim=-1)
        return self.out(states)


def fit(model, training, words, tags, n_updates, seed):
    draw = random.Random(seed)
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    for i in range(n_updates):
        chosen = draw.sample(training, 32)
        ids = pad([words.encode(sentence) for sentence, _ in chosen])
        true = pad([tags.encode(its) for _, its in chosen])
        hidden = (ids != PAD) & (torch.rand(ids.shape) < 0.15)
        scores = model(ids.masked_fill(hidden, UNK))
        loss = F.cross_entropy(scores.flatten(0, 1), true.flatten(), ignore_index=PAD)
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.param_groups[0]["lr"] = RATE * (1 - i / n_updates)
        adam.step()


@torch.no_grad()
def score(model, test, words, tags):
    """Of the names with a word that training lacks: the share found whole."""
    best = model(pad([words.encode(sentence) for sentence, _ in test])).argmax(dim=-1)
    right = []
    for row, (sentence, true) in zip(best, test, strict=True):
        found = spans(tags.decode(row[: len(sentence)]))
        for span in spans(true):
            if any(word not in words for word in sentence[span.start : span.end]):
                right.append(span in found)
    return sum(right) / len(right)


def run(n, layer, width, directions, n_updates, seed):
    """One training: the number of parameters, and the share found."""
    training, test, words = corpus(n)
    tags = Vocabulary(TAGS)
    torch.manual_seed(seed)
    model = Tagger(len(words), len(tags), layer, width, directions)
    fit(model, training, words, tags, n_updates, seed)
    return sum(weight.numel() for weight in model.parameters()), score(model, test, words, tags)


def main():
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    versions = {"heed": heed.__version__, "torch": torch.__version__, "python": platform.python_version()}
    log = {"versions": versions, "hardware": HARDWARE, "seeds": SEEDS, "rate": RATE, "runs": []}
    keys = "distance", "layer", "width", "directions", "updates"
    old = json.loads(LOG.read_text())["runs"] if LOG.is_file() else []
    done = {tuple(entry[key] for key in keys): entry for entry in old}  # is not run again
    for job in JOBS:
        if job not in done:
            results = [run(*job, seed) for seed in SEEDS]
            done[job] = dict(zip(keys, job, strict=True))
            done[job] |= {"parameters": results[0][0], "found": [found for _, found in results]}
        log["runs"].append(done[job])
        print(done[job], flush=True)
        LOG.write_text(json.dumps(log, indent=1) + "\n")


if __name__ == "__main__":
    main()
