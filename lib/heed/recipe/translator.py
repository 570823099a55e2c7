"""The model that a recipe describes, and the folder in which it lies when it is trained."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from heed import checkpoint
from heed.attention import record
from heed.decode import greedy, translations
from heed.engine import choose_device, choose_precision, snapshots
from heed.recipe.corpus import fingerprint
from heed.recipe.keys import SECTIONS
from heed.recipe.toml import read, to_toml
from heed.speed import quick
from heed.text import BOS, EOS, Subwords
from heed.transformer import make_model, tie

USED = "model.safetensors"
WEIGHTS = {"last": "checkpoint.pt", "best": "best.pt", "average": "average.pt"}


def build(recipe, vocab):
    """The model that a recipe describes, untrained: both languages and the generator share one matrix.

    Its modules are the quick ones of `heed.speed`.

    vocab: number of tokens
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe["training"]["seed"])
        return quick(tie(make_model(vocab, vocab, **recipe["model"])))


class Translator(NamedTuple):
    """A trained model, its vocabulary and its recipe."""

    model: nn.Module
    subwords: Subwords
    recipe: dict

    def translate(self, sentences, search=greedy, workers=None, watch=None):
        """Translate sentences, strings, with a search of `heed.decode`. Returns as many strings.

        workers: `heed.workers.Workers` of the model; else this process searches
        watch: as `heed.decode.translations` has it
        """
        return translations(self.model, self.subwords, sentences, search=search, workers=workers, watch=watch)

    def explore(self, sentence):
        """Translate one sentence greedily and show where every layer and every head looked on the way.

        Returns a `heed.plot.Explorer`; its rows are the tokens written, in the decoder's maps.
        Raises ValueError for a sentence without a word.
        """
        from heed.plot import explorer  # not above: loading what draws takes longer than many a translation

        source = self.subwords.encode(sentence.strip())
        if not source:
            raise ValueError("There is nothing to show: the sentence is empty.")
        device = next(self.model.parameters()).device
        ids = torch.tensor([source], device=device)
        with torch.no_grad():
            (written,) = greedy(self.model, ids)
            with record(self.model) as maps:
                self.model(ids, torch.tensor([[BOS, *written]], device=device))
        words, read = self.subwords.labels(source), self.subwords.labels([BOS, *written])
        said = self.subwords.labels([*written, EOS])
        return explorer(
            {
                "source": _stacked(maps, "source_attention"),
                "encoder": _stacked(maps, "encoder.", "self_attention"),
                "decoder": _stacked(maps, "decoder.", "self_attention"),
            },
            rows={"source": said, "encoder": words, "decoder": said},
            columns={"source": words, "encoder": words, "decoder": read},
            title=f"{sentence.strip()} → {self.subwords.decode(written)}",
        )


def _stacked(maps, *words):
    """The weights of all layers whose names hold these words, as an array [layer, head, query, key]."""
    chosen = [weights[-1][0] for name, weights in maps.items() if all(word in name for word in words)]
    return torch.stack(chosen).float().cpu().numpy()


def load_translator(folder, device="cpu", precision="fp32", weights=None):
    """Open a trained model: a folder with recipe.toml, subwords.json and model.safetensors.

    device: where it is to translate; a small model is quick on the processor
    precision: in which it computes, "fp32", "bf16" or "auto", as `heed.engine.choose_precision` has it
    weights: "last", "best", "average" or a file, a checkpoint or a snapshot of this training; else those of
        model.safetensors, which a training writes when it ends or is stopped

    Returns a Translator. Raises ValueError if a file is missing or does not belong to the others.
    """
    folder = Path(folder)
    recipe, subwords = opened(folder, () if weights else (USED,))
    model, mine = build(recipe, len(subwords)), identity(recipe)
    if weights:
        path = folder / WEIGHTS[weights] if weights in WEIGHTS else Path(weights)
    if weights and path.suffix != ".safetensors":
        model.load_state_dict(checkpoint.load(path, mine)["model"])
    else:
        checkpoint.load_weights(path if weights else folder / USED, model, mine)
    device = choose_device(device)
    bf16 = choose_precision(device, precision) == "bf16"
    return Translator(model.eval().to(device, torch.bfloat16 if bf16 else None), subwords, recipe)


def opened(folder, needed=()):
    """The recipe and the sub-words in the folder of a training.

    needed: other files that must be there

    Raises ValueError if a file is missing, with what could be used, or if the two do not belong together.
    """
    for name in ("recipe.toml", "subwords.json", *needed):
        if not (folder / name).is_file():
            there = [word for word, file in WEIGHTS.items() if (folder / file).is_file()]
            advice = (
                f"Its training has not come to an end; use what is there: --weights {' or '.join(there)}."
                if name == USED and there
                else "`python -m heed train RECIPE` makes one and says where it is."
            )
            raise ValueError(f"{folder} is no trained model: it has no {name}. {advice}")
    recipe, subwords = read(folder / "recipe.toml"), Subwords.load(folder / "subwords.json")
    if subwords.fingerprint != recipe["made"]["vocabulary"]:
        raise ValueError(f"{folder / 'subwords.json'} is not the vocabulary that the model was trained with.")
    return recipe, subwords


def identity(recipe):
    """The fingerprint of a training: of recipe, data and vocabulary, and not of where the files lie.

    What a recipe has as it is by default is not part of it: a key of a later version changes no fingerprint.
    Nor is a key that a resumed training may change.
    """
    chosen = {
        section: {
            key: value
            for key, value in sorted(keys.items())
            if not (rule := SECTIONS[section][key]).free
            and value != rule.default
            and not isinstance(value, list)
        }
        for section, keys in sorted(recipe.items())
    }
    return fingerprint([to_toml(chosen)])


def average_snapshots(folder, to, files=()):
    """Make a trained model out of several states of another one: each weight is the mean of theirs.

    folder: of a training, ended or not
    to: the folder of the new one; it must not be there yet
    files: snapshots or checkpoints of the model; all of its snapshots if none is named

    Returns the files. Raises ValueError if there are none, if one is no checkpoint of this training, or if
    `to` is there.
    """
    folder, to = Path(folder), Path(to)
    recipe, subwords = opened(folder)
    files = [Path(file) for file in files] or snapshots(folder)
    if not files:
        raise ValueError(f"There is nothing to average in {folder / 'snapshots'}: [training] keep was 0.")
    mine, model = identity(recipe), build(recipe, len(subwords))
    with new_folder(to, "--to") as unfinished:
        states = (checkpoint.load(file, mine)["model"] for file in files)
        model.load_state_dict(checkpoint.average(states))
        for name in ("recipe.toml", "subwords.json"):
            shutil.copy(folder / name, unfinished / name)
        checkpoint.save_weights(unfinished / USED, model, fingerprint=mine)
    return files


@contextmanager
def new_folder(to, option):
    """A folder to write into, which gets its name at the end, when all is there; or it is not there at all.

    option: the words of the command that name another folder

    Raises ValueError if it is there already.
    """
    if to.exists() or to.is_symlink():
        raise ValueError(f"{to} is there already. Choose another folder with {option}.")
    unfinished = to.with_name(f"{to.name}.{os.getpid()}.part")
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        unfinished.rename(to)
    except OSError as error:
        raise ValueError(f"{to} could not be written: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
