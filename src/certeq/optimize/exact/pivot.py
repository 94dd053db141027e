"""The active set of a small quadratic programme with bounds and equations alone, by block principal pivoting.

Guess which variables are at a bound, solve for the others, and let every variable that then breaks its bound, or
whose multiplier has the wrong sign, change sides: all at once. That takes a handful of solves as a rule. Nothing
promises it: where the number of offenders stops falling, the interior point method takes over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from certeq.optimize.exact.subproblem import Multipliers, Partition, Subproblem, SubSolution

Vector = NDArray[np.float64]
_potrf, _potrs = get_lapack_funcs(("potrf", "potrs"), dtype=np.float64)
_FEW = 64  # variables; more of them offend one another for longer than the interior method takes
_ROUNDS = 12
_SLACK = 1e-12


def pivoted(problem: Subproblem, start: Partition | None) -> SubSolution | None:
    """The solution to rounding with the active set it was found on, or None where pivoting does not settle."""
    q = problem
    if q.H is None or len(q.b) or len(q.cap) or len(q.g) > _FEW:
        return None
    nowhere = np.zeros(len(q.g), dtype=bool)
    low, high = (nowhere, nowhere) if start is None else (start.at_lower, start.at_upper)
    fewest, patience = len(q.g) + 1, 2
    for _ in range(_ROUNDS):
        fixed = low | high
        found = _solved(q, np.flatnonzero(~fixed), np.where(low, q.lower, np.where(high, q.upper, 0.0)))
        if found is None:
            return None
        v, y = found
        slope = q.g + q.H @ v - y @ q.C
        under, over = ~fixed & (v < q.lower - _SLACK), ~fixed & (v > q.upper + _SLACK)
        freed = (low & (slope < -_SLACK)) | (high & (slope > _SLACK))
        offenders = int(np.count_nonzero(under) + np.count_nonzero(over) + np.count_nonzero(freed))
        if offenders == 0:
            partition = Partition(low, high, np.zeros(0, dtype=bool), np.zeros(0, dtype=np.int8))
            below, above = np.where(low, np.maximum(slope, 0.0), 0.0), np.where(high, np.maximum(-slope, 0.0), 0.0)
            prices = Multipliers(y, np.zeros(0), np.zeros(0), below, above)
            return SubSolution(v, prices, partition, False, 0)
        if offenders < fewest:
            fewest, patience = offenders, 2
        elif patience == 0:
            return None
        else:
            patience -= 1
        low, high = (low & ~freed) | under, (high & ~freed) | over
    return None


def _solved(q: Subproblem, free: NDArray[np.intp], v: Vector) -> tuple[Vector, Vector] | None:
    """The least value with every variable but the free ones held, and the multipliers of C v = c."""
    assert q.H is not None
    factor, info = _potrf(q.H[np.ix_(free, free)], lower=1, clean=0)
    if info != 0:
        return None
    first = _potrs(factor, -(q.g + q.H @ v)[free], lower=1)[0]
    y = np.zeros(len(q.c))
    if len(y):
        rows = q.C[:, free]
        half = _potrs(factor, rows.T, lower=1)[0]
        inner, info = _potrf(rows @ half, lower=1, clean=0)
        if info != 0:
            return None
        y = _potrs(inner, q.c - q.C @ v - rows @ first, lower=1)[0]
        first = first + half @ y
    v = v.copy()
    v[free] = first
    return (v, y) if np.isfinite(v).all() else None
