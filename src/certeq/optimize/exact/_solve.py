"""solve_exact: check the problem, find a start, descend, and prove how good the answer is."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import check_count, check_number
from certeq._table import ArrayTable, Block
from certeq._threads import one_blas_thread
from certeq.optimize.domains import InfeasibleError, UnboundedError
from certeq.optimize.domains._rows import (
    Constraints,
    PresolvedRows,
    feasible_point,
    implied_box,
    onto_rows,
    presolve_rows,
    restore,
)
from certeq.optimize.exact._certificate import Certificate, conclude, prove_alone, tangent_problem, with_squares
from certeq.optimize.exact._evidence import evidence_in_memory, tilt_of
from certeq.optimize.exact._memory_oracle import Answer, MemoryOracle
from certeq.optimize.exact._model import LEAST_SCALE, Model, normalize
from certeq.optimize.exact._problem import (
    ExactResult,
    PartResult,
    Problem,
    Share,
    in_units,
    read_problem,
    read_start,
    read_weights,
    units_of_columns,
    without_offsets,
)
from certeq.optimize.exact._recession import UnboundedDirection
from certeq.optimize.exact._risk import (
    SampleRows,
    best_inner,
    cost_of_constants,
    is_quadratic,
    parts_at,
    thresholds_of,
    times,
    with_least,
)
from certeq.optimize.exact._scales import ASIDE, bounded_scales, with_smaller_scales
from certeq.optimize.exact._scenarios import Scenarios
from certeq.optimize.exact._start import at_once, first_point
from certeq.optimize.exact._working_set import FEW
from certeq.utilities import Risk
from certeq.utilities.forms import Inner

Vector = NDArray[np.float64]

_ANEW = 20  # steps from which on half of them are kept for a second start
FEW_DIGITS = 1e-8  # the least scale s beside losses of size 1 where a tilt is made of it
ABOVE_ROUNDING = 2e-13  # of the threshold: so large a scale is told from the roundings of losses
_MANY = 60_000  # from this many scenarios on, a third of that number is solved first
_WORSE = 6  # answers under smaller and smaller scales s, none of them better than one that was
_NEARLY = 100.0  # times the tolerance: that one is the minimum but for rounding


def solve_exact(
    A: Any,
    utility: Risk,
    *,
    weights: Any = None,
    linear: Any = None,
    quadratic: Any = None,
    lower: Any = None,
    upper: Any = None,
    C: Any = None,
    c: Any = None,
    G: Any = None,
    b: Any = None,
    theta0: Any = None,
    tol: float = 1e-9,
    max_iter: int = 200,
    time_limit: float | None = None,
) -> ExactResult:
    r"""Minimize  risk(A theta) + linear.theta  over  {lower <= theta <= upper, C theta = c, G theta <= b}.

    A convex quadratic term may be added.

    Parameters
    ----------
    A : array, shape (M, d)
        Losses of M scenarios, d assets. Not copied where it is large; read in blocks.
    utility : Utility or Risk
        Risk measure: any utility with a curvature, smooth, kinked, or a sum of both, for its OCE; or a risk with
        more inner variables than t: `certeq.EVaR`, a divergence ball, `certeq.HMCR`, or a `certeq.Mixture` of them.
    weights : array, shape (M,), optional
        Probabilities of the scenarios, up to a factor; equal if not given.
    linear : array, shape (d,), optional
        Costs added to the risk.
    quadratic : array, shape (d,) or (k, d), optional
        Squares added to the risk: ``quadratic @ theta**2 / 2`` where it is a vector, which must not be negative, and
        ``|F theta|**2 / 2`` where it is a matrix F, whose rows may be anything: the term is then convex by itself.
    lower, upper : float or array, optional
        Bounds; none if not given, and entries may be infinite.
    C, c, G, b : arrays, optional
        Rows of the equalities C theta = c and the inequalities G theta <= b.
    theta0 : array, shape (d,), optional
        A point to start from, such as the solution of a similar problem; it need not be feasible.
    tol : float
        Relative gap at which the answer is called optimal. The method aims a thousand times lower: near the
        solution it converges quadratically, so that the last digits cost one step.
    max_iter : int
        Limit on second-order steps.
    time_limit : float, optional
        Limit in seconds, looked at after each step.

    Returns
    -------
    ExactResult
        The point with its value, gap, tilt and multipliers.

    Raises
    ------
    InfeasibleError, UnboundedError
        Both a ValueError. No point satisfies the constraints, or the objective falls for ever; the message names
        the constraint or the direction to blame.

    See Also
    --------
    certeq.minimize
        Minimize the OCE of losses over a feasible set.
    ExactResult
        What `certeq.optimize.solve_exact` returns.

    Notes
    -----
    The threshold t is a variable like the others, and so are further inner variables: the t of every part of a mixture,
    the scale s of a ball. The model of a step is a quadratic plus one hinge per kink and scenario nearby, in theta and
    the inner variables, which are solved for exactly at every point that is tried. An interior point method solves it
    on a working set of assets, its active set is solved exactly, and reduced costs and misplaced scenarios enlarge the
    sets until nothing is left out.
    Where no kink exists and the active set repeats, a step is a single Newton step of quadratic convergence.
    Where the scale of a ball is 0 at the minimum, its risk is the largest loss, or CVaR; that problem is solved then.
    Where u is quadratic and the bounded assets are 100 at most, the model is the problem itself: its solution is
    found and proved at once.

    Examples
    --------
    >>> import numpy as np
    >>> from certeq.optimize.exact import solve_exact
    >>> from certeq.utilities import CVaR
    >>> losses = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [-1.0, -1.0]])
    >>> solve_exact(losses, CVaR(0.5), lower=0, C=[1, 1], c=1).theta
    array([0.5, 0.5])
    """
    began = time.perf_counter()
    problem = read_problem(A, utility, weights, linear, lower, upper, C, c, G, b, quadratic)
    check_limits(tol, max_iter, time_limit)
    given = read_start(theta0, problem.table.shape[1])
    return solve_problem(problem, given, tol, max_iter, np.inf if time_limit is None else began + time_limit)


def solve_problem(problem: Problem, given: Vector | None, tol: float, max_iter: int, deadline: float) -> ExactResult:
    """The solution of a problem that was read; ``given`` is a point to start from."""
    with one_blas_thread():
        first = max_iter if given is not None or max_iter < _ANEW else max_iter // 2
        found = _solve(problem, given, tol, first, deadline)
        if found.status != "optimal" and given is None and first < max_iter and time.perf_counter() < deadline:
            # Units, working sets and trust region are chosen anew from where it ended, and that may be enough.
            again = _solve(problem, found.theta, tol, max_iter - first, deadline)
            again = replace(again, iterations=found.iterations + again.iterations)
            found = again if again.gap < found.gap else replace(found, iterations=again.iterations)
    return found


def _from_units(found: ExactResult, units: Vector, problem: Problem) -> ExactResult:
    """The solution in the caller's variables, of the one in variables that are ``units`` times as large."""
    q, multipliers = problem.polyhedron, found.multipliers
    is_open = ~np.isfinite(q.upper - q.lower)
    return replace(
        found,
        theta=found.theta / units,
        radius=float((found.radius / units[is_open]).min()),
        multipliers=multipliers | {side: multipliers[side] * units for side in ("lower", "upper")},
    )


