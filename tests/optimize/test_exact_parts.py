"""Several risks, each of losses of its own, minimized as one problem: against cones, and against themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import certeq as ce
from certeq._table import ArrayTable
from certeq.optimize.exact import RiskPart, solve_exact, solve_parts
from tests.optimize.test_exact_risks import cone, cp, sample

RISKS = [
    ce.CVaR(0.1),
    ce.Mean(),
    ce.EVaR(0.1),
    ce.HMCR(2, 0.2),
    ce.MonotoneMeanVariance(2).ball(0.5),
    ce.Mixture([0.7, 0.3], [ce.CVaR(0.2), ce.EVaR(0.3)]),
]


def least(parts, linear, size, F=None, limits=lambda theta: [cp.sum(theta) == 1, theta >= 0]):
    """The minimum by an interior point method for cones, in units of ``size``: all risks here are coherent."""
    theta = cp.Variable(len(linear))
    rows, total = limits(theta), linear / size @ theta
    if F is not None:
        total = total + 0.5 / size * cp.sum_squares(F @ theta)
    for part in parts:
        w = np.ones(len(part.A)) if part.scenario_weights is None else part.scenario_weights
        w, kept = w / w.sum(), w > 0.0
        offset = np.zeros(len(part.A)) if part.offset is None else part.offset
        value, more = cone(part.risk, (part.A[kept] / size) @ theta + offset[kept] / size, w[kept])
        total, rows = total + part.weight * value, rows + more
    return size * cp.Problem(cp.Minimize(total), rows).solve(solver=cp.CLARABEL)


def objective(parts, theta, linear):
    total = float(linear @ theta)
    for part in parts:
        offset = 0.0 if part.offset is None else part.offset
        total += part.weight * float(ce.oce(part.A @ theta + offset, part.risk, part.scenario_weights))
    return total


def check(parts, found, linear, size):
    """The value is that of theta, every part's too, and the tilts add up to the slope that proves the minimum."""
    assert found.status == "optimal"
    assert found.relative_gap <= 1e-9
    assert abs(found.value - objective(parts, found.theta, linear)) <= 1e-9 * size
    for part, one in zip(parts, found.parts, strict=True):
        offset = 0.0 if part.offset is None else part.offset
        losses = part.A @ found.theta + offset
        assert abs(one.value - float(ce.oce(losses, part.risk, part.scenario_weights))) <= 1e-9 * max(size, 1.0)
        assert one.tilt.shape == (len(part.A),)
        assert abs(one.tilt.sum() - 1.0) <= 1e-9
    assert found.tilt.size == sum(len(part.A) for part in parts)


def random_parts(rng, count, d, least=20):
    parts = []
    for _ in range(count):
        rows = least + int(rng.integers(0, 70))
        A = sample(int(rng.integers(1 << 30)), rows, d) * 10.0 ** rng.integers(-1, 2)
        if rng.random() < 0.3:
            A = np.round(A, 2)
        if rng.random() < 0.3:
            A[:, 1] = A[:, 0]
        offset = None if rng.random() < 0.5 else A @ rng.dirichlet(np.ones(d)) * -1.0 + rng.normal() * A.std()
        weights = None if rng.random() < 0.5 else rng.integers(0, 3, rows).astype(float)
        weight = float(rng.choice([0.0, 0.3, 1.0, 5.0], p=[0.1, 0.3, 0.4, 0.2]))
        parts.append(RiskPart(A, RISKS[rng.integers(len(RISKS))], weight, offset, weights))
    if all(part.weight == 0.0 for part in parts):
        return random_parts(rng, count, d, least)
    return parts


@pytest.mark.parametrize("seed", range(24))
def test_agrees_with_cones(seed):
    rng = np.random.default_rng(seed)
    parts = random_parts(rng, 1 + seed % 3, 5)
    linear = rng.normal(size=5) * 0.01 * (seed % 2)
    found = solve_parts(parts, linear=linear, lower=0.0, C=np.ones(5), c=1.0)
    size = sum(part.weight * np.abs(part.A).max() for part in parts)
    check(parts, found, linear, size)
    assert abs(found.value - least(parts, linear, size)) <= 3e-7 * size


