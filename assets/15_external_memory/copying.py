"""Voyages of chapter 15: the Turing machine, what it is without each of its parts, and LSTMs.

    python copying.py

writes copying.json beside this file, in a quarter of an hour of one core; `python copying.py machine`
(or another part) measures one part alone. Every model is trained with three seeds on voyages of 1 to 8 ports,
in batches of 16; the log has the shares of test voyages said again without a mistake, and of ports. The
memory has 20 rows in training and 100 in the test.

    machine   the library's machine, 800 updates
    without   each part switched off once, from the beginning; finding by content also with 2,400 updates
    two       a head that writes and one that reads, each with weights of its own
    lstm      LSTMs, by their width and the number of updates
    ring      no finding by content, and as many rows as words are told: who walks on comes home by itself
    next      what came next? a voyage of 2 to 6 different ports, and then one of them, or four in a row
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
from heed.memory import Head, TuringMachine, content_weights, erase_and_add, shift_weights
from heed.tasks import PORTS, VOYAGE_WORDS, endless, short_voyages, voyages
from heed.train import train

SEEDS = (0, 1, 2)
LONGEST, BATCH, UPDATES, RATE, D, D_ROW = 8, 16, 800, 1e-2, 64, 16
ROWS, ROWS_TESTED = 20, 100  # of the memory, in training and in the test
TESTED = {8: 200, 20: 100, 40: 100, 80: 100}  # ports in a test voyage -> test voyages
OFF = ("content", "place", "shift", "sharpening", "strength", "biases", "erasing")
OFF_LONGER = OFF[:1]  # trained three times as long, too
LSTMS = ((64, 3 * UPDATES), (128, UPDATES), (128, 3 * UPDATES), (128, 15 * UPDATES))
HARDWARE = "1 core of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_name("copying.json")


class WithoutHead(Head):
    """The library's head with one of its parts switched off."""

    def __init__(self, off):
        super().__init__(D, D_ROW)
        self.off = off
        if off == "biases":
            nn.init.zeros_(self.beta.bias)
            nn.init.zeros_(self.g.bias)

    def forward(self, h, M, w):
        g, s = torch.sigmoid(self.g(h)), self.s(h).softmax(dim=-1)
        beta, gamma = F.softplus(self.beta(h)), 1 + F.softplus(self.gamma(h))
        if self.off == "content":
            g = torch.zeros_like(g)
        if self.off == "place":
            g, s = torch.ones_like(g), torch.tensor([0.0, 1, 0]).expand_as(s)
        if self.off == "shift":
            s = torch.tensor([0.0, 1, 0]).expand_as(s)
        if self.off == "sharpening":
            gamma = torch.ones_like(gamma)
        if self.off == "strength":
            beta = torch.ones_like(beta)
        w_c = content_weights(torch.tanh(self.k(h)), M, beta)
        return self.weights(shift_weights(g * w_c + (1 - g) * w, s), gamma)


def machine():
    return TuringMachine(len(VOYAGE_WORDS), len(PORTS), D, D_ROW)


def without(off):
    model = machine()
    model.head = WithoutHead(off)
    if off == "erasing":
        nn.init.constant_(model.e.bias, -1e3)
        model.e.weight.data.zero_()
        model.e.requires_grad_(False)
    return model


class Ring(TuringMachine):
    """A machine with a part switched off and as many rows as words are told."""

    def __init__(self, off):
        super().__init__(len(VOYAGE_WORDS), len(PORTS), D, D_ROW)
        self.head = WithoutHead(off)

    def start(self, x, n_rows=None):
        return super().start(x)


class TwoHeads(TuringMachine):
    """A head that writes, and one that reads what is written."""

    def __init__(self):
        super().__init__(len(VOYAGE_WORDS), len(PORTS), D, D_ROW)
        self.reader = Head(D, D_ROW)

    def start(self, x, n_rows=None):
        M, w, r = super().start(x, n_rows)
        return M, (w, w), r

    def step(self, x, M, w, r):
        h = torch.tanh(self.controller(torch.cat([x, r], dim=-1)))
        w, w_r = self.head(h, M, w[0]), w[1]
        M = erase_and_add(M, w, torch.sigmoid(self.e(h)), torch.tanh(self.a(h)))
        w_r = self.reader(h, M, w_r)
        r = (w_r[:, None] @ M)[:, 0]
        return self.out(torch.cat([h, r], dim=-1)), (M, (w, w_r), r)


class State(nn.Module):
    """An LSTM hears the voyage; then it says it, hearing nothing more."""

    def __init__(self, d):
        super().__init__()
        self.cell = nn.LSTM(len(VOYAGE_WORDS), d, batch_first=True)
        self.out = nn.Linear(d, len(PORTS))

    def forward(self, x, n_out, n_rows=None):
        return self.out(self.cell(F.pad(x, (0, 0, 0, n_out)))[0][:, -n_out:])


