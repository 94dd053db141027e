"""A lower bound on the optimum that holds in float64, from supporting lines and multipliers.

For any points y_i, slopes q_i/w_i in the subdifferential of u at y_i, and any feasible v and t,

    t + sum w_i u(a_i.v - t) + l.v  >=  K + g.v + (1 - sum q) t,   K = sum w_i u(y_i) - q_i y_i,  g = A^T q + l,

and with multipliers y of C v = c and z >= 0 of G v <= b

    g.v  >=  y.c - z.b + sum_j min over lower_j <= v_j <= upper_j of r_j v_j,   r = g - C^T y + G^T z.

Nothing here trusts the solver: whatever q, y and z it hands over, the bound is valid; good ones make it tight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.exact.problem import Polyhedron, Problem

Vector = NDArray[np.float64]
_EPS = float(np.finfo(np.float64).eps) / 2.0  # the rounding error of one operation
_CHUNK = 2**20  # numbers of the table read at a time


@dataclass(frozen=True)
class Certificate:
    """value - lower_bound = gap >= 0 bounds the suboptimality of theta; valid for points within ``radius``."""

    value: float
    lower_bound: float
    gap: float
    radius: float
    slope: Vector  # g
    y: Vector


def linear_minimum(g: Vector, q: Polyhedron, low: Vector, high: Vector, y: Vector, z: Vector) -> tuple[float, Vector]:
    """A lower bound of g.v over the polyhedron and the y it uses; exact for a single equality row."""
    if len(q.c) == 1 and not len(q.b):
        y = _best_price(g, q.C[0], float(q.c[0]), low, high, y)
    r = g - y @ q.C + z @ q.G
    with np.errstate(invalid="ignore"):
        terms = np.where(r > 0.0, r * low, np.where(r < 0.0, r * high, 0.0))
    return float(y @ q.c - z @ q.b + terms.sum()), y


def _best_price(g: Vector, row: Vector, right: float, low: Vector, high: Vector, y: Vector) -> Vector:
    """The multiplier of the budget that makes the bound best: a fractional knapsack, by sorting g_j/row_j."""
    held = np.flatnonzero(row)
    if not len(held) or not (np.all(np.isfinite(low[held])) and np.all(np.isfinite(high[held]))):
        return y
    a = row[held]
    price = g[held] / a
    order = np.argsort(price, kind="stable")
    # As the price rises past g_j/a_j asset j moves from the end that lowers row.v to the one that raises it.
    base = float(np.where(a > 0, a * low[held], a * high[held]).sum())
    raised = base + np.cumsum((np.abs(a) * (high - low)[held])[order])
    place = min(int(np.searchsorted(raised, right)), len(held) - 1)
    return np.array([price[order[place]]])


def certify(
    problem: Problem,
    box: tuple[Vector, Vector],
    theta: Vector,
    t: float,
    support: Vector,
    tilt: Vector,
    y: Vector,
    z: Vector,
    unit: float,
) -> Certificate:
    """The value at theta and a proved lower bound, in the caller's units, with every rounding error allowed for."""
    q, w = problem.polyhedron, problem.weights
    assets = problem.table.shape[1]
    losses, loss_size, g, g_size, biggest, run = _passes(problem, theta, tilt)
    size = np.abs(theta)
    utility = problem.utility
    with np.errstate(all="ignore"):
        at_theta, at_support = utility.value(losses - t), utility.value(support)
    value = t + float(np.sum(w * at_theta)) + float(problem.linear @ theta)
    constant = float(np.sum(w * at_support - tilt * support))
    g += problem.linear
    z = np.maximum(z, 0.0)
    low, high, radius = closed_box(box, theta, unit, g - y @ q.C + z @ q.G)
    bound, y = linear_minimum(g, q, low, high, y, z)

    reach = l1_reach(q, low, high)
    drift = abs(1.0 - float(np.sum(tilt)))
    widest = biggest * reach + abs(utility.anchor)
    long = _EPS * (run + 8.0)
    short = _EPS * (assets + 8.0)
    r_size = g_size + np.abs(problem.linear) + np.abs(y) @ np.abs(q.C) + z @ np.abs(q.G)
    with np.errstate(invalid="ignore"):
        corner = np.maximum(np.abs(low), np.abs(high))
    errors = (
        short * (abs(t) + float(np.abs(problem.linear) @ size) + float(np.abs(y) @ np.abs(q.c) + z @ np.abs(q.b))),
        8.0 * _EPS * float(np.sum(w * (np.abs(at_theta) + np.abs(at_support)) + np.abs(tilt * support))),
        short * float(np.sum(np.abs(tilt) * (loss_size + abs(t)))),
        (drift + 8.0 * _EPS * float(np.sum(np.abs(tilt)))) * (widest + abs(t)),
        min(float((long * g_size + short * r_size) @ corner), float(np.max(long * g_size + short * r_size)) * reach),
    )
    lower = constant + bound - sum(errors)
    if not np.isfinite(lower):
        lower = -np.inf
    return Certificate(value, lower, max(value - lower, 0.0), radius, g, y)