def _solve(problem: Problem, given: Vector | None, tol: float, max_iter: int, deadline: float) -> ExactResult:
    began = time.perf_counter()
    asked = problem.polyhedron
    box = implied_box(asked)
    units = None if np.isfinite(box[1] - box[0]).all() else units_of_columns(problem)
    if units is not None:
        try:
            start = None if given is None else given * units
            return _from_units(_solve(in_units(problem, units), start, tol, max_iter, deadline), units, problem)
        except (InfeasibleError, UnboundedError):
            pass  # told in the caller's units, below
    rows = presolve_rows(asked)
    if rows.constraints is not asked:
        problem = replace(problem, polyhedron=rows.constraints)
    single = problem.table.shape[1] <= FEW and is_quadratic(problem.inner)
    if given is None and len(problem.weights) >= _MANY and not single:
        step = max(2, 3 * len(problem.weights) // _MANY)
        some = [(problem.table[rows][::step], problem.weights[rows][::step]) for rows in problem.samples.rows]
        given = from_a_part(problem, some, tol, deadline)
    once = single and given is None and bool(np.isfinite(box[1] - box[0]).all())
    scenarios = Scenarios(problem.table, problem.samples, once)
    problem, offsets = without_offsets(problem, scenarios.centers, scenarios.deviation)
    if offsets.any():
        scenarios = Scenarios(problem.table, problem.samples, once, _sizes(problem, box, offsets))
    means = cost_of_constants(problem.inner, scenarios.centers)
    order = np.argsort(problem.linear + means + scenarios.deviation, kind="stable")
    start = feasible_point(rows, *box, given, order, FEW)
    far = _sizes(problem, box, scenarios.centers + offsets)[0]
    model = normalize(problem, scenarios, start, *box, far)
    theta, movable = start / model.holding, movable_assets(model)
    answer = None if given is not None else at_once(model, theta, movable)
    proof = None if answer is None else _prove(problem, box, model, answer)
    if answer is None or proof is None or proof.relative > tol:
        proof, worse = None, 0
        try:
            for answer in _descend(model, theta, movable, given is not None, tol, max_iter, deadline):
                proved = _prove(problem, box, model, answer)
                better = proof is None or proved.relative < proof.relative
                proof, worse = (proved, 0) if proof is None or better else (proof, worse + 1)
                if proof.relative <= tol or (worse >= _WORSE and proof.relative <= _NEARLY * tol):
                    break
        except UnboundedDirection as found_direction:
            raise unbounded_error(problem, found_direction.direction) from None
    assert answer is not None
    assert proof is not None
    if proof.relative > tol:
        proof = _without_the_solver(problem, box, model, proof)
    found, late = proof.certificate, time.perf_counter() > deadline
    inner = proof.inner + of_thresholds(problem.inner, offsets @ proof.theta)
    tilts = [_all_scenarios(share, _summing_to_one(problem, proof, share)) for share in problem.shares]
    parts = parts_of(problem, found, inner, tilts)
    thresholds = inner[thresholds_of(problem.inner)]
    steps = [(value * model.loss, gap * model.loss, seconds, size) for value, gap, seconds, size in answer.trace]
    return ExactResult(
        theta=proof.theta,
        value=found.value,
        gap=found.gap,
        lower_bound=found.lower_bound,
        relative_gap=proof.relative,
        threshold=float(thresholds[0]) if len(thresholds) == 1 else thresholds,
        inner=inner,
        tilt=tilts[0] if len(tilts) == 1 else np.concatenate(tilts),
        status=status_of(proof.relative <= tol, answer.iterations >= max_iter, late),
        iterations=answer.iterations,
        trace=steps or [(found.value, found.gap, time.perf_counter() - began, len(movable))],
        multipliers=multipliers_of(found, rows, asked),
        radius=found.radius,
        parts=parts,
    )


def _sizes(problem: Problem, box: tuple[Vector, Vector], constants: Vector) -> tuple[float, float]:
    """How large the constants of the assets are, and how far apart: under a budget nothing else of them matters.

    An asset that is fixed does not count: it may stand for a constant, in a unit of its own.
    """
    free = constants[:, box[1] > box[0]]
    size = float(np.abs(free).max(initial=0.0))
    apart = float(free.max() - free.min()) if free.size and len(problem.polyhedron.c) else 0.0
    return size, apart or size


def of_thresholds(inner: Inner, by_sample: Vector) -> Vector:
    """Inner variables that are 0 but for thresholds, which are given for every sample."""
    found = np.zeros(len(inner.cost))
    for term in inner.terms:
        found[term.t] = by_sample[term.sample]
    return found


@dataclass(frozen=True)
class _Proof:
    """The answer in the caller's units, with its certificate; of every term the tilt of its scenarios."""

    theta: Vector
    inner: Vector
    tilts: list[Vector]
    certificate: Certificate
    relative: float


def _prove(problem: Problem, box: tuple[Vector, Vector], model: Model, answer: Answer) -> _Proof:
    """Whatever led to the answer, nothing but this says how good it is."""
    q, scenarios = problem.polyhedron, model.scenarios
    theta = tidied(problem, model, answer.point.theta)
    c_norm, g_norm = q.lengths()
    y, z = answer.y * scenarios.scale / c_norm, answer.z * scenarios.scale / g_norm
    inner = answer.point.inner * model.loss + of_thresholds(problem.inner, scenarios.centers @ theta)
    for term in problem.inner.terms:
        if term.s is not None and answer.point.inner[term.s] == LEAST_SCALE:
            # In place of 0: as little as the roundings of losses allow, beside a cost that may be large.
            s = float(inner[term.s]) * min(1.0, 10.0 / float(problem.inner.cost[term.s]))
            s = max(s, ABOVE_ROUNDING * abs(float(inner[term.t])))
            inner[term.t] += ASIDE * (s - inner[term.s])
            inner[term.s] = s
    spread = np.minimum(model.scenarios.root_mean_square(), problem.largest)
    tangent = tangent_problem(problem, theta)
    sums = []
    for part, one in zip(parts_at(problem.inner, inner), answer.supported, strict=True):
        # The lines may belong to another s than the value: they are the same ones in units of s.
        support = one.support * (part.s / one.part.s if part.term.s is not None else model.loss)
        if one.seat is not None:  # on a kink in the caller's units as well, whose rounding is another
            support = np.where(one.seat >= 0, part.form.kink_locations[one.seat], support)
        sums.append(
            evidence_in_memory(tangent, part.term, part.form, theta, part.t, support, one.tilt, spread, one.moved)
        )
    means = scenarios.centers
    found = conclude(sums, problem.inner, tangent.linear, q, box, theta, inner, y, z, model.holding, means)
    found = with_squares(found, problem, box, theta, z, model.holding)
    return _Proof(theta, inner, [one.tilt for one in answer.supported], found, model.relative(found))


def _without_the_solver(problem: Problem, box: tuple[Vector, Vector], model: Model, proof: _Proof) -> _Proof:
    """The proof that theta alone admits, where the method did not converge; taken where it is the better one.

    The tilt that is returned is that of theta in any case: it sums to 1 whatever the solver did.
    """
    theta, tables, masses = proof.theta, problem.tables(), [1.0] * len(problem.samples)
    inner, linear = _inner_at(problem, theta), tangent_problem(problem, theta).linear
    q, means = problem.polyhedron, model.scenarios.centers
    found, kernels = prove_alone(tables, problem.inner, linear, q, box, masses, theta, inner, model.holding, means)
    found = with_squares(found, problem, box, theta, found.z, model.holding)
    tilts = [tables[term.sample].elementwise(kernel) for term, kernel in zip(problem.inner.terms, kernels, strict=True)]
    if found.gap < proof.certificate.gap:
        return _Proof(theta, inner, tilts, found, model.relative(found))
    return replace(proof, tilts=tilts)


def _inner_at(problem: Problem, theta: Vector) -> Vector:
    """The best inner variables for theta."""
    losses = ArrayTable(problem.table).elementwise(_Losses(theta))
    # Where s is nearly 0 the tilt has as many digits as s is longer than the roundings of losses.
    spread = float(losses.max() - losses.min()) or float(np.abs(losses).max()) or 1.0
    inner = with_least(problem.inner, FEW_DIGITS * spread)
    return best_inner(losses, problem.samples, inner)[1]


@dataclass(frozen=True)
class _Losses:
    """The kernel of the losses at theta."""

    theta: Vector

    def __call__(self, block: Block) -> Vector:
        return np.asarray(block.rows @ self.theta)


def multipliers_of(found: Certificate, rows: PresolvedRows, asked: Constraints) -> dict[str, Vector]:
    """Those of the caller's rows and bounds."""
    q = rows.constraints
    reduced = found.slope - found.y @ q.C + found.z @ q.G
    of_c, of_g = rows.multipliers(found.y, found.z, asked)
    return {"C": of_c, "G": of_g, "lower": np.maximum(reduced, 0.0), "upper": np.maximum(-reduced, 0.0)}


def status_of(optimal: bool, exhausted: bool, late: bool) -> str:
    """Why a run ended, in the words of its result."""
    if optimal:
        return "optimal"
    return "time limit" if late else "iteration limit" if exhausted else "stalled"


def tidied(problem: Problem, model: Model, theta: Vector) -> Vector:
    """In the caller's units, without dust, within the bounds and on the rows to rounding."""
    q = problem.polyhedron
    clean = np.where(np.abs(theta) < 1e-16, 0.0, theta) * model.holding
    clean = restore(clean, q.C, q.c, q.lower, q.upper)
    return onto_rows(q, clean) if np.any(q.G @ clean > q.b) else clean


def parts_of(
    problem: Problem, found: Certificate, inner: Vector, tilts: Sequence[Vector | None]
) -> tuple[PartResult, ...]:
    """What is known of every risk at the point found, with these inner variables."""
    parts = []
    for share, tilt in zip(problem.shares, tilts, strict=True):
        own = slice(share.terms.start, share.terms.stop)
        value = float(problem.inner.cost[share.inner] @ inner[share.inner]) + math.fsum(found.terms[own])
        thresholds = inner[[term.t for term in problem.inner.terms[own]]]
        threshold = float(thresholds[0]) if len(thresholds) == 1 else thresholds
        parts.append(PartResult(value / share.factor, threshold, inner[share.inner], tilt))
    return tuple(parts)


def _summing_to_one(problem: Problem, proof: _Proof, share: Share) -> Vector:
    """The tilt of a risk without what rounding left of its sum; the certificate has used it as it was.

    A gap that is small beside the value may be reached by a tilt that is not yet one: then it is that of theta.
    """
    terms = problem.inner.terms
    weights = [terms[k].weight / share.factor for k in share.terms]
    tilt = sum(
        [times(weight, proof.tilts[k]) for weight, k in zip(weights[1:], share.terms[1:], strict=True)],
        times(weights[0], proof.tilts[share.terms[0]]),
    )
    total = float(tilt.sum())
    if abs(total - 1.0) >= 1e-9:
        table, parts = (
            problem.tables()[terms[share.terms[0]].sample],
            parts_at(problem.inner, _inner_at(problem, proof.theta)),
        )
        tilt = sum(
            weight * table.elementwise(tilt_of(table, problem.inner, parts[k], 1.0, proof.theta))
            for weight, k in zip(weights, share.terms, strict=True)
        )
        total = float(tilt.sum())
    return tilt / total if share.risk.is_monotone and abs(total - 1.0) < 1e-9 else tilt


def _all_scenarios(share: Share, tilt: Vector) -> Vector:
    """Scenarios of weight 0 were left out; their tilt is 0."""
    if share.kept is None:
        return tilt
    full = np.zeros(share.count)
    full[share.kept] = tilt
    return full


def check_limits(tol: float, max_iter: int, time_limit: float | None) -> None:
    """Refuse limits that make no sense."""
    check_number("tol", tol, above=0.0, finite=False)
    check_count("max_iter", max_iter)
    if time_limit is not None:
        check_number("time_limit", time_limit, "a number of seconds above 0", above=0.0, finite=False)


def from_a_part(
    problem: Problem, some: Sequence[tuple[NDArray[np.floating], Vector | None]], tol: float, deadline: float
) -> Vector | None:
    """The solution for some of the scenarios: a start so near that a few steps on all of them are enough.

    They are given for each sample, with their weights.
    """
    now = time.perf_counter()
    soon = np.inf if deadline == np.inf else now + max(1e-3, 0.5 * (deadline - now))
    try:
        return solve_problem(with_scenarios(problem, some), None, max(tol, 1e-6), 200, soon).theta
    except UnboundedError:  # fewer scenarios can be unbounded where all of them are not
        return None


def with_scenarios(problem: Problem, given: Sequence[tuple[NDArray[np.floating], Vector | None]]) -> Problem:
    """The problem with other scenarios, which are given for each sample, with their weights."""
    tables, masses, shares, rows, first = [], [], list(problem.shares), [], 0
    for which, (table, weights) in enumerate(given):
        count = len(table)
        table, mass, kept = read_weights("weights", weights, table)
        shares = [
            replace(share, count=count, kept=kept) if problem.inner.terms[share.terms[0]].sample == which else share
            for share in shares
        ]
        tables.append(table)
        masses.append(mass)
        rows.append(slice(first, first := first + len(table)))
    joined = np.ascontiguousarray(tables[0]) if len(tables) == 1 else np.concatenate(tables)
    samples = SampleRows(masses[0]) if len(masses) == 1 else SampleRows(np.concatenate(masses), tuple(rows))
    largest = float(np.abs(joined).max())
    return replace(problem, table=joined, samples=samples, shares=tuple(shares), largest=largest)


def movable_assets(model: Model) -> NDArray[np.intp]:
    """The assets that their bounds do not fix."""
    width = np.where(np.isfinite(model.low), 1.0 + np.abs(model.low), 1.0)
    return (model.high - model.low > 1e-13 * width).nonzero()[0]


def _descend(
    model: Model,
    theta: Vector,
    movable: NDArray[np.intp],
    warm: bool,
    tol: float,
    max_iter: int,
    deadline: float,
) -> Iterator[Answer]:
    """Answers, each to be proved where the one before was not good enough: there is a second only if s tends to 0."""
    assets: NDArray[np.intp] | None = None
    if warm:
        model, point = bounded_scales(model, model.evaluate(theta))
    else:
        model, point, assets = first_point(model, theta, movable, deadline)
    oracle = MemoryOracle(model, point, movable, deadline)
    size = min(1.0, max(abs(point.value), 1e-2))
    # A tilt sums to 1 up to rounding, which the largest loss multiplies: no step makes an estimated gap less than that.
    rounding = min(2e-15 * float(np.abs(point.losses).max()), 1e-2 * tol * size)
    target = max(1e-3 * tol * size, 2e-15 * max(1.0, abs(point.value)), rounding)
    answer = oracle.run(target, max_iter, assets, warm)
    yield answer
    yield from with_smaller_scales(oracle, answer, target, max_iter)


def unbounded_error(problem: Problem, along: Vector) -> UnboundedError:
    """The error that names the assets along which the objective falls for ever."""
    direction = along / float(np.max(np.abs(along)))
    order = np.argsort(-np.abs(direction), kind="stable")[:3]
    named = ", ".join(f"{direction[j]:+.3g} of asset {j}" for j in order if abs(direction[j]) > 1e-6)
    return UnboundedError(
        f"The problem is unbounded under {problem.risk}: the objective falls for ever along {named}"
        f"{', ...' if np.sum(np.abs(direction) > 1e-6) > 3 else ''}, which no bound or row limits. "
        "Add bounds, a budget or a utility that weighs such losses more.",
        direction,
    )
