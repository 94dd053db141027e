"""solve_exact: check the problem, find a start, descend, and prove how good the answer is."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import check_count, check_number
from certeq._threads import one_blas_thread
from certeq.optimize.domains import UnboundedError
from certeq.optimize.domains._rows import feasible_point, implied_box, onto_rows, presolve_rows, restore
from certeq.optimize.exact.certificate import Certificate, best_multipliers, certify, closed_box
from certeq.optimize.exact.model import Model, normalize
from certeq.optimize.exact.problem import Problem, read_problem, read_start, without_offsets
from certeq.optimize.exact.recession import Escape
from certeq.optimize.exact.result import ExactResult
from certeq.optimize.exact.scenarios import Scenarios
from certeq.optimize.exact.solver import Answer, Descent
from certeq.optimize.exact.stages import at_once, first_point
from certeq.optimize.exact.tangent import tangent_problem, with_squares
from certeq.optimize.exact.threshold import threshold
from certeq.optimize.exact.working_set import FEW
from certeq.utilities import Quadratic, Utility
from certeq.utilities.forms import form as form_of

Vector = NDArray[np.float64]

_ANEW = 20  # steps from which on half of them are kept for a second start
_MANY = 60_000  # from this many scenarios on, a third of that number is solved first


def solve_exact(
    A: Any,
    utility: Utility,
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
    r"""Minimize  OCE_u(A theta) + linear.theta  over  {lower <= theta <= upper, C theta = c, G theta <= b}.

    A convex quadratic term may be added.

    Parameters
    ----------
    A : array, shape (M, d)
        Losses of M scenarios, d assets. Not copied where it is large; read in blocks.
    utility : Utility
        Any utility with a curvature: smooth, kinked, or a sum of both.
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

    Raises
    ------
    InfeasibleError, UnboundedError
        Both a ValueError. No point satisfies the constraints, or the objective falls for ever; the message names
        the constraint or the direction to blame.

    Notes
    -----
    The threshold t is a variable like the others, so the model of a step is a quadratic plus one hinge per kink and
    scenario nearby, in (theta, t). An interior point method solves it on a working set of assets, its active set
    is solved exactly, and reduced costs and misplaced scenarios enlarge the sets until nothing is left out.
    Where no kink exists and the active set repeats, a step is a single Newton step of quadratic convergence.
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
    deadline = np.inf if time_limit is None else began + time_limit
    with one_blas_thread():
        first = max_iter if given is not None or max_iter < _ANEW else max_iter // 2
        found = _solve(problem, given, tol, first, deadline)
        if found.status != "optimal" and given is None and first < max_iter and time.perf_counter() < deadline:
            # Units, working sets and trust region are chosen anew from where it ended, and that may be enough.
            again = _solve(problem, found.theta, tol, max_iter - first, deadline)
            again = replace(again, iterations=found.iterations + again.iterations)
            found = again if again.gap < found.gap else replace(found, iterations=again.iterations)
    return found


