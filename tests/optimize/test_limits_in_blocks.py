"""Limits and several terms of scenarios that are read in blocks: what they give in memory."""

from __future__ import annotations

import numpy as np
import pytest

import certeq as ce
from certeq import _table
from certeq._table import ArrayTable
from certeq.optimize import InfeasibleLimitsError
from certeq.optimize.exact import RiskPart, solve_parts
from tests.optimize.test_exact_risks import sample

N, D = 1500, 5
A = 100.0 * sample(12, N, D) - [0.1, 0.2, 0.3, 0.4, 0.5]
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


@pytest.fixture(autouse=True)
def not_in_memory(monkeypatch):
    """Small panels would be read as a whole; here they stand for large ones."""
    monkeypatch.setattr("certeq.optimize.exact._panel._WHOLE", 0)


@pytest.fixture(params=["mapped", "dask"])
def stored(request, tmp_path, monkeypatch):
    """The losses as a file that counts as large, or in chunks of Dask."""
    if request.param == "dask":
        return pytest.importorskip("dask.array").from_array(A, chunks=(400, D))
    np.save(tmp_path / "A.npy", A)
    monkeypatch.setattr(_table, "LARGE", 0)
    monkeypatch.setattr(_table, "_PIECE", 1000)
    return np.load(tmp_path / "A.npy", mmap_mode="r")


def level_of(risk, share, offset=0.0, weights=None):
    """Between the least risk and that of the even mix."""
    x = A @ INSIDE + offset
    if isinstance(risk, ce.RootMeanSquare):
        return float(np.sqrt(np.average(np.square(x), weights=weights))) * (1.0 - 0.1 * share)
    least = ce.minimize(ce.LinearLoss(A, offset=offset), risk, domain=ce.Simplex(), weights=weights).value
    return least + share * (float(ce.oce(x, risk, weights)) - least)


def both(data, make, **settings):
    """The problem in memory and in blocks, which must agree to their gaps."""
    here, there = (ce.minimize(domain=ce.Simplex(), **make(losses), **settings) for losses in (A, data))
    assert there.converged
    assert there.gap <= 1e-9 * max(abs(there.value), 0.1)
    assert abs(there.value - here.value) <= here.gap + there.gap
    assert there.binding == here.binding
    assert there.limit_multipliers == pytest.approx(here.limit_multipliers, rel=1e-4, abs=1e-6)
    return here, there


@pytest.mark.parametrize(
    ("stored", "first", "count"),
    [("mapped", first, count) for first in range(len(RISKS)) for count in (1, 2, 3)] + [("dask", 0, 2), ("dask", 2, 3)],
    indirect=["stored"],
)
def test_limits_on_several_risks(stored, first, count):
    chosen = [RISKS[(first + k) % len(RISKS)] for k in range(count)]
    levels = [level_of(risk, 0.8) for risk in chosen]

    def make(losses):
        loss = ce.LinearLoss(losses)
        return {
            "loss": loss,
            "utility": ce.Mean(),
            "limits": [ce.Limit(loss, risk, level) for risk, level in zip(chosen, levels, strict=True)],
        }

    _, there = both(stored, make)
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
        return {
            "loss": [ce.RiskTerm(own, ce.EVaR(0.2), 0.7), ce.RiskTerm(beside, ce.MeanVariance(1.0), 0.3)],
            "limits": [
                ce.Limit(beside, ce.CVaR(0.1), levels[0]),
                ce.Limit(beside, ce.RootMeanSquare(), levels[1]),
                ce.Limit(own, ce.Mean(), 0.5),
            ],
        }

    here, there = both(stored, make, weights=w)
    assert there.binding
    assert there.limit_values == pytest.approx(here.limit_values, rel=1e-6)


