"""From an interior point to the exact solution: fix what is active and solve the equalities that remain."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from certeq.optimize.exact.subproblem import Multipliers, Partition, Subproblem, SubSolution

Vector = NDArray[np.float64]
_getrf, _getrs = get_lapack_funcs(("getrf", "getrs"), dtype=np.float64)


def polish(
    problem: Subproblem, partition: Partition, v: Vector, multipliers: Multipliers, slack: float = 1e-11
) -> SubSolution | None:
    """The solution with exactly the given constraints active, or None where it breaks another one.

    Where the active constraints leave v or the multipliers undetermined (equal assets, ties), the answer is the
    one nearest the point handed in: the regularised system is refined until its residual is rounding, and each
    correction is of least norm.
    """
    with np.errstate(all="ignore"):
        return _polish(problem, partition, v, multipliers, slack)


def _polish(
    q: Subproblem, partition: Partition, v: Vector, multipliers: Multipliers, slack: float
) -> SubSolution | None:
    free = np.flatnonzero(~(partition.at_lower | partition.at_upper))
    tied = np.flatnonzero(partition.side == 0)
    tight = np.flatnonzero(partition.tight)
    v = np.where(partition.at_lower, q.lower, np.where(partition.at_upper, q.upper, v))
    above = np.where(partition.side > 0, q.cap, 0.0)
    # All equations as rows E v = e with multipliers m, so that the slope is  gradient + constant + m E.
    E = np.concatenate([q.C, q.G[tight], q.B[tied]])
    e = np.concatenate([q.c, q.b[tight], q.kink[tied]])
    m = np.concatenate([-multipliers.y, multipliers.z[tight], multipliers.p[tied]])
    constant = above @ q.B
    bend = None if q.H is None else q.H[np.ix_(free, free)]
    rows = E[:, free]
    size = len(free)
    solve = _by_null_space(bend, rows) if len(rows) > 1.5 * size + 20 else _by_elimination(bend, rows)
    if solve is None:
        return None
    last = np.inf
    for _ in range(12):
        slope = q.gradient(v) + constant + m @ E
        residual = np.concatenate([slope[free], E @ v - e])
        worst = float(np.abs(residual).max()) if len(residual) else 0.0
        if worst <= 1e-16 or worst >= 0.5 * last:
            break
        if not np.isfinite(worst):
            return None
        last = worst
        step = solve(-residual)
        v[free] += step[:size]
        m += step[size:]
    if not worst <= 1e-10:
        return None
    first, second = len(q.c), len(q.c) + len(tight)
    y, z, p = -m[:first], np.zeros(len(q.b)), above
    z[tight], p[tied] = m[first:second], m[second:]
    slope = q.gradient(v) + constant + m @ E
    excess = (q.B @ v - q.kink) * partition.side
    share = p / q.cap
    broken = max(
        _most(q.lower - v),
        _most(v - q.upper),
        _most(q.G @ v - q.b),
        _most(-excess),
        _most(-z),
        _most(-share),
        _most(share - 1.0),
        _most(-slope[partition.at_lower]),
        _most(slope[partition.at_upper]),
    )
    if broken > slack:
        return None
    below = np.where(partition.at_lower, np.maximum(slope, 0.0), 0.0)
    over = np.where(partition.at_upper, np.maximum(-slope, 0.0), 0.0)
    clean = Multipliers(y, np.maximum(z, 0.0), np.clip(p, 0.0, q.cap), below, over)
    return SubSolution(np.clip(v, q.lower, q.upper), clean, partition, True, 0)


def _most(violation: Vector) -> float:
    return float(violation.max()) if len(violation) else 0.0


Solve = Callable[[Vector], Vector]


def _by_elimination(bend: Vector | None, rows: Vector) -> Solve | None:
    """Solve [H E^T; E 0] by LU of the system with a small diagonal; refinement removes what that changes."""
    height, size = rows.shape
    K = np.zeros((size + height, size + height))
    if bend is not None:
        K[:size, :size] = bend
    K[size:, :size] = rows
    K[:size, size:] = rows.T
    small = 1e-9 * (float(np.max(np.abs(K), initial=0.0)) or 1.0)  # of nothing: no asset is left to move
    diagonal = np.einsum("ii->i", K)
    diagonal[:size] += small
    diagonal[size:] -= small
    if not np.all(np.isfinite(K)):
        return None
    factor, pivots, info = _getrf(K, overwrite_a=1)
    if info != 0:
        return None
    return lambda right: np.asarray(_getrs(factor, pivots, right)[0])


def _by_null_space(bend: Vector | None, rows: Vector) -> Solve | None:
    """The same for many more rows than variables (every scenario tied, say): least squares from one thin SVD."""
    size = rows.shape[1]
    try:
        left, values, right_t = np.linalg.svd(rows, full_matrices=False)
    except np.linalg.LinAlgError:
        return None
    rank = int(np.sum(values > 1e-11 * max(float(values.max(initial=0.0)), 1e-300)))
    left, values, span, null = left[:, :rank], values[:rank], right_t[:rank], right_t[rank:]
    inner = None if bend is None or not len(null) else null @ bend @ null.T

    def solve(right: Vector) -> Vector:
        step = ((right[size:] @ left) / values) @ span
        slope = right[:size] if bend is None else right[:size] - bend @ step
        if inner is not None:
            free = np.linalg.lstsq(inner, null @ slope, rcond=1e-13)[0] @ null
            step, slope = step + free, slope - bend @ free
        return np.concatenate([step, left @ ((span @ slope) / values)])

    return solve
