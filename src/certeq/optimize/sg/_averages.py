"""Which iterate is returned: the last, or a running mean of those before each step.

The theory averages the points where gradients were taken, theta_0 ... theta_{n-1}, not the ones the steps led to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from certeq.optimize.losses._base import Floats
from certeq.optimize.sg._schedules import choose


class Average(ABC):
    """A running choice of iterate."""

    def __init__(self, d: int) -> None:
        self.mean: Floats = np.zeros(d)
        self.weight = 0.0

    @abstractmethod
    def add(self, theta: Floats, step: float) -> None:
        """Take in theta_{k-1}, from which a step of length ``step`` was made."""

    def pick(self, theta: Floats) -> Floats:
        """Return the iterate to report when the current one is ``theta``."""
        return self.mean if self.weight > 0.0 else theta

    def _mix(self, theta: Floats, weight: float) -> None:
        self.weight += weight
        self.mean += (weight / self.weight) * (theta - self.mean)


class Last(Average):
    """theta_n."""

    def add(self, theta: Floats, step: float) -> None:
        """Remember nothing."""


class Mean(Average):
    """(1/n) sum_k theta_{k-1}."""

    def add(self, theta: Floats, step: float) -> None:
        """Take in theta with weight 1."""
        self._mix(theta, 1.0)


class Weighted(Average):
    """sum_k alpha_k theta_{k-1} / sum_k alpha_k, the one with a guarantee for kinked utilities."""

    def add(self, theta: Floats, step: float) -> None:
        """Take in theta with the step as its weight."""
        self._mix(theta, step)


AVERAGES: dict[str, type[Average]] = {"last": Last, "mean": Mean, "weighted": Weighted}


def make_average(average: str, d: int) -> Average:
    """Return the average called "last", "mean" or "weighted"."""
    return AVERAGES[choose("average", average, AVERAGES)](d)
