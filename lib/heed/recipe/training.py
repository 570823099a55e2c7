"""From a recipe to a trained model in its folder."""

import json
import math
import sys
import tempfile
import time
from pathlib import Path

from heed import checkpoint
from heed.data import TokenBatches
from heed.decode import translations
from heed.engine import batch_to, fit, mark, set_aside, snapshots
from heed.engine.folder import MARK, locked
from heed.engine.log import clock, read_log, say
from heed.engine.world import World
from heed.evaluate import bleu
from heed.loss import translation_loss
from heed.recipe.corpus import Corpus, encoded, learn_subwords
from heed.recipe.size import check_size, in_words, peak_bytes
from heed.recipe.toml import differences, read, to_toml
from heed.recipe.translator import Translator, build, identity, load_translator
from heed.text import Subwords

ENDS = {
    "updates": "all updates are made",
    "minutes": "the minutes are over",
    "patience": "the validation has not become better",
}


def train(recipe, folder, began=None, device=None):
    """Do what a recipe says: sentences, vocabulary, batches, model, training.

    A training that was begun in this folder is resumed; a folder that holds anything else is left alone.
    Under torchrun every process calls this, and the first one alone writes and speaks.

    recipe: from `read`
    folder: gets recipe.toml, subwords.json, model.safetensors, log.jsonl and what a resumed training needs
    began: time.monotonic() of the moment from which on the recipe's minutes count; now if it is not given
    device: as `fit` has it

    Returns a Translator. Raises ValueError as `check_size`, `sentences`, `claim` and `fit` do.
    """
    began = time.monotonic() if began is None else began
    folder, world = Path(folder), World(device)
    say(f"The model: {check_size(recipe, world)}.")
    corpus = Corpus.read(recipe)
    if not world.first_alone(lambda: claim(folder, recipe, corpus)):
        say(f"{folder} has been trained by this recipe, to the end.")
        return load_translator(folder)
    recipe = {**recipe, "made": read(folder / "recipe.toml")["made"]}
    subwords = Subwords.load(folder / "subwords.json")
    model, options, loss = prepared(recipe, corpus, subwords)
    if options["minutes"] is not None:
        options["minutes"] = max(options["minutes"] - (time.monotonic() - began) / 60, 1e-9)
    result = fit(model, loss=loss, folder=folder, **options, device=device, fingerprint=identity(recipe))
    for line in summary(result, folder, len(subwords)):
        say(line, sys.stderr if line.startswith("heed:") else None)
    return Translator(model, subwords, recipe)


def prepared(recipe, corpus, subwords):
    """What `fit` needs for a recipe: the model, the other arguments, the loss."""
    training = dict(recipe["training"])
    tokens, smoothing, how = (training.pop(key) for key in ("tokens", "smoothing", "validate"))
    longest = min(recipe["data"]["longest"], tokens)
    ids = encoded(corpus.train, subwords, longest)
    if not ids:
        raise ValueError(
            f"None of {len(corpus.train)} pairs has between 1 and {longest} tokens on both sides."
        )
    say(
        f"{len(ids):,} pairs of at most {longest} tokens, {len(corpus.train) - len(ids):,} left out; "
        f"{len(subwords):,} sub-words."
    )
    validate, better = validation(how, corpus.val, subwords, tokens)
    options = {"batches": TokenBatches(ids, tokens, training["seed"]), "validate": validate, "better": better}
    return (
        build(recipe, len(subwords)),
        training | options,
        lambda model, batch: translation_loss(model, batch, smoothing),
    )


def validation(how, pairs, subwords, tokens):
    """How the model is judged on the way: what `fit` calls to get a number, and whether low or high is good.

    how: "loss", the mean over the target tokens and without smoothing; or "bleu", of greedy translations
    pairs: sentences to judge it with; None for no judgement
    """
    if pairs is None:
        return None, min
    if how == "bleu":
        sources, references = zip(*pairs, strict=True)
        return lambda model: {"bleu": bleu(translations(model, subwords, sources), references, 1).value}, max
    ids = encoded(pairs, subwords)
    batches = TokenBatches(ids, max(tokens, *(max(map(len, pair)) for pair in ids)))
    plan, n_tokens = batches.epoch(0), sum(len(target) - 1 for _, target in ids)

    def loss(model):
        device = next(model.parameters()).device
        parts = (batch_to(batches.batch(indices), device) for indices in plan)
        return {"val_loss": sum(float(translation_loss(model, part, 0.0)) for part in parts) / n_tokens}

    return loss, min


# --- The folder ---------------------------------------------------------------------------------------------


