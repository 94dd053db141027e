"""Bounds and rows: rows without redundancy, the box that they imply, a feasible point, and why there is none.

`Constraints` is the plain record that solvers read. Where no point satisfies it, one linear program lets every row be
broken at a price and minimizes the total: rows and bounds with a multiplier are the conflict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._base import InfeasibleError, UnboundedError

Vector = NDArray[np.float64]
_SLACK = 1e-11  # relative to the numbers in a row: a conflict smaller than this is rounding
_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_PRICED = 1e-7  # a multiplier above it names its row


@dataclass(frozen=True)
class Constraints:
    """{v : lower <= v <= upper, C v = c, G v <= b}; bounds may be infinite, rows may be absent."""

    lower: Vector
    upper: Vector
    C: Vector
    c: Vector
    G: Vector
    b: Vector

    def as_arguments(self) -> dict[str, Any]:
        """The bounds and rows by the names that `solve_exact` gives them."""
        return {name: getattr(self, name) for name in ("lower", "upper", "C", "c", "G", "b")}

    def unit_rows(self) -> Constraints:
        """The same set with rows of length 1, so that one tolerance fits all; rows of zeros stay."""
        equal, below = (np.where(length > 0.0, length, 1.0) for length in self.lengths())
        return replace(self, C=self.C / equal[:, None], c=self.c / equal, G=self.G / below[:, None], b=self.b / below)

    def lengths(self) -> tuple[Vector, Vector]:
        """Norms of the rows of C and of G."""
        return np.sqrt(np.vecdot(self.C, self.C)), np.sqrt(np.vecdot(self.G, self.G))


@dataclass(frozen=True)
class PresolvedRows:
    """The same set with fewer rows, and where each came from.

    ``equal[i]`` is (k, -1) for a row C[k] and (i, k) for the pair G[i] = -G[k]; ``kept`` are rows of G.
    """

    constraints: Constraints
    equal: list[tuple[int, int]]
    kept: NDArray[np.intp]

    def equality_name(self, row: int) -> str:
        """What the caller calls an equality row."""
        first, second = self.equal[row]
        return f"C[{first}]" if second < 0 else f"G[{first}] with G[{second}]"

    def multipliers(self, y: Vector, z: Vector, given: Constraints) -> tuple[Vector, Vector]:
        """Multipliers of the caller's rows; one that was dropped gets 0."""
        of_c, of_g = np.zeros(len(given.c)), np.zeros(len(given.b))
        of_g[self.kept] = z
        for price, (first, second) in zip(y, self.equal, strict=True):
            if second < 0:
                of_c[first] = price
            else:  # y belongs to -y (g.v - b), and G v <= b carries +z
                length = float(np.linalg.norm(given.G[first]) / np.linalg.norm(given.G[second]))
                of_g[first], of_g[second] = max(-price, 0.0), max(price, 0.0) * length
        return of_c, of_g


def presolve_rows(given: Constraints) -> PresolvedRows:
    """Drop rows that say nothing, join pairs, keep independent equalities; raises where two contradict each other.

    An interior point method needs an inside, which  g.v <= b  with  -g.v <= -b  does not have.
    """
    if not len(given.b) and len(given.c) == 1 and np.any(given.C):
        return PresolvedRows(given, [(0, -1)], np.zeros(0, dtype=np.intp))  # the usual case: bounds and a budget
    pairs = _pairs(given)
    single = np.setdiff1d(np.flatnonzero(given.b < np.inf), np.ravel(np.array(pairs, dtype=np.intp)))
    single = single[np.any(given.G[single] != 0.0, axis=1)]
    origin = [(i, -1) for i in range(len(given.c))] + pairs
    first = [i for i, _ in pairs]
    C, c = np.vstack([given.C, given.G[first]]), np.append(given.c, given.b[first])
    names = [f"C[{i}]" if k < 0 else f"G[{i}] with G[{k}]" for i, k in origin]
    kept = _independent(C, c, names)
    single = _not_settled(given, single, C[kept], c[kept])
    constraints = Constraints(given.lower, given.upper, C[kept], c[kept], given.G[single], given.b[single])
    return PresolvedRows(constraints, [origin[i] for i in kept], single)


