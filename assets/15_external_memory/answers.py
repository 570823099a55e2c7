"""Stories of chapter 15: looks, widths, a recurrent reader, torn questions, linear starts, moving things.

    python answers.py

writes answers.json beside this file, in about ten minutes of one core; `python answers.py looks` (or another
part) measures one part alone. Every model is trained with three seeds on stories of four things, in batches
of 64, and answers test stories that need one, two and three facts: the log has the shares of right answers.

    looks     one, two, three looks, asked about 4, 10 and 20 things; the chapter's models
    controls  one look, three times as wide, and trained three times as long
    plain     three looks without the matrix H
    scaled    three looks, scores divided by √d
    sentences three looks at whole sentences: which word is found and which answers is learned, too
    state     a GRU that hears the facts and then the question, of two widths, trained longer
    torn      the chapter's three looks, 20 things, a share of the question's numbers torn out: as it is, made
              longer, and completed by the modern Hopfield update
    linear    matrices A and C that are not one, 1,600 updates: softmax throughout, and a linear start
    moving    one look at things that change hands, with and without codes of age
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
from heed.memory import MemoryNetwork, retrieve
from heed.tasks import STORY_WORDS, endless, moving_stories, stories
from heed.train import train

SEEDS = (0, 1, 2)
D, BATCH, UPDATES, RATE, THINGS = 64, 64, 800, 1e-2, 4
LONGER = (4, 10, 20)  # things in test stories
TEST = 1000  # test stories of each kind
TEARS = (0.0, 0.25, 0.5, 0.6, 0.75)
BETA = 8.0
GRUS = ((64, UPDATES), (128, 3 * UPDATES))
STARTS = (0, 50, 100, 300, 800, 1600)
HARDWARE = "1 core of an x86-64 server processor, shared with other work; float64"
LOG = Path(__file__).with_name("answers.json")


class Pairs(MemoryNetwork):
    """The chapter's network: a fact is found by its first word, and says its second."""

    def __init__(self, n_hops, d=D, **options):
        super().__init__(len(STORY_WORDS), d, n_hops, **options)
        del self.l_m, self.l_c
        self.l_m, self.l_c = torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0], [1.0]])


class Plain(Pairs):
    """Without H: what was asked stays in the question."""

    def __init__(self, n_hops):
        super().__init__(n_hops)
        self.H = nn.Identity()


class Scaled(Pairs):
    """Scores divided by √d."""

    def look(self, scores, mask):
        return super().look(scores / D**0.5, mask)


class State(nn.Module):
    """A GRU hears the facts one by one, then the question; its last state answers."""

    def __init__(self, d):
        super().__init__()
        self.embed = nn.Embedding(len(STORY_WORDS), D)
        self.cell = nn.GRU(2 * D, d, batch_first=True)
        self.out = nn.Linear(d, len(STORY_WORDS))

    def forward(self, facts, question):
        heard = self.embed(torch.cat([facts, question[:, None]], dim=1)).flatten(2)
        return self.out(self.cell(heard)[0][:, -1])


def loss(model, drawn):
    return F.cross_entropy(model(drawn.facts, drawn.questions), drawn.answers)


def learn(model, seed, updates=UPDATES, task=stories, sizes=(THINGS,), linear=0):
    """Train a model; for the first `linear` updates there is no softmax. Returns the seconds."""
    batches, began = endless(task, BATCH, *sizes, seed=seed), time.process_time()
    count = 0

    def watched(model, drawn):
        nonlocal count
        model.linear = count < linear
        count += 1
        return loss(model, drawn)

    train(model, batches, watched if linear else loss, updates, rate=RATE)
    model.linear = False
    return round(time.process_time() - began, 1)


@torch.no_grad()
def share(said, drawn):
    return round((said.argmax(dim=-1) == drawn.answers).double().mean().item(), 4)


def tested(n_things, needed):
    return stories(TEST, n_things, torch.Generator().manual_seed(1000), needed)


@torch.no_grad()
def shares(model, n_things):
    """Right answers to questions that need one, two and three facts."""
    return [share(model(d.facts, d.questions), d) for d in (tested(n_things, needed) for needed in (1, 2, 3))]


