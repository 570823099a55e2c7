"""Writing: what a trained encoder–decoder says, token by token, when nobody tells it the right answer.

Three ways to choose the next token (greedy, beam, sampling), and the cache that spares all of them from
reading their own words again. No sentence is cut in silence: whoever has `n_max` tokens was cut, for one that
ends by itself has fewer. This module knows nothing about training.
"""

from contextlib import contextmanager

import torch

from heed.attention import fused_attention, merge_heads, padding_mask, split_heads
from heed.data import pad
from heed.text import BOS, EOS, PAD


class LayerCache:
    """What one decoder layer need not compute again: keys and values of the source, and of what is written.

    `step` repeats the three lines of `DecoderLayer.forward` for one new token of each hypothesis. The source
    is projected once; of the written tokens only the new one is, and its key and value join the others. A
    sentence's hypotheses lie side by side: time t of hypothesis j is column t·m + j. There is room to spare,
    doubled when it is full, so that growing by one column does not copy all others.
    """

    def __init__(self, layer, memory):
        """memory: (b, n_source, d_model)"""
        self.layer = layer
        self.source = keys_and_values(layer.source_attention, memory)
        self.room = [x.new_empty(*x.shape[:2], 0, x.shape[3]) for x in self.source]
        self.n = 0

    def step(self, x, source_mask, written_mask):
        """Carry one new token of each hypothesis through the layer.

        x: (b, m, d_model)
        source_mask: (b, 1, 1, n_source)
        written_mask: broadcasts to (b, h, m, n_k); None where each sentence has one hypothesis

        Returns (b, m, d_model).
        """
        layer = self.layer
        x = layer.sublayer[0](x, lambda x: self.look_back(x, written_mask))  # (b, m, d_model)
        x = layer.sublayer[1](x, lambda x: look(layer.source_attention, x, *self.source, source_mask))
        return layer.sublayer[2](x, layer.feed_forward)  # (b, m, d_model)

    def look_back(self, x, mask):
        """Self-attention of the new tokens x: (b, m, d_model), which then belong to what is written."""
        attention, end = self.layer.self_attention, self.n + x.shape[1]
        for i, new in enumerate(keys_and_values(attention, x)):
            if end > self.room[i].shape[2]:
                larger = new.new_empty(*new.shape[:2], 2 * end + 14, new.shape[3])
                larger[:, :, : self.n] = self.room[i][:, :, : self.n]
                self.room[i] = larger
            self.room[i][:, :, self.n : end] = new
        self.n = end
        return look(attention, x, *(room[:, :, :end] for room in self.room), mask)

    def keep(self, rows):
        """Go on with these sentences alone. rows: the numbers of the rows to keep, a LongTensor."""
        self.source, self.room = ([x[rows] for x in pair] for pair in (self.source, self.room))


def keys_and_values(attention, x):
    """Project tokens to keys and values, each laid out as it will be read at every step to come.

    x: (b, n, d_model)

    Returns keys (b, h, n, d_k) and values (b, h, n, d_k).
    """
    return tuple(split_heads(W(x), attention.n_heads).contiguous() for W in (attention.W_k, attention.W_v))


def look(attention, x, k, v, mask):
    """Attention of the tokens x to keys and values that are already there.

    The fused computation, which writes no weights down for `record`: to see these, run the model over what it
    has said.

    x: (b, m, d_model)
    k: (b, h, n_k, d_k)
    v: (b, h, n_k, d_k)
    mask: bool, True where a token may look; broadcasts to (b, h, m, n_k)

    Returns (b, m, d_model).
    """
    q = split_heads(attention.W_q(x), attention.n_heads)  # (b, h, m, d_k)
    return attention.W_o(merge_heads(fused_attention(q, k, v, mask)))  # (b, m, d_model)


