"""Every set, against an independent solver and against what projections must satisfy."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pyproximal
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from certeq.optimize.domains import (
    Ball,
    Box,
    CappedSimplex,
    Domain,
    Free,
    L1Ball,
    LongShort,
    NonNegative,
    Polyhedron,
    Product,
    Simplex,
    project_simplex,
)

D = 6
_RNG = np.random.default_rng(20)
_A = _RNG.normal(size=(4, D))
_C = _RNG.normal(size=(2, D))

CASES: dict[str, Domain] = {
    "simplex": Simplex(),
    "simplex-total": Simplex(2.5),
    "box": Box([-1.0, 0, 0, -2, 0.1, -np.inf], [1.0, 1, 0, 3, 0.2, 0.5]),
    "capped": CappedSimplex(0.05, 0.4),
    "capped-short": CappedSimplex(-0.3, 0.6),
    "capped-negative": CappedSimplex([-1, -2, -3, -1, -1, -1], [0, 0, 0.5, 1, 2, -0.5], total=-2.0),
    "capped-half-infinite": CappedSimplex(-np.inf, 0.4),
    "hyperplane": CappedSimplex(-np.inf, np.inf, total=3.0),
    "mixed-infinite": CappedSimplex([-np.inf, 0, 0, -1, 0, 0], [1, np.inf, 1, 1, 1, 1]),
    "long-short": LongShort(1.3, 0.3),
    "long-short-bounds": LongShort(1.2, 0.4, lower=-0.2, upper=0.5),
    "long-short-forced": LongShort(1.2, 0.4, lower=[0.1, -1, -1, -1, -1, -0.9], upper=[0.6, 1, 1, 1, 1, -0.2]),
    "long-short-zero": LongShort(1.0, 0.0),
    "ball": Ball(1.5),
    "ball-center": Ball(0.7, center=[1.0, 2, 3, 0, 0, -1]),
    "l1": L1Ball(1.5),
    "l1-center": L1Ball(0.7, center=[1.0, 2, 3, 0, 0, -1]),
    "nonnegative": NonNegative(),
    "free": Free(),
    "product": Product([Simplex(), Ball(2.0), Box(-1.0, 1.0)], sizes=[3, 2, 1]),
    "polyhedron": Polyhedron(-1.0, 2.0, C=_C, c=_C @ np.full(D, 0.3), A=_A, b=_A @ np.full(D, 0.3) + 0.1),
    "polyhedron-simplex": Simplex().as_polyhedron(D),
    "polyhedron-redundant": Polyhedron(
        0.0, 1.0, C=np.vstack((np.ones(D), 2 * np.ones(D))), c=[1.0, 2.0], A=np.vstack((_A, _A)), b=np.full(8, 1.0)
    ),
    "polyhedron-cone": Polyhedron(-np.inf, np.inf, A=_A, b=np.zeros(4)),
}
BOUNDED = {name: s for name, s in CASES.items() if np.isfinite(s.diameter(D))}
each_case = pytest.mark.parametrize("domain", CASES.values(), ids=CASES.keys())
each_bounded = pytest.mark.parametrize("domain", BOUNDED.values(), ids=BOUNDED.keys())
points = arrays(np.float64, D, elements=st.floats(-5, 5, allow_subnormal=False))


def constraints(domain: Domain, v: cp.Variable) -> list[cp.Constraint]:
    """State the set in cvxpy's own words."""
    match domain:
        case Simplex():
            return [v >= 0, cp.sum(v) == domain.total]
        case Box():
            return finite_bounds(domain, v)
        case CappedSimplex():
            return [*finite_bounds(domain, v), cp.sum(v) == domain.total]
        case LongShort():
            a, b = domain.long, domain.short
            return [*finite_bounds(domain, v), cp.sum(v) == a - b, cp.norm1(v) <= a + b]
        case Ball():
            return [cp.norm2(v - domain.middle(v.size)) <= domain.radius]
        case L1Ball():
            return [cp.norm1(v - domain.middle(v.size)) <= domain.radius]
        case NonNegative():
            return [v >= 0]
        case Free():
            return []
        case Product():
            stops = np.cumsum(domain.sizes)
            parts = zip(domain.domains, stops - domain.sizes, stops, strict=True)
            return [c for part, i, j in parts for c in constraints(part, v[i:j])]
        case Polyhedron():
            rows = [domain.C @ v == domain.c] if domain.c.size else []
            rows += [domain.A @ v <= domain.b] if domain.b.size else []
            return finite_bounds(domain, v) + rows
    raise AssertionError(domain)


