r"""A lower bound on what a linear estimator minimises, by weak duality; the gap of a fit is the value less the bound.

OCE has supporting planes: for a tilt q with q_i/w_i in the subdifferential of u at x_i and sum q = 1,

.. math:: \mathrm{OCE}_u(F) \ge K + \sum_i q_i F_i, \qquad K = \sum_i w_i u(x_i) - q_i x_i,

for losses F of any kind. Losses are convex functions of the scores, so with conjugates F* and any slopes a_i in their
domains :math:`F_i(s) \ge a_i \cdot s - F_i^*(a_i)`. Where q >= 0 the two go together: for every coefficient matrix c
and intercept b, with Z = sum_i q_i a_i x_i^T,

.. math:: \mathrm{OCE}_u(F(c, b)) + \tfrac\mu2 |c|^2 \ge K - \sum_i q_i F_i^*(a_i)
          + \Big(\sum_i q_i a_i\Big) \cdot b + \langle Z, c\rangle + \tfrac\mu2 |c|^2 .

The slopes are moved within their domains until sum q_i a_i = 0, so that b plays no part, and the rest is at least
:math:`-|Z|^2/(2\mu)`. Nothing asks that theta is near the minimum; there the bound is tight. It holds for every
utility whose tilt is not negative, monotone or not. Without a penalty, and squared errors, the minimum of the weighted
squares stands in place of the last steps: their value less |g|^2 over twice the least eigenvalue of their Hessian.
Losses are not negative, so K is a bound in any case, and a tight one where all samples are fitted.
"""

from __future__ import annotations

import numpy as np

from certeq.learn._newton import DENSE
from certeq.learn._objective import At, LinearObjective
from certeq.learn._scores import Floats, SquaredScore
from certeq.optimize.gaps import proved_gap

_ROUNDING = 64.0 * float(np.finfo(np.float64).eps)  # of sums over samples, relative to the sizes of their terms
_SUM = 1e-12  # how far a tilt's sum may be from 1 before it is no tilt


def lower_bound(objective: LinearObjective, q: Floats, plane: float, losses: Floats, slopes: Floats) -> float:
    """A lower bound of the whole objective from a tilt q and the losses and slopes at some theta.

    ``plane`` is the supporting plane K + q.F at those losses. -inf where nothing is proved.
    """
    if not (float(q.min()) >= 0.0 and abs(1.0 - float(q.sum())) <= _SUM):
        return -np.inf
    size = abs(plane) + float(q @ np.abs(losses))
    least = plane - float(q @ losses) - _ROUNDING * size  # no loss is below 0
    if objective.penalty > 0.0:
        a, conjugate = objective.loss.dual(slopes, q, objective.intercept)
        Z = objective.pull(q[:, None] * a)[:, : objective.columns]
        quadratic = float(np.vdot(Z, Z)) / (2.0 * objective.penalty)
        bound = plane - float(q @ (losses + conjugate)) - quadratic
        return max(least, bound - _ROUNDING * (size + float(q @ np.abs(conjugate)) + quadratic))
    if isinstance(objective.loss, SquaredScore) and objective.size <= DENSE:
        return max(least, plane - _ROUNDING * size - _below(objective, q, slopes))
    return least


def _below(objective: LinearObjective, q: Floats, slopes: Floats) -> float:
    """How far the q-weighted squares can fall from where their slopes are given: |g|^2 / (2 least eigenvalue)."""
    g = objective.pull(q[:, None] * slopes).ravel()
    H = objective.hessian(slopes, q, np.zeros(len(q)))
    scale = 1.0 / np.sqrt(np.where(H.diagonal() > 0.0, H.diagonal(), 1.0))
    values = np.linalg.eigvalsh(H * scale[:, None] * scale)
    least = float(values[0]) - 1e-13 * len(values) * float(values[-1])  # what eigenvalues are known to
    if not least > 0.0:  # a column that others make up: some direction has no curvature to rely on
        return np.inf
    return float(np.sum(np.square(scale * g))) / (2.0 * least)


def gap_of(objective: LinearObjective, value: float, bound: float, losses: Floats) -> float:
    """The value less the bound; +inf where there is none."""
    return proved_gap(value, bound, _ROUNDING * (abs(value) + float(objective.shares() @ np.abs(losses))))


def smooth_gap(objective: LinearObjective, at: At, further: Floats | None) -> float:
    """The gap of a fit under a smooth utility; ``further`` is a step that may lead to a better bound."""
    bound = lower_bound(objective, at.tilt, at.value - objective.ridge(at.theta), at.losses, at.slopes)
    if further is not None and np.isfinite(bound):
        with np.errstate(over="ignore", invalid="ignore"):
            there = objective.evaluate(at.theta + further)
        if np.isfinite(there.value):
            plane = there.value - objective.ridge(there.theta)
            bound = max(bound, lower_bound(objective, there.tilt, plane, there.losses, there.slopes))
    return gap_of(objective, at.value, bound, at.losses)
