"""Minimization under limits: random problems against cones, real returns, sets without bounds, and conflicts."""

import pickle

import numpy as np
import pytest

import certeq as ce
from certeq.optimize import InfeasibleLimitsError, solve_exact
from tests.problems import cone, returns

cp = pytest.importorskip("cvxpy")
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")

RISKS = [
    ce.CVaR(0.1),
    ce.CVaR(0.3),
    ce.EVaR(0.1),
    ce.HMCR(2, 0.2),
    ce.MonotoneMeanVariance(2).ball(0.3),
    ce.Mixture([0.5, 0.5], [ce.CVaR(0.2), ce.EVaR(0.2)]),
]


def value_of(risk, x, w):
    return float(np.sqrt(w @ np.square(x))) if isinstance(risk, ce.RootMeanSquare) else float(ce.oce(x, risk, w))


def by_cones(terms, limits, d):
    """Return the minimum over the simplex by Clarabel, None if it fails; losses are (A, b, w)."""
    theta = cp.Variable(d, nonneg=True)
    rows, total = [cp.sum(theta) == 1], 0.0
    for weight, risk, (A, b, w) in terms:
        value, more = cone(risk, A[w > 0.0] @ theta + b[w > 0.0], w[w > 0.0])
        total, rows = total + weight * value, rows + more
    for risk, (A, b, w), level in limits:
        value, more = cone(risk, A[w > 0.0] @ theta + b[w > 0.0], w[w > 0.0])
        rows += [value <= level, *more]
    problem = cp.Problem(cp.Minimize(total), rows)
    try:
        value = problem.solve(solver=cp.CLARABEL)
    except cp.SolverError:
        return None
    return value if problem.status == "optimal" else None


