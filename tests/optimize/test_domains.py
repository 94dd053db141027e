"""Feasible sets: digits under offsets, ties, single points, infinite bounds and tensors of other types.

What every set must satisfy is in tests/general/test_sets.py.
"""

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

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
    project_simplex,
)
from tests.problems import SETS, D

EPS = np.finfo(float).eps


# -- budgets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d, offset", [(1, 1e15), (2, -1e9), (7, 1e15), (1000, 0.0), (1000, 1e9), (1_000_000, 1e9)])
def test_budgets_are_met_to_a_few_ulps(d, offset):
    x = np.random.default_rng(d).normal(size=d) + offset
    for domain in (Simplex(), CappedSimplex(0, max(1.0, 3 / d)), CappedSimplex(-3 / d, 5 / d)):
        p = domain.project(x)
        assert abs(p.sum() - 1.0) <= 8 * EPS * np.abs(p).sum()
        assert domain.violation(p) <= 8 * EPS * np.abs(p).sum()
        # Only differences of x count, and these are exact in floating point once the offset is gone.
        np.testing.assert_allclose(p, domain.project(x - offset), rtol=0, atol=1e-15 if d < 10**6 else 1e-14)


def test_ties_share_alike():
    np.testing.assert_array_equal(Simplex().project(np.full(7, 1e9)), np.full(7, Simplex().project(np.zeros(7))[0]))
    np.testing.assert_allclose(Simplex().project(np.full(10**6, 3.0)), 1e-6, rtol=1e-12)
    np.testing.assert_array_equal(CappedSimplex(0, 0.5).project([5.0, 5, 1, 1]), [0.5, 0.5, 0, 0])
    np.testing.assert_allclose(CappedSimplex(0, 0.5).project([5.0, 1, 1, 1]), [0.5, 1 / 6, 1 / 6, 1 / 6], atol=1e-16)
    # Ten times a tenth is not below 1.
    np.testing.assert_allclose(CappedSimplex(0, 0.1).project(np.arange(10.0)), np.full(10, 0.1), rtol=1e-15)


def test_a_hard_simplex_has_small_weights_right():
    # One entry takes nearly all, and a million ties just above the threshold share the rest: each gets low - tau, a
    # difference of two numbers near 1 that tau alone, rounded, would get wrong in the sixth digit.
    n, low = 10**6, -(1.0 - 2.0**-14)
    x = np.concatenate(([0.0], np.full(n, low)))
    tau = (n * low - 1.0) / (n + 1)
    p = Simplex().project(x)
    np.testing.assert_allclose(p[1:], (1.0 + low) / (n + 1), rtol=1e-9)  # low - tau, without the cancellation
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
    """Return the projection in rational arithmetic."""
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
    for _ in range(120):
        d = int(rng.integers(2, 10))
        x = rng.choice([0, 1e9, -1e9, 1e4, 2e9], size=d) + np.round(rng.normal(size=d), int(rng.integers(0, 9)))
        lower = -rng.random(d) * rng.integers(0, 2)
        upper = lower + rng.random(d) + 0.01
        total = float(lower.sum() + rng.random() * (upper - lower).sum())
        for domain in (Simplex(), CappedSimplex(lower, upper, total)):
            p = domain.project(x[None])[0] if batched else domain.project(x)
            bounds = (np.zeros(d), np.full(d, 2.0)) if isinstance(domain, Simplex) else (lower, upper)
            np.testing.assert_allclose(p, exact_capped_simplex(x, *bounds, domain.total), rtol=0, atol=2e-15)


def test_large_finite_entries_are_finite():
    np.testing.assert_array_equal(NonNegative().project([1e308, 1e308, -1e308]), [1e308, 1e308, 0])
    np.testing.assert_array_equal(Simplex().project([1e300, -1e300, 0.0]), [1, 0, 0])
    np.testing.assert_allclose(Ball().project([3e200, 4e200]), [0.6, 0.8], rtol=1e-15)
    np.testing.assert_allclose(Ball(1e-200).project([3.0, 4.0]), [0.6e-200, 0.8e-200], rtol=1e-15)


# -- polyhedra --------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("name", [name for name, entry in SETS.items() if entry.polyhedron])
def test_as_a_polyhedron_or_in_two_parts_it_is_the_same_set(name):
    domain, rng = SETS[name].domain, np.random.default_rng(5)
    try:
        same = domain.as_polyhedron(D)
    except TypeError:
        if not isinstance(domain, L1Ball | LongShort):
            return
        g, center = rng.normal(size=D), domain.middle(D) if isinstance(domain, L1Ball) else 0.0
        both = domain.split(D).minimize_linear(np.concatenate((g, -g)))
        theta = center + both[:D] - both[D:]
        assert domain.contains(theta)
        assert g @ theta == pytest.approx(g @ domain.minimize_linear(g), abs=1e-9)
        return
    for x in 3.0 * rng.normal(size=(5, D)):
        np.testing.assert_allclose(same.project(x), domain.project(x), atol=1e-10)


