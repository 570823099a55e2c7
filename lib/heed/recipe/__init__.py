"""Recipes: what is decided before a translator is trained, in one TOML file, and what is left afterwards.

`read` gives a recipe as a dictionary of sections, every value checked: `recipe["model"]["d_model"]`. Then
`sentences`, `learn_subwords`, `encoded` and `build` make of it what a training needs. A trained model is a
folder with recipe.toml, subwords.json and model.safetensors; `load` opens it as a `Translator`.
"""

from heed.recipe.corpus import encoded, fingerprint, learn_subwords, parallel, sentences
from heed.recipe.export import Exported, export
from heed.recipe.keys import SECTIONS
from heed.recipe.toml import differences, find, read, to_toml
from heed.recipe.training import is_first, say, train
from heed.recipe.translator import Translator, average, build, load

__all__ = [
    "SECTIONS",
    "Exported",
    "Translator",
    "average",
    "build",
    "differences",
    "encoded",
    "export",
    "find",
    "fingerprint",
    "is_first",
    "learn_subwords",
    "load",
    "parallel",
    "read",
    "say",
    "sentences",
    "to_toml",
    "train",
]