def _solve(problem: Problem, given: Vector | None, tol: float, max_iter: int, deadline: float) -> ExactResult:
    began = time.perf_counter()
    asked = problem.polyhedron
    box = implied_box(asked)
    rows = presolve_rows(asked)
    problem = replace(problem, polyhedron=rows.constraints)
    single = isinstance(problem.utility.shape, Quadratic) and problem.table.shape[1] <= FEW
    if given is None and len(problem.weights) >= _MANY and not single:
        given = _from_a_sample(problem, tol, deadline)
    scenarios = Scenarios(problem.table, problem.weights)
    problem, offset = without_offsets(problem, scenarios.center, scenarios.deviation)
    if offset.any():
        scenarios = Scenarios(problem.table, problem.weights)
    order = np.argsort(problem.linear + scenarios.center + scenarios.deviation, kind="stable")
    start = feasible_point(rows, *box, given, order, FEW)
    model = normalize(problem, scenarios, start, *box)
    theta, movable = start / model.holding, _movable(model)
    answer = None if given is not None else at_once(model, theta, movable)
    proof = None if answer is None else _prove(problem, box, model, answer)
    if answer is None or proof is None or proof.relative > tol:
        try:
            answer = _descend(model, theta, movable, given is not None, tol, max_iter, deadline)
        except Escape as escape:
            raise unbounded_error(problem, escape) from None
        proof = _prove(problem, box, model, answer)
    if proof.relative > tol:
        proof = _without_the_solver(problem, box, model, proof)
    found, late = proof.certificate, time.perf_counter() > deadline
    reduced = found.slope - found.y @ rows.constraints.C + found.z @ rows.constraints.G
    of_c, of_g = rows.multipliers(found.y, found.z, asked)
    steps = [(value * model.loss, gap * model.loss, seconds, held) for value, gap, seconds, held in answer.trace]
    return ExactResult(
        theta=proof.theta,
        value=found.value,
        gap=found.gap,
        lower_bound=found.lower_bound,
        relative_gap=proof.relative,
        threshold=proof.t + float(offset @ proof.theta),
        tilt=_all_scenarios(problem, _summing_to_one(problem, proof)),
        status=status_of(proof.relative <= tol, answer.iterations >= max_iter, late),
        iterations=answer.iterations,
        trace=steps or [(found.value, found.gap, time.perf_counter() - began, len(movable))],
        multipliers={"C": of_c, "G": of_g, "lower": np.maximum(reduced, 0.0), "upper": np.maximum(-reduced, 0.0)},
        radius=found.radius,
    )


@dataclass(frozen=True)
class _Proof:
    """The answer in the caller's units, with its certificate."""

    theta: Vector
    t: float
    tilt: Vector
    certificate: Certificate
    relative: float


def _prove(problem: Problem, box: tuple[Vector, Vector], model: Model, answer: Answer) -> _Proof:
    """Whatever led to the answer, nothing but this says how good it is."""
    q, scenarios = problem.polyhedron, model.scenarios
    theta = tidied(problem, model, answer.point.theta)
    c_norm, g_norm = q.lengths()
    y, z = answer.y * scenarios.scale / c_norm, answer.z * scenarios.scale / g_norm
    t = answer.point.t * model.loss + float(scenarios.center @ theta)
    support, form = answer.support * model.loss, form_of(problem.utility)
    if answer.seat is not None:  # on a kink in the caller's units as well, whose rounding is another
        support = np.where(answer.seat >= 0, form.places[answer.seat], support)
    return _certified(problem, box, model, theta, t, support, answer.tilt, y, z)


def _certified(
    problem: Problem,
    box: tuple[Vector, Vector],
    model: Model,
    theta: Vector,
    t: float,
    support: Vector,
    tilt: Vector,
    y: Vector,
    z: Vector,
) -> _Proof:
    spread = np.minimum(model.scenarios.root_mean_square(), problem.largest)
    tangent = tangent_problem(problem, theta)
    form = form_of(problem.utility)
    found = certify(tangent, form, box, theta, t, support, tilt, y, z, model.holding, spread)
    found = with_squares(found, problem, box, theta, z, model.holding)
    return _Proof(theta, t, tilt, found, found.gap / max(abs(found.value), 1e-2 * model.loss))


def _without_the_solver(problem: Problem, box: tuple[Vector, Vector], model: Model, proof: _Proof) -> _Proof:
    """The proof that theta alone admits, where the method did not converge: its own tilt, and the best multipliers.

    The tilt of the losses at theta sums to 1 whatever the solver did, and the gap is that of Frank and Wolfe. It is
    taken where it is the better one; the tilt that is returned is that of theta in any case.
    """
    theta = proof.theta
    losses, t, tilt = _tilt_at(problem, theta)
    g = tangent_problem(problem, theta).linear + sum(tilt[rows] @ block for rows, block in problem.blocks())
    if not np.isfinite(g).all():
        return proof
    low, high, _ = closed_box(box, theta, model.holding, g)
    y, z = best_multipliers(g, problem.polyhedron, low, high)
    found = _certified(problem, box, model, theta, t, losses - t, tilt, y, z)
    if found.certificate.gap < proof.certificate.gap:
        return found
    return replace(proof, tilt=tilt)


