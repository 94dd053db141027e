"""Dependence in time: what is found in a series, and what that does to the error bars."""

import numpy as np
import pandas as pd
import pytest
from scipy.fft import dct

import certeq as ce

from .processes import PROCESSES, autoregression, overlap

CVAR = ce.CVaR(0.05)


def series(name, n=1000, seed=0):
    return PROCESSES[name](np.random.default_rng(seed), 1, n)[0]


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
@pytest.mark.parametrize("n", [25, 100, 3000])
@pytest.mark.parametrize("cuts", [(), (0.5,), (0.01, 0.02, 0.5, 0.99), tuple(np.linspace(0.03, 0.97, 30))])
def test_a_series_does_not_depend_on_its_blocks(n, cuts):
    da = pytest.importorskip("dask.array")
    x = series("ar.6", n) + 5.0
    sizes = tuple(np.diff([0, *sorted({int(n * cut) for cut in cuts} - {0}), n]).tolist())
    lazy = da.from_array(x, chunks=(sizes,))
    for dependence in ("auto", 3):
        found, wanted = (ce.estimate(losses, CVAR, dependence=dependence) for losses in (lazy, x))
        np.testing.assert_allclose(found.interval(), wanted.interval(), rtol=1e-9)
        assert (found.memory, found.df) == (wanted.memory, pytest.approx(wanted.df, rel=1e-9))
    assert not any("depend on" in reason for reason in ce.estimate(lazy, CVAR).warnings)  # not looked for there


def test_short_and_constant_series_have_no_memory():
    assert ce.estimate([1.0, 2.0, 4.0], ce.Mean(), dependence="auto").memory == 0.0
    assert ce.estimate(np.arange(19.0), ce.Mean(), dependence="auto").memory == 0.0
    assert ce.estimate(np.arange(20.0), ce.Mean(), dependence="auto").memory > 0.0
    with pytest.warns(ce.ReliabilityWarning, match="nothing of its own error"):
        assert ce.estimate(np.ones(100), CVAR, dependence="auto").interval() == (1.0, 1.0)
    assert ce.estimate([1.0], CVAR, dependence=1).memory == 0.0


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
@pytest.mark.parametrize("n", [200, 1000, 70_000])
def test_long_run_variance_is_that_of_the_cosine_transform(n):
    """Mean squares of the lowest cosine coefficients, as many as the interval has degrees of freedom."""
    x = overlap(5)(np.random.default_rng(n), 1, n)[0]
    found = ce.estimate(x, ce.Mean(), dependence=5)
    count = round(found.df)
    assert (found.df, found.memory) == (count, 2.0)
    long_run = lambda y: np.square(dct(y, type=2)[1 : count + 1] / 2 * np.sqrt(2 / n)).mean()
    assert n * found.stderr**2 == pytest.approx(long_run(x - x.mean()), rel=2e-3)
    for utility in (CVAR, ce.Entropic(0.5), 0.5 * ce.Entropic(0.5) + 0.5 * ce.CVaR(0.2)):  # the bias is that of slopes
        found, plain, y = ce.estimate(x, utility, None, 5), ce.estimate(x, utility), n * ce.tilt(x, utility) - 1.0
        assert found.bias == pytest.approx(max(long_run(y) / y.var(), 1.0) * plain.bias, rel=1e-6 if n < 8192 else 1e-2)


@pytest.mark.parametrize("name", ["ar.6", "overlap10", "garch.10.88", "switching"])
def test_memory_is_found_and_widens_the_interval(name):
    x = series(name)
    for utility in (CVAR, ce.MonotoneMeanVariance(2)):
        alone, found = ce.estimate(x, utility), ce.estimate(x, utility, dependence="auto")
        assert found.value == alone.value
        assert found.memory > 1.0
        assert alone.memory == 0.0
        assert found.df < 12
        assert found.interval_reach(0.95) > 1.3 * alone.interval_reach(0.95)
        assert any("depend on those before" in reason for reason in alone.warnings)
        assert not any("depend on those before" in reason for reason in found.warnings)


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_auto_changes_nothing_where_there_is_no_memory(utility):
    x = series("iid", seed=3)
    assert ce.estimate(x, utility, dependence="auto").interval() == ce.estimate(x, utility).interval()


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_shift_and_scale(utility):
    x = series("ar.6")
    found, moved = ce.estimate(x, utility, dependence="auto"), ce.estimate(x + 1e6, utility, dependence="auto")
    np.testing.assert_allclose(np.subtract(moved.interval(), 1e6), found.interval(), rtol=1e-5, atol=1e-8)
    twice = ce.estimate(2.0 * x, utility.scaled(2.0), dependence="auto")
    np.testing.assert_allclose(twice.interval(), np.multiply(found.interval(), 2.0), rtol=1e-7)


def test_equal_weights_change_nothing_and_zero_weights_count_nothing():
    x = series("ar.6")
    for utility in (CVAR, ce.Entropic(0.5)):
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
    on_disk = ce.estimate(np.load(tmp_path / "x.npy", mmap_mode="r"), CVAR, dependence="auto")
    assert on_disk == ce.estimate(x, CVAR, dependence="auto")
    assert on_disk.memory == 2.5
    assert any("depend on those before" in reason for reason in ce.estimate(x, CVAR).warnings)
    late = np.r_[series("iid", 70_000), x]  # nothing in the part that is looked at unasked
    assert ce.estimate(late, CVAR).warnings == ()
    assert ce.estimate(late, CVAR, dependence="auto").memory > 1.0


