"""Sentences of the check of exercise 11.6: whole models that pass, models with one slip each, and cheats."""

# ruff: noqa: E501  (the slips are lines of source)

import inspect
import math

import pytest
import torch
from torch import nn

from heed import check
from heed.attention import MultiHeadAttention
from heed.transformer import EncoderDecoder, Generator, make_model


def told(capsys, answer):
    """What the check says to this answer."""
    check.transformer_from_nothing(answer)
    return capsys.readouterr().out


# --- A whole answer, and the same with one slip -----------------------------------------------------------------

RIGHT = """
def causal(n):
    return torch.ones(n, n, dtype=torch.bool).tril()

def padding(ids):
    return (ids != 0)[:, None, None, :]

def codes(n, d):
    angle = torch.arange(n)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)

class Heads(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        self.W_q, self.W_k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.W_v, self.W_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def split(self, x):
        b, n, d = x.shape
        return x.view(b, n, self.h, d // self.h).transpose(1, 2)

    def forward(self, q, k, v, mask):
        q, k, v = self.split(self.W_q(q)), self.split(self.W_k(k)), self.split(self.W_v(v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~mask, -math.inf)
        z = scores.softmax(dim=-1) @ v
        return self.W_o(z.transpose(1, 2).flatten(2))

class Network(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.W_1, self.W_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.W_2(self.W_1(x).relu())

class EncoderLayer(nn.Module):
    def __init__(self, d_model, d_ff, n_heads, dropout):
        super().__init__()
        self.self_attention = Heads(d_model, n_heads)
        self.feed_forward = Network(d_model, d_ff)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask):
        a = self.norms[0](x)
        x = x + self.drop(self.self_attention(a, a, a, mask))
        return x + self.drop(self.feed_forward(self.norms[1](x)))

class DecoderLayer(nn.Module):
    def __init__(self, d_model, d_ff, n_heads, dropout):
        super().__init__()
        self.self_attention, self.source_attention = Heads(d_model, n_heads), Heads(d_model, n_heads)
        self.feed_forward = Network(d_model, d_ff)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))
        self.drop = nn.Dropout(dropout)

    def forward(self, x, memory, source_mask, target_mask):
        a = self.norms[0](x)
        x = x + self.drop(self.self_attention(a, a, a, target_mask))
        x = x + self.drop(self.source_attention(self.norms[1](x), memory, memory, source_mask))
        return x + self.drop(self.feed_forward(self.norms[2](x)))

class Stack(nn.Module):
    def __init__(self, layer, n_layers, *sizes):
        super().__init__()
        self.layers = nn.ModuleList(layer(*sizes) for _ in range(n_layers))
        self.norm = nn.LayerNorm(sizes[0])

    def forward(self, x, *given):
        for layer in self.layers:
            x = layer(x, *given)
        return self.norm(x)

class Mine(nn.Module):
    def __init__(self, source_vocab, target_vocab, n_layers, d_model, d_ff, n_heads, dropout):
        super().__init__()
        self.source_embedding = nn.Embedding(source_vocab, d_model)
        self.target_embedding = nn.Embedding(target_vocab, d_model)
        self.encoder = Stack(EncoderLayer, n_layers, d_model, d_ff, n_heads, dropout)
        self.decoder = Stack(DecoderLayer, n_layers, d_model, d_ff, n_heads, dropout)
        self.generator = nn.Linear(d_model, target_vocab)

    def embed(self, x):
        n, d = x.shape[1:]
        return x * math.sqrt(d) + codes(n, d)

    def forward(self, source, target_in):
        x = self.embed(self.source_embedding(source))
        y = self.embed(self.target_embedding(target_in))
        seen = padding(target_in) & causal(target_in.shape[1])
        x = self.encoder(x, padding(source))
        y = self.decoder(y, x, padding(source), seen)
        return self.generator(y).log_softmax(dim=-1)
"""

OWN_NORM = """
class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.bias, self.weight = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.ones(d))

    def forward(self, x):
        c = x - x.mean(-1, keepdim=True)
        return self.weight * c / (c.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt() + self.bias
"""


