"""What greedy, beam and sampling find with a trained translator: how probable it is, how long, and how good.

    HEED_DATA=... python assets/13_decoding/searches.py [--run RUN] [PART ...]

RUN is a folder that `python -m heed train` has made; without it, the committed model of chapter 14. The
script writes searches.json beside this file; on one core it takes about ten minutes. With the names of parts
(beams, gains, samples, test, rounded), it measures only these, and the rest of the log stays.

    beams      Multi30k's 1,014 held-out captions (the split "val"): BLEU, the mean log P of a translation,
               and its mean number of tokens, EOS included, for each width and each exponent of the length
               penalty
    gains      of the same captions: BLEU's difference from greedy, and the ends of its 95 % interval, for
               which the same captions are drawn for both; and the human translations' log P and tokens
    samples    the same for three ways to draw, three seeds each; "distinct" is the mean number of different
               translations of a caption among the three
    errors     the share of the captions for which a beam, with no penalty, has found a translation that is
               more probable than greedy's, by more than MARGIN, and the share for which it has found a less
               probable one
    empty      the mean log P of the empty translation, and the share of captions for which that is more
               probable than the beam's of the same width
    counts     of Multi30k's 1,000 test captions, for greedy and for a beam of 4 with a penalty of 1 and
               without one ("bare"): what BLEU counts, ten numbers a caption (equal runs of one to four words,
               all runs of the translation, words of the translation, words of the reference)
    test       of the same: BLEU and chrF with intervals and signatures, and the paired comparison. "drawn":
               the most probable of 4 translations that are drawn at a temperature of 0.5, which reads as
               many tokens as a beam of 4
    human      of both splits: the mean log P of the human translations, and their mean number of tokens;
               measured with the gains and with the test
    rounded    the share of the 1,014 captions that are translated differently, greedily, when each row of
               the linear layers' matrices is rounded to 8-bit integers times a scale

The captions may not be passed on, and are not in the log.
"""

import argparse
import copy
import hashlib
import json
import platform
import time
from functools import partial
from pathlib import Path

import torch
from torch import nn

import heed
from heed import evaluate, recipe
from heed.data import multi30k, pad
from heed.decode import beam, greedy, sample
from heed.text import BOS, EOS, PAD

HERE = Path(__file__).parent
COMMITTED = HERE.parent / "14_a_real_translator" / "model"
LOG = HERE / "searches.json"
WIDTHS = (1, 2, 4, 8, 16)
PENALTIES = (0.0, 1.0)
GAINS = (2, 4, 8)
OTHERS = ((4, 0.5), (4, 2.0))  # (width, penalty)
DRAWS = {
    "all": {},
    "top-k 10": {"top_k": 10},
    "top-p 0.8": {"top_p": 0.8},
    "temperature 0.5": {"temperature": 0.5},
}
SEEDS = (0, 1, 2)
WIDE = 8  # of the beams that look for search errors
MARGIN = 1e-3  # two sums of float32 are equal up to this
HARDWARE = "1 core of an x86-64 server processor, shared with other work; float32"


@torch.no_grad()
def log_p(model, sources, written, n=128):
    """The log-probability of each translation with its EOS, as the model gives it. Returns a tensor."""
    found = []
    for i in range(0, len(sources), n):
        source = pad(sources[i : i + n])
        target = pad([[BOS, *ids] for ids in written[i : i + n]])
        y = pad([[*ids, EOS] for ids in written[i : i + n]])
        logits = model.generator.proj(model(source, target)).double()
        logits[..., [PAD, BOS]] = float("-inf")
        each = logits.log_softmax(-1).gather(-1, y[..., None])[..., 0]
        found.append(each.masked_fill(y == PAD, 0.0).sum(-1))
    return torch.cat(found)


def search_all(model, sources, search, n=64):
    """The ids that a search writes for each source, in order."""
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    written = [None] * len(sources)
    for i in range(0, len(order), n):
        rows = order[i : i + n]
        for row, ids in zip(rows, search(model, pad([sources[row] for row in rows])), strict=True):
            written[row] = ids
    return written


