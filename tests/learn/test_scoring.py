"""The risk of held-out losses as a score, and what is said of targets in unsuitable units."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import certeq as ce
from certeq.learn import OCEClassifier, OCERegressor, oce_scorer, sample_losses
from tests.learn.test_held_out import classification


def data(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) * [1.0, 10.0, 0.1] + 5.0
    score = X @ [1.0, 0.1, 3.0] - 21.0
    y = score + 0.5 * rng.standard_normal(n)
    return X, y, np.where(score + rng.logistic(size=n) > 0, "yes", "no")


class TestSampleLosses:
    @pytest.mark.parametrize("make", [OCERegressor, LinearRegression, OCEClassifier, LogisticRegression])
    def test_through_a_pipeline(self, make):
        X, y, label = data()
        classifies = make in (OCEClassifier, LogisticRegression)
        y = label if classifies else y
        model = make_pipeline(StandardScaler(), make()).fit(X, y)
        wanted = log_loss(y, model.predict_proba(X)) if classifies else mean_squared_error(y, model.predict(X))
        assert sample_losses(model, X, y).mean() == pytest.approx(wanted, rel=1e-9)

    def test_nested_pipelines_and_searches(self):
        X, y, _ = data()
        inner = make_pipeline(StandardScaler(), OCERegressor(ce.CVaR(0.3)))
        search = GridSearchCV(make_pipeline(StandardScaler(), inner), {"pipeline__oceregressor__alpha": [1.0]})
        expected = np.square(inner.fit(X, y).predict(X) - y)
        np.testing.assert_allclose(sample_losses(search.fit(X, y), X, y), expected, rtol=1e-6, atol=1e-9)

    def test_own_losses_come_first(self):
        X, y, _ = data(60)

        class Absolute(LinearRegression):
            def losses(self, X, y):
                return np.abs(self.predict(X) - y)

        model = Absolute().fit(X, y)
        np.testing.assert_array_equal(sample_losses(model, X, y), np.abs(model.predict(X) - y))

    def test_transformed_and_several_targets(self):
        X, y, _ = data()
        model = TransformedTargetRegressor(Ridge(), transformer=StandardScaler()).fit(X, 100.0 * y)
        np.testing.assert_allclose(sample_losses(model, X, 100.0 * y), (model.predict(X) - 100.0 * y) ** 2)
        both = np.column_stack([y, 2.0 * y])
        model = LinearRegression().fit(X, both)
        np.testing.assert_allclose(sample_losses(model, X, both), ((model.predict(X) - both) ** 2).sum(axis=1))


class TestScorer:
    @pytest.mark.parametrize("utility", [ce.CVaR(0.2), ce.Entropic(0.5)], ids=repr)
    def test_cross_validation(self, utility):
        X, y, _ = data()
        model = make_pipeline(StandardScaler(), Ridge())
        found = cross_val_score(model, X, y, scoring=oce_scorer(utility), cv=3)
        for k, score in enumerate(found):
            test = np.arange(100 * k, 100 * k + 100)
            train = np.setdiff1d(np.arange(300), test)
            errors = (clone(model).fit(X[train], y[train]).predict(X[test]) - y[test]) ** 2
            assert score == pytest.approx(-ce.oce(errors, utility), rel=1e-12)

    def test_the_mean_is_scikit_learns(self):
        X, y, label = data()
        cases = ((Ridge(), y, "neg_mean_squared_error"), (LogisticRegression(), label, "neg_log_loss"))
        for model, target, scoring in cases:
            found, wanted = (
                cross_val_score(make_pipeline(StandardScaler(), model), X, target, scoring=how, cv=3)
                for how in (oce_scorer(ce.Mean()), scoring)
            )
            np.testing.assert_allclose(found, wanted, rtol=1e-9)

    def test_a_search_picks_the_utility_that_has_the_least_risk(self):
        """Choosing by log-loss picks the mean."""
        X, y = classification(0, 900)
        grid = {"oceclassifier__utility": [ce.Mean(), ce.Entropic(1.0)]}
        model = make_pipeline(StandardScaler(), OCEClassifier())
        best = {
            name: GridSearchCV(model, grid, scoring=scoring, cv=3).fit(X, y).best_params_["oceclassifier__utility"]
            for name, scoring in (("mean", "neg_log_loss"), ("tail", oce_scorer(ce.CVaR(0.1))))
        }
        assert best == {"mean": ce.Mean(), "tail": ce.Entropic(1.0)}

    def test_weights_infinite_losses_and_losses_of_ones_own(self):
        X, y, label = data(60)
        model = LinearRegression().fit(X, y)
        weights = np.arange(60.0)
        errors = (model.predict(X) - y) ** 2
        assert oce_scorer(ce.CVaR(0.3))(model, X, y, weights) == pytest.approx(-ce.oce(errors, ce.CVaR(0.3), weights))
        absolute = oce_scorer(ce.Mean(), losses=lambda model, X, y: np.abs(model.predict(X) - y))
        assert absolute(model, X, y) == pytest.approx(-np.abs(model.predict(X) - y).mean())
        sure = DecisionTreeClassifier(random_state=0).fit(X[:30], label[:30])
        assert oce_scorer(ce.CVaR(0.1))(sure, X[30:], label[30:]) == pytest.approx(np.log(np.finfo(float).eps))
        clipped = oce_scorer(ce.Mean())(sure, X[30:], label[30:])
        assert clipped == pytest.approx(-log_loss(label[30:], sure.predict_proba(X[30:])))
        infinite = oce_scorer(ce.Mean(), losses=lambda model, X, y: np.array([0.0, np.inf]))
        assert infinite(sure, X[30:], label[30:]) == -np.inf

    def test_prints_and_pickles(self):
        scorer = oce_scorer(ce.CVaR(0.1))
        assert repr(scorer) == "oce_scorer(CVaR(alpha=0.1))"
        twin = pickle.loads(pickle.dumps(scorer))
        X, y, _ = data(50)
        model = LinearRegression().fit(X, y)
        assert twin(model, X, y) == scorer(model, X, y)


class TestUnits:
    @pytest.fixture(scope="class")
    @staticmethod
    def diabetes():
        X, y = load_diabetes(return_X_y=True)
        return StandardScaler().fit_transform(X), y

    def test_the_default_regressor_does_not_depend_on_the_unit_of_y(self, diabetes):
        X, y = diabetes
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            plain = OCERegressor().fit(X, y)
            for scale, offset in ((1e-4, 0.0), (1e6, 1e7)):
                other = OCERegressor().fit(X, scale * y + offset)
                np.testing.assert_allclose(other.coef_, scale * plain.coef_, rtol=1e-6)
        assert plain.score(X, y) > 0.51  # 0.32 with Entropic(1.0) on squared errors of thousands, 0.52 with the mean
        weights = np.random.default_rng(0).integers(1, 3, len(y))
        weighted = OCERegressor(tol=1e-10).fit(X, y, weights)
        repeated = OCERegressor(tol=1e-10).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-5)

    @pytest.mark.parametrize(
        "made", [make_friedman1, make_friedman2, None], ids=["friedman1", "friedman2", "lognormal"]
    )
    def test_the_default_regressor_costs_little_where_tails_are_heavy(self, made):
        if made is None:
            rng = np.random.default_rng(0)
            X = rng.normal(size=(2000, 10))
            y = X[:, 0] + rng.lognormal(size=2000)
        else:
            X, y = made(100, noise=1.0, random_state=0)
        errors, ridge = ((cross_val_predict(model, X, y) - y) ** 2 for model in (OCERegressor(), Ridge()))
        assert errors.mean() < 1.05 * ridge.mean()
        assert ce.oce(errors, ce.CVaR(0.1)) < 1.05 * ce.oce(ridge, ce.CVaR(0.1))

    def test_a_utility_in_the_unit_of_y_is_not_warned_of(self, diabetes):
        X, y = diabetes
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for utility in (ce.Mean(), ce.CVaR(0.1), 0.5 * ce.Mean() + 0.5 * ce.CVaR(0.05), ce.MeanVariance(1e-4)):
                OCERegressor(utility).fit(X, y)
            OCERegressor(ce.Entropic(1.0).scaled(4e3)).fit(X, y)
            OCERegressor(ce.Entropic(1.0)).fit(X, (y - y.mean()) / y.std())
