"""solve_panel: look at the panel once, solve a small part of it in memory, descend on all of it, and prove the gap."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from certeq._table import Array as Vector
from certeq._table import Table
from certeq._threads import one_blas_thread
from certeq.optimize.domains import UnboundedError
from certeq.optimize.domains._rows import feasible_point, implied_box, presolve_rows
from certeq.optimize.exact.blocks.certificate import prove, prove_alone
from certeq.optimize.exact.blocks.descent import BlockDescent
from certeq.optimize.exact.blocks.scan import Extent, Worst, scan
from certeq.optimize.exact.blocks.sums import Units
from certeq.optimize.exact.certificate import l1_reach
from certeq.optimize.exact.model import Model, normalize
from certeq.optimize.exact.problem import Problem, read_problem, read_start
from certeq.optimize.exact.recession import Escape
from certeq.optimize.exact.scenarios import Scenarios
from certeq.optimize.exact.solve import check_limits, solve_exact, status_of, tidied, unbounded_error
from certeq.optimize.exact.threshold import threshold
from certeq.optimize.exact.working_set import FEW
from certeq.risk.solvers import solve_long
from certeq.utilities import Utility
from certeq.utilities.forms import form as form_of

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
        extent = scan(panel, len(panel) if whole else rows_drawn)
        if whole:
            return _in_memory(asked, extent, given, tol, max_iter, deadline)
        problem = replace(asked, polyhedron=rows.constraints)
        if given is None:
            given = _from_a_draw(problem, extent, tol, deadline)
        order = np.argsort(problem.linear + extent.center + extent.deviation, kind="stable")
        start = feasible_point(rows, *box, given, order, FEW)
        # Only center and scale are asked of the scenarios here, and both are known for the whole panel.
        model = normalize(problem, cast(Scenarios, extent), start, *box)
        units = Units(extent.center, extent.scale, extent.mass)
        widest = extent.biggest * l1_reach(rows.constraints, *box) + abs(utility.anchor)
        movable = np.flatnonzero(
            model.high - model.low > 1e-13 * np.where(np.isfinite(model.low), 1.0 + np.abs(model.low), 1.0)
        )
        descent = BlockDescent(panel, model, units, movable, widest / model.loss, deadline)
        t, width = _first_threshold(model, units, extent, start / model.holding)
        size = min(1.0, max(abs(_rough_value(model, start, t)), 1e-2))
        try:
            answer = descent.run(np.append(start / model.holding, t), width, 1e-2 * tol * size, max_iter)
            for _ in range(_RESCUES):
                if answer.gap <= tol * size or descent.iterations >= max_iter or time.perf_counter() > deadline:
                    break
                # Where u is steep a few of the worst scenarios decide, and no draw holds them all.
                theta = answer.point.v[:-1]
                worst, _, loads = panel.reduce(Worst(theta, rows_drawn))
                descent.passes += 1
                part = extent.with_tail(panel.take(worst), loads, theta)
                better = _from_a_draw(problem, part, tol, deadline)
                if better is None:
                    break
                start = feasible_point(rows, *box, better, order, FEW)
                t, width = _first_threshold(model, units, part, start / model.holding)
                answer = descent.run(np.append(start / model.holding, t), width, 1e-2 * tol * size, max_iter)
        except Escape as escape:
            raise unbounded_error(problem, escape) from None
        point = answer.point
        theta = tidied(problem, model, point.v[:-1])
        q, scale = rows.constraints, extent.scale
        y = answer.y * scale / np.linalg.norm(q.C, axis=1)
        z = answer.z * scale / np.linalg.norm(q.G, axis=1)
        t = float(point.v[-1]) * model.loss + float(extent.center @ theta)
        kept = point.kept.pick(slice(0, answer.held))
        proof = prove(
            panel,
            form_of(utility),
            problem.linear,
            q,
            box,
            units,
            theta,
            t,
            kept,
            answer.hinges,
            answer.share,
            y,
            z,
            model.holding,
        )
        # The solution of a draw may hold next to nothing; what counts as small is measured as in memory, by a plain
        # point.
        plain = feasible_point(rows, *box, None, order, FEW)
        unit = max(model.loss, normalize(problem, cast(Scenarios, extent), plain, *box).loss)
        if proof.gap > tol * max(abs(proof.value), 1e-2 * unit):
            found = solve_long(panel.losses(theta), utility)
            descent.passes += found.passes + 2
            alone = prove_alone(
                panel, form_of(utility), problem.linear, q, box, units.mass, theta, found.threshold, model.holding
            )
            if alone.gap < proof.gap:
                proof, t = alone, found.threshold
    relative = proof.gap / max(abs(proof.value), 1e-2 * unit)
    reduced = proof.slope - proof.y @ q.C + proof.z @ q.G
    of_c, of_g = rows.multipliers(proof.y, proof.z, asked.polyhedron)
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
        trace=[(value * model.loss, gap * model.loss, seconds, held) for value, gap, seconds, held in descent.trace],
        multipliers={"C": of_c, "G": of_g, "lower": np.maximum(reduced, 0.0), "upper": np.maximum(-reduced, 0.0)},
        radius=proof.radius,
    )


def _in_memory(
    asked: Problem, extent: Extent, given: Vector | None, tol: float, max_iter: int, deadline: float
) -> PanelResult:
    """A panel so small that the pass which looks at it brings it along: as a table in memory."""
    found = solve_exact(
        extent.drawn,
        asked.utility,
        weights=extent.drawn_weights,
        linear=asked.linear,
        **asked.polyhedron.as_arguments(),
        theta0=given,
        tol=tol,
        max_iter=max_iter,
        time_limit=None if deadline == np.inf else max(1e-3, deadline - time.perf_counter()),
    )
    shared = {name: getattr(found, name) for name in PanelResult.__dataclass_fields__ if name not in ("passes", "tilt")}
    return PanelResult(**shared, passes=1)


def _from_a_draw(problem: Problem, extent: Extent, tol: float, deadline: float) -> Vector | None:
    """The solution for the rows drawn: a start so near that a few steps on all of them are enough."""
    try:
        found = solve_exact(
            extent.drawn,
            problem.utility,
            weights=extent.drawn_weights,
            linear=problem.linear,
            **problem.polyhedron.as_arguments(),
            tol=max(tol, 1e-6),
            time_limit=None if deadline == np.inf else max(1e-3, 0.5 * (deadline - time.perf_counter())),
        )
    except UnboundedError:  # fewer scenarios can be unbounded where all of them are not
        return None
    return found.theta


def _first_threshold(model: Model, units: Units, extent: Extent, theta: Vector) -> tuple[float, float]:
    """The threshold of the rows drawn, and how near a kink a row must be to be kept at first.

    The solution of m rows is off by about sqrt(d/m) of a deviation, and so are the losses there.
    """
    losses = units.rows(extent.drawn) @ theta
    count = len(losses)
    raw = extent.drawn_weights
    w = np.full(count, 1.0 / count) if raw is None else raw / raw.sum()
    with np.errstate(all="ignore"):
        t = threshold(losses, w, model.form)
    spread = float(np.std(losses)) or 1.0
    return t, 3.5 * spread * min(1.0, float(np.sqrt(len(theta) / count)))


def _rough_value(model: Model, start: Vector, t: float) -> float:
    """The size of the objective, for what a relative gap is relative to."""
    return t + float(model.linear @ start) / model.holding
