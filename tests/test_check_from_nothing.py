"""Sentences of the check that ends chapter 11: whole answers that pass, and answers with one slip each."""

# ruff: noqa: E501  (the slips are lines of source)

import math

import pytest
import torch
from torch import nn

from heed import check


def told(capsys, checked, answer):
    """What the check says to this answer."""
    checked(answer)
    return capsys.readouterr().out


# --- From nothing: a whole answer, and the same with one slip ---------------------------------------------------

RIGHT = """
def causal_mask(n):
    return torch.ones(n, n, dtype=torch.bool).tril()

def padding_mask(ids):
    return (ids != 0)[:, None, None, :]

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

def network(d_model, d_ff):
    return nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention = Heads(d_model, n_heads)
        self.network = network(d_model, d_ff)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask):
        a = self.norm1(x)
        x = x + self.attention(a, a, a, mask)
        return x + self.network(self.norm2(x))

class DecoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.own, self.source = Heads(d_model, n_heads), Heads(d_model, n_heads)
        self.network = network(d_model, d_ff)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, source_mask, target_mask):
        a = self.norms[0](x)
        x = x + self.own(a, a, a, target_mask)
        x = x + self.source(self.norms[1](x), memory, memory, source_mask)
        return x + self.network(self.norms[2](x))

mine = {
    "causal_mask": causal_mask, "padding_mask": padding_mask, "heads": Heads,
    "encoder_layer": EncoderLayer, "decoder_layer": DecoderLayer,
}
"""
POST = {
    "a = self.norm1(x)\n        x = x + self.attention(a, a, a, mask)\n        return x + self.network(self.norm2(x))": "x = self.norm1(x + self.attention(x, x, x, mask))\n        return self.norm2(x + self.network(x))",
    "a = self.norms[0](x)\n        x = x + self.own(a, a, a, target_mask)": "x = self.norms[0](x + self.own(x, x, x, target_mask))",
    "x = x + self.source(self.norms[1](x), memory, memory, source_mask)": "x = self.norms[1](x + self.source(x, memory, memory, source_mask))",
    "return x + self.network(self.norms[2](x))": "return self.norms[2](x + self.network(x))",
}
OWN_NORM = """
class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.shift, self.scale = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.ones(d))

    def forward(self, x):
        c = x - x.mean(-1, keepdim=True)
        return self.scale * c / (c.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt() + self.shift
"""
FUSED = {
    "self.W_q, self.W_k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)": "self.all = nn.Linear(d_model, 3 * d_model)",
    "self.W_v, self.W_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)": "self.out = nn.Linear(d_model, d_model)",
    "q, k, v = self.split(self.W_q(q)), self.split(self.W_k(k)), self.split(self.W_v(v))": "W, b = self.all.weight.chunk(3), self.all.bias.chunk(3)\n"
    "        q, k, v = (self.split(x @ w.T + c) for x, w, c in zip((q, k, v), W, b))",
    "self.W_o(z": "self.out(z",
}


def from_nothing(changes=None, before="", said=None):
    """The answer that the source with these changes makes."""
    source = before + RIGHT
    for old, new in (changes or {}).items():
        assert source.count(old) >= 1, old
        source = source.replace(old, new)
    names = {"torch": torch, "nn": nn, "math": math}
    exec(source, names)
    return names["mine"]


@pytest.mark.parametrize(
    "answer",
    [
        from_nothing(),
        from_nothing(POST),
        from_nothing(FUSED),
        from_nothing({"nn.LayerNorm": "Norm"}, OWN_NORM),
        from_nothing({"nn.Linear(d_model, d_model)": "nn.Linear(d_model, d_model, bias=False)"}),
        from_nothing(
            {"self.W_q, self.W_k =": "self.W_o, self.W_k =", "self.W_v, self.W_o =": "self.W_v, self.W_q ="}
        ),
        from_nothing({"nn.ReLU(), ": "nn.ReLU(), nn.Dropout(0.5), "}),
        from_nothing({"torch.ones(n, n, dtype=torch.bool).tril()": "torch.ones(1, 1, n, n).tril() == 1"}),
        from_nothing({"nn.LayerNorm(d_model)": "nn.LayerNorm(d_model, eps=1e-12)"}),
        from_nothing({"nn.LayerNorm(d_model)": "nn.LayerNorm(d_model, eps=1e-6)"} | POST),
        from_nothing(
            FUSED
            | {
                "self.all = nn.Linear(d_model, 3 * d_model)": "pass",
                "self.out = nn.Linear(d_model, d_model)": "self.out, self.all = nn.Linear(d_model, d_model), nn.Linear(d_model, 3 * d_model)",
            }
        ),
    ],
    ids=[
        *(
            "pre-norm",
            "post-norm",
            "one map for q, k, v",
            "own norm",
            "no biases",
            "other order",
            "dropout",
            "axes",
        ),
        *("small ε", "small ε after the sum", "W_o first"),
    ],
)
def test_a_transformer_from_nothing(capsys, answer):
    assert told(capsys, check.transformer_from_nothing, answer).startswith("✓")


