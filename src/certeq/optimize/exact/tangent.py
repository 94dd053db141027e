"""The certificate of a problem with squares, from that of the problem with their tangent in their place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.exact.certificate import Certificate, closed_box, l1_reach
from certeq.optimize.exact.problem import Problem
from certeq.optimize.gaps import proved_gap, worth_outside

Vector = NDArray[np.float64]
_EPS = float(np.finfo(np.float64).eps) / 2.0


def tangent_problem(problem: Problem, theta: Vector) -> Problem:
    """The problem with the tangent of its squares at theta, less a constant, as part of its linear term."""
    if problem.squares is None:
        return problem
    return replace(problem, linear=problem.linear + problem.squares.slope(theta), squares=None)


def with_squares(
    found: Certificate, problem: Problem, box: tuple[Vector, Vector], theta: Vector, z: Vector, unit: float
) -> Certificate:
    r"""The certificate of the problem itself, from the one of `tangent_problem` at the same theta.

    With s = F theta and h = F^T s the tangent problem has the value  OCE + l.theta + h.theta  at theta and a lower
    bound of  OCE + l.v + h.v  over the set. Since  |F v|^2/2 >= h.v - |s|^2/2  (see `squares`), that bound less
    |s|^2/2 is one for  OCE + l.v + |F v|^2/2. In exact arithmetic both differ from the tangent problem's by the same
    |s|^2/2, so that the gap is unchanged; the roundings of h and of l + h, times the largest v_j of the set, and those
    of the sums here come on top. So does what theta's distance from the rows, which is rounding, is worth at the
    multipliers: a theta just outside the set may lie below the bound by that much.
    """
    if problem.squares is None:
        return found
    s = problem.squares.image(theta)
    h = problem.squares.back(s)
    half, along = 0.5 * float(s @ s), float(h @ theta)
    low, high, _ = closed_box(box, theta, unit, h)
    slack = problem.squares.rounding(s) + _EPS * (np.abs(problem.linear) + np.abs(h))
    corner = np.maximum(np.abs(low), np.abs(high))
    moved = min(float(slack @ corner), float(slack.max()) * l1_reach(problem.polyhedron, low, high))
    moved += _EPS * (len(theta) + len(s) + 8.0) * (half + float(np.abs(h) @ np.abs(theta)))
    moved += 4.0 * _EPS * (abs(found.value) + abs(found.lower_bound))
    q = problem.polyhedron
    moved += worth_outside(found.y, z, q.C @ theta - q.c, q.G @ theta - q.b)
    value, lower = found.value - along + half, found.lower_bound - half - moved
    return replace(found, value=value, lower_bound=lower, gap=proved_gap(value, lower))
