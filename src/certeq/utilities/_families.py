"""The utilities that come with the package: the mean, mean-variance, entropic risk, powers, and CVaR with relatives."""

from __future__ import annotations

import math
import warnings
from types import SimpleNamespace
from typing import Any

from certeq._backend import Array, as_float, is_tensor
from certeq._checks import check_number, check_tail_mass
from certeq.utilities._base import Utility
from certeq.utilities.forms import Arctangent, Exponential, Logistic, Pieces, Power, Quadratic


class Mean(Utility):
    r"""Risk neutral: :math:`u(x) = x`, so OCE(X) = E X.

    Every t minimizes t + E[X - t]; the threshold is E X by convention. Useful in sums such as
    ``0.3*Mean() + 0.7*CVaR(0.05)``.

    See Also
    --------
    CVaR
        Mean of the worst losses.
    MeanVariance
        Mean plus a multiple of the variance.

    Examples
    --------
    >>> import certeq as ce
    >>> float(ce.oce([1.0, 2.0, 6.0], ce.Mean()))
    3.0
    """

    def _value(self, x: Array, xp: SimpleNamespace) -> Array:
        return x + 0

    def _slope(self, x: Array, xp: SimpleNamespace) -> Array:
        return xp.ones_like(x)

    def _curvature(self, x: Array, xp: SimpleNamespace) -> Array:
        return xp.zeros_like(x)

    def _conjugate(self, y: Array, xp: SimpleNamespace) -> Array:
        # A tilt divided by its weight is 1 to rounding only.
        return xp.where(xp.abs(y - 1) <= 1e-12, xp.zeros_like(y), xp.zeros_like(y) + float("inf"))

    @property
    def slope_range(self) -> tuple[float, float]:
        """The slope is 1 everywhere."""
        return (1.0, 1.0)

    @property
    def anchor(self) -> float:
        """Any point would do; 0."""
        return 0.0

    @property
    def kappa(self) -> float:
        """No curvature."""
        return 0.0

    @property
    def shape(self) -> Pieces:
        """One linear piece."""
        return Pieces(1.0, 1.0, 0.0)


class MeanVariance(Utility):
    r"""Mean-variance: :math:`u(x) = x + \beta x^2`, so OCE(X) = E X + beta Var X.

    Parameters
    ----------
    beta : float
        Price of a unit of variance, above 0.

    See Also
    --------
    MonotoneMeanVariance
        Mean-variance made monotone, and higher powers.
    Mean
        The mean: risk neutral.

    Notes
    -----
    Not monotone, hence not a convex risk measure: a sure improvement can raise it (X in {0, -10} at even odds,
    beta = 0.5, has OCE 7.5 > OCE(0) = 0), and OCE of a convex loss need not be convex. Prefer
    `MonotoneMeanVariance` when losses may be very negative.

    Examples
    --------
    >>> import certeq as ce
    >>> float(ce.oce([0.0, 1.0], ce.MeanVariance(beta=0.5)))
    0.625
    """

    def __init__(self, beta: Any = 1.0) -> None:
        check_number("beta", beta, above=0.0)
        self.beta = beta

    def _value(self, x: Array, xp: SimpleNamespace) -> Array:
        return x + self.beta * (x * x)

    def _slope(self, x: Array, xp: SimpleNamespace) -> Array:
        return 1 + (2 * self.beta) * x

    def _curvature(self, x: Array, xp: SimpleNamespace) -> Array:
        return xp.zeros_like(x) + 2 * self.beta

    def _conjugate(self, y: Array, xp: SimpleNamespace) -> Array:
        return (y - 1) ** 2 / (4 * self.beta)

    @property
    def slope_range(self) -> tuple[float, float]:
        """The whole line: u decreases left of -1/(2 beta)."""
        return (-float("inf"), float("inf"))

    @property
    def anchor(self) -> float:
        """0."""
        return 0.0

    @property
    def kappa(self) -> float:
        """2 beta, constant."""
        return 2.0 * as_float(self.beta)

    @property
    def shape(self) -> Quadratic:
        """The slope is a line."""
        return Quadratic(2.0 * as_float(self.beta))


