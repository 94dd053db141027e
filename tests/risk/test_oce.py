"""OCE of arrays: shapes, dtypes, sources, and what is refused."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import certeq as ce
from certeq.risk.solvers import value_near
from certeq.utilities import Pieces
from certeq.utilities.forms import form
from tests.conftest import UTILITIES

RNG = np.random.default_rng(11)


def test_axes(utility):
    x = RNG.standard_normal((3, 4, 5))
    for axis in (0, 1, 2, -1, -2, -3):
        found = ce.oce(x, utility, axis=axis)
        rows = np.moveaxis(x, axis, -1)
        expected = np.array([[ce.oce(rows[i, j], utility) for j in range(rows.shape[1])] for i in range(rows.shape[0])])
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
        assert ce.tilt(x, utility, axis=axis).shape == x.shape
        np.testing.assert_allclose(ce.tilt(x, utility, axis=axis).sum(axis=axis), 1.0, rtol=1e-14)
    assert isinstance(ce.oce(x, utility, axis=None), float)
    assert ce.oce(x, utility, axis=None) == pytest.approx(ce.oce(x.ravel(), utility), rel=1e-13)
    assert ce.oce(x, utility, axis=(0, 2)).shape == (4,)
    assert ce.oce(x, utility, axis=(0, 2))[1] == pytest.approx(ce.oce(x[:, 1].ravel(), utility), rel=1e-12)
    np.testing.assert_allclose(ce.tilt(x, utility, axis=(0, 2)).sum(axis=(0, 2)), 1.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_all_axes_are_reduced_unless_one_is_named(utility, dtype):
    x = RNG.standard_normal((3, 4, 5)).astype(dtype)
    w = RNG.random(x.shape)
    for weights in (None, w, w.ravel()):
        flat = None if weights is None else w.ravel()
        for function in (ce.oce, ce.threshold):
            found = function(x, utility, weights)
            assert isinstance(found, float)
            assert found == pytest.approx(function(x.ravel(), utility, flat), rel=1e-12)
        tilt = ce.tilt(x, utility, weights)
        assert tilt.shape == x.shape
        assert tilt.sum() == pytest.approx(1.0, rel=1e-12)
        np.testing.assert_allclose(tilt.ravel(), ce.tilt(x.ravel(), utility, flat), atol=1e-12)
        np.testing.assert_allclose(ce.tilt(x.T, utility, None if weights is None else w.T), tilt.T, atol=1e-9)
    assert ce.ubsr(x, np.exp, 1.0) == pytest.approx(ce.ubsr(x.ravel(), np.exp, 1.0), rel=1e-12)


def test_all_axes_of_a_mapped_file(tmp_path):
    np.save(tmp_path / "losses.npy", RNG.standard_normal((700, 200)))
    mapped = np.load(tmp_path / "losses.npy", mmap_mode="r")
    for utility in (ce.CVaR(0.05), ce.Quartic()):
        assert ce.oce(mapped, utility) == pytest.approx(ce.oce(np.array(mapped).ravel(), utility), rel=1e-12)
        tilt = ce.tilt(mapped, utility)
        assert tilt.shape == mapped.shape
        assert tilt.sum() == pytest.approx(1.0, rel=1e-12)


def test_weights_of_each_shape(utility):
    x = RNG.standard_normal((6, 4))
    w = RNG.random(4) + 0.1
    by_row = ce.oce(x, utility, w, axis=1)
    np.testing.assert_allclose(by_row, [ce.oce(row, utility, w) for row in x], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(ce.oce(x, utility, np.tile(w, (6, 1)), axis=-1), by_row, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(ce.oce(x.T, utility, np.tile(w, (6, 1)).T, axis=0), by_row, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(ce.oce(x, utility, 7.5 * w, axis=1), by_row, rtol=1e-13, atol=1e-14)


def test_sources_give_the_same_number(utility):
    x = np.round(RNG.standard_normal(60), 2)
    expected = ce.oce(x, utility)
    read_only = x.copy()
    read_only.flags.writeable = False
    pandas = pytest.importorskip("pandas")
    for source in (
        list(x),
        tuple(x),
        read_only,
        np.repeat(x, 3)[::3],
        x[::-1][::-1],
        pandas.Series(x),
        x.astype(">f8"),
    ):
        assert ce.oce(source, utility) == pytest.approx(expected, rel=1e-14)
    assert ce.oce((x * 100).round().astype(int), utility) == pytest.approx(ce.oce((x * 100).round(), utility))
    assert ce.oce(x > 0, utility) == pytest.approx(ce.oce((x > 0).astype(float), utility))


def test_float32_is_computed_in_float64(utility):
    x = RNG.standard_normal(500).astype(np.float32)
    assert ce.oce(x, utility) == pytest.approx(ce.oce(x.astype(np.float64), utility), rel=1e-14)


def test_nothing_passed_in_is_changed(utility):
    x, w = RNG.standard_normal(200), RNG.random(200)
    x2, w2 = x.copy(), w.copy()
    ce.oce(x, utility, w), ce.tilt(x, utility, w), ce.threshold(x, utility, w), ce.estimate(x, utility, w)
    np.testing.assert_array_equal(x, x2)
    np.testing.assert_array_equal(w, w2)


def test_long_samples_equal_small_blocks(utility):
    """Beyond a few blocks a sample is streamed; the numbers are those of the copied path."""
    from certeq.risk._rows import solve_rows

    x = np.round(RNG.standard_normal(150_000), 3)
    w = RNG.integers(0, 3, x.size).astype(float)
    for weights in (None, w):
        p = None if weights is None else (weights / weights.sum())[None, :]
        rows = solve_rows(x[None, :], p, utility)
        assert ce.oce(x, utility, weights) == pytest.approx(rows.value[0], rel=1e-12)
        assert ce.threshold(x, utility, weights) == pytest.approx(rows.threshold[0], abs=1e-8)
        assert ce.tilt(x, utility, weights).sum() == pytest.approx(1.0, rel=1e-13)


def test_same_bits_whatever_the_threads(monkeypatch):
    x = RNG.standard_normal(300_000)
    longer = np.tile(x, 4)  # CVaR of fewer losses is one call
    for utility in UTILITIES.values():
        z = longer if isinstance(utility.shape, Pieces) else x
        monkeypatch.setenv("CERTEQ_NUM_THREADS", "1")
        one = ce.oce(z, utility)
        monkeypatch.setenv("CERTEQ_NUM_THREADS", "2")
        assert ce.oce(z, utility) == one
    monkeypatch.setenv("CERTEQ_NUM_THREADS", "many")
    with pytest.raises(ValueError, match="CERTEQ_NUM_THREADS"):
        ce.oce(longer, ce.CVaR(0.1))


@pytest.mark.parametrize("order", ["sorted", "blocks", "ties", "spike"])
@pytest.mark.filterwarnings("ignore:CVaR.alpha=.* is the mean of the worst")
def test_orders_that_would_fool_a_subsample(order):
    n = 200_000
    x = {
        "sorted": np.arange(n, dtype=float),
        "blocks": np.repeat(np.arange(20.0), n // 20),
        "ties": np.where(np.arange(n) % 1000 == 0, 1.0, 0.0),
        "spike": np.where(np.arange(n) == 77, 1e6, 0.0),
    }[order]
    for alpha in (1e-6, 1e-5, 0.001, 0.05, 0.5, 0.999):
        ranked = np.sort(x)[::-1]
        s = alpha * n
        k = min(int(s * (1 + 1e-15)), n - 1)
        expected = (ranked[:k].sum() + (s - k) * ranked[k]) / s
        assert ce.oce(x, ce.CVaR(alpha)) == pytest.approx(expected, rel=1e-12)


def test_a_million_ties():
    x = np.zeros(3_000_000)
    x[:10] = 1.0
    assert ce.oce(x, ce.CVaR(0.5)) == pytest.approx(10 / 1_500_000, rel=1e-12)
    assert ce.threshold(x, ce.CVaR(0.5)) == 0.0


def test_memory_mapped_arrays_need_little_memory(tmp_path, utility):
    path = tmp_path / "losses.npy"
    n = 1_500_000
    x = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n,))
    x[:] = np.random.default_rng(5).standard_normal(n)
    x.flush()
    mapped = np.load(path, mmap_mode="r")
    expected = ce.oce(np.array(x), utility)
    tracemalloc.start()
    found = ce.oce(mapped, utility)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == expected
    # A derived slope carries three arrays through every operation.
    limit = 20e6 if isinstance(utility, ce.CustomUtility) else 10e6
    assert peak < limit, f"{peak / 1e6:.1f} MB for a file of {8 * n / 1e6:.0f} MB"


def test_a_copy_on_write_map_keeps_what_was_written(tmp_path):
    path = tmp_path / "losses.npy"
    np.save(path, np.zeros(200_000))
    mapped = np.load(path, mmap_mode="c")
    mapped[0] = 5.0
    assert ce.oce(mapped, ce.Mean()) == pytest.approx(5.0 / 200_000)
    assert mapped[0] == 5.0


def test_single_and_constant_samples(utility):
    for n in (1, 2, 7, 100_000):
        x = np.full(n, 1.5)
        assert ce.oce(x, utility) == pytest.approx(1.5 + utility.oce_of_zero, rel=1e-14)
        assert ce.threshold(x, utility) == pytest.approx(1.5 - utility.anchor, rel=1e-13)
        np.testing.assert_allclose(ce.tilt(x, utility), 1 / n, rtol=1e-12)


def test_cvar_tilt_at_ties_and_fractions():
    assert ce.tilt([1.0, 2.0, 2.0, 3.0], ce.CVaR(0.5)) == pytest.approx([0, 0.25, 0.25, 0.5])
    assert ce.tilt([1.0, 2.0, 3.0], ce.CVaR(0.5)) == pytest.approx([0, 1 / 3, 2 / 3])
    # 100 * 0.29 is 28.999999999999996 in floats.
    assert ce.threshold(np.arange(100.0), ce.CVaR(0.29)) == 70.0
    # The printed weights sum to floor(m alpha)/(m alpha) = 0.9375 here.
    assert ce.tilt(RNG.standard_normal(64), ce.CVaR(0.05)).sum() == pytest.approx(1.0, abs=1e-15)


def test_extreme_scales(utility):
    z = np.array([0.0, 1.0, 2.0, 5.0])
    for scale in (1e-12, 1e-6, 1e6):
        value = ce.oce(z * scale, utility)
        assert np.isfinite(value)
        assert value >= scale * 2.0 + utility.oce_of_zero - 1e-12


def test_tiny_beta_keeps_its_digits():
    z = np.array([0.0, 1.0, 3.0])
    assert ce.oce(z, ce.Entropic(1e-12)) == pytest.approx(z.mean() + 0.5e-12 * z.var(), rel=1e-13)
    assert ce.oce(np.tile(z, 50_000), ce.Entropic(1e-12)) == pytest.approx(z.mean(), rel=1e-11)
    assert ce.oce(z * 1000, ce.Entropic(50.0)) == pytest.approx(3000 - np.log(3) / 50, rel=1e-14)


def test_bisect_is_within_its_bound(utility):
    z = RNG.standard_normal((4, 30))
    exact = ce.oce(z, utility, axis=1)
    for delta, epsilon in ((1e-2, 1e-1), (1e-6, 1e-6)):
        found = ce.oce(z, utility, axis=1, method="bisect", delta=delta, epsilon=epsilon)
        assert np.all(found >= exact - 1e-12)
        assert np.all(found - exact <= delta * 30)
    tight = ce.oce(z, utility, axis=1, method="bisect", delta=1e-12, epsilon=1e-12)
    np.testing.assert_allclose(tight, exact, rtol=1e-10, atol=1e-10)
    assert ce.oce(1e9 + z, utility, axis=1, method="bisect")[0] == pytest.approx(1e9 + exact[0], abs=1e-4)


def test_bisect_ends_where_the_printed_rule_never_does():
    """m = 10, alpha = 0.15: |g| never falls below 1/3."""
    z = np.arange(10.0)
    assert ce.oce(z, ce.CVaR(0.15), method="bisect", epsilon=1e-9) == pytest.approx(ce.oce(z, ce.CVaR(0.15)), abs=1e-5)


@pytest.mark.parametrize(
    "x, error, message",
    [
        ([1.0, np.nan], ValueError, "NaN at index 1"),
        ([1.0, np.inf], ValueError, r"\+inf at index 1: its OCE is \+inf"),
        ([1.0, -np.inf], ValueError, "-inf at index 1"),
        ([], ValueError, "empty"),
        (np.empty((3, 0)), ValueError, "empty"),
        (3.0, ValueError, "single number"),
        (np.array(3.0), ValueError, "single number"),
        (["a", "b"], TypeError, "dtype"),
        ([1.0, "b"], TypeError, "numbers"),
        ([1.0, None], TypeError, "object array"),
        (np.array([1.0, 2.0], dtype=object), TypeError, "object array"),
        ([1 + 2j], TypeError, "complex"),
        ([[1.0], [1.0, 2.0]], TypeError, "rectangular"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), TypeError, "dtype"),
        (np.ma.array([1.0, 2.0], mask=[True, False]), TypeError, "masked"),
    ],
)
def test_bad_losses(x, error, message):
    for utility in (ce.CVaR(0.1), ce.Quartic(), ce.MeanVariance(1)):
        for function in (ce.oce, ce.threshold, ce.tilt):
            with pytest.raises(error, match=message):
                function(x, utility)


@pytest.mark.parametrize("bad, message", [(np.nan, "NaN at index 77777"), (np.inf, r"\+inf at index 77777")])
def test_bad_losses_far_into_a_long_sample(bad, message, utility):
    x = np.zeros(200_000)
    x[77_777] = bad
    for weights in (None, np.ones(200_000)):
        with pytest.raises(ValueError, match=message):
            ce.oce(x, utility, weights)


@pytest.mark.parametrize("function", [ce.oce, ce.threshold, ce.tilt, ce.estimate])
def test_minus_infinity_is_refused_though_an_exponential_would_not_mind(function):
    samples = [0.0, -np.inf], np.array([0.0, -np.inf]), np.r_[np.zeros(100_000), -np.inf], np.array([-np.inf])
    for x in samples:
        for weights in (None, np.r_[np.full(len(x) - 1, 2.0), 1.0]):
            with pytest.raises(ValueError, match=f"x holds -inf at index {len(x) - 1}, a gain without end"):
                function(x, ce.Entropic(1.0), weights)
    with pytest.raises(ValueError, match="y holds -inf at index 1"):
        ce.difference([0.0, 1.0], [1.0, -np.inf], ce.Entropic(1.0))


def test_rows_are_named():
    with pytest.raises(ValueError, match=r"index \(2, 1\)"):
        ce.oce([[0, 1], [1, 2], [3, np.nan]], ce.CVaR(0.1), axis=1)


@pytest.mark.parametrize(
    "weights, message",
    [
        ([1, -1, 1], "negative; found -1"),
        ([0, 0, 0], "sum to 0"),
        ([1, np.nan, 1], "finite"),
        ([1, np.inf, 1], "finite"),
        ([1, 1], "shape"),
        ([[1, 1, 1]], "shape"),
    ],
)
def test_bad_weights(weights, message, utility):
    with pytest.raises(ValueError, match=message):
        ce.oce([1.0, 2.0, 3.0], utility, weights)


@pytest.mark.parametrize(
    "utility, message",
    [("cvar", "certeq.CVaR"), (ce.CVaR, r"write CVaR\(\)"), (np.exp, "certeq.utility"), (None, "Utility")],
)
def test_bad_utilities(utility, message):
    with pytest.raises(TypeError, match=message):
        ce.oce([1.0], utility)


def test_other_bad_arguments():
    with pytest.raises(ValueError, match="axis"):
        ce.oce([1.0, 2.0], ce.CVaR(0.1), axis=3)
    with pytest.raises(ValueError, match='"auto" or "bisect"'):
        ce.oce([1.0, 2.0], ce.CVaR(0.1), method="newton")
    with pytest.raises(ValueError, match="delta"):
        ce.oce([1.0, 2.0], ce.CVaR(0.1), method="bisect", delta=0)


def test_importing_certeq_is_light():
    code = (
        "import sys, certeq; print([m for m in ('torch', 'pandas', 'sklearn', 'skfolio', 'dask') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_weights_with_other_labels_are_refused():
    pandas = pytest.importorskip("pandas")
    x, w = pandas.Series([1.0, 2.0, 3.0]), pandas.Series([1.0, 0.0, 0.0], index=[2, 1, 0])
    for ask in (ce.oce, ce.tilt, ce.estimate):
        with pytest.raises(ValueError, match=r"weights must have the index of x.*reindex"):
            ask(x, ce.CVaR(0.5), w)
    assert ce.oce(x, ce.CVaR(0.5), w.reindex(x.index)) == 3.0


@pytest.mark.parametrize("bad", [None, {1.0, 2.0}, {"a": 1.0}, (value for value in (1.0, 2.0))])
def test_what_is_no_array_says_its_type(bad):
    with pytest.raises(TypeError, match=f"found a {type(bad).__name__}"):
        ce.oce(bad, ce.CVaR(0.5))


@pytest.mark.parametrize("weights", [None, "uneven", "none at every sixteenth"])
@pytest.mark.parametrize("utility", [0.5 * ce.Entropic(1.0) + 0.5 * ce.CVaR(0.1), ce.LeakyCVaR(0.1), ce.CVaR(0.1)])
def test_from_a_threshold_nearby_the_answer_is_the_same(utility, weights):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=5000), None
    if weights is not None:
        w = rng.uniform(size=x.size)
        w[::16] *= weights == "uneven"
        w /= w.sum()
    t = ce.threshold(x, utility, weights=w)
    for guess in (None, t, t + 0.1):
        value, found = value_near(x, w, form(utility), guess)
        assert value == pytest.approx(ce.oce(x, utility, weights=w), rel=1e-14)
        assert found == pytest.approx(t, rel=1e-10)
