"""The linear programs behind `Polyhedron`: is it empty and why, what is inside it, where does g.v end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from certeq._backend import FloatArray

from ._base import InfeasibleError, UnboundedError

if TYPE_CHECKING:
    from ._polyhedron import Polyhedron

__all__ = ["inner_point", "minimize_over", "refuse_empty"]

_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def refuse_empty(p: Polyhedron) -> None:
    """Raise InfeasibleError, naming rows that contradict each other within the bounds, when there are such."""
    for name, relation, matrix, rhs in (("C", "=", p.C, p.c), ("A", "<=", p.A, p.b)):
        if rhs.size:
            _refuse_single_rows(name, relation, matrix, rhs, p.lower, p.upper)
    if p.c.size + p.b.size > 1:
        _refuse_joint_rows(p)


def _refuse_single_rows(
    name: str, relation: str, matrix: FloatArray, rhs: FloatArray, lower: FloatArray, upper: FloatArray
) -> None:
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
            f"but must be {relation} {rhs[i]!r}"
        )


def _refuse_joint_rows(p: Polyhedron) -> None:
    """Let every row be broken at a price and minimize the total: the rows with a shadow price are the conflict."""
    (C, c), (A, b) = _unit_rows(p.C, p.c), _unit_rows(p.A, p.b)
    d, n_c, n_a = p.lower.size, c.size, b.size
    n = 2 * n_c + n_a
    over, under, above = sparse.eye_array(n_c), -sparse.eye_array(n_c), -sparse.eye_array(n_a)
    result = linprog(
        np.concatenate((np.zeros(d), np.ones(n))),
        A_ub=sparse.hstack([A, sparse.csr_array((n_a, 2 * n_c)), above]) if n_a else None,
        b_ub=b if n_a else None,
        A_eq=sparse.hstack([C, over, under, sparse.csr_array((n_c, n_a))]) if n_c else None,
        b_eq=c if n_c else None,
        bounds=np.column_stack((np.append(p.lower, np.zeros(n)), np.append(p.upper, np.full(n, np.inf)))),
        method="highs",
        options=_OPTIONS,
    )
    _expect_solved(result)
    if result.fun <= 1e-9 * max(1.0, float(np.abs(np.concatenate((c, b))).max())):
        return
    blame = [f"C[{i}] theta = {p.c[i]:g}" for i in np.flatnonzero(np.abs(result.eqlin.marginals) > 1e-7)]
    blame += [f"A[{i}] theta <= {p.b[i]:g}" for i in np.flatnonzero(np.abs(result.ineqlin.marginals) > 1e-7)]
    prices = (result.lower.marginals[:d], result.upper.marginals[:d])
    for name, relation, bound, price in zip(("lower", "upper"), (">=", "<="), (p.lower, p.upper), prices, strict=True):
        touched = np.flatnonzero(np.abs(price) > 1e-7)
        blame += [f"theta[{j}] {relation} {bound[j]:g} ({name})" for j in touched[:5]]
        blame += [f"{touched.size - 5} more {name} bounds"] if touched.size > 5 else []
    raise InfeasibleError(
        f"Polyhedron is empty: no theta meets all of {'; '.join(blame)}. "
        f"The least total violation (rows scaled to norm 1) is {result.fun:.6g}"
    )


def inner_point(p: Polyhedron) -> FloatArray:
    """Return a point that is strictly inside every constraint which some feasible point is strictly inside of.

    One linear program finds it (Freund, Roundy and Todd, 1985): over (theta, s, k) with k >= 1 and 0 <= s <= 1,
    maximize sum s subject to  A theta + s <= b k  and  C theta = c k;  the point is theta / k.
    """
    d = p.lower.size
    eye = np.eye(d)
    low, high = np.isfinite(p.lower), np.isfinite(p.upper)
    G, h = _unit_rows(np.vstack((p.A, eye[high], -eye[low])), np.concatenate((p.b, p.upper[high], -p.lower[low])))
    C, c = _unit_rows(p.C, p.c)
    n = h.size
    if n == 0:
        return np.zeros(d) if not c.size else np.asarray(np.linalg.lstsq(C, c, rcond=None)[0])
    G_ub = sparse.hstack([sparse.csr_array(G), sparse.eye_array(n), sparse.csr_array(-h[:, None])])
    C_eq = np.hstack((C, np.zeros((c.size, n)), -c[:, None]))
    result = linprog(
        np.concatenate((np.zeros(d), -np.ones(n), [0.0])),
        A_ub=G_ub,
        b_ub=np.zeros(n),
        A_eq=C_eq if c.size else None,
        b_eq=np.zeros(c.size) if c.size else None,
        bounds=[(None, None)] * d + [(0.0, 1.0)] * n + [(1.0, None)],
        method="highs",
        options=_OPTIONS,
    )
    _expect_solved(result)
    return np.asarray(result.x[:d] / result.x[-1])


def minimize_over(p: Polyhedron, g: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a minimizer of g.v, and prices y of the equalities and z >= 0 of the inequalities."""
    size = float(np.abs(g).max()) or 1.0
    result = _over(p, g / size, p.lower, p.upper, p.c, p.b)
    if result.status in (3, 4):
        direction = _ray(p, g / size)
        if direction is not None:
            j = int(np.argmax(np.abs(direction)))
            raise UnboundedError(
                f"g.theta is unbounded below: it falls by {-float(g @ direction):g} per step along a direction whose "
                f"largest part is {direction[j]:+g} on theta[{j}]",
                direction,
            )
    _expect_solved(result)
    return result.x, size * result.eqlin.marginals, np.maximum(0.0, -size * result.ineqlin.marginals)


def _ray(p: Polyhedron, g: FloatArray) -> FloatArray | None:
    """Return a direction that stays in the polyhedron for ever and along which g.v falls, if there is one."""
    lower, upper = np.where(np.isfinite(p.lower), 0.0, -1.0), np.where(np.isfinite(p.upper), 0.0, 1.0)
    result = _over(p, g, lower, upper, np.zeros(p.c.size), np.zeros(p.b.size))
    _expect_solved(result)
    return np.asarray(result.x) if result.fun < -1e-9 else None


def _over(p: Polyhedron, g: FloatArray, lower: FloatArray, upper: FloatArray, c: FloatArray, b: FloatArray) -> Any:
    return linprog(
        g,
        A_ub=p.A if b.size else None,
        b_ub=b if b.size else None,
        A_eq=p.C if c.size else None,
        b_eq=c if c.size else None,
        bounds=np.column_stack((lower, upper)),
        method="highs",
        options=_OPTIONS,
    )


def _unit_rows(matrix: FloatArray, rhs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scale rows to norm 1, so that one tolerance fits all."""
    norms = np.linalg.norm(matrix, axis=1)
    norms = np.where(norms > 0, norms, 1.0)
    return matrix / norms[:, None], rhs / norms


def _expect_solved(result: Any) -> None:
    if result.status != 0:
        raise RuntimeError(f"the linear program over a Polyhedron was not solved: {result.message}")
