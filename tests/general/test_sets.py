"""Every feasible set: its projection, linear minimization and minimization over it, against cones and axioms."""

import pickle

import numpy as np
import pytest

import certeq as ce
from tests.blocks import Counted, small_tables_in_blocks
from tests.problems import SETS, TABLES, D, cone

cp = pytest.importorskip("cvxpy")
torch = pytest.importorskip("torch")

each_set = pytest.mark.parametrize("name", SETS)
POLYHEDRA = [name for name, entry in SETS.items() if entry.polyhedron]
each_polyhedron = pytest.mark.parametrize("name", POLYHEDRA)
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate", "ignore::certeq.ReliabilityWarning")

_RNG = np.random.default_rng(40)
POINTS = {
    "near": 0.3 * _RNG.normal(size=D),
    "far": 30.0 * _RNG.normal(size=D),
    "zero": np.zeros(D),
    "ties": np.round(_RNG.normal(size=D)),
    "equal": np.full(D, 0.7),
    "one_large": 50.0 * (np.arange(D) == 2),
    "negative": -np.arange(1.0, D + 1),
    "descending": np.arange(3.0, 3.0 - D, -1.0),
    "ascending": 0.4 * np.arange(D) - 1.0,
    "alternating": np.where(np.arange(D) % 2, 2.0, -1.0),
    "offset": 1e3 + _RNG.normal(size=D),
}
DIRECTIONS = {
    "normal": _RNG.normal(size=D),
    "positive": _RNG.random(D) + 0.1,
    "ties": np.array([1.0, -1.0, -1.0, 1.0, 0.0, -1.0]),
    "one": 1.0 * (np.arange(D) == 4),
    "falling": np.arange(3.0, 3.0 - D, -1.0),
}
LOSSES = 100.0 * TABLES["returns"][0]
COST = np.linspace(0.3, -0.2, D)


def violation(name, theta):
    """Return the largest violation of the set's constraints as cvxpy states them."""
    v = cp.Variable(D)
    v.value = np.asarray(theta, dtype=float)
    return max((float(np.max(row.violation())) for row in SETS[name].constraints(cp, v)), default=0.0)


def solved(name, objective):
    """Return the minimum over the set by Clarabel, -inf if there is none, and a minimizer."""
    v = cp.Variable(D)
    value, rows = objective(v)
    problem = cp.Problem(cp.Minimize(value), SETS[name].constraints(cp, v) + rows)
    problem.solve(solver=cp.CLARABEL)
    return (-np.inf, None) if "unbounded" in problem.status else (float(problem.value), v.value)


def inside(name, count=12):
    """Return points of the set, found by Clarabel and mixed."""
    rng, entry = np.random.default_rng(41), SETS[name]
    corners = [
        solved(name, lambda v, x=x: (cp.sum_squares(v - x), []))[1]
        for x in (entry.domain.start(D), *rng.normal(size=(3, D)))
    ]
    return rng.dirichlet(np.ones(len(corners)), count) @ np.array(corners)


@pytest.mark.parametrize("point", POINTS)
@each_set
def test_projection_is_the_nearest_point(name, point):
    domain, x = SETS[name].domain, POINTS[point]
    kept, p, size = x.copy(), domain.project(x), 1.0 + np.abs(x).max()
    assert violation(name, p) <= 1e-11 * size
    assert domain.contains(p)
    assert not np.shares_memory(p, x)
    np.testing.assert_array_equal(x, kept)
    nearest, q = solved(name, lambda v: (cp.sum_squares(v - x), []))
    assert (x - p) @ (x - p) <= nearest + 1e-7 * size**2
    for v in (domain.project(-x), domain.start(D), *(domain.project(y) for y in POINTS.values())):
        assert (x - p) @ (v - p) <= 1e-10 * size**2  # the variational inequality of a projection
    np.testing.assert_allclose(p, q, atol=2e-4 * size)
    np.testing.assert_allclose(domain.project(p), p, atol=1e-11 * size)
    gap = domain.support_gap(p, p - x)
    assert gap <= 1e-10 * size**2 or (not SETS[name].bounded and gap == np.inf)


