"""Where to start: an easier utility first, so that the real one meets a nearby point."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.exact.model import Model
from certeq.optimize.exact.solver import Descent, solve_subproblem
from certeq.optimize.exact.subproblem import SubSolution
from certeq.optimize.exact.working_set import FEW
from certeq.utilities import MeanVariance, Quadratic

Vector = NDArray[np.float64]
Index = NDArray[np.intp]

_ROUGHLY = 1e-3


def first_point(
    model: Model, theta: Vector, movable: Index, deadline: float
) -> tuple[Vector, Index | None, SubSolution | None]:
    """A point near the solution and the assets that led to it; the start itself where nothing easier is needed.

    Where the problem is quadratic as a whole and small, the point is its minimum, and how that was found comes along.
    """
    assets: Index | None = None
    solved = _at_once(model, theta, movable)
    if solved is not None:
        return solved.v[:-1], movable, solved
    if model.utility.kinks:
        # One deviation priced like a tail: mean + deviation, linearised in the variance at the start.
        spread = float(np.std(model.scenarios.losses(theta)))
        easy = model.with_utility(MeanVariance(1.0 / max(spread, 1e-3)))
        solved = _at_once(easy, theta, movable)
        if solved is not None:
            theta, assets = solved.v[:-1], movable
        else:
            answer = Descent(easy, theta, movable, deadline).run(_ROUGHLY, 50)
            theta, assets = answer.point.theta, answer.assets
    scale = _comfortable_scale(model, theta, len(movable))
    while scale > 1.0:
        answer = Descent(model.with_utility(model.utility.scaled(scale)), theta, movable, deadline).run(
            _ROUGHLY, 30, assets
        )
        theta, assets = answer.point.theta, answer.assets
        scale /= 4.0
    return theta, assets, None


def _at_once(model: Model, theta: Vector, movable: Index) -> SubSolution | None:
    """The minimum, where a single subproblem of moderate size is the whole problem."""
    if not len(theta) == len(movable) <= FEW:
        return None
    problem = model.as_subproblem()
    return None if problem is None else solve_subproblem(problem, np.append(theta, -model.utility.anchor), None)


def _comfortable_scale(model: Model, theta: Vector, assets: int) -> float:
    """The least power of 4 by which u must be widened so that its curvature rests on enough scenarios.

    A utility that is sharp compared with the losses bends at a few scenarios only: its quadratic model is then
    good in a tiny neighbourhood, and Newton's method from afar crawls. s*u(x/s) is that much wider.
    """
    if isinstance(model.utility.shape, Quadratic):  # bends the same everywhere
        return 1.0
    scale = 1.0
    weights = model.weights
    enough = min(0.1, max(0.01, 2.0 * min(assets, 100) / len(weights)))
    for _ in range(16):
        wide = model.with_utility(model.utility.scaled(scale)) if scale > 1.0 else model
        point = wide.evaluate(theta)
        with np.errstate(all="ignore"):
            curvature = wide.utility.curvature(point.losses - point.t)
        total, square = float(weights @ curvature), float(weights @ np.square(curvature))
        if square == 0.0 and not wide.utility.kappa > 0.0:
            return 1.0
        if total * total >= enough * square and total > 0.0:
            return scale
        if square == 0.0 and wide.utility.kinks:
            return 1.0
        scale *= 4.0
    return 1.0
