"""Losses read in blocks, by the exact solver, under limits and by OCE-SG: hard panels, and what they give in memory.

tests/general/test_blocks.py minimizes every risk so.
"""

import numpy as np
import pytest

import certeq as ce
from certeq.optimize import InfeasibleLimitsError
from certeq.optimize.exact import solve_exact, solve_panel
from tests.blocks import Counted, small_tables_in_blocks
from tests.problems import UTILITIES, returns

N, D = 1500, 5
A = 100.0 * returns(N, D, 12) - [0.1, 0.2, 0.3, 0.4, 0.5]
Y = A @ [0.4, 0.3, 0.1, 0.1, 0.1] + np.random.default_rng(1).normal(0.0, 0.3, N)
WEIGHTS = np.random.default_rng(2).integers(0, 4, N).astype(float)
RISKS = [
    ce.CVaR(0.1),
    ce.EVaR(0.1),
    ce.HMCR(2, 0.2),
    ce.Mixture([0.5, 0.5], [ce.CVaR(0.2), ce.EVaR(0.2)]),
    ce.MeanVariance(0.5),
    ce.Entropic(0.5),
]
INSIDE = np.full(D, 1.0 / D)


@pytest.fixture
def in_blocks():
    with small_tables_in_blocks():
        yield


@pytest.fixture(params=["mapped", "dask"])
def stored(request, tmp_path, in_blocks):
    """Return the losses as a file that counts as large, or in chunks of Dask."""
    if request.param == "dask":
        return pytest.importorskip("dask.array").from_array(A, chunks=(400, D))
    np.save(tmp_path / "A.npy", A)
    return np.load(tmp_path / "A.npy", mmap_mode="r")


mapped = pytest.mark.parametrize("stored", ["mapped"], indirect=True)


def simplex(losses, **more):
    return {"lower": 0.0, "C": np.ones(losses.shape[1]), "c": 1.0} | more


# -- hard panels ------------------------------------------------------------------------------------------------------


def test_few_rows_come_back(in_blocks):
    """Of rows far from the kink only sums are known: the solver keeps a small part of the panel."""
    big = np.random.default_rng(1).normal(size=(60_000, 4))
    found = solve_panel(Counted(big), ce.CVaR(0.05), **simplex(big))
    assert found.status == "optimal"
    assert max(kept for *_, kept in found.trace) < 6000
    assert found.passes <= 8
    assert found.value == pytest.approx(solve_exact(big, ce.CVaR(0.05), **simplex(big)).value, rel=1e-11)


def test_small_panels_are_read_once_and_stay_in_memory(tmp_path):
    found = solve_panel(Counted(A), RISKS[3], weights=WEIGHTS, **simplex(A))
    known = solve_exact(A, RISKS[3], weights=WEIGHTS, **simplex(A))
    assert (found.passes, found.status) == (1, "optimal")
    np.testing.assert_allclose(found.theta, known.theta, atol=1e-12)
    assert found.value == pytest.approx(known.value, rel=1e-13)
    np.save(tmp_path / "A.npy", A)
    small = ce.LinearLoss(np.load(tmp_path / "A.npy", mmap_mode="r"))
    assert ce.minimize(small, ce.CVaR(0.1), domain=ce.Simplex()).tilt is not None


@pytest.mark.parametrize("name", ["entropic", "cvar", "mmv2", "smooth", "entropic_cvar"])
def test_stopped_early_the_gap_is_valid(name, in_blocks):
    found = solve_panel(Counted(A), UTILITIES[name], max_iter=1, **simplex(A))
    best = solve_exact(A, UTILITIES[name], **simplex(A))
    assert found.lower_bound <= best.value + 1e-13
    assert found.value >= best.lower_bound - 1e-13
    again = solve_panel(Counted(A), UTILITIES[name], theta0=best.theta, **simplex(A))
    assert again.status == "optimal"


@pytest.mark.parametrize("seed", [0, 2])
def test_out_of_range_the_bound_holds(seed, in_blocks):
    """Losses of 100 under a rate of 0.5 overflow all but a few weights; the bound is valid all the same."""
    rng = np.random.default_rng(seed)
    losses, w, utility = 100.0 * rng.normal(size=(800, 5)), rng.uniform(size=800) ** 4, UTILITIES["entropic_cvar"]
    found = solve_panel(Counted(losses), utility, weights=w, max_iter=20, **simplex(losses))
    assert found.theta.sum() == pytest.approx(1.0, abs=1e-12)
    assert found.theta.min() >= 0.0
    for theta in [found.theta, *rng.dirichlet(np.ones(5), size=20)]:
        assert ce.oce(losses @ theta, utility, weights=w) >= found.lower_bound
    assert found.value >= ce.oce(losses @ found.theta, utility, weights=w) - 1e-9 * abs(found.value)


