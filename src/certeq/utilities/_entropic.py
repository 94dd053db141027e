"""Entropic risk: exponential fear, the log-mean-exp of the loss."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from certeq._backend import Array, as_float
from certeq._checks import check_number
from certeq.utilities._base import Utility
from certeq.utilities._shapes import Exponential


class Entropic(Utility):
    r"""Entropic risk: :math:`u(x) = (e^{\beta x} - 1)/\beta`, so OCE(X) = ln(E exp(beta X)) / beta.

    Parameters
    ----------
    beta : float
        Risk aversion per unit of loss, above 0. For small beta, OCE is about the mean + beta/2 * variance.

    Notes
    -----
    Not to be used on heavy-tailed losses: the true OCE is +inf where E exp(beta X) is (an exponential law with
    rate <= beta, any power tail), and a sample always gives a finite number.

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
        """u'' = beta * u', so exactly beta."""
        return as_float(self.beta)

    @property
    def shape(self) -> Exponential:
        """The slope is an exponential."""
        return Exponential(as_float(self.beta))
