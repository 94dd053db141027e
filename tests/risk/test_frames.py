"""Tables of pandas: one answer for each column, or row, under its label."""

import numpy as np
import pytest

import certeq as ce

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(5)
DAYS = pd.date_range("2024-01-01", periods=40)
TABLE = pd.DataFrame(RNG.standard_normal((40, 3)), index=DAYS, columns=["a", "b", "c"])
WEIGHTS = pd.Series(RNG.random(40), index=DAYS)
FUNCTIONS = {
    "oce": ce.oce,
    "bisect": lambda x, u, w=None, axis=None: ce.oce(x, u, w, axis, method="bisect"),
    "threshold": ce.threshold,
    "ubsr": lambda x, u, w=None, axis=None: ce.ubsr(x, u.slope, 1.0, w, axis),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("weights", [None, WEIGHTS, WEIGHTS.to_numpy()], ids=["equal", "series", "array"])
def test_a_number_for_each_column(name, weights):
    function, u = FUNCTIONS[name], ce.Quartic()
    wanted = pd.Series({column: function(TABLE[column], u, weights) for column in TABLE})
    for axis in ({}, {"axis": None}, {"axis": 0}, {"axis": -2}, {"axis": (0,)}):
        pd.testing.assert_series_equal(function(TABLE, u, weights, **axis), wanted, rtol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_number_for_each_row(name):
    function, u, w = FUNCTIONS[name], ce.Quartic(), pd.Series([1.0, 2.0, 3.0], index=["a", "b", "c"])
    for weights in (None, w):
        wanted = pd.Series([function(row, u, weights) for _, row in TABLE.iterrows()], index=DAYS)
        for axis in (1, -1):
            found = function(TABLE, u, weights, axis=axis)
            pd.testing.assert_series_equal(found, wanted, rtol=1e-9, check_freq=False)


def test_both_axes_are_one_sample():
    assert ce.oce(TABLE, ce.CVaR(0.1), axis=(0, 1)) == pytest.approx(ce.oce(TABLE.to_numpy(), ce.CVaR(0.1)), rel=1e-13)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_tilt_has_the_labels(axis):
    found = ce.tilt(TABLE, ce.CVaR(0.1), axis=axis)
    assert found.index.equals(TABLE.index)
    assert found.columns.equals(TABLE.columns)
    sums = found.to_numpy().sum(axis=0 if axis is None else axis)
    np.testing.assert_allclose(sums, 1.0, rtol=1e-13)


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_series():
    found = ce.tilt(TABLE["a"], ce.CVaR(0.1))
    assert isinstance(ce.oce(TABLE["a"], ce.CVaR(0.1)), float)
    pd.testing.assert_series_equal(found, pd.Series(ce.tilt(TABLE["a"].to_numpy(), ce.CVaR(0.1)), index=DAYS))
    pd.testing.assert_series_equal(ce.estimate(TABLE["a"], ce.CVaR(0.1)).tilt, found)
    both = ce.estimate(TABLE["a"], ce.CVaR(0.1), WEIGHTS)
    pd.testing.assert_series_equal(both.tilt, ce.tilt(TABLE["a"], ce.CVaR(0.1), WEIGHTS))
    assert np.isfinite(both.interval(method="bootstrap", rng=0)).all()


def test_weights_of_a_table():
    doubled = pd.DataFrame(dict.fromkeys(TABLE, WEIGHTS))
    wanted = ce.oce(TABLE, ce.CVaR(0.1), WEIGHTS)
    pd.testing.assert_series_equal(ce.oce(TABLE, ce.CVaR(0.1), doubled), wanted)
    for bad, message in (
        (doubled[::-1], "index and the columns of x"),
        (WEIGHTS[::-1], r"labels of x.index.*weights.reindex\(x.index\)"),
        (np.ones(3), r"shape of x, \(40, 3\), or one weight per sample, \(40,\); found \(3,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            ce.oce(TABLE, ce.CVaR(0.1), bad)
    with pytest.raises(ValueError, match=r"labels of x.columns"):
        ce.oce(TABLE, ce.CVaR(0.1), WEIGHTS, axis=1)


def test_columns_of_other_types():
    mixed = TABLE.assign(n=np.arange(40), flag=True, nullable=pd.array(range(40), dtype="Int64"))
    found = ce.oce(mixed, ce.CVaR(0.1))
    assert found["n"] == found["nullable"] == ce.oce(np.arange(40.0), ce.CVaR(0.1))
    with pytest.raises(TypeError, match=r"numbers in every column; found \w+ in column 'name'.*select_dtypes"):
        ce.oce(TABLE.assign(name="x"), ce.CVaR(0.1))
    missing = mixed.astype({"n": "Int64"})
    missing.loc[DAYS[4], "n"] = pd.NA
    with pytest.raises(ValueError, match=r"x holds NaN at index \(4, 3\)"):
        ce.oce(missing, ce.CVaR(0.1))


@pytest.mark.parametrize(("axis", "error"), [(2, ValueError), ("rows", TypeError), ((0, 0), ValueError)])
def test_axis_of_a_table(axis, error):
    with pytest.raises(error, match=r"axis must be 0, 1, \(0, 1\) or None for a DataFrame"):
        ce.threshold(TABLE, ce.CVaR(0.1), axis=axis)


def test_estimate_takes_one_column():
    with pytest.raises(ValueError, match=r"found a DataFrame with the columns 'a', 'b', 'c'.*x\['a'\]"):
        ce.estimate(TABLE, ce.CVaR(0.1))
