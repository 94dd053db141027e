"""Losses of a linear predictor, F_i(theta) = phi(x_i.theta, y_i): squared errors and logistic losses."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.special import expit

from certeq._checks import check_array
from certeq.optimize.losses._base import Floats, Loss, Product, refuse_width


class PredictorLoss(Loss):
    r"""phi and its two derivatives in s = x.theta give the rest:

    .. math:: \nabla F = \phi'(s)\,x, \qquad \sum_i q_i F_i''(\theta) = X^\top \mathrm{diag}(q\,\phi''(s))\,X.
    """

    convex = True

    def __init__(self, X: Any = None, y: Any = None) -> None:
        if (X is None) != (y is None):
            missing = "X" if X is None else "y"
            raise ValueError(f"{missing} is missing: pass both X and y, or neither and give samples=(X, y) later.")
        self.samples = None if X is None else self.check_samples((X, y))

    @abstractmethod
    def _value(self, s: Floats, y: Floats) -> Floats:
        """phi(s, y)."""

    @abstractmethod
    def _slope(self, s: Floats, y: Floats) -> Floats:
        """The derivative of phi in s."""

    @abstractmethod
    def _curvature(self, s: Floats, y: Floats) -> Floats:
        """The second derivative of phi in s."""

    def evaluate(self, theta: Floats, batch: Any = None) -> tuple[Floats, Product]:
        """Return the losses and their vector-Jacobian product; the predictions are computed once."""
        X, y = self._own(batch)
        refuse_width("X", X, theta)
        s = X @ theta
        return self._value(s, y), lambda q: np.asarray((q * self._slope(s, y)) @ X)

    def jacobian(self, theta: Floats, batch: Any = None) -> Floats:
        """Return diag(phi') X."""
        X, y = self._own(batch)
        return np.asarray(self._slope(X @ theta, y)[:, None] * X)

    def jacobian_product(self, theta: Floats, batch: Any, v: Floats) -> Floats:
        """Return phi' times X v."""
        X, y = self._own(batch)
        return np.asarray(self._slope(X @ theta, y) * (X @ v))

    def hessian_product(self, theta: Floats, batch: Any, q: Floats, v: Floats) -> Floats:
        """Return X^T (q phi'' X v)."""
        X, y = self._own(batch)
        return np.asarray((q * self._curvature(X @ theta, y) * (X @ v)) @ X)

    def hessian(self, theta: Floats, batch: Any, q: Floats) -> Floats:
        """Return X^T diag(q phi'') X."""
        X, y = self._own(batch)
        curvature = q * self._curvature(X @ theta, y)
        return np.asarray(X.T @ (curvature[:, None] * X))

    def dimension(self, batch: Any = None) -> int | None:
        """Return the number of columns of X."""
        if batch is None and self.samples is None:
            return None
        return int(self._own(batch)[0].shape[1])

    def check_samples(self, samples: Any) -> Any:
        """Return (X, y) as floats: one row of X and one entry of y per sample, all finite."""
        if not isinstance(samples, tuple) or len(samples) != 2:
            raise TypeError(f"samples of {type(self).__name__} must be a pair (X, y); found {type(samples).__name__}.")
        X, y = check_array("X", samples[0], 2), check_array("y", samples[1])
        if len(X) != len(y):
            raise ValueError(f"X and y must have as many samples: X has {len(X)} rows, y has {len(y)} entries.")
        return X, self._check_target(y)

    def _check_target(self, y: Floats) -> Floats:
        return y

    def _largest_row(self, batch: Any) -> float:
        X, _ = self._own(batch)
        return float(np.sqrt(np.einsum("ij,ij->i", X, X).max()))

    def __repr__(self) -> str:
        if self.samples is None:
            return f"{type(self).__name__}()"
        rows, columns = self.samples[0].shape
        return f"{type(self).__name__}(X=<{rows}x{columns}>, y=<{rows}>)"


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
