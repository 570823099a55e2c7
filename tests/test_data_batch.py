"""data.batch: padding, the shifted target, masks, and the stream of batches."""

from itertools import islice

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from heed.data import Batch, batches, pad, pad_batch
from heed.text import BOS, EOS, PAD

PAIRS = [([4, 5, 6], [BOS, 7, EOS]), ([8], [BOS, 9, 10, 11, EOS])]
TEN = [([i], [BOS, i, EOS]) for i in range(4, 14)]


def rows(batch):
    return [tuple(row) for row in batch.source.tolist()]


# --- by hand -----------------------------------------------------------------------------------------------


def test_pad_by_hand():
    assert pad([[4, 5, 6], [], [7]]).tolist() == [[4, 5, 6], [PAD, PAD, PAD], [7, PAD, PAD]]
    assert pad([[], []]).shape == (2, 0)
    assert pad([[], []]).dtype == pad([[1]]).dtype == torch.long


def test_a_batch_by_hand():
    batch = pad_batch(PAIRS)
    assert batch.source.tolist() == [[4, 5, 6], [8, 0, 0]]
    assert batch.target.tolist() == [[BOS, 7, EOS, 0, 0], [BOS, 9, 10, 11, EOS]]
    assert batch.target_in.tolist() == [[BOS, 7, EOS, 0], [BOS, 9, 10, 11]]
    assert batch.target_out.tolist() == [[7, EOS, 0, 0], [9, 10, 11, EOS]]
    assert batch.source_mask.tolist() == [[True, True, True], [True, False, False]]
    assert batch.target_mask.tolist() == [[True, True, False, False], [True, True, True, True]]
    assert batch.n_tokens == 6


def test_an_empty_source_is_a_row_of_padding():
    batch = pad_batch([([], [BOS, EOS]), ([4], [BOS, 5, EOS])])
    assert batch.source.tolist() == [[PAD], [4]]
    assert not batch.source_mask[0].any()


def test_a_batch_is_frozen():
    with pytest.raises(AttributeError):
        pad_batch(PAIRS).source = None


# --- properties --------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(1, 99), max_size=7), min_size=1, max_size=5))
def test_padding_can_be_taken_off_again(sequences):
    padded = pad(sequences)
    assert padded.shape == (len(sequences), max(map(len, sequences)))
    for row, sequence in zip(padded.tolist(), sequences, strict=True):
        assert row[: len(sequence)] == sequence and set(row[len(sequence) :]) <= {PAD}


@given(st.integers(1, 13), st.integers(1, 4), st.integers(0, 99))
def test_every_round_holds_every_pair_once(size, pool, seed):
    n_batches = -(-len(TEN) // size)
    stream = batches(TEN, size, seed, pool)
    rounds = [list(islice(stream, n_batches)) for _ in range(2)]
    for batch_list in rounds:
        assert sorted(row for batch in batch_list for row in rows(batch)) == [(i,) for i in range(4, 14)]
        assert sum(len(batch.source) < size for batch in batch_list) <= 1
        assert pool > 1 or all(len(batch.source) == size for batch in batch_list[:-1])


def test_a_pool_is_sorted_by_length_and_its_batches_come_in_any_order():
    """Four pairs of each length: in a sorted pool of all sixteen, a batch of two knows one length."""
    pairs = [([i] * n, [BOS, *[i] * n, EOS]) for n in (1, 2, 3, 4) for i in range(4, 8)]
    first = list(islice(batches(pairs, 2, seed=0, pool=8), 8))
    assert all(batch.source_mask.all() for batch in first)
    lengths = [batch.source.shape[1] for batch in first]
    assert sorted(lengths) == [1, 1, 2, 2, 3, 3, 4, 4] and lengths != sorted(lengths)
    drawn = list(islice(batches(pairs, 2, seed=0), 8))
    assert not all(batch.source_mask.all() for batch in drawn)
    half = list(islice(batches(pairs, 2, seed=0, pool=4), 8))  # a pool holds the pairs of four drawn batches
    for start in (0, 4):
        pooled, plain = (
            sorted(tuple(filter(None, row)) for batch in part[start : start + 4] for row in rows(batch))
            for part in (half, drawn)
        )
        assert pooled == plain


def test_equal_sources_are_sorted_by_the_target():
    pairs = [([4], [BOS, *[5] * n, EOS]) for n in (1, 2, 1, 2, 1, 2, 1, 2)]
    assert all(batch.target_mask.all() for batch in islice(batches(pairs, 2, seed=1, pool=4), 8))


def test_rounds_differ_and_pairs_stay_together():
    stream = batches(TEN, 10, seed=0)
    first, second = next(stream), next(stream)
    assert rows(first) != rows(second)
    assert torch.equal(first.source[:, 0], first.target[:, 1])


def test_the_seed_decides_and_the_global_state_is_left_alone():
    import random

    random.seed(3)
    before = random.getstate()
    one, same, other = (next(batches(TEN, 10, seed)) for seed in (1, 1, 2))
    assert torch.equal(one.source, same.source)
    assert not torch.equal(one.source, other.source)
    assert random.getstate() == before


def test_the_list_given_is_not_shuffled():
    pairs = list(TEN)
    from_list = next(batches(pairs, 3, seed=0))
    assert pairs == TEN
    from_generator = next(batches((pair for pair in pairs), 3, seed=0))
    assert torch.equal(from_list.source, from_generator.source)


# --- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: pad([]), "pad needs at least one sequence, got none"),
        (lambda: batches([], 3, seed=0), "batches needs at least one pair, got none"),
        (lambda: batches(TEN, 0, seed=0), "at least one pair, and a pool one batch, but size=0, pool=1"),
        (lambda: batches(TEN, 3, seed=0, pool=0), "but size=3, pool=0"),
        (lambda: pad_batch([]), "pad needs at least one sequence, got none"),
    ],
)
def test_bad_arguments_are_refused_at_once(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_batch_is_what_the_stream_gives():
    assert isinstance(next(batches(TEN, 3, seed=0)), Batch)
