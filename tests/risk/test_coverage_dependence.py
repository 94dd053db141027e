"""How often 95 % intervals with dependence="auto" cover the truth of a time series, and how often memory is found."""

import numpy as np
import pytest
from scipy.special import gamma

import certeq as ce

from .processes import DISTRIBUTIONS, PROCESSES, autoregression, coverage, fractional, overlap, true_risk

CVAR, MMV, ENTROPIC = ce.CVaR(0.05), ce.MonotoneMeanVariance(2), ce.Entropic(0.5)
# The least coverage, by process and number of periods. Entropic has no finite risk under GARCH, with its heavy tails.
BARS = {
    ("iid", 1000): 0.935,
    ("ar.6", 1000): 0.93,
    ("overlap10", 1000): 0.905,
    ("garch.06.92", 1000): 0.90,
    ("garch.10.88", 1000): 0.86,
    ("switching", 1000): 0.92,
    ("garch.10.88", 4000): 0.88,
}
CASES = [
    (name, n, utility)
    for name, n in BARS
    for utility in (CVAR, MMV, ENTROPIC)
    if not (name.startswith("garch") and utility is ENTROPIC)
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n", "utility"), CASES, ids=str)
def test_intervals_cover(name, n, utility):
    losses = PROCESSES[name](np.random.default_rng([n, 17]), 2000, n)
    found = coverage(losses, utility, true_risk(name, utility), "auto")
    print(
        f"{name}, n = {n}, {utility}: covers {found.inside:.4f}, {found.width:.2f} times as wide as normal, which "
        f"covers {found.textbook:.4f}; said to be too short in {found.short:.4f}"
    )
    if name in ("iid", "ar.6", "overlap10"):
        assert found.short <= 0.01
    assert found.short <= 0.30  # spells of volatility that last a tenth of the series are too few
    assert found.inside >= BARS[name, n]
    if name == "iid":
        assert found.inside <= 0.965
        assert found.width <= 1.15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n", "draw", "least"),
    [
        ("AR(.99)", 1000, autoregression(0.99), 0.9),
        ("AR(.95)", 250, autoregression(0.95), 0.9),
        ("12-period overlap", 120, overlap(12), 0.9),
        ("250-period overlap", 2500, overlap(250), 0.9),
        ("fractional noise (.4)", 1000, fractional(0.4), 0.4),
    ],
)
def test_series_too_short_for_their_memory_are_told(name, n, draw, least):
    """Their intervals cover too rarely, which no choice of cosines mends. Their distribution is the normal one."""
    losses = draw(np.random.default_rng([n, 18]), 400, n)
    if name.startswith("fractional"):
        losses /= np.sqrt(gamma(0.2)) / gamma(0.6)  # Hosking (1981): the variance is gamma(1 - 2 d) / gamma(1 - d)**2
    found = coverage(losses, CVAR, true_risk("iid", CVAR), "auto")
    print(f"{name}, n = {n}: covers {found.inside:.3f}, said to be too short in {found.short:.3f}")
    assert found.short >= least


@pytest.mark.slow
@pytest.mark.parametrize(("name", "utility"), [("ar.6", MMV), ("overlap10", CVAR)], ids=str)
def test_weights_of_periods(name, utility):
    """Half of the periods without weight, at random."""
    gaps = (np.random.default_rng(1).random(1000) < 0.5).astype(float)
    losses = PROCESSES[name](np.random.default_rng(19), 1000, 1000)
    assert coverage(losses, utility, true_risk(name, utility), "auto", gaps).inside >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["normal", "t5", "t3", "lognormal", "exponential"])
def test_independent_losses_are_seldom_taken_for_a_series(name):
    losses = DISTRIBUTIONS[name].rvs(size=(2000, 1000), random_state=np.random.default_rng(5))
    for utility in (CVAR, MMV):
        found = coverage(losses, utility, 0.0)
        print(f"{name}, {utility}: memory warning in {found.remembered:.4f}")
        assert found.remembered <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ar.6", "overlap10"])
def test_a_series_is_not_taken_for_independent_losses(name):
    found = coverage(PROCESSES[name](np.random.default_rng(6), 2000, 1000), CVAR, 0.0)
    print(f"{name}: memory warning in {found.remembered:.4f}")
    assert found.remembered >= 0.95


@pytest.mark.parametrize(("name", "least"), [("iid", 0.88), ("ar.6", 0.88), ("overlap10", 0.82), ("switching", 0.85)])
def test_a_hundred_samples(name, least):
    """The same on 100 samples: fails with probability 1e-3 or less where the full test passes."""
    losses = PROCESSES[name](np.random.default_rng(1), 100, 1000)
    assert coverage(losses, CVAR, true_risk(name, CVAR), "auto").inside >= least
    assert (coverage(losses, CVAR, 0.0).remembered > 0.9) is (name != "iid")