def twins(rows, seed):
    A = np.random.default_rng(seed).standard_normal((rows, 8))
    A[:, 4:] = A[:, :4]
    return A


BOX = {"lower": -1.0, "upper": 1.0}
CAUCHY = 0.05 * np.random.default_rng(34).standard_cauchy(size=(900, 4))
T = np.random.default_rng(0).standard_t(4, size=(3000, 8))
# Panels that once failed: losses, risk, rows.
ONCE_FAILED = {
    "the rows drawn mislead": (CAUCHY, ce.CVaR(0.05), simplex(CAUCHY)),
    "single precision": ((10 * A).astype(np.float32), ce.CVaR(0.1), simplex(A)),
    "integers": ((10 * A).astype(np.int16), ce.CVaR(0.1), simplex(A)),
    "steep": (T, ce.Entropic(1e3), simplex(T)),
    "steeper": (T, ce.Entropic(1e5), simplex(T)),
} | {
    f"a draw whose solution is 0, {rows}, {seed}": (twins(rows, seed), risk, BOX)  # its holdings are no unit
    for rows in (400, 3000) for seed in range(3) for risk in (
        (0.5 * ce.CVaR(0.05) + 0.5 * ce.CVaR(0.3), ce.Mixture([0.5, 0.5], [ce.CVaR(0.05), ce.EVaR(0.3)]))[seed % 2],
    )
}  # fmt: skip


@pytest.mark.parametrize("name", ONCE_FAILED)
def test_panels_that_once_failed(name, in_blocks):
    losses, risk, rows = ONCE_FAILED[name]
    known, found = solve_exact(losses.astype(float), risk, **rows), solve_panel(Counted(losses), risk, **rows)
    assert found.status == "optimal"
    assert abs(found.value - known.value) <= found.gap + known.gap
    assert found.gap <= 1e-9 * max(abs(found.value), 0.1)


# -- OCE-SG -----------------------------------------------------------------------------------------------------------


@mapped
@pytest.mark.parametrize("batch, offset", [(20, 0.0), (32, Y), ("full", Y)])
def test_stochastic_runs_reach_the_minimum_and_resume(stored, tmp_path, batch, offset):
    options = {"domain": ce.Simplex(), "method": "sg", "batch": batch, "rng": 1}
    loss, risk = ce.LinearLoss(stored, offset=offset), ce.Entropic(0.2)
    straight = ce.minimize(loss, risk, iterations=80, **options)
    ce.minimize(loss, risk, iterations=5, checkpoint=tmp_path / "run.npz", **options)
    resumed = ce.minimize(loss, risk, iterations=80, checkpoint=tmp_path / "run.npz", **options)
    assert np.array_equal(resumed.theta, straight.theta)
    np.save(tmp_path / "B.npy", np.where(np.arange(N)[:, None] == 7, 1.0, A))
    loss = ce.LinearLoss(np.load(tmp_path / "B.npy", mmap_mode="r"), offset=offset)
    with pytest.raises(ValueError, match=r"different problem: samples: 1500x. in blocks #"):
        ce.minimize(loss, risk, iterations=90, checkpoint=tmp_path / "run.npz", **options)
    known = ce.minimize(ce.LinearLoss(A, offset=offset), risk, domain=ce.Simplex())
    assert known.value - known.gap <= straight.value <= known.value + 0.05
    assert straight.value - straight.gap <= known.value + 1e-12


# -- limits, benchmarks and ratios ------------------------------------------------------------------------------------


def level_of(risk, share, offset=0.0, weights=None):
    """Return a level between the minimum risk and that of the even mix."""
    x = A @ INSIDE + offset
    if isinstance(risk, ce.RootMeanSquare):
        return float(np.sqrt(np.average(np.square(x), weights=weights))) * (1.0 - 0.1 * share)
    least = ce.minimize(ce.LinearLoss(A, offset=offset), risk, domain=ce.Simplex(), weights=weights).value
    return least + share * (float(ce.oce(x, risk, weights)) - least)


def both(data, make, domain=None, **settings):
    """Solve a problem in memory and in blocks, which must agree to their gaps."""
    domain = domain or ce.Simplex()
    here, there = (ce.minimize(domain=domain, **make(losses), **settings) for losses in (A, data))
    assert there.converged
    assert domain.contains(there.theta, 1e-12)
    assert there.gap <= 1e-9 * max(abs(there.value), 0.1)
    assert abs(there.value - here.value) <= here.gap + there.gap
    assert there.binding == here.binding
    assert there.limit_multipliers == pytest.approx(here.limit_multipliers, rel=1e-4, abs=1e-6)
    assert there.limit_values == pytest.approx(here.limit_values, rel=1e-6)
    return there


