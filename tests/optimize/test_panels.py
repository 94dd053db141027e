"""Linear losses read in blocks: the exact solver and OCE-SG give what they give in memory."""

from __future__ import annotations

import numpy as np
import pytest

import certeq as ce
from certeq import _table
from certeq._table import ArrayTable, as_table
from certeq.optimize.exact import solve_exact, solve_panel
from tests.conftest import UTILITIES

N, D = 2500, 6


@pytest.fixture(autouse=True)
def not_in_memory(monkeypatch):
    """Small panels would be read as a whole; here they stand for large ones."""
    monkeypatch.setattr("certeq.optimize.exact._panel._WHOLE", 0)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    return rng.standard_t(5, size=(N, D)) * rng.uniform(0.5, 1.5, D) + rng.normal(0.0, 0.1, D)


@pytest.fixture(scope="module")
def weights():
    w = np.random.default_rng(6).uniform(0.0, 1.0, N)
    w[::7] = 0.0
    return w


@pytest.fixture
def mapped(table, tmp_path, monkeypatch):
    """The table as a file that counts as large."""
    np.save(tmp_path / "A.npy", table)
    monkeypatch.setattr(_table, "LARGE", 0)
    monkeypatch.setattr(_table, "_PIECE", 1000)
    return np.load(tmp_path / "A.npy", mmap_mode="r")


def risk(losses, theta, utility, weights=None):
    return ce.oce(losses @ theta, utility, weights=weights)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.filterwarnings("ignore::certeq.UnitWarning")
def test_every_utility_as_in_memory(utility, mapped, table, weights, weighted):
    w = weights if weighted else None
    found = ce.minimize(ce.LinearLoss(mapped), utility, domain=ce.Simplex(), weights=w)
    known = ce.minimize(ce.LinearLoss(table), utility, domain=ce.Simplex(), weights=w)
    assert found.status == "converged"
    assert found.value == pytest.approx(known.value, rel=1e-9, abs=1e-9)
    # The bound is valid: nothing is below it, neither the best known value nor any other point.
    assert found.value - found.gap <= known.value + 1e-13
    assert found.gap <= 1e-9 * max(abs(found.value), 0.1)
    assert found.value == pytest.approx(risk(table, found.theta, utility, w), rel=1e-11, abs=1e-11)
    for theta in np.random.default_rng(0).dirichlet(np.ones(D), size=5):
        assert risk(table, theta, utility, w) >= found.value - found.gap - 1e-13
    assert found.theta.sum() == pytest.approx(1.0, abs=1e-14)
    assert found.theta.min() >= 0.0
    assert found.tilt is None


@pytest.mark.parametrize(
    "domain",
    [
        ce.LongShort(0.5),
        ce.Box(0.1, 0.4),
        ce.CappedSimplex(upper=0.3),
        ce.Polyhedron(lower=0.0, C=[[1.0] * D], c=[1.0], A=[[1.0, 1.0, 0, 0, 0, 0]], b=[0.2]),
    ],
    ids=lambda domain: type(domain).__name__,
)
@pytest.mark.parametrize("name", ["entropic", "cvar.3", "entropic_cvar"])
def test_domains(domain, name, mapped, table):
    found = ce.minimize(ce.LinearLoss(mapped), UTILITIES[name], domain=domain)
    known = ce.minimize(ce.LinearLoss(table), UTILITIES[name], domain=domain)
    assert found.status == "converged"
    assert found.value == pytest.approx(known.value, rel=1e-9, abs=1e-9)
    assert domain.contains(found.theta)


def test_free_variables_and_a_linear_term(mapped, table):
    free = ce.minimize(ce.LinearLoss(mapped), ce.Entropic(0.5), domain=ce.Free())
    assert free.value == pytest.approx(
        ce.minimize(ce.LinearLoss(table), ce.Entropic(0.5), domain=ce.Free()).value, abs=1e-9
    )
    cost = np.linspace(0.0, 0.5, D)
    found = ce.minimize(ce.LinearLoss(mapped), ce.CVaR(0.1), domain=ce.Simplex(), linear=cost)
    known = ce.minimize(ce.LinearLoss(table), ce.CVaR(0.1), domain=ce.Simplex(), linear=cost)
    assert found.value == pytest.approx(known.value, abs=1e-9)


def test_what_falls_for_ever_is_said(mapped):
    with pytest.raises(ce.UnboundedError, match="falls for ever"):
        ce.minimize(ce.LinearLoss(mapped), ce.Mean(), domain=ce.NonNegative())


