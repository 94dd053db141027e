"""Losses of a linear predictor, F_i(theta) = phi(x_i.theta, y_i): squared errors, logistic losses and cross-entropies.

`ScoreLoss` is phi as a function of the scores, with its derivatives and its conjugate; `PredictorLoss` is F.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy

from certeq._checks import check_array
from certeq.optimize.losses._base import Floats, Loss, Product, refuse_width


class ScoreLoss(ABC):
    """F_i(s) for scores s of shape (n, k), one column per output."""

    #: how many scores a sample has
    outputs: int = 1
    #: beside the size of the losses, what the rounding of losses and conjugates is relative to
    unit: float = 0.0

    @abstractmethod
    def evaluate(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return the losses (n,) and their slopes dF_i/ds_ik (n, k)."""

    @abstractmethod
    def curvature(self, slopes: Floats, k: int, l: int) -> Floats:
        """Return d2F_i/ds_ik ds_il, from what `evaluate` returned as slopes."""

    def curvature_product(self, slopes: Floats, change: Floats) -> Floats:
        """Return the second derivatives of each sample times a change of its scores (n, k)."""
        return np.asarray(self.curvature(slopes, 0, 0)[:, None] * change)

    @abstractmethod
    def dual(self, slopes: Floats, q: Floats, balanced: bool) -> tuple[Floats, Floats]:
        """Slopes a near the given ones and F*(a), so that F_i(s) >= a_i.s - F*_i(a_i) for every s.

        With ``balanced`` sum_i q_i a_i = 0 in every column; q is not negative and sums to 1.
        """

    @abstractmethod
    def take(self, rows: NDArray[np.intp]) -> ScoreLoss:
        """Return the loss of some of the samples."""


