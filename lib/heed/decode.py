"""Decoding: what a trained model writes, token by token, on its own.

Three ways to choose the next token (greedy, beam, sampling), for an
`EncoderDecoder` and for a `LanguageModel`, and the key–value cache that spares
all of them from computing earlier tokens again. No sequence is cut silently:
one that has `n_max` tokens was cut, for one that ends by itself has fewer. This
module knows nothing about training.

A row of the caches is a sentence, or one of its hypotheses; there are r of
them.
"""

import random
from contextlib import contextmanager

import torch
from torch.nn import functional as F

from heed.attention import causal_mask, padding_mask
from heed.data import pad
from heed.speed import arg_max
from heed.text import BOS, EOS, PAD
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
            larger = [
                x.new_empty(*x.shape[:2], 2 * end + 14, x.shape[3]) for x in new
            ]
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
        x = self.model.decode(
            self.memory, self.source_mask, ids, mask, self.cache
        )  # (r, n, d_model)
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
    raise ValueError(
        f"{type(model).__name__} does not write: "
        "decode an EncoderDecoder or a LanguageModel."
    )


def next_logits(model, x):
    """The logits after the last token (r, vocab); PAD and BOS get -inf.

    x: (r, n, d_model)
    """
    logits = model.generator.proj(x[:, -1])  # (r, vocab)
    logits[:, [PAD, BOS]] = float("-inf")
    return logits


# --- Searches -----------------------------------------------------------------


def greedy(model, source, n_max=None):
    """At each step the token with the highest probability.

    model: an `EncoderDecoder`, or a `LanguageModel`
    source: (b, n_source), padded on the right; for a language model the
        prompts, equally long
    n_max: the most tokens to write, or None for `longest`; a language model
        needs it

    Returns b lists of ids, without BOS and EOS. A list of n_max tokens was cut
    before its end.
    """
    return generate(model, source, n_max, arg_max)


def sample(
    model, source, temperature=1.0, top_k=None, top_p=1.0, seed=0, n_max=None
):
    """At each step a token drawn at random from `truncated` probabilities.

    model, source, n_max: as for `greedy`
    temperature, top_k, top_p: as for `truncated`
    seed: the same seed and the same source give the same sentences

    Returns b lists of ids, as `greedy` does. Raises ValueError for numbers that
    leave nothing to draw from.
    """
    check_draw(temperature, top_k, top_p)
    own = random.Random(f"{seed} {source.tolist()}")  # not as another batch
    generator = torch.Generator(source.device)
    generator.manual_seed(own.getrandbits(63))

    def draw(logits):
        p = truncated(logits, temperature, top_k, top_p)
        return torch.multinomial(p, 1, generator=generator)[:, 0]

    return generate(model, source, n_max, draw)


def check_draw(temperature, top_k, top_p):
    """Raise a ValueError for numbers that leave nothing to draw from."""
    if not temperature > 0:
        raise ValueError(
            "The temperature divides the scores, so it must be above 0; "
            f"it is {temperature}."
        )
    if top_k is not None and top_k < 1:
        raise ValueError(
            f"At least one token must be left to draw from, but {top_k=}."
        )
    if not 0 < top_p <= 1:
        raise ValueError(
            "top_p is a share of the probability, above 0 and at most 1; "
            f"it is {top_p}."
        )


def truncated(logits, temperature=1.0, top_k=None, top_p=1.0):
    """The probabilities to draw the next token from, without the unlikely ones.

        p = softmax(logits / temperature)

    Only these are kept, and made to sum to one again: the top_k likeliest
    (Fan et al. 2018), and of them the fewest that reach a sum of top_p, the
    likeliest first (nucleus sampling, Holtzman et al. 2020).

    logits: (b, vocab)

    Returns (b, vocab).
    """
    p = (logits.float() / temperature).softmax(dim=-1)  # (b, vocab)
    p, ids = p.sort(descending=True)  # (b, vocab), (b, vocab)
    if top_k is not None:
        p[:, top_k:] = 0.0
    if top_p < 1:
        before = p.cumsum(dim=-1) - p  # (b, vocab)
        enough = before >= top_p * p.sum(dim=-1, keepdim=True)  # (b, vocab)
        p = p.masked_fill(enough, 0.0)  # (b, vocab)
    p = p / p.sum(dim=-1, keepdim=True)  # (b, vocab)
    return torch.zeros_like(p).scatter(-1, ids, p)  # (b, vocab)


