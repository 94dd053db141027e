"""The fast tilts of OCE-SG, cold and warm, against `certeq.tilt`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import certeq as ce
from certeq.optimize.sg._warm import WarmTilt
from tests.problems import UTILITIES

each_utility = pytest.mark.parametrize("name", UTILITIES)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):  # as the loop of OCE-SG does, once
        yield


def check(found, z, utility, weights=None, **tolerance):
    q, mass = found
    np.testing.assert_allclose(q / mass, ce.tilt(z, utility, weights), **({"rtol": 1e-9, "atol": 1e-13} | tolerance))


@each_utility
def test_along_a_path_and_restored_on_the_way(name):
    """Steps of all lengths on the same samples; the state alone decides what follows, to the last bit."""
    rng = np.random.default_rng(3)
    z, speed, engine = rng.standard_t(4, size=997), rng.normal(size=997), WarmTilt(UTILITIES[name])
    for k, length in enumerate([0, 1e-9, 1e-7, 1e-7, 1e-7, 1e-5, 1e-5, 1e-3, 1e-2, 0.3, 3.0, 1e-6] + 20 * [1e-4]):
        z, state = z + length * speed, {key: array.copy() for key, array in engine.state().items()}
        found = engine.weigh(z, k > 0)
        check(found, z, UTILITIES[name])
        if k > 20:
            other = WarmTilt(UTILITIES[name])
            other.restore(state)
            q, mass = other.weigh(z, True)
            assert (q.tobytes(), mass) == (found[0].tobytes(), found[1])


@each_utility
def test_on_batches_of_changing_size_and_other_strides(name):
    rng, engine = np.random.default_rng(4), WarmTilt(UTILITIES[name])
    for m in (1, 2, 3, 19, 20, 21, 64, 500, 7):
        z = rng.normal(size=m) * 3.0 + m
        check(engine.weigh(z, False), z, UTILITIES[name])
    check(engine.weigh(z[::2], False), z[::2], UTILITIES[name])


@pytest.mark.parametrize("ties", [False, True])
@each_utility
def test_weights_of_the_sample_and_of_batches(name, ties):
    rng, utility = np.random.default_rng(5), UTILITIES[name]
    z, w = rng.normal(size=50), rng.dirichlet(np.ones(50)) * (np.arange(50) % 7 > 0)
    engine = WarmTilt(utility, w / w.sum())
    for k in range(6):
        z = z + 1e-3 * np.sin(50 * z)
        check(engine.weigh(z, k > 0), z, utility, w)
    engine = WarmTilt(utility)
    for size in (1, 2, 30):
        x, weights = rng.normal(size=size), rng.random(size) + 0.01
        x, weights = np.round(x) if ties else x, weights / weights.sum()
        check(engine.weigh(x, False, weights), x, utility, weights, atol=1e-9)
        assert np.isnan(engine.weigh(np.full(size, np.nan), False, weights)[1])


@given(
    losses=st.lists(st.integers(-3, 3), min_size=1, max_size=40),
    alpha=st.sampled_from([0.05, 0.1, 0.29, 0.5, 0.95]),
    shift=st.integers(-2, 2),
)
@settings(max_examples=100, deadline=None)
@pytest.mark.filterwarnings("ignore:CVaR.alpha=.* is the mean of the worst")
def test_ties_share_the_fraction_cold_and_warm(losses, alpha, shift):
    z, engine = np.array(losses, dtype=float), WarmTilt(ce.CVaR(alpha))
    engine.weigh(z[::-1] + shift, False)
    for same in (False, True, True):
        check(engine.weigh(z, same), z, ce.CVaR(alpha), rtol=1e-12, atol=1e-15)


@each_utility
def test_offsets_and_losses_that_are_not_finite(name):
    z, engine = np.random.default_rng(6).normal(size=100), WarmTilt(UTILITIES[name])
    z = (z + 1e9) - 1e9  # what survives the offset
    for same in (False, True, True):
        q, mass = engine.weigh(z + 1e9, same)
        np.testing.assert_allclose(q / mass, ce.tilt(z, UTILITIES[name]), rtol=1e-4, atol=1e-6)
    for bad in (np.nan, np.inf):
        engine.weigh(z, False)
        mass = engine.weigh(np.where(np.arange(100) == 7, bad, z), True)[1]
        assert not 0.0 < mass < np.inf


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("utility", [ce.CVaR(0.3), 0.3 * ce.Mean() + 0.7 * ce.CVaR(0.3)], ids=repr)
def test_losses_whose_sum_and_differences_overflow_have_a_tilt(utility, full):
    z = np.array([1.5e308, 1.7e308, -1.7e308, 1.2e308, 0.0, 1.0, 2.0])
    q, total = WarmTilt(utility).weigh(z, full)
    np.testing.assert_allclose(q / total, ce.tilt(np.argsort(np.argsort(z)).astype(float), utility), rtol=1e-12)


def test_the_tail_alone_gives_the_same_gradient():
    rng = np.random.default_rng(5)
    A = np.round(rng.normal(size=(400, 3)), 1)  # with ties
    theta, whole = np.array([0.2, 0.5, 0.3]), WarmTilt(ce.CVaR(0.07))
    tail, never = WarmTilt(ce.CVaR(0.07), sparse=True), WarmTilt(0.3 * ce.Mean() + 0.7 * ce.CVaR(0.1), sparse=True)
    for _ in range(5):
        theta = theta + 0.01 * rng.normal(size=3)
        q, mass = whole.weigh(A @ theta, True)
        part, same_mass = tail.weigh(A @ theta, True)
        assert same_mass == mass
        rows = np.arange(len(A)) if tail.rows is None else tail.rows
        assert part @ A[rows] == pytest.approx(q @ A, rel=1e-12)
        assert never.weigh(A @ theta, True)[0].shape == (400,)  # two pieces with weight below
        assert never.rows is None
    assert len(tail.rows) < 100
