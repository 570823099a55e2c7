"""Attention at scale: tiles equal the whole, and layers that hold less hold what they say."""

import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from heed.attention import MultiHeadAttention, attention, causal_mask, record
from heed.decode import GrowingCache
from heed.position import Rotary
from heed.scale import (
    GroupedQueryAttention,
    LinearAttention,
    SlidingWindow,
    linear_attention,
    linear_recurrent,
    online_softmax,
    positive,
    tiled_attention,
)
from heed.tasks import endless, lookups
from heed.train import train

B, N_Q, N_K, D_K, D_V = 2, 5, 13, 7, 11
LOWEST = torch.finfo(torch.float64).min


def double(*shape, seed=None):
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def start(n_q=1, d_v=1):
    """A softmax that has seen nothing."""
    empty = torch.zeros(n_q, 1, dtype=torch.float64)
    return torch.full_like(empty, LOWEST), empty, empty.expand(n_q, d_v)


# --- The online softmax --------------------------------------------------------

SCORES = torch.tensor([[2.0, 1, 8, 4, 1, 16]], dtype=torch.float64).log()
VALUES = torch.tensor([[3.0], [1], [4], [1], [5], [9]], dtype=torch.float64)
SUMS = [(2, 1, 3), (2, 1.5, 3.5), (8, 1.375, 4.875), (8, 1.875, 5.375), (8, 2, 6), (16, 2, 12)]


def test_six_numbers_by_hand():
    state = start()
    for t, (largest, total, mixed) in enumerate(SUMS):
        state = online_softmax(*state, SCORES[:, t : t + 1], VALUES[t : t + 1])
        assert [x.item() for x in state] == pytest.approx([math.log(largest), total, mixed])
    assert (state[2] / state[1]).item() == pytest.approx(6)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 2**31), st.floats(-1e5, 1e5))
def test_however_the_scores_are_cut_the_mixture_is_the_softmax_s(sizes, seed, offset):
    n = sum(sizes)
    scores, v, state = double(N_Q, n, seed=seed) * 30 + offset, double(n, D_V, seed=seed + 1), start(N_Q, D_V)
    for some, values in zip(scores.split(sizes, -1), v.split(sizes), strict=True):
        state = online_softmax(*state, some, values)
    m, total, mixed = state
    assert torch.allclose(mixed / total, scores.softmax(-1) @ v, atol=1e-12)
    assert torch.allclose((m + total.log())[:, 0], scores.logsumexp(-1))
    assert (total >= 1).all()  # the largest adds one


def test_a_score_of_minus_infinity_hides_its_value_wherever_it_comes():
    hidden = torch.full((1, 2), -math.inf, dtype=torch.float64)
    for order in ((hidden, SCORES), (SCORES, hidden), (hidden, SCORES[:, :3], hidden, SCORES[:, 3:])):
        state, seen = start(), 0
        for scores in order:
            n = scores.shape[1]
            values = torch.full((n, 1), 1e9).double() if scores is hidden else VALUES[seen : seen + n]
            seen += 0 if scores is hidden else n
            state = online_softmax(*state, scores, values)
        assert (state[2] / state[1]).item() == pytest.approx(6)


# --- Tiles ---------------------------------------------------------------------


def drawn(seed, n_q=N_Q, n_k=N_K):
    shapes = (B, 3, n_q, D_K), (B, 3, n_k, D_K), (B, 3, n_k, D_V)
    return [double(*shape, seed=seed + i).requires_grad_() for i, shape in enumerate(shapes)]


def random_mask(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) > 0.4


MASKS = {
    "none": None,
    "every pair": random_mask(B, 1, N_Q, N_K),
    "padding": random_mask(B, 1, 1, N_K, seed=1),
    "one row": random_mask(N_K, seed=2),
    "nobody": torch.zeros(N_Q, N_K, dtype=torch.bool),
    "some see nothing": random_mask(B, 3, N_Q, N_K, seed=3) & (torch.arange(N_Q) % 2 > 0)[:, None],
}


