"""Exact solutions by active sets: which constraints hold with equality is guessed, and the equations are solved.

`pivoted` is for a quadratic program with bounds and equations alone, by block principal pivoting: every variable that
breaks its bound, or whose multiplier has the wrong sign, changes sides, all at once. That takes a handful of solves as
a rule. Nothing promises it: where the number of offenders stops falling, the interior point method takes over.

`polish` goes from an interior point to the exact solution, with hinges and inequalities as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from certeq.optimize.qp._subproblem import Multipliers, Partition, Subproblem, SubSolution

Vector = NDArray[np.float64]
Index = NDArray[np.intp]
Solve = Callable[[Vector, Vector], tuple[Vector, Vector]]
_potrf, _potrs, _getrf, _getrs = get_lapack_funcs(("potrf", "potrs", "getrf", "getrs"), dtype=np.float64)
_FEW = 101  # variables, the threshold among them; more offend one another for longer than the interior method takes
_PIVOTS = 12  # rounds of pivoting
_SLACK = 1e-12
_REFINEMENTS = 4
_ROUGH = 1e-9  # what one solve may leave in the equations, and refinement may move a variable past its bound
_EXACT = 1e-13  # what refinement may leave in the equations of a solution that is called exact
_ROUNDS = 12  # exchanges of active constraints; a method that has found them nearly all needs two or three
BLOCKED = 24  # constraints that a last attempt may add, one at a time
_PATIENCE = 4  # of these without fewer offenders than before


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
    for _ in range(_PIVOTS):
        fixed = low | high
        free = (~fixed).nonzero()[0]
        solve = _factored(q, free)
        if solve is None:
            return None
        v, y = np.where(low, q.lower, np.where(high, q.upper, 0.0)), np.zeros(len(q.c))
        slope = _advance(q, free, solve, v, y, q.g + q.H @ v)
        left, short = slope[free], q.C @ v - q.c
        if not left @ left + short @ short <= _ROUGH**2:  # H is nearly singular, and v not yet what offends or not
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
    if not len(free):
        return lambda down, missing: (down, np.zeros_like(missing))
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


# -- from an interior point -------------------------------------------------------------------------------------------


def polish(
    problem: Subproblem,
    partition: Partition,
    v: Vector,
    multipliers: Multipliers,
    slack: float = 1e-11,
    rounds: int = _ROUNDS,
    blocked: int = 0,
) -> SubSolution | None:
    """The solution with the given constraints active, or with a few of them exchanged; None where that is not enough.

    Where the active constraints leave v or the multipliers undetermined (equal assets, ties), the answer is the
    one nearest the point handed in: the regularized system is refined until its residual is rounding, and each
    correction is of least norm.

    A hinge just off its kink, or a bound that is nearly free, is easily taken for the other thing. Whatever breaks its
    side once the equalities are solved changes it, all offenders at once while they become fewer, then the worst alone.

    Where constraints are missing, so that the objective falls along the edge or face of the active ones, the one that
    ends it is added, as the simplex method does, up to ``blocked`` times.
    """
    with np.errstate(all="ignore"):
        fewest, seen = np.inf, 0
        for _ in range(rounds + blocked):
            found = _solve_active(problem, partition, v, multipliers, slack)
            if found is None and blocked > 0:
                next_one = _with_blocking(problem, partition, v)
                if next_one is None:
                    return None
                blocked, (partition, v) = blocked - 1, next_one
                continue
            if found is None or isinstance(found, SubSolution):
                return found
            many = found.count() < fewest
            seen = 0 if many else seen + 1
            fewest = min(fewest, found.count())
            if seen > _PATIENCE:
                return None
            partition = found.exchanged(partition, many)
    return None


@dataclass(frozen=True)
class _Offenders:
    """By how much each constraint breaks the side it was put on, 0 where it does not; and where it should go."""

    lower: Vector
    upper: Vector
    tight: Vector
    side: Vector
    below: NDArray[np.bool_]  # variables below their lower bound, to be put there
    over: NDArray[np.bool_]
    wanted: NDArray[np.int8]  # of the hinges

    def count(self) -> int:
        """How many there are."""
        return sum(int(np.count_nonzero(part)) for part in (self.lower, self.upper, self.tight, self.side))

    def exchanged(self, p: Partition, every: bool) -> Partition:
        """The partition with all of them changed, or the worst alone."""
        worst = 0.0 if every else max(_most(part) for part in (self.lower, self.upper, self.tight, self.side))
        lower, upper, tight, side = (
            (part > 0.0) & (part >= worst) for part in (self.lower, self.upper, self.tight, self.side)
        )
        return Partition(
            (p.at_lower & ~lower) | (self.below & lower),
            (p.at_upper & ~upper) | (self.over & upper),
            p.tight ^ tight,
            np.where(side, self.wanted, p.side).astype(np.int8),
        )


def _solve_active(
    q: Subproblem, partition: Partition, v: Vector, multipliers: Multipliers, slack: float
) -> SubSolution | _Offenders | None:
    """The solution of the equalities; what it breaks, if anything; None where they have no solution."""
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
    curvature = None if q.H is None else q.H[np.ix_(free, free)]
    rows = E[:, free]
    size = len(free)
    solve = _by_null_space(curvature, rows) if len(rows) > 1.5 * size + 20 else _by_elimination(curvature, rows)
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
    excess, share = q.B @ v - q.kink, p / q.cap
    missed = q.G @ v - q.b
    out = np.where(partition.side == 0, np.maximum(-share, share - 1.0), -excess * partition.side)
    offenders = _Offenders(
        _beyond(np.where(partition.at_lower, -slope, q.lower - v), slack),
        _beyond(np.where(partition.at_upper, slope, v - q.upper), slack),
        _beyond(np.where(partition.tight, -z, missed), slack),
        _beyond(out, slack),
        v < q.lower,
        v > q.upper,
        np.where(partition.side != 0, 0, np.where(share > 0.5, 1, -1)).astype(np.int8),
    )
    if offenders.count():
        return offenders
    below = np.where(partition.at_lower, np.maximum(slope, 0.0), 0.0)
    over = np.where(partition.at_upper, np.maximum(-slope, 0.0), 0.0)
    clean = Multipliers(y, np.maximum(z, 0.0), np.clip(p, 0.0, q.cap), below, over)
    return SubSolution(np.clip(v, q.lower, q.upper), clean, partition, True, 0)


def _with_blocking(q: Subproblem, partition: Partition, v: Vector) -> tuple[Partition, Vector] | None:
    """The partition with the first constraint that is met where the objective falls along the active ones; v there.

    None where it does not fall, or for ever.
    """
    fixed = partition.at_lower | partition.at_upper
    free, tied = np.flatnonzero(~fixed), partition.side == 0
    v = np.where(partition.at_lower, q.lower, np.where(partition.at_upper, q.upper, v))
    slope = (q.gradient(v) + np.where(partition.side > 0, q.cap, 0.0) @ q.B)[free]
    rows = np.concatenate([q.C, q.G[partition.tight], q.B[tied], np.zeros((0, len(v))) if q.H is None else q.H])
    try:
        _, values, right = np.linalg.svd(rows[:, free], full_matrices=True)
    except np.linalg.LinAlgError:
        return None
    null = right[int(np.sum(values > 1e-11 * float(values.max(initial=0.0)))) :]
    way = np.zeros(len(v))
    way[free] = -(null @ slope) @ null
    if not np.abs(way).max(initial=0.0) > _SLACK * float(np.abs(slope).max(initial=0.0)):
        return None
    # How far it is to each bound, row and kink that lies ahead; those already passed, by rounding, are met at once.
    ahead, excess = q.B @ way, q.B @ v - q.kink
    lengths = [
        _reached(fixed | ~(way < 0.0), v - q.lower, -way),
        _reached(fixed | ~(way > 0.0), q.upper - v, way),
        _reached(partition.tight | ~(q.G @ way > 0.0), q.b - q.G @ v, q.G @ way),
        _reached(tied | ~(ahead * partition.side < 0.0), np.abs(excess), np.abs(ahead)),
    ]
    first = min([float(one.min(initial=np.inf)) for one in lengths])
    if not first < np.inf:
        return None
    low, high, tight, met = (one == first for one in lengths)
    side = np.where(met, 0, partition.side).astype(np.int8)
    return Partition(
        partition.at_lower | low, partition.at_upper | high, partition.tight | tight, side
    ), v + first * way


def _reached(never: NDArray[np.bool_], apart: Vector, speed: Vector) -> Vector:
    return np.where(never, np.inf, np.maximum(apart, 0.0) / np.where(never, 1.0, speed))


def _beyond(violation: Vector, slack: float) -> Vector:
    return np.where(violation > slack, violation, 0.0)


def _most(violation: Vector) -> float:
    return float(violation.max()) if len(violation) else 0.0


def _by_elimination(curvature: Vector | None, rows: Vector) -> Callable[[Vector], Vector] | None:
    """Solve [H E^T; E 0] by LU of the system with a small diagonal; refinement removes what that changes."""
    height, size = rows.shape
    K = np.zeros((size + height, size + height))
    if curvature is not None:
        K[:size, :size] = curvature
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


def _by_null_space(curvature: Vector | None, rows: Vector) -> Callable[[Vector], Vector] | None:
    """The same for many more rows than variables (every scenario tied, say): least squares from one thin SVD."""
    size = rows.shape[1]
    try:
        left, values, right_t = np.linalg.svd(rows, full_matrices=False)
    except np.linalg.LinAlgError:
        return None
    rank = int(np.sum(values > 1e-11 * max(float(values.max(initial=0.0)), 1e-300)))
    left, values, span, null = left[:, :rank], values[:rank], right_t[:rank], right_t[rank:]
    inner = None if curvature is None or not len(null) else null @ curvature @ null.T

    def solve(right: Vector) -> Vector:
        step = ((right[size:] @ left) / values) @ span
        slope = right[:size] if curvature is None else right[:size] - curvature @ step
        if inner is not None:
            free = np.linalg.lstsq(inner, null @ slope, rcond=1e-13)[0] @ null
            step, slope = step + free, slope - curvature @ free
        return np.concatenate([step, left @ ((span @ slope) / values)])

    return solve
