"""Scaling, normalizing, adding; parameters, equality, printing and pickling."""

import pickle

import numpy as np
import pytest

import certeq as ce
from certeq import *  # noqa: F403  (reprs are evaluated below)
from certeq.utilities import Exponential, Logistic, Pieces, Quadratic
from tests.conftest import UTILITIES

Z = np.array([0.3, -1.2, 2.5, 0.7, 0.7, -0.1])


def test_scaling_scales_the_risk(utility):
    assert ce.oce(Z, utility.scaled(3.0)) == pytest.approx(3 * ce.oce(Z / 3, utility), rel=1e-13)
    assert ce.threshold(Z, utility.scaled(3.0)) == pytest.approx(3 * ce.threshold(Z / 3, utility), rel=1e-9)


def test_normalizing_shifts_the_risk_and_keeps_the_tilt(utility):
    plain, shifted = ce.oce(Z, utility), ce.oce(Z, utility.normalized())
    assert shifted == pytest.approx(plain - utility.oce_of_zero, abs=1e-13)
    np.testing.assert_allclose(ce.tilt(Z, utility.normalized()), ce.tilt(Z, utility), atol=1e-9)
    assert ce.oce(np.full(4, 2.0), utility.normalized()) == pytest.approx(2.0, abs=1e-13)


@pytest.mark.parametrize(
    "made, shape, curve",
    [
        (ce.Entropic(2.0).normalized().scaled(4.0), Exponential(0.5), None),
        (ce.MeanVariance(1.0).scaled(4.0), Quadratic(0.5), None),
        (1.0 * ce.Entropic(2.0), Exponential(2.0), None),
        (0.5 * ce.Entropic(2.0), None, None),
        ((0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1)).scaled(3.0), Pieces(0.5, 5.5, 0.0), None),
        (0.5 * ce.CVaR(0.1) + 0.5 * ce.CVaR(0.2).scaled(2.0), Pieces(0.0, 7.5, 0.0), None),
        (0.5 * ce.Mean() + 0.5 * ce.MeanVariance(1.0), None, None),  # a quadratic, but nobody adds them up
        (ce.SmoothCVaR(0.1, 0.5).normalized().scaled(4.0), None, Logistic(0.5, 10.0)),
        (0.5 * ce.Mean() + 0.5 * ce.SmoothCVaR(0.1), None, None),
    ],
    ids=repr,
)
def test_shape_and_curve_of_utilities_made_of_others(made, shape, curve):
    assert (made.shape, made.curve) == (shape, curve)


def test_sum_of_mean_and_cvar_is_the_mixture_of_the_risks():
    mixed = 0.3 * ce.Mean() + 0.7 * ce.CVaR(0.4)
    assert ce.oce(Z, mixed) == pytest.approx(0.3 * Z.mean() + 0.7 * ce.oce(Z, ce.CVaR(0.4)), rel=1e-14)
    assert mixed == ce.Mean() * 0.3 + np.float64(0.7) * ce.CVaR(0.4)
    assert 2 * (0.5 * ce.Mean() + 0.25 * ce.Entropic(1.0)) == 1.0 * ce.Mean() + 0.5 * ce.Entropic(1.0)
    assert sum([0.5 * ce.Mean(), 0.5 * ce.CVaR(0.1)]) == 0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1)


def test_a_sum_that_never_reaches_slope_one_is_refused_on_use():
    half = 0.3 * ce.Mean()
    with pytest.raises(ValueError, match="slopes between 0.3 and 0.3"):
        ce.oce(Z, half)
    with pytest.raises(ValueError, match="slopes between 2 and"):
        ce.oce(Z, 2 * ce.Mean() + ce.CVaR(0.1))
    assert ce.oce(Z, 0.5 * ce.Mean() + 0.5 * ce.Mean()) == pytest.approx(Z.mean())


@pytest.mark.parametrize("weight", [-1, np.nan, np.inf])
def test_bad_weights_of_a_sum(weight):
    with pytest.raises(ValueError, match="weight"):
        weight * ce.Mean()


def test_bad_factors():
    for factor in ("2", None, ce.Mean(), True):
        with pytest.raises(TypeError):
            factor * ce.Mean()
    with pytest.raises(TypeError):
        ce.Mean() + 1


@pytest.mark.parametrize("name", [name for name in UTILITIES if name not in ("custom", "two_kinks")])
def test_repr_equality_pickle_and_clone(name):
    utility = UTILITIES[name]
    assert eval(repr(utility)) == utility
    assert pickle.loads(pickle.dumps(utility)) == utility
    assert hash(eval(repr(utility))) == hash(utility)
    base = pytest.importorskip("sklearn.base")
    assert base.clone(utility) == utility
    assert utility != ce.Entropic(0.123)


