"""Values, slopes, curvatures and conjugates agree with each other, on NumPy and on torch."""

import numpy as np
import pytest

import certeq as ce
from tests.conftest import SMOOTH, UTILITIES

X = np.linspace(-3.0, 3.0, 121) + 0.0131  # off every kink


def test_slope_is_the_derivative_of_the_value(utility):
    h = 1e-6
    numeric = (utility.value(X + h) - utility.value(X - h)) / (2 * h)
    np.testing.assert_allclose(utility.slope(X), numeric, rtol=2e-7, atol=2e-7)


def test_curvature_is_the_derivative_of_the_slope(utility):
    h = 1e-6
    numeric = (utility.slope(X + h) - utility.slope(X - h)) / (2 * h)
    np.testing.assert_allclose(utility.curvature(X), numeric, rtol=1e-5, atol=1e-5)
    slope, curvature = utility.derivatives(X)
    np.testing.assert_allclose(slope, utility.slope(X), rtol=1e-14)
    np.testing.assert_allclose(curvature, utility.curvature(X), rtol=1e-14, atol=1e-300)


def test_conjugate_closes_the_fenchel_gap(utility):
    slope = np.asarray(utility.slope(X))
    gap = utility.value(X) + utility.conjugate(slope) - X * slope
    np.testing.assert_allclose(gap, 0.0, atol=1e-11 * (1 + np.abs(X * slope).max()))


def test_conjugate_is_infinite_outside_the_slopes(utility):
    low, high = utility.slope_range
    if np.isfinite(low):
        assert utility.conjugate(low - 0.5) == np.inf
    if np.isfinite(high):
        assert utility.conjugate(high + 0.5) == np.inf


def test_anchor_has_one_in_the_subdifferential(utility):
    x0 = utility.anchor
    nearby = 1e-12 * (1.0 + abs(x0))
    assert utility.slope(x0 - nearby) <= 1.0 + 1e-9
    assert utility.right_slope(x0) >= 1.0 - 1e-9 or utility.slope(x0 + nearby) >= 1.0 - 1e-9
    assert utility.oce_of_zero == pytest.approx(-float(utility.conjugate(1.0)), abs=1e-12)


def test_left_derivative_at_a_kink():
    cvar = ce.CVaR(0.05)
    assert cvar.slope(0.0) == 0.0
    assert cvar.right_slope(0.0) == 20.0
    mixed = 0.5 * ce.Entropic(1.0) + 0.5 * ce.CVaR(0.2)
    assert mixed.slope(0.0) == 0.5
    assert mixed.right_slope(0.0) == 3.0


@pytest.mark.parametrize("name", [name for name in UTILITIES if name not in ("custom", "two_kinks")])
def test_torch_gives_the_same_numbers_and_gradients(name):
    torch = pytest.importorskip("torch")
    utility = UTILITIES[name]
    x = torch.tensor(X, requires_grad=True)
    value = utility.value(x)
    np.testing.assert_allclose(value.detach().numpy(), utility.value(X), rtol=1e-14, atol=1e-14)
    (gradient,) = torch.autograd.grad(value.sum(), x)
    np.testing.assert_allclose(gradient.numpy(), utility.slope(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(utility.slope(x).detach().numpy(), utility.slope(X), rtol=1e-14)


@pytest.mark.parametrize("name", ["leaky", "smooth", "mmv3", "quartic", "entropic"])
def test_torch_gradients_are_finite_far_out(name):
    torch = pytest.importorskip("torch")
    far = 50.0 if name == "entropic" else 800.0
    x = torch.tensor([-far, -1.0, 0.0, far], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(UTILITIES[name].value(x).sum(), x)
    np.testing.assert_allclose(gradient.numpy(), UTILITIES[name].slope(x.detach().numpy()), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", SMOOTH)
def test_kappa_bounds_the_mean_curvature(name):
    """E u''(X - t*) <= kappa for every law; two-point laws come close to it."""
    utility = SMOOTH[name]
    rng = np.random.default_rng(5)
    best = 0.0
    for scale in np.geomspace(1e-2, 30, 40):
        z = scale * rng.standard_normal((40, 3))
        t = ce.threshold(z, utility, axis=1)
        best = max(best, float(np.mean(utility.curvature(z - t[:, None]), axis=1).max()))
    assert best <= utility.kappa * (1 + 1e-3)
    assert best >= 0.5 * utility.kappa or name in ("entropic_leaky",)


def test_constants_of_the_paper():
    assert ce.Quartic().anchor == pytest.approx(4 ** (-1 / 3) - 1, abs=1e-16)
    assert ce.Quartic().oce_of_zero == pytest.approx(-0.75 * 4 ** (-1 / 3), abs=1e-15)
    assert ce.LeakyCVaR(0.05).oce_of_zero == pytest.approx(-1.12734, abs=1e-5)
    assert ce.LeakyCVaR(0.1).oce_of_zero == pytest.approx(-0.94905, abs=1e-5)
    tau, alpha = 0.3, 0.1
    entropy = -alpha * np.log(alpha) - (1 - alpha) * np.log(1 - alpha)
    assert ce.SmoothCVaR(alpha, tau).oce_of_zero == pytest.approx(tau / alpha * entropy, rel=1e-14)
    x = np.linspace(-2, 2, 41)
    np.testing.assert_allclose(ce.Quartic().value(x), 4 * ce.MonotoneMeanVariance(4).value(x), rtol=1e-14, atol=1e-15)


def test_facts():
    assert ce.CVaR(0.1).is_coherent
    assert ce.Mean().is_coherent
    assert (0.3 * ce.Mean() + 0.7 * ce.CVaR(0.05)).is_coherent
    assert not any(u.is_coherent for u in (ce.Entropic(1), ce.LeakyCVaR(0.1), ce.SmoothCVaR(0.1), ce.Quartic()))
    assert not ce.MeanVariance(1).is_monotone
    assert all(u.is_monotone for name, u in UTILITIES.items() if name != "mean_variance")
    assert ce.CVaR(0.05).lipschitz == pytest.approx(20)
    assert ce.Entropic(1).lipschitz == np.inf
    assert [u.is_normalized for u in (ce.Entropic(1), ce.Quartic(), ce.Quartic().normalized())] == [True, False, True]


def test_float32_stays_float32():
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    for name in ("entropic", "mmv3", "quartic", "cvar", "leaky", "smooth"):
        assert UTILITIES[name].value(x).dtype == np.float32
