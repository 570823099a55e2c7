"""The check that ends chapter 11: masks, heads and both layers, written by the reader in an empty cell.

Nobody's names are prescribed, so the reader's weights are found by their shapes, and their roles by trying:
every assignment of the four maps to W_q, W_k, W_v, W_o is computed, and one of them must agree. Where none
does, the same is tried for each usual mistake.
"""

import inspect
import math
from itertools import permutations, product

import torch
from torch import nn

from heed.attention import MultiHeadAttention
from heed.attention import causal_mask as causal
from heed.attention import padding_mask as padding
from heed.check import (
    NotStarted,
    NotYet,
    Refusing,
    blame,
    close,
    copied,
    exercise,
    expect,
    expect_close,
    is_library,
)
from heed.layers import (
    DecoderLayer,
    EncoderLayer,
    PositionwiseFeedForward,
    PostNormConnection,
    SublayerConnection,
)
from heed.text import PAD

B, N, N_SOURCE, D_MODEL, D_FF, H = 2, 5, 3, 14, 11, 7
PARTS = "causal_mask", "padding_mask", "heads", "encoder_layer", "decoder_layer"
SOURCE = torch.tensor([[4, 5, 6], [7, 8, PAD]])
TORCHS_OWN = nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.Transformer


@exercise
def transformer_from_nothing(yours):
    """the masks, the heads and both layers agree with the library and torch, forwards and backwards"""
    expect(isinstance(yours, dict), f"Hand over a dict with the keys {', '.join(PARTS)}.")
    unknown = [key for key in yours if key not in PARTS]
    expect(not unknown, f"The keys are {', '.join(PARTS)}; {', '.join(map(repr, unknown))} is none of them.")
    if all(yours.get(part) in (None, ...) for part in PARTS):
        raise NotStarted
    done = []
    for part in PARTS:
        given = yours.get(part)
        so_far = f"Right so far: {', '.join(done)}. " if done else ""
        expect(given not in (None, ...), f"{so_far}Go on with {part}.")
        expect(callable(given), f"{part} should be a function or a class, and is a {type(given).__name__}.")
        borrowed = is_library(str(getattr(given, "__module__", "")))
        expect(not borrowed, f"{part} is the library's own: write it from nothing.")
        checked(part, yours)
        done.append(part)


def checked(part, yours):
    """Check one part. What its own code raises is told with the line."""
    given = yours[part]

    class Code:
        """What `blame` looks for: something to call, with the code in which lines are sought."""

        __code__ = getattr(getattr(given, "forward", given), "__code__", None)

        def __call__(self):
            pass

    try:
        CHECKS[part](yours)
    except (NotYet, NotStarted):
        raise
    except Exception as error:
        raise NotYet(f"{part}: {blame(error, Code())}") from error


def from_nothing(part):
    """While this block is open, neither the library nor torch's own attention may be called."""
    sentence = f"{part} calls {{}}: write it from nothing."
    return Refusing(library=True, torchs=("attention", "transformer"), sentence=sentence)


# --- The masks ----------------------------------------------------------------------------------------------


def is_causal(yours):
    """mask[i, j] is True where j <= i."""
    with from_nothing("causal_mask"):
        mask = yours["causal_mask"](N)
    mask = as_bool("causal_mask", mask)
    expect(mask.numel() == N * N, f"causal_mask({N}) has shape {tuple(mask.shape)}; ({N}, {N}) is meant.")
    mask, all_ = mask.reshape(N, N), torch.ones(N, N, dtype=torch.bool)
    expect(
        not torch.equal(mask, all_.tril(-1)), "causal_mask: a position may look at itself; keep the diagonal."
    )
    expect(
        not torch.equal(mask, all_.triu(1)),
        "causal_mask: True marks what is hidden here. Let True mean that the query may look.",
    )
    expect(
        not torch.equal(mask, all_.triu()),
        "causal_mask is transposed: the rows are queries, the columns keys.",
    )
    expect(
        torch.equal(mask, causal(N)), "causal_mask: mask[i, j] should be True where j <= i, and nowhere else."
    )


