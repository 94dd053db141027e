"""Steps that need no constants: their length is a distance covered so far over a sum of gradients met so far.

With weights w_k = k^p, p = 2 where OCE is convex and 0 where it is not known to be, and r_k the largest distance from
the start so far, at least a part of the feasible set's diameter (of 1 + norm(theta0) where it has none) and never above
it,

    alpha_k = r_k w_k / max(sqrt(S_{k-1}), w_k norm(g_k)),   S_k = sum_{i <= k} w_i^2 norm(g_i)^2

`DistanceSteps` takes such steps; averages of its iterates have the rates of docs/theory/rates.rst. `AcceleratedSteps`
takes gradients at a running mean of its iterates and expects each gradient to be like the last, which pays where they
are: on full batches, and on a fixed set of samples whose gradient over all of it corrects that of a batch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from certeq.optimize.domains._base import Stepper
from certeq.optimize.losses._base import Floats
from certeq.optimize.sg._checkpoint import Damaged

POWER = 2  # of k in the weights where OCE is convex, and of the weights of averages where it is not


class AdaptiveSteps(ABC):
    """What both have in common: weights, the largest distance so far, and the sum of squared gradients."""

    #: the first distance, as a part of the diameter and of 1 + norm(theta0): noise makes a short one grow slowly
    parts: ClassVar[tuple[float, float]] = (0.1, 0.01)

    def __init__(self, theta: Floats, diameter: float, power: int) -> None:
        self.start, self.diameter, self.power = theta, diameter, power
        bounded, free = self.parts
        self.first = bounded * diameter if diameter < math.inf else free * (1.0 + float(np.linalg.norm(theta)))
        self.distance = self.first
        self.total = 0.0  # S
        self.step = self.weight = 0.0  # of the last iteration

    @abstractmethod
    def move(self, k: int, theta: Floats, gradient: Floats, project: Stepper) -> Floats:
        """Return where the next gradient is to be taken, after the one at theta."""

    def _reach(self, theta: Floats) -> None:
        self.distance = min(max(self.distance, float(np.linalg.norm(theta - self.start))), self.diameter)

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Floats]:
        """Return what the next iteration depends on."""
        return {"numbers": np.array(self._numbers()), "vectors": np.array(self._vectors()).reshape(-1, self.start.size)}

    def restore(self, state: dict[str, Floats]) -> None:
        """Put back what `state` returned, as it was found in a checkpoint."""
        numbers, vectors = state.get("numbers"), state.get("vectors")
        here = self.state()
        if numbers is None or vectors is None or any(state[name].shape != here[name].shape for name in here):
            raise Damaged("the state of its steps is incomplete")
        if not (np.isfinite(numbers).all() and (numbers >= 0.0).all() and np.isfinite(vectors).all()):
            raise Damaged("the state of its steps is not finite")
        self._put_back(numbers.tolist(), vectors)

    def _numbers(self) -> list[float]:
        return [self.distance, self.total]

    def _vectors(self) -> list[Floats]:
        return []

    def _put_back(self, numbers: list[float], vectors: Floats) -> None:
        self.distance, self.total = numbers[:2]


class DistanceSteps(AdaptiveSteps):
    """theta_k = project(theta_{k-1} - alpha_k g_k), alpha_k known before g_k is unless that would be a long step."""

    def move(self, k: int, theta: Floats, gradient: Floats, project: Stepper) -> Floats:
        """Return the next iterate; ``weight`` is then that of theta in the average."""
        weight, square = float(k) ** self.power, float(np.dot(gradient, gradient))
        if self.total == 0.0:
            self.total = square
        # No step is longer than the distance, whatever a gradient; without one there is nothing to divide by.
        scale = math.sqrt(max(self.total, weight * weight * square))
        self.step = self.distance * weight / scale if scale > 0.0 else self.distance
        self.weight = self.distance * weight if self.power else float(k) ** POWER
        after = project(theta - self.step * gradient, theta)
        if k > 1:
            self.total += weight * weight * square
        self._reach(after)
        return after


class AcceleratedSteps(AdaptiveSteps):
    r"""Optimistic steps with gradients at the mean x of the iterates z, which is what is returned.

    .. math:: z_k = \Pi(y_{k-1} - \alpha_k g_{k-1}), \quad x_k = x_{k-1} + \tfrac{r_k w_k}{W_k} (z_k - x_{k-1}), \quad
              y_k = \Pi(y_{k-1} - \alpha'_k g_k), \qquad W_k = \sum_{i \le k} r_i w_i

    with :math:`\alpha_k = r_k w_k/\sqrt{S_{k-1}}`, :math:`\alpha'_k = r_k w_k/\sqrt{S_k}` and S the sum of
    :math:`w_k^2 \|g_k - g_{k-1}\|^2`.
    """

    parts = (1e-3, 1e-3)  # without noise it doubles as long as it is too short

    def __init__(self, theta: Floats, diameter: float, power: int) -> None:
        super().__init__(theta, diameter, power)
        self.base, self.last = theta, np.zeros(theta.size)  # y, and the last gradient
        self.mass = self.distance  # W_1

    def move(self, k: int, theta: Floats, gradient: Floats, project: Stepper) -> Floats:
        """Return the next mean."""
        weight, change = float(k) ** self.power, gradient - self.last
        self.total += weight * weight * float(np.dot(change, change))
        scale = math.sqrt(self.total) if self.total > 0.0 else 1.0
        self.step = self.distance * weight / scale
        self.base = project(self.base - self.step * gradient, self.base)
        self.last = gradient
        self._reach(theta)
        weight = self.distance * float(k + 1) ** self.power
        self.mass += weight
        ahead = project(self.base - (weight / scale) * gradient, self.base)
        return np.asarray(theta + (weight / self.mass) * (ahead - theta))

    def return_to(self, theta: Floats) -> None:
        """Go on from theta, after steps that were too long: with the gradients met since, they will be shorter."""
        self.base, self.last, self.distance = theta, np.zeros(theta.size), self.first
        self._reach(theta)

    def _numbers(self) -> list[float]:
        return [*super()._numbers(), self.mass]

    def _vectors(self) -> list[Floats]:
        return [self.base, self.last]

    def _put_back(self, numbers: list[float], vectors: Floats) -> None:
        super()._put_back(numbers, vectors)
        self.mass, self.base, self.last = numbers[2], vectors[0], vectors[1]


class Correction:
    """A gradient over all samples at an earlier point, by which gradients of batches are corrected.

    The gradient of a batch less its gradient at that point, plus the one over all samples there: noise and bias are
    those of a difference, and vanish as the points approach. It is taken anew when as many samples have been drawn as
    there are. Of the points where that was done the one with the least value is what a run goes back to when another
    has a larger value than the start, and what it returns unless its last point is better.
    """

    def __init__(self, size: int, d: int) -> None:
        self.size = size
        self.drawn = 0  # samples since it was taken; 0 before the first time
        self.point: Floats = np.zeros(d)
        self.gradient: Floats = np.zeros(d)
        self.best: Floats = np.zeros(d)
        self.value = self.limit = math.inf  # at the best, and at the start

    @property
    def due(self) -> bool:
        """Whether it is to be taken (anew)."""
        return self.drawn == 0 or self.drawn > self.size

    def take(self, theta: Floats, value: float, gradient: Floats) -> bool:
        """Remember value and gradient over all samples at theta; say whether to go on from there."""
        self.point, self.gradient, self.drawn = theta, gradient, 1
        if self.limit == math.inf:
            self.limit = value
        if value < self.value:
            self.best, self.value = theta, value
        return value <= self.limit

    def state(self) -> dict[str, Floats]:
        """Return what the next iteration depends on."""
        numbers = np.array([self.drawn, self.value, self.limit])
        return {"passes": numbers, "points": np.array([self.point, self.gradient, self.best])}

    def restore(self, state: dict[str, Floats]) -> None:
        """Put back what `state` returned, as it was found in a checkpoint."""
        passes, points = state.get("passes"), state.get("points")
        if passes is None or points is None or passes.shape != (3,) or points.shape != (3, self.point.size):
            raise Damaged("the state of its correction is incomplete")
        if not (np.isfinite(points).all() and 0.0 <= passes[0] <= 2.0**53 and not np.isnan(passes).any()):
            raise Damaged("the state of its correction is not finite")
        self.drawn, self.value, self.limit = int(passes[0]), float(passes[1]), float(passes[2])
        self.point, self.gradient, self.best = points