def distance(theta: Vector, unit: float) -> float:
    """How far the bound reaches where nothing bounds a variable: ten times what is held, at least one unit."""
    return 10.0 * max(float(np.abs(theta).sum()), 0.1 * unit)


def _passes(problem: Problem, theta: Vector, tilt: Vector) -> tuple[Vector, Vector, Vector, Vector, float, float]:
    """A theta and A^T tilt with the same of absolute values, the largest entry, and the longest run of additions.

    Sums over scenarios are made in runs of about sqrt(M) rows and then over the runs, so that their rounding error
    grows with sqrt(M), not with M. A run of fewer than 256 rows would cost more to start than to add up.
    """
    count, assets = problem.table.shape
    size = np.abs(theta)
    g, g_size = np.zeros(assets), np.zeros(assets)
    losses, loss_size = np.empty(count), np.empty(count)
    biggest = 0.0
    run = int(min(1024, max(256, np.sqrt(count))))
    chunk = run * max(1, _CHUNK // (run * assets))
    for start in range(0, count, chunk):
        rows = slice(start, min(start + chunk, count))
        block = np.ascontiguousarray(problem.table[rows], dtype=np.float64)
        absolute = np.abs(block)
        losses[rows], loss_size[rows] = block @ theta, absolute @ size
        biggest = max(biggest, float(absolute.max()))
        part = tilt[rows]
        whole = len(block) // run * run
        if whole:
            shape, runs = (-1, run, assets), part[:whole].reshape(-1, 1, run)
            g += np.matmul(runs, block[:whole].reshape(shape)).sum(axis=(0, 1))
            g_size += np.matmul(np.abs(runs), absolute[:whole].reshape(shape)).sum(axis=(0, 1))
        g += part[whole:] @ block[whole:]
        g_size += np.abs(part[whole:]) @ absolute[whole:]
    return losses, loss_size, g, g_size, biggest, run + count / run + 2.0 * count / chunk


def closed_box(box: tuple[Vector, Vector], theta: Vector, unit: float, r: Vector) -> tuple[Vector, Vector, float]:
    """The implied box, closed at a stated distance where nothing bounds a variable on the side that matters."""
    low, high = box
    open_low, open_high = np.isneginf(low), np.isposinf(high)
    if not (open_low.any() or open_high.any()):
        return low, high, np.inf
    radius = distance(theta, unit)
    needed = bool(np.any((r > 0.0) & open_low) or np.any((r < 0.0) & open_high))
    low = np.where(open_low, theta - radius, low)
    high = np.where(open_high, theta + radius, high)
    return low, high, radius if needed else np.inf


def l1_reach(q: Polyhedron, low: Vector, high: Vector) -> float:
    """A bound on sum |v_j| over the set."""
    best = float(np.maximum(np.abs(low), np.abs(high)).sum())
    if np.all(low >= 0.0):
        for row, right in zip(q.C, q.c, strict=True):
            if np.all(row > 0.0):
                best = min(best, abs(float(right)) / float(row.min()))
    return best