def both(computed, expected, inputs):
    """The results of two functions and their gradients are equal, to the last digits."""
    mine, theirs = computed(*inputs), expected(*inputs)
    assert torch.allclose(mine, theirs, rtol=0, atol=1e-13)
    g = torch.randn_like(mine)
    for a, b in zip(*(torch.autograd.grad(z, inputs, g) for z in (mine, theirs)), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("size", [1, 4, 5, 64])
def test_tiles_equal_the_whole_forward_and_gradient(mask, size):
    both(
        lambda q, k, v: tiled_attention(q, k, v, mask, size),
        lambda q, k, v: attention(q, k, v, mask)[0],
        drawn(0),
    )


@pytest.mark.parametrize("size", [2, 8])
def test_tiles_agree_with_torch_forward_and_gradient(size):
    both(lambda q, k, v: tiled_attention(q, k, v, None, size), F.scaled_dot_product_attention, drawn(1))


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**31))
def test_a_mask_can_be_a_sentence_about_i_and_j(n, before, window, size, seed):
    def near(i, j):
        return (j <= i + before) & (j > i + before - window)

    mask = near(torch.arange(n)[:, None], torch.arange(n + before))
    both(
        lambda q, k, v: tiled_attention(q, k, v, near, size),
        lambda q, k, v: attention(q, k, v, mask)[0],
        drawn(seed, n, n + before),
    )


def test_tiles_that_are_hidden_are_left_out():
    asked = []

    def causal(i, j):
        asked.append((len(i), len(j)))
        return j <= i

    q, k, v = drawn(2, N_K, N_K)
    with torch.no_grad():
        k[..., 4:, :] = math.nan  # of a tile that no query of the first four may see
        z = tiled_attention(q, k, v, causal, 4)
    assert z[..., :4, :].isfinite().all() and z[..., 4:, :].isnan().all()
    assert len(asked) == 16 and set(asked) == {(4, 4), (4, 1), (1, 4), (1, 1)}


def test_keys_that_all_heads_share_get_the_gradient_of_all_heads():
    q, k, v = drawn(3)
    both(
        lambda q, k, v: tiled_attention(q, k, v, None, 4),
        lambda q, k, v: attention(q, k, v)[0],
        [q, *(x[:, :1].detach().requires_grad_() for x in (k, v))],
    )


def test_the_gradient_is_that_of_small_differences():
    inputs = [x[:1, :1, :3].detach().requires_grad_() for x in drawn(4)]
    assert torch.autograd.gradcheck(lambda q, k, v: tiled_attention(q, k, v, lambda i, j: j <= i, 2), inputs)


def test_large_scores_do_not_overflow():
    q, k, v = drawn(5)
    z = tiled_attention(1e3 * q, 1e3 * k, v, None, 4)
    assert torch.allclose(z, attention(1e3 * q, 1e3 * k, v)[0], atol=1e-12)


@pytest.mark.parametrize("size", [0, -3])
def test_a_tile_without_a_query_is_refused(size):
    with pytest.raises(ValueError, match=f"size={size}"):
        tiled_attention(*drawn(6), None, size)


@pytest.mark.parametrize("wrong", [torch.ones(N_Q, N_K), torch.ones(N_K, N_Q, dtype=torch.bool)])
def test_a_mask_that_cannot_be_used_is_refused(wrong):
    for function in (tiled_attention, linear_attention):
        with pytest.raises(ValueError, match="True when query i may look at key j"):
            function(*drawn(7), wrong)


@pytest.mark.parametrize("wrong", [lambda i, j: (j <= i).double(), lambda i, j: (j <= i).mT])
def test_a_sentence_that_gives_no_mask_is_refused(wrong):
    with pytest.raises(ValueError, match="True when query i may look at key j"):
        tiled_attention(*drawn(7), wrong, 5)


