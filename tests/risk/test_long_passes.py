"""How often the data are read: at most eight times, whatever the sample, and the answer is the exact one."""

import numpy as np
import pytest

import certeq as ce
from certeq.risk import _estimate, _ubsr
from certeq.risk._long import solve_long
from certeq.risk._rows import solve_rows
from certeq.risk._sample import ArraySample
from certeq.risk._sketch import features_of
from tests.conftest import UTILITIES

N = 20_000
RNG = np.random.default_rng(3)
NORMAL = RNG.standard_normal(N)


def coin(share):
    return (np.arange(N) < round(share * N)).astype(float)


SAMPLES = {
    "normal": NORMAL,
    "large": 1e4 * NORMAL,
    "small": 1e-6 * NORMAL,
    "sorted": np.sort(NORMAL),
    "far_from_0": 1e9 + NORMAL,
    "lognormal": np.exp(2.0 * NORMAL),
    "minus_lognormal": -np.exp(2.0 * NORMAL),
    "pareto": RNG.pareto(1.5, N),
    "cauchy": RNG.standard_cauchy(N),
    "coin": coin(0.05),
    "coin_far_apart": 1e6 * coin(0.05),
    "coin_far_from_0": 1e9 + coin(0.2),
    "one_loss": 1e6 * (np.arange(N) == 7),
    "constant": np.full(N, 0.1),
    "integers": RNG.integers(0, 10, N).astype(float),
    "cents": np.round(NORMAL, 2),
    "half_an_atom": np.where(RNG.random(N) < 0.7, 0.0, np.exp(NORMAL)),
    "clusters": RNG.choice([-100.0, 0.0, 5.0, 1000.0], N, p=[0.3, 0.65, 0.04, 0.01]) + 1e-6 * NORMAL,
    "two_clusters": RNG.choice([0.0, 1e5], N, p=[0.95, 0.05]) + NORMAL,
    "one_far_gain": np.r_[-1e9, NORMAL[1:]],
    "one_far_loss": np.r_[1e5, NORMAL[1:]],
    "decades": np.exp(10.0 * NORMAL),  # the largest is so far above the others that t* lies between two floats
    "more_decades": np.exp(18.0 * NORMAL),
    "minus_decades": -np.exp(10.0 * NORMAL),
    "decades_apart": RNG.choice([1e-4, -3e7, 6e2, 1e5], N, p=[0.5, 0.2, 0.28, 0.02]) * (1.0 + 1e-9 * NORMAL),
}


def with_kinks(count):
    """Slopes between exp(-2) and exp(2) that jump at evenly spaced places."""
    kinks, slopes = np.linspace(-3.0, 3.0, count), np.exp(np.linspace(-2.0, 2.0, count + 1))
    pairs = list(zip(kinks, np.diff(slopes), strict=True))
    return ce.utility(
        lambda x: slopes[0] * x + sum(jump * np.maximum(x - kink, 0.0) for kink, jump in pairs),
        lambda x: slopes[0] + sum(jump * (x > kink) for kink, jump in pairs),
        name=f"{count} kinks",
    )


def stairs():
    """No kink, but nine steps of the slope between 1e-6 and 2 wide."""
    places = (-2.0, -1.3, -0.2, 0.1, 0.9, 1.7, 2.2, 3.1, 6.0)
    widths = (1e-5, 0.1, 1e-4, 1.0, 1e-3, 1e-5, 0.01, 1e-6, 2.0)
    steps = list(zip(places, widths, strict=True))
    return ce.utility(
        lambda x: 0.05 * x + sum(0.3 * w * np.logaddexp(0.0, (x - p) / w) for p, w in steps),
        lambda x: 0.05 + sum(0.15 * (1.0 + np.tanh(0.5 * (x - p) / w)) for p, w in steps),
        name="stairs",
    )


