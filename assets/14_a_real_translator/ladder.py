"""The ladder of chapter 14: the models of chapters 02, 03 and 11 on the same data, in the same time.

    HEED_DATA=... python assets/14_a_real_translator/ladder.py runs/multi30k-10min [runs/another-seed ...]

Each folder holds a Transformer that `python -m heed train` has trained for some minutes of wall clock. For
each of them this script trains the two recurrent models: same sentences, same sub-words, same batches of
tokens, same label smoothing, same loop, same minutes, same seed. (They get a few seconds more: the
Transformer's minutes began before its sentences were read.) All of them then translate Multi30k's test set.

It writes ladder.json, which the chapter draws. A folder that is trained is not trained again.
"""

import argparse
import json
import math
import platform
from functools import partial
from pathlib import Path

import torch
from torch.nn import functional as F

from heed import checkpoint, recipe
from heed.alignment import AttentionSeq2Seq
from heed.data import TokenBatches
from heed.decode import beam, greedy, translate
from heed.engine import fit
from heed.evaluate import bleu, chrf, paired
from heed.recurrent import Seq2Seq, free_run
from heed.text import PAD

HERE = Path(__file__).parent
RECURRENT = {
    "encoder–decoder": (Seq2Seq, {"d_embed": 256, "d_hidden": 512}),
    "with attention": (AttentionSeq2Seq, {"d_embed": 256, "d_hidden": 256}),
}
RATE = 2e-3  # AdamW's; Muon is made for plain matrices, and a GRU's hold three of them on top of one another
LENGTHS = ((1, 8), (9, 11), (12, 15), (16, 99))  # words of the source sentence


def recurrent_loss(model, batch, smoothing):
    """The sum over the batch's real target tokens of the cross-entropy with label smoothing."""
    logits = model(batch.source, batch.target_in)  # (b, n, vocab)
    return F.cross_entropy(
        logits.flatten(0, 1).float(), batch.target_out.flatten(), ignore_index=PAD, label_smoothing=smoothing,
        reduction="sum",
    )  # fmt: skip


def train(name, translator, folder, pairs, val):
    """Train one of the recurrent models as the Transformer's recipe was, unless that has been done."""
    training = translator.recipe["training"]
    kind, sizes = RECURRENT[name]
    vocab = len(translator.subwords)
    torch.manual_seed(training["seed"])
    model = kind(vocab, vocab, **sizes)
    done = folder / "done.json"
    if not done.is_file():
        batches = TokenBatches(pairs, training["tokens"], training["seed"])
        held_out = TokenBatches(val, training["tokens"])
        n_tokens = sum(len(target) - 1 for _, target in val)

        def validate(model):
            plan = held_out.epoch(0)
            return sum(recurrent_loss(model, held_out.batch(rows), 0.0).item() for rows in plan) / n_tokens

        result = fit(
            model, batches, lambda model, batch: recurrent_loss(model, batch, training["smoothing"]), folder,
            minutes=training["minutes"], optimizer="adamw", lr=RATE, clip=training["clip"],
            warmup=training["warmup"], cooldown=training["cooldown"], precision=training["precision"],
            seed=training["seed"], every=training["every"], validate=validate, keep=training["keep"],
            fingerprint=f"{name} {sizes} {translator.subwords.fingerprint}",
        )  # fmt: skip
        done.write_text(json.dumps(vars(result), indent=1), encoding="utf-8", newline="\n")
    return model


def last_line(folder, key):
    """The last line of a training's log that has this key."""
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return next(line for line in map(json.loads, reversed(lines)) if key in line)