@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_cones_under_rows_and_squares(seed):
    rng = np.random.default_rng(100 + seed)
    parts = random_parts(rng, 2, 6)
    linear, F = rng.normal(size=6) * 0.01, rng.normal(size=(2, 6)) * 0.05
    G, b = rng.normal(size=(1, 6)), np.array([0.3])

    def limits(theta):
        return [G @ theta <= b, theta >= -1, theta <= 1, cp.sum(theta) == 1]

    found = solve_parts(parts, linear=linear, quadratic=F, lower=-1.0, upper=1.0, C=np.ones(6), c=1.0, G=G, b=b)
    size = sum(part.weight * np.abs(part.A).max() for part in parts)
    assert found.status == "optimal"
    expected = least(parts, linear, size, F, limits)
    assert abs(found.value - expected) <= 3e-7 * size


@pytest.mark.parametrize("risk", [*RISKS, ce.Entropic(30.0), ce.MeanVariance(5.0), ce.SmoothCVaR(0.1, 0.01)], ids=repr)
def test_one_part_is_the_plain_solver(risk):
    A, rows = sample(3, 200, 6), {"lower": 0.0, "C": np.ones(6), "c": 1.0}
    plain, part = solve_exact(A, risk, **rows), solve_parts([RiskPart(A, risk)], **rows)
    assert part.status == "optimal"
    assert abs(part.value - plain.value) <= plain.gap + part.gap
    assert np.array_equal(part.theta, plain.theta)
    assert np.array_equal(part.parts[0].tilt, plain.tilt)


@pytest.mark.parametrize("risk", [*RISKS, ce.Entropic(30.0), ce.MeanVariance(5.0)], ids=repr)
def test_an_offset_is_a_fixed_holding(risk):
    """The losses of an asset of which exactly 1 is held, taken out of the table."""
    A, linear = sample(4, 150, 6), 0.001 * np.arange(6.0)
    fixed = solve_exact(
        A, risk, linear=linear, lower=[0, 0, 0, 0, 0, 1], upper=[9, 9, 9, 9, 9, 1], C=[1, 1, 1, 1, 1, 0], c=1
    )
    part = RiskPart(A[:, :5], risk, offset=A[:, 5])
    found = solve_parts([part], linear=linear[:5], lower=0.0, C=np.ones(5), c=1.0)
    assert found.status == fixed.status == "optimal"
    assert abs(found.value + linear[5] - fixed.value) <= found.gap + fixed.gap + 1e-15
    assert found.multipliers["lower"].shape == (5,)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e8])
def test_sizes_of_parts_drop_out(size):
    """A part in another currency, with the weight that makes up for it."""
    A, B, offset = sample(5, 120, 5), sample(6, 80, 5), sample(7, 80, 1)[:, 0]
    rows = {"lower": 0.0, "C": np.ones(5), "c": 1.0}
    one = solve_parts([RiskPart(A, ce.CVaR(0.1)), RiskPart(B, ce.EVaR(0.2), 0.5, offset)], **rows)
    other = solve_parts(
        [RiskPart(A, ce.CVaR(0.1), 1e4), RiskPart(size * B, ce.EVaR(0.2), 0.5e4 / size, size * offset)], **rows
    )
    assert one.status == other.status == "optimal"
    assert abs(other.value / 1e4 - one.value) <= 1e-10
    assert abs(other.parts[1].value / size - one.parts[1].value) <= 1e-7


@pytest.mark.parametrize("offset", [3.0, -1e9, "array"])
def test_a_constant_offset_moves_the_risk_only(offset):
    A, rows = sample(8, 100, 4), {"lower": 0.0, "C": np.ones(4), "c": 1.0}
    given = np.full(100, 7.5) if offset == "array" else offset
    moved = 7.5 if offset == "array" else offset
    plain = solve_parts([RiskPart(A, ce.CVaR(0.1))], **rows)
    found = solve_parts([RiskPart(A, ce.CVaR(0.1), offset=given)], **rows)
    assert found.status == "optimal"
    assert abs(found.value - moved - plain.value) <= 1e-12 * (1.0 + abs(moved))
    assert np.abs(found.theta - plain.theta).max() <= 1e-6


