"""Checks of chapter 11, the architecture."""

import torch
from torch import nn

from heed.attention import MultiHeadAttention, causal_mask, padding_mask
from heed.check import NotStarted, exercise, expect, expect_close, expect_shape, is_stub, without
from heed.layers import DecoderLayer, PositionwiseFeedForward, PostNormConnection
from heed.text import BOS, PAD
from heed.transformer import Encoder, EncoderDecoder, make_model

N_SOURCE, N, D_MODEL, D_FF, H, VOCAB = 3, 5, 14, 11, 7, 13


def small(kind=EncoderDecoder, dropout=0.0, n_layers=2):
    """A small model in double precision, without dropout unless it is asked for."""
    m = make_model(VOCAB, VOCAB, n_layers, D_MODEL, D_FF, H, dropout).double()
    return kind(m.encoder, m.decoder, m.source_embed, m.target_embed, m.generator)


@exercise
def next_scores(yours):
    """the last position alone goes through the generator, and its past alone is seen"""
    model, source = small(), torch.tensor([[4, 5, 6], [7, 8, PAD]])
    written = torch.tensor([[BOS, 9, 10, 4, 5], [BOS, 11, 12, 6, 7]])
    mask, causal = padding_mask(source), causal_mask(N)
    memory, given = model.encode(source, mask), []
    x = model.decode(memory, mask, written, causal)
    everyone = model.decode(memory, mask, written, torch.ones_like(causal))
    unhidden = model.decode(memory, torch.ones_like(mask), written, causal)
    true = model.generator(x[:, -1])
    typical = {
        "The target has no causal mask. In training it had one, so the vectors are not the same here.":
            model.generator(everyone[:, -1]),
        "The source's padding is looked at: hand on the source's mask.": model.generator(unhidden[:, -1]),
        "These are the scores behind the first token. What comes next stands behind the last one.":
            model.generator(x[:, 0]),
        "These are scores before the softmax: call the generator, not its matrix.":
            model.generator.proj(x[:, -1]),
        "These are probabilities. The generator gives their logarithms; leave them so.": true.exp(),
        "These are the decoder's vectors. The generator turns them into scores.": x[:, -1],
    }  # fmt: skip
    seen = model.generator.register_forward_hook(lambda module, inputs, out: given.append(inputs[0]))
    answer = yours(model, memory, mask, written)
    seen.remove()
    if isinstance(answer, torch.Tensor) and answer.shape == (2, N, VOCAB):
        expect(False, "These are the scores of all positions. Only the next token is asked for: x[:, -1].")
    expect_close(answer, true, "the tensor of log-probabilities", typical)
    rows = sum(vectors[..., 0].numel() for vectors in given)
    expect(rows == 2, f"The result is right, but {rows} vectors went through the generator; 2 are enough.")


@exercise
def bound(yours):
    """each function keeps its own mask, whenever it is called"""
    attention, x = MultiHeadAttention(D_MODEL, H).double(), torch.randn(2, N, D_MODEL).double()
    masks = [causal_mask(N), torch.ones(N, N, dtype=torch.bool), torch.eye(N, dtype=torch.bool)]
    goals, calls = [attention(x, x, x, mask) for mask in masks], []
    attention.register_forward_hook(lambda *ran: calls.append(1))
    functions = yours(attention, list(masks))
    expect(not calls, "Attention has run already. Return functions; the mask is used when they are called.")
    expect(isinstance(functions, list | tuple), "Return a list of functions.")
    expect(len(functions) == 3, f"There are 3 masks, so there should be 3 functions, not {len(functions)}.")
    expect(all(map(callable, functions)), "What stands in the list cannot be called.")
    order = 2, 0, 1
    found = {i: functions[i](x) for i in order}
    for i in range(3):
        expect_shape(found[i], x.shape, f"what function {i} returns")
    last = all(torch.allclose(found[i], goals[2]) for i in range(3))
    expect(not last, "All three use the last mask: the loop's variable is looked up when they are called.")
    none = all(torch.allclose(found[i], goals[1]) for i in range(3))
    expect(not none, "All three look everywhere: the mask is not used.")
    turned = all(torch.allclose(found[i], goals[2 - i]) for i in range(3))
    expect(not turned, "The functions stand in the opposite order of their masks.")
    for i in range(3):
        expect_close(found[i], goals[i], f"what function {i} returns")