def random_problem(seed):
    """Return terms, limits that some points keep and most do not, and the number of assets."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(3, 8))

    def losses():
        n = int(rng.integers(30, 200))
        A = 100.0 * returns(n, d, int(rng.integers(1 << 30))) - rng.uniform(0.0, 1.0, d)
        if rng.random() < 0.3:
            A = np.round(A, 1)
        w = rng.integers(0, 4, n) + (rng.random(n) < 0.1) if rng.random() < 0.4 else np.ones(n)
        return A, np.zeros(n) if rng.random() < 0.5 else 0.3 * rng.normal(size=n), w / w.sum()

    shared, pool = losses(), [ce.Mean(), *RISKS]
    terms = [
        (float(rng.uniform(0.2, 2.0)), pool[int(rng.integers(len(pool)))], shared if k == 0 else losses())
        for k in range(1 if rng.random() < 0.7 else 2)
    ]
    inside, limits = rng.dirichlet(np.ones(d)), []
    for _ in range(int(rng.integers(1, 4))):
        A, b, w = data = shared if rng.random() < 0.6 else losses()
        risk = ce.RootMeanSquare() if rng.random() < 0.2 else RISKS[int(rng.integers(len(RISKS)))]
        at = value_of(risk, A @ inside + b, w)
        limits.append((risk, data, at + float(rng.uniform(0.0, 0.2)) * max(abs(at), 0.1)))
    return terms, limits, d


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 112))])
def test_random_problems_agree_with_cones(seed):
    terms, limits, d = random_problem(seed)
    made = {}

    def loss(data):
        return made.setdefault(id(data), ce.LinearLoss(data[0], offset=data[1]))

    found = ce.minimize(
        [ce.RiskTerm(loss(data), risk, weight, weights=data[2]) for weight, risk, data in terms],
        domain=ce.Simplex(),
        limits=[ce.Limit(loss(data), risk, level, weights=data[2]) for risk, data, level in limits],
    )
    assert found.converged
    scale = max(abs(found.value), 1e-2)
    assert found.gap <= 1e-9 * max(scale, 0.1)
    value = sum(weight * value_of(risk, A @ found.theta + b, w) for weight, risk, (A, b, w) in terms)
    assert found.value == pytest.approx(value, abs=1e-12 * scale + 1e-13)
    assert abs(found.theta.sum() - 1.0) < 1e-12
    assert found.theta.min() >= 0.0
    for j, (risk, (A, b, w), level) in enumerate(limits):
        x = A @ found.theta + b
        at = value_of(risk, x, w)
        assert at <= level + 1e-9 * max(abs(level), float(np.std(x)))
        assert found.limit_values[j] == pytest.approx(at, abs=1e-11)
        assert found.limit_multipliers[j] * abs(level - at) <= 1e-7 * max(scale, 1.0)
    expected = by_cones(terms, limits, d)
    if expected is not None:  # else the gap alone is the proof
        assert found.value == pytest.approx(expected, abs=2e-6 * max(scale, 1.0))


# -- real returns -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def A():
    skfolio = pytest.importorskip("skfolio.datasets")
    from skfolio.preprocessing import prices_to_returns

    return -prices_to_returns(skfolio.load_sp500_dataset()).to_numpy()[-2500:]


def limited(A, *limits, objective=None, domain=None):
    loss = A if isinstance(A, ce.LinearLoss) else ce.LinearLoss(A)
    limits = [ce.Limit(loss, risk, level) for risk, level in limits]
    return ce.minimize(loss, objective or ce.Mean(), domain=domain or ce.Simplex(), limits=limits)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_return_under_limits_and_what_their_multipliers_state(A, count):
    asked = [(ce.CVaR(0.05), 0.0275), (ce.EVaR(0.05), 0.046), (ce.MeanVariance(10.0), 0.0013)][:count]
    found = limited(A, *asked)
    assert found.converged
    assert found.gap <= 1e-9 * abs(found.value)
    for j, (risk, level) in enumerate(asked):
        at = float(ce.oce(A @ found.theta, risk))
        assert at <= level * (1.0 + 1e-9)
        assert found.limit_values[j] == pytest.approx(at, rel=1e-12)
    assert found.binding
    for j in found.binding:
        step = 1e-6 * asked[j][1]
        more = limited(A, *[(risk, level + step * (i == j)) for i, (risk, level) in enumerate(asked)])
        assert (found.value - more.value) / step == pytest.approx(found.limit_multipliers[j], rel=2e-2)


def test_the_minimum_risk_as_the_limit_and_a_loose_limit(A):
    least = solve_exact(A, ce.CVaR(0.05), lower=0.0, C=np.ones(A.shape[1]), c=1.0)
    at_least = limited(A, (ce.CVaR(0.05), least.value))
    assert at_least.converged
    assert at_least.limit_values[0] <= least.value * (1.0 + 1e-9)
    loose = limited(A, (ce.CVaR(0.05), 1.0))
    assert loose.theta.max() == 1.0
    assert loose.binding == ()
    assert loose.limit_multipliers.tolist() == [0.0]


# -- sets and weights -------------------------------------------------------------------------------------------------


def test_weights_are_those_of_limits_without_their_own():
    A, p = 100.0 * returns(400, 5, 12) - [0.1, 0.2, 0.3, 0.4, 0.5], np.linspace(1.0, 3.0, 400)
    loss = ce.LinearLoss(A)
    own, shared = (
        ce.minimize(
            loss, ce.Mean(), domain=ce.Simplex(), weights=p, limits=[ce.Limit(loss, ce.CVaR(0.1), 2.0, weights=each)]
        )
        for each in (p, None)
    )
    assert shared.value == own.value


def test_nothing_held_is_an_answer():
    A = 100.0 * returns(200, 4, 16)
    found = limited(A, (ce.CVaR(0.1), 1.0), objective=ce.CVaR(0.5), domain=ce.Box(-1.0, 1.0))
    assert found.converged
    assert found.value == pytest.approx(0.0, abs=1e-9)
    a = np.array([-0.76, 0.04, 0.44, 1.41, 0.0, 0.49, 0.39, -0.69])
    slack = (ce.CVaR(0.5), 9.0)
    found = limited(np.column_stack([a, a]), slack, objective=ce.CVaR(0.3), domain=ce.Box([-1.0, -1.0], [0.7, 0.7]))
    assert found.converged
    assert found.value == pytest.approx(0.0, abs=1e-12)


# -- sets without bounds ----------------------------------------------------------------------------------------------


def free_problem():
    rng = np.random.default_rng(0)
    market = rng.standard_t(5, size=(400, 1))
    return -(rng.standard_t(5, size=(400, 4)) + market + [0.05, 0.1, 0.15, 0.2])


@pytest.mark.parametrize(
    "limits",
    [
        [(ce.CVaR(0.05), 3.0)],
        [(ce.MeanVariance(0.05), 3.0)],
        [(ce.EVaR(0.1), 3.0)],
        [(ce.CVaR(0.1), 3.0), (ce.MeanVariance(0.2), 0.5)],
    ],
    ids=repr,
)
@pytest.mark.parametrize("domain", [ce.Free(), ce.Box(0.0, np.inf), ce.Box(-np.inf, 0.5)], ids=repr)
def test_limits_alone_bound_the_problem(domain, limits):
    A = free_problem()
    w = np.full(len(A), 1.0 / len(A))
    found = limited(A, *limits, domain=domain)
    assert found.converged
    assert found.gap <= 1e-9 * abs(found.value)
    assert found.radius >= 5.0 * np.abs(found.theta).max()
    assert domain.contains(found.theta, 1e-12)
    theta = cp.Variable(4)
    low, high = np.broadcast_to(domain.lower, 4), np.broadcast_to(domain.upper, 4)
    rows = [theta[j] >= low[j] for j in range(4) if np.isfinite(low[j])]
    rows += [theta[j] <= high[j] for j in range(4) if np.isfinite(high[j])]
    for risk, level in limits:
        assert float(ce.oce(A @ found.theta, risk)) <= level * (1.0 + 1e-9)
        value, more = cone(risk, A @ theta, w)
        rows += [value <= level, *more]
    known = cp.Problem(cp.Minimize(A.mean(axis=0) @ theta), rows).solve(solver=cp.CLARABEL)
    # Not above, and no further below than a cone solver is accurate.
    assert -1e-5 * abs(known) <= found.value - known <= 1e-8 * abs(known)


def test_without_bounds_in_other_units_and_with_hedges():
    A = free_problem()
    known = limited(A, (ce.CVaR(0.05), 3.0), domain=ce.Free())
    millions = limited(1e6 * A, (ce.CVaR(0.05), 3.0), domain=ce.Free())
    assert millions.theta == pytest.approx(1e-6 * known.theta, rel=1e-6)
    twice = limited(A[:, [0, 1, 2, 3, 3]], (ce.CVaR(0.05), 3.0), domain=ce.Free())
    assert twice.converged
    assert twice.value == pytest.approx(known.value, rel=1e-9)
    # Thousands of one asset against another, from where no box of the first sizes reaches.
    near = A[:, 0] + 1e-4 * np.random.default_rng(1).normal(size=len(A)) - 1e-5
    hedged = limited(np.column_stack([A, near]), (ce.CVaR(0.05), 3.0), domain=ce.Free())
    assert hedged.converged
    assert hedged.value < known.value
    assert np.abs(hedged.theta).max() > 100.0
    # The minimum risk of a return of at least 500, if a unit earns some 0.2: both are positively homogeneous.
    far, small = (
        limited(A, (ce.Mean(), level), objective=ce.CVaR(0.05), domain=ce.NonNegative()) for level in (-500.0, -5.0)
    )
    assert far.converged
    assert far.limit_values[0] == pytest.approx(-500.0, rel=1e-9)
    assert far.value == pytest.approx(100.0 * small.value, rel=1e-8)
    for domain in (ce.Free(), ce.Box(-1.0, 1.0)):  # nothing but 0 keeps a limit of 0
        found = limited(A, (ce.CVaR(0.05), 0.0), domain=domain)
        assert found.value == pytest.approx(0.0, abs=1e-7)
        assert found.limit_values[0] <= 1e-7


# -- what cannot be met -----------------------------------------------------------------------------------------------


def test_what_no_limit_bounds_names_the_direction():
    A = free_problem()
    first = ce.LinearLoss(A * [1.0, 0.0, 0.0, 0.0])
    with pytest.raises(ce.UnboundedError, match="unbounded under its limits.*asset [123].*no bound, row or limit") as e:
        ce.minimize(ce.LinearLoss(A), ce.Mean(), domain=ce.Free(), limits=[ce.Limit(first, ce.CVaR(0.05), 3.0)])
    assert A.mean(axis=0) @ e.value.direction < 0.0
    with pytest.raises(InfeasibleLimitsError, match="least value there is"):
        limited(A, (ce.CVaR(0.05), -50.0), domain=ce.Free())


def test_a_limit_that_cannot_be_met_is_named_with_its_minimum():
    A = 100.0 * returns(200, 4, 13)
    least = solve_exact(A, ce.CVaR(0.1), lower=0.0, C=np.ones(4), c=1.0).value
    with pytest.raises(ce.InfeasibleError, match=r"limits\[1\] \(CVaR.*cannot be met.*least value") as raised:
        limited(A, (ce.EVaR(0.1), 100.0), (ce.CVaR(0.1), least - 0.1))
    error = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(error, InfeasibleLimitsError)
    assert error.limits == (1,)
    assert error.least[0] == pytest.approx(least, rel=1e-9)
    limited(A, (ce.CVaR(0.1), error.least[0]))


@pytest.mark.parametrize("third", [False, True])
def test_limits_that_conflict_are_named_with_levels_that_do_not(third):
    rng = np.random.default_rng(14)
    A, B = rng.normal([0.0, 1.0, 0.5], 1.0, size=(200, 3)), rng.normal([1.0, 0.0, 0.5], 1.0, size=(150, 3))
    one, other = ce.LinearLoss(A), ce.LinearLoss(B)
    leasts = [solve_exact(T, ce.CVaR(0.2), lower=0.0, C=np.ones(3), c=1.0).value for T in (A, B)]
    limits = [ce.Limit(one, ce.CVaR(0.2), leasts[0] + 1e-3), ce.Limit(other, ce.CVaR(0.2), leasts[1] + 1e-3)]
    if third:
        limits.insert(1, ce.Limit(one, ce.EVaR(0.5), 50.0))
    with pytest.raises(InfeasibleLimitsError, match="each be met.*not together") as raised:
        ce.minimize(one, ce.Mean(), domain=ce.Simplex(), limits=limits)
    error = raised.value
    assert error.limits == ((0, 2) if third else (0, 1))
    theta, s = cp.Variable(3, nonneg=True), cp.Variable()
    rows = [cp.sum(theta) == 1]
    for limit in (limits[0], limits[-1]):
        T = limit.loss.samples
        value, more = cone(limit.risk, T @ theta, np.full(len(T), 1.0 / len(T)))
        rows += [value <= limit.level + s, *more]
    assert error.excess == pytest.approx(cp.Problem(cp.Minimize(s), rows).solve(solver=cp.CLARABEL), abs=1e-6)
    raised_levels = dict(zip(error.limits, error.least, strict=True))
    met = [ce.Limit(limit.loss, limit.risk, raised_levels.get(j, limit.level)) for j, limit in enumerate(limits)]
    assert ce.minimize(one, ce.Mean(), domain=ce.Simplex(), limits=met).converged
