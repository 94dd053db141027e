"""Linear models under risks with more inner variables than t: against cvxpy's cones, the gap, and the way s = 0."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import certeq as ce
from certeq.learn import OCEClassifier, OCERegressor
from certeq.optimize.losses._predictor import LogisticScore, SoftmaxScore, SquaredScore
from certeq.optimize.predictor import LinearObjective

KL, CHI = ce.Entropic(1.0).ball(0.3), ce.MonotoneMeanVariance(2).ball(0.3)
TAILS = ce.Mixture([0.5, 0.3, 0.2], [ce.CVaR(0.3), ce.CVaR(0.1), ce.Mean()])
RISKS = [KL, ce.EVaR(0.2), CHI, ce.HMCR(2, 0.4), TAILS, ce.Mixture([0.6, 0.4], [ce.CVaR(0.3), ce.EVaR(0.3)])]
SLACK = 3e-7  # what Clarabel's own answers are good for, relative to objectives of size 1


def _cone(risk: Any, F: cp.Expression, w: np.ndarray, constraints: list[Any]) -> cp.Expression:
    """The risk of losses F as a conic program."""
    if isinstance(risk, ce.Mixture):
        return sum(share * _cone(part, F, w, constraints) for share, part in zip(risk.weights, risk.risks, strict=True))
    if isinstance(risk, ce.Mean):
        return w @ F
    t, n = cp.Variable(), len(w)
    if isinstance(risk, ce.CVaR):
        return t + w @ cp.pos(F - t) / risk.alpha
    if isinstance(risk, ce.HMCR) or risk == CHI:
        inverse = 1.0 / risk.alpha if isinstance(risk, ce.HMCR) else np.sqrt(1.0 + 2.0 * risk.radius)
        return t + inverse * cp.norm(cp.multiply(np.sqrt(w), cp.pos(F - t)), 2)
    radius = -np.log(risk.alpha) if isinstance(risk, ce.EVaR) else risk.radius
    s, over, above = cp.Variable(nonneg=True), cp.Variable(n), cp.Variable(n)
    constraints += [cp.ExpCone(over - t, s * np.ones(n), above), w @ above <= s, over >= F]
    return t + radius * s


def _minimum(risk: Any, X: np.ndarray, y: np.ndarray, penalty: float, w: np.ndarray, classes: int) -> float:
    c, b = cp.Variable(X.shape[1]), cp.Variable()
    scores = X @ c + b
    F = cp.square(scores - y) if classes == 0 else cp.logistic(cp.multiply(np.where(y == 1, -1.0, 1.0), scores))
    constraints: list[Any] = []
    objective = _cone(risk, F, w, constraints) + 0.5 * penalty * cp.sum_squares(c)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL)
    assert problem.status in ("optimal", "optimal_inaccurate")
    return float(problem.value)


def _data(n: int = 60, d: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n + d)
    X = rng.normal(size=(n, d))
    return X, X @ np.linspace(1.0, -0.5, d) + 0.3 + 0.5 * rng.standard_t(5, size=n), rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [0, 2])
@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_against_cones(risk: Any, classes: int, weighted: bool) -> None:
    X, target, weight = _data()
    y = target if classes == 0 else (target > 0.3).astype(int)
    given = weight if weighted else None
    total = float(weight.sum()) if weighted else float(len(y))
    w = weight / total if weighted else np.full(len(y), 1.0 / len(y))
    model: Any = OCERegressor(risk) if classes == 0 else OCEClassifier(risk)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ce.ReliabilityWarning)  # of few samples
        model.fit(X, y, sample_weight=given)
    best = _minimum(risk, X, y, (2.0 if classes == 0 else 1.0) / total, w, classes)
    assert model.converged_
    assert model.objective_ == pytest.approx(best, abs=SLACK)
    assert model.objective_ - best <= model.gap_ + SLACK
    spread = float(np.std(model.losses(X, y)))
    assert 0.0 < model.gap_ <= 1e-8 * max(spread, 0.1)
    penalty = (1.0 if classes == 0 else 0.5) / total * float(np.sum(np.square(model.coef_)))
    again = float(ce.oce(model.losses(X, y), risk, w)) + penalty
    assert again == pytest.approx(model.objective_, rel=1e-12)
    np.testing.assert_allclose(model.threshold_, ce.threshold(model.losses(X, y), risk, w), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("risk", [ce.EVaR(0.02), ce.Mixture([0.5, 0.5], [ce.CVaR(0.1), ce.EVaR(0.02)])], ids=repr)
def test_a_scale_that_tends_to_zero(risk: Any) -> None:
    """With so few samples for each column the risk is that of the largest error alone."""
    X, target, _ = _data(30, 6)
    model = OCERegressor(risk).fit(X, target)
    best = _minimum(risk, X, target, 2.0 / 30.0, np.full(30, 1.0 / 30.0), 0)
    assert model.converged_
    assert model.objective_ == pytest.approx(best, abs=SLACK)
    assert 0.0 < model.gap_ <= 1e-8


LARGEST = [ce.HMCR(2, 0.05), ce.HMCR(3, 0.1), ce.HMCR(1.5, 0.05), ce.EVaR(0.02), ce.MonotoneMeanVariance(2).ball(30.0)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [0, 2])
@pytest.mark.parametrize("risk", LARGEST, ids=repr)
def test_so_few_samples_that_the_risk_is_the_largest_loss(risk: Any, classes: int, weighted: bool) -> None:
    X, target, weight = _data(20, 8)
    y = target if classes == 0 else (target > 0.3).astype(int)
    w = weight / weight.sum() if weighted else np.full(20, 0.05)
    total = float(weight.sum()) if weighted else 20.0
    model: Any = OCERegressor(risk) if classes == 0 else OCEClassifier(risk)
    model.fit(X, y, sample_weight=weight if weighted else None)
    penalty = (2.0 if classes == 0 else 1.0) / total
    best = _minimum(ce.CVaR(1e-3), X, y, penalty, w, classes)
    assert model.converged_
    assert model.objective_ == pytest.approx(best, abs=SLACK)
    assert 0.0 < model.gap_ <= 1e-8
    np.testing.assert_allclose(model.threshold_, ce.threshold(model.losses(X, y), risk, w), rtol=1e-9)


@pytest.mark.parametrize("risk", [ce.HMCR(1.5, 0.1), ce.HMCR(2, 0.15), ce.HMCR(2, 0.3)], ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_a_scale_at_zero_where_the_risk_is_not_always_the_largest_loss(risk: ce.HMCR, seed: int) -> None:
    """Power p: the largest losses are so many, of one size, that the risk is theirs; or they are not."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 6))
    y = X @ rng.normal(size=6) + rng.standard_t(4, size=60)
    model = OCERegressor(risk).fit(X, y)
    c, b, t = cp.Variable(6), cp.Variable(), cp.Variable()
    tail = cp.norm(cp.pos(cp.square(X @ c + b - y) - t), risk.p) / (risk.alpha * 60 ** (1.0 / risk.p))
    problem = cp.Problem(cp.Minimize(t + tail + cp.sum_squares(c) / 60.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL)
    assert model.converged_
    assert model.objective_ <= problem.value + SLACK * abs(problem.value)
    assert model.objective_ - problem.value <= model.gap_ + SLACK * abs(problem.value)
    assert model.gap_ <= 1e-8 * abs(model.objective_)


def test_one_sample() -> None:
    for risk in (KL, CHI, ce.HMCR(2, 0.1), ce.EVaR(0.5)):
        model = OCERegressor(risk).fit([[1.0]], [2.0])
        assert model.objective_ == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("first", [3.0, 1.0, 0.3, 0.1, 0.05, 0.02])
def test_a_step_that_went_nowhere_leads_back_to_the_path(first: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With some of these first barriers one product of slack and multiplier was far smaller than the others."""
    monkeypatch.setattr("certeq.optimize.newton._FIRST", first)
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 3))
    y = np.where(X @ rng.normal(size=3) / np.sqrt(3.0) + 0.5 * rng.logistic(size=400) > 0.0, 1.0, -1.0)
    for model in (
        OCERegressor(0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1)),
        OCEClassifier(0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1)),
    ):
        assert model.fit(X, y).converged_
        assert model.n_iter_ < 60


@pytest.mark.parametrize("risk", [KL, CHI, TAILS], ids=repr)
def test_the_same_probability_for_all_where_nothing_can_be_told(risk: Any) -> None:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(400, 3)), np.arange(400) % 2
    strong = ce.Entropic(1.0).ball(3.0) if risk is KL else ce.HMCR(2, 0.2) if risk is CHI else risk
    model = OCEClassifier(strong).fit(X, y)
    assert model.converged_
    assert model.objective_ == pytest.approx(np.log(2.0), rel=1e-9)


@pytest.mark.parametrize("risk", [KL, CHI, ce.HMCR(2.5, 0.4), ce.Mixture([0.5, 0.5], [KL, ce.Entropic(0.5)])], ids=repr)
def test_derivatives(risk: Any) -> None:
    X, target, weight = _data()
    shares, rng = weight / weight.sum(), np.random.default_rng(1)
    labels = np.digitize(target, [-0.5, 0.8])
    for loss in (SquaredScore(target), LogisticScore(np.sign(target)), SoftmaxScore(labels, 3)):
        objective = LinearObjective(X, loss, shares, risk.inner(), 0.01, True)
        theta, v = 0.4 * rng.normal(size=objective.shape), rng.normal(size=objective.shape)
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
    X, target, _ = _data()
    plain, other = (OCERegressor(KL, alpha=0.0).fit(X, y) for y in (target, 1e3 * target))
    np.testing.assert_allclose(other.coef_, 1e3 * plain.coef_, rtol=1e-5)
    assert other.objective_ == pytest.approx(1e6 * plain.objective_, rel=1e-9)


def test_a_distortion_is_refused_with_the_reason() -> None:
    X, target, _ = _data()
    for risk in (ce.Wang(0.5), ce.Mixture([0.5, 0.5], [ce.Mean(), ce.Wang(0.5)])):
        with pytest.raises(TypeError, match=r"utility must have inner variables; found .*Mixture of a few CVaRs"):
            OCERegressor(risk).fit(X, target)
