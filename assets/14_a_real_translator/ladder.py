"""The ladder of chapter 14: the models of chapters 02, 03 and 11 on the same data, at the same budget.

    HEED_DATA=... OMP_NUM_THREADS=1 python assets/14_a_real_translator/ladder.py --minutes 6

Same sentences, same sub-words, same batches of tokens, same label smoothing, same dropout, same shape of the
learning rate, same loop. The optimizer is AdamW for the recurrent models, and the recipe's for the
Transformer: Muon for its hidden matrices, with twice the rate, and AdamW for the rest. (The search has a
Transformer with AdamW alone as well.) The budget is time, but it is counted in updates, so that other work on
the machine changes nothing. (One thread: a recurrent network is many small operations, after each of which
two threads wait for each other.)

1. `speed`: how long an update of each model takes, measured by turns; so many fit into the minutes.
2. `search`: each model is trained with each of RATES for a third of its updates. The lowest loss on the
   held-out captions decides. The test captions are not read.
3. `train`: each model at its rate, for all its updates, with each seed. (The log has those that are done.)
4. `measure`: the weights that the held-out captions liked best translate the test captions, once.

Steps 1 to 3 are done only where they have not been done; what they leave is in --work. It writes ladder.json,
which the chapter draws.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from functools import partial
from pathlib import Path

import torch
from torch.nn import functional as F

from heed import checkpoint, recipe
from heed.alignment import AttentionSeq2Seq
from heed.data import TokenBatches
from heed.decode import beam, greedy, translations
from heed.engine import fit
from heed.evaluate import bleu, chrf, paired
from heed.loss import translation_loss
from heed.recipe import read
from heed.recurrent import Seq2Seq, free_run
from heed.text import PAD

HERE = Path(__file__).parent
RECIPE = HERE.parents[1] / "recipes" / "multi30k-10min.toml"
MODELS = ("encoder–decoder", "with attention", "Transformer")
SEARCHED = (*MODELS, "Transformer, AdamW")
RECURRENT = {
    "encoder–decoder": (Seq2Seq, {"d_embed": 256, "d_hidden": 512}),
    "with attention": (AttentionSeq2Seq, {"d_embed": 256, "d_hidden": 256}),
}
TRANSFORMER = {"n_layers": 3, "d_model": 256, "d_ff": 512, "n_heads": 4}
DROPOUT = 0.1
RATES = (1e-3, 2e-3, 4e-3, 8e-3)
SEEDS = (0, 1, 2)
TRAINING = {
    "clip": 1.0, "schedule": "trapezoid", "warmup": 0.1, "precision": "bf16",
    "every": 60, "keep": 3,
}  # fmt: skip
LENGTHS = ((1, 8), (9, 11), (12, 15), (16, 99))  # words of the source sentence


def optimizer(name, rate):
    """What `fit` is told: the optimizer of a model, and its rate."""
    if name == "Transformer":
        return {"optimizer": "muon", "lr": 2 * rate, "adamw_lr": rate}
    return {"optimizer": "adamw", "lr": rate}


def recurrent_loss(model, batch, smoothing):
    """The sum over the batch's real target tokens of the cross-entropy with label smoothing."""
    logits = model(batch.source, batch.target_in)  # (b, n, vocab)
    return F.cross_entropy(
        logits.flatten(0, 1).float(), batch.target_out.flatten(), ignore_index=PAD, label_smoothing=smoothing,
        reduction="sum",
    )  # fmt: skip


def with_dropout(model, p):
    """Dropout on the vectors of all tokens, and on what the output layer reads. Returns the model."""

    def after(module, given, out):
        return F.dropout(out, p, model.training)

    def before(module, given):
        return (F.dropout(given[0], p, model.training),)

    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Embedding):
            module.register_forward_hook(after)
        if name.endswith("decoder.out"):
            module.register_forward_pre_hook(before)
    return model


def write(model, source):
    """The search of the recurrent models: greedy."""
    return free_run(model, source, n_max=2 * source.shape[1] + 10).tolist()


