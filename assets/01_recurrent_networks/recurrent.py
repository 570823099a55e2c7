"""Which cell, and which direction? The comparisons of chapter 01: three seeds, four learning rates.

    python recurrent.py

writes recurrent.json beside this file. On one core it takes about half an hour; `python recurrent.py
tagger` (or `first`, `far`) measures one part alone. Each model is trained with each of the learning rates;
all accuracies are logged, and the lesson quotes the best rate of each model. Rates are compared on the test
set: they are the best that a search could find, for every model alike.

    first       the first of 20 symbols is asked for after the last; 300 updates of 64 sequences
    far         the same at 5, 10 and 40 symbols, for the RNN in both starts and the GRU
    tagger      the sentences of the chapter; 400 updates of 32 sentences; span F1, the share of words right
                (two-meaning names, words not in training, all other words), and the share of the names with
                a word that is not in training that are found whole

    RNN, GRU, LSTM         32 numbers of state
    wide RNN               as many parameters as the GRU has: 61 numbers of state
    RNN, identity start    the wide RNN whose W_h is the identity matrix before training
    small LSTM             as many as the GRU has: 27 numbers of state
    LSTM, gate open        3 is added to the bias of the forget gate before training
    one way RNN, GRU       the tagger from left to right, 64 numbers of state
    one way wide GRU       the same, with as many parameters as the two-way GRU: 97 numbers of state
    two ways RNN, GRU      both directions, 64 numbers of state each
"""

import json
import platform
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import heed
from heed.data import AMBIGUOUS, TAGS, batches, pad, tagged_sentences
from heed.evaluate import span_f1, spans
from heed.recurrent import Classifier, Tagger
from heed.text import PAD, UNK, Vocabulary
from heed.train import train

SEEDS = (0, 1, 2)
RATES = {
    "first": (1e-3, 3e-3, 1e-2, 3e-2),
    "tagger": (3e-3, 1e-2, 3e-2, 1e-1),
    "far": (1e-3, 3e-3, 1e-2, 3e-2),
}
HARDWARE = "1 core of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_name("recurrent.json")


def opened(layer, bias=3.0):
    """The LSTM, with the gate that keeps the memory opened by its bias."""
    d = layer.hidden_size
    with torch.no_grad():
        layer.bias_hh_l0[d : 2 * d] += bias
    return layer


def identity(layer):
    """The layer, with W_h = I before training: but for input and tanh, a step then keeps the state."""
    nn.init.eye_(layer.weight_hh_l0)
    return layer


CELLS = {  # a layer with 16 numbers of input, and its numbers of state
    "RNN": lambda: nn.RNN(16, 32, batch_first=True),
    "wide RNN": lambda: nn.RNN(16, 61, batch_first=True),
    "RNN, identity start": lambda: identity(nn.RNN(16, 61, batch_first=True)),
    "GRU": lambda: nn.GRU(16, 32, batch_first=True),
    "LSTM": lambda: nn.LSTM(16, 32, batch_first=True),
    "small LSTM": lambda: nn.LSTM(16, 27, batch_first=True),
    "LSTM, gate open": lambda: opened(nn.LSTM(16, 32, batch_first=True)),
}
TAGGERS = {  # layer, width, directions
    "one way RNN": (nn.RNN, 64, 1),
    "one way GRU": (nn.GRU, 64, 1),
    "one way wide GRU": (nn.GRU, 97, 1),
    "two ways RNN": (nn.RNN, 64, 2),
    "two ways GRU": (nn.GRU, 64, 2),
}


class OneWay(nn.Module):
    """A tagger from left to right."""

    def __init__(self, vocab, n_tags, kind, d):
        super().__init__()
        self.embed = nn.Embedding(vocab, 32, padding_idx=PAD)
        self.rnn = kind(32, d, batch_first=True)
        self.out = nn.Linear(d, n_tags)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])


def symbols(n, seed, b=64):
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randint(4, 8, (b, n), generator=generator)


