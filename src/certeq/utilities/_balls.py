"""Risks with a scale s beside the threshold t: balls of a divergence, the entropic value at risk, higher moments."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np

from certeq._backend import Array
from certeq._checks import check_number, check_tail_mass
from certeq.utilities._base import Utility
from certeq.utilities._families import CVaR, Entropic
from certeq.utilities._risk import CoherentRisk, Risk, plain_number
from certeq.utilities.forms import Form, Inner, Pieces, Power, Term, form


class DivergenceBall(Risk):
    r"""The largest mean loss under weights near the given ones; made by ``u.ball(radius)``.

    With :math:`\varphi = u^*` the conjugate of the normalized utility, so that :math:`\varphi(1) = 0`,

    .. math:: \rho(X) = \max\{E[qX] : E[q] = 1,\; E[\varphi(q)] \le r\}
              = \min_{t,\, s \ge 0}\; t + s r + E\!\left[s\, u\!\left(\tfrac{X - t}{s}\right)\right].

    Parameters
    ----------
    utility : Utility
        Its conjugate is the divergence: relative entropy for ``Entropic()``, half the chi-square distance for
        ``MonotoneMeanVariance(2)``, a Cressie-Read divergence for its other powers. It is normalized first.
    radius : float
        The largest divergence, above 0. It has no unit: losses in another currency have the same tilt.

    See Also
    --------
    EVaR
        Entropic value at risk.
    HMCR
        Higher-moment coherent risk.
    Utility
        Base class of utilities.

    Notes
    -----
    Coherent for every monotone utility. Not so for `MeanVariance`, whose tilt may be negative: its ball is
    :math:`E X + \sqrt{4 \beta r\, \mathrm{Var} X}`. Where the radius reaches the divergence of all weight on the
    largest loss, or for slopes up to 1/a that of CVaR's tilt, the risk is the largest loss, or CVaR(a), and s is 0.
    A ball of `CVaR` is CVaR for every radius: its divergence is 0 or infinite.

    Samples that are read in blocks (memory maps, Dask) take a handful of passes where the utility is smooth, and 70 to
    150 where it has kinks: the scale is then found by a search around that for t.

    References
    ----------
    Ben-Tal, den Hertog, De Waegenaere, Melenberg and Rennen (2013), Robust solutions of optimization problems affected
    by uncertain probabilities, doi:10.1287/mnsc.1120.1641.

    Levy, Carmon, Duchi and Sidford (2020), Large-scale methods for distributionally robust optimization,
    arXiv:2010.05893.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> losses = np.arange(8.0)
    >>> chi_square = ce.MonotoneMeanVariance(2).ball(0.1)
    >>> chi_square
    MonotoneMeanVariance(a=2).ball(0.1)
    >>> chi_square.is_coherent, ce.Entropic(3.0).ball(0.5).inner().cost
    (True, array([1. , 0.5]))
    """

    def __init__(self, utility: Utility, radius: float) -> None:
        if not isinstance(utility, Utility):
            raise TypeError(
                f"utility must be a Utility, such as certeq.Entropic(), whose conjugate is the divergence; found "
                f"{utility!r}."
            )
        check_number("radius", radius, above=0.0)
        self.utility = utility
        self.radius = radius

    @property
    def is_monotone(self) -> bool:
        """If the utility is."""
        return self.utility.is_monotone

    @property
    def is_coherent(self) -> bool:
        """For every monotone utility: s takes the units."""
        return self.utility.is_monotone

    @property
    def is_smooth(self) -> bool:
        """Whether the utility has no kink."""
        return self.utility.is_smooth

    def _make_inner(self) -> Inner:
        u = self.utility if self.utility.is_normalized else self.utility.normalized()
        if isinstance(u.shape, Pieces) and u.shape.kink == 0.0:  # s u(x/s) is u: no s is needed, and 0 costs least
            return u.inner()
        return with_scale(float(self.radius), 1.0, form(u))

    def __repr__(self) -> str:
        from certeq.utilities._algebra import in_brackets

        return f"{in_brackets(self.utility)}.ball({plain_number(self.radius)!r})"


class EVaR(CoherentRisk):
    r"""Entropic value at risk: :math:`\min_{s > 0}\; s \ln\bigl(E[e^{X/s}]/\alpha\bigr)`.

    The largest mean loss under weights within relative entropy ln(1/alpha) of the given ones:
    ``Entropic().ball(log(1/alpha))``. It is the tightest bound on CVaR(alpha) that a Chernoff inequality gives.

    Parameters
    ----------
    alpha : float
        Tail mass, in (0, 1), as of `CVaR`: 0.05 is what others call EVaR at 95 %.

    See Also
    --------
    CVaR
        Mean of the worst losses.
    Entropic
        Entropic risk, of an exponential utility.
    DivergenceBall
        Largest mean loss under weights near the given ones.

    Notes
    -----
    With fewer than 1/alpha equally likely losses it is the largest of them, as CVaR is. Not for heavy tails: the
    EVaR of a distribution without exponential moments is +inf, and a sample always gives a finite number.

    References
    ----------
    Ahmadi-Javid (2012), Entropic value-at-risk: a new coherent risk measure, doi:10.1007/s10957-011-9968-2.

    Examples
    --------
    >>> import certeq as ce
    >>> ce.EVaR(0.05), ce.EVaR(0.05).is_coherent, ce.EVaR(0.05).is_smooth
    (EVaR(alpha=0.05), True, True)
    """

    def __init__(self, alpha: float = 0.05) -> None:
        check_tail_mass("alpha", alpha)
        self.alpha = alpha

    @property
    def is_smooth(self) -> bool:
        """There is no kink."""
        return True

    def _make_inner(self) -> Inner:
        return with_scale(-math.log(self.alpha), 1.0, form(Entropic()))


class HMCR(CoherentRisk):
    r"""Higher-moment coherent risk: :math:`\min_t\; t + \tfrac{1}{\alpha} \lVert (X - t)^+ \rVert_p`.

    Parameters
    ----------
    p : float
        Order of the norm, at least 1: 1 is CVaR, 2 the second-moment coherent risk. Larger ones weigh the tail more.
    alpha : float
        In (0, 1), as of `CVaR`: the risk is the largest loss where that has probability ``alpha**p`` or more.

    See Also
    --------
    CVaR
        Mean of the worst losses.
    MonotoneMeanVariance
        Mean-variance made monotone, and higher powers.
    DivergenceBall
        Largest mean loss under weights near the given ones.

    Notes
    -----
    The largest mean loss under weights whose norm of order p/(p-1) is at most 1/alpha. HMCR(2, alpha) is a chi-square
    ball, ``MonotoneMeanVariance(2).ball((1/alpha**2 - 1)/2)``. Not for tails without a moment of order p.

    References
    ----------
    Krokhmal (2007), Higher moment coherent risk measures, doi:10.1080/14697680701458307.

    Examples
    --------
    >>> import certeq as ce
    >>> ce.HMCR(2, 0.05), ce.HMCR(1, 0.05).is_smooth
    (HMCR(p=2, alpha=0.05), False)
    """

    def __init__(self, p: float = 2, alpha: float = 0.05) -> None:
        check_number("p", p, "the order of a norm, a finite number not below 1", least=1.0)
        check_tail_mass("alpha", alpha)
        self.p = p
        self.alpha = alpha

    @property
    def is_smooth(self) -> bool:
        """But for p = 1, which is CVaR."""
        return self.p > 1.0

    def _make_inner(self) -> Inner:
        p, alpha = float(self.p), float(self.alpha)
        if p == 1.0:
            return CVaR._of(alpha).inner()
        return with_scale((1.0 - 1.0 / p) / alpha, 1.0 / alpha, form(PositivePower(p)))


def with_scale(cost: float, weight: float, known: Form) -> Inner:
    """t + cost*s + weight * E[s u((X - t)/s)] over t and s >= 0."""
    return Inner(np.array([1.0, cost]), np.array([-np.inf, 0.0]), np.full(2, np.inf), (Term(weight, known, 0, 1),))


class PositivePower(Utility):
    """u(x) = (x^+)**p / p, p > 1: of its perspective the minimum over s is the norm of order p. Made for `HMCR`."""

    def __init__(self, p: float) -> None:
        self.p = p

    def _value(self, x: Array, xp: SimpleNamespace) -> Array:
        return xp.relu(x) ** self.p / self.p

    def _slope(self, x: Array, xp: SimpleNamespace) -> Array:
        return xp.relu(x) ** (self.p - 1)

    def _curvature(self, x: Array, xp: SimpleNamespace) -> Array:
        positive = xp.where(x > 0, x, xp.ones_like(x))
        return xp.where(x > 0, (self.p - 1) * positive ** (self.p - 2), xp.zeros_like(x))

    def _conjugate(self, y: Array, xp: SimpleNamespace) -> Array:
        dual = self.p / (self.p - 1)
        return xp.where(y >= 0, xp.relu(y) ** dual / dual, xp.zeros_like(y) + float("inf"))

    @property
    def slope_range(self) -> tuple[float, float]:
        """[0, inf)."""
        return (0.0, float("inf"))

    @property
    def anchor(self) -> float:
        """1."""
        return 1.0

    @property
    def kappa(self) -> float:
        """p - 1 from p = 2 on; below, the curvature is unbounded at 0."""
        return self.p - 1.0 if self.p >= 2.0 else float("inf")

    @property
    def growth(self) -> float:
        """The slope is x**(p-1)."""
        return self.p - 1.0

    @property
    def curve(self) -> Power:
        """The slope is a power."""
        return Power(self.p - 1.0, 1.0)
