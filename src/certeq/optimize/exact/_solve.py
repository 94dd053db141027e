"""solve_exact and solve_panel: check the problem, find a start, descend, and prove how good the answer is."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from certeq._checks import check_count, check_number
from certeq._table import Block, Table
from certeq._threads import one_blas_thread
from certeq.optimize.domains import UnboundedError
from certeq.optimize.domains._rows import (
    Constraints,
    PresolvedRows,
    feasible_point,
    implied_box,
    onto_rows,
    presolve_rows,
    restore,
)
from certeq.optimize.exact._certificate import (
    Certificate,
    Prove,
    conclude,
    evidence_in_memory,
    l1_reach,
    prove_alone,
    tangent_problem,
    tilt_of,
    with_squares,
)
from certeq.optimize.exact._descent import Answer, BlockDescent, Descent
from certeq.optimize.exact._model import Model, dual_pairs, normalize
from certeq.optimize.exact._oracle import Scenarios, Units
from certeq.optimize.exact._problem import ExactResult, Problem, read_problem, read_start, without_offsets
from certeq.optimize.exact._recession import UnboundedDirection
from certeq.optimize.exact._start import ScenarioSummary, Worst, at_once, first_point, scan
from certeq.optimize.exact._working_set import FEW
from certeq.risk.solvers import solve_long, value_near
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
    if rows.constraints is not asked:
        problem = replace(problem, polyhedron=rows.constraints)
    single = isinstance(problem.utility.shape, Quadratic) and problem.table.shape[1] <= FEW
    if given is None and len(problem.weights) >= _MANY and not single:
        step = max(2, 3 * len(problem.weights) // _MANY)
        some = np.ascontiguousarray(problem.table[::step])
        given = _from_a_part(problem, some, problem.weights[::step], tol, deadline)
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
        except UnboundedDirection as found_direction:
            raise unbounded_error(problem, found_direction.direction) from None
        proof = _prove(problem, box, model, answer)
    if proof.relative > tol:
        proof = _without_the_solver(problem, box, model, proof)
    found, late = proof.certificate, time.perf_counter() > deadline
    steps = [(value * model.loss, gap * model.loss, seconds, size) for value, gap, seconds, size in answer.trace]
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
        multipliers=_multipliers(found, rows, asked),
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
        support = np.where(answer.seat >= 0, form.kink_locations[answer.seat], support)
    spread = np.minimum(model.scenarios.root_mean_square(), problem.largest)
    tangent = tangent_problem(problem, theta)
    sums = evidence_in_memory(tangent, form, theta, t, support, answer.tilt, spread)
    found = conclude(sums, form, tangent.linear, problem.polyhedron, box, theta, t, y, z, model.holding)
    found = with_squares(found, problem, box, theta, z, model.holding)
    return _Proof(theta, t, answer.tilt, found, found.gap / max(abs(found.value), 1e-2 * model.loss))


def _without_the_solver(problem: Problem, box: tuple[Vector, Vector], model: Model, proof: _Proof) -> _Proof:
    """The proof that theta alone admits, where the method did not converge; taken where it is the better one.

    The tilt that is returned is that of theta in any case: it sums to 1 whatever the solver did.
    """
    theta, form, table = proof.theta, form_of(problem.utility), problem.as_table()
    t, linear = _threshold_at(problem, theta), tangent_problem(problem, theta).linear
    found, kernel = prove_alone(table, form, linear, problem.polyhedron, box, 1.0, theta, t, model.holding)
    found = with_squares(found, problem, box, theta, found.z, model.holding)
    tilt = table.elementwise(kernel)
    if found.gap < proof.certificate.gap:
        return _Proof(theta, t, tilt, found, found.gap / max(abs(found.value), 1e-2 * model.loss))
    return replace(proof, tilt=tilt)


def _threshold_at(problem: Problem, theta: Vector) -> float:
    losses = problem.as_table().elementwise(_Losses(theta))
    even = bool((problem.weights == problem.weights[0]).all())
    return value_near(losses, None if even else problem.weights, form_of(problem.utility))[1]


@dataclass(frozen=True)
class _Losses:
    """The kernel of the losses at theta."""

    theta: Vector

    def __call__(self, block: Block) -> Vector:
        return np.asarray(block.rows @ self.theta)


def _multipliers(found: Certificate, rows: PresolvedRows, asked: Constraints) -> dict[str, Vector]:
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


def _summing_to_one(problem: Problem, proof: _Proof) -> Vector:
    """The tilt without what rounding left of its sum; the certificate has used it as it was.

    A gap that is small beside the value may be reached by a tilt that is not yet one: then it is that of theta.
    """
    tilt, total = proof.tilt, float(proof.tilt.sum())
    if abs(total - 1.0) >= 1e-9:
        table, t = problem.as_table(), _threshold_at(problem, proof.theta)
        tilt = table.elementwise(tilt_of(table, form_of(problem.utility), 1.0, proof.theta, t))
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


def _from_a_part(problem: Problem, table: Vector, weights: Vector | None, tol: float, deadline: float) -> Vector | None:
    """The solution for some of the scenarios: a start so near that a few steps on all of them are enough."""
    squares = problem.squares
    try:
        found = solve_exact(
            table,
            problem.utility,
            weights=weights,
            linear=problem.linear,
            quadratic=None if squares is None else squares.given(),
            **problem.polyhedron.as_arguments(),
            tol=max(tol, 1e-6),
            time_limit=_left(deadline, 0.5),
        )
    except UnboundedError:  # fewer scenarios can be unbounded where all of them are not
        return None
    return found.theta


def _left(deadline: float, share: float = 1.0) -> float | None:
    """A share of the time that is left."""
    return None if deadline == np.inf else max(1e-3, share * (deadline - time.perf_counter()))


def _movable(model: Model) -> NDArray[np.intp]:
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
) -> Answer:
    if warm:
        point, assets = model.evaluate(theta), None
    else:
        point, assets = first_point(model, theta, movable, deadline)
    descent = Descent(model, point, movable, deadline)
    size = min(1.0, max(abs(point.value), 1e-2))
    # A tilt sums to 1 up to rounding, which the largest loss multiplies: no step makes an estimated gap less than that.
    rounding = min(2e-15 * float(np.abs(point.losses).max()), 1e-2 * tol * size)
    target = max(1e-3 * tol * size, 2e-15 * max(1.0, abs(point.value)), rounding)
    return descent.run(target, max_iter, assets, warm)


def unbounded_error(problem: Problem, along: Vector) -> UnboundedError:
    """The error that names the assets along which the objective falls for ever."""
    direction = along / float(np.max(np.abs(along)))
    order = np.argsort(-np.abs(direction), kind="stable")[:3]
    named = ", ".join(f"{direction[j]:+.3g} of asset {j}" for j in order if abs(direction[j]) > 1e-6)
    return UnboundedError(
        f"The problem is unbounded under {problem.utility!r}: the objective falls for ever along {named}"
        f"{', ...' if np.sum(np.abs(direction) > 1e-6) > 3 else ''}, which no bound or row limits. "
        "Add bounds, a budget or a utility that fears such losses.",
        direction,
    )


_RESCUES = 6  # starts from the worst scenarios, where the first one got nowhere
_DRAWN = 1 << 26  # bytes of rows that are solved in memory first
_WHOLE = 1 << 25  # bytes of a panel that is read as a whole


@dataclass(frozen=True)
class PanelResult:
    """As `ExactResult`, without a tilt: it has one entry per scenario and stays where the scenarios are.

    ``passes`` counts how often the panel was read; ``trace`` holds (value, gap, seconds, rows kept near a kink).
    """

    theta: Vector
    value: float
    gap: float
    lower_bound: float
    relative_gap: float
    threshold: float
    status: str
    iterations: int
    passes: int
    trace: list[tuple[float, float, float, int]] = field(repr=False)
    multipliers: dict[str, Vector] = field(repr=False)
    radius: float = np.inf
    tilt: None = None


def solve_panel(
    panel: Table,
    utility: Utility,
    *,
    weights: Any = None,
    linear: Any = None,
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
) -> PanelResult:
    """`solve_exact` for scenarios that are read in blocks, from a file or on a cluster; the same arguments.

    Notes
    -----
    One pass checks the rows and draws a few of them, whose solution is the start. From there each step is one pass at
    a trial (theta, t): sums of u, u' and u'' over the rows, and, where u has kinks, the rows near them, which alone
    are kept. The subproblem is that of the solver in memory. A last pass proves the gap in the caller's units.
    A panel of 32 MB at most is brought into memory by its first pass, and solved there.
    Where that leads nowhere the worst scenarios at the point reached are brought in beside the draw, for a new start.
    Where more scenarios than fit the memory set aside lie at a kink (one loss repeated a million times), the method
    may end as "stalled", with a gap that is valid; merge equal scenarios into one with a weight then.
    """
    began = time.perf_counter()
    check_limits(tol, max_iter, time_limit)
    panel = panel if weights is None else panel.with_weights(weights)
    deadline = np.inf if time_limit is None else began + time_limit
    assets = panel.shape[1]
    # The arguments are checked as those of the solver in memory, beside a row that stands for all.
    asked = read_problem(np.zeros((1, assets)), utility, None, linear, lower, upper, C, c, G, b)
    given = read_start(theta0, assets)
    box, rows = implied_box(asked.polyhedron), presolve_rows(asked.polyhedron)
    with one_blas_thread():
        whole = 8 * len(panel) * assets <= _WHOLE
        rows_drawn = min(max(len(panel) // 4, 16), max(1000, _DRAWN // (8 * assets)))
        summary = scan(panel, len(panel) if whole else rows_drawn)
        if whole:
            return _in_memory(asked, summary, given, tol, max_iter, deadline)
        problem = replace(asked, polyhedron=rows.constraints)
        if given is None:
            given = _from_a_part(problem, summary.drawn, summary.drawn_weights, tol, deadline)
        order = np.argsort(problem.linear + summary.center + summary.deviation, kind="stable")
        start = feasible_point(rows, *box, given, order, FEW)
        # Only center and scale are asked of the scenarios here, and both are known for the whole panel.
        model = normalize(problem, cast(Scenarios, summary), start, *box)
        units = Units(summary.center, summary.scale, summary.mass)
        widest = summary.biggest * l1_reach(rows.constraints, *box) + abs(utility.anchor)
        descent = BlockDescent(panel, model, units, _movable(model), widest / model.loss, deadline)
        t, width = _first_threshold(model, units, summary, start / model.holding)
        # The size of the objective, which a relative gap is relative to.
        size = min(1.0, max(abs(t + float(model.linear @ start) / model.holding), 1e-2))
        try:
            answer = descent.run(np.append(start / model.holding, t), width, 1e-2 * tol * size, max_iter)
            for _ in range(_RESCUES):
                if answer.gap <= tol * size or descent.iterations >= max_iter or time.perf_counter() > deadline:
                    break
                # Where u is steep a few of the worst scenarios decide, and no draw holds them all.
                theta = answer.point.v[:-1]
                worst, _, worst_weights = panel.reduce(Worst(theta, rows_drawn))
                descent.passes += 1
                part = summary.with_tail(panel.take(worst), worst_weights, theta)
                better = _from_a_part(problem, part.drawn, part.drawn_weights, tol, deadline)
                if better is None:
                    break
                start = feasible_point(rows, *box, better, order, FEW)
                t, width = _first_threshold(model, units, part, start / model.holding)
                answer = descent.run(np.append(start / model.holding, t), width, 1e-2 * tol * size, max_iter)
        except UnboundedDirection as found_direction:
            raise unbounded_error(problem, found_direction.direction) from None
        point = answer.point
        theta = tidied(problem, model, point.v[:-1])
        q, scale = rows.constraints, summary.scale
        y = answer.y * scale / np.linalg.norm(q.C, axis=1)
        z = answer.z * scale / np.linalg.norm(q.G, axis=1)
        t = float(point.v[-1]) * model.loss + float(summary.center @ theta)
        kept = point.kept.pick(slice(0, answer.covered))
        order_of_ids = np.argsort(kept.ids)
        support, slope = dual_pairs(kept.raw @ theta - t, answer.hinges, answer.share, form_of(utility))
        kernel = Prove(
            theta,
            t,
            form_of(utility),
            units.mass,
            support[order_of_ids],
            (kept.weights * slope)[order_of_ids],
            kept.ids[order_of_ids],
        )
        proof = conclude(panel.reduce(kernel), kernel.form, problem.linear, q, box, theta, t, y, z, model.holding)
        # The solution of a draw may hold next to nothing; what counts as small is measured as in memory, by a plain
        # point.
        plain = feasible_point(rows, *box, None, order, FEW)
        unit = max(model.loss, normalize(problem, cast(Scenarios, summary), plain, *box).loss)
        if proof.gap > tol * max(abs(proof.value), 1e-2 * unit):
            found = solve_long(panel.losses(theta), utility)
            descent.passes += found.passes + 2
            alone, _ = prove_alone(
                panel, form_of(utility), problem.linear, q, box, units.mass, theta, found.threshold, model.holding
            )
            if alone.gap < proof.gap:
                proof, t = alone, found.threshold
    relative = proof.gap / max(abs(proof.value), 1e-2 * unit)
    late, exhausted = time.perf_counter() > deadline, descent.iterations >= max_iter
    return PanelResult(
        theta=theta,
        value=proof.value,
        gap=proof.gap,
        lower_bound=proof.lower_bound,
        relative_gap=relative,
        threshold=t,
        status=status_of(relative <= tol, exhausted, late),
        iterations=descent.iterations,
        passes=descent.passes + 2,
        trace=[(value * model.loss, gap * model.loss, seconds, size) for value, gap, seconds, size in descent.trace],
        multipliers=_multipliers(proof, rows, asked.polyhedron),
        radius=proof.radius,
    )


def _in_memory(
    asked: Problem, summary: ScenarioSummary, given: Vector | None, tol: float, max_iter: int, deadline: float
) -> PanelResult:
    """A panel so small that the pass which looks at it brings it along: as a table in memory."""
    found = solve_exact(
        summary.drawn,
        asked.utility,
        weights=summary.drawn_weights,
        linear=asked.linear,
        **asked.polyhedron.as_arguments(),
        theta0=given,
        tol=tol,
        max_iter=max_iter,
        time_limit=_left(deadline),
    )
    shared = {name: getattr(found, name) for name in PanelResult.__dataclass_fields__ if name not in ("passes", "tilt")}
    return PanelResult(**shared, passes=1)


def _first_threshold(model: Model, units: Units, summary: ScenarioSummary, theta: Vector) -> tuple[float, float]:
    """The threshold of the rows drawn, and how near a kink a row must be to be kept at first.

    The solution of m rows is off by about sqrt(d/m) of a deviation, and so are the losses there.
    """
    losses = units.rows(summary.drawn) @ theta
    count = len(losses)
    raw = summary.drawn_weights
    t = value_near(losses, None if raw is None else raw / raw.sum(), model.form)[1]
    spread = float(np.std(losses)) or 1.0
    return t, 3.5 * spread * min(1.0, float(np.sqrt(len(theta) / count)))
