"""The check of exercise 11.6: a whole Transformer, written by the reader in an empty cell.

The exercise prescribes the names of the parts, so the library's model gets the same weights, and both run.
What reaches each map is compared, in the order of computation; the first difference is told.
"""

import math
import re
from itertools import pairwise

import torch
from torch import nn

from heed import check
from heed.attention import MultiHeadAttention, attention, causal_mask, merge_heads, padding_mask, split_heads
from heed.check import close, exercise, expect, expect_close, expect_shape
from heed.check.heads import slips
from heed.position import sinusoids
from heed.text import BOS, PAD
from heed.transformer import make_model

D_MODEL, H, SIZES = 14, 7, (13, 17, 2, 14, 11, 7, 0.5)
SOURCE = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, PAD, PAD]])
TARGET = torch.tensor([[BOS, 4, 5, 6, 7], [BOS, 16, 15, 14, 13]])
TORCHS = [kind.__init__ for name, kind in vars(nn).items() if name.startswith(("Transformer", "Multihead"))]
SHOWN = MultiHeadAttention.__init__, attention, sinusoids, make_model  # in the chapter, too
UNUSED = "What forward returns does not depend on {}: unused, or the gradient is stopped."


@exercise
def transformer_from_nothing(yours):
    """with the same weights it returns what the library's model returns, and its gradients are the same"""
    expect(isinstance(yours, type) and issubclass(yours, nn.Module), "Hand over your class, an nn.Module.")
    refusing = check.Refusing(*TORCHS, *SHOWN, library=True, torchs=("attention", "transformer"))
    with refusing:
        model = yours(*SIZES).double().eval()
    library, parts, named, mine = make_model(*SIZES).double().eval(), {}, {}, dict(model.named_parameters())
    if not mine:
        raise check.NotStarted
    for name, part in library.named_modules():
        name = re.sub(r"sublayer\.(\d)\.norm", r"norms.\1", name)
        name = name.replace("_embed.0.", "_").replace("generator.proj", "generator")
        for kind, p in zip(("weight", "bias"), part.parameters(recurse=False), strict=False):
            parts[name], named[f"{name}.{kind}"] = part, p
    for name, p in named.items():
        expect(name in mine, f"Your model has no `{name}` of its own.")
        expect_shape(mine[name], p.shape, f"`{name}`")
        mine[name].data.copy_(p.data.normal_(std=0.3 if "W_" in name else 1.0))
    for name in mine:
        expect(name in named, f"`{name}` is none of the parameters in the table.")
    expect(not check.is_stub(yours.forward), "All parts have their names and shapes. Go on with forward.")

    def run(n=5):
        """What the reader's model returns for n tokens of the target."""
        with refusing:
            return model(SOURCE.clone(), TARGET[:, :n].clone())

    seen, right = heard({name: model.get_submodule(name) for name in parts}), heard(parts)
    answer, true = run(), library.generator(library(SOURCE, TARGET))
    expect_shape(answer, true.shape, "what forward returns")
    expect(close(answer, run()), "Two runs in eval mode differ: dropout belongs to training alone.")
    expect(answer.requires_grad, UNUSED.format("any parameter"))
    torch.autograd.backward([answer, true], [torch.randn_like(true) / 100] * 2, retain_graph=True)
    if not close(answer, true):
        compare(seen, right, parts, {name for name in right if mine[f"{name}.weight"].grad is None} - {*seen})
    logits = parts["generator"](right["generator"])
    typical = {
        "forward returns scores; their log_softmax is meant.": logits,
        "forward returns probabilities; their logarithms are meant.": true.exp(),
        "The last softmax runs over the positions; the vocabulary is the last axis.": logits.log_softmax(1),
    }
    expect_close(answer, true, "what forward returns", typical)
    for name in named:
        expect(mine[name].grad is not None, UNUSED.format(f"`{name}`"))
    for name, p in named.items():
        expect_close(mine[name].grad, p.grad, f"the gradient of `{name}`")
    short = library.generator(library(SOURCE, TARGET[:, :3]))
    expect_close(run(3), short, "what forward returns for 5 tokens of the source and 3 of the target")
    norms = [name for name in right if "norm" in name]
    model.train()
    kept = heard({name: model.get_submodule(name) for name in norms})
    expect(not close(run(), run()), "Two runs in training mode are equal: dropout is missing.")
    for one, other in pairwise(norms):
        if one != "encoder.norm":
            dropped = (kept[other] == kept[one]).double().mean()
            expect(dropped > 0.2, f"No dropout on what is added to x between `{one}` and `{other}`.")


