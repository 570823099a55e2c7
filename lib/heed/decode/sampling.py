"""Sampling: the next token is drawn, from probabilities without the unlikely ones."""

import random

import torch

from heed.decode.search import generate


def sample(model, source, temperature=1.0, top_k=None, top_p=1.0, seed=0, n_max=None):
    """At each step a token drawn at random from `truncated` probabilities.

    model, source, n_max: as for `greedy`
    temperature, top_k, top_p: as for `truncated`
    seed: the same seed and the same source give the same sentences

    Returns b lists of ids, as `greedy` does. Raises ValueError for numbers that
    leave nothing to draw from.
    """
    check_draw(temperature, top_k, top_p)
    own = random.Random(f"{seed} {source.tolist()}")  # not as another batch
    generator = torch.Generator(source.device)
    generator.manual_seed(own.getrandbits(63))

    def draw(logits):
        p = truncated(logits, temperature, top_k, top_p)
        return torch.multinomial(p, 1, generator=generator)[:, 0]

    return generate(model, source, n_max, draw)


def check_draw(temperature, top_k, top_p):
    """Raise a ValueError for numbers that leave nothing to draw from."""
    if not temperature > 0:
        raise ValueError(f"The temperature divides the scores, so it must be above 0; it is {temperature}.")
    if top_k is not None and top_k < 1:
        raise ValueError(f"At least one token must be left to draw from, but {top_k=}.")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p is a share of the probability, above 0 and at most 1; it is {top_p}.")


def truncated(logits, temperature=1.0, top_k=None, top_p=1.0):
    """The probabilities to draw the next token from, without the unlikely ones.

        p = softmax(logits / temperature)

    Only these are kept, and made to sum to one again: the top_k likeliest
    (Fan et al. 2018), and of them the fewest that reach a sum of top_p, the
    likeliest first (nucleus sampling, Holtzman et al. 2020).

    logits: (b, vocab)

    Returns (b, vocab).
    """
    p = (logits.float() / temperature).softmax(dim=-1)  # (b, vocab)
    p, ids = p.sort(descending=True)  # (b, vocab), (b, vocab)
    if top_k is not None:
        p[:, top_k:] = 0.0
    if top_p < 1:
        before = p.cumsum(dim=-1) - p  # (b, vocab)
        enough = before >= top_p * p.sum(dim=-1, keepdim=True)  # (b, vocab)
        p = p.masked_fill(enough, 0.0)  # (b, vocab)
    p = p / p.sum(dim=-1, keepdim=True)  # (b, vocab)
    return torch.zeros_like(p).scatter(-1, ids, p)  # (b, vocab)
