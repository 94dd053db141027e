"""MinimumOCE under risks with more inner variables than the threshold."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("skfolio")

from sklearn.model_selection import GridSearchCV, KFold

import certeq as ce
from certeq.portfolio import MinimumOCE, oce_scorer

RISKS = [
    ce.EVaR(0.05),
    ce.MonotoneMeanVariance(2).ball(0.5),
    ce.HMCR(2, 0.1),
    ce.Mixture([0.5, 0.3, 0.2], [ce.CVaR(0.1), ce.CVaR(0.05), ce.CVaR(0.02)]),
    ce.Mixture([0.5, 0.5], [ce.Entropic(20.0), ce.EVaR(0.1)]),
]
DISTORTIONS = [ce.Wang(0.7), ce.Mixture([0.5, 0.5], [ce.PowerDistortion(4), ce.CVaR(0.05)])]


@pytest.fixture(scope="module")
def returns():
    rng = np.random.default_rng(0)
    common = rng.standard_t(4, size=(400, 1))
    return 0.01 * (rng.standard_t(4, size=(400, 6)) + common) + np.linspace(0.0, 1e-3, 6)


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_the_risk_is_least(returns, risk):
    model = MinimumOCE(risk).fit(returns)
    assert model.gap_ <= 1e-9 * abs(model.objective_)
    assert abs(model.risk_ - ce.oce(-returns @ model.weights_, risk)) <= 1e-15
    others = np.random.default_rng(1).dirichlet(np.ones(6), 50)
    assert np.min(ce.oce(-others @ returns.T, risk, axis=1)) >= model.risk_ - model.gap_
    np.testing.assert_allclose(model.threshold_, ce.threshold(-returns @ model.weights_, risk), rtol=1e-12)


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_contributions_add_up(returns, risk):
    model = MinimumOCE(risk).fit(returns)
    total = model.risk_ - float(ce.oce(np.zeros(1), risk))
    assert abs(model.risk_contributions_.sum() - total) <= 1e-12 * abs(total)


@pytest.mark.parametrize("risk", DISTORTIONS, ids=repr)
def test_distortions(returns, risk):
    model = MinimumOCE(risk).fit(returns)
    assert model.gap_ <= 1e-7 * abs(model.objective_)
    assert np.isnan(model.threshold_)
    assert abs(model.risk_ - ce.oce(-returns @ model.weights_, risk)) <= 1e-15
    assert abs(model.risk_contributions_.sum() - model.risk_) <= 1e-12 * model.risk_
    others = np.random.default_rng(1).dirichlet(np.ones(6), 50)
    assert np.min(ce.oce(-others @ returns.T, risk, axis=1)) >= model.risk_ - model.gap_
    penalized = MinimumOCE(risk, l2_coef=0.01, transaction_costs=1e-3, previous_weights=np.full(6, 1 / 6)).fit(returns)
    assert penalized.gap_ <= 1e-7 * abs(penalized.objective_)


@pytest.mark.parametrize("risk", [RISKS[0], RISKS[3], DISTORTIONS[0]], ids=repr)
def test_frontiers(returns, risk):
    model = MinimumOCE(risk, efficient_frontier_size=5).fit(returns)
    risks = ce.oce(-model.weights_ @ returns.T, risk, axis=1)
    assert model.weights_.shape == (5, 6)
    assert np.all(np.diff(risks) >= -1e-12)
    assert np.all(np.diff(model.weights_ @ returns.mean(axis=0)) > 0.0)


def test_costs_and_penalties(returns):
    plain = MinimumOCE(ce.EVaR(0.1)).fit(returns)
    model = MinimumOCE(ce.EVaR(0.1), l2_coef=0.01, transaction_costs=1e-3, previous_weights=np.full(6, 1 / 6)).fit(
        returns
    )
    assert model.gap_ <= 1e-9 * abs(model.objective_)
    assert np.abs(model.weights_ - 1 / 6).sum() < np.abs(plain.weights_ - 1 / 6).sum()


def test_its_parameters_are_searched(returns):
    search = GridSearchCV(
        MinimumOCE(ce.EVaR(0.1)), {"utility__alpha": [0.05, 0.2]}, cv=KFold(2), scoring=oce_scorer(ce.CVaR(0.1))
    ).fit(returns)
    assert search.best_params_["utility__alpha"] in (0.05, 0.2)


@pytest.mark.parametrize(
    ("risk", "grid"),
    [
        (ce.HMCR(2, 0.1), {"utility__alpha": [0.05, 0.2], "utility__p": [2, 3]}),
        (ce.Entropic().ball(0.5), {"utility__radius": [0.1, 1.0]}),
        (ce.Mixture([0.5, 0.5], [ce.CVaR(0.1), ce.EVaR(0.1)]), {"utility__risk_1__alpha": [0.05, 0.2]}),
        (ce.Wang(0.5), {"utility__shift": [0.2, 1.0]}),
    ],
    ids=repr,
)
def test_parameters_of_any_risk_are_searched(returns, risk, grid):
    search = GridSearchCV(MinimumOCE(risk), grid, cv=KFold(2), scoring=oce_scorer(ce.CVaR(0.1))).fit(returns)
    assert all(search.best_params_[name] in values for name, values in grid.items())


def test_by_stochastic_gradients(returns):
    exact = MinimumOCE(ce.EVaR(0.1)).fit(returns)
    model = MinimumOCE(ce.EVaR(0.1), solver="sg", solver_params={"iterations": 500}, random_state=0).fit(returns)
    assert exact.risk_ <= model.risk_ + 1e-12 <= 1.01 * exact.risk_
    assert model.risk_ - model.gap_ <= exact.risk_
