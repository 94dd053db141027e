"""How often 95 % intervals of small independent samples cover, and how often they come with warnings."""

import numpy as np
import pytest
from scipy import stats

import certeq as ce

from .processes import DISTRIBUTIONS, coverage

UTILITIES = {
    "cvar": ce.CVaR(0.1),
    "entropic": ce.Entropic(0.5),
    "mean_variance": ce.MeanVariance(0.5),
    "mmv": ce.MonotoneMeanVariance(2),
    "quartic": ce.Quartic(),
    "leaky": ce.LeakyCVaR(0.1),
    "smooth": ce.SmoothCVaR(0.1),
}
BOUNDED = {"cvar", "leaky", "smooth"}
NAMES = [name for name in DISTRIBUTIONS if name != "t3"]
SAMPLES = {50: 2000, 200: 2000, 2000: 1000}
MEDIANS = {50: 0.925, 200: 0.94, 2000: 0.943}


def measured(name, key, n, samples):
    """Coverage where the truth may be infinite: no finite interval covers that."""
    seed = [n, NAMES.index(name), list(UTILITIES).index(key)]
    losses = DISTRIBUTIONS[name].rvs(size=(samples, n), random_state=np.random.default_rng(seed)).astype(float)
    return coverage(losses, UTILITIES[key], ce.oce(DISTRIBUTIONS[name], UTILITIES[key]))


@pytest.mark.slow
@pytest.mark.parametrize("n", SAMPLES)
def test_small_samples(n):
    found = {(name, key): measured(name, key, n, SAMPLES[n]) for name in NAMES for key in UTILITIES}
    for (name, key), case in found.items():
        print(f"n = {n}, {name}, {key}: covers {case.inside:.3f}, warns in {case.warned:.3f}, {case.width:.2f} as wide")
    median = float(np.median([case.inside for case in found.values()]))
    textbook = float(np.median([case.textbook for case in found.values()]))
    print(f"n = {n}: median {median:.4f}; of the textbook's intervals {textbook:.4f}")
    assert median >= MEDIANS[n]
    for (name, key), case in found.items():
        if key in BOUNDED and name != "bernoulli":
            assert case.inside >= 0.91, (name, key)
            assert case.warned <= 0.05, (name, key)
        elif key not in BOUNDED:
            assert case.warned <= 0.10 or case.inside < 0.93, (name, key)
            # Entropic of t(5) is infinite, and at n = 50 no test can tell it from the normal distribution.
            assert case.warned >= 0.60 or case.inside >= 0.60 or (name, key) == ("t5", "entropic"), (name, key)


CAPPED = stats.norm.ppf((np.arange(1_000_000) + 0.5) / 1_000_000)


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 1000])
@pytest.mark.parametrize("mass", [0.04, 0.045, 0.06])
def test_capped_losses(n, mass):
    """Where more than alpha of the losses lie at the cap, all influence values are 0."""
    cap, utility = stats.norm.ppf(1.0 - mass), ce.CVaR(0.05)
    losses = np.minimum(np.random.default_rng([n, 7]).standard_normal((1000, n)), cap)
    found = coverage(losses, utility, ce.oce(np.minimum(CAPPED, cap), utility))
    print(f"capped at {1 - mass:.1%}, n = {n}: covers {found.inside:.3f}, warns in {found.warned:.3f}")
    assert found.inside >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 200])
@pytest.mark.parametrize("key", sorted(BOUNDED))
@pytest.mark.parametrize("p", [0.08, 0.1, 0.12])
def test_losses_of_two_values(n, key, p):
    losses = (np.random.default_rng([n, 8]).random((1000, n)) < p).astype(float)
    found = coverage(losses, UTILITIES[key], ce.oce(stats.bernoulli(p), UTILITIES[key]))
    print(f"bernoulli({p}), {key}, n = {n}: covers {found.inside:.3f}, warns in {found.warned:.3f}")
    assert found.inside >= 0.91


@pytest.mark.parametrize(("name", "key"), [("normal", "cvar"), ("exponential", "leaky"), ("t5", "mmv")])
def test_two_hundred_samples_of_fifty(name, key):
    """The same on 200 samples: fails with probability 1e-3 or less where the full test passes."""
    assert measured(name, key, 50, 200).inside >= 0.85
    assert measured(name, key, 50, 200).warned <= 0.2
