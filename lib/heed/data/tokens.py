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
    """All pairs, cut into batches of sentences of like length, differently in each epoch.

    A batch of b sentences has at most n_tokens positions on either side, padding included:
    b × (longest source) ≤ n_tokens, and b × (longest target, BOS … EOS) ≤ n_tokens.

    pairs: pairs (source ids, target ids), each target with its BOS and EOS; a source may be empty
    n_tokens: the most positions on one side of a batch, padding included
    seed: together with the number of an epoch it decides everything random

    `lengths` holds (source length, target length) for each pair.
    Raises ValueError if there is no pair, if a target lacks BOS or EOS, or if a pair is longer than a batch.
    """

    def __init__(self, pairs, n_tokens, seed=0):
        self.pairs, self.n_tokens, self.seed = list(pairs), n_tokens, seed
        self.lengths = [(len(source), len(target)) for source, target in self.pairs]
        if not self.pairs:
            raise ValueError("batches need at least one pair, got none")
        for i, (_, target) in enumerate(self.pairs):
            if len(target) < 2 or target[0] != BOS or target[-1] != EOS:
                raise ValueError(f"target {i} is not BOS … EOS: encode it with bos=True, eos=True")
        for i, (n_source, n_target) in enumerate(self.lengths):
            if max(n_source, n_target) > n_tokens:
                raise ValueError(
                    f"pair {i} has {n_source} source and {n_target} target tokens, a batch holds {n_tokens}: "
                    f"leave the pair out, or let n_tokens be {max(n_source, n_target)} or more"
                )

    def epoch(self, k):
        """The batches of epoch k: lists of indices into `pairs`, each index in one of them.

        Sorted by the longer side, and then, with some noise, by how much longer the target is; cut where a
        batch is full; and then the batches are shuffled. The same seed and k give the same epoch.
        """
        rng = random.Random(f"{self.seed} {k}")
        keys = [(max(s, t), t - s + NOISE * rng.random()) for s, t in self.lengths]
        plan = [[]]
        for i in sorted(range(len(keys)), key=keys.__getitem__):
            widest = max(self.lengths[i])  # of all in this batch, for none before was longer
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
        """What rank, or micro-batch, i of n computes of a batch: every n-th index from i on.

        The parts together are the batch, each row once. Where a batch has fewer rows than there are parts,
        some parts are empty.
        """
        return indices[i::n]

    def padding(self):
        """The share of padding, as a Padding: with these batches, and with such as do not look at lengths."""
        plan = self.epoch(0)
        order = random.Random(f"{self.seed}").sample(range(len(self.pairs)), len(self.pairs))
        return Padding(self._share(plan), self._share([order[i :: len(plan)] for i in range(len(plan))]))

    def _share(self, plan):
        size = sum(len(rows) * max(self.lengths[i][side] for i in rows) for rows in plan for side in (0, 1))
        return 1 - sum(map(sum, self.lengths)) / size