def test_few_rows_come_back(mapped):
    """Of rows far from the kink only sums are known: the solver keeps a small part of the panel."""
    rng = np.random.default_rng(1)
    big = rng.normal(size=(60_000, 4))
    found = solve_panel(ArrayTable(big), ce.CVaR(0.05), lower=0.0, C=np.ones(4), c=1.0)
    assert found.status == "optimal"
    assert max(kept for *_, kept in found.trace) < 6000
    assert found.passes <= 8
    assert found.value == pytest.approx(
        solve_exact(big, ce.CVaR(0.05), lower=0.0, C=np.ones(4), c=1.0).value, rel=1e-11
    )


@pytest.mark.parametrize("name", ["entropic", "cvar", "mmv2", "smooth", "entropic_cvar"])
def test_a_loose_answer_is_certified_too(name, table):
    """Stopped after one step the gap is larger, and still holds."""
    found = solve_panel(ArrayTable(table), UTILITIES[name], lower=0.0, C=np.ones(D), c=1.0, max_iter=1)
    best = solve_exact(table, UTILITIES[name], lower=0.0, C=np.ones(D), c=1.0)
    assert found.lower_bound <= best.value + 1e-13
    assert found.value >= best.lower_bound - 1e-13


def test_heavy_tails_where_the_rows_drawn_mislead():
    """A quarter of Cauchy losses says little of the rest: the threshold has to be found anew on the way."""
    losses = 0.05 * np.random.default_rng(34).standard_cauchy(size=(900, 4))
    found = solve_panel(ArrayTable(losses), ce.CVaR(0.05), lower=0.0, C=np.ones(4), c=1.0)
    known = solve_exact(losses, ce.CVaR(0.05), lower=0.0, C=np.ones(4), c=1.0)
    assert found.status == "optimal"
    assert found.value == pytest.approx(known.value, rel=1e-9)


@pytest.mark.parametrize("seed", [0, 2])
def test_out_of_range_the_answer_is_feasible_and_the_bound_holds(seed):
    """Losses of 100 under a rate of 0.5 overflow all but a few weights; whatever the status, nothing false is said."""
    rng = np.random.default_rng(seed)
    losses, w = 100.0 * rng.normal(size=(800, 5)), rng.uniform(size=800) ** 4
    utility = UTILITIES["entropic_cvar"]
    found = solve_panel(ArrayTable(losses), utility, weights=w, lower=0.0, C=np.ones(5), c=1.0, max_iter=20)
    assert found.theta.sum() == pytest.approx(1.0, abs=1e-12)
    assert found.theta.min() >= 0.0
    for theta in [found.theta, *rng.dirichlet(np.ones(5), size=20)]:
        assert risk(losses, theta, utility, w) >= found.lower_bound
    assert found.value >= risk(losses, found.theta, utility, w) - 1e-9 * abs(found.value)


def test_integers_and_single_precision(table):
    for dtype in (np.float32, np.int16):
        rough = (10 * table).astype(dtype)
        found = solve_panel(ArrayTable(rough), ce.CVaR(0.1), lower=0.0, C=np.ones(D), c=1.0)
        known = solve_exact(rough.astype(float), ce.CVaR(0.1), lower=0.0, C=np.ones(D), c=1.0)
        assert found.value == pytest.approx(known.value, rel=1e-9)


def test_ordinary_and_small_mapped_arrays_stay_in_memory(table, tmp_path):
    np.save(tmp_path / "A.npy", table)
    assert as_table(table) is None
    assert as_table(np.load(tmp_path / "A.npy", mmap_mode="r")) is None


@pytest.mark.parametrize("batch", ["full", 50])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_sg_takes_the_same_steps(batch, weighted, mapped, table, weights):
    """As long as many samples carry the risk: samples in blocks are drawn evenly where few do, arrays are not."""
    w = weights if weighted else None
    for utility in (ce.Entropic(0.5), ce.CVaR(0.1)) if batch == "full" else (ce.Entropic(0.2), ce.CVaR(0.4)):
        runs = [
            ce.minimize(
                ce.LinearLoss(A),
                utility,
                domain=ce.Simplex(),
                method="sg",
                batch=batch,
                iterations=6,
                rng=1,
                weights=w,
                log_every=3,
            )
            for A in (mapped, table)
        ]
        assert runs[0].theta == pytest.approx(runs[1].theta, abs=1e-12)
        assert runs[0].value == pytest.approx(runs[1].value, rel=1e-12)
        assert runs[0].gap == pytest.approx(runs[1].gap, rel=1e-9, abs=1e-12)


