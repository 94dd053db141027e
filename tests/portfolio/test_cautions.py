"""What an exact answer does not show: a utility that sees no risk, a covariance that plays no part."""

import warnings

import numpy as np
import pandas as pd
import pytest
from skfolio.moments import EWCovariance, LedoitWolf
from skfolio.prior import BlackLitterman, EmpiricalPrior

import certeq as ce
from certeq.portfolio import MinimumOCE

RNG = np.random.default_rng(5)
X = pd.DataFrame(
    0.0004 + 0.008 * (RNG.standard_t(6, size=(600, 1)) + RNG.standard_t(6, size=(600, 5))),
    pd.bdate_range("2020-01-01", periods=600),
    list("ABCDE"),
)


@pytest.mark.parametrize("risk", [ce.CVaR(0.01), ce.EVaR(0.01), ce.Entropic(5000.0)], ids=repr)
def test_too_few_scenarios_are_pointed_out(risk):
    with pytest.warns(ce.ReliabilityWarning, match="MinimumOCE depends on too few samples") as caught:
        MinimumOCE(risk).fit(X.iloc[:50])
    assert caught[0].filename == __file__
    many = pd.concat(
        [X.iloc[50 * k : 50 * (k + 1)].reset_index(drop=True) for k in range(5)], axis=1, ignore_index=True
    )
    with pytest.warns(ce.ReliabilityWarning, match="too few samples"):  # 25 assets make most losses equal
        MinimumOCE(ce.CVaR(0.01)).fit(many)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ce.ReliabilityWarning)
        MinimumOCE(ce.CVaR(0.1)).fit(X.iloc[:100])
        MinimumOCE(ce.CVaR(0.01), objective_function="maximize_return").fit(X.iloc[:50])


@pytest.mark.parametrize("utility", [ce.Entropic(50.0), ce.CVaR(0.05), ce.Quartic().scaled(0.02), ce.MeanVariance(0.01),
                                     ce.Mean(), ce.SmoothCVaR(0.05, 0.005)], ids=repr)  # fmt: skip
def test_others_are_fitted_in_silence(utility):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = MinimumOCE(utility, max_weights=0.5).fit(X)
        same = MinimumOCE(utility, max_weights=0.5, prior_estimator=EmpiricalPrior()).fit(X)
    np.testing.assert_allclose(same.weights_, plain.weights_, atol=1e-12)


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
