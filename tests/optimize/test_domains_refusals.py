"""Bad input and empty sets: what is refused, and what the refusal says."""

from __future__ import annotations

import numpy as np
import pytest

from certeq.optimize.domains import (
    Ball,
    Box,
    CappedSimplex,
    InfeasibleError,
    L1Ball,
    LongShort,
    NonNegative,
    Polyhedron,
    Product,
    Simplex,
)
from tests.optimize.test_domains import D, each_case


@each_case
def test_points_are_checked(domain):
    bad = np.zeros(D)
    bad[2] = np.nan
    with pytest.raises(ValueError, match=r"x must be finite; found nan at \[2\]"):
        domain.project(bad)
    with pytest.raises(ValueError, match=r"found inf at \[0, 2\]"):
        domain.contains(np.where(np.isnan(bad), np.inf, 0.0)[None])
    with pytest.raises(TypeError, match="x must hold real numbers; found dtype complex128"):
        domain.project(np.zeros(D) + 0j)
    with pytest.raises(TypeError, match="dtype <U1"):
        domain.project(["a", "b"])
    with pytest.raises(TypeError, match="dtype bool"):
        domain.project([True, False])
    with pytest.raises(ValueError, match=r"shape \(\.\.\., d\)"):
        domain.project(1.0)
    with pytest.raises(ValueError, match=r"shape \(\.\.\., d\)"):
        domain.project([])
    with pytest.raises(ValueError, match="rectangular"):
        domain.project([[1.0], [1.0, 2.0]])
    with pytest.raises(ValueError, match="g must be a vector"):
        domain.minimize_linear(np.zeros((2, D)))
    with pytest.raises(ValueError, match="g must have 6 entries; found 5"):
        domain.support_gap(domain.start(D), np.zeros(5))
    for d in (0, -1):
        with pytest.raises(ValueError, match="d must be a whole number of at least 1"):
            domain.start(d)
    with pytest.raises(TypeError, match=r"d must be a whole number of at least 1; found 2\.5"):
        domain.diameter(2.5)
    with pytest.raises(ValueError, match="tol must be a number not below 0"):
        domain.contains(domain.start(D), tol=-1.0)


def test_large_finite_entries_are_finite():
    np.testing.assert_array_equal(NonNegative().project([1e308, 1e308, -1e308]), [1e308, 1e308, 0])
    np.testing.assert_array_equal(Simplex().project([1e300, -1e300, 0.0]), [1, 0, 0])
    np.testing.assert_allclose(Ball().project([3e200, 4e200]), [0.6, 0.8], rtol=1e-15)
    np.testing.assert_allclose(Ball(1e-200).project([3.0, 4.0]), [0.6e-200, 0.8e-200], rtol=1e-15)


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: Simplex(-1.0), ValueError, "total must be a finite number not below 0; found -1"),
        (lambda: Simplex(np.nan), ValueError, "total must be a finite number not below 0; found NaN"),
        (lambda: Simplex([1.0, 2.0]), TypeError, "total must be a finite number not below 0"),
        (lambda: Simplex("one"), TypeError, "total must be a finite number not below 0; found 'one'"),
        (lambda: Ball(-1.0), ValueError, "radius must be a finite number not below 0; found -1"),
        (lambda: L1Ball(np.inf), ValueError, "radius must be a finite number not below 0; found inf"),
        (lambda: Ball(1.0, center=[0.0, np.nan]), ValueError, "center must be finite; found nan at index 1"),
        (lambda: Box(0.0, [1.0, np.nan]), ValueError, "upper must be finite or inf; found nan at index 1"),
        (lambda: Box(np.inf, np.inf), ValueError, "lower must be finite or -inf; found inf"),
        (lambda: Box([0.0, 0.0], [1.0] * 3), ValueError, "same size; found 2 and 3"),
        (lambda: Box([[0.0]], 1.0), ValueError, "lower must be a number or a vector"),
        (lambda: Box(0j, 1.0), TypeError, "lower must hold real numbers"),
        (lambda: LongShort(1.3, -0.3), ValueError, "short must be a finite number not below 0"),
        (lambda: Product([Simplex()], [2, 3]), ValueError, "one entry per domain; found 2 for 1"),
        (lambda: Product([], []), ValueError, "at least one Domain"),
        (lambda: Product(["simplex"], [2]), TypeError, r"domains\[0\] must be a Domain; found str"),
        (lambda: Polyhedron(0.0, 1.0), ValueError, "must know its dimension"),
        (lambda: Polyhedron([0.0, 0], 1.0, C=np.ones((1, 3)), c=1.0), ValueError, "must agree on d"),
        (lambda: Polyhedron(0.0, 1.0, C=np.ones((1, 3))), ValueError, "C and c must be given together"),
        (lambda: Polyhedron([0.0], 1.0, b=[1.0]), ValueError, "A and b must be given together"),
        (lambda: Polyhedron(0.0, 1.0, C=np.ones((1, 3)), c=[1.0, 2.0]), ValueError, "one entry per row of C"),
        (
            lambda: Polyhedron(0.0, 1.0, A=[[1.0, np.nan]], b=1.0),
            ValueError,
            r"A must be finite; found nan at \[0, 1\]",
        ),
        (lambda: Polyhedron(0.0, 1.0, A=[[1j]], b=1.0), TypeError, "A must hold real numbers"),
    ],
)
def test_parameters_are_checked(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    "check, message",
    [
        (lambda: Box(0.0, [1.0, 1, 1, -1]), r"lower 0.0 > upper -1.0 at index 3"),
        (lambda: CappedSimplex(0, 0.2).validate(4), r"sum of upper bounds 0.8 < total 1.0"),
        (lambda: CappedSimplex(0, 0.2).project(np.zeros(4)), r"sum of upper bounds 0.8 < total 1.0"),
        (lambda: CappedSimplex([0.5, 0.7], 1.0), r"sum of lower bounds 1.2 > total 1.0"),
        (lambda: LongShort(1.3, 0.3, upper=0.2).validate(4), r"sum of upper bounds 0.8 < net budget"),
        (lambda: LongShort(1.3, 0.3, [0.8, 0.8, -5], 5.0), r"force 1.6 long, more than long = 1.3"),
        (lambda: LongShort(1.3, 0.3, -5.0, [-0.4, 5, 5]), r"force 0.4 short, more than short = 0.3"),
        (lambda: Product([Simplex(), CappedSimplex(0, 0.1)], [2, 2]).validate(4), r"block 1: .* 0.2 < total 1.0"),
        (lambda: Polyhedron(0.0, 0.2, C=np.ones((1, 4)), c=1.0).validate(4), r"C\[0\] theta lies in \[0, 0.8\]"),
        (lambda: Polyhedron([0.0, 0], 1.0, A=[1.0, 1], b=-1.0).validate(2), r"A\[0\] theta lies in \[0, 2\]"),
        (lambda: Polyhedron([0.0, 0], 1.0, C=[0.0, 0], c=1.0).validate(2), r"C\[0\] theta lies in \[0, 0\]"),
    ],
)
def test_empty_sets_name_the_culprit(check, message):
    with pytest.raises(InfeasibleError, match=message):
        check()


