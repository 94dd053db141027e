"""Splitting at kinks is exact: costs of ordered segments are the costs themselves, and no other filling is cheaper."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certeq.portfolio._problem import split

numbers = st.floats(-2.0, 2.0)


@given(st.lists(st.tuples(numbers, numbers, numbers, numbers), min_size=1, max_size=6))
def test_fold_undoes_unfold_and_costs_agree(rows: list[tuple[float, float, float, float]]) -> None:
    a, b, previous, w = np.array(rows).T
    lower, upper = np.minimum(a, b), np.maximum(a, b)
    w = np.clip(w, lower, upper)
    segments = split(lower, upper, [previous, np.zeros(len(w))])
    v = segments.unfold(w)
    assert np.all(v >= segments.lower)
    assert np.all(v <= segments.upper)
    np.testing.assert_allclose(segments.fold(v), w, atol=1e-15)
    scale = np.linspace(0.5, 2.0, len(w))
    slopes, constant = segments.distance(scale, previous)
    assert slopes @ v + constant == pytest.approx(scale @ np.abs(w - previous), abs=1e-12)
    assert segments.part(1.0) @ v == pytest.approx(np.maximum(w, 0.0).sum(), abs=1e-12)
    assert segments.part(-1.0) @ v == pytest.approx(np.maximum(-w, 0.0).sum(), abs=1e-12)


@given(st.integers(0, 10**6))
def test_no_filling_is_cheaper(seed: int) -> None:
    rng = np.random.default_rng(seed)
    previous = rng.uniform(-1, 1, 3)
    segments = split(np.full(3, -1.0), np.full(3, 1.0), [previous, np.zeros(3)])
    v = rng.uniform(segments.lower, segments.upper)
    w = segments.fold(v)
    slopes, constant = segments.distance(np.ones(3), previous)
    assert slopes @ v + constant >= np.abs(w - previous).sum() - 1e-12


def test_bounds_may_be_infinite_and_kinks_outside_them_are_ignored() -> None:
    segments = split(np.array([-np.inf, 0.0, 1.0]), np.array([np.inf, np.inf, 1.0]), [np.array([0.5, -1.0, np.nan])])
    assert segments.asset.tolist() == [0, 0, 1, 2]
    assert segments.lower.tolist() == [-np.inf, 0.0, 0.0, 1.0]
    assert segments.upper.tolist() == [0.5, np.inf, np.inf, 1.0]
    np.testing.assert_allclose(segments.unfold(np.array([-3.0, 2.0, 1.0])), [-3.0, 0.0, 2.0, 1.0])
    np.testing.assert_allclose(segments.unfold(np.array([0.7, 2.0, 1.0])), [0.5, 0.2, 2.0, 1.0])
