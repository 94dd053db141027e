"""Where the search for the shortfall of one vector begins: the closer, the fewer evaluations of the utility follow.

A start costs NumPy calls too, so each is worth its own: power sums of the ranked losses where the slope is a power,
one exponential per loss where it is a logistic curve, a quantile where it is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certeq.utilities import Logistic, Power, Utility

Floats = NDArray[np.floating[Any]]
Mean = Callable[[Floats], float]
_EPS = 2.0**-52
DEGREES = (1.0, 2.0, 3.0)  # of powers whose sums are taken
_counts = [np.ones(0)]  # 1, 2, ... up to the size of the last batch: every batch of a training run has the same


def first_guess(z: Floats, ranked: Floats | None, weights: Floats | None, mean: Mean, utility: Utility) -> float:
    """A t near the shortfall of the losses z, whose greatest is 0; ``ranked`` is z in rising order, or None.

    None where it is long, or weighted.
    """
    curve, anchor = utility.curve, utility.anchor
    if ranked is not None and isinstance(curve, Power) and curve.degree in DEGREES:
        return power_root(ranked, curve) - anchor
    least, most = utility.slope_range
    if not (most - least < math.inf and least < 1.0 < most):
        return mean(z) - anchor
    start = near_quantile(z, ranked, weights, (1.0 - least) / (most - least), anchor)
    found = logistic_root(z, mean, curve, start + anchor, 1e-6) if isinstance(curve, Logistic) else None
    return start if found is None else found.s - anchor


def power_root(ranked: Floats, curve: Power) -> float:
    """s with  sum over i of (1 + (z_i - s)/width)^degree, positive parts only,  = n; to a few roundings.

    At s = z_m + width the sum has the m greatest losses, and power sums tell its value for every m at once: the last m
    for which it is below n is how many losses count. What is left is a polynomial in s.
    """
    size, degree, width = ranked.shape[0], int(curve.degree), curve.width
    counts = _counts[0]
    if counts.shape[0] != size:
        counts = _counts[0] = np.arange(1.0, size + 1.0)
    b = ranked[::-1] if width == 1.0 else ranked[::-1] / width
    power, sums = b, [counts, b.cumsum()]
    for _ in range(degree - 1):
        power = power * b
        sums.append(power.cumsum())
    # The sum over i <= m of (b_i - b_m)^degree; b_m itself adds nothing.
    reached = sums[1] - sums[0] * b
    if degree == 2:
        reached = sums[2] - b * (sums[1] + reached)
    elif degree == 3:
        reached = sums[3] - b * (3.0 * sums[2] - b * (2.0 * sums[1] + reached))
    m = int(reached.searchsorted(size)) - 1
    wanted = size / (m + 1.0)  # of the mean of (b_i + 1 - s/width)^degree over those that count
    moments = [float(total[m]) / (m + 1.0) for total in sums[1:]]
    return width * (1.0 + moments[0] - _lead(moments, wanted))


def _lead(moments: list[float], wanted: float) -> float:
    """x with  E (x + b - E b)^degree = wanted  for a b of the given moments."""
    if len(moments) == 1:
        return wanted
    mean, square = moments[:2]
    spread = max(square - mean * mean, 0.0)
    if len(moments) == 2:
        return math.sqrt(max(wanted - spread, 0.0))
    skew = moments[2] - mean * (3.0 * square - 2.0 * mean * mean)
    x = math.cbrt(wanted)
    for _ in range(20):  # x**3 + 3 spread x + skew = wanted, rising in x
        step = (x * (x * x + 3.0 * spread) + skew - wanted) / (3.0 * (x * x + spread) + 1e-300)
        x -= step
        if abs(step) <= 1e-14 * abs(x):
            break
    return x


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


class Sigmoid(NamedTuple):
    """A logistic curve near its root s: q = p / (p + c) is the slope over its height, and m the mean of q."""

    s: float
    p: Floats
    c: float
    q: Floats
    m: float


def logistic_root(z: Floats, mean: Mean, curve: Logistic, s: float, tolerance: float) -> Sigmoid | None:
    """Newton's method on the log-odds of the mean slope; None where it does not settle.

    With p = exp(rate z) known once, an evaluation costs a division per loss.
    """
    rate, odds = curve.rate, curve.high - 1.0
    p = np.exp(rate * z)
    for _ in range(8):
        if not -600.0 < rate * s < 600.0:
            return None
        c = odds * math.exp(rate * s)
        q = p / (p + c)
        m = mean(q)
        if abs(curve.high * m - 1.0) <= tolerance:
            return Sigmoid(s, p, c, q, m)
        rise = m - mean(q * q)
        if not (0.0 < m < 1.0 and rise > 0.0):
            return None
        s += math.log(m * odds / (1.0 - m)) * m * (1.0 - m) / (rise * rate)
    return None


def upper_quantile(z: Floats, weights: Floats, tail: float) -> float:
    """The least loss of positive weight with mass above it at most ``tail``."""
    order = np.argsort(-z)
    order = order[weights[order] > 0]
    before = np.cumsum(weights[order]) - weights[order]
    return float(z[order[int(np.count_nonzero(before <= tail * (1 + 4 * _EPS))) - 1]])
