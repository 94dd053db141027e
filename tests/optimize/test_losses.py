"""Losses: derivatives against differences, constants against samples, offsets, and Hessians of OCE."""

import numpy as np
import pytest

import certeq as ce
from certeq.optimize import hessian, hessian_product, oce_smoothness
from certeq.optimize.losses import CallableLoss, LinearLoss, LogisticLoss, Objective, SquaredLoss, TorchLoss
from tests.problems import SMOOTH

torch = pytest.importorskip("torch")
_RNG = np.random.default_rng(7)
X, Y = _RNG.normal(size=(12, 3)), _RNG.normal(size=12)
LABELS = np.where(Y > 0, 1.0, -1.0)


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def quartic_numpy(theta, xi):
    s = xi @ theta
    return s**4 + np.sin(s), (4 * s**3 + np.cos(s))[:, None] * xi


def quartic_product(theta, xi):
    s = xi @ theta
    return s**4 + np.sin(s), lambda q: (q * (4 * s**3 + np.cos(s))) @ xi


def quartic_torch(theta, xi):
    s = xi @ theta
    return s**4 + torch.sin(s)


LOSSES = {
    "linear": LinearLoss(X),
    "offset": LinearLoss(X, offset=Y),
    "squared": SquaredLoss(X, Y),
    "logistic": LogisticLoss(X, LABELS),
    "jacobian": CallableLoss(quartic_numpy, samples=X),
    "product": CallableLoss(quartic_product, samples=X),
    "torch": TorchLoss(quartic_torch, samples=X),
}
each_loss = pytest.mark.parametrize("name", LOSSES)


def difference(f, theta, h=1e-6):
    return np.stack([(f(theta + h * e) - f(theta - h * e)) / (2 * h) for e in np.eye(theta.size)], axis=-1)


