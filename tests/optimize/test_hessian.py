"""Hessians of OCE: against differences of the gradient, and against the smoothness constant of the theory."""

import numpy as np
import pytest

import certeq as ce
from certeq.optimize.hessian import hessian, hessian_product
from certeq.optimize.losses import LinearLoss, LogisticLoss, Objective, SquaredLoss
from certeq.optimize.sg import oce_smoothness

rng = np.random.default_rng(11)
X, Y = rng.normal(size=(40, 3)), rng.normal(size=40)
SMOOTH = [
    ce.Entropic(beta=0.7),
    ce.MeanVariance(beta=0.4),
    ce.MonotoneMeanVariance(a=3),
    ce.Quartic(),
    ce.LeakyCVaR(alpha=0.2),
    ce.SmoothCVaR(alpha=0.2, tau=0.5),
    0.5 * ce.Mean() + 0.5 * ce.Entropic(1.0),
    ce.Quartic().scaled(2.0).normalized(),
]
LOSSES = [LinearLoss(X), SquaredLoss(X, Y), LogisticLoss(X, np.sign(Y))]


STATE = rng.bit_generator.state


@pytest.fixture(autouse=True)
def same_draws():
    """Whatever ran before: workers take tests in any order."""
    rng.bit_generator.state = STATE


@pytest.mark.parametrize("utility", SMOOTH, ids=repr)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_derivative_of_the_gradient(utility, loss, weighted):
    weights = rng.random(40) if weighted else None
    theta, h = 0.3 * rng.normal(size=3), 1e-5
    gradient = lambda t: Objective(loss, utility, weights=weights).evaluate(t).gradient
    expected = np.stack([(gradient(theta + h * e) - gradient(theta - h * e)) / (2 * h) for e in np.eye(3)], axis=-1)
    found = hessian(loss, utility, theta, weights=weights)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6 * np.abs(expected).max())
    np.testing.assert_array_equal(found, found.T)
    v = rng.normal(size=3)
    np.testing.assert_allclose(hessian_product(loss, utility, theta, v, weights=weights), found @ v, rtol=1e-9)


@pytest.mark.parametrize("utility", SMOOTH, ids=repr)
@pytest.mark.parametrize("loss", [LOSSES[0], LOSSES[2]], ids=repr)
def test_the_smoothness_constant_bounds_it(utility, loss):
    L = oce_smoothness(loss, utility)
    if not utility.is_monotone and not loss.linear:
        assert not np.isfinite(L)
        return
    for _ in range(20):
        eigenvalues = np.linalg.eigvalsh(hessian(loss, utility, 2.0 * rng.normal(size=3)))
        assert eigenvalues.max() <= L * (1 + 1e-3)  # kappa of a sum is found on a grid
        if utility.is_monotone:
            assert eigenvalues.min() >= -1e-12 * max(1.0, eigenvalues.max())


def test_the_printed_smoothness_lemma_is_false():
    # F = theta xi has L_F = 0, but entropic OCE has curvature beta Var(xi).
    A = np.array([[1.0], [-1.0]])
    assert LinearLoss(A).smoothness() == 0.0
    assert hessian(LinearLoss(A), ce.Entropic(beta=2.0), [0.0])[0, 0] == pytest.approx(2.0)
    assert oce_smoothness(LinearLoss(A), ce.Entropic(beta=2.0)) == pytest.approx(2.0)


def test_the_mean_leaves_the_curvature_of_the_loss_alone():
    loss = SquaredLoss(X, Y)
    np.testing.assert_allclose(hessian(loss, ce.Mean(), np.zeros(3)), 2 * X.T @ X / 40, rtol=1e-12)
    np.testing.assert_array_equal(hessian(LinearLoss(X), ce.Mean(), np.zeros(3)), np.zeros((3, 3)))


@pytest.mark.parametrize("utility", [ce.CVaR(0.1), 0.5 * ce.CVaR(0.1) + 0.5 * ce.Entropic(1.0)], ids=repr)
def test_a_kink_is_refused(utility):
    with pytest.raises(ValueError, match="has a kink at 0, so its OCE has no Hessian"):
        hessian(LOSSES[0], utility, np.zeros(3))
    with pytest.raises(ValueError, match="SmoothCVaR"):
        hessian_product(LOSSES[0], utility, np.zeros(3), np.ones(3))


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="theta must have 3 entries"):
        hessian(LOSSES[0], ce.Entropic(1.0), np.zeros(2))
    with pytest.raises(ValueError, match="v must have as many entries as theta, 3; found 2"):
        hessian_product(LOSSES[0], ce.Entropic(1.0), np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="weights must have one entry per sample, 40; found 3"):
        hessian(LOSSES[0], ce.Entropic(1.0), np.zeros(3), weights=[1, 2, 3])


@pytest.mark.parametrize("utility", [ce.Entropic(1.0), ce.Quartic(), ce.SmoothCVaR(0.2)], ids=repr)
def test_samples_of_weight_0_may_lose_anything(utility):
    table, weights, theta = np.vstack([X, np.full(3, 1e5)]), np.append(np.ones(40), 0.0), np.full(3, 0.2)
    found = hessian(LinearLoss(table), utility, theta, weights=weights)
    np.testing.assert_allclose(found, hessian(LinearLoss(X), utility, theta), rtol=1e-12)
