"""Long-short budgets: so much long, so much short, as in a 130/30 portfolio."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ._backend import FloatArray, backend_of
from ._box import Bounded
from ._capped_simplex import project_capped_simplex, refuse_unreachable
from ._checks import scalar_argument
from ._errors import InfeasibleError, UnboundedError
from ._knapsack import budget_diameter, budget_gap, budget_residual, budget_start, fill_cheapest

if TYPE_CHECKING:
    from ._polyhedron import Polyhedron

__all__ = ["LongShort", "project_long_short"]


def project_long_short(x: Any, long: float, short: float, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf) -> Any:
    r"""Project onto a net budget, a gross budget and bounds.

    .. math:: \arg\min_v \|v - x\|^2 \ \text{s.t.}\ \textstyle\sum_i v_i = a - b,\
              \sum_i |v_i| \le a + b,\ l \le v \le h

    Without the gross budget this is bounds and a budget. Where that answer breaks it, the two budgets together say
    that the longs sum to a and the shorts to b, and the problem falls apart into one projection for each.
    """
    xp = backend_of(x)
    net = project_capped_simplex(x, lower, upper, long - short)
    (p_low, p_high), (n_low, n_high) = split_bounds(np.asarray(lower, float), np.asarray(upper, float))
    d = x.shape[-1]
    longs = project_capped_simplex(x, p_low, p_high, _reachable(long, p_low, p_high, d))
    shorts = project_capped_simplex(-x, n_low, n_high, _reachable(short, n_low, n_high, d))
    over = xp.sum(abs(xp.detach(net))) > long + short
    return xp.where(over, longs - shorts, net)


def split_bounds(
    lower: FloatArray, upper: FloatArray
) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    """Return the bounds of the long part p and of the short part n of theta = p - n."""
    return (np.maximum(lower, 0.0), np.maximum(upper, 0.0)), (np.maximum(-upper, 0.0), np.maximum(-lower, 0.0))


def _reachable(total: float, lower: FloatArray, upper: FloatArray, d: int) -> float:
    """Keep the half that will not be used (when its budget cannot be met) a well-posed problem all the same."""
    low, high = np.broadcast_to(lower, d), np.broadcast_to(upper, d)
    return float(min(max(total, float(np.sum(low))), float(np.sum(high))))


@dataclass(frozen=True, eq=False, repr=False)
class LongShort(Bounded):
    """Long-short budgets: {theta: sum theta = long - short, sum |theta| <= long + short, lower <= theta <= upper}.

    Equivalently: the net budget is met exactly, the positive parts sum to at most `long` and the negative parts to
    at most `short` (given the net, either of the two implies the other). Asking that they sum to exactly `long` and
    `short` would not be convex; where leverage pays, the solution uses both in full anyway.
    ``LongShort(1.3, 0.3)`` is the 130/30 portfolio.

    Parameters
    ----------
    long, short
        The largest sums of the long and of the short positions, at least 0.
    lower, upper
        Bounds on each position; numbers or vectors, infinite (the default) for none.

    Notes
    -----
    As a polyhedron in theta alone the set needs 2^d inequalities; `split` gives it with twice the variables.
    `diameter` is an upper bound.

    Not for long-only weights, for which `Simplex` and `CappedSimplex` are simpler.

    Examples
    --------
    >>> from certeq import LongShort
    >>> LongShort(1.3, 0.3).project([3.0, 0.0, -2.0])
    array([ 1.3,  0. , -0.3])
    >>> LongShort(1.3, 0.3).minimize_linear([3.0, 1.0, 2.0])
    array([-0.3,  1.3,  0. ])
    """

    long: float = 1.0
    short: float = 0.0
    lower: Any = -np.inf
    upper: Any = np.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("long", "short"):
            object.__setattr__(self, name, scalar_argument(getattr(self, name), name, minimum=0.0))
        fixed = self._dimension()
        if fixed is not None:
            self.validate(fixed)

    @property
    def net(self) -> float:
        """The net budget, long - short."""
        return self.long - self.short

    def split(self, d: int) -> Polyhedron:
        """Return the polyhedron of all (p, n) in R^2d, both >= 0, whose differences theta = p - n are this set."""
        from ._polyhedron import Polyhedron

        d = self.validate(d)
        (p_low, p_high), (n_low, n_high) = split_bounds(*self.bounds(d))
        ones, zeros = np.ones(d), np.zeros(d)
        return Polyhedron(
            np.concatenate((p_low, n_low)),
            np.concatenate((p_high, n_high)),
            C=np.concatenate((ones, -ones))[None, :],
            c=[self.net],
            A=np.concatenate((ones, zeros))[None, :],
            b=[self.long],
        )

    def _validate(self, d: int) -> None:
        lower, upper = self.bounds(d)
        refuse_unreachable(self, lower, upper, self.net, "net budget (long - short)")
        (p_low, _), (n_low, _) = split_bounds(lower, upper)
        for name, forced, budget in (("long", p_low, self.long), ("short", n_low, self.short)):
            least = float(np.sum(forced))
            if least > budget + 64 * np.finfo(float).eps * least:
                raise InfeasibleError(
                    f"LongShort is empty: the bounds force {least:.15g} {name}, more than {name} = {budget!r}"
                )

    def _project(self, x: Any) -> Any:
        return project_long_short(x, self.long, self.short, self.lower, self.upper)

    def _residuals(self, x: FloatArray) -> Iterator[tuple[FloatArray, str]]:
        yield from super()._residuals(x)
        yield budget_residual(x, self.net, "net budget: sum of theta")
        gross = np.sum(np.abs(x), axis=-1, keepdims=True)
        budget = self.long + self.short
        yield gross - budget, f"gross budget: sum of |theta| is {float(gross.max())!r}, must be at most {budget!r}"

    def _minimize_linear(self, g: FloatArray) -> FloatArray:
        return self._best(g)[0]

    def _best(self, g: FloatArray) -> tuple[FloatArray, tuple[FloatArray, FloatArray, float, float] | float]:
        """Return a minimiser, and the price of the net budget or (p, n, price of long, price of short)."""
        lower, upper = self.bounds(g.size)
        try:
            v, nu = fill_cheapest(g, lower, upper, self.net)
            if float(np.sum(np.abs(v))) <= self.long + self.short:
                return v, nu
        except UnboundedError:
            pass  # the gross budget bounds it
        # As for the projection: a minimiser that breaks the gross budget means one that uses all of it.
        long_bounds, short_bounds = split_bounds(lower, upper)
        p, long_price = fill_cheapest(g, *long_bounds, self.long)
        n, short_price = fill_cheapest(-g, *short_bounds, self.short)
        return p - n, (p, n, long_price, -short_price)

    def _support_gap(self, theta: FloatArray, g: FloatArray) -> float:
        v, prices = self._best(g)
        if isinstance(prices, float):
            return budget_gap(theta, v, g, prices, self.net)
        p, n, long_price, short_price = prices
        longs, shorts = np.maximum(theta, 0.0), np.maximum(-theta, 0.0)
        # Prices of their own make each product non-negative. What is unused of the long budget is unused of the
        # short one too, and is worth the spread between the prices.
        gap = (g - long_price) @ (longs - p) + (short_price - g) @ (shorts - n)
        unused = 0.5 * (self.long + self.short - float(np.sum(longs) + np.sum(shorts)))
        residual = float(np.sum(theta)) - self.net
        rounding = 64 * np.finfo(float).eps * (self.long + self.short)
        unused = unused if abs(unused) > rounding else 0.0
        residual = residual if abs(residual) > rounding else 0.0
        spread = short_price - long_price
        return float(gap + spread * unused + 0.5 * (long_price + short_price) * residual)

    def _start(self, d: int) -> FloatArray:
        lower, upper = self.bounds(d)
        (p_low, p_high), (n_low, n_high) = split_bounds(lower, upper)
        least = max(float(np.sum(p_low)), self.net + float(np.sum(n_low)))
        most = min(self.long, float(np.sum(p_high)), self.net + float(np.sum(n_high)))
        longs = max(0.0, 0.5 * (least + most))
        # A linear image (p - n) of a relatively interior point is relatively interior.
        theta = budget_start(p_low, p_high, longs) - budget_start(n_low, n_high, max(0.0, longs - self.net))
        return np.clip(theta, lower, upper)

    def _diameter(self, d: int) -> float:
        lower, upper = self.bounds(d)
        low, high = np.maximum(lower, -self.short), np.minimum(upper, self.long)
        return min(budget_diameter(low, high, self.net), float(np.sqrt(2.0)) * (self.long + self.short))

    def _as_polyhedron(self, d: int) -> Polyhedron:
        from ._polyhedron import Polyhedron

        lower, upper = self.bounds(d)
        if np.all(lower >= 0) or self.short == 0:
            return Polyhedron(np.maximum(lower, 0.0), upper, C=np.ones((1, d)), c=[self.net])
        raise TypeError(
            "LongShort is a polyhedron only with 2^d inequalities or twice the variables; "
            "split(d) returns the latter, over (p, n) with theta = p - n"
        )