def test_a_larger_polyhedron_and_other_units():
    rng = np.random.default_rng(6)
    d = 300
    A = rng.normal(size=(10, d))
    p = Polyhedron(0.0, 0.05, C=np.ones((1, d)), c=[1.0], A=A, b=A @ np.full(d, 1 / d) + 0.01)
    x = rng.normal(size=d)
    theta = p.project(x)
    assert p.violation(theta) <= 1e-13
    assert p.support_gap(theta, theta - x) <= 1e-10
    base, x = SETS["polyhedron"].domain, 3 * np.random.default_rng(7).normal(size=D)
    for unit in (1e-6, 1e6):
        scaled = Polyhedron(base.lower * unit, base.upper * unit, C=base.C, c=base.c * unit, A=base.A, b=base.b * unit)
        np.testing.assert_allclose(scaled.project(x * unit), base.project(x) * unit, rtol=0, atol=1e-10 * unit)


# -- linear minimization ----------------------------------------------------------------------------------------------


def test_gaps_have_all_their_digits():
    g, start = np.array([1.0, 1.25, 2, 3, 4, 5]), [5.0, 4, 3, 2, 1, 0]
    for domain in (Simplex(), CappedSimplex(0, 0.4), LongShort(1.3, 0.3)):
        for theta in (domain.project(start), domain.start(6)):
            assert domain.support_gap(theta, g + 2.0**40) == pytest.approx(domain.support_gap(theta, g), rel=1e-9)
    assert Simplex().support_gap([0.5, 0.5, 0.0], [1.0, 1.0 + 1e-14, 2.0]) == pytest.approx(0.5e-14, rel=0.02)
    n = np.array([0.6, 0.8])
    tilted = -np.array([0.6 * np.cos(1e-8) - 0.8 * np.sin(1e-8), 0.8 * np.cos(1e-8) + 0.6 * np.sin(1e-8)])
    assert Ball().support_gap(tilted, n) == pytest.approx(0.5e-16, rel=1e-3)  # 1 - cos(1e-8)
    assert L1Ball().support_gap([0.0, -1 + 1e-12], [0.0, 1.0]) == pytest.approx(1e-12, rel=1e-3)
    # A budget that is off by more than rounding counts.
    assert Simplex().support_gap([0.5 + 1e-10, 0.5], [2.0, 2.0]) == pytest.approx(2e-10, rel=1e-4)


