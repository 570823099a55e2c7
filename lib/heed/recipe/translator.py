"""The model that a recipe describes, and the folder in which it lies when it is trained."""

import shutil
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from heed import checkpoint
from heed.attention import record
from heed.decode import greedy, translate
from heed.engine import choose_device, choose_precision, snapshots
from heed.recipe.corpus import fingerprint
from heed.recipe.keys import SECTIONS
from heed.recipe.toml import read, to_toml
from heed.speed import quick
from heed.text import BOS, EOS, Subwords
from heed.transformer import make_model, tie

FILES = ("recipe.toml", "subwords.json", "model.safetensors")


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

    def translate(self, sentences, search=greedy, workers=None):
        """Translate sentences, strings, with a search of `heed.decode`. Returns as many strings.

        workers: `heed.workers.Workers` of the model; else this process searches
        """
        return translate(self.model, self.subwords, sentences, search=search, workers=workers)

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


def load(folder, device="cpu", precision="fp32"):
    """Open a trained model: a folder with recipe.toml, subwords.json and model.safetensors.

    device: where it is to translate; a small model is quick on the processor
    precision: in which it computes, "fp32", "bf16" or "auto", as `heed.engine.choose_precision` has it

    Returns a Translator. Raises ValueError if a file is missing or does not belong to the others.
    """
    folder = Path(folder)
    for name in FILES:
        if not (folder / name).is_file():
            raise ValueError(
                f"{folder} is no trained model: it has no {name}. "
                "`python -m heed train RECIPE` makes one and says where it is."
            )
    recipe, subwords = read(folder / "recipe.toml"), Subwords.load(folder / "subwords.json")
    if subwords.fingerprint != recipe["made"]["vocabulary"]:
        raise ValueError(f"{folder / 'subwords.json'} is not the vocabulary that the model was trained with.")
    model = checkpoint.load_weights(folder / "model.safetensors", build(recipe, len(subwords)))
    device = choose_device(device)
    bf16 = choose_precision(device, precision) == "bf16"
    return Translator(model.eval().to(device, torch.bfloat16 if bf16 else None), subwords, recipe)


def identity(recipe):
    """The fingerprint of a training: of recipe, data and vocabulary, and not of where the files lie.

    What a recipe has as it is by default is not part of it: a key of a later version changes no fingerprint.
    """
    chosen = {
        section: {
            key: value
            for key, value in sorted(keys.items())
            if value != SECTIONS[section][key].default and not isinstance(value, list)
        }
        for section, keys in sorted(recipe.items())
    }
    return fingerprint([to_toml(chosen)])


def average(folder, to, files=()):
    """Make a trained model out of several states of another one: each weight is the mean of theirs.

    folder: a trained model
    to: the folder of the new one; it must not be there yet
    files: snapshots or checkpoints of the model; all of its snapshots if none is named

    Returns the files. Raises ValueError if there are none, if one is no checkpoint of this training, or if
    `to` is there.
    """
    folder, to = Path(folder), Path(to)
    translator = load(folder)
    files = [Path(file) for file in files] or snapshots(folder)
    if not files:
        raise ValueError(f"There is nothing to average in {folder / 'snapshots'}: [training] keep was 0.")
    if to.exists():
        raise ValueError(f"{to} is there already. Choose another folder with --to.")
    mine = identity(translator.recipe)
    states = (checkpoint.load(file, mine)["model"] for file in files)
    translator.model.load_state_dict(checkpoint.average(states))
    to.mkdir(parents=True)
    for name in ("recipe.toml", "subwords.json"):
        shutil.copy(folder / name, to / name)
    checkpoint.save_weights(to / "model.safetensors", translator.model)
    return files