@torch.no_grad()
def generate(model, source, n_max, choose):
    """Write all sequences at once, one token a step, each until it says EOS.

    choose: a function from logits, row by row, to the next ids
    """
    limits = longest(model, source, n_max)
    with dropout_off(model):
        writer = start_decoding(model, source[limits > 0])
        ids, written = writer.first, Written(source, limits)
        while written.live.any():
            written.append(choose(writer.step(ids)))
            if written.live.any():
                ids = written.go_on(writer)
    return written.lists()


class Written:
    """The tokens of all sequences, and which of them go on.

    rows says which sequences of the batch are computed, y holds the tokens that
    they said last, and live says which of them have not ended.
    """

    def __init__(self, source, limits):
        n_most = max(limits.tolist(), default=0)
        self.ids = source.new_full((len(source), n_most), EOS)
        self.all_limits, self.n = limits, 0
        self.rows = limits.nonzero()[:, 0]
        self.live = torch.ones_like(self.rows, dtype=torch.bool)

    def append(self, y):
        """Write down the next token of each row."""
        self.ids[self.rows, self.n] = self.y = y
        self.n += 1
        limits = self.all_limits[self.rows]
        self.live = self.live & (y != EOS) & (self.n < limits)

    def go_on(self, writer):
        """The ids to read next.

        A sequence that has ended is computed on, for nothing, until a quarter
        of the batch has ended: then the writer goes on with the others only.
        """
        live = self.live
        if int(live.sum()) <= 3 / 4 * len(self.rows):
            writer.select(live.nonzero()[:, 0])
            self.rows, self.y, self.live = self.rows[live], self.y[live], live[live]
        return self.y[:, None]

    def lists(self):
        """The tokens of each sequence, without EOS."""
        pairs = zip(self.ids.tolist(), self.all_limits.tolist(), strict=True)
        return [upto_end(ids[:limit]) for ids, limit in pairs]


def upto_end(ids):
    """The ids before the first EOS, or all of them."""
    return ids[: ids.index(EOS)] if EOS in ids else ids


@torch.no_grad()
def beam(model, source, width=4, penalty=1.0, n_max=None):
    """Keep the `width` likeliest hypotheses; the answer is the best that ended.

        score(Y) = log P(Y | X) / lp(Y)      (Wu et al. 2016, eq. 14)

    Of all hypotheses that are one token longer, the `width` likeliest stay.
    Those of them that have now said EOS leave the beam, and the best one of
    each sentence is its answer (`Hypotheses`). With width = 1 this is `greedy`.

    model, source, n_max: as for `greedy`
    width: hypotheses kept, m in the shapes; hypothesis j of sentence i is row
        i·m + j of the batch
    penalty: α of `length_penalty`; 0 or above

    Returns b lists of ids, as `greedy` does. Raises ValueError if width or
    penalty is impossible.
    """
    check_beam(width, penalty)
    if width == 1:
        return greedy(model, source, n_max)
    limits = longest(model, source, n_max)
    with dropout_off(model):
        writer = start_decoding(model, source[limits > 0])
        ids, kept = writer.first, Hypotheses(source, limits, penalty)
        while kept.live.any():
            logits = writer.step(ids).view(*kept.log_p.shape, -1)
            y, parents, log_p = expand(logits, kept.log_p, width)  # (b, m) each
            kept.append(y, parents, log_p)
            kept.end()
            if kept.live.any():
                ids, rows = kept.go_on()
                writer.select(rows)
    return kept.answers


