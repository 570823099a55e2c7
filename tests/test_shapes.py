"""Every shape that the library states is executed: see shapes.py for what a claim is and when it holds.

A new module needs calls here that run all its claims, with sizes that are different primes; B is the batch.
"""

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
import torch
from shapes import LETTER, Function, Tracer, read

import heed
from heed.alignment import (
    AttentionSeq2Seq,
    BidirectionalEncoder,
    PointerNetwork,
    PositionWriter,
    point,
    pointer_loss,
)
from heed.attention import (
    MultiHeadAttention,
    SelfAttention,
    causal_mask,
    dependence,
    expectation,
    fused_attention,
    masked_softmax,
    most_probable,
    padding_mask,
    record,
    reinforce,
    sampled,
    straight_through,
    structured_attention,
)
from heed.attention import attention as compute_attention
from heed.data import Batch, Hidden, batches, hide_tokens, pad
from heed.decode import beam, greedy, sample, start_decoding
from heed.layers import EncoderLayer, PositionwiseFeedForward, PostNormConnection, RMSNorm
from heed.loss import (
    label_smoothing,
    language_model_loss,
    masked_language_model_loss,
    translation_loss,
)
from heed.memory import (
    HopfieldNetwork,
    MemoryNetwork,
    TuringMachine,
    content_weights,
    erase_and_add,
    hopfield_energy,
    hopfield_weights,
    modern_energy,
    retrieve,
    shift_weights,
)
from heed.position import (
    ALiBi,
    LearnedPosition,
    PositionalEncoding,
    RelativeBias,
    Rotary,
    rotated,
    sinusoids,
)
from heed.recurrent import (
    CheckedEmbedding,
    Classifier,
    ConditionalLanguageModel,
    RecurrentEncoder,
    Seq2Seq,
    Tagger,
    free_run,
    gru_step,
    lstm_step,
    rnn_step,
)
from heed.scale import (
    GroupedQueryAttention,
    LinearAttention,
    SlidingWindow,
    linear_attention,
    linear_recurrent,
    online_softmax,
    tiled_attention,
)
from heed.scores import (
    AdditiveScore,
    BilinearScore,
    DotScore,
    ScaledDotScore,
    additive_score,
    bilinear_score,
    dot_score,
    scaled_dot_score,
)
from heed.speed import FusedLayerNorm, arg_max, linear_cross_entropy
from heed.tasks import (
    PointBatch,
    debts,
    documents,
    hulls,
    lookups,
    marks,
    moving_stories,
    pictures,
    recall,
    stories,
    torn,
    voyages,
)
from heed.tasks.lookback import latest_mark, three_back
from heed.text import EOS
from heed.train import sequence_loss
from heed.transformer import (
    LanguageModel,
    MaskedLanguageModel,
    TokenClassifier,
    make_language_model,
    make_model,
)

B, N, M, D_IN, D_HIDDEN, VOCAB = 2, 5, 7, 11, 3, 13
D_MODEL = 22


def r(*shape):
    return torch.randn(shape)


def ids(*shape):
    return torch.randint(4, VOCAB, shape)


def steps():
    for gates, step, memory in ((1, rnn_step, 0), (3, gru_step, 0), (4, lstm_step, 1)):
        d = gates * D_HIDDEN
        step(r(B, D_IN), *[r(B, D_HIDDEN)] * (1 + memory), r(d, D_IN), r(d, D_HIDDEN), r(d), r(d))


def recurrent():
    steps()
    CheckedEmbedding(VOCAB, D_IN)(ids(B, N))
    Tagger(VOCAB, 17, D_IN, D_HIDDEN)(ids(B, N))
    Classifier(VOCAB, 17, D_IN, D_HIDDEN)(ids(B, N))
    model = ConditionalLanguageModel(19, VOCAB, D_IN, D_HIDDEN)
    model(torch.tensor([1, 5]), ids(B, N))
    model.sample(torch.tensor([1, 5]), n_max=M, seed=0)
    RecurrentEncoder(VOCAB, D_IN, D_HIDDEN)(ids(B, N))
    model = Seq2Seq(VOCAB, 17, D_IN, D_HIDDEN)
    model(ids(B, N), ids(B, M))
    free_run(model, ids(B, N), n_max=M)


