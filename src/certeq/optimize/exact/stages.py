"""Where to start: an easier utility first, so that the real one meets a nearby point."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.exact.model import Model
from certeq.optimize.exact.solver import Answer, Descent
from certeq.optimize.exact.working_set import FEW
from certeq.optimize.qp import SubSolution, solve_subproblem
from certeq.utilities import MeanVariance, Quadratic
from certeq.utilities.forms import form

Vector = NDArray[np.float64]
Index = NDArray[np.intp]

_ROUGHLY = 1e-3
_ON_THE_WAY = 1e-2  # of a stage that another one follows


def at_once(model: Model, theta: Vector, movable: Index) -> Answer | None:
    """The minimum with its dual evidence, where u is quadratic and the assets are few: a single subproblem.

    No gap is estimated here, because the certificate of the whole problem follows.
    """
    solution = _single(model, theta, movable)
    if solution is None or not solution.exact:
        return None
    point = model.evaluate(solution.v[:-1])
    support = point.losses - point.t
    tilt = model.weights * model.form.left_slope(point.losses, point.t)
    prices = solution.multipliers
    return Answer(point, point.t, support, None, tilt, prices.y, prices.z, np.nan, movable, 1, [])


def _single(model: Model, theta: Vector, movable: Index) -> SubSolution | None:
    if not len(theta) == len(movable) <= FEW:
        return None
    problem = model.as_subproblem()
    return None if problem is None else solve_subproblem(problem, np.append(theta, -model.utility.anchor), None)


def first_point(
    model: Model, theta: Vector, movable: Index, deadline: float
) -> tuple[Vector, Index | None, float | None]:
    """A point near the solution, the assets that led to it, and about where its threshold is, if known.

    The start itself where nothing easier is needed.
    """
    assets: Index | None = None
    if model.form.kinks:
        # One deviation priced like a tail: mean + deviation, linearized in the variance at the start.
        spread = float(np.std(model.scenarios.losses(theta)))
        easy = model.with_form(form(MeanVariance(1.0 / max(spread, 1e-3))))
        solution = _single(easy, theta, movable)
        if solution is not None:
            theta, assets = solution.v[:-1], movable
        else:
            answer = Descent(easy, theta, movable, deadline).run(_ROUGHLY, 50)
            theta, assets = answer.point.theta, answer.assets
    scale, t = _comfortable_scale(model, theta, len(movable))
    warm = False
    while scale > 1.0:
        wide = model.with_form(model.form.scaled(scale))
        answer = Descent(wide, theta, movable, deadline, t).run(_ON_THE_WAY, 30, assets, warm)
        theta, assets, warm, t = answer.point.theta, answer.assets, True, answer.point.t
        scale /= 4.0
    return theta, assets, t


def _comfortable_scale(model: Model, theta: Vector, assets: int) -> tuple[float, float | None]:
    """The least power of 4 by which u must be widened so that its curvature rests on enough scenarios; and t then.

    A utility that is sharp compared with the losses bends at a few scenarios only: its quadratic model is then
    good in a tiny neighborhood, and Newton's method from afar crawls. s*u(x/s) is that much wider.
    """
    if isinstance(model.utility.shape, Quadratic):  # bends the same everywhere
        return 1.0, None
    scale, t = 1.0, None
    weights = model.weights
    enough = min(0.1, max(0.01, 2.0 * min(assets, 100) / len(weights)))
    for _ in range(16):
        wide = model.with_form(model.form.scaled(scale)) if scale > 1.0 else model
        point = wide.evaluate(theta, t)
        t = point.t
        with np.errstate(all="ignore"):
            curvature = wide.form.curvature(point.losses, point.t)
        total, square = float(weights @ curvature), float(weights @ np.square(curvature))
        if square == 0.0 and not wide.utility.kappa > 0.0:
            return 1.0, t if scale == 1.0 else None
        if total * total >= enough * square and total > 0.0:
            return scale, t
        if square == 0.0 and wide.form.kinks:
            return 1.0, t if scale == 1.0 else None
        scale *= 4.0
    return 1.0, None
