"""What an exact answer does not show: a utility that sees no risk, a covariance that plays no part."""

import warnings
from inspect import signature

import numpy as np
import pandas as pd
import pytest
from skfolio import Population
from skfolio.measures import RatioMeasure, RiskMeasure
from skfolio.moments import EWCovariance, LedoitWolf
from skfolio.optimization import MeanRisk, RiskBudgeting
from skfolio.prior import BlackLitterman, EmpiricalPrior
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import certeq as ce
from certeq.portfolio import MinimumOCE, OCEMeasure, oce_scorer

RNG = np.random.default_rng(5)
X = pd.DataFrame(
    0.0004 + 0.008 * (RNG.standard_t(6, size=(600, 1)) + RNG.standard_t(6, size=(600, 5))),
    pd.bdate_range("2020-01-01", periods=600),
    list("ABCDE"),
)


@pytest.mark.parametrize("utility", [ce.Entropic(), ce.MonotoneMeanVariance(2), ce.Quartic(), ce.LeakyCVaR(0.05),
                                     ce.SmoothCVaR(0.05)], ids=repr)  # fmt: skip
def test_a_utility_that_sees_no_risk_is_pointed_out(utility):
    with pytest.warns(ce.UnitWarning, match=r"hardly sees.*scaled\(s\)") as caught:
        model = MinimumOCE(utility).fit(X)
    assert 0.0 < caught[0].message.scale < 0.1
    assert caught[0].filename == __file__
    assert model.gap_ < 1e-9  # exact all the same
    with pytest.warns(ce.UnitWarning, match="hardly sees"):
        MinimumOCE(utility, efficient_frontier_size=3).fit(X)


@pytest.mark.parametrize("risk", [ce.CVaR(0.01), ce.EVaR(0.01), ce.Entropic(5000.0)], ids=repr)
def test_too_few_scenarios_are_pointed_out(risk):
    with pytest.warns(ce.ReliabilityWarning, match="MinimumOCE depends on too few samples") as caught:
        MinimumOCE(risk).fit(X.iloc[:50])
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", ce.ReliabilityWarning)
        MinimumOCE(ce.CVaR(0.1)).fit(X.iloc[:100])
        MinimumOCE(ce.CVaR(0.01), objective_function="maximize_return").fit(X.iloc[:50])


@pytest.mark.parametrize("utility", [ce.Entropic(50.0), ce.CVaR(0.05), ce.Quartic().scaled(0.02), ce.MeanVariance(0.01),
                                     ce.Mean(), ce.SmoothCVaR(0.05, 0.005)], ids=repr)  # fmt: skip
def test_others_are_fitted_in_silence(utility):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MinimumOCE(utility, max_weights=0.5).fit(X)
        MinimumOCE(utility, prior_estimator=EmpiricalPrior()).fit(X)


@pytest.mark.parametrize("covariance", [LedoitWolf(), EWCovariance()], ids=repr)
def test_a_covariance_that_plays_no_part_is_said_once(covariance):
    model = MinimumOCE(ce.MeanVariance(25.0), prior_estimator=EmpiricalPrior(covariance_estimator=covariance))
    with pytest.warns(UserWarning, match="covariance differs.*plays no part") as caught:
        model.fit(X).fit(X)
    assert len(caught) == 1
    assert np.allclose(model.weights_, MinimumOCE(ce.MeanVariance(25.0)).fit(X).weights_, atol=1e-9)


def test_views_say_it_once_together_with_mu():
    model = MinimumOCE(prior_estimator=BlackLitterman(views=["A == 0.001"]))
    with pytest.warns(UserWarning, match="plays no part") as caught:
        model.fit(X)
    assert len(caught) == 1


def test_parameters_of_mean_risk_get_a_hint():
    with pytest.raises(TypeError, match=r"no parameter 'risk_measure'.*utility: MinimumOCE\(ce.CVaR"):
        MinimumOCE(risk_measure=RiskMeasure.CVAR)
    with pytest.raises(TypeError, match=r"no parameter 'cvar_beta'; found 0.99.*MinimumOCE\(ce.CVaR\(0.01\)\)"):
        MinimumOCE(cvar_beta=0.99)
    with pytest.raises(
        TypeError, match=r"found 0.03. Limits on risks are pairs: risk_limits=\[\(ce.CVaR\(0.05\), 0.03\)"
    ):
        MinimumOCE(max_cvar=0.03)
    with pytest.raises(TypeError, match=r"MinimumOCE\(ce.EVaR\(0.05\)\)"):
        MinimumOCE(risk_measure=RiskMeasure.EVAR)
    with pytest.raises(TypeError, match="cdar is none of them; skfolio's optimizers have it"):
        MinimumOCE(risk_measure=RiskMeasure.CDAR)
    with pytest.raises(TypeError, match="integer programming, which skfolio's MeanRisk has"):
        MinimumOCE(cardinality=5)
    theirs, mine = (set(signature(kind).parameters) for kind in (MeanRisk, MinimumOCE))
    for name in theirs - mine:  # every name that skfolio has leads somewhere, and none reaches the signature
        with pytest.raises(TypeError, match=f"MinimumOCE has no parameter '{name}'; found 1.0. .*"):
            MinimumOCE(**{name: 1.0})
    assert not {"args", "kwargs", "given"} & mine
    with pytest.raises(TypeError, match="no parameter 'min_weight'; found 0.1. Did you mean 'min_weights'?"):
        MinimumOCE(min_weight=0.1)
    with pytest.raises(TypeError, match=r"no parameter 'alpha'; found 0.1. .*MinimumOCE\(ce.CVaR\(alpha=0.1\)\)"):
        MinimumOCE(alpha=0.1)
    assert clone(MinimumOCE(ce.CVaR(0.1), max_weights=0.4)).get_params()["utility__alpha"] == 0.1


def test_the_measure_scores_and_is_refused_where_it_cannot_be_used():
    measure, model = OCEMeasure(ce.CVaR(0.05)), MinimumOCE(ce.CVaR(0.05))
    assert np.array_equal(
        cross_val_score(model, X, cv=3, scoring=measure),
        cross_val_score(model, X, cv=3, scoring=oce_scorer(ce.CVaR(0.05))),
    )
    search = GridSearchCV(model, {"max_weights": [0.3, 1.0]}, cv=3, scoring=measure).fit(X)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_score_ == search.cv_results_["mean_test_score"].max() < 0.0
    with pytest.raises(TypeError, match="estimator that predicts"):
        measure(model.fit(X).predict(X), X)
    with pytest.raises(AttributeError, match="not one of skfolio's measures"):
        RiskBudgeting(risk_measure=measure).fit(X)
    with pytest.raises(TypeError, match="not one of skfolio's measures, which plot_measures and the like want"):
        Population([model.predict(X)]).plot_measures(x=measure, y=RatioMeasure.SHARPE_RATIO)
