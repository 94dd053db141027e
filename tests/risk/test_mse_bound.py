"""The moment form of `mse_bound`: true, the same wherever the losses are, and tighter than with the norm itself."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import certeq as ce
from certeq.reference import oce_sb
from certeq.risk import bounds

LAWS = {
    "normal": lambda rng, size: rng.normal(size=size),
    "skew": lambda rng, size: rng.exponential(size=size),
    "t9": lambda rng, size: rng.standard_t(9, size=size),
    "two points": lambda rng, size: (rng.random(size) < 0.02) * 5.0,
}
UTILITIES = [ce.Entropic(0.3), ce.MonotoneMeanVariance(2), ce.MeanVariance(0.5), ce.CVaR(0.1)]


def bound_of(population, utility, m, moment, q):
    t = ce.threshold(population, utility)
    variance, slope = np.var(utility.value(population - t)), np.var(utility.slope(population - t))
    return bounds.mse_bound(m, float(slope), moment, value_variance=float(variance), q=q)


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("shift", [0.0, -40.0])
def test_it_bounds_the_error_and_is_tighter(law, utility, shift):
    rng = np.random.default_rng(3)
    population = LAWS[law](rng, 20_000) + shift  # the law itself: samples are drawn from it, with replacement
    true = ce.oce(population, utility)
    for m in (20, 200):
        rows = rng.choice(population, size=(1500, m))
        mse = float(np.mean((ce.oce(rows, utility, axis=1) - true) ** 2))
        for q in (4.5, 5.0, 8.0):
            central = bound_of(population, utility, m, bounds.central_moment(population, q), q)
            plain = bound_of(population, utility, m, float(np.mean(np.abs(population) ** q) ** (1 / q)), q)
            assert mse <= central <= plain * (1 + 1e-12)
            if shift:
                assert central < plain / 5.0


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
def test_it_does_not_depend_on_where_the_losses_are(utility):
    x = np.random.default_rng(1).standard_t(9, size=5000)
    found = [bound_of(x + c, utility, 100, bounds.central_moment(x + c, 5.0), 5.0) for c in (0.0, 7.0, -1e4, 1e6)]
    np.testing.assert_allclose(found, found[0], rtol=1e-8)  # 1e6 leaves ten digits of a loss


@pytest.mark.parametrize("q", [1.5, 2.0, 3.0, 5.0, 12.0])
def test_the_central_moment_is_the_least_norm(q):
    x = np.random.default_rng(4).exponential(size=1001)
    least = minimize_scalar(lambda c: np.mean(np.abs(x - c) ** q), bounds=(x.min(), x.max()), method="bounded")
    assert bounds.central_moment(x, q) == pytest.approx(least.fun ** (1 / q), rel=1e-9)
    assert bounds.central_moment(1e150 * x, q) == pytest.approx(1e150 * bounds.central_moment(x, q), rel=1e-12)
    assert bounds.central_moment([3.0, 3.0], q) == 0.0


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (bounds.dispersion_bound(2.0, q=3.0), 6.0 * math.sqrt(2.0)),
        (bounds.dispersion_bound(2.0, q=6.0), 3.0 * math.sqrt(2.0)),
        (bounds.mae_bound(25, 3.0, j1=2.0), 1.2),
        (bounds.mae_bound(25, 3.0, 2.0, q=4.0), 2.4 * math.sqrt(2.0)),
        (bounds.mse_bound_lipschitz(25, 3.0, j1=2.0), 1.44),
        (bounds.mse_bound_lipschitz(25, 3.0, 2.0, q=4.0), 11.52),
        (bounds.mse_bound(100, 3.0, 2.0, value_variance=7.0, q=5.0), 0.07 + 16.0 * math.sqrt(2.0)),
        (bounds.mse_bound(100, 3.0, 2.0, value_variance=7.0, q=8.0), 0.07 + 6.4 * math.sqrt(2.0)),
        (bounds.mse_bound(100, 3.0, value_variance=7.0, width=2.0), 0.38),
        (bounds.wasserstein_bound(2.0, 3.0, 8.0), 6.0),
        (bounds.wasserstein_bound(2.0, 8.0, 3.0), 6.0),
        (bounds.gradient_mse_bound(10, 3.0, 0.5, 2.0), 1.7),
        (bounds.bisect_bound(0.1, -0.2), 0.02),
        (bounds.bisect_bound(0.1, 0.2, squared=True), 0.0008),
    ],
)
def test_constants(found, expected):
    """Constants are fixed by value: a bound that is too small by a factor would pass every simulation."""
    assert found == pytest.approx(expected, rel=1e-12)


def test_the_bound_of_bisection_holds():
    x = np.random.default_rng(0).standard_normal(200)
    for utility in (ce.Entropic(1.0), ce.Quartic(), ce.SmoothCVaR(0.1), ce.LeakyCVaR(0.1), ce.CVaR(0.15)):
        for delta, epsilon in ((0.1, 0.1), (1e-3, 1e-2)):
            s, t = oce_sb(x, utility, delta, epsilon)
            residual = float(np.mean(utility.slope(x - t))) - 1.0
            assert -1e-12 <= s - ce.oce(x, utility) <= bounds.bisect_bound(delta, residual) + 1e-12