@pytest.mark.parametrize(
    "domain", [ce.L1Ball(1.0, np.full(D, 0.2)), ce.LongShort(1.3, 0.3), ce.Box(-1.0, 1.0)], ids=repr
)
def test_sets_in_other_variables(stored, domain):
    level = level_of(ce.CVaR(0.1), 1.0)
    found = []
    for losses in (A, stored):
        own, beside = ce.LinearLoss(losses), ce.LinearLoss(losses, offset=-Y)
        limits = [ce.Limit(own, ce.CVaR(0.1), level), ce.Limit(beside, ce.RootMeanSquare(), 3.0)]
        found.append(ce.minimize(own, ce.Mean(), domain=domain, limits=limits))
    assert found[1].converged
    assert abs(found[1].value - found[0].value) <= found[0].gap + found[1].gap
    assert domain.contains(found[1].theta, 1e-12)


def test_blocks_beside_memory(stored):
    """A limit of other scenarios, which are in memory."""
    B = 100.0 * sample(5, 300, D)
    other, level = ce.LinearLoss(B), float(ce.oce(B @ INSIDE, ce.CVaR(0.2)))

    def make(losses):
        own = ce.LinearLoss(losses)
        limits = [ce.Limit(other, ce.CVaR(0.2), level), ce.Limit(own, ce.EVaR(0.1), level_of(ce.EVaR(0.1), 0.9))]
        return {"loss": own, "utility": ce.Entropic(0.2), "limits": limits}

    both(stored, make)


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


def test_other_samples_of_a_loss_with_an_offset():
    loss, longer = ce.LinearLoss(A[:10], offset=Y[:10]), np.column_stack([A, Y])
    limit = ce.Limit(ce.LinearLoss(A), ce.CVaR(0.1), level_of(ce.CVaR(0.1), 0.8))
    settings = {"domain": ce.Simplex(), "limits": [limit]}
    found = ce.minimize(loss, ce.CVaR(0.5), samples=longer, **settings)
    known = ce.minimize(ce.LinearLoss(A, offset=Y), ce.CVaR(0.5), **settings)
    assert found.value == pytest.approx(known.value, rel=1e-12)


@pytest.mark.parametrize("whole", [True, False], ids=["small", "blocks"])
@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_squares_and_slopes_of_parts(risk, whole, monkeypatch):
    """Squares beside the risk, and the slope of every part: with the linear term they balance the multipliers."""
    if whole:
        monkeypatch.setattr("certeq.optimize.exact._panel._WHOLE", 1 << 25)
    F = np.random.default_rng(3).normal(size=(3, D))
    linear = 0.1 * np.arange(D)
    rows = {"lower": 0.0, "C": np.ones(D), "c": 1.0, "linear": linear, "quadratic": F}
    parts = [RiskPart(A, risk, 0.7, offset=Y), RiskPart(A, ce.CVaR(0.3), 0.5)]
    known = solve_parts(parts, **rows)
    found = solve_parts([RiskPart(ArrayTable(A), part.risk, part.weight, part.offset) for part in parts], **rows)
    assert found.status == "optimal"
    assert abs(found.value - known.value) <= found.gap + known.gap
    at = 0.7 * ce.oce(A @ found.theta + Y, risk) + 0.5 * ce.oce(A @ found.theta, ce.CVaR(0.3))
    at += linear @ found.theta + 0.5 * np.square(F @ found.theta).sum()
    assert found.value == pytest.approx(float(at), rel=1e-11)
    total = 0.7 * found.parts[0].slope + 0.5 * found.parts[1].slope + linear + F.T @ (F @ found.theta)
    prices = found.multipliers
    assert total == pytest.approx(prices["lower"] - prices["upper"] + prices["C"] @ np.ones((1, D)), abs=1e-8)


def test_a_distortion_is_refused_with_the_reason(stored):
    loss = ce.LinearLoss(stored)
    with pytest.raises(TypeError, match="Wang"):
        ce.minimize(loss, ce.Mean(), domain=ce.Simplex(), limits=[ce.Limit(loss, ce.Wang(0.5), 2.0)])
