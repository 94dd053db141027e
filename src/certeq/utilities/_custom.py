"""A utility somebody else writes: checked before it is believed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from certeq._backend import NUMPY, Array, is_tensor
from certeq._checks import shown
from certeq.utilities._base import Utility
from certeq.utilities._differentiate import Jet, differentiate
from certeq.utilities._numeric import conjugate_by_search, curvature_bound, find_anchor

Function = Callable[[Any], Any]
Formula = Callable[[Array, SimpleNamespace], Array]

# Dense near 0, where utilities are curved, and out to a million.
_GRID: np.ndarray = np.unique(np.concatenate([[0.0], *(sign * np.geomspace(1e-4, 1e6, 301) for sign in (-1, 1))]))
_GRID.flags.writeable = False  # every custom utility is examined on it
_POINTS = 0.5 * (_GRID[1:] + _GRID[:-1])[np.abs(_GRID[1:]) < 30.0]  # where derivatives are compared with differences
_STEPS = (1e-5, 1e-7)
_SLACK = 1e-9
_FEW = 8  # kinks: up to here comparing with each is faster than a search
_SECTIONS = 32  # of an interval at a time, in the search for kinks
_MOST_KINKS = 2000  # a staircase without end is not followed further
_FOLLOWED = 64  # parts of an interval in which the slope rises for reasons unknown


class CustomUtility(Utility):
    """A utility given by functions; made and checked by `certeq.utility`.

    Not made directly: `utility` fills in what is missing and gives the clearer errors.

    Parameters
    ----------
    u : callable
        The utility, elementwise on NumPy arrays.
    du, d2u : callable, optional
        Its (left) derivative and its second derivative.
    conjugate : callable, optional
        The conjugate of u.
    kinks : tuple of float, optional
        Where the slope jumps.
    name : str, optional
        What ``repr`` shows.

    See Also
    --------
    utility
        Make a utility from a function.
    Utility
        Base class of utilities.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> mine = ce.utility(lambda x: np.expm1(x), name="mine")
    >>> type(mine).__name__, round(mine.anchor, 9) + 0.0
    ('CustomUtility', 0.0)
    """

    def __init__(
        self,
        u: Function,
        du: Function | None = None,
        d2u: Function | None = None,
        conjugate: Function | None = None,
        kinks: tuple[float, ...] | None = None,
        name: str | None = None,
    ) -> None:
        self.u, self.du, self.d2u = u, du, d2u
        self.kinks_given = kinks
        self.conjugate_given = conjugate
        self.name = name
        self._facts: dict[str, Any] = {}
        _Examination(self).run()

    @classmethod
    def _parameter_names(cls) -> tuple[str, ...]:
        return ("u", "du", "d2u", "conjugate", "kinks", "name")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The functions and declarations this utility was made of.

        Parameters
        ----------
        deep : bool
            Without effect: there are no risks inside.

        Returns
        -------
        dict
            The constructor's arguments by name.
        """
        return {
            "u": self.u,
            "du": self.du,
            "d2u": self.d2u,
            "conjugate": self.conjugate_given,
            "kinks": self.kinks_given,
            "name": self.name,
        }

    # -- formulas -----------------------------------------------------------------------------------------------

    def _value(self, x: Array, xp: SimpleNamespace) -> Array:
        return _like(self.u(x), x, "u")

    def _slope(self, x: Array, xp: SimpleNamespace) -> Array:
        if self.du is not None:
            return self._from_the_left(_like(self.du(x), x, "du"), x)
        _need_numpy(x, "du")
        return self._from_the_left(np.asarray(differentiate(self.u, x).d)[()], x)

    def _from_the_left(self, slope: Array, x: Array) -> Array:
        """The left derivative at the kinks, whichever side the function given took there."""
        known = self._facts.get("left_slopes", ())
        if not known:
            return slope
        if is_tensor(x):
            for kink, left in known:
                slope = slope.masked_fill(x == kink, left)
            return slope
        if len(known) <= _FEW:
            for kink, left in known:
                on_kink = x == kink
                if np.any(on_kink):
                    slope = np.where(on_kink, np.asarray(left, slope.dtype), slope)[()]
            return slope
        points, lefts = np.array(known).T
        nearest = np.minimum(np.searchsorted(points, x), len(points) - 1)
        on_kink = points[nearest] == x
        return np.where(on_kink, lefts[nearest].astype(slope.dtype), slope)[()] if np.any(on_kink) else slope

    def _curvature(self, x: Array, xp: SimpleNamespace) -> Array:
        if self.d2u is not None:
            return _like(self.d2u(x), x, "d2u")
        _need_numpy(x, "d2u")
        return np.asarray(self._second(x))[()]

    def _second(self, x: Array) -> Array:
        try:
            return differentiate(self.u, x).dd if self.du is None else differentiate(self.du, x).d
        except TypeError as error:
            which = "u" if self.du is None else "du"
            raise TypeError(
                f"The curvature of {self!r} cannot be derived, because {which} uses a function with no "
                "differentiation rule here; pass d2u=."
            ) from error

    def _derivatives(self, x: Array, xp: SimpleNamespace) -> tuple[Array, Array]:
        if self.du is None and self.d2u is None:
            _need_numpy(x, "du and d2u")
            jet = differentiate(self.u, x)
            return self._from_the_left(np.asarray(jet.d)[()], x), np.asarray(jet.dd)[()]
        return self._slope(x, xp), self._curvature(x, xp)

    def _conjugate(self, y: Array, xp: SimpleNamespace) -> Array:
        if self.conjugate_given is not None:
            return _like(self.conjugate_given(y), y, "conjugate")
        _need_numpy(y, "conjugate")
        return conjugate_by_search(self, y)

    # -- facts, found once by the examination -------------------------------------------------------------------

    @property
    def slope_range(self) -> tuple[float, float]:
        """The slopes found between -1e6 and 1e6, widened to infinity where they still grow."""
        return self._facts["slope_range"]  # type: ignore[no-any-return]

    @property
    def kinks(self) -> tuple[tuple[float, float], ...]:
        """Declared kinks, or those found, with the jump of the slope."""
        return self._facts["kinks"]  # type: ignore[no-any-return]

    def _slopes_at_kinks(self) -> tuple[float, ...]:
        return tuple(left for _, left in self._facts["left_slopes"])

    @property
    def anchor(self) -> float:
        """Where the slope passes 1, to the last bit."""
        return float(self._facts["anchor"])

    @property
    def kappa(self) -> float:
        """Largest mean curvature at mean slope 1, found numerically on a fine grid (relative error about 1e-4)."""
        if "kappa" not in self._facts:
            self._facts["kappa"] = float("inf") if self.kinks else curvature_bound(self)
        return float(self._facts["kappa"])

    @property
    def has_curvature(self) -> bool:
        """Whether the curvature is given or can be derived."""
        return bool(self._facts["has_curvature"])

    def __repr__(self) -> str:
        if self.name is not None:
            return self.name
        parts = [
            f"{key}={_spell(item)}" if key != "u" else _spell(item)
            for key, item in self.get_params().items()
            if item is not None
        ]
        return f"utility({', '.join(parts)})"


