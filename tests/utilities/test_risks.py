"""Risks with more inner variables than t: parameters, checks, nesting, and what their inner minimum says of them."""

import copy
import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import certeq as ce
from certeq.utilities.forms import Inner

U = ce.utility(lambda x: np.logaddexp(0.0, x) + 0.5 * np.maximum(x, 0.0))
RISKS = [
    ce.EVaR(0.05),
    ce.MonotoneMeanVariance(2).ball(0.3),
    (0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1)).ball(1),
    ce.MeanVariance(0.5).ball(0.2),
    ce.Quartic().ball(0.2),
    ce.HMCR(2, 0.1),
    ce.HMCR(1, 0.1),
    ce.Mixture([0.5, 0.25, 0.25], [ce.CVaR(0.05), ce.EVaR(0.1), ce.Entropic(2.0).ball(0.5)]),
    ce.Distortion(np.sqrt),
    ce.Wang(0.5),
    ce.ProportionalHazard(2),
    ce.PowerDistortion(3),
]
NAMES = [repr(risk) for risk in RISKS]


@pytest.mark.parametrize("risk", RISKS, ids=NAMES)
def test_copies_are_equal_and_a_change_makes_another(risk):
    for copied in (clone(risk), copy.deepcopy(risk), pickle.loads(pickle.dumps(risk))):
        assert copied == risk
        assert hash(copied) == hash(risk)
        assert repr(copied) == repr(risk)
    if not isinstance(risk, ce.Distortion):
        assert eval(repr(risk), vars(ce) | {name: getattr(ce, name) for name in ce.__all__}) == risk
    name, value = next((n, v) for n, v in risk.get_params().items() if isinstance(v, (int, float)) or callable(v))
    if name.startswith("weight") or callable(value):
        return
    changed = clone(risk).set_params(**{name: 0.5 * value if value < 1 else value + 1})
    assert changed != risk
    assert risk == clone(risk)
    with pytest.raises(ValueError, match="has no parameter 'gamma'"):
        risk.set_params(gamma=1)


@pytest.mark.parametrize("risk", RISKS, ids=NAMES)
def test_the_inner_minimum_is_the_definition(risk):
    """Values of the sum at (t, s), against the formulas as they are printed."""
    if isinstance(risk, (ce.utilities.SortedRisk,)):
        with pytest.raises(TypeError, match="sorted"):
            risk.inner()
        return
    inner = risk.inner()
    assert inner is risk.inner()
    x = np.random.default_rng(0).normal(size=50)
    v = np.where(np.isfinite(inner.low), 0.7, 0.3)
    for term in inner.terms:
        assert term.weight > 0.0
        assert inner.low[term.t] == -np.inf
        assert term.s is None or inner.low[term.s] == 0.0
    assert np.isfinite(objective(inner, v, x))
    if isinstance(risk, ce.HMCR) and risk.p > 1:
        y = np.maximum(x - 0.3, 0.0)
        norm = np.mean(y**risk.p) ** (1 / risk.p)
        assert objective(inner, np.array([0.3, norm]), x) == pytest.approx(0.3 + norm / risk.alpha, rel=1e-14)
        assert objective(inner, np.array([0.3, 1.01 * norm]), x) > 0.3 + norm / risk.alpha
    if isinstance(risk, ce.EVaR):  # the best t for s is known
        t = 0.7 * math.log(np.mean(np.exp(x / 0.7)))
        formula = 0.7 * math.log(np.mean(np.exp(x / 0.7)) / risk.alpha)
        assert objective(inner, np.array([t, 0.7]), x) == pytest.approx(formula, rel=1e-14)


def objective(inner: Inner, v, x):
    total = inner.cost @ v
    for term in inner.terms:
        s = 1.0 if term.s is None else v[term.s]
        total += term.weight * np.mean(s * term.form.utility.value((x - v[term.t]) / s))
    return total


def test_a_ball_of_cvar_is_cvar():
    """Its divergence is 0 or infinite, so s costs and gains nothing."""
    for u in (ce.CVaR(0.1), 0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1)):
        assert len(u.ball(3.0).inner().cost) == 1
    assert len(U.ball(3.0).inner().cost) == 2


