"""Small documents with a question each: who has bought something of which colour?

Every sentence has the same six words: when, who, did, a, colour, thing. Nobody occurs twice in a document.
"""

from dataclasses import dataclass

import torch

PEOPLE = ("anna", "ben", "carla", "david", "emma", "felix", "greta", "henry", "ida", "jonas", "klara", "leo")
COLOURS = ("red", "blue", "green", "white", "black", "yellow", "brown", "grey")
TIMES = ("today", "yesterday", "recently", "finally")
VERBS = ("bought", "found", "sold", "lost")
THINGS = ("hat", "coat", "cup", "chair", "lamp", "bag")
WORDS = (*PEOPLE, *COLOURS, *TIMES, *VERBS, "a", *THINGS)


@dataclass(frozen=True, eq=False)
class Documents:
    """Documents, a question about each, and its answer.

    words: (b, n_sentences, 6), ids of WORDS
    who: (b), ids of WORDS: the person who is asked about
    colour: (b), indices of COLOURS: what is right
    """

    words: torch.Tensor
    who: torch.Tensor
    colour: torch.Tensor

    def text(self, i):
        """The sentences of document i, as strings."""
        return [" ".join(WORDS[w] for w in sentence) for sentence in self.words[i].tolist()]


def documents(n, n_sentences, seed):
    """Draw n documents with their questions; every colour is equally likely in every sentence.

    n_sentences: sentences in each, as many as there are people at most
    seed: the same seed gives the same documents

    Raises ValueError for more sentences than people.
    """
    if not 1 <= n_sentences <= len(PEOPLE):
        raise ValueError(f"{n_sentences=} must be from 1 to {len(PEOPLE)}: nobody occurs twice")
    generator = torch.Generator().manual_seed(seed)

    def drawn(choices):
        return torch.randint(len(choices), (n, n_sentences), generator=generator)

    who = torch.rand(n, len(PEOPLE), generator=generator).argsort(dim=1)[:, :n_sentences]
    colour = drawn(COLOURS)
    parts = [
        *(drawn(TIMES) + WORDS.index(TIMES[0]), who, drawn(VERBS) + WORDS.index(VERBS[0])),
        *(torch.full_like(who, WORDS.index("a")), colour + WORDS.index(COLOURS[0])),
        drawn(THINGS) + WORDS.index(THINGS[0]),
    ]
    row, asked = torch.arange(n), torch.randint(n_sentences, (n,), generator=generator)
    return Documents(torch.stack(parts, dim=-1), who[row, asked], colour[row, asked])


def document_batch(size, n_sentences, generator):
    """`documents` with a seed that is drawn: one of an endless stream of batches."""
    return documents(size, n_sentences, int(torch.randint(2**31, (), generator=generator)))