def model(*changes):
    """The class that the source makes, with what stands first in each pair replaced by what stands second."""
    source = OWN_NORM + RIGHT
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in source, old
        source = source.replace(old, new)
    names = {"torch": torch, "nn": nn, "math": math}
    exec(source, names)
    return names["Mine"]


PASS = {
    "as the table says": (),
    "own norm": ("nn.LayerNorm", "Norm"),
    "small ε": ("nn.LayerNorm(d_model)", "nn.LayerNorm(d_model, eps=1e-12)"),
    "dropout on the weights": (
        "scores.softmax(dim=-1)",
        "nn.functional.dropout(scores.softmax(dim=-1), 0.5, self.training)",
    ),
    "masks to add": (
        "torch.ones(n, n, dtype=torch.bool).tril()",
        "torch.full((n, n), -math.inf).triu(1)",
        "(ids != 0)[:, None, None, :]",
        "torch.zeros(len(ids), 1, 1, ids.shape[1]).masked_fill(ids[:, None, None] == 0, -math.inf)",
        "& causal",
        "+ causal",
        "scores.masked_fill(~mask, -math.inf)",
        "scores + mask",
    ),
    "no padding in the target": ("padding(target_in) & causal", "causal"),
    "maps by hand": ("self.W_1(x)", "nn.functional.linear(x, self.W_1.weight, self.W_1.bias)"),
    "target embedded twice": (
        "x = self.encoder(x, padding(source))",
        "x = self.encoder(x, padding(source)); y = self.embed(self.target_embedding(target_in))",
    ),
}


@pytest.mark.parametrize("changes", PASS.values(), ids=PASS)
def test_a_transformer_from_nothing(capsys, changes):
    assert told(capsys, model(*changes)).startswith("✓")


