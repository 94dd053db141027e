"""The linear estimators: scikit-learn's under the mean, and the facts that hold under every utility."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV

import certeq as ce
from certeq.learn import OCEClassifier, OCERegressor
from tests.problems import UTILITIES

pytestmark = pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")  # samples are few here


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * [1.0, 2.0, 0.5, 1.0] + [0.0, 3.0, 0.0, -1.0]
    line = X @ [1.0, -0.5, 0.3, 0.0] + 0.7
    return {
        "X": X,
        "real": line + 0.4 * rng.standard_t(4, size=300),
        "two": np.where(line + rng.logistic(size=300) > 0, "yes", "no"),
        "three": np.argmax(X[:, :3] + rng.gumbel(size=(300, 3)), axis=1),
        "weight": rng.random(300) * (rng.random(300) > 0.2),
    }


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_mean_is_ridge(data, weighted, intercept):
    weight = data["weight"] if weighted else None
    ours = OCERegressor(ce.Mean(), alpha=2.0, fit_intercept=intercept, tol=1e-12)
    ours.fit(data["X"], data["real"], sample_weight=weight)
    theirs = Ridge(alpha=2.0, fit_intercept=intercept).fit(data["X"], data["real"], sample_weight=weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-9)


@pytest.mark.parametrize("target", ["two", "three"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_mean_is_logistic_regression(data, target, weighted, class_weight):
    weight = data["weight"] if weighted else None
    options = {"C": 0.7, "class_weight": class_weight}
    ours = OCEClassifier(ce.Mean(), tol=1e-10, **options).fit(data["X"], data[target], sample_weight=weight)
    theirs = LogisticRegression(tol=1e-10, max_iter=2000, **options).fit(data["X"], data[target], sample_weight=weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-6)
    np.testing.assert_allclose(ours.predict_proba(data["X"]), theirs.predict_proba(data["X"]), atol=2e-6)
    np.testing.assert_allclose(ours.predict_log_proba(data["X"]), theirs.predict_log_proba(data["X"]), atol=2e-5)
    np.testing.assert_array_equal(ours.predict(data["X"]), theirs.predict(data["X"]))


@pytest.mark.parametrize("name", UTILITIES)
@pytest.mark.filterwarnings("ignore::certeq.UnitWarning")
def test_no_lower_point_is_found(data, name):
    """The gap holds: a long run of an unrelated optimizer finds nothing lower."""
    utility = UTILITIES[name]
    if not utility.is_monotone:
        pytest.skip("the problem need not be convex")
    X, y = data["X"], data["real"]
    model = OCERegressor(utility, tol=1e-9).fit(X, y)
    assert model.converged_
    assert 0.0 <= model.gap_ < 1e-6

    def objective(theta):
        losses = np.square(X @ theta[:-1] + theta[-1] - y)
        return ce.oce(losses, utility) + theta[:-1] @ theta[:-1] / len(y)

    start = np.append(model.coef_, model.intercept_)
    assert objective(start) == pytest.approx(model.objective_, rel=1e-10, abs=1e-10)
    rng = np.random.default_rng(2)
    found = minimize(objective, start + 0.01 * rng.normal(size=5), method="Nelder-Mead", options={"maxiter": 400})
    assert found.fun >= model.objective_ - model.gap_ - 1e-10


def test_weights_are_repetitions(data, utility):
    X, y = data["X"][:60], data["real"][:60]
    count = np.random.default_rng(3).integers(0, 3, size=60)
    weighted = OCERegressor(utility, tol=1e-10).fit(X, y, sample_weight=count)
    repeated = OCERegressor(utility, tol=1e-10).fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    # A piecewise linear tail is flat around the optimum; the value is what must agree.
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-8, abs=1e-8)


def test_few_rows_first_gives_the_same_answer():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30_000, 3))
    y = (X @ [1.0, 1.0, -1.0] + rng.logistic(size=30_000) > 0).astype(int)
    one, other = (OCEClassifier(tol=1e-9, random_state=seed).fit(X, y) for seed in (0, 1))
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-7)
    np.testing.assert_array_equal(one.coef_, OCEClassifier(tol=1e-9, random_state=0).fit(X, y).coef_)


def test_many_parameters_by_conjugate_gradients():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(120, 350))
    y = np.argmax(X[:, :3] + rng.gumbel(size=(120, 3)), axis=1)  # 1,053 parameters
    ours = OCEClassifier(ce.Mean(), tol=1e-9).fit(X, y)
    theirs = LogisticRegression(tol=1e-9, max_iter=5000).fit(X, y)
    assert ours.converged_
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    assert OCEClassifier(ce.Entropic(1.0)).fit(X, y).converged_


@pytest.mark.parametrize("utility", [ce.Entropic(1.0), 0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1)], ids=repr)
def test_more_than_a_thousand_parameters(utility):
    """More columns than rows, more classes than are factored at once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1100))
    y = (X[:, :9].sum(axis=1) + rng.logistic(size=300) > 0).astype(int)
    model = OCEClassifier(utility).fit(X, y)
    assert model.converged_
    assert model.gap_ < 1e-8
    many = OCEClassifier(utility).fit(X[:, :3], rng.integers(0, 60, 300))
    assert many.converged_


