"""Risk budgeting: contributions match the budget, against skfolio, in every setting; and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from skfolio.model_selection import WalkForward, cross_val_predict
from skfolio.prior import EntropyPooling, OpinionPooling
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

import certeq as ce
from certeq.portfolio import RiskBudgetingOCE, oce_scorer
from tests.problems import RISKS

# Of the registry; the mean is no risk of assets that gain on average.
COHERENT = [name for name, entry in RISKS.items() if entry.coherent and entry.blocks and name != "mean"]


def shares_by_hand(model: RiskBudgetingOCE, X: pd.DataFrame) -> np.ndarray:
    """Contributions by the tilt, which sums to 1 and attains the risk."""
    assert model.tilt_.sum() == pytest.approx(1.0, abs=1e-12)
    losses = -(X.to_numpy() @ model.weights_)
    assert model.tilt_ @ losses == pytest.approx(ce.oce(losses, model.utility_), rel=1e-9)
    return model.weights_ * (model.tilt_ @ -X.to_numpy())


@pytest.mark.parametrize("name", COHERENT)
def test_contributions_match_the_budget(small: pd.DataFrame, name: str) -> None:
    risk, small = RISKS[name].risk, small[-150:]
    budget = {"BOND": 3.0, "GOLD": 0.5}
    model = RiskBudgetingOCE(risk, budget).fit(small)
    shares = shares_by_hand(model, small)
    np.testing.assert_allclose(shares / shares.sum(), np.array([3.0, 0.5, 1, 1, 1]) / 6.5, rtol=1e-8)
    assert model.weights_.sum() == pytest.approx(1.0)
    assert model.deviation_ <= 1e-9
    assert 0.0 <= model.gap_ <= 1e-9
    np.testing.assert_allclose(model.risk_contributions_, shares, rtol=1e-8)
    doubled = clone(model).set_params(budget=2.0).fit(small)
    np.testing.assert_allclose(doubled.weights_, 2.0 * model.weights_, rtol=1e-7)
    assert doubled.risk_ == pytest.approx(2.0 * model.risk_, rel=1e-9)


def test_pooled_opinions_on_which_a_cone_solver_stalls(sp500: pd.DataFrame) -> None:
    """The example of skfolio's OpinionPooling: Clarabel 0.11 fails on its CVaR budgeting (skfolio, issue 292)."""
    two = EntropyPooling(mean_views=["AMD >= BAC", "JPM <= prior(JPM) * 0.8"], cvar_views=["GE == 0.12"])
    estimators = [("one", EntropyPooling(cvar_views=["AMD == 0.10"])), ("two", two)]
    prior = OpinionPooling(estimators=estimators, opinion_probabilities=[0.4, 0.5])
    model = RiskBudgetingOCE(ce.CVaR(0.05), prior_estimator=prior).fit(sp500)
    p = model.prior_estimator_.return_distribution_.sample_weight
    assert p.max() > 50.0 * p.min()
    losses = -(sp500.to_numpy() @ model.weights_)
    assert model.risk_ == pytest.approx(float(ce.oce(losses, ce.CVaR(0.05), p)), rel=1e-10)
    assert model.tilt_ @ losses == pytest.approx(model.risk_, rel=1e-9)
    assert np.all(model.tilt_ <= p / 0.05 * (1.0 + 1e-9))  # a tilt that CVaR allows
    shares = model.weights_ * (model.tilt_ @ -sp500.to_numpy())
    np.testing.assert_allclose(shares, shares.mean(), rtol=1e-8)
    assert 0.0 <= model.gap_ <= 1e-9


def test_fees_are_losses(small: pd.DataFrame) -> None:
    fees = np.array([0.0, 0.0, 0.0, 0.0, 2e-3])
    model = RiskBudgetingOCE(ce.CVaR(0.05), management_fees=fees).fit(small)
    plain = RiskBudgetingOCE(ce.CVaR(0.05)).fit(small - fees)
    np.testing.assert_allclose(model.weights_, plain.weights_, rtol=1e-7)
    assert model.weights_[-1] < RiskBudgetingOCE(ce.CVaR(0.05)).fit(small).weights_[-1]


def test_inside_cross_validation_searches_and_pipelines(small: pd.DataFrame) -> None:
    model = RiskBudgetingOCE(ce.CVaR(0.05))
    assert len(cross_val_predict(model, small, cv=WalkForward(train_size=200, test_size=100))) == 3
    search = GridSearchCV(model, {"utility__alpha": [0.05, 0.2]}, cv=3, scoring=oce_scorer(ce.CVaR(0.05))).fit(small)
    assert search.best_params_["utility__alpha"] in (0.05, 0.2)
    piped = Pipeline([("model", RiskBudgetingOCE())]).fit(small)
    np.testing.assert_allclose(piped[-1].weights_, model.fit(small).weights_)
    assert model.predict(small).returns.shape == (500,)
    updated = RiskBudgetingOCE().partial_fit(small[:300]).partial_fit(small[300:])
    np.testing.assert_allclose(updated.weights_, model.weights_, rtol=1e-6)


def test_warm_start_takes_fewer_steps_to_the_same_answer(sp500: pd.DataFrame) -> None:
    X, later = sp500.iloc[-1020:-10], sp500.iloc[-1010:]
    cold = RiskBudgetingOCE(ce.EVaR(0.05)).fit(later)
    warm = RiskBudgetingOCE(ce.EVaR(0.05), warm_start=True).fit(X).fit(later)
    np.testing.assert_allclose(warm.weights_, cold.weights_, rtol=1e-7)
    assert warm.n_iter_ < cold.n_iter_
