"""Is there a feasible point, where, and if not, which constraint is to blame?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.domains import InfeasibleError
from certeq.optimize.exact.problem import Polyhedron
from certeq.optimize.exact.rows import Rows

Vector = NDArray[np.float64]
_SLACK = 1e-11  # relative to the numbers in a row: a conflict smaller than this is rounding


def implied_box(polyhedron: Polyhedron) -> tuple[Vector, Vector]:
    """Bounds that the rows force on every variable, by interval propagation; raises where a row cannot hold."""
    q = polyhedron
    low, high = q.lower.copy(), q.upper.copy()
    crossed = (low > high).nonzero()[0]
    if len(crossed):
        j = int(crossed[0])
        raise InfeasibleError(f"lower[{j}] = {low[j]:g} is above upper[{j}] = {high[j]:g}: no point satisfies both.")
    for sweep in range(6):
        before = low.copy(), high.copy()
        for i in range(len(q.c)):
            _propagate(q.C[i], q.c[i], low, high, f"C[{i}]", sweep == 0)
            _propagate(-q.C[i], -q.c[i], low, high, f"C[{i}]", sweep == 0, flipped=True)
        for k in np.flatnonzero(q.b < np.inf):
            _propagate(q.G[k], q.b[k], low, high, f"G[{k}]", sweep == 0)
        if _settled(low, before[0]) and _settled(high, before[1]):
            break
    return low, high


def _settled(after: Vector, before: Vector) -> bool:
    """Whether a sweep changed nothing worth another."""
    moved = after != before
    return not moved.any() or bool(np.all(np.abs(after[moved] - before[moved]) <= 1e-3 * np.abs(before[moved])))


def _propagate(
    row: Vector, right: float, low: Vector, high: Vector, name: str, report: bool, flipped: bool = False
) -> None:
    """Tighten low and high in place by  row.v <= right."""
    held = row.nonzero()[0]
    if not len(held):
        if right < 0.0 and name.startswith("G"):
            raise InfeasibleError(f"{name} is zero but asks for a value of at most {right:g}: no point satisfies it.")
        return
    a, lo, hi = (row, low, high) if len(held) == len(row) else (row[held], low[held], high[held])
    up = a > 0
    sure = a * np.where(up, lo, hi)  # the least that each term can be
    total, many, endless = float(sure.sum()), 0, None
    if total == -np.inf:
        endless = np.isinf(sure)
        many = int(np.count_nonzero(endless))
        if many > 1:
            return
        sure[endless] = 0.0
        total = float(sure.sum())
    size = 1.0 + abs(right) + float(np.abs(sure).sum())
    if many == 0 and total > right + _SLACK * size:
        if report:
            raise InfeasibleError(_blame(name, total, right, flipped, bool((a == a[0]).all())))
        raise InfeasibleError(
            f"{name} conflicts with the other constraints: they force its value "
            f"{'below' if flipped else 'above'} {-right if flipped else right:g}."
        )
    reach = (right - (total - sure)) / a
    pad = 4e-16 * len(held) * size / np.abs(a)  # rounding must widen the box, never shrink it
    # With one endless term only that variable can be bounded; with none, all can.
    over, under = (up, ~up) if endless is None else (up & endless, ~up & endless)
    if over.any():
        high[held] = np.where(over, np.maximum(np.minimum(hi, reach + pad), lo), hi)
    if under.any():
        low[held] = np.where(under, np.minimum(np.maximum(lo, reach - pad), hi), lo)


def _blame(name: str, total: float, right: float, flipped: bool, plain: bool) -> str:
    if plain and name.startswith("C"):  # a budget
        which, sign, value, budget = ("upper", "<", -total, -right) if flipped else ("lower", ">", total, right)
        return (
            f"The constraints are infeasible: sum of {which} bounds {value:.12g} {sign} budget {budget:.12g} ({name})."
        )
    if flipped:
        return f"The constraints are infeasible: within the bounds {name} is at most {-total:.12g} < {-right:.12g}."
    return f"The constraints are infeasible: within the bounds {name} is at least {total:.12g} > {right:.12g}."


def feasible_point(
    rows: Rows, low: Vector, high: Vector, near: Vector | None, order: NDArray[np.intp], few: int
) -> Vector:
    """A point of the set, the nearest to ``near`` (or to 0) where that is easy; raises where there is none.

    Of many variables it holds as few as it can, the first in ``order``: what is held has to be worked on.
    """
    q = rows.polyhedron
    wish = np.minimum(np.maximum(0.0 if near is None else near, low), high)
    if not len(q.c) and not len(q.b):
        return wish
    if near is not None and _violation(q, wish) <= 1e-13:
        return restore(wish, q.C, q.c, low, high) if len(q.c) else wish
    if len(q.c) == 1 and not len(q.b):
        row, right = q.C[0], float(q.c[0])
        for count in (few, 4 * few, 16 * few):
            if near is not None or count >= len(low):
                break
            fixed = order[count:]
            below, above = low.copy(), high.copy()
            below[fixed] = above[fixed] = wish[fixed]
            least = float(np.where(row > 0, row * below, row * above)[row != 0].sum())
            most = float(np.where(row > 0, row * above, row * below)[row != 0].sum())
            if least < right < most:
                return _on_budget(wish, row, right, below, above)
        return _on_budget(wish, row, right, low, high)
    return _by_linear_program(rows, low, high)


def _violation(q: Polyhedron, v: Vector) -> float:
    """The largest distance of v from a row, relative to the size of v; the rows' own lengths do not count."""
    size = 1.0 + float(np.max(np.abs(v), initial=0.0))
    equal, below = q.lengths()
    rows = np.concatenate([np.abs(q.C @ v - q.c) / equal, np.maximum(q.G @ v - q.b, 0.0) / below])
    return float(np.max(rows, initial=0.0)) / size


