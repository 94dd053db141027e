"""How often long samples are read: at most seven times, whatever the sample, and the answer is the exact one."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import certeq as ce
from tests.blocks import reads_of, short_samples_in_blocks
from tests.problems import HARD, MIXED, SAMPLES, UTILITIES, hostile_samples, tolerance, with_kinks

N = 20_000
HOSTILE = hostile_samples(N)
EQUAL = np.ones(N)


def in_blocks(call):
    """Return what a call returns where every sample is read in blocks, and how often they were read."""
    with short_samples_in_blocks():
        return reads_of(call)


def half_of(table, name):
    """Return every other entry of a table with its number, from the first or the second on by sample."""
    return [pair for pair in enumerate(table.items()) if (pair[0] + list(HOSTILE).index(name)) % 2 == 0]


@pytest.mark.parametrize("name", HOSTILE)
def test_at_most_seven_reads(name):
    z = HOSTILE[name]
    for k, (label, utility) in half_of(HARD, name):
        w = np.random.default_rng(4).integers(0, 4, N).astype(float) if k % 3 == 0 else EQUAL
        found, reads = in_blocks(lambda u=utility, w=w: ce.oce(z, u, w))
        assert reads <= 7, label  # on Dask the draw is one more
        t, _ = in_blocks(lambda u=utility, w=w: ce.threshold(z, u, w))
        counted = w > 0  # u of a loss without weight may overflow
        with np.errstate(over="ignore"):
            at = [t + step * (np.ptp(z) + 1e-9) for step in (0.0, -1e-2, 1e-2, -1e-5, 1e-5, -1e-8, 1e-8)]
            values = [s + np.average(np.asarray(utility.value(z[counted] - s)), weights=w[counted]) for s in at]
        limit = 1e-12 * (1.0 + abs(found) + float(np.abs(z).max()))
        assert values[0] == pytest.approx(found, abs=limit), label
        assert min(values) >= found - limit, label


@pytest.mark.parametrize("name", UTILITIES)
def test_every_sample_in_blocks(name):
    for sample, (x, w) in SAMPLES.items():
        w = np.ones(len(x)) if w is None else w
        (found, t), _ = in_blocks(lambda x=x, w=w: (ce.oce(x, UTILITIES[name], w), ce.threshold(x, UTILITIES[name], w)))
        assert abs(found - ce.oce(x, UTILITIES[name], w)) <= tolerance(x, found, 1e-10), sample
        assert t == pytest.approx(ce.threshold(x, UTILITIES[name], w), rel=1e-9, abs=1e-9 * (1.0 + np.ptp(x))), sample


@pytest.mark.parametrize("name", ["mean", "entropic", "mean_variance", "cvar", "mean_cvar"])
def test_closed_forms_in_blocks(name):
    for sample, z in HOSTILE.items():
        found, reads = in_blocks(lambda z=z: ce.oce(z, UTILITIES[name], EQUAL))
        wanted = ce.oce(z, UTILITIES[name])
        assert reads <= 4, sample
        assert abs(found - wanted) <= 1e-11 * max(np.ptp(z), abs(wanted)), sample


@pytest.mark.parametrize("name", ["normal", "lognormal", "pareto", "coin", "integers", "two_clusters", "one_far_loss"])
def test_error_bars_take_few_reads_more(name):
    """One each for moments and dependence, and two where most of the tail lies on one value."""
    for _, (label, utility) in half_of(HARD, name):
        assert reads_of(lambda u=utility: ce.estimate(HOSTILE[name], u))[1] <= 11, label


LOSSES = {
    "exp": (np.exp, 1.0),
    "quartic": (ce.Quartic().value, 0.1),
    "cube": (lambda x: x * x * x, 0.5),
    "step": (lambda x: (x > 0).astype(float), 0.1),  # the level is met on a whole stretch: its left end is wanted
    "rare_step": (lambda x: (x > 0).astype(float), 0.013),
    "cvar_slope": (ce.CVaR(0.05).slope, 1.0),
    "two_cvars_slope": (MIXED["two_cvars"].slope, 1.0),
    "mixed_slope": (MIXED["sharp_entropic"].slope, 1.0),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_utility_based_shortfall_reads_no_oftener(name):
    z = HOSTILE[name]
    for k, (label, (loss, level)) in half_of(LOSSES, name):
        w = np.random.default_rng(4).integers(0, 4, N).astype(float) if k % 4 < 2 else EQUAL
        t, reads = in_blocks(lambda loss=loss, level=level, w=w: ce.ubsr(z, loss, level, w))
        assert reads <= 7, label
        counted = w > 0
        with np.errstate(over="ignore"):
            step = 1e-9 * (np.ptp(z) + 1e-3) + 4.0 * np.spacing(abs(t))
            after, before = (np.average(loss(z[counted] - s), weights=w[counted]) for s in (t + step, t - step))
            limit = 1e-12 * (level + np.average(np.abs(loss(z[counted] - t))))
        assert after <= level + limit, label
        assert before > level - limit, label


def test_a_quantile_is_one_of_the_losses():
    z = HOSTILE["normal"]
    for level in (0.1, 0.013, 0.5):
        found, _ = in_blocks(lambda level=level: ce.ubsr(z, LOSSES["step"][0], level))
        assert found == np.sort(z)[N - round(level * N) - 1]


@pytest.mark.parametrize("count", [9, 40, 100])
def test_any_number_of_kinks(count):
    utility = with_kinks(count)
    for name in ("normal", "lognormal", "cents"):
        found, reads = in_blocks(lambda name=name: ce.oce(HOSTILE[name], utility, EQUAL))
        assert reads <= 7
        assert found == pytest.approx(ce.oce(HOSTILE[name], utility), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("spread", "uneven"), [(5.0, 3.0), (8.0, 4.0), (50.0, 6.0), (0.0, 6.0), (100.0, 20.0)])
@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.001])
def test_quantiles_over_decades_with_uneven_weights(spread, uneven, alpha):
    rng = np.random.default_rng(0)
    n = 70_000
    z = np.exp(spread * rng.standard_normal(n)) * rng.choice([-1.0, 1.0], n)
    w = np.exp(uneven * rng.standard_normal(n))
    t, reads = reads_of(lambda: ce.threshold(z, ce.CVaR(alpha), w))
    assert reads <= 7
    above, at_least = (w[z > t].sum(), w[z >= t].sum()) / w.sum()
    assert above <= alpha * (1.0 + 1e-12)
    assert at_least >= alpha * (1.0 - 1e-12)


@pytest.mark.filterwarnings("ignore:CVaR.alpha=.* is the mean of the worst")
@pytest.mark.parametrize("order", ["sorted", "blocks", "ties", "spike"])
def test_orders_that_would_fool_a_part_of_the_losses(order):
    n = 200_000
    x = {
        "sorted": np.arange(n, dtype=float),
        "blocks": np.repeat(np.arange(20.0), n // 20),
        "ties": np.where(np.arange(n) % 1000 == 0, 1.0, 0.0),
        "spike": np.where(np.arange(n) == 77, 1e6, 0.0),
    }[order]
    ranked, w = np.sort(x)[::-1], np.ones(n)
    for alpha in (1e-6, 1e-5, 0.001, 0.05, 0.5, 0.999):
        s = alpha * n
        k = min(int(s * (1 + 1e-15)), n - 1)
        wanted = (ranked[:k].sum() + (s - k) * ranked[k]) / s
        for weights in (None, w):
            assert ce.oce(x, ce.CVaR(alpha), weights) == pytest.approx(wanted, rel=1e-12)
            assert ce.threshold(x, ce.CVaR(alpha), weights) == ranked[k]


@pytest.mark.parametrize("name", ["entropic", "cvar", "leaky", "entropic_cvar", "custom"])
def test_same_bits_whatever_the_threads(name, monkeypatch):
    x = np.tile(HOSTILE["normal"], 60)  # CVaR of fewer losses is one call
    monkeypatch.setenv("CERTEQ_NUM_THREADS", "1")
    one = ce.oce(x, UTILITIES[name])
    monkeypatch.setenv("CERTEQ_NUM_THREADS", "2")
    assert ce.oce(x, UTILITIES[name]) == one


def test_threads_of_the_caller_and_errors_in_threads_of_the_library(monkeypatch):
    """Rows are solved by three threads; four callers at once get the same bits, and an error in any thread."""
    monkeypatch.setenv("CERTEQ_NUM_THREADS", "3")

    armed = []

    def slope(x):
        if armed and x.min() < -1e6:
            raise ZeroDivisionError
        return np.exp(x)

    rows = np.random.default_rng(0).normal(size=(4000, 100)).round(1)
    for u in (ce.Quartic(), ce.utility(np.expm1, np.exp), 0.5 * ce.Entropic(1.0) + 0.5 * ce.CVaR(0.2)):
        wanted = [ce.oce(rows * k, u, axis=1) for k in range(1, 5)]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda k, u=u: ce.oce(rows * k, u, axis=1), range(1, 5)))
        np.testing.assert_array_equal(found, wanted)
    broken = ce.utility(np.expm1, slope, np.exp)
    armed.append(True)
    for row in (0, 1700, 3999):
        rows[row, 7] = -1e7
        with pytest.raises(ZeroDivisionError):
            ce.oce(rows, broken, axis=1)
        rows[row, 7] = np.nan
        with pytest.raises(ValueError, match=rf"NaN at index \({row}, 7\)"):
            ce.oce(rows, ce.Quartic(), axis=1)
        rows[row, 7] = 0.0
