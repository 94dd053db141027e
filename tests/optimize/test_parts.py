"""Several risks, each of losses of its own, minimized as one problem: against cones, and against themselves."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import certeq as ce
from certeq.optimize.exact import RiskPart, solve_exact, solve_parts
from tests.blocks import Counted, small_tables_in_blocks
from tests.problems import cone, returns

cp = pytest.importorskip("cvxpy")
RISKS = [
    ce.CVaR(0.1),
    ce.Mean(),
    ce.EVaR(0.1),
    ce.HMCR(2, 0.2),
    ce.MonotoneMeanVariance(2).ball(0.5),
    ce.Mixture([0.7, 0.3], [ce.CVaR(0.2), ce.EVaR(0.3)]),
]


def simplex(d):
    return {"lower": 0.0, "C": np.ones(d), "c": 1.0}


def random_parts(rng, count, d, least=20):
    parts = []
    for _ in range(count):
        rows = least + int(rng.integers(0, 70))
        A = returns(rows, d, int(rng.integers(1 << 30))) * 10.0 ** rng.integers(-1, 2)
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


def losses_of(part, theta):
    return part.A @ theta + (0.0 if part.offset is None else part.offset)


@pytest.mark.parametrize("seed", range(16))
def test_agrees_with_cones(seed):
    """Values of the whole and of every part; every second problem over other rows and with squares."""
    rng = np.random.default_rng(seed)
    parts, F, linear = random_parts(rng, 1 + seed % 3, 5), np.zeros((2, 5)), rng.normal(size=5) * 0.01 * (seed % 2)
    rows, theta = simplex(5), cp.Variable(5)
    limits = [cp.sum(theta) == 1, theta >= 0]
    if seed % 2:
        F, G = rng.normal(size=(2, 5)) * 0.05, rng.normal(size=(1, 5))
        rows |= {"lower": -1.0, "upper": 1.0, "G": G, "b": [0.3], "quadratic": F}
        limits = [cp.sum(theta) == 1, G @ theta <= 0.3, theta >= -1, theta <= 1]
    found = solve_parts(parts, linear=linear, **rows)
    size = sum(part.weight * np.abs(part.A).max() for part in parts)
    assert found.status == "optimal"
    assert found.relative_gap <= 1e-9
    value, cones = float(linear @ found.theta) + 0.5 * float(np.square(F @ found.theta).sum()), 0.0
    for part, one in zip(parts, found.parts, strict=True):
        at = float(ce.oce(losses_of(part, found.theta), part.risk, part.scenario_weights))
        assert abs(one.value - at) <= 1e-9 * max(size, 1.0)
        assert one.tilt.shape == (len(part.A),)
        assert abs(one.tilt.sum() - 1.0) <= 1e-9
        value += part.weight * at
        w = np.ones(len(part.A)) if part.scenario_weights is None else part.scenario_weights
        offset, kept = losses_of(part, np.zeros(5)) * np.ones(len(w)), w > 0.0
        term, more = cone(part.risk, (part.A[kept] / size) @ theta + offset[kept] / size, (w / w.sum())[kept])
        cones, limits = cones + part.weight * term, limits + more
    assert abs(found.value - value) <= 1e-9 * size
    cones = cones + linear / size @ theta + 0.5 / size * cp.sum_squares(F @ theta)
    assert abs(found.value - size * cp.Problem(cp.Minimize(cones), limits).solve(solver=cp.CLARABEL)) <= 3e-7 * size


@pytest.mark.parametrize("risk", [ce.CVaR(0.1), RISKS[4], ce.Entropic(30.0), ce.SmoothCVaR(0.1, 0.01)], ids=repr)
def test_one_part_is_the_plain_solver(risk):
    A, rows = returns(200, 6, 3), simplex(6)
    plain, part = solve_exact(A, risk, **rows), solve_parts([RiskPart(A, risk)], **rows)
    assert part.status == "optimal"
    assert abs(part.value - plain.value) <= plain.gap + part.gap
    assert np.array_equal(part.theta, plain.theta)
    assert np.array_equal(part.parts[0].tilt, plain.tilt)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e8])
def test_sizes_of_parts_drop_out(size):
    """A part in another currency, with the weight that makes up for it."""
    A, B, offset = returns(120, 5, 5), returns(80, 5, 6), returns(80, 1, 7)[:, 0]
    one = solve_parts([RiskPart(A, ce.CVaR(0.1)), RiskPart(B, ce.EVaR(0.2), 0.5, offset)], **simplex(5))
    scaled = RiskPart(size * B, ce.EVaR(0.2), 0.5e4 / size, size * offset)
    other = solve_parts([RiskPart(A, ce.CVaR(0.1), 1e4), scaled], **simplex(5))
    assert one.status == other.status == "optimal"
    assert abs(other.value / 1e4 - one.value) <= 1e-10
    assert abs(other.parts[1].value / size - one.parts[1].value) <= 1e-7


@pytest.mark.parametrize("moved", [3.0, -1e9, np.full(100, 7.5)], ids=["number", "far", "array"])
def test_a_constant_offset_moves_the_risk_only(moved):
    A = returns(100, 4, 8)
    plain = solve_parts([RiskPart(A, ce.CVaR(0.1))], **simplex(4))
    found = solve_parts([RiskPart(A, ce.CVaR(0.1), offset=moved)], **simplex(4))
    assert found.status == "optimal"
    assert abs(found.value - np.max(moved) - plain.value) <= 1e-12 * (1.0 + np.abs(moved).max())
    assert np.abs(found.theta - plain.theta).max() <= 1e-6


def test_the_same_scenarios_twice_are_a_mixture():
    A = returns(200, 6, 9)
    mixture = solve_exact(A, ce.Mixture([0.4, 0.6], [ce.CVaR(0.05), ce.EVaR(0.2)]), **simplex(6))
    for B in (A, A.copy()):
        found = solve_parts([RiskPart(A, ce.CVaR(0.05), 0.4), RiskPart(B, ce.EVaR(0.2), 0.6)], **simplex(6))
        assert found.status == "optimal"
        assert abs(found.value - mixture.value) <= mixture.gap + found.gap


@pytest.mark.parametrize("risks", [(ce.CVaR(0.1), ce.CVaR(0.2)), (ce.EVaR(0.1), ce.Entropic(20.0))], ids=repr)
def test_a_warm_start_takes_few_steps(risks):
    A, B = returns(800, 8, 10), returns(500, 8, 11)
    parts = [RiskPart(A, risks[0]), RiskPart(B, risks[1], 0.5, offset=-B.mean(axis=1))]
    first = solve_parts(parts, **simplex(8))
    again = solve_parts(parts, **simplex(8), theta0=first.theta)
    near = solve_parts([parts[0], replace(parts[1], weight=0.51)], **simplex(8), theta0=first.theta)
    assert first.status == again.status == near.status == "optimal"
    assert again.iterations <= 2
    assert near.iterations <= 3


@pytest.mark.parametrize("in_blocks", [True, False], ids=["blocks", "small"])
@pytest.mark.parametrize("seed", range(6))
def test_tables_with_squares_and_slopes(seed, in_blocks):
    """Some of the parts as tables: the same minimum as in memory; their slopes balance the multipliers."""
    rng = np.random.default_rng(200 + seed)
    parts, F, linear = random_parts(rng, 1 + seed % 3, 5, 1000), rng.normal(size=(2, 5)), 0.01 * rng.normal(size=5)
    rows = simplex(5) | {"linear": linear} | ({"quadratic": F} if seed % 2 else {})
    known = solve_parts(parts, **rows)
    with small_tables_in_blocks() if in_blocks else nullcontext():
        found = solve_parts([replace(parts[0], A=Counted(parts[0].A)), *parts[1:]], **rows)
    assert found.status == "optimal"
    assert abs(found.value - known.value) <= found.gap + known.gap
    slope = linear + (F.T @ (F @ found.theta) if seed % 2 else 0.0)
    for part, one, other in zip(parts, known.parts, found.parts, strict=True):
        losses = losses_of(part, found.theta)
        at = float(ce.oce(losses, part.risk, part.scenario_weights))
        assert abs(other.value - at) <= 1e-8 * float(np.abs(losses).max())
        assert other.inner.shape == one.inner.shape
        assert other.tilt is None
        slope = slope + part.weight * (other.slope if part.weight else 0.0)
    prices = found.multipliers
    size = max(part.weight * np.abs(part.A).max() for part in parts)
    assert slope == pytest.approx(prices["lower"] - prices["upper"] + prices["C"] @ np.ones((1, 5)), abs=1e-7 * size)