@exercise
def averaging(yours):
    """the stack reads its size, copies it, and each position averages what it may look at"""
    expect(isinstance(yours, type) and issubclass(yours, nn.Module), "Hand over your class, an nn.Module.")
    layer = yours(D_MODEL).double()
    if not [*layer.parameters()] and is_stub(yours.forward):
        raise NotStarted
    W = getattr(layer, "W", None)
    expect(isinstance(W, nn.Linear), f"`W` should be an nn.Linear({D_MODEL}, {D_MODEL}).")
    expect_shape(W.weight, (D_MODEL, D_MODEL), "`W.weight`")
    n, most = sum(p.numel() for p in layer.parameters()), D_MODEL * (D_MODEL + 1)
    expect(n == most, f"The layer has {n} parameters; W alone has {most}.")
    ids = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, PAD, PAD]])
    mask = (padding_mask(ids) & causal_mask(N))[:, 0]  # (b, n, n)
    x = torch.randn(2, N, D_MODEL).double()

    def mean(mask):
        """Of what each position may look at, (b, n, d_model)."""
        mask = mask.to(x.dtype)
        return mask @ x / mask.sum(dim=-1, keepdim=True)

    own = torch.eye(N, dtype=torch.bool).expand_as(mask)
    averaged, kept, seen = W(mean(mask)), x.clone(), mask.clone()
    typical = {
        "The residual is missing: add what W makes of the mean to x.": averaged,
        "The mask is not used: every position averages all.": x + W(mean(torch.ones_like(mask))),
        "The mask is used from the side of the keys: row i says what position i may look at.":
            x + W(mask.mT.to(x.dtype) @ x / mask.mT.sum(dim=-1, keepdim=True).clamp(min=1)),
        "These are sums: divide each by the number of vectors that its position may look at.":
            x + W(mask.to(x.dtype) @ x),
        "Each sum is divided by all positions: divide it by those that its position may look at.":
            x + W(mask.to(x.dtype) @ x / N),
        "Each position sees itself alone; the mean is of all that it may look at.": x + W(mean(own)),
        "W is not used.": x + mean(mask),
    }  # fmt: skip
    answer = layer(x, mask)
    expect(torch.equal(x, kept) and torch.equal(mask, seen), "x or the mask was changed in place.")
    expect(answer is not None, "`forward` gives nothing back. Does it end with `return`?")
    expect_close(answer, x + averaged, "what the layer returns", typical)
    expect(hasattr(layer, "size"), "The stack cannot make its last norm: it reads `layer.size`.")
    said = f"`size` is {layer.size!r}, and the vectors have {D_MODEL} entries."
    expect(layer.size == D_MODEL, said + (" A norm of size 1 would even run." if layer.size == 1 else ""))
    other = getattr(yours(D_MODEL + 1), "size", None)
    expect(other == D_MODEL + 1, f"A layer of width {D_MODEL + 1} says that its size is {other}.")
    stack = Encoder(layer, n_layers=3)
    copies = {id(twin.W) for twin in stack.layers}
    expect(len(copies) == 3, "The three layers of the stack share one W: a deep copy should copy it.")
    expect_shape(stack(x, mask), x.shape, "what a stack of three returns")


