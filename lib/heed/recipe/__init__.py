"""Recipes: what is decided before a translator is trained, in one TOML file, and what is left afterwards.

`read` gives a recipe as a dictionary of sections, every value checked: `recipe["model"]["d_model"]`. Then
`sentences`, `learn_subwords`, `encoded` and `build` make of it what a training needs. A trained model is a
folder with recipe.toml, subwords.json and model.safetensors; `load_translator` opens it as a `Translator`.
"""

from heed.recipe.corpus import Corpus, encoded, fingerprint, learn_subwords, parallel, sentences
from heed.recipe.export import Exported, export
from heed.recipe.keys import SECTIONS, reference
from heed.recipe.toml import differences, find, read, to_toml
from heed.recipe.training import rehearse, train
from heed.recipe.translator import Translator, average_snapshots, build, load_translator

__all__ = [
    "SECTIONS",
    "Corpus",
    "Exported",
    "Translator",
    "average_snapshots",
    "build",
    "differences",
    "encoded",
    "export",
    "find",
    "fingerprint",
    "learn_subwords",
    "load_translator",
    "parallel",
    "read",
    "reference",
    "rehearse",
    "sentences",
    "to_toml",
    "train",
]
