"""Mean-variance: the classic, and the one utility here that is not monotone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from certeq._backend import Array, as_float
from certeq._checks import check_number
from certeq.utilities._base import Utility
from certeq.utilities._shapes import Quadratic


class MeanVariance(Utility):
    r"""Mean-variance: :math:`u(x) = x + \beta x^2`, so OCE(X) = E X + beta Var X.

    Parameters
    ----------
    beta : float
        Price of a unit of variance, above 0.

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
