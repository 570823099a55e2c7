"""Memories that are found by content: Hopfield networks, memory networks, a Turing machine.

This module does not know what is remembered, and knows nothing of the Transformer.
"""

import torch
from torch import nn
from torch.nn import functional as F

from heed.attention import MaskedSoftmax, expectation
from heed.recurrent import CheckedEmbedding
from heed.scores import dot_score

# --- Found by content: a whole from a part ------------------------------------


def hopfield_weights(X):
    """Weights under which each pattern tends to stay as it is: Hebb's rule.

        W = Σ_μ x_μ x_μᵀ,  W_ii = 0             (Hopfield 1982, eq. 2: there T)

    W_ij is a whole number: in how many more patterns entries i and j are equal
    than unequal.

    X: (n, d_x), patterns of 1 and −1

    Returns (d_x, d_x). Raises ValueError for other entries than 1 and −1.
    """
    if X.dim() != 2:
        raise ValueError(f"Patterns are rows of a matrix (n, d_x); this has shape {tuple(X.shape)}.")
    odd = (X.abs() != 1).nonzero()
    if len(odd):
        mu, i = odd[0].tolist()
        raise ValueError(f"Patterns hold 1 and −1 only; entry {i} of pattern {mu} is {X[mu, i].item():.4g}.")
    return (X.T @ X).fill_diagonal_(0.0)  # (d_x, d_x)


def hopfield_energy(x, W):
    """How little the entries of a state agree with one another.

        E = −½ Σ_ij W_ij x_i x_j                (Hopfield 1982, eq. 7)

    x: (..., d_x)
    W: (d_x, d_x), symmetric, with zeros on its diagonal

    Returns one number for each state (...). It never rises while entries take
    the sign of W x one after the other.
    """
    return -((x @ W) * x).sum(dim=-1) / 2


class HopfieldNetwork(nn.Module):
    """A memory of patterns that completes what it is given (Hopfield 1982).

        x_i ← sign(Σ_j W_ij x_j),  and x_i stays where the sum is 0

    d_x: width of a pattern. Random patterns are found again up to about
    n = 0.138 d_x of them (Amit, Gutfreund & Sompolinsky 1985).
    """

    def __init__(self, d_x):
        super().__init__()
        self.register_buffer("W", torch.zeros(d_x, d_x))

    def store(self, X):
        """Add patterns X to the memory, as `hopfield_weights` takes them.

        Raises ValueError for another width, too.
        """
        if X.shape[-1] != len(self.W):
            raise ValueError(f"Patterns of width {X.shape[-1]} do not fit a network of {len(self.W)} units.")
        self.W += hopfield_weights(X)

    def energy(self, x):
        """`hopfield_energy` of states x (..., d_x)."""
        return hopfield_energy(x, self.W)

    def forward(self, x, order=None):
        """Update a state once; an unknown entry of it is 0.

        x: (..., d_x)
        order: entries that are updated one after the other; if left out, all
            are at once, and the energy may rise

        Returns the new state (..., d_x).
        """
        if order is None:
            return agree(x @ self.W, x)
        x = x.clone()  # (..., d_x)
        for i in order:
            x[..., i] = agree(x @ self.W[i], x[..., i])
        return x


def agree(field, x):
    """The sign of the field, and where that is 0 the entry as it was."""
    return torch.where(field == 0, x, field.sign())


def retrieve(x, X, beta):
    """Update a state of the modern Hopfield network once: this is attention.

        x' = Xᵀ softmax(β X x)                  (Ramsauer et al. 2020, eq. 3, with
                                                patterns as rows)

    It is `attention(x, X, X)` for β = 1/√d_x: the state is the query, each
    pattern is its own key and value.

    x: (..., d_x)
    X: (n, d_x), patterns of any real numbers
    beta: how sharply the best-fitting pattern wins

    Returns the new state (..., d_x).
    """
    return expectation((dot_score(x, X) * beta).softmax(dim=-1), X)  # (..., d_x)


def modern_energy(x, X, beta):
    """What `retrieve` never raises.

        E = −(1/β) log Σ_μ exp(β x_μᵀ x) + ½ xᵀx + (1/β) log n + ½ max_μ |x_μ|²
        (Ramsauer et al. 2020, eq. 2)

    x: (..., d_x)
    X: (n, d_x)

    Returns one number for each state (...), 0 or more.
    """
    overlap = dot_score(x, X)  # (..., n)
    constant = torch.tensor(float(len(X))).log() / beta + X.square().sum(dim=-1).max() / 2
    return x.square().sum(dim=-1) / 2 - (beta * overlap).logsumexp(dim=-1) / beta + constant


# --- Read with a question: several looks at a memory of facts -----------------


