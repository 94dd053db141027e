"""Accelerated steps on a fixed set of samples, and the gradient over all of them that corrects those of batches.

Where nothing bounds the distance to the optimum, every direction has a distance and a sum of gradients of its own, so
that one in which the optimum is far away does not wait for the others: the principal axes of the features, or the
coordinates where some have bounds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from certeq._table import Table
from certeq.optimize.domains import Domain
from certeq.optimize.domains._base import Stepper
from certeq.optimize.domains._polyhedron import bounds_alone
from certeq.optimize.losses import Loss
from certeq.optimize.losses._base import Floats, count_samples, take_samples
from certeq.optimize.sg._adaptive import AdaptiveSteps

Lengths = Any  # a float, or an array with one for each direction
POWER = 2  # of k in the weights
_FIRST = 1e-3  # the first distance, as a part of the set's width or of 1 + norm(theta0): it doubles while it is short
_AXES = 256  # directions up to which axes are rotated: each step then multiplies by a matrix of this size
_ROWS = 20  # samples per direction that their axes are taken from
_RECENT = 15  # passes that tell whether a run has settled
_SETTLED = 0.01  # of the value, or of what was gained on the start: so near are their values if it has


class AcceleratedSteps(AdaptiveSteps):
    r"""Optimistic steps with gradients at the mean x of the iterates z, which is what is returned.

    .. math:: z_k = \Pi(y_{k-1} - \alpha_k g_{k-1}), \quad x_k = x_{k-1} + \tfrac{w_k}{W_k} (z_k - x_{k-1}), \quad
              y_k = \Pi(y_{k-1} - \alpha'_k g_k), \qquad W_k = \sum_{i \le k} w_i

    with :math:`\alpha_k = r_k w_k/\sqrt{S_{k-1}}`, :math:`\alpha'_k = r_k w_k/\sqrt{S_k}` and S the sum of
    :math:`w_k^2 \|g_k - g_{k-1}\|^2`: one r and one S for all directions where ``widths`` is a single number, the
    diameter, else one for each column of ``axes``, or for each coordinate where that is None.
    """

    STATE = ("start", "base", "last", "distance", "total", "kept", "count", "mass")

    def __init__(self, theta: Floats, widths: Floats, axes: Floats | None = None) -> None:
        super().__init__(theta, POWER)
        self.one, self.axes = widths.size == 1, None if axes is None else np.ascontiguousarray(axes)
        first = _FIRST * np.where(np.isfinite(widths), widths, 1.0 + float(np.linalg.norm(theta)))
        self.widths, self.kept = self._lengths(widths), self._lengths(first)
        self._begin(theta)

    def _begin(self, theta: Floats) -> None:
        """Start from theta, with the distances that were kept."""
        self.start, self.base, self.last = theta, theta, np.zeros(theta.size)  # theta_0, y and the last gradient
        self.distance, self.total = self.kept, 0.0 * self.kept  # r and S
        self.count, self.mass = 0, 1.0  # k and W_{k+1}

    def move(self, k: int, theta: Floats, gradient: Floats, project: Stepper) -> Floats:
        """Return the next mean."""
        self.count += 1
        weight = float(self.count) ** self.power
        self.total = self.total + (weight * self._sizes(gradient - self.last)) ** 2
        distance, reached = self.distance, self._sizes(theta - self.start)
        if self.one:
            scale: Lengths = math.sqrt(self.total) or 1.0
            self.step = float(distance * weight / scale)
            change = self.step * gradient
            self.distance = min(max(distance, reached), self.widths)
        else:
            scale = np.sqrt(np.where(self.total > 0.0, self.total, 1.0))
            change = self._stretched(gradient, distance * weight / scale)
            size = math.sqrt(np.dot(gradient, gradient))
            self.step = math.sqrt(np.dot(change, change)) / size if size > 0.0 else float(np.max(distance))
            self.distance = np.minimum(np.maximum(distance, reached), self.widths)
        self.base, self.last = project(self.base - change, self.base), gradient
        weight = float(self.count + 1) ** self.power
        self.mass += weight
        ahead = project(self.base - self._stretched(gradient, self.distance * weight / scale), self.base)
        return np.asarray(theta + (weight / self.mass) * (ahead - theta))

    def keep(self) -> None:
        """Remember the distances of the best point so far."""
        self.kept = self.distance

    def return_to(self, theta: Floats, part: float) -> None:
        """Start again from theta, the best point so far, with a part of the distances that led there."""
        self.kept = part * self.kept
        self._begin(theta)

    def _lengths(self, found: Floats) -> Lengths:
        """One number, or one for each direction: a number is many times quicker than an array that holds it."""
        return float(found[0]) if self.one else found

    def _sizes(self, v: Floats) -> Lengths:
        """How long v is in each direction that has a length of its own."""
        if self.one:
            return math.sqrt(np.dot(v, v))
        return np.asarray(np.abs(v if self.axes is None else v @ self.axes))

    def _stretched(self, v: Floats, factors: Lengths) -> Floats:
        if self.axes is None:
            return np.asarray(factors * v)
        return np.asarray(self.axes @ (factors * (v @ self.axes)))


def accelerated_steps(theta: Floats, domain: Domain, loss: Loss, samples: object) -> AcceleratedSteps:
    """Return the steps for a feasible set: one length on a bounded one, and where rows tie coordinates together."""
    diameter, bounds = domain.diameter(theta.size), bounds_alone(domain, theta.size)
    if bounds is None or diameter < math.inf:
        return AcceleratedSteps(theta, np.array([diameter]))
    free = bool(np.isinf(bounds).all())
    return AcceleratedSteps(theta, bounds[1] - bounds[0], principal_axes(loss, samples) if free else None)


def principal_axes(loss: Loss, samples: object) -> Floats | None:
    """The right singular vectors of some rows of the features of a loss, as columns; None where it has none."""
    d = loss.dimension(samples)
    if isinstance(samples, Table) or d is None or not 1 < d <= _AXES:
        return None
    n = count_samples(samples)
    some = np.unique(np.linspace(0, n - 1, min(n, _ROWS * d)).astype(np.intp))
    X = loss.features(take_samples(samples, some))
    return None if X is None else np.linalg.svd(X, full_matrices=len(X) < d)[2].T


class Correction:
    """A gradient over all samples at an earlier point, by which gradients of batches are corrected.

    The gradient of a batch less its gradient at that point, plus the one over all samples there: noise and bias are
    those of a difference, and vanish as the points approach. It is taken anew when as many samples have been drawn as
    there are. Of the points where that was done the one with the least value is what a run returns unless its last
    point is better; how far above it the values at the last of them are tells whether the run has settled. A run goes
    back to it from a point that has lost more than half of what was gained on the start; after the j-th time not
    before 2^j passes, as noise alone may lead upwards for a while.
    """

    STATE = ("drawn", "returns", "patience", "value", "first", "recent", "point", "gradient", "best", "slope")

    def __init__(self, size: int, d: int) -> None:
        self.size = size
        self.drawn = 0  # samples since it was taken; 0 before the first time
        self.point: Floats = np.zeros(d)
        self.gradient: Floats = np.zeros(d)
        self.best: Floats = np.zeros(d)
        self.slope: Floats = np.zeros(d)  # the gradient at the best
        self.value = self.first = math.inf  # at the best, and at the start
        self.returns, self.patience = 0, 1  # how often the run went back, and passes until it may again
        self.recent: Floats = np.full(_RECENT, -math.inf)  # values at the last passes; -inf before there were so many

    @property
    def due(self) -> bool:
        """Whether it is to be taken (anew)."""
        return self.drawn == 0 or self.drawn > self.size

    def take(self, theta: Floats, value: float, gradient: Floats) -> bool:
        """Remember value and gradient over all samples at theta; say whether this is the best so far."""
        self.point, self.gradient, self.drawn = theta, gradient, 1
        self.recent = np.append(self.recent[1:], value)
        if self.first == math.inf:
            self.first = value
        if value >= self.value:
            return False
        self.best, self.slope, self.value = theta, gradient, value
        return True

    def go_back(self, value: float) -> bool:
        """Whether to go back to the best point, which is then where the gradient is taken to be."""
        self.patience -= 1
        if self.patience > 0 or not value > 0.5 * (self.first + self.value):
            return False
        self.point, self.gradient = self.best, self.slope
        self.returns += 1
        self.patience = 2**self.returns
        return True

    def unsettled(self, value: float) -> float | None:
        """The median of the values at the last passes, where it is well above that of the point returned."""
        median = float(np.median(self.recent))
        scale = max(abs(value), self.first - value)
        return median if median - value > _SETTLED * scale else None
