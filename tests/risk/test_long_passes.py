"""How often the data are read: at most eight times, whatever the sample, and the answer is the exact one."""

import numpy as np
import pytest

import certeq as ce
from certeq._table import ArrayTable
from certeq.risk import _estimate
from certeq.risk._api import _crossing
from certeq.risk._long import solve_long, solve_rising
from certeq.risk._rows import solve_rows
from certeq.risk._search import Rising
from certeq.risk._sketch import features_of
from tests.blocks import Counted, reads_of
from tests.conftest import UTILITIES
from tests.problems import HARD, MIXED, hostile_samples, with_kinks

N = 20_000
SAMPLES = hostile_samples(N)
NORMAL = SAMPLES["normal"]


def smallest(table, loss, level):
    return solve_rising(table, Rising(loss, level, _crossing(loss, level)))


@pytest.mark.parametrize("name", SAMPLES)
def test_at_most_eight_reads(name):
    z = SAMPLES[name]
    for k, (label, utility) in enumerate(HARD.items()):
        w = np.random.default_rng(4).integers(0, 4, N).astype(float) if k % 3 == 0 else None
        solved, reads = reads_of(lambda u=utility, w=w: solve_long(Counted(z, w), u))
        assert reads == solved.passes <= 7, label  # on Dask the draw is one more
        y = z - solved.center
        with np.errstate(over="ignore"):
            at = [solved.s + step * (np.ptp(y) + 1e-9) for step in (0.0, -1e-2, 1e-2, -1e-5, 1e-5, -1e-8, 1e-8)]
            counted = slice(None) if w is None else w > 0  # u of a loss without weight may overflow
            counted_weights = None if w is None else w[counted]
            values = [t + np.average(np.asarray(utility.value(y[counted] - t)), weights=counted_weights) for t in at]
        found, tolerance = solved.value - solved.center, 1e-12 * (1.0 + abs(solved.value) + float(np.abs(y).max()))
        assert values[0] == pytest.approx(found, abs=tolerance), label
        assert min(values) >= found - tolerance, label


@pytest.mark.parametrize("name", ["normal", "lognormal", "pareto", "coin", "integers", "two_clusters", "one_far_loss"])
def test_estimates_with_their_error_bars_read_no_oftener(name, monkeypatch):
    monkeypatch.setattr(_estimate, "ArrayTable", Counted)
    for label, utility in HARD.items():
        _, reads = reads_of(lambda u=utility: ce.estimate(SAMPLES[name], u))
        assert reads <= 8, label


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


@pytest.mark.parametrize("name", SAMPLES)
def test_utility_based_shortfall_reads_no_oftener(name):
    z = SAMPLES[name]
    for k, (label, (loss, level)) in enumerate(LOSSES.items()):
        w = np.random.default_rng(4).integers(0, 4, N).astype(float) if k % 2 else None
        t, reads = reads_of(lambda loss=loss, level=level, w=w: smallest(Counted(z, w), loss, level))
        assert reads <= 7, label
        counted = slice(None) if w is None else w > 0
        with np.errstate(over="ignore"):
            step = 1e-9 * (np.ptp(z) + 1e-3) + 4.0 * np.spacing(abs(t))
            counted_weights = None if w is None else w[counted]
            after, before = (np.average(loss(z[counted] - s), weights=counted_weights) for s in (t + step, t - step))
            tolerance = 1e-12 * (level + np.average(np.abs(loss(z[counted] - t))))
        assert after <= level + tolerance, label
        assert before > level - tolerance, label


def test_a_quantile_is_one_of_the_losses():
    for level in (0.1, 0.013, 0.5):
        found = smallest(ArrayTable(NORMAL), LOSSES["step"][0], level)
        assert found == np.sort(NORMAL)[N - round(level * N) - 1]


@pytest.mark.parametrize("label", HARD)
@pytest.mark.parametrize("name", ["normal", "coin", "cents", "clusters", "half_an_atom"])
def test_the_answer_is_that_of_all_losses_at_once(name, label):
    utility, z = HARD[label], SAMPLES[name][:: N // 5000]
    wanted = solve_rows(z[None, :], None, utility)
    found = solve_long(ArrayTable(z), utility)
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


def test_features_are_where_a_utility_curves():
    assert features_of(ce.CVaR(0.05)) == (0.0,)
    assert features_of(UTILITIES["two_kinks"]) == (0.0, 1.0)

    class Curved(ce.Entropic):
        """The slope rises by 5 within a thousandth around 2, which no kink says."""

        def _slope(self, x, xp):
            return super()._slope(x, xp) + 2.5 * (1.0 + np.tanh((x - 2.0) / 1e-3))

    anchor, *points = features_of(Curved())
    assert anchor == 0.0
    assert points
    assert points == pytest.approx([2.0] * len(points), abs=2e-3)
