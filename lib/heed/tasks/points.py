"""Sets of random points and their convex hulls, as positions of the points: an exact answer of any length.

The hull is found by gift wrapping, for all sets of a batch at once; tests hold it against Qhull.
"""

import math
from dataclasses import dataclass

import torch

NOTHING = -1  # fills the rest of a row whose hull is shorter than the longest of the batch


@dataclass(frozen=True, eq=False)
class PointBatch:
    """Sets of points, all of one size, and the positions that are to be written.

    x: (b, n, d_in)
    y: (b, n_target), positions 0 … n−1; NOTHING after the end of a row
    """

    x: torch.Tensor
    y: torch.Tensor


def hulls(x):
    """The corners of each convex hull, counter-clockwise, as positions of the input.

    Gift wrapping (Jarvis 1973): start at the leftmost point, go on to the point that needs the smallest turn
    to the left, and stop when the first point is reached again; it is written a second time.

    x: (b, n, 2), n ≥ 3 points in general position

    Returns positions (b, n_target), NOTHING after the end of a row.
    """
    b, n, _ = x.shape
    row = torch.arange(b)
    first = x[..., 0].argmin(dim=1)  # (b)
    here, going = first, x.new_full((b,), -math.pi / 2)  # looking down: all others lie to the left
    found, closed = [first], torch.zeros(b, dtype=torch.bool)
    while not closed.all():
        ahead = x - x[row, here][:, None]  # (b, n, 2)
        angle = torch.atan2(ahead[..., 1], ahead[..., 0]) - going[:, None]  # (b, n)
        turn = angle.remainder(2 * math.pi)
        turn[row, here] = torch.inf
        here = turn.argmin(dim=1)  # (b)
        going = going + turn[row, here]
        found.append(here.masked_fill(closed, NOTHING))
        closed = closed | (here == first)
        if len(found) > n + 1:
            raise ValueError("hulls needs points in general position: no two equal, no three on a line")
    return torch.stack(found, dim=1)


def point_sets(n_sets, n_points, seed):
    """Draw sets of points from the unit square, evenly, with their hulls.

    n_sets: how many
    n_points: points in each
    seed: the same seed gives the same sets

    Returns a PointBatch. Raises ValueError for fewer than three points.
    """
    if n_points < 3:
        raise ValueError(f"{n_points=}: a hull needs three points")
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(n_sets, n_points, 2, generator=generator, dtype=torch.float64)
    return PointBatch(x.to(torch.get_default_dtype()), hulls(x))


def point_batch(size, n_points, generator):
    """`point_sets` with a number of points and a seed that are drawn: one of an endless stream of batches.

    size: sets in the batch
    n_points: the fewest and the most points in a set
    generator: a torch.Generator, which decides everything
    """
    low, high = n_points
    n = int(torch.randint(low, high + 1, (), generator=generator))
    return point_sets(size, n, int(torch.randint(2**31, (), generator=generator)))
