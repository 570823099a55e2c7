"""From a recipe to a trained model in its folder."""

import json
import os
import time
from pathlib import Path

from heed import checkpoint
from heed.data import TokenBatches
from heed.decode import translate
from heed.engine import batch_to, fit, mark
from heed.engine.folder import MARK
from heed.evaluate import bleu
from heed.loss import translation_loss
from heed.recipe.corpus import encoded, fingerprint, learn_subwords, sentences
from heed.recipe.toml import differences, read, to_toml
from heed.recipe.translator import Translator, build, identity, load


def train(recipe, folder, began=None, device=None):
    """Do what a recipe says: sentences, vocabulary, batches, model, training.

    A training that was begun in this folder is resumed; a folder that holds anything else is left alone.
    Under torchrun every process calls this, and the first one alone writes and speaks.

    recipe: from `read`
    folder: gets recipe.toml, subwords.json, model.safetensors, log.jsonl and what a resumed training needs
    began: time.monotonic() of the moment from which on the recipe's minutes count; now if it is not given
    device: as `fit` has it

    Returns a Translator. Raises ValueError as `sentences`, `claim` and `fit` do.
    """
    began = time.monotonic() if began is None else began
    folder, training = Path(folder), dict(recipe["training"])
    tokens, smoothing, how = (training.pop(key) for key in ("tokens", "smoothing", "validate"))

    pairs = sentences(recipe, "train")
    val = sentences(recipe, "val") if recipe["data"]["val"] else None
    subwords = learn_subwords(recipe, pairs)
    data = fingerprint([line for pair in [*pairs, *(val or [])] for line in pair])
    recipe = {**recipe, "made": {"data": data, "vocabulary": subwords.fingerprint}}
    if is_first():
        claim(folder, recipe, subwords)
    if ended(folder):
        say(f"{folder} has been trained by this recipe, to the end.")
        return load(folder)

    longest = min(recipe["data"]["longest"], tokens)
    ids = encoded(pairs, subwords, longest)
    if not ids:
        raise ValueError(f"None of {len(pairs)} pairs has between 1 and {longest} tokens on both sides.")
    batches, model = TokenBatches(ids, tokens, training["seed"]), build(recipe, len(subwords))
    say(
        f"{len(ids):,} pairs of at most {longest} tokens, {len(pairs) - len(ids):,} left out; "
        f"{len(subwords):,} sub-words."
    )
    if training["minutes"] is not None:
        training["minutes"] = max(training["minutes"] - (time.monotonic() - began) / 60, 1e-3)
    validate, better = validation(how, val, subwords, tokens)
    fit(
        model,
        batches,
        lambda model, batch: translation_loss(model, batch, smoothing),
        folder,
        **training,
        validate=validate,
        better=better,
        device=device,
        fingerprint=identity(recipe),
    )
    return Translator(model, subwords, recipe)


def validation(how, pairs, subwords, tokens):
    """How the model is judged on the way: what `fit` calls to get a number, and whether low or high is good.

    how: "loss", the mean over the target tokens and without smoothing; or "bleu", of greedy translations
    pairs: sentences to judge it with; None for no judgement
    """
    if pairs is None:
        return None, min
    if how == "bleu":
        sources, references = zip(*pairs, strict=True)
        return lambda model: {"bleu": bleu(translate(model, subwords, sources), references).value}, max
    ids = encoded(pairs, subwords)
    batches = TokenBatches(ids, max(tokens, *(max(map(len, pair)) for pair in ids)))
    plan, n_tokens = batches.epoch(0), sum(len(target) - 1 for _, target in ids)

    def loss(model):
        device = next(model.parameters()).device
        parts = (batch_to(batches.batch(indices), device) for indices in plan)
        return {"val_loss": sum(float(translation_loss(model, part, 0.0)) for part in parts) / n_tokens}

    return loss, min


def claim(folder, recipe, subwords):
    """Make the folder this training's own: write the recipe and the vocabulary into it.

    Raises ValueError if it holds another training, with what differs, or something else.
    """
    if (folder / "recipe.toml").is_file():
        changed = differences(read(folder / "recipe.toml"), recipe)
        if changed:
            raise ValueError(
                f"{folder} holds another training: {'; '.join(changed)}. "
                "Train into another folder with --to, or delete this one."
            )
        return
    unfinished = {MARK, "subwords.json"}  # of a claim that was killed
    if folder.is_dir() and any(p.name not in unfinished and p.suffix != ".part" for p in folder.iterdir()):
        raise ValueError(f"{folder} holds something else than a training. Choose another folder with --to.")
    mark(folder)
    subwords.save(folder / "subwords.json")
    checkpoint.write_file(folder / "recipe.toml", to_toml(recipe).encode())


def ended(folder):
    """Whether the training in this folder has come to its end: then its log's last line says so."""
    log = folder / "log.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    try:
        return bool(lines) and "ended" in json.loads(lines[-1])
    except json.JSONDecodeError:  # cut in the middle: the run was killed
        return False


def is_first():
    """Whether this is the only process, or the first of those that torchrun has started."""
    return os.environ.get("RANK", "0") == "0"


def say(line):
    """Print a line, once however many processes there are."""
    if is_first():
        print(line, flush=True)
