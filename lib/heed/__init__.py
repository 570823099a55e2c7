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

MODULES = (
    "text",
    "data",
    "plot",
    "recurrent",
    "scores",
    "attention",
    "alignment",
    "train",
    "evaluate",
    "check",
)

__version__ = "0.1.0"
