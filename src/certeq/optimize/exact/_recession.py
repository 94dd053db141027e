"""Does the objective fall for ever? The slope of OCE far out along a direction, in closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from certeq._table import Table, summary
from certeq.optimize.exact._model import Model
from certeq.optimize.qp import Subproblem
from certeq.risk.solvers import solve_long
from certeq.utilities import CVaR

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
    losses: Callable[[Vector], tuple[Table, float]],
) -> float:
    """How far away the next model may put the bounds of variables that have none, after a step to v.

    Hitting them again and again is no minimum: UnboundedDirection is raised where the objective falls for ever along
    the step, or along the way from the ``origin``.
    """
    q = model.polyhedron
    v, low, high = v[:-1], problem.lower[:-1], problem.upper[:-1]
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


def falls_for_ever(model: Model, direction: Vector, losses: Callable[[Vector], tuple[Table, float]]) -> bool:
    """Whether direction lies in the set's cone and the objective's slope along it stays below 0.

    Far out OCE(X + s Y)/s tends to the largest mean of Y under tilts q with q/w in the range of the slope of u:
    between low and high it is low * mean + (1 - low) * (mean of the worst tail), tail = (1 - low)/(high - low).
    ``losses`` are those of a direction, and their mean; the model's own are less it.
    """
    d = direction / float(np.max(np.abs(direction)))
    q = model.polyhedron
    d = np.where(np.isfinite(model.low), np.maximum(d, 0.0), d)
    d = np.where(np.isfinite(model.high), np.minimum(d, 0.0), d)
    if np.any(np.abs(q.C @ d) > _SMALL) or np.any(q.G @ d > _SMALL):
        return False
    if model.squares is not None and not model.squares.flat_along(d):
        return False
    low, high = model.utility.slope_range
    if low == high:
        far = 0.0
    elif high == np.inf or low == -np.inf:
        table, mean = losses(d)
        ends = summary(table)
        level = ends.high - ends.low <= _SMALL
        far = (0.0 if level else np.inf) if low == -np.inf else (1.0 - low) * (ends.high - mean)
    else:
        table, mean = losses(d)
        far = (1.0 - low) * (solve_long(table, CVaR._of((1.0 - low) / (high - low))).value - mean)
    return far + float(model.linear @ d) < -10.0 * _SMALL