@pytest.mark.parametrize("direction", DIRECTIONS)
@each_set
def test_linear_minimization(name, direction):
    domain, g = SETS[name].domain, DIRECTIONS[direction]
    least = solved(name, lambda v: (g @ v, []))[0]
    theta = domain.project(POINTS["near"])
    if least == -np.inf:
        with pytest.raises(ce.UnboundedError) as raised:
            domain.minimize_linear(g)
        assert g @ raised.value.direction < 0.0
        assert violation(name, theta + 7.0 * raised.value.direction) <= 1e-9
        assert domain.support_gap(theta, g) == np.inf
        return
    v = domain.minimize_linear(g)
    assert violation(name, v) <= 1e-11
    assert g @ v == pytest.approx(least, abs=1e-6)
    assert domain.support_gap(theta, g) == pytest.approx(g @ theta - g @ v, abs=1e-11)
    assert domain.support_gap(v, g) == pytest.approx(0.0, abs=1e-11)


@each_set
def test_projections_are_nonexpansive_and_batches_are_their_points(name):
    domain, x = SETS[name].domain, 2.0 * np.random.default_rng(42).normal(size=(3, 4, D))
    p = domain.project(x)
    np.testing.assert_allclose(p, [[domain.project(row) for row in rows] for rows in x], atol=1e-13)
    ends, moved = p.reshape(-1, D), x.reshape(-1, D)
    for i in range(len(ends)):
        assert np.all(np.linalg.norm(ends - ends[i], axis=1) <= np.linalg.norm(moved - moved[i], axis=1) + 1e-11)
    assert domain.project(np.empty((0, D))).shape == (0, D)
    np.testing.assert_allclose(domain.project(torch.as_tensor(x)).numpy(), p, atol=1e-13)
    vmapped = torch.func.vmap(domain.project)(torch.as_tensor(moved))
    np.testing.assert_allclose(vmapped.numpy(), ends, atol=1e-12)