def is_padding(yours):
    """It hides keys that are PAD, and broadcasts to (b, h, n_q, n_k)."""
    with from_nothing("padding_mask"):
        mask = yours["padding_mask"](SOURCE.clone())
    mask = as_bool("padding_mask", mask)
    real, full = SOURCE != PAD, (B, H, N_SOURCE, N_SOURCE)
    try:
        wide = mask.broadcast_to(full)
    except RuntimeError:
        wide = None
    expect(
        wide is not None,
        f"padding_mask has shape {tuple(mask.shape)}, which does not broadcast to (b, h, n_q, n_k): "
        "put axes for heads and queries in between, [:, None, None, :].",
    )
    true = padding(SOURCE).broadcast_to(full)
    query = real[:, None, :, None].broadcast_to(full)
    expect(not torch.equal(wide, ~true), "padding_mask: True marks padding here. Let True mean a real token.")
    expect(not torch.equal(wide, query), "padding_mask hides queries. It should hide keys: the last axis.")
    expect(
        not torch.equal(wide, true & query),
        "padding_mask hides queries as well: a row that may look nowhere has no softmax. Hide keys alone.",
    )
    expect(
        torch.equal(wide, true),
        "padding_mask should be True at real tokens (ids that are not 0), on the key axis.",
    )


def as_bool(name, mask):
    """The mask, if it is one."""
    expect(
        isinstance(mask, torch.Tensor), f"{name} should return a tensor, and returns a {type(mask).__name__}."
    )
    expect(
        mask.dtype == torch.bool, f"{name} should be bool, True where the query may look; it is {mask.dtype}."
    )
    return mask


# --- The heads ----------------------------------------------------------------------------------------------


def attend(q, k, v, mask, maps, wrong=None):
    """Multi-head attention with four maps (weight, bias), in tensors; `wrong` names a mistake."""
    if wrong == "keys and values":
        k, v = v, k
    maps = [(w, torch.zeros(len(w)).double() if b is None else b) for w, b in maps]
    if wrong == "one map twice":
        maps = [maps[0], maps[0], *maps[2:]]
    bare = v
    q, k, v = (x @ w.T + b for x, (w, b) in zip((q, k, v), maps, strict=False))
    v = bare if wrong == "bare values" else v
    h = 1 if wrong == "one head" else H
    if wrong == "split":
        q, k, v = (x.reshape(B, h, x.shape[1], -1) for x in (q, k, v))
    elif wrong == "every h-th":
        q, k, v = (x.unflatten(2, (-1, h)).permute(0, 3, 1, 2) for x in (q, k, v))
    else:
        q, k, v = (x.unflatten(2, (h, -1)).transpose(1, 2) for x in (q, k, v))
    width = {"no root": 1, "root of d_model": D_MODEL, "no square root": q.shape[-1] ** 2}.get(
        wrong, q.shape[-1]
    )
    scores = q @ k.mT / math.sqrt(width)  # (b, h, n_q, n_k)
    hidden = torch.zeros_like(mask) if wrong in ("no mask", "zeros after") else ~mask
    fill = 0.0 if wrong == "zeros before" else -math.inf
    scores = scores.masked_fill(mask if wrong == "inverted" else hidden, fill)
    weights = scores.softmax({"over queries": -2, "over heads": 1}.get(wrong, -1))
    if wrong == "zeros after":
        weights = weights.masked_fill(~mask, 0.0)
    mixture = weights @ v  # (b, h, n_q, d_k)
    if wrong == "every h-th":
        mixture = mixture.permute(0, 2, 3, 1).flatten(2)
    else:
        mixture = mixture.reshape(B, -1, D_MODEL) if wrong == "merge" else mixture.transpose(1, 2).flatten(2)
    weight, bias = maps[3]
    return mixture if wrong == "no W_o" else mixture @ weight.T + bias


