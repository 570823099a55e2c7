"""Checks of chapter 00."""

import torch

from heed.check import exercise, expect_close


@exercise
def weighted_mean(yours):
    """the rows are mixed, each with its own weight"""
    weights, values = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([[1.0, 0.0], [0.0, 10.0], [5.0, 5.0]])
    true, n = weights @ values, len(weights)
    expect_close(
        yours(weights, values),
        true,
        "the mean",
        typical={
            "All rows count the same here, so the weights have no say.": values.mean(dim=0),
            "The weights sum to one already; dividing by n makes the mean n times too small.": true / n,
            "The rows are weighted but not summed yet: the result should have shape (d,).": weights[:, None]
            * values,
        },
    )
