"""Sets with a budget: the simplex, bounds and a budget, and budgets of long and short positions.

Each has its exact projection, a closed-form linear minimum (the fractional knapsack) and a gap measured against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from certeq._backend import FloatArray, backend_of
from certeq._checks import check_number

from ._base import Domain, InfeasibleError, Stepper, UnboundedError
from ._box import Bounded
from ._polyhedron import Polyhedron

__all__ = [
    "CappedSimplex",
    "LongShort",
    "Simplex",
    "project_capped_simplex",
    "project_long_short",
    "project_simplex",
]


def project_simplex(x: Any, total: float = 1.0) -> Any:
    r"""Project onto the simplex of the given total.

    .. math:: \arg\min_v \|v - x\|^2 \ \text{s.t.}\ v \ge 0,\ \textstyle\sum_i v_i = s
              \;=\; (x - \tau)_+ \quad\text{with}\quad \textstyle\sum_i (x_i - \tau)_+ = s

    One sort finds how many entries stay positive, and with it tau. A single NumPy vector, the inner loop of a
    stochastic gradient method, takes a shorter road to the same numbers.
    """
    if type(x) is np.ndarray and x.ndim == 1:
        return _project_vector(x, total)
    xp = backend_of(x)
    values = xp.detach(x)
    # Only differences matter, and no entry more than `total` below the top can stay positive. Measured from the top
    # a common offset of 1e9 costs no digits.
    y = xp.clip(values - xp.max(values), -total, 0.0)
    falling = -xp.sort(-y)
    excess = xp.cumsum(falling) - total
    rank = xp.constant(np.arange(1.0, y.shape[-1] + 1.0), y)
    # The top entry always stays; the first comparison can fail by rounding only when total = 0.
    count = xp.clip(xp.sum(falling * rank > excess), 1.0, float(y.shape[-1]))
    tau = xp.take(excess, xp.integers(count) - 1) / count
    for _ in range(2):
        # Newton's method on the convex, piecewise linear sum ends at its root in one step from here; it removes what
        # a cumulative sum of a million terms has lost, in tau and in the choice of entries.
        v = xp.clip(y - tau, 0.0, np.inf)
        count = xp.clip(xp.sum(v > 0), 1.0, float(y.shape[-1]))
        tau = tau + (xp.sum(v) - total) / count
    v = xp.clip(y - tau, 0.0, np.inf)
    support = xp.floats(v > 0)
    count = xp.clip(xp.sum(support), 1.0, float(y.shape[-1]))
    # tau itself is a float and rounds; the weights absorb that last residual, which is relative to their own size.
    v = xp.clip(v + support * ((total - xp.sum(v)) / count), 0.0, np.inf)
    return xp.attach(v, x, lambda u: support * (u - xp.sum(support * u) / count))


def _project_vector(x: FloatArray, total: float) -> FloatArray:
    """Project one vector by Newton's method on the depth h below the top entry: sum (h - depth)_+ = total."""
    depth: FloatArray = x.max() - x
    kept = depth[depth < total]
    kept.sort()
    count = max(kept.size, 1)  # none is kept when total = 0
    for _ in range(100):
        # The sum is convex in h and linear between the depths, so Newton's method is exact after a few steps; the
        # limit is for two neighboring counts that rounding cannot tell apart.
        h = (total + float(kept[:count].sum())) / count
        deeper = max(int(kept.searchsorted(h)), 1)
        if deeper == count:
            break
        count = deeper
    v: FloatArray = h - depth
    np.maximum(v, 0.0, out=v)
    residual = total - float(v.sum())
    if residual != 0.0:  # as above: the weights absorb the rounding of h
        v += (v > 0) * (residual / count)
        np.maximum(v, 0.0, out=v)
    return v


