"""Utilities with kinks: rounded corners, sharpened step by step until a bound on the error is small enough."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from certeq.utilities import Utility
from certeq.utilities._backend import Array
from certeq.utilities._numeric import find_anchor


class Rounded(Utility):
    r"""A utility whose kinks are rounded: each :math:`j\,(x - k)^+` in it becomes :math:`j\,\tau\ln(1 + e^{(x-k)/\tau})`.

    It lies above the utility by at most tau ln 2 times the sum of the jumps, and so does its OCE: `excess`. For CVaR
    it is `SmoothCVaR`.

    Examples
    --------
    >>> import certeq as ce
    >>> u = Rounded(ce.CVaR(0.1), 0.01)
    >>> bool(abs(u.value(0.3) - ce.SmoothCVaR(0.1, 0.01).value(0.3)) < 1e-12)
    True
    """

    def __init__(self, utility: Utility, tau: float) -> None:
        self.utility, self.tau = utility, tau
        self._corners = utility.kinks
        self._anchor: float | None = None

    @property
    def excess(self) -> float:
        """Upper bound on OCE of this less OCE of the utility inside."""
        return float(self.tau * np.log(2.0) * sum(jump for _, jump in self._corners))

    def _value(self, x: Array, xp: SimpleNamespace) -> Array:
        total = self.utility._value(x, xp)
        for kink, jump in self._corners:
            y = x - kink
            # softplus(y) - y^+ = softplus(-|y|): no cancellation far out.
            total = total + (jump * self.tau) * xp.softplus(-xp.abs(y) / self.tau)
        return total

    def _slope(self, x: Array, xp: SimpleNamespace) -> Array:
        return self._derivatives(x, xp)[0]

    def _curvature(self, x: Array, xp: SimpleNamespace) -> Array:
        return self._derivatives(x, xp)[1]

    def _derivatives(self, x: Array, xp: SimpleNamespace) -> tuple[Array, Array]:
        slope = self.utility._slope(x, xp)
        curvature = self.utility._curvature(x, xp) if self.utility.has_curvature else xp.zeros_like(x)
        for kink, jump in self._corners:
            y = x - kink
            e = xp.exp(-xp.abs(y) / self.tau)
            share = e / (1 + e)
            slope = slope + jump * xp.where(y > 0, -share, share)
            curvature = curvature + (jump / self.tau) * share * (1 - share)
        return slope, curvature

    def _conjugate(self, y: Array, xp: SimpleNamespace) -> Array:
        raise NotImplementedError("The conjugate of a rounded utility is not needed.")

    @property
    def slope_range(self) -> tuple[float, float]:
        """That of the utility inside."""
        return self.utility.slope_range

    @property
    def anchor(self) -> float:
        """Found by bisection, once."""
        if self._anchor is None:
            self._anchor = find_anchor(self)
        return self._anchor

    @property
    def kappa(self) -> float:
        """Not known."""
        return float("inf")

    @property
    def growth(self) -> float:
        """That of the utility inside."""
        return self.utility.growth
