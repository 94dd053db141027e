"""Return, risk, utility and ratio under limits on risks: against skfolio, against cvxpy, and in every setting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from skfolio import RiskMeasure
from skfolio.exceptions import OptimizationError
from skfolio.model_selection import WalkForward, cross_val_predict
from skfolio.optimization import MeanRisk, ObjectiveFunction
from skfolio.prior import BlackLitterman, EntropyPooling
from sklearn.base import clone

import certeq as ce
from certeq.portfolio import MinimumOCE, ScenarioPrior
from tests.portfolio import reference
from tests.problems import RISKS

TAIL = ce.CVaR(0.05)
# Of the registry, those that can be limited.
LIMITED = [name for name, entry in RISKS.items() if entry.minimized and entry.blocks]


def losses(model: MinimumOCE, X: pd.DataFrame) -> np.ndarray:
    return -(X.to_numpy() @ model.weights_)


def kept(model: MinimumOCE, X: pd.DataFrame, levels: list[float]) -> None:
    """Limits are kept to 1e-9 of max(|level|, spread), and the gap is proved."""
    unit = np.maximum(np.abs(levels), losses(model, X).std())
    assert np.all(model.limit_values_ <= np.array(levels) + 1e-9 * unit)
    least = 0.0 if model.objective_function in ("maximize_return", RETURN) else unit.min()  # the objective has no risk
    assert 0.0 <= model.gap_ <= 1e-9 * max(abs(model.objective_), least)
    assert np.all(model.limit_multipliers_ >= 0.0)


PANELS = ["sp500", "ftse"]
RETURN, RATIO = ObjectiveFunction.MAXIMIZE_RETURN, ObjectiveFunction.MAXIMIZE_RATIO


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("rate", [0.0, 1e-4])
def test_ratio_is_that_of_skfolio_or_better(panel: str, rate: float, request: pytest.FixtureRequest) -> None:
    X = request.getfixturevalue(panel).iloc[-1500:]
    model = MinimumOCE(TAIL, RATIO, risk_free_rate=rate).fit(X)
    theirs = MeanRisk(objective_function=RATIO, risk_measure=RiskMeasure.CVAR, risk_free_rate=rate).fit(X).weights_
    ratio = (X.mean().to_numpy() @ theirs - rate) / ce.oce(-(X.to_numpy() @ theirs), TAIL)
    assert model.objective_ >= ratio * (1.0 - 1e-9)
    assert model.objective_ == pytest.approx(ratio, rel=1e-5)
    assert 0.0 <= model.gap_ <= 1e-9 * model.objective_
    assert model.objective_ == pytest.approx((model.problem_values_["expected_return"] - rate) / model.risk_)


@pytest.mark.parametrize("risk", [ce.CVaR(0.1), ce.Entropic(20.0)], ids=repr)
def test_limits_against_a_benchmark_agree_with_cvxpy(small: pd.DataFrame, risk: Any) -> None:
    X = small.iloc[:300]
    y = X.mean(axis=1)
    level = 0.6 * float(ce.oce(y.to_numpy() - X["GOLD"].to_numpy(), risk))
    model = MinimumOCE(ce.CVaR(0.1), benchmark_limits=[(risk, level)], transaction_costs=1e-4).fit(X, y)
    same = {"benchmark_limits": [(risk, level)], "y": y.to_numpy(), "costs": 1e-4}
    wanted, _ = reference.solve(X.to_numpy(), ce.CVaR(0.1), **same)
    assert model.objective_ == pytest.approx(wanted, abs=1e-9)
    assert model.limit_values_[0] == pytest.approx(level, abs=1e-9)
    assert model.limit_values_[0] == pytest.approx(
        ce.oce(y.to_numpy() - X.to_numpy() @ model.weights_ + 1e-4, risk), abs=1e-12
    )


@pytest.mark.parametrize("name", LIMITED)
@pytest.mark.filterwarnings("ignore:X looks like", "ignore::certeq.UnitWarning", "ignore::certeq.ReliabilityWarning")
def test_every_risk_goes_where_cvar_goes(small: pd.DataFrame, name: str) -> None:
    """Limit and objective by every risk: the frontier met from both sides, and the ratio between its ends."""
    entry, X = RISKS[name], 50.0 * small[:200]
    risk = entry.risk
    least = MinimumOCE(risk).fit(X)
    level = least.risk_ + 0.3 * abs(least.risk_)
    model = MinimumOCE(objective_function="maximize_return", risk_limits=[(risk, level)]).fit(X)
    kept(model, X, [level])
    assert model.limit_values_[0] == pytest.approx(float(entry.definition(losses(model, X), None)), abs=1e-9)
    back = MinimumOCE(risk, min_return=model.objective_ - 1e-12).fit(X)
    assert back.risk_ == pytest.approx(model.limit_values_[0], rel=2e-8)
    # One unit of the level earns the multiplier: by differences.
    more = clone(model).set_params(risk_limits=[(risk, level * (1.0 + 1e-5))]).fit(X)
    earned = (more.objective_ - model.objective_) / (1e-5 * level)
    assert earned == pytest.approx(model.limit_multipliers_[0], rel=1e-2)
    if least.risk_ > 0.0:
        ratio = MinimumOCE(risk, "maximize_ratio").fit(X)
        assert ratio.objective_ >= model.objective_ / model.limit_values_[0] * (1.0 - 1e-9)
        assert ratio.objective_ >= least.problem_values_["expected_return"] / least.risk_ * (1.0 - 1e-9)
        assert ratio.gap_ <= 1e-9 * ratio.objective_


def test_utility_under_a_limit_and_the_ratio_under_one(small: pd.DataFrame) -> None:
    free = MinimumOCE(ce.Entropic(20.0), "maximize_utility", risk_aversion=0.5).fit(small)
    level = 0.8 * float(ce.oce(losses(free, small), TAIL))
    held = clone(free).set_params(risk_limits=[(TAIL, level)]).fit(small)
    kept(held, small, [level])
    assert held.objective_ < free.objective_
    step = clone(held).set_params(risk_limits=[(TAIL, level * (1 + 1e-5))]).fit(small)
    assert (step.objective_ - held.objective_) / (1e-5 * level) == pytest.approx(held.limit_multipliers_[0], rel=1e-2)
    assert held.limit_names_ == [f"risk_limits[0], CVaR(alpha=0.05) <= {level:g}"]
    loose = clone(free).set_params(risk_limits=[(TAIL, 1.0)]).fit(small)
    np.testing.assert_allclose(loose.weights_, free.weights_, atol=1e-6)
    assert loose.limit_multipliers_ == [0.0]
    best = MinimumOCE(TAIL, "maximize_ratio").fit(small)
    level = 0.95 * float(ce.oce(losses(best, small), ce.EVaR(0.05)))
    within = clone(best).set_params(risk_limits=[(ce.EVaR(0.05), level)]).fit(small)
    assert within.limit_values_[0] == pytest.approx(level, rel=1e-9)
    assert within.objective_ < best.objective_
    step = clone(within).set_params(risk_limits=[(ce.EVaR(0.05), level * (1 + 1e-5))]).fit(small)
    assert (step.objective_ - within.objective_) / (1e-5 * level) == pytest.approx(
        within.limit_multipliers_[0], rel=1e-2
    )


def test_frontiers(small: pd.DataFrame) -> None:
    least = MinimumOCE(TAIL).fit(small).risk_
    levels = least * np.array([1.5, 1.1, 1.3])
    model = MinimumOCE(objective_function="maximize_return", risk_limits=[(TAIL, levels)]).fit(small)
    assert model.weights_.shape == (3, 5)
    np.testing.assert_allclose(model.limit_values_[:, 0], levels, rtol=1e-9)
    one = clone(model).set_params(risk_limits=[(TAIL, float(levels[1]))]).fit(small)
    assert model.objective_[1] == pytest.approx(one.objective_, rel=1e-9)
    assert len(model.predict(small)) == 3
    limited = MinimumOCE(TAIL, efficient_frontier_size=6, risk_limits=[(ce.EVaR(0.05), 2.0 * least)]).fit(small)
    assert np.all(np.diff(limited.risk_) > 0.0)
    assert limited.limit_values_.max() <= 2.0 * least * (1 + 1e-9)
    assert limited.limit_values_[-1, 0] == pytest.approx(2.0 * least, rel=1e-6)
    assert np.max(limited.gap_) < 1e-9 * limited.risk_.max()
    several = MinimumOCE(TAIL, "maximize_ratio", min_return=[4e-4, 6e-4]).fit(small)
    assert np.all(np.diff(several.objective_) <= 0.0)
    y = small.mean(axis=1)
    tracking = MinimumOCE(TAIL, max_tracking_error=[0.002, 0.004]).fit(small, y)
    np.testing.assert_allclose(tracking.limit_values_[:, 0], [0.002, 0.004], rtol=1e-9)


def test_the_level_within_reach_has_its_costs(small: pd.DataFrame) -> None:
    least = MinimumOCE(TAIL, transaction_costs=1e-3).fit(small)
    costly = clone(least).set_params(risk_limits=[(TAIL, 0.5 * least.risk_)])
    with pytest.raises(OptimizationError, match=f"out of reach.*allow {least.risk_:.6g}"):
        costly.fit(small)


def test_a_level_that_only_the_least_risk_reaches(small: pd.DataFrame) -> None:
    least = MinimumOCE(TAIL).fit(small)
    for level in (least.risk_, least.risk_ * (1.0 - 1e-12)):
        model = MinimumOCE(objective_function="maximize_return", risk_limits=[(TAIL, level)]).fit(small)
        assert model.limit_values_[0] <= level * (1.0 + 1e-9)
    same = MinimumOCE(objective_function="maximize_return", risk_limits=2 * [(TAIL, 0.02)]).fit(small)
    assert same.limit_values_[0] == same.limit_values_[1] == pytest.approx(0.02, rel=1e-9)


@pytest.mark.parametrize("params", [{"risk_limits": [(TAIL, 0.02)]}, {"max_tracking_error": 0.004}], ids=str)
def test_weights_that_nothing_but_the_limits_bounds(small: pd.DataFrame, params: dict[str, Any]) -> None:
    y = small.mean(axis=1)
    free = {"objective_function": "maximize_return", "min_weights": None, "max_weights": None}
    model = MinimumOCE(**free, **params).fit(small, y)
    wide = MinimumOCE(**{**free, "min_weights": -50.0, "max_weights": 50.0}, **params).fit(small, y)
    assert model.objective_ == pytest.approx(wide.objective_, rel=1e-9)
    assert model.gap_ <= 1e-9 * model.objective_
    assert model.limit_values_[0] == pytest.approx(model.limit_levels_[0], rel=1e-9)
    with pytest.raises(OptimizationError, match="unbounded"):
        MinimumOCE(**free).fit(small)


@pytest.mark.filterwarnings("ignore:The prior.s covariance differs")
@pytest.mark.parametrize("history", [None, 200])
def test_benchmark_is_matched_by_date(small: pd.DataFrame, history: int | None) -> None:
    y, days = small.mean(axis=1), small.iloc[100:]
    prior = ScenarioPrior(max_history=history)
    model = MinimumOCE(objective_function="maximize_return", max_tracking_error=0.003, prior_estimator=prior)
    wanted = model.fit(days, y.iloc[100:].to_numpy()).weights_
    for given in (y[::-1], y.sample(frac=1.0, random_state=0).to_frame("index"), y):  # the last has further dates
        np.testing.assert_allclose(model.fit(days, given).weights_, wanted, rtol=1e-9, atol=1e-12)
    by_position = model.fit(days.to_numpy(), y.iloc[100:]).weights_  # X has no dates
    np.testing.assert_allclose(by_position, wanted, rtol=1e-9, atol=1e-12)
    reset = model.fit(days.reset_index(drop=True), y.iloc[100:].reset_index(drop=True)).weights_
    np.testing.assert_allclose(reset, wanted, rtol=1e-9, atol=1e-12)


def test_benchmark_is_matched_in_cross_validation(small: pd.DataFrame) -> None:
    model, y = MinimumOCE(objective_function="maximize_return", max_tracking_error=0.003), small.mean(axis=1)
    walk = WalkForward(test_size=100, train_size=250)
    found, turned = (cross_val_predict(model, small, each, cv=walk) for each in (y, y.to_frame()))
    np.testing.assert_array_equal(found.returns, turned.returns)
    late = [model.fit(small.iloc[k : k + 250], y[::-1]).weights_ for k in (0, 100)]
    np.testing.assert_allclose([each.weights for each in found], late, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:The prior.s covariance differs")
def test_priors_with_weights_and_views(small: pd.DataFrame) -> None:
    y = small.mean(axis=1)
    pooled = MinimumOCE(
        objective_function="maximize_return",
        prior_estimator=EntropyPooling(cvar_views=["TECH == 0.05"]),
        recenter=False,
        risk_limits=[(TAIL, 0.02)],
    ).fit(small)
    p = pooled.prior_estimator_.return_distribution_.sample_weight
    assert ce.oce(losses(pooled, small), TAIL, p) == pytest.approx(0.02, rel=1e-9)
    views = BlackLitterman(views=["TECH == 0.0001"])
    tracking = MinimumOCE(prior_estimator=views, recenter=True, max_tracking_error=0.003).fit(small, y)
    apart = small.to_numpy() @ tracking.weights_ - y.to_numpy()  # of the returns as they are, not as they were moved
    assert np.sqrt(apart @ apart / 499) == pytest.approx(0.003, rel=1e-9)


@pytest.mark.parametrize(
    "params",
    [
        {"objective_function": "maximize_return", "risk_limits": [(TAIL, 0.0245)]},
        {"risk_limits": [(ce.EVaR(0.05), 0.041)], "min_return": 5e-4},
        {"objective_function": "maximize_ratio", "utility": ce.Entropic(20.0)},
        {"objective_function": "maximize_ratio", "risk_limits": [(ce.EVaR(0.05), 0.06)]},
    ],
    ids=["CVaR", "two", "Entropic ratio", "ratio and limit"],
)
def test_warm_start_takes_fewer_steps_to_the_same_answer(sp500: pd.DataFrame, params: dict[str, Any]) -> None:
    X, later = sp500.iloc[:-20], sp500.iloc[10:-10]
    cold = MinimumOCE(**params).fit(later)
    warm = MinimumOCE(**params, warm_start=True).fit(X).fit(later)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-8)
    assert warm.n_iter_ < cold.n_iter_


def test_warm_start_of_a_ratio_under_tighter_constraints(sp500: pd.DataFrame) -> None:
    """The last weights then lie outside, and are no candidates."""
    wide, tight = (MinimumOCE(objective_function="maximize_ratio", max_weights=most) for most in (1.0, 0.12))
    warm = MinimumOCE(objective_function="maximize_ratio", warm_start=True).fit(sp500).set_params(max_weights=0.12)
    np.testing.assert_allclose(warm.fit(sp500).weights_, tight.fit(sp500).weights_, atol=1e-7)
    assert wide.fit(sp500).weights_.max() > 0.12