class MemoryNetwork(nn.Module):
    """Answer a question by looking n_hops times at a memory of facts.

        u = Σ_j A q_j                            the question: its words j
        m_i = Σ_j l_j ⊙ A x_ij (+ T_i)           what fact i is found by
        c_i = Σ_j l'_j ⊙ C x_ij (+ T'_i)         what it says
        p_i = softmax_i(uᵀ m_i)                  one look: where
        o = Σ_i p_i c_i,  u ← H u + o            what is found there, added
        logits = C u                             after n_hops looks
        (Sukhbaatar et al. 2015, sections 2 and 4.1: the same matrices in all hops)

    The dot products are not divided by √d_model. l weighs the words of a fact
    by their place; here it is learned, from all ones, and in the paper fixed.
    T_i is a code of age.

    vocab: number of words
    n_hops: how many looks
    n_words: words in a fact
    tied: whether C is A, so that what is found can be looked for next
    n_ages: rows for which there is a code of age; 0 if a memory is a set
    """

    def __init__(self, vocab, d_model, n_hops, n_words=2, tied=True, n_ages=0):
        super().__init__()
        self.n_hops, self.n_ages = n_hops, n_ages
        self.A = CheckedEmbedding(vocab, d_model)
        self.C = self.A if tied else CheckedEmbedding(vocab, d_model)
        self.l_m = nn.Parameter(torch.ones(n_words, d_model))
        self.l_c = nn.Parameter(torch.ones(n_words, d_model))
        self.T_m = nn.Parameter(0.1 * torch.randn(n_ages, d_model))
        self.T_c = nn.Parameter(0.1 * torch.randn(n_ages, d_model))
        self.H = nn.Linear(d_model, d_model, bias=False)
        self.weights = MaskedSoftmax()
        self.linear = False  # True: no softmax, for a linear start (section 4.2)
        for embedding in {self.A, self.C}:
            nn.init.normal_(embedding.weight, std=0.1)

    def forward(self, facts, question, mask=None):
        """Return a score for every word of the vocabulary (b, vocab).

        facts: (b, n, n_words), ids; the latest fact comes last
        question: (b, n_asked), ids
        mask: (b, n), True at facts and False at padding

        Raises ValueError for more facts than there are codes of age.
        """
        m = (self.l_m * self.A(facts)).sum(dim=2)  # (b, n, d_model)
        c = (self.l_c * self.C(facts)).sum(dim=2)  # (b, n, d_model)
        if self.n_ages:
            m, c = m + self.age(self.T_m, m), c + self.age(self.T_c, c)
        u = self.A(question).sum(dim=1, keepdim=True)  # (b, 1, d_model)
        for _ in range(self.n_hops):
            p = self.look(dot_score(u, m), mask)  # (b, 1, n)
            u = self.H(u) + expectation(p, c)  # (b, 1, d_model)
        return dot_score(u, self.C.weight)[:, 0]  # (b, vocab)

    def look(self, scores, mask):
        """The weights p, or in a linear start the scores themselves."""
        mask = None if mask is None else mask[:, None]
        if self.linear:
            return scores if mask is None else scores.masked_fill(~mask, 0.0)
        return self.weights(scores, mask)

    def age(self, T, facts):
        """The codes of facts (b, n, d_model): the last fact has T's first row.

        T: (n_ages, d_model)

        Returns (n, d_model).
        """
        n = facts.shape[1]
        if n > self.n_ages:
            raise ValueError(f"{n} facts, and the memory has {self.n_ages} rows: make it with n_ages={n}.")
        return T[:n].flip(0)  # (n, d_model)


# --- Written as well: a Turing machine ----------------------------------------


def content_weights(k, M, beta):
    """Find rows of a memory by their content: a softmax over cosines.

        w_c(i) = softmax_i(β cos(k, M(i)))      (Graves et al. 2014, eq. 5 and 6)

    k: (b, d_row)
    M: (b, n_rows, d_row)
    beta: (b, 1)

    Returns (b, n_rows).
    """
    cosines = F.cosine_similarity(k[:, None], M, dim=-1)  # (b, n_rows)
    return (beta * cosines).softmax(dim=-1)  # (b, n_rows)


def shift_weights(w, s):
    """Move weights to the neighbouring rows; the last row's next is the first.

        w̃(i) = Σ_j w(j) s(i − j)                (Graves et al. 2014, eq. 8)

    w: (b, n_rows)
    s: (b, 3), the shares that go one row back, stay, go one row on

    Returns (b, n_rows).
    """
    back, stay, on = s.split(1, dim=-1)
    return back * w.roll(-1, dims=-1) + stay * w + on * w.roll(1, dims=-1)  # (b, n_rows)


class Sharpened(MaskedSoftmax):
    """Make weights sharper, for a shift with more than one share blurs them.

        w(i)^γ / Σ_j w(j)^γ = softmax_i(γ log w(i))
        (Graves et al. 2014, eq. 9)

    `record` sees the machine's weights pass here.
    """

    def forward(self, w, gamma):
        """w: (b, n_rows). gamma: (b, 1), at least 1. Returns (b, n_rows)."""
        return super().forward(gamma * (w + 1e-12).log())


def erase_and_add(M, w, e, a):
    """Erase, then add, in each row as much as the weights say.

        M'(i) = M(i) ⊙ (1 − w(i) e) + w(i) a     (Graves et al. 2014, eq. 3 and 4)

    M: (b, n_rows, d_row)
    w: (b, n_rows)
    e: (b, d_row), from 0 to 1
    a: (b, d_row)

    Returns the new memory (b, n_rows, d_row).
    """
    w = w[..., None]  # (b, n_rows, 1)
    return M * (1 - w * e[:, None]) + w * a[:, None]  # (b, n_rows, d_row)