HEADS = {
    "no root": "The scores are not scaled: divide by the root of d_k before the softmax.",
    "root of d_model": "The scores are divided by √d_model; the width of one head, d_k = d_model / h, is "
    "meant.",
    "no square root": "The scores are divided by d_k; its square root is meant.",
    "over queries": "The softmax runs over the queries; each row of scores belongs to one query: the last "
    "axis.",
    "over heads": "The softmax runs over the heads; each row of scores belongs to one query: the last axis.",
    "no mask": "The mask is not used.",
    "inverted": "The mask is used the other way round: fill where it is False, masked_fill(~mask, …).",
    "zeros before": "Hidden scores are set to 0, and e⁰ = 1: those keys keep weight. Fill with −∞.",
    "zeros after": "The mask comes after the softmax, so the visible weights do not sum to one. Fill "
    "with −∞ before.",
    "split": "The heads are cut by view(b, h, n, d_k), which mixes tokens: view(b, n, h, d_k), "
    "then transpose(1, 2).",
    "merge": "The heads are joined without transposing back: transpose(1, 2) first, then flatten.",
    "every h-th": "Each head takes every h-th number of a vector. Take consecutive ones: view(b, n, h, d_k).",
    "one head": "It attends once, with all of d_model: the vectors are not cut into heads.",
    "keys and values": "Keys and values are interchanged: the scores compare q with k, and v is what is "
    "mixed.",
    "bare values": "The values are not projected: one of the four maps is not used.",
    "one map twice": "Queries and keys are projected with the same map; each has one of its own.",
    "no W_o": "The last map, W_o, is not used.",
}


def is_multi_head(yours):
    """Its output is the library's and torch's with the same weights, and so is its gradient."""
    kind = yours["heads"]
    heads = made("heads", kind, D_MODEL, H)
    found = maps_of(heads)
    expect(
        sum(len(names) for names, *_ in found) >= 4,
        f"heads holds {len(found)} maps from d_model to d_model, and four are meant: W_q, W_k, W_v and W_o. "
        "(The check looks for nn.Linear.)",
    )
    expect(
        len(found) == 4,
        f"heads holds {len(found)} maps; four are meant, W_q, W_k, W_v, W_o. The maps of all heads are one "
        "nn.Linear(d_model, d_model), which is cut afterwards.",
    )
    q, k, v = (torch.randn(B, n, D_MODEL).double().requires_grad_() for n in (N, N_SOURCE, N_SOURCE))
    mask = padding(SOURCE)
    answer = run("heads", heads, q, k, v, mask, nan=True)
    expect(
        answer.shape != (B, N_SOURCE, D_MODEL),
        "heads gives one vector for each key. Each query gets one: scores are (n_q, n_k).",
    )
    orders = list(permutations(range(4)))
    weights = [(w, b) for _, w, b in found]

    def agrees(wrong=None, added=0.0):
        """An assignment of the maps with which this version gives the answer; None if there is none."""
        for order in orders:
            if close(answer, attend(q, k, v, mask, [weights[i] for i in order], wrong) + added):
                return order
        return None

    order = agrees()
    if order is None:
        expect(
            answer.shape == (B, N, D_MODEL),
            f"heads returns the shape {tuple(answer.shape)}; that of q is meant.",
        )
        for wrong, sentence in HEADS.items():
            expect(agrees(wrong) is None, sentence)
        expect(
            agrees(added=q) is None,
            "The input is added: the residual belongs to the layer, not to the heads.",
        )
        run("heads", heads, q, k, v, mask)
        expect(
            False,
            "heads: with none of the orders of its four maps does it agree with equation (11.1) and (11.2).",
        )
    mine = copied_heads([weights[i] for i in order])
    theirs = nn.MultiheadAttention(D_MODEL, H, batch_first=True).double()
    theirs_from(theirs, mine)
    expect_close(answer, mine(q, k, v, mask), "what heads returns")
    hidden = ~mask[:, 0, 0]
    expect_close(
        answer, theirs(q, k, v, key_padding_mask=hidden, need_weights=False)[0], "what heads returns"
    )
    x = torch.randn(B, N, D_MODEL).double()
    expect_close(
        run("heads", heads, x, x, x, causal(N)), mine(x, x, x, causal(N)), "heads with a causal mask"
    )
    expect_close(slope(answer, (q, k, v)), slope(mine(q, k, v, mask), (q, k, v)), "the gradient of heads")