SELF = "x = x + self.drop(self.self_attention(a, a, a, mask))"
OWN = "x = x + self.drop(self.self_attention(a, a, a, target_mask))"
SOURCE = "x = x + self.drop(self.source_attention(self.norms[1](x), memory, memory, source_mask))"
NETWORK = "return x + self.drop(self.feed_forward(self.norms[1](x)))"
LOOK = "self.source_attention(self.norms[1](x), memory, memory, source_mask)"
SPLIT, ROOT = "x.view(b, n, self.h, d // self.h).transpose(1, 2)", "math.sqrt(q.shape[-1])"
JOIN = "z.transpose(1, 2).flatten(2)"
MASKED = "scores.masked_fill(~mask, -math.inf)"
SLIPS = {  # what the check says: what stands in the answer, and what stands there instead
    # The scores, the softmax and the heads
    "are not scaled": (f" / {ROOT}", ""),
    "divided by √d_model": (ROOT, "math.sqrt(self.h * q.shape[-1])"),
    "divided by d_k": (ROOT, "q.shape[-1]"),
    "weights of all queries sum to one": ("scores.softmax(dim=-1)", "scores.softmax(dim=-2)"),
    "weights of all heads sum to one": ("scores.softmax(dim=-1)", "scores.softmax(dim=1)"),
    "cut by a view alone": (SPLIT, "x.view(b, self.h, n, d // self.h)"),
    "cut and merged by a view alone": (
        SPLIT,
        "x.view(b, self.h, n, d // self.h)",
        JOIN,
        "z.reshape(len(z), -1, self.h * z.shape[-1])",
    ),
    "not transposed back": (JOIN, "z.reshape(len(z), -1, self.h * z.shape[-1])"),
    "every h-th entry": (
        SPLIT,
        "x.view(b, n, d // self.h, self.h).permute(0, 3, 1, 2)",
        JOIN,
        "z.permute(0, 2, 3, 1).flatten(2)",
    ),
    "h entries": (SPLIT, "x.view(b, n, d // self.h, self.h).permute(0, 3, 1, 2)"),
    "one head as wide": ("self.h = n_heads", "self.h = 1"),
    "Keys and values are interchanged": (
        "self.split(self.W_k(k)), self.split(self.W_v(v))",
        "self.split(self.W_v(v)), self.split(self.W_k(k))",
    ),
    "`encoder.layers.0.self_attention.W_v`: unused": ("self.split(self.W_v(v))", "self.split(v)"),
    "`encoder.layers.0.self_attention.W_k`: unused": ("self.split(self.W_k(k))", "self.split(self.W_q(k))"),
    "`encoder.layers.0.self_attention.W_o`: unused": (f"self.W_o({JOIN})", JOIN),
    "`encoder.layers.0.self_attention.W_o`, the heads side by side, differs": (
        "z = scores.softmax(dim=-1) @ v",
        "z = (k @ q.mT).softmax(dim=-1) @ q",
    ),
    # The masks
    "The mask is missing. (Seen at `encoder.layers.0.self_attention.W_o`.)": (MASKED, "scores"),
    "The mask is missing. (Seen at `encoder.layers.0.self": (
        "self.encoder(x, padding(source))",
        "self.encoder(x, padding(source) | True)",
    ),
    "The mask is missing. (Seen at `decoder.layers.0.self": (
        "padding(target_in) & causal(target_in.shape[1])",
        "padding(target_in)",
    ),
    "The mask is missing. (Seen at `decoder.layers.0.source": (
        "x, padding(source), seen",
        "x, padding(source) | True, seen",
    ),
    "The mask is used the other way round": (MASKED, "scores.masked_fill(mask, -math.inf)"),
    "The mask is used the other way round: True": ("ids != 0", "ids == 0"),
    "The mask is used the other way round: True means that the query may look. (Seen at `decoder": (
        "bool).tril()",
        "bool).triu(1)",
    ),
    "Hidden scores are 0, and e⁰ = 1": (MASKED, "scores.masked_fill(~mask, 0.0)"),
    "The mask comes after the softmax": (
        f"scores = {MASKED}\n        z = scores.softmax(dim=-1)",
        "z = scores.softmax(dim=-1).masked_fill(~mask, 0.0)",
    ),
    "The mask is transposed": ("bool).tril()", "bool).triu()"),
    "its rows are queries, its columns keys": ("[:, None, None, :]", "[:, None, :, None]"),
    "The mask hides queries as well": (
        "(ids != 0)[:, None, None, :]",
        "(ids != 0)[:, None, None, :] & (ids != 0)[:, None, :, None]",
    ),
    "No query may look at itself": ("bool).tril()", "bool).tril(-1)"),
    "Each query sees one token too many": ("bool).tril()", "bool).tril(1)"),
    "The target's mask is used": ("memory, memory, source_mask)", "memory, memory, target_mask)"),
    "The source's mask is used": ("(a, a, a, target_mask)", "(a, a, a, source_mask)"),
    "The source's mask is used; the target's is meant.": (
        "x, padding(source), seen",
        "x, seen, padding(source)",
    ),
    # The network
    "W_2`, the ReLU of what W_1 returns, differs": (".relu()", ""),
    "the ReLU of what W_1 returns, differs": ("self.W_1(x).relu()", "nn.functional.gelu(self.W_1(x))"),
    "the ReLU of what W_1 returns": ("self.W_2(self.W_1(x).relu())", "self.W_2(self.W_1(x)).relu()"),
    "`encoder.layers.0.norms.1` and `encoder.layers.0.feed_forward.W_1`: unused": (NETWORK, "return x"),
    # Residuals and norms
    "The residual is missing": (SELF, SELF.replace("x + ", "")),
    "The residual is missing; x + F(norm(x)) is meant. (Seen at `encoder.layers.1.self": (
        NETWORK,
        NETWORK.replace("x + ", ""),
    ),
    "The residual is missing; x + F(norm(x)) is meant. (Seen at `decoder.layers.0.feed": (
        SOURCE,
        SOURCE.replace("x + ", ""),
    ),
    "x is not normalised; x + F(norm(x)) is meant, pre-norm. (Seen at `encoder.layers.0.self_attention.W_q`.)": (
        f"a = self.norms[0](x)\n        {SELF}",
        f"{SELF.replace('= x', '= self.norms[0](x').replace('a, a, a', 'x, x, x')})",
        NETWORK,
        "return self.norms[1](x + self.feed_forward(x))",
    ),
    "pre-norm. (Seen at `encoder.layers.0.self_attention.W_q`.)": (
        SELF,
        "x = x + self.norms[0](self.self_attention(x, x, x, mask))",
    ),
    "pre-norm. (Seen at `encoder.layers.0.self_attention.W_k`.)": ("(a, a, a, mask)", "(a, x, x, mask)"),
    "pre-norm. (Seen at `encoder.layers.0.feed_forward.W_1`.)": (
        NETWORK,
        "return self.norms[1](x + self.feed_forward(x))",
    ),
    "pre-norm. (Seen at `decoder.layers.0.source_attention.W_q`.)": (
        SOURCE,
        f"a = self.norms[1](x)\n        {SOURCE.replace('self.norms[1](x)', 'x')}",
    ),
    "`decoder.layers.0.norms.2`: unused": ("self.feed_forward(self.norms[2](x))", "self.feed_forward(x)"),
    "The residual is normalised": (SELF, SELF.replace("x + ", "a + ")),
    "norm(x) is added once more": (
        "return self.W_o(z",
        "return kept + self.W_o(z",
        "q, k, v = self.split",
        "kept = q\n        q, k, v = self.split",
    ),
    "`encoder.layers.0.norms.1`: unused": (
        "self.norms[1](x)))\n\nclass Dec",
        "self.norms[0](x)))\n\nclass Dec",
    ),
    "`encoder.norm`: unused": ("return self.norm(x)", "return x"),
    "divides by n − 1": ("nn.LayerNorm", "Norm", "unbiased=False, ", ""),
    "W_1` runs before `encoder.layers.0.self": (
        f"{SELF}\n        {NETWORK}",
        "x = x + self.feed_forward(self.norms[1](x))\n        a = self.norms[0](x)\n        return x + self.self_attention(a, a, a, mask)",
    ),
    "`decoder.layers.0.source_attention.W_q` runs before": (
        f"a = self.norms[0](x)\n        {OWN}\n        {SOURCE}",
        f"{SOURCE}\n        a = self.norms[0](x)\n        {OWN}",
    ),
    # Source attention
    "The memory asks": (
        LOOK,
        "self.source_attention(memory, self.norms[1](x), self.norms[1](x), target_mask)",
    ),
    "W_k`, the memory, from the encoder's norm, differs": (
        LOOK,
        "self.source_attention(self.norms[1](x), self.norms[1](x), self.norms[1](x), target_mask)",
    ),
    "W_v`, the memory, from the encoder's norm, differs": (
        LOOK,
        "self.source_attention(self.norms[1](x), memory, self.norms[1](x), source_mask)",
    ),
    "the memory, from the encoder's norm": (
        "(self.norms[1](x), memory, memory,",
        "(self.norms[1](x), self.norms[1](memory), self.norms[1](memory),",
    ),
    "`decoder.layers.0.norms.1` and `decoder.layers.0.source_attention.W_q`: unused": (SOURCE, "pass"),
    "`decoder.layers.0.self_attention.W_q`: unused": (
        OWN,
        "x = x + self.drop(self.source_attention(a, memory, memory, source_mask))",
    ),
    "`decoder.layers.0.source_attention.W_q`: unused": (
        LOOK,
        LOOK.replace("source_attention", "self_attention"),
    ),
    "source_attention.W_q`, `decoder.layers.0.norms.1` of x + F(norm(x)), differs": (
        f"a = self.norms[0](x)\n        {OWN}",
        f"a, start = self.norms[0](x), x\n        {OWN}",
        LOOK,
        LOOK.replace("(x)", "(start)"),
    ),
    "`encoder.layers.1.norms.0` and `encoder.layers.1.self_attention.W_q`: unused": (
        "in self.layers:",
        "in self.layers[:1]:",
    ),
    # Embeddings, positions, and what comes out
    "embeddings are not multiplied": ("x * math.sqrt(d) + codes(n, d)", "x + codes(n, d)"),
    "codes of the positions are missing": (" + codes(n, d)", ""),
    "codes are multiplied by √d_model": (
        "x * math.sqrt(d) + codes(n, d)",
        "(x + codes(n, d)) * math.sqrt(d)",
    ),
    "of √d_model · embedding + code, differs": (
        "torch.stack([angle.sin(), angle.cos()], -1).flatten(1)",
        "torch.cat([angle.sin(), angle.cos()], -1)",
    ),
    "W_q`, `encoder.layers.0.norms.0` of √d_model · embedding + code, differs": (
        "torch.arange(n)",
        "torch.arange(1, n + 1)",
    ),
    "returns scores": (".log_softmax(dim=-1)", ""),
    "returns probabilities": ("log_softmax(dim=-1)", "softmax(dim=-1)"),
    "softmax runs over the positions": ("log_softmax(dim=-1)", "log_softmax(dim=1)"),
    # Dropout, gradients, shapes
    "Two runs in eval mode differ": ("self.drop(self.self", "nn.functional.dropout(self.self"),
    "dropout is missing": ("nn.Dropout(dropout)", "nn.Identity()"),
    "x between `encoder.layers.0.norms.0` and `encoder.layers.0.norms.1`": (
        "self.drop(self.self",
        "(self.self",
    ),
    "x between `encoder.layers.0.norms.1` and `encoder.layers.1.norms.0`": (
        "self.drop(self.feed",
        "(self.feed",
    ),
    "x between `decoder.layers.0.norms.1` and `decoder.layers.0.norms.2`": (
        "self.drop(self.source",
        "(self.source",
    ),
    "`encoder.layers.0.feed_forward.W_1.weight`: unused, or the gradient is stopped": (
        "self.W_1(x)",
        "self.W_1(x).detach()",
    ),
    "depend on any parameter": (
        "def forward(self, source, target_in):",
        "@torch.no_grad()\n    def forward(self, source, target_in):",
    ),
    "the gradient of `encoder.layers.0.self_attention.W_q.weight` differs most": (
        f"a = self.norms[0](x)\n        {SELF}",
        f"a = self.norms[0](x.detach())\n        {SELF}",
    ),
    "should have (2, 5, 17)": ("return self.generator(y)", "return y"),
    "is of type tuple": (
        "return self.generator(y).log_softmax(dim=-1)",
        "return self.generator(y).log_softmax(dim=-1), x",
    ),
    "your code raised RuntimeError": (SPLIT, f"{SPLIT}.view(b, n, d)"),
    "The size of tensor": ("causal(target_in.shape[1])", "causal(source.shape[1])"),
    # Names
    "has no `encoder.layers.0.self_attention.W_q.weight`": ("W_q", "query"),
    "has no `encoder.layers.0.self_attention.W_o.bias`": (
        "self.W_v, self.W_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)",
        "self.W_v, self.W_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model, bias=False)",
    ),
    "has no `encoder.layers.1.self_attention.W_q.weight` of its own": (
        "nn.ModuleList(layer(*sizes) for _ in range(n_layers))",
        "nn.ModuleList([layer(*sizes)] * n_layers)",
    ),
    "has no `encoder.layers.0.norms.1.weight`": ("for _ in range(2)", "for _ in range(1)"),
    "`encoder.layers.0.feed_forward.W_1.weight` has shape (56, 14), and should have (11, 14)": (
        "Network(d_model, d_ff)",
        "Network(d_model, 4 * d_model)",
    ),
    "has shape (17, 14), and should have (13, 14)": (
        "nn.Embedding(source_vocab",
        "nn.Embedding(target_vocab",
    ),
    "should have (14, 14)": (
        "d_model, d_ff, n_heads, dropout)\n        self.generator",
        "d_ff, d_model, n_heads, dropout)\n        self.generator",
    ),
    "`positions` is none of the parameters": (
        "self.generator = ",
        "self.positions = nn.Parameter(torch.zeros(9, d_model))\n        self.generator = ",
    ),
    # What is to be written
    "`scaled_dot_product_attention` is what you are to write": (
        "z = scores.softmax(dim=-1) @ v",
        "z = nn.functional.scaled_dot_product_attention(q, k, v, mask)",
    ),
}


