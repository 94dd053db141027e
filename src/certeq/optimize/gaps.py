"""A gap is the difference of a value and a proved lower bound; one below 0 is a contradiction, never a gap of 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def proved_gap(value: float, lower: float, allowance: float = 0.0) -> float:
    """Return ``value - lower + allowance``, how far the value can be above the minimum.

    ``allowance`` bounds the rounding errors of both numbers that ``lower`` does not allow for already. It is part of
    the gap, because the value may be that much higher than it was computed.

    Raises
    ------
    RuntimeError
        Where the value lies below the bound by more than the allowance. One of the two is then wrong, whatever the
        input was, so that neither may be returned.

    Examples
    --------
    >>> proved_gap(1.5, 1.25)
    0.25
    >>> proved_gap(1.0, 1.25)
    Traceback (most recent call last):
    ...
    RuntimeError: internal contradiction: ... This is a defect of certeq, not of the input; please report it ...
    """
    gap = value - lower + allowance
    if gap < 0.0:
        raise RuntimeError(
            f"internal contradiction: the value {value!r} lies below the proved lower bound {lower!r}, by "
            f"{lower - value:.3g} where rounding explains {allowance:.3g}. This is a defect of certeq, not of the "
            "input; please report it with the data."
        )
    return math.inf if math.isnan(gap) else gap


def violation_cost(y: Any, z: Any, equal: Any, below: Any) -> float:
    """By how much a point that keeps its rows to rounding only can lie below every point that keeps them exactly.

    With multipliers y of C v = c and z >= 0 of G v <= b, and the residuals C v - c and G v - b of the point, a lower
    bound of the value over the set is lower by y.(C v - c) and z.(G v - b)^+ at most where the point itself is.
    """
    return float(np.abs(y) @ np.abs(equal) + np.maximum(z, 0.0) @ np.maximum(below, 0.0))