def runs(make, **options):
    """Three seeds of one model, at all lengths of story."""
    entry = {"parameters": None, **{f"{n} things": [] for n in LONGER}, "seconds": []}
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = make()
        entry["parameters"] = sum(p.numel() for p in model.parameters())
        entry["seconds"].append(learn(model, seed, **options))
        for n in LONGER:
            entry[f"{n} things"].append(shares(model, n))
    return entry | {key: value for key, value in options.items() if key in ("updates", "linear")}


@torch.no_grad()
def with_torn_questions(model, tear, mend):
    """Right answers when a share of the numbers of the thing's vector are 0, mended or not."""
    found, generator = [], torch.Generator().manual_seed(2000)
    A = model.A.weight
    for needed in (1, 2, 3):
        drawn = tested(20, needed)
        thing = A[drawn.questions[:, 1]]
        kept = torch.rand(thing.shape, generator=generator) >= tear
        u = (A[drawn.questions[:, 0]] + mend(thing * kept))[:, None]
        k, v = A[drawn.facts].unbind(dim=2)
        for _ in range(model.n_hops):
            p = (u @ k.mT).softmax(dim=-1)
            u = model.H(u) + p @ v
        found.append(share((u @ A.T)[:, 0], drawn))
    return found


def looks():
    return [{"looks": n, **runs(lambda n=n: Pairs(n))} for n in (1, 2, 3)]


def controls():
    return [
        {"what": "three times as wide", **runs(lambda: Pairs(1, 3 * D))},
        {"what": "three times as long", **runs(lambda: Pairs(1), updates=3 * UPDATES)},
    ]


def plain():
    return runs(lambda: Plain(3))


def scaled():
    return runs(lambda: Scaled(3))


def sentences():
    return runs(lambda: MemoryNetwork(len(STORY_WORDS), D, 3))


def state():
    return [{"d_hidden": d, **runs(lambda d=d: State(d), updates=updates)} for d, updates in GRUS]


def torn():
    entries = [{"tear": tear, "torn": [], "longer": [], "completed": []} for tear in TEARS]
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = Pairs(3)
        learn(model, seed)
        A = model.A.weight.detach()
        mends = {
            "torn": lambda t: t,
            "longer": lambda t: 2 * t,
            "completed": lambda t, A=A: retrieve(t, A, BETA),
        }
        for entry in entries:
            for name, mend in mends.items():
                entry[name].append(with_torn_questions(model, entry["tear"], mend))
    return entries


def linear():
    return [
        {"linear": start, **runs(lambda: Pairs(3, tied=False), updates=2 * UPDATES, linear=start)}
        for start in STARTS
    ]


def moving():
    entries = []
    for n_ages in (0, 12):
        entry = {"ages": n_ages, "updates": UPDATES, "4 things, 8 moves": [], "2 things, 4 moves": []}
        for seed in SEEDS:
            torch.manual_seed(seed)
            model = MemoryNetwork(len(STORY_WORDS), D, 1, n_ages=n_ages)
            learn(model, seed, task=moving_stories, sizes=(4, 8))
            for things, moves in ((4, 8), (2, 4)):
                drawn = moving_stories(TEST, things, moves, torch.Generator().manual_seed(1000))
                with torch.no_grad():
                    said = model(drawn.facts, drawn.questions)
                entry[f"{things} things, {moves} moves"].append(share(said, drawn))
        entries.append(entry)
    return entries


PARTS = (looks, controls, plain, scaled, sentences, state, torn, linear, moving)


def main(parts):
    """Measure these parts, and put each into the log as soon as it is done."""
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {}
    log["what"] = "for each seed, shares of right answers to questions that need one, two and three facts"
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log |= {"hardware": HARDWARE, "seeds": SEEDS, "rate": RATE, "batch": BATCH, "things": THINGS, "d": D}
    for part in PARTS:
        if part.__name__ in parts:
            log[part.__name__] = part()
            LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")
            print(part.__name__, "done", flush=True)


torch.set_default_dtype(torch.float64)
if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:] or [part.__name__ for part in PARTS])