def test_facts():
    assert ce.EVaR(0.1).is_coherent
    assert ce.EVaR(0.1).is_smooth
    assert ce.EVaR(0.1).is_monotone
    assert not ce.MeanVariance(1.0).ball(0.1).is_monotone
    assert not ce.MeanVariance(1.0).ball(0.1).is_coherent
    assert U.ball(0.1).is_coherent
    assert not ce.CVaR(0.1).ball(1).is_smooth
    assert not ce.HMCR(1, 0.1).is_smooth
    assert ce.Wang(0).is_coherent
    assert not ce.Wang(0).is_smooth
    mixture = ce.Mixture([0.5, 0.5], [ce.CVaR(0.1), ce.MeanVariance(1.0)])
    assert not mixture.is_monotone
    assert not mixture.is_coherent
    assert not mixture.is_smooth


def test_they_nest_and_mixtures_are_opened_up():
    inside = ce.Mixture((0.25, 0.75), (ce.EVaR(0.1), U.ball(0.1)))
    outside = ce.Mixture([0.5, 0.5], [inside, ce.HMCR(3, 0.2)])
    assert outside.weights == (0.125, 0.375, 0.5)
    assert outside.risks == (*inside.risks, ce.HMCR(3, 0.2))
    inner = outside.inner()
    assert [(term.t, term.s) for term in inner.terms] == [(0, 1), (2, 3), (4, 5)]
    np.testing.assert_allclose(inner.cost[::2], outside.weights)
    outside.set_params(risk_0__alpha=0.2)
    assert outside.risks[0] == ce.EVaR(0.2)
    assert inside.risks[0] == ce.EVaR(0.1)
    assert outside.inner().cost[1] == pytest.approx(0.125 * math.log(5.0))
    outside.set_params(weights=(0.25, 0.25, 0.5), risk_2=inside)
    assert len(outside.risks) == 4


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ce.EVaR(95), ValueError, "Did you mean 0.05"),
        (lambda: ce.EVaR(5), ValueError, "Did you mean 0.05"),
        (lambda: ce.EVaR("5%"), TypeError, "alpha must be a tail mass"),
        (lambda: ce.HMCR(0.5, 0.1), ValueError, "p must be the order of a norm"),
        (lambda: ce.HMCR(2, 95), ValueError, "Did you mean 0.05"),
        (lambda: ce.Entropic().ball(0), ValueError, "radius must be a finite number above 0"),
        (lambda: ce.Entropic().ball(math.inf), ValueError, "radius must be a finite number"),
        (lambda: ce.DivergenceBall(ce.EVaR(0.1), 1), TypeError, "utility must be a Utility"),
        (lambda: ce.Mixture([1], []), ValueError, "found 1 weights and 0 risks"),
        (lambda: ce.Mixture([1, 2], [ce.CVaR(0.1), ce.Mean()]), ValueError, r"Did you mean \[0.3333, 0.6667\]"),
        (lambda: ce.Mixture([1.5, -0.5], [ce.CVaR(0.1), ce.Mean()]), ValueError, r"weights\[1\] must be"),
        (lambda: ce.Mixture([1], [0.05]), TypeError, r"risks\[0\] must be a risk"),
        (lambda: ce.Mixture(1, ce.CVaR(0.1)), TypeError, "weights must be a list"),
        (lambda: ce.Wang(-1), ValueError, "shift must be"),
        (lambda: ce.ProportionalHazard(0.5), ValueError, "rho must be"),
        (lambda: ce.PowerDistortion(0.5), ValueError, "k must be"),
        (lambda: ce.Distortion(0.5), TypeError, "g must be a function"),
        (lambda: ce.Distortion(np.square), ValueError, "g must be concave"),
        (lambda: ce.Distortion(np.exp), ValueError, r"g\(0\) = 1"),
        (lambda: ce.Distortion(lambda p: 0.5), ValueError, "elementwise"),
        (lambda: ce.Distortion(lambda p: p + 0.1 * np.sin(40 * np.pi * p)), ValueError, "g must be concave"),
        (lambda: 0.5 * ce.EVaR(0.1), TypeError, "certeq.Mixture"),
        (lambda: ce.CVaR(0.1) + ce.EVaR(0.1), TypeError, "certeq.Mixture"),
        (lambda: ce.EVaR(0.1) + ce.CVaR(0.1), TypeError, "certeq.Mixture"),
        (lambda: np.float64(2.0) * ce.Wang(0.1), TypeError, "certeq.Mixture"),
    ],
)
def test_refusals_say_what_would_be_right(make, error, message):
    with pytest.raises(error, match=message):
        make()
