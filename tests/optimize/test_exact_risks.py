"""Risks with more inner variables than t, minimized exactly: against cones, and where s tends to 0."""

from __future__ import annotations

import math

import numpy as np
import pytest

import certeq as ce
from certeq._table import ArrayTable
from certeq.optimize.exact import solve_exact, solve_panel
from certeq.optimize.exact._risk import SampleRows, best_inner, bounds_of_inner

cp = pytest.importorskip("cvxpy")

MIXTURE = ce.Mixture([0.5, 0.3, 0.2], [ce.CVaR(0.2), ce.CVaR(0.1), ce.CVaR(0.03)])
RISKS = [
    ce.EVaR(0.05),
    ce.EVaR(0.5),
    ce.MonotoneMeanVariance(2).ball(0.5),
    ce.HMCR(2, 0.2),
    ce.HMCR(3, 0.4),
    MIXTURE,
    ce.Mixture([0.6, 0.4], [ce.EVaR(0.1), ce.CVaR(0.1)]),
    ce.Mixture([0.25, 0.75], [ce.Mean(), ce.HMCR(2, 0.3)]),
]
SIMPLEX = {"lower": 0.0, "c": 1.0}


def cone(risk, x, w):
    """The risk of losses x, in cvxpy's words: a value and its constraints."""
    t = cp.Variable()
    match risk:
        case ce.EVaR():
            s, u = cp.Variable(nonneg=True), cp.Variable(len(w))
            inside = [w @ u <= s, cp.ExpCone(x - t, s * np.ones(len(w)), u)]
            return t - s * math.log(risk.alpha), inside
        case ce.DivergenceBall():  # half the chi-square distance: the norm of the tilt is at most sqrt(1 + 2 r)
            return t + math.sqrt(1.0 + 2.0 * risk.radius) * cp.norm2(cp.multiply(np.sqrt(w), cp.pos(x - t))), []
        case ce.HMCR():
            return t + cp.pnorm(cp.multiply(w ** (1.0 / risk.p), cp.pos(x - t)), risk.p) / risk.alpha, []
        case ce.Mean():
            return w @ x, []
        case ce.CVaR():
            return t + w @ cp.pos(x - t) / risk.alpha, []
        case ce.Mixture():
            parts = [cone(part, x, w) for part in risk.risks]
            total = sum(weight * value for weight, (value, _) in zip(risk.weights, parts, strict=True))
            return total, [row for _, rows in parts for row in rows]
    raise NotImplementedError(risk)


def least(A, risk, weights=None):
    """The minimum over the simplex, by an interior point method for cones."""
    w = np.full(len(A), 1.0 / len(A)) if weights is None else weights / weights.sum()
    kept = w > 0.0
    A, w = A[kept], w[kept]
    size = float(np.abs(A).max())
    theta = cp.Variable(A.shape[1], nonneg=True)
    value, rows = cone(risk, (A / size) @ theta, w)
    problem = cp.Problem(cp.Minimize(value), [*rows, cp.sum(theta) == 1])
    return size * problem.solve(solver=cp.CLARABEL)


def check(A, risk, weights=None, tol=2e-7, **rest):
    found = solve_exact(A, risk, weights=weights, C=np.ones(A.shape[1]), **SIMPLEX, **rest)
    assert found.status == "optimal"
    assert found.relative_gap <= 1e-9
    size = float(np.abs(A - A.mean(axis=0)).max()) or 1.0
    expected = least(A, risk, weights)
    assert abs(found.value - expected) <= tol * size
    assert abs(found.value - float(ce.oce(A @ found.theta, risk, weights))) <= 1e-9 * size + 1e-14 * abs(found.value)
    # The tilt is a distribution that proves the bound by itself.
    assert abs(found.tilt.sum() - 1.0) <= 1e-12
    assert found.value - (found.tilt @ A).min() <= 2e-9 * max(abs(found.value), size)
    return found


def sample(seed, rows, columns):
    rng = np.random.default_rng(seed)
    return 0.01 * (rng.standard_t(4, size=(rows, columns)) + rng.standard_normal((rows, 1)))


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_agrees_with_cones(risk):
    check(sample(1, 150, 6), risk)


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_ties_and_weights(risk):
    A = np.round(100.0 * sample(2, 120, 5), 0)
    weights = np.random.default_rng(2).integers(0, 4, 120).astype(float)
    check(A, risk, weights)


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_more_assets_than_scenarios(risk):
    check(sample(3, 12, 40), risk)