def claim(folder, recipe, corpus):
    """Make the folder this training's own: write the recipe and the sub-words into it. One process calls it.

    Sub-words that lie there, learnt from these sentences, are kept. A claim of which nothing was trained, and
    a changed value of a key that is `free`, give way to the new recipe.

    Returns whether there is anything to train. Raises ValueError if the folder holds another training, with
    what differs, or something else.
    """
    file = folder / "recipe.toml"
    if not file.is_file():
        unfinished = {MARK, "subwords.json"}  # of a claim that was killed
        if folder.is_dir() and any(
            p.name not in unfinished and p.suffix != ".part" for p in folder.iterdir()
        ):
            raise ValueError(
                f"{folder} holds something else than a training. Choose another folder with --to."
            )
    mark(folder)
    with locked(folder):
        old = read(file) if file.is_file() else None
        recipe, subwords = completed(recipe, corpus, folder, old)
        changed = differences(old, recipe) if old else []
        if changed and has_work(folder):
            raise ValueError(
                f"{folder} holds another training: {'; '.join(changed)}. "
                "Train into another folder with --to, or move this one."
            )
        freely = differences(old, recipe, free=True) if old else []
        to_train = bool(changed or freely) or not ended(folder)
        if changed:
            for name in ("checkpoint.pt", "log.jsonl"):  # of a start without an update
                (folder / name).unlink(missing_ok=True)
        elif freely:
            say(f"Going on with a changed recipe: {'; '.join(freely)}.")
            reopen(folder / "log.jsonl", freely)
        if old and to_train and not (folder / "checkpoint.pt").is_file():
            keep_earlier(folder, old)
        if old != recipe or not (folder / "subwords.json").is_file():
            subwords.save(folder / "subwords.json")
            checkpoint.write_file(file, to_toml(recipe).encode())
    return to_train


def completed(recipe, corpus, folder, old):
    """The recipe with what was made of its sentences, and the sub-words: those in the folder, or new ones."""
    made = {"data": corpus.fingerprint}
    file, subwords = folder / "subwords.json", None
    if (
        old
        and file.is_file()
        and old["made"]["data"] == made["data"]
        and old["data"]["vocabulary"] == recipe["data"]["vocabulary"]
    ):
        subwords = Subwords.load(file)
    if subwords is None or subwords.fingerprint != old["made"]["vocabulary"]:
        subwords = learn_subwords(recipe, corpus.train)
    return {**recipe, "made": made | {"vocabulary": subwords.fingerprint}}, subwords


def has_work(folder):
    """Whether anything was learnt in this folder: an update at the least."""
    left = [folder / name for name in ("best.pt", "average.pt", "model.safetensors")]
    if any(path.is_file() for path in left) or snapshots(folder):
        return True
    path = folder / "checkpoint.pt"
    return path.is_file() and checkpoint.load(path)["state"]["step"] > 0


def keep_earlier(folder, old):
    """Move aside what an earlier training has left without a checkpoint, with its recipe and sub-words."""
    aside = set_aside(folder)
    if aside:
        say(f"What an earlier training has left in {folder} is in {aside} now.")
        checkpoint.write_file(aside / "recipe.toml", to_toml(old).encode())
        checkpoint.write_file(aside / "subwords.json", (folder / "subwords.json").read_bytes())


def reopen(path, changes):
    """Let the log of a training say what has changed; then its last line is no longer that of the end."""
    lines = [*read_log(path), {"changed": changes}]
    checkpoint.write_file(path, "".join(json.dumps(line) + "\n" for line in lines).encode())


def ended(folder):
    """Whether the training in this folder has come to its end: its log says so, and a model is there."""
    said = "ended" in (read_log(folder / "log.jsonl") or [{}])[-1]
    return said and (folder / "model.safetensors").is_file()


# --- What is said -------------------------------------------------------------------------------------------


def summary(result, folder, vocab):
    """What has become of a training, in lines; those that begin with "heed:" are warnings."""
    epochs = "epoch" if result.epochs == 1 else "epochs"
    yield (
        f"{result.steps:,} updates in {clock(result.seconds)} ({result.epochs:,} {epochs}, {result.tokens:,} "
        f"tokens): {ENDS[result.ended]}."
    )
    value = "" if result.value is None else f" Their value in the validation: {result.value:.4g}."
    yield f"In use are the {result.used} weights.{value}"
    losses = [line["loss"] for line in read_log(folder / "log.jsonl") if "loss" in line]
    if result.steps == 0:
        yield "heed: not one update was made: the model has learnt nothing. Give it more minutes."
    elif losses and losses[-1] > max(losses[0], math.log(vocab)):
        yield (
            f"heed: the training loss has ended at {losses[-1]:.4g}, above where it began and above that of "
            f"guessing, {math.log(vocab):.4g}: nothing was learnt. Try another lr, most often a "
            "lower one, or a longer warm-up."
        )


def rehearse(recipe, device=None, seconds=10.0):
    """Check a recipe without training by it: read its sentences, measure a few updates, keep nothing.

    Yields sentences: sizes, pairs, and how long it would take.
    """
    world = World(device)
    yield f"The model: {check_size(recipe, world)}."
    corpus = Corpus.read(recipe)
    with tempfile.TemporaryDirectory() as folder:
        model, options, loss = prepared(recipe, corpus, learn_subwords(recipe, corpus.train))
        options |= {"updates": None, "minutes": seconds / 60, "cooldown": None, "patience": None}
        options |= {"every": 2**62, "keep": 0, "validate": None}
        result = fit(model, loss=loss, folder=folder, **options, device=device)
    peak = peak_bytes(world.device)
    yield (
        f"{result.steps:,} updates in {result.seconds:.0f} s, {result.tokens / result.seconds:,.0f} tokens/s"
        + (f"; memory, with all that was loaded: {in_words(peak)}." if peak else ".")
    )
    per_update = result.seconds / max(result.steps, 1)
    updates, minutes = (recipe["training"][key] for key in ("updates", "minutes"))
    if updates is not None:
        yield f"{updates:,} updates would take about {clock(updates * per_update)}, without validations."
    if minutes is not None:
        n = 60 * minutes / per_update
        yield f"{minutes:g} minutes would be about {n:,.0f} updates, without validations."
