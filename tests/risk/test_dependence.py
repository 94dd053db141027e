"""Dependence in time: what is found in a series, and what that does to the error bars."""

import numpy as np
import pytest
from scipy.fft import dct

import certeq as ce
from certeq.risk._dependence import (
    cosine_sums,
    cosines_for,
    error_bars,
    join_lags,
    lags_for,
    lags_of,
    lifetime,
    long_run_variances,
)

from .processes import PROCESSES


def series(name, n=1000, seed=0):
    return PROCESSES[name](np.random.default_rng(seed), 1, n)[0]


@pytest.mark.parametrize("n", [25, 100, 1000])
@pytest.mark.parametrize("cuts", [(), (0.5,), (0.01, 0.02, 0.5, 0.99), tuple(np.linspace(0.03, 0.97, 30))])
def test_lags_do_not_depend_on_the_blocks(n, cuts):
    y = np.random.default_rng(n).normal(size=(3, n)) + 5.0
    lags = lags_for(n)
    blocks = np.split(y, sorted({int(n * cut) for cut in cuts} - {0}), axis=1)
    found = join_lags([lags_of(block, lags) for block in blocks])
    wanted = [[row[: n - k] @ row[k:] for k in range(lags + 1)] for row in y]
    np.testing.assert_allclose(found.products, wanted, rtol=1e-12)
    assert lifetime(found) == lifetime(lags_of(y, lags))


def test_short_and_constant_series_remember_nothing():
    assert lags_for(19) == 0
    assert lifetime(lags_of(np.ones((2, 100)), lags_for(100))) == 0.0
    assert ce.estimate(np.ones(100), ce.CVaR(0.1), dependence="auto").interval() == (1.0, 1.0)
    assert ce.estimate([1.0, 2.0, 4.0], ce.Mean(), dependence="auto").memory == 0.0


@pytest.mark.parametrize("n", [50, 1000, 70_000])
def test_long_run_variance_is_that_of_the_cosine_transform(n):
    y = np.random.default_rng(n).normal(size=(2, n))
    count = cosines_for(n, 5.0)
    blocks = [cosine_sums(y[:, start : start + 999], start, n, count) for start in range(0, n, 999)]
    wanted = (dct(y, type=2, axis=1)[:, 1 : count + 1] / 2 * np.sqrt(2 / n)) ** 2
    np.testing.assert_allclose(long_run_variances(np.sum(blocks, axis=0), n), wanted.mean(axis=1), rtol=2e-3)


@pytest.mark.parametrize("name", ["ar.6", "overlap10", "garch.10.88", "switching"])
def test_memory_is_found_and_widens_the_interval(name):
    x = series(name)
    for utility in (ce.CVaR(0.05), ce.MonotoneMeanVariance(2)):
        alone, found = ce.estimate(x, utility), ce.estimate(x, utility, dependence="auto")
        assert found.value == alone.value
        assert found.memory > 1.0
        assert alone.memory == 0.0
        assert found.df < 12
        assert found.interval_reach(0.95) > 1.3 * alone.interval_reach(0.95)
        assert any("depend on those before" in reason for reason in alone.warnings)
        assert not any("depend on those before" in reason for reason in found.warnings)


def test_auto_changes_nothing_where_there_is_no_memory(utility):
    x = series("iid", seed=3)
    assert ce.estimate(x, utility, dependence="auto").interval() == ce.estimate(x, utility).interval()


def test_overlap_by_number():
    x = series("overlap10")
    found, auto = ce.estimate(x, ce.CVaR(0.05), dependence=10), ce.estimate(x, ce.CVaR(0.05), dependence="auto")
    assert found.memory == 4.0
    assert found.stderr == pytest.approx(auto.stderr, rel=0.5)
    assert ce.estimate(x, ce.CVaR(0.05), dependence=1).memory == 0.0