def test_sg_checkpoints(mapped, tmp_path):
    options = {"domain": ce.Simplex(), "method": "sg", "batch": 20, "rng": 1}
    at = tmp_path / "run.npz"
    ce.minimize(ce.LinearLoss(mapped), ce.CVaR(0.1), iterations=5, checkpoint=at, **options)
    resumed = ce.minimize(ce.LinearLoss(mapped), ce.CVaR(0.1), iterations=9, checkpoint=at, **options)
    straight = ce.minimize(ce.LinearLoss(mapped), ce.CVaR(0.1), iterations=9, **options)
    assert np.array_equal(resumed.theta, straight.theta)


def test_refusals(mapped, table):
    loss = ce.LinearLoss(mapped)
    with pytest.raises(ValueError, match=r"weights must have one entry per sample, 2500; found shape \(7,\)"):
        ce.minimize(loss, ce.CVaR(0.1), domain=ce.Simplex(), weights=np.ones(7))
    with pytest.raises(ValueError, match="weights must be non-negative with a positive sum; found minimum -1"):
        ce.minimize(loss, ce.CVaR(0.1), domain=ce.Simplex(), weights=-np.ones(N))
    with pytest.raises(TypeError, match="never held as a whole"):
        loss.losses(np.ones(D) / D)
    with pytest.raises(TypeError, match="never held as a whole"):
        ce.minimize(loss, ce.Entropic(0.5), domain=ce.Free(), method="lbfgs")
    with pytest.raises(ValueError, match="tol must be a number above 0"):
        ce.minimize(loss, ce.CVaR(0.1), domain=ce.Simplex(), tol=0.0)
    broken = table.copy()
    broken[2100, 3] = np.nan
    with pytest.raises(ValueError, match="found nan at scenario 2100, asset 3"):
        solve_panel(ArrayTable(broken), ce.CVaR(0.1), lower=0.0, C=np.ones(D), c=1.0)
    with pytest.raises(ce.InfeasibleError):
        solve_panel(ArrayTable(table), ce.CVaR(0.1), lower=0.5, C=np.ones(D), c=1.0)


def test_a_small_panel_is_read_once_and_solved_in_memory(monkeypatch):
    monkeypatch.undo()
    losses = np.random.default_rng(0).normal(size=(500, 6))
    weights = np.random.default_rng(1).integers(0, 3, size=500).astype(float)
    found = solve_panel(ArrayTable(losses), ce.CVaR(0.1), weights=weights, lower=0.0, C=np.ones(6), c=1.0)
    table = solve_exact(losses, ce.CVaR(0.1), weights=weights, lower=0.0, C=np.ones(6), c=1.0)
    assert found.passes == 1
    assert found.status == "optimal"
    np.testing.assert_allclose(found.theta, table.theta, atol=1e-12)
    assert found.value == pytest.approx(table.value, rel=1e-13)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rows", [400, 3000])
def test_a_best_portfolio_that_holds_nothing(rows, seed, monkeypatch):
    """Duplicate columns, and a draw whose solution is 0: its holdings are no unit to measure with."""
    monkeypatch.setattr("certeq.optimize.exact._panel._WHOLE", 0)
    A = np.random.default_rng(seed).standard_normal((rows, 8))
    A[:, 4:] = A[:, :4]
    for utility in (0.5 * ce.CVaR(0.05) + 0.5 * ce.CVaR(0.3), ce.Mixture([0.5, 0.5], [ce.CVaR(0.05), ce.EVaR(0.3)])):
        found = solve_panel(ArrayTable(A), utility, lower=-1.0, upper=1.0)
        assert found.status == "optimal"
        assert abs(found.value) <= found.gap


@pytest.mark.parametrize("beta", [1e3, 1e5])
def test_steep_utilities(beta, monkeypatch):
    monkeypatch.setattr("certeq.optimize.exact._panel._WHOLE", 0)
    A = np.random.default_rng(0).standard_t(4, size=(3000, 8))
    rows = {"lower": 0.0, "C": np.ones(8), "c": 1.0}
    known, found = solve_exact(A, ce.Entropic(beta), **rows), solve_panel(ArrayTable(A), ce.Entropic(beta), **rows)
    assert known.status == found.status == "optimal"
    assert abs(found.value - known.value) <= found.gap + known.gap