def said(model, voyage, n_rows=ROWS):
    return model(F.one_hot(voyage.told, len(VOYAGE_WORDS)).double(), voyage.ports.shape[1], n_rows)


def loss(model, voyage):
    return F.cross_entropy(said(model, voyage).flatten(0, 1), voyage.ports.flatten())


@torch.no_grad()
def tested(model, lengths=TESTED):
    """For each length, the shares of voyages without a mistake and of right ports."""
    found = {}
    for n in lengths:
        voyage = voyages(TESTED[n], n, torch.Generator().manual_seed(1000))
        right = said(model, voyage, ROWS_TESTED).argmax(dim=-1) == voyage.ports
        found[n] = [round(r.double().mean().item(), 4) for r in (right.all(dim=-1), right)]
    return found


def which_is_next(n_voyages, n_ports, n_questions, generator):
    """What is told, and the port that follows each port asked: (b, n_questions)."""
    ports = torch.rand(n_voyages, len(PORTS), generator=generator).argsort(dim=1)[:, :n_ports]
    asked = torch.randint(n_ports - 1, (n_voyages, n_questions), generator=generator)
    ends = torch.tensor([len(PORTS), len(PORTS) + 1]).expand(n_voyages, 2)
    told = torch.cat([ends[:, :1], ports, ends[:, 1:], ports.gather(1, asked)], dim=1)
    return told, ports.gather(1, asked + 1)


def answered(model, told, n_questions, n_rows):
    """An answer at the step at which each question is heard: (b, n_questions, 20)."""
    x, answers = F.one_hot(told, len(VOYAGE_WORDS)).double(), []
    state = model.start(x, n_rows)
    for now in x.unbind(dim=1):
        y, state = model.step(now, *state)
        answers.append(y)
    return torch.stack(answers[-n_questions:], dim=1)


def next_ports(n_questions, updates=3 * UPDATES, lengths=(2, 3, 4, 6, 12)):
    """Three seeds of a machine that is asked what came next: shares of right answers by length."""
    entry = {"questions": n_questions, "updates": updates, "answers": {}}
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = machine()
        train(model, asked_next(n_questions, seed), loss_of_next, updates, rate=RATE)
        for n in lengths:
            told, after = which_is_next(500, n, 1, torch.Generator().manual_seed(1000))
            with torch.no_grad():
                right = answered(model, told, 1, ROWS_TESTED).argmax(dim=-1) == after
            entry["answers"].setdefault(n, []).append(round(right.double().mean().item(), 3))
    print(entry, flush=True)
    return entry


def asked_next(n_questions, seed):
    """Batches of voyages of 2 to 6 ports, with questions and answers."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        n_ports = int(torch.randint(2, 7, (), generator=generator))
        yield which_is_next(BATCH, n_ports, n_questions, generator)


def loss_of_next(model, batch):
    told, after = batch
    return F.cross_entropy(answered(model, told, after.shape[1], ROWS).flatten(0, 1), after.flatten())


def runs(make, updates=UPDATES, lengths=TESTED):
    """Three seeds of one model."""
    entry = {"updates": updates, "parameters": None, "voyages": {}, "ports": {}, "seconds": []}
    for seed in SEEDS:
        torch.manual_seed(seed)
        model, began = make(), time.process_time()
        stream = endless(short_voyages, BATCH, LONGEST, seed=seed)
        train(model, stream, loss, updates, rate=RATE)
        entry["parameters"] = sum(p.numel() for p in model.parameters())
        entry["seconds"].append(round(time.process_time() - began, 1))
        for n, (whole, ports) in tested(model, lengths).items():
            entry["voyages"].setdefault(n, []).append(whole)
            entry["ports"].setdefault(n, []).append(ports)
    print(entry, flush=True)
    return entry


def parts():
    short = (8, 20)
    return {
        "machine": lambda: runs(machine),
        "without": lambda: [
            {"without": off, **runs(lambda off=off: without(off), updates)}
            for parts_off, updates in ((OFF, UPDATES), (OFF_LONGER, 3 * UPDATES))
            for off in parts_off
        ],
        "two": lambda: runs(TwoHeads),
        "next": lambda: [next_ports(n_questions) for n_questions in (1, 4)],
        "ring": lambda: runs(lambda: Ring("content"), updates=UPDATES),
        "lstm": lambda: [{"d": d, **runs(lambda d=d: State(d), updates, short)} for d, updates in LSTMS],
    }


def main(names):
    """Measure these parts, and put each into the log as soon as it is done."""
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {}
    log["what"] = "for each length of test voyages and each seed, the share said again without a mistake"
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log |= {"hardware": HARDWARE, "seeds": SEEDS, "rate": RATE, "batch": BATCH, "longest": LONGEST}
    log |= {"rows": ROWS, "rows tested": ROWS_TESTED}
    for name in names:
        log[name] = parts()[name]()
        LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


torch.set_default_dtype(torch.float64)
if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:] or [*parts()])
