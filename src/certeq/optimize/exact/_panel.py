"""solve_panel: the exact solver for scenarios that are read in blocks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from certeq._table import Table
from certeq._threads import one_blas_thread
from certeq.optimize.domains._rows import feasible_point, implied_box, presolve_rows
from certeq.optimize.exact._block_model import dual_pairs
from certeq.optimize.exact._block_oracle import BlockAnswer, BlockOracle, best_inner_of
from certeq.optimize.exact._certificate import (
    Certificate,
    conclude,
    l1_reach,
    prove_alone,
    tangent_problem,
    with_squares,
)
from certeq.optimize.exact._evidence import Evidence, Prove, Together
from certeq.optimize.exact._model import LEAST_SCALE, Model, normalize
from certeq.optimize.exact._problem import PartResult, Problem, read_problem, read_start
from certeq.optimize.exact._recession import UnboundedDirection
from certeq.optimize.exact._risk import (
    SampleRows,
    best_inner,
    cost_of_constants,
    parts_at,
    scales_of,
    thresholds_of,
    with_least,
)
from certeq.optimize.exact._scales import ASIDE, FALL, FIRST_SCALE, past_two
from certeq.optimize.exact._scenarios import Scenarios, Units
from certeq.optimize.exact._solve import (
    ABOVE_ROUNDING,
    FEW_DIGITS,
    check_limits,
    from_a_part,
    movable_assets,
    multipliers_of,
    of_thresholds,
    parts_of,
    solve_problem,
    status_of,
    tidied,
    unbounded_error,
    with_scenarios,
)
from certeq.optimize.exact._start import ScenarioSummary, Worst, scan
from certeq.optimize.exact._working_set import FEW
from certeq.utilities import Risk

Vector = NDArray[np.float64]
_RESCUES = 6  # starts from the worst scenarios, where the first one got nowhere
_LITTLE = 1e-2  # of what a plain point holds: less is no unit to measure with
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
    parts: tuple[PartResult, ...] = field(default=(), repr=False)


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
    a trial (theta, inner variables): sums of u, u' and u'' over the rows, and, where u has kinks, the rows near them,
    which alone are kept. The subproblem is that of the solver in memory, for every risk that it takes. A last pass
    proves the gap in the caller's units.
    A panel of 32 MB at most is brought into memory by its first pass, and solved there.
    Where that leads nowhere the worst scenarios at the point reached are brought in beside the draw, for a new start.
    Where the scale of a ball tends to 0 its risk is the largest loss, or CVaR: that is followed to where all losses are
    one number, but a largest loss that few scenarios decide (EVaR with alpha about 1/M) may end as "stalled".
    Where more scenarios than fit the memory set aside lie at a kink (one loss repeated a million times), the method
    may end as "stalled", with a gap that is valid; merge equal scenarios into one with a weight then.
    """
    began = time.perf_counter()
    check_limits(tol, max_iter, time_limit)
    panel = panel if weights is None else panel.with_weights(weights)
    assets = panel.shape[1]
    # The arguments are checked as those of the solver in memory, beside a row that stands for all.
    asked = read_problem(np.zeros((1, assets)), utility, None, linear, lower, upper, C, c, G, b)
    given = read_start(theta0, assets)
    deadline = np.inf if time_limit is None else began + time_limit
    return solve_tables([panel], asked, given, tol, max_iter, deadline)


def solve_tables(
    panels: Sequence[Table], asked: Problem, given: Vector | None, tol: float, max_iter: int, deadline: float
) -> PanelResult:
    """The solution of a problem that was read, whose scenarios are tables, one for each sample."""
    with one_blas_thread():
        bytes_in_all = 8 * sum(len(panel) for panel in panels) * panels[0].shape[1]
        whole = bytes_in_all <= _WHOLE
        drawn = [len(panel) if whole else _rows_drawn(panel, len(panels)) for panel in panels]
        scanned = Scanned([scan(panel, wanted) for panel, wanted in zip(panels, drawn, strict=True)])
        if whole:
            found = solve_problem(with_scenarios(asked, scanned.drawn()), given, tol, max_iter, deadline)
            names = [name for name in PanelResult.__dataclass_fields__ if name not in ("passes", "tilt", "parts")]
            which = [asked.inner.terms[share.terms[0]].sample for share in asked.shares]
            rows = [table for table, _ in scanned.drawn()]
            parts = tuple(
                [
                    replace(part, tilt=None, slope=np.asarray(part.tilt @ rows[k], dtype=np.float64))
                    for part, k in zip(found.parts, which, strict=True)
                ]
            )
            return PanelResult(**{name: getattr(found, name) for name in names}, passes=1, parts=parts)
        return _Solve(panels, asked, scanned, drawn, tol, max_iter, deadline).run(given)


