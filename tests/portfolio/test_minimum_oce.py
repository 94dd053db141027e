"""What a fitted MinimumOCE says of itself, under every risk of the registry; priors, warm starts, parameters."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from skfolio.optimization import EqualWeighted
from skfolio.portfolio import FailedPortfolio
from skfolio.prior import BlackLitterman, EmpiricalPrior, EntropyPooling
from sklearn.base import clone

import certeq as ce
from certeq.portfolio import MinimumOCE, ScenarioPrior
from certeq.utilities import Sum
from tests.portfolio import reference
from tests.problems import RISKS

costs = {"transaction_costs": 0.002, "management_fees": 0.0003, "previous_weights": {"TECH": 0.6, "GOLD": 0.4}}
HELD = np.array([0.0, 0.4, 0.0, 0.0, 0.6])
PARAMS = {"plain": {}, "costs": costs, "ridge": {"l2_coef": 0.02}, "short": {"min_weights": -0.3}}
# Every risk of the registry, with two of the four kinds of parameters.
FITS = [
    (name, list(PARAMS)[(i + k) % 4])
    for i, name in enumerate(name for name, entry in RISKS.items() if entry.minimized)
    for k in (0, 1)
]


@pytest.mark.parametrize(("name", "kind"), FITS)
@pytest.mark.filterwarnings("ignore:X looks like", "ignore::certeq.UnitWarning", "ignore::certeq.ReliabilityWarning")
def test_fitted_attributes(name: str, kind: str, small: pd.DataFrame) -> None:
    entry, params = RISKS[name], PARAMS[kind]
    risk, X = entry.risk, 50.0 * small[:120]  # so large that utilities see more than the mean
    model = MinimumOCE(risk, **params).fit(X)
    w, A, l2 = model.weights_, -X.to_numpy(), params.get("l2_coef", 0.0)

    def paid(weights: np.ndarray) -> np.ndarray:
        return 0.0003 + 0.002 * np.abs(weights - HELD).sum(axis=-1) if params is costs else 0.0 * weights.sum(axis=-1)

    losses = A @ w + paid(w)
    assert w.sum() == pytest.approx(1.0, abs=1e-12)
    assert w.min() >= params.get("min_weights", 0.0)
    assert model.risk_ == pytest.approx(float(entry.definition(losses, None)), abs=1e-9)
    assert model.objective_ == pytest.approx(model.risk_ + l2 * w @ w, abs=1e-13)
    assert model.problem_values_["risk"] == model.risk_
    assert model.n_iter_ >= 1
    assert 0.0 <= model.gap_ <= (1e-9 if entry.blocks else 1e-7) * max(abs(model.objective_), 1.0)
    # No other weights are better, near and far.
    others = np.random.default_rng(1).dirichlet(np.ones(5), 60)
    others[:30] = w + 0.01 * (others[:30] - w)
    values = ce.oce(others @ A.T + paid(others)[:, None], risk, axis=1) + l2 * (others**2).sum(axis=1)
    assert values.min() >= model.objective_ - model.gap_ - 1e-12
    # The tilt is the worst case at these weights: it attains the dual value.
    q = model.tilt_
    assert q.sum() == pytest.approx(1.0, abs=1e-12)
    if entry.coherent:
        assert q @ losses == pytest.approx(model.risk_, abs=1e-10 + model.gap_)
    elif isinstance(risk, ce.Utility) and not isinstance(risk, Sum):  # which has no conjugate
        assert q @ losses - np.mean(risk.conjugate(120 * q)) == pytest.approx(model.risk_, abs=1e-7)
    if entry.blocks:
        np.testing.assert_allclose(model.threshold_, ce.threshold(losses, risk), atol=1e-9)
    else:
        assert np.isnan(model.threshold_)
    # Contributions add up to what the risk is above that of holding nothing; selling what is held still costs.
    nothing = float(ce.oce(np.zeros(1), risk)) + (0.002 if params is costs else 0.0)
    assert model.risk_contributions_.shape == (5,)
    assert model.risk_contributions_.sum() == pytest.approx(model.risk_ - nothing, abs=1e-12)


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


@pytest.mark.parametrize(
    ("risk", "params", "iterations"),
    [
        (ce.CVaR(0.1), costs, 1500),
        (ce.CVaR(0.1), {"min_return": 0.0006}, 150),
        (ce.MeanVariance(10.0), {"l2_coef": 0.02}, 1000),
        (ce.MeanVariance(10.0), costs, 1000),
        (ce.EVaR(0.1), {}, 500),
    ],
    ids=str,
)
def test_the_stochastic_solver_comes_near(risk: ce.Risk, params: dict, iterations: int, small: pd.DataFrame) -> None:
    exact = MinimumOCE(risk, **params).fit(small)
    settings = {"solver": "sg", "solver_params": {"iterations": iterations}, "random_state": 0}
    sg = MinimumOCE(risk, **settings, **params).fit(small)
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


def test_what_x_no_longer_has_is_sold_at_its_cost(small: pd.DataFrame) -> None:
    gone = {"GONE": 0.5, "GOLD": 0.5}
    model = MinimumOCE(transaction_costs={"GONE": 0.01, "GOLD": 0.001}, previous_weights=gone).fit(small)
    without = MinimumOCE(transaction_costs={"GOLD": 0.001}, previous_weights={"GOLD": 0.5}).fit(small)
    assert model.objective_ == pytest.approx(without.objective_ + 0.005, abs=1e-14)


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


def test_it_pickles(small: pd.DataFrame) -> None:
    model = MinimumOCE(ce.Entropic(10.0), **costs).fit(small)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.weights_, model.weights_)
    np.testing.assert_allclose(again.risk_contributions_, model.risk_contributions_)