@pytest.mark.parametrize("sentence", SLIPS)
def test_a_slip_is_named(capsys, sentence):
    said = told(capsys, model(*SLIPS[sentence]))
    assert said.startswith("✗ Not yet: ") and sentence in said and said.count("\n") == 1


def test_of_two_slips_the_first_is_named(capsys):
    both = model(*SLIPS["are not scaled"], *SLIPS["returns scores"])
    assert "are not scaled" in told(capsys, both)


def test_nothing_is_not_started_and_parts_alone_are_a_beginning(capsys):
    class Stub(nn.Module):
        def __init__(self, *sizes):
            super().__init__()

        def forward(self, source, target_in): ...

    parts = type("Parts", (model(),), {"forward": Stub.forward})
    assert "Not started" in told(capsys, Stub)
    assert "Go on with forward" in told(capsys, parts)
    assert "Hand over your class" in told(capsys, model()(3, 3, 1, 2, 2, 1, 0.0))
    assert "Hand over your class" in told(capsys, make_model)


# --- Cheats: what is to be written comes from elsewhere ---------------------------------------------------------


class Wrapped(nn.Module):
    """torch's whole model in the place of one's own."""

    def __init__(self, source_vocab, target_vocab, n_layers, d_model, d_ff, n_heads, dropout):
        super().__init__()
        self.model = nn.Transformer(d_model, n_heads, n_layers, n_layers, d_ff, dropout, batch_first=True)

    def forward(self, source, target_in):
        return self.model(source, target_in)