def reasons(x, dependence, utility=CVAR):
    return " ".join(ce.estimate(x, utility, dependence=dependence).warnings)


def test_an_overlap_that_explains_too_little_is_told():
    x = series("garch.10.88")
    assert "longer than an overlap of 1 explains" in reasons(x, 1)
    assert "longer than" not in reasons(series("overlap10"), 10)
    assert "longer than an overlap of 2 explains" in reasons(overlap(40)(np.random.default_rng(0), 1, 2000)[0], 2)


def test_a_series_too_short_for_its_memory_is_told():
    rng = np.random.default_rng(0)
    for x in (np.arange(1000.0), np.cumsum(rng.normal(size=1000)), rng.normal(size=1000) + np.linspace(0, 1, 1000)):
        assert "too few for that, or they have a trend" in reasons(x, "auto")
    assert "too few for that" in reasons(autoregression(0.99)(rng, 1, 1000)[0], "auto")
    assert "too few for that" in reasons(overlap(250)(rng, 1, 2500)[0], 250)
    for name in ("iid", "ar.6", "overlap10"):
        assert "too few for that" not in reasons(series(name), "auto")


def test_losses_that_alternate_do_not_make_an_interval_too_narrow():
    x = autoregression(-0.6)(np.random.default_rng(0), 1, 1000)[0]
    for utility in (ce.Entropic(0.5), ce.Mean(), ce.MeanVariance(0.5)):
        assert reasons(x, None, utility) == ""
    assert "too narrow" in reasons(autoregression(0.6)(np.random.default_rng(0), 1, 1000)[0], None, ce.Entropic(0.5))


def test_order_of_the_labels():
    x = pd.Series(series("overlap10"), pd.bdate_range("2020-01-01", periods=1000))
    wanted = ce.estimate(x, CVAR, dependence="auto").stderr
    assert ce.estimate(x[::-1], CVAR, dependence="auto").stderr == pytest.approx(wanted)
    ce.estimate(x.sample(frac=1.0, random_state=0), CVAR)
    numbered = x.reset_index(drop=True).sample(frac=1.0, random_state=0)
    assert "x.sort_index()" in reasons(numbered, "auto")
    assert "sort_index" not in reasons(pd.concat([x, x]).reset_index(drop=True), "auto")


@pytest.mark.parametrize("utility", [CVAR, ce.Entropic(0.5), ce.MonotoneMeanVariance(2)], ids=str)
@pytest.mark.parametrize("dependence", [None, "auto", 5])
@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_periods_of_weight_zero_at_the_ends_are_as_if_never_seen(utility, dependence):
    x = series("ar.6", 600)
    w = np.random.default_rng(1).uniform(0.5, 1.0, 600)
    wanted = ce.estimate(x, utility, w, dependence=dependence)
    longer, weights = np.r_[np.full(70, -1e9), x, np.full(200, 1e9)], np.r_[np.zeros(70), w, np.zeros(200)]
    found = ce.estimate(longer, utility, weights, dependence=dependence)
    assert found.interval() == wanted.interval()
    assert (found.memory, found.df, found.n, found.warnings) == (wanted.memory, wanted.df, 870, wanted.warnings)
    y = np.r_[np.zeros(70), x[::-1], np.zeros(200)]
    assert ce.difference(longer, y, utility, weights=weights, dependence=dependence).interval() == (
        ce.difference(x, x[::-1], utility, weights=w, dependence=dependence).interval()
    )


def test_weights_that_leave_few_periods():
    x = series("ar.6")
    few = 0.5 ** (np.arange(1000) / 5.0)
    assert "as good as 14.5 of equal weight" in ce.estimate(x, ce.Mean(), few).warnings[0]
    assert "as good as 14.5 of equal weight" in ce.difference(x, -x, ce.Mean(), weights=few).warnings[0]
    recent = ce.estimate(x, ce.Mean(), 0.5 ** (np.arange(1000) / 50.0), dependence="auto")
    assert recent.df <= ce.estimate(x[:144], ce.Mean(), dependence="auto").df + 1


def test_gaps_of_weight_zero_make_no_memory():
    x = np.random.default_rng(2).exponential(size=1000)
    w = np.ones(1000)
    w[300:500] = w[700:800] = 0.0
    assert ce.estimate(x, ce.CVaR(0.1), w, dependence="auto").memory == 0.0
    spoiled = np.where(w > 0, x, 1e6 * np.arange(1000.0))
    assert ce.estimate(spoiled, ce.CVaR(0.1), w, dependence="auto").memory == 0.0
    assert ce.difference(spoiled, -spoiled, ce.CVaR(0.1), weights=w, dependence="auto").memory == 0.0


def test_skewness_stretches_the_side_of_the_tail():
    x = np.random.default_rng(0).exponential(size=200)
    (low, high), (minus_high, minus_low) = ce.estimate(x, ce.Mean()).interval(), ce.estimate(-x, ce.Mean()).interval()
    assert high - x.mean() > 1.05 * (x.mean() - low)
    assert (low, high) == pytest.approx((-minus_low, -minus_high))
    low, high = ce.estimate(np.tile([1.0, -1.0], 50), ce.Mean()).interval()
    assert (low, high) == pytest.approx((-0.1994, 0.1994), abs=1e-4)  # t quantile with 99 degrees of freedom


def test_the_textbook_interval_is_still_there():
    found = ce.estimate(series("iid"), ce.CVaR(0.1))
    low, high = found.interval(method="normal")
    assert high - low == pytest.approx(2 * 1.959963985 * found.stderr)
    assert 0.5 * (low + high) == pytest.approx(found.value)