class Ladder:
    """What all trainings have in common, and what has been found so far.

    work: a folder for the trainings
    minutes: the budget
    """

    def __init__(self, work, minutes):
        self.work, self.minutes, self.recipe = work, minutes, read(RECIPE)
        work.mkdir(parents=True, exist_ok=True)
        train, val = (recipe.sentences(self.recipe, split) for split in ("train", "val"))
        self.subwords = recipe.learn_subwords(self.recipe, train)
        self.pairs, self.val = (recipe.encoded(pairs, self.subwords) for pairs in (train, val))
        self.tokens, self.smoothing = self.recipe["training"]["tokens"], self.recipe["training"]["smoothing"]
        self.n_tokens = sum(len(target) - 1 for _, target in self.pairs)

    def model(self, name, seed):
        """A model with fresh weights, and its loss."""
        vocab = len(self.subwords)
        if name in RECURRENT:
            kind, sizes = RECURRENT[name]
            torch.manual_seed(seed)
            return with_dropout(kind(vocab, vocab, **sizes), DROPOUT), recurrent_loss
        made = {"model": {**TRANSFORMER, "dropout": DROPOUT, "norm": "pre"}, "training": {"seed": seed}}
        return recipe.build(made, vocab), translation_loss

    def train(self, name, rate, seed, updates, folder):
        """Train a model, unless that has been done. Returns it, and the lowest held-out loss."""
        model, loss = self.model(name, seed)
        done = folder / "done.json"
        if not done.is_file():
            batches = TokenBatches(self.pairs, self.tokens, seed)
            held_out = TokenBatches(self.val, self.tokens)
            n_tokens = sum(len(target) - 1 for _, target in self.val)

            def validate(model):
                plan = held_out.epoch(0)
                return sum(loss(model, held_out.batch(rows), 0.0).item() for rows in plan) / n_tokens

            result = fit(
                model, batches, lambda model, batch: loss(model, batch, self.smoothing), folder,
                **TRAINING, **optimizer(name, rate), updates=updates, seed=seed, validate=validate,
                fingerprint=f"{name} {self.subwords.fingerprint}",
            )  # fmt: skip
            done.write_text(json.dumps(vars(result), indent=1), encoding="utf-8", newline="\n")
        return model, json.loads(done.read_text(encoding="utf-8"))["value"]

    def kept(self, name, make):
        """What `make` gives, as JSON, from the folder of the trainings where it is there."""
        file = self.work / f"{name}.json"
        if not file.is_file():
            file.write_text(json.dumps(make(), indent=1, ensure_ascii=False), encoding="utf-8", newline="\n")
        return json.loads(file.read_text(encoding="utf-8"))

    # --- 1. Speed ---------------------------------------------------------------------------------------

    def speed(self, rounds=3, steps=8):
        """Seconds an update of each model takes: the median over rounds, in which the models take turns."""
        seconds = {name: [] for name in SEARCHED}
        for k in range(rounds):
            for name in SEARCHED:
                model, loss = self.model(name, 0)
                batches, stamps = TokenBatches(self.pairs, self.tokens, k), []

                def timed(model, batch, loss=loss, stamps=stamps):
                    stamps.append(time.perf_counter())
                    return loss(model, batch, self.smoothing)

                fit(
                    model, batches, timed, self.work / "speed" / f"{name}-{k}",
                    **{**TRAINING, "keep": 0}, **optimizer(name, 1e-3), updates=2 * steps,
                )  # fmt: skip
                seconds[name].append((stamps[-1] - stamps[steps - 1]) / steps)
        return {name: statistics.median(each) for name, each in seconds.items()}

    def updates(self):
        """How many updates of each model fit into the minutes."""
        return {name: int(60 * self.minutes / s) for name, s in self.kept("speed", self.speed).items()}

    # --- 2. Search --------------------------------------------------------------------------------------

    def search(self):
        """Held-out loss of each model and rate, after a third of the updates, with seed 0."""
        found = {}
        for name, updates in self.updates().items():
            for rate in RATES:
                folder = self.work / "search" / f"{name}-{rate}"
                found.setdefault(name, {})[str(rate)] = self.train(name, rate, 0, updates // 3, folder)[1]
                print(f"search, {name}, rate {rate}: {found[name][str(rate)]:.3f}", flush=True)
        return found

    def rates(self):
        """The best rate of each model."""
        return {name: float(min(of, key=of.get)) for name, of in self.kept("search", self.search).items()}

    # --- 3. Train ---------------------------------------------------------------------------------------

    def trained(self, name, seed):
        """The model of one rung, and the folder of its training."""
        folder = self.work / f"{name}-{seed}"
        return self.train(name, self.rates()[name], seed, self.updates()[name], folder)[0], folder

    # --- 4. Measure -------------------------------------------------------------------------------------

    def climb(self, seed):
        """What the log keeps of this seed: the rungs, each compared with the one below it."""
        sources, references = zip(*recipe.sentences(self.recipe, "test"), strict=True)
        lengths, rungs, written = [len(source.split()) for source in sources], [], {}

        def said(model, search):
            return translations(model.eval(), self.subwords, sources, search=search)

        def rung(name, model, folder, file, search, how, below):
            model.load_state_dict(checkpoint.load(folder / file)["model"])
            mine, line = said(model, search), last_line(folder, "tokens_per_second")
            updates = last_line(folder, "step")["step"]
            score, step = bleu(mine, references), paired(mine, written[below], references) if below else None
            rungs.append({
                "name": name,
                "how": how,
                "parameters": sum(p.numel() for p in model.parameters()),
                "updates": updates,
                "epochs": round(line["tokens"] / line["step"] * updates / self.n_tokens, 2),
                "bleu": round(score.value, 2),
                "interval": [round(score.low, 2), round(score.high, 2)],
                "chrf": round(chrf(mine, references).value, 2),
                "by_length": by_length(mine, references, lengths),
                "step": step and {
                    "above": below,
                    "bleu": round(step.difference, 2),
                    "interval": [round(step.low, 2), round(step.high, 2)],
                    "p": round(step.p, 4),
                },
            })  # fmt: skip
            written[name] = mine
            print(f"seed {seed}, {name}: {score.value:.2f}", flush=True)

        below = None
        for name in MODELS:
            model, folder = self.trained(name, seed)
            rung(name, model, folder, "best.pt", write if name in RECURRENT else greedy, "greedy", below)
            below = name
        rung("+ averaging", model, folder, "average.pt", greedy, "mean of snapshots, greedy", "Transformer")
        better, file = "Transformer", "best.pt"
        if last_line(folder, "used")["used"] == "average":  # as the held-out captions have decided
            better, file = "+ averaging", "average.pt"
        rung("+ beam", model, folder, file, beam, f"the weights of {better}, beam of 4", better)
        beams = {n: said(model, partial(beam, width=n)) for n in (1, 2, 4, 8)}
        widths = {n: round(bleu(each, references).value, 2) for n, each in beams.items()}
        signature = bleu(written["+ beam"], references).signature
        return {"seed": seed, "signature": signature, "rungs": rungs, "beam widths": widths}


def last_line(folder, key):
    """The last line of a training's log that has this key."""
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return next(line for line in map(json.loads, reversed(lines)) if key in line)


def by_length(written, references, lengths):
    """BLEU of short and of long sentences apart: [from, to, sentences, BLEU]."""
    rows = []
    for low, high in LENGTHS:
        chosen = [i for i, n in enumerate(lengths) if low <= n <= high]
        score = bleu([written[i] for i in chosen], [references[i] for i in chosen], n_resamples=1)
        rows.append([low, high, len(chosen), round(score.value, 2)])
    return rows


def main():
    words = argparse.ArgumentParser(description="Train and measure the rungs of chapter 14's ladder.")
    words.add_argument("--minutes", type=float, default=6, help="the budget of each training; else 6")
    words.add_argument("--work", type=Path, default=Path("runs", "ladder"), help="where the trainings lie")
    words.add_argument("--until", choices=("speed", "search", "train", "measure"), default="measure")
    words.add_argument("--seeds", nargs="+", type=int, default=SEEDS, help="which to train")
    words.add_argument("--hardware", default="one core", help="where the speed was measured, in words")
    words.add_argument("--to", type=Path, default=HERE / "ladder.json")
    words = words.parse_args()
    ladder = Ladder(words.work, words.minutes)
    print(ladder.updates(), flush=True)
    if words.until == "speed":
        return
    print(ladder.rates(), flush=True)
    if words.until == "search":
        return
    for seed in words.seeds:
        for name in MODELS:
            ladder.trained(name, seed)
    if words.until == "train":
        return
    log = {
        "task": "Multi30k, German to English, test_2016_flickr, 1,000 sentences",
        "budget": f"as many updates as fit into {words.minutes:g} minutes, {words.hardware}",
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "seconds an update": {name: round(s, 3) for name, s in ladder.kept("speed", dict).items()},
        "recurrent": {name: sizes for name, (_, sizes) in RECURRENT.items()},
        "transformer": TRANSFORMER,
        "all": {"dropout": DROPOUT, "tokens": ladder.tokens, "smoothing": ladder.smoothing, **TRAINING},
        "search": {
            "what": "the learning rate, on the held-out captions, after a third of the updates, with seed 0",
            "held-out loss": {
                name: {rate: round(value, 3) for rate, value in of.items()}
                for name, of in ladder.kept("search", dict).items()
            },
            "rate": ladder.rates(),
        },
        "runs": [ladder.climb(seed) for seed in words.seeds],
    }  # fmt: skip
    words.to.write_text(json.dumps(log, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    sys.exit(main())