@pytest.mark.parametrize("risk", [ce.EVaR(1e-3), ce.EVaR(0.02), ce.HMCR(3, 0.1), ce.MonotoneMeanVariance(2).ball(80.0)])
def test_the_largest_loss(risk):
    """A radius beyond, or about, what the weights of a few scenarios reach: s is 0 at the minimum."""
    A = sample(4, 100, 8)
    found = check(A, risk)
    assert found.lower_bound <= solve_exact(A, ce.CVaR(1e-3), C=np.ones(8), **SIMPLEX).value


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_an_asset_without_risk(risk):
    """Every tilt in the ball proves the minimum, which no single one of the largest loss need do."""
    A = sample(5, 200, 6) + 0.002
    A[:, 2] = 0.0
    found = solve_exact(A, risk, C=np.ones(6), **SIMPLEX)
    assert found.status == "optimal"
    assert abs(found.value) <= 1e-12
    assert found.theta[2] >= 1.0 - 1e-9


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_offsets_and_units_drop_out(risk):
    A = sample(6, 200, 5)
    rows = {"C": np.ones(5), **SIMPLEX}
    plain = solve_exact(A, risk, **rows)
    shifted = solve_exact(A + 2.0**20, risk, **rows)
    larger = solve_exact(7e8 * A - 3.0, risk, **rows)
    assert plain.status == shifted.status == larger.status == "optimal"
    assert abs(shifted.value - 2.0**20 - plain.value) <= 1e-9
    assert abs((larger.value + 3.0) / 7e8 - plain.value) <= 1e-11


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_one_scenario_and_constants(risk):
    rows = {"C": np.ones(3), **SIMPLEX}
    assert abs(solve_exact(np.array([[1.0, 2.0, 3.0]]), risk, **rows).value - 1.0) <= 1e-11
    assert abs(solve_exact(np.tile([5.0, 4.0, 6.0], (30, 1)), risk, **rows).value - 4.0) <= 1e-10


@pytest.mark.parametrize("kind", ["free", "box", "rows", "squares"])
@pytest.mark.parametrize("risk", [ce.EVaR(0.1), ce.MonotoneMeanVariance(2).ball(0.5), MIXTURE], ids=repr)
def test_other_sets(risk, kind):
    """No short cut here: the certificate says how good the answer is, and no random feasible point is better."""
    A, rng = sample(7, 300, 6), np.random.default_rng(7)
    limits = {
        "free": {},
        "box": {"lower": -0.5, "upper": 0.7},
        "rows": {"lower": 0.0, "G": A.mean(axis=0)[None, :], "b": [float(A.mean())]},
        "squares": {"lower": 0.0, "quadratic": np.full(6, 0.02), "linear": 0.01 * np.arange(6.0)},
    }[kind]
    found = solve_exact(A, risk, C=np.ones(6), c=1.0, **limits)
    assert found.status == "optimal"
    theta = rng.dirichlet(np.ones(6), 40)
    if kind == "rows":
        theta = theta[theta @ A.mean(axis=0) <= A.mean()]
    values = ce.oce(theta @ A.T, risk, axis=1)
    if kind == "squares":
        values = values + 0.01 * np.square(theta).sum(axis=1) + theta @ (0.01 * np.arange(6.0))
    assert values.min() >= found.value - found.gap


def test_unbounded_directions_are_named():
    A = sample(8, 60, 3)
    A[:, 1] = A[:, 0] + 0.01  # short the second, long the first: a sure gain
    for risk in (ce.EVaR(0.1), MIXTURE):
        with pytest.raises(ce.UnboundedError, match="falls for ever"):
            solve_exact(A, risk, C=np.ones(3), c=1.0)


@pytest.mark.parametrize(
    "risk",
    [
        ce.SmoothCVaR(0.1, 0.1).ball(0.2),
        ce.SmoothCVaR(0.1, 0.1).ball(5.0),
        ce.LeakyCVaR(0.1).ball(0.1),
        (0.5 * ce.LeakyCVaR(0.1) + 0.5 * ce.Entropic()).ball(0.2),
        ce.MeanVariance(1.0).ball(0.5),
        ce.Mixture([0.5, 0.5], [ce.Entropic(20.0), ce.SmoothCVaR(0.1, 0.005)]),
        ce.Mixture([0.7, 0.3], [ce.LeakyCVaR(0.1).ball(0.3), ce.CVaR(0.05)]),
    ],
    ids=repr,
)
def test_any_ball_and_mixture(risk):
    A = sample(9, 400, 8)
    found = solve_exact(A, risk, C=np.ones(8), **SIMPLEX)
    assert found.status == "optimal"
    near = found.theta + 1e-3 * (np.random.default_rng(9).dirichlet(np.ones(8), 30) - found.theta)
    assert np.min(ce.oce(near @ A.T, risk, axis=1)) >= found.value - found.gap


def test_a_start_is_taken():
    A = sample(10, 500, 10)
    rows = {"C": np.ones(10), **SIMPLEX}
    for risk in (ce.EVaR(0.05), MIXTURE):
        cold = solve_exact(A, risk, **rows)
        warm = solve_exact(A, risk, theta0=cold.theta, **rows)
        assert warm.status == "optimal"
        assert warm.iterations <= cold.iterations
        assert abs(warm.value - cold.value) <= cold.gap + warm.gap