def finite_bounds(domain: Domain, v: cp.Variable) -> list[cp.Constraint]:
    lower, upper = domain.bounds(v.size)
    low, high = np.flatnonzero(np.isfinite(lower)), np.flatnonzero(np.isfinite(upper))
    return ([v[low] >= lower[low]] if low.size else []) + ([v[high] <= upper[high]] if high.size else [])


def solve(domain: Domain, objective) -> np.ndarray:
    v = cp.Variable(D)
    problem = cp.Problem(cp.Minimize(objective(v)), constraints(domain, v))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    assert problem.status in ("optimal", "optimal_inaccurate")
    return v.value


@each_case
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_projection_agrees_with_a_quadratic_program(domain):
    rng = np.random.default_rng(1)
    for scale in (0.3, 3.0):
        x = scale * rng.normal(size=D)
        expected = solve(domain, lambda v, x=x: cp.sum_squares(v - x))
        np.testing.assert_allclose(domain.project(x), expected, atol=2e-6)


@each_case
@settings(max_examples=25, deadline=None)
@given(x=points, y=points, z=points)
def test_projection_properties(domain, x, y, z):
    px, py, pz = domain.project(x), domain.project(y), domain.project(z)
    assert domain.violation(px) <= 1e-12
    assert domain.contains(px)
    np.testing.assert_allclose(domain.project(px), px, atol=1e-12)  # idempotent
    assert np.linalg.norm(px - py) <= np.linalg.norm(x - y) + 1e-12  # nonexpansive
    for v in (py, pz, domain.start(D)):
        assert (x - px) @ (v - px) <= 1e-10  # the variational inequality that characterizes the projection