class SquaredScore(ScoreLoss):
    """(s - y)**2."""

    def __init__(self, y: Floats) -> None:
        self.y = y
        # Residuals are known to the rounding of y; products of two smaller squares would underflow.
        self.unit = max(float(np.finfo(np.float64).eps * np.square(y).max()), 1e-100)

    def evaluate(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return squared residuals and twice the residuals."""
        residual = scores[:, 0] - self.y
        return residual * residual, (residual + residual)[:, None]

    def curvature(self, slopes: Floats, k: int, l: int) -> Floats:
        """2 everywhere."""
        return np.full(len(slopes), 2.0)

    def dual(self, slopes: Floats, q: Floats, balanced: bool) -> tuple[Floats, Floats]:
        """F*(a) = a y + a^2/4 for every a, so that all may move by the same."""
        a = slopes[:, 0]
        if balanced:
            a = a - float(q @ a) / float(q.sum())
        return a[:, None], a * self.y + 0.25 * a * a

    def take(self, rows: NDArray[np.intp]) -> SquaredScore:
        """Return the loss of some of the samples."""
        return SquaredScore(self.y[rows])


class LogisticScore(ScoreLoss):
    """ln(1 + exp(-y s)) for labels y of -1 and 1."""

    def __init__(self, y: Floats) -> None:
        self.y = y

    def evaluate(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return losses and slopes from one exponential that cannot overflow."""
        margin = self.y * scores[:, 0]
        e = np.exp(-np.abs(margin))
        # sigma(-m) is e/(1+e) right of 0 and 1/(1+e) left of it.
        miss = np.where(margin > 0.0, e, 1.0) / (1.0 + e)
        return np.maximum(-margin, 0.0) + np.log1p(e), (-self.y * miss)[:, None]

    def curvature(self, slopes: Floats, k: int, l: int) -> Floats:
        """sigma(1 - sigma), from the slope +-sigma."""
        miss = np.abs(slopes[:, 0])
        return np.asarray(miss * (1.0 - miss))

    def dual(self, slopes: Floats, q: Floats, balanced: bool) -> tuple[Floats, Floats]:
        """F*(-y m) = m ln m + (1 - m) ln(1 - m) for m in [0, 1]: the class of the larger sum is scaled down."""
        miss = np.clip(np.abs(slopes[:, 0]), 0.0, 1.0)
        if balanced:
            up, down = (float((q * miss)[self.y == label].sum()) for label in (1.0, -1.0))
            if max(up, down) > 0.0:
                miss = miss * np.where(self.y == (1.0 if up > down else -1.0), min(up, down) / max(up, down), 1.0)
        return (-self.y * miss)[:, None], xlogy(miss, miss) + xlog1py(1.0 - miss, -miss)

    def take(self, rows: NDArray[np.intp]) -> LogisticScore:
        """Return the loss of some of the samples."""
        return LogisticScore(self.y[rows])


class SoftmaxScore(ScoreLoss):
    """ln(sum_k exp(s_k)) - s_y for whole labels y from 0 to k - 1."""

    unit = 1.0  # a probability near 1 is known to one rounding, whatever its logarithm

    def __init__(self, y: NDArray[np.intp], outputs: int) -> None:
        self.y, self.outputs = y, outputs
        self._rows = np.arange(len(y))

    def evaluate(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return cross-entropies and p - e_y."""
        shifted = scores - scores.max(axis=1, keepdims=True)
        own = shifted[self._rows, self.y]
        slopes = np.exp(shifted)
        total = slopes.sum(axis=1, keepdims=True)
        slopes /= total
        slopes[self._rows, self.y] -= 1.0
        return np.log(total[:, 0]) - own, slopes

    def curvature(self, slopes: Floats, k: int, l: int) -> Floats:
        """p_k (1{k=l} - p_l), with p recovered from the slopes."""
        p = slopes[:, k] + (self.y == k)
        if k == l:
            return np.asarray(p * (1.0 - p))
        return np.asarray(-p * (slopes[:, l] + (self.y == l)))

    def curvature_product(self, slopes: Floats, change: Floats) -> Floats:
        """p times the change minus its mean under p: as many multiplications as there are scores."""
        p = slopes.copy()
        p[self._rows, self.y] += 1.0
        return np.asarray(p * (change - (p * change).sum(axis=1, keepdims=True)))

    def dual(self, slopes: Floats, q: Floats, balanced: bool) -> tuple[Floats, Floats]:
        """F*(p - e_y) = sum p ln p for probabilities p: all are mixed with one p that settles what is missing.

        The means of p are to be the classes' shares of q. (1 - m) p + m r has them where m r = shares - (1 - m) mean,
        and r is a probability for every m that leaves no entry of that below 0.
        """
        p = slopes.copy()
        p[self._rows, self.y] += 1.0
        p = np.maximum(p, 0.0)
        p /= p.sum(axis=1, keepdims=True)
        if balanced:
            mean, shares = q @ p, np.bincount(self.y, weights=q, minlength=self.outputs)
            with np.errstate(divide="ignore", invalid="ignore"):
                least = np.where(mean > 0.0, 1.0 - shares / mean, 0.0)
            mix = float(np.clip(least.max(), 0.0, 1.0))
            p = (1.0 - mix) * p + np.maximum(shares - (1.0 - mix) * mean, 0.0)
        a = p.copy()
        a[self._rows, self.y] -= 1.0
        return a, xlogy(p, p).sum(axis=1)

    def take(self, rows: NDArray[np.intp]) -> SoftmaxScore:
        """Return the loss of some of the samples."""
        return SoftmaxScore(self.y[rows], self.outputs)


class PredictorLoss(Loss):
    r"""phi and its two derivatives in s = x.theta give the rest:

    .. math:: \nabla F = \phi'(s)\,x, \qquad \sum_i q_i F_i''(\theta) = X^\top \mathrm{diag}(q\,\phi''(s))\,X.
    """

    convex = True
    _score: ClassVar[type[SquaredScore] | type[LogisticScore]]  # phi, made of the targets

    def __init__(self, X: Any = None, y: Any = None) -> None:
        if (X is None) != (y is None):
            missing = "X" if X is None else "y"
            raise ValueError(f"{missing} is missing: pass both X and y, or neither and give samples=(X, y) later.")
        self.samples = None if X is None else self.check_samples((X, y))

    def _at(self, theta: Floats, batch: Any) -> tuple[Floats, ScoreLoss, Floats, Floats]:
        """X, phi, its values and its slopes (n, 1) at theta."""
        X, y = self._own(batch)
        phi = self._score(y)
        return X, phi, *phi.evaluate((X @ theta)[:, None])

    def evaluate(self, theta: Floats, batch: Any = None) -> tuple[Floats, Product]:
        """Return the losses and their vector-Jacobian product; the predictions are computed once."""
        refuse_width("X", self._own(batch)[0], theta)
        X, _, values, slopes = self._at(theta, batch)
        return values, lambda q: np.asarray((q * slopes[:, 0]) @ X)

    def jacobian(self, theta: Floats, batch: Any = None) -> Floats:
        """Return diag(phi') X."""
        X, _, _, slopes = self._at(theta, batch)
        return np.asarray(slopes * X)

    def jacobian_product(self, theta: Floats, batch: Any, v: Floats) -> Floats:
        """Return phi' times X v."""
        X, _, _, slopes = self._at(theta, batch)
        return np.asarray(slopes[:, 0] * (X @ v))

    def hessian_product(self, theta: Floats, batch: Any, q: Floats, v: Floats) -> Floats:
        """Return X^T (q phi'' X v)."""
        X, phi, _, slopes = self._at(theta, batch)
        return np.asarray((q * phi.curvature(slopes, 0, 0) * (X @ v)) @ X)

    def hessian(self, theta: Floats, batch: Any, q: Floats) -> Floats:
        """Return X^T diag(q phi'') X."""
        X, phi, _, slopes = self._at(theta, batch)
        curvature = q * phi.curvature(slopes, 0, 0)
        return np.asarray(X.T @ (curvature[:, None] * X))

    def dimension(self, batch: Any = None) -> int | None:
        """Return the number of columns of X."""
        if batch is None and self.samples is None:
            return None
        return int(self._own(batch)[0].shape[1])

    def features(self, batch: Any = None) -> Floats | None:
        """Return X."""
        return np.asarray(self._own(batch)[0])

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

    See Also
    --------
    LinearLoss
        Linear losses, such as those of a portfolio.
    LogisticLoss
        Logistic losses of a linear classifier.
    certeq.learn.OCERegressor
        Linear regression on an OCE of squared errors.

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

    _score = SquaredScore

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

    See Also
    --------
    SquaredLoss
        Squared errors of a linear model.
    certeq.learn.OCEClassifier
        Logistic regression on an OCE of cross-entropies.

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

    _score = LogisticScore

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
