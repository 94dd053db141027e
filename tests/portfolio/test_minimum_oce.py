"""What a fitted MinimumOCE says of itself, and that each of its figures is what it claims to be."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from skfolio.exceptions import OptimizationError
from skfolio.optimization import EqualWeighted
from skfolio.portfolio import FailedPortfolio
from skfolio.prior import BlackLitterman, EmpiricalPrior, EntropyPooling
from sklearn.base import clone

import certeq as ce
from certeq.portfolio import MinimumOCE, ScenarioPrior
from certeq.utilities import Sum
from tests.portfolio import reference

UTILITIES = [
    ce.CVaR(0.1),
    ce.Entropic(30.0),
    ce.MeanVariance(10.0),
    ce.MonotoneMeanVariance(2).scaled(0.02),
    ce.Quartic().scaled(0.1),
    ce.LeakyCVaR(0.1).scaled(0.05),
    ce.SmoothCVaR(0.1, 0.003),
    0.3 * ce.Mean() + 0.7 * ce.CVaR(0.1),
    0.5 * ce.Entropic(20.0) + 0.5 * ce.CVaR(0.05),
]
costs = {"transaction_costs": 0.002, "management_fees": 0.0003, "previous_weights": {"TECH": 0.6, "GOLD": 0.4}}


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
@pytest.mark.parametrize("params", [{}, costs, {"l2_coef": 0.02}], ids=["plain", "costs", "ridge"])
def test_fitted_attributes(utility: ce.Utility, params: dict, small: pd.DataFrame) -> None:
    model = MinimumOCE(utility, **params).fit(small)
    w = model.weights_
    assert w.sum() == pytest.approx(1.0, abs=1e-12)
    assert w.min() >= 0.0
    fees, previous = params.get("management_fees", 0.0), np.array([0, 0.4, 0, 0, 0.6]) if "l2_coef" not in params else 0
    paid = fees + params.get("transaction_costs", 0.0) * np.abs(w - previous).sum()
    losses = -small.to_numpy() @ w + paid
    assert model.risk_ == pytest.approx(ce.oce(losses, utility), abs=1e-14)
    assert model.objective_ == pytest.approx(model.risk_ + params.get("l2_coef", 0.0) * w @ w, abs=1e-14)
    assert model.threshold_ == pytest.approx(ce.threshold(losses, utility), abs=1e-12)
    assert 0.0 <= model.gap_ < 1e-11
    # The tilt is the worst case at these weights: it attains the dual value.
    q = model.tilt_
    assert q.sum() == pytest.approx(1.0, abs=1e-12)
    if not isinstance(utility, Sum) or utility.is_coherent:
        dual = q @ losses - (0.0 if utility.is_coherent else np.mean(utility.conjugate(500 * q)))
        assert dual == pytest.approx(model.risk_, abs=1e-11)
    assert model.n_iter_ >= 1
    assert model.solution_.tilt.shape == (500,)
    assert model.problem_values_["risk"] == model.risk_


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
@pytest.mark.parametrize("params", [{}, costs, {"min_weights": -0.3}], ids=["plain", "costs", "short"])
def test_contributions_add_up_to_the_change_of_oce(utility: ce.Utility, params: dict, small: pd.DataFrame) -> None:
    model = MinimumOCE(utility, **params).fit(small)
    nothing = utility.oce_of_zero + (0.002 * 1.0 if params is costs else 0.0)  # selling what is held still costs
    assert model.risk_contributions_.sum() == pytest.approx(model.risk_ - nothing, abs=1e-14)
    assert model.risk_contributions_.shape == (5,)


def test_contributions_are_integrals_along_the_ray(small: pd.DataFrame) -> None:
    utility = ce.Entropic(40.0)
    model = MinimumOCE(utility).fit(small)
    A, w, h = -small.to_numpy(), model.weights_, 1e-5
    s = (np.arange(2000) + 0.5) / 2000
    slope = np.zeros(5)
    for j in range(5):
        e = h * np.eye(5)[j]
        up = ce.oce(np.outer(s, A @ w) + (A @ e), utility, axis=1)
        down = ce.oce(np.outer(s, A @ w) - (A @ e), utility, axis=1)
        slope[j] = np.mean(up - down) / (2 * h)
    np.testing.assert_allclose(model.risk_contributions_, w * slope, atol=1e-8)


def test_coherent_contributions_are_eulers(small: pd.DataFrame) -> None:
    model = MinimumOCE(ce.CVaR(0.1)).fit(small)
    np.testing.assert_allclose(
        model.risk_contributions_, model.weights_ * (model.tilt_ @ -small.to_numpy()), atol=1e-14
    )


def test_the_gap_is_a_bound_on_any_portfolio(small: pd.DataFrame) -> None:
    model = MinimumOCE(ce.Entropic(30.0), solver="sg", solver_params={"iterations": 50}).fit(small)
    exact = MinimumOCE(ce.Entropic(30.0)).fit(small)
    assert exact.objective_ <= model.objective_ <= exact.objective_ + model.gap_
    assert model.gap_ > 0.0


@pytest.mark.parametrize("params", [{}, costs, {"l2_coef": 0.02}, {"min_return": 0.0006}], ids=str)
@pytest.mark.parametrize("utility", [ce.CVaR(0.1), ce.MeanVariance(10.0)], ids=repr)
def test_the_stochastic_solver_comes_near(utility: ce.Utility, params: dict, small: pd.DataFrame) -> None:
    exact = MinimumOCE(utility, **params).fit(small)
    iterations = 300 if "min_return" in params else 3000
    sg = MinimumOCE(utility, solver="sg", solver_params={"iterations": iterations}, **params).fit(small)
    assert exact.objective_ - 1e-10 <= sg.objective_ <= exact.objective_ + sg.gap_ + 1e-12
    assert sg.objective_ - exact.objective_ < 3e-4


@pytest.mark.filterwarnings("ignore:X looks like returns in per cent")
def test_scaling_returns_scales_cvar_and_its_weights_stay(small: pd.DataFrame) -> None:
    one, many = MinimumOCE().fit(small), MinimumOCE().fit(1e8 * small)
    np.testing.assert_allclose(many.weights_, one.weights_, atol=1e-10)
    assert many.objective_ == pytest.approx(1e8 * one.objective_, rel=1e-12)


def test_same_seed_same_bits(small: pd.DataFrame) -> None:
    params = {"batch": 50, "iterations": 200}
    one = MinimumOCE(solver="sg", solver_params=params, random_state=3).fit(small).weights_
    two = MinimumOCE(solver="sg", solver_params=params, random_state=3).fit(small).weights_
    assert np.array_equal(one, two)


def test_nothing_passed_in_is_changed(small: pd.DataFrame) -> None:
    X, low, before = small.copy(), np.zeros(5), dict(costs["previous_weights"])
    MinimumOCE(min_weights=low, max_turnover=0.5, previous_weights=before).fit(X)
    pd.testing.assert_frame_equal(X, small)
    assert low.tolist() == [0.0] * 5
    assert before == costs["previous_weights"]


# -- the prior ------------------------------------------------------------------------------------------------------


def test_sample_weights_of_the_prior_are_used(small: pd.DataFrame) -> None:
    prior = EntropyPooling(mean_views=["TECH == 0.002"])
    model = MinimumOCE(ce.CVaR(0.1), prior_estimator=prior).fit(small)
    weights = model.prior_estimator_.return_distribution_.sample_weight
    assert weights is not None
    value, _ = reference.solve(small.to_numpy(), ce.CVaR(0.1), weights=np.asarray(weights))
    assert model.objective_ == pytest.approx(value, abs=1e-8)


@pytest.mark.filterwarnings("ignore:The prior.s covariance differs")
def test_black_litterman_moves_the_scenarios_and_says_so(small: pd.DataFrame) -> None:
    prior = BlackLitterman(views=["TECH == 0.003", "GOLD - BOND == 0.0005"])
    with pytest.warns(UserWarning, match="mu differs from the mean of its scenarios"):
        said = MinimumOCE(ce.Entropic(20.0), prior_estimator=prior).fit(small)
    agreed = MinimumOCE(ce.Entropic(20.0), prior_estimator=prior, recenter=True).fit(small)
    assert np.array_equal(said.weights_, agreed.weights_)
    mu = agreed.prior_estimator_.return_distribution_.mu
    moved = small.to_numpy() + (mu - small.to_numpy().mean(axis=0))
    value, _ = reference.solve(moved, ce.Entropic(20.0))
    assert agreed.objective_ == pytest.approx(value, abs=1e-7)
    left = MinimumOCE(ce.Entropic(20.0), prior_estimator=prior, recenter=False).fit(small)
    assert left.objective_ == pytest.approx(MinimumOCE(ce.Entropic(20.0)).fit(small).objective_, abs=1e-12)
    assert left.problem_values_["expected_return"] == pytest.approx(mu @ left.weights_)


@pytest.mark.filterwarnings("error")
def test_plain_priors_say_nothing(small: pd.DataFrame) -> None:
    one = MinimumOCE().fit(small)
    two = MinimumOCE(prior_estimator=EmpiricalPrior()).fit(small)
    np.testing.assert_allclose(one.weights_, two.weights_, atol=1e-12)


def test_the_default_prior_holds_variances_only(small: pd.DataFrame) -> None:
    found = ScenarioPrior().fit(small).return_distribution_
    full = EmpiricalPrior().fit(small).return_distribution_
    np.testing.assert_allclose(found.mu, full.mu)
    np.testing.assert_allclose(np.diag(found.covariance), np.diag(full.covariance))
    assert np.count_nonzero(found.covariance) == 5


# -- starting again -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The prior.s covariance differs")
def test_partial_fit_is_fit_on_everything_seen(small: pd.DataFrame) -> None:
    model = MinimumOCE(ce.Entropic(30.0))
    for start in range(0, 500, 100):
        model.partial_fit(small.iloc[start : start + 100])
    whole = MinimumOCE(ce.Entropic(30.0)).fit(small)
    np.testing.assert_allclose(model.weights_, whole.weights_, atol=1e-9)
    assert model.tilt_.shape == (500,)
    windowed = MinimumOCE(ce.Entropic(30.0), prior_estimator=ScenarioPrior(max_history=200))
    windowed.partial_fit(small.iloc[:300]).partial_fit(small.iloc[300:])
    np.testing.assert_allclose(
        windowed.weights_, MinimumOCE(ce.Entropic(30.0)).fit(small.iloc[-200:]).weights_, atol=1e-9
    )


def test_warm_start_gives_the_same_answer(small: pd.DataFrame) -> None:
    cold = MinimumOCE(ce.Entropic(30.0)).fit(small)
    warm = MinimumOCE(ce.Entropic(30.0), warm_start=True).fit(small.iloc[:400]).fit(small)
    np.testing.assert_allclose(warm.weights_, cold.weights_, atol=1e-9)
    other = warm.fit(small.iloc[:, :3])  # other assets: nothing to start from
    assert other.weights_.shape == (3,)


def test_a_failed_fit_leaves_no_old_result(small: pd.DataFrame) -> None:
    model = MinimumOCE(raise_on_failure=False).fit(small)
    with pytest.warns(UserWarning, match="out of reach"):
        model.set_params(min_return=1.0).fit(small)
    assert model.weights_ is None
    assert not hasattr(model, "objective_")
    assert isinstance(model.predict(small), FailedPortfolio)
    assert "at most" in model.error_


def test_fallbacks(small: pd.DataFrame) -> None:
    model = MinimumOCE(min_return=1.0, fallback=EqualWeighted()).fit(small)
    np.testing.assert_allclose(model.weights_, 0.2)
    assert model.fallback_chain_[-1][1] == "success"
    online = MinimumOCE(min_return=1.0, fallback="previous_weights", previous_weights={"GOLD": 1.0})
    online.partial_fit(small)
    np.testing.assert_allclose(online.weights_, [0, 1, 0, 0, 0])
    with pytest.raises(ValueError, match="only supports"):
        MinimumOCE(fallback=EqualWeighted()).partial_fit(small)


def test_what_x_no_longer_has_is_sold_at_its_cost(small: pd.DataFrame) -> None:
    gone = {"GONE": 0.5, "GOLD": 0.5}
    model = MinimumOCE(transaction_costs={"GONE": 0.01, "GOLD": 0.001}, previous_weights=gone).fit(small)
    without = MinimumOCE(transaction_costs={"GOLD": 0.001}, previous_weights={"GOLD": 0.5}).fit(small)
    assert model.objective_ == pytest.approx(without.objective_ + 0.005, abs=1e-14)
    with pytest.raises(ValueError, match="transaction_costs must be one number or a dict"):
        MinimumOCE(transaction_costs=np.full(5, 0.001), previous_weights=gone).fit(small)


# -- parameters -----------------------------------------------------------------------------------------------------


def test_parameters_of_the_utility(small: pd.DataFrame) -> None:
    shared = ce.CVaR(0.05)
    model = MinimumOCE(shared).set_params(utility__alpha=0.2)
    assert model.utility == ce.CVaR(0.2)
    assert shared.alpha == 0.05
    assert MinimumOCE().get_params()["utility__alpha"] == 0.05
    assert MinimumOCE().set_params(utility__alpha=0.3).utility == ce.CVaR(0.3)
    assert clone(model).utility == ce.CVaR(0.2)
    assert clone(model).utility is not model.utility
    with pytest.raises(ValueError, match="beta"):
        MinimumOCE().set_params(utility__beta=1.0)
    with pytest.raises(ValueError, match="alpha"):
        MinimumOCE().set_params(utility__alpha=5.0)


def test_it_pickles(small: pd.DataFrame) -> None:
    model = MinimumOCE(ce.Entropic(10.0), **costs).fit(small)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.weights_, model.weights_)
    np.testing.assert_allclose(again.risk_contributions_, model.risk_contributions_)


def test_a_loose_answer_is_warned_of_and_a_useless_one_refused(small: pd.DataFrame) -> None:
    with pytest.raises(OptimizationError, match=r"gap of .* solver_params"):
        MinimumOCE(ce.Entropic(2000.0), solver_params={"max_iter": 1}).fit(small)