def test_jointly_infeasible_rows_are_named_and_the_innocent_are_not():
    A = np.array([[1.0, 0, 0], [-1.0, -1.0, 0], [0, 0, 1.0]])
    p = Polyhedron(-np.inf, [9.0, 0.25, 9.0], C=[[1.0, 1, 1]], c=[1.0], A=A, b=[0.5, -1.0, 7.0])
    with pytest.raises(InfeasibleError) as caught:
        p.project(np.zeros(3))
    text = str(caught.value)
    assert "A[0] theta <= 0.5" in text
    assert "A[1] theta <= -1" in text
    assert "theta[1] <= 0.25 (upper)" in text
    assert "A[2]" not in text
    assert "C[0]" not in text
    assert "violation" in text


def test_contradicting_equalities_are_named():
    p = Polyhedron(-np.inf, np.inf, C=[[1.0, 1.0], [2.0, 2.0], [1.0, -1.0]], c=[1.0, 3.0, 0.0])
    with pytest.raises(InfeasibleError, match=r"C\[0\] theta = 1; C\[1\] theta = 3\."):
        p.validate(2)


@pytest.mark.parametrize(
    "domain, x, text",
    [
        (Simplex(), [0.5, 0.4, -0.1], "sum of theta is 0.8"),
        (Simplex(), [0.9, 0.4, -0.3], "theta[2] is negative (violated by 0.3)"),
        (Box(0.0, 1.0), [0.5, 1.5], "theta[1] is above its upper bound (violated by 0.5)"),
        (LongShort(1.3, 0.3), [2.0, -1.0], "gross budget: sum of |theta| is 3.0, must be at most 1.6"),
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
    assert not domain.contains(x)
    assert domain.explain(domain.start(len(x))) == "feasible: no constraint is violated"


def test_dimensions_must_fit():
    with pytest.raises(ValueError, match="Box has dimension 2; found a point of dimension 3"):
        Box(0.0, [1.0, 2.0]).project(np.zeros(3))
    with pytest.raises(ValueError, match="block 0: Box has dimension 2"):
        Product([Box(0.0, [1.0, 2.0])], [3]).project(np.zeros(3))


@pytest.mark.parametrize("domain", [Ball(), L1Ball(), LongShort(1.3, 0.3), Product([Ball()], [3])])
def test_not_every_set_is_a_small_polyhedron(domain):
    with pytest.raises(TypeError, match="polyhedron"):
        domain.as_polyhedron(3)


def test_violation_of_a_batch_is_that_of_its_worst_point():
    x = np.array([[0.5, 0.5], [0.5, 0.7]])
    assert Simplex().violation(x) == pytest.approx(0.2)
    assert Simplex().contains(x[:1])
    assert not Simplex().contains(x)