CHILD = """
import sys
import torch
from heed.attention import attention
from heed.scale import tiled_attention

def resident(which):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(which)) / 1024

torch.set_num_threads(1)
compute = {"whole": lambda *x: attention(*x)[0], "tiles": tiled_attention}[sys.argv[1]]
for n in (64, 4096):
    q, k, v = (torch.randn(n, 64, requires_grad=True) for _ in range(3))
    before = resident("VmRSS")
    compute(q, k, v).sum().backward()
print(resident("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system does not tell a peak")
def test_tiles_need_a_tenth_of_the_memory_backwards_too():
    used = {}
    for way in ("whole", "tiles"):
        done = subprocess.run([sys.executable, "-c", CHILD, way], capture_output=True, text=True, check=True)
        used[way] = float(done.stdout)
    assert used["whole"] > 120 and used["tiles"] < used["whole"] / 5, used


# --- Fewer keys and values -------------------------------------------------------

H, D_MODEL = 6, 24


def made(kind, seed=0, **sizes):
    torch.manual_seed(seed)
    layer = kind(D_MODEL, H, **sizes).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return layer


def plain(layer):
    """The plain layer that computes the same: every head with its group's keys and values."""
    twin, group = MultiHeadAttention(D_MODEL, H).double(), H // layer.n_kv_heads
    twin.load_state_dict(
        {
            name: p.unflatten(0, (layer.n_kv_heads, -1)).repeat_interleave(group, 0).flatten(0, 1)
            if name[:3] in ("W_k", "W_v")
            else p
            for name, p in layer.state_dict().items()
        }
    )
    return twin