def _spell(item: Any) -> str:
    return getattr(item, "__qualname__", None) or repr(item)


def _like(result: Any, x: Array, which: str) -> Array:
    if is_tensor(x):
        return result
    result = np.asarray(result, dtype=np.asarray(x).dtype)
    if result.shape != np.shape(x):
        if result.ndim == 0:  # a constant slope, say
            return np.broadcast_to(result, np.shape(x)).copy()
        raise ValueError(
            f"{which} must work elementwise: it was given an array of shape {np.shape(x)} and returned {result.shape}."
        )
    return result[()]


@cache
def _quadrature() -> tuple[Array, Array]:
    """Nodes and weights of Gauss and Legendre on [-1, 1]."""
    return np.polynomial.legendre.leggauss(24)


def _need_numpy(x: Array, which: str) -> None:
    if is_tensor(x):
        raise TypeError(f"On torch tensors a custom utility needs {which}= written with torch functions.")


def utility(
    u: Function,
    du: Function | None = None,
    d2u: Function | None = None,
    *,
    conjugate: Function | None = None,
    kinks: tuple[float, ...] | None = None,
    name: str | None = None,
) -> CustomUtility:
    r"""A utility of your own, checked: convex, increasing, with 1 in the interior of the range of its slope.

    Parameters
    ----------
    u : callable
        The utility, elementwise on NumPy arrays.
    du, d2u : callable, optional
        Its (left) derivative and second derivative. What is missing is derived by exact differentiation of the
        NumPy expression, to rounding; where that is not possible the missing one is refused with the reason.
    conjugate : callable, optional
        The conjugate u*(y) = sup_x x*y - u(x); found by search if not given.
    kinks : tuple of float, optional
        Where the slope jumps. Found automatically if not given. A jump of less than a millionth of 1 plus the slope
        there is taken for rounding.
    name : str, optional
        What ``repr`` shows.

    Returns
    -------
    CustomUtility
        The utility, with everything that was missing filled in.

    Raises
    ------
    ValueError
        If u is not convex or not increasing, if a derivative does not belong to it, or if its slope does not pass 1.

    See Also
    --------
    CustomUtility
        A utility made from functions.
    Utility
        Base class of utilities.

    Notes
    -----
    Not a proof: the checks are made on 603 points between -1e6 and 1e6, and a function that misbehaves between them
    is not caught.

    ``certeq.torch`` takes it as it is for a whole batch on the CPU; for rows, accelerators, second derivatives and
    compiled code u, du and d2u must take tensors as well as arrays. The guide to losses in PyTorch has an example.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> ce.utility(lambda x: x + 0.5 * np.maximum(x, 0) ** 2)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: The slope of u lies between 1 and 1e+06; 1 must lie strictly inside ...
    >>> half = ce.utility(lambda x: np.where(x > 0, x + x**2, 0.5 * x))
    >>> round(ce.oce([0.0, 1.0], half), 6)
    0.71875
    """
    return CustomUtility(u, du, d2u, conjugate, kinks, name)