SLIPS = {  # what stands in the answer, what stands there instead, and what the check says
    "keep the diagonal": ("bool).tril()", "bool).tril(-1)"),
    "True marks what is hidden": ("bool).tril()", "bool).triu(1)"),
    "is transposed": ("bool).tril()", "bool).triu()"),
    "it is torch.float32": (
        "torch.ones(n, n, dtype=torch.bool).tril()",
        "torch.full((n, n), -math.inf).triu(1)",
    ),
    "True marks padding": ("ids != 0", "ids == 0"),
    "put axes for heads": ("(ids != 0)[:, None, None, :]", "ids != 0"),
    "hides queries. It": ("[:, None, None, :]", "[:, None, :, None]"),
    "hides queries as well": (
        "(ids != 0)[:, None, None, :]",
        "(ids != 0)[:, None, None, :] & (ids != 0)[:, None, :, None]",
    ),
    "are not scaled": (" / math.sqrt(q.shape[-1])", ""),
    "the width of one head": ("math.sqrt(q.shape[-1])", "math.sqrt(self.h * q.shape[-1])"),
    "divided by d_k; its square root": ("math.sqrt(q.shape[-1])", "q.shape[-1]"),
    "over the queries": ("softmax(dim=-1)", "softmax(dim=-2)"),
    "over the heads": ("softmax(dim=-1)", "softmax(dim=1)"),
    "mask is not used": ("scores.masked_fill(~mask, -math.inf)", "scores"),
    "e⁰ = 1": ("(~mask, -math.inf)", "(~mask, 0.0)"),
    "after the softmax": (
        "scores = scores.masked_fill(~mask, -math.inf)\n        z = scores.softmax(dim=-1) @ v",
        "z = scores.softmax(dim=-1).masked_fill(~mask, 0.0) @ v",
    ),
    "used the other way round": ("(~mask, -math.inf)", "(mask, -math.inf)"),
    "which mixes tokens": (
        "x.view(b, n, self.h, d // self.h).transpose(1, 2)",
        "x.view(b, self.h, n, d // self.h)",
    ),
    "without transposing back": (
        "z.transpose(1, 2).flatten(2)",
        "z.reshape(len(z), -1, self.h * z.shape[-1])",
    ),
    "every h-th": (
        "x.view(b, n, self.h, d // self.h).transpose(1, 2)",
        "x.view(b, n, d // self.h, self.h).permute(0, 3, 1, 2)",
        "z.transpose(1, 2).flatten(2)",
        "z.permute(0, 2, 3, 1).flatten(2)",
    ),
    "not cut into heads": ("self.h = n_heads", "self.h = 1"),
    "interchanged: the scores compare": (
        "self.split(self.W_k(k)), self.split(self.W_v(v))",
        "self.split(self.W_k(v)), self.split(self.W_v(k))",
    ),
    "W_o, is not used": ("self.W_o(z.transpose(1, 2).flatten(2))", "z.transpose(1, 2).flatten(2)"),
    "residual belongs to the layer": (
        "return self.W_o(z",
        "return kept + self.W_o(z",
        "q, k, v = self.split",
        "kept = q\n        q, k, v = self.split",
    ),
    "one vector for each key": (
        "z = scores.softmax(dim=-1) @ v",
        "z = (k @ q.mT).softmax(dim=-1) @ q",
    ),
    "four are meant": (
        "self.W_v, self.W_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)",
        "self.W_v = nn.Linear(d_model, d_model)",
        "self.W_o(z",
        "(z",
    ),
    "no non-linearity": ("nn.ReLU(), ", ""),
    "is GELU": ("nn.ReLU()", "nn.GELU()"),
    "behind the second map": ("nn.ReLU(), nn.Linear(d_ff, d_model)", "nn.Linear(d_ff, d_model), nn.ReLU()"),
    "residual round self-attention": ("x = x + self.attention(", "x = self.attention("),
    "residual round the feed-forward": (
        "return x + self.network(self.norm2",
        "return self.network(self.norm2",
    ),
    "encoder_layer: self-attention does not use": (
        "self.attention(a, a, a, mask)",
        "self.attention(a, a, a, torch.ones_like(mask))",
    ),
    "neither pre-norm nor post-norm": (
        "a = self.norm1(x)\n        x = x + self.attention(a, a, a, mask)\n        return x + self.network(self.norm2(x))",
        "x = x + self.norm1(self.attention(x, x, x, mask))\n        return x + self.norm2(self.network(x))",
    ),
    "adds the normalised x": (
        "x = x + self.attention(a, a, a, mask)\n        return x + self.network(self.norm2(x))",
        "x = a + self.attention(a, a, a, mask)\n        a = self.norm2(x)\n        return a + self.network(a)",
    ),
    "reaches the queries alone": ("self.attention(a, a, a, mask)", "self.attention(a, x, x, mask)"),
    "encoder_layer holds 1 norms": (
        "self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)",
        "self.norm1 = nn.LayerNorm(d_model)",
        "self.norm2",
        "self.norm1",
    ),
    "divides by n − 1": ("nn.LayerNorm", "Norm"),
    "the memory asks": (
        "self.source(self.norms[1](x), memory, memory, source_mask)",
        "self.source(memory, self.norms[1](x), self.norms[1](x), source_mask)",
    ),
    "keys and values from x": (
        "self.source(self.norms[1](x), memory, memory, source_mask)",
        "self.source(self.norms[1](x), self.norms[1](x), self.norms[1](x), target_mask)",
    ),
    "two masks are interchanged": (
        "target_mask)\n        x = x + self.source(self.norms[1](x), memory, memory, source_mask)",
        "source_mask)\n        x = x + self.source(self.norms[1](x), memory, memory, target_mask)",
    ),
    "sees its future": ("self.own(a, a, a, target_mask)", "self.own(a, a, a, torch.ones_like(target_mask))"),
    "it sees padding": ("memory, memory, source_mask)", "memory, memory, torch.ones_like(source_mask))"),
    "goes through the decoder's norm": (
        "self.norms[1](x), memory, memory,",
        "self.norms[1](x), self.norms[1](memory), self.norms[1](memory),",
    ),
    "residual round source attention": ("x = x + self.source", "x = self.source"),
    "decoder_layer holds 1 of your heads": (
        "self.own, self.source = Heads(d_model, n_heads), Heads(d_model, n_heads)",
        "self.own = Heads(d_model, n_heads)",
        "self.source(",
        "self.own(",
    ),
    "source attention comes before": (
        "a = self.norms[0](x)\n        x = x + self.own(a, a, a, target_mask)\n        x = x + self.source(self.norms[1](x), memory, memory, source_mask)",
        "x = x + self.source(self.norms[1](x), memory, memory, source_mask)\n        a = self.norms[0](x)\n        x = x + self.own(a, a, a, target_mask)",
    ),
    "source attention is not used": (
        "x = x + self.source(self.norms[1](x), memory, memory, source_mask)",
        "pass",
    ),
    "self-attention sees x itself": (
        "x = x + self.attention(a, a, a, mask)",
        "x = x + self.attention(x, x, x, mask)",
    ),
    "source attention asks with x itself": ("self.source(self.norms[1](x), memory", "self.source(x, memory"),
    "network sees x itself": ("return x + self.network(self.norm2(x))", "return x + self.network(x)"),
    "round self-attention the normalised x": ("x = x + self.attention(", "x = a + self.attention("),
    "pre-norm and others post-norm": (
        "return x + self.network(self.norm2(x))",
        "return self.norm2(x + self.network(x))",
    ),
    "one norm is used more than once": ("self.network(self.norm2(x))", "self.network(self.norm1(x))"),
    "both attentions are the second": (
        "x = x + self.own(a, a, a, target_mask)",
        "x = x + self.source(a, memory, memory, source_mask)",
    ),
    "used for both attentions": ("x = x + self.source(self.norms", "x = x + self.own(self.norms"),
    "use the source's mask; self": ("self.own(a, a, a, target_mask)", "self.own(a, a, a, source_mask)"),
    "the values come from x": (
        "memory, memory, source_mask)",
        "memory, x, source_mask)",
        "self.source(self.norms[1](x), memory, x",
        "self.source(self.norms[1](x), memory, self.norms[1](x)",
    ),
    "k and v from the memory.": (
        "self.source(self.norms[1](x), memory, memory, source_mask)",
        "self.source(memory, self.norms[1](x), self.norms[1](x), target_mask)",
    ),
    "k and v from the memory": (
        "self.source(self.norms[1](x), memory, memory, source_mask)",
        "self.source(memory, self.norms[1](x), self.norms[1](x), torch.ones(1, 1, dtype=torch.bool))",
    ),
    "is 56 wide inside; d_ff was 11": (
        "self.network = network(d_model, d_ff)",
        "self.network = network(d_model, 4 * d_model)",
    ),
    "holds nothing of the class under": ('"heads": Heads', '"heads": type("Other", (Heads,), {})'),
    "in this order": ("def __init__(self, d_model, n_heads):", "def __init__(self, n_heads, d_model):"),
    "are not projected": ("self.split(self.W_v(v))", "self.split(v)"),
    "with the same map": ("self.split(self.W_k(k))", "self.split(self.W_q(k))"),
    "divides by n − 1 (torch": ("nn.LayerNorm", "Loose"),
    "heads calls scaled_dot_product_attention": (
        "z = scores.softmax(dim=-1) @ v",
        "z = nn.functional.scaled_dot_product_attention(q, k, v, mask)",
    ),
    "is the library's own": (
        "def causal_mask(n):\n    return",
        "from heed.attention import causal_mask\n\ndef unused(n):\n    return",
    ),
    "heads: your code raised": (
        "return x.view(b, n, self.h, d // self.h).transpose(1, 2)",
        "return x.view(b, n, self.h, d // self.h).transpose(1, 2).view(b, n, d)",
    ),
    "are one nn.Linear(d_model, d_model)": (
        "super().__init__()\n        self.h = n_heads",
        "super().__init__()\n        self.h = n_heads\n        self.more = nn.Linear(d_model, d_model)",
    ),
    "Right so far: causal_mask. Go on with padding_mask": (
        '"padding_mask": padding_mask, ',
        '"padding_mask": ..., ',
    ),
    "borrows MultiheadAttention": (
        "nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)\n        self.W_v",
        "nn.Linear(d_model, d_model), nn.MultiheadAttention(d_model, 1)\n        self.W_v",
    ),
    "returns tuple": (
        "return self.W_o(z.transpose(1, 2).flatten(2))",
        "return self.W_o(z.transpose(1, 2).flatten(2)), scores",
    ),
    "should be a class": ('"heads": Heads', '"heads": causal_mask'),
    "is none of them": ('"heads": Heads', '"head": Heads'),
}
UNBIASED = OWN_NORM.replace("class Norm", "class Loose").replace(
    "(c.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()", "(x.std(-1, keepdim=True) + 1e-6)"
) + OWN_NORM.replace("unbiased=False, ", "")


@pytest.mark.parametrize("sentence", SLIPS)
def test_a_slip_is_named(capsys, sentence):
    olds, news = SLIPS[sentence][::2], SLIPS[sentence][1::2]
    answer = from_nothing(dict(zip(olds, news, strict=True)), UNBIASED)
    assert sentence in told(capsys, check.transformer_from_nothing, answer)


def test_nothing_is_not_started(capsys):
    assert "Not started" in told(
        capsys, check.transformer_from_nothing, dict.fromkeys(("heads", "causal_mask"), ...)
    )
    assert "Hand over a dict" in told(capsys, check.transformer_from_nothing, [1])