@pytest.mark.parametrize("n_kv_heads", [1, 2, 3, 6])
def test_groups_are_heads_with_equal_keys_and_values(n_kv_heads):
    layer, x = made(GroupedQueryAttention, n_kv_heads=n_kv_heads), double(B, N_K, D_MODEL)
    twin, mask = plain(layer), causal_mask(N_K)
    mine, theirs = layer(x, x, x, mask), twin(x, x, x, mask)
    assert torch.allclose(mine, theirs, atol=1e-12)
    with torch.no_grad():  # fused
        assert torch.allclose(layer(x, x, x, mask), theirs, atol=1e-12)
        assert torch.allclose(layer(x, x, x), twin(x, x, x), atol=1e-12)
    mine.sum().backward()
    theirs.sum().backward()
    for name in ("W_q", "W_o"):
        assert torch.allclose(getattr(layer, name).weight.grad, getattr(twin, name).weight.grad, atol=1e-10)
    for name in ("W_k", "W_v"):
        of_heads = getattr(twin, name).weight.grad.unflatten(0, (n_kv_heads, H // n_kv_heads, -1))
        mine = getattr(layer, name).weight.grad.unflatten(0, (n_kv_heads, -1))
        assert torch.allclose(mine, of_heads.sum(1), atol=1e-10)


def test_groups_agree_with_torch_s_kernel_for_groups():
    layer, x = made(GroupedQueryAttention, n_kv_heads=2), double(B, N_K, D_MODEL)
    q, (k, v) = layer.queries(x, 0), layer.keys_values(x, x, 0)
    theirs = F.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2).flatten(2)
    assert torch.allclose(layer(x, x, x), layer.W_o(theirs), atol=1e-12)


@pytest.mark.parametrize("n_kv_heads", [1, 2, 3, 6])
def test_the_cache_holds_the_groups_alone(n_kv_heads):
    layer, x, cache = (
        made(GroupedQueryAttention, n_kv_heads=n_kv_heads),
        double(B, 9, D_MODEL),
        GrowingCache(),
    )
    steps = [layer(one, one, one, None, cache) for one in x.split(1, dim=1)]
    assert torch.allclose(torch.cat(steps, 1), layer(x, x, x, causal_mask(9)), atol=1e-12)
    assert [room.shape[:2] for room in cache.room] == [(B, n_kv_heads)] * 2


@pytest.mark.parametrize("n_kv_heads, nearest", [(4, 3), (0, 1), (5, 6), (7, 6), (-2, 1)])
def test_groups_of_unequal_size_are_refused(n_kv_heads, nearest):
    with pytest.raises(ValueError, match=rf"cannot share {n_kv_heads} .*n_kv_heads={nearest}\."):
        GroupedQueryAttention(D_MODEL, H, n_kv_heads=n_kv_heads)


# --- A window --------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 3, 100])
def test_a_window_is_a_band_under_the_diagonal(window):
    layer, x = made(SlidingWindow, window=window), double(B, N_K, D_MODEL)
    with record(layer) as maps:
        layer(x, x, x, causal_mask(N_K))
    near = causal_mask(N_K) & ~causal_mask(N_K).tril(-window)
    assert torch.equal(maps["weights"][0] > 0, near.expand(B, H, -1, -1))
    assert near.sum(-1).tolist() == [min(i + 1, window) for i in range(N_K)]


def test_what_left_the_window_changes_nothing_with_a_cache_too():
    layer, x = made(SlidingWindow, window=3), double(B, 9, D_MODEL)
    other = torch.cat([double(B, 6, D_MODEL), x[:, 6:]], 1)
    for tokens in (x, other):
        cache = GrowingCache()
        steps = torch.cat([layer(one, one, one, None, cache) for one in tokens.split(1, dim=1)], 1)
        assert torch.allclose(steps, layer(tokens, tokens, tokens, causal_mask(9)), atol=1e-12)
        assert torch.allclose(steps[:, -1], layer(x, x, x, causal_mask(9))[:, -1], atol=1e-12)


def test_a_window_without_a_token_is_refused():
    with pytest.raises(ValueError, match="window=0"):
        SlidingWindow(D_MODEL, H, window=0)


# --- A sum -----------------------------------------------------------------------


def test_linear_attention_by_hand():
    q = torch.tensor([[0.0], [1.0]]).double()  # φ: 1 and 2
    k = torch.tensor([[0.0], [2.0]]).double()  # φ: 1 and 3
    v = torch.tensor([[8.0], [4.0]]).double()
    assert torch.allclose(linear_attention(q, k, v), torch.full((2, 1), (8 + 3 * 4) / 4).double())
    causal = linear_attention(q, k, v, causal_mask(2))
    assert torch.allclose(causal, torch.tensor([[8.0], [5.0]]).double())
    assert torch.allclose(positive(torch.tensor([-math.log(4.0), 0.0, 3.0])), torch.tensor([0.25, 1.0, 4.0]))


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_linear_attention_is_a_softmax_of_logarithms(mask):
    def by_logarithms(q, k, v):
        scores = (positive(q) @ positive(k).mT).log()
        hidden = torch.zeros(N_Q, N_K, dtype=torch.bool) if mask is None else ~mask
        nobody = hidden.all(-1, keepdim=True)
        weights = scores.masked_fill(hidden & ~nobody, -math.inf).softmax(-1)
        return (weights @ v).masked_fill(nobody, 0.0)

    both(lambda q, k, v: linear_attention(q, k, v, mask), by_logarithms, drawn(8))


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 2**31))
def test_the_recurrent_form_equals_the_parallel_one_wherever_it_pauses(before, after, seed):
    q, k, v = (double(B, before + after, d, seed=seed + d) for d in (D_K, D_K, D_V))
    first, state = linear_recurrent(*(x[:, :before] for x in (q, k, v)))
    if after:
        second, state = linear_recurrent(*(x[:, before:] for x in (q, k, v)), state)
        first = torch.cat([first, second], dim=1)
    assert torch.allclose(first, linear_attention(q, k, v, causal_mask(before + after)), atol=1e-11)
    assert [part.shape for part in state] == [(B, D_K, D_V), (B, D_K)]