def maps_of(module):
    """The linear maps of a module: (names, weight (out, in), bias). One that is three wide "
    "counts as three."""
    found = []
    for name, part in module.named_modules():
        if isinstance(part, nn.Linear):
            parts = len(part.weight) // D_MODEL if len(part.weight) in (2 * D_MODEL, 3 * D_MODEL) else 1
            biases = [None] * parts if part.bias is None else part.bias.chunk(parts)
            found += [((name,), w, b) for w, b in zip(part.weight.chunk(parts), biases, strict=True)]
    square = [part for part in found if part[1].shape == (D_MODEL, D_MODEL)]
    return square if len(square) == len(found) else [*square, *(part for part in found if part not in square)]


def copied_heads(maps):
    """The library's attention with these maps."""
    ours = MultiHeadAttention(D_MODEL, H).double()
    with torch.no_grad():
        for part, (weight, bias) in zip((ours.W_q, ours.W_k, ours.W_v, ours.W_o), maps, strict=True):
            part.weight.copy_(weight)
            part.bias.zero_() if bias is None else part.bias.copy_(bias)
    return ours


@torch.no_grad()
def theirs_from(theirs, ours):
    """Write the library's attention into torch's."""
    three = ours.W_q, ours.W_k, ours.W_v
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in three]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in three]))
    theirs.out_proj.load_state_dict(ours.W_o.state_dict())


def slope(y, inputs):
    """The gradients of a fixed mixture of all outputs, in one row."""
    direction = torch.linspace(-1, 1, y.numel()).double().view(y.shape)
    found = torch.autograd.grad(y, inputs, direction, allow_unused=True, retain_graph=True)
    return torch.cat(
        [(torch.zeros_like(x) if g is None else g).flatten() for g, x in zip(found, inputs, strict=True)]
    )


# --- The layers ---------------------------------------------------------------------------------------------


def made(name, kind, *sizes):
    """The reader's module with random weights, in double precision, without dropout."""
    expect(inspect.isclass(kind) and issubclass(kind, nn.Module), f"{name} should be a class, an nn.Module.")
    wanted = ("d_model", "n_heads", "d_ff")[: len(sizes)]
    try:
        inspect.signature(kind).bind(*sizes)
    except TypeError as error:
        expect(False, f"{name} is made as {kind.__name__}({', '.join(wanted)}): {error}.")
    named = [word for word in inspect.signature(kind).parameters if word in wanted]
    expect(
        named == [word for word in wanted if word in named],
        f"{name} is made as {kind.__name__}({', '.join(wanted)}), in this order.",
    )
    with from_nothing(name):
        module = kind(*sizes).double().eval()
    borrowed = [type(part) for part in module.modules() if isinstance(part, TORCHS_OWN) or is_ours(part)]
    expect(not borrowed, f"{name} borrows {borrowed[0].__name__ if borrowed else ''}: write it from nothing.")
    return module


def is_ours(part):
    """Is this a class of the library?"""
    return any(is_library(str(getattr(kind, "__module__", ""))) for kind in type(part).__mro__)


def run(name, module, *inputs, nan=False):
    """What the module returns: one tensor, and without nan unless `nan` allows it."""
    with from_nothing(name):
        answer = module(*copied(inputs))
    expect(
        isinstance(answer, torch.Tensor),
        f"{name} should return one tensor, and returns {type(answer).__name__}.",
    )
    bad = answer.isnan().any() and not nan
    expect(
        not bad,
        f"{name} returns nan. Does a row of scores hold −∞ alone, or is a mask used the other way round?",
    )
    return answer