class _Intervals(NamedTuple):
    """Intervals [a, b], and the slopes at their ends."""

    a: Array
    b: Array
    low: Array
    high: Array

    @classmethod
    def none(cls) -> _Intervals:
        return cls(*np.zeros((4, 0)))

    def where(self, chosen: Array) -> _Intervals:
        """Those of a mask or an index."""
        return _Intervals(*(each[chosen] for each in self))

    def and_also(self, others: _Intervals) -> _Intervals:
        return _Intervals(*(np.concatenate(pair) for pair in zip(self, others, strict=True)))

    def in_order(self) -> _Intervals:
        return self.where(np.argsort(self.a))

    def divided(self, points: Array, slopes: Array) -> _Intervals:
        """Each divided at its row of points, by the slopes there."""
        ends = np.column_stack([self.a, points, self.b])
        slopes = np.column_stack([self.low, slopes, self.high])
        return _Intervals(ends[:, :-1].ravel(), ends[:, 1:].ravel(), slopes[:, :-1].ravel(), slopes[:, 1:].ravel())

    def kinks(self) -> list[tuple[float, tuple[float, float]]]:
        """Location and both slopes of the jump in each, if they are neighbors in order."""
        found: list[tuple[float, tuple[float, float]]] = []
        last = None
        for a, b, low, high in zip(*(each.tolist() for each in self), strict=True):
            if a == last:
                # A function with a slope of its own on the kink, as |x| may have at 0, jumps on both sides of it.
                found[-1] = a + 0.0, (found[-1][1][0], high)
            else:
                # Whether a function jumps just before or just after the kink is a matter of < or <=; the rounder of
                # the two neighboring floats is the one that was meant.
                point = 0.0 if abs(a) < 1e-300 else min(a, b, key=lambda end: len(repr(end)))
                found.append((point + 0.0, (low, high)))
            last = b
        return found


def _between(a: Array, b: Array, sections: int) -> Array:
    """Floats that divide each [a, b] into so many sections, even in the order of floats; some may be a itself.

    So neighbors are reached in a dozen divisions anywhere, where halves of an interval that ends at 0 take a thousand.
    """
    low, high = _rank(a)[:, None], _rank(b)[:, None]
    step = np.arange(1, sections)
    ranks = low + (high - low) // sections * step + (high - low) % sections * step // sections
    return np.abs(ranks).view(float) * np.sign(ranks)


def _rank(x: Array) -> np.ndarray[Any, Any]:
    """The place of finite floats in the order of all, 0 for 0."""
    bits: np.ndarray[Any, Any] = np.abs(x).view(np.int64)
    return np.where(x < 0, -bits, bits)


