"""The paired difference of two risks."""

import warnings

import numpy as np
import pytest

import certeq as ce
from tests.problems import RISKS

RNG = np.random.default_rng(0)
MARKET = RNG.normal(size=1000)
OTHER = 0.9 * MARKET + 0.5 * RNG.normal(size=1000)


def test_value_is_that_of_the_parts(utility):
    found = ce.difference(OTHER, MARKET, utility)
    assert found.value == pytest.approx(ce.oce(OTHER, utility) - ce.oce(MARKET, utility), rel=1e-12)
    assert found.n == 1000
    back = ce.difference(MARKET, OTHER, utility)
    assert (back.value, back.stderr, back.pvalue) == pytest.approx((-found.value, found.stderr, found.pvalue))


def test_stderr_of_means_is_that_of_the_paired_test():
    found = ce.difference(OTHER, MARKET, ce.Mean())
    assert found.stderr == pytest.approx(np.std(OTHER - MARKET, ddof=1) / np.sqrt(1000), rel=1e-12)
    low, high = found.interval(0.95)
    assert found.pvalue < 0.05 or low < 0.0 < high


def test_a_p_value_of_five_percent_is_an_interval_that_ends_at_zero():
    found = ce.difference(OTHER, MARKET, ce.CVaR(0.1), dependence="auto")
    low, high = found.interval(1.0 - found.pvalue)
    assert min(abs(low), abs(high)) == pytest.approx(0.0, abs=1e-9)


def test_one_sample_with_itself_and_with_another_risk():
    found = ce.difference(MARKET, MARKET, ce.CVaR(0.05), ce.CVaR(0.1))
    assert found.value == pytest.approx(ce.oce(MARKET, ce.CVaR(0.05)) - ce.oce(MARKET, ce.CVaR(0.1)))
    assert found.pvalue < 1e-6
    found = ce.difference(MARKET, MARKET, ce.CVaR(0.05))
    assert (found.value, found.stderr, found.pvalue, found.interval()) == (0.0, 0.0, 1.0, (0.0, 0.0))
    assert ce.difference(MARKET + 1.0, MARKET, ce.CVaR(0.05)).pvalue < 1e-12


def test_weights_and_dependence():
    equal = ce.difference(OTHER, MARKET, ce.CVaR(0.1), weights=np.full(1000, 2.0), dependence="auto")
    plain = ce.difference(OTHER, MARKET, ce.CVaR(0.1), dependence="auto")
    assert (equal.value, equal.stderr, equal.df) == pytest.approx((plain.value, plain.stderr, plain.df), rel=1e-9)
    x, y = np.cumsum(MARKET), np.cumsum(OTHER)  # random walks remember everything
    walk = ce.difference(x, y, ce.CVaR(0.1), dependence="auto")
    with pytest.warns(ce.ReliabilityWarning, match="too few for that"):
        walk.interval()
    assert walk.memory > 50
    assert ce.difference(OTHER, MARKET, ce.CVaR(0.1), dependence=10).memory == 4.0


def test_few_samples_are_told():
    assert "Only 12 samples" in ce.difference(OTHER[:12], MARKET[:12], ce.CVaR(0.1)).warnings[0]
    assert "carry the risk" in ce.difference(OTHER[:100], MARKET[:100], ce.CVaR(0.01)).warnings[0]
    assert "E exp(X)" in ce.difference(OTHER, MARKET, ce.Entropic(0.5)).assumptions


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_nothing_is_known_of_the_error():
    """Fewer than one loss in the tail, or all of it on one value."""
    caps = np.minimum(OTHER, 0.5), np.minimum(MARKET, 0.7)
    found = ce.difference(*caps, ce.CVaR(0.05))
    assert (found.stderr, found.df) == (0.0, 0.0)
    with pytest.warns(ce.ReliabilityWarning, match="says nothing of its own error"):
        assert found.pvalue == 1.0
    for n, alpha in ((90, 0.01), (12, 0.05)):
        few = ce.difference(OTHER[:n], MARKET[:n], ce.CVaR(alpha))
        assert few.stderr > 0.0
        with pytest.warns(ce.ReliabilityWarning, match="fewer than one sample is in the tail"):
            assert few.pvalue > 0.3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ce.difference(OTHER + 1.0, OTHER, ce.CVaR(0.05)).pvalue == 0.0


def test_dask_is_refused():
    da = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="arrays in memory; found a Dask collection"):
        ce.difference(da.from_array(MARKET), OTHER, ce.CVaR(0.1))


# -- risks with more inner variables than t ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["evar", "chi_square", "hmcr", "mixture", "wang"])
def test_several_inner_variables_against_estimates(name):
    risk, rng = RISKS[name].risk, np.random.default_rng(0)
    x = rng.standard_normal(800)
    y = 0.9 * x + 0.1 * rng.standard_normal(800)
    found = ce.difference(x, y, risk)
    both = ce.estimate(x, risk), ce.estimate(y, risk)
    assert abs(found.value - (both[0].value - both[1].value)) <= 1e-12
    assert found.stderr < 0.5 * np.hypot(both[0].stderr, both[1].stderr)  # what both have in common drops out
    constant = ce.difference(x, np.zeros(800), risk)
    np.testing.assert_allclose(constant.stderr, both[0].stderr, rtol=0.02)
    weights = rng.exponential(size=800)
    weights[:100] = 0.0
    weighted = ce.difference(x, y, risk, weights=weights)
    assert abs(weighted.value - (ce.oce(x, risk, weights) - ce.oce(y, risk, weights))) <= 1e-12
    assert ce.difference(x, x, risk).value == 0.0


@pytest.mark.parametrize("name", ["evar", "wang"])
@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_how_often_equal_risks_are_called_different(name):
    rng, rejected = np.random.default_rng(1), 0
    for _ in range(200):
        x, y = rng.standard_normal(300) + 0.3 * rng.standard_normal((2, 300))
        rejected += ce.difference(x, y, RISKS[name].risk).pvalue < 0.05
    assert rejected / 200 <= 0.1
