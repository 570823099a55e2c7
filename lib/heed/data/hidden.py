"""Sentences in which tokens are hidden, to be guessed: what an encoder learns from, without labels."""

from dataclasses import dataclass

import torch

from heed.text import PAD, SPECIAL


@dataclass(frozen=True, eq=False)
class Hidden:
    """Sentences of one training step, and the tokens that must be guessed.

    ids: (b, n), what is read
    target: (b, n), the true id of each token that must be guessed, else PAD
    """

    ids: torch.Tensor
    target: torch.Tensor

    @property
    def n_tokens(self):
        """How many tokens must be guessed."""
        return int((self.target != PAD).sum())


def hide_tokens(ids, vocab, mask, share=0.15, generator=None):
    """Choose tokens to be guessed, and hide most of them from the reader.

    Each real token is chosen with the probability `share`. A chosen one is read
    as the mask token in 80 % of the cases, as a random token in 10 %, and as
    itself in 10 % (Devlin et al. 2019, section 3.1): later there are no masks,
    and the vector of a token that is there must be of use as well.

    ids: (b, n), padded with PAD
    vocab: number of tokens; the random ones are drawn from all but `SPECIAL`
    mask: id of the token that stands for a hidden one
    share: above 0, and at most 1
    generator: of random numbers; torch's own if it is not given

    Returns a `Hidden`. Raises ValueError for a share or a mask that cannot be.
    """
    if not 0 < share <= 1:
        raise ValueError(f"The share of tokens to be guessed is above 0 and at most 1; got {share=}.")
    if not len(SPECIAL) <= mask < vocab:
        raise ValueError(
            f"The mask is a token of its own, from {len(SPECIAL)} to {vocab - 1}, but {mask=}: "
            'Vocabulary(["<mask>", *words]) has one.'
        )

    def draw(high=None):
        if high is None:
            return torch.rand(ids.shape, generator=generator, device=ids.device)
        low = len(SPECIAL)
        return torch.randint(low, high, ids.shape, generator=generator, device=ids.device)

    chosen = (draw() < share) & (ids != PAD)  # (b, n)
    case, others = draw(), draw(vocab)  # (b, n), (b, n)
    read = torch.where(chosen & (case < 0.8), mask, ids)  # (b, n)
    read = torch.where(chosen & (case >= 0.9), others, read)  # (b, n)
    return Hidden(read, torch.where(chosen, ids, PAD))