class _Examination:
    """The checks on a custom utility, in the order that gives the most useful message first."""

    def __init__(self, custom: CustomUtility) -> None:
        self.custom = custom
        self.x = _GRID
        self.curved = False

    def run(self) -> None:
        custom = self.custom
        for which in ("u", "du", "d2u"):
            function = getattr(custom, which)
            if function is None and which != "u":
                continue
            if not callable(function):
                raise TypeError(f"{which} must be a function of a NumPy array; found {shown(function)}.")
        with np.errstate(all="ignore"):
            value = self._evaluate(custom.u, "u")
            self._check_numbers("u", value)
            slope = self._slopes()
            slope = np.where((value == np.inf) & (self.x > 0), np.inf, slope)  # overflow, not a fault of u
            self._check_numbers("the slope of u", slope)
            self._check_convex(value, slope)
            self._check_finite(value)
            self._check_range(slope)
            found = self._find_kinks(slope)
            custom._facts["kinks"] = tuple((point, high - low) for point, (low, high) in found)
            custom._facts["left_slopes"] = tuple((point, low) for point, (low, _) in found)
            custom._facts["has_curvature"] = self._check_derivatives()
            custom._facts["anchor"] = find_anchor(custom)

    def _evaluate(self, function: Function, which: str) -> Array:
        try:
            given = self.x.copy()
            found = np.asarray(_like(function(given), self.x, which), dtype=float)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{which} could not be evaluated on a NumPy array ({error}). Write it with NumPy functions, "
                "np.exp rather than math.exp, np.where rather than if."
            ) from error
        if not np.array_equal(given, self.x):
            raise ValueError(f"{which} writes into the array it is given; it must leave its argument as it is.")
        return found

    def _slopes(self) -> Array:
        if self.custom.du is not None:
            return self._evaluate(self.custom.du, "du")
        try:
            jet: Jet = differentiate(self.custom.u, self.x)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"The slope of u cannot be derived: u uses something with no differentiation rule here ({error}). "
                "Pass du=, the left derivative of u."
            ) from error
        return np.asarray(jet.d)

    def _check_numbers(self, what: str, found: Array) -> None:
        bad = np.isnan(found)
        if np.any(bad):
            at = self.x[bad][np.argmin(np.abs(self.x[bad]))]
            raise ValueError(f"{what} is not a number at x = {at:g}; a utility must be finite for every loss.")

    def _check_finite(self, value: Array) -> None:
        # Right of 0 infinity is an overflow, which the range of the slope has to explain.
        bad = (value == -np.inf) | ((value == np.inf) & (self.x < 0))
        if np.any(bad):
            at = self.x[bad][np.argmin(np.abs(self.x[bad]))]
            raise ValueError(f"u is {value[self.x == at][0]:g} at x = {at:g}; a utility must be finite for every loss.")

    def _check_convex(self, value: Array, slope: Array) -> None:
        x = self.x
        fine = np.isfinite(value) & np.isfinite(slope)
        x, value, slope = x[fine], value[fine], slope[fine]
        size = 1.0 + np.abs(slope)
        falling = np.diff(slope) < -_SLACK * size[1:]
        if np.any(falling):
            # The whole fall, not its first step: that may be too small to be seen in the digits of a message.
            i = int(np.argmax(falling))
            j = i + 1 + int(np.argmax(np.append(~falling[i + 1 :], True)))
            raise ValueError(
                f"u must be convex, but its slope falls from {slope[i]:.6g} at x = {x[i]:.6g} to {slope[j]:.6g} "
                f"at x = {x[j]:.6g}."
            )
        if np.any(slope < -_SLACK):
            i = int(np.argmax(slope < -_SLACK))
            raise ValueError(
                f"u must be increasing, but its slope is {slope[i]:.6g} at x = {x[i]:.6g}: a larger loss would be "
                "preferred there. (MeanVariance is the one such utility here; MonotoneMeanVariance repairs it.)"
            )
        # For a convex u with slope du:  du(a)(b-a) <= u(b)-u(a) <= du(b)(b-a). No finite differences needed.
        rise, run = np.diff(value), np.diff(x)
        slack = 1e-7 * (np.abs(rise) + run * size[1:]) + 1e-12 * (np.abs(value[1:]) + np.abs(value[:-1]))
        wrong = (rise < slope[:-1] * run - slack) | (rise > slope[1:] * run + slack)
        if np.any(wrong):
            i = int(np.argmax(wrong))
            which = "du is not the derivative of u" if self.custom.du is not None else "u is rounded too coarsely"
            raise ValueError(
                f"{which}: between x = {x[i]:.6g} and {x[i + 1]:.6g} u rises by {rise[i]:.6g}, "
                f"but slopes from {slope[i]:.6g} to {slope[i + 1]:.6g} allow {slope[i] * run[i]:.6g} to "
                f"{slope[i + 1] * run[i]:.6g}."
            )

    def _check_range(self, slope: Array) -> None:
        finite = slope[np.isfinite(slope)]
        low, high = float(finite[0]), float(finite[-1])
        overflown = len(finite) < len(slope)
        # Still growing between 1e5 and 1e6, or up to an overflow, means growing for ever as far as a solver can tell.
        growing = (
            high > 1.001 * slope[np.searchsorted(self.x, 1e5)] + _SLACK if not overflown else high > 1e3 + 10 * low
        )
        reason = f"The slope of u lies between {low:.6g} and {high:.6g}; 1 must lie strictly inside its range"
        if abs(high - 1.0) <= 1e-6 and low < 1.0 - _SLACK:
            raise ValueError(
                f"{reason}. It tends to 1 and never passes it, so t + E u(X - t) has no minimizer and OCE is just "
                "the mean. This is what ails the printed smooth CVaR, alpha*ln(1 + exp(x/alpha)): use "
                "SmoothCVaR(alpha, tau), which is (tau/alpha)*ln(1 + exp(x/tau))."
            )
        if overflown and not growing:
            at = self.x[len(finite)]
            raise ValueError(
                f"u overflows at x = {at:.4g} although its slope is only {high:.6g} there; write it so that it does "
                "not, for instance np.logaddexp(0, x) for ln(1 + exp(x))."
            )
        if not (low < 1.0 - _SLACK and high > 1.0 + _SLACK):
            raise ValueError(f"{reason}, or no threshold exists.")
        self.custom._facts["slope_range"] = (max(low, 0.0), np.inf if growing else high)

    def _find_kinks(self, slope: Array) -> list[tuple[float, tuple[float, float]]]:
        """Where the slope jumps, and the slopes on both sides."""
        self.curved = self._has_second()
        ends, slopes, jumps = self.x, slope, _Intervals.none()
        while len(jumps.a) < _MOST_KINKS:
            intervals = _Intervals(ends[:-1], ends[1:], slopes[:-1], slopes[1:])
            apart = np.nextafter(intervals.a, np.inf) < intervals.b
            found = self._search(intervals.where(apart & (self._share(intervals) > 1e-6)))
            if not len(found.a):
                break
            jumps = jumps.and_also(found)
            # Jumps that others outweighed are looked for between those.
            ends = np.concatenate([ends, found.a, found.b])
            slopes = np.concatenate([slopes, found.low, found.high])
            ends, first = np.unique(ends, return_index=True)
            slopes = slopes[first]
        located = jumps.in_order().kinks()
        for point in self.custom.kinks_given or ():
            # Where the function itself jumps is where the kink is; what is declared only has to agree with it.
            if not any(abs(kink - point) <= 1e-9 * max(1.0, abs(point)) for kink, _ in located):
                raise ValueError(f"kinks names x = {point:g}, but the slope of u does not jump there.")
        return located

    def _has_second(self) -> bool:
        try:
            return bool(np.isfinite(np.asarray(self.custom._curvature(np.array([-0.37, 0.41]), NUMPY))).all())
        except (TypeError, ValueError):
            return False

    def _share(self, intervals: _Intervals) -> Array:
        """By how much the slope rises beyond what its curvature adds up to, compared with the slope; 0 if not finite.

        Beside a steep curve a jump would be lost in the whole rise. Where the curvature is not known, that is all
        there is. A curvature that adds up to more than the rise was not seen closely enough, and counts as much.
        """
        rise = intervals.high - intervals.low
        if self.curved:
            nodes, shares = _quadrature()
            half = 0.5 * (intervals.b - intervals.a)
            points = 0.5 * (intervals.a + intervals.b)[:, None] + half[:, None] * nodes
            smooth = (np.asarray(self.custom._curvature(points, NUMPY), dtype=float) * shares).sum(axis=1) * half
            rise = rise - np.where(np.isfinite(smooth), smooth, 0.0)
        share = np.abs(rise) / (1.0 + np.abs(intervals.low))
        return np.where(np.isfinite(share), share, 0.0)

    def _at(self, points: Any) -> Array:
        points = np.asarray(points, dtype=float)
        at = np.asarray(self.custom._slope(points, NUMPY), dtype=float)
        bad = ~np.isfinite(at)
        if np.any(bad):
            point, found = float(points[bad].flat[0]), float(at[bad].flat[0])
            raise ValueError(f"the slope of u, derived from it, is {found} at x = {point:g}; pass du=.")
        return at

    def _search(self, intervals: _Intervals) -> _Intervals:
        """Pairs of neighboring floats between which the slope jumps.

        Intervals are divided until their ends are neighbors: a jump stays, while a steep but continuous rise is shared
        out, or explained by its curvature. Of each interval the parts that rise most are followed.
        """
        root = np.arange(len(intervals.a))
        widest = _MOST_KINKS if self.curved else _FOLLOWED
        while len(intervals.a):
            sections = _SECTIONS if len(intervals.a) <= _FEW else 4
            inner = _between(intervals.a, intervals.b, sections)
            parts = intervals.divided(inner, self._at(inner))
            roots = np.repeat(root, sections)
            real = parts.a < parts.b
            parts, roots = parts.where(real), roots[real]
            share = self._share(parts)
            kept = share > 1e-7
            parts, roots, share = parts.where(kept), roots[kept], share[kept]
            if len(roots) > widest:  # the largest of each root, and of all
                order = np.lexsort((-share, roots))
                rank = np.arange(len(order)) - np.searchsorted(roots[order], roots[order])
                order = order[rank < widest]
                order = np.sort(order[np.argsort(-share[order], kind="stable")[: 4 * _MOST_KINKS]])
                parts, roots = parts.where(order), roots[order]
            intervals, root = parts, roots
            if (np.nextafter(intervals.a, np.inf) >= intervals.b).all():
                return intervals.where(intervals.high > intervals.low)
        return intervals

    def _check_derivatives(self) -> bool:
        """du against u and d2u against du, by differences; whether there is a curvature to use."""
        custom = self.custom
        which = "du is not the derivative of u" if custom.du is not None else "u is rounded too coarsely"
        self._compare(which, custom._slope, custom._value)
        try:
            self._compare("d2u is not the derivative of du", custom._curvature, custom._slope)
        except (TypeError, ValueError):
            if custom.d2u is not None:
                raise
            return False  # one that was derived and does not add up is not used
        return True

    def _compare(self, what: str, derivative: Formula, function: Formula) -> None:
        x = _POINTS
        given = np.asarray(derivative(x, NUMPY), dtype=float)
        kinks = np.array([kink for kink, _ in self.custom.kinks])
        wrong = np.ones(x.size, dtype=bool)
        for step in _STEPS:  # the longer one for functions that are rounded, the shorter for those that rise steeply
            above, below = (np.asarray(function(x + side, NUMPY), dtype=float) for side in (step, -step))
            found = (above - below) / (2.0 * step)
            slack = 1e-4 * (np.abs(found) + 1e-2) + 1e-14 * (np.abs(above) + np.abs(below)) / step
            crossed = np.searchsorted(kinks, x + step) != np.searchsorted(kinks, x - step)
            wrong &= ~crossed & np.isfinite(given) & np.isfinite(found) & ~(np.abs(given - found) <= slack)
        # A corner (monotone mean-variance at a = 2) spoils one point; a wrong derivative most where there is a slope.
        sloped = np.abs(found) > 0.02 * np.max(np.abs(found[np.isfinite(found)]), initial=0.0)
        if np.sum(wrong) > 4 or 2 * np.sum(wrong & sloped) > max(np.sum(sloped), 2):
            i = int(np.argmax(wrong))
            raise ValueError(f"{what}: at x = {x[i]:.4g} it is {given[i]:.6g}, but the other rises at {found[i]:.6g}.")