def _not_settled(q: Constraints, rows: NDArray[np.intp], C: Vector, c: Vector) -> NDArray[np.intp]:
    """The inequalities that the equalities do not settle; those that they contradict are kept, to be named in an error.

    Where the equalities fix  g.v  to b there is no inside, and the multipliers of both may run off together.
    """
    if not len(rows) or not len(c):
        return rows
    lengths = np.linalg.norm(q.G[rows], axis=1)
    combination = np.linalg.lstsq(C.T, q.G[rows].T, rcond=None)[0]
    rest = np.linalg.norm(q.G[rows] - combination.T @ C, axis=1)
    spare = q.b[rows] - combination.T @ c
    size = np.abs(combination).T @ np.abs(c) + np.abs(q.b[rows])
    settled = (rest <= 1e-13 * lengths * C.shape[1]) & (spare >= -1e-12 * size)
    return np.asarray(rows[~settled], dtype=np.intp)


def _pairs(q: Constraints) -> list[tuple[int, int]]:
    lengths = np.linalg.norm(q.G, axis=1)
    usable = (lengths > 0.0) & (q.b < np.inf)
    pairs: list[tuple[int, int]] = []
    taken: set[int] = set()
    for i in np.flatnonzero(usable):
        for k in np.flatnonzero(usable[i + 1 :]) + i + 1:
            same = np.all(q.G[i] * lengths[k] == -q.G[k] * lengths[i]) and q.b[i] * lengths[k] == -q.b[k] * lengths[i]
            if same and not {int(i), int(k)} & taken:
                pairs.append((int(i), int(k)))
                taken |= {int(i), int(k)}
    return pairs


def _independent(C: Vector, c: Vector, names: list[str]) -> list[int]:
    """Indices of rows that do not follow from earlier ones, by Gram-Schmidt."""
    norms = np.linalg.norm(C, axis=1)
    kept: list[int] = []
    basis = np.zeros((0, C.shape[1] + 1))
    for i in range(len(c)):
        if norms[i] == 0.0:
            if c[i] != 0.0:
                raise InfeasibleError(f"{names[i]} is zero but must equal {c[i]:g}: the constraints are infeasible.")
            continue
        full = np.append(C[i], c[i]) / norms[i]
        rest = full.copy()
        for _ in range(2):  # twice is enough for orthogonality to rounding
            rest -= (rest[:-1] @ basis[:, :-1].T) @ basis
        size = float(np.linalg.norm(rest[:-1]))
        if size > 1e-10:
            basis = np.vstack([basis, rest / size])
            kept.append(i)
        elif abs(rest[-1]) > 1e-9 * (1.0 + abs(full[-1])):
            coefficients = np.linalg.lstsq(C[kept].T, C[i], rcond=None)[0]
            others = [names[k] for k, weight in zip(kept, coefficients, strict=True) if abs(weight) > 1e-9]
            raise InfeasibleError(
                f"The constraints are infeasible: {names[i]} is a combination of {', '.join(others)}, but its right "
                f"side is {c[i]:g} where they imply {float(coefficients @ c[kept]):g}."
            )
    return kept


# -- a feasible point -------------------------------------------------------------------------------------------------


def implied_box(constraints: Constraints) -> tuple[Vector, Vector]:
    """Bounds that the rows force on every variable, by interval propagation; raises where a row cannot hold."""
    q = constraints
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
    """Whether a sweep changed too little for another."""
    moved = after != before
    return not moved.any() or bool(np.all(np.abs(after[moved] - before[moved]) <= 1e-3 * np.abs(before[moved])))


def _propagate(
    row: Vector, right: float, low: Vector, high: Vector, name: str, report: bool, flipped: bool = False
) -> None:
    """Tighten low and high in place by  row.v <= right."""
    nonzero = row.nonzero()[0]
    if not len(nonzero):
        if right < 0.0 and name.startswith("G"):
            raise InfeasibleError(f"{name} is zero but asks for a value of at most {right:g}: no point satisfies it.")
        return
    a, lo, hi = (row, low, high) if len(nonzero) == len(row) else (row[nonzero], low[nonzero], high[nonzero])
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
            raise InfeasibleError(_row_out_of_reach(name, total, right, flipped, bool((a == a[0]).all())))
        raise InfeasibleError(
            f"{name} conflicts with the other constraints: they force its value "
            f"{'below' if flipped else 'above'} {-right if flipped else right:g}."
        )
    reach = (right - (total - sure)) / a
    pad = 4e-16 * len(nonzero) * size / np.abs(a)  # rounding must widen the box, never shrink it
    # With one endless term only that variable can be bounded; with none, all can.
    over, under = (up, ~up) if endless is None else (up & endless, ~up & endless)
    if over.any():
        high[nonzero] = np.where(over, np.maximum(np.minimum(hi, reach + pad), lo), hi)
    if under.any():
        low[nonzero] = np.where(under, np.minimum(np.maximum(lo, reach - pad), hi), lo)