def heard(parts):
    """What reaches each part when it is first called, by its name, in the order of the calls."""
    seen = {}
    for name, part in parts.items():
        part.register_forward_pre_hook(lambda _, x, name=name: seen.update({name: seen.get(name, x[0])}))
    return seen


def compare(seen, right, parts, unused):
    """Tell what is wrong on the way to the first map that something else reaches."""
    order = "first self-attention, then source attention, then the network"
    starts = ([n for n in calls if n in seen and n[-3:] in ("W_q", "W_1")] for calls in (seen, right))
    for one, other in zip(*starts, strict=True):
        expect(one == other, f"`{one}` runs before `{other}`; it should be {order}.")
    before, idle = [], []
    for name, x in right.items():
        idle += [f"`{name}`"] if name in unused else []
        if "norm" in name or "embedding" in name:
            before.append(name)
        elif idle or not close(seen.get(name, x), x):
            expect(not idle, UNUSED.format(" and ".join(idle)))
            meant, typical = mistakes(name, *before[-2:], right, parts)
            typical = {f"{told} (Seen at `{name}`.)": wrong for told, wrong in typical.items()}
            expect_close(seen[name], x, f"what reaches `{name}`, {meant},", typical)


def mistakes(name, before, last, right, parts):
    """What is meant to reach this map, behind these two parts, and what a mistake makes of it."""
    out = {part: parts[part](x) for part, x in right.items()}
    if name.endswith("W_o"):
        decoder = "decoder" in name and "self" in name
        return "the heads side by side", attended(*(out[name[:-1] + letter] for letter in "qkv"), decoder)
    if name.endswith("W_2"):
        return "the ReLU of what W_1 returns", {}
    if "source" in name and name[-1] in "kv":
        return "the memory, from the encoder's norm", {}
    norm, x, y, root = parts[last], right[last], out[last], math.sqrt(D_MODEL)
    typical = {
        "x is not normalised; x + F(norm(x)) is meant, pre-norm.": x,
        "The norm divides by n − 1; n is meant.": norm.b + (y - norm.b) * math.sqrt(1 - 1 / D_MODEL),
        "The memory asks; q comes from the decoder, k and v come from the memory.": out["encoder.norm"],
    }
    if "embedding" in before:
        e, code = out[before], x - root * out[before]
        return f"`{last}` of √d_model · embedding + code", typical | {
            "The embeddings are not multiplied by √d_model.": norm(e + code),
            "The codes of the positions are missing.": norm(root * e),
            "The codes are multiplied by √d_model, too; only the embeddings are.": norm(root * (e + code)),
        }
    return f"`{last}` of x + F(norm(x))", typical | {
        "The residual is missing; x + F(norm(x)) is meant.": norm(x - right[before]),
        "The residual is normalised; x + F(norm(x)) is meant.": norm(x - right[before] + out[before]),
        "norm(x) is added once more; x + F(norm(x)) is meant.": norm(x + out[before]),
    }


def attended(q, k, v, decoder):
    """The heads of projected q, k, v side by side, after a mistake; does the decoder look at itself?"""
    past, real = causal_mask(5), padding_mask(SOURCE)
    mask, (Q, K, V) = past if decoder else real, (split_heads(x, H) for x in (q, k, v))
    scores = Q @ K.mT / math.sqrt(D_MODEL / H)
    masks = {
        "The mask is missing.": mask | True,
        "The mask is used the other way round: True means that the query may look.": ~mask,
        "The mask is transposed: its rows are queries, its columns keys.": mask.mT,
        "The mask hides queries as well: hide keys alone.": mask & mask.mT,
        "No query may look at itself: keep the diagonal.": mask & past.tril(-1),
        "Each query sees one token too many.": mask | mask.roll(1, -1),
        "The target's mask is used; the source's is meant.": past,
        "The source's mask is used; the target's is meant.": real,
    }
    weights = {told: scores.masked_fill(~mask, -math.inf).softmax(-1) for told, mask in masks.items()}
    weights["Hidden scores are 0, and e⁰ = 1: fill with −∞."] = (scores * mask).softmax(-1)
    weights["The mask comes after the softmax: fill with −∞ before it."] = scores.softmax(-1) * mask
    return slips(q, k, v, H, mask) | {told: merge_heads(w @ V) for told, w in weights.items()}