class Borrowed(nn.Module):
    """The library's whole model."""

    def __init__(self, *sizes):
        super().__init__()
        self.model = make_model(*sizes)

    def forward(self, source, target_in):
        return self.model.generator(self.model(source, target_in))


class Renamed(EncoderDecoder):
    """A subclass of the library's model."""

    def __init__(self, *sizes):
        super().__init__(*(nn.Identity() for _ in range(5)))


READY = make_model(13, 17, 2, 14, 11, 7, 0.5).double()


class Handed(model()):
    """A right model's parts, and an answer from the library's, which was made before the check began."""

    def forward(self, source, target_in):
        ready = [READY]  # a list hides it from `modules`
        return ready[0].generator(ready[0](source, target_in))


class OwnHeads(nn.MultiheadAttention):
    """torch's heads under another name."""


def with_torchs_heads(heads):
    """A right model but for its encoder's attention."""

    class Model(model()):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            for layer in self.encoder.layers:
                layer.self_attention.inner = heads(14, 7)

    return Model


def shown():
    """The library's heads, as a folded cell of the chapter defines them once more."""
    names = {**vars(inspect.getmodule(MultiHeadAttention)), "__name__": "__main__"}
    exec(inspect.getsource(MultiHeadAttention), names)
    return names["MultiHeadAttention"]