def test_bounded_minimum_over_unbounded_sets():
    np.testing.assert_array_equal(NonNegative().minimize_linear([1.0, 0.0]), [0, 0])
    np.testing.assert_array_equal(Free().minimize_linear([0.0, 0.0]), [0, 0])
    assert CappedSimplex(-np.inf, np.inf, total=2.0).minimize_linear([3.0, 3.0, 3.0]).sum() == 2.0
    # Only theta[0] may sink and only theta[1] may rise without end, and rising is the dearer.
    v = SETS["mixed_infinite"].domain.minimize_linear([0.0, 5.0, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(v, [1, 0, 1, -1, 0, 0])


@pytest.mark.parametrize("name", ["simplex", "l1_ball", "ball", "long_short_zero"])
def test_some_diameters_are_exact(name):
    domain, rng = SETS[name].domain, np.random.default_rng(10)
    far = max(np.linalg.norm(domain.minimize_linear(g) - domain.minimize_linear(-g)) for g in rng.normal(size=(40, D)))
    assert far >= 0.99 * domain.diameter(D)


@pytest.mark.parametrize(
    "domain, point",
    [
        (Simplex(0.0), [0.0, 0, 0]),
        (Box(2.0, 2.0), [2.0, 2, 2]),
        (CappedSimplex(0, 1 / 3), [1 / 3, 1 / 3, 1 / 3]),
        (CappedSimplex([1.0, 0, 0], [1.0, 0, 0]), [1.0, 0, 0]),
        (CappedSimplex(0.1, 1.0, total=0.3), [0.1, 0.1, 0.1]),
        (LongShort(0.0, 0.0), [0.0, 0, 0]),
        (Ball(0.0, center=[1.0, 2, 3]), [1.0, 2, 3]),
        (L1Ball(0.0), [0.0, 0, 0]),
        (Polyhedron([0.0, 0, 0], 1.0, C=np.eye(3), c=[0.2, 0.3, 0.4]), [0.2, 0.3, 0.4]),
        (Polyhedron([0.5, 0.5, 0.0], [0.5, 0.5, 0.0], C=np.ones((1, 3)), c=1.0), [0.5, 0.5, 0]),
    ],
)
def test_single_points(domain, point):
    for x in ([5.0, -3, 1], np.zeros(3), point):
        np.testing.assert_allclose(domain.project(x), point, atol=1e-15)
    np.testing.assert_allclose(domain.start(3), point, atol=1e-12)
    np.testing.assert_allclose(domain.minimize_linear([1.0, -1, 0]), point, atol=1e-15)
    assert domain.support_gap(point, [1.0, -1, 0]) == pytest.approx(0.0, abs=1e-12)
    assert domain.diameter(3) <= 1e-12 or isinstance(domain, Polyhedron | Box)


def test_minimizer_at_a_million():
    g = np.random.default_rng(11).normal(size=10**6)
    v = CappedSimplex(0, 1e-5).minimize_linear(g)
    assert CappedSimplex(0, 1e-5).violation(v) <= 1e-14
    assert CappedSimplex(0, 1e-5).support_gap(v, g) <= 1e-15


@pytest.mark.parametrize(
    "domain, x, text",
    [
        (Simplex(), [0.5, 0.4, -0.1], "sum of theta is 0.8"),
        (Simplex(), [0.9, 0.4, -0.3], "theta[2] is negative (violated by 0.3)"),
        (Box(0.0, 1.0), [0.5, 1.5], "theta[1] is above its upper bound (violated by 0.5)"),
        (LongShort(1.3, 0.3), [2.0, -1.0], "gross budget: sum of |theta| is 3.0, must be at most 1.6"),
        (LongShort(1.3, 0.3), [1.0, -0.2], "net budget: sum of theta is 0.8, must be 1.0"),
        (Ball(), [3.0, 4.0], "||theta - center|| is 5.0"),
        (L1Ball(), [3.0, 4.0], "sum of |theta - center| is 7.0"),
        (Product([Simplex(), Box(0, 1)], [2, 2]), [0.5, 0.5, 0.0, 3.0], "block 1: theta[1] is above its upper bound"),
        (Polyhedron([0.0, 0], 1, A=[[1.0, 1]], b=1.0), [1.0, 0.9], "A[0] theta <= b[0] (violated by 0.9)"),
        (Polyhedron([0.0, 0], 1, C=[[1.0, 1]], c=1.0), [0.1, 0.1], "C[0] theta = c[0] (violated by 0.8)"),
    ],
)
def test_explanations(domain, x, text):
    assert text in domain.explain(x)
    assert domain.violation(x) > 0
    assert domain.explain(domain.start(len(x))) == "feasible: no constraint is violated"


def test_violation_of_a_batch_is_that_of_its_worst_point():
    x = np.array([[0.5, 0.5], [0.5, 0.7]])
    assert Simplex().violation(x) == pytest.approx(0.2)
    assert not Simplex().contains(x)


def test_parameters_are_copied_and_torch_is_not_imported():
    upper = np.ones(3)
    box = Box(0.0, upper)
    upper[0] = 7.0
    assert box.upper[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        box.upper[0] = 2.0
    code = (
        "import sys, certeq.optimize.domains as D; D.Simplex().project([1., 2.]); "
        "D.Simplex().as_polyhedron(3).project([1., 2., 3.]); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- tensors ----------------------------------------------------------------------------------------------------------


def test_tensors_of_other_types_offsets_and_nan():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = torch.randn(2, D, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()
        p = Simplex().project(x)
        assert p.dtype == dtype
        p[..., 0].sum().backward()
        assert x.grad.dtype == dtype
    assert Simplex().project(torch.arange(3)).dtype == torch.float64
    for name in ("simplex", "capped", "capped_short", "long_short"):
        x = torch.as_tensor(np.round(np.random.default_rng(12).normal(size=D) * 2**10) / 2**20)
        domain = SETS[name].domain
        torch.testing.assert_close(domain.project(x + 2.0**30), domain.project(x), rtol=0, atol=1e-15)
    x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    Ball().project(x).sum().backward()
    assert torch.equal(x.grad, torch.ones(3, dtype=torch.float64))
    out = torch.func.vmap(Simplex().project)(torch.tensor([[1.0, torch.nan], [0.0, 1.0]]))
    assert torch.isnan(out[0]).any()
    assert torch.equal(out[1], torch.tensor([0.0, 1.0]))
