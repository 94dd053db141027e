"""Bounds on each coordinate, on both sides, on one or on none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from certeq._backend import FloatArray, backend_of
from certeq._checks import check_bound

from ._base import Domain, InfeasibleError, UnboundedError

if TYPE_CHECKING:
    from ._polyhedron import Polyhedron

__all__ = ["Bounded", "Box", "Free", "NonNegative", "project_box"]


def project_box(x: Any, lower: ArrayLike, upper: ArrayLike) -> Any:
    r"""Project onto bounds.

    .. math:: \arg\min_v \|v - x\|^2 \ \text{s.t.}\ l \le v \le h \;=\; \min(\max(x, l), h)
    """
    xp = backend_of(x)
    lo, hi, values = xp.constant(lower, x), xp.constant(upper, x), xp.detach(x)
    inside = xp.floats((values > lo) & (values < hi))
    return xp.attach(xp.clip(values, lo, hi), x, lambda v: inside * v)


class Bounded(Domain):
    """Bounds alone: what the sets with a `lower` and an `upper` share; either is a number for all or a vector.

    The fields themselves are declared by each set, in the order its callers pass them.
    """

    lower: Any
    upper: Any

    def __post_init__(self) -> None:
        lower = check_bound("lower", self.lower, -np.inf)
        upper = check_bound("upper", self.upper, np.inf)
        if np.ndim(lower) and np.ndim(upper) and np.shape(lower) != np.shape(upper):
            raise ValueError(f"lower and upper must have the same size; found {np.size(lower)} and {np.size(upper)}.")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        crossed = np.atleast_1d(np.greater(lower, upper))
        if crossed.any():
            j = int(np.argmax(crossed))
            low, high = (float(np.broadcast_to(v, crossed.shape)[j]) for v in (lower, upper))
            raise InfeasibleError(f"{type(self).__name__} is empty: lower {low!r} > upper {high!r} at index {j}")

    def bounds(self, d: int) -> tuple[FloatArray, FloatArray]:
        """Return the bounds as two read-only vectors of size d."""
        return np.broadcast_to(self.lower, d), np.broadcast_to(self.upper, d)

    def _project(self, x: Any) -> Any:
        return project_box(x, self.lower, self.upper)

    def _residuals(self, x: FloatArray) -> Iterator[tuple[FloatArray, str]]:
        yield np.subtract(self.lower, x), "theta[{k}] is below its lower bound"
        yield np.subtract(x, self.upper), "theta[{k}] is above its upper bound"

    def _minimize_linear(self, g: FloatArray) -> FloatArray:
        return minimize_linear_box(g, *self.bounds(g.size))

    def _support_gap(self, theta: FloatArray, g: FloatArray) -> float:
        # Where g = 0 any coordinate is optimal, and 0 * (theta - v) is 0 whatever finite v was picked.
        return float(g @ (theta - self._minimize_linear(g)))

    def _start(self, d: int) -> FloatArray:
        return middle_of(*self.bounds(d))

    def _diameter(self, d: int) -> float:
        lower, upper = self.bounds(d)
        return float(np.linalg.norm(upper - lower))

    def _as_polyhedron(self, d: int) -> Polyhedron:
        from ._polyhedron import Polyhedron

        return Polyhedron(*self.bounds(d))


@dataclass(frozen=True, eq=False, repr=False)
class Box(Bounded):
    """The box {theta: lower <= theta <= upper}.

    Parameters
    ----------
    lower, upper : float or array (d,)
        Bounds; -inf and inf mean no bound. ``lower == upper`` is a single point and is allowed.

    See Also
    --------
    NonNegative
        No negative coordinates.
    CappedSimplex
        Bounds and a budget.
    Polyhedron
        Bounds, equalities and inequalities.

    Notes
    -----
    ``diameter`` is exact.

    Not for constraints that tie coordinates together, such as a budget: see `CappedSimplex` and `Polyhedron`.

    Examples
    --------
    >>> from certeq import Box
    >>> Box(0.0, [1.0, 2.0]).project([3.0, -1.0])
    array([1., 0.])
    >>> Box(0.0, 1.0).minimize_linear([-1.0, 2.0])
    array([1., 0.])
    """

    lower: Any
    upper: Any


@dataclass(frozen=True, eq=False, repr=False)
class NonNegative(Bounded):
    """The orthant {theta: theta >= 0}.

    Not bounded: a gap over it is +inf unless no entry of the gradient is negative.

    See Also
    --------
    Simplex
        Non-negative weights of a given sum.
    Box
        Bounds on each coordinate.
    Free
        No constraint.

    Examples
    --------
    >>> from certeq import NonNegative
    >>> NonNegative().project([3.0, -1.0])
    array([3., 0.])
    """

    lower = 0.0
    upper = np.inf

    def __post_init__(self) -> None:
        """Nothing to check."""

    def _residuals(self, x: FloatArray) -> Iterator[tuple[FloatArray, str]]:
        yield -x, "theta[{k}] is negative"


@dataclass(frozen=True, eq=False, repr=False)
class Free(Bounded):
    """All of R^d: no constraint.

    Not where a certificate is wanted: without bounds a gap is +inf unless the gradient is exactly 0. Give the set a
    bound, as `Ball` does, or look at the residual of the `Solution` instead.

    See Also
    --------
    Ball
        The Euclidean ball.
    NonNegative
        No negative coordinates.
    Box
        Bounds on each coordinate.

    Examples
    --------
    >>> from certeq import Free
    >>> Free().project([3.0, -1.0])
    array([ 3., -1.])
    """

    lower = -np.inf
    upper = np.inf

    def __post_init__(self) -> None:
        """Nothing to check."""

    def _project(self, x: Any) -> Any:
        return x + 0.0  # a new array: the caller's own must not come back as the result

    def _residuals(self, x: FloatArray) -> Iterator[tuple[FloatArray, str]]:
        return iter(())


def minimize_linear_box(g: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the corner of a box that minimizes g.v, with a coordinate of no weight put inside its bounds."""
    v = np.where(g > 0, lower, np.where(g < 0, upper, np.clip(0.0, lower, upper)))
    loose = ~np.isfinite(v)
    if loose.any():
        j = int(np.argmax(np.where(loose, np.abs(g), -1.0)))
        verb, side = ("fall", "lower") if g[j] > 0 else ("grow", "upper")
        direction = np.zeros(g.size)
        direction[j] = -np.sign(g[j])
        raise UnboundedError(
            f"g.theta is unbounded below: theta[{j}] can {verb} for ever (g[{j}] = {g[j]:g}, no {side} bound)",
            direction,
        )
    return v


def middle_of(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the middle of a box; one unit inside the bound where there is only one, 0 where there is none."""
    low, high = np.isfinite(lower), np.isfinite(upper)
    a, b = np.where(low, lower, 0.0), np.where(high, upper, 0.0)
    middle = np.where(low & high, a + 0.5 * (b - a), np.where(low, a + 1.0, np.where(high, b - 1.0, 0.0)))
    return np.clip(middle, lower, upper)
