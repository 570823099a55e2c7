"""tasks.voyages and tasks.pictures: lists of ports to be said again, pictures of five things."""

from itertools import islice

import pytest
import torch

from heed.tasks import (
    PICTURES,
    PORTS,
    THINGS,
    VOYAGE_WORDS,
    endless,
    pictures,
    short_voyages,
    torn,
    voyages,
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_voyage_is_told_between_start_and_again():
    told, ports = voyages(5, 3, seeded())
    assert told.shape == (5, 5) and torch.equal(told[:, 1:-1], ports)
    assert {VOYAGE_WORDS[i] for i in told[:, 0].tolist()} == {"start"}
    assert {VOYAGE_WORDS[i] for i in told[:, -1].tolist()} == {"again"}
    assert len(set(VOYAGE_WORDS)) == len(PORTS) + 2


def test_every_port_is_equally_frequent_at_every_place():
    _, ports = voyages(40000, 2, seeded())
    for place in ports.unbind(dim=1):
        share = place.bincount(minlength=len(PORTS)) / len(place)
        assert torch.allclose(share, torch.full_like(share, 1 / len(PORTS)), atol=0.005)


def test_short_voyages_have_every_length_up_to_the_longest():
    lengths = {drawn.ports.shape for drawn in islice(endless(short_voyages, 2, 4, seed=0), 60)}
    assert lengths == {(2, n) for n in range(1, 5)}


def test_the_seed_decides_and_no_batch_comes_again():
    first, second = islice(endless(voyages, 3, 6, seed=1), 2)
    assert not torch.equal(first.ports, second.ports)
    assert torch.equal(first.told, next(endless(voyages, 3, 6, seed=1)).told)


def test_a_voyage_without_a_port_is_refused():
    with pytest.raises(ValueError, match="n_ports=0: a voyage has one port or more"):
        voyages(2, 0, seeded())


def test_pictures_are_of_things_and_unlike_one_another():
    X = pictures()
    assert X.shape == (5, 144) and set(X.unique().tolist()) == {-1.0, 1.0}
    assert set(PICTURES) < set(THINGS)
    overlaps = (X @ X.T / 144).fill_diagonal_(0)
    assert overlaps.abs().max() < 0.45


def test_a_torn_picture_has_its_upper_half():
    X = pictures()
    half = torn(X)
    assert torch.equal(half[:, :72], X[:, :72]) and (half[:, 72:] == 0).all()