def scores():
    additive_score(r(B, N, D_IN), r(B, M, 17), r(D_HIDDEN, 17), r(D_HIDDEN, D_IN), r(D_HIDDEN))
    AdditiveScore(D_IN, 17, D_HIDDEN)(r(B, N, D_IN), r(B, M, 17))
    dot_score(r(B, N, D_IN), r(B, M, D_IN))
    scaled_dot_score(r(B, N, D_IN), r(B, M, D_IN))
    bilinear_score(r(B, N, D_IN), r(B, M, 17), r(17, D_IN))
    DotScore(D_IN, 17, D_HIDDEN)(r(B, N, D_IN), r(B, M, 17))
    ScaledDotScore(D_IN, 17, D_HIDDEN)(r(B, N, D_IN), r(B, M, 17))
    BilinearScore(D_IN, 17)(r(B, N, D_IN), r(B, M, 17))


def attention():
    masked_softmax(r(B, N, M))
    masked_softmax(r(B, N, M), torch.ones(B, 1, M, dtype=torch.bool))
    expectation(r(B, N, M), r(B, M, D_IN))
    weights = r(B, N, M).softmax(-1)
    choice = sampled(weights)
    straight_through(weights, most_probable(weights))
    reinforce(weights, choice, r(B, N))
    words = torch.ones(B, N, M, dtype=torch.bool)
    structured_attention(r(B, N), r(B, N, M), r(B, N, M, D_IN), words)
    q, k, v, mask = r(B, N, 17), r(B, M, 17), r(B, M, D_IN), torch.ones(B, 1, M, dtype=torch.bool)
    compute_attention(q, k, v, mask)
    dependence(lambda x: r(M, N) @ x @ r(D_IN, D_HIDDEN), r(N, D_IN))
    fused_attention(q, k, v)
    fused_attention(q, k, v, mask)
    fused_attention(q, k, v, mask, bias=r(N, M))
    causal_mask(N, M - N)
    padding_mask(ids(B, M))
    SelfAttention(D_IN, 17, D_HIDDEN)(r(B, N, D_IN), causal_mask(N))
    mask = causal_mask(M)[:N].expand(B, 1, N, M)
    MultiHeadAttention(3 * 11, 11)(r(B, N, 33), r(B, M, 33), r(B, M, 33), mask)
    with torch.no_grad():  # fused
        MultiHeadAttention(3 * 11, 11)(r(B, N, 33), r(B, M, 33), r(B, M, 33), mask)
    ALiBi(11 * 11, 11)(r(B, N, 121), r(B, M, 121), r(B, M, 121), mask)


def position():
    sinusoids(N, 14)
    PositionalEncoding(14, 0.0, n_max=3)(r(B, N, 14))
    LearnedPosition(14, 0.0)(r(B, N, 14))
    rotated(r(B, N, 6))
    for kind in (RelativeBias, ALiBi, Rotary):
        mask = causal_mask(M)[M - N :]
        kind(11 * 6, 11)(r(B, N, 66), r(B, M, 66), r(B, M, 66), mask)


def scale():
    q, k, v = r(B, N, 17), r(B, M, 17), r(B, M, D_IN).requires_grad_()
    online_softmax(r(B, N, 1), r(B, N, 1), r(B, N, D_IN), r(B, N, M), v)
    mask = torch.ones(B, 1, M, dtype=torch.bool)
    tiled_attention(q, k, v, mask)
    tiled_attention(q, k, v, lambda i, j: j <= i + M - N, size=3).sum().backward()
    linear_attention(q, k, v)
    linear_attention(q, k, v, mask)
    linear_recurrent(r(B, N, 17), r(B, N, 17), r(B, N, D_IN))
    x, mask = r(B, M, 11 * 13), causal_mask(M)[M - N :]  # d_k = 13
    for kind in (GroupedQueryAttention, SlidingWindow, LinearAttention):
        kind(11 * 13, 11)(x[:, :N], x, x, mask)
    layer = LinearAttention(11 * 13, 11)
    with record(layer):
        layer(x[:, :N], x, x, mask)