@each_loss
def test_derivatives(name, rng):
    loss, theta, q, v = LOSSES[name], rng.normal(size=3), rng.dirichlet(np.ones(12)), rng.normal(size=3)
    first = difference(loss.losses, theta)
    np.testing.assert_allclose(loss.jacobian(theta), first, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(loss.gradient(theta, None, q), q @ first, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(loss.jacobian_product(theta, None, v), first @ v, rtol=1e-6, atol=1e-7)
    if name not in ("jacobian", "product"):
        second = difference(lambda t: loss.gradient(t, None, q), theta)
        np.testing.assert_allclose(loss.hessian(theta, None, q), second, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(loss.hessian_product(theta, None, q, v), second @ v, rtol=1e-6, atol=1e-6)
    samples = loss.samples  # a batch is the samples it holds
    if name != "offset":
        batch = tuple(part[2:5] for part in samples) if isinstance(samples, tuple) else samples[2:5]
        np.testing.assert_allclose(loss.losses(theta, batch), loss.losses(theta)[2:5], rtol=1e-14)


def test_three_ways_to_write_one_loss_agree(rng):
    theta, q = rng.normal(size=3), rng.dirichlet(np.ones(12))
    for name in ("product", "torch"):
        # Near its zeros the loss is a difference of terms of about 1, whose rounding it has.
        np.testing.assert_allclose(LOSSES[name].losses(theta), LOSSES["jacobian"].losses(theta), rtol=1e-14, atol=1e-14)
        found, known = (LOSSES[each].gradient(theta, None, q) for each in (name, "jacobian"))
        np.testing.assert_allclose(found, known, rtol=1e-12)


@pytest.mark.parametrize("name", ["linear", "offset", "squared", "logistic"])
def test_constants_hold_as_claimed(name, rng):
    loss, center, reach = LOSSES[name], np.zeros(3), 2.0
    M, spread, L = loss.lipschitz(None, center, reach), loss.spread(None, center, reach), loss.smoothness()
    assert spread <= M
    for _ in range(50):
        a, b = (reach * d / np.linalg.norm(d) * rng.random() for d in rng.normal(size=(2, 3)))
        Ja, Jb = loss.jacobian(a), loss.jacobian(b)
        assert np.linalg.norm(Ja, axis=1).max() <= M * (1 + 1e-12)
        assert np.linalg.norm(Ja - Jb, axis=1).max() <= L * np.linalg.norm(a - b) * (1 + 1e-9) + 1e-12
    middle = X.mean(axis=0) if loss.linear else np.zeros(3)
    assert np.linalg.norm(loss.jacobian(center) - middle, axis=1).max() <= spread * (1 + 1e-12)


def test_facts_of_losses():
    assert LOSSES["torch"].smoothness() == SquaredLoss(X, Y).lipschitz() == np.inf
    declared = CallableLoss(quartic_numpy, samples=X, smoothness=3.0, lipschitz=2.0)
    assert (declared.smoothness(), declared.lipschitz()) == (3.0, 2.0)
    labels = LogisticLoss(X, LABELS > 0)
    theta = np.array([1e4, -1e4, 1e4])
    np.testing.assert_array_equal(LOSSES["logistic"].losses(theta), labels.losses(theta))
    assert np.isfinite(labels.losses(theta)).all()
    straight = TorchLoss(lambda theta, xi: xi @ theta, samples=X)
    np.testing.assert_array_equal(straight.hessian_product(np.ones(3), None, np.ones(12), np.ones(3)), np.zeros(3))
    assert LinearLoss(X, offset=2.0).losses(np.ones(3)) == pytest.approx(X.sum(axis=1) + 2.0, abs=1e-14)
    for name, text in {
        "linear": "LinearLoss(A=<12x3>)",
        "offset": "LinearLoss(A=<12x3>, offset=<12>)",
        "squared": "SquaredLoss(X=<12x3>, y=<12>)",
        "torch": "TorchLoss(quartic_torch)",
    }.items():
        assert repr(LOSSES[name]) == text
    assert repr(LinearLoss()) == "LinearLoss()"


def test_what_is_passed_in_is_not_changed():
    A, theta = X.copy(), np.ones(3)
    A.flags.writeable = theta.flags.writeable = False
    loss = TorchLoss(quartic_torch, samples=A)
    loss.gradient(theta, None, np.ones(12))
    loss.hessian_product(theta, None, np.ones(12), theta)
    LinearLoss(A).gradient(theta, None, np.ones(12))


def test_samples_given_later_have_the_offset_as_their_last_column():
    loss, longer = LinearLoss(X[:4], offset=Y[:4]), np.column_stack([X, Y])
    found = ce.minimize(loss, ce.CVaR(0.5), domain=ce.Simplex(), samples=longer)
    known = ce.minimize(LOSSES["offset"], ce.CVaR(0.5), domain=ce.Simplex())
    assert found.value == pytest.approx(known.value, rel=1e-12)
    dask = pytest.importorskip("dask.array")
    lazy = LinearLoss(dask.from_array(X, chunks=(5, 3)), offset=dask.from_array(Y, chunks=5))
    assert ce.minimize(lazy, ce.CVaR(0.5), domain=ce.Simplex()).value == pytest.approx(known.value, rel=1e-9)


# -- Hessians ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("loss", ["offset", "squared", "logistic"])
def test_the_hessian_is_the_derivative_of_the_gradient(name, loss, rng):
    utility, loss, weights = SMOOTH[name], LOSSES[loss], rng.random(12) if loss == "squared" else None
    theta, v = 0.3 * rng.normal(size=3), rng.normal(size=3)
    expected = difference(lambda t: Objective(loss, utility, weights=weights).evaluate(t).gradient, theta, 1e-5)
    found = hessian(loss, utility, theta, weights=weights)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5 * np.abs(expected).max())
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(hessian_product(loss, utility, theta, v, weights=weights), found @ v, rtol=1e-9)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("loss", ["linear", "logistic"])
def test_the_smoothness_constant_bounds_the_hessian(name, loss, rng):
    utility, loss = SMOOTH[name], LOSSES[loss]
    L = oce_smoothness(loss, utility)
    if not utility.is_monotone and not loss.linear:
        assert not np.isfinite(L)
        return
    for theta in rng.normal(size=(20, 3)):
        eigenvalues = np.linalg.eigvalsh(hessian(loss, utility, 2.0 * theta))
        assert eigenvalues.max() <= L * (1 + 1e-3)  # kappa of a sum is found on a grid
        assert not utility.is_monotone or eigenvalues.min() >= -1e-12 * max(1.0, eigenvalues.max())


def test_hessians_in_closed_form():
    # F = theta xi has L_F = 0, but entropic OCE has curvature beta Var(xi): the printed lemma is false.
    A = np.array([[1.0], [-1.0]])
    assert LinearLoss(A).smoothness() == 0.0
    assert hessian(LinearLoss(A), ce.Entropic(beta=2.0), [0.0])[0, 0] == pytest.approx(2.0)
    assert oce_smoothness(LinearLoss(A), ce.Entropic(beta=2.0)) == pytest.approx(2.0)
    np.testing.assert_allclose(hessian(LOSSES["squared"], ce.Mean(), np.zeros(3)), 2 * X.T @ X / 12, rtol=1e-12)
    np.testing.assert_array_equal(hessian(LOSSES["linear"], ce.Mean(), np.zeros(3)), np.zeros((3, 3)))
    for utility in (ce.Entropic(1.0), ce.Quartic(), ce.SmoothCVaR(0.2)):  # samples of weight 0 may lose anything
        table, weights, theta = np.vstack([X, np.full(3, 1e5)]), np.append(np.ones(12), 0.0), np.full(3, 0.2)
        found = hessian(LinearLoss(table), utility, theta, weights=weights)
        np.testing.assert_allclose(found, hessian(LOSSES["linear"], utility, theta), rtol=1e-12)
