"""MinimumOCE wherever skfolio and scikit-learn put an optimizer."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import sklearn
from skfolio import MultiPeriodPortfolio, Population, RatioMeasure
from skfolio.datasets import load_factors_dataset, load_sp500_dataset
from skfolio.model_selection import (
    MultipleRandomizedCV,
    OnlineGridSearch,
    WalkForward,
    cross_val_predict,
    online_predict,
)
from skfolio.moments import EWCovariance, EWMu
from skfolio.optimization import StackingOptimization
from skfolio.pre_selection import SelectKExtremes
from skfolio.preprocessing import prices_to_returns
from skfolio.prior import EmpiricalPrior, TimeSeriesFactorModel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import certeq as ce
from certeq.portfolio import MinimumOCE, RiskBudgetingOCE, oce_scorer

PREDICT = "skfolio's own predict returns a Portfolio and hands X to it as it is"
EXPECTED = {
    "check_estimators_nan_inf": f"{PREDICT}: it does not look for NaN (fit does).",
    "check_methods_sample_order_invariance": f"{PREDICT}: a Portfolio is not an array.",
    "check_fit2d_predict1d": f"{PREDICT}: one-dimensional X is refused, but in other words.",
    "check_fit_score_takes_y": "skfolio's own fit_predict takes no y.",
}


@parametrize_with_checks(
    [
        MinimumOCE(),
        MinimumOCE(risk_limits=[(ce.CVaR(0.1), 1e3)]),
        RiskBudgetingOCE(management_fees=1e3),
    ],  # its data are gains throughout, which have no risk to share
    expected_failed_checks=lambda estimator: EXPECTED,
)
@pytest.mark.filterwarnings("ignore:X looks like prices", "ignore:X looks like returns in per cent")
@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")  # its samples are few
def test_scikit_learns_checks(estimator: MinimumOCE, check) -> None:
    check(estimator)


def test_walk_forward_hands_on_previous_weights(small: pd.DataFrame) -> None:
    model = MinimumOCE(ce.Entropic(30.0), transaction_costs=0.005, max_turnover=0.4)
    found = cross_val_predict(model, small, cv=WalkForward(train_size=200, test_size=100)).portfolios
    assert model.needs_previous_weights
    np.testing.assert_allclose(found[1].previous_weights, found[0].weights, atol=1e-12)
    assert np.abs(found[1].weights - found[0].weights).max() <= 0.4 + 1e-9
    free = cross_val_predict(MinimumOCE(ce.Entropic(30.0)), small, cv=WalkForward(train_size=200, test_size=100))
    change = lambda parts: sum(np.abs(b.weights - a.weights).sum() for a, b in itertools.pairwise(parts))
    assert change(found) < change(free.portfolios)


@pytest.mark.parametrize("previous", [0.05, np.float64(0.05), np.array(0.05)], ids=repr)
def test_one_number_of_previous_weights_predicts(previous: object, small: pd.DataFrame) -> None:
    found = MinimumOCE(previous_weights=previous, transaction_costs=1e-4).fit(small)
    as_array = MinimumOCE(previous_weights=np.full(small.shape[1], 0.05), transaction_costs=1e-4).fit(small)
    portfolio, expected = found.predict(small), as_array.predict(small)
    np.testing.assert_array_equal(portfolio.previous_weights, np.full(small.shape[1], 0.05))
    assert portfolio.turnover == expected.turnover == pytest.approx(np.abs(found.weights_ - 0.05).sum())
    np.testing.assert_array_equal(portfolio.returns, expected.returns)
    assert found.previous_weights is previous
    budgeted = RiskBudgetingOCE(previous_weights=previous).fit(small)
    assert budgeted.predict(small).turnover == pytest.approx(np.abs(budgeted.weights_ - 0.05).sum())


def test_a_series_by_name_costs_the_predicted_portfolio_the_same_in_any_order(small: pd.DataFrame) -> None:
    size = small.shape[1]
    held = pd.Series(np.arange(1.0, size + 1) / size**2, index=small.columns)
    costs, fees = 1e-3 * held, 1e-4 * held
    expected = MinimumOCE(
        previous_weights=held.to_dict(), transaction_costs=costs.to_dict(), management_fees=fees.to_dict()
    )
    turned = MinimumOCE(previous_weights=held[::-1], transaction_costs=costs[::-1], management_fees=fees[::-1])
    portfolios = [model.fit(small).predict(small) for model in (expected, turned)]
    np.testing.assert_allclose(portfolios[0].returns, portfolios[1].returns, rtol=0.0, atol=1e-15)
    assert portfolios[0].turnover == pytest.approx(portfolios[1].turnover, rel=1e-12)


def test_multiple_randomized_leaves_out_assets(small: pd.DataFrame) -> None:
    cv = MultipleRandomizedCV(
        walk_forward=WalkForward(train_size=150, test_size=50), n_subsamples=3, asset_subset_size=3, random_state=0
    )
    model = MinimumOCE(
        max_weights={"TECH": 0.1, "BANK": 0.5},
        groups={"TECH": "risky", "BANK": "risky"},
        linear_constraints=["BOND + GOLD + UTIL >= 0.2"],
        unknown_names="ignore",
    )
    with pytest.warns(UserWarning, match="the group or factor .* is missing"):
        found = cross_val_predict(model, small, cv=cv)
    assert len(found) == 3


def test_grid_search_over_the_utility(small: pd.DataFrame) -> None:
    grid = {"utility__alpha": [0.05, 0.2], "l2_coef": [0.0, 0.01]}
    search = GridSearchCV(MinimumOCE(), grid, cv=WalkForward(train_size=200, test_size=100)).fit(small)
    assert set(search.best_params_) == set(grid)
    assert search.best_estimator_.utility_.alpha == search.best_params_["utility__alpha"]
    kinds = {"utility": [ce.CVaR(0.05), ce.Entropic(30.0)]}
    search = GridSearchCV(
        MinimumOCE(), kinds, cv=WalkForward(train_size=200, test_size=100), scoring=oce_scorer(ce.CVaR(0.05))
    ).fit(small)
    assert search.cv_results_["rank_test_score"].min() == 1


def test_pipeline_with_pandas_output(sp500: pd.DataFrame) -> None:
    X = sp500.iloc[-400:]
    with sklearn.config_context(transform_output="pandas"):
        pipe = Pipeline([("select", SelectKExtremes(k=5)), ("optimize", MinimumOCE(max_weights=0.3))]).fit(X)
        found = pipe.predict(X)
    assert len(found.assets) == 5
    assert set(found.assets) <= set(X.columns)


@pytest.mark.filterwarnings("ignore::certeq.UnitWarning")
def test_population_and_stacking(small: pd.DataFrame) -> None:
    models = {
        "cvar": MinimumOCE(),
        "entropic": MinimumOCE(ce.Entropic(30.0)),
        "mmv": MinimumOCE(ce.MonotoneMeanVariance()),
    }
    population = Population([m.set_params(portfolio_params={"name": k}).fit_predict(small) for k, m in models.items()])
    assert list(population.summary().columns) == list(models)
    stacked = StackingOptimization(list(models.items()), final_estimator=MinimumOCE(ce.Entropic(30.0)), cv=3).fit(small)
    assert stacked.weights_.sum() == pytest.approx(1.0)


@pytest.mark.filterwarnings("ignore:The prior.s covariance differs")
def test_online_prediction_and_selection(small: pd.DataFrame) -> None:
    found = online_predict(MinimumOCE(), small, warmup_size=200, test_size=100)
    assert isinstance(found, MultiPeriodPortfolio)
    assert len(found.portfolios) == 3
    np.testing.assert_allclose(found.portfolios[-1].weights, MinimumOCE().fit(small.iloc[:400]).weights_, atol=1e-9)
    weighted = EmpiricalPrior(mu_estimator=EWMu(), covariance_estimator=EWCovariance())
    model = MinimumOCE(prior_estimator=weighted, recenter=True)
    assert len(online_predict(model, small, warmup_size=200, test_size=100).portfolios) == 3
    search = OnlineGridSearch(
        MinimumOCE(), {"utility__alpha": [0.05, 0.3]}, scoring=RatioMeasure.SHARPE_RATIO, warmup_size=200, test_size=100
    ).fit(small)
    assert search.best_params_["utility__alpha"] in (0.05, 0.3)


@pytest.mark.filterwarnings("ignore:The prior.s covariance differs")
def test_metadata_reach_the_prior() -> None:
    X, factors = prices_to_returns(load_sp500_dataset(), load_factors_dataset())
    X, factors = X.iloc[-300:, :6], factors.iloc[-300:, :2]
    with sklearn.config_context(enable_metadata_routing=True):
        prior = TimeSeriesFactorModel().set_fit_request(factors=True)
        model = MinimumOCE(prior_estimator=prior).fit(X, factors=factors)
    assert model.prior_estimator_.return_distribution_.factor_model is not None
    assert model.gap_ < 1e-9
    with pytest.raises(TypeError, match="factors"):
        MinimumOCE().fit(X, factors=factors)


@pytest.mark.filterwarnings("ignore:The prior.s covariance differs")
def test_gaps_that_a_prior_knows_how_to_fill(small: pd.DataFrame) -> None:
    X = small.copy()
    X.iloc[:, 4] = np.nan  # never traded: it cannot be held
    X.iloc[3, 0] = np.nan
    prior = EmpiricalPrior(mu_estimator=EWMu(), covariance_estimator=EWCovariance())
    model = MinimumOCE(
        prior_estimator=prior, recenter=True, min_weights={"BOND": 0.1}, previous_weights={"TECH": 0.5, "GOLD": 0.5},
        transaction_costs=0.01,
    ).fit(X)  # fmt: skip
    assert model.weights_[4] == 0.0
    assert model.weights_[0] >= 0.1 - 1e-12
    assert model.risk_contributions_.shape == (5,)
    assert model.risk_contributions_[4] == 0.0
