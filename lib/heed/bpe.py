"""Byte-pair encoding's engine; the idea is in `heed.text`.

What is hard work is handed to the package `tokenizers`. This module knows
nothing about models or tensors.
"""

import json
import re

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

# No token is longer than one of these: letters, digits or signs, with the space
# before them; or other white space.
WORDS = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"


def encoder(ids, merges):
    """What cuts a text into words and makes the merges in each, in their order.

    ids: a dictionary from tokens to ids, with one for each byte
    merges: pairs of tokens, the first learned first
    """
    return by_words(models.BPE(vocab=ids, merges=merges, byte_fallback=True))


def frequent_merges(lines, rare, n_tokens):
    """Merge the most frequent pair inside of words, and count again, and so on.

    lines: strings
    rare: characters that no merge may reach across
    n_tokens: characters and merges together; fewer if no pair is left that
        occurs twice

    Returns a list of pairs of tokens, the first learned first.
    """
    gaps = re.compile("|".join(map(re.escape, sorted(rare))) or "(?!)")
    parts = (part for line in lines for part in gaps.split(line))
    trainer = trainers.BpeTrainer(vocab_size=n_tokens, min_frequency=2, show_progress=False)
    learner = by_words(models.BPE())
    learner.train_from_iterator(parts, trainer)
    return json.loads(learner.to_str())["model"]["merges"]


def by_words(model):
    """A tokenizer that hands the model one word after the other."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), "isolated")
    return tokenizer


def without_surrogates(text):
    """A lone surrogate has no UTF-8: it becomes a question mark."""
    return text.encode(errors="replace").decode()


def check_merges(characters, merges, reserved):
    """Raise a ValueError for a merge that cannot be made.

    Both parts must be characters or results of earlier merges, and the result
    none of the reserved tokens.
    """
    known = set(characters)
    for i, (left, right) in enumerate(merges):
        if not {left, right} <= known or left + right in reserved:
            raise ValueError(
                f"merge {i}, {left!r} + {right!r}: a part of it is no token "
                "yet, or the whole is a special one"
            )
        known.add(left + right)


def check_room(size, n_fixed, characters, lines):
    """Raise a ValueError if there is no character, or no room for all of them.

    size: tokens that the vocabulary may have
    n_fixed: special tokens and bytes, which it has in any case
    """
    if not any(lines):
        raise ValueError(f"there is no text to learn from: {len(lines)} lines, all of them empty")
    least = n_fixed + len(characters)
    if size < least:
        raise ValueError(
            f"{size=} leaves no room: {n_fixed} special tokens and bytes and "
            f"{len(characters)} characters are {least} tokens before the first "
            "merge"
        )
