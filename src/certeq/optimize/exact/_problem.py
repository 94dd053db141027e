"""What the caller passed in, checked: losses, probabilities, costs, squares and constraints; and what is returned."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import as_real, check_array, check_bound, check_finite, check_instance, check_weights, probabilities
from certeq._table import ArrayTable, Table, refuse_table
from certeq.optimize.domains._rows import Constraints
from certeq.optimize.exact._risk import ALL, SampleRows, cost_of_constants, read_inner
from certeq.utilities import Risk
from certeq.utilities.forms import Inner

Vector = NDArray[np.float64]
_FAR = 1024.0  # deviations from 0 at which the mean of an asset's losses is taken off: ten of their digits are the mean
_MANY_NUMBERS = 1 << 22  # losses that are not copied into other units
_APART = 4.0  # powers of 2 between the largest and the smallest column
_MOST_POWERS = 200.0


@dataclass(frozen=True)
class Share:
    """One of the risks that a problem adds up: its factor, and which terms and inner variables it has there."""

    risk: Risk
    factor: float
    terms: range
    inner: slice
    count: int  # of its scenarios
    kept: NDArray[np.intp] | None  # those of positive weight, where some have none


@dataclass(frozen=True)
class Problem:
    """Minimize the sum of risks of table @ v, plus linear.v + squares, over the polyhedron.

    The table holds the scenarios of positive weight of all samples, one sample after the other, and ``inner`` the terms
    of all risks. No loss of the table is above ``largest`` in size.
    """

    table: NDArray[np.floating]
    samples: SampleRows
    shares: tuple[Share, ...]
    inner: Inner
    linear: Vector
    polyhedron: Constraints
    largest: float
    squares: Squares | None = None

    @property
    def weights(self) -> Vector:
        """The scenarios' probabilities, which sum to 1 in each sample."""
        return self.samples.weights

    @property
    def risk(self) -> str:
        """The risks in words."""
        return " + ".join([repr(share.risk) for share in self.shares])

    def tables(self) -> list[Table]:
        """The scenarios of each sample as a table, read in blocks: a large one is never copied whole."""
        return [ArrayTable(self.table[rows], self.weights[rows]) for rows in self.samples.rows]


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
    check_instance("utility", utility, Risk, "a certeq utility or risk such as CVaR(0.05)")
    inner = read_inner(utility)
    table, largest = read_table("A", A)
    count, assets = table.shape
    table, mass, kept = read_weights("weights", weights, table)
    polyhedron = read_polyhedron(assets, lower, upper, C, c, G, b)
    slope = np.zeros(assets) if linear is None else check_array("linear", linear, size=assets)
    squares = read_squares(quadratic, assets)
    share = Share(utility, 1.0, range(len(inner.terms)), ALL, count, kept)
    return Problem(table, SampleRows(mass), (share,), inner, slope, polyhedron, largest, squares)


def read_weights(
    name: str, weights: Any, table: NDArray[np.floating]
) -> tuple[NDArray[np.floating], Vector, NDArray[np.intp] | None]:
    """Scenarios of positive weight, their probabilities, and which they are where some have none."""
    count = len(table)
    if weights is None:
        return table, np.full(count, 1.0 / count), None
    mass = probabilities(check_weights(name, weights, count))
    if mass.all():
        return table, mass, None
    kept = np.flatnonzero(mass)
    return table[kept], mass[kept], kept


def read_polyhedron(assets: int, lower: Any, upper: Any, C: Any, c: Any, G: Any, b: Any) -> Constraints:
    """The feasible set."""
    return Constraints(
        _bound("lower", lower, assets, -np.inf),
        _bound("upper", upper, assets, np.inf),
        *_rows("C", C, "c", c, assets),
        *_rows("G", G, "b", b, assets),
    )


def units_of_columns(problem: Problem) -> Vector | None:
    """Powers of 2 that bring the columns of variables to one size, where they differ much; else None.

    For sets on which nothing bounds a variable. A bound that is proved within a distance of theta rounds in units of
    the largest column times that distance, which is as large as the entries of theta for the smallest one.
    """
    q, table = problem.polyhedron, problem.table
    if table.size > _MANY_NUMBERS:
        return None
    sizes = np.abs(table).max(axis=0)
    nonzero = (sizes > 0.0) & (q.upper > q.lower)  # one that is fixed may stand for a constant, in a unit of its own
    if not nonzero.any():
        return None
    powers = np.where(nonzero, np.log2(np.where(nonzero, sizes, 1.0)), 0.0).round()
    if np.ptp(powers[nonzero]) < _APART:
        return None
    powers = np.where(nonzero, powers - np.median(powers[nonzero]).round(), 0.0)
    return np.asarray(2.0 ** np.clip(powers, -_MOST_POWERS, _MOST_POWERS))