@each_set
def test_derivatives_of_the_projection(name):
    domain = SETS[name].domain
    x = torch.as_tensor(np.random.default_rng(43).normal(size=(2, D))).requires_grad_()
    assert torch.autograd.gradcheck(domain.project, (x,), eps=1e-7, atol=1e-6, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(domain.project, (x,), eps=1e-7, atol=1e-5)
    jacobian = torch.func.jacrev(domain.project)(x[0].detach())
    torch.testing.assert_close(jacobian, jacobian.T, rtol=0, atol=1e-12)
    eigenvalues = torch.linalg.eigvalsh(jacobian)
    assert eigenvalues.min() >= -1e-12
    assert eigenvalues.max() <= 1.0 + 1e-12


@each_set
def test_facts_of_the_set(name):
    entry = SETS[name]
    domain, points = entry.domain, inside(name)
    start = domain.start(D)
    assert violation(name, start) <= 1e-11
    for point in points:  # from the relative interior a segment to any other point can be continued
        assert violation(name, start + 1e-4 * (start - point)) <= 1e-6
    assert entry.bounded or domain.diameter(D) == np.inf
    assert max(np.linalg.norm(a - b) for a in points for b in points) <= domain.diameter(D) * (1 + 1e-6)
    for x in (start, *points, *POINTS.values()):
        amount, found = violation(name, x), domain.violation(x)
        assert domain.contains(x, tol=1e-6) == (amount <= 1e-6 * max(1.0, np.abs(x).max()))
        assert (found > 1e-12) == (amount > 1e-12)
        assert ("violated by" in domain.explain(x)) == (found > 0.0)
    assert domain.contains(np.stack([start, domain.project(POINTS["far"])]))


@each_set
def test_sets_are_values(name):
    domain = SETS[name].domain
    twin = pickle.loads(pickle.dumps(domain))
    assert twin == domain
    assert hash(twin) == hash(domain)
    assert type(domain).__name__ in repr(domain)
    assert len(repr(domain)) < 600
    assert sum(domain == other.domain for other in SETS.values()) == 1
    with pytest.raises(AttributeError):
        domain.total = 3.0


BAD = {
    "nan": (lambda domain: domain.project(np.where(np.arange(D) == 2, np.nan, 0.0)), ValueError, "nan at [2]"),
    "infinite": (lambda domain: domain.contains(np.full((2, D), np.inf)), ValueError, "found inf at [0, 0]"),
    "complex": (lambda domain: domain.project(np.zeros(D) + 0j), TypeError, "complex128"),
    "text": (lambda domain: domain.project(["a", "b"]), TypeError, "<U1"),
    "bool": (lambda domain: domain.project([True, False]), TypeError, "bool"),
    "number": (lambda domain: domain.project(1.0), ValueError, "(..., d)"),
    "empty": (lambda domain: domain.project([]), ValueError, "(..., d)"),
    "ragged": (lambda domain: domain.project([[1.0], [1.0, 2.0]]), ValueError, "rectangular"),
    "matrix": (lambda domain: domain.minimize_linear(np.zeros((2, D))), ValueError, "g must be a vector"),
    "short": (lambda domain: domain.support_gap(domain.start(D), np.zeros(D - 1)), ValueError, "6 entries; found 5"),
    "dimension": (lambda domain: domain.start(0), ValueError, "at least 1"),
    "fraction": (lambda domain: domain.diameter(2.5), TypeError, "found 2.5"),
    "tolerance": (lambda domain: domain.contains(domain.start(D), tol=-1.0), ValueError, "tol"),
    "tensor": (lambda domain: domain.project(torch.full((D,), torch.nan)), ValueError, "nan at [0]"),
}


@pytest.mark.parametrize("case", BAD)
@each_set
def test_bad_points(name, case):
    call, error, part = BAD[case]
    with pytest.raises(error) as raised:
        call(SETS[name].domain)
    assert part in str(raised.value)


# -- minimization over the set ----------------------------------------------------------------------------------------

RISKS = {
    "mean": ce.Mean(),
    "cvar": ce.CVaR(0.1),
    "evar": ce.EVaR(0.2),
    "mixture": ce.Mixture([0.5, 0.5], [ce.CVaR(0.3), ce.HMCR(2, 0.4)]),
}


@pytest.mark.parametrize("risk", RISKS)
@each_polyhedron
def test_exact_minimum(name, risk):
    """Against cones, with costs; a minimum that does not exist is refused with a direction."""
    entry, risk, w = SETS[name], RISKS[risk], np.full(len(LOSSES), 1.0 / len(LOSSES))

    def objective(v):
        value, rows = cone(risk, LOSSES @ v, w)
        return value + COST @ v, rows

    loss = ce.LinearLoss(LOSSES)
    try:
        found = ce.minimize(loss, risk, domain=entry.domain, linear=COST)
    except ce.UnboundedError as error:  # its direction proves it: it stays in the set, and the objective falls
        along = error.direction
        assert float(ce.oce(LOSSES @ along, risk)) + COST @ along < 0.0
        assert violation(name, entry.domain.start(D) + 7.0 * along) <= 1e-8
        return
    least = solved(name, objective)[0]
    assert found.converged
    assert violation(name, found.theta) <= 1e-11
    assert -1e-5 <= found.value - least <= 1e-6  # Clarabel's error is larger where little curves
    assert found.value == pytest.approx(float(ce.oce(LOSSES @ found.theta, risk)) + COST @ found.theta, abs=1e-10)
    assert 0.0 <= found.gap <= 1e-8
    again = ce.minimize(loss, risk, domain=entry.domain, linear=COST, theta0=found.theta)
    assert again.converged
    assert abs(again.value - found.value) <= found.gap + again.gap


def other_forms(A):
    """Return the losses of a table as a vector beside it, in blocks, and in another unit."""
    return {
        "offset": (
            ce.LinearLoss(A, offset=3.0 * A[:, 0] + 5.0),
            ce.LinearLoss(np.column_stack([A, 3.0 * A[:, 0] + 5.0])),
        ),
        "blocks": (ce.LinearLoss(Counted(A)), ce.LinearLoss(A)),
        "unit": (ce.LinearLoss(1e6 * A), ce.LinearLoss(A)),
    }


@pytest.mark.parametrize("risk", ["cvar", "evar"])
@pytest.mark.parametrize("form", ["offset", "blocks", "unit"])
@each_polyhedron
def test_exact_minimum_in_another_form(name, form, risk):
    domain, risk = SETS[name].domain, RISKS[risk]
    one, other = other_forms(LOSSES)[form]
    shared = ce.Product([domain, ce.Box(1.0, 1.0)], [D, 1]) if form == "offset" else domain
    unit = 1e6 if form == "unit" else 1.0
    try:
        known = ce.minimize(other, risk, domain=shared)
    except ce.UnboundedError:
        with small_tables_in_blocks(), pytest.raises(ce.UnboundedError):
            ce.minimize(one, risk, domain=domain)
        return
    with small_tables_in_blocks():
        found = ce.minimize(one, risk, domain=domain)
    assert found.converged
    assert violation(name, found.theta) <= 1e-11
    assert abs(found.value / unit - known.value) <= found.gap / unit + known.gap + 1e-13


@each_polyhedron
def test_minimum_under_a_limit(name):
    """Against cones: the set cut by a ball, whose gradient is the tilt."""
    domain, risk, loss = SETS[name].domain, ce.CVaR(0.1), ce.LinearLoss(LOSSES)
    w = np.full(len(LOSSES), 1.0 / len(LOSSES))
    level = float(ce.oce(LOSSES @ domain.start(D), risk)) + 0.05
    limit = ce.Limit(loss, risk, level)

    def objective(v):
        value, rows = cone(risk, LOSSES @ v, w)
        return LOSSES.mean(axis=0) @ v, [*rows, value <= level]

    least = solved(name, objective)[0]
    if least == -np.inf:
        with pytest.raises(ce.UnboundedError):
            ce.minimize(loss, ce.Mean(), domain=domain, limits=[limit])
        return
    found = ce.minimize(loss, ce.Mean(), domain=domain, limits=[limit])
    assert found.converged
    assert violation(name, found.theta) <= 1e-10
    assert found.limit_values[0] <= level + 1e-9
    assert found.value == pytest.approx(least, rel=2e-6, abs=2e-6)


def test_sets_that_are_no_polyhedra():
    for name in set(SETS) - set(POLYHEDRA):
        with pytest.raises(ValueError, match="domain must be a polyhedron"):
            ce.minimize(ce.LinearLoss(LOSSES), ce.CVaR(0.1), domain=SETS[name].domain, method="exact")
        with pytest.raises(TypeError, match="polyhedron"):
            SETS[name].domain.as_polyhedron(D)


# -- OCE-SG over the set ----------------------------------------------------------------------------------------------

STREAM = {"samples": lambda rng, m: LOSSES[rng.integers(len(LOSSES), size=m)], "batch": 30}
RUNS = {
    "full": {"batch": "full"},
    "drawn": {"batch": 20, "weights": np.arange(1.0, len(LOSSES) + 1.0)},
    "stream": STREAM,
    "constant": {"batch": 20, "step": 0.01, "average": "mean"},
}


@pytest.mark.parametrize("run", RUNS)
@each_set
def test_stochastic_iterates_stay_in_the_set(name, run):
    domain, seen = SETS[name].domain, []
    loss = ce.LinearLoss() if run == "stream" else ce.LinearLoss(LOSSES)
    found = ce.minimize(
        loss, ce.Entropic(0.2), domain=domain, method="sg", theta0=domain.start(D), iterations=150, rng=0, log_every=10,
        callback=lambda at: seen.append(at.theta.copy()), **RUNS[run],
    )  # fmt: skip
    assert max(violation(name, theta) for theta in (*seen, found.theta)) <= 1e-10
    w = RUNS[run].get("weights")
    value = lambda theta: float(ce.oce(LOSSES @ theta, ce.Entropic(0.2), w))
    assert value(found.theta) <= value(domain.start(D)) + (0.3 if run == "stream" else 0.02)
    if run != "stream":
        assert found.value == pytest.approx(value(found.theta), rel=1e-12)
        assert all(value(theta) >= found.value - found.gap - 1e-12 for theta in inside(name))


@each_set
def test_stochastic_runs_are_resumed_bitwise(name, tmp_path):
    settings = {
        "domain": SETS[name].domain,
        "method": "sg",
        "batch": 20,
        "rng": 0,
        "theta0": SETS[name].domain.start(D),
    }
    loss = ce.LinearLoss(LOSSES)
    whole = ce.minimize(loss, ce.CVaR(0.2), iterations=30, **settings)
    ce.minimize(loss, ce.CVaR(0.2), iterations=12, checkpoint=tmp_path / "run.npz", **settings)
    resumed = ce.minimize(loss, ce.CVaR(0.2), iterations=30, checkpoint=tmp_path / "run.npz", **settings)
    assert resumed.theta.tobytes() == whole.theta.tobytes()
    other = ce.Box(-9.0, 9.0) if SETS[name].domain != ce.Box(-9.0, 9.0) else ce.Free()
    with pytest.raises(ValueError, match="different problem"):
        ce.minimize(loss, ce.CVaR(0.2), checkpoint=tmp_path / "run.npz", **(settings | {"domain": other}))
