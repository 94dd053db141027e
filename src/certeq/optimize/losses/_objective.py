"""OCE of a loss as a function of theta: value, tilt and gradient on a fixed set of samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from certeq.optimize.losses._base import Loss
from certeq.optimize.losses._samples import Floats, as_floats, count_samples
from certeq.risk._rows import solve_rows, tilt_rows
from certeq.risk._vector import solve_vector
from certeq.utilities import Utility
from certeq.utilities.forms import form


@dataclass(frozen=True)
class Evaluation:
    """OCE at one theta: its value, gradient sum_i q_i grad F_i, the tilt q and the shortfall t*."""

    value: float
    gradient: Floats
    tilt: Floats
    shortfall: float
    losses: Floats


class Objective:
    r""":math:`\theta \mapsto \mathrm{OCE}_u(F(\theta, \xi))` over all samples, with optional sample weights.

    Where OCE has a kink (CVaR at a tie) the gradient is one subgradient.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> from certeq.optimize.losses import LinearLoss
    >>> at = Objective(LinearLoss([[0.0, 2.0], [1.0, 1.0]]), ce.CVaR(0.5)).evaluate(np.array([0.5, 0.5]))
    >>> at.value, at.gradient
    (1.0, array([0.5, 1.5]))
    """

    def __init__(self, loss: Loss, utility: Utility, samples: Any = None, weights: Any = None) -> None:
        self.loss, self.utility = loss, utility
        self.samples = loss.samples if samples is None else loss.check_samples(samples)
        if self.samples is None:
            raise ValueError(f"{loss!r} holds no samples; pass samples=.")
        self.count = count_samples(self.samples)
        self.weights = None if weights is None else check_weights(weights, self.count)

    def evaluate(self, theta: Floats) -> Evaluation:
        """Return value, gradient, tilt and shortfall at theta."""
        losses, product = self.loss.evaluate(theta, self.samples)
        if not np.isfinite(losses).all():
            i = int(np.argmin(np.isfinite(losses)))
            where = f"sample {i} at theta = {_short(theta)}"
            raise ValueError(f"losses must be finite; found {losses[i]} for {where}.")
        row = np.ascontiguousarray(losses, dtype=np.float64)
        solved = solve_vector(row, self.weights, form(self.utility))
        if solved is None or not math.isfinite(solved.value):  # losses too far apart for their differences
            rows = solve_rows(row[None, :], None if self.weights is None else self.weights[None, :], self.utility)
            q = tilt_rows(rows, self.utility)[0]
            return Evaluation(float(rows.value[0]), product(q), q, float(rows.shortfall[0]), losses)
        q = np.asarray(solved.tilt, dtype=np.float64)
        return Evaluation(solved.value, product(q), q, solved.threshold, losses)


def check_weights(weights: Any, count: int) -> Floats:
    """Return weights that sum to 1, one per sample."""
    w = as_floats("weights", weights, 1)
    if w.size != count:
        raise ValueError(f"weights must have one entry per sample, {count}; found {w.size}.")
    if w.min() < 0.0:
        raise ValueError(f"weights must not be negative; found {w.min():g} at [{int(np.argmin(w))}].")
    if w.max() <= 0.0:
        raise ValueError("weights sum to 0; at least one must be above 0.")
    w = w / w.max()  # the sum of large weights may not be a number
    return np.asarray(w / w.sum())


def _short(theta: Floats) -> str:
    with np.printoptions(precision=4, threshold=6, edgeitems=2):
        return str(theta)