def in_units(problem: Problem, units: Vector) -> Problem:
    """The same problem in variables that are ``units`` times as large; powers of 2 change no digit."""
    q = problem.polyhedron
    table = np.asarray(problem.table, dtype=np.float64) / units
    return replace(
        problem,
        table=table,
        linear=problem.linear / units,
        polyhedron=replace(q, lower=q.lower * units, upper=q.upper * units, C=q.C / units, G=q.G / units),
        largest=float(np.abs(table).max()),
        squares=None if problem.squares is None else Squares(problem.squares.rows / units),
    )


def without_offsets(problem: Problem, means: Vector, deviation: Vector) -> tuple[Problem, Vector]:
    """The same problem with small losses where those of an asset lie far from 0, and what was taken off each asset.

    Of every sample there is one row of means and of what was taken off. A risk moves with a constant: OCE((A + 1 b^T)
    v) = OCE(A v) + b.v, so that an offset goes into the linear term and rounds nothing there that a proof multiplies by
    scenarios. It is taken off only where no digit is lost: where every loss lies between half and twice the offset,
    their difference is exact (Sterbenz).
    """
    far = np.abs(means) > _FAR * deviation
    offsets = np.zeros(means.shape)
    if not far.any():
        return problem, offsets
    table = np.array(problem.table, dtype=np.float64)
    for rows, own, mean, offset in zip(problem.samples.rows, far, means, offsets, strict=True):
        with np.errstate(all="ignore"):
            ratio = np.where(own, table[rows] / np.where(own, mean, 1.0), 0.0)
        exact = own & (ratio.min(axis=0) >= 0.5) & (ratio.max(axis=0) <= 2.0)
        offset[:] = np.where(exact, mean, 0.0)
        table[rows] -= offset
    linear = problem.linear + cost_of_constants(problem.inner, offsets)
    return replace(problem, table=table, linear=linear, largest=float(np.abs(table).max())), offsets


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


def read_table(name: str, found: Any) -> tuple[NDArray[np.floating], float]:
    """The table and its largest entry in size."""
    refuse_table(found)
    table = as_real(name, found)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"{name} must be a table of losses, scenarios x assets; found shape {table.shape}.")
    with np.errstate(all="ignore"):  # a NaN is the greatest and the least of all, so that both passes find it
        largest = max(float(table.max()), -float(table.min()))
    if not np.isfinite(largest):
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(f"{name} must be finite; found {table[row, column]} at scenario {row}, asset {column}.")
    return table, largest


def _bound(name: str, found: Any, size: int, absent: float) -> Vector:
    if found is None:
        return np.full(size, absent)
    bound = check_bound(name, found, absent)
    if isinstance(bound, float):
        return np.full(size, bound)
    if bound.shape != (size,):
        raise ValueError(f"{name} must be a number or have shape ({size},); found {bound.shape}.")
    return bound.copy()


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


Index = NDArray[np.intp]
_EPS = float(np.finfo(np.float64).eps) / 2.0  # the rounding error of one operation


@dataclass(frozen=True)
class Squares:
    r"""Half the sum of squares |F theta|^2 / 2: ``rows`` are F, or its entries alone where F is diagonal.

    The term is :math:`\tfrac12 |F\theta|^2`, given by the rows of F so that it is convex whatever they hold; a ridge
    has one row per variable and is held as the diagonal of :math:`F^\top F`.

    For any vector s, whatever led to it, :math:`|F v - s|^2 \ge 0` says that

    .. math:: \tfrac12 |F v|^2 \;\ge\; (F^\top s) \cdot v - \tfrac12 |s|^2 \quad\text{for every } v,

    with equality where F v = s. So with s = F theta the linear function on the right may take the place of the squares
    in a lower bound: a bound proved for OCE(A v) + (l + F^T s).v over the feasible set is, less
    :math:`\tfrac12 |s|^2`, one for the problem with the squares, and as tight at theta as the one it was made from. s
    is taken as computed, so only the product F^T s has roundings, of at most ``rounding()`` for each unit of v_j.
    """

    rows: Vector

    def __post_init__(self) -> None:
        assert self.rows.ndim in (1, 2)

    @property
    def is_diagonal(self) -> bool:
        """Whether every square holds one variable."""
        return self.rows.ndim == 1

    def given(self) -> Vector:
        """The term as `solve_exact` takes it."""
        return np.square(self.rows) if self.is_diagonal else self.rows

    def scaled(self, factor: float) -> Squares:
        """The term times a factor."""
        return replace(self, rows=self.rows * np.sqrt(factor))

    def image(self, theta: Vector) -> Vector:
        """F theta."""
        return np.asarray(self.rows * theta if self.is_diagonal else self.rows @ theta)

    def back(self, s: Vector) -> Vector:
        """F^T s."""
        return np.asarray(self.rows * s if self.is_diagonal else s @ self.rows)

    def value(self, theta: Vector) -> float:
        """The term at theta."""
        s = self.image(theta)
        return 0.5 * float(s @ s)

    def slope(self, theta: Vector) -> Vector:
        """Its gradient F^T F theta."""
        return self.back(self.image(theta))

    def add_hessian(self, H: Vector, assets: Index) -> None:
        """Add F^T F of the chosen variables to the leading block of H, in place."""
        size = len(assets)
        if self.is_diagonal:
            H.reshape(-1)[: size * len(H) : len(H) + 1] += np.square(self.rows[assets])
        else:
            chosen = self.rows[:, assets]
            H[:size, :size] += chosen.T @ chosen

    def flat_along(self, direction: Vector) -> bool:
        """Whether the term stays as it is along a direction; otherwise it outgrows every slope of the risk."""
        size = float(np.abs(self.rows).max(initial=0.0)) * float(np.abs(direction).max(initial=0.0))
        return float(np.abs(self.image(direction)).max(initial=0.0)) <= 1e-9 * size

    def rounding(self, s: Vector) -> Vector:
        """By how much every entry of ``back(s)`` may differ from F^T s."""
        count = 1.0 if self.is_diagonal else len(s) + 1.0
        size = np.abs(self.rows) * np.abs(s) if self.is_diagonal else np.abs(s) @ np.abs(self.rows)
        return np.asarray(_EPS * (count + 1.0) * size)