def check_beam(width, penalty):
    """Raise a ValueError for a beam that cannot be."""
    if width < 1:
        raise ValueError(f"A beam keeps at least one hypothesis, but {width=}.")
    if not penalty >= 0:
        raise ValueError(
            f"The exponent of the length penalty is 0 or above, but {penalty=}."
        )


class Hypotheses:
    """The hypotheses of all sentences in a beam, and the best that has ended.

    rows says which sentences of the batch these are, said holds their tokens,
    and log_p their log P: -inf for one that has left the beam. best is the best
    score of those that have left it; live says who is still searched.
    """

    def __init__(self, source, limits, penalty):
        self.rows, self.penalty = limits.nonzero()[:, 0], penalty
        self.limits = limits[self.rows]
        self.said = source[self.rows][:, None, :0]  # one hypothesis at first
        self.log_p = torch.zeros(len(self.rows), 1, device=source.device)
        self.best = self.log_p.new_full((len(self.rows),), float("-inf"))
        self.live = torch.ones_like(self.rows, dtype=torch.bool)
        self.answers = [[] for _ in source]

    def append(self, y, parents, log_p):
        """Go on with these hypotheses.

        y: (b, k), their new tokens
        parents: (b, k), which of the m hypotheses before they continue
        log_p: (b, k)
        """
        m = self.said.shape[1]
        first = m * torch.arange(len(self.rows), device=y.device)
        self.parents = parents + first[:, None]  # (b, k)
        before = self.said.take_along_dim(parents[..., None], dim=1)
        self.said = torch.cat([before, y[..., None]], dim=-1)
        self.log_p = log_p

    def end(self):
        """Take out what has said EOS, and see which sentences are done.

        A hypothesis with log P = s can at most reach s / lp(n_max), for log P
        only falls and lp only grows: a sentence is done when that is no better
        than what has ended, and at n_max at the latest. Only if nothing has
        ended by then, its likeliest hypothesis is the answer, as it stands.
        """
        n, log_p = self.said.shape[2], self.log_p
        ended = self.said[..., -1] == EOS  # (b, m)
        scores = log_p / length_penalty(n, self.penalty)  # (b, m)
        scores = scores.masked_fill(~ended, float("-inf"))  # (b, m)
        self.log_p = log_p = log_p.masked_fill(ended, float("-inf"))  # (b, m)
        score, winner = scores.max(dim=1)
        better = self.live & (score > self.best)
        self.best = torch.where(better, score, self.best)
        cut = self.live & (n == self.limits) & self.best.isinf()
        winner = torch.where(cut, log_p.argmax(dim=1), winner)
        for i in (better | cut).nonzero()[:, 0].tolist():
            ids = self.said[i, winner[i]].tolist()
            self.answers[self.rows[i]] = upto_end(ids)
        most = length_penalty(self.limits, self.penalty)
        hope = log_p.max(dim=1).values / most
        self.live = self.live & (n < self.limits) & (hope > self.best)

    def go_on(self):
        """The next ids to read, and which rows of the caches they continue.

        A sentence that is done is computed on until a quarter of them is, as in
        `generate`.
        """
        live = self.live
        if int(live.sum()) <= 3 / 4 * len(self.rows):
            self.rows, self.limits = self.rows[live], self.limits[live]
            self.said, self.log_p = self.said[live], self.log_p[live]
            self.best, self.parents = self.best[live], self.parents[live]
            self.live = live[live]
        return self.said[..., -1].flatten()[:, None], self.parents.flatten()


