"""Voyages: a list of ports is told once, and must be said again."""

from typing import NamedTuple

import torch

from heed.tasks.stories import PORTS

START, AGAIN = len(PORTS), len(PORTS) + 1
VOYAGE_WORDS = (*PORTS, "start", "again")


class Voyages(NamedTuple):
    """Lists of ports, and how they are told; all words are ids of VOYAGE_WORDS.

    told: (b, n + 2), "start", the ports, "again"
    ports: (b, n), what must then be said
    """

    told: torch.Tensor
    ports: torch.Tensor


def voyages(n_voyages, n_ports, generator):
    """Draw voyages. Every port is equally likely at every place.

    n_voyages: how many voyages
    n_ports: ports in each, 1 or more
    generator: a torch.Generator, which decides everything

    Returns `Voyages`. Raises ValueError for a voyage without a port.
    """
    if n_ports < 1:
        raise ValueError(f"{n_ports=}: a voyage has one port or more.")
    ports = torch.randint(len(PORTS), (n_voyages, n_ports), generator=generator)
    ends = torch.tensor([START, AGAIN]).expand(n_voyages, 2)
    return Voyages(torch.cat([ends[:, :1], ports, ends[:, 1:]], dim=1), ports)


def short_voyages(n_voyages, n_longest, generator):
    """`voyages` that all have one length, drawn from 1 to n_longest."""
    n_ports = int(torch.randint(1, n_longest + 1, (), generator=generator))
    return voyages(n_voyages, n_ports, generator)