def transformer():
    model = make_model(VOCAB, 17, 1, D_MODEL, 19, 11, 0.0)
    model.generator(model(ids(B, N), ids(B, M)))
    connection = PostNormConnection(D_MODEL, 0.0)
    EncoderLayer(D_MODEL, MultiHeadAttention(D_MODEL, 11), PositionwiseFeedForward(D_MODEL, 19, 0.0), 0.0)
    connection(r(B, N, D_MODEL), torch.relu)
    RMSNorm(D_MODEL)(r(B, N, D_MODEL))
    for kind in (LanguageModel, MaskedLanguageModel):
        model = make_language_model(VOCAB, 1, D_MODEL, 19, 11, 0.0, kind)
        model(ids(B, N))
        TokenClassifier(model, 23)(ids(B, N))
    model = make_language_model(VOCAB, 1, D_MODEL, 19, 11, 0.0)
    cache = start_decoding(model, ids(B, M)).cache
    model(ids(B, M), cache)
    model(ids(B, N), cache)


def memory():
    X, x = r(N, D_IN).sign(), r(B, D_IN)
    hopfield_energy(x, hopfield_weights(X))
    network = HopfieldNetwork(D_IN)
    network.store(X)
    network.energy(network(network(x), order=range(D_IN)))
    modern_energy(retrieve(x, X, 1.0), X, 1.0)
    model = MemoryNetwork(VOCAB, D_IN, 1, n_words=3, n_ages=M)
    model(torch.randint(VOCAB, (B, N, 3)), ids(B, 17), torch.ones(B, N, dtype=torch.bool))
    M_, w = r(B, M, D_HIDDEN), r(B, M).softmax(-1)
    content_weights(r(B, D_HIDDEN), M_, r(B, 1))
    shift_weights(w, r(B, 3).softmax(-1))
    erase_and_add(M_, w, r(B, D_HIDDEN), r(B, D_HIDDEN))
    TuringMachine(D_IN, 17, 19, 13)(r(B, N, D_IN), 23, M)


def loss():
    label_smoothing(r(N, VOCAB).log_softmax(-1), ids(N), 0.1)
    model = make_model(VOCAB, 17, 1, D_MODEL, 19, 11, 0.0)
    translation_loss(model, Batch(ids(B, N), ids(B, M)))
    language_model_loss(make_language_model(VOCAB, 1, D_MODEL, 19, 11), Batch(ids(B, 0), ids(B, M)))
    model = make_language_model(VOCAB, 1, D_MODEL, 19, 11, kind=MaskedLanguageModel)
    masked_language_model_loss(model, Hidden(ids(B, N), ids(B, N)))


def speed():
    FusedLayerNorm(D_MODEL)(r(B, N, D_MODEL))
    linear_cross_entropy(r(N, D_MODEL), r(VOCAB, D_MODEL), r(VOCAB), ids(N))
    arg_max(r(N, VOCAB))


def alignment():
    BidirectionalEncoder(VOCAB, D_IN, D_HIDDEN)(ids(B, N))
    model = AttentionSeq2Seq(VOCAB, 17, D_IN, D_HIDDEN)
    model(ids(B, N), ids(B, M))
    free_run(model, ids(B, N), n_max=M)
    x, y = r(B, M, D_IN), torch.tensor([[0, 1, 2, 3, 0], [4, 5, 6, 4, -1]])
    for model in (PointerNetwork(D_IN, D_HIDDEN), PositionWriter(19, D_IN, 17, D_HIDDEN)):
        model(x, y, torch.ones(B, N, M, dtype=torch.bool))
        pointer_loss(model, PointBatch(x, y))
        point(model, x)


def data():
    batch = Batch(ids(B, N), ids(B, M))
    assert batch.n_tokens and batch.target_in is not None and batch.source_mask.any()
    pad([[1] * N, [2]])
    assert hide_tokens(ids(B, N), VOCAB, mask=4).n_tokens >= 0
    next(iter(batches([([5] * N, [6] * M)] * 4, B, seed=0)))


def tasks():
    hulls(torch.rand(B, M, 2))
    documents(B, N, seed=0).text(0)
    recall(B, N - 1, torch.Generator().manual_seed(0))
    debts(B, torch.Generator().manual_seed(0))
    three_back(B, N, torch.Generator().manual_seed(0))
    latest_mark(B, N, torch.Generator().manual_seed(0))
    marks(B, N, 3, torch.Generator().manual_seed(0))
    lookups(B, N, torch.Generator().manual_seed(0), M)
    stories(B, 1, torch.Generator().manual_seed(0)).text(0)
    moving_stories(B, 3, 4, torch.Generator().manual_seed(0))
    voyages(B, N, torch.Generator().manual_seed(0))
    torn(pictures())


