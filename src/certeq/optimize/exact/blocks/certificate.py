"""The proof on the whole panel: one pass in the caller's own units, every rounding error allowed for.

The bound is that of `certeq.optimize.exact.certificate`. Rows that were kept are supported as the multipliers of
their hinges say, all others where they lie, with q_i = w_i u'(a_i.theta - t): a subgradient whatever the solver did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from certeq.optimize.exact.blocks.hinges import Hinges, dual_pairs
from certeq.optimize.exact.blocks.sums import Rows, Units
from certeq.optimize.exact.certificate import _EPS, Certificate, closed_box, l1_reach, linear_minimum
from certeq.optimize.exact.problem import Polyhedron
from certeq.optimize.panels import Index, Panel, Vector
from certeq.utilities import Utility

_PAIRS = 48.0  # roundings of a sum over one piece: NumPy adds by pairs of runs, and pieces are joined exactly


@dataclass(frozen=True)
class Evidence:
    """Sums over rows, and the same of absolute values, from which the bound and its error follow."""

    value: float  # sum w u(x - t)
    constant: float  # sum w u(y) - q y
    slope: float  # sum q
    pull: Vector  # sum q a
    size: float  # sum w (|u(x - t)| + |u(y)|) + |q y|
    slope_size: float  # sum |q|
    loss_size: float  # sum |q| |a|.|theta|
    pull_size: Vector  # sum |q| |a|
    biggest: float  # greatest |a|
    run: float  # longest run of additions


@dataclass(frozen=True)
class Prove:
    """The kernel: evidence of all rows but those ``held``."""

    theta: Vector
    t: float
    utility: Utility
    mass: float
    held: Index  # sorted

    def __call__(self, ids: Index, rows: Vector, weights: Vector | None) -> Evidence:
        """Evidence of a piece."""
        w = np.full(len(rows), 1.0 / self.mass) if weights is None else weights / self.mass
        if len(self.held):
            place = np.minimum(np.searchsorted(self.held, ids), len(self.held) - 1)
            free = self.held[place] != ids
            rows, w = (rows, w) if free.all() else (rows[free], w[free])
        at = rows @ self.theta - self.t
        with np.errstate(all="ignore"):
            slope = np.asarray(self.utility.slope(at), dtype=np.float64)
        return evidence(rows, w, self.theta, at, at, slope, self.utility)

    def join(self, parts: Sequence[Evidence]) -> Evidence:
        """Add up."""
        return Evidence(
            math.fsum(part.value for part in parts),
            math.fsum(part.constant for part in parts),
            math.fsum(part.slope for part in parts),
            _exactly([part.pull for part in parts]),
            math.fsum(part.size for part in parts),
            math.fsum(part.slope_size for part in parts),
            math.fsum(part.loss_size for part in parts),
            _exactly([part.pull_size for part in parts]),
            max(part.biggest for part in parts),
            max(part.run for part in parts) + 1.0,
        )


def _exactly(vectors: list[Vector]) -> Vector:
    """Their sum, rounded once."""
    return np.array([math.fsum(column) for column in np.transpose(vectors)])


def evidence(
    rows: Vector, w: Vector, theta: Vector, at: Vector, support: Vector, slope: Vector, utility: Utility
) -> Evidence:
    """Evidence of rows whose u is taken at ``at`` and supported by lines of the given slopes at ``support``."""
    with np.errstate(all="ignore"):
        there = utility.value(at)
        below = there if support is at else utility.value(support)
        q = w * slope
        lever = q * support
        worth, floor = w * there, w * below
        absolute, weight = np.abs(rows), np.abs(q)
        pull, pull_size = _by_runs(q, rows), _by_runs(weight, absolute)
        return Evidence(
            float(np.sum(worth)),
            float(np.sum(floor - lever)),
            float(np.sum(q)),
            pull,
            float(np.sum(np.abs(worth) + np.abs(floor) + np.abs(lever))),
            float(np.sum(weight)),
            float(np.abs(theta) @ pull_size),
            pull_size,
            float(np.max(absolute, initial=0.0)),
            2.0 * _run(len(rows)) + 4.0,
        )


def _run(count: int) -> int:
    """Rows added up at a time: the rounding error of a sum grows with the longest run of additions."""
    return max(8, int(np.sqrt(count)))


def _by_runs(q: Vector, rows: Vector) -> Vector:
    """q @ rows, in runs of equal length and then over the runs."""
    run = _run(len(rows))
    whole = len(rows) // run * run
    total = q[whole:] @ rows[whole:]
    if whole:
        runs = np.matmul(q[:whole].reshape(-1, 1, run), rows[:whole].reshape(-1, run, rows.shape[1]))
        total = total + runs.sum(axis=(0, 1))
    return np.asarray(total)


def prove(
    panel: Panel,
    utility: Utility,
    linear: Vector,
    q: Polyhedron,
    box: tuple[Vector, Vector],
    units: Units,
    theta: Vector,
    t: float,
    kept: Rows,
    hinges: Hinges,
    share: Vector,
    y: Vector,
    z: Vector,
    unit: float,
) -> Certificate:
    """The value at theta and a proved lower bound, in the caller's units."""
    kernel = Prove(theta, t, utility, units.mass, np.sort(kept.ids))
    found = panel.reduce(kernel)
    if len(kept):
        at = kept.raw @ theta - t
        support, slope = dual_pairs(at, hinges, share, utility)
        found = kernel.join([found, evidence(kept.raw, kept.weights, theta, at, support, slope, utility)])
    g = found.pull + linear
    z = np.maximum(z, 0.0)
    value = t + found.value + float(linear @ theta)
    low, high, radius = closed_box(box, theta, unit, g - y @ q.C + z @ q.G)
    bound, y = linear_minimum(g, q, low, high, y, z)
    reach = l1_reach(q, low, high)
    widest = found.biggest * reach + abs(utility.anchor)
    long, short = _EPS * (found.run + 8.0), _EPS * (len(theta) + 8.0)
    r_size = found.pull_size + np.abs(linear) + np.abs(y) @ np.abs(q.C) + z @ np.abs(q.G)
    with np.errstate(invalid="ignore"):
        corner = np.maximum(np.abs(low), np.abs(high))
    slack = long * found.pull_size + short * r_size
    errors = (
        short * (abs(t) + float(np.abs(linear) @ np.abs(theta) + np.abs(y) @ np.abs(q.c) + z @ np.abs(q.b))),
        _PAIRS * _EPS * found.size,
        short * (found.loss_size + found.slope_size * abs(t)),
        (abs(1.0 - found.slope) + _PAIRS * _EPS * found.slope_size) * (widest + abs(t)),
        min(float(slack @ corner), float(np.max(slack)) * reach),
    )
    lower = found.constant + bound - sum(errors)
    # Above the value, or no number: arithmetic has overflowed somewhere, and nothing is proved.
    if not np.isfinite(lower) or not np.isfinite(value) or lower > value + sum(errors):
        lower = -np.inf
    return Certificate(value, lower, max(value - lower, 0.0), radius, g, y)
