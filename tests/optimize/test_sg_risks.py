"""OCE-SG and L-BFGS under risks with other inner variables than the threshold, and what "auto" takes."""

from __future__ import annotations

import numpy as np
import pytest

import certeq as ce
from certeq._table import ArrayTable
from certeq.optimize.losses import Objective

RISKS = [
    ce.EVaR(0.1),
    ce.MonotoneMeanVariance(2).ball(0.5),
    ce.HMCR(2, 0.2),
    ce.Mixture([0.5, 0.5], [ce.Entropic(0.5), ce.EVaR(0.2)]),
]
KINKED = [ce.Mixture([0.5, 0.5], [ce.CVaR(0.1), ce.CVaR(0.3)]), ce.Wang(0.5)]


def data(n=400, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ np.arange(1.0, d + 1) + rng.standard_t(4, n)


LOGISTIC = ce.LogisticLoss(data()[0], data()[0] @ np.arange(1.0, 5.0) > 0)


@pytest.mark.parametrize("risk", [*RISKS, *KINKED], ids=repr)
def test_gradients_by_differences(risk):
    objective = Objective(ce.SquaredLoss(*data()), risk)
    theta, step = np.array([0.9, 2.1, 3.2, 3.7]), 1e-6
    at = objective.evaluate(theta)
    ends = [[objective.evaluate(theta + sign * step * row).value for sign in (1, -1)] for row in np.eye(4)]
    np.testing.assert_allclose(at.gradient, np.diff(ends, axis=1)[:, 0] / (-2 * step), rtol=1e-5)
    assert abs(at.tilt.sum() - 1.0) <= 1e-12


@pytest.mark.parametrize("risk", RISKS, ids=repr)
@pytest.mark.parametrize("loss", [ce.SquaredLoss(*data()), LOGISTIC], ids=repr)
def test_lbfgs_is_taken_for_smooth_risks(risk, loss):
    found = ce.minimize(loss, risk, domain=ce.Box(-5.0, 5.0))
    assert found.method == "lbfgs"
    # Near the minimum a fall of the value is lost in its rounding before the slope is 0: either is a right end.
    assert found.status in ("converged", "no further progress")
    assert found.gap <= 1e-6 * max(1.0, found.value)
    near = np.clip(found.theta + 1e-3 * np.random.default_rng(1).standard_normal((20, 4)), -5.0, 5.0)
    assert min(Objective(loss, risk).evaluate(theta).value for theta in near) >= found.value - 1e-9
    assert np.shape(found.threshold) == ((2,) if isinstance(risk, ce.Mixture) else ())


@pytest.mark.parametrize("risk", KINKED, ids=repr)
def test_stochastic_gradients_are_taken_for_others(risk):
    loss = ce.SquaredLoss(*data())
    found = ce.minimize(loss, risk, domain=ce.Ball(10.0), iterations=1000, rng=0)
    assert (found.method, found.reason) == ("sg", "method='auto': the utility has kinks")
    best = min(
        Objective(loss, risk).evaluate(found.theta + row).value
        for row in 0.05 * np.random.default_rng(1).standard_normal((50, 4))
    )
    assert found.value <= best + 5e-3 * abs(best)
    with pytest.raises(ValueError, match="must be smooth"):
        ce.minimize(loss, risk, domain=ce.Free(), method="lbfgs")


@pytest.mark.parametrize("risk", [*RISKS, *KINKED], ids=repr)
def test_stochastic_gradients_reach_the_exact_minimum(risk):
    A = np.random.default_rng(2).standard_normal((500, 5)) + np.linspace(0.0, 0.5, 5)
    exact = ce.minimize(ce.LinearLoss(A), risk, domain=ce.Simplex())
    found = ce.minimize(ce.LinearLoss(A), risk, domain=ce.Simplex(), method="sg", iterations=1000, rng=0)
    assert exact.value - exact.gap - 1e-12 <= found.value <= exact.value + 0.02
    assert found.value - found.gap <= exact.value + 1e-12
    drawn = np.random.default_rng(3)
    stream = ce.minimize(
        ce.LinearLoss(), risk, domain=ce.Simplex(), samples=lambda rng, m: A[drawn.integers(500, size=m)],
        theta0=np.full(5, 0.2), iterations=50, batch=100, rng=0,
    )  # fmt: skip
    assert np.isfinite(stream.value)


def test_tables_in_blocks():
    A = np.random.default_rng(4).standard_normal((3000, 4))
    table, loss = ArrayTable(A), ce.LinearLoss()
    found = ce.minimize(loss, ce.EVaR(0.1), domain=ce.Simplex(), samples=table, method="sg", iterations=200, rng=0)
    assert abs(found.value - float(ce.oce(A @ found.theta, ce.EVaR(0.1)))) <= 1e-12
    with pytest.raises(TypeError, match="sorted"):
        ce.minimize(loss, ce.Wang(0.5), domain=ce.Simplex(), samples=table, method="sg", iterations=20)


def test_constants_and_checkpoints(tmp_path):
    A = np.random.default_rng(5).standard_normal((200, 3))
    settings = {"domain": ce.Simplex(), "method": "sg", "batch": 20, "rng": 0}
    with pytest.raises(ValueError, match="L_OCE|smooth"):
        ce.minimize(ce.LinearLoss(A), ce.EVaR(0.1), step="theory", regime="nonconvex", **settings)
    path = tmp_path / "run"
    whole = ce.minimize(ce.LinearLoss(A), ce.EVaR(0.1), iterations=100, **settings)
    ce.minimize(ce.LinearLoss(A), ce.EVaR(0.1), iterations=100, checkpoint=path, time_limit=1e-9, **settings)
    again = ce.minimize(ce.LinearLoss(A), ce.EVaR(0.1), iterations=100, checkpoint=path, **settings)
    assert again.theta.tobytes() == whole.theta.tobytes()
    with pytest.raises(ValueError, match="EVaR"):
        ce.minimize(ce.LinearLoss(A), ce.EVaR(0.2), iterations=100, checkpoint=path, **settings)
