"""`upper_bound` holds with the probability it says, and how far it lies above the truth."""

import numpy as np
import pytest
from scipy import stats

import certeq as ce

BETA = stats.beta(2, 5)
CVAR = ce.CVaR(0.1)


def bounds_of(draw, utility, n, samples, seed=0):
    rng = np.random.default_rng([seed, n])
    return np.array([ce.upper_bound(draw(rng, n), utility, support=(0, 1)) for _ in range(samples)])


@pytest.mark.slow
@pytest.mark.parametrize(("n", "samples", "most"), [(100, 1000, 0.2), (500, 1000, 0.055), (5000, 300, 0.015)])
def test_excess_over_the_truth(n, samples, most):
    truth = ce.oce(BETA, CVAR)
    found = bounds_of(lambda rng, n: rng.beta(2, 5, size=n), CVAR, n, samples)
    print(f"n = {n}: excess {np.mean(found - truth):.4f}, holds in {np.mean(found >= truth):.4f}")
    assert np.mean(found - truth) <= most
    assert np.mean(found >= truth) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.01, 0.03, 0.06, 0.09, 0.1])
@pytest.mark.parametrize("n", [20, 200])
def test_bernoulli_losses(p, n):
    """The number of losses says it all: the probability that the bound holds is a sum over binomial counts.

    Over orders of the losses it is averaged, as the bound depends on them a little.
    """
    utilities = {"cvar": CVAR, "entropic": ce.Entropic(5.0), "mmv": ce.MonotoneMeanVariance(2)}
    rng = np.random.default_rng(3)
    for name, utility in utilities.items():
        truth = ce.oce(stats.bernoulli(p), utility)
        counts = np.arange(0, n + 1)
        chance = stats.binom.pmf(counts, n, p)
        holds = 0.0
        for count in counts[chance > 1e-6]:
            x = np.zeros(n)
            x[:count] = 1.0
            orders = [rng.permutation(x) for _ in range(20)]
            bounds = np.array([ce.upper_bound(order, utility, support=(0, 1)) for order in orders])
            holds += chance[count] * np.mean(bounds >= truth - 1e-12)
        print(f"p = {p}, n = {n}, {name}: holds in {holds:.4f}")
        assert holds >= 0.95


@pytest.mark.slow
def test_control_keeps_its_promise():
    """Candidates of rising risk, the third of which lies just above the limit: it passes in at most 5 %."""
    rng = np.random.default_rng(0)
    limit = ce.oce(stats.beta(2, 5), CVAR) - 1e-6
    broken = 0
    for _ in range(400):
        losses = np.stack([rng.beta(2, b, size=800) for b in (9, 7, 5, 4)], axis=1)
        chosen = ce.control(losses, [0, 1, 2, 3], CVAR, limit, support=(0, 1)).index
        broken += chosen is not None and chosen >= 2
    assert broken / 400 <= 0.05


def test_sixty_samples():
    truth = ce.oce(BETA, CVAR)
    found = bounds_of(lambda rng, n: rng.beta(2, 5, size=n), CVAR, 500, 60)
    assert np.mean(found >= truth) >= 0.95
    assert np.mean(found - truth) <= 0.06
