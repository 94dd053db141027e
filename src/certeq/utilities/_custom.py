"""A utility somebody else writes: checked before it is believed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

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
        Where the slope jumps. Found automatically if not given.
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


def _between(a: float, b: float) -> Array:
    """Floats between a and b, evenly spread in the order of floats.

    So neighbors are reached in a dozen divisions anywhere, where halves of an interval that ends at 0 take a thousand.
    """
    low, high = _rank(a), _rank(b)
    ranks = sorted({low + (high - low) * k // _SECTIONS for k in range(1, _SECTIONS)} - {low})
    return np.array([-rank if rank < 0 else rank for rank in ranks], dtype=np.int64).view(float) * np.sign(ranks)


def _rank(x: float) -> int:
    """The place of a finite float in the order of all, 0 for 0."""
    bits = int(np.float64(abs(x)).view(np.int64))
    return -bits if x < 0 else bits


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
            raise ValueError(
                f"du is not the derivative of u: between x = {x[i]:.6g} and {x[i + 1]:.6g} u rises by {rise[i]:.6g}, "
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
        found: dict[float, tuple[float, float]] = {}
        self.curved = self._has_second()
        rises = self._unexplained(self.x[:-1], self.x[1:], slope[:-1], slope[1:])
        for i in np.flatnonzero(np.isfinite(rises) & (rises > 1e-6 * (1.0 + np.abs(slope[:-1])))):
            self._search(self.x[i], self.x[i + 1], float(slope[i]), float(slope[i + 1]), found, depth=_MOST_KINKS // 5)
        for point in self.custom.kinks_given or ():
            # Where the function itself jumps is where the kink is; what is declared only has to agree with it.
            if not any(abs(kink - point) <= 1e-9 * max(1.0, abs(point)) for kink in found):
                raise ValueError(f"kinks names x = {point:g}, but the slope of u does not jump there.")
        return sorted(found.items())

    def _has_second(self) -> bool:
        try:
            return bool(np.isfinite(np.asarray(self.custom._curvature(np.array([-0.37, 0.41]), NUMPY))).all())
        except (TypeError, ValueError):
            return False

    def _unexplained(self, a: Any, b: Any, low: Any, high: Any) -> Any:
        """By how much the slope rises between a and b beyond what its curvature adds up to: the jumps in between.

        Beside a steep curve a jump would be lost in the whole rise. Where the curvature is not known, that is all
        there is.
        """
        rise = np.asarray(high) - np.asarray(low)
        if not self.curved:
            return rise
        nodes, shares = _quadrature()
        half = 0.5 * (np.asarray(b) - np.asarray(a))
        points = 0.5 * (np.asarray(a) + np.asarray(b))[..., None] + half[..., None] * nodes
        curvature = np.asarray(self.custom._curvature(points, NUMPY), dtype=float)
        smooth = (curvature * shares).sum(axis=-1) * half
        return rise - np.where(np.isfinite(smooth), smooth, 0.0)

    def _at(self, points: Any) -> Array:
        points = np.asarray(points, dtype=float)
        at = np.asarray(self.custom._slope(points, NUMPY), dtype=float)
        bad = ~np.isfinite(at)
        if np.any(bad):
            point, found = float(points[bad].flat[0]), float(at[bad].flat[0])
            raise ValueError(f"the slope of u, derived from it, is {found} at x = {point:g}; pass du=.")
        return at

    def _search(
        self, a: float, b: float, low: float, high: float, found: dict[float, tuple[float, float]], depth: int
    ) -> None:
        """Close in on the largest jump between a and b, then look on both sides of it.

        A jump stays when its interval is divided; a steep but continuous rise does not.
        """
        start, stop, first, last = a, b, low, high
        while (inner := _between(a, b)).size:
            points = np.concatenate([[a], inner, [b]])
            slopes = np.concatenate([[low], self._at(inner), [high]])
            jumps = self._unexplained(points[:-1], points[1:], slopes[:-1], slopes[1:])
            i = jumps.size - 1 - int(np.argmax(jumps[::-1]))  # of equal ones the last
            a, b, low, high = (float(end) for end in (points[i], points[i + 1], slopes[i], slopes[i + 1]))
            if jumps[i] <= 1e-9 * (1.0 + abs(low)):
                return
        # Whether a function jumps just before or just after the kink is a matter of < or <=; the rounder of the two
        # neighboring floats is the one that was meant. A function with a slope of its own on the kink, as |x| may
        # have at 0, jumps on both sides of it.
        point = 0.0 if abs(a) < 1e-300 else min(a, b, key=lambda end: len(repr(float(end))))
        before, after = float(np.nextafter(a, -np.inf)), float(np.nextafter(b, np.inf))
        if start < before and low - (at := float(self._at(before))) > 1e-9 * (1.0 + abs(low)):
            point, a, low = a, before, at
        elif after < stop and (at := float(self._at(after))) - high > 1e-9 * (1.0 + abs(high)):
            point, b, high = b, after, at
        found[float(point) + 0.0] = low, high
        if depth > 0 and len(found) < _MOST_KINKS:
            for x0, x1, y0, y1 in ((start, a, first, low), (b, stop, high, last)):
                if x0 < x1 and float(self._unexplained(x0, x1, y0, y1)) > 1e-6 * (1.0 + abs(y0)):
                    self._search(x0, x1, y0, y1, found, depth - 1)

    def _check_derivatives(self) -> bool:
        """du against u and d2u against du, by differences; whether there is a curvature to use."""
        custom = self.custom
        self._compare("du is not the derivative of u", custom._slope, custom._value)
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