def norms_of(name, layer, n):
    """Each norm's scale and shift, the scale first; then all parameters are made random."""
    found = []
    for part in layer.modules():
        own = [p for p in part.parameters(recurse=False) if p.shape == (D_MODEL,)]
        if len(own) == 2 and not isinstance(part, nn.Linear):
            own.sort(key=lambda p: -p.detach().mean().item())
            fresh = own[0].eq(1).all() and own[1].eq(0).all()
            expect(fresh, f"{name}: a fresh norm scales by ones and shifts by zeros; one of yours does not.")
            found.append(own)
    expect(
        len(found) == n,
        f"{name} holds {len(found)} norms with a learned scale and shift, and {n} are meant: one "
        f"for each sublayer.",
    )
    with torch.no_grad():
        for p in layer.parameters():
            p.normal_() if p.dim() == 1 else p.normal_(std=0.3)
    return found


def network_of(name, layer, heads):
    """The two maps of the feed-forward network, the first one first."""
    inside = {id(part) for head in heads for part in head.modules()}
    maps = [p for p in layer.modules() if isinstance(p, nn.Linear) and id(p) not in inside]
    shapes = sorted(tuple(part.weight.shape) for part in maps)
    wanted = sorted([(D_FF, D_MODEL), (D_MODEL, D_FF)])
    hidden = {len(part.weight) for part in maps} - {D_MODEL}
    expect(
        len(maps) != 2 or len(hidden) != 1 or D_FF in hidden,
        f"{name}: the feed-forward network is {max(hidden, default=0)} wide inside; d_ff was {D_FF}.",
    )
    expect(
        shapes == wanted,
        f"{name}: the feed-forward network is two nn.Linear maps, d_model to d_ff and back; besides "
        f"its heads the "
        f"layer holds {len(maps)}.",
    )
    return sorted(maps, key=lambda part: len(part.weight) != D_FF)


def near(answer, true):
    """Are these equal but for the ε of a norm, which the paper does not give?"""
    return answer.shape == true.shape and bool((answer - true).abs().max() < 1e-3 * true.abs().max())


def expect_near(answer, true, what):
    """The answer is near the true tensor."""
    expect(near(answer, true), f"{what} differs from what the library and torch compute with your weights.")


def normed(x, own, unbiased=False):
    """Layer norm with a scale and a shift; `unbiased` divides by n − 1."""
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().sum(-1, keepdim=True) / (x.shape[-1] - unbiased)
    return own[0] * centred / (variance + 1e-5).sqrt() + own[1]


def layered(x, functions, norms, post, wrong):
    """A layer of sublayers F(x, unnormalised x), with a mistake or without."""
    for i, (f, own) in enumerate(zip(functions, norms, strict=True)):
        own = norms[0] if wrong == "one norm" else own
        norm = lambda x, own=own: normed(x, own, wrong == "unbiased")  # noqa: E731
        missing = wrong == "no residual" or wrong == f"no residual {i}"
        post = str(i) in wrong if wrong and wrong.startswith("mixed") else post
        if wrong in ("no norm", f"raw {i}"):
            x = x + f(x, x)
        elif wrong == f"normed residual {i}":
            x = norm(x) + f(norm(x), x)
        elif wrong == "norm of F":
            x = x + norm(f(x, x))
        elif wrong == "norm twice":
            x = norm(x) + f(norm(x), x)
        else:
            y = f(x, x) if post else f(norm(x), x)
            x = y if missing else x + y
            x = norm(x) if post else x
    return x


def feed_forward(maps, wrong):
    """The position-wise network, with a mistake or without."""
    one, two = maps
    bends = {"no relu": lambda x: x, "gelu": nn.functional.gelu, "relu at the end": lambda x: x}
    bend = bends.get(wrong, torch.relu)
    end = torch.relu if wrong in ("relu at the end", "relu twice") else lambda x: x
    return lambda a, x: end(two(bend(one(a))))


