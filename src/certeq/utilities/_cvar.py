"""CVaR and its two smooth relatives."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from certeq._backend import Array, as_float
from certeq._checks import check_number, check_tail_mass
from certeq.utilities._base import Utility
from certeq.utilities._shapes import Arctangent, Logistic, Pieces


class CVaR(Utility):
    r"""Conditional value at risk: :math:`u(x) = x^+/\alpha`; OCE is the mean of the worst fraction alpha.

    Parameters
    ----------
    alpha : float
        Tail mass, in (0, 1): 0.05 means the worst 5 %.

    Notes
    -----
    The one coherent utility here besides the mean. It sees nothing below its quantile, so its gradient is noisy in
    small batches; `SmoothCVaR` and `LeakyCVaR` trade exactness for smoothness.

    Not for batches of a few samples: with fewer than 1/alpha of them it is their largest loss.

    Examples
    --------
    >>> import certeq as ce
    >>> float(ce.oce([1.0, 2.0, 3.0, 4.0], ce.CVaR(alpha=0.5)))
    3.5
    """

    def __init__(self, alpha: Any = 0.05) -> None:
        check_tail_mass("alpha", alpha)
        self.alpha = alpha

    def _value(self, x: Array, xp: SimpleNamespace) -> Array:
        return xp.relu(x) / self.alpha

    def _slope(self, x: Array, xp: SimpleNamespace) -> Array:
        return xp.indicator(x > 0, x) * (1 / self.alpha)

    def _curvature(self, x: Array, xp: SimpleNamespace) -> Array:
        return xp.zeros_like(x)

    def _conjugate(self, y: Array, xp: SimpleNamespace) -> Array:
        # A tilt of a whole point is (1/s)/(1/m) and may exceed 1/alpha by rounding.
        inside = (y >= 0) & (y * self.alpha <= 1 + 1e-12)
        return xp.where(inside, xp.zeros_like(y), xp.zeros_like(y) + float("inf"))

    @property
    def slope_range(self) -> tuple[float, float]:
        """[0, 1/alpha], of which only the ends are slopes and the rest is the subdifferential at 0."""
        return (0.0, 1.0 / as_float(self.alpha))

    @property
    def anchor(self) -> float:
        """0."""
        return 0.0

    @property
    def kappa(self) -> float:
        """None: OCE is not smooth."""
        return float("inf")

    @property
    def kinks(self) -> tuple[tuple[float, float], ...]:
        """The slope jumps by 1/alpha at 0."""
        return ((0.0, 1.0 / as_float(self.alpha)),)

    def _slopes_at_kinks(self) -> tuple[float, ...]:
        return (0.0,)

    @property
    def shape(self) -> Pieces:
        """Two linear pieces."""
        return Pieces(0.0, 1.0 / as_float(self.alpha), 0.0)


class LeakyCVaR(Utility):
    r"""Leaky CVaR: :math:`u(x) = x/\alpha` for x >= 0 and :math:`\arctan(x/\alpha)` below.

    Parameters
    ----------
    alpha : float
        Tail mass, in (0, 1).

    Notes
    -----
    Unit dependent and not normalized: OCE(0) = sqrt(alpha(1-alpha)) - arccos(sqrt(alpha)), about -1.13 at 0.05.
    Not for losses that vary much less than alpha (daily returns!), where it is mean-variance: use ``scaled``.

    Examples
    --------
    >>> import certeq as ce
    >>> round(ce.oce([0.0, 1.0], ce.LeakyCVaR(alpha=0.1).normalized()), 12)
    0.851568899684
    """

    def __init__(self, alpha: Any = 0.05) -> None:
        check_tail_mass("alpha", alpha)
        self.alpha = alpha

    def _value(self, x: Array, xp: SimpleNamespace) -> Array:
        ratio = x / self.alpha
        return xp.where(x >= 0, ratio, xp.atan(ratio))

    def _slope(self, x: Array, xp: SimpleNamespace) -> Array:
        left = xp.relu(x * (-1 / self.alpha))
        return (1 / self.alpha) / (left * left + 1)

    def _curvature(self, x: Array, xp: SimpleNamespace) -> Array:
        return self._derivatives(x, xp)[1]

    def _derivatives(self, x: Array, xp: SimpleNamespace) -> tuple[Array, Array]:
        # Right of 0 the slope stays what it is at 0, so both formulas may read the negative part of x.
        left = xp.relu(x * (-1 / self.alpha))
        slope = (1 / self.alpha) / (left * left + 1)
        return slope, 2 * (left * (slope * slope))

    def _conjugate(self, y: Array, xp: SimpleNamespace) -> Array:
        s = self.alpha * y
        inside = xp.clip(s, 1e-300, 1)
        # arccos(sqrt(s)) as an arctangent: near s = 1 the arccosine would lose half its digits.
        value = xp.atan(xp.sqrt((1 - inside) / inside)) - xp.sqrt(inside * (1 - inside))
        return xp.where((s >= 0) & (s <= 1 + 1e-12), value, xp.zeros_like(y) + float("inf"))

    @property
    def slope_range(self) -> tuple[float, float]:
        """(0, 1/alpha]."""
        return (0.0, 1.0 / as_float(self.alpha))

    @property
    def anchor(self) -> float:
        """-sqrt(alpha(1-alpha))."""
        alpha = as_float(self.alpha)
        return -math.sqrt(alpha * (1.0 - alpha))

    @property
    def curve(self) -> Arctangent:
        """Left of 0 the slope is an arctangent's, as wide as it is high."""
        alpha = as_float(self.alpha)
        return Arctangent(alpha, 1.0 / alpha)

    @property
    def kappa(self) -> float:
        """1/alpha up to alpha = 1/2, then 2 sqrt((1-alpha)/alpha)."""
        alpha = as_float(self.alpha)
        return 1.0 / alpha if alpha <= 0.5 else 2.0 * math.sqrt((1.0 - alpha) / alpha)


