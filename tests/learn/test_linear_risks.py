"""Linear models under risks with more inner variables than t: conic programs, the gap, s = 0, derivatives."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import certeq as ce
from certeq.learn import OCEClassifier, OCERegressor
from certeq.optimize.predictor import LinearObjective, LogisticScore, SoftmaxScore, SquaredScore
from tests.learn.conic import KL, SLACK, data, minimum
from tests.problems import SMOOTH

pytestmark = pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")  # samples are few here

CHI = ce.MonotoneMeanVariance(2).ball(0.3)
TAILS = ce.Mixture([0.5, 0.3, 0.2], [ce.CVaR(0.3), ce.CVaR(0.1), ce.Mean()])
RISKS = [KL, ce.EVaR(0.2), CHI, ce.HMCR(2, 0.4), TAILS, ce.Mixture([0.6, 0.4], [ce.CVaR(0.3), ce.EVaR(0.3)])]
LARGEST = [ce.HMCR(2, 0.05), ce.HMCR(3, 0.1), ce.HMCR(1.5, 0.05), ce.EVaR(0.02), ce.MonotoneMeanVariance(2).ball(30.0)]


def check(risk: Any, cone: Any, outputs: int, weighted: bool, n: int, d: int, gap: float = 1e-8) -> None:
    """Check a fit against the conic program of the risk, or of one that is the same on so few samples."""
    X, y, weight = data(outputs, n, d)
    total = float(weight.sum()) if weighted else float(n)
    w = weight / total if weighted else np.full(n, 1.0 / n)
    model: Any = OCERegressor(risk) if outputs == 0 else OCEClassifier(risk)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ce.ReliabilityWarning)  # of few samples
        model.fit(X, y, sample_weight=weight if weighted else None)
    best = minimum(cone, X, y, (2.0 if outputs == 0 else 1.0) / total, w, outputs)
    losses = model.losses(X, y)
    assert model.converged_
    assert model.objective_ == pytest.approx(best, abs=SLACK)
    assert model.objective_ - best <= model.gap_ + SLACK
    assert 0.0 < model.gap_ <= gap * max(float(np.std(losses)), 0.1)
    penalty = (1.0 if outputs == 0 else 0.5) / total * float(np.sum(np.square(model.coef_)))
    assert float(ce.oce(losses, risk, w)) + penalty == pytest.approx(model.objective_, rel=1e-12)
    np.testing.assert_allclose(model.threshold_, ce.threshold(losses, risk, w), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("outputs", [0, 2])
@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_against_cones(risk: Any, outputs: int, weighted: bool) -> None:
    check(risk, risk, outputs, weighted, 60, 3)


@pytest.mark.parametrize("risk", [ce.EVaR(0.02), ce.Mixture([0.5, 0.5], [ce.CVaR(0.1), ce.EVaR(0.02)])], ids=repr)
def test_a_scale_that_tends_to_zero(risk: Any) -> None:
    """With so few samples for each column the risk is that of the largest error alone."""
    check(risk, risk, 0, False, 30, 6, 1e-7)


@pytest.mark.parametrize("outputs, weighted", [(0, False), (0, True), (2, False), (2, True)])
@pytest.mark.parametrize("risk", LARGEST, ids=repr)
def test_so_few_samples_that_the_risk_is_the_largest_loss(risk: Any, outputs: int, weighted: bool) -> None:
    check(risk, ce.CVaR(1e-3), outputs, weighted, 20, 8, 1e-7)


@pytest.mark.parametrize("risk", [ce.HMCR(1.5, 0.1), ce.HMCR(2, 0.15), ce.HMCR(2, 0.3)], ids=repr)
@pytest.mark.parametrize("n", [60, 61, 62])
def test_a_scale_at_zero_where_the_risk_is_not_always_the_largest_loss(risk: ce.HMCR, n: int) -> None:
    """Power p: the largest losses are so many, of one size, that the risk is theirs; or they are not."""
    check(risk, risk, 0, False, n, 6)


def test_one_sample() -> None:
    for risk in (KL, CHI, ce.HMCR(2, 0.1), ce.EVaR(0.5)):
        model = OCERegressor(risk).fit([[1.0]], [2.0])
        assert model.objective_ == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0, 10.0, 30.0])
def test_few_steps_whatever_the_size_of_the_losses(scale: float) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 3))
    y = X @ rng.normal(size=3) / np.sqrt(3.0) + 0.5 * rng.logistic(size=400)
    utility = 0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1)
    for model in (OCERegressor(utility).fit(X, scale * y), OCEClassifier(utility, C=scale**3).fit(X, y > 0.0)):
        assert model.converged_
        assert model.n_iter_ < 60


@pytest.mark.parametrize("risk", [ce.Entropic(1.0).ball(3.0), ce.HMCR(2, 0.2), TAILS], ids=repr)
def test_the_same_probability_for_all_where_nothing_can_be_told(risk: Any) -> None:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(400, 3)), np.arange(400) % 2
    model = OCEClassifier(risk).fit(X, y)
    assert model.converged_
    assert model.objective_ == pytest.approx(np.log(2.0), rel=1e-9)


BALLS = {
    "kl": KL,
    "chi": CHI,
    "hmcr": ce.HMCR(2.5, 0.4),
    "mixture": ce.Mixture([0.5, 0.5], [KL, ce.Entropic(0.5)]),
}


@pytest.mark.parametrize("name", [*SMOOTH, *BALLS])
def test_derivatives(name: str) -> None:
    """Newton's method takes gradients and Hessians by their formulas: here they are compared with differences."""
    risk, rng = (SMOOTH | BALLS)[name], np.random.default_rng(1)
    X, y, weight = data()
    shares, labels = weight / weight.sum(), np.digitize(y, [-0.5, 0.8])
    for loss, w in ((SquaredScore(y), shares), (LogisticScore(np.sign(y)), None), (SoftmaxScore(labels, 3), shares)):
        objective = LinearObjective(X, loss, w, risk.inner(), 0.01, w is not None)
        theta, v = 0.3 * rng.normal(size=objective.shape), rng.normal(size=objective.shape)
        at, step = objective.evaluate(theta), 1e-6
        up, down = objective.evaluate(theta + step * v), objective.evaluate(theta - step * v)
        assert np.vdot(at.gradient, v) == pytest.approx((up.value - down.value) / (2 * step), rel=1e-5, abs=1e-7)
        numeric = (up.gradient - down.gradient) / (2 * step)
        product = objective.hessian_product(at.slopes, at.tilt, objective.curvature(at), v)
        np.testing.assert_allclose(product, numeric, rtol=1e-3, atol=1e-4 * np.abs(numeric).max())
        if objective.shape[0] == 1:
            matrix = objective.hessian(at.slopes, at.tilt, objective.curvature(at))
            np.testing.assert_allclose((matrix @ v.ravel()).reshape(v.shape), product, rtol=1e-8, atol=1e-10)


def test_units_drop_out_of_a_ball() -> None:
    X, y, _ = data()
    plain, other = (OCERegressor(KL, alpha=0.0).fit(X, target) for target in (y, 1e3 * y))
    np.testing.assert_allclose(other.coef_, 1e3 * plain.coef_, rtol=1e-5)
    assert other.objective_ == pytest.approx(1e6 * plain.objective_, rel=1e-9)