class StepProjection:
    r"""The projection of one step after another: Newton's method, begun at the support of the last iterate.

    The sum of :math:`(x_i - \tau)_+` is convex and piecewise linear in tau, so after its first step Newton's method
    rises to the root and ends there in finitely many; when the support does not change, which is the rule, the first
    step is the last. Nothing is sorted. The result depends on the point and the last iterate alone: what is remembered
    saves time and changes no bit.
    """

    def __init__(self, total: float) -> None:
        self.total = total
        self.last: FloatArray | None = None  # what was returned last time, and its support
        self.support, self.mask, self.count = b"", np.zeros(0), 0

    def _learn(self, support: NDArray[np.bool_]) -> None:
        self.support, self.mask = support.tobytes(), support.astype(np.float64)
        self.count = int(np.count_nonzero(support))

    def __call__(self, x: FloatArray, before: FloatArray) -> FloatArray:
        """Return the projection of x; ``before`` is the last iterate."""
        if before is not self.last:
            self._learn(before > 0.0)
        for _ in range(100):  # two supports may differ by less than rounding can tell
            if not self.count:  # total is lost in the rounding of x, or x is not finite
                break
            tau = (float(np.dot(x, self.mask)) - self.total) / self.count
            support = x > tau
            if support.tobytes() == self.support:
                self.last = v = x - tau
                np.maximum(v, 0.0, out=v)
                return v
            self._learn(support)
        self.last = None
        return _project_vector(x, self.total)


@dataclass(frozen=True, eq=False, repr=False)
class Simplex(Domain):
    """The simplex {theta: theta >= 0, sum theta = total}.

    Parameters
    ----------
    total : float
        The budget, at least 0 (0 is the single point theta = 0).

    See Also
    --------
    CappedSimplex
        Bounds and a budget.
    LongShort
        Budgets of long and of short positions.
    NonNegative
        No negative coordinates.

    Notes
    -----
    ``diameter`` is exact.

    Not for short positions, for which see `LongShort`, nor for caps on single weights: see `CappedSimplex`.

    Examples
    --------
    >>> from certeq import Simplex
    >>> Simplex().project([0.5, 1.0, -3.0])
    array([0.25, 0.75, 0.  ])
    >>> Simplex().support_gap([0.5, 0.5, 0.0], [1.0, 2.0, 3.0])
    0.5
    """

    total: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", check_number("total", self.total, least=0.0))

    def _project(self, x: Any) -> Any:
        return project_simplex(x, self.total)

    def _stepper(self) -> Stepper:
        return StepProjection(self.total)

    def _residuals(self, x: FloatArray) -> Iterator[tuple[FloatArray, str]]:
        yield -x, "theta[{k}] is negative"
        yield budget_residual(x, self.total)

    def _minimize_linear(self, g: FloatArray) -> FloatArray:
        v = np.zeros(g.size)
        v[np.argmin(g)] = self.total
        return v

    def _support_gap(self, theta: FloatArray, g: FloatArray) -> float:
        return budget_gap(theta, self._minimize_linear(g), g, float(g.min()), self.total)

    def _start(self, d: int) -> FloatArray:
        return np.full(d, self.total / d)

    def _diameter(self, d: int) -> float:
        return float(self.total * np.sqrt(2.0)) if d > 1 else 0.0

    def _as_polyhedron(self, d: int) -> Polyhedron:
        return _polyhedron(self.total, d)


@lru_cache(maxsize=64)
def _polyhedron(total: float, d: int) -> Polyhedron:
    """Kept, since its checks take longer than a step of the exact solver; a polyhedron cannot be changed."""
    return Polyhedron(np.zeros(d), np.inf, C=np.ones((1, d)), c=[total])


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
    """Return the neighboring breaks between which the sum passes `total`, by bisection over their ranks."""
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
    lower, upper : float or array (d,)
        Bounds, infinite for none; a negative lower bound allows short positions.
    total : float
        The budget, any finite number.

    See Also
    --------
    Simplex
        Non-negative weights of a given sum.
    LongShort
        Budgets of long and of short positions.
    Polyhedron
        Bounds, equalities and inequalities.

    Notes
    -----
    ``diameter`` is an upper bound, exact for the plain simplex.

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
        object.__setattr__(self, "total", check_number("total", self.total))
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
        return Polyhedron(*self.bounds(d), C=np.ones((1, d)), c=[self.total])


