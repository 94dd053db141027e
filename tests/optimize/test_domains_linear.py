"""Linear minimization, gaps, starts and diameters."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings

from certeq.optimize.domains import (
    Ball,
    Box,
    CappedSimplex,
    Free,
    L1Ball,
    LongShort,
    NonNegative,
    Polyhedron,
    Product,
    Simplex,
    UnboundedError,
)
from tests.optimize.test_domains import BOUNDED, CASES, D, constraints, each_bounded, each_case, points, solve


@each_bounded
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_minimizer_agrees_with_a_linear_program(domain):
    g = np.random.default_rng(8).normal(size=D)
    v = domain.minimize_linear(g)
    assert domain.violation(v) <= 1e-12
    np.testing.assert_allclose(g @ v, g @ solve(domain, lambda u: g @ u), atol=1e-7)


@each_bounded
@settings(max_examples=25, deadline=None)
@given(g=points, x=points)
def test_minimizer_and_gap_properties(domain, g, x):
    theta = domain.project(x)
    v = domain.minimize_linear(g)
    assert domain.violation(v) <= 1e-12
    gap = domain.support_gap(theta, g)
    assert gap >= -1e-12
    np.testing.assert_allclose(gap, g @ theta - g @ v, atol=1e-9)
    assert abs(domain.support_gap(v, g)) <= 1e-10
    assert g @ v <= g @ domain.start(D) + 1e-12


@each_case
@settings(max_examples=15, deadline=None)
@given(x=points)
def test_projection_has_gap_zero(domain, x):
    theta = domain.project(x)
    # x - theta is in the normal cone at theta, so the linear problem is bounded even over an unbounded set; on one
    # of those rounding may tilt it off the cone, which the gap reports as infinite.
    gap = domain.support_gap(theta, theta - x)
    assert gap <= 1e-10 or (domain.diameter(D) == np.inf and gap == np.inf)


@pytest.mark.parametrize("domain", [Simplex(), CappedSimplex(0, 0.4), LongShort(1.3, 0.3)])
def test_gap_keeps_its_digits_under_an_offset_of_g(domain):
    g = np.array([1.0, 1.25, 2, 3, 4, 5])
    theta = domain.project([5.0, 4, 3, 2, 1, 0])
    np.testing.assert_allclose(domain.support_gap(theta, g + 2.0**40), domain.support_gap(theta, g), rtol=1e-9)


def test_tiny_gaps_are_seen():
    g = np.array([0.0, 1e-14, 1.0]) + 1.0
    assert Simplex().support_gap([0.5, 0.5, 0.0], g) == pytest.approx(0.5e-14, rel=0.02)
    n = np.array([0.6, 0.8])
    tilted = -np.array([0.6 * np.cos(1e-8) - 0.8 * np.sin(1e-8), 0.8 * np.cos(1e-8) + 0.6 * np.sin(1e-8)])
    assert Ball().support_gap(tilted, n) == pytest.approx(0.5e-16, rel=1e-3)  # 1 - cos(1e-8)
    assert L1Ball().support_gap([0.0, -1 + 1e-12], [0.0, 1.0]) == pytest.approx(1e-12, rel=1e-3)


def test_a_budget_off_by_more_than_rounding_counts():
    assert Simplex().support_gap([0.5 + 1e-10, 0.5], [2.0, 2.0]) == pytest.approx(2e-10, rel=1e-4)


def test_gap_refuses_an_infeasible_point():
    with pytest.raises(ValueError, match=r"sum of theta is 2.0, must be 1.0"):
        Simplex().support_gap([1.0, 1.0], [1.0, 2.0])


@pytest.mark.parametrize(
    "domain, g, direction",
    [
        (Free(), [0.0, -2.0, 1.0], [0, 1, 0]),
        (NonNegative(), [0.0, 1.0, -1.0], [0, 0, 1]),
        (Box(-np.inf, 1.0), [0.0, 1.0, -1.0], [0, -1, 0]),
        (CappedSimplex(-np.inf, np.inf), [0.0, 1.0, -1.0], [0, -1, 1]),
        (Product([Simplex(), Free()], [2, 1]), [0.0, 1.0, -1.0], [0, 0, 1]),
        (Polyhedron(0.0, np.inf, A=[[1.0, -1.0, 0.0]], b=[1.0]), [-1.0, 0.5, 1.0], [1, 1, 0]),
    ],
)
def test_unbounded_names_the_direction(domain, g, direction):
    with pytest.raises(UnboundedError, match="unbounded below") as caught:
        domain.minimize_linear(g)
    np.testing.assert_allclose(caught.value.direction, direction, atol=1e-9)
    assert domain.support_gap(domain.start(3), g) == np.inf


def test_bounded_minimum_over_unbounded_sets():
    np.testing.assert_array_equal(NonNegative().minimize_linear([1.0, 0.0]), [0, 0])
    np.testing.assert_array_equal(Free().minimize_linear([0.0, 0.0]), [0, 0])
    v = CappedSimplex(-np.inf, np.inf, total=2.0).minimize_linear([3.0, 3.0, 3.0])
    assert v.sum() == 2.0
    # Only theta[0] may sink and only theta[1] may rise, and rising is the dearer.
    domain = CASES["mixed-infinite"]
    v = domain.minimize_linear([0.0, 5.0, 1.0, 2.0, 3.0, 4.0])
    assert domain.contains(v)
    u = cp.Variable(D)
    best = cp.Problem(cp.Minimize(np.array([0.0, 5, 1, 2, 3, 4]) @ u), constraints(domain, u)).solve(solver=cp.CLARABEL)
    assert np.array([0.0, 5, 1, 2, 3, 4]) @ v == pytest.approx(best, abs=1e-6)


@each_case
def test_start_is_in_the_relative_interior(domain):
    start = domain.start(D)
    assert domain.violation(start) <= 1e-14
    # From a relatively interior point a segment to any other point goes on a little beyond it.
    for x in np.random.default_rng(9).normal(size=(5, D)):
        other = domain.project(x)
        assert domain.violation(start + 1e-3 * (start - other)) <= 1e-12


@pytest.mark.parametrize("name", BOUNDED)
def test_diameter_bounds_every_distance(name):
    domain = BOUNDED[name]
    rng = np.random.default_rng(10)
    far = max(np.linalg.norm(domain.minimize_linear(g) - domain.minimize_linear(-g)) for g in rng.normal(size=(40, D)))
    assert far <= domain.diameter(D) * (1 + 1e-12)
    if name in ("simplex", "l1", "ball", "long-short-zero"):
        assert far >= 0.99 * domain.diameter(D)


def test_single_points():
    for domain, point in (
        (Simplex(0.0), np.zeros(3)),
        (Box(2.0, 2.0), np.full(3, 2.0)),
        (CappedSimplex(0, 1 / 3), np.full(3, 1 / 3)),
        (CappedSimplex([1.0, 0, 0], [1.0, 0, 0]), np.array([1.0, 0, 0])),
        (CappedSimplex(0.1, 1.0, total=0.3), np.full(3, 0.1)),
        (LongShort(0.0, 0.0), np.zeros(3)),
        (Ball(0.0, center=[1.0, 2, 3]), np.array([1.0, 2, 3])),
        (L1Ball(0.0), np.zeros(3)),
        (Polyhedron([0.0, 0, 0], 1.0, C=np.eye(3), c=[0.2, 0.3, 0.4]), np.array([0.2, 0.3, 0.4])),
        (Polyhedron([0.5, 0.5, 0.0], [0.5, 0.5, 0.0], C=np.ones((1, 3)), c=1.0), np.array([0.5, 0.5, 0])),
    ):
        for x in (np.array([5.0, -3, 1]), np.zeros(3), point):
            np.testing.assert_allclose(domain.project(x), point, atol=1e-15)
        np.testing.assert_allclose(domain.start(3), point, atol=1e-12)
        np.testing.assert_allclose(domain.minimize_linear([1.0, -1, 0]), point, atol=1e-15)
        assert domain.support_gap(point, [1.0, -1, 0]) == pytest.approx(0.0, abs=1e-12)


def test_ten_times_a_tenth_is_not_empty():
    domain = CappedSimplex(0, 0.1)
    np.testing.assert_allclose(domain.project(np.arange(10.0)), np.full(10, 0.1), rtol=1e-15)


def test_minimizer_at_a_million():
    g = np.random.default_rng(11).normal(size=10**6)
    domain = CappedSimplex(0, 1e-5)
    v = domain.minimize_linear(g)
    assert domain.violation(v) <= 1e-14
    assert domain.support_gap(v, g) <= 1e-15
