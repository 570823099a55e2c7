"""data.points: hulls by hand, against Qhull, properties."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.tri import Triangulation

from heed.tasks import endless, hulls, point_batch, point_sets


def qhull(points):
    """The edges of the hull by Qhull: those of a triangulation that have a triangle on one side alone."""
    mesh = Triangulation(*points.T.numpy())
    sides = zip(*(mesh.neighbors == -1).nonzero(), strict=True)
    return {frozenset((int(mesh.triangles[i, j]), int(mesh.triangles[i, (j + 1) % 3]))) for i, j in sides}


def closed(row):
    return [i for i in row.tolist() if i >= 0]


def test_the_four_points_on_paper():
    x = torch.tensor([[[0.0, 1.0], [4.0, 0.0], [2.0, 2.0], [3.0, 5.0]]])
    assert hulls(x).tolist() == [[0, 1, 3, 0]]
    assert hulls(-x).tolist() == [[1, 3, 0, 1]]


@pytest.mark.parametrize("n", [3, 5, 12, 30])
def test_the_edges_are_those_of_qhull(n):
    batch = point_sets(100, n, seed=n)
    for x, y in zip(batch.x, batch.y, strict=True):
        path = closed(y)
        assert {frozenset(edge) for edge in pairwise(path)} == qhull(x)


@settings(max_examples=50)
@given(st.integers(0, 2**31), st.integers(3, 15))
def test_a_hull_starts_at_the_left_turns_left_and_contains_all(seed, n):
    x = point_sets(1, n, seed).x[0]
    path = closed(hulls(x[None])[0])
    assert path[0] == path[-1] == int(x[:, 0].argmin()) and len(set(path)) == len(path) - 1
    for i, j in pairwise(path):
        side = x[j] - x[i]
        assert (side[0] * (x[:, 1] - x[i, 1]) - side[1] * (x[:, 0] - x[i, 0]) >= -1e-12).all()


def test_a_row_is_what_it_would_be_alone():
    batch = point_sets(20, 9, seed=0)
    for x, y in zip(batch.x, batch.y, strict=True):
        assert closed(hulls(x[None])[0]) == closed(y)


def test_another_order_of_the_points_is_the_same_hull():
    x, order = point_sets(1, 11, seed=3).x, torch.randperm(11, generator=torch.Generator().manual_seed(0))
    assert [int(order[i]) for i in closed(hulls(x[:, order])[0])] == closed(hulls(x)[0])


def test_equal_seeds_give_equal_sets_and_streams_of_the_asked_sizes():
    assert torch.equal(point_sets(3, 7, 5).x, point_sets(3, 7, 5).x)
    assert not torch.equal(point_sets(3, 7, 5).x, point_sets(3, 7, 6).x)
    one, two = endless(point_batch, 2, (5, 8), seed=1), endless(point_batch, 2, (5, 8), seed=1)
    sizes = set()
    for _ in range(40):
        batch = next(one)
        assert torch.equal(batch.x, next(two).x) and len(batch.x) == 2
        sizes.add(batch.x.shape[1])
    assert sizes == {5, 6, 7, 8}


def test_too_few_points_and_points_that_coincide_are_refused():
    with pytest.raises(ValueError, match="n_points=2"):
        point_sets(1, 2, 0)