MIXTURES = "0", "1", "2", "01", "02", "12"  # the sublayers that are post-norm
LAYER = {
    "no relu": "the feed-forward network has no non-linearity between its two maps",
    "gelu": "the non-linearity of the feed-forward network is GELU; the paper's is ReLU",
    "relu at the end": "the ReLU stands behind the second map; it belongs between the two",
    "relu twice": "a second ReLU stands behind the feed-forward network",
    "no residual": "the residual is missing: add the input of each sublayer to its output",
    "no norm": "the norms are not used",
    "norm of F": "the sublayer's output is normalised alone: x + norm(F(x)) is neither pre-norm nor "
    "post-norm",
    **{f"mixed {which}": "some sublayers are pre-norm and others post-norm" for which in MIXTURES},
    "one norm": "one norm is used more than once; each sublayer has a norm of its own",
    "norm twice": "the residual adds the normalised x; add x itself: x + F(norm(x))",
    "unbiased": "the norm divides by n − 1 (torch.std's default); LayerNorm's variance divides by n",
}
ENCODER = LAYER | {
    "raw 0": "self-attention sees x itself; the norm before it has no effect (the outer x)",
    "raw 1": "the feed-forward network sees x itself; the norm before it has no effect",
    "normed residual 0": "round self-attention the normalised x is added; add x itself",
    "normed residual 1": "round the feed-forward network the normalised x is added; add x itself",
    "no residual 0": "the residual round self-attention is missing",
    "no residual 1": "the residual round the feed-forward network is missing",
    "no mask": "self-attention does not use the mask",
    "query alone": "in self-attention the norm reaches the queries alone: keys and values are "
    "normalised, too",
    "swapped": "the feed-forward network comes before self-attention",
    "no network": "the feed-forward network is not used",
}
DECODER = LAYER | {
    "raw 0": "self-attention sees x itself; the norm before it has no effect (the outer x)",
    "raw 1": "source attention asks with x itself; the norm before it has no effect (the outer x)",
    "raw 2": "the feed-forward network sees x itself; the norm before it has no effect",
    "normed residual 0": "round self-attention the normalised x is added; add x itself",
    "normed residual 1": "round source attention the normalised x is added; add x itself",
    "normed residual 2": "round the feed-forward network the normalised x is added; add x itself",
    "late": "both attentions are the second: functions of a loop look their names up when called",
    "one of two": "one of the two heads is used for both attentions",
    "one mask": "both attentions use the source's mask; self-attention takes the target's",
    "values from x": "in source attention the values come from x; k and v both come from the memory",
    "asking, target": "in source attention the memory asks; q is from the decoder, k and v from the memory",
    "asking, bare": "in source attention the memory asks; q is from the decoder, k and v from the memory",
    "no residual 0": "the residual round self-attention is missing",
    "no residual 1": "the residual round source attention is missing",
    "no residual 2": "the residual round the feed-forward network is missing",
    "no mask": "self-attention does not use the target's mask: it sees its future",
    "no source mask": "source attention does not use the source's mask: it sees padding",
    "query alone": "in self-attention the norm reaches the queries alone: keys and values are "
    "normalised, too",
    "own keys": "source attention takes keys and values from x; they come from the memory",
    "asking": "in source attention the memory asks; q comes from the decoder, k and v from the memory",
    "other masks": "the two masks are interchanged: self-attention takes the target's, source attention "
    "the source's",
    "normed memory": "the memory goes through the decoder's norm; the encoder has normalised it already",
    "first x": "source attention asks with the layer's input; it should ask with what self-attention "
    "made of it",
    "swapped": "source attention comes before self-attention",
    "no network": "the feed-forward network is not used",
    "no source": "source attention is not used",
}


def encoder_functions(heads, maps, mask, norms, start, wrong):
    """The encoder layer's two sublayers."""
    (own,) = heads
    mask = torch.ones_like(mask) if wrong == "no mask" else mask
    attention = lambda a, x: own(a, *(2 * [x if wrong == "query alone" else a]), mask)  # noqa: E731
    functions = [attention, feed_forward(maps, wrong)]
    if wrong == "no network":
        functions[1] = lambda a, x: torch.zeros_like(x)
    return functions[::-1] if wrong == "swapped" else functions


