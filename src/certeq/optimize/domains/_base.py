"""`Domain`: what every feasible set can do, and the two errors for a problem over a set that has no answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certeq._backend import FloatArray, is_tensor, to_numpy
from certeq._checks import check_array, check_count, check_number, check_points

if TYPE_CHECKING:
    from ._polyhedron import Polyhedron

__all__ = ["Domain", "InfeasibleError", "Stepper", "UnboundedError"]

Stepper = Callable[[FloatArray, FloatArray], FloatArray]  # (point to project, last iterate) -> projection


@dataclass(frozen=True, eq=False, repr=False)
class Domain(ABC):
    """A closed convex set of vectors theta in R^d.

    Its `project` returns argmin {||theta - x||_2 : theta in the set}, and `support_gap` g.theta - min {g.v : v in the
    set}, which bounds how far a convex function with gradient g at theta is above its minimum.

    A set holds its parameters and knows nothing of d unless a parameter is a vector; every method takes d from its
    argument. The methods below check their arguments and pass them to the underscored method of the same name, which
    need not check them again. Sets compare equal when their parameters do, hash, pickle, and never change.

    Not to be subclassed for bounds and linear rows, which `Polyhedron` takes, nor for a set that is not convex: gaps
    and rates would mean nothing there.

    See Also
    --------
    Simplex
        Non-negative weights of a given sum.
    Polyhedron
        Bounds, equalities and inequalities.
    Product
        One set for each block of coordinates.
    minimize
        Minimize the OCE of losses over a feasible set.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> set_ = ce.Simplex()
    >>> isinstance(set_, ce.Domain), set_.project(np.array([2.0, 0.0])).tolist()
    (True, [1.0, 0.0])
    """

    def project(self, x: Any) -> Any:
        """Return the nearest point of the set, argmin over v in the set of ||v - x||.

        Parameters
        ----------
        x : array_like or Tensor
            Points of shape (..., d).

        Returns
        -------
        ndarray or Tensor
            Of the same shape. Arrays come back as float64. A tensor comes back with its own dtype and device,
            computed in float64, differentiable where the projection is (at other points one element of its generalized
            Jacobian is used); inside ``torch.func.vmap`` a NaN cannot be refused and comes out as NaN.
        """
        points = check_points("x", x)
        self.validate(points.shape[-1])
        result = self._project(points)
        return result.to(x.dtype) if is_tensor(x) and x.is_floating_point() else result

    def contains(self, x: Any, tol: float = 1e-9) -> bool:
        """Say whether every point of x violates no constraint by more than ``tol * max(1, max |x|)``.

        Parameters
        ----------
        x : array_like or Tensor
            Points of shape (..., d).
        tol : float
            Tolerance, relative to the largest entry of x where that is above 1.

        Returns
        -------
        bool
            Whether all points lie in the set.
        """
        tol = check_number("tol", tol, least=0.0, finite=False)
        points = self._points(x)
        return self._worst(points)[0] <= tol * max(1.0, float(np.abs(points).max()))

    def violation(self, x: Any) -> float:
        """Return the largest amount by which any point of x violates any constraint; 0 inside the set.

        Parameters
        ----------
        x : array_like or Tensor
            Points of shape (..., d).

        Returns
        -------
        float
            The largest violation.
        """
        return self._worst(self._points(x))[0]

    def explain(self, x: Any) -> str:
        """Name the constraint that x violates most, in words, with the figures.

        Parameters
        ----------
        x : array_like or Tensor
            Points of shape (..., d).

        Returns
        -------
        str
            The constraint and by how much it is violated, or that none is.
        """
        amount, name = self._worst(self._points(x))
        return f"{name} (violated by {amount:.6g})" if amount > 0 else "feasible: no constraint is violated"

    def minimize_linear(self, g: ArrayLike) -> FloatArray:
        """Return a v that minimizes g.v over the set.

        Parameters
        ----------
        g : array_like (d,)
            Coefficients of the linear function.

        Returns
        -------
        array (d,)
            A minimizer.

        Raises
        ------
        UnboundedError
            When there is no minimum; the message and ``direction`` of the error say along what it falls.
        """
        g = self._vector(g, "g")
        return self._minimize_linear(g)

    def support_gap(self, theta: ArrayLike, g: ArrayLike, *, tol: float = 1e-8) -> float:
        """Return g.theta - min over v in the set of g.v; infinite when the minimum is.

        For a convex function with (sub)gradient g at theta this bounds how far its value is above the minimum over
        the set. It is summed from terms that are each non-negative, not as a difference of two large numbers, so a
        gap of 1e-15 is a gap of 1e-15. A budget that theta meets to within rounding counts as met.

        Parameters
        ----------
        theta : array_like (d,)
            A point of the set.
        g : array_like (d,)
            A (sub)gradient there.
        tol : float
            Tolerance within which theta must lie in the set, as of `contains`.

        Returns
        -------
        float
            The gap, at least 0.

        Raises
        ------
        ValueError
            When ``contains(theta, tol)`` is false: a gap at an infeasible point certifies nothing.
        """
        theta = self._vector(theta, "theta")
        g = check_array("g", g, size=theta.size)
        if not self.contains(theta, tol):
            raise ValueError(f"theta must lie in {self!r}, but {self.explain(theta)}; project it first")
        try:
            return float(self._support_gap(theta, g))
        except UnboundedError:
            return float("inf")

    def start(self, d: int) -> FloatArray:
        """Return a point of the relative interior: it violates nothing and touches no bound it need not touch.

        Parameters
        ----------
        d : int
            The dimension.

        Returns
        -------
        array (d,)
            The point.
        """
        d = self.validate(d)
        return self._start(d)

    def diameter(self, d: int) -> float:
        """Return an upper bound on the distance of two points of the set (exact where the class says so).

        Parameters
        ----------
        d : int
            The dimension.

        Returns
        -------
        float
            The bound; +inf for an unbounded set.
        """
        d = self.validate(d)
        return float(self._diameter(d))

    def as_polyhedron(self, d: int) -> Polyhedron:
        """Return the set as {lower <= theta <= upper, C theta = c, A theta <= b}.

        Parameters
        ----------
        d : int
            The dimension.

        Returns
        -------
        Polyhedron
            The same set.

        Raises
        ------
        TypeError
            When the set has no such description of reasonable size.
        """
        d = self.validate(d)
        return self._as_polyhedron(d)

    def validate(self, d: int) -> int:
        """Return d when the set fits R^d and is not empty there; otherwise raise a ValueError that says why not.

        Parameters
        ----------
        d : int
            The dimension.

        Returns
        -------
        int
            The dimension d.

        Raises
        ------
        ValueError
            When a parameter has another dimension; an `InfeasibleError` when the set is empty.
        """
        d = check_count("d", d)
        seen: set[int] = self.__dict__.setdefault("_validated", set())
        if d not in seen:
            fixed = self._dimension()
            if fixed is not None and fixed != d:
                raise ValueError(f"{type(self).__name__} has dimension {fixed}; found a point of dimension {d}")
            self._validate(d)
            seen.add(d)
        return d

    # -- hooks ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def _project(self, x: Any) -> Any: ...

    def _stepper(self) -> Stepper:
        """Return the projection of one step after another, which may go by the last iterate."""
        return lambda x, before: np.asarray(self._project(x))

    @abstractmethod
    def _residuals(self, x: FloatArray) -> Iterator[tuple[FloatArray, str]]:
        """Yield, per family of n >= 1 constraints, the amounts violated (..., n) and words; {k} is the worst index."""

    @abstractmethod
    def _minimize_linear(self, g: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _support_gap(self, theta: FloatArray, g: FloatArray) -> float: ...

    @abstractmethod
    def _start(self, d: int) -> FloatArray: ...

    @abstractmethod
    def _diameter(self, d: int) -> float: ...

    def _as_polyhedron(self, d: int) -> Polyhedron:
        raise TypeError(f"{type(self).__name__} is not a polyhedron with linearly many constraints")

    def _validate(self, d: int) -> None:  # noqa: B027 - most sets cannot be empty, so doing nothing is the default
        """Raise InfeasibleError when the set is empty in R^d."""

    def _dimension(self) -> int | None:
        """Return the one dimension that the vector parameters fix, if any."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                return int(value.shape[-1])
        return None

    # -- shared --------------------------------------------------------------------------------------------------

    def _points(self, x: Any) -> FloatArray:
        points: FloatArray = check_points("x", to_numpy(x))
        self.validate(points.shape[-1])
        return points

    def _vector(self, x: Any, name: str) -> FloatArray:
        vector = check_array(name, x)
        self.validate(vector.size)
        return vector

    def _worst(self, x: FloatArray) -> tuple[float, str]:
        worst, name = 0.0, ""
        for amounts, template in self._residuals(x):
            flat = int(np.argmax(amounts))
            amount = float(amounts.flat[flat])
            if amount > worst:
                worst, name = amount, template.replace("{k}", str(flat % amounts.shape[-1]))
        return worst, name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        values = (getattr(self, field.name) for field in fields(self))
        return type(self), *((v.shape, v.tobytes()) if isinstance(v, np.ndarray) else v for v in values)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def __repr__(self) -> str:
        shown = (f"{field.name}={_show(getattr(self, field.name))}" for field in fields(self))
        return f"{type(self).__name__}({', '.join(shown)})"