def train():
    sequence_loss(Seq2Seq(VOCAB, 17, D_IN, D_HIDDEN), Batch(ids(B, N), ids(B, M)))


def decode():
    model = make_model(VOCAB, 17, 1, 154, 19, 11)
    model.generator.proj.bias.data[EOS] -= 1e4  # no sentence ends, and b stays what it is
    greedy(model, ids(B, N), n_max=2)
    sample(model, ids(B, N), top_p=0.9, n_max=2)
    beam(model, ids(B, N), width=3, n_max=3)
    model = make_language_model(VOCAB, 1, 154, 19, 11)
    model.generator.proj.bias.data[EOS] -= 1e4
    beam(model, ids(B, N), width=3, n_max=3)


CALLS = {  # module -> the calls that run all its claims, and the letters that mean one number in all of them
    "data": (data, {"b": B}),
    "tasks": (tasks, {"b": B, "n_sentences": N}),
    "recurrent": (recurrent, {"b": B}),
    "scores": (scores, {}),
    "attention": (attention, {"b": B, "h": 11}),
    "alignment": (alignment, {"b": B}),
    "position": (position, {"b": B, "h": 11, "d_k": 6}),
    "scale": (scale, {"b": B, "h": 11}),
    "layers": (transformer, {"b": B, "d_model": D_MODEL}),
    "transformer": (transformer, {"b": B, "d_model": D_MODEL}),
    "memory": (memory, {"b": B}),
    "loss": (loss, {"b": B, "n_target": M}),
    "speed": (speed, {}),
    "decode": (decode, {"b": B, "h": 11, "d_k": 14, "d_model": 154}),
    "train": (train, {"b": B, "vocab": 17, "n_target": M - 1}),
}
UNTRACED = {"plot", "check"}  # drawings, which take lists too, and the checks, which the notebooks run

LIBRARY = Path(heed.__file__).parent


def claims(module):
    """The claims of a module, which is a file or a folder."""
    files = [*LIBRARY.glob(f"{module}.py"), *LIBRARY.glob(f"{module}/*.py")]
    return {key: function for file in files for key, function in read(file).items()}


@pytest.mark.parametrize("module", [module for module in heed.MODULES if module not in UNTRACED])
def test_every_shape_that_a_module_states_is_the_live_one(module):
    functions = claims(module)
    stated = {claim for function in functions.values() for claim in function.claims}
    if module not in CALLS:
        assert not stated, f"heed.{module} states shapes, and CALLS has no call that runs them"
        pytest.skip(f"heed.{module} states no shapes")
    hold(functions, stated, *CALLS[module])


def hold(functions, stated, call, sizes):
    """Run the calls; fail if a claim is wrong, or was never shown where nothing could hide."""
    torch.manual_seed(0)
    with Tracer(functions, **sizes) as seen:
        call()
    wrong = list(dict.fromkeys(seen.wrong))
    missed = [f"{claim}: {seen.weak.get(claim, 'it was never executed')}" for claim in stated - seen.held]
    if wrong or missed:
        pytest.fail("\n".join([*wrong, *sorted(missed)]), pytrace=False)


@pytest.mark.parametrize(
    "module",
    ["attention", *(pytest.param(name, marks=pytest.mark.soak) for name in CALLS if name != "attention")],
)
def test_a_swap_of_two_letters_in_any_claim_of_the_library_is_noticed(module):
    functions, (call, sizes) = claims(module), CALLS[module]
    for claim in {claim for function in functions.values() for claim in function.claims}:
        for swapped in swaps(claim):
            torch.manual_seed(0)
            with Tracer(exchanged(functions, claim, swapped), **sizes) as seen:
                call()
            assert seen.wrong, f"{claim} could as well be ({swapped.text})"


def swaps(claim):
    """The claim with two of its letters changing places, in every way but within one product."""
    for x, y in combinations(sorted(claim.letters), 2):
        other = {x: y, y: x}
        text = re.sub(LETTER, lambda m, other=other: other.get(m[0], m[0]), claim.text)
        if text.replace(f"{y}*{x}", f"{x}*{y}") != claim.text.replace(f"{y}*{x}", f"{x}*{y}"):
            yield replace(claim, text=text)