MIXED = {
    "many_kinks": with_kinks(15),
    "stairs": stairs(),
    "entropic_cvar.05": 0.5 * ce.Entropic() + 0.5 * ce.CVaR(0.05),
    "steep_entropic_cvar": 0.5 * ce.Entropic(10.0) + 0.5 * ce.CVaR(0.01),
    "quartic_cvar": 0.5 * ce.Quartic() + 0.5 * ce.CVaR(0.1),
    "mmv_cvar": 0.3 * ce.MonotoneMeanVariance(3) + 0.7 * ce.CVaR(0.05),
    "entropic_mean": 0.5 * ce.Entropic() + 0.5 * ce.Mean(),
    "two_cvars": 0.5 * ce.CVaR(0.01) + 0.5 * ce.CVaR(0.2),
    "smooth.05": ce.SmoothCVaR(0.05),
    "sharp": ce.SmoothCVaR(0.05, 0.01),
    "sharper": ce.SmoothCVaR(0.05, 1e-4),
    "sharp_entropic": 0.5 * ce.SmoothCVaR(0.05, 1e-3) + 0.5 * ce.Entropic(),
    "leaky.05": ce.LeakyCVaR(0.05),
    "mmv10": ce.MonotoneMeanVariance(10),
    "steep_quartic": 0.3 * ce.Mean() + 0.3 * ce.Entropic(60.0) + 0.4 * ce.Quartic(),
    "variance_cvar": 0.4 * ce.MeanVariance(20.0) + 0.6 * ce.CVaR(0.05),
    "variance_mmv": 0.7 * ce.MeanVariance(5.0) + 0.3 * ce.MonotoneMeanVariance(2.5),
}
HARD = {name: UTILITIES[name] for name in ("entropic_leaky", "entropic_cvar", "two_kinks", "custom", "smooth")} | MIXED


class Counted(ArraySample):
    """Counts how often it is read."""

    reads = 0

    def map(self, *args, **kwargs):
        type(self).reads += 1
        return super().map(*args, **kwargs)

    def fold(self, *args, **kwargs):
        type(self).reads += 1
        return super().fold(*args, **kwargs)


def reads_of(call):
    Counted.reads = 0
    return call(), Counted.reads


@pytest.mark.parametrize("name", SAMPLES)
def test_at_most_eight_reads(name):
    z = SAMPLES[name]
    for k, (label, utility) in enumerate(HARD.items()):
        w = np.random.default_rng(4).integers(0, 4, N).astype(float) if k % 3 == 0 else None
        solved, reads = reads_of(lambda u=utility, w=w, k=k: solve_long(Counted(z, w), u, k % 2 == 0))
        assert reads == solved.passes <= 7, label  # on Dask the draw is one more
        y = z - solved.center
        with np.errstate(over="ignore"):
            at = [solved.s + step * (np.ptp(y) + 1e-9) for step in (0.0, -1e-2, 1e-2, -1e-5, 1e-5, -1e-8, 1e-8)]
            held = slice(None) if w is None else w > 0  # u of a loss without weight may overflow
            load = None if w is None else w[held]
            values = [t + np.average(np.asarray(utility.value(y[held] - t)), weights=load) for t in at]
        found, room = solved.value - solved.center, 1e-12 * (1.0 + abs(solved.value) + float(np.abs(y).max()))
        assert values[0] == pytest.approx(found, abs=room), label
        assert min(values) >= found - room, label


@pytest.mark.parametrize("name", ["normal", "lognormal", "pareto", "coin", "integers", "two_clusters", "one_far_loss"])
def test_estimates_with_their_error_bars_read_no_oftener(name, monkeypatch):
    monkeypatch.setattr(_estimate, "ArraySample", Counted)
    for label, utility in HARD.items():
        _, reads = reads_of(lambda u=utility: ce.estimate(SAMPLES[name], u))
        assert reads <= 8, label


