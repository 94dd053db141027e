"""What makes a number a risk: axioms, on every utility, with weights and ties, by hypothesis and by brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import certeq as ce
from certeq._table import ArrayTable
from certeq.risk._long import solve_long
from tests.conftest import UTILITIES

# Tenths, so that ties are common and sums are nearly exact.
losses = st.lists(st.integers(-40, 40).map(lambda k: k / 10), min_size=1, max_size=30).map(np.array)


@st.composite
def weighted_losses(draw):
    z = draw(losses)
    if draw(st.booleans()):
        return z, None
    w = np.array(draw(st.lists(st.integers(0, 5), min_size=len(z), max_size=len(z))), dtype=float)
    w[draw(st.integers(0, len(z) - 1))] += 1.0
    return z, w


each = pytest.mark.parametrize("name", UTILITIES)


def close(a, b, tolerance=1e-11):
    return abs(a - b) <= tolerance * (1.0 + abs(a) + abs(b))


@each
@given(weighted_losses(), st.integers(0, 20))
def test_monotone(name, sample, bump):
    if name == "mean_variance":
        return  # the one exception; see below
    z, w = sample
    worse = z + np.abs(np.sin(np.arange(len(z)))) * bump / 10
    assert ce.oce(worse, UTILITIES[name], w) >= ce.oce(z, UTILITIES[name], w) - 1e-11


def test_mean_variance_is_not_monotone():
    better = ce.oce([0.0, -10.0], ce.MeanVariance(0.5))
    assert better == pytest.approx(7.5)
    assert better > ce.oce([0.0, 0.0], ce.MeanVariance(0.5))


@each
@given(weighted_losses(), st.sampled_from([-1e9, -123.5, 1.0, 2.0**20, 1e9]))
def test_cash_invariant(name, sample, cash):
    z, w = sample
    shifted = z + cash
    z = shifted - cash  # what survived the rounding of z + cash is the sample we mean
    utility = UTILITIES[name]
    assert abs(ce.oce(shifted, utility, w) - (ce.oce(z, utility, w) + cash)) <= 1e-11 + 4e-16 * abs(cash)
    np.testing.assert_allclose(ce.tilt(shifted, utility, w), ce.tilt(z, utility, w), atol=1e-9)


@each
@given(losses, st.integers(0, 10))
def test_convex(name, z, tenth):
    utility, share = UTILITIES[name], tenth / 10
    other = np.roll(z, 1)[::-1] * 0.7
    mixed = ce.oce(share * z + (1 - share) * other, utility)
    assert mixed <= share * ce.oce(z, utility) + (1 - share) * ce.oce(other, utility) + 1e-11


@each
@given(weighted_losses(), st.randoms(use_true_random=False))
def test_order_does_not_matter(name, sample, random):
    z, w = sample
    order = list(range(len(z)))
    random.shuffle(order)
    assert close(ce.oce(z[order], UTILITIES[name], None if w is None else w[order]), ce.oce(z, UTILITIES[name], w))


@each
@given(losses, st.data())
def test_weights_are_repetitions(name, z, data):
    count = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(z), max_size=len(z))))
    count[0] += 1
    utility = UTILITIES[name]
    assert close(ce.oce(z, utility, count), ce.oce(np.repeat(z, count), utility))
    tilt = ce.tilt(np.repeat(z, count), utility)
    merged = np.array([part.sum() for part in np.split(tilt, np.cumsum(count)[:-1])])
    np.testing.assert_allclose(ce.tilt(z, utility, count), merged, atol=1e-9)


@each
@given(weighted_losses())
def test_primal_equals_dual_and_the_tilt_sums_to_one(name, sample):
    z, w = sample
    utility = UTILITIES[name]
    p = np.full(len(z), 1 / len(z)) if w is None else w / w.sum()
    q = ce.tilt(z, utility, w)
    assert abs(q.sum() - 1.0) <= 4e-16 * len(q) + 4e-16
    assert np.all(q[p == 0] == 0)
    counted = p > 0
    dual = q @ z - p[counted] @ np.asarray(utility.conjugate(q[counted] / p[counted]))
    assert close(dual, ce.oce(z, utility, w), 1e-10)


@each
@given(weighted_losses())
def test_brute_force_and_the_long_path_agree(name, sample):
    z, w = sample
    utility = UTILITIES[name]
    p = np.full(len(z), 1 / len(z)) if w is None else w / w.sum()
    counted = z[p > 0]

    def objective(t):
        return t + p @ np.asarray(utility.value(z - t))

    low, high = counted.min() - utility.anchor - 1e-3, counted.max() - utility.anchor + 1e-3
    found = minimize_scalar(objective, bounds=(low, high), method="bounded", options={"xatol": 1e-11}).fun
    corners = [objective(t) for kink, _ in utility.kinks for t in counted - kink]
    value = ce.oce(z, utility, w)
    assert value <= min([found, *corners]) + 1e-12 * (1 + abs(value))
    assert value >= min([found, *corners]) - 1e-9 * (1 + abs(value))
    assert close(solve_long(ArrayTable(z, w), utility).value, value)


@each
@given(weighted_losses())
def test_threshold_lies_in_its_bracket_and_is_the_smallest(name, sample):
    z, w = sample
    utility = UTILITIES[name]
    counted = z if w is None else z[w > 0]
    t = ce.threshold(z, utility, w)
    slack = 1e-9
    assert counted.min() - utility.anchor - slack <= t <= counted.max() - utility.anchor + slack
    if name in ("mean", "mean_variance"):
        return
    p = np.full(len(z), 1 / len(z)) if w is None else w / w.sum()
    assert p @ np.asarray(utility.slope(z - t - 1e-9)) <= 1.0 + 1e-6
    assert p @ np.asarray(utility.slope(z - t + 1e-6)) >= 1.0 - 1e-6


@pytest.mark.parametrize("name", ["entropic", "mean_variance", "cvar.3", "mean_cvar", "mmv2"])
@given(weighted_losses())
def test_closed_form_equals_the_root_finder(name, sample):
    """The same utility with its shape hidden has to go through Newton and bisection."""
    z, w = sample
    utility = UTILITIES[name]

    class Hidden(type(utility)):
        shape = None

    hidden = Hidden(**utility.get_params(deep=False))
    assert close(ce.oce(z, hidden, w), ce.oce(z, utility, w))
    np.testing.assert_allclose(ce.tilt(z, hidden, w), ce.tilt(z, utility, w), atol=1e-9)


def test_bounded_below_by_the_mean_plus_the_constant(utility):
    rng = np.random.default_rng(3)
    for scale in (1e-3, 1.0, 10.0):
        z = scale * rng.standard_normal(50)
        assert ce.oce(z, utility) >= z.mean() + utility.oce_of_zero - 1e-12


def test_subadditivity_is_not_among_the_axioms():
    """The paper's introduction says so of convex risk measures; the entropic risk of 2X exceeds twice that of X."""
    z = np.array([-1.0, 1.0])
    assert ce.oce(2 * z, ce.Entropic(1.0)) > 2 * ce.oce(z, ce.Entropic(1.0))
