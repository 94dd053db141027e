"""From scores to labels and probabilities, and from labels back to positions among the classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax
from sklearn.base import ClassifierMixin

from certeq.learn._scores import Floats


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