class SmoothCVaR(Utility):
    r"""Smooth CVaR: :math:`u(x) = (\tau/\alpha) \ln(1 + e^{x/\tau})`.

    Parameters
    ----------
    alpha : float
        Tail mass, in (0, 1).
    tau : float, optional
        Width of the smoothing, in the units of the loss, above 0; alpha if not given. As tau goes to 0 OCE goes to
        CVaR from above: the difference is at most (tau/alpha) H(alpha), H the binary entropy.

    Notes
    -----
    The form printed in the paper, alpha ln(1 + e^{x/alpha}), has slopes in (0, 1): 1 is never reached, its OCE is
    the mean and its threshold -inf. `certeq.utility` refuses it; this is the corrected form.

    Not for losses that vary much less than tau: there it is mean-variance with weight (1-alpha)/(2 tau), and says
    nothing of the tail. Choose tau in the units of the loss, or use ``scaled``.

    Examples
    --------
    >>> import certeq as ce
    >>> round(ce.oce([0.0, 1.0], ce.SmoothCVaR(alpha=0.1, tau=0.1)), 12)
    1.250206886527
    """

    def __init__(self, alpha: Any = 0.05, tau: Any = None) -> None:
        check_tail_mass("alpha", alpha)
        if tau is not None:
            check_number("tau", tau, above=0.0)
        self.alpha = alpha
        self.tau = tau

    @property
    def width(self) -> Any:
        """tau where it was given, else alpha."""
        return self.alpha if self.tau is None else self.tau

    def _value(self, x: Array, xp: SimpleNamespace) -> Array:
        return (self.width / self.alpha) * xp.softplus(x / self.width)

    def _slope(self, x: Array, xp: SimpleNamespace) -> Array:
        return xp.sigmoid(x * (1 / self.width)) * (1 / self.alpha)

    def _curvature(self, x: Array, xp: SimpleNamespace) -> Array:
        return self._derivatives(x, xp)[1]

    def _derivatives(self, x: Array, xp: SimpleNamespace) -> tuple[Array, Array]:
        # One exponential gives both; sigma(1 - sigma) = e/(1+e)**2 keeps its relative accuracy far out.
        e = xp.exp(xp.abs(x) * (-1 / self.width))
        upper = (1 / self.alpha) / (e + 1)
        lower = e * upper
        return xp.where(x >= 0, upper, lower), lower * upper * (self.alpha / self.width)

    def _conjugate(self, y: Array, xp: SimpleNamespace) -> Array:
        s = self.alpha * y
        one, zero = xp.ones_like(y), xp.zeros_like(y)
        inner = (s > 0) & (s < 1)
        safe = xp.where(inner, s, one / 2)
        entropy = xp.where(inner, safe * xp.log(safe) + (1 - safe) * xp.log(1 - safe), zero)
        return xp.where((s >= 0) & (s <= 1 + 1e-12), (self.width / self.alpha) * entropy, zero + float("inf"))

    @property
    def slope_range(self) -> tuple[float, float]:
        """(0, 1/alpha)."""
        return (0.0, 1.0 / as_float(self.alpha))

    @property
    def anchor(self) -> float:
        """tau ln(alpha/(1-alpha))."""
        alpha = as_float(self.alpha)
        return as_float(self.width) * (math.log(alpha) - math.log1p(-alpha))

    @property
    def curve(self) -> Logistic:
        """The slope is a logistic curve."""
        return Logistic(1.0 / as_float(self.width), 1.0 / as_float(self.alpha))

    @property
    def kappa(self) -> float:
        """E sigma = alpha forces E sigma(1-sigma) <= alpha - alpha**2, so (1-alpha)/tau."""
        return (1.0 - as_float(self.alpha)) / as_float(self.width)
