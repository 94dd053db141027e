"""Bounds and a budget: a long-only or long-short portfolio with a limit on every position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ._backend import FloatArray, backend_of
from ._box import Bounded
from ._checks import scalar_argument
from ._errors import InfeasibleError
from ._knapsack import budget_diameter, budget_gap, budget_residual, budget_start, fill_cheapest

if TYPE_CHECKING:
    from ._polyhedron import Polyhedron

__all__ = ["CappedSimplex", "project_capped_simplex", "refuse_unreachable"]


def project_capped_simplex(x: Any, lower: ArrayLike, upper: ArrayLike, total: float = 1.0) -> Any:
    r"""Project onto bounds and a budget.

    .. math:: \arg\min_v \|v - x\|^2 \ \text{s.t.}\ l \le v \le h,\ \textstyle\sum_i v_i = s
              \;=\; \mathrm{clip}(x - \tau, l, h) \quad\text{with}\quad
              \textstyle\sum_i \mathrm{clip}(x_i - \tau, l_i, h_i) = s

    The sum is piecewise linear in tau with breaks at x - l and x - h: a sort of the breaks and a bisection over
    their ranks find the piece, which is then solved exactly. Bounds may be infinite.
    """
    xp = backend_of(x)
    values = xp.detach(x)
    lo, hi = xp.constant(lower, x), xp.constant(upper, x)
    # Two passes: the first finds tau up to the rounding of the breaks, eps * |x|; the second measures x from there,
    # so that a common offset of 1e9 costs no digits.
    y = values - _solve_piece(xp, values, lo, hi, total)[1]
    v, _, free, count = _solve_piece(xp, y, lo, hi, total)
    for _ in range(2):
        v = xp.clip(v + free * ((total - xp.sum(v)) / count), lo, hi)
    free = free * xp.floats((v > lo) & (v < hi))
    count = xp.clip(xp.sum(free), 1.0, np.inf)
    return xp.attach(v, x, lambda u: free * (u - xp.sum(free * u) / count))


def _solve_piece(xp: Any, y: Any, lo: Any, hi: Any, total: float) -> tuple[Any, Any, Any, Any]:
    """Return v, tau, the coordinates between their bounds as 0/1, and how many these are (at least 1)."""
    to_lower, to_upper = y - lo, y - hi
    breaks = xp.sort(xp.concatenate((to_upper, to_lower)))
    single = type(y) is np.ndarray and y.ndim == 1
    start, stop = _bracket_vector(y, lo, hi, total, breaks) if single else _bracket(xp, y, lo, hi, total, breaks)
    free = xp.floats((to_lower >= stop) & (to_upper <= start))
    count = xp.clip(xp.sum(free), 1.0, np.inf)
    # The end of the piece nearest 0; with no bounds at all the piece is the whole line and this is 0 itself.
    base = xp.clip(0.0 * y[..., :1], start, stop)
    v = xp.clip(y - base, lo, hi)
    step = (total - xp.sum(v)) / count
    tau = base - xp.where(xp.sum(free) > 0, step, 0.0 * step)
    return xp.clip(v + free * step, lo, hi), tau, free, count


def _bracket(xp: Any, y: Any, lo: Any, hi: Any, total: float, breaks: Any) -> tuple[Any, Any]:
    """Return the neighbouring breaks between which the sum passes `total`, by bisection over their ranks."""
    last = breaks.shape[-1] - 1
    first = xp.integers(xp.sum(y < y))  # zeros, of a shape that vmap follows
    left, right = first, first + last
    for _ in range(int(last).bit_length()):
        middle = (left + right) // 2
        high = xp.sum(xp.clip(y - xp.take(breaks, middle), lo, hi)) >= total
        left, right = xp.where(high, middle, left), xp.where(high, right, middle)
    return xp.take(breaks, left), xp.take(breaks, right)


def _bracket_vector(
    y: FloatArray, lo: FloatArray, hi: FloatArray, total: float, breaks: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Do the same for one vector, where Newton's guess of the rank may be followed: some five sums, not log2(2d)."""
    left, right = 0, breaks.size - 1
    guess, turn = int(breaks.searchsorted(0.0)), 0
    while right - left > 1:
        k = min(max(guess if turn % 3 < 2 else (left + right) // 2, left + 1), right - 1)
        v = y - breaks[k]
        np.maximum(v, lo, out=v)
        np.minimum(v, hi, out=v)
        excess = float(v.sum()) - total
        left, right = (k, right) if excess >= 0 else (left, k)
        slope = np.count_nonzero((v > lo) & (v < hi))
        turn += 1  # every third turn halves the bracket, whatever Newton says
        guess = int(breaks.searchsorted(breaks[k] + excess / slope)) if slope else (left + right) // 2
    return breaks[left : left + 1], breaks[right : right + 1]


@dataclass(frozen=True, eq=False, repr=False)
class CappedSimplex(Bounded):
    """Bounds and a budget, {theta: lower <= theta <= upper, sum theta = total}.

    Parameters
    ----------
    lower, upper
        Numbers or vectors, infinite for no bound; a negative lower bound allows short positions.
    total
        The budget, any finite number.

    Notes
    -----
    `diameter` is an upper bound, exact for the plain simplex.

    Not for limits on groups of weights, for which see `Polyhedron`, nor for a limit on leverage: see `LongShort`.

    Examples
    --------
    >>> from certeq import CappedSimplex
    >>> CappedSimplex(upper=0.5).project([3.0, 0.1, 0.0])
    array([0.5, 0.3, 0.2])
    >>> CappedSimplex(lower=-0.25, upper=1.0).minimize_linear([3.0, 1.0, 2.0])
    array([-0.25,  1.  ,  0.25])
    """

    lower: Any = 0.0
    upper: Any = 1.0
    total: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "total", scalar_argument(self.total, "total"))
        fixed = self._dimension()
        if fixed is not None:
            self.validate(fixed)

    def _validate(self, d: int) -> None:
        refuse_unreachable(self, *self.bounds(d), self.total, "total")

    def _project(self, x: Any) -> Any:
        return project_capped_simplex(x, self.lower, self.upper, self.total)

    def _residuals(self, x: FloatArray) -> Iterator[tuple[FloatArray, str]]:
        yield from super()._residuals(x)
        yield budget_residual(x, self.total)

    def _minimize_linear(self, g: FloatArray) -> FloatArray:
        return fill_cheapest(g, *self.bounds(g.size), self.total)[0]

    def _support_gap(self, theta: FloatArray, g: FloatArray) -> float:
        v, nu = fill_cheapest(g, *self.bounds(g.size), self.total)
        return budget_gap(theta, v, g, nu, self.total)

    def _start(self, d: int) -> FloatArray:
        return budget_start(*self.bounds(d), self.total)

    def _diameter(self, d: int) -> float:
        return budget_diameter(*self.bounds(d), self.total)

    def _as_polyhedron(self, d: int) -> Polyhedron:
        from ._polyhedron import Polyhedron

        return Polyhedron(*self.bounds(d), C=np.ones((1, d)), c=[self.total])


def refuse_unreachable(domain: Any, lower: FloatArray, upper: FloatArray, total: float, name: str) -> None:
    """Raise InfeasibleError when no theta within the bounds sums to `total`, beyond what rounding explains."""
    low, high = float(np.sum(lower)), float(np.sum(upper))
    slack = 64 * np.finfo(float).eps
    if total > high + slack * abs(high):
        raise InfeasibleError(f"{type(domain).__name__} is empty: sum of upper bounds {high:.15g} < {name} {total!r}")
    if total < low - slack * abs(low):
        # One number in the first place is often meant as the cap.
        cap = np.ndim(domain.lower) == 0 and np.ndim(domain.upper) == 0 and domain.upper == 1.0
        hint = f". Did you mean upper={domain.lower!r}?" if cap else ""
        raise InfeasibleError(
            f"{type(domain).__name__} is empty: sum of lower bounds {low:.15g} > {name} {total!r}{hint}"
        )