@exercise
@without(
    DecoderLayer.forward,
    PostNormConnection.forward,
    sentence="`{}` is what you are to write, from the layer's parts: a sublayer, a sum, a norm, three times.",
)
def post_norm_decoder_layer(yours):
    """three sublayers, each with its sum and then its norm, in the paper's order"""
    parts = MultiHeadAttention(D_MODEL, H), MultiHeadAttention(D_MODEL, H)
    network = PositionwiseFeedForward(D_MODEL, D_FF, 0.0)
    layer = DecoderLayer(D_MODEL, *parts, network, 0.0, connection=PostNormConnection).double()
    for connection in layer.sublayer:
        nn.init.normal_(connection.norm.a), nn.init.normal_(connection.norm.b)
    x, memory = torch.randn(2, N, D_MODEL).double(), torch.randn(2, N_SOURCE, D_MODEL).double()
    source_mask = padding_mask(torch.tensor([[4, 5, 6], [7, 8, PAD]]))
    target_mask = causal_mask(N)[None, None]

    def forward(connect, order=(0, 1, 2), source_mask=source_mask, target_mask=target_mask):
        """The layer with another connection, connect(x, F, norm), another order, or without a mask."""
        functions = (
            lambda x: layer.self_attention(x, x, x, target_mask),
            lambda x: layer.source_attention(x, memory, memory, source_mask),
            layer.feed_forward,
        )
        y = x
        for i in order:
            y = connect(y, functions[i], layer.sublayer[i].norm)
        return y

    def post(x, F, norm):
        return norm(x + F(x))

    def looked(module, inputs, named):
        """Called before self-attention runs: has it the target's mask?"""
        mask = named.get("mask", inputs[3] if len(inputs) > 3 else None)
        expect(mask is None or mask.shape[-1] == N, "Self-attention has the source's mask, not the target's.")

    def asked(module, inputs):
        """Called before source attention runs: does the decoder ask, and the memory answer?"""
        q, k, *_ = inputs
        expect(q.shape[1] == N, "In source attention the memory asks: q should come from the decoder.")
        expect(k.shape[1] == N_SOURCE, "In source attention the decoder answers: k and v are the memory's.")

    names = "self-attention", "source attention", "the feed-forward network"
    one, two, three = (connection.norm for connection in layer.sublayer)
    twice = one(x + layer.self_attention(x, x, x, target_mask))
    old = two(twice + layer.source_attention(x, memory, memory, source_mask))
    true, typical = forward(post), {
        "This is pre-norm: the norm stands before the sublayer. In the paper it stands after the sum.":
            forward(lambda x, F, norm: x + F(norm(x))),
        "The sublayer's output is normalised alone; normalise the sum: norm(x + F(x)).":
            forward(lambda x, F, norm: x + norm(F(x))),
        "The residual is missing: norm(F(x)) forgets x.": forward(lambda x, F, norm: norm(F(x))),
        **{f"At {name} the residual is missing: norm(F(x)) forgets x.": forward(
            lambda x, F, norm, here=connection.norm: norm(F(x)) if norm is here else norm(x + F(x)))
           for name, connection in zip(names, layer.sublayer, strict=True)},
        "There is no norm.": forward(lambda x, F, norm: x + F(x)),
        "One norm is used three times: each connection has a norm of its own.":
            forward(lambda x, F, norm: one(x + F(x))),
        "Source attention comes before self-attention here; the paper has them the other way round.":
            forward(post, order=(1, 0, 2)),
        "The feed-forward network is missing.": forward(post, order=(0, 1)),
        "Source attention is missing.": forward(post, order=(0, 2)),
        "Self-attention has no mask: it sees its future.": forward(post, target_mask=None),
        "Source attention has no mask: it sees padding.": forward(post, source_mask=None),
        "Source attention asks with the first x; it should ask with what self-attention has made of it.":
            three(old + layer.feed_forward(old)),
    }  # fmt: skip
    layer.self_attention.register_forward_pre_hook(looked, with_kwargs=True)
    layer.source_attention.register_forward_pre_hook(asked)
    expect_close(yours(layer, x, memory, source_mask, target_mask), true, "the result", typical)


