"""Recurrent decoders with attention: one that writes words, one that points.

This module knows nothing about the Transformer.
"""

import torch
from torch import nn

from heed.attention import MaskedSoftmax, expectation
from heed.recurrent import CheckedEmbedding, flip
from heed.scores import AdditiveScore
from heed.text import PAD


class BidirectionalEncoder(nn.Module):
    """Read the source from both ends, and keep every state.

    h_i = [forward state; backward state] at token i: a summary of the whole
    sentence, strongest around i (Bahdanau et al. 2015, section 3.2; the network
    is that of Schuster & Paliwal 1997).
    """

    def __init__(self, vocab, d_embed, d_hidden):
        super().__init__()
        self.embed = CheckedEmbedding(vocab, d_embed, padding_idx=PAD)
        self.forwards = nn.GRU(d_embed, d_hidden, batch_first=True)
        self.backwards = nn.GRU(d_embed, d_hidden, batch_first=True)

    def forward(self, source):
        """Return all states (b, n_source, 2*d_hidden).

        source: (b, n_source), padded on the right
        """
        x = self.embed(source)  # (b, n_source, d_embed)
        left, _ = self.forwards(x)  # (b, n_source, d_hidden)
        right, _ = self.backwards(flip(x, source))  # (b, n_source, d_hidden)
        right = flip(right, source)  # (b, n_source, d_hidden)
        return torch.cat([left, right], dim=-1)  # (b, n_source, 2*d_hidden)


class AttentionDecoder(nn.Module):
    """Write one token at a time, and before each one look back at the source.

        e_ti = vᵀ tanh(W h_i + U s_{t−1})       how well does state i answer?
        α_ti = softmax_i e_ti                   where to look
        c_t = Σ_i α_ti h_i                      what is found there: the context
        s_t = f(s_{t−1}, y_{t−1}, c_t)          one GRU step on [y_{t−1}; c_t]
        o_t = W_o [s_t; c_t; y_{t−1}] + b_o     logits of the next token

    After Bahdanau et al. (2015), section 3.1; their output layer has one more
    hidden layer.
    """

    def __init__(self, vocab, d_embed, d_hidden, d_memory):
        super().__init__()
        self.embed = CheckedEmbedding(vocab, d_embed, padding_idx=PAD)
        self.score = AdditiveScore(d_hidden, d_memory, d_hidden)
        self.attention = MaskedSoftmax()
        self.cell = nn.GRUCell(d_embed + d_memory, d_hidden)
        self.out = nn.Linear(d_hidden + d_memory + d_embed, vocab)

    def forward(self, y, s, h, keys, mask):
        """Take one step.

        y: (b), the previous token
        s: (b, d_hidden), the previous state: this is the query
        h: (b, n_source, d_memory), the encoder's states: the values
        keys: (b, n_source, d_hidden), the same states after `score.project`
        mask: (b, n_source), True at real tokens

        Returns the logits of the next token (b, vocab) and the new state
        (b, d_hidden).
        """
        y = self.embed(y)  # (b, d_embed)
        e = self.score.compare(s[:, None], keys)  # (b, 1, n_source)
        alpha = self.attention(e, mask[:, None])  # (b, 1, n_source)
        c = expectation(alpha, h)[:, 0]  # (b, d_memory)
        s = self.cell(torch.cat([y, c], dim=-1), s)  # (b, d_hidden)
        return self.out(torch.cat([s, c, y], dim=-1)), s


class AttentionSeq2Seq(nn.Module):
    """N → M with attention: the decoder chooses among all encoder states.

    Used exactly as `heed.recurrent.Seq2Seq`. The decoder's first state is made
    from the backward state at the first token, as in Bahdanau et al. (2015),
    appendix A.2.2.
    """

    def __init__(self, source_vocab, target_vocab, d_embed, d_hidden):
        super().__init__()
        self.encoder = BidirectionalEncoder(source_vocab, d_embed, d_hidden)
        self.first = nn.Linear(d_hidden, d_hidden)
        d_both = 2 * d_hidden  # both directions of the encoder
        self.decoder = AttentionDecoder(target_vocab, d_embed, d_hidden, d_both)

    def forward(self, source, target_in):
        """The logits of each target token, given the true ones before it.

        source: (b, n_source). target_in: (b, n_target).
        Returns (b, n_target, vocab). This is teacher forcing.
        """
        s, memory = self.start(source)
        logits = []
        for y in target_in.unbind(dim=1):
            step, s = self.step(y, s, memory)
            logits.append(step)
        return torch.stack(logits, dim=1)  # (b, n_target, vocab)

    def start(self, source):
        """The initial state, and the memory: states, keys and mask."""
        states = self.encoder(source)  # (b, n_source, 2*d_hidden)
        _, backward = states[:, 0].chunk(2, dim=-1)  # (b, d_hidden)
        memory = states, self.decoder.score.project(states), source != PAD
        return torch.tanh(self.first(backward)), memory

    def step(self, y, state, memory):
        """One step: y (b) and a state give logits (b, vocab) and a state."""
        return self.decoder(y, state, *memory)


# --- Pointing: the answer is a position of the input --------------------------


