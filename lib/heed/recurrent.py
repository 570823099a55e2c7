"""Recurrent networks: one step of three cells, a model for each of four shapes.

This module knows nothing about attention. The steps are written out; the models
run them through torch's fused `nn.GRU`, which computes the same numbers
(tests/test_recurrent.py holds the two equal).
"""

import torch
from torch import nn

from heed.text import BOS, EOS, PAD, check_ids

# --- One step of a cell -------------------------------------------------------


def rnn_step(x, h, W_x, W_h, b_x, b_h):
    """Read one input and update the state: the vanilla recurrent network.

        h' = tanh(W_x x + b_x + W_h h + b_h)
        (Elman 1990; torch's nn.RNNCell)

    x: (b, d_in)
    h: (b, d_hidden)
    W_x: (d_hidden, d_in)
    W_h: (d_hidden, d_hidden)
    b_x: (d_hidden)
    b_h: (d_hidden)

    Returns the new state (b, d_hidden).
    """
    return torch.tanh(x @ W_x.T + b_x + h @ W_h.T + b_h)  # (b, d_hidden)


def gru_step(x, h, W_x, W_h, b_x, b_h):
    """Update the state through two gates: the gated recurrent unit.

        r = σ(W_xr x + b_xr + W_hr h + b_hr)             reset gate
        z = σ(W_xz x + b_xz + W_hz h + b_hz)             update gate
        g = tanh(W_xg x + b_xg + r ⊙ (W_hg h + b_hg))    candidate
        h' = z ⊙ h + (1 − z) ⊙ g
        (Cho et al. 2014, as in torch's nn.GRUCell, which calls the candidate n)

    r says how much of the old state the candidate sees, z how much of it stays.

    x: (b, d_in)
    h: (b, d_hidden)
    W_x: (3*d_hidden, d_in), the rows of r, z, g stacked
    W_h: (3*d_hidden, d_hidden)
    b_x: (3*d_hidden)
    b_h: (3*d_hidden)

    Returns the new state (b, d_hidden).
    """
    r_x, z_x, g_x = (x @ W_x.T + b_x).chunk(3, dim=-1)
    r_h, z_h, g_h = (h @ W_h.T + b_h).chunk(3, dim=-1)
    r = torch.sigmoid(r_x + r_h)  # (b, d_hidden)
    z = torch.sigmoid(z_x + z_h)  # (b, d_hidden)
    g = torch.tanh(g_x + r * g_h)  # (b, d_hidden)
    return z * h + (1 - z) * g  # (b, d_hidden)


def lstm_step(x, h, c, W_x, W_h, b_x, b_h):
    """Update a state and a memory beside it: the long short-term memory.

        i, f, o = σ(W_x x + b_x + W_h h + b_h)    input, forget, output gate
        g = tanh(W_x x + b_x + W_h h + b_h)       candidate
        c' = f ⊙ c + i ⊙ g
        h' = o ⊙ tanh(c')
        (Hochreiter & Schmidhuber 1997; Gers et al. 2000)

    Each gate and the candidate have rows of their own in W_x, W_h, b_x, b_h.

    x: (b, d_in)
    h: (b, d_hidden)
    c: (b, d_hidden)
    W_x: (4*d_hidden, d_in), the rows of i, f, g, o stacked
    W_h: (4*d_hidden, d_hidden)
    b_x: (4*d_hidden)
    b_h: (4*d_hidden)

    Returns the new state (b, d_hidden) and the new memory (b, d_hidden).
    """
    i, f, g, o = (x @ W_x.T + b_x + h @ W_h.T + b_h).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)  # (b, d_hidden)
    h = torch.sigmoid(o) * torch.tanh(c)  # (b, d_hidden)
    return h, c


# --- What the models share ----------------------------------------------------


class CheckedEmbedding(nn.Embedding):
    """An embedding matrix, one learned row a token, that checks the ids.

    ids: (..., n)

    Returns the rows (..., n, d_embed).
    Raises ValueError with the id, its position and the number of rows, if there
    is no such row; on a GPU, which the check would keep waiting at every step,
    torch itself stops.
    """

    def forward(self, ids):
        if ids.device.type == "cpu":
            check_ids(ids, self.num_embeddings)
        return super().forward(ids)


