"""Scorers and measures: any portfolio by any OCE."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from skfolio import MultiPeriodPortfolio, Population, Portfolio
from skfolio.model_selection import WalkForward, cross_val_predict
from skfolio.optimization import EqualWeighted, InverseVolatility, MeanRisk
from skfolio.portfolio import FailedPortfolio
from sklearn.model_selection import GridSearchCV, cross_val_score

import certeq as ce
from certeq.portfolio import MinimumOCE, OCEMeasure, oce_scorer, portfolio_oce


def test_cvar_of_a_portfolio_is_skfolios(small: pd.DataFrame) -> None:
    portfolio = EqualWeighted().fit(small).predict(small)
    assert portfolio_oce(portfolio, ce.CVaR(0.05)) == pytest.approx(portfolio.cvar, abs=1e-15)
    paid = Portfolio(small, np.full(5, 0.2), transaction_costs=0.01, sample_weight=np.arange(1, 501) / 125250)
    assert portfolio_oce(paid, ce.CVaR(0.05)) == pytest.approx(paid.cvar, abs=1e-14)


def test_several_periods_and_populations(small: pd.DataFrame) -> None:
    walk = cross_val_predict(EqualWeighted(), small, cv=WalkForward(train_size=200, test_size=100))
    assert isinstance(walk, MultiPeriodPortfolio)
    assert portfolio_oce(walk, ce.Entropic(5.0)) == pytest.approx(ce.oce(-walk.returns, ce.Entropic(5.0)))
    measure = OCEMeasure(ce.CVaR(0.1))
    both = Population([EqualWeighted().fit(small).predict(small), InverseVolatility().fit(small).predict(small)])
    assert measure(both) == pytest.approx(np.mean([measure(each) for each in both]))


def test_scorer_in_searches(small: pd.DataFrame) -> None:
    scorer = oce_scorer(ce.CVaR(0.1))
    scores = cross_val_score(MeanRisk(), small, scoring=scorer, cv=3)
    assert scores.shape == (3,)
    assert np.all(scores < 0)
    search = GridSearchCV(
        MinimumOCE(), {"utility__alpha": [0.05, 0.5]}, scoring=scorer, cv=WalkForward(train_size=200, test_size=100)
    ).fit(small)
    assert search.best_params_["utility__alpha"] in (0.05, 0.5)
    assert pickle.loads(pickle.dumps(scorer))(search.best_estimator_, small) == scorer(search.best_estimator_, small)


def test_a_measure_scores_like_its_scorer(small: pd.DataFrame) -> None:
    measure, model = OCEMeasure(ce.CVaR(0.05)), MinimumOCE(ce.CVaR(0.05))
    scores = [cross_val_score(model, small, cv=3, scoring=each) for each in (measure, oce_scorer(ce.CVaR(0.05)))]
    np.testing.assert_array_equal(*scores)
    search = GridSearchCV(model, {"max_weights": [0.3, 1.0]}, cv=3, scoring=measure).fit(small)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max() < 0.0
    assert np.isnan(portfolio_oce(FailedPortfolio(X=small), ce.CVaR(0.05)))