def _tilt_at(problem: Problem, theta: Vector) -> tuple[Vector, float, Vector]:
    """The losses at theta, their threshold and their tilt."""
    form, w = form_of(problem.utility), problem.weights
    losses = np.concatenate([block @ theta for _, block in problem.blocks()])
    with np.errstate(all="ignore"):
        t = threshold(losses, w, form)
        left, right = form.slopes(losses, t)
        below, above = float(w @ left), float(w @ right)
        share = min(max((1.0 - below) / (above - below), 0.0), 1.0) if above > below else 0.0
        return losses, t, w * (left + share * (right - left))


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


def _summing_to_one(problem: Problem, proof: _Proof) -> Vector:
    """The tilt without what rounding left of its sum; the certificate has used it as it was.

    A gap that is small beside the value may be reached by a tilt that is not yet one: then it is that of theta.
    """
    tilt, total = proof.tilt, float(proof.tilt.sum())
    if abs(total - 1.0) >= 1e-9:
        tilt = _tilt_at(problem, proof.theta)[2]
        total = float(tilt.sum())
    return tilt / total if problem.utility.is_monotone and abs(total - 1.0) < 1e-9 else tilt


def _all_scenarios(problem: Problem, tilt: Vector) -> Vector:
    """Scenarios of weight 0 were left out; their tilt is 0."""
    if problem.kept is None:
        return tilt
    full = np.zeros(problem.count)
    full[problem.kept] = tilt
    return full


def check_limits(tol: float, max_iter: int, time_limit: float | None) -> None:
    """Refuse limits that make no sense."""
    check_number("tol", tol, above=0.0, finite=False)
    check_count("max_iter", max_iter)
    if time_limit is not None:
        check_number("time_limit", time_limit, "a number of seconds above 0", above=0.0, finite=False)


def _from_a_sample(problem: Problem, tol: float, deadline: float) -> Vector | None:
    """The solution for every k-th scenario: a start so near that two or three steps on all of them are enough."""
    step = max(2, 3 * len(problem.weights) // _MANY)
    squares = problem.squares
    try:
        found = solve_exact(
            np.ascontiguousarray(problem.table[::step]),
            problem.utility,
            weights=problem.weights[::step],
            linear=problem.linear,
            quadratic=None if squares is None else squares.given(),
            **problem.polyhedron.as_arguments(),
            tol=max(tol, 1e-6),
            time_limit=None if deadline == np.inf else max(1e-3, 0.5 * (deadline - time.perf_counter())),
        )
    except UnboundedError:  # fewer scenarios can be unbounded where all of them are not
        return None
    return found.theta


def _movable(model: Model) -> NDArray[np.intp]:
    """The assets whose bounds leave them room."""
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
) -> Answer:
    assets = t = None
    if not warm:
        theta, assets, t = first_point(model, theta, movable, deadline)
    descent = Descent(model, theta, movable, deadline, t)
    point = descent.point
    size = min(1.0, max(abs(point.value), 1e-2))
    # A tilt sums to 1 up to rounding, which the largest loss multiplies: no step makes an estimated gap less than that.
    rounding = min(2e-15 * float(np.abs(point.losses).max()), 1e-2 * tol * size)
    target = max(1e-3 * tol * size, 2e-15 * max(1.0, abs(point.value)), rounding)
    return descent.run(target, max_iter, assets, warm)


def unbounded_error(problem: Problem, escape: Escape) -> UnboundedError:
    """The error that names the assets along which the objective falls for ever."""
    direction = escape.direction / float(np.max(np.abs(escape.direction)))
    order = np.argsort(-np.abs(direction), kind="stable")[:3]
    named = ", ".join(f"{direction[j]:+.3g} of asset {j}" for j in order if abs(direction[j]) > 1e-6)
    return UnboundedError(
        f"The problem is unbounded under {problem.utility!r}: the objective falls for ever along {named}"
        f"{', ...' if np.sum(np.abs(direction) > 1e-6) > 3 else ''}, which no bound or row limits. "
        "Add bounds, a budget or a utility that fears such losses.",
        direction,
    )
