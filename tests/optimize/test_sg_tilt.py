"""The fast tilts of OCE-SG against `certeq.risk`, cold and warm, and the lean projection against the domain's own."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import certeq as ce
from certeq.optimize.domains import Box, Simplex
from certeq.optimize.sg._warm import WarmTilt
from certeq.risk._vector import facts_of

UTILITIES = [
    ce.CVaR(0.05),
    ce.CVaR(0.29),
    0.3 * ce.Mean() + 0.7 * ce.CVaR(0.1),
    ce.Mean(),
    ce.Entropic(1.0),
    ce.Entropic(20.0).scaled(3.0),
    ce.MeanVariance(1.0),
    ce.MonotoneMeanVariance(2),
    ce.MonotoneMeanVariance(3.5),
    ce.Quartic().normalized(),
    ce.LeakyCVaR(0.1),
    ce.SmoothCVaR(0.05),
    ce.SmoothCVaR(0.1, tau=0.01),
    0.5 * ce.Entropic(1.0) + 0.5 * ce.CVaR(0.2),
    0.5 * ce.Entropic(1.0) + 0.5 * ce.Mean(),
    ce.utility(lambda x: np.where(x > 0, x + x**2, 0.5 * x)),
]


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):  # as the loop of OCE-SG does, once
        yield


def expected(z, utility, weights=None):
    return ce.tilt(z, utility, weights=weights)


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
def test_along_a_path_on_the_same_samples(utility):
    rng = np.random.default_rng(3)
    z, speed = rng.standard_t(4, size=997), rng.normal(size=997)
    engine = WarmTilt(utility)
    for k, length in enumerate([0, 1e-9, 1e-7, 1e-7, 1e-7, 1e-5, 1e-5, 1e-3, 1e-2, 0.3, 3.0, 1e-6] + 60 * [1e-4]):
        z = z + length * speed
        q, mass = engine.weigh(z, k > 0)
        assert (q / mass).sum() == pytest.approx(1.0, abs=2e-12)
        np.testing.assert_allclose(q / mass, expected(z, utility), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
def test_on_batches_of_changing_size(utility):
    rng = np.random.default_rng(4)
    engine = WarmTilt(utility)
    for m in (1, 2, 3, 19, 20, 21, 64, 500, 7):
        z = rng.normal(size=m) * 3.0 + m
        q, mass = engine.weigh(z, False)
        np.testing.assert_allclose(q / mass, expected(z, utility), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
def test_with_sample_weights(utility):
    rng = np.random.default_rng(5)
    z, w = rng.normal(size=50), rng.dirichlet(np.ones(50))
    engine = WarmTilt(utility, w)
    for k in range(6):
        z = z + 1e-3 * np.sin(50 * z)
        q, mass = engine.weigh(z, k > 0)
        np.testing.assert_allclose(q / mass, expected(z, utility, w), rtol=1e-9, atol=1e-13)


@given(
    losses=st.lists(st.integers(-3, 3), min_size=1, max_size=40),
    alpha=st.sampled_from([0.05, 0.1, 0.29, 0.5, 0.95]),
    shift=st.integers(-2, 2),
)
@settings(max_examples=200, deadline=None)
@pytest.mark.filterwarnings("ignore:CVaR.alpha=.* is the mean of the worst")
def test_ties_share_the_fraction_cold_and_warm(losses, alpha, shift):
    z, engine = np.array(losses, dtype=float), WarmTilt(ce.CVaR(alpha))
    engine.weigh(z[::-1] + shift, False)
    for same in (False, True, True):
        q, mass = engine.weigh(z, same)
        np.testing.assert_allclose(q / mass, expected(z, ce.CVaR(alpha)), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
def test_a_large_offset_costs_no_more_than_its_rounding(utility):
    z = np.random.default_rng(6).normal(size=100)
    z = (z + 1e9) - 1e9  # what survives the offset
    engine = WarmTilt(utility)
    for same in (False, True, True):
        q, mass = engine.weigh(z + 1e9, same)
        np.testing.assert_allclose(q / mass, expected(z, utility), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_shows_in_the_mass(utility, bad):
    z = np.linspace(0.0, 1.0, 30)
    engine = WarmTilt(utility)
    engine.weigh(z, False)
    z[7] = bad
    mass = engine.weigh(z, True)[1]
    assert not 0.0 < mass < np.inf


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
def test_the_state_restores_the_same_bits(utility):
    rng = np.random.default_rng(8)
    z, speed = rng.normal(size=200), rng.normal(size=200)
    path = [z + 1e-4 * k * speed for k in range(12)]
    whole = WarmTilt(utility)
    for k in range(8):
        whole.weigh(path[k], k > 0)
    other = WarmTilt(utility)
    other.restore({name: array.copy() for name, array in whole.state().items()})
    for k in range(8, 12):
        (a, m), (b, n) = whole.weigh(path[k], True), other.weigh(path[k], True)
        assert a.tobytes() == b.tobytes()
        assert m == n


@given(data=st.data(), d=st.integers(1, 8), total=st.sampled_from([1.0, 0.5, 30.0]))
@settings(max_examples=200, deadline=None)
def test_the_lean_simplex_projection_is_the_projection(data, d, total):
    numbers = st.lists(st.floats(-3, 3, width=32), min_size=d, max_size=d)
    domain, before = Simplex(total), data.draw(numbers)
    project, last = domain._stepper(), domain.project(before)
    for _ in range(3):
        x = np.array(data.draw(numbers))
        found = project(x, last)
        np.testing.assert_allclose(found, domain.project(x), atol=1e-12 * max(1.0, total))
        last = found


def test_a_last_iterate_that_is_no_help_changes_nothing():
    for x in ([1e300, -1e300, 0.0], [1e20, 1e20, 1e20], [0.5, 1.0, -3.0]):
        for last in (np.zeros(3), np.array([0.0, 0.0, 1.0]), np.ones(3)):
            np.testing.assert_allclose(Simplex()._stepper()(np.array(x), last), Simplex().project(x), rtol=1e-15)
    np.testing.assert_array_equal(Simplex(0.0)._stepper()(np.array([1.0, -1.0]), np.zeros(2)), [0.0, 0.0])


def test_other_sets_use_their_own_projection():
    np.testing.assert_array_equal(Box(0.0, 1.0)._stepper()(np.array([3.0, -1.0]), np.zeros(2)), [1.0, 0.0])


def test_the_tail_alone_gives_the_same_gradient() -> None:
    rng = np.random.default_rng(5)
    A = np.round(rng.normal(size=(400, 3)), 1)  # with ties
    theta = np.array([0.2, 0.5, 0.3])
    whole, tail = WarmTilt(ce.CVaR(0.07)), WarmTilt(ce.CVaR(0.07), sparse=True)
    for _ in range(5):
        theta = theta + 0.01 * rng.normal(size=3)
        q, mass = whole.weigh(A @ theta, True)
        part, same_mass = tail.weigh(A @ theta, True)
        assert same_mass == mass
        rows = np.arange(len(A)) if tail.rows is None else tail.rows
        assert part @ A[rows] == pytest.approx(q @ A, rel=1e-12)
    assert tail.rows is not None
    assert len(tail.rows) < 100


def test_two_pieces_with_weight_below_are_never_sparse() -> None:
    tilt = WarmTilt(0.3 * ce.Mean() + 0.7 * ce.CVaR(0.1), sparse=True)
    z = np.random.default_rng(0).normal(size=300)
    for _ in range(3):
        q, _mass = tilt.weigh(z, True)
        assert tilt.rows is None
        assert q.shape == z.shape


def test_a_loss_that_adds_to_the_gradient_keeps_its_own_product() -> None:
    class Ridge(ce.LinearLoss):
        def evaluate(self, theta, batch=None):
            losses, product = super().evaluate(theta, batch)
            return losses + 10.0 * theta @ theta, lambda q: product(q) + q.sum() * 20.0 * theta

    A = np.random.default_rng(1).normal(size=(300, 4))
    found = ce.minimize(Ridge(A), ce.CVaR(0.1), domain=Simplex(), method="sg", batch="full", step=0.01, iterations=500)
    assert found.theta == pytest.approx(np.full(4, 0.25), abs=0.05)


@pytest.mark.parametrize("utility", [ce.Entropic(30.0), ce.SmoothCVaR(0.1, tau=0.03)])
def test_a_tilt_carried_for_long_stays_that_of_the_losses(utility):
    rng = np.random.default_rng(3)
    engine, z = WarmTilt(utility), rng.standard_normal(500) * 0.1
    engine.weigh(z, False)
    for k in range(200):
        z = z + 1e-3 * np.sin(k + np.arange(500))
        with np.errstate(all="ignore"):
            q, total = engine.weigh(z, True)
        np.testing.assert_allclose(q / total, ce.tilt(z, utility), rtol=1e-10)


@pytest.mark.parametrize("utility", [ce.Entropic(3.0), ce.SmoothCVaR(0.1), ce.Quartic(), ce.LeakyCVaR(0.1)], ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_without_the_compiled_passes_the_tilt_is_the_same(monkeypatch, utility, weighted):
    rng = np.random.default_rng(5)
    weights = rng.dirichlet(np.ones(200)) if weighted else None
    compiled = WarmTilt(utility, weights)
    with monkeypatch.context() as patch:
        patch.setattr("certeq.risk._compiled._fused", None)
        plain = WarmTilt(copy.deepcopy(utility), weights)
        assert facts_of(plain.form).code is None  # which is remembered
    z = rng.standard_normal(200)
    for k in range(20):
        z = z + 1e-3 * rng.standard_normal(200)
        with np.errstate(all="ignore"):
            (p, p_total), (q, q_total) = plain.weigh(z, k > 0), compiled.weigh(z, k > 0)
        np.testing.assert_allclose(q / q_total, p / p_total, rtol=1e-10, atol=1e-14)


def test_losses_of_every_second_place_are_read_as_they_are():
    z = np.random.default_rng(6).standard_normal(200)[::2]
    for utility in (ce.Entropic(1.0), ce.Quartic(), ce.SmoothCVaR(0.1)):
        q, total = WarmTilt(utility).weigh(z, False)
        np.testing.assert_allclose(q / total, ce.tilt(z, utility), rtol=1e-10)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("utility", [ce.CVaR(0.3), 0.3 * ce.Mean() + 0.7 * ce.CVaR(0.3)], ids=repr)
def test_losses_whose_sum_and_differences_overflow_have_a_tilt(utility, full):
    z = np.array([1.5e308, 1.7e308, -1.7e308, 1.2e308, 0.0, 1.0, 2.0])
    q, total = WarmTilt(utility).weigh(z, full)
    np.testing.assert_allclose(q / total, ce.tilt(np.arange(7.0)[np.argsort(np.argsort(z))], utility), rtol=1e-12)
