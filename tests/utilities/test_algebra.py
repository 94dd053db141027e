"""Utilities made of others: shapes, sums, parameters, equality and printing."""

import numpy as np
import pytest

import certeq as ce

Z = np.array([0.3, -1.2, 2.5, 0.7, 0.7, -0.1])


def test_sum_of_mean_and_cvar_is_the_mixture_of_the_risks():
    mixed = 0.3 * ce.Mean() + 0.7 * ce.CVaR(0.4)
    assert ce.oce(Z, mixed) == pytest.approx(0.3 * Z.mean() + 0.7 * ce.oce(Z, ce.CVaR(0.4)), rel=1e-14)
    assert mixed == ce.Mean() * 0.3 + np.float64(0.7) * ce.CVaR(0.4)
    assert 2 * (0.5 * ce.Mean() + 0.25 * ce.Entropic(1.0)) == 1.0 * ce.Mean() + 0.5 * ce.Entropic(1.0)
    assert ce.oce(Z, 0.5 * ce.Mean() + 0.5 * ce.Mean()) == pytest.approx(Z.mean())
    assert sum([0.5 * ce.Mean(), 0.5 * ce.CVaR(0.1)]) == 0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1)


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


def test_a_failed_change_changes_nothing():
    smooth, mixture, scaled = ce.SmoothCVaR(0.1), 0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1), ce.CVaR(0.05).scaled(2.0)
    for risk, bad, error in (
        (smooth, {"beta": 1}, ValueError),
        (smooth, {"tau": 3.0, "alpha": 2.0}, ValueError),
        (scaled, {"utility__alpha": 0.2, "scale": -1}, ValueError),
        (scaled, {"utility": "x"}, TypeError),
        (mixture, {"term_1": "x"}, TypeError),
        (mixture, {"weights": (0.5,)}, ValueError),
    ):
        before = repr(risk)
        with pytest.raises(error):
            risk.set_params(**bad)
        assert repr(risk) == before


def test_equality_and_printing():
    assert hash(ce.Entropic(1)) == hash(ce.Entropic(1.0))
    assert hash(ce.CVaR(np.float64(0.1))) == hash(ce.CVaR(0.1))
    assert repr(ce.CVaR(np.float64(0.1))) == "CVaR(alpha=0.1)"
    assert ce.Entropic(1.0) != ce.Entropic(0.123)
    assert ce.Entropic(1.0) != ce.MeanVariance(1.0)


def test_a_sum_notices_that_its_term_changed():
    mixed = 0.5 * ce.Entropic(1.0) + 0.5 * ce.LeakyCVaR(0.2)
    before = ce.oce([3.0], mixed)
    mixed.terms[1].set_params(alpha=0.6)
    assert ce.oce([3.0], mixed) == pytest.approx(3.0 + mixed.oce_of_zero)
    assert ce.oce([3.0], mixed) != before


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
