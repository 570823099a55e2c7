"""A model at work: what it has read so far, and the logits of what comes next.

The key–value cache spares every search from computing earlier tokens again. A
row of the caches is a sentence, or one of its hypotheses; there are r of them.
"""

import torch

from heed.attention import causal_mask, padding_mask
from heed.text import BOS, PAD
from heed.transformer import EncoderDecoder, LanguageModel, MaskedLanguageModel


class GrowingCache:
    """Keys and values of one self-attention: the new join those of all before.

    There is room to spare, doubled when it is full: growing by one token does
    not copy all others.
    """

    def __init__(self):
        self.n, self.room = 0, None

    def keys_values(self, attention, k, v):
        """The keys and the values of all tokens so far.

        k: (r, n, d_model), of the new tokens
        v: (r, n, d_model)
        """
        new, end = attention.keys_values(k, v, self.n), self.n + k.shape[1]
        if self.room is None or end > self.room[0].shape[2]:
            larger = [x.new_empty(*x.shape[:2], 2 * end + 14, x.shape[3]) for x in new]
            for x, old in zip(larger, self.room or (), strict=False):
                x[:, :, : self.n] = old[:, :, : self.n]
            self.room = larger
        for room, x in zip(self.room, new, strict=True):
            room[:, :, self.n : end] = x
        self.n = end
        return [room[:, :, :end] for room in self.room]

    def select(self, rows):
        """Go on with these rows, in this order; one may recur."""
        if len(rows) != len(self.room[0]):
            self.room = [room[rows] for room in self.room]
            return
        same = torch.arange(len(rows), device=rows.device)
        moved = (rows != same).nonzero()[:, 0]
        for room in self.room:
            room[moved, :, : self.n] = room[rows[moved], :, : self.n]


class FixedCache:
    """Keys and values of one source attention, projected at the first call."""

    n = 0

    def __init__(self):
        self.projected = None  # keys and values, a row for each hypothesis …
        self.sentence = None  # … and to which row of the source each belongs

    def keys_values(self, attention, k, v):
        """Their keys and values; what later calls hand in is not looked at.

        k: (r, n_k, d_model)
        v: (r, n_k, d_model)
        """
        if self.projected is None:
            new = attention.keys_values(k, v, 0)
            self.projected = [x.contiguous() for x in new]
            self.sentence = torch.arange(len(k), device=k.device)
        return self.projected

    def select(self, rows):
        """Go on with these rows, in this order; one may recur."""
        sentence = self.sentence[rows]
        if torch.equal(sentence, self.sentence):
            return  # rows moved among hypotheses of one sentence only
        self.projected = [x[rows] for x in self.projected]
        self.sentence = sentence


class Cache:
    """The caches of all layers of a model.

    One for each `EncoderLayer`, a pair for each `DecoderLayer`.
    """

    def __init__(self, layers):
        self.layers = layers

    @property
    def n(self):
        """How many tokens have been read: the position of the next one."""
        return next(self.growing()).n

    def growing(self):
        """The caches of self-attention, layer by layer."""
        for layer in self.layers:
            yield layer[0] if isinstance(layer, tuple) else layer

    def select(self, rows):
        """Go on with these rows in every layer."""
        for layer in self.layers:
            for cache in layer if isinstance(layer, tuple) else (layer,):
                cache.select(rows)


class Translating:
    """An `EncoderDecoder` at work: it reads the source, then its own tokens."""

    def __init__(self, model, source):
        """source: (b, n_source)"""
        self.model = model
        self.source_mask = padding_mask(source)  # (b, 1, 1, n_source)
        self.memory = model.encode(source, self.source_mask)
        layers = model.decoder.layers
        self.cache = Cache([(GrowingCache(), FixedCache()) for _ in layers])
        self.first = source.new_full((len(source), 1), BOS)  # read first

    def step(self, ids):
        """The logits of what follows the last token (r, vocab).

        ids: (r, n), the new tokens
        """
        n, mask = ids.shape[1], None
        if n > 1:  # one token may look at all
            mask = causal_mask(n, self.cache.n).to(ids.device)
        x = self.model.decode(self.memory, self.source_mask, ids, mask, self.cache)  # (r, n, d_model)
        self.memory = None  # the FixedCaches ignore it from now on
        return next_logits(self.model, x)

    def select(self, rows):
        """Go on with these rows, in this order. rows: a LongTensor."""
        self.source_mask = self.source_mask[rows]
        self.cache.select(rows)


class Continuing:
    """A `LanguageModel` at work: it reads the prompt, then its own tokens."""

    def __init__(self, model, prompt):
        """prompt: (b, n)"""
        if prompt.shape[1] == 0 or (prompt == PAD).any():
            raise ValueError(
                "Prompts that are continued together are equally long, with "
                "one token (such as BOS) or more, and no padding; these are "
                f"{tuple(prompt.shape)}, "
                f"{int((prompt == PAD).sum())} of them PAD."
            )
        self.model, self.first = model, prompt
        self.cache = Cache([GrowingCache() for _ in model.encoder.layers])

    def step(self, ids):
        """The logits of what follows the last token (r, vocab).

        ids: (r, n), the new tokens
        """
        return next_logits(self.model, self.model(ids, self.cache))

    def select(self, rows):
        """Go on with these rows, in this order. rows: a LongTensor."""
        self.cache.select(rows)


def start_decoding(model, source):
    """`Translating` or `Continuing`, as the model asks.

    Raises ValueError for a model that cannot write.
    """
    if isinstance(model, EncoderDecoder):
        return Translating(model, source)
    masked = isinstance(model, MaskedLanguageModel)
    if isinstance(model, LanguageModel) and not masked:
        return Continuing(model, source)
    raise ValueError(f"{type(model).__name__} does not write: decode an EncoderDecoder or a LanguageModel.")


def next_logits(model, x):
    """The logits after the last token (r, vocab); PAD and BOS get -inf.

    x: (r, n, d_model)
    """
    logits = model.generator.proj(x[:, -1])  # (r, vocab)
    logits[:, [PAD, BOS]] = float("-inf")
    return logits
