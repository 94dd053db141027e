"""OCE, threshold, tilt and shortfall risk of arrays and of tables: axes, weights, labels, ties and units."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import certeq as ce
from tests.problems import RISKS, UTILITIES

CVAR = ce.CVaR(0.1)


def rng():
    return np.random.default_rng(11)


# -- axes and weights --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", UTILITIES)
def test_axes_and_weights(name, dtype):
    utility = UTILITIES[name]
    x = rng().standard_normal((3, 4, 6)).round(1).astype(dtype)
    w = rng().integers(0, 3, x.shape).astype(float)
    w[0], w[:, 0] = 1.0, 2.0  # some weight along every axis
    for axis in (0, -2, (0, 2)):
        moved, along = (np.moveaxis(a, axis, range(-np.size(axis), 0)) for a in (x, w))
        lead = moved.shape[: 3 - np.size(axis)]
        rows, masses = moved.reshape(-1, moved[(0,) * len(lead)].size), along.reshape(-1, moved[(0,) * len(lead)].size)
        for function in (ce.oce, ce.threshold):
            found, weighted = function(x, utility, axis=axis), function(x, utility, w, axis)
            assert found.shape == weighted.shape == lead
            np.testing.assert_allclose(found.ravel(), [function(row, utility) for row in rows], rtol=1e-9, atol=1e-9)
            wanted = [function(row, utility, mass) for row, mass in zip(rows, masses, strict=True)]
            np.testing.assert_allclose(weighted.ravel(), wanted, rtol=1e-9, atol=1e-9)
        tilt = ce.tilt(x, utility, w, axis)
        assert tilt.shape == x.shape
        np.testing.assert_allclose(tilt.sum(axis=axis), 1.0, rtol=1e-12)
        one = np.moveaxis(tilt, axis, range(-np.size(axis), 0)).reshape(rows.shape)[1]
        np.testing.assert_allclose(one, ce.tilt(rows[1], utility, masses[1]), atol=1e-9)


@pytest.mark.parametrize("name", UTILITIES)
def test_all_axes_are_reduced_unless_one_is_named(name):
    utility, x = UTILITIES[name], rng().standard_normal((3, 4, 5))
    w = rng().random(x.shape)
    kept = x.copy(), w.copy()
    for weights in (None, w, w.ravel()):
        flat = None if weights is None else w.ravel()
        for function in (ce.oce, ce.threshold):
            found = function(x, utility, weights)
            assert isinstance(found, float)
            assert found == pytest.approx(function(x.ravel(), utility, flat), rel=1e-12)
        tilt = ce.tilt(x, utility, weights)
        np.testing.assert_allclose(tilt.ravel(), ce.tilt(x.ravel(), utility, flat), atol=1e-12)
        np.testing.assert_allclose(ce.tilt(x.T, utility, None if weights is None else w.T), tilt.T, atol=1e-9)
    np.testing.assert_array_equal([x, w], kept)


def test_thresholds_of_risks_with_several_inner_variables():
    x = rng().normal(size=(3, 4, 20))
    for risk, parts in ((ce.EVaR(0.3), ()), (RISKS["mixture"].risk, (3,))):
        found = ce.threshold(x, risk, axis=-1)
        assert found.shape == (3, 4, *parts)
        np.testing.assert_allclose(found[0, 1], ce.threshold(x[0, 1], risk))
    both = ce.Mixture([0.5, 0.5], [ce.CVaR(0.2), ce.Entropic(1.0)])
    np.testing.assert_allclose(
        ce.threshold(x, both), [ce.threshold(x, ce.CVaR(0.2)), ce.threshold(x, ce.Entropic(1.0))]
    )


def test_weights_of_extreme_size():
    assert ce.oce([1, 2, 3.0], 0.0 * ce.Entropic(1.0) + 1.0 * ce.CVaR(0.3)) == ce.oce([1, 2, 3.0], ce.CVaR(0.3))
    for scale in (1e-300, 1e-170, 1e160, 1e308):
        assert ce.oce([1, 2, 3.0, 4], ce.CVaR(0.3), [scale] * 4) == ce.oce([1, 2, 3.0, 4], ce.CVaR(0.3))
        assert np.isfinite(ce.estimate(np.arange(50.0), ce.Entropic(0.1), [scale] * 50).stderr)


def test_booleans_are_numbers():
    x = rng().standard_normal(50) > 0
    assert ce.oce(x, CVAR) == ce.oce(x.astype(float), CVAR)
    np.testing.assert_array_equal(ce.tilt(x, CVAR), ce.tilt(x.astype(float), CVAR))


# -- closed forms ------------------------------------------------------------------------------------------------------


def test_cvar_tilt_at_ties_and_fractions():
    assert ce.tilt([1.0, 2.0, 2.0, 3.0], ce.CVaR(0.5)) == pytest.approx([0, 0.25, 0.25, 0.5])
    assert ce.tilt([1.0, 2.0, 3.0], ce.CVaR(0.5)) == pytest.approx([0, 1 / 3, 2 / 3])
    # 100 * 0.29 is 28.999999999999996 in floats.
    assert ce.threshold(np.arange(100.0), ce.CVaR(0.29)) == 70.0
    # The printed weights sum to floor(m alpha)/(m alpha) = 0.9375 here.
    assert ce.tilt(rng().standard_normal(64), ce.CVaR(0.05)).sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(("name", "alpha"), [("cvar", 0.05), ("cvar.3", 0.3), ("mean_cvar", 0.05)])
def test_value_at_risk_is_a_loss_that_occurred(name, alpha):
    for n in (1, 2, 7, 37, 2048, 2049, 5000, 70_001):
        x = np.random.default_rng(n).normal(size=n).round(2) * 10
        rank = n - 1 - min(int(n * alpha * (1 + 1e-15)), n - 1)
        assert ce.threshold(x, UTILITIES[name]) == np.sort(x)[rank]
        assert ce.threshold(x[None], UTILITIES[name], np.full(n, 2.0), axis=1) == np.sort(x)[rank]


def test_tiny_beta_keeps_its_digits():
    z = np.array([0.0, 1.0, 3.0])
    assert ce.oce(z, ce.Entropic(1e-12)) == pytest.approx(z.mean() + 0.5e-12 * z.var(), rel=1e-13)
    assert ce.oce(np.tile(z, 50_000), ce.Entropic(1e-12)) == pytest.approx(z.mean(), rel=1e-11)
    assert ce.oce(z * 1000, ce.Entropic(50.0)) == pytest.approx(3000 - np.log(3) / 50, rel=1e-14)


# -- utility-based shortfall risk --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in UTILITIES if name != "mean"])
def test_ubsr_of_a_slope_is_the_threshold(name):
    utility, z = UTILITIES[name], np.random.default_rng(1).standard_normal((5, 21)).round(1)
    np.testing.assert_allclose(ce.ubsr(z, utility.slope, 1.0, axis=1), ce.threshold(z, utility, axis=1), atol=1e-7)


@given(st.lists(st.integers(-30, 30), min_size=1, max_size=20), st.floats(0.1, 3.0), st.floats(0.2, 5.0))
def test_ubsr_of_an_exponential_is_entropic(z, beta, level):
    z = np.array(z) / 10
    expected = ce.oce(z, ce.Entropic(beta)) - np.log(level) / beta
    assert ce.ubsr(z, lambda x: np.exp(beta * x), level) == pytest.approx(expected, abs=1e-12)


def test_ubsr_of_a_step_is_value_at_risk():
    z = np.arange(1.0, 11.0)
    assert ce.ubsr(z, lambda x: (x > 0).astype(float), 0.2) == 8.0
    assert ce.ubsr(z, lambda x: (x > 0).astype(float), 0.19) == 9.0
    assert ce.ubsr([0.0, 1.0], lambda x: (x > -1) * 1.0, 0.6) == 1.0  # rounding hides the next float


def test_ubsr_takes_weights_axes_offsets_and_utilities():
    z, w = np.random.default_rng(2).standard_normal((6, 3)), np.arange(1, 7)
    found = ce.ubsr(z, np.exp, 1.0, weights=w, axis=0)
    np.testing.assert_allclose(found, [ce.ubsr(np.repeat(z[:, j], w), np.exp, 1.0) for j in range(3)], rtol=1e-12)
    assert ce.ubsr(z, np.exp, 1.0) == pytest.approx(ce.ubsr(z.ravel(), np.exp, 1.0), rel=1e-12)
    assert ce.ubsr(z[:, 0] + 1e9, np.exp, 1.0) == pytest.approx(1e9 + ce.ubsr(z[:, 0], np.exp, 1.0), rel=1e-15)
    assert ce.ubsr(z[:, 0], ce.Entropic(1.0), 0.0) == pytest.approx(ce.ubsr(z[:, 0], np.exp, 1.0), rel=1e-12)


# -- tables of pandas --------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "oce": ce.oce,
    "threshold": ce.threshold,
    "ubsr": lambda x, u, w=None, axis=None: ce.ubsr(x, u.slope, 1.0, w, axis),
}


@pytest.fixture(scope="module")
def frame():
    pd = pytest.importorskip("pandas")
    days = pd.date_range("2024-01-01", periods=40)
    rng = np.random.default_rng(5)
    return pd.DataFrame(rng.standard_normal((40, 3)), index=days, columns=["a", "b", "c"]).assign(w=rng.random(40))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_columns_and_rows_of_a_table(frame, name):
    pd, function, u = pytest.importorskip("pandas"), FUNCTIONS[name], ce.Quartic()
    table = frame[["a", "b", "c"]]
    for weights in (None, frame["w"], frame["w"].to_numpy()):
        wanted = pd.Series({column: function(table[column], u, weights) for column in table})
        for axis in ({}, {"axis": None}, {"axis": 0}, {"axis": -2}, {"axis": (0,)}):
            pd.testing.assert_series_equal(function(table, u, weights, **axis), wanted, rtol=1e-12)
    for weights in (None, pd.Series([1.0, 2.0, 3.0], index=["a", "b", "c"])):
        wanted = pd.Series([function(row, u, weights) for _, row in table.iterrows()], index=table.index)
        for axis in (1, -1):
            pd.testing.assert_series_equal(function(table, u, weights, axis), wanted, rtol=1e-9, check_freq=False)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_tilt_of_a_table_has_its_labels(frame, axis):
    found = ce.tilt(frame, CVAR, axis=axis)
    assert found.index.equals(frame.index)
    assert found.columns.equals(frame.columns)
    np.testing.assert_allclose(found.to_numpy().sum(axis=0 if axis is None else axis), 1.0, rtol=1e-13)


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_series(frame):
    pd, a = pytest.importorskip("pandas"), frame["a"]
    found = ce.tilt(a, CVAR)
    assert isinstance(ce.oce(a, CVAR), float)
    pd.testing.assert_series_equal(found, pd.Series(ce.tilt(a.to_numpy(), CVAR), index=a.index))
    pd.testing.assert_series_equal(ce.estimate(a, CVAR).tilt, found)
    both = ce.estimate(a, CVAR, frame["w"])
    pd.testing.assert_series_equal(both.tilt, ce.tilt(a, CVAR, frame["w"]))
    assert np.isfinite(both.interval(method="bootstrap", rng=0)).all()


def test_types_and_weights_of_a_table(frame):
    pd = pytest.importorskip("pandas")
    mixed = frame.assign(n=np.arange(40), flag=True, nullable=pd.array(range(40), dtype="Int64"))
    found = ce.oce(mixed, CVAR)
    assert found["n"] == found["nullable"] == ce.oce(np.arange(40.0), CVAR)
    doubled = pd.DataFrame(dict.fromkeys(frame, frame["w"]))
    pd.testing.assert_series_equal(ce.oce(frame, CVAR, doubled), ce.oce(frame, CVAR, frame["w"]))
    assert ce.oce(frame, CVAR, axis=(0, 1)) == pytest.approx(ce.oce(frame.to_numpy(), CVAR), rel=1e-13)
    thresholds = ce.threshold(frame, RISKS["mixture"].risk)
    assert thresholds.index.equals(frame.columns)
    assert thresholds.shape == (4, 3)
