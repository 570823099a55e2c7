"""What an exercise forbids, or what would leave nothing of it, is refused by its check, and named."""

import copy
import inspect
import math
import sys
from functools import partial
from threading import Thread

import pytest
import torch
from sacrebleu import corpus_bleu
from test_exercises import CODE, solved
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.nn.functional import scaled_dot_product_attention

from heed import check
from heed.attention import (
    MultiHeadAttention,
    SelfAttention,
    attention,
    causal_mask,
    dependence,
    expectation,
    masked_softmax,
    merge_heads,
    split_heads,
)
from heed.check import NotYet, Refusing
from heed.data import Batch, TokenBatches, pad, pad_batch
from heed.evaluate import bleu, bleu_of, sentence_counts
from heed.loss import label_smoothing, smoothed
from heed.memory import HopfieldNetwork, agree
from heed.position import sinusoids
from heed.scale import linear_attention, linear_recurrent, online_softmax, tiled_attention
from heed.scores import additive_score
from heed.tasks import hulls
from heed.text import BOS, EOS, PAD, Subwords

RIGHT = {values[1]: values[0] for values in (case.values for case in CODE)}


def shown(function):
    """The function again, as a chapter's mirrored cell defines it."""
    names = {**function.__globals__, "__name__": "__main__"}
    exec(inspect.getsource(function), names)
    return names[function.__name__]


def defined(name):
    """A function that only a notebook defines."""
    names = {}
    exec(f"def {name}(*given): return given", names)
    return names[name]


def in_a_class(name, method):
    """A method of a class that only a notebook defines."""
    names = {}
    exec(f"class {name}:\n    def {method}(*given): return given", names)
    return getattr(names[name](), method)


def after(call):
    """The right answer, once this has been called."""
    return lambda right: lambda *given: (call(), right(*given))[1]


def leaf():
    return torch.ones(2, requires_grad=True)


def forward(x):
    with forward_ad.dual_level():
        return torch.sin(forward_ad.make_dual(x, x))


AUTOGRAD = {
    "`grad`": after(lambda: torch.autograd.grad(leaf().sin().sum(), leaf(), allow_unused=True)),
    "`backward`": after(lambda: leaf().sin().sum().backward()),
    "`grad` ": after(lambda: torch.autograd.functional.jacobian(torch.sin, leaf())),
    "`grad`  ": after(lambda: torch.func.jacrev(torch.sin)(torch.ones(2))),
    "`make_dual`": after(lambda: forward(torch.ones(2))),
}


def by_autograd(q, k, v, G):
    given = [tensor.requires_grad_() for tensor in (q, k, v)]
    return torch.autograd.grad(attention(*given)[0], given, G)


@torch.enable_grad()
def norm_by_autograd(x, g, eps):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(F.layer_norm(x, x.shape[-1:], eps=eps), x, g)[0]