LOSSES = {
    "exp": (np.exp, 1.0),
    "quartic": (ce.Quartic().value, 0.1),
    "cube": (lambda x: x**3, 0.5),
    "step": (lambda x: (x > 0).astype(float), 0.1),  # the level is met on a whole stretch: its left end is wanted
    "rare_step": (lambda x: (x > 0).astype(float), 0.013),
    "cvar_slope": (ce.CVaR(0.05).slope, 1.0),
    "two_cvars_slope": (MIXED["two_cvars"].slope, 1.0),
    "mixed_slope": (MIXED["sharp_entropic"].slope, 1.0),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_utility_based_shortfall_reads_no_oftener(name):
    z = SAMPLES[name]
    for k, (label, (loss, level)) in enumerate(LOSSES.items()):
        w = np.random.default_rng(4).integers(0, 4, N).astype(float) if k % 2 else None
        t, reads = reads_of(lambda loss=loss, level=level, w=w: _ubsr._solve_long(Counted(z, w), loss, level))
        assert reads <= 7, label
        held = slice(None) if w is None else w > 0
        with np.errstate(over="ignore"):
            step = 1e-9 * (np.ptp(z) + 1e-3) + 4.0 * np.spacing(abs(t))
            load = None if w is None else w[held]
            after, before = (np.average(loss(z[held] - s), weights=load) for s in (t + step, t - step))
            room = 1e-12 * (level + np.average(np.abs(loss(z[held] - t))))
        assert after <= level + room, label
        assert before > level - room, label


def test_a_quantile_is_one_of_the_losses():
    for level in (0.1, 0.013, 0.5):
        found = _ubsr._solve_long(ArraySample(NORMAL), LOSSES["step"][0], level)
        assert found == np.sort(NORMAL)[N - round(level * N) - 1]


@pytest.mark.parametrize("label", HARD)
@pytest.mark.parametrize("name", ["normal", "coin", "cents", "clusters", "half_an_atom"])
def test_the_answer_is_that_of_all_losses_at_once(name, label):
    utility, z = HARD[label], SAMPLES[name][:: N // 5000]
    wanted = solve_rows(z[None, :], None, utility)
    found = solve_long(ArraySample(z), utility)
    assert found.value == pytest.approx(float(wanted.value[0]), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("count", [9, 40, 100])
def test_any_number_of_kinks(count):
    utility = with_kinks(count)
    for name in ("normal", "lognormal", "cents"):
        solved, reads = reads_of(lambda name=name: solve_long(Counted(SAMPLES[name]), utility))
        assert reads == solved.passes <= 7
        wanted = solve_rows(SAMPLES[name][None, :], None, utility)
        assert solved.value == pytest.approx(float(wanted.value[0]), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("spread", "uneven"), [(5.0, 3.0), (8.0, 4.0), (50.0, 6.0), (0.0, 6.0), (100.0, 20.0)])
@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.001])
def test_quantiles_over_decades_with_uneven_weights(spread, uneven, alpha):
    rng = np.random.default_rng(0)
    n = 70_000
    z = np.exp(spread * rng.standard_normal(n)) * rng.choice([-1.0, 1.0], n)
    w = np.exp(uneven * rng.standard_normal(n))
    solved, reads = reads_of(lambda: solve_long(Counted(z, w), ce.CVaR(alpha)))
    assert reads == solved.passes <= 7
    above, at_least = (w[z > solved.threshold].sum(), w[z >= solved.threshold].sum()) / w.sum()
    assert above <= alpha * (1.0 + 1e-12)
    assert at_least >= alpha * (1.0 - 1e-12)


def test_features_are_where_a_utility_bends():
    assert features_of(ce.CVaR(0.05)) == (0.0,)
    assert features_of(UTILITIES["two_kinks"]) == (0.0, 1.0)

    class Bent(ce.Entropic):
        """The slope rises by 5 within a thousandth around 2, which no kink says."""

        def _slope(self, x, xp):
            return super()._slope(x, xp) + 2.5 * (1.0 + np.tanh((x - 2.0) / 1e-3))

    anchor, *bends = features_of(Bent())
    assert anchor == 0.0
    assert bends
    assert bends == pytest.approx([2.0] * len(bends), abs=2e-3)
