"""Squared error of a linear prediction."""

from __future__ import annotations

from typing import Any

import numpy as np

from certeq.optimize.losses._predictor import PredictorLoss
from certeq.optimize.losses._samples import Floats


class SquaredLoss(PredictorLoss):
    r"""Squared error :math:`F_i(\theta) = (x_i^\top\theta - y_i)^2`, without a factor 1/2.

    Parameters
    ----------
    X : array (n, d), optional
        One row per sample. Append a column of ones for an intercept.
    y : array (n,), optional
        Targets. Leave both out when samples ``(X, y)`` come from a stream.

    Notes
    -----
    L_F = 2 max norm(x_i)**2. The gradient is bounded on a bounded feasible set only.

    Not where outliers are mistakes in the data: a risk-averse utility gives large squared errors even more weight. For
    an intercept and a ridge see `certeq.learn.OCERegressor`.

    Examples
    --------
    >>> from certeq import SquaredLoss
    >>> import numpy as np
    >>> loss = SquaredLoss([[1.0, 0.0], [0.0, 2.0]], [1.0, 0.0])
    >>> loss.losses(np.array([3.0, 1.0]))
    array([4., 4.])
    >>> loss.gradient(np.array([3.0, 1.0]), None, np.array([0.5, 0.5]))
    array([2., 4.])
    """

    def _value(self, s: Floats, y: Floats) -> Floats:
        return np.square(s - y)

    def _slope(self, s: Floats, y: Floats) -> Floats:
        return 2.0 * (s - y)

    def _curvature(self, s: Floats, y: Floats) -> Floats:
        return np.full_like(s, 2.0)

    def smoothness(self, batch: Any = None) -> float:
        """2 max norm(x_i)**2."""
        return 2.0 * self._largest_row(batch) ** 2

    def lipschitz(self, batch: Any = None, theta: Floats | None = None, diameter: float = float("inf")) -> float:
        """Largest 2 norm(x_i) (abs(residual_i) + norm(x_i) * diameter), residuals taken at theta."""
        if theta is None or not np.isfinite(diameter):
            return float("inf")
        X, y = self._own(batch)
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
        return float((2.0 * norms * (np.abs(X @ theta - y) + norms * diameter)).max())