class Head(nn.Module):
    """From the controller's output to a place in the memory.

        w_c = softmax_i(β cos(k, M(i)))          by content,
        w_g = g w_c + (1 − g) w                  or where it was;
        w̃(i) = Σ_j w_g(j) s(i − j)               from there a step;
        w'(i) = w̃(i)^γ / Σ_j w̃(j)^γ              sharper
        (Graves et al. 2014, section 3.3)

    Key k, strength β, gate g, shift s and sharpening γ are linear in h, each
    brought into its range. Two biases are set at first: g begins near ¼,
    so that the head stays where it is, and β near 2, so that it finds one row.
    """

    def __init__(self, d_hidden, d_row):
        super().__init__()
        self.k = nn.Linear(d_hidden, d_row)
        self.beta = nn.Linear(d_hidden, 1)
        self.g = nn.Linear(d_hidden, 1)
        self.s = nn.Linear(d_hidden, 3)
        self.gamma = nn.Linear(d_hidden, 1)
        self.weights = Sharpened()
        nn.init.constant_(self.beta.bias, 2.0)
        nn.init.constant_(self.g.bias, -1.0)

    def forward(self, h, M, w):
        """Return the new weights (b, n_rows).

        h: (b, d_hidden)
        M: (b, n_rows, d_row)
        w: (b, n_rows), the weights before
        """
        beta, gamma = F.softplus(self.beta(h)), 1 + F.softplus(self.gamma(h))  # (b, 1) each
        g, s = torch.sigmoid(self.g(h)), self.s(h).softmax(dim=-1)
        w_c = content_weights(torch.tanh(self.k(h)), M, beta)  # (b, n_rows)
        w_g = g * w_c + (1 - g) * w  # (b, n_rows)
        return self.weights(shift_weights(w_g, s), gamma)


class TuringMachine(nn.Module):
    """Read a sequence, then say another one, with a memory to write on.

        h = tanh(W_x [x; r])                     the controller reads
        w = head(h, M, w)                        one head moves,
        M = M ⊙ (1 − w e) + w a                  erases and adds,
        r = Σ_i w(i) M(i)                        and reads
        y = W_y [h; r]
        (Graves et al. 2014, section 3, with a feed-forward controller; there,
        reading and writing heads are apart)

    At first all rows are the same learned row M_0, and the head stands on the
    first one. So the number of parameters does not depend on n_rows.
    """

    def __init__(self, d_in, d_out, d_hidden, d_row):
        super().__init__()
        self.controller = nn.Linear(d_in + d_row, d_hidden)
        self.head = Head(d_hidden, d_row)
        self.e = nn.Linear(d_hidden, d_row)
        self.a = nn.Linear(d_hidden, d_row)
        self.out = nn.Linear(d_hidden + d_row, d_out)
        self.M_0 = nn.Parameter(0.1 * torch.randn(d_row))
        self.r_0 = nn.Parameter(0.1 * torch.randn(d_row))

    def forward(self, x, n_out, n_rows=None):
        """Read x, then say n_out outputs while nothing more is read.

        x: (b, n, d_in)
        n_rows: rows of the memory, one or more for each input; n if left out

        Returns (b, n_out, d_out).
        Raises ValueError if there are more inputs than rows.
        """
        state = self.start(x, n_rows)
        said = []
        for now in F.pad(x, (0, 0, 0, n_out)).unbind(dim=1):  # (b, d_in)
            y, state = self.step(now, *state)
            said.append(y)
        return torch.stack(said[x.shape[1] :], dim=1)  # (b, n_out, d_out)

    def start(self, x, n_rows=None):
        """The first memory, weights and reading, for inputs x (b, n, d_in)."""
        b, n, _ = x.shape
        n_rows = n if n_rows is None else n_rows
        if n > n_rows:
            raise ValueError(f"{n} inputs do not fit in {n_rows} rows: give n_rows={n} or more.")
        M = self.M_0.expand(b, n_rows, -1)  # (b, n_rows, d_row)
        w = F.one_hot(x.new_zeros(b, dtype=torch.long), n_rows).to(x.dtype)  # (b, n_rows)
        return M, w, self.r_0.expand(b, -1)

    def step(self, x, M, w, r):
        """One step: an output (b, d_out), and the new memory, weights, reading.

        x: (b, d_in)
        M: (b, n_rows, d_row)
        w: (b, n_rows)
        r: (b, d_row)
        """
        h = torch.tanh(self.controller(torch.cat([x, r], dim=-1)))  # (b, d_hidden)
        w = self.head(h, M, w)  # (b, n_rows)
        M = erase_and_add(M, w, torch.sigmoid(self.e(h)), torch.tanh(self.a(h)))  # (b, n_rows, d_row)
        r = expectation(w[:, None], M)[:, 0]  # (b, d_row)
        return self.out(torch.cat([h, r], dim=-1)), (M, w, r)
