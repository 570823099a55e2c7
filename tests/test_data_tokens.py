"""data.tokens: batches by tokens keep their budget, hold each pair once, and differ from epoch to epoch."""

import os
import random
import time
from itertools import combinations, pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from heed.data import TokenBatches, multi30k
from heed.text import BOS, EOS, PAD


def pair(n_source, n_target):
    """A pair with that many tokens; the first source token tells its lengths apart."""
    return [5 + n_source] * n_source, [BOS, *[7] * (n_target - 2), EOS]


def drawn(n, seed=0):
    rng = random.Random(seed)
    return [pair(rng.randint(0, 31), rng.randint(2, 29)) for _ in range(n)]


LENGTHS = st.tuples(st.integers(0, 17), st.integers(2, 17))
PAIRS = st.lists(LENGTHS, min_size=1, max_size=41).map(lambda lengths: [pair(*n) for n in lengths])
MANY = drawn(997)


# --- by hand -----------------------------------------------------------------------------------------------


def test_a_plan_by_hand():
    """Room for 12: 2, 2, 2 and 3 take 4 × 3 places, one more 3 would make it 15; 2 × 6 fits; 7 is alone."""
    lengths = [(6, 2), (2, 2), (0, 3), (1, 7), (2, 2), (3, 2), (0, 2)]
    plan = TokenBatches([pair(*n) for n in lengths], 12).epoch(0)
    assert sorted(map(sorted, plan)) == [[0, 2], [1, 4, 5, 6], [3]]


def test_the_budget_holds_on_both_sides():
    wide_sources = TokenBatches([pair(6, 2)] * 5, 13)
    wide_targets = TokenBatches([pair(2, 6)] * 5, 13)
    assert sorted(map(len, wide_sources.epoch(0))) == sorted(map(len, wide_targets.epoch(0))) == [1, 2, 2]


def test_lengths_are_known_without_tensors():
    assert TokenBatches([pair(3, 5), pair(0, 2)], 7).lengths == [(3, 5), (0, 2)]


def test_parts_by_hand():
    part = TokenBatches(MANY, 101).part
    assert [part([9, 8, 7, 6, 5], i, 2) for i in (0, 1)] == [[9, 7, 5], [8, 6]]
    assert [part([9, 8], i, 3) for i in (0, 1, 2)] == [[9], [8], []]


def test_padding_by_hand():
    """Ten places for each two of like length; at random a short and a long pair may share 16 places."""
    batches = TokenBatches([pair(1, 2), pair(3, 4)] * 2, 8)
    assert sorted(map(sorted, batches.epoch(0))) == [[0, 2], [1, 3]]
    assert batches.padding().by_length == 0
    at_random = {TokenBatches(batches.pairs, 8, seed).padding().at_random for seed in range(16)}
    assert at_random == {0, 1 - 20 / 28}
    one_batch = TokenBatches([pair(1, 2), pair(3, 4), pair(0, 4)], 99)
    assert one_batch.padding() == pytest.approx((1 - 14 / 21,) * 2)


# --- agrees with torch -------------------------------------------------------------------------------------


def test_a_batch_is_what_torch_pads():
    batches = TokenBatches(MANY, 331)
    for rows in batches.epoch(3):
        batch = batches.batch(rows)
        for tensor, side in ((batch.source, 0), (batch.target, 1)):
            lists = [torch.tensor(MANY[i][side], dtype=torch.long) for i in rows]
            assert torch.equal(tensor, pad_sequence(lists, batch_first=True, padding_value=PAD))


# --- two derivations agree ---------------------------------------------------------------------------------


def test_the_gradient_of_the_parts_sums_to_that_of_the_batch():
    torch.manual_seed(0)
    table = torch.randn(37, 11, dtype=torch.float64, requires_grad=True)
    batches = TokenBatches(MANY, 229)

    def gradient(parts):
        table.grad = None
        for batch in map(batches.batch, parts):
            sources = (table[batch.source] * batch.source_mask[..., None]).sum(1, keepdim=True)
            logits = (table[batch.target_in] + sources) @ table.T
            F.cross_entropy(logits.mT, batch.target_out, ignore_index=PAD, reduction="sum").backward()
        return table.grad

    rows = batches.epoch(0)[1]
    whole = gradient([rows])
    for n in (2, 3):
        parts = gradient([batches.part(rows, i, n) for i in range(n)])
        assert torch.allclose(parts, whole, rtol=0, atol=1e-10)


# --- properties --------------------------------------------------------------------------------------------