def test_sums_of_a_mixture_are_its_parts():
    """The same part twice is that part: the tilts of the two share what they have."""
    A = sample(11, 300, 6)
    rows = {"C": np.ones(6), **SIMPLEX}
    for risk in (ce.CVaR(0.1), ce.Entropic(30.0), ce.EVaR(0.1)):
        one = solve_exact(A, risk, **rows)
        two = solve_exact(A, ce.Mixture([0.5, 0.5], [risk, risk]), **rows)
        assert abs(one.value - two.value) <= one.gap + two.gap
        assert len(two.inner) == 2 * len(one.inner)


def test_inner_variables_are_within_their_bounds():
    rng = np.random.default_rng(12)
    for risk in (*RISKS, ce.EVaR(0.999), ce.MonotoneMeanVariance(4).ball(3.0), ce.LeakyCVaR(0.1).ball(0.2)):
        inner = risk.inner()
        for _ in range(20):
            x = rng.standard_t(2, size=30) * 10.0 ** rng.uniform(-2, 2)
            v = best_inner(x, SampleRows(np.full(30, 1.0 / 30.0)), inner)[1]
            most = float(np.abs(x).max())
            assert all(abs(at) <= a * most + b for at, (a, b) in zip(v, bounds_of_inner(inner), strict=True))


def test_minimize_returns_all_inner_variables():
    A = sample(13, 300, 5)
    found = ce.minimize(ce.LinearLoss(A), ce.EVaR(0.1), domain=ce.Simplex())
    assert found.converged
    assert found.threshold == found.inner[0]
    assert abs(ce.oce(A @ found.theta, ce.EVaR(0.1)) - found.value) <= 1e-14
    mixed = ce.minimize(ce.LinearLoss(A), MIXTURE, domain=ce.L1Ball(2.0))
    assert mixed.threshold.shape == (3,)
    assert ce.minimize(ce.LinearLoss(A), ce.CVaR(0.1), domain=ce.Simplex()).inner is None


def test_what_is_refused():
    A = sample(14, 50, 3)
    with pytest.raises(TypeError, match="needs all losses sorted"):
        solve_exact(A, ce.Wang(0.5))
    with pytest.raises(TypeError, match="utility or risk"):
        solve_exact(A, 0.05)


BLOCKS = [
    *RISKS,
    ce.HMCR(1.5, 0.1),
    ce.LeakyCVaR(0.1).ball(0.3),
    ce.Mixture([0.5, 0.5], [ce.EVaR(0.2), ce.CVaR(0.1).ball(1.0)]),
]


@pytest.mark.parametrize("kind", ["simplex", "weights and ties", "box", "hold nothing", "no risk", "free"])
@pytest.mark.parametrize("risk", BLOCKS, ids=repr)
def test_blocks_as_in_memory(risk, kind, monkeypatch):
    """Read in blocks, with sums and rows near kinks of every term: the same minimum, and a proof of it."""
    monkeypatch.setattr("certeq.optimize.exact._panel._WHOLE", 0)
    A, weights = sample(15, 1500, 6), None
    limits = {"lower": 0.0, "C": np.ones(6), "c": 1.0}
    if kind == "weights and ties":
        A, weights = np.round(A, 2), np.random.default_rng(15).integers(0, 4, 1500).astype(float)
    if kind == "box":
        limits |= {"lower": -0.5, "upper": 0.7}
    if kind == "hold nothing":
        limits = {"lower": -1.0, "upper": 1.0}
    if kind == "no risk":
        A = A + 0.002
        A[:, 2] = 0.0
    if kind == "free":
        limits = {"C": np.ones(6), "c": 1.0}
    known = solve_exact(A, risk, weights=weights, **limits)
    found = solve_panel(ArrayTable(A), risk, weights=weights, **limits)
    assert found.status == "optimal"
    assert found.relative_gap <= 1e-9
    assert abs(found.value - known.value) <= found.gap + known.gap
    assert found.inner.shape == known.inner.shape
    assert np.shape(found.threshold) == np.shape(known.threshold)
    at = float(ce.oce(A @ found.theta, risk, weights))
    assert abs(found.value - at) <= 1e-9 * float(np.abs(A).max())


@pytest.mark.parametrize("risk", [ce.EVaR(0.1), MIXTURE], ids=repr)
def test_small_tables_are_brought_into_memory(risk):
    A = sample(16, 300, 4)
    found = solve_panel(ArrayTable(A), risk, C=np.ones(4), **SIMPLEX)
    assert found.passes == 1
    assert found.value == solve_exact(A, risk, C=np.ones(4), **SIMPLEX).value


def test_what_cannot_be_read_in_blocks_is_refused_with_the_reason():
    with pytest.raises(TypeError, match="it needs all losses sorted"):
        solve_panel(ArrayTable(sample(16, 300, 4)), ce.Wang(0.5), C=np.ones(4), **SIMPLEX)
    unbounded = sample(17, 300, 4) - np.array([1.0, 0.0, 0.0, 0.0])
    with pytest.raises(ce.UnboundedError):
        solve_panel(ArrayTable(unbounded), ce.EVaR(0.1))
