"""The general polyhedron, products of sets, and sets as polyhedra in more variables.

A budget of absolute values is linear in the long and the short part of theta: `extended_form` describes such a set by a
polyhedron in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certeq._backend import FloatArray, backend_of
from certeq._checks import as_real, check_bound, check_count, check_finite, frozen

from ._base import Domain, InfeasibleError, UnboundedError
from ._box import Bounded, middle_of, minimize_linear_box
from ._least_distance import LeastDistance, least_distance
from ._rows import Constraints, inner_point, minimize_over, refuse_empty, smallest_conflict

__all__ = ["ExtendedForm", "Polyhedron", "Product", "extended_form"]


@dataclass(frozen=True, eq=False, repr=False)
class Polyhedron(Bounded):
    """Bounds and rows, {theta: lower <= theta <= upper, C theta = c, A theta <= b}.

    Parameters
    ----------
    lower, upper : float or array (d,)
        Bounds, infinite for none. Some argument must be a vector or a matrix, to fix d.
    C, c : array (n, d) and array (n,), optional
        Equalities; None for none. One row may be given as a vector.
    A, b : array (n, d) and array (n,), optional
        Inequalities, likewise.

    See Also
    --------
    CappedSimplex
        Bounds and a budget.
    Product
        One set for each block of coordinates.
    InfeasibleError
        Error raised for an empty feasible set.

    Notes
    -----
    All six are stored as read-only arrays, with no rows in place of None. ``project`` solves each point by a finite
    active-set method in O(d) times the rows squared per step, to about 1e-13; it takes milliseconds, not
    microseconds, and on tensors it runs on the CPU. ``minimize_linear`` and ``start`` solve a linear program (HiGHS).
    ``diameter`` is that of the bounds, an upper bound.

    Not for a set that has a class of its own, such as `Box`, `Simplex` or `CappedSimplex`: their projections need no
    iteration over active sets.

    Examples
    --------
    >>> from certeq import Polyhedron
    >>> p = Polyhedron(0.0, 1.0, C=[1.0, 1.0, 1.0], c=1.0, A=[[1.0, -1.0, 0.0]], b=[0.25])
    >>> p.project([1.0, 0.0, 0.0])
    array([0.625, 0.375, 0.   ])
    >>> p.explain([1.0, 0.0, 0.0])
    'A[0] theta <= b[0] (violated by 0.75)'
    """

    lower: Any = 0.0
    upper: Any = np.inf
    C: Any = None
    c: Any = None
    A: Any = None
    b: Any = None

    def __post_init__(self) -> None:
        C, A = _matrix(self.C, "C"), _matrix(self.A, "A")
        sizes = {"lower": np.size(self.lower) if np.ndim(self.lower) else None}
        sizes["upper"] = np.size(self.upper) if np.ndim(self.upper) else None
        sizes |= {"C": None if C is None else C.shape[1], "A": None if A is None else A.shape[1]}
        known = {name: size for name, size in sizes.items() if size is not None}
        if not known:
            raise ValueError("Polyhedron must know its dimension: give lower, upper, C or A as an array")
        if len(set(known.values())) > 1:
            raise ValueError(f"Polyhedron's arguments must agree on d; found {known}")
        d = next(iter(known.values()))
        super().__post_init__()
        for name in ("lower", "upper"):
            object.__setattr__(self, name, frozen(np.broadcast_to(getattr(self, name), d)))
        for matrix_name, matrix, rhs_name in (("C", C, "c"), ("A", A, "b")):
            rhs = _right_side(getattr(self, rhs_name), rhs_name, matrix_name, 0 if matrix is None else len(matrix))
            object.__setattr__(self, matrix_name, frozen(np.zeros((0, d)) if matrix is None else matrix))
            object.__setattr__(self, rhs_name, frozen(rhs))

    @property
    def d(self) -> int:
        """The dimension."""
        return int(self.lower.size)

    def conflict(self) -> tuple[list[int], list[int]]:
        """Return rows of C and of A that no point within the bounds satisfies together, of which none can be spared.

        For a set that is empty: of another all rows are returned, since none of them excludes any.

        Returns
        -------
        equalities : list of int
            Rows of C.
        inequalities : list of int
            Rows of A.
        """
        return smallest_conflict(self._constraints())

    def _constraints(self) -> Constraints:
        """The bounds and rows as solvers read them, where A is called G."""
        return Constraints(self.lower, self.upper, self.C, self.c, self.A, self.b)

    def _validate(self, d: int) -> None:
        refuse_empty(self._constraints())

    def _nearest(self, x: FloatArray) -> LeastDistance:
        K, k = np.concatenate((self.C, self.A)), np.concatenate((self.c, self.b))
        return least_distance(x, self.lower, self.upper, K, k, self.c.size)

    def _project(self, x: Any) -> Any:
        return backend_of(x).on_host(self._solve, x)

    def _solve(self, points: FloatArray) -> tuple[FloatArray, Callable[[], FloatArray]]:
        found = [self._nearest(point) for point in points]
        thetas = np.array([each.theta for each in found]).reshape(points.shape)
        return thetas, lambda: np.array([each.jacobian() for each in found])

    def _residuals(self, x: FloatArray) -> Iterator[tuple[FloatArray, str]]:
        yield from super()._residuals(x)
        if self.c.size:
            yield np.abs(x @ self.C.T - self.c), "C[{k}] theta = c[{k}]"
        if self.b.size:
            yield x @ self.A.T - self.b, "A[{k}] theta <= b[{k}]"

    def _minimize_linear(self, g: FloatArray) -> FloatArray:
        if not self.c.size + self.b.size:
            return minimize_linear_box(g, self.lower, self.upper)
        # The vertex comes with the tolerance of the linear program; one projection puts it in the set.
        return self._nearest(minimize_over(self._constraints(), g)[0]).theta

    def _support_gap(self, theta: FloatArray, g: FloatArray) -> float:
        # A bound by duality, valid for any prices y and z >= 0, hence not at the mercy of the linear program's
        # tolerance: with r = g - C'y + A'z, the minimum of g.v is at least that of r.v over the bounds + y.c - z.b.
        if not self.c.size + self.b.size:
            return float(g @ (theta - self._minimize_linear(g)))
        _, y, z = minimize_over(self._constraints(), g)
        r = g - self.C.T @ y + self.A.T @ z
        # Where there is no bound to lean on, r is 0 up to the rounding of the prices.
        bound = np.where(r > 0, self.lower, self.upper)
        noise = 1e-9 * max(float(np.abs(g).max()), np.finfo(float).tiny)
        r = np.where(np.isinf(bound) & (np.abs(r) <= noise), 0.0, r)
        over_bounds = float(r @ np.where(r == 0.0, 0.0, theta - np.where(r == 0.0, 0.0, bound)))
        equalities = self.C @ theta - self.c
        scale = np.abs(self.C) @ np.abs(theta) + np.abs(self.c)
        equalities = np.where(np.abs(equalities) > 64 * np.finfo(float).eps * scale, equalities, 0.0)
        return over_bounds + float(y @ equalities) + float(z @ (self.b - self.A @ theta))

    def _start(self, d: int) -> FloatArray:
        if not self.c.size + self.b.size:
            return middle_of(self.lower, self.upper)
        return self._nearest(inner_point(self._constraints())).theta

    def _diameter(self, d: int) -> float:
        return float(np.linalg.norm(self.upper - self.lower))

    def _as_polyhedron(self, d: int) -> Polyhedron:
        return self


def _matrix(value: ArrayLike | None, name: str) -> FloatArray | None:
    if value is None:
        return None
    array = np.atleast_2d(as_real(name, value, "fiu"))
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name} must have shape (n, d); found {array.shape}")
    check_finite(name, array)
    return array


def _right_side(value: ArrayLike | None, name: str, matrix: str, rows: int) -> FloatArray:
    if (value is None) != (rows == 0) and not (rows == 0 and np.size(value) == 0):  # type: ignore[arg-type]
        raise ValueError(f"{matrix} and {name} must be given together; found {'no ' if value is None else ''}{name}")
    if value is None or rows == 0:
        return np.zeros(0)
    side = np.atleast_1d(check_bound(name, value))
    if side.size != rows:
        raise ValueError(f"{name} must have one entry per row of {matrix}; found {side.size} for {rows} rows")
    return side


@dataclass(frozen=True, eq=False, repr=False)
class Product(Domain):
    r"""The product {theta: block i of theta lies in domains[i]}.

    .. math:: \Theta = \Theta_1 \times \cdots \times \Theta_k

    Parameters
    ----------
    domains : sequence of Domain
        The sets, in the order of their blocks.
    sizes : sequence of int
        How many coordinates each block has.

    See Also
    --------
    Polyhedron
        Bounds, equalities and inequalities.
    Domain
        Base class of feasible sets.

    Notes
    -----
    ``diameter`` is exact when those of all the blocks are.

    Not for constraints that tie blocks together: use `Polyhedron` for those.

    Examples
    --------
    >>> from certeq import Product
    >>> from certeq.optimize.domains import Box, Simplex
    >>> Product([Simplex(), Box(-1.0, 1.0)], sizes=[2, 1]).project([2.0, 0.0, 5.0])
    array([1., 0., 1.])
    """

    domains: Sequence[Domain]
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        domains = tuple(self.domains)
        sizes = tuple(check_count("d", size) for size in self.sizes)
        if not domains:
            raise ValueError("domains must hold at least one Domain; found none")
        if len(domains) != len(sizes):
            raise ValueError(f"sizes must have one entry per domain; found {len(sizes)} for {len(domains)} domains")
        for i, domain in enumerate(domains):
            if not isinstance(domain, Domain):
                raise TypeError(f"domains[{i}] must be a Domain; found {type(domain).__name__}")
        object.__setattr__(self, "domains", domains)
        object.__setattr__(self, "sizes", sizes)

    def _dimension(self) -> int | None:
        return sum(self.sizes)

    def _validate(self, d: int) -> None:
        for i, (domain, size) in enumerate(zip(self.domains, self.sizes, strict=True)):
            try:
                domain.validate(size)
            except InfeasibleError as error:
                raise InfeasibleError(f"Product is empty in block {i}: {error}") from None
            except ValueError as error:
                raise ValueError(f"Product does not fit in block {i}: {error}") from None

    def _blocks(self) -> Iterator[tuple[Domain, slice]]:
        stop = 0
        for domain, size in zip(self.domains, self.sizes, strict=True):
            yield domain, slice(stop, stop + size)
            stop += size

    def _project(self, x: Any) -> Any:
        return backend_of(x).concatenate([domain._project(x[..., block]) for domain, block in self._blocks()])

    def _residuals(self, x: FloatArray) -> Iterator[tuple[FloatArray, str]]:
        for i, (domain, block) in enumerate(self._blocks()):
            for amounts, template in domain._residuals(x[..., block]):
                yield amounts, f"block {i}: {template}"

    def _minimize_linear(self, g: FloatArray) -> FloatArray:
        parts = []
        for i, (domain, block) in enumerate(self._blocks()):
            try:
                parts.append(domain._minimize_linear(g[block]))
            except UnboundedError as error:
                direction = np.zeros(g.size)
                direction[block] = error.direction
                raise UnboundedError(f"in block {i}: {error}", direction) from None
        return np.concatenate(parts)

    def _support_gap(self, theta: FloatArray, g: FloatArray) -> float:
        return sum(domain._support_gap(theta[block], g[block]) for domain, block in self._blocks())

    def _start(self, d: int) -> FloatArray:
        return np.concatenate([domain._start(block.stop - block.start) for domain, block in self._blocks()])

    def _diameter(self, d: int) -> float:
        return float(np.linalg.norm([domain._diameter(block.stop - block.start) for domain, block in self._blocks()]))

    def _as_polyhedron(self, d: int) -> Polyhedron:
        return side_by_side([domain._as_polyhedron(block.stop - block.start) for domain, block in self._blocks()])


def side_by_side(parts: Sequence[Polyhedron]) -> Polyhedron:
    """Return the product of polyhedra, each in a block of coordinates of its own."""
    ends = np.cumsum([part.d for part in parts])

    def stacked(rows: str) -> FloatArray:
        blocks = []
        for part, end in zip(parts, ends, strict=True):
            matrix: FloatArray = getattr(part, rows)
            wide = np.zeros((matrix.shape[0], int(ends[-1])))
            wide[:, end - part.d : end] = matrix
            blocks.append(wide)
        return np.concatenate(blocks)

    def joined(name: str) -> FloatArray:
        return np.concatenate([getattr(part, name) for part in parts])

    return Polyhedron(joined("lower"), joined("upper"), C=stacked("C"), c=joined("c"), A=stacked("A"), b=joined("b"))


def bounds_alone(domain: Domain, d: int) -> tuple[FloatArray, FloatArray] | None:
    """Return the bounds of a set that consists of bounds, or of nothing at all; None of another."""
    try:
        rows = domain.as_polyhedron(d)
    except TypeError:
        return None
    return None if len(rows.c) or len(rows.b) else (np.asarray(rows.lower), np.asarray(rows.upper))


def extended_form(domain: Domain, d: int) -> ExtendedForm:
    """Return the set as a polyhedron in as few more variables as will do.

    Raises
    ------
    TypeError
        When there is none; the message is the name of the set to blame, which of a product is one of its blocks.
    """
    if isinstance(domain, Product):
        domain.validate(d)
        return _joined([_block(i, *part) for i, part in enumerate(zip(domain.domains, domain.sizes, strict=True))])
    if hasattr(domain, "split"):
        center = domain.middle(d) if hasattr(domain, "middle") else np.zeros(d)
        sign = np.repeat([1.0, -1.0], d)
        return ExtendedForm(domain.split(d), np.tile(np.arange(d), 2), sign, np.ones(2 * d, dtype=bool), center)
    try:
        rows = domain.as_polyhedron(d)
    except TypeError:
        raise TypeError(repr(domain)) from None
    return ExtendedForm(rows, np.arange(d), np.ones(d), np.zeros(d, dtype=bool), np.zeros(d))


@dataclass(frozen=True)
class ExtendedForm:
    """The set of all center + S v with v in the polyhedron ``rows``, where S has one entry in each column.

    Column k of S holds a 1 in row ``index[k]``, or a -1 where the sign is negative. A coordinate that is ``split``
    has two columns, one of either sign, for what lies above and below the center.
    """

    rows: Polyhedron
    index: NDArray[np.intp]
    sign: FloatArray
    split: NDArray[np.bool_]
    center: FloatArray

    @property
    def is_plain(self) -> bool:
        """Whether v is theta itself."""
        return not self.split.any()

    def matrix(self) -> FloatArray:
        """S, one row per coordinate of theta."""
        out = np.zeros((self.center.size, self.index.size))
        out[self.index, np.arange(self.index.size)] = self.sign
        return out

    def theta(self, v: FloatArray) -> FloatArray:
        """Return center + S v."""
        out = self.center.copy()
        np.add.at(out, self.index, self.sign * v)
        return out

    def parts(self, theta: FloatArray) -> FloatArray:
        """Return the v of theta whose entries are smallest."""
        v = self.sign * (theta - self.center)[self.index]
        return np.where(self.split, np.maximum(v, 0.0), v)


def _block(i: int, domain: Domain, size: int) -> ExtendedForm:
    try:
        return extended_form(domain, size)
    except TypeError as error:
        raise TypeError(f"{error} in block {i} of a Product") from None


def _joined(parts: list[ExtendedForm]) -> ExtendedForm:
    starts = np.cumsum([0] + [part.center.size for part in parts[:-1]])
    return ExtendedForm(
        side_by_side([part.rows for part in parts]),
        np.concatenate([part.index + start for part, start in zip(parts, starts, strict=True)]),
        np.concatenate([part.sign for part in parts]),
        np.concatenate([part.split for part in parts]),
        np.concatenate([part.center for part in parts]),
    )