def _row_out_of_reach(name: str, total: float, right: float, flipped: bool, plain: bool) -> str:
    if plain and name.startswith("C"):  # a budget
        which, sign, value, budget = ("upper", "<", -total, -right) if flipped else ("lower", ">", total, right)
        return (
            f"The constraints are infeasible: sum of {which} bounds {value:.12g} {sign} budget {budget:.12g} ({name})."
        )
    if flipped:
        return f"The constraints are infeasible: within the bounds {name} is at most {-total:.12g} < {-right:.12g}."
    return f"The constraints are infeasible: within the bounds {name} is at least {total:.12g} > {right:.12g}."


def feasible_point(
    rows: PresolvedRows, low: Vector, high: Vector, near: Vector | None, order: NDArray[np.intp], few: int
) -> Vector:
    """A point of the set, the nearest to ``near`` (or to 0) where that is easy; raises where there is none.

    Of many variables it keeps as few as it can, the first in ``order``: every one kept has to be worked on.
    """
    q = rows.constraints
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


def _violation(q: Constraints, v: Vector) -> float:
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
        margin = np.minimum(v - low, high - v)
        free = margin > 0.0
        if not free.any():
            break
        # Weighting by the margin moves large holdings first, so that small ones do not hit their bounds.
        weight = np.where(free, np.minimum(margin, 1.0 + np.abs(v)), 0.0)
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


def _by_linear_program(presolved: PresolvedRows, low: Vector, high: Vector) -> Vector:
    """A point within the box that breaks no row; the error where every one does names the conflict."""
    q = presolved.constraints.unit_rows()
    found = least_violation(replace(q, lower=low, upper=high))
    scale = 1.0 + float(np.max(np.abs(np.concatenate([q.c, q.b])), initial=0.0))
    if found.total > 1e-8 * scale:
        names = [presolved.equality_name(int(i)) for i in np.flatnonzero(found.of_c > _PRICED)]
        names += [f"G[{presolved.kept[i]}]" for i in np.flatnonzero(found.of_g > _PRICED)]
        slopes = np.maximum(found.of_lower, found.of_upper)
        names += [f"the bounds of asset {j}" for j in np.flatnonzero(slopes > _PRICED)[:5]]
        raise InfeasibleError(
            f"The constraints are infeasible: {', '.join(names)} cannot hold together (they miss by "
            f"{found.total:.3g} in total at best)."
        )
    # The bounds given, not those that the rows imply: these leave nothing to move to a row with.
    return onto_rows(q, np.clip(found.point, low, high))


@dataclass(frozen=True)
class Violation:
    """The point that breaks unit rows least, by how much in total, and the sizes of all multipliers there."""

    point: Vector
    total: float
    of_c: Vector
    of_g: Vector
    of_lower: Vector
    of_upper: Vector


def least_violation(q: Constraints) -> Violation:
    """Let every row be broken at a price of 1 and minimize the total, within the bounds."""
    from scipy import sparse  # slow to import, and needed for general constraints only

    size, equal, rows = len(q.lower), len(q.c), len(q.b)
    more = 2 * equal + rows
    one = sparse.eye_array
    found = _linear_program(
        np.concatenate([np.zeros(size), np.ones(more)]),
        sparse.hstack([q.G, sparse.csr_array((rows, 2 * equal)), -one(rows)]) if rows else None,
        q.b,
        sparse.hstack([q.C, one(equal), -one(equal), sparse.csr_array((equal, rows))]) if equal else None,
        q.c,
        np.append(q.lower, np.zeros(more)),
        np.append(q.upper, np.full(more, np.inf)),
    )
    _expect_solved(found)
    prices = (np.abs(part.marginals) for part in (found.eqlin, found.ineqlin, found.lower, found.upper))
    of_c, of_g, of_lower, of_upper = prices
    return Violation(found.x[:size], float(found.fun), of_c, of_g, of_lower[:size], of_upper[:size])


