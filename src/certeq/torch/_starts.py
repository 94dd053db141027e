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


def tail_of(utility: Utility) -> float | None:
    """The mass above the quantile near which t* lies, where slopes are bounded; None where they are not."""
    least, most = utility.slope_range
    return (1.0 - least) / (most - least) if most - least < math.inf and least < 1.0 < most else None


def rank_of(size: int, tail: float) -> int:
    """Where the upper quantile stands among so many losses in rising order."""
    return size - 1 - min(int(size * tail * (1 + 4 * _EPS)), size - 1)


def near_quantile(parted: Floats, centre: float, tail: float, anchor: float) -> float:
    """A start for losses less ``centre``, the quantile at which ``parted`` is partitioned: t* lies near it."""
    size = parted.shape[0]
    place = rank_of(size, tail)
    if size * tail - (size - 1 - place) < 1e-9 and place < size - 1:
        # A whole number of losses in the tail: t lies between two of them.
        return 0.5 * float(parted[place + 1 :].min() - centre)
    return -0.5 * anchor


def upper_quantile(z: Floats, weights: Floats, tail: float) -> float:
    """The least loss of positive weight with mass above it at most ``tail``."""
    order = np.argsort(-z)
    order = order[weights[order] > 0]
    before = np.cumsum(weights[order]) - weights[order]
    return float(z[order[int(np.count_nonzero(before <= tail * (1 + 4 * _EPS))) - 1]])
