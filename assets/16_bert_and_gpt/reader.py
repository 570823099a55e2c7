"""Language models that read this book: a Transformer, a GRU beside it, and counts of letters below both.

    python assets/16_bert_and_gpt/reader.py gpt 600         (make reader: two or three minutes of one thread)
    python assets/16_bert_and_gpt/reader.py gpt 120         (as many as the page: half a minute)
    python assets/16_bert_and_gpt/reader.py gru 300         (takes about as long as gpt 600)
    python assets/16_bert_and_gpt/reader.py gpt 2400        (eight minutes: four times as long)
    python assets/16_bert_and_gpt/reader.py gru 1200        (as long as gpt 2400)
    python assets/16_bert_and_gpt/reader.py counts
    python assets/16_bert_and_gpt/reader.py search          (20 minutes of one thread; --share 0/8: an eighth)
    python assets/16_bert_and_gpt/reader.py search --edge   (goes on where the best of them stands at an edge)

They read the training paragraphs of prose.txt (prose.py), in 1,000 sub-words learned from these paragraphs.
The weights kept are those that are best on the validation paragraphs. The number is bits a character of the
test paragraphs, which nothing was chosen by; the end of a paragraph counts as a character. Each run is a row
of reader.json, and `gpt 600` leaves its weights, in bfloat16, in the folder `model`.

`search` gives both networks the same: as many settings of learning rate and dropout, and as many minutes.
The validation paragraphs choose. Its rows are lines of a file, so that many processes can share the work;
what they have found goes into reader.json by `reader.py searched FILE`.
"""

import argparse
import json
import math
import platform
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

import torch
from prose import split
from safetensors.torch import save_file
from torch import nn

from heed.data import TokenBatches, pad_batch
from heed.engine import batch_to, fit
from heed.engine.log import read_log
from heed.loss import language_model_loss
from heed.speed import quick
from heed.text import Subwords
from heed.transformer import Generator, make_language_model

HERE = Path(__file__).parent
LOG, MODEL = HERE / "reader.json", HERE / "model"
SIZES = {"n_layers": 4, "d_model": 192, "d_ff": 768, "n_heads": 6}
VOCAB, TOKENS = 1_000, 2_500
STORED = 600  # updates of the Transformer whose weights are stored
OVERFIT = ((1_000, 0.4), (400, 0.3))  # from so many updates on: this dropout, and weight decay
KINDS = {
    "gpt": {"optimizer": "muon", "lr": 1e-2, "adamw_lr": 5e-3},
    "gru": {"optimizer": "adamw", "lr": 4e-3},
}
FACTORS, DROPOUTS = (0.5, 1, 2, 4), (0.2, 0.4)  # of the search: times KINDS' rates
SEARCHED = {"gpt": 300, "gru": 150}  # updates, which take about the same time: a minute of one thread


