"""Steps that need no constants: their length is a distance covered so far over a sum of gradients met so far.

With weights w_k = k^p, p = 3/2 where OCE is convex and 0 where it is not known to be, and r_k the largest distance from
the start so far, at least a part of the feasible set's diameter (of 1 + norm(theta0) where it has none) and never above
it,

    alpha_k = r_k w_k / max(sqrt(S_{k-1}), w_k norm(g_k)),   S_k = sum_{i <= k} w_i^2 norm(g_i)^2

`DistanceSteps` takes such steps; averages of its iterates have the rates of docs/theory/rates.rst. `AcceleratedSteps`
(in `_accelerated`) takes gradients at a running mean of its iterates and expects each gradient to be like the last,
which pays where they are: on full batches, and on a fixed set of samples whose gradient over all of it corrects that
of a batch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from certeq.optimize.domains._base import Stepper
from certeq.optimize.losses._base import Floats

POWER = 1.5  # of k in the weights where OCE is convex: 25/24 of the least variance of a mean, soon without the start
_MEAN_POWER = 2  # of k in the weights of means where it is not


class AdaptiveSteps(ABC):
    """Base class of adaptive steps: the start, the power of k in the weights, and the last step and weight."""

    STATE: ClassVar[tuple[str, ...]]  # attributes that change during a run, for checkpoints

    def __init__(self, theta: Floats, power: float) -> None:
        self.start, self.power = theta, power
        self.step = self.weight = 0.0  # of the last iteration

    @abstractmethod
    def move(self, k: int, theta: Floats, gradient: Floats, project: Stepper) -> Floats:
        """Return where the next gradient is to be taken, after the one at theta."""


class DistanceSteps(AdaptiveSteps):
    """theta_k = project(theta_{k-1} - alpha_k g_k), alpha_k known before g_k is unless that would be a long step."""

    STATE = ("distance", "total")

    def __init__(self, theta: Floats, diameter: float, power: float) -> None:
        super().__init__(theta, power)
        self.diameter = diameter
        # Noise makes a shorter one grow slowly.
        self.distance = 0.1 * diameter if diameter < math.inf else 0.01 * (1.0 + float(np.linalg.norm(theta)))
        self.total = 0.0  # S

    def move(self, k: int, theta: Floats, gradient: Floats, project: Stepper) -> Floats:
        """Return the next iterate; ``weight`` is then that of theta in the average."""
        weight, square = float(k) ** self.power, float(np.dot(gradient, gradient))
        if self.total == 0.0:
            self.total = square
        # No step is longer than the distance, whatever a gradient; without one there is nothing to divide by.
        scale = math.sqrt(max(self.total, weight * weight * square))
        self.step = self.distance * weight / scale if scale > 0.0 else self.distance
        self.weight = self.distance * weight if self.power else float(k) ** _MEAN_POWER
        after = project(theta - self.step * gradient, theta)
        if k > 1:
            self.total += weight * weight * square
        self.distance = min(max(self.distance, float(np.linalg.norm(after - self.start))), self.diameter)
        return after