def smallest_conflict(q: Constraints) -> tuple[list[int], list[int]]:
    """Rows of C and of G that exclude each other within the bounds, and none of which can be spared.

    Inequalities are dropped before equalities, those given first before later ones. All rows where none exclude any.
    """
    equal, below = list(range(len(q.c))), list(range(len(q.b)))
    for kept, other in ((below, equal), (equal, below)):
        for row in list(kept):
            rest = [i for i in kept if i != row]
            C, G = (other, rest) if kept is below else (rest, other)
            if is_empty(replace(q, C=q.C[C], c=q.c[C], G=q.G[G], b=q.b[G])):
                kept.remove(row)
    return equal, below


def onto_rows(q: Constraints, v: Vector) -> Vector:
    """Remove what a linear program's tolerance left: rows that are broken hold with equality, as far as that helps.

    Every feasible point may have a higher value than one that is outside by 1e-9, which no descent would then leave.
    """
    broken = np.zeros(len(q.b), dtype=bool)
    for _ in range(4):
        broken |= q.G @ v > q.b
        moved = restore(v, np.vstack([q.C, q.G[broken]]), np.append(q.c, q.b[broken]), q.lower, q.upper)
        if not _violation(q, moved) < _violation(q, v):
            break
        v = moved
    return v


# -- is a set empty, what is inside it, where does g.v end ------------------------------------------------------------


def refuse_empty(q: Constraints) -> None:
    """Raise InfeasibleError, naming rows that contradict each other within the bounds, when there are such.

    Rows of G are named A, as `Polyhedron` calls them.
    """
    for name, relation, matrix, rhs in (("C", "=", q.C, q.c), ("A", "<=", q.G, q.b)):
        if rhs.size:
            _refuse_single_rows(name, relation, matrix, rhs, q.lower, q.upper)
    if q.c.size + q.b.size < 2:
        return
    unit = q.unit_rows()
    found = least_violation(unit)
    if found.total <= 1e-9 * max(1.0, float(np.abs(np.concatenate((unit.c, unit.b))).max())):
        return
    names = [f"C[{i}] theta = {q.c[i]:g}" for i in np.flatnonzero(found.of_c > _PRICED)]
    names += [f"A[{i}] theta <= {q.b[i]:g}" for i in np.flatnonzero(found.of_g > _PRICED)]
    for name, relation, bound, price in (
        ("lower", ">=", q.lower, found.of_lower),
        ("upper", "<=", q.upper, found.of_upper),
    ):
        touched = np.flatnonzero(price > _PRICED)
        names += [f"theta[{j}] {relation} {bound[j]:g} ({name})" for j in touched[:5]]
        names += [f"{touched.size - 5} more {name} bounds"] if touched.size > 5 else []
    raise InfeasibleError(
        f"Polyhedron is empty: no theta meets all of {'; '.join(names)}. "
        f"The least total violation (rows scaled to norm 1) is {found.total:.6g}"
    )


def is_empty(q: Constraints) -> bool:
    """Whether no point satisfies the constraints."""
    try:
        refuse_empty(q)
    except InfeasibleError:
        return True
    return False


def _refuse_single_rows(name: str, relation: str, matrix: Vector, rhs: Vector, lower: Vector, upper: Vector) -> None:
    """Refuse a row that no point within the bounds satisfies: what it ranges over is known in closed form."""
    used = matrix != 0
    at_lower = np.multiply(matrix, lower, where=used, out=np.zeros(matrix.shape))
    at_upper = np.multiply(matrix, upper, where=used, out=np.zeros(matrix.shape))
    least, most = np.minimum(at_lower, at_upper).sum(axis=1), np.maximum(at_lower, at_upper).sum(axis=1)
    sizes = np.nan_to_num(np.abs(at_lower), posinf=0.0) + np.nan_to_num(np.abs(at_upper), posinf=0.0)
    rounding = 64 * np.finfo(float).eps * (np.abs(rhs) + sizes.sum(axis=1))
    bad = least > rhs + rounding
    if relation == "=":
        bad |= most < rhs - rounding
    if bad.any():
        i = int(np.argmax(bad))
        raise InfeasibleError(
            f"Polyhedron is empty: {name}[{i}] theta lies in [{least[i]:.6g}, {most[i]:.6g}] within the bounds, "
            f"but must be {relation} {float(rhs[i])!r}"
        )


