"""Does the objective fall for ever? The slope of OCE far out along a direction, in closed form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.exact._model import Model

Vector = NDArray[np.float64]


class Escape(Exception):
    """The objective falls for ever along a direction."""

    def __init__(self, direction: Vector) -> None:
        super().__init__("unbounded")
        self.direction = direction


def falls_for_ever(model: Model, direction: Vector) -> bool:
    """Whether direction lies in the set's cone and the objective's slope along it stays below 0.

    Far out OCE(X + s Y)/s tends to the largest mean of Y under tilts q with q/w in the range of the slope of u:
    between low and high it is low * mean + (1 - low) * (mean of the worst tail), tail = (1 - low)/(high - low).
    """
    d = direction / float(np.max(np.abs(direction)))
    q = model.polyhedron
    d = np.where(np.isfinite(model.low), np.maximum(d, 0.0), d)
    d = np.where(np.isfinite(model.high), np.minimum(d, 0.0), d)
    small = 1e-6
    if np.any(np.abs(q.C @ d) > small) or np.any(q.G @ d > small):
        return False
    if model.squares is not None and not model.squares.flat_along(d):
        return False
    losses = model.scenarios.losses(d)
    low, high = model.utility.slope_range
    mean = float(model.weights @ losses)
    if low == high:
        far = mean
    elif low == -np.inf:
        far = mean if float(np.ptp(losses)) <= small else np.inf
    elif high == np.inf:
        far = low * mean + (1.0 - low) * float(losses.max())
    else:
        far = low * mean + (1.0 - low) * _worst(losses, model.weights, (1.0 - low) / (high - low))
    return far + float(model.linear @ d) < -10.0 * small


def _worst(losses: Vector, weights: Vector, tail: float) -> float:
    order = np.argsort(-losses, kind="stable")
    share = np.clip(tail - (np.cumsum(weights[order]) - weights[order]), 0.0, weights[order])
    return float(share @ losses[order]) / tail