@pytest.mark.parametrize(
    ("stored", "first", "count"),
    [("mapped", 0, 1), ("dask", 0, 2), ("mapped", 1, 3), ("mapped", 2, 2), ("dask", 2, 3), ("mapped", 3, 1)]
    + [("mapped", 4, 2), ("mapped", 5, 3)],
    indirect=["stored"],
)
def test_limits_on_several_risks(stored, first, count):
    chosen = [RISKS[(first + k) % len(RISKS)] for k in range(count)]
    levels = [level_of(risk, 0.8) for risk in chosen]

    def make(losses):
        loss = ce.LinearLoss(losses)
        limits = [ce.Limit(loss, risk, level) for risk, level in zip(chosen, levels, strict=True)]
        return {"loss": loss, "utility": ce.Mean(), "limits": limits}

    there = both(stored, make)
    assert there.binding
    for risk, level, value in zip(chosen, levels, there.limit_values, strict=True):
        at = float(ce.oce(A @ there.theta, risk))
        assert value == pytest.approx(at, rel=1e-10)
        assert at <= level + 1e-9 * max(abs(level), float(np.std(A @ there.theta)))


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_a_benchmark_weights_and_a_risk_as_the_objective(stored, weighted):
    w = WEIGHTS if weighted else None
    levels = [level_of(ce.CVaR(0.1), 0.7, -Y, w), level_of(ce.RootMeanSquare(), 0.5, -Y, w)]

    def make(losses):
        own, beside = ce.LinearLoss(losses), ce.LinearLoss(losses, offset=-Y)
        limits = [ce.Limit(beside, ce.CVaR(0.1), levels[0]), ce.Limit(beside, ce.RootMeanSquare(), levels[1])]
        return {
            "loss": [ce.RiskTerm(own, ce.EVaR(0.2), 0.7), ce.RiskTerm(beside, ce.MeanVariance(1.0), 0.3)],
            "limits": [*limits, ce.Limit(own, ce.Mean(), 0.5)],
        }

    assert both(stored, make, weights=w).binding


@pytest.mark.parametrize(
    "stored, domain",
    [("mapped", ce.L1Ball(1.0, np.full(D, 0.2))), ("dask", ce.LongShort(1.3, 0.3)), ("mapped", ce.Box(-1.0, 1.0))],
    indirect=["stored"],
)
def test_limits_over_sets_in_other_variables(stored, domain):
    level, B = level_of(ce.CVaR(0.1), 1.0), 100.0 * returns(300, D, 5)
    other = ce.Limit(ce.LinearLoss(B), ce.CVaR(0.2), 1.5 * float(ce.oce(B @ INSIDE, ce.CVaR(0.2))))  # in memory

    def make(losses):
        own, beside = ce.LinearLoss(losses), ce.LinearLoss(losses, offset=-Y)
        limits = [ce.Limit(own, ce.CVaR(0.1), level), ce.Limit(beside, ce.RootMeanSquare(), 3.0), other]
        return {"loss": own, "utility": ce.Entropic(0.2), "limits": limits}

    both(stored, make, domain)


@mapped
def test_limits_that_conflict(stored):
    loss = ce.LinearLoss(stored)
    beside = ce.LinearLoss(stored, offset=-A[:, 0])  # tracking one asset, whose own risk is high
    limits = [ce.Limit(loss, ce.CVaR(0.1), level_of(ce.CVaR(0.1), 0.2)), ce.Limit(beside, ce.RootMeanSquare(), 0.05)]
    with pytest.raises(InfeasibleLimitsError, match="each be met.*not together") as raised:
        ce.minimize(loss, ce.Mean(), domain=ce.Simplex(), limits=limits)
    assert raised.value.limits == (0, 1)
    raised_by = [level - one.level for level, one in zip(raised.value.least, limits, strict=True)]
    assert raised.value.excess == pytest.approx(min(raised_by))
    eased = [ce.Limit(one.loss, one.risk, level + 1e-4) for one, level in zip(limits, raised.value.least, strict=True)]
    assert ce.minimize(loss, ce.Mean(), domain=ce.Simplex(), limits=eased).status == "converged"


@mapped
def test_the_ratio_under_a_limit(stored):
    reward = -A.mean(axis=0) + 1.0
    here, there = (
        ce.maximize_ratio(
            reward, ce.LinearLoss(losses), ce.EVaR(0.1), domain=ce.Simplex(),
            limits=[ce.Limit(ce.LinearLoss(losses, offset=-Y), ce.RootMeanSquare(), 1.0)],
        )
        for losses in (A, stored)
    )  # fmt: skip
    assert there.status == "converged"
    assert there.ratio == pytest.approx(here.ratio, rel=1e-9)
