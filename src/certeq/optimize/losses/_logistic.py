"""Logistic loss of a linear score."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from certeq.optimize.losses._predictor import PredictorLoss
from certeq.optimize.losses._samples import Floats


class LogisticLoss(PredictorLoss):
    r"""Logistic loss :math:`F_i(\theta) = \ln(1 + e^{-y_i x_i^\top\theta})` for labels -1 and 1 (or 0 and 1).

    Parameters
    ----------
    X : array (n, d), optional
        One row per sample. Append a column of ones for an intercept.
    y : array (n,), optional
        Labels, -1 and 1 or 0 and 1. Leave both out when samples ``(X, y)`` come from a stream.

    Notes
    -----
    L_F = max norm(x_i)**2 / 4 and M = max norm(x_i), so OCE has a smoothness constant for every smooth utility.

    Not for more than two classes, which are refused: see `certeq.learn.OCEClassifier`.

    Examples
    --------
    >>> from certeq import LogisticLoss
    >>> import numpy as np
    >>> loss = LogisticLoss([[1.0], [2.0]], [1, 0])
    >>> loss.losses(np.zeros(1)).round(6)
    array([0.693147, 0.693147])
    """

    def _value(self, s: Floats, y: Floats) -> Floats:
        margin = y * s
        # The larger of the two exponents is taken out, so that neither a score of 1e3 nor of -1e3 overflows.
        return np.asarray(np.maximum(-margin, 0.0) + np.log1p(np.exp(-np.abs(margin))))

    def _slope(self, s: Floats, y: Floats) -> Floats:
        return np.asarray(-y * expit(-y * s))

    def _curvature(self, s: Floats, y: Floats) -> Floats:
        return np.asarray(expit(s) * expit(-s))

    def _check_target(self, y: Floats) -> Floats:
        found = set(np.unique(y).tolist())
        if found <= {0.0, 1.0}:
            return 2.0 * y - 1.0
        if found <= {-1.0, 1.0}:
            return y
        some = ", ".join(f"{label:g}" for label in sorted(found)[:5])
        raise ValueError(f"y must hold the labels -1 and 1, or 0 and 1; found {some}.")

    def smoothness(self, batch: Any = None) -> float:
        """Largest norm(x_i)**2 / 4."""
        return 0.25 * self._largest_row(batch) ** 2

    def lipschitz(self, batch: Any = None, theta: Floats | None = None, diameter: float = float("inf")) -> float:
        """Largest norm(x_i): the slope of the logistic function never exceeds 1."""
        return self._largest_row(batch)