@dataclass(frozen=True)
class PartResult:
    """One of the risks that were added up, at the point found.

    Attributes
    ----------
    value : float
        The risk of its losses, A theta + offset; not yet times its weight.
    threshold : float or array
        t* of its losses; one for each term of a mixture.
    inner : array
        All inner variables of the risk, in the order of its ``inner()``.
    tilt : array
        Worst-case probabilities of its scenarios, which sum to 1: ``tilt @ A`` is a slope of the risk in theta, and
        ``tilt @ (A v + offset)`` is at most its value at any v where the risk is coherent. None of scenarios that are
        read in blocks, where it stays with them.
    slope : array
        Of scenarios that are read in blocks, the slope of the risk in theta that the bound was proved with.
    """

    value: float
    threshold: float | Vector
    inner: Vector
    tilt: Any = field(default=None, repr=False)
    slope: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class ExactResult:
    """A feasible point with a proved bound on how far its value is from the optimum.

    Attributes
    ----------
    theta : array
        The point: within its bounds exactly, on the equality rows to rounding.
    value : float
        The risk of A theta, plus linear.theta.
    gap, lower_bound : float
        No feasible point has a value below ``lower_bound = value - gap``. Found from theta, a tilt and multipliers
        by weak duality, with every rounding error allowed for; not a solver's residual.
    relative_gap : float
        gap over the larger of |value| and a hundredth of the losses' spread (one asset's, times what is held); where
        losses far from 0 are rounded by more than 1e-9 of that, 1e-9 is twice the allowance for rounding.
    threshold : float or array
        t* of the losses at theta; one for each term of a mixture.
    inner : array
        All inner variables of the risk at theta, in the order of its ``inner()``: thresholds and scales.
    tilt : array
        Worst-case probabilities, one per scenario, which sum to 1. Where the status is "optimal" they prove the bound,
        and ties at a kink carry the shares that the dual problem gives them; otherwise they are the tilt of theta's
        losses.
    status : str
        "optimal" where relative_gap <= tol, else "iteration limit", "time limit" or "stalled"; the gap is valid
        whatever the status.
    iterations : int
        Second-order steps.
    trace : list of (value, gap, seconds, working set size)
        One entry per step, on the way, with gaps not yet corrected for rounding; of a problem that was solved at
        once, the proof itself.
    multipliers : dict
        "C" and "G" (non-negative) of the rows and "lower" and "upper" (non-negative) of the bounds.
    radius : float
        Infinite, unless a variable has no bound at all: the lower bound then holds for points whose unbounded
        entries are within this distance of theta's.
    parts : tuple of PartResult
        Of every risk that was added up: its value, threshold, inner variables and tilt. Where there are several, those
        of the result itself are these one after the other.

    See Also
    --------
    solve_exact
        The exact solver on arrays.
    certeq.Solution
        What `certeq.minimize` returns.

    Notes
    -----
    Not a statement about other scenarios: value, gap and bound are those of the scenarios that were solved.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> from certeq.optimize import solve_exact
    >>> A = np.array([[1.0, 2.0], [2.0, 0.0]])
    >>> found = solve_exact(A, ce.CVaR(0.5), lower=0.0, C=np.ones(2), c=1.0)
    >>> found.status, round(float(found.value), 9)
    ('optimal', 1.333333333)
    """

    theta: Vector
    value: float
    gap: float
    lower_bound: float
    relative_gap: float
    threshold: float | Vector
    inner: Vector
    tilt: Vector = field(repr=False)
    status: str
    iterations: int
    trace: list[tuple[float, float, float, int]] = field(repr=False)
    multipliers: dict[str, Vector] = field(repr=False)
    radius: float = np.inf
    parts: tuple[PartResult, ...] = field(default=(), repr=False)
