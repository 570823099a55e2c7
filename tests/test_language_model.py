"""A causal language model made of the library's parts: `fit` trains it, and the cache samples it."""

import random
from itertools import pairwise

import pytest
import torch
from variants import VARIANTS

from heed.attention import MultiHeadAttention
from heed.data import TokenBatches
from heed.decode import greedy, sample
from heed.engine import fit
from heed.loss import language_model_loss
from heed.text import BOS, EOS
from heed.transformer import make_language_model

VOCAB, N = 13, 9


def texts(n=400, seed=0):
    """Texts in which each token is the last one plus a step that the first two show: 5 8 11 5 8 11 …"""
    rng, made = random.Random(seed), []
    for _ in range(n):
        first, step = rng.randrange(9), rng.randrange(1, 4)
        made.append([4 + (first + i * step) % 9 for i in range(N)])
    return made


@pytest.mark.parametrize("kind", [MultiHeadAttention, VARIANTS["Rotary"]])
def test_fit_trains_it_and_the_cache_samples_it(tmp_path, kind):
    torch.manual_seed(0)
    model = make_language_model(VOCAB, 2, 32, 64, 4, 0.0, self_attention=kind)
    made = TokenBatches([([], [BOS, *text, EOS]) for text in texts()], 600)
    fit(model, made, language_model_loss, tmp_path, updates=400, precision="fp32", device="cpu")

    prompts = [[BOS, *text[:2]] for text in texts(50, seed=1)]
    goals = [text[2:] for text in texts(50, seed=1)]
    said = greedy(model, torch.tensor(prompts), n_max=20)
    assert sum(ids == goal for ids, goal in zip(said, goals, strict=True)) > 47
    drawn = sample(model, torch.tensor([[BOS]] * 200), n_max=20)
    steps = [{(b - a) % 9 for a, b in pairwise(ids)} for ids in drawn]
    whole = [ids for ids, step in zip(drawn, steps, strict=True) if step in ({1}, {2}, {3})]
    assert len(whole) > 180 and all({step} in steps for step in (1, 2, 3))
    assert sum(len(ids) == N for ids in whole) > 170
