"""The recurrent decoder with attention: it looks back at all encoder states.

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
