"""Where to start: an easier utility first, so that the real one meets a nearby point; of a table, some of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from certeq._table import Block, Table, first_bad, summary
from certeq._table import Index as Ids
from certeq.optimize.exact._memory_oracle import Answer, MemoryOracle, Supported
from certeq.optimize.exact._model import Model, Point
from certeq.optimize.exact._risk import has_kinks, is_quadratic, scales_of, times
from certeq.optimize.exact._scales import bounded_scales
from certeq.optimize.exact._working_set import FEW
from certeq.optimize.qp import SubSolution, solve_subproblem
from certeq.utilities import MeanVariance
from certeq.utilities.forms import Inner, Term
from certeq.utilities.forms import form as form_of

Vector = NDArray[np.float64]
Index = NDArray[np.intp]

_ROUGHLY = 1e-3
_LEAP = 0.05  # by how much the objective, where losses have size 1, may rise to the next stage where steps are dear
_ON_THE_WAY = 1e-2  # of a stage that another one follows


def at_once(model: Model, theta: Vector, movable: Index) -> Answer | None:
    """The minimum with its dual evidence, where u is quadratic and the assets are few: a single subproblem.

    No gap is estimated here, because the certificate of the whole problem follows.
    """
    solution = _single(model, theta, movable)
    if solution is None or not solution.exact:
        return None
    point = model.evaluate(solution.v[: len(theta)])
    supported, samples = [], model.samples
    for part in point.parts:
        losses, w = samples.of(point.losses, part.term), samples.of(samples.weights, part.term)
        supported.append(Supported(part, losses - part.t, None, w * part.form.left_slope(losses, part.t)))
    prices = solution.multipliers
    return Answer(point, tuple(supported), prices.y, prices.z, np.nan, movable, 1, [])


def _single(model: Model, theta: Vector, movable: Index) -> SubSolution | None:
    if not len(theta) == len(movable) <= FEW:
        return None
    problem = model.as_subproblem()
    if problem is None:
        return None
    anchors = [-term.form.utility.anchor for term in model.inner.terms]
    return solve_subproblem(problem, np.append(theta, anchors), None)


def first_point(model: Model, theta: Vector, movable: Index, deadline: float) -> tuple[Model, Point, Index | None]:
    """A point near the solution, and the assets that led to it; the start itself where nothing easier is needed.

    Scales s of the model that is returned have a bound below which they do not fall; see `_scales`.
    """
    assets: Index | None = None
    kinked = has_kinks(model.inner)
    if kinked or scales_of(model.inner):
        # One deviation priced like a tail: mean + deviation, linearized in the variance at the start.
        easy = _with_deviations(model, theta)
        solution = _single(easy, theta, movable)
        if solution is not None:
            theta, assets = solution.v[: len(theta)], movable
        else:
            answer = MemoryOracle(easy, easy.evaluate(theta), movable, deadline).run(_ROUGHLY, 50)
            theta, assets = answer.point.theta, answer.assets
    model, point = bounded_scales(model, model.evaluate(theta))
    scale, inner = _comfortable_scale(model, point, len(movable))
    if scale == 1.0:
        return model, point, assets
    wide, warm = _widened(model, scale), False
    point = wide.at(theta, point.losses, inner)
    while scale > 1.0:
        answer = MemoryOracle(wide, point, movable, deadline).run(_ON_THE_WAY, 30, assets, warm)
        assets, warm = answer.assets, True
        for factor in (4.0, 2.0, 1.5):
            narrower = max(scale / factor, 1.0)
            wide = _widened(model, narrower)
            point = wide.at(answer.point.theta, answer.point.losses, answer.point.inner)
            if not kinked or point.value - answer.point.value <= _LEAP:
                break
        scale = narrower
    return model, point, assets


def _with_deviations(model: Model, theta: Vector) -> Model:
    """The model with a MeanVariance for every sample in place of its terms, of the same cost."""
    losses, samples, cost = model.scenarios.losses(theta), model.samples, np.zeros(len(model.samples))
    for term in model.inner.terms:
        cost[term.sample] += model.inner.cost[term.t]
    terms = []
    for which, rows in enumerate(samples.rows):
        spread = float(np.std(losses[rows]))
        form = form_of(MeanVariance(1.0 / max(spread, 1e-3)))
        terms.append(Term(float(cost[which]), form, which, None, which))
    free = np.full(len(terms), np.inf)
    return model.with_inner(Inner(cost, -free, free, tuple(terms)))


def _widened(model: Model, scale: float) -> Model:
    """The model with s*u(x/s) for every u, and at least that many times the least s where s is a variable."""
    inner = model.inner
    terms = tuple(replace(term, form=term.form.scaled(scale)) if term.s is None else term for term in inner.terms)
    low = inner.low.copy()
    low[scales_of(inner)] *= scale
    return model.with_inner(replace(inner, low=low, terms=terms))


def _comfortable_scale(model: Model, point: Point, assets: int) -> tuple[float, Vector]:
    """The least power of 4 by which u must be widened so that its curvature rests on enough scenarios; inner then.

    A utility that is sharp compared with the losses has curvature at a few scenarios only: its quadratic model is then
    good in a tiny neighborhood, and Newton's method from afar crawls. s*u(x/s) is that much wider.
    """
    if is_quadratic(model.inner):  # the same curvature everywhere
        return 1.0, point.inner
    scale, wide, weights, kinked, samples = 1.0, model, model.weights, has_kinks(model.inner), model.samples
    enough = min(0.1, max(0.01, 2.0 * min(assets, 100) / len(weights))) * len(samples)
    for _ in range(16):
        with np.errstate(all="ignore"):
            curvature = samples.total(
                [
                    (part.term, times(part.weight, part.form.curvature(samples.of(point.losses, part.term), part.t)))
                    for part in point.parts
                ]
            )
        total, square = float(weights @ curvature), float(weights @ np.square(curvature))
        if square == 0.0 and (kinked or not any(part.form.utility.kappa > 0.0 for part in point.parts)):
            break
        if total * total >= enough * square and total > 0.0:
            return scale, point.inner
        scale *= 4.0
        wide = _widened(model, scale)
        point = wide.at(point.theta, point.losses, point.inner)
    return 1.0, point.inner


_GOLDEN = 0.6180339887498949  # multiples of it spread evenly over the unit interval, whatever the order of the rows


@dataclass(frozen=True)
class ScenarioSummary:
    """What is known of a panel after one pass; ``center`` and ``deviation`` per column, weighted."""

    mass: float
    center: Vector
    deviation: Vector
    biggest: float
    drawn: Vector
    drawn_weights: Vector | None

    def with_tail(self, rows: Vector, weights: Vector, theta: Vector) -> ScenarioSummary:
        """The worst scenarios at theta as they are, and those drawn that are better in place of all others."""
        others = self.drawn @ theta < float((rows @ theta).min())
        raw = np.ones(len(self.drawn)) if self.drawn_weights is None else self.drawn_weights
        left, total = self.mass - float(weights.sum()), float(raw[others].sum())
        share = max(left, 0.0) / total if total > 0.0 else 0.0
        return replace(
            self,
            drawn=np.concatenate([self.drawn[others], rows]),
            drawn_weights=np.append(raw[others] * share, weights),
        )


@dataclass(frozen=True)
class Worst:
    """The kernel that finds the ``count`` scenarios with the largest losses at theta, and their weights."""

    theta: Vector
    count: int
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> tuple[Ids, Vector, Vector]:
        """Those of a piece."""
        weights = np.ones(len(block.rows)) if block.weights is None else block.weights
        return self.join([(block.ids, block.rows @ self.theta, weights)])

    def join(self, parts: Sequence[tuple[Ids, Vector, Vector]]) -> tuple[Ids, Vector, Vector]:
        """The worst of several."""
        ids, losses, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
        top = np.argsort(-losses, kind="stable")[: self.count]
        return ids[top], losses[top], weights[top]


@dataclass(frozen=True)
class Thinned:
    """The kernel that brings a ``share`` of the rows, spread evenly, at most ``most`` of a block, and their weights."""

    share: float
    most: int
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> tuple[Vector, Vector | None]:
        """Those of a piece."""
        chosen = block.pick(np.flatnonzero(np.mod(block.ids * _GOLDEN, 1.0) < self.share)[: self.most])
        return chosen.rows, chosen.weights

    def join(self, parts: Sequence[tuple[Vector, Vector | None]]) -> tuple[Vector, Vector | None]:
        """One after the other."""
        weights = [part[1] for part in parts if part[1] is not None]
        return np.concatenate([part[0] for part in parts]), np.concatenate(weights) if weights else None


def scan(panel: Table, wanted: int) -> ScenarioSummary:
    """One pass; about ``wanted`` rows come back with it. Complains of NaN, infinities and bad weights."""
    found = summary(panel, Thinned(min(1.0, wanted / len(panel)), len(panel)))
    if not (np.isfinite(found.low) and np.isfinite(found.high)) and (bad := first_bad(panel)) is not None:
        row, column, content = bad
        raise ValueError(f"A must be finite; found {content} {panel.where(row)}, asset {column}.")
    if not (np.isfinite(found.lightest) and np.isfinite(found.heaviest) and np.isfinite(found.mass)):
        raise ValueError("weights must be finite; found NaN or infinity.")
    if found.lightest < 0.0 or not found.mass > 0.0:
        raise ValueError(
            "weights must be non-negative with a positive sum; found minimum "
            f"{found.lightest:g} and sum {found.mass:g}."
        )
    if not len(found.extra[0]):  # nearly all weights are 0: the first few rows of each piece that count will do
        found = summary(panel, Thinned(1.0, 16))
    assert found.mean is not None
    return ScenarioSummary(found.mass, found.mean, found.deviation, max(found.high, -found.low), *found.extra)
