"""Error bars of risks with more inner variables than t."""

import numpy as np
import pytest

import certeq as ce

RISKS = [
    ce.EVaR(0.3),
    ce.MonotoneMeanVariance(2).ball(0.2),
    ce.HMCR(2, 0.5),
    ce.HMCR(1, 0.1),
    ce.Mixture([0.5, 0.5], [ce.CVaR(0.1), ce.EVaR(0.5)]),
    ce.Wang(0.5),
]


@pytest.mark.parametrize("risk", RISKS, ids=repr)
@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_standard_error_bias_and_intervals_are_those_of_repeated_samples(risk):
    rng = np.random.default_rng(1)
    found = [ce.estimate(rng.normal(size=400), risk) for _ in range(60)]
    truth = ce.oce(np.random.default_rng(2).normal(size=200_000), risk)
    values = np.array([one.value for one in found])
    assert np.mean([one.stderr for one in found]) == pytest.approx(values.std(), rel=0.35)
    assert np.mean([one.bias for one in found]) <= 0.0
    assert abs(np.mean([one.debiased for one in found]) - truth) <= 4.0 * values.std() / np.sqrt(60)
    assert np.mean([low <= truth <= high for low, high in (one.interval() for one in found)]) >= 0.85


def test_the_standard_error_is_the_deviation_of_the_influence_values():
    x = np.random.default_rng(3).normal(size=500)
    found = ce.estimate(x, ce.EVaR(0.3))
    t, s = found.inner
    assert (found.threshold, found.value) == (t, pytest.approx(ce.oce(x, ce.EVaR(0.3)), rel=1e-13))
    psi = s * np.expm1((x - t) / s)
    assert found.stderr == pytest.approx(psi.std(ddof=0) / np.sqrt(500), rel=0.01)
    assert found.ess == pytest.approx(1.0 / np.square(found.tilt).sum())
    assert found.tilt.sum() == pytest.approx(1.0)
    assert ce.estimate(x, ce.CVaR(0.1)).inner == (ce.estimate(x, ce.CVaR(0.1)).threshold,)
    # A ball of CVaR, and a mixture of one risk, are known by another name.
    plain = ce.estimate(x, ce.CVaR(0.1))
    for same in (ce.HMCR(1, 0.1), ce.CVaR(0.1).ball(2.0), ce.Mixture([1.0], [ce.CVaR(0.1)])):
        other = ce.estimate(x, same)
        assert other.value == pytest.approx(plain.value)
        assert other.stderr == pytest.approx(plain.stderr)
        assert other.bias == pytest.approx(plain.bias)
        assert other.ess == pytest.approx(plain.ess)
    distorted = ce.estimate(x, ce.Distortion(lambda p: np.minimum(p / 0.1, 1.0)))
    assert distorted.stderr == pytest.approx(plain.stderr, rel=0.05)
    assert distorted.inner == ()
    assert np.isnan(distorted.threshold)


def test_weights_units_series_and_what_cannot_be_trusted():
    rng = np.random.default_rng(4)
    x, w = rng.normal(size=300), rng.random(300)
    for risk in RISKS:
        one, other = ce.estimate(x, risk, weights=w), ce.estimate(7.0 * x - 3.0, risk, weights=w)
        assert other.stderr == pytest.approx(7.0 * one.stderr, rel=1e-9)
        assert other.bias == pytest.approx(7.0 * one.bias, rel=1e-6)
        assert ce.estimate(x + 1e9, risk).stderr == pytest.approx(ce.estimate(x, risk).stderr, rel=1e-4)
        assert ce.estimate(np.full(50, 2.5), risk).stderr == 0.0
    series = np.convolve(rng.normal(size=600), np.ones(10), "valid")
    memory = ce.estimate(series, ce.EVaR(0.3), dependence="auto")
    assert memory.stderr > 1.5 * ce.estimate(series, ce.EVaR(0.3)).stderr
    assert ce.estimate(x, ce.EVaR(1e-4)).warnings  # one loss carries it
    assert "EVaR" in repr(memory)
    low, high = ce.estimate(x, ce.EVaR(0.5)).interval(method="bootstrap", replicates=50, rng=0)
    assert low < high
    with pytest.raises(TypeError, match="EVaR"):
        ce.upper_bound(x, ce.EVaR(0.1), support=(-9, 9))


def test_dask_in_few_reads_and_distortions_refused():
    array = pytest.importorskip("dask.array")
    x = np.random.default_rng(5).normal(size=100_000)
    remote = array.from_array(x, chunks=20_000)
    for risk in (RISKS[0], RISKS[4]):
        assert ce.oce(remote, risk) == pytest.approx(ce.oce(x, risk), rel=1e-12)
        found, here = ce.estimate(remote, risk), ce.estimate(x, risk)
        assert found.stderr == pytest.approx(here.stderr, rel=1e-9)
        np.testing.assert_allclose(ce.tilt(remote, risk).compute(), ce.tilt(x, risk), atol=1e-15)
    for function in (ce.oce, ce.tilt, ce.estimate):
        with pytest.raises(TypeError, match="it needs all losses sorted"):
            function(remote, ce.Wang(0.5))


@pytest.mark.parametrize("risk", [ce.EVaR(0.05), ce.HMCR(2, 0.1), ce.Mixture([0.5, 0.5], [ce.EVaR(0.1), ce.CVaR(0.1)])])
def test_no_advice_that_cannot_be_followed(risk):
    """`upper_bound` takes utilities alone."""
    x = np.exp(3.0 * np.random.default_rng(0).normal(size=300))
    for found in (ce.estimate(x, risk), ce.difference(x, x[::-1], risk)):
        assert "upper_bound" not in " ".join([found.assumptions, *found.warnings])
    found = ce.estimate(x, ce.Quartic().scaled(x.max()))
    assert "upper_bound" in found.assumptions
