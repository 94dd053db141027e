"""Paired differences: their mean, their spread, a t-test and the intervals that go with it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Paired:
    """``low`` and ``high`` end the 95 % interval of the mean, ``floor`` and ``ceiling`` the 90 % one of two one-sided
    tests; ``p`` is two-sided."""

    mean: float
    deviation: float
    p: float
    low: float
    high: float
    floor: float
    ceiling: float
    count: int


def paired(difference: Floats, overlap: float = 0.0) -> Paired:
    """The t-test that paired differences are 0 on average.

    Over random splits the test sets overlap; ``overlap`` = n_test/n_train widens the error accordingly (Nadeau and
    Bengio, 2003).
    """
    from scipy.stats import t

    k = len(difference)
    if k < 2:
        raise ValueError(f"a paired test needs at least 2 differences, found {k}.")
    mean, deviation = float(np.mean(difference)), float(np.std(difference, ddof=1))
    error = deviation * math.sqrt(1.0 / k + overlap)
    if error == 0.0:
        return Paired(mean, 0.0, 1.0 if mean == 0.0 else 0.0, mean, mean, mean, mean, k)
    wide, narrow = (error * float(t.isf(tail, k - 1)) for tail in (0.025, 0.05))
    p = float(2.0 * t.sf(abs(mean) / error, k - 1))
    return Paired(mean, deviation, p, mean - wide, mean + wide, mean - narrow, mean + narrow, k)