def decoder_functions(heads, maps, given, norms, start, wrong):
    """The decoder layer's three sublayers."""
    (own, source), (memory, source_mask, target_mask) = heads, given
    if wrong == "other masks":
        source_mask, target_mask = target_mask, source_mask
    if wrong == "one mask":
        target_mask = source_mask
    if wrong == "one of two":
        source = own
    target_mask = torch.ones_like(target_mask) if wrong == "no mask" else target_mask
    source_mask = torch.ones_like(source_mask) if wrong == "no source mask" else source_mask

    def look(a, x):
        """Source attention."""
        if wrong == "no source":
            return torch.zeros_like(x)
        if wrong and wrong.startswith("asking"):
            bare = torch.ones_like(target_mask)
            mask = {"asking, target": target_mask, "asking, bare": bare}.get(wrong, source_mask)
            return source(memory, a, a, mask)
        if wrong == "values from x":
            return source(a, memory, a, source_mask)
        if wrong == "own keys":
            return source(a, a, a, target_mask)
        k = normed(memory, norms[1]) if wrong == "normed memory" else memory
        return source(start if wrong == "first x" else a, k, k, source_mask)

    attention = lambda a, x: own(a, *(2 * [x if wrong == "query alone" else a]), target_mask)  # noqa: E731
    if wrong == "late":
        attention = lambda a, x: source(a, memory, memory, source_mask)  # noqa: E731
    network = feed_forward(maps, wrong)
    if wrong == "no network":
        network = lambda a, x: torch.zeros_like(x)  # noqa: E731
    return [look, attention, network] if wrong == "swapped" else [attention, look, network]


def is_layer(yours, name, n, mistakes, functions, inputs):
    """The reader's layer agrees with a pre-norm or a post-norm one, of the parts that it holds."""
    layer = made(name, yours[name], D_MODEL, H, D_FF)
    norms = norms_of(name, layer, n)
    heads = [part for part in layer.modules() if isinstance(part, yours["heads"])]
    expect(heads, f'{name} holds nothing of the class under "heads": build it of {yours["heads"].__name__}.')
    expect(
        len(heads) == n - 1,
        f"{name} holds {len(heads)} of your heads, and {n - 1} {'is' if n == 2 else 'are'} meant.",
    )
    maps = network_of(name, layer, heads)
    x, given, equal = inputs()
    try:
        answer = run(name, layer, x, *given)
    except RuntimeError:
        if equal is None:
            raise
        given, answer = equal, run(name, layer, x, *equal)
    one = given if len(given) > 1 else given[0]

    def agrees(wrong=None):
        """Heads, norms, and whether it is post-norm, if this version gives the answer; else None."""
        for h, a, post in product(permutations(heads), permutations(norms), (False, True)):
            try:
                if near(answer, layered(x, functions(h, maps, one, a, x, wrong), a, post, wrong)):
                    return h, a, post
            except (RuntimeError, ValueError):  # shapes that do not fit: not this version
                continue
        return None

    order = agrees()
    if order is None or given is equal:
        for wrong, sentence in mistakes.items():
            expect(agrees(wrong) is None, f"{name}: {sentence}.")
        lengths = " It fails where source and target differ in length." if given is equal else ""
        expect(
            False, f"{name} agrees neither with a pre-norm nor with a post-norm layer of its parts.{lengths}"
        )
    return x, given, answer, maps, order


