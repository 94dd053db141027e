"""Intervals for the seven figures: a bootstrap of blocks, because calm and stormy days come in spells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certeq.report._metrics import METRICS

Floats = NDArray[np.float64]
BLOCK = 20  # days: about a trading month, longer than most spells of volatility
REPLICATES = 300
_AT_ONCE = 1 << 21  # numbers held at a time


def stationary_places(n: int, replicates: int, block: float, rng: np.random.Generator) -> NDArray[np.intp]:
    """Indices of the stationary bootstrap (Politis and Romano, 1994): blocks of geometric length, wrapped around."""
    fresh = rng.random((replicates, n)) < 1.0 / block
    fresh[:, 0] = True
    starts = rng.integers(0, n, size=(replicates, n))
    # Each day follows its predecessor unless a block starts there: start of the block + days since.
    since = np.arange(n) - np.maximum.accumulate(np.where(fresh, np.arange(n), 0), axis=1)
    begin = np.take_along_axis(starts, np.arange(n) - since, axis=1)
    return np.asarray((begin + since) % n, dtype=np.intp)


def intervals(
    returns: Floats, level: float = 0.95, *, replicates: int = REPLICATES, block: float = BLOCK, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """Percentile intervals of all seven figures of one series, by key.

    The same seed draws the same days for every strategy, so that two strategies' replicates are paired.

    Not for fewer than 60 days, where they are NaN: a few blocks cannot say how blocks vary.

    Examples
    --------
    >>> import numpy as np
    >>> from certeq.report import intervals
    >>> low, high = intervals(np.random.default_rng(0).normal(0.0005, 0.01, 250))["cvar"][-2:]
    >>> bool(low < high)
    True
    """
    n = returns.size
    if n < 3 * block:
        return {metric.key: (np.nan, np.nan) for metric in METRICS}
    rng = np.random.default_rng(seed)
    batch = max(1, min(replicates, _AT_ONCE // n))
    drawn: dict[str, list[Floats]] = {metric.key: [] for metric in METRICS}
    for start in range(0, replicates, batch):
        rows = returns[stationary_places(n, min(batch, replicates - start), block, rng)]
        for metric in METRICS:
            drawn[metric.key].append(metric.of(rows))
    ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
    found = {}
    for key, parts in drawn.items():
        low, high = np.nanquantile(np.concatenate(parts), ends) if np.isfinite(parts[0]).any() else (np.nan, np.nan)
        found[key] = (float(low), float(high))
    return found