def last_state(states, ids):
    """Pick each sentence's state at its last real token, whatever the padding.

    states: (b, n, d_hidden)
    ids: (b, n), padded on the right

    Returns (b, d_hidden); zeros for a sentence without any real token.
    """
    lengths = (ids != PAD).sum(dim=1)  # (b)
    i = (lengths - 1).clamp(min=0)  # (b)
    last = states[torch.arange(len(ids)), i]  # (b, d_hidden)
    return last * (lengths > 0)[:, None]


# --- The four shapes ----------------------------------------------------------


class Tagger(nn.Module):
    """N → N: one label for every token, from the tokens on both sides of it.

    The text is read forwards and backwards; both states of a token decide its
    label.
    (Schuster & Paliwal 1997)
    """

    def __init__(self, vocab, n_tags, d_embed, d_hidden):
        super().__init__()
        self.embed = CheckedEmbedding(vocab, d_embed, padding_idx=PAD)
        self.forwards = nn.GRU(d_embed, d_hidden, batch_first=True)
        self.backwards = nn.GRU(d_embed, d_hidden, batch_first=True)
        self.out = nn.Linear(2 * d_hidden, n_tags)

    def forward(self, ids):
        """Return a score for every tag of every token (b, n, n_tags).

        ids: (b, n), padded on the right
        """
        x = self.embed(ids)  # (b, n, d_embed)
        left, _ = self.forwards(x)  # (b, n, d_hidden)
        right, _ = self.backwards(flip(x, ids))  # (b, n, d_hidden)
        right = flip(right, ids)  # (b, n, d_hidden)
        return self.out(torch.cat([left, right], dim=-1))  # (b, n, n_tags)


def flip(x, ids):
    """Reverse each sentence and leave its padding where it is, on the right.

    x: (b, n, d_in)
    ids: (b, n), padded on the right

    Returns (b, n, d_in). Applied twice, it gives x back.
    """
    n = ids.shape[1]
    lengths = (ids != PAD).sum(dim=1, keepdim=True)  # (b, 1)
    i = torch.arange(n, device=ids.device).expand_as(ids)  # (b, n)
    source = torch.where(i < lengths, lengths - 1 - i, i)  # (b, n)
    return x.gather(1, source[..., None].expand_as(x))  # (b, n, d_in)


class Classifier(nn.Module):
    """N → 1: one label for the whole sequence, from the last state alone."""

    def __init__(self, vocab, n_classes, d_embed, d_hidden):
        super().__init__()
        self.embed = CheckedEmbedding(vocab, d_embed, padding_idx=PAD)
        self.rnn = nn.GRU(d_embed, d_hidden, batch_first=True)
        self.out = nn.Linear(d_hidden, n_classes)

    def forward(self, ids):
        """Return a score for every class (b, n_classes).

        ids: (b, n), padded on the right
        """
        states, _ = self.rnn(self.embed(ids))  # (b, n, d_hidden)
        return self.out(last_state(states, ids))  # (b, n_classes)


class ConditionalLanguageModel(nn.Module):
    """1 → N: a sequence from one label, which sets the first state."""

    def __init__(self, n_classes, vocab, d_embed, d_hidden):
        super().__init__()
        self.start = CheckedEmbedding(n_classes, d_hidden)
        self.embed = CheckedEmbedding(vocab, d_embed, padding_idx=PAD)
        self.rnn = nn.GRU(d_embed, d_hidden, batch_first=True)
        self.out = nn.Linear(d_hidden, vocab)

    def forward(self, labels, ids):
        """From labels (b) and ids (b, n), score what follows (b, n, vocab)."""
        x, state = self.embed(ids), self.start(labels)[None]
        states, _ = self.rnn(x, state)  # (b, n, d_hidden)
        return self.out(states)  # (b, n, vocab)

    @torch.no_grad()
    def sample(self, labels, n_max, seed):
        """Write one sequence for each label, sampling every token from softmax.

        labels: (b)

        Returns ids (b, n) with n ≤ n_max; what follows a row's EOS is PAD.
        """
        generator = torch.Generator().manual_seed(seed)

        def draw(logits):
            p = logits.softmax(dim=-1).cpu()
            y = torch.multinomial(p, 1, generator=generator)[:, 0]
            return y.to(logits.device)

        def step(y, state):
            out, state = self.rnn(self.embed(y[:, None]), state)
            return self.out(out[:, 0]), state

        state = self.start(labels)[None]
        return unroll(step, state, len(labels), n_max, choose=draw)