class Cache:
    """A model that is writing: it has read the source, and reads one new token of each hypothesis a step."""

    def __init__(self, model, source):
        """model: an EncoderDecoder. source: (b, n_source)"""
        self.model, self.n = model, 0
        self.source_mask = padding_mask(source)  # (b, 1, 1, n_source)
        memory = model.encode(source, self.source_mask)  # (b, n_source, d_model)
        self.layers = [LayerCache(layer, memory) for layer in model.decoder.layers]

    def step(self, y, written_mask=None):
        """Score what may follow.

        y: (b, m), the last token of each of the m hypotheses of each sentence
        written_mask: broadcasts to (b, h, m, n_k), which columns belong to which hypothesis, the new ones too

        Returns logits (b, m, vocab); those of PAD and BOS are -inf, for nobody says these.
        """
        embed, position = self.model.target_embed
        x = embed(y)  # (b, m, d_model)
        x = position(x.flatten(0, 1)[:, None], start=self.n).view_as(x)  # (b, m, d_model)
        for layer in self.layers:
            x = layer.step(x, self.source_mask, written_mask)  # (b, m, d_model)
        self.n += 1
        logits = self.model.generator.proj(self.model.decoder.norm(x))  # (b, m, vocab)
        logits[..., [PAD, BOS]] = float("-inf")
        return logits

    def keep(self, rows):
        """Go on with these sentences alone. rows: the numbers of the rows to keep, a LongTensor."""
        self.source_mask = self.source_mask[rows]
        for layer in self.layers:
            layer.keep(rows)


# --- Searches -----------------------------------------------------------------------------------------------


def greedy(model, source, n_max=None):
    """At each step the likeliest token.

    source: (b, n_source), padded on the right
    n_max: the most tokens to write, or None for `longest(source)`

    Returns b lists of ids, without BOS and EOS. A list of n_max tokens was cut before its end.
    """
    return write(model, source, n_max, lambda logits: logits.max(dim=-1).indices)


def sample(model, source, temperature=1.0, top_k=None, top_p=1.0, seed=0, n_max=None):
    """At each step a token drawn at random from `truncated` probabilities.

    source: (b, n_source), padded on the right
    seed: the same seed and the same source give the same sentences
    n_max: the most tokens to write, or None for `longest(source)`

    Returns b lists of ids, as `greedy` does. Raises ValueError for numbers that leave nothing to draw from.
    """
    if not temperature > 0:
        raise ValueError(f"The temperature divides the scores, so it must be above 0; it is {temperature}.")
    if top_k is not None and top_k < 1:
        raise ValueError(f"At least one token must be left to draw from, but {top_k=}.")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p is a share of the probability, above 0 and at most 1; it is {top_p}.")
    generator = torch.Generator(source.device).manual_seed(seed)

    def draw(logits):
        p = truncated(logits, temperature, top_k, top_p)
        return torch.multinomial(p, 1, generator=generator)[:, 0]

    return write(model, source, n_max, draw)


def truncated(logits, temperature=1.0, top_k=None, top_p=1.0):
    """The probabilities to draw the next token from, without the unlikely ones.

        p = softmax(logits / temperature), of which only these are kept, and made to sum to one again:
        the top_k likeliest (Fan et al. 2018), and of them the fewest that reach a sum of top_p, the
        likeliest first (nucleus sampling, Holtzman et al. 2020).

    logits: (b, vocab)

    Returns (b, vocab).
    """
    p, ids = (logits.float() / temperature).softmax(dim=-1).sort(descending=True)  # (b, vocab), (b, vocab)
    if top_k is not None:
        p[:, top_k:] = 0.0
    if top_p < 1:
        before = p.cumsum(dim=-1) - p  # (b, vocab)
        p = p.masked_fill(before >= top_p * p.sum(dim=-1, keepdim=True), 0.0)  # (b, vocab)
    return torch.zeros_like(p).scatter(-1, ids, p / p.sum(dim=-1, keepdim=True))  # (b, vocab)