@given(PAIRS, st.integers(17, 97), st.integers(0, 5), st.integers(0, 5))
def test_every_pair_once_and_never_more_places_than_allowed(pairs, n_tokens, seed, k):
    batches = TokenBatches(pairs, n_tokens, seed)
    plan = batches.epoch(k)
    assert sorted(i for rows in plan for i in rows) == list(range(len(pairs)))
    for rows in plan:
        batch = batches.batch(rows)
        assert batch.source.numel() <= n_tokens and batch.target.numel() <= n_tokens


@given(PAIRS, st.integers(17, 97))
def test_no_batch_ends_before_it_is_full(pairs, n_tokens):
    """Sorted by their widest pair, the first pair of a batch would not have fitted into the one before."""
    batches = TokenBatches(pairs, n_tokens)
    widths = [[max(batches.lengths[i]) for i in rows] for rows in batches.epoch(0)]
    widths.sort(key=lambda batch: (max(batch), min(batch), -len(batch)))
    for before, after in pairwise(widths):
        assert max(before) <= min(after)
        assert (len(before) + 1) * min(after) > n_tokens or before[0] == after[0]


@given(PAIRS, st.integers(1, 7))
def test_the_parts_are_the_batch_each_row_once(pairs, n):
    batches = TokenBatches(pairs, 97)
    for rows in batches.epoch(0):
        parts = [batches.part(rows, i, n) for i in range(n)]
        assert sorted(i for part in parts for i in part) == sorted(rows)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_an_epoch_is_a_pure_function_of_seed_and_number():
    random.seed(3)
    before = random.getstate()
    batches = TokenBatches(MANY, 229, seed=1)
    third = batches.epoch(3)
    batches.epoch(4)
    assert batches.epoch(3) == third == TokenBatches(MANY, 229, seed=1).epoch(3)
    assert random.getstate() == before
    assert third != TokenBatches(MANY, 229, seed=2).epoch(3)


def test_the_same_sentences_meet_in_other_batches():
    rng = random.Random(0)
    targets = [rng.randint(5, 19) for _ in range(997)]
    batches = TokenBatches([pair(n + rng.randint(-3, 3), n) for n in targets], 229)

    def met(k):
        return {two for rows in batches.epoch(k) for two in combinations(sorted(rows), 2)}

    first, second = met(0), met(1)
    assert len(first & second) < 0.5 * len(first)


def test_short_and_long_batches_take_turns():
    widths = [max(len(side) for i in rows for side in MANY[i]) for rows in TokenBatches(MANY, 229).epoch(0)]
    rising = sum(a <= b for a, b in pairwise(widths))
    assert 0.3 < rising / len(widths) < 0.8


def test_sorting_by_length_saves_most_of_the_padding():
    padding = TokenBatches(MANY, 331).padding()
    assert padding.by_length < 0.6 * padding.at_random


def test_a_generator_is_read_once():
    assert TokenBatches((p for p in MANY), 229).epoch(0) == TokenBatches(MANY, 229).epoch(0)


@pytest.mark.skipif("HEED_DATA" not in os.environ, reason="HEED_DATA does not name a folder with Multi30k")
def test_multi30k_in_batches_of_2500():
    """Counted in words and not in sub-words, which is quicker and nearly the same."""
    lengths = [(len(german.split()), len(english.split()) + 2) for german, english, _ in multi30k("train")]
    batches = TokenBatches([pair(*n) for n in lengths], 2500)
    padding = batches.padding()
    assert padding.by_length < 0.08 and padding.at_random > 0.5, padding
    start = time.process_time()
    batches.epoch(1)
    assert time.process_time() - start < 0.5


# --- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: TokenBatches([], 7), "at least one pair, got none"),
        (
            lambda: TokenBatches([pair(3, 3), pair(11, 2)], 7),
            "pair 1 has 11 source and 2 target tokens, a batch holds 7: leave the pair out, .* 11 or more",
        ),
        (lambda: TokenBatches([pair(3, 13)], 7), "pair 0 has 3 source and 13 target tokens, a batch holds 7"),
        (lambda: TokenBatches([pair(3, 3), ([5], [BOS, 5])], 7), "target 1 is not BOS … EOS: encode it with"),
        (lambda: TokenBatches([([5], [5, EOS])], 7), "target 0 is not BOS … EOS"),
        (lambda: TokenBatches([([5], [])], 7), "target 0 is not BOS … EOS"),
        (lambda: TokenBatches(MANY, 331).batch([]), "pad needs at least one sequence, got none"),
    ],
)
def test_bad_arguments_are_refused_at_once(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