@pytest.mark.parametrize("risk", [ce.CVaR(0.05), ce.EVaR(0.01), ce.HMCR(2, 0.02)], ids=repr)
def test_too_few_samples_are_warned_of(risk):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    for model in (OCEClassifier(risk), OCERegressor(risk)):
        with pytest.warns(ce.ReliabilityWarning, match=f"{type(model).__name__} depends on too few samples") as caught:
            model.fit(X, y)
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OCEClassifier(ce.CVaR(0.2)).fit(X, y)


def test_warm_start(data):
    model = OCERegressor(ce.Entropic(0.1), warm_start=True).fit(data["X"], data["real"])
    cold = model.n_iter_
    model.fit(data["X"], data["real"])
    assert model.n_iter_ == 0 < cold
    model.set_params(fit_intercept=False).fit(data["X"], data["real"])
    assert model.intercept_ == 0.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_honest_flag(data):
    best = OCERegressor(ce.CVaR(0.1)).fit(data["X"], data["real"])
    for steps in (1, 3):
        model = OCERegressor(ce.CVaR(0.1), max_iter=steps).fit(data["X"], data["real"])
        assert not model.converged_
        assert model.objective_ - best.objective_ <= model.gap_


@pytest.mark.filterwarnings("ignore::certeq.UnitWarning")
def test_utility_parameters_can_be_searched(data):
    search = GridSearchCV(OCERegressor(ce.Entropic(1.0)), {"utility__beta": [0.1, 1.0], "alpha": [0.1, 1.0]}, cv=2)
    search.fit(data["X"], data["real"])
    assert search.best_estimator_.utility.beta in (0.1, 1.0)
    assert clone(OCERegressor(0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1))).utility == 0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1)


def test_units_of_y_and_x_do_not_matter_to_the_tolerance(data):
    base = OCERegressor(ce.Mean(), alpha=0.0).fit(data["X"], data["real"])
    for scale in (1e-6, 1e6):
        model = OCERegressor(ce.Mean(), alpha=0.0).fit(1e3 * data["X"], scale * data["real"])
        np.testing.assert_allclose(1e3 * model.coef_ / scale, base.coef_, rtol=1e-4)


@pytest.mark.parametrize("utility", [ce.Entropic(1.0), ce.Quartic(), ce.SmoothCVaR(0.05, 0.01), ce.CVaR(0.05)])
@pytest.mark.filterwarnings("ignore::certeq.UnitWarning")
def test_a_utility_that_is_sharp_compared_with_the_losses(data, utility):
    """Targets in the thousands make squared errors of 1e6: nearly a minimax problem."""
    model = OCERegressor(utility).fit(data["X"], 1e3 * data["real"])
    assert model.converged_
    assert model.gap_ < 1e-6 * model.objective_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_perfect_fits():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(20, 30)), rng.normal(size=20)
    for utility in (ce.Entropic(1.0), ce.CVaR(0.2)):
        model = OCERegressor(utility, alpha=0.0).fit(X, y)
        assert model.converged_
        np.testing.assert_allclose(model.predict(X), y, atol=1e-4)
    assert OCEClassifier(C=np.inf).fit([[-1.0], [1.0]], [0, 1]).predict([[-1.0], [1.0]]).tolist() == [0, 1]
    for y in (0.0, 1.0, -1e5):
        assert OCERegressor().fit(X, np.full(20, y)).predict(X) == pytest.approx(y)