def expand(logits, log_p, width):
    """The likeliest of all hypotheses that are one token longer.

    logits: (b, m, vocab)
    log_p: (b, m), of the hypotheses so far

    Returns their last tokens, the hypotheses that they continue, and their log
    P, each (b, width). Where there are fewer than `width`, the rest have log P
    = -inf.
    """
    exact = torch.promote_types(logits.dtype, torch.float32)
    m, vocab = logits.shape[1:]
    few = logits.log_softmax(dim=-1, dtype=exact)  # (b, m, vocab)
    few, ids = few.topk(min(width, vocab))
    log_p, k = (log_p[..., None] + few).flatten(1), few.shape[2]
    missing = max(0, width - log_p.shape[1])
    log_p = F.pad(log_p, (0, missing), value=float("-inf"))
    ids = F.pad(ids.flatten(1), (0, missing))
    log_p, chosen = log_p.topk(width)  # (b, width), (b, width)
    parents = (chosen // k).clamp(max=m - 1)  # (b, width)
    return ids.gather(1, chosen), parents, log_p


def length_penalty(n, alpha):
    """lp(Y) = ((5 + |Y|) / 6)^α for n = |Y| tokens (Wu et al. 2016, eq. 14).

    |Y| counts EOS. Without the penalty (α = 0) a longer hypothesis can only be
    less likely than what it continues.
    """
    return ((5 + n) / 6) ** alpha


def longest(model, source, n_max=None):
    """The most tokens to write, EOS too: n_max, or 2·n + 10 for n tokens.

    For an empty source it is 0.

    source: (b, n_source)

    Returns whole numbers (b). Raises ValueError if n_max is below 1, or missing
    for a language model.
    """
    if n_max is not None and n_max < 1:
        raise ValueError(f"At least one token must be allowed, but {n_max=}.")
    if isinstance(model, LanguageModel):
        if n_max is None:
            raise ValueError(
                "A language model needs n_max, the most tokens to write; "
                "got None."
            )
        return source.new_full((len(source),), n_max)
    n = (source != PAD).sum(dim=1)
    limits = 2 * n + 10 if n_max is None else torch.full_like(n, n_max)
    return limits.masked_fill(n == 0, 0)


@contextmanager
def dropout_off(model):
    """Switch a model's dropout off while the block is open, then back."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


# --- From text to text --------------------------------------------------------


def translate(
    model, subwords, sentences, search=greedy, n_tokens=4096, workers=None,
    watch=None,
):  # fmt: skip
    """Translate sentences in batches of like length; give them back in order.

    subwords: anything with encode(text) -> ids and decode(ids) -> text
    search: from a model and a source to lists of ids; for another width:
        functools.partial(beam, width=8)
    n_tokens: source tokens in a batch, padding included; a longer sentence is a
        batch of its own
    workers: `heed.workers.Workers` of this model, to search in their processes
    watch: called after each batch with the number of sentences so far

    Returns a list of strings; an empty or blank sentence becomes an empty one.
    Raises ValueError if `sentences` is one string, or n_tokens below 1.
    """
    if isinstance(sentences, str):
        raise ValueError(
            "translate takes a list of sentences; "
            f"for one sentence, give [{sentences[:40]!r}]."
        )
    if n_tokens < 1:
        raise ValueError(f"A batch holds at least one token, but {n_tokens=}.")
    ids = [subwords.encode(text) if text.strip() else [] for text in sentences]
    order = [i for i, row in enumerate(ids) if row]
    order.sort(key=lambda i: -len(ids[i]))
    batches = []
    while order:
        n = max(1, n_tokens // len(ids[order[0]]))
        batches.append(order[:n])
        order = order[n:]
    rows = ([ids[i] for i in batch] for batch in batches)
    if workers is None:
        device = next(model.parameters()).device
        said = (search(model, pad(batch).to(device)) for batch in rows)
    else:
        said = workers.search(search, rows)
    answers, n_done = [""] * len(ids), 0
    for batch, found in zip(batches, said, strict=True):
        for i, row in zip(batch, found, strict=True):
            answers[i] = subwords.decode(row)
        n_done += len(batch)
        if watch:
            watch(n_done)
    return answers
