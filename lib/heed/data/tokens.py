"""Batches by tokens: every step gets as much work, and little of it is padding.

A batch is as wide as its longest sentence; of 64 sentences of Multi30k taken at random, half is padding. Here
sentences of like length go together, and a batch is full when its rectangles are: many short sentences, or a
few long ones.
"""

import random
from typing import NamedTuple

from heed.data.batch import pad_batch
from heed.text import BOS, EOS

# More noise, more padding; less noise, and the same sentences meet again and again. Multi30k in batches of
# 2,500 tokens, noise 0, 4, 1000: padding takes 3, 6, 8 % of the positions, and two sentences that meet in one
# epoch meet in the next with probability 0.5, 0.2, 0.1.
NOISE = 4.0


class Padding(NamedTuple):
    """Which share of all the rectangles is padding, source and target together, between 0 and 1.

    by_length: in the batches of the first epoch
    at_random: if the same pairs stood in as many batches of equal size, in random order
    """

    by_length: float
    at_random: float


class TokenBatches:
    """All pairs in batches of like length, cut differently in each epoch.

    pairs: (source ids, target ids) each, a target with its BOS and EOS
    n_tokens: for b pairs in a batch, b × (longest source or target) at most
    seed: together with the number of an epoch it decides everything random
    """

    def __init__(self, pairs, n_tokens, seed=0):
        self.pairs, self.n_tokens, self.seed = list(pairs), n_tokens, seed
        self.lengths = [(len(s), len(t)) for s, t in self.pairs]
        check_lengths(self.pairs, n_tokens)

    def epoch(self, k):
        """The batches of epoch k, shuffled: lists of indices into `pairs`."""
        rng = random.Random(f"{self.seed} {k}")
        keys = [(max(s, t), t - s + NOISE * rng.random()) for s, t in self.lengths]
        plan = [[]]
        for i in sorted(range(len(keys)), key=keys.__getitem__):
            widest = max(self.lengths[i])  # none in this batch is longer
            if (len(plan[-1]) + 1) * widest > self.n_tokens:
                plan.append([])
            plan[-1].append(i)
        rng.shuffle(plan)
        return plan

    def batch(self, indices):
        """The Batch of the pairs with these indices, in this order."""
        return pad_batch([self.pairs[i] for i in indices])

    @staticmethod
    def part(indices, i, n):
        """Part i of n of a batch; some are empty if it has fewer rows."""
        return indices[i::n]

    def padding(self):
        return padding(self)


def check_lengths(pairs, n_tokens):
    """Refuse what cannot stand in batches of so many tokens.

    Raises ValueError if there is no pair, if a target lacks BOS or EOS, or if a
    pair is longer than a batch.
    """
    if not pairs:
        raise ValueError("batches need at least one pair, got none")
    for i, (_, target) in enumerate(pairs):
        if len(target) < 2 or target[0] != BOS or target[-1] != EOS:
            raise ValueError(f"target {i} is not BOS … EOS: encode it with bos=True, eos=True")
    for i, (source, target) in enumerate(pairs):
        n_source, n_target = len(source), len(target)
        if max(n_source, n_target) > n_tokens:
            raise ValueError(
                f"pair {i} has {n_source} source and {n_target} target tokens, a batch holds {n_tokens}: "
                f"leave the pair out, or let n_tokens be {max(n_source, n_target)} or more"
            )


def padding(batches):
    """The share of padding in the first epoch, and in random batches instead.

    batches: a TokenBatches

    Returns a Padding.
    """
    plan, n = batches.epoch(0), len(batches.pairs)
    order = random.Random(f"{batches.seed}").sample(range(n), n)
    at_random = [order[i :: len(plan)] for i in range(len(plan))]
    return Padding(share_of_padding(plan, batches.lengths), share_of_padding(at_random, batches.lengths))


def share_of_padding(plan, lengths):
    """The share of all positions, on both sides, that hold padding.

    plan: batches, as lists of indices into `lengths`
    lengths: (source length, target length) for each pair
    """
    size = sum(len(rows) * max(lengths[i][side] for i in rows) for rows in plan for side in (0, 1))
    return 1 - sum(map(sum, lengths)) / size