@each_case
def test_batch_equals_loop(domain):
    x = 2 * np.random.default_rng(3).normal(size=(3, 4, D))
    kept = x.copy()
    batch = domain.project(x)
    loop = np.array([[domain.project(row) for row in rows] for rows in x])
    np.testing.assert_allclose(batch, loop, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(x, kept)
    assert batch.dtype == np.float64
    assert domain.contains(batch)
    assert domain.project(np.empty((0, D))).shape == (0, D)
    assert not np.shares_memory(domain.project(domain.start(D)), domain.start(D))


@each_case
def test_the_result_is_never_the_argument(domain):
    x = domain.start(D)
    assert not np.shares_memory(domain.project(x), x)


def test_against_pyproximal():
    rng = np.random.default_rng(4)
    for _ in range(5):
        x = 3 * rng.normal(size=20)
        for ours, theirs in (
            (Simplex(2.0), pyproximal.Simplex(20, 2.0, engine="numpy", maxiter=300, xtol=1e-14)),
            (Box(-1.0, 0.5), pyproximal.Box(-1.0, 0.5)),
            (L1Ball(1.5), pyproximal.L1Ball(20, 1.5, maxiter=300, xtol=1e-14)),
            (Ball(1.5), pyproximal.EuclideanBall(np.zeros(20), 1.5)),
            (NonNegative(), pyproximal.Box(0.0, np.inf)),
        ):
            np.testing.assert_allclose(ours.project(x), theirs.prox(x.copy(), 1.0), atol=1e-7)


@pytest.mark.parametrize("d", [1, 2, 7, 1000, 1_000_000])
@pytest.mark.parametrize("offset", [0.0, 1e9, -1e9, 1e15])
def test_budgets_are_met_to_a_few_ulps(d, offset):
    x = np.random.default_rng(d).normal(size=d) + offset
    for domain in (Simplex(), CappedSimplex(0, max(1.0, 3 / d)), CappedSimplex(-3 / d, 5 / d)):
        p = domain.project(x)
        assert abs(p.sum() - 1.0) <= 8 * np.finfo(float).eps * np.abs(p).sum()
        assert domain.violation(p) <= 8 * np.finfo(float).eps * np.abs(p).sum()
        # Only differences of x count, and these are exact in floating point once the offset is gone.
        np.testing.assert_allclose(p, domain.project(x - offset), rtol=0, atol=1e-15 if d < 10**6 else 1e-14)


def test_ties_share_alike():
    np.testing.assert_array_equal(Simplex().project(np.full(7, 1e9)), np.full(7, Simplex().project(np.zeros(7))[0]))
    np.testing.assert_allclose(Simplex().project(np.full(10**6, 3.0)), 1e-6, rtol=1e-12)
    np.testing.assert_array_equal(CappedSimplex(0, 0.5).project([5.0, 5, 1, 1]), [0.5, 0.5, 0, 0])
    np.testing.assert_allclose(CappedSimplex(0, 0.5).project([5.0, 1, 1, 1]), [0.5, 1 / 6, 1 / 6, 1 / 6], atol=1e-16)


def test_hard_simplex_has_small_weights_right():
    # One entry takes nearly all, and a million ties just above the threshold share the rest: each gets low - tau, a
    # difference of two numbers near 1 that tau alone, rounded, would get wrong in the sixth digit.
    n, low = 10**6, -(1.0 - 2.0**-14)
    x = np.concatenate(([0.0], np.full(n, low)))
    tau = (n * low - 1.0) / (n + 1)
    p = Simplex().project(x)
    exact = (1.0 + low) / (n + 1)  # low - tau, without the cancellation
    np.testing.assert_allclose(p[1:], exact, rtol=1e-9)
    assert abs(p[0] + tau) < 1e-12
    assert abs(math.fsum(p) - 1) < 1e-15


@settings(max_examples=50, deadline=None)
@given(x=arrays(np.float64, st.integers(1, 12), elements=st.floats(-1e6, 1e6)), total=st.floats(0, 1e3))
def test_the_two_simplex_algorithms_and_the_capped_one_agree(x, total):
    by_newton, by_sort = project_simplex(x, total), project_simplex(x[None], total)[0]
    capped = CappedSimplex(0.0, np.inf, total).project(x)
    np.testing.assert_allclose(by_newton, by_sort, rtol=0, atol=1e-13 * max(1.0, total))
    np.testing.assert_allclose(by_newton, capped, rtol=0, atol=1e-13 * max(1.0, total))


def exact_capped_simplex(x, lower, upper, total):
    """Solve in rational arithmetic, with no rounding at all."""
    x, lower, upper = ([Fraction(float(v)) for v in a] for a in (x, lower, upper))
    total = Fraction(float(total))
    breaks = sorted([a - b for a, b in zip(x, lower, strict=True)] + [a - b for a, b in zip(x, upper, strict=True)])

    def clipped(tau):
        return [min(max(a - tau, low), high) for a, low, high in zip(x, lower, upper, strict=True)]

    k = max(i for i in range(len(breaks) - 1) if i == 0 or sum(clipped(breaks[i])) >= total)
    at, after = sum(clipped(breaks[k])), sum(clipped(breaks[k + 1]))
    tau = breaks[k] if at == after else breaks[k] + (at - total) * (breaks[k + 1] - breaks[k]) / (at - after)
    return np.array([float(v) for v in clipped(tau)])


@pytest.mark.parametrize("batched", [False, True])
def test_clusters_of_any_offset_against_rational_arithmetic(batched):
    rng = np.random.default_rng(13)
    for _ in range(150):
        d = int(rng.integers(2, 10))
        x = rng.choice([0, 1e9, -1e9, 1e4, 2e9], size=d) + np.round(rng.normal(size=d), int(rng.integers(0, 9)))
        lower = -rng.random(d) * rng.integers(0, 2)
        upper = lower + rng.random(d) + 0.01
        total = float(lower.sum() + rng.random() * (upper - lower).sum())
        for domain in (Simplex(), CappedSimplex(lower, upper, total)):
            p = domain.project(x[None])[0] if batched else domain.project(x)
            bounds = (np.zeros(d), np.full(d, 2.0)) if isinstance(domain, Simplex) else (lower, upper)
            np.testing.assert_allclose(p, exact_capped_simplex(x, *bounds, domain.total), rtol=0, atol=2e-15)


def test_degenerate_polyhedra():
    # Small whole coefficients and many constraints through one point: dependent normals everywhere.
    rng = np.random.default_rng(14)
    for _ in range(150):
        d = int(rng.integers(1, 12))
        inside = np.round(rng.normal(size=d), 1)
        A = rng.integers(-2, 3, size=(int(rng.integers(1, 12)), d)).astype(float)
        C = rng.integers(-2, 3, size=(int(rng.integers(1, d // 2 + 2)), d)).astype(float)
        lower = np.where(rng.random(d) < 0.5, inside - rng.choice([0, 1.0], size=d), -np.inf)
        upper = np.where(rng.random(d) < 0.5, inside + rng.choice([0, 1.0], size=d), np.inf)
        p = Polyhedron(lower, upper, C=C, c=C @ inside, A=A, b=A @ inside + rng.choice([0, 0, 1.0], size=len(A)))
        x = rng.choice([1, 10, 1e3]) * rng.normal(size=d)
        theta = p.project(x)
        assert p.violation(theta) <= 1e-12 * max(1.0, np.abs(theta).max())
        assert p.support_gap(theta, theta - x) <= 1e-11 * max(1.0, np.abs(x).max()) ** 2
        assert p.violation(p.start(d)) <= 1e-11


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_polyhedron_and_closed_forms_agree(data):
    d = data.draw(st.integers(1, 8))
    x = data.draw(arrays(np.float64, d, elements=st.floats(-5, 5, allow_subnormal=False)))
    for domain in (Simplex(), CappedSimplex(-1 / d, 2 / d), Box(-1.0, 0.5), NonNegative(), Free()):
        np.testing.assert_allclose(domain.as_polyhedron(d).project(x), domain.project(x), atol=1e-10)


@pytest.mark.parametrize("domain", [L1Ball(1.5, center=0.3), CASES["long-short"], CASES["long-short-forced"]])
def test_split_describes_the_same_set(domain):
    g = np.random.default_rng(5).normal(size=D)
    pn = domain.split(D).minimize_linear(np.concatenate((g, -g)))
    center = domain.middle(D) if isinstance(domain, L1Ball) else 0.0
    theta = center + pn[:D] - pn[D:]
    assert domain.contains(theta)
    np.testing.assert_allclose(g @ theta, g @ domain.minimize_linear(g), atol=1e-9)


def test_larger_polyhedron_is_accurate_and_quick():
    rng = np.random.default_rng(6)
    d = 300
    A = rng.normal(size=(10, d))
    p = Polyhedron(0.0, 0.05, C=np.ones((1, d)), c=[1.0], A=A, b=A @ np.full(d, 1 / d) + 0.01)
    x = rng.normal(size=d)
    theta = p.project(x)
    assert p.violation(theta) <= 1e-13
    # The normal cone: x - theta is maximized over the set at theta. The gap is a proved bound.
    assert p.support_gap(theta, theta - x) <= 1e-10


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_polyhedron_at_other_scales(scale):
    base = CASES["polyhedron"]
    scaled = Polyhedron(base.lower * scale, base.upper * scale, C=base.C, c=base.c * scale, A=base.A, b=base.b * scale)
    x = 3 * np.random.default_rng(7).normal(size=D)
    np.testing.assert_allclose(scaled.project(x * scale), base.project(x) * scale, rtol=0, atol=1e-10 * scale)


@each_case
def test_sets_are_values(domain):
    twin = pickle.loads(pickle.dumps(domain))
    assert twin == domain
    assert hash(twin) == hash(domain)
    assert type(domain).__name__ in repr(domain)
    assert len(repr(domain)) < 600
    assert domain != Ball(99.0)
    with pytest.raises(AttributeError):
        domain.total = 3.0


def test_parameters_are_copied():
    upper = np.ones(3)
    box = Box(0.0, upper)
    upper[0] = 7.0
    assert box.upper[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        box.upper[0] = 2.0


def test_numpy_path_does_not_import_torch():
    code = (
        "import sys, certeq.optimize.domains as D; D.Simplex().project([1., 2.]); "
        "D.Simplex().as_polyhedron(3).project([1., 2., 3.]); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