def _show(value: Any) -> str:
    """Show a long vector by its size and range: a repr is for reading."""
    if isinstance(value, np.ndarray):
        if value.size <= 6:
            return repr(value.tolist())
        return f"<{'x'.join(map(str, value.shape))} in [{value.min():g}, {value.max():g}]>"
    return repr(value)


class InfeasibleError(ValueError):
    """The set is empty; the message names the constraints that contradict each other.

    Not raised for a set that is merely small, nor for a point outside of it, which is projected.

    See Also
    --------
    UnboundedError
        Error raised where there is no minimum.
    certeq.optimize.InfeasibleLimitsError
        Error raised for limits that no point keeps.

    Examples
    --------
    >>> from certeq import CappedSimplex, InfeasibleError
    >>> try:
    ...     CappedSimplex(upper=0.2).validate(4)
    ... except InfeasibleError as error:
    ...     print(error)
    CappedSimplex is empty: sum of upper bounds 0.8 < total 1.0
    """


class UnboundedError(ValueError):
    """A linear function has no minimum over the set.

    Not raised by ``support_gap``, which is +inf then, nor by ``project``, which is defined on every set here.

    Parameters
    ----------
    message : str
        What falls for ever, and along what.
    direction : array (d,)
        A ray of the set along which the function falls for ever; kept as an attribute.

    See Also
    --------
    InfeasibleError
        Error raised for an empty feasible set.
    Domain
        Base class of feasible sets.

    Examples
    --------
    >>> from certeq import UnboundedError
    >>> from certeq.optimize.domains import NonNegative
    >>> try:
    ...     NonNegative().minimize_linear([1.0, -2.0])
    ... except UnboundedError as error:
    ...     print(error.direction)
    [0. 1.]
    """

    def __init__(self, message: str, direction: NDArray[Any]) -> None:
        super().__init__(message)
        self.direction = np.asarray(direction, dtype=np.float64)

    def __reduce__(self) -> tuple[Any, ...]:
        # The default reduction would call the class with the message alone.
        return type(self), (self.args[0], self.direction)