class Recurrent(nn.Module):
    """A GRU that predicts the next token: the rival, with as many parameters."""

    def __init__(self, vocab, d_embed=256, d_hidden=560, dropout=0.3):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_embed)
        self.gru = nn.GRU(d_embed, d_hidden, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.generator = Generator(d_hidden, vocab)

    def forward(self, ids):
        """ids: (b, n). Returns (b, n, d_hidden)."""
        x, _ = self.gru(self.dropout(self.embed(ids)))
        return self.dropout(x)


def encoded(subwords, part):
    """The paragraphs of one part as `TokenBatches` takes them: no source, and a target."""
    return [([], subwords.encode(line, bos=True, eos=True)) for line in split(part)]


@torch.no_grad()
def bits(model, subwords, part):
    """Bits a character: −log₂ p of all tokens of a part, over its characters and ends of paragraphs."""
    pairs = sorted(encoded(subwords, part), key=lambda pair: len(pair[1]))
    model.eval()
    device = next(model.parameters()).device
    batches = (batch_to(pad_batch(pairs[i : i + 32]), device) for i in range(0, len(pairs), 32))
    loss = sum(language_model_loss(model, batch).item() for batch in batches)
    return loss / math.log(2) / characters(part)


def characters(part):
    """How many characters are predicted: those of the paragraphs, and their ends."""
    return sum(len(line) + 1 for line in split(part))


def make(kind, vocab, dropout):
    if kind == "gru":
        return Recurrent(vocab, dropout=dropout)
    return quick(make_language_model(vocab, dropout=dropout, **SIZES))


def usual(kind, updates):
    """Dropout and weight decay for so many updates."""
    short = (0.1 if kind == "gpt" else 0.2), 0.0
    return next(((dropout, 0.1) for least, dropout in OVERFIT if updates >= least), short)


def trained(kind, updates, subwords, seed=0, dropout=None, factor=1, device="cpu"):
    """A model after so many updates, or before that where it was best on the validation part; and its row.

    dropout: as is usual for so many updates if it is not given
    factor: what the learning rates of KINDS are multiplied by
    """
    torch.manual_seed(seed)
    as_usual, decay = usual(kind, updates)
    dropout = as_usual if dropout is None else dropout
    rates = {key: factor * value for key, value in KINDS[kind].items() if key != "optimizer"}
    options = KINDS[kind] | rates
    model = make(kind, len(subwords), dropout)
    curve, start = [], time.process_time()

    def validate(model):
        curve.append([round(time.process_time() - start), round(bits(model, subwords, "val"), 3)])
        return curve[-1][1]

    batches = TokenBatches(encoded(subwords, "train"), TOKENS, seed)
    precision = "fp32" if kind == "gru" else "auto"
    with tempfile.TemporaryDirectory() as folder:
        result = fit(
            model, batches, language_model_loss, folder, updates=updates, weight_decay=decay, device=device,
            every=max(updates // 24, 50), validate=validate, precision=precision, seed=seed, **options,
        )  # fmt: skip
        facts = read_log(Path(folder, "log.jsonl"))[0]
    seconds = round(time.process_time() - start)
    row = {
        "kind": kind, "updates": updates, "epochs": result.epochs, "tokens": result.tokens,
        "parameters": sum(p.numel() for p in model.parameters()), "dropout": dropout, "weight_decay": decay,
        "precision": precision, "computed_in": facts["precision"], "processor_seconds": seconds, "seed": seed,
        **options,
        "validation": curve, "train": round(bits(model, subwords, "train"), 3),
        "test": round(bits(model, subwords, "test"), 3),
    }  # fmt: skip
    return model, row


# --- The same search for both -------------------------------------------------------------------------------


def settings():
    """All that are searched: (kind, factor, dropout)."""
    return [(kind, factor, dropout) for kind in KINDS for factor in FACTORS for dropout in DROPOUTS]


def at_the_edge(rows):
    """The settings one factor further, of each kind whose best row has the lowest or the highest factor."""
    further = []
    for kind in KINDS:
        mine = [row for row in rows if row["kind"] == kind]
        tried = sorted({row["factor"] for row in mine})
        chosen = best(mine)["factor"]
        on = [tried[0] / 2] * (chosen == tried[0]) + [tried[-1] * 2] * (chosen == tried[-1])
        further += [(kind, factor, dropout) for factor in on for dropout in DROPOUTS]
    return further


def best(rows):
    """The row that the validation paragraphs like best."""
    return min(rows, key=lambda row: row["best"])


def search(words):
    """Train with each setting of this share, and append a row for each to a file."""
    words = search_parser().parse_args(words)
    part, n = (int(number) for number in words.share.split("/"))
    chosen = (at_the_edge(rows_of(words.to)) if words.edge else settings())[part::n]
    subwords = Subwords.learn(split("train"), VOCAB) if chosen else None
    words.to.parent.mkdir(parents=True, exist_ok=True)
    for kind, factor, dropout in chosen:
        updates, began = words.updates or SEARCHED[kind], time.monotonic()
        _, row = trained(kind, updates, subwords, dropout=dropout, factor=factor, device=words.device)
        row |= {"factor": factor, "best": min(value for _, value in row["validation"])}
        row |= {"seconds": round(time.monotonic() - began, 1), "device": words.device}
        row |= {"threads": torch.get_num_threads(), "torch": torch.__version__}
        with words.to.open("a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(row) + "\n")  # one write: other processes append, too
        print(kind, factor, dropout, row["best"], row["test"], row["seconds"], flush=True)


def search_parser():
    """The words after `search`."""
    parser = argparse.ArgumentParser("reader.py search")
    parser.add_argument("--share", default="0/1", metavar="I/N", help="every N-th setting, from the I-th on")
    parser.add_argument("--edge", action="store_true", help="one factor further where the best is at an edge")
    parser.add_argument("--device", default="cpu", help="cpu, cuda; else cpu")
    parser.add_argument("--updates", type=int, help=f"else {SEARCHED}")
    parser.add_argument("--to", type=Path, default=HERE / "search.jsonl", metavar="FILE")
    return parser


def rows_of(file):
    """The rows of a search so far."""
    return [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]


def searched(rows):
    """What the log keeps of a search: every setting, and for each kind the best by the validation part."""
    order = sorted(rows, key=lambda row: (row["kind"], row["factor"], row["dropout"]))
    return {"what": "the same search for both", "rows": order} | {
        "best": {kind: best([row for row in rows if row["kind"] == kind]) for kind in KINDS}
    }


# --- Counts of letters -------------------------------------------------------------------------------------


class Counts:
    """The next character by how often it followed the last n − 1, smoothed with shorter contexts.

    Witten & Bell's way: p_n = (c + u p_{n−1}) / (N + u), where u different characters have followed.
    """

    def __init__(self, lines, n, alphabet):
        self.n, self.alphabet = n, alphabet
        self.after = [defaultdict(Counter) for _ in range(n)]
        for line in lines:
            text = "\n" * (n - 1) + line + "\n"
            for i in range(n - 1, len(text)):
                for k in range(n):
                    self.after[k][text[i - k : i]][text[i]] += 1

    def p(self, context, character):
        p = 1 / self.alphabet
        for k in range(self.n):
            seen = self.after[k].get(context[len(context) - k :])
            if seen:
                p = (seen[character] + len(seen) * p) / (seen.total() + len(seen))
        return p

    def bits(self, lines):
        loss = 0.0
        for line in lines:
            text = "\n" * (self.n - 1) + line + "\n"
            for i in range(self.n - 1, len(text)):
                loss -= math.log2(self.p(text[i - self.n + 1 : i], text[i]))
        return loss / sum(len(line) + 1 for line in lines)


def counts():
    """Bits a character on the test part, for contexts of 0 to 7 characters."""
    alphabet = len({c for part in ("train", "val", "test") for line in split(part) for c in line}) + 1
    return {n: round(Counts(split("train"), n, alphabet).bits(split("test")), 3) for n in range(1, 9)}


def main(kind, updates=0, *more):
    if kind == "search":
        return search([*([updates] if updates else []), *more])
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.exists() else {"runs": []}
    if kind == "counts":
        log["counts"] = counts()
    elif kind == "searched":
        log["search"] = searched(rows_of(updates))
    else:
        subwords = Subwords.learn(split("train"), VOCAB)
        model, row = trained(kind, int(updates), subwords)
        row |= {"hardware": "one thread of an x86 server", "threads": torch.get_num_threads()}
        row |= {"torch": torch.__version__, "python": platform.python_version()}
        if kind == "gpt" and int(updates) == STORED:
            MODEL.mkdir(exist_ok=True)
            weights = {name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items()}
            save_file(weights, MODEL / "model.safetensors")
            subwords.save(MODEL / "subwords.json")
        log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.exists() else log
        same = [r for r in log["runs"] if (r["kind"], r["updates"]) != (kind, int(updates))]
        log["runs"] = sorted([*same, row], key=lambda r: (r["kind"], r["updates"]))
    log["characters"] = {part: characters(part) for part in ("train", "val", "test")}
    LOG.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