class Ladder:
    """The rungs of one seed. Each is measured on the test set, and compared with the one below it."""

    def __init__(self, folder):
        self.folder, self.translator = folder, recipe.load(folder)
        _, self.subwords, self.recipe = self.translator
        self.seed = self.recipe["training"]["seed"]
        self.pairs = self.encoded("train", self.recipe["data"]["longest"])
        self.val = self.encoded("val", math.inf)
        self.sources, self.references = zip(*recipe.sentences(self.recipe, "test"), strict=True)
        self.lengths = [len(source.split()) for source in self.sources]
        self.rungs, self.written = [], {}

    def encoded(self, split, longest):
        return recipe.encoded(recipe.sentences(self.recipe, split), self.subwords, longest)

    def translate(self, model, search):
        return translate(model.eval(), self.subwords, self.sources, search=search)

    def climb(self):
        """Train what is not trained, measure all. Returns what the log keeps of this seed."""
        for name in RECURRENT:
            plain = name.replace("–", "-").replace(" ", "-")
            where = self.folder.parent / f"ladder-{plain}-{self.seed}"
            model = train(name, self.translator, where, self.pairs, self.val)
            self.rung(name, model, where, "best.pt", write, "greedy")
        model, where = self.translator.model, self.folder
        self.rung("Transformer", model, where, "best.pt", greedy, "greedy")
        self.rung("+ averaging", model, where, "average.pt", greedy, "mean of snapshots, greedy")
        better, file = "Transformer", "best.pt"
        if last_line(where, "used")["used"] == "average":  # as the validation set has decided
            better, file = "+ averaging", "average.pt"
        self.rung("+ beam", model, where, file, beam, f"the weights of {better}, beam of 4", better)
        widths = {
            n: round(bleu(self.translate(model, partial(beam, width=n)), self.references).value, 2)
            for n in (1, 2, 4, 8)
        }
        signature = bleu(self.written["+ beam"], self.references).signature
        return {"seed": self.seed, "signature": signature, "rungs": self.rungs, "beam widths": widths}

    def rung(self, name, model, where, file, search, how, below=None):
        """Measure the weights in one file, and what they are better than the rung below."""
        below = below or next(reversed(self.written), None)
        model.load_state_dict(checkpoint.load(where / file)["model"])
        written, line = self.translate(model, search), last_line(where, "tokens_per_second")
        score, characters = bleu(written, self.references), chrf(written, self.references)
        step = paired(written, self.written[below], self.references) if below else None
        n_tokens = sum(len(target) - 1 for _, target in self.pairs)
        self.rungs.append({
            "name": name,
            "how": how,
            "parameters": sum(p.numel() for p in model.parameters()),
            "updates": line["step"],
            "epochs": round(line["tokens"] / n_tokens, 2),
            "tokens_per_second": round(line["tokens"] / line["seconds"]),
            "bleu": round(score.value, 2),
            "interval": [round(score.low, 2), round(score.high, 2)],
            "chrf": round(characters.value, 2),
            "by_length": self.by_length(written),
            "step": step and {
                "above": below,
                "bleu": round(step.difference, 2),
                "interval": [round(step.low, 2), round(step.high, 2)],
                "p": round(step.p, 4),
            },
        })
        self.written[name] = written
        print(f"seed {self.seed}, {name}: {score.value:.2f}", flush=True)

    def by_length(self, written):
        """BLEU of short and of long sentences apart: [from, to, sentences, BLEU]."""
        rows = []
        for low, high in LENGTHS:
            chosen = [i for i, n in enumerate(self.lengths) if low <= n <= high]
            score = bleu([written[i] for i in chosen], [self.references[i] for i in chosen], n_resamples=1)
            rows.append([low, high, len(chosen), round(score.value, 2)])
        return rows


def write(model, source):
    """The search of the recurrent models: greedy."""
    return free_run(model, source, n_max=2 * source.shape[1] + 10).tolist()


def main():
    words = argparse.ArgumentParser(description="Train and measure the rungs of chapter 14's ladder.")
    words.add_argument("folders", nargs="+", type=Path, help="Transformers trained by the recipe, one a seed")
    words.add_argument("--hardware", default="2 cores of an Intel Xeon, CPU", help="in words")
    words.add_argument("--to", type=Path, default=HERE / "ladder.json")
    words = words.parse_args()
    runs = [Ladder(folder).climb() for folder in words.folders]
    settings = recipe.load(words.folders[0]).recipe
    log = {
        "task": "Multi30k, German to English, test_2016_flickr, 1,000 sentences",
        "budget": f"{settings['training']['minutes']:g} minutes of wall clock each, {words.hardware}",
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "threads": torch.get_num_threads(),
        "recurrent": {name: sizes for name, (_, sizes) in RECURRENT.items()} | {"adamw rate": RATE},
        "transformer": {part: settings[part] for part in ("model", "training")},
        "runs": runs,
    }
    words.to.write_text(json.dumps(log, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
