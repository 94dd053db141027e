"""Slopes on logarithmic axes, and how sure they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def slope(x: Any, y: Any) -> float:
    """Slope of a straight line through the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def jackknife(x: Any, runs: NDArray[np.float64]) -> float:
    """Standard error of the slope of the mean over runs (runs, points): leave out one run at a time."""
    count = len(runs)
    if count < 2:
        raise ValueError(f"a standard error needs at least 2 runs, found {count}.")
    total = runs.sum(axis=0)
    slopes = np.array([slope(x, (total - one) / (count - 1)) for one in runs])
    return float(math.sqrt((count - 1) * slopes.var()))
