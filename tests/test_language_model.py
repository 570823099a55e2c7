"""Language models of the library's parts: `fit` trains one, the cache samples it; another fills gaps."""

import random
from itertools import pairwise

import pytest
import torch
from torch.nn import functional as F
from variants import VARIANTS

from heed.attention import MultiHeadAttention
from heed.data import TokenBatches, hide_tokens
from heed.decode import greedy, sample
from heed.engine import fit
from heed.loss import language_model_loss, masked_language_model_loss
from heed.text import BOS, EOS
from heed.train import train
from heed.transformer import MaskedLanguageModel, TokenClassifier, make_language_model

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


MASK = VOCAB  # one token more


def untrained():
    torch.manual_seed(0)
    return make_language_model(VOCAB + 1, 2, 32, 64, 4, 0.0, MaskedLanguageModel)


def steps(ids):
    """The label of every token: the step of its text, which no token shows alone."""
    return ((ids[:, 1] - ids[:, 0]) % 9 - 1)[:, None].expand(-1, N)


def label_loss(tagger, ids):
    return F.cross_entropy(tagger(ids).flatten(0, 1), steps(ids).flatten())


def test_a_masked_model_learns_to_fill_gaps_and_then_needs_few_labels():
    model = untrained()
    ids, generator = torch.tensor(texts(2000)), torch.Generator().manual_seed(0)

    def hidden():
        while True:
            chosen = torch.randint(len(ids), (64,), generator=generator)
            yield hide_tokens(ids[chosen], VOCAB + 1, MASK, 0.3, generator)

    def loss(model, batch):
        return masked_language_model_loss(model, batch) / batch.n_tokens

    train(model, hidden(), loss, 600, rate=5e-3)
    new = torch.tensor(texts(200, seed=1))
    with torch.no_grad():
        filled = model.generator(model(new.index_fill(1, torch.tensor([4]), MASK)))[:, 4].argmax(-1)
    assert (filled == new[:, 4]).double().mean() > 0.95

    few, right = ids[:20], {}
    for name, start in (("read", model), ("not read", untrained())):
        tagger = TokenClassifier(start, 3)
        train(tagger, iter(lambda: few, None), label_loss, 100, rate=2e-3)
        with torch.no_grad():
            right[name] = (tagger(new).argmax(-1) == steps(new)).double().mean().item()
    assert right["read"] > 0.97 > 0.9 > right["not read"]
