"""Powers of the positive part: monotone mean-variance and quartic risk."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from certeq._backend import Array, as_float, is_tensor
from certeq._checks import check_number
from certeq.utilities._base import Utility
from certeq.utilities._shapes import Power


def _power(base: Array, exponent: Any) -> Array:
    """base**exponent; by multiplication for small whole exponents, ten times faster than a general power."""
    if is_tensor(exponent):
        # At base 0 the second derivative in the exponent would be 0 * log(0)**2; there the power is 0 whatever it is.
        return (base + (base == 0)) ** exponent * (base != 0)
    if exponent not in (0, 1, 2, 3, 4):
        return base**exponent
    if exponent == 0:
        return base * 0 + 1
    result = base
    for _ in range(int(exponent) - 1):
        result = result * base
    return result


def _risen(x: Array, exponent: Any, xp: SimpleNamespace) -> Array:
    """w**exponent - 1 with w = (x + 1)^+, to the digits of x where that is small beside 1."""
    base = xp.relu(x + 1)
    if not is_tensor(exponent) and exponent in (2, 3, 4):
        # x (1 + w + w**2 + ...); left of -1 that is -1, as it is at -1.
        series = base + 1
        for _ in range(int(exponent) - 2):
            series = series * base + 1
        return xp.where(x > -1, x, -xp.ones_like(x)) * series
    small = xp.abs(x) < 0.5
    return xp.where(
        small, xp.expm1(exponent * xp.log1p(xp.where(small, x, xp.zeros_like(x)))), _power(base, exponent) - 1
    )


class MonotoneMeanVariance(Utility):
    r"""Monotone mean-variance: :math:`u(x) = (w^a - 1)/a` with :math:`w = (x + 1)^+`.

    Parameters
    ----------
    a : float
        Power, at least 2. With a = 2 OCE equals mean + variance/2 whenever no loss is more than 1 below the mean;
        larger powers fear the tail more.

    Notes
    -----
    The unit is built in: losses are compared with 1. Use ``scaled`` when a loss that matters is not of size 1.
    Not for heavy tails: error bars need 2a finite moments, and on Student t(5) losses with a >= 2.5 they cannot be
    trusted.

    Examples
    --------
    >>> import certeq as ce
    >>> round(ce.oce([0.0, 1.0], ce.MonotoneMeanVariance(a=3)), 12)
    0.733653964774
    """

    def __init__(self, a: Any = 2) -> None:
        check_number("a", a, least=2.0)
        self.a = a

    def _value(self, x: Array, xp: SimpleNamespace) -> Array:
        return _risen(x, self.a, xp) / self.a

    def _slope(self, x: Array, xp: SimpleNamespace) -> Array:
        return _power(xp.relu(x + 1), self.a - 1)

    def _curvature(self, x: Array, xp: SimpleNamespace) -> Array:
        return self._derivatives(x, xp)[1]

    def _derivatives(self, x: Array, xp: SimpleNamespace) -> tuple[Array, Array]:
        base = xp.relu(x + 1)
        if not is_tensor(self.a) and self.a == 2:
            # w**0 would be 1 left of -1 too, where u is flat.
            return base, xp.indicator(base > 0, base)
        bend = _power(base, self.a - 2)
        return bend * base, (self.a - 1) * bend

    def _conjugate(self, y: Array, xp: SimpleNamespace) -> Array:
        dual = self.a / (self.a - 1)
        inside = xp.relu(y) ** dual / dual - y + 1 / self.a
        return xp.where(y >= 0, inside, xp.zeros_like(y) + float("inf"))

    @property
    def slope_range(self) -> tuple[float, float]:
        """[0, inf)."""
        return (0.0, float("inf"))

    @property
    def anchor(self) -> float:
        """0."""
        return 0.0

    @property
    def kappa(self) -> float:
        """a - 1, attained by constants."""
        return as_float(self.a) - 1.0

    @property
    def growth(self) -> float:
        """The slope is w**(a-1)."""
        return as_float(self.a) - 1.0

    @property
    def curve(self) -> Power:
        """The slope is a power."""
        return Power(as_float(self.a) - 1.0, 1.0)


class Quartic(Utility):
    r"""Quartic risk: :math:`u(x) = w^4 - 1` with :math:`w = (x + 1)^+`.

    Not normalized: OCE(0) = -(3/4) 4**(-1/3) = -0.4725. Use ``Quartic().normalized()`` for a risk of 0 at 0, and
    ``scaled`` to choose the unit of loss. Equals 4 times the utility of ``MonotoneMeanVariance(a=4)``. Error bars
    need eight finite moments: do not trust them on heavy tails.

    Examples
    --------
    >>> import certeq as ce
    >>> round(ce.oce([0.0, 1.0], ce.Quartic()), 12)
    0.404724605512
    """

    def _value(self, x: Array, xp: SimpleNamespace) -> Array:
        return _risen(x, 4, xp)

    def _slope(self, x: Array, xp: SimpleNamespace) -> Array:
        return 4 * _power(xp.relu(x + 1), 3)

    def _curvature(self, x: Array, xp: SimpleNamespace) -> Array:
        return 12 * _power(xp.relu(x + 1), 2)

    def _derivatives(self, x: Array, xp: SimpleNamespace) -> tuple[Array, Array]:
        base = xp.relu(x + 1)
        square = base * base
        return 4 * (square * base), 12 * square

    def _conjugate(self, y: Array, xp: SimpleNamespace) -> Array:
        inside = 3 * (xp.relu(y) / 4) ** (4 / 3) - y + 1
        return xp.where(y >= 0, inside, xp.zeros_like(y) + float("inf"))

    @property
    def slope_range(self) -> tuple[float, float]:
        """[0, inf)."""
        return (0.0, float("inf"))

    @property
    def anchor(self) -> float:
        """4**(-1/3) - 1, about -0.37."""
        return float(4.0 ** (-1.0 / 3.0) - 1.0)

    @property
    def kappa(self) -> float:
        """E w**3 = 1/4 forces E w**2 <= 4**(-2/3), so 3 * 4**(1/3)."""
        return float(3.0 * 4.0 ** (1.0 / 3.0))

    @property
    def growth(self) -> float:
        """The slope is cubic."""
        return 3.0

    @property
    def curve(self) -> Power:
        """4 w**3, which is 1 at the anchor."""
        return Power(3.0, float(4.0 ** (-1.0 / 3.0)))
