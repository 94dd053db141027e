"""Does the objective fall for ever? The slope of the risk far out along a direction, in closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from certeq._table import ArrayTable, Table, summary
from certeq.optimize.exact._model import Model
from certeq.optimize.exact._risk import SampleRows, alone, best_inner, with_least
from certeq.optimize.qp import Subproblem
from certeq.risk.solvers import solve_long, solve_long_inner
from certeq.utilities import CVaR
from certeq.utilities.forms import Inner, Term

Vector = NDArray[np.float64]
Index = NDArray[np.intp]
_SMALL = 1e-6


class UnboundedDirection(Exception):
    """The objective falls for ever along a direction."""

    def __init__(self, direction: Vector) -> None:
        super().__init__("unbounded")
        self.direction = direction


def next_radius(
    model: Model,
    problem: Subproblem,
    v: Vector,
    assets: Index,
    theta: Vector,
    origin: Vector,
    radius: float,
    losses: Callable[[Vector, Term], tuple[Table, float]],
) -> float:
    """How far away the next model may put the bounds of variables that have none, after a step to v.

    Hitting them again and again is no minimum: UnboundedDirection is raised where the objective falls for ever along
    the step, or along the way from the ``origin``.
    """
    q = model.polyhedron
    v, low, high = (vector[: problem.outer] for vector in (v, problem.lower, problem.upper))
    slack = _SMALL * radius
    hit = ((low != q.lower[assets]) & (v <= low + slack)) | ((high != q.upper[assets]) & (v >= high - slack))
    if not hit.any():
        return radius
    direction = np.zeros(len(theta))
    direction[assets] = v - theta[assets]
    travelled = theta - origin
    for way in (direction, travelled):
        if np.any(way) and falls_for_ever(model, way, losses):
            raise UnboundedDirection(way)
    bounded = model.squares is not None and not model.squares.flat_along(travelled)
    if float(np.max(np.abs(travelled))) > 1e6 and not bounded:  # no slope is left, and still every step was downhill
        raise UnboundedDirection(travelled)
    return 10.0 * radius if radius < 1e9 else 10.0


def falls_for_ever(model: Model, direction: Vector, losses: Callable[[Vector, Term], tuple[Table, float]]) -> bool:
    """Whether direction lies in the set's cone and the objective's slope along it stays below 0.

    ``losses`` are those of a direction for a term, and their mean; the model's own are less it.
    """
    d = direction / float(np.max(np.abs(direction)))
    q = model.polyhedron
    d = np.where(np.isfinite(model.low), np.maximum(d, 0.0), d)
    d = np.where(np.isfinite(model.high), np.minimum(d, 0.0), d)
    if np.any(np.abs(q.C @ d) > _SMALL) or np.any(q.G @ d > _SMALL):
        return False
    if model.squares is not None and not model.squares.flat_along(d):
        return False
    far = sum(_slope_far_out(model.inner, term, d, losses) for term in model.inner.terms)
    return far + float(model.linear @ d) < -10.0 * _SMALL


def _slope_far_out(
    inner: Inner, term: Term, direction: Vector, losses: Callable[[Vector, Term], tuple[Table, float]]
) -> float:
    """The slope of a term far out along a direction, whose losses less their mean are asked for where they matter.

    OCE(X + s Y)/s tends to the largest mean of Y under tilts q with q/w in the range of the slope of u: between low
    and high it is low * mean + (1 - low) * (mean of the worst tail), tail = (1 - low)/(high - low). A term with a
    scale is as much larger as its losses are: it tends to the term's own risk of Y.
    """
    if term.s is not None:
        table, mean = losses(direction, term)
        own = with_least(alone(inner, term), 0.0)
        if isinstance(table, ArrayTable) and table.weights is not None:  # in memory, less their mean
            return best_inner(table.values, SampleRows(table.weights), own)[0]
        return solve_long_inner(table, own)[0] - float(own.cost[0]) * mean
    low, high = term.form.utility.slope_range
    if low == high:
        return 0.0
    table, mean = losses(direction, term)
    if high < np.inf and low > -np.inf:
        return term.weight * (1.0 - low) * (solve_long(table, CVaR._of((1.0 - low) / (high - low))).value - mean)
    ends = summary(table)
    if low == -np.inf:
        return 0.0 if ends.high - ends.low <= _SMALL else np.inf
    return term.weight * (1.0 - low) * (ends.high - mean)