def _on_budget(wish: Vector, row: Vector, right: float, low: Vector, high: Vector) -> Vector:
    """The projection of ``wish`` on the box and row.v = right:  clip(wish + m row), which is linear in m by pieces."""
    size = abs(right) + float(np.abs(row) @ np.abs(wish)) + 1e-300
    a, b, multiplier = -np.inf, np.inf, 0.0
    leap = size / float(row @ row)
    for _ in range(300):
        trial = wish + multiplier * row
        v = np.minimum(np.maximum(trial, low), high)
        missing = right - float(row @ v)
        if abs(missing) <= 1e-15 * size:
            break
        a, b = (multiplier, b) if missing > 0.0 else (a, multiplier)
        free = (trial > low if missing < 0.0 else trial >= low) & (trial < high if missing > 0.0 else trial <= high)
        moving = row[free]
        slope = float(moving @ moving)
        if slope > 0.0:
            multiplier += missing / slope
        else:  # nothing moves here: ever longer leaps find where something does
            multiplier, leap = multiplier + float(np.copysign(leap, missing)), 2.0 * leap
        if not a < multiplier < b:  # a flat piece, or rounding: halve what is left
            if not (np.isfinite(a) and np.isfinite(b)) or not a < 0.5 * (a + b) < b:
                break
            multiplier = 0.5 * (a + b)
    return restore(v, row[None, :], np.array([right]), low, high)


def restore(v: Vector, C: Vector, c: Vector, low: Vector, high: Vector) -> Vector:
    """Remove what rounding left in C v - c, moving only variables off their bounds."""
    v = np.minimum(np.maximum(v, low), high)
    for _ in range(4):
        residual = C @ v - c
        if not residual.any():
            break
        room = np.minimum(v - low, high - v)
        free = room > 0.0
        if not free.any():
            break
        # Weighting by the room moves large holdings first, so that small ones do not hit their bounds.
        weight = np.where(free, np.minimum(room, 1.0 + np.abs(v)), 0.0)
        part = C * weight
        step = _least_squares(part @ C.T, residual)
        moved = np.minimum(np.maximum(v - step @ part, low), high)
        if np.abs(C @ moved - c).max() >= np.abs(residual).max():
            break
        v = moved
    return v


def _least_squares(square: Vector, right: Vector) -> Vector:
    if len(right) == 1:  # the usual case, a budget; a library call would cost more than all the rest
        return right / square[0] if square[0, 0] != 0.0 else np.zeros(1)
    return np.asarray(np.linalg.lstsq(square, right, rcond=None)[0])


def _by_linear_program(presolved: Rows, low: Vector, high: Vector) -> Vector:
    """Elastic rows: the least total violation is 0, or its multipliers name the rows in conflict."""
    from scipy.optimize import linprog  # slow to import, and needed for general constraints only

    q = presolved.polyhedron
    size, equal, rows = len(low), len(q.c), len(q.b)
    c_norm = np.linalg.norm(q.C, axis=1)
    g_norm = np.maximum(np.linalg.norm(q.G, axis=1), 1e-300)
    C, c, G, b = q.C / c_norm[:, None], q.c / c_norm, q.G / g_norm[:, None], q.b / g_norm
    cost = np.concatenate([np.zeros(size), np.ones(2 * equal + rows)])
    A_eq = np.hstack([C, np.eye(equal), -np.eye(equal), np.zeros((equal, rows))]) if equal else None
    A_ub = np.hstack([G, np.zeros((rows, 2 * equal)), -np.eye(rows)]) if rows else None
    bounds = np.concatenate([np.column_stack([low, high]), np.tile([0.0, np.inf], (2 * equal + rows, 1))])
    found = linprog(cost, A_ub, b if rows else None, A_eq, c if equal else None, bounds, method="highs")
    if found.x is None:
        raise InfeasibleError(f"No feasible point was found: {found.message}")
    scale = 1.0 + float(np.max(np.abs(np.concatenate([c, b])), initial=0.0))
    if found.fun > 1e-8 * scale:
        names = [presolved.equality_name(i) for i in range(equal) if abs(found.eqlin.marginals[i]) > 1e-7]
        names += [f"G[{presolved.kept[i]}]" for i in range(rows) if abs(found.ineqlin.marginals[i]) > 1e-7]
        slopes = found.lower.marginals[:size] + found.upper.marginals[:size]
        bound_names = [f"the bounds of asset {j}" for j in np.flatnonzero(np.abs(slopes) > 1e-7)[:5]]
        raise InfeasibleError(
            f"The constraints are infeasible: {', '.join(names + bound_names)} cannot hold together (they miss by "
            f"{found.fun:.3g} in total at best)."
        )
    # The bounds given, not those that the rows imply: these leave no room to move to a row.
    return onto_rows(Polyhedron(q.lower, q.upper, C, c, G, b), np.clip(found.x[:size], low, high))


def onto_rows(q: Polyhedron, v: Vector) -> Vector:
    """Remove what a linear program's tolerance left: rows that are broken hold with equality, as far as that helps.

    Every feasible point may have a higher value than one that is outside by 1e-9, which no descent would then leave.
    """
    held = np.zeros(len(q.b), dtype=bool)
    for _ in range(4):
        held |= q.G @ v > q.b
        moved = restore(v, np.vstack([q.C, q.G[held]]), np.append(q.c, q.b[held]), q.lower, q.upper)
        if not _violation(q, moved) < _violation(q, v):
            break
        v = moved
    return v
