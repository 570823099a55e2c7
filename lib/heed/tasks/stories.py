"""Stories of facts: a thing is with a person, a person is on a ship, a ship is in a port. Where is the thing?

A question needs one fact, two or three. In moving stories a thing goes from hand to hand, and the latest
fact counts.
"""

from itertools import pairwise
from typing import NamedTuple

import torch

from heed.tasks.recall import RECALL_NAMES

THINGS = (
    *("axe", "bag", "bell", "book", "comb", "cup", "drum", "fan", "flute", "hat"),
    *("key", "knife", "lamp", "map", "ring", "rope", "shawl", "spoon", "sword", "watch"),
)
PERSONS = RECALL_NAMES[:20]
SHIPS = (
    *("Condor", "Curlew", "Dolphin", "Egret", "Falcon", "Gull", "Heron", "Kestrel", "Marlin", "Orca"),
    *("Osprey", "Otter", "Pelican", "Petrel", "Plover", "Puffin", "Seal", "Swan", "Tern", "Walrus"),
)
PORTS = (
    *("Accra", "Bergen", "Boston", "Busan", "Cadiz", "Dakar", "Genoa", "Havana", "Hobart", "Izmir"),
    *("Kobe", "Lagos", "Lisbon", "Mumbai", "Naples", "Odesa", "Oslo", "Perth", "Riga", "Tunis"),
)
ASKED = ("who?", "ship?", "port?")
STORY_WORDS = (*THINGS, *PERSONS, *SHIPS, *PORTS, *ASKED)
EACH = 20  # things, persons, ships and ports
WHO = 4 * EACH  # the id of "who?"; "ship?" and "port?" follow
SAID = ("The {} is with {}.", "{} is on the {}.", "The {} is in {}.")


class Stories(NamedTuple):
    """Stories, a question about each, and its answer; all words are ids of STORY_WORDS.

    facts: (b, n, 2), the thing and its person, or the person and the ship, or the ship and the port
    questions: (b, 2), "who?", "ship?" or "port?", and a thing
    answers: (b), the person, the ship or the port
    needed: (b), how many facts the answer needs: 1, 2 or 3
    """

    facts: torch.Tensor
    questions: torch.Tensor
    answers: torch.Tensor
    needed: torch.Tensor

    def text(self, i):
        """The sentences of story i, as strings."""
        return [
            SAID[first // EACH].format(STORY_WORDS[first], STORY_WORDS[second])
            for first, second in self.facts[i].tolist()
        ]


def stories(n_stories, n_things, generator, needed=None):
    """Draw stories of 3 * n_things facts, in random order. No person, ship or port has two of anything.

    n_stories: how many stories
    n_things: things in each, from 1 to 20, and as many persons, ships and ports
    generator: a torch.Generator, which decides everything
    needed: how many facts each question needs, 1, 2 or 3; random if left out

    Returns `Stories`. Raises ValueError for fewer things than one or more than there are, and for questions
    that need another number of facts.
    """
    check_things(n_things)
    if needed not in (None, 1, 2, 3):
        raise ValueError(f"{needed=}: a question needs 1, 2 or 3 facts.")
    kinds = [chosen(n_stories, EACH, n_things, generator) + EACH * kind for kind in range(4)]
    facts = torch.cat([torch.stack(pair, dim=-1) for pair in pairwise(kinds)], dim=1)
    row = torch.arange(n_stories)
    facts = facts[row[:, None], chosen(n_stories, 3 * n_things, 3 * n_things, generator)]
    asked = torch.randint(n_things, (n_stories,), generator=generator)
    hops = torch.randint(1, 4, (n_stories,), generator=generator)
    hops = hops if needed is None else torch.full_like(hops, needed)
    answers = torch.stack(kinds, dim=1)[row, hops, asked]
    return Stories(facts, torch.stack([WHO - 1 + hops, kinds[0][row, asked]], dim=-1), answers, hops)


def moving_stories(n_stories, n_things, n_moves, generator):
    """Draw stories in which things go from hand to hand; asked is who has one that was given away.

    First each thing is with a person, then n_moves times a random thing is with another one. The facts stand
    in the order of time, and the last one about a thing counts.

    n_stories: how many stories
    n_things: things in each, from 1 to 20
    n_moves: how often a thing changes hands, 1 or more
    generator: a torch.Generator, which decides everything

    Returns `Stories` with n = n_things + n_moves facts; each question needs one of them.
    Raises ValueError for fewer things than one or more than there are, and where nothing moves.
    """
    check_things(n_things)
    if n_moves < 1:
        raise ValueError(f"{n_moves=}: a thing is asked for that has changed hands, so 1 is the least.")
    things = chosen(n_stories, EACH, n_things, generator)
    holder, row = chosen(n_stories, EACH, n_things, generator), torch.arange(n_stories)
    facts = [*torch.stack([things, EACH + holder], dim=-1).unbind(dim=1)]
    for _ in range(n_moves):
        asked = torch.randint(n_things, (n_stories,), generator=generator)
        step = torch.randint(1, EACH, (n_stories,), generator=generator)  # never back to the same hand
        holder[row, asked] = (holder[row, asked] + step) % EACH
        facts.append(torch.stack([things[row, asked], EACH + holder[row, asked]], dim=-1))
    facts = torch.stack(facts, dim=1)
    moved = torch.randint(n_moves, (n_stories,), generator=generator) + n_things
    thing = facts[row, moved, 0]
    latest = torch.where(facts[..., 0] == thing[:, None], torch.arange(n_things + n_moves), -1).amax(dim=-1)
    questions = torch.stack([torch.full_like(thing, WHO), thing], dim=-1)
    return Stories(facts, questions, facts[row, latest, 1], torch.ones_like(thing))


def chosen(n_stories, among, count, generator):
    """Different numbers from 0 to among - 1, in random order, for each story."""
    return torch.rand(n_stories, among, generator=generator, dtype=torch.float64).argsort(dim=-1)[:, :count]


def check_things(n_things):
    """Raise a ValueError if there are not so many things."""
    if not 1 <= n_things <= EACH:
        raise ValueError(f"{n_things=} is not from 1 to {EACH}: nothing occurs twice in a story.")
