"""Linear scores: losses as functions of them, and the labels and probabilities that they stand for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, xlogy
from sklearn.base import ClassifierMixin

Floats = NDArray[np.float64]


class ScoreLoss(ABC):
    """F_i(s) for scores s of shape (n, k), one column per output."""

    #: how many scores a sample has
    outputs: int = 1

    @abstractmethod
    def evaluate(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return the losses (n,) and their slopes dF_i/ds_ik (n, k)."""

    @abstractmethod
    def curvature(self, slopes: Floats, k: int, l: int) -> Floats:
        """Return d2F_i/ds_ik ds_il, from what `evaluate` returned as slopes."""

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
        """F*(-y m) = m ln m + (1 - m) ln(1 - m) for m in [0, 1]: the class that pulls harder is scaled down."""
        miss = np.clip(np.abs(slopes[:, 0]), 0.0, 1.0)
        if balanced:
            up, down = (float((q * miss)[self.y == label].sum()) for label in (1.0, -1.0))
            if max(up, down) > 0.0:
                miss = miss * np.where(self.y == (1.0 if up > down else -1.0), min(up, down) / max(up, down), 1.0)
        return (-self.y * miss)[:, None], xlogy(miss, miss) + xlogy(1.0 - miss, 1.0 - miss)

    def take(self, rows: NDArray[np.intp]) -> LogisticScore:
        """Return the loss of some of the samples."""
        return LogisticScore(self.y[rows])


class SoftmaxScore(ScoreLoss):
    """ln(sum_k exp(s_k)) - s_y for whole labels y from 0 to k - 1."""

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


class ScoreClassifier(ClassifierMixin):  # type: ignore[misc]
    """What a classifier predicts, given its scores: logistic for two classes, softmax for more."""

    classes_: NDArray[Any]
    #: scores (n, 1) for two classes, (n, classes) for more; the model beside this mixin has them
    _scores: Callable[[Any], Floats]

    def decision_function(self, X: Any) -> Floats:
        """Return the scores: (n,) for two classes, positive for the second; else (n, classes)."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class."""
        scores = self.decision_function(X)
        best = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities (n, classes)."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return np.asarray(np.exp(log_softmax(scores, axis=1)))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return logarithms of the class probabilities, exact where a probability rounds to 0 or 1."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([-np.logaddexp(0.0, scores), -np.logaddexp(0.0, -scores)])
        return np.asarray(log_softmax(scores, axis=1))

    def losses(self, X: Any, y: Any) -> Floats:
        """Return the cross-entropies, for `certeq.estimate` or a histogram."""
        logs = self.predict_log_proba(X)
        return np.asarray(-logs[np.arange(len(logs)), positions(y, self.classes_, len(logs))])


def positions(y: Any, classes: NDArray[Any], n: int) -> NDArray[np.intp]:
    """Return where each label stands among the (sorted) classes; an unknown label is named.

    >>> positions(["b", "a"], np.array(["a", "b"]), 2)
    array([1, 0])
    """
    labels = np.asarray(y).ravel()
    if len(labels) != n:
        raise ValueError(f"y must have one label per sample, {n}; found {len(labels)}.")
    places = np.clip(np.searchsorted(classes, labels), 0, len(classes) - 1)
    unknown = labels[classes[places] != labels].tolist()
    if unknown:
        raise ValueError(f"y holds {unknown[0]!r}, which is not among the classes {classes.tolist()}.")
    return np.asarray(places, dtype=np.intp)