def norm_by_aten(x, g, eps):
    mean, deviation = x.mean(-1, True), (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt()
    wanted = [True, False, False]
    return torch.ops.aten.native_layer_norm_backward(
        g, x, x.shape[-1:], mean, 1 / deviation, None, None, wanted
    )[0]


def next_of_hull(points, here, arrived):
    path = [i for i in hulls(points[None])[0].tolist() if i >= 0]
    return F.one_hot(torch.tensor(path[path.index(here) + 1]), len(points)).double()


def in_rows(W, I, d_k):
    return (part.T for part in (W @ I).split([d_k, d_k, len(W) - 2 * d_k]))


def whole_layer(right):
    def answer(I, W, d_k):
        layer = SelfAttention(len(I), d_k, len(W) - 2 * d_k).double()
        parts = W.split([d_k, d_k, len(W) - 2 * d_k])
        for part, weight in zip((layer.W_q, layer.W_k, layer.W_v), parts, strict=True):
            part.weight.data = weight
        return layer(I.T).T.detach()

    return answer


def heads_of_the_library(q, k, v, W_q, W_k, W_v, W_o, n_heads):
    Q, K, V = (split_heads(x @ W.T, n_heads) for x, W in ((q, W_q), (k, W_k), (v, W_v)))
    return merge_heads(attention(Q, K, V)[0]) @ W_o.T


def heads_fused(q, k, v, W_q, W_k, W_v, W_o, n_heads):
    Q, K, V = (
        (x @ W.T).unflatten(-1, (n_heads, -1)).transpose(1, 2) for x, W in ((q, W_q), (k, W_k), (v, W_v))
    )
    return F.scaled_dot_product_attention(Q, K, V).transpose(1, 2).flatten(2) @ W_o.T


def heads_in_a_loop(q, k, v, W_q, W_k, W_v, W_o, n_heads):
    pieces = ((x @ W.T).chunk(n_heads, -1) for x, W in ((q, W_q), (k, W_k), (v, W_v)))
    z = [(Q @ K.mT / Q.shape[-1] ** 0.5).softmax(-1) @ V for Q, K, V in zip(*pieces, strict=True)]
    return torch.cat(z, -1) @ W_o.T


def sentence_by_sentence(right):
    def answer(q, k, v, *given):
        return torch.cat([right(*(x[i : i + 1] for x in (q, k, v)), *given) for i in range(len(q))])

    return answer


def heads_as_a_module(q, k, v, *given):
    *matrices, n_heads = given
    layer = MultiHeadAttention(q.shape[-1], n_heads).double()
    for part, W in zip((layer.W_q, layer.W_k, layer.W_v, layer.W_o), matrices, strict=True):
        part.weight.data, part.bias.data = W, torch.zeros(len(W)).double()
    return layer(q, k, v).detach()


def in_a_loop(pos, d):
    rates = torch.tensor([10_000 ** (-c / d) for c in range(0, d, 2)], dtype=torch.float64)
    return torch.stack([(pos * rates).sin(), (pos * rates).cos()], -1).flatten()


def nearest_row(codes, shift):
    table = sinusoids(5000, codes.shape[1])
    return table[(codes @ table.T).argmax(-1) + shift]


def connected(layer, x, memory, source_mask, target_mask):
    one, two, three = layer.sublayer
    x = one(x, lambda x: layer.self_attention(x, x, x, target_mask))
    x = two(x, lambda x: layer.source_attention(x, memory, memory, source_mask))
    return three(x, layer.feed_forward)


def of_a_batch(targets):
    batch = Batch(pad([[]] * len(targets)), pad([[BOS, *row, EOS] for row in targets]))
    return batch.target_in, batch.target_out, batch.target_mask, batch.n_tokens


def of_pairs(targets):
    batch = pad_batch([([], [BOS, *row, EOS]) for row in targets])
    return batch.target[:, :-1], batch.target[:, 1:], batch.target[:, 1:] != PAD, batch.n_tokens


def with_q(logits, target, epsilon):
    real = target != PAD
    q = torch.full((int(real.sum()), logits.shape[1]), epsilon / logits.shape[1], dtype=logits.dtype)
    q[torch.arange(len(q)), target[real]] += 1 - epsilon
    return -(q * logits[real].log_softmax(-1)).sum()


def stepped(grads, rate, b1=0.9, b2=0.98, eps=1e-9):
    weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    adam, moves = torch.optim.Adam([weight], lr=rate, betas=(b1, b2), eps=eps), []
    for g in grads:
        before, weight.grad = weight.item(), torch.tensor([g], dtype=torch.float64)
        adam.step()
        moves.append(weight.item() - before)
    return moves


def planned(lengths, budget):
    pairs = [([4] * s, [BOS, *[4] * (t - 2), EOS] if t > 1 else [BOS]) for s, t in lengths]
    batches = TokenBatches.__new__(TokenBatches)
    batches.pairs, batches.n_tokens, batches.seed, batches.lengths = pairs, budget, 0, lengths
    return batches.epoch(0)


def rested(x, W):
    network = HopfieldNetwork(len(x)).double()
    network.W = W
    for _ in range(9):
        x = network(x, order=range(len(x)))
    return x


def pieces(word, merges):
    return Subwords([*"abdehnortu"], merges).pieces(word)


def borrowing(call):
    """The right model, which calls this as well."""
    return lambda right: type("Borrowing", (right,), {"forward": after(call)(right.forward)})


def instead(cheat):
    return lambda right: cheat


def looked_up(s, h, W, U, v, mask):
    """The contexts, with the library's score."""
    return (masked_softmax(additive_score(s[:, None], h, W, U, v), mask[:, None]) @ h)[:, 0]


def step_by_step(q, stream):
    m, total, mixed = torch.full((1, 1), -1e308), torch.zeros(1, 1), torch.zeros(1, 3)
    for k, v in stream:
        m, total, mixed = online_softmax(m, total, mixed, (q @ k / len(q) ** 0.5)[None, None], v[None])
    return (mixed / total)[0]


def scores_in_a_list(q, stream):
    scores = []
    for k, _ in stream:
        scores.append((q @ k).item())
    return max(scores)


def pairs_in_a_nested_list(q, stream):
    box = [[]]
    for k, v in stream:
        box[0].append((k.tolist(), v.tolist()))
    return torch.tensor(box[0][0][1])


def pairs_in_a_string(q, stream):
    text = ""
    for k, v in stream:
        text += f"{k.tolist()} {v.tolist()};"
    return q


def scores_in_a_tensor(q, stream):
    scores = torch.zeros(0, dtype=q.dtype)
    for k, _ in stream:
        scores = torch.cat([scores, (q @ k)[None]])
    return scores.max()


CHEATS = [
    ("weighted_mean", "`expectation`", instead(expectation)),
    *(("drawer", name, cheat) for name, cheat in AUTOGRAD.items()),
    *(("back_through_time", name, cheat) for name, cheat in AUTOGRAD.items()),
    ("read_sources", "neither `encoder` nor", instead(lambda ids, encoder: encoder(ids))),
    ("read_sources", "neither `encoder` nor", instead(lambda ids, encoder: encoder.forward(ids))),
    ("read_sources", "neither `encoder` nor", instead(lambda ids, encoder: copy.deepcopy(encoder)(ids))),
    ("read_sources", "nor `encoder.rnn`", instead(
        lambda ids, encoder: encoder.rnn.forward(encoder.embed(ids))[0][:, -1])),
    ("masked_weights", "`softmax`", instead(shown(masked_softmax))),
    ("masked_weights", "`logsumexp`", instead(lambda s, mask: (s - s.logsumexp(-1, keepdim=True)).exp())),
    ("masked_weights", "`softmin`", instead(lambda s, mask: F.softmin(-s, -1))),
    ("masked_weights", "`scaled_dot_product_attention`", instead(
        lambda s, mask: scaled_dot_product_attention(s, torch.eye(3).double(), torch.eye(3).double(), mask))),
    ("contexts", "`additive_score`", instead(looked_up)),
    ("cosine_table", "`cosine_similarity`", instead(lambda q, k: F.cosine_similarity(q[:, None], k, dim=-1))),
    ("closeness", "`pairwise_distance`", instead(lambda q, k: -F.pairwise_distance(q[:, None], k) ** 2 / 2)),
    ("closeness", "one after the other", instead(
        lambda q, k: torch.stack([-((x - k) ** 2).sum(-1) / 2 for x in q]))),
    ("closeness", "of 3 matrix products", instead(
        lambda q, k: q @ k.T - (q**2 @ torch.ones_like(k).T + torch.ones_like(q) @ (k**2).T) / 2)),
    *(("attention_backward", name, cheat) for name, cheat in AUTOGRAD.items()),
    ("attention_backward", "`grad` is autograd", instead(by_autograd)),
    ("noisy_choice", "Do without `softmax`", instead(lambda e, u: e.softmax(-1).multinomial(len(u), True))),
    ("noisy_choice", "Do without `multinomial`", instead(lambda e, u: e.exp().multinomial(len(u), True))),
    ("noisy_choice", "Do without `gumbel_softmax`", instead(
        lambda e, u: F.gumbel_softmax(e.expand_as(u), hard=True).argmax(-1))),
    ("noisy_choice", "Do without `exponential_`", instead(
        lambda e, u: (torch.empty_like(u).exponential_() / e.exp()).argmin(-1))),
    ("noisy_choice", "Do without `cumsum`", instead(
        lambda e, u: (u[:, :1] > e.exp().cumsum(-1) / e.exp().sum()).sum(-1))),
    ("next_corner", "`hulls`", instead(next_of_hull)),
    ("one_pass", "`online_softmax`", instead(step_by_step)),
    ("one_pass", "`softmax`", after(lambda: torch.ones(3).softmax(-1))),
    ("one_pass", "`logsumexp`", after(lambda: torch.ones(3).logsumexp(-1))),
    ("one_pass", "`scaled_dot_product_attention`", after(lambda: scaled_dot_product_attention(
        *torch.ones(3, 1, 2, 2)))),
    ("one_pass", "`attention`", after(lambda: attention(*torch.ones(3, 2, 2)))),
    ("one_pass", "What has passed is kept", instead(lambda q, stream: sorted(stream, key=len)[0][1])),
    ("one_pass", "What has passed is kept", instead(
        lambda q, stream: torch.stack([v for _, v in stream]).mean(0))),
    ("one_pass", "What has passed is kept", instead(scores_in_a_list)),
    ("one_pass", "What has passed is kept", instead(scores_in_a_tensor)),
    ("one_pass", "What has passed is kept", instead(pairs_in_a_nested_list)),
    ("one_pass", "What has passed is kept", instead(pairs_in_a_string)),
    ("one_matrix", "`attention`", instead(lambda I, W, d_k: attention(*in_rows(W, I, d_k))[0].T)),
    ("one_matrix", "`attention`", instead(lambda I, W, d_k: shown(attention)(*in_rows(W, I, d_k))[0].T)),
    ("one_matrix", "`scaled_dot_product_attention`", instead(
        lambda I, W, d_k: F.scaled_dot_product_attention(*(x[None] for x in in_rows(W, I, d_k)))[0].T)),
    ("one_matrix", "`SelfAttention`", whole_layer),
    ("one_matrix", "`by_rows`", after(defined("by_rows"))),
    ("one_matrix", "`by_columns`", after(defined("by_columns"))),
    ("my_dependence", "`dependence`", instead(dependence)),
    ("my_dependence", "`dependence`", instead(shown(dependence))),
    ("my_dependence", "`jacobian`", instead(
        lambda f, x: torch.autograd.functional.jacobian(f, x).square().sum((1, 3)).sqrt())),
    ("my_dependence", "`jacrev`", instead(lambda f, x: torch.func.jacrev(f)(x).square().sum((1, 3)).sqrt())),
    ("my_dependence", "`jacfwd`", instead(lambda f, x: torch.func.jacfwd(f)(x).square().sum((1, 3)).sqrt())),
    ("leaks_future", "`dependence`", instead(lambda f, x: bool((dependence(f, x).triu(1) > 0).any()))),
    ("safe_softmax", "`masked_softmax`", instead(lambda s: masked_softmax(s, s.isfinite()))),
    ("many_heads", "`split_heads`", instead(heads_of_the_library)),
    ("many_heads", "`attention`", after(lambda: attention(*torch.ones(3, 2, 2)))),
    ("many_heads", "`merge_heads`", after(lambda: merge_heads(torch.ones(1, 2, 3, 4)))),
    ("many_heads", "`scaled_dot_product_attention`", instead(heads_fused)),
    ("many_heads", "`MultiHeadAttention`", instead(heads_as_a_module)),
    ("many_heads", "`attend`", after(defined("attend"))),
    ("many_heads", "`MultiHead`", after(in_a_class("MultiHead", "split"))),
    ("many_heads", "`MultiHead`", after(in_a_class("MultiHead", "forward"))),
    ("many_heads", "there is a loop", instead(heads_in_a_loop)),
    ("many_heads", "there is a loop", sentence_by_sentence),
    ("code_of", "`sinusoids`", instead(lambda pos, d: sinusoids(pos + 1, d)[-1])),
    ("code_of", "`sinusoids`", instead(lambda pos, d: shown(sinusoids)(pos + 1, d)[-1])),
    ("code_of", "`clock_hands`", after(defined("clock_hands"))),
    ("code_of", "made in a loop", instead(in_a_loop)),
    ("moved", "from a table", instead(nearest_row)),
    ("rotated_halves", "`rotated_by_halves`", after(defined("rotated_by_halves"))),
    *(("norm_backward", name, cheat) for name, cheat in AUTOGRAD.items()),
    ("norm_backward", "`grad` is not the exercise", instead(norm_by_autograd)),
    ("norm_backward", "`native_layer_norm_backward` is not", instead(norm_by_aten)),
    ("post_norm_decoder_layer", "`DecoderLayer`", instead(lambda layer, *given: layer(*given))),
    ("post_norm_decoder_layer", "`DecoderLayer`", instead(lambda layer, *given: layer.forward(*given))),
    ("post_norm_decoder_layer", "`PostNormConnection`", instead(connected)),
    ("leaks", "`future_leaks`", after(defined("future_leaks"))),
    ("transformer_from_nothing", "`causal_mask`", borrowing(lambda: causal_mask(3))),
    ("transformer_from_nothing", "`attention`", borrowing(lambda: attention(*torch.ones(3, 2, 2)))),
    ("transformer_from_nothing", "`sinusoids`", borrowing(lambda: sinusoids(3, 4))),
    ("transformer_from_nothing", "`scaled_dot_product_attention`", borrowing(
        lambda: scaled_dot_product_attention(*torch.ones(3, 2, 2)))),
    ("read_and_say", "`pad_batch`", instead(of_pairs)),
    ("read_and_say", "`Batch`", instead(of_a_batch)),
    ("smooth_cross_entropy", "`cross_entropy`", instead(
        lambda logits, target, epsilon: F.cross_entropy(
            logits, target, ignore_index=PAD, label_smoothing=epsilon, reduction="sum"))),
    ("smooth_cross_entropy", "`cross_entropy`", instead(
        lambda logits, target, epsilon: nn.CrossEntropyLoss(
            ignore_index=PAD, label_smoothing=epsilon, reduction="sum")(logits, target))),
    ("smooth_cross_entropy", "This builds q", instead(with_q)),
    ("smooth_cross_entropy", "`smoothed`", instead(
        lambda logits, target, epsilon: -(smoothed(target, 5, epsilon) * logits.log_softmax(-1)).sum())),
    ("smooth_cross_entropy", "`label_smoothing`", instead(
        lambda logits, target, epsilon: label_smoothing(logits.log_softmax(-1), target, epsilon))),
    ("cut_by_tokens", "`TokenBatches`", instead(planned)),
    ("adam_moves", "`Adam`", instead(stepped)),
    ("dropped", "`dropout`", instead(lambda x, p, draws, training: F.dropout(x, p, training))),
    ("dropped", "`dropout`", instead(lambda x, p, draws, training: nn.Dropout(p).train(training)(x))),
    ("text_bleu", "`bleu`", instead(lambda ours, theirs: bleu(ours, theirs).value)),
    ("text_bleu", "`BLEU`", instead(
        lambda ours, theirs: corpus_bleu(ours, [theirs], tokenize="none", smooth_method="none").score)),
    ("text_bleu", "`sentence_counts`", instead(lambda ours, theirs: sentence_counts(ours, theirs))),
    ("text_bleu", "`bleu_of`", after(partial(bleu_of, [1] * 10))),
    ("text_bleu", "`counted`", after(defined("counted"))),
    ("text_bleu", "`bleu_by_hand`", after(defined("bleu_by_hand"))),
    ("split_word", "`Subwords`", instead(pieces)),
    *(("story_by_hand", name, cheat) for name, cheat in AUTOGRAD.items()),
    ("at_rest", "`HopfieldNetwork`", instead(rested)),
    ("at_rest", "`agree`", after(lambda: agree(torch.ones(2), torch.ones(2)))),
    ("join", "`online_softmax`", after(lambda: online_softmax(*torch.ones(3, 2, 1), *torch.ones(2, 2, 2)))),
    ("causal_tiles", "`attention`", instead(
        lambda q, k, v, size: attention(q, k, v, causal_mask(len(q)))[0])),
    ("causal_tiles", "`tiled_attention`", instead(
        lambda q, k, v, size: tiled_attention(q, k, v, lambda i, j: j <= i, size))),
    ("causal_tiles", "`scaled_dot_product_attention`", instead(
        lambda q, k, v, size: F.scaled_dot_product_attention(q, k, v, is_causal=True))),
    ("causal_tiles", "`softmax`", after(lambda: torch.ones(3).softmax(-1))),
    ("causal_tiles", "`attend`", after(defined("attend"))),
    ("causal_tiles", "`tiles`", after(defined("tiles"))),
    ("chunks", "`linear_attention`", instead(
        lambda q, k, v, size: linear_attention(q.log(), k.log(), v, causal_mask(len(q))))),
    ("chunks", "`linear_recurrent`", instead(
        lambda q, k, v, size: linear_recurrent(q.log(), k.log(), v)[0])),
]  # fmt: skip


@pytest.mark.parametrize("name, sentence, cheat", CHEATS, ids=[f"{case[0]}-{case[1]}" for case in CHEATS])
def test_what_is_forbidden_is_refused_and_named(capsys, name, sentence, cheat):
    torch.set_default_dtype(torch.float64)
    getattr(check, name)(cheat(solved(RIGHT[name])[name]))
    said = capsys.readouterr().out
    assert said.startswith("✗ Not yet: ") and sentence.strip() in said and "your code raised" not in said


def test_each_check_that_forbids_something_is_among_them():
    forbid = {name for name in RIGHT if hasattr(getattr(check, name), "without")}
    inside = {"closeness", "moved", "transformer_from_nothing"}  # these look for themselves
    assert {name for name, *_ in CHEATS} == forbid | inside


def test_what_catches_the_refusal_is_refused_all_the_same():
    def patient():
        try:
            return sinusoids(3, 4)
        except Exception:
            return torch.zeros(3, 4)

    with pytest.raises(NotYet, match="`sinusoids`"), Refusing(sinusoids):
        patient()


def test_behind_the_block_everything_is_as_it_was():
    seen = []
    before = sys.getprofile()
    sys.setprofile(lambda *event: seen.append(event))
    mine = sys.getprofile()
    try:
        with pytest.raises(NotYet), Refusing(sinusoids, torchs=("softmax",)):
            sinusoids(3, 4)
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(before)
    assert sinusoids(3, 4).softmax(-1).shape == (3, 4)


def test_another_thread_may_call_what_this_one_must_not():
    found = []
    with Refusing(sinusoids, torchs=("softmax",)):
        thread = Thread(target=lambda: found.append(sinusoids(3, 4).softmax(-1)))
        thread.start(), thread.join()
    assert found[0].shape == (3, 4)


def test_a_function_of_the_same_name_that_does_something_else_may_be_called():
    names = {"math": math}
    exec("def sinusoids(n, d_model): return math.sin(n)", names)
    with Refusing(sinusoids):
        assert names["sinusoids"](0, 1) == 0