@exercise
def feed_forward(yours):
    """two maps with a non-linearity between them, each position on its own"""
    x = torch.randn(2, N, 3).double()
    W_1, b_1, W_2, b_2 = (torch.randn(*shape).double() for shape in ((7, 3), (7,), (3, 7), (3,)))
    straight = x @ W_1.T + b_1  # (b, n, d_ff)
    hidden = straight.relu()  # (b, n, d_ff)
    try:
        answer = yours(x, W_1, b_1, W_2, b_2)
    except RuntimeError as error:
        expect(
            "cannot be multiplied" not in str(error),
            "The shapes do not fit. nn.Linear keeps one row for each output: take x @ W_1.T, and then W_2.T.",
        )
        raise
    expect_close(
        answer,
        hidden @ W_2.T + b_2,
        "the result",
        typical={
            "There is no non-linearity: without max(0, ·) the two matrices are one.": straight @ W_2.T + b_2,
            "There is no non-linearity, and the biases are missing.": x @ W_1.T @ W_2.T,
            "The non-linearity stands at the end; it belongs between the two matrices.": (
                straight @ W_2.T + b_2
            ).relu(),
            "There is a second non-linearity at the end, so that no output can be negative.": (
                hidden @ W_2.T + b_2
            ).relu(),
            "The bias b_2 is missing.": hidden @ W_2.T,
            "The bias b_1 is missing.": (x @ W_1.T).relu() @ W_2.T + b_2,
            "Both biases are missing.": (x @ W_1.T).relu() @ W_2.T,
            "The bias b_1 comes after the non-linearity; it shifts the corner, so it belongs before.": (
                (x @ W_1.T).relu() + b_1
            )
            @ W_2.T
            + b_2,
            "The input is added. The residual is the connection's business, not the network's.": x
            + hidden @ W_2.T
            + b_2,
        },
    )


class Seeing(EncoderDecoder):
    """A model whose target mask lets each position see `ahead` tokens of its future, and `pair` besides."""

    ahead, pair = 0, (0, 0)

    def forward(self, source, target_in):
        source_mask, n = padding_mask(source), target_in.shape[1]
        seen = torch.ones(n, n, dtype=torch.bool).tril(self.ahead)  # (n, n)
        seen[self.pair] = True
        memory = self.encode(source, source_mask)
        return self.decode(memory, source_mask, target_in, padding_mask(target_in) & seen)


@exercise
@without("future_leaks")
def leaks(yours):
    """a model that sees its future is found, and one that does not is let go"""
    source = torch.tensor([[4, 5, 6], [7, 8, PAD]])
    target_in = torch.tensor([[BOS, 9, 10, 4, 5], [BOS, 11, 12, 6, 7]])
    verdicts = {}
    for ahead in (0, 1, N):
        model = small(Seeing)
        model.ahead = ahead
        verdicts[ahead] = yours(model, source, target_in)
        kept = torch.equal(yours.given[2], target_in)
        expect(kept, "target_in itself was changed: work on target_in.clone().")
    for verdict in verdicts.values():
        expect(isinstance(verdict, bool), f"Return True or False; this is a {type(verdict).__name__}.")
    right, one_ahead, all_ahead = verdicts.values()
    expect(
        not (right and one_ahead and all_ahead),
        "A model with a causal mask is accused. Output j may change with token j: compare those before j.",
    )
    expect(right or one_ahead or all_ahead, "A model without a causal mask is let go.")
    expect(not right, "True and False are interchanged: True should mean that there is a leak.")
    expect(all_ahead, "A model without a causal mask is let go.")
    expect(one_ahead, "A model that sees one token ahead is let go: change each token, not one alone.")
    for i, j in ((0, 2), (2, 4)):
        model = small(Seeing, n_layers=1)  # a second layer would carry the leak to other outputs
        model.pair = i, j
        expect(
            yours(model, source, target_in),
            f"A model that leaks at one position, from token {j} to output {i}, is let go: change one token "
            "after the other, and compare all outputs before it.",
        )
    model = small(Seeing, dropout=0.5)
    expect(
        not yours(model, source, target_in),
        "A right model in training mode is accused: dropout alone makes two runs differ. Call model.eval().",
    )
    expect(
        model.training,
        "The model is left in eval mode: its training would go on without dropout. Put the mode back.",
    )
