"""The stops of the tour, three seeds each: dates right, loss, and what some of the models write.

    python stops.py

writes stops.json beside this file. Every run trains one model on 8,000 dates of four languages, batches of
64, and counts the right ones of 300 unseen dates, written freely. The rate rises over 40 updates and falls to
zero over the last three fifths. Weights are drawn in double precision and trained in single precision: a seed
stands for equal weights everywhere. On one core it takes about twenty minutes; a run that is in the log
already is not repeated. The stops:

    vector              an encoder and a decoder, one state between them (chapter 02), 96 wide
    additive            the decoder looks back, with the additive score (chapter 03)
    plain, scaled       the same with a dot product of two projections, 512 wide (chapter 04)
    no positions        a Transformer of one layer and one head, 64 wide, that knows no order (chapter 06)
    positions           the same with sines added (chapter 09)
    no mask             the same, and a target token may look at all target tokens (chapter 07)
    transformer         two layers, four heads (chapters 08, 11)

and their controls: a stop with other layers, heads or numbers of updates, and `both ends`, which reads as
`additive` does and keeps one vector.
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
from heed.attention import padding_mask, record
from heed.data import batches, dates, pad, pad_batch
from heed.evaluate import exact_match
from heed.recurrent import Seq2Seq, free_run
from heed.scores import DotScore, ScaledDotScore
from heed.text import BOS, EOS, PAD, Characters, Vocabulary
from heed.transformer import make_model

SEEDS = (0, 1, 2)
LANGUAGES = ("de", "fr", "hu", "ja")
SHOWN = "Donnerstag, 5. März 1987"  # the date whose weights are kept
HARDWARE = "one thread of an x86-64 server processor, shared with other work; float32"
LOG = Path(__file__).with_name("stops.json")
RECURRENT, TRANSFORMER = 4e-3, 6e-3  # the highest rate of each kind
RECURRENTS = ("vector", "both ends", "additive", "plain", "scaled")
STOPS = {  # name: (kind, updates, sizes)
    "vector": ("vector", 200, {}),
    "additive": ("additive", 200, {}),
    "plain": ("plain", 200, {}),
    "scaled": ("scaled", 200, {}),
    "no positions": ("no positions", 300, {}),
    "positions": ("positions", 300, {}),
    "no mask": ("no mask", 300, {}),
    "transformer": ("positions", 500, {"n_layers": 2, "n_heads": 4}),
    "vector, longer": ("vector", 1000, {}),
    "both ends": ("both ends", 200, {}),
    "plain, longer": ("plain", 500, {}),
    "no positions, longer": ("no positions", 500, {}),
    "positions, longer": ("positions", 500, {}),
    "four heads": ("positions", 300, {"n_heads": 4}),
}


class BothEnds(AttentionSeq2Seq):
    """Reads from both ends and keeps one vector: the two states in which the readings end."""

    def start(self, source):
        state, (states, keys, mask) = super().start(source)
        forward, backward = states.chunk(2, dim=-1)  # (b, n, d) each
        end = (mask.sum(dim=1) - 1)[:, None, None].expand(-1, 1, forward.shape[-1])
        one = torch.cat([forward.gather(1, end), backward[:, :1]], dim=-1)  # (b, 1, 2 d)
        return state, (one, keys[:, :1], mask[:, :1])


class NoPosition(nn.Module):
    """Stands where positions are added, and adds none."""

    def forward(self, x, start=0):
        return x


class Scorer(nn.Module):
    """A Transformer with its generator: a score for each next token."""

    def __init__(self, positions=True, mask=True, n_layers=1, n_heads=1, d_model=64):
        super().__init__()
        self.body = make_model(
            len(sources), len(targets), n_layers, d_model, 4 * d_model, n_heads, dropout=0.0
        )
        self.mask = mask
        if not positions:
            self.body.source_embed[1] = self.body.target_embed[1] = NoPosition()

    def forward(self, x, y):
        """x: (b, n), y: (b, m). Returns (b, m, vocab)."""
        if self.mask:
            return self.body.generator.proj(self.body(x, y))
        pads = padding_mask(x)
        memory = self.body.encode(x, pads)
        return self.body.generator.proj(self.body.decode(memory, pads, y, padding_mask(y)))


def make(kind, sizes):
    """A model whose weights are drawn in double precision and then made single."""
    torch.set_default_dtype(torch.float64)
    if kind == "vector":
        model = Seq2Seq(len(sources), len(targets), d_embed=48, d_hidden=96)
    elif kind in RECURRENTS:
        shape = BothEnds if kind == "both ends" else AttentionSeq2Seq
        model = shape(len(sources), len(targets), d_embed=48, d_hidden=96)
        if kind in ("plain", "scaled"):
            model.decoder.score = {"plain": DotScore, "scaled": ScaledDotScore}[kind](96, 192, 512)
    else:
        model = Scorer(positions=kind != "no positions", mask=kind != "no mask", **sizes)
    torch.set_default_dtype(torch.float32)
    return model.float()


def loss(model, batch):
    """Mean cross-entropy of the next token."""
    scores = model(batch.source, batch.target_in).flatten(0, 1)
    return F.cross_entropy(scores, batch.target_out.flatten(), ignore_index=PAD)


def train(model, seed, updates, rate):
    """Train in place. Returns the mean of the last ten losses."""
    adam = torch.optim.Adam(model.parameters(), lr=rate)
    stream, losses = batches(encoded, 64, seed), []
    for step in range(updates):
        share = min(1, (step + 1) / 40, (updates - step) / (0.6 * updates))
        adam.param_groups[0]["lr"] = rate * share
        value = loss(model.train(), next(stream))
        adam.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        losses.append(value.item())
    model.eval()
    return sum(losses[-10:]) / 10


@torch.no_grad()
def write(model, x):
    """Write freely: each likeliest token is read next. Returns lines."""
    if not isinstance(model, Scorer):
        rows = free_run(model, x, n_max=12)
    else:
        rows = torch.full((len(x), 1), BOS)
        for _ in range(12):
            rows = torch.cat([rows, model(x, rows)[:, -1:].argmax(dim=-1)], dim=1)
        rows = rows[:, 1:]
    return ["".join(targets.decode(cut(row))) for row in rows.tolist()]


def cut(row):
    """A row of ids up to its EOS."""
    return row[: row.index(EOS)] if EOS in row else row


def looks(model):
    """The weights of every attention for the date that is shown, its target given."""
    row = pad_batch([(sources.encode(SHOWN), targets.encode("1987-03-05", bos=True, eos=True))])
    with torch.no_grad(), record(model) as maps:
        model(row.source, row.target_in)
    return {
        name: torch.cat(seen, dim=-2)[0].double().round(decimals=3).tolist() for name, seen in maps.items()
    }


def learn(name, seed):
    """Train one model, and measure what the tour shows of it."""
    kind, updates, sizes = STOPS[name]
    torch.manual_seed(seed)
    model = make(kind, sizes)
    began = time.process_time()
    rate = RECURRENT if kind in RECURRENTS else TRANSFORMER
    last = train(model, seed, updates, rate)
    seconds = time.process_time() - began
    written = write(model, pad([sources.encode(pair.source) for pair in test_set]))
    run = {
        "stop": name, "seed": seed, "updates": updates, "rate": rate,
        "parameters": sum(p.numel() for p in model.parameters()),
        "right": round(100 * exact_match(written, [pair.target for pair in test_set]), 1),
        "loss": round(last, 4), "seconds": round(seconds), "written": written[:6],
    }  # fmt: skip
    if seed == 0 and name in ("plain", "scaled", "no positions", "positions", "no mask", "transformer"):
        run["looks"] = looks(model)
    return run


def main():
    """Make the runs that the log lacks, and put each into it as soon as it is done."""
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {"runs": []}
    log["what"] = f"right dates of 100, of {len(test_set)} unseen ones; seconds of the processor"
    log["versions"] = {
        "heed": heed.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    log["hardware"] = HARDWARE
    log["seeds"] = SEEDS
    log["asked"] = [pair.source for pair in test_set[:6]]
    log["shown"] = SHOWN
    done = {(run["stop"], run["seed"]) for run in log["runs"]}
    order = list(STOPS)
    for seed in SEEDS:
        for name in STOPS:
            if (name, seed) not in done:
                run = learn(name, seed)
                log["runs"].append(run)
                log["runs"].sort(key=lambda run: (order.index(run["stop"]), run["seed"]))
                LOG.write_text(json.dumps(log, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
                print(name, seed, run["right"], run["loss"], run["seconds"], *run["written"][:2], flush=True)


train_set = dates(8000, "train", languages=LANGUAGES)
test_set = dates(300, "test", languages=LANGUAGES)
sources = Characters.build(pair.source for pair in train_set)
targets = Vocabulary.build(pair.target for pair in train_set)
encoded = [(sources.encode(p.source), targets.encode(p.target, bos=True, eos=True)) for p in train_set]

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    main()