class Captions:
    """The captions of one split, and what is measured of their translations."""

    def __init__(self, translator, split):
        self.model, self.subwords = translator.model, translator.subwords
        pairs = multi30k(split)
        self.references = [pair.target for pair in pairs]
        self.sources = [self.subwords.encode(pair.source) for pair in pairs]

    def human(self):
        """What the log keeps of the human translations: their mean log P, and tokens, EOS included."""
        ids = [self.subwords.encode(text) for text in self.references]
        tokens = sum(len(row) + 1 for row in ids) / len(ids)
        p = log_p(self.model, self.sources, ids).mean().item()
        return {"log_p": round(p, 3), "tokens": round(tokens, 3)}

    def measure(self, search):
        """Translate all; what the log keeps of it, the ids, and their log P."""
        began = time.perf_counter()
        written = search_all(self.model, self.sources, search)
        seconds = time.perf_counter() - began
        p = log_p(self.model, self.sources, written)
        texts = [self.subwords.decode(ids) for ids in written]
        entry = {
            "bleu": round(evaluate.bleu(texts, self.references, 1).value, 2),
            "log_p": round(p.mean().item(), 3),
            "tokens": round(sum(len(ids) + 1 for ids in written) / len(written), 3),
            "empty": sum(not ids for ids in written),
            "seconds": round(seconds, 1),
        }
        return entry, texts, p


def beams(log, translator):
    """The beams, and what they show of search errors and of the empty translation."""
    held_out = Captions(translator, "val")
    log["reference tokens"] = held_out.human()["tokens"]
    log["beams"], found = [], {}
    for width, penalty in [*((w, a) for a in PENALTIES for w in WIDTHS), *OTHERS]:
        search = partial(beam, width=width, penalty=penalty)
        entry, _, found[width, penalty] = held_out.measure(search)
        log["beams"].append({"width": width, "penalty": penalty, **entry})
        print(log["beams"][-1], flush=True)
    better = found[WIDE, 0.0] - found[1, 0.0]
    log["errors"] = {
        "width": WIDE,
        "more probable": round((better > MARGIN).double().mean().item(), 4),
        "less probable": round((better < -MARGIN).double().mean().item(), 4),
    }
    nothing = log_p(held_out.model, held_out.sources, [[] for _ in held_out.sources])
    beaten = (nothing > found[WIDE, 0.0]).double().mean()
    log["empty"] = {"log_p": round(nothing.mean().item(), 3), "more probable": round(beaten.item(), 4)}


def gains(log, translator):
    """The beams' gain over greedy, with its interval; the log is written after each."""
    held_out = Captions(translator, "val")
    log["human"]["val"], log["gains"] = held_out.human(), []
    plain = held_out.measure(greedy)[1]
    for width in GAINS:
        for penalty in PENALTIES:
            texts = held_out.measure(partial(beam, width=width, penalty=penalty))[1]
            compared = evaluate.paired(texts, plain, held_out.references)
            gain = [round(compared[i], 2) for i in (2, 3, 4)]
            log["gains"].append({"width": width, "penalty": penalty, "gain": gain})
            print(log["gains"][-1], flush=True)
            write(log)


def samples(log, translator):
    """The three ways to draw."""
    held_out = Captions(translator, "val")
    log["samples"] = []
    for name, how in DRAWS.items():
        runs, said = [], []
        for seed in SEEDS:
            entry, texts, _ = held_out.measure(partial(sample, **how, seed=seed))
            runs.append(entry)
            said.append(texts)
        distinct = sum(len(set(row)) for row in zip(*said, strict=True)) / len(said[0])
        kept = {key: [entry[key] for entry in runs] for key in runs[0]}
        log["samples"].append({"how": name, **kept, "distinct": round(distinct, 3)})
        print(log["samples"][-1], flush=True)