def copied_layer(order, maps, yours):
    """The library's layer and torch's with the reader's weights."""
    heads, norms, post = order
    ours = [copied_heads([(w, b) for _, w, b in maps_in_order(head)]) for head in heads]
    network = PositionwiseFeedForward(D_MODEL, D_FF, 0.0)
    kind, theirs = (
        (EncoderLayer, nn.TransformerEncoderLayer)
        if len(heads) == 1
        else (DecoderLayer, nn.TransformerDecoderLayer)
    )
    layer = kind(D_MODEL, *ours, network, 0.0, PostNormConnection if post else SublayerConnection).double()
    torchs = theirs(D_MODEL, H, D_FF, 0.0, batch_first=True, norm_first=not post).double()
    with torch.no_grad():
        for a, mine, its in zip(
            maps, (network.W_1, network.W_2), (torchs.linear1, torchs.linear2), strict=True
        ):
            for part in (mine, its):
                part.weight.copy_(a.weight)
                part.bias.zero_() if a.bias is None else part.bias.copy_(a.bias)
        its = torchs.norm1, torchs.norm2, getattr(torchs, "norm3", None)
        for own, connection, norm in zip(norms, layer.sublayer, its, strict=False):
            for value, mine, other in zip(
                own, (connection.norm.a, connection.norm.b), (norm.weight, norm.bias), strict=True
            ):
                mine.copy_(value), other.copy_(value)
    for mine, its in zip(ours, (torchs.self_attn, getattr(torchs, "multihead_attn", None)), strict=False):
        theirs_from(its, mine)
    return layer, torchs


def maps_in_order(head):
    """The four maps of the reader's heads as W_q, W_k, W_v, W_o, found by trying."""
    found = maps_of(head)
    q, k, v = (torch.randn(B, n, D_MODEL).double() for n in (N, N_SOURCE, N_SOURCE))
    goal = head(q, k, v, padding(SOURCE))
    for order in permutations(range(4)):
        chosen = [found[i] for i in order]
        if close(goal, attend(q, k, v, padding(SOURCE), [(w, b) for _, w, b in chosen])):
            return chosen
    return found


def is_encoder_layer(yours):
    """Two sublayers, pre-norm or post-norm."""

    def inputs():
        x = torch.randn(B, N, D_MODEL).double().requires_grad_()
        return x, (padding(torch.tensor([[4, 5, 6, 7, PAD], [7, 8, PAD, PAD, PAD]])),), None

    x, (mask,), answer, maps, order = is_layer(yours, "encoder_layer", 2, ENCODER, encoder_functions, inputs)
    ours, theirs = copied_layer(order, maps, yours)
    expect_near(answer, ours(x, mask), "what encoder_layer returns")
    expect_near(answer, theirs(x, src_key_padding_mask=~mask[:, 0, 0]), "what encoder_layer returns")
    expect_near(slope(answer, (x,)), slope(ours(x, mask), (x,)), "the gradient of encoder_layer")


def is_decoder_layer(yours):
    """Three sublayers, pre-norm or post-norm; q from the decoder, k and v from the memory."""

    def inputs():
        x = torch.randn(B, N, D_MODEL).double().requires_grad_()
        memory, same = (torch.randn(B, n, D_MODEL).double().requires_grad_() for n in (N_SOURCE, N))
        ids = torch.tensor([[4, 5, 6, 7, PAD], [7, 8, PAD, PAD, PAD]])
        target = causal(N)[None, None]
        return x, (memory, padding(SOURCE), target), (same, padding(ids), target)

    parts = is_layer(yours, "decoder_layer", 3, DECODER, decoder_functions, inputs)
    x, (memory, source_mask, target_mask), answer, maps, order = parts
    ours, theirs = copied_layer(order, maps, yours)
    expect_near(answer, ours(x, memory, source_mask, target_mask), "what decoder_layer returns")
    hidden = {"tgt_mask": ~target_mask[0, 0], "memory_key_padding_mask": ~source_mask[:, 0, 0]}
    expect_near(answer, theirs(x, memory, **hidden), "what decoder_layer returns")
    mine = ours(x, memory, source_mask, target_mask)
    both = x, memory
    expect_near(slope(answer, both), slope(mine, both), "the gradient of decoder_layer")


CHECKS = dict(
    zip(PARTS, (is_causal, is_padding, is_multi_head, is_encoder_layer, is_decoder_layer), strict=True)
)