def _rows_drawn(panel: Table, count: int) -> int:
    """How many rows of one of several tables are solved in memory first."""
    return min(max(len(panel) // 4, 16), max(1000, _DRAWN // (8 * panel.shape[1] * count)))


class Scanned:
    """What is known of all tables after one pass, as the solver in memory knows it of its scenarios."""

    def __init__(self, each: Sequence[ScenarioSummary]) -> None:
        self.each = each
        self.centers = np.array([one.center for one in each])
        self.deviation = np.sqrt(np.mean([np.square(one.deviation) for one in each], axis=0))
        spread = float(np.sqrt(np.mean(np.square(self.deviation))))
        size = float(np.max(np.abs(self.centers), initial=0.0))
        self.scale = spread if spread > 1e-13 * size else (size or 1.0)
        self.biggest = max(one.biggest for one in each)

    def drawn(self) -> list[tuple[Vector, Vector | None]]:
        """The rows that came back, with their weights."""
        return [(one.drawn, one.drawn_weights) for one in self.each]


class _Solve:
    """One solve over tables that stay where they are."""

    def __init__(
        self,
        panels: Sequence[Table],
        asked: Problem,
        scanned: Scanned,
        drawn: Sequence[int],
        tol: float,
        max_iter: int,
        deadline: float,
    ) -> None:
        self.panels, self.asked, self.scanned, self.drawn = panels, asked, scanned, drawn
        self.tol, self.max_iter, self.deadline = tol, max_iter, deadline
        self.box, self.rows = implied_box(asked.polyhedron), presolve_rows(asked.polyhedron)
        self.problem = replace(asked, polyhedron=self.rows.constraints, largest=scanned.biggest)
        self.units = [Units(one.center, scanned.scale, one.mass) for one in scanned.each]
        means = cost_of_constants(asked.inner, scanned.centers)
        self.order = np.argsort(asked.linear + means + scanned.deviation, kind="stable")
        self.best: _BlockProof | None = None  # found on the way

    def run(self, given: Vector | None) -> PanelResult:
        """Start from a draw, descend, and prove."""
        problem, scanned, deadline = self.problem, self.scanned, self.deadline
        if given is None:
            given = from_a_part(problem, scanned.drawn(), self.tol, deadline)
        model = self._model(start := self._feasible(given))
        # The solution of a draw may hold next to nothing; what counts as small is measured as in memory, by a plain
        # point.
        plain = self._model(self._feasible(None))
        self.unit = max(model.loss, plain.loss)
        model = plain if model.holding < _LITTLE * plain.holding else model
        largest = scanned.biggest * l1_reach(self.rows.constraints, *self.box) / model.loss
        oracle = BlockOracle(self.panels, model, self.units, movable_assets(model), largest, deadline)
        try:
            answer, size = self._descend(oracle, model, start, scanned)
            for _ in range(_RESCUES):
                late = oracle.iterations >= self.max_iter or time.perf_counter() > deadline
                if late or answer.gap <= self.tol * size:
                    break
                # Where u is steep a few of the worst scenarios decide, and no draw holds them all.
                part = self._with_worst(answer.point.theta)
                oracle.passes += 1
                better = from_a_part(problem, part.drawn(), self.tol, deadline)
                if better is None:
                    break
                answer, size = self._descend(oracle, model, self._feasible(better), part, size)
        except UnboundedDirection as found_direction:
            raise unbounded_error(problem, found_direction.direction) from None
        return self._result(oracle, model, answer)

    def _feasible(self, given: Vector | None) -> Vector:
        return feasible_point(self.rows, *self.box, given, self.order, FEW)

    def _model(self, start: Vector) -> Model:
        # Only centers and scale are asked of the scenarios here, and both are known of all tables.
        return normalize(self.problem, cast(Scenarios, self.scanned), start, *self.box)

    def _with_worst(self, theta: Vector) -> Scanned:
        each = []
        for panel, wanted, one in zip(self.panels, self.drawn, self.scanned.each, strict=True):
            worst, _, weights = panel.reduce(Worst(theta, wanted))
            each.append(one.with_tail(panel.take(worst), weights, theta))
        return Scanned(each)

    def _descend(
        self, oracle: BlockOracle, model: Model, start: Vector, drawn: Scanned, size: float | None = None
    ) -> tuple[BlockAnswer, float]:
        """An answer from a start, and the size of the objective, which a relative gap is relative to."""
        theta = start / model.holding
        inner, bounded, width = _first_inner(model, self.units, drawn, theta)
        if size is None:
            size = min(1.0, max(abs(float(bounded.inner.cost @ inner) + float(model.linear @ theta)), 1e-2))
        # A tilt sums to 1 up to rounding, which the largest loss multiplies: no step makes a gap less than that.
        rounding = min(2e-15 * oracle.largest, 0.1 * self.tol * size)
        target, v = max(1e-2 * self.tol * size, rounding), np.append(theta, inner)
        if scales_of(model.inner):
            oracle.restart(bounded)
        answer = oracle.run(v, width, target, self.max_iter)
        which, before = scales_of(model.inner), None
        while which and answer.gap <= self.tol * size and oracle.iterations < self.max_iter:
            # The minimum under a bound on s: where s is at it, the bound falls until it says nothing.
            least = oracle.model.inner.low[which]
            at_bound = (answer.point.inner[which] <= least) & (least > LEAST_SCALE)
            if not at_bound.any() or time.perf_counter() > self.deadline:
                break
            if before is not None and self._at_zero(oracle, model, before, answer.point.theta, answer):
                break
            before = answer.point.theta
            oracle.restart(model.with_inner(with_least(model.inner, np.maximum(least / FALL, LEAST_SCALE))))
            answer = oracle.run(answer.point.v, width, target, self.max_iter)
        return answer, size

    def _at_zero(self, oracle: BlockOracle, model: Model, before: Vector, theta: Vector, answer: BlockAnswer) -> bool:
        """Whether the point where two minima under falling bounds on s lead, as s tends to 0, is the minimum.

        Where all losses are one number at the minimum, the way there is a straight line, along which no tilt changes:
        that of a small s proves it.
        """
        end = past_two(model, before, theta)
        found = self._proof(oracle, model, answer, tidied(self.problem, model, end))
        self.best = min(self.best or found, found, key=lambda one: one.certificate.gap)
        return self._is_good(found.certificate)

    def _is_good(self, found: Certificate) -> bool:
        return self._relative(found) <= self.tol

    def _relative(self, found: Certificate) -> float:
        return found.gap / max(abs(found.value), 1e-2 * self.unit)

    def _result(self, oracle: BlockOracle, model: Model, answer: BlockAnswer) -> PanelResult:
        """The proof in the caller's units, from theta, inner variables and multipliers alone."""
        problem = self.problem
        best = self.best
        if best is None or not self._is_good(best.certificate):
            found = self._proof(oracle, model, answer)
            best = found if best is None or found.certificate.gap < best.certificate.gap else best
        if not self._is_good(best.certificate):
            # Where s is nearly 0 the tilt has as many digits as s is longer than the roundings of losses.
            theta, least = best.theta, with_least(problem.inner, FEW_DIGITS * model.loss)
            inner, passes = best_inner_of(self.panels, least, theta)
            oracle.passes += passes + 2
            q, masses, means = self.rows.constraints, [one.mass for one in self.units], self.scanned.centers
            linear = tangent_problem(problem, theta).linear
            alone, _ = prove_alone(
                self.panels, problem.inner, linear, q, self.box, masses, theta, inner, model.holding, means
            )
            alone = with_squares(alone, problem, self.box, theta, alone.z, model.holding)
            if alone.gap < best.certificate.gap:
                best = _BlockProof(theta, inner, alone)
        proof, relative = best.certificate, self._relative(best.certificate)
        late, exhausted = time.perf_counter() > self.deadline, oracle.iterations >= self.max_iter
        thresholds = best.inner[thresholds_of(problem.inner)]
        steps = [(value * model.loss, gap * model.loss, seconds, size) for value, gap, seconds, size in oracle.trace]
        parts = parts_of(problem, proof, best.inner, [None] * len(problem.shares))
        slopes = [
            np.sum(proof.slopes[share.terms.start : share.terms.stop], axis=0) / share.factor
            for share in problem.shares
        ]
        return PanelResult(
            theta=best.theta,
            value=proof.value,
            gap=proof.gap,
            lower_bound=proof.lower_bound,
            relative_gap=relative,
            threshold=float(thresholds[0]) if len(thresholds) == 1 else thresholds,
            inner=best.inner,
            status=status_of(relative <= self.tol, exhausted, late),
            iterations=oracle.iterations,
            passes=oracle.passes + 2,
            trace=steps,
            multipliers=multipliers_of(proof, self.rows, self.asked.polyhedron),
            radius=proof.radius,
            parts=tuple([replace(part, slope=slope) for part, slope in zip(parts, slopes, strict=True)]),
        )

    def _proof(
        self, oracle: BlockOracle, model: Model, answer: BlockAnswer, moved: Vector | None = None
    ) -> _BlockProof:
        """The proof of an answer, in the caller's units; or, by its supporting lines, that of a point ``moved``."""
        problem, point, scanned, q = self.problem, answer.point, self.scanned, self.rows.constraints
        own = tidied(problem, model, point.theta)
        lines = point.inner * model.loss + of_thresholds(problem.inner, scanned.centers @ own)
        theta, inner = own, lines
        if moved is not None:
            theta = moved
            least = 0.1 * LEAST_SCALE * model.loss
            inner, passes = best_inner_of(self.panels, with_least(problem.inner, least), theta)
            oracle.passes += passes + 1
            for term in problem.inner.terms:  # off the losses, so that no support is taken for one
                if term.s is not None and inner[term.s] <= least:
                    inner[term.s] = max(inner[term.s], ABOVE_ROUNDING * abs(inner[term.t]))
                    inner[term.t] += ASIDE * inner[term.s]
        y = answer.y * scanned.scale / np.linalg.norm(q.C, axis=1)
        z = answer.z * scanned.scale / np.linalg.norm(q.G, axis=1)
        first, shares = 0, answer.hinges.split(answer.share)
        parts = parts_at(problem.inner, inner)
        kernels: list[list[Prove]] = [[] for _ in self.panels]
        for part, line in zip(parts, parts_at(problem.inner, lines), strict=True):
            sample, count, factor = part.term.sample, len(part.form.kinks), part.s / line.s
            kept = point.kept[sample].pick(slice(0, answer.covered[sample]))
            order = np.argsort(kept.ids)
            rows, given = answer.hinges.rows[first : first + count], shares[first : first + count]
            support, slope = dual_pairs(kept.raw @ own - line.t, line.form, rows, given)
            support, tilt, ids = factor * support[order], (kept.weights * slope)[order], kept.ids[order]
            others = None if moved is None else (own, line.t, factor)
            mass = self.units[sample].mass
            kernels[sample].append(Prove(theta, part.t, part.form, mass, support, tilt, ids, lines=others))
            first += count
        found: list[list[Evidence]] = [
            panel.reduce(Together(tuple(each))) for panel, each in zip(self.panels, kernels, strict=True)
        ]
        each = [iter(own) for own in found]
        sums = [next(each[part.term.sample]) for part in parts]
        means, unit = scanned.centers, model.holding
        linear = tangent_problem(problem, theta).linear
        proof = conclude(sums, problem.inner, linear, q, self.box, theta, inner, y, z, unit, means)
        proof = with_squares(proof, problem, self.box, theta, z, unit)
        return _BlockProof(theta, inner, proof)


@dataclass(frozen=True)
class _BlockProof:
    """A point in the caller's units, with its certificate."""

    theta: Vector
    inner: Vector
    certificate: Certificate


def _first_inner(model: Model, units: Sequence[Units], drawn: Scanned, theta: Vector) -> tuple[Vector, Model, float]:
    """The inner variables of the rows drawn, bounds on scales, and how near a kink a row must be to be kept at first.

    The solution of m rows is off by about sqrt(d/m) of a deviation, and so are the losses there.
    """
    losses = [one.rows(each.drawn) @ theta for one, each in zip(units, drawn.each, strict=True)]
    masses = [np.ones(len(each.drawn)) if each.drawn_weights is None else each.drawn_weights for each in drawn.each]
    ends = np.cumsum([0, *[len(own) for own in losses]]).tolist()
    rows = tuple([slice(first, end) for first, end in pairwise(ends)])
    samples = SampleRows(np.concatenate([mass / mass.sum() for mass in masses]), rows)
    x = np.concatenate(losses)
    inner, which = best_inner(x, samples, model.inner)[1], scales_of(model.inner)
    if which:
        least = np.maximum(inner[which] / FALL, FIRST_SCALE)
        model = model.with_inner(with_least(model.inner, least))
        inner = best_inner(x, samples, model.inner, inner)[1]
    spreads = [(float(np.std(own)) or 1.0) * min(1.0, float(np.sqrt(len(theta) / len(own)))) for own in losses]
    return inner, model, 3.5 * max(spreads)