def test(log, translator):
    """Greedy and beam on the test captions: counts, scores, and the comparison."""
    captions = Captions(translator, "test")
    log["counts"], log["test"], said = {}, {}, {}
    log["human"]["test"] = captions.human()
    log["drawn"] = best_drawn(captions)
    print(log["human"], log["drawn"], flush=True)
    bare, full = (partial(beam, width=4, penalty=penalty) for penalty in PENALTIES)
    for name, search in {"greedy": greedy, "bare": bare, "beam": full}.items():
        entry, texts, _ = captions.measure(search)
        said[name] = texts
        log["counts"][name] = evaluate.sentence_counts(texts, captions.references).tolist()
        log["test"][name] = entry
        for kind in ("bleu", "chrf"):
            score = getattr(evaluate, kind)(texts, captions.references)
            numbers = (round(number, 2) for number in (score.value, score.low, score.high))
            log["test"][name][kind] = [*numbers, score.signature]
        print(log["test"][name], flush=True)
    compared = evaluate.paired(said["beam"], said["greedy"], captions.references)
    log["paired"] = {key: round(value, 4) for key, value in compared._asdict().items()}


def best_drawn(captions, n=4):
    """What the log keeps of the most probable of n translations, drawn for each caption."""
    runs = [captions.measure(partial(sample, temperature=0.5, seed=seed)) for seed in range(n)]
    p, best = torch.stack([run[2] for run in runs]).max(dim=0)
    texts = [runs[k][1][i] for i, k in enumerate(best.tolist())]
    score = evaluate.bleu(texts, captions.references, 1).value
    tokens = sum(len(captions.subwords.encode(text)) + 1 for text in texts) / len(texts)
    found = {"log_p": p.mean().item(), "tokens": tokens, "bleu": score}
    return {"draws": n, **{key: round(number, 3) for key, number in found.items()}}


def rounded(log, translator):
    """What rounding the weights to 8 bits changes in greedy translations."""
    captions, other = Captions(translator, "val"), copy.deepcopy(translator.model)
    with torch.no_grad():
        for module in other.modules():
            if isinstance(module, nn.Linear):
                scale = module.weight.abs().amax(dim=-1, keepdim=True) / 127
                module.weight.copy_((module.weight / scale).round() * scale)
    both = [search_all(model, captions.sources, greedy) for model in (translator.model, other)]
    changed = sum(a != b for a, b in zip(*both, strict=True)) / len(captions.sources)
    log["rounded"] = round(changed, 4)
    print(log["rounded"], flush=True)


PARTS = {"beams": beams, "gains": gains, "samples": samples, "test": test, "rounded": rounded}


def main(parts, run):
    """Measure these parts, and write the log after each."""
    translator = recipe.load_translator(run)
    log = json.loads(LOG.read_text(encoding="utf-8")) if LOG.is_file() else {}
    log |= {
        "what": "a translator's searches on Multi30k, German to English: see searches.py",
        "model": hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest(),
        "parameters": sum(p.numel() for p in translator.model.parameters()),
        "captions": {split: len(multi30k(split)) for split in ("val", "test")},
        "versions": {
            "heed": heed.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "hardware": HARDWARE,
        "seeds": SEEDS,
    }
    log.setdefault("human", {})
    for part in parts:
        PARTS[part](log, translator)
        write(log)


def write(log):
    """The log as JSON, a line for each entry of a list."""
    counts = {
        name: [json.dumps(row, separators=(",", ":")) for row in rows]
        for name, rows in log.get("counts", {}).items()
    }
    text = json.dumps({**log, "counts": "COUNTS"}, indent=1)
    rows = ",\n  ".join(f'"{name}": [' + ",".join(lines) + "]" for name, lines in counts.items())
    LOG.write_text(text.replace('"COUNTS"', "{\n  " + rows + "\n }") + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--run", type=Path, default=COMMITTED)
    asked = parser.parse_args()
    main(asked.parts or [*PARTS], asked.run)