def test_params_as_scikit_learn_wants_them():
    smooth = ce.SmoothCVaR(0.1)
    assert smooth.get_params() == {"alpha": 0.1, "tau": None}
    assert smooth.set_params(alpha=0.2, tau=0.5) is smooth
    assert smooth == ce.SmoothCVaR(0.2, 0.5)
    nested = ce.CVaR(0.1).scaled(2.0)
    nested.set_params(utility__alpha=0.3, scale=4.0)
    assert nested == ce.CVaR(0.3).scaled(4.0)
    mixed = 0.3 * ce.Mean() + 0.7 * ce.CVaR(0.05)
    mixed.set_params(term_1__alpha=0.1, weight_0=0.5, weight_1=0.5)
    assert mixed == 0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1)


def test_bad_params_change_nothing():
    smooth = ce.SmoothCVaR(0.1)
    with pytest.raises(ValueError, match="no parameter 'beta'; it has: alpha, tau"):
        smooth.set_params(beta=1)
    with pytest.raises(ValueError, match="alpha must be a tail mass"):
        smooth.set_params(tau=3.0, alpha=2.0)
    assert smooth == ce.SmoothCVaR(0.1)


@pytest.mark.filterwarnings("ignore:CVaR.alpha=.* is the mean of the worst")
def test_grid_search_over_alpha():
    """``utility__alpha`` reaches the utility inside a scikit-learn estimator."""
    base = pytest.importorskip("sklearn.base")
    selection = pytest.importorskip("sklearn.model_selection")

    class Constant(base.BaseEstimator):
        def __init__(self, utility=None):
            self.utility = utility

        def fit(self, X, y=None):
            self.risk_ = ce.oce(X[:, 0], self.utility)
            return self

        def score(self, X, y=None):
            return -self.risk_

    search = selection.GridSearchCV(Constant(ce.CVaR(0.5)), {"utility__alpha": [0.1, 0.5, 0.9]}, cv=2)
    search.fit(np.arange(20.0)[:, None])
    assert search.best_params_ == {"utility__alpha": 0.9}


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: ce.CVaR(0), "strictly between 0 and 1"),
        (lambda: ce.CVaR(1.0), "strictly between 0 and 1"),
        (lambda: ce.CVaR(5), "Did you mean 0.05"),
        (lambda: ce.CVaR(-0.1), "found -0.1"),
        (lambda: ce.CVaR(np.nan), "found NaN"),
        (lambda: ce.LeakyCVaR(2), "alpha"),
        (lambda: ce.Entropic(0), "beta must be a finite number above 0"),
        (lambda: ce.Entropic(-1), "beta"),
        (lambda: ce.Entropic(np.inf), "beta"),
        (lambda: ce.MeanVariance(-2), "beta"),
        (lambda: ce.MonotoneMeanVariance(1.9), "a must be a finite number not below 2"),
        (lambda: ce.SmoothCVaR(0.1, 0), "tau"),
        (lambda: ce.SmoothCVaR(0.1, -1), "tau"),
        (lambda: ce.CVaR(0.1).scaled(0), "scale"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make", [lambda: ce.CVaR("0.1"), lambda: ce.Entropic(None), lambda: ce.Entropic([1, 2]), lambda: ce.CVaR(1j)]
)
def test_parameters_of_the_wrong_type(make):
    with pytest.raises(TypeError, match="must be"):
        make()


def test_mixtures_with_mean_variance_have_the_conjugate_and_the_curvature_of_their_formula():
    half = 0.5 * ce.MeanVariance(0.5) + 0.5 * ce.Mean()  # x + x**2/4
    y = np.array([-1.0, 0.0, 1.0, 2.0, 5.0])
    np.testing.assert_allclose(half.conjugate(y), (y - 1.0) ** 2, atol=1e-12)
    assert half.kappa == pytest.approx(0.5)
    assert (0.5 * ce.MeanVariance(0.5) + 0.5 * ce.MeanVariance(2.0)).kappa == pytest.approx(2.5)


@pytest.mark.parametrize(
    "utility",
    [
        1 * ce.Entropic(2.0),
        0.5 * ce.Entropic(1.0) + 0.5 * ce.Entropic(3.0),
        0.5 * ce.CVaR(0.1).scaled(2.0) + 0.5 * ce.Entropic(1.0),
        0.5 * ce.CVaR(0.1).scaled(2.0) + 0.5 * (0.2 * ce.Mean() + 0.8 * ce.Quartic()).normalized(),
        ce.utility(np.expm1),
    ],
)
def test_an_anchor_of_0_is_0_to_the_bit(utility):
    assert utility.anchor == 0.0
    assert utility.is_normalized


def test_set_params_takes_utilities_only():
    mixture = 0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1)
    for bad in (
        lambda: ce.CVaR(0.1).scaled(2.0).set_params(utility="x"),
        lambda: ce.Quartic().normalized().set_params(utility=3),
        lambda: mixture.set_params(term_1="x"),
        lambda: mixture.set_params(terms=("a", "b")),
    ):
        with pytest.raises(TypeError, match="made of utilities; found"):
            bad()
    with pytest.raises(ValueError, match="one weight per term; found 1 weights and 2 terms"):
        mixture.set_params(weights=(0.5,))
    assert mixture == 0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1)