def inner_point(q: Constraints) -> Vector:
    """Return a point that is strictly inside every constraint which some feasible point is strictly inside of.

    One linear program finds it (Freund, Roundy and Todd, 1985): over (theta, s, k) with k >= 1 and 0 <= s <= 1,
    maximize sum s subject to  G theta + s <= b k  and  C theta = c k;  the point is theta / k.
    """
    from scipy import sparse

    d = q.lower.size
    eye = np.eye(d)
    low, high = np.isfinite(q.lower), np.isfinite(q.upper)
    all_rows = np.vstack((q.G, eye[high], -eye[low])), np.concatenate((q.b, q.upper[high], -q.lower[low]))
    unit = replace(q, G=all_rows[0], b=all_rows[1]).unit_rows()
    C, c, G, h = unit.C, unit.c, unit.G, unit.b
    n = h.size
    if n == 0:
        return np.zeros(d) if not c.size else np.asarray(np.linalg.lstsq(C, c, rcond=None)[0])
    result = _linear_program(
        np.concatenate((np.zeros(d), -np.ones(n), [0.0])),
        sparse.hstack([sparse.csr_array(G), sparse.eye_array(n), sparse.csr_array(-h[:, None])]),
        np.zeros(n),
        np.hstack((C, np.zeros((c.size, n)), -c[:, None])) if c.size else None,
        np.zeros(c.size),
        np.concatenate((np.full(d, -np.inf), np.zeros(n), [1.0])),
        np.concatenate((np.full(d, np.inf), np.ones(n), [np.inf])),
    )
    _expect_solved(result)
    return np.asarray(result.x[:d] / result.x[-1])


def minimize_over(q: Constraints, g: Vector) -> tuple[Vector, Vector, Vector]:
    """Return a minimizer of g.v, and prices y of the equalities and z >= 0 of the inequalities."""
    size = float(np.abs(g).max(initial=0.0)) or 1.0
    result = _over(q, g / size)
    if result.status in (3, 4):
        direction = _ray(q, g / size)
        if direction is not None:
            j = int(np.argmax(np.abs(direction)))
            raise UnboundedError(
                f"g.theta is unbounded below: it falls by {-float(g @ direction):g} per step along a direction whose "
                f"largest part is {direction[j]:+g} on theta[{j}]",
                direction,
            )
    _expect_solved(result)
    return result.x, size * result.eqlin.marginals, np.maximum(0.0, -size * result.ineqlin.marginals)


def _ray(q: Constraints, g: Vector) -> Vector | None:
    """Return a direction that stays in the polyhedron for ever and along which g.v falls, if there is one."""
    lower, upper = np.where(np.isfinite(q.lower), 0.0, -1.0), np.where(np.isfinite(q.upper), 0.0, 1.0)
    result = _over(Constraints(lower, upper, q.C, np.zeros(q.c.size), q.G, np.zeros(q.b.size)), g)
    _expect_solved(result)
    return np.asarray(result.x) if result.fun < 0.0 else None  # HiGHS calls a fall of 1e-10 unbounded, too


def _over(q: Constraints, g: Vector) -> Any:
    return _linear_program(g, q.G if q.b.size else None, q.b, q.C if q.c.size else None, q.c, q.lower, q.upper)


def _linear_program(g: Vector, G: Any, b: Vector, C: Any, c: Vector, lower: Vector, upper: Vector) -> Any:
    from scipy.optimize import linprog  # slow to import, and needed for general constraints only

    return linprog(
        g,
        A_ub=G,
        b_ub=None if G is None else b,
        A_eq=C,
        b_eq=None if C is None else c,
        bounds=np.column_stack((lower, upper)),
        method="highs",
        options=_OPTIONS,
    )


def _expect_solved(result: Any) -> None:
    if result.status != 0:
        raise RuntimeError(f"the linear program over a Polyhedron was not solved: {result.message}")
