"""From pairs of id lists to tensors: padding, shifting, and an endless stream of batches."""

import random
from dataclasses import dataclass

import torch

from heed.text import PAD


@dataclass(frozen=True, eq=False)
class Batch:
    """Sentences of one training step; each row padded with PAD to the longest.

    source: (b, n_source)
    target: (b, n_target), BOS … EOS
    """

    source: torch.Tensor
    target: torch.Tensor

    @property
    def target_in(self):
        """What the decoder reads: not the last column, (b, n_target - 1)."""
        return self.target[:, :-1]

    @property
    def target_out(self):
        """What the decoder must say: not BOS, (b, n_target - 1)."""
        return self.target[:, 1:]

    @property
    def source_mask(self):
        """True at real source tokens, (b, n_source)."""
        return self.source != PAD

    @property
    def target_mask(self):
        """True where a prediction counts, (b, n_target - 1): not at PAD."""
        return self.target_out != PAD

    @property
    def n_tokens(self):
        """How many predictions count: the words and EOS, not BOS and PAD."""
        return int(self.target_mask.sum())


def pad(sequences):
    """Write id lists of different lengths as the rows of a tensor, padded.

    sequences: b lists of ids; an empty list is a row of PAD

    Returns a LongTensor (b, n), where n is the longest length.
    Raises ValueError if there is no list at all.
    """
    if not sequences:
        raise ValueError("pad needs at least one sequence, got none")
    n = max(map(len, sequences))
    rows = [[*row, *[PAD] * (n - len(row))] for row in sequences]
    return torch.tensor(rows, dtype=torch.long)


def pad_batch(pairs):
    """Make one Batch of pairs (source ids, target ids), in their order."""
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    return Batch(pad(sources), pad(targets))


def batches(pairs, size, seed, pool=1):
    """An endless stream of batches: all pairs in a random order, then all in another order, and so on.

    pairs: pairs (source ids, target ids), each target with its BOS and EOS
    size: pairs in a batch; one batch of a round may be smaller, the last one where nothing is sorted
    seed: the same seed gives the same stream
    pool: how many batches are drawn at a time, sorted by length among themselves, cut and shuffled; so each
        of them holds sentences of like length, and less of it is padding. 1 leaves them as they are drawn

    Returns an iterator of Batch. Raises ValueError if there is no pair, or `size` or `pool` is below 1.
    """
    pairs = list(pairs)
    if not pairs:
        raise ValueError("batches needs at least one pair, got none")
    if size < 1 or pool < 1:
        raise ValueError(f"a batch holds at least one pair, and a pool one batch, but {size=}, {pool=}")
    return _rounds(pairs, size, pool, random.Random(seed))


def _rounds(pairs, size, pool, rng):
    while True:
        order = rng.sample(pairs, len(pairs))
        for start in range(0, len(order), size * pool):
            drawn = order[start : start + size * pool]
            if pool > 1:
                drawn.sort(key=lambda pair: (len(pair[0]), len(pair[1])))
            cuts = [drawn[i : i + size] for i in range(0, len(drawn), size)]
            rng.shuffle(cuts)
            yield from map(pad_batch, cuts)