class Copied(model()):
    """A right model that takes its encoder's heads from such a cell."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        for layer in self.encoder.layers:
            layer.self_attention = shown()(14, 7)


class Hidden(model()):
    """torch's heads where `modules` does not see them."""

    heads = (nn.MultiheadAttention(14, 7, batch_first=True).double(),)

    def forward(self, source, target_in):
        x = self.source_embedding(source)
        return super().forward(source, target_in) + 0 * self.heads[0](x, x, x)[0].sum()


CHEATS = {
    "torch's model": (Wrapped, "`Transformer`"),
    "the library's model": (Borrowed, "`make_model`"),
    "a subclass of the library's": (Renamed, "`EncoderDecoder`"),
    "the library's model, made before": (Handed, "`EncoderDecoder`"),
    "the library's heads, from a folded cell": (Copied, "`MultiHeadAttention`"),
    "torch's heads in own layers": (with_torchs_heads(nn.MultiheadAttention), "`MultiheadAttention`"),
    "a subclass of torch's heads": (with_torchs_heads(OwnHeads), "`MultiheadAttention`"),
    "torch's heads, made before and hidden": (Hidden, "`multi_head_attention_forward`"),
}


@pytest.mark.parametrize("cheat, name", CHEATS.values(), ids=CHEATS)
def test_what_is_to_be_written_may_not_be_imported(capsys, cheat, name):
    assert told(capsys, cheat) == f"✗ Not yet: {name} is what you are to write.\n"


def test_an_answer_that_was_kept_from_an_earlier_run_is_refused(capsys, monkeypatch):
    kept, generate = [], Generator.forward
    monkeypatch.setattr(Generator, "forward", lambda self, x: kept.append(generate(self, x)) or kept[-1])
    assert told(capsys, model()).startswith("✓")
    known = {y.shape[1]: y for y in kept}

    class Kept(model()):
        def forward(self, source, target_in):
            return known[target_in.shape[1]]

    assert "does not depend on `" in told(capsys, Kept)
