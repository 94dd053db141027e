"""The active set of a small quadratic program with bounds and equations alone, by block principal pivoting.

Guess which variables are at a bound, solve for the others, and let every variable that then breaks its bound, or
whose multiplier has the wrong sign, change sides: all at once. That takes a handful of solves as a rule. Nothing
promises it: where the number of offenders stops falling, the interior point method takes over.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from certeq.optimize.exact.subproblem import Multipliers, Partition, Subproblem, SubSolution

Vector = NDArray[np.float64]
Index = NDArray[np.intp]
Solve = Callable[[Vector, Vector], tuple[Vector, Vector]]
_potrf, _potrs = get_lapack_funcs(("potrf", "potrs"), dtype=np.float64)
_FEW = 101  # variables, the threshold among them; more offend one another for longer than the interior method takes
_ROUNDS = 12
_SLACK = 1e-12
_REFINEMENTS = 4
_ROUGH = 1e-9  # what one solve may leave in the equations, and refinement may move a variable past its bound
_EXACT = 1e-13  # what refinement may leave in the equations of a solution that is called exact


def pivoted(problem: Subproblem, start: Partition | None) -> SubSolution | None:
    """The solution on the active set that pivoting settles on, or None where it does not settle.

    It is called exact where refinement brings every equation down to rounding.
    """
    q = problem
    if q.H is None or len(q.b) or len(q.cap) or len(q.g) > _FEW:
        return None
    nowhere = np.zeros(len(q.g), dtype=bool)
    low, high = (nowhere, nowhere) if start is None else (start.at_lower, start.at_upper)
    fewest, patience = len(q.g) + 1, 2
    for _ in range(_ROUNDS):
        fixed = low | high
        free = (~fixed).nonzero()[0]
        solve = _factored(q, free)
        if solve is None:
            return None
        v, y = np.where(low, q.lower, np.where(high, q.upper, 0.0)), np.zeros(len(q.c))
        slope = _advance(q, free, solve, v, y, q.g + q.H @ v)
        if not _missed(q, free, v, slope) <= _ROUGH:  # H is nearly singular, and v not yet what offends or not
            slope = _advance(q, free, solve, v, y, slope)
        under, over = v < q.lower - _SLACK, v > q.upper + _SLACK
        freed = (low & (slope < -_SLACK)) | (high & (slope > _SLACK))
        offenders = int(np.count_nonzero(under | over | freed))
        if offenders == 0:
            return _refined(q, free, solve, v, y, slope, low, high)
        if not np.isfinite(slope).all():
            return None
        if offenders < fewest:
            fewest, patience = offenders, 2
        elif patience == 0:
            return None
        else:
            patience -= 1
        low, high = (low & ~freed) | under, (high & ~freed) | over
    return None


def _factored(q: Subproblem, free: Index) -> Solve | None:
    """Solve  [H C^T; C 0] (v, -y) = (down, missing)  in the free variables: Cholesky of H, then of C H^-1 C^T."""
    assert q.H is not None
    factor, info = _potrf(q.H[free[:, None], free], lower=1, clean=0)
    if info != 0:
        return None
    if not len(q.c):
        return lambda down, missing: (_potrs(factor, down, lower=1)[0], missing)
    rows = q.C[:, free]
    half = _potrs(factor, rows.T, lower=1)[0]
    inner, info = _potrf(rows @ half, lower=1, clean=0)
    if info != 0:
        return None

    def solve(down: Vector, missing: Vector) -> tuple[Vector, Vector]:
        first = _potrs(factor, down, lower=1)[0]
        price = _potrs(inner, missing - rows @ first, lower=1)[0]
        return first + half @ price, price

    return solve


def _advance(q: Subproblem, free: Index, solve: Solve, v: Vector, y: Vector, slope: Vector) -> Vector:
    """Take v and y, in place, to where the free slopes vanish and C v = c; the slope there."""
    assert q.H is not None
    move, price = solve(-slope[free], q.c - q.C @ v)
    v[free] += move
    y += price
    return np.asarray(q.g + q.H @ v - y @ q.C)


def _missed(q: Subproblem, free: Index, v: Vector, slope: Vector) -> float:
    """The largest residual of the equations."""
    return max(float(np.abs(slope[free]).max(initial=0.0)), float(np.abs(q.C @ v - q.c).max(initial=0.0)))


def _refined(
    q: Subproblem,
    free: Index,
    solve: Solve,
    v: Vector,
    y: Vector,
    slope: Vector,
    low: NDArray[np.bool_],
    high: NDArray[np.bool_],
) -> SubSolution | None:
    """The same point after refinement with the factors at hand, as long as that helps."""
    last = np.inf
    for _ in range(_REFINEMENTS):
        worst = _missed(q, free, v, slope)
        if worst <= 1e-16 or not worst < 0.5 * last:
            break
        last = worst
        slope = _advance(q, free, solve, v, y, slope)
    if not np.isfinite(slope).all() or np.any(v < q.lower - _ROUGH) or np.any(v > q.upper + _ROUGH):
        return None  # refinement has left the bounds: this was not the active set
    partition = Partition(low, high, np.zeros(0, dtype=bool), np.zeros(0, dtype=np.int8))
    below, above = np.where(low, np.maximum(slope, 0.0), 0.0), np.where(high, np.maximum(-slope, 0.0), 0.0)
    prices = Multipliers(y, np.zeros(0), np.zeros(0), below, above)
    return SubSolution(np.minimum(np.maximum(v, q.lower), q.upper), prices, partition, worst <= _EXACT, 0)
