"""Where the search for the shortfall of one vector begins: the closer, the fewer evaluations of the utility follow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.utilities import Utility

Floats = NDArray[np.floating[Any]]
Mean = Callable[[Floats], float]
_EPS = 2.0**-52


def first_guess(z: Floats, ranked: Floats | None, weights: Floats | None, mean: Mean, utility: Utility) -> float:
    """A t near the shortfall of the losses z, whose greatest is 0; ``ranked`` is z in rising order, or None.

    None where it is long, or weighted.
    """
    anchor = utility.anchor
    least, most = utility.slope_range
    if not (most - least < math.inf and least < 1.0 < most):
        return mean(z) - anchor
    return near_quantile(z, ranked, weights, (1.0 - least) / (most - least), anchor)


def near_quantile(z: Floats, ranked: Floats | None, weights: Floats | None, tail: float, anchor: float) -> float:
    """A bounded slope acts like CVaR's, so its search starts near a quantile."""
    if weights is not None:
        return upper_quantile(z, weights, tail) - 0.5 * anchor
    size = z.shape[0]
    rank = size * tail
    k = min(int(rank), size - 1)
    parted = np.partition(z, size - 1 - k) if ranked is None else ranked
    at = float(parted[size - 1 - k])
    if rank - k < 1e-9 and k > 0:  # a whole number of losses in the tail: t lies between two of them
        above = float(parted[size - k :].min() if ranked is None else parted[size - k])
        return 0.5 * (at + above)
    return at - 0.5 * anchor


def upper_quantile(z: Floats, weights: Floats, tail: float) -> float:
    """The least loss of positive weight with mass above it at most ``tail``."""
    order = np.argsort(-z)
    order = order[weights[order] > 0]
    before = np.cumsum(weights[order]) - weights[order]
    return float(z[order[int(np.count_nonzero(before <= tail * (1 + 4 * _EPS))) - 1]])