@torch.no_grad()
def write(model, source, n_max, choose):
    """Write all sentences at once, one token a step, each until it says EOS.

    A sentence that has ended is computed on, for nothing, until a quarter of the batch has ended: then the
    others move together.

    choose: a function from logits to the next ids, row by row
    """
    limits = longest(source, n_max)
    written = source.new_full((len(source), max(limits.tolist(), default=0)), EOS)
    rows = limits.nonzero()[:, 0]
    with dropout_off(model):
        cache = Cache(model, source[rows])
        y, live = torch.full_like(rows, BOS), torch.ones_like(rows, dtype=torch.bool)
        for n in range(written.shape[1]):
            y = choose(cache.step(y[:, None])[:, 0])
            written[rows, n] = y
            live = live & (y != EOS) & (n + 1 < limits[rows])
            n_live = int(live.sum())
            if n_live == 0:
                break
            if n_live <= 3 / 4 * len(rows):
                cache.keep(live.nonzero()[:, 0])
                rows, y, live = rows[live], y[live], live[live]
    return [upto_end(ids[:limit]) for ids, limit in zip(written.tolist(), limits.tolist(), strict=True)]


def upto_end(ids):
    """The ids before the first EOS, or all of them."""
    return ids[: ids.index(EOS)] if EOS in ids else ids


def beam(model, source, width=4, penalty=1.0, n_max=None):
    """Follow the `width` likeliest beginnings at once, and answer with the best sentence that has ended.

        score(Y) = log P(Y | X) / lp(Y),   lp(Y) = ((5 + |Y|) / 6)^α   (Wu et al. 2016, eq. 14)

    |Y| counts EOS. Without the penalty (α = 0) a longer sentence can only be less likely. Of all beginnings
    that are one token longer, the `width` likeliest stay. Those of them that have now said EOS leave the beam
    and are kept apart, the best one of each sentence. A beginning with log P = s can at most reach
    s / lp(n_max), for log P only falls and lp only grows: a sentence is done when that is no better than what
    has ended, and at n_max at the latest. Only if nothing has ended by then, its likeliest beginning is the
    answer, as it stands. With width = 1 this is `greedy`.

    source: (b, n_source), padded on the right
    width: beginnings followed at once, m in the shapes
    penalty: α; 0 or above
    n_max: the most tokens to write, or None for `longest(source)`

    Returns b lists of ids, as `greedy` does. Raises ValueError if width or penalty is impossible.
    """
    if width < 1:
        raise ValueError(f"A beam follows at least one beginning, but {width=}.")
    if not penalty >= 0:
        raise ValueError(f"The exponent of the length penalty is 0 or above, but {penalty=}.")
    limits, answers = longest(source, n_max), [[] for _ in source]
    rows = limits.nonzero()[:, 0]
    with torch.no_grad(), dropout_off(model):
        cache, slots = Cache(model, source[rows]), torch.arange(width, device=source.device)
        y = source.new_full((len(rows), width), BOS)  # (b, m)
        said = family = y[..., None][..., :0]  # of each hypothesis: its tokens, the slot of each
        log_p = torch.where(slots == 0, 0.0, float("-inf")).expand(len(rows), width)  # (b, m)
        best = log_p.new_full((len(rows),), float("-inf"))
        live = torch.ones_like(rows, dtype=torch.bool)
        for n in range(1, max(limits.tolist(), default=0) + 1):
            family = torch.cat([family, slots.expand_as(y)[..., None]], dim=-1)
            mine = (family[..., None] == slots).flatten(2)[:, None]  # a hypothesis sees its own past alone
            y, parents, log_p = expand(cache.step(y, mine), log_p)  # (b, m), (b, m), (b, m)
            said, family = (x.take_along_dim(parents[..., None], dim=1) for x in (said, family))
            said = torch.cat([said, y[..., None]], dim=-1)

            ended = y == EOS
            scores = (log_p / length_penalty(n, penalty)).masked_fill(~ended, float("-inf"))  # (b, m)
            log_p = log_p.masked_fill(ended, float("-inf"))  # (b, m)
            score, winner = scores.max(dim=1)
            better = live & (score > best)
            best = torch.where(better, score, best)
            cut = live & (n == limits[rows]) & best.isinf()
            winner = torch.where(cut, log_p.argmax(dim=1), winner)
            for i in (better | cut).nonzero()[:, 0].tolist():
                answers[rows[i]] = upto_end(said[i, winner[i]].tolist())

            hope = log_p.max(dim=1).values / length_penalty(limits[rows], penalty)
            live = live & (n < limits[rows]) & (hope > best)
            n_live = int(live.sum())
            if n_live == 0:
                break
            if n_live <= 3 / 4 * len(rows):
                cache.keep(live.nonzero()[:, 0])
                rows, y, said, family, log_p, best = (x[live] for x in (rows, y, said, family, log_p, best))
                live = live[live]
    return answers


