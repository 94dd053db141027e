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
_PAIRS = 48.0  # roundings of a sum over scenarios: NumPy adds by pairs of short runs
_WIDE = float(np.finfo(np.longdouble).eps) / 2.0  # of one operation in extended precision, where the machine has it
_CHUNK = 2**20  # numbers of the table read at a time
_EVEN = 4.0  # sqrt(sum q^2/w), which is 1 where the tilt is even and sqrt(M) where one scenario carries it


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
        terms = np.where(r == 0.0, 0.0, r * np.where(r > 0.0, low, high))
    return float(y @ q.c - z @ q.b + terms.sum()), y


def _best_price(g: Vector, row: Vector, right: float, low: Vector, high: Vector, y: Vector) -> Vector:
    """The multiplier of the budget that makes the bound best: a fractional knapsack, by sorting g_j/row_j."""
    held = row.nonzero()[0]
    if len(held) < len(row):
        g, row, low, high = g[held], row[held], low[held], high[held]
    width = high - low
    if not len(held) or not np.isfinite(width).all():
        return y
    price = g / row
    order = price.argsort(kind="stable")
    # As the price rises past g_j/row_j asset j moves from the end that lowers row.v to the one that raises it.
    base = float((row * np.where(row > 0.0, low, high)).sum())
    raised = base + (np.abs(row) * width)[order].cumsum()
    place = min(int(raised.searchsorted(right)), len(held) - 1)
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
    root_mean_square: Vector,
) -> Certificate:
    """The value at theta and a proved lower bound, in the caller's units, with every rounding error allowed for.

    ``root_mean_square`` of every asset's losses, or more than that, is used for the errors alone.
    """
    q, w, utility = problem.polyhedron, problem.weights, problem.utility
    losses, g, g_size, run = _passes(problem, theta, tilt, root_mean_square)
    size, linear_size, weight = np.abs(theta), np.abs(problem.linear), np.abs(tilt)
    with np.errstate(all="ignore"):
        at_theta, at_support = utility.value(losses - t), utility.value(support)
        lever = tilt * support
    value = t + float((w * at_theta).sum()) + float(problem.linear @ theta)
    constant = float((w * at_support - lever).sum())
    g += problem.linear
    z = np.maximum(z, 0.0)
    low, high, radius = closed_box(box, theta, unit, g - y @ q.C + z @ q.G)
    bound, y = linear_minimum(g, q, low, high, y, z)

    corner = np.maximum(np.abs(low), np.abs(high))
    reach = l1_reach(q, low, high)
    held = float(weight.sum())
    drift = abs(1.0 - tilt.sum(dtype=np.longdouble))  # times any loss within reach, so that every digit counts
    widest = problem.largest * reach + abs(utility.anchor)
    short = _EPS * (len(theta) + 8.0)
    r_size = g_size + linear_size + np.abs(y) @ np.abs(q.C) + z @ np.abs(q.G)
    slack = _EPS * (run + 8.0) * g_size + short * r_size
    with np.errstate(invalid="ignore"):
        at_corner = float(slack @ corner)
    errors = (
        short * (abs(t) + float(linear_size @ size + np.abs(y) @ np.abs(q.c) + z @ np.abs(q.b))),
        _PAIRS * _EPS * (float(w @ np.abs(at_theta)) + float(w @ np.abs(at_support)) + float(np.abs(lever).sum())),
        short * (float(g_size @ size) + held * abs(t)),  # sum |q_i| |a_i|.|theta| is |A|^T |q| times |theta|
        (float(drift) + (_PAIRS * _WIDE + 8.0 * _EPS) * held) * (widest + abs(t)),
        min(at_corner, float(slack.max()) * reach),
    )
    lower = constant + bound - sum(errors)
    if not np.isfinite(lower):
        lower = -np.inf
    return Certificate(value, lower, max(value - lower, 0.0), radius, g, y)


def distance(theta: Vector, unit: float) -> float:
    """How far the bound reaches where nothing bounds a variable: ten times what is held, at least one unit."""
    return 10.0 * max(float(np.abs(theta).sum()), 0.1 * unit)


def _passes(
    problem: Problem, theta: Vector, tilt: Vector, root_mean_square: Vector
) -> tuple[Vector, Vector, Vector, float]:
    """A theta and A^T tilt, a bound on |A|^T |tilt|, and the longest run of additions.

    Sums over scenarios are made in runs of about sqrt(M) rows and then over the runs, so that their rounding error
    grows with sqrt(M), not with M. A run of fewer than 128 rows would cost more to start than to add up.
    """
    table = problem.table
    count, assets = table.shape
    losses, g, g_size = np.empty(count), np.zeros(assets), np.zeros(assets)
    run = int(min(1024, max(128, np.sqrt(count))))
    chunk = run * max(1, _CHUNK // (run * assets))
    # Cauchy and Schwarz: sum |q_i a_ij| <= sqrt(sum q_i^2/w_i) sqrt(sum w_i a_ij^2), loose where a few scenarios
    # carry the tilt; only then is a pass over absolute values worth its time.
    with np.errstate(all="ignore"):
        spike = float(np.sqrt(tilt @ (tilt / problem.weights)))
    direct = not spike <= _EVEN
    for start in range(0, count, chunk):
        rows = slice(start, min(start + chunk, count))
        block = np.asarray(table[rows], dtype=np.float64)
        if block.itemsize not in block.strides:
            block = np.ascontiguousarray(block)
        losses[rows] = block @ theta
        g += _by_runs(tilt[rows], block, run)
        if direct:
            g_size += _by_runs(np.abs(tilt[rows]), np.abs(block), run)
    if not direct:
        g_size = spike * root_mean_square
    return losses, g, g_size, min(run, count) + count / run + 2.0 * count / chunk


def _by_runs(q: Vector, block: Vector, run: int) -> Vector:
    """q @ block, in runs of rows and then over the runs."""
    whole = len(block) // run * run
    total = q[whole:] @ block[whole:]
    if whole and block.strides[0] == block.itemsize:  # held by columns
        columns = block[:whole].T.reshape(block.shape[1], -1, run)
        total += np.vecdot(columns, q[:whole].reshape(-1, run)).sum(axis=1)
    elif whole:
        rows = block[:whole].reshape(-1, run, block.shape[1])
        total += np.matmul(q[:whole].reshape(-1, 1, run), rows).sum(axis=(0, 1))
    return np.asarray(total)


def closed_box(box: tuple[Vector, Vector], theta: Vector, unit: float, r: Vector) -> tuple[Vector, Vector, float]:
    """The implied box, closed at a stated distance where nothing bounds a variable on the side that matters."""
    low, high = box
    open_low, open_high = np.isneginf(low), np.isposinf(high)
    if not (open_low | open_high).any():
        return low, high, np.inf
    radius = distance(theta, unit)
    needed = bool(np.any((r > 0.0) & open_low) or np.any((r < 0.0) & open_high))
    low = np.where(open_low, theta - radius, low)
    high = np.where(open_high, theta + radius, high)
    return low, high, radius if needed else np.inf


def l1_reach(q: Polyhedron, low: Vector, high: Vector) -> float:
    """A bound on sum |v_j| over the set."""
    best = float(np.maximum(np.abs(low), np.abs(high)).sum())
    if (low >= 0.0).all():
        for row, right in zip(q.C, q.c, strict=True):
            if (row > 0.0).all():
                best = min(best, abs(float(right)) / float(row.min()))
    return best
