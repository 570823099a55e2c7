"""Searches: greedy and beam, for many sentences at once.

No sequence is cut silently: one that has `n_max` tokens was cut, for one that
ends by itself has fewer.
"""

from contextlib import contextmanager

import torch
from torch.nn import functional as F

from heed.decode.cache import start_decoding
from heed.speed import arg_max
from heed.text import EOS, PAD
from heed.transformer import LanguageModel


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
        raise ValueError(f"The exponent of the length penalty is 0 or above, but {penalty=}.")


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
            raise ValueError("A language model needs n_max, the most tokens to write; got None.")
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
