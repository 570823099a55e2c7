"""Decoding: what a trained model writes, token by token, on its own.

Three ways to choose the next token (greedy, beam, sampling), for an
`EncoderDecoder` and for a `LanguageModel`, and the key–value cache that spares
all of them from computing earlier tokens again. This package knows nothing
about training.
"""

from heed.decode.cache import (
    Cache,
    Continuing,
    FixedCache,
    GrowingCache,
    Translating,
    next_logits,
    start_decoding,
)
from heed.decode.sampling import check_draw, sample, truncated
from heed.decode.search import (
    Hypotheses,
    Written,
    beam,
    check_beam,
    dropout_off,
    expand,
    generate,
    greedy,
    length_penalty,
    longest,
    upto_end,
)
from heed.decode.text import translations

__all__ = [
    "Cache",
    "Continuing",
    "FixedCache",
    "GrowingCache",
    "Hypotheses",
    "Translating",
    "Written",
    "beam",
    "check_beam",
    "check_draw",
    "dropout_off",
    "expand",
    "generate",
    "greedy",
    "length_penalty",
    "longest",
    "next_logits",
    "sample",
    "start_decoding",
    "translations",
    "truncated",
    "upto_end",
]