def refuse_unreachable(domain: Any, lower: FloatArray, upper: FloatArray, total: float, name: str) -> None:
    """Raise InfeasibleError when no theta within the bounds sums to `total`, beyond what rounding explains."""
    low, high = float(np.sum(lower)), float(np.sum(upper))
    slack = 64 * np.finfo(float).eps
    if total > high + slack * abs(high):
        raise InfeasibleError(f"{type(domain).__name__} is empty: sum of upper bounds {high:.15g} < {name} {total!r}")
    if total < low - slack * abs(low):
        # One number as the first argument is often meant as the cap.
        cap = np.ndim(domain.lower) == 0 and np.ndim(domain.upper) == 0 and domain.upper == 1.0
        hint = f". Did you mean upper={domain.lower!r}?" if cap else ""
        raise InfeasibleError(
            f"{type(domain).__name__} is empty: sum of lower bounds {low:.15g} > {name} {total!r}{hint}"
        )


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

    Equivalently: the net budget is met exactly, the positive parts sum to at most ``long`` and the negative parts to
    at most ``short`` (given the net, either of the two implies the other). Asking that they sum to exactly ``long`` and
    ``short`` would not be convex; where leverage pays, the solution uses both in full anyway.
    ``LongShort(1.3, 0.3)`` is the 130/30 portfolio.

    Parameters
    ----------
    long, short : float
        The largest sums of the long and of the short positions, at least 0.
    lower, upper : float or array (d,)
        Bounds on each position, infinite (the default) for none.

    See Also
    --------
    CappedSimplex
        Bounds and a budget.
    L1Ball
        The l1 ball.
    Simplex
        Non-negative weights of a given sum.

    Notes
    -----
    As a polyhedron in theta alone the set needs 2^d inequalities; `split` gives it with twice the variables.
    ``diameter`` is an upper bound.

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
            object.__setattr__(self, name, check_number(name, getattr(self, name), least=0.0))
        fixed = self._dimension()
        if fixed is not None:
            self.validate(fixed)

    @property
    def net(self) -> float:
        """The net budget, long - short."""
        return self.long - self.short

    def split(self, d: int) -> Polyhedron:
        """Return the polyhedron of all (p, n) in R^2d, both >= 0, whose differences theta = p - n are this set.

        Parameters
        ----------
        d : int
            The dimension of theta.

        Returns
        -------
        Polyhedron
            A set of dimension 2 d.
        """
        d = self.validate(d)
        (p_low, p_high), (n_low, n_high) = split_bounds(*self.bounds(d))
        # With the net budget, a limit on the sum of both is one on either; and it bounds every variable at once.
        return Polyhedron(
            np.concatenate((p_low, n_low)),
            np.concatenate((p_high, n_high)),
            C=np.repeat([1.0, -1.0], d)[None, :],
            c=[self.net],
            A=np.ones((1, 2 * d)),
            b=[self.long + self.short],
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
        """Return a minimizer, and the price of the net budget or (p, n, price of long, price of short)."""
        lower, upper = self.bounds(g.size)
        try:
            v, nu = fill_cheapest(g, lower, upper, self.net)
            if float(np.sum(np.abs(v))) <= self.long + self.short:
                return v, nu
        except UnboundedError:
            pass  # the gross budget bounds it
        # As for the projection: a minimizer that breaks the gross budget means one that uses all of it.
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
        # short one too, and costs the spread between the prices.
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
        lower, upper = self.bounds(d)
        if np.all(lower >= 0) or self.short == 0:
            return Polyhedron(np.maximum(lower, 0.0), upper, C=np.ones((1, d)), c=[self.net])
        raise TypeError(
            "LongShort is a polyhedron only with 2^d inequalities or twice the variables; "
            "split(d) returns the latter, over (p, n) with theta = p - n"
        )


def fill_cheapest(g: FloatArray, lower: FloatArray, upper: FloatArray, total: float) -> tuple[FloatArray, float]:
    r"""Return a minimizer v and the price nu of the budget.

    .. math:: \min_v g \cdot v \ \text{s.t.}\ l \le v \le h,\ \textstyle\sum_i v_i = s
              \quad\Rightarrow\quad v_i = h_i \text{ if } g_i < \nu,\ v_i = l_i \text{ if } g_i > \nu

    Bounds may be infinite as long as the minimum is finite.
    """
    lower, upper = _settle_free_ties(g, lower, upper)
    no_floor, no_ceiling = np.isinf(lower), np.isinf(upper)
    # Among equal prices an entry that can sink comes before one that can rise, so that the two infinities below are
    # never added.
    order = np.lexsort((no_ceiling.astype(int) - no_floor, g))
    lo, hi = lower[order], upper[order]
    filled = np.concatenate(([0.0], np.cumsum(hi)))
    empty = np.concatenate((np.cumsum(lo[::-1])[::-1], [0.0]))
    k = int(np.clip(np.searchsorted(filled + empty, total, side="right") - 1, 0, g.size - 1))
    v_sorted = np.concatenate((hi[:k], [0.0], lo[k + 1 :]))
    v_sorted[k] = np.clip(total - np.sum(v_sorted), lo[k], hi[k])
    v = np.empty(g.size)
    v[order] = v_sorted
    return v, float(g[order[k]])


def _settle_free_ties(g: FloatArray, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Refuse an unbounded problem; among unbounded entries of one price, leave only one to carry the budget."""
    no_floor, no_ceiling = np.isinf(lower), np.isinf(upper)
    if not (no_floor.any() and no_ceiling.any()):
        return lower, upper
    i = int(np.argmax(np.where(no_floor, g, -np.inf)))
    j = int(np.argmin(np.where(no_ceiling, g, np.inf)))
    if g[i] > g[j]:
        direction = np.zeros(g.size)
        direction[i], direction[j] = -1.0, 1.0
        raise UnboundedError(
            f"g.theta is unbounded below: weight can move for ever from theta[{i}] (g = {g[i]:g}, no lower bound) "
            f"to theta[{j}] (g = {g[j]:g}, no upper bound)",
            direction,
        )
    both = np.flatnonzero(no_floor & no_ceiling)
    lower, upper = lower.copy(), upper.copy()
    lower[both[1:]] = upper[both[1:]] = 0.0
    return lower, upper


def budget_gap(theta: FloatArray, v: FloatArray, g: FloatArray, nu: float, total: float) -> float:
    """Return g.(theta - v) as sum (g - nu)(theta - v), each term >= 0, plus nu times the budget's residual.

    The last term would be noise of size eps * |nu| when theta meets its budget to within rounding, and is left out.
    """
    gap = float((g - nu) @ (theta - v))
    residual = float(np.sum(theta)) - total
    rounding = 64 * np.finfo(float).eps * max(abs(total), float(np.sum(np.abs(theta))))
    return gap + nu * residual if abs(residual) > rounding else gap


def budget_residual(x: FloatArray, total: float, name: str = "sum of theta") -> tuple[FloatArray, str]:
    """Return the violation of a budget in the form of `Domain._residuals`."""
    sums = np.sum(x, axis=-1, keepdims=True)
    worst = float(sums.flat[int(np.argmax(np.abs(sums - total)))])
    return np.abs(sums - total), f"{name} is {worst!r}, must be {total!r}"


def budget_start(lower: FloatArray, upper: FloatArray, total: float) -> FloatArray:
    """Return a point of the relative interior: every coordinate the same share of the way up its range."""
    finite = np.abs(lower[np.isfinite(lower)]).sum() + np.abs(upper[np.isfinite(upper)]).sum()
    reach = 1.0 + abs(total) + finite  # far enough that a bound put there instead of infinity decides nothing
    lo = np.where(np.isinf(lower), np.minimum(upper, 0.0) - reach, lower)
    hi = np.where(np.isinf(upper), np.maximum(lower, 0.0) + reach, upper)
    low, high = float(np.sum(lo)), float(np.sum(hi))
    share = np.clip((total - low) / (high - low), 0.0, 1.0) if high > low else 0.0
    return np.clip(lo + share * (hi - lo), lower, upper)


def budget_diameter(lower: FloatArray, upper: FloatArray, total: float) -> float:
    """Bound the distance of two points: no coordinate moves more than its range, all together twice the slack."""
    slack = min(total - float(np.sum(lower)), float(np.sum(upper)) - total)
    if lower.size == 1 or slack <= 0:
        return 0.0
    if not np.isfinite(slack):
        return float("inf")
    moves = -np.sort(-np.minimum(upper - lower, slack))
    used = np.minimum(np.cumsum(moves), 2.0 * slack)
    return float(np.linalg.norm(np.diff(used, prepend=0.0)))