def expand(logits, log_p):
    """The m likeliest of all beginnings that are one token longer.

    logits: (b, m, vocab)
    log_p: (b, m), of the beginnings so far

    Returns their last tokens (b, m), the beginnings that they continue (b, m), and their log P (b, m).
    """
    m, vocab = logits.shape[1:]
    exact = torch.promote_types(logits.dtype, torch.float32)
    few, ids = logits.log_softmax(dim=-1, dtype=exact).topk(min(m, vocab))
    log_p, place = (log_p[..., None] + few).flatten(1).topk(m)  # (b, m), (b, m)
    return ids.flatten(1).gather(1, place), place // few.shape[2], log_p


def length_penalty(n, alpha):
    """lp(Y) = ((5 + |Y|) / 6)^α for a sentence of n = |Y| tokens      (Wu et al. 2016, eq. 14)"""
    return ((5 + n) / 6) ** alpha


def longest(source, n_max=None):
    """The most tokens to write, EOS too: n_max, or 2·n + 10 for a source of n tokens; 0 for an empty source.

    source: (b, n_source)

    Returns whole numbers (b). Raises ValueError if n_max is below 1.
    """
    if n_max is not None and n_max < 1:
        raise ValueError(f"At least one token must be allowed, but {n_max=}.")
    n = (source != PAD).sum(dim=1)
    limits = 2 * n + 10 if n_max is None else torch.full_like(n, n_max)
    return limits.masked_fill(n == 0, 0)


@contextmanager
def dropout_off(model):
    """Switch a model's dropout off while the block is open, and then back to what it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


# --- From text to text --------------------------------------------------------------------------------------


def translate(model, subwords, sentences, search=greedy, n_tokens=4096):
    """Translate sentences, the longest first, in batches of like length; give them back in their order.

    subwords: anything with encode(text) -> ids and decode(ids) -> text
    search: from a model and a source to lists of ids; for another width: functools.partial(beam, width=8)
    n_tokens: source tokens in a batch, padding included; a longer sentence is a batch of its own

    Returns a list of strings; an empty or blank sentence becomes an empty one.
    Raises ValueError if `sentences` is one string, or n_tokens below 1.
    """
    if isinstance(sentences, str):
        raise ValueError(f"translate takes a list of sentences; for one sentence, give [{sentences[:40]!r}].")
    if n_tokens < 1:
        raise ValueError(f"A batch holds at least one token, but {n_tokens=}.")
    ids = [subwords.encode(sentence) if sentence.strip() else [] for sentence in sentences]
    order = sorted((i for i, row in enumerate(ids) if row), key=lambda i: -len(ids[i]))
    answers, device = [""] * len(ids), next(model.parameters()).device
    while order:
        n = max(1, n_tokens // len(ids[order[0]]))
        batch, order = order[:n], order[n:]
        said = search(model, pad([ids[i] for i in batch]).to(device))
        for i, row in zip(batch, said, strict=True):
            answers[i] = subwords.decode(row)
    return answers