def first(cell, n, rate, seed, n_steps=300):
    """The share right of a network that tells the first of n symbols after the last."""
    torch.manual_seed(seed)
    model = Classifier(vocab=8, n_classes=8, d_embed=16, d_hidden=32)
    model.rnn = CELLS[cell]()
    model.out = nn.Linear(model.rnn.hidden_size, 8)
    stream = symbols(n, seed=10 * seed + 1)
    train(model, stream, lambda m, ids: F.cross_entropy(m(ids), ids[:, 0]), n_steps, rate=rate)
    ids = next(symbols(n, seed=10 * seed + 2, b=500))
    with torch.no_grad():
        return (model(ids).argmax(dim=-1) == ids[:, 0]).double().mean().item()


def parameters(layer):
    return sum(weight.numel() for weight in layer.parameters())


def corpus():
    training = tagged_sentences(3000)
    test = [s for s in tagged_sentences(600, "test") if s not in training]
    words, tags = Vocabulary.build(s.words for s in training), Vocabulary(TAGS)
    return training, test, words, tags


def tagger(name, words, tags):
    kind, d, directions = TAGGERS[name]
    if directions == 1:
        return OneWay(len(words), len(tags), kind, d)
    model = Tagger(len(words), len(tags), d_embed=32, d_hidden=d)
    model.forwards, model.backwards = (kind(32, d, batch_first=True) for _ in range(2))
    return model


def tagging_loss(model, batch):
    hidden = batch.source_mask & (torch.rand(batch.source.shape) < 0.15)
    scores = model(batch.source.masked_fill(hidden, UNK))
    return F.cross_entropy(scores.flatten(0, 1), batch.target.flatten(), ignore_index=PAD)


def tagged(name, rate, seed, data):
    """Span F1, and the share of words right in three groups."""
    training, test, words, tags = data
    pairs = [(words.encode(s.words), tags.encode(s.tags)) for s in training]
    torch.manual_seed(seed)
    model = tagger(name, words, tags)
    train(model, batches(pairs, 32, seed), tagging_loss, 400, rate=rate, seed=seed)
    with torch.no_grad():
        best = model(pad([words.encode(s.words) for s in test])).argmax(dim=-1)
    found = [tags.decode(row[: len(s.words)]) for row, s in zip(best, test, strict=True)]
    rights = {"two-meaning names": [], "words not in training": [], "all other words": []}
    for s, its in zip(test, found, strict=True):
        for word, true, said in zip(s.words, s.tags, its, strict=True):
            known = "all other words" if word in words else "words not in training"
            rights["two-meaning names" if word in AMBIGUOUS else known].append(true == said)
    shares = {group: sum(right) / len(right) for group, right in rights.items()}
    shares["names not in training, whole"] = whole_names(found, test, words)
    return {"span F1": span_f1(found, [s.tags for s in test]).f1} | shares


def whole_names(found, test, words):
    """Of the names with a word that is not in training: the share that is found whole."""
    new = [
        span in spans(its)
        for s, its in zip(test, found, strict=True)
        for span in spans(s.tags)
        if any(word not in words for word in s.words[span.start : span.end])
    ]
    return sum(new) / len(new)


def measure(part, log):
    """One part of the log, entry by entry."""
    if part == "tagger":
        data = corpus()
        for name in TAGGERS:
            runs = {str(r): [tagged(name, r, seed, data) for seed in SEEDS] for r in RATES[part]}
            size = parameters(tagger(name, *data[2:]))
            yield {"model": name, "parameters": size, "runs": runs}
        return
    jobs = [(cell, 20) for cell in CELLS]
    if part == "far":
        jobs = [(cell, n) for n in (5, 10, 40) for cell in ("wide RNN", "RNN, identity start", "GRU")]
    for cell, n in jobs:
        runs = {str(r): [first(cell, n, r, seed) for seed in SEEDS] for r in RATES[part]}
        yield {"model": cell, "n": n, "parameters": parameters(CELLS[cell]()), "runs": runs}


def main(parts):
    torch.set_default_dtype(torch.float64)
    versions = {"heed": heed.__version__, "torch": torch.__version__, "python": platform.python_version()}
    log = json.loads(LOG.read_text()) if LOG.is_file() else {}
    log |= {"versions": versions, "hardware": HARDWARE, "seeds": SEEDS, "rates": RATES}
    for part in parts:
        log[part] = []
        for entry in measure(part, log):
            log[part].append(entry)
            print(part, entry["model"], entry.get("n", ""), entry["runs"], flush=True)
            LOG.write_text(json.dumps(log, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:] or ("first", "tagger", "far"))
