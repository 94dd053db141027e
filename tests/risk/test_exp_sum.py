"""The table-driven sum of exponentials against exact sums of the C library's own."""

from __future__ import annotations

import math

import numpy as np
import pytest

import certeq as ce
from certeq.risk._exp_sum import REACH, sum_exp


def _sum_exp(x: np.ndarray, w: np.ndarray | None = None) -> float:
    return sum_exp(x, w, float(np.abs(x).max()))


def _exact(x: np.ndarray, w: np.ndarray | None = None) -> float:
    return math.fsum(np.exp(x) if w is None else w * np.exp(x))


@pytest.mark.parametrize("size", [1, 2, 7999, 8000, 8001, 64_000, 65_537])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_sum_of_exponentials(size: int, weighted: bool) -> None:
    rng = np.random.default_rng(size)
    x = rng.uniform(-REACH, REACH, size)
    w = rng.exponential(size=size) if weighted else None
    assert _sum_exp(x, w) == pytest.approx(_exact(x, w), rel=2e-14)


@pytest.mark.parametrize("part", [0.0, 0.25, 0.4999, 0.5, 0.75])
def test_ties_at_the_worst_place_of_a_cell(part: float) -> None:
    # All losses at one place of their cell: no cancellation among them hides the parabola's error.
    x = (np.arange(-120_000, 120_000, 7) + part) / 8192.0
    assert _sum_exp(x) == pytest.approx(_exact(x), rel=2e-14)


@pytest.mark.parametrize("edge", [-REACH, np.nextafter(REACH, 0), REACH, -REACH - 1e-9, 40.0, -700.0, -np.inf])
def test_at_the_ends_of_the_table_and_beyond(edge: float) -> None:
    x = np.array([edge, 0.5, -3.25])
    assert _sum_exp(x) == pytest.approx(_exact(x), rel=2e-14)


def test_nan_stays_nan() -> None:
    assert math.isnan(_sum_exp(np.array([0.0, np.nan])))


@pytest.mark.parametrize("beta", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("shift", [0.0, 1e5, -1e5])
@pytest.mark.parametrize("spread", [0.01, 1.0, 50.0])
def test_entropic_risk_of_a_long_sample(beta: float, shift: float, spread: float) -> None:
    x = shift + spread * np.random.default_rng(3).normal(size=150_000)
    top = x.max()
    expected = top + math.log(math.fsum(np.exp(beta * (x - top))) / x.size) / beta
    assert ce.oce(x, ce.Entropic(beta)) == pytest.approx(expected, rel=1e-13, abs=1e-13 * spread)