def test_the_layer_computes_the_same_recorded_and_recurrent():
    layer, x = made(LinearAttention), double(B, N_K, D_MODEL)
    causal = layer(x, x, x, causal_mask(N_K))
    with record(layer) as maps:
        assert torch.allclose(layer(x, x, x, causal_mask(N_K)), causal, atol=1e-11)
    assert torch.allclose(maps["weights"][0].sum(-1), torch.ones(B, H, N_K).double())
    q, (k, v) = layer.queries(x, 0), layer.keys_values(x, x, 0)
    z, _ = linear_recurrent(q, k, v)
    assert torch.allclose(layer.W_o(z.transpose(1, 2).flatten(2)), causal, atol=1e-11)


def test_dropout_acts_on_the_weights_in_training_only():
    layer, x = made(LinearAttention, dropout=0.5), double(B, N_K, D_MODEL)
    torch.manual_seed(0)
    assert not torch.allclose(layer(x, x, x), layer(x, x, x))
    layer.eval()
    assert torch.equal(layer(x, x, x), layer(x, x, x))


def rank(q, k):
    """Of the weights before they are divided by their sums."""
    return torch.linalg.matrix_rank(positive(q) @ positive(k).mT), torch.linalg.matrix_rank((q @ k.mT).exp())


def test_the_weights_have_a_rank_of_d_k_at_most_and_those_of_a_softmax_do_not():
    linear, softmax = rank(double(17, 3, seed=0), double(17, 3, seed=1))
    assert linear == 3 and softmax > 12


# --- They learn --------------------------------------------------------------------


class Asker(torch.nn.Module):
    """Pairs, and questions that look back at them."""

    def __init__(self, layer, d=32):
        super().__init__()
        self.names, self.digits, self.first, self.second = (
            torch.nn.Embedding(n, d) for n in (128, 10, 128, 128)
        )
        self.layer, self.read_out = layer, torch.nn.Linear(d, 2 * 10)

    def forward(self, batch):
        asked = self.first(batch.asked[..., 0]) + self.second(batch.asked[..., 1])
        x = torch.cat([self.names(batch.names) + self.digits(batch.digits), asked], dim=1)
        n = asked.shape[1]
        return self.read_out(self.layer(asked, x, x, causal_mask(n, x.shape[1] - n))).unflatten(-1, (2, 10))


LAYERS = {
    "multi-query": lambda: GroupedQueryAttention(32, 4),
    "grouped": lambda: GroupedQueryAttention(32, 4, n_kv_heads=2),
    "window": lambda: SlidingWindow(32, 4, window=12),
    "linear": lambda: LinearAttention(32, 2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_it_learns_to_look_up_four_pairs(name):
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    model = Asker(LAYERS[name]())

    def loss(model, batch):
        return F.cross_entropy(model(batch).flatten(0, -2), batch.answers.flatten())

    train(model, endless(lookups, 32, 4, seed=0), loss, 400, rate=3e-2)
    test = lookups(300, 4, torch.Generator().manual_seed(1))
    with torch.no_grad():
        right = (model(test).argmax(-1) == test.answers).all(-1).double().mean()
    assert right > 0.8, right


def test_groups_can_be_rotated_and_a_shift_changes_nothing():
    class Both(Rotary, GroupedQueryAttention):
        """Grouped, and rotated before the cache."""

    layer, x = made(Both, n_kv_heads=2), double(B, 9, D_MODEL)
    outputs = []
    for before in (0, 1000):
        q = layer.queries(x, before)
        k, v = layer.keys_values(x, x, before)
        assert k.shape[1] == v.shape[1] == 2
        outputs.append(layer.mix(q, k, v, causal_mask(9)))
    assert torch.allclose(*outputs, atol=1e-9)
    assert not torch.allclose(outputs[0], GroupedQueryAttention.mix(layer, *unrotated(layer, x)), atol=1e-3)


def unrotated(layer, x):
    """Queries, keys and values as they are before a rotation; and a mask."""
    k, v = GroupedQueryAttention.keys_values(layer, x, x, 0)
    return MultiHeadAttention.queries(layer, x, 0), k, v, causal_mask(9)
