"""A custom utility is checked before it is believed, and its derivatives are exact or refused."""

import math
import pickle

import numpy as np
import pytest
from scipy import special

import certeq as ce

Z = np.array([0.3, -1.2, 2.5, 0.7, -0.1])


def exponential(x):
    return np.expm1(x)


@pytest.mark.parametrize(
    "u, twin",
    [
        (exponential, ce.Entropic(1.0)),
        (lambda x: (np.maximum(x + 1, 0) ** 3 - 1) / 3, ce.MonotoneMeanVariance(3)),
        (lambda x: np.maximum(x + 1, 0) ** 4 - 1, ce.Quartic()),
        (lambda x: np.maximum(x, 0) / 0.05, ce.CVaR(0.05)),
        (lambda x: np.where(x >= 0, x / 0.1, np.arctan(x / 0.1)), ce.LeakyCVaR(0.1)),
        (lambda x: 10 * 0.2 * np.logaddexp(0, x / 0.2), ce.SmoothCVaR(0.1, 0.2)),
        (lambda x: -20 * special.log_expit(-x), ce.SmoothCVaR(0.05, 1.0)),
        (lambda x: np.where(x >= 0, x / 0.3, 0), ce.CVaR(0.3)),
        (ce.utility(lambda x: np.maximum(x, 0) / 0.3, du=lambda x: (x >= 0) / 0.3), ce.CVaR(0.3)),  # from the right
    ],
)
def test_only_u_is_needed(u, twin):
    """Derived slopes and curvatures agree with the hand-written ones to rounding."""
    custom = u if isinstance(u, ce.Utility) else ce.utility(u)
    x = np.linspace(-3, 3, 61) + 0.0123
    np.testing.assert_allclose(custom.slope(x), twin.slope(x), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(custom.curvature(x), twin.curvature(x), rtol=1e-11, atol=1e-12)
    assert custom.anchor == pytest.approx(twin.anchor, abs=1e-14)
    np.testing.assert_allclose(custom.kinks, twin.kinks)
    assert custom.slope_range == pytest.approx(twin.slope_range)
    assert ce.oce(Z, custom) == pytest.approx(ce.oce(Z, twin), rel=1e-13)
    np.testing.assert_allclose(ce.tilt(Z, custom), ce.tilt(Z, twin), atol=1e-12)
    ties = [0, 1, 1, 2, 5.0, -3]
    np.testing.assert_allclose(ce.tilt(ties, custom), ce.tilt(ties, twin), atol=1e-12)
    assert custom.kappa == pytest.approx(twin.kappa, rel=1e-3)
    y = np.asarray(twin.slope(x))
    np.testing.assert_allclose(custom.conjugate(y), twin.conjugate(y), atol=1e-9)


def test_given_derivatives_are_used():
    custom = ce.utility(exponential, np.exp, np.exp)
    assert (custom.du, custom.d2u) == (np.exp, np.exp)
    assert ce.oce(Z, custom) == pytest.approx(ce.oce(Z, ce.Entropic(1.0)), rel=1e-13)


def test_a_missing_curvature_is_refused_not_guessed():
    opaque = ce.utility(exponential, lambda x: np.asarray(np.vectorize(math.exp)(np.minimum(x, 700.0))))
    assert not opaque.has_curvature
    assert ce.oce(Z, opaque) == pytest.approx(ce.oce(Z, ce.Entropic(1.0)), rel=1e-12)


def test_custom_utilities_compare_print_and_pickle():
    custom = ce.utility(exponential)
    assert repr(custom) == "utility(exponential)"
    assert custom == ce.utility(exponential)
    assert pickle.loads(pickle.dumps(custom)) == custom
    assert repr(ce.utility(exponential, name="mine")) == "mine"
    base = pytest.importorskip("sklearn.base")
    assert base.clone(custom) == custom


@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_kappa_found_on_a_grid_is_never_too_small(alpha):
    custom = ce.utility(lambda x: np.where(x >= 0, x / alpha, np.arctan(x / alpha)))
    exact = ce.LeakyCVaR(alpha).kappa
    assert exact <= custom.kappa <= 1.001 * exact


@pytest.mark.parametrize("width", [1e-6, 1e-4, 1e-3])
def test_steep_rises_are_no_reason_to_doubt_a_derivative(width):
    points = np.linspace(-2.9, 3.0, 12)
    found = ce.utility(
        lambda x: 0.05 * x + sum(0.3 * width * np.logaddexp(0.0, (x - p) / width) for p in points),
        lambda x: 0.05 + sum(0.15 * (1.0 + np.tanh(0.5 * (x - p) / width)) for p in points),
    )
    assert found.kinks == ()
    with pytest.raises(ValueError, match="du is not the derivative of u"):
        ce.utility(found.u, lambda x: 1.001 * found.du(x))


@pytest.mark.parametrize("kink", [0.0, 1.0, 0.1 + 0.2, -3e4, 1e-12])
def test_a_slope_of_its_own_on_the_kink(kink):
    found = ce.utility(lambda x: x + 0.5 * np.abs(x - kink), lambda x: 1.0 + 0.5 * np.sign(x - kink))
    assert found.kinks == ((kink, 1.0),)
    assert float(ce.threshold([1.0, 2.0], found)) == 1.0 - kink


@pytest.mark.parametrize("width", [1e-8, 1e-4, 1e-2])
@pytest.mark.parametrize("distance", [-1e-2, -1e-4, 1e-5, 3e-3])
def test_kinks_beside_a_steep_curve_are_found(width, distance):
    kink = 2.0 + distance

    def u(x):
        return x + 0.9 * np.sqrt((x - 2.0) ** 2 + width**2) + 0.05 * np.maximum(x - kink, 0.0)

    for found in (ce.utility(u), ce.utility(u, kinks=(kink,))):
        ((at, jump),) = found.kinks
        assert at == pytest.approx(kink, rel=1e-15)
        assert jump == pytest.approx(0.05, rel=1e-6)


def test_many_kinks_are_found_at_once():
    where = np.linspace(-3.0, 7.0, 60)
    found = ce.utility(lambda x: 0.05 * x + sum(np.maximum(x - kink, 0.0) for kink in where) / 30.0)
    np.testing.assert_allclose([at for at, _ in found.kinks], where, rtol=1e-15)
    np.testing.assert_allclose([jump for _, jump in found.kinks], 1.0 / 30.0, rtol=1e-9)


KINKS = {
    "one": (lambda x: 0.5 * x + np.maximum(x - 1, 0), None, ((1.0, 1.0),)),
    "absolute": (lambda x: x + 0.5 * np.abs(x), None, ((0.0, 1.0),)),
    "near": (lambda x: 0.5 * x + np.maximum(x - 1000, 0) + np.maximum(x - 1010, 0), None, ((1e3, 1.0), (1010.0, 1.0))),
    "arrays": (
        lambda x: np.where(x > 0, 2.0 * x, 0.5 * x), lambda x: np.where(np.asarray(x) > 0, 2.0, 0.5), ((0.0, 1.5),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KINKS)
def test_kinks_are_found(name):
    u, du, kinks = KINKS[name]
    found = ce.utility(u, du)
    assert found.kinks == kinks
    (at, jump), *_ = kinks
    assert found.slope(at) == 0.5
    assert found.right_slope(at) == 0.5 + jump
