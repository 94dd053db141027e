"""solve_panel: the exact solver for scenarios that are read in blocks."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from certeq._table import Table
from certeq._threads import one_blas_thread
from certeq.optimize.domains._rows import feasible_point, implied_box, presolve_rows
from certeq.optimize.exact._block_descent import BlockDescent
from certeq.optimize.exact._certificate import conclude, l1_reach, prove_alone
from certeq.optimize.exact._evidence import Prove
from certeq.optimize.exact._model import Model, dual_pairs, normalize
from certeq.optimize.exact._oracle import Scenarios, Units
from certeq.optimize.exact._problem import Problem, read_problem, read_start
from certeq.optimize.exact._recession import UnboundedDirection
from certeq.optimize.exact._risk import plain_form
from certeq.optimize.exact._solve import (
    check_limits,
    from_a_part,
    movable_assets,
    multipliers_of,
    solve_problem,
    status_of,
    tidied,
    unbounded_error,
    with_scenarios,
)
from certeq.optimize.exact._start import ScenarioSummary, Worst, scan
from certeq.optimize.exact._working_set import FEW
from certeq.risk.solvers import solve_long, value_near
from certeq.utilities import Risk

Vector = NDArray[np.float64]
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
    threshold: float | Vector
    inner: Vector
    status: str
    iterations: int
    passes: int
    trace: list[tuple[float, float, float, int]] = field(repr=False)
    multipliers: dict[str, Vector] = field(repr=False)
    radius: float = np.inf
    tilt: None = None


def solve_panel(
    panel: Table,
    utility: Risk,
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
    form, inner = plain_form(asked.inner), asked.inner
    if form is None and 8 * len(panel) * assets > _WHOLE:
        raise ValueError(
            f"Scenarios that are read in blocks take a utility so far; found {utility!r}, whose risk has more inner "
            "variables than t. Bring them into memory as an array."
        )
    box, rows = implied_box(asked.polyhedron), presolve_rows(asked.polyhedron)
    with one_blas_thread():
        whole = 8 * len(panel) * assets <= _WHOLE
        rows_drawn = min(max(len(panel) // 4, 16), max(1000, _DRAWN // (8 * assets)))
        summary = scan(panel, len(panel) if whole else rows_drawn)
        if whole or form is None:
            return _in_memory(asked, summary, given, tol, max_iter, deadline)
        problem = replace(asked, polyhedron=rows.constraints)
        if given is None:
            given = from_a_part(problem, [(summary.drawn, summary.drawn_weights)], tol, deadline)
        order = np.argsort(problem.linear + summary.center + summary.deviation, kind="stable")
        start = feasible_point(rows, *box, given, order, FEW)
        # Only center and scale are asked of the scenarios here, and both are known for the whole panel.
        model = normalize(problem, cast(Scenarios, summary), start, *box)
        units = Units(summary.center, summary.scale, summary.mass)
        widest = summary.biggest * l1_reach(rows.constraints, *box) + abs(form.utility.anchor)
        descent = BlockDescent(panel, model, units, movable_assets(model), widest / model.loss, deadline)
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
                better = from_a_part(problem, [(part.drawn, part.drawn_weights)], tol, deadline)
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
        support, slope = dual_pairs(kept.raw @ theta - t, answer.hinges, answer.share, form)
        kernel = Prove(
            theta,
            t,
            form,
            units.mass,
            support[order_of_ids],
            (kept.weights * slope)[order_of_ids],
            kept.ids[order_of_ids],
        )
        proof = conclude(
            [panel.reduce(kernel)],
            inner,
            problem.linear,
            q,
            box,
            theta,
            np.array([t]),
            y,
            z,
            model.holding,
            summary.centers,
        )
        # The solution of a draw may hold next to nothing; what counts as small is measured as in memory, by a plain
        # point.
        plain = feasible_point(rows, *box, None, order, FEW)
        unit = max(model.loss, normalize(problem, cast(Scenarios, summary), plain, *box).loss)
        if proof.gap > tol * max(abs(proof.value), 1e-2 * unit):
            found = solve_long(panel.losses(theta), form.utility)
            descent.passes += found.passes + 2
            best = np.array([found.threshold])
            alone, _ = prove_alone(
                [panel], inner, problem.linear, q, box, [units.mass], theta, best, model.holding, summary.centers
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
        inner=np.array([t]),
        status=status_of(relative <= tol, exhausted, late),
        iterations=descent.iterations,
        passes=descent.passes + 2,
        trace=[(value * model.loss, gap * model.loss, seconds, size) for value, gap, seconds, size in descent.trace],
        multipliers=multipliers_of(proof, rows, asked.polyhedron),
        radius=proof.radius,
    )


def _in_memory(
    asked: Problem, summary: ScenarioSummary, given: Vector | None, tol: float, max_iter: int, deadline: float
) -> PanelResult:
    """A panel so small that the pass which looks at it brings it along: as a table in memory."""
    problem = with_scenarios(asked, [(summary.drawn, summary.drawn_weights)])
    found = solve_problem(problem, given, tol, max_iter, deadline)
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