class PointReader(nn.Module):
    """Read a set of items, and then those that were written, in their order.

        h_i = [forward state; backward state] at item i
        s_t = GRU(x_{y_{t−1}}, s_{t−1})       what was written last is read next

    Given all of y, the states of all steps are known at once. Before the first
    step a learned item is read. (After Vinyals et al. 2015, section 2.)
    """

    def __init__(self, d_in, d_hidden):
        super().__init__()
        self.forwards = nn.GRU(d_in, d_hidden, batch_first=True)
        self.backwards = nn.GRU(d_in, d_hidden, batch_first=True)
        self.writes = nn.GRU(d_in, d_hidden, batch_first=True)
        self.start = nn.Parameter(torch.zeros(d_in))

    def forward(self, x, y):
        """Return h (b, n, 2*d_hidden) and s (b, n_target, d_hidden).

        x: (b, n, d_in)
        y: (b, n_target), positions of x; the last one is not read
        """
        left, _ = self.forwards(x)  # (b, n, d_hidden)
        right, last = self.backwards(x.flip(1))  # (b, n, d_hidden)
        h = torch.cat([left, right.flip(1)], dim=-1)  # (b, n, 2*d_hidden)
        start = self.start.expand(len(x), 1, -1)  # (b, 1, d_in)
        row = torch.arange(len(x))[:, None]  # (b, 1)
        before = x[row, y[:, :-1].clamp(min=0)]  # (b, n_target - 1, d_in)
        s, _ = self.writes(torch.cat([start, before], dim=1), last)
        return h, s


class PositionWriter(nn.Module):
    """Write positions as the words of a fixed vocabulary: 0, 1, 2, ….

        c_t = Σ_i softmax_i(s(h_i, s_t)) h_i     the context of chapter 03
        p(y_t = i) = softmax_i(W_o [s_t; c_t] + b_o)

    Each item is read with its position beside it, as a learned vector.
    """

    def __init__(self, n_positions, d_in, d_position, d_hidden):
        super().__init__()
        self.position = nn.Embedding(n_positions, d_position)
        self.read = PointReader(d_in + d_position, d_hidden)
        self.score = AdditiveScore(d_hidden, 2 * d_hidden, d_hidden)
        self.out = nn.Linear(3 * d_hidden, n_positions)
        self.attention = MaskedSoftmax()

    def forward(self, x, y, mask=None):
        """Return the probability of each position, at each step.

        x: (b, n, d_in), n ≤ n_positions
        y: (b, n_target), positions: each step sees those before its own
        mask: bool, True where a step may write; (b, n_target, n)

        Returns (b, n_target, n).
        """
        n = x.shape[1]
        position = self.position.weight[:n].expand(len(x), -1, -1)
        h, s = self.read(torch.cat([x, position], dim=-1), y)
        c = expectation(self.score(s, h).softmax(-1), h)
        logits = self.out(torch.cat([s, c], dim=-1))
        return self.attention(logits[..., :n], mask)  # (b, n_target, n)


class PointerNetwork(nn.Module):
    """Answer with a position of the input: the weights are the output.

        p(y_t = i | y_<t, X) = softmax_i vᵀ tanh(W h_i + U s_t)
        (Vinyals et al. 2015, section 2.3)

    There is no context and no output layer, so n may be any number.
    """

    def __init__(self, d_in, d_hidden):
        super().__init__()
        self.read = PointReader(d_in, d_hidden)
        self.score = AdditiveScore(d_hidden, 2 * d_hidden, d_hidden)
        self.attention = MaskedSoftmax()

    def forward(self, x, y, mask=None):
        """Return the probability of each position, at each step.

        x: (b, n, d_in)
        y: (b, n_target), positions: each step sees those before its own
        mask: bool, True where a step may point; (b, n_target, n)

        Returns (b, n_target, n).
        """
        h, s = self.read(x, y)
        return self.attention(self.score(s, h), mask)  # (b, n_target, n)


def unused(y, n):
    """mask[t, i] is True when step t may take position i: each only once.

    Steps are counted from 0. The first position is an exception: from step 2 on
    it may be taken again, for that is how a closed path ends.

    y: (b, n_target), positions; −1 fills a row that has ended

    Returns (b, n_target, n), bool.
    """
    taken = y[..., None] == torch.arange(n)  # (b, n_target, n)
    before = taken.cumsum(dim=1) - taken.long()  # (b, n_target, n)
    free = before == 0  # (b, n_target, n)
    free[:, 2:] |= taken[:, :1]
    return free


def pointer_loss(model, batch):
    """Mean cross-entropy of the next position: −log of its attention weight.

    batch: a `heed.tasks.PointBatch`, whose y holds −1 where a row has ended
    """
    x, y = batch.x, batch.y
    weights = model(x, y, unused(y, x.shape[1]))
    chosen = weights.gather(-1, y.clamp(min=0)[..., None])[..., 0]
    return -chosen[y >= 0].log().mean()


@torch.no_grad()
def point(model, x):
    """Write positions greedily, until the first one is written again.

    x: (b, n, d_in)

    Returns positions (b, n_target), −1 where a row has ended.
    """
    b, n, _ = x.shape
    y = torch.zeros(b, 0, dtype=torch.long)
    ended = torch.zeros(b, dtype=torch.bool)
    while not ended.all():
        y = torch.cat([y, torch.zeros(b, 1, dtype=torch.long)], dim=1)
        weights = model(x, y, unused(y, n))[:, -1]  # (b, n)
        y[:, -1] = weights.argmax(dim=-1).masked_fill(ended, -1)
        ended = ended | ((y.shape[1] > 1) & (y[:, -1] == y[:, 0]))
    return y
