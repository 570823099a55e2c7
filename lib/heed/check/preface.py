"""Checks of chapter 00."""

import torch

from heed.attention import expectation
from heed.check import NotYet, exercise, expect, expect_close, without


@exercise
@without(expectation)
def weighted_mean(yours):
    """the rows are mixed, each with its own weight, once for each row of weights"""
    weights, values = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([[1.0, 0.0], [0.0, 10.0], [5.0, 5.0]])
    each = weights[:, None] * values
    typical = {
        "All rows count the same here, so the weights have no say.": values.mean(dim=0),
        "The rows are summed without their weights.": values.sum(dim=0),
        "The weights sum to one already; dividing by n makes the mean n times too small.": each.mean(dim=0),
        "The rows are weighted but not summed yet: the result should have shape (d,).": each,
        "This sums each row's own numbers. The sum goes over the rows, which is axis 0.": each.sum(dim=1),
    }
    expect_close(yours(weights, values), weights @ values, "the mean", typical)
    kept = torch.equal(yours.given[1], values)
    expect(kept, "The mean is right, but `values` itself was changed on the way.")
    weights, values = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25]), torch.arange(20.0).reshape(5, 4)
    typical = {"Right for three rows, but n may be any number: here it is 5.": weights[:3] @ values[:3]}
    expect_close(yours(weights, values), weights @ values, "the mean of five rows", typical)
    weights = torch.stack([weights, weights.flip(0)])  # (m, n): two rows of weights
    each = weights[..., None] * values
    typical = {
        "With m rows of weights, too, the sum goes over the rows of `values`: dim=-2.": each.sum(dim=0),
    }
    expect_close(several(yours, weights, values), weights @ values, "the result for two rows", typical)


def several(yours, weights, values):
    """The answer to several rows of weights, or the sentence that it takes one row only."""
    try:
        return yours(weights, values)
    except (IndexError, RuntimeError, TypeError, ValueError):
        sentence = "Right for one row of weights, but `weights` may also be m rows, of shape (m, n)."
        raise NotYet(sentence) from None
