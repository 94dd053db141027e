"""Losses of a linear predictor, F_i(theta) = phi(x_i.theta, y_i): one place for every derivative."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from certeq.optimize.losses._base import Loss, Product
from certeq.optimize.losses._samples import Floats, as_floats, refuse_width


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
        bend = q * self._curvature(X @ theta, y)
        return np.asarray(X.T @ (bend[:, None] * X))

    def dimension(self, batch: Any = None) -> int | None:
        """Return the number of columns of X."""
        if batch is None and self.samples is None:
            return None
        return int(self._own(batch)[0].shape[1])

    def check_samples(self, samples: Any) -> Any:
        """Return (X, y) as floats: one row of X and one entry of y per sample, all finite."""
        if not isinstance(samples, tuple) or len(samples) != 2:
            raise TypeError(f"samples of {type(self).__name__} must be a pair (X, y); found {type(samples).__name__}.")
        X, y = as_floats("X", samples[0], 2), as_floats("y", samples[1], 1)
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
