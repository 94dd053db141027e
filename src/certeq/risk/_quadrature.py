"""Expectations under a density, to ten digits or refused: Gauss-Legendre panels, and the rest of a power-law tail.

Panels of sixteen points grow like powers of two away from the median and shrink likewise towards the ends of the
support; they are halved wherever an integrand is not resolved. Masses are kept as logarithms: exp(x) may be needed
where the density is below 1e-308. A tail like x**-(a + 1) may matter beyond 1e300 as well: from a point X on, where
the integrand is G(X) (x/X)**(p - a - 1), the integral is G(X) X / (a - p).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from certeq.risk._input import Floats

_INF = math.inf
_POINTS = 16
_TOLERANCE = 1e-12  # relative, of a panel, against the sum over all
_MOST_HALVINGS = 800  # of panels; what needs more is not resolved at all
_NARROWEST = 1e-60  # panel, in quartile ranges: next to a singularity inside the support, which is given up
_FURTHEST = 1e145  # the start of the closed form of a power law: squares are not to overflow
_LEAST_LOG_DENSITY = -650.0  # the same, for families whose density underflows
_FAR = 20  # doublings over which a power law is compared with the panels
_NEGLIGIBLE = 1e-13

Integrand = Callable[[Floats, Floats], Floats]  # of points and the logarithm of the mass at each, to contributions


class Integral(NamedTuple):
    """An integral, that of the absolute value, and a bound of the error."""

    value: float
    size: float
    error: float


@cache
def _rule() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_POINTS)
    return 0.5 * (nodes + 1.0), 0.5 * weights


def times(mass: Floats, values: Any) -> Floats:
    """mass * values, 0 where there is no mass: the value may overflow there."""
    return np.where(mass > 0.0, mass * np.asarray(values), 0.0)


class DensityPanels:
    """A density on its support, as panels from ``starts`` to ``ends``.

    ``breaks`` are points where the density or its slope jumps, and
    ``powers`` are the exponents a of the lower and the upper tail, inf where a tail is no power law. The density may be
    infinite at a finite end of the support: what little lies there is put on the end, as a whole. ``exhausted`` says
    that an integrand was given up.
    """

    def __init__(
        self,
        distribution: Any,
        log_density: Callable[[Floats], Floats],
        powers: tuple[float, float],
        breaks: Floats,
    ) -> None:
        self.log_density = log_density
        self.support = tuple(float(end) for end in distribution.support())
        lower, self.median, upper = (float(q) for q in distribution.ppf([0.25, 0.5, 0.75]))
        self.unit = max(upper - lower, np.finfo(float).tiny)
        self.powers = powers
        edges = self._edges(np.append(breaks, (lower, self.median, upper)))
        self.starts, self.ends = edges[:-1], edges[1:]
        self.points, self.log_mass = self._panels(self.starts, self.ends)
        self.most_panels = self.starts.size + _MOST_HALVINGS
        self.exhausted = False
        self.outer = edges[0], edges[-1]
        masses = distribution.cdf(edges[0]), distribution.sf(edges[-1])
        corners = [(end, mass) for end, mass in zip(self.support, masses, strict=True) if math.isfinite(end)]
        self.corners = np.array(corners, dtype=np.float64).reshape(-1, 2)
        self.noise = self._noise(lower, upper)

    def _edges(self, breaks: Floats) -> Floats:
        """Edges of panels that grow away from the quartiles, and shrink towards the ends of the support."""
        low, high = self.support
        middle, unit = self.median, self.unit
        doublings = 2.0 ** np.arange(2.0, 1000.0 - max(0.0, math.log2(unit)))
        edges = [breaks, middle + unit * np.linspace(-4.0, 4.0, 65), middle - unit * doublings]
        edges.append(middle + unit * doublings)
        for end in (low, high):
            if math.isfinite(end):
                near = end + (middle - end) * 2.0 ** np.arange(-60.0 if end == 0.0 else -40.0, 1.0)
                edges.append(near)
                low, high = (near[0], high) if end == low else (low, near[0])
        every = np.unique(np.concatenate(edges))
        every = every[np.isfinite(every) & (every >= low) & (every <= high)]
        inside = np.ones(every.size, dtype=bool)
        for side, power in zip((-1.0, 1.0), self.powers, strict=True):
            if power < _INF:
                log_density = np.asarray(self.log_density(every))
                usable = (np.abs(every) <= _FURTHEST) & (log_density >= _LEAST_LOG_DENSITY)
                inside &= ((every - middle) * side <= 0.0) | usable
        return np.asarray(every[inside])

    def _panels(self, starts: Floats, ends: Floats) -> tuple[Floats, Floats]:
        nodes, weights = _rule()
        width = (ends - starts)[:, None]
        points = starts[:, None] + width * nodes
        found = np.asarray(self.log_density(points)) + np.log(width) + np.log(weights)
        return points, np.where(np.isnan(found), -_INF, found)

    def _noise(self, lower: float, upper: float) -> float:
        """Rounding of the logarithm of the density, from second differences over steps too small for curvature.

        The median of many: a density may jump at a few of them.
        """
        points = np.linspace(lower, upper, 67)[1:-1] + 1e-3 / math.pi * (upper - lower)
        step = 1e-8 * (upper - lower)
        near, at, far = (np.asarray(self.log_density(points + k * step)) for k in (-1.0, 0.0, 1.0))
        found = np.abs(near - 2.0 * at + far)
        found = found[np.isfinite(found)]
        return float(np.median(found)) if found.size else 0.0

    def refine(self, *integrands: Integrand) -> list[float]:
        """Halve panels until every integrand is resolved; the sum of the errors of all panels, for each integrand."""
        errors = np.zeros((len(integrands), self.starts.size))
        fresh = np.ones(self.starts.size, dtype=bool)
        while fresh.any():
            middle = 0.5 * (self.starts[fresh] + self.ends[fresh])
            left, right = self._panels(self.starts[fresh], middle), self._panels(middle, self.ends[fresh])
            rough = np.zeros(middle.size, dtype=bool)
            for row, integrand in enumerate(integrands):
                whole = integrand(self.points, self.log_mass)
                size = np.abs(whole).sum(axis=1)
                halves = integrand(*left).sum(axis=1) + integrand(*right).sum(axis=1)
                error = np.abs(whole[fresh].sum(axis=1) - halves)
                errors[row, fresh] = error
                rough |= error > np.maximum(_TOLERANCE * size.sum(), 4.0 * self.noise * size[fresh])
            rough &= self.ends[fresh] - self.starts[fresh] > np.maximum(
                _NARROWEST * self.unit, np.spacing(np.abs(middle))
            )
            self.exhausted = bool(rough.any()) and self.starts.size > self.most_panels
            if self.exhausted:
                break
            split = np.flatnonzero(fresh)[rough]
            kept = np.ones(self.starts.size, dtype=bool)
            kept[split] = False
            fresh = np.append(np.zeros(np.count_nonzero(kept), dtype=bool), np.ones(2 * split.size, dtype=bool))
            errors = np.append(errors[:, kept], np.zeros((len(integrands), 2 * split.size)), axis=1)
            old_starts, old_ends = self.starts[split], self.ends[split]
            self.starts = np.concatenate((self.starts[kept], old_starts, middle[rough]))
            self.ends = np.concatenate((self.ends[kept], middle[rough], old_ends))
            self.points = np.concatenate((self.points[kept], left[0][rough], right[0][rough]))
            self.log_mass = np.concatenate((self.log_mass[kept], left[1][rough], right[1][rough]))
        return [float(found) for found in errors.sum(axis=1)]

    def split(self, cuts: Floats) -> None:
        """Divide the panels in which a cut lies."""
        self.starts, self.ends, self.points, self.log_mass = self._divided(cuts)

    def _divided(self, cuts: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        starts, ends, points, log_mass = self.starts, self.ends, self.points, self.log_mass
        for cut in cuts:
            inside = (starts < cut) & (cut < ends)
            if inside.any():
                edges = np.append(starts[inside], cut), np.append(cut, ends[inside])
                more = self._panels(*edges)
                starts, ends = np.append(starts[~inside], edges[0]), np.append(ends[~inside], edges[1])
                points = np.concatenate((points[~inside], more[0]))
                log_mass = np.concatenate((log_mass[~inside], more[1]))
        return starts, ends, points, log_mass

    def all_points(self, cuts: Any = ()) -> tuple[Floats, Floats]:
        """All points and the logarithm of the mass at each, with panels divided at the cuts; ends included."""
        _, _, points, log_mass = self._divided(cuts)
        return (
            np.append(points.ravel(), self.corners[:, 0]),
            np.append(log_mass.ravel(), np.log(self.corners[:, 1])),
        )

    def integral(self, integrand: Integrand, growth: tuple[float, float], cuts: Any = ()) -> Integral:
        """The integral of what grows like |x|**growth in the lower and the upper tail, the tails beyond included.

        The error is that of the tails alone; `refine` has that of the panels.
        """
        terms = integrand(*self.all_points(cuts))
        value, size, error = float(terms.sum()), float(np.abs(terms).sum()), 0.0
        for side, (end, power, exponent) in enumerate(zip(self.support, self.powers, growth, strict=True)):
            if math.isfinite(end):
                continue
            if power == _INF:
                error += self._cut_off(integrand, side)
                continue
            start = self.outer[side]
            rest = self._power_law(integrand, start, power - exponent)
            value, size = value + rest, size + abs(rest)
            if abs(rest) * (power - exponent) > _NEGLIGIBLE * size:
                before = start * 2.0**-_FAR
                starts, _, points, log_mass = self._divided(np.array([before]))
                beyond = starts >= before if start > 0.0 else starts < before
                between = float(integrand(points[beyond], log_mass[beyond]).sum())
                error += abs(self._power_law(integrand, before, power - exponent) - between - rest)
        return Integral(value, size, error)

    def _power_law(self, integrand: Integrand, start: float, fall: float) -> float:
        """The integral from ``start`` outwards of an integrand times x that falls like |x|**-fall from there on."""
        points = np.array([start])
        log_mass = np.asarray(self.log_density(points)) + math.log(abs(start)) - math.log(fall)
        return float(integrand(points, log_mass)[0])

    def _cut_off(self, integrand: Integrand, side: int) -> float:
        """What an integrand still amounts to at the outermost point where the density is known."""
        known = np.flatnonzero(self.log_mass.ravel() > -_INF)
        points = self.points.ravel()[known]
        outermost = np.array([points.max() if side else points.min()])
        reach = max(abs(float(outermost[0])), self.unit)
        log_mass = np.asarray(self.log_density(outermost)) + math.log(reach)
        return abs(float(integrand(outermost, log_mass)[0]))
