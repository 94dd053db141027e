"""The mean: risk neutrality, the yardstick for every other utility."""

from __future__ import annotations

from types import SimpleNamespace

from certeq._backend import Array
from certeq.utilities._base import Utility
from certeq.utilities._shapes import Pieces


class Mean(Utility):
    r"""Risk neutral: :math:`u(x) = x`, so OCE(X) = E X.

    Every t minimizes t + E[X - t]; the threshold is E X by convention. Useful in sums such as
    ``0.3*Mean() + 0.7*CVaR(0.05)``.

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
