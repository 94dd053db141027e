"""What the caller passed in, checked: losses, probabilities, a linear term and a polyhedron."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import as_real, check_array, check_bound, check_finite, check_instance, check_weights, probabilities
from certeq._table import refuse_table
from certeq.optimize.domains._rows import Constraints
from certeq.optimize.exact.squares import Squares
from certeq.utilities import Utility

Vector = NDArray[np.float64]
_FAR = 1024.0  # deviations from 0 at which the mean of an asset's losses is taken off: ten of their digits are the mean


@dataclass(frozen=True)
class Problem:
    """Minimize OCE(table @ v) + linear.v + squares over the polyhedron; ``kept`` are scenarios of positive weight.

    No loss of the table is above ``largest`` in size.
    """

    table: NDArray[np.floating]
    weights: Vector
    utility: Utility
    linear: Vector
    polyhedron: Constraints
    kept: NDArray[np.intp] | None
    count: int
    largest: float
    squares: Squares | None = None

    def blocks(self) -> Iterator[tuple[slice, Vector]]:
        """The table in runs of rows, as float64; a large one is never copied whole."""
        step = max(1, 2**20 // self.table.shape[1])
        for start in range(0, len(self.table), step):
            rows = slice(start, min(start + step, len(self.table)))
            yield rows, np.asarray(self.table[rows], dtype=np.float64)


def read_problem(
    A: Any,
    utility: Any,
    weights: Any,
    linear: Any,
    lower: Any,
    upper: Any,
    C: Any,
    c: Any,
    G: Any,
    b: Any,
    quadratic: Any = None,
) -> Problem:
    """Check every argument; errors name it, say what was found and what would be right."""
    check_instance("utility", utility, Utility, "a certeq utility such as CVaR(0.05)")
    if not getattr(utility, "has_curvature", True):
        raise TypeError(f"The exact solver needs the curvature of {utility!r}: pass d2u= when making it.")
    utility.anchor  # noqa: B018 - a sum whose slope never passes 1 is refused here, with its own reason
    table, largest = _table(A)
    count, assets = table.shape
    kept, mass = None, np.full(count, 1.0 / count)
    if weights is not None:
        mass = probabilities(check_weights("weights", weights, count))
        if np.any(mass == 0.0):
            kept = np.flatnonzero(mass)
            table, mass = table[kept], mass[kept]
    polyhedron = Constraints(
        _bound("lower", lower, assets, -np.inf),
        _bound("upper", upper, assets, np.inf),
        *_rows("C", C, "c", c, assets),
        *_rows("G", G, "b", b, assets),
    )
    slope = np.zeros(assets) if linear is None else check_array("linear", linear, size=assets)
    squares = read_squares(quadratic, assets)
    return Problem(table, mass, utility, slope, polyhedron, kept, count, largest, squares)


def without_offsets(problem: Problem, mean: Vector, deviation: Vector) -> tuple[Problem, Vector]:
    """The same problem with small losses where those of an asset lie far from 0, and what was taken off each asset.

    OCE moves with a constant: OCE((A + 1 b^T) v) = OCE(A v) + b.v, so that an offset goes into the linear term and
    rounds nothing there that a proof multiplies by scenarios. It is taken off only where no digit is lost: where every
    loss lies between half and twice the offset, their difference is exact (Sterbenz).
    """
    far = np.abs(mean) > _FAR * deviation
    if not far.any():
        return problem, np.zeros(len(mean))
    table = np.array(problem.table, dtype=np.float64)
    with np.errstate(all="ignore"):
        ratio = np.where(far, table / np.where(far, mean, 1.0), 0.0)
    exact = far & (ratio.min(axis=0) >= 0.5) & (ratio.max(axis=0) <= 2.0)
    offset = np.where(exact, mean, 0.0)
    table -= offset
    return replace(problem, table=table, linear=problem.linear + offset, largest=float(np.abs(table).max())), offset


def read_squares(quadratic: Any, size: int) -> Squares | None:
    """The squares beside the risk: a diagonal, or the rows of a factor; None where they are 0."""
    if quadratic is None:
        return None
    found = as_real("quadratic", quadratic).astype(np.float64)
    if found.ndim not in (1, 2) or found.shape[-1] != size:
        raise ValueError(
            f"quadratic must have shape ({size},), a diagonal, or (k, {size}), the rows of F in |F theta|^2/2; found "
            f"{found.shape}."
        )
    check_finite("quadratic", found)
    if not found.any():
        return None
    if found.ndim == 1:
        if found.min() < 0.0:
            raise ValueError(f"quadratic must not be negative; found {found.min():g}.")
        found = np.sqrt(found)
    return Squares(found)


def read_start(theta0: Any, assets: int) -> Vector | None:
    """The start, if one was given."""
    return None if theta0 is None else check_array("theta0", theta0, size=assets)


def _table(found: Any) -> tuple[NDArray[np.floating], float]:
    """The table and its largest entry in size."""
    refuse_table(found)
    table = as_real("A", found)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"A must be a table of losses, scenarios x assets; found shape {table.shape}.")
    with np.errstate(all="ignore"):  # a NaN is the greatest and the least of all, so that both passes find it
        largest = max(float(table.max()), -float(table.min()))
    if not np.isfinite(largest):
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(f"A must be finite; found {table[row, column]} at scenario {row}, asset {column}.")
    return table, largest


def _bound(name: str, found: Any, size: int, absent: float) -> Vector:
    if found is None:
        return np.full(size, absent)
    bound = check_bound(name, found, absent)
    if np.ndim(bound) and np.shape(bound) != (size,):
        raise ValueError(f"{name} must be a number or have shape ({size},); found {np.shape(bound)}.")
    return np.broadcast_to(bound, size).copy()


def _rows(name: str, matrix: Any, side_name: str, side: Any, size: int) -> tuple[Vector, Vector]:
    if matrix is None and side is None:
        return np.zeros((0, size)), np.zeros(0)
    if matrix is None or side is None:
        given, missing = (side_name, name) if matrix is None else (name, side_name)
        raise ValueError(f"{name} and {side_name} go together; found {given} without {missing}.")
    rows = np.atleast_2d(as_real(name, matrix).astype(np.float64))
    right = np.atleast_1d(as_real(side_name, side).astype(np.float64))
    if rows.ndim != 2 or rows.shape[1] != size:
        raise ValueError(f"{name} must have {size} columns, one per asset; found shape {rows.shape}.")
    if right.shape != (len(rows),):
        raise ValueError(f"{side_name} must have shape ({len(rows)},), one entry per row; found {right.shape}.")
    check_finite(name, rows)
    if name == "G":  # b = inf is a row that asks nothing
        if np.any(np.isnan(right)) or np.any(right == -np.inf):
            raise ValueError(f"{side_name} must hold numbers or inf; found {right[~(right > -np.inf)][0]}.")
    else:
        check_finite(side_name, right)
    return rows, right