def test_the_same_scenarios_twice_are_a_mixture():
    A, rows = sample(9, 200, 6), {"lower": 0.0, "C": np.ones(6), "c": 1.0}
    mixture = solve_exact(A, ce.Mixture([0.4, 0.6], [ce.CVaR(0.05), ce.EVaR(0.2)]), **rows)
    parts = solve_parts([RiskPart(A, ce.CVaR(0.05), 0.4), RiskPart(A, ce.EVaR(0.2), 0.6)], **rows)
    copies = solve_parts([RiskPart(A, ce.CVaR(0.05), 0.4), RiskPart(A.copy(), ce.EVaR(0.2), 0.6)], **rows)
    for found in (parts, copies):
        assert found.status == "optimal"
        assert abs(found.value - mixture.value) <= mixture.gap + found.gap


@pytest.mark.parametrize("risks", [(ce.CVaR(0.1), ce.CVaR(0.2)), (ce.EVaR(0.1), ce.Entropic(20.0))], ids=repr)
def test_a_warm_start_takes_few_steps(risks):
    A, B = sample(10, 800, 8), sample(11, 500, 8)
    rows = {"lower": 0.0, "C": np.ones(8), "c": 1.0}
    parts = [RiskPart(A, risks[0]), RiskPart(B, risks[1], 0.5, offset=-B.mean(axis=1))]
    first = solve_parts(parts, **rows)
    again = solve_parts(parts, **rows, theta0=first.theta)
    near = solve_parts([parts[0], RiskPart(B, risks[1], 0.51, offset=parts[1].offset)], **rows, theta0=first.theta)
    assert first.status == again.status == near.status == "optimal"
    assert again.iterations <= 2
    assert near.iterations <= 3


@pytest.mark.parametrize("whole", [True, False], ids=["small", "blocks"])
@pytest.mark.parametrize("seed", range(8))
def test_tables_read_in_blocks(seed, whole, monkeypatch):
    """Some or all of the parts as tables: the same minimum as in memory, with a proof of it."""
    if not whole:
        monkeypatch.setattr("certeq.optimize.exact._panel._WHOLE", 0)
    rng = np.random.default_rng(200 + seed)
    parts = random_parts(rng, 1 + seed % 3, 5, 1000)
    rows = {"lower": 0.0, "C": np.ones(5), "c": 1.0, "linear": 0.01 * rng.normal(size=5)}
    first = [replace(parts[0], A=ArrayTable(parts[0].A)), *parts[1:]]
    known, found = solve_parts(parts, **rows), solve_parts(first, **rows)
    assert found.status == "optimal"
    assert abs(found.value - known.value) <= found.gap + known.gap
    for part, one, other in zip(parts, known.parts, found.parts, strict=True):
        losses = part.A @ found.theta + (0.0 if part.offset is None else part.offset)
        at = float(ce.oce(losses, part.risk, part.scenario_weights))
        assert abs(other.value - at) <= 1e-8 * float(np.abs(losses).max())
        assert other.inner.shape == one.inner.shape
        assert other.tilt is None


def test_bad_parts_are_named():
    A = sample(12, 20, 3)
    with pytest.raises(TypeError, match="parts must be a list of RiskPart"):
        solve_parts([])
    with pytest.raises(TypeError, match=r"parts\[1\] must be a RiskPart"):
        solve_parts([RiskPart(A, ce.CVaR(0.1)), A])
    with pytest.raises(ValueError, match=r"parts\[1\].A must have 3 columns, as those before it; found 2"):
        solve_parts([RiskPart(A, ce.CVaR(0.1)), RiskPart(A[:, :2], ce.CVaR(0.1))])
    with pytest.raises(ValueError, match=r"parts\[0\].offset must have 20 entries; found 3"):
        solve_parts([RiskPart(A, ce.CVaR(0.1), offset=np.zeros(3))])
    with pytest.raises(ValueError, match=r"parts\[0\].weight must be a finite number not below 0; found -1"):
        solve_parts([RiskPart(A, ce.CVaR(0.1), -1.0)])
    with pytest.raises(ValueError, match="only weights of 0"):
        solve_parts([RiskPart(A, ce.CVaR(0.1), 0.0)])
    with pytest.raises(ValueError, match=r"parts\[0\].scenario_weights"):
        solve_parts([RiskPart(A, ce.CVaR(0.1), scenario_weights=-np.ones(20))])
    with pytest.raises(ce.UnboundedError, match="CVaR") as caught:
        solve_parts([RiskPart(A, ce.CVaR(0.1), offset=A[:, 0])], linear=[-1.0, 0.0, 0.0])
    assert caught.value.direction.shape == (3,)
