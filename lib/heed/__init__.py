"""Heed: the library of a runnable course on attention and Transformers.

Read the modules in the order of `MODULES`; a module imports only from modules that stand before it.

The letters, the same in every chapter, docstring and shape comment:

    b          sentences in a batch          d_model    width of a token's vector
    n          length of a sequence          d_k, d_v   width of one key (and query), of one value
    n_q, n_k   numbers of queries, of keys   d_ff       width inside a feed-forward layer
    h          number of heads               vocab      number of known tokens

Widths are `d_…`, counts are `n_…`. Rows are tokens. Queries, keys and values are always named in that order.
A mask is a bool tensor: `mask[i, j]` is True when query i may look at key j.
"""

import sys
from importlib.metadata import PackageNotFoundError, version

OLDEST_PYTHON = (3, 11)
OLDEST_TORCH = (2, 9)

MODULES = (
    "bpe",
    "text",
    "data",
    "tasks",
    "plot",
    "recurrent",
    "scores",
    "attention",
    "alignment",
    "position",
    "scale",
    "layers",
    "transformer",
    "memory",
    "speed",
    "loss",
    "schedule",
    "train",
    "checkpoint",
    "engine",
    "decode",
    "workers",
    "evaluate",
    "recipe",
    "commands",
    "check",
)

__version__ = "0.1.0"


def check_versions(python=sys.version_info):
    """Refuse to start on a Python or a torch that is too old, in one line, with the command that mends it."""

    def dotted(numbers):
        return ".".join(map(str, numbers))

    if tuple(python[:2]) < OLDEST_PYTHON:
        raise ImportError(
            f"heed needs Python {dotted(OLDEST_PYTHON)} or newer, and this is {dotted(python[:3])}. "
            f"With a newer one installed, run: PYTHON=python{dotted(OLDEST_PYTHON)} make lab"
        )
    try:
        found = version("torch")
    except PackageNotFoundError:
        found = "0 (none)"
    if tuple(int(number) for number in found.split(".")[:2] if number.isdigit()) < OLDEST_TORCH:
        raise ImportError(
            f"heed needs torch {dotted(OLDEST_TORCH)} or newer, and this is {found}. "
            f'Run: {sys.executable} -m pip install --upgrade "torch>={dotted(OLDEST_TORCH)}"'
        )


check_versions()