class Entropic(Utility):
    r"""Entropic risk: :math:`u(x) = (e^{\beta x} - 1)/\beta`, so OCE(X) = ln(E exp(beta X)) / beta.

    Parameters
    ----------
    beta : float
        Risk aversion per unit of loss, above 0. For small beta, OCE is about the mean + beta/2 * variance.

    See Also
    --------
    EVaR
        Entropic value at risk.
    MonotoneMeanVariance
        Mean-variance made monotone, and higher powers.

    Notes
    -----
    Not to be used on heavy-tailed losses: the true OCE is +inf where E exp(beta X) is (an exponential distribution with
    rate <= beta, any power tail), and a sample always gives a finite number.

    References
    ----------
    Ben-Tal and Teboulle (2007), An old-new concept of convex risk measures: the optimized certainty equivalent,
    doi:10.1111/j.1467-9965.2007.00311.x.

    Föllmer and Schied (2016), Stochastic Finance: An Introduction in Discrete Time, fourth edition, section 4.9.

    Examples
    --------
    >>> import certeq as ce
    >>> round(ce.oce([0.0, 1.0], ce.Entropic(beta=0.5)), 12)
    0.56185960724
    """

    def __init__(self, beta: Any = 1.0) -> None:
        check_number("beta", beta, above=0.0)
        self.beta = beta

    def _value(self, x: Array, xp: SimpleNamespace) -> Array:
        return xp.expm1(self.beta * x) / self.beta

    def _slope(self, x: Array, xp: SimpleNamespace) -> Array:
        return xp.exp(self.beta * x)

    def _curvature(self, x: Array, xp: SimpleNamespace) -> Array:
        return self.beta * xp.exp(self.beta * x)

    def _derivatives(self, x: Array, xp: SimpleNamespace) -> tuple[Array, Array]:
        slope = xp.exp(self.beta * x)
        return slope, self.beta * slope

    def _conjugate(self, y: Array, xp: SimpleNamespace) -> Array:
        safe = xp.where(y > 0, y, xp.ones_like(y))
        inside = xp.where(y > 0, y * xp.log(safe), xp.zeros_like(y)) - y + 1
        return xp.where(y >= 0, inside / self.beta, xp.zeros_like(y) + float("inf"))

    @property
    def slope_range(self) -> tuple[float, float]:
        """(0, inf)."""
        return (0.0, float("inf"))

    @property
    def anchor(self) -> float:
        """0."""
        return 0.0

    @property
    def kappa(self) -> float:
        """Exactly beta, as u'' = beta * u'."""
        return as_float(self.beta)

    @property
    def shape(self) -> Exponential:
        """The slope is an exponential."""
        return Exponential(as_float(self.beta))


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
        larger powers weigh the tail more.

    See Also
    --------
    MeanVariance
        Mean plus a multiple of the variance.
    Quartic
        Risk of a fourth power.
    HMCR
        Higher-moment coherent risk.

    Notes
    -----
    The unit is built in: losses are compared with 1. Use ``scaled`` when a loss that matters is not of size 1.
    Not for heavy tails: confidence intervals need 2a finite moments, and on Student t(5) losses with a >= 2.5 they
    cannot be trusted.

    References
    ----------
    Maccheroni, Marinacci, Rustichini and Taboga (2009), Portfolio selection with monotone mean-variance preferences.

    Ben-Tal and Teboulle (2007), An old-new concept of convex risk measures: the optimized certainty equivalent,
    doi:10.1111/j.1467-9965.2007.00311.x.

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
        lower = _power(base, self.a - 2)
        return lower * base, (self.a - 1) * lower

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
        """The number a - 1, attained by constants."""
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
    ``scaled`` to choose the unit of loss. Equals 4 times the utility of ``MonotoneMeanVariance(a=4)``. Its
    confidence intervals need eight finite moments: do not trust them on heavy tails.

    See Also
    --------
    MonotoneMeanVariance
        Mean-variance made monotone, and higher powers.

    References
    ----------
    Hamm, Salfeld and Weber (2013), Stochastic root finding for optimized certainty equivalents.

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


class CVaR(Utility):
    r"""Conditional value at risk: :math:`u(x) = x^+/\alpha`; OCE is the mean of the worst fraction alpha.

    Parameters
    ----------
    alpha : float
        Tail mass, in (0, 1): 0.05 means the worst 5 %. Above 0.5, where a confidence level may be meant, a warning
        says so.

    See Also
    --------
    SmoothCVaR
        CVaR smoothed by a logistic slope.
    LeakyCVaR
        CVaR with a slope that stays positive below 0.
    EVaR
        Entropic value at risk.
    threshold
        The minimizer t* of OCE; the value at risk for CVaR.

    Notes
    -----
    The one coherent utility here besides the mean. It sees nothing below its quantile, so its gradient is noisy in
    small batches; `SmoothCVaR` and `LeakyCVaR` trade exactness for smoothness.

    Not for batches of a few samples: with fewer than 1/alpha of them it is their largest loss.

    References
    ----------
    Rockafellar and Uryasev (2000), Optimization of conditional value-at-risk, doi:10.21314/JOR.2000.038.

    Examples
    --------
    >>> import certeq as ce
    >>> float(ce.oce([1.0, 2.0, 3.0, 4.0], ce.CVaR(alpha=0.5)))
    3.5
    """

    def __init__(self, alpha: Any = 0.05) -> None:
        tail = check_tail_mass("alpha", alpha)
        if tail > 0.5:
            warnings.warn(
                f"CVaR(alpha={tail:g}) is the mean of the worst {100 * tail:.6g} % of losses, as alpha is the mass of "
                f"the tail. If {tail:g} is meant as a confidence level, write CVaR({1.0 - tail:.6g}).",
                UserWarning,
                stacklevel=2,
            )
        self.alpha = alpha

    @classmethod
    def _of(cls, alpha: float) -> CVaR:
        """For solvers, to which a large tail is nothing to warn of."""
        made = cls.__new__(cls)
        made.alpha = alpha
        return made

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

    See Also
    --------
    CVaR
        Mean of the worst losses.
    SmoothCVaR
        CVaR smoothed by a logistic slope.

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
    def tail_mass(self) -> float:
        """The parameter alpha."""
        return as_float(self.alpha)

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

    See Also
    --------
    CVaR
        Mean of the worst losses.
    LeakyCVaR
        CVaR with a slope that stays positive below 0.

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
        """The parameter tau where it was given, else alpha."""
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
        """The point tau ln(alpha/(1-alpha))."""
        alpha = as_float(self.alpha)
        return as_float(self.width) * (math.log(alpha) - math.log1p(-alpha))

    @property
    def tail_mass(self) -> float:
        """The parameter alpha."""
        return as_float(self.alpha)

    @property
    def curve(self) -> Logistic:
        """The slope is a logistic curve."""
        return Logistic(1.0 / as_float(self.width), 1.0 / as_float(self.alpha))

    @property
    def kappa(self) -> float:
        """E sigma = alpha forces E sigma(1-sigma) <= alpha - alpha**2, so (1-alpha)/tau."""
        return (1.0 - as_float(self.alpha)) / as_float(self.width)