def exchanged(functions, claim, other):
    """These functions with one claim in the place of another."""

    def new(group):
        return [other if mine == claim else mine for mine in group]

    return {
        key: Function(new(f.arguments), new(f.returns), {span: new(group) for span, group in f.lines.items()})
        for key, f in functions.items()
    }


TINY = '''
import torch


def score(q, k, mask=None):
    """Compare.

    q: (..., n_q, d_k)
    k: (..., n_k, d_k)
    mask: bool; broadcasts to (..., n_q, n_k)

    Returns the scores (..., n_q, n_k) and the widths (n_q, 1).
    """
    if mask is None:
        table = q @ k.mT  # (..., n_q, n_k)
    else:
        table = (
            (q @ k.mT)
            .masked_fill(~mask, 0.0)
        )  # (..., n_q, n_k)
    first, _ = table, k
    for row in table.unbind(-2):  # (..., n_k)
        wide = torch.cat([row, row], -1)  # (..., 2*n_k)
    return first, q.new_zeros(q.shape[-2], 1)
'''

SABOTAGE = {
    "swapped in a comment": ("table = q @ k.mT  # (..., n_q, n_k)", "table = q @ k.mT  # (..., n_k, n_q)"),
    "swapped in an argument": ("k: (..., n_k, d_k)", "k: (..., d_k, n_k)"),
    "swapped in what comes back": ("scores (..., n_q, n_k)", "scores (..., n_k, n_q)"),
    "wrong second of what comes back": ("widths (n_q, 1)", "widths (1, n_q)"),
    "an axis too many": ("q: (..., n_q, d_k)", "q: (b, n_q, n_k, d_k)"),
    "wrong multiple": ("2*n_k", "3*n_k"),
    "wrong loop variable": ("unbind(-2):  # (..., n_k)", "unbind(-2):  # (..., n_q)"),
    "wrong broadcast": ("broadcasts to (..., n_q, n_k)", "broadcasts to (..., n_q, d_k)"),
    "never executed": ("if mask is None:", "if True:"),
    "one letter for two numbers": ("(..., 2*n_k)", "(..., n_k)"),
    "the code changes and the comment stays": ("table = q @ k.mT  #", "table = (q @ k.mT).mT  #"),
}


def tiny(folder, old="", new=""):
    """Run the tiny module, with this replaced by that, and hold its claims."""
    assert not old or TINY.count(old) == 1
    path = folder / "tiny.py"
    path.write_text(TINY.replace(old, new), encoding="utf-8")
    functions = read(path)
    stated = {claim for function in functions.values() for claim in function.claims}
    names = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)

    def call():
        names["score"](r(B, N, D_IN), r(B, M, D_IN))
        names["score"](r(B, N, D_IN), r(B, M, D_IN), torch.ones(N, M, dtype=torch.bool))

    hold(functions, stated, call, {})


def test_true_claims_hold(tmp_path):
    tiny(tmp_path)


@pytest.mark.parametrize("case", SABOTAGE)
def test_a_false_claim_is_red(tmp_path, case):
    with pytest.raises(pytest.fail.Exception):
        tiny(tmp_path, *SABOTAGE[case])


@pytest.mark.parametrize(
    "line",
    [
        '"""Nobody reads a module that speaks of (b, n)."""',
        "def f(x):\n    # (b, n) comes out\n    return x",
        "def f(x):\n    print(x)  # (b, n)",
        "def f(x):\n    y = x  # twice: (b, n)\n    return y",
        'def f(x):\n    """Make (b, n).\n\n    Returns nothing.\n    """',
    ],
)
def test_a_shape_that_nobody_would_check_is_refused(tmp_path, line):
    path = tmp_path / "tiny.py"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(ValueError, match=r"tiny\.py"):
        read(path)


def test_sizes_that_coincide_show_nothing(tmp_path):
    path = tmp_path / "tiny.py"
    code = 'def f(x):\n    """x: (b, n)"""\n    return x\n'
    path.write_text(code, encoding="utf-8")
    names = {}
    exec(compile(code, str(path), "exec"), names)
    for shape, sizes, held in (((3, 3), {"b": 3}, 0), ((3, 5), {}, 0), ((3, 5), {"b": 3}, 1)):
        with Tracer(read(path), **sizes) as seen:
            names["f"](r(*shape))
        assert (len(seen.held), seen.wrong) == (held, [])
