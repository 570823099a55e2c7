"""The warm-up schedule: the paper's numbers, its peak, its shape, its refusals."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from heed.schedule import inverse_root, noam, trapezoid


def test_on_paper():
    assert math.isclose(noam(4, 100, 4), 0.1 * 0.5)  # at the peak: d^(−½) · warmup^(−½)
    assert math.isclose(noam(1, 100, 4), 0.1 / 8) and math.isclose(noam(16, 100, 4), 0.1 / 4)


def test_the_papers_peak():
    rates = [noam(step, 512, 4000) for step in range(1, 20_000)]
    assert rates.index(max(rates)) == 3999 and math.isclose(max(rates), (512 * 4000) ** -0.5)


def test_it_rises_in_a_line_and_falls_with_the_root():
    assert math.isclose(noam(300, 512, 4000), 3 * noam(100, 512, 4000))
    assert math.isclose(noam(40_000, 512, 4000), noam(10_000, 512, 4000) / 2)
    assert math.isclose(noam(7, 512, 4000, factor=2.0), 2 * noam(7, 512, 4000))


@pytest.mark.parametrize("step, warmup", [(0, 10), (1, 0), (-3, 10)])
def test_refusals(step, warmup):
    with pytest.raises(ValueError, match=rf"step={step}, warmup={warmup}"):
        noam(step, 512, warmup)


def test_the_share_of_the_peak_is_noam_divided_by_its_peak():
    for step in (1, 300, 3999, 4000, 4001, 70_000, 100_000):
        share = noam(step, 512, 4000) / noam(4000, 512, 4000)
        assert math.isclose(inverse_root(step / 100_000, warmup=0.04), share)
    assert inverse_root(0.0, 0.04) == 0.0


@pytest.mark.parametrize("warmup", [0, -0.1, 1.1])
def test_a_share_needs_a_warmup(warmup):
    with pytest.raises(ValueError, match=f"warmup={warmup}"):
        inverse_root(0.5, warmup)


def test_a_run_does_not_begin_before_its_beginning():
    with pytest.raises(ValueError, match="progress=-1"):
        inverse_root(-1, 0.1)


def test_a_trapezoid_on_paper():
    assert [trapezoid(p, 0.25, 0.5) for p in (0, 0.125, 0.25, 0.4, 0.5, 0.75, 1)] == [0, 0.5, 1, 1, 1, 0.5, 0]
    assert [trapezoid(p, 0.2) for p in (0.1, 0.2, 0.6, 1)] == [0.5, 1, 0.5, 0]  # nothing between up and down
    assert trapezoid(0, 0) == trapezoid(1, 0.3, 0) == 1 and trapezoid(0, 0, 0.5) == 1


@given(some.floats(0, 1), some.floats(0, 1), some.floats(0, 1))
def test_a_trapezoid_is_a_share_that_never_jumps(progress, warmup, there):
    later = min(1.0, progress + 1e-6)
    share, next_share = trapezoid(progress, warmup), trapezoid(later, warmup)
    assert 0 <= share <= 1
    steepest = 1e-6 / max(1e-6, min(warmup or 1, 1 - warmup or 1))
    assert abs(next_share - share) <= 1.01 * steepest + 1e-12
    assert trapezoid(progress, warmup, there * (1 - warmup)) >= share


@pytest.mark.parametrize("shares", [(-0.1, 0.5), (1.1, 0.5), (0.5, -0.1), (0.5, 0.7, 0.4), (0.5, 0.1, -0.1)])
def test_shares_that_are_none(shares):
    with pytest.raises(ValueError, match="Shares of a run"):
        trapezoid(*shares)