class RecurrentEncoder(nn.Module):
    """Read the source once; pass on the last state, all the decoder gets."""

    def __init__(self, vocab, d_embed, d_hidden):
        super().__init__()
        self.embed = CheckedEmbedding(vocab, d_embed, padding_idx=PAD)
        self.rnn = nn.GRU(d_embed, d_hidden, batch_first=True)

    def forward(self, source):
        """Return the last state (b, d_hidden).

        source: (b, n_source), padded on the right
        """
        states, _ = self.rnn(self.embed(source))  # (b, n_source, d_hidden)
        return last_state(states, source)


class RecurrentDecoder(nn.Module):
    """A language model of the target that starts from a given state."""

    def __init__(self, vocab, d_embed, d_hidden):
        super().__init__()
        self.embed = CheckedEmbedding(vocab, d_embed, padding_idx=PAD)
        self.rnn = nn.GRU(d_embed, d_hidden, batch_first=True)
        self.out = nn.Linear(d_hidden, vocab)

    def forward(self, target_in, state):
        """Score each next token.

        target_in: (b, n_target), from BOS on
        state: (b, d_hidden)

        Returns the scores (b, n_target, vocab) and the state (b, d_hidden).
        """
        x = self.embed(target_in)  # (b, n_target, d_embed)
        states, state = self.rnn(x, state[None])  # (b, n_target, d_hidden)
        return self.out(states), state[0]


class Seq2Seq(nn.Module):
    """N → M: an encoder reads, a decoder writes; only one state passes between.

    (Cho et al. 2014; Sutskever et al. 2014)
    """

    def __init__(self, source_vocab, target_vocab, d_embed, d_hidden):
        super().__init__()
        self.encoder = RecurrentEncoder(source_vocab, d_embed, d_hidden)
        self.decoder = RecurrentDecoder(target_vocab, d_embed, d_hidden)

    def forward(self, source, target_in):
        """Score each target token, given the source and the tokens before it.

        The tokens before it are the *true* ones: this is teacher forcing.

        source: (b, n_source)
        target_in: (b, n_target)

        Returns (b, n_target, vocab).
        """
        logits, _ = self.decoder(target_in, self.encoder(source))
        return logits  # (b, n_target, vocab)

    def start(self, source):
        """The initial state (b, d_hidden), and no memory to look back at."""
        return self.encoder(source), None

    def step(self, y, state, memory):
        """One step: y (b) and a state give scores (b, vocab) and a state."""
        logits, state = self.decoder(y[:, None], state)
        return logits[:, 0], state


# --- Writing without a teacher ------------------------------------------------


def free_run(model, source, n_max):
    """Let a model write on its own: each likeliest token is its next input.

    source: (b, n_source)
    n_max: the most tokens to write

    Returns ids (b, n) with n ≤ n_max, without BOS; what follows a row's EOS is
    PAD. A row that reaches n_max without EOS is returned as it stands. An empty
    source beside others gives an empty row.
    """
    with torch.no_grad():
        state, memory = model.start(source)

        def step(y, state):
            return model.step(y, state, memory)

        ids = unroll(step, state, len(source), n_max, choose=likeliest)
    ids[(source == PAD).all(dim=1)] = PAD
    return ids


def likeliest(logits):
    """The likeliest token of each row. logits: (b, vocab). Returns (b)."""
    return logits.argmax(dim=-1)


def unroll(step, state, b, n_max, choose):
    """Generate b sequences token by token.

    `step(y, state)` scores what may follow y, and `choose` takes one.

    Returns ids (b, n) with n ≤ n_max; what follows a row's EOS is PAD. Stops as
    soon as every row has ended.
    """
    if n_max < 1:
        raise ValueError(f"n_max must be at least 1; got {n_max}.")
    device = (state[0] if isinstance(state, tuple) else state).device
    y = torch.full((b,), BOS, device=device)
    ended, written = torch.zeros_like(y, dtype=torch.bool), []
    while len(written) < n_max and not ended.all():
        logits, state = step(y, state)
        y = choose(logits).masked_fill(ended, PAD)  # (b)
        written.append(y)
        ended = ended | (y == EOS)
    return torch.stack(written, dim=1)  # (b, n)