def test_shift_and_scale(utility):
    x = series("ar.6")
    found, moved = ce.estimate(x, utility, dependence="auto"), ce.estimate(x + 1e6, utility, dependence="auto")
    np.testing.assert_allclose(np.subtract(moved.interval(), 1e6), found.interval(), rtol=1e-5, atol=1e-8)
    twice = ce.estimate(2.0 * x, utility.scaled(2.0), dependence="auto")
    np.testing.assert_allclose(twice.interval(), np.multiply(found.interval(), 2.0), rtol=1e-7)


def test_equal_weights_change_nothing_and_zero_weights_count_nothing():
    x = series("ar.6")
    for utility in (ce.CVaR(0.05), ce.Entropic(0.5)):
        plain = ce.estimate(x, utility, dependence="auto")
        same = ce.estimate(x, utility, np.full(1000, 3.0), dependence="auto")
        np.testing.assert_allclose(same.interval(), plain.interval(), rtol=1e-9)
        half = ce.estimate(x, utility, np.arange(1000) >= 500, dependence="auto")
        late = ce.estimate(x[500:], utility, dependence="auto")
        assert half.value == pytest.approx(late.value, rel=1e-12)
        assert half.stderr == pytest.approx(late.stderr, rel=0.5)


def test_a_mapped_file_is_read_in_order(tmp_path):
    x = series("ar.6", 200_000)
    np.save(tmp_path / "x.npy", x)
    on_disk = ce.estimate(np.load(tmp_path / "x.npy", mmap_mode="r"), ce.CVaR(0.05), dependence="auto")
    assert on_disk == ce.estimate(x, ce.CVaR(0.05), dependence="auto")
    assert on_disk.memory == 2.5
    assert any("depend on those before" in reason for reason in ce.estimate(x, ce.CVaR(0.05)).warnings)


def test_dask_arrays_are_read_in_order():
    da = pytest.importorskip("dask.array")
    x = series("ar.6", 3000)
    found = ce.estimate(da.from_array(x, chunks=700), ce.CVaR(0.05), dependence="auto")
    wanted = ce.estimate(x, ce.CVaR(0.05), dependence="auto")
    np.testing.assert_allclose(found.interval(), wanted.interval(), rtol=1e-9)
    assert not any("depend" in reason for reason in ce.estimate(da.from_array(x, chunks=700), ce.CVaR(0.05)).warnings)


def test_minus_infinity_under_entropic():
    x = series("ar.6")
    x[::7] = -np.inf
    found = ce.estimate(x, ce.Entropic(0.5), dependence="auto")
    assert np.isfinite(found.interval()).all()


def test_the_bootstrap_is_for_independent_losses():
    with pytest.raises(ValueError, match="independent; these are not"):
        ce.estimate(series("ar.6"), ce.CVaR(0.1), dependence="auto").interval(method="bootstrap")


@pytest.mark.parametrize(("wrong", "error"), [("yes", TypeError), (True, TypeError), (2.5, TypeError), (0, ValueError)])
def test_what_dependence_may_be(wrong, error):
    with pytest.raises(error, match=r'dependence must be None \(independent losses\), "auto"'):
        ce.estimate(np.arange(100.0), ce.CVaR(0.1), dependence=wrong)


def test_skewness_stretches_the_side_of_the_tail():
    right = error_bars(100, 100.0, 1.0, 2.0, 5.0, 1e12)
    left = error_bars(100, 100.0, 1.0, -2.0, 5.0, 1e12)
    assert right.reach(0.95)[1] > right.reach(0.95)[0]
    assert left.reach(0.95) == right.reach(0.95)[::-1]
    even = error_bars(100, 100.0, 1.0, 0.0, 1.0, 1e12)
    assert even.reach(0.95) == pytest.approx((0.1994, 0.1994), abs=1e-4)  # t quantile with 99 degrees of freedom


def test_the_textbook_interval_is_still_there():
    found = ce.estimate(series("iid"), ce.CVaR(0.1))
    low, high = found.interval(method="normal")
    assert high - low == pytest.approx(2 * 1.959963985 * found.stderr)
    assert 0.5 * (low + high) == pytest.approx(found.value)
