"""Whether one portfolio did better than another by more than the luck of the days: a paired bootstrap of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from certeq.paper._panels import Panel
from certeq.report import METRICS
from certeq.report._intervals import BLOCK, stationary_places

REPLICATES = 500
_MEASURES = {metric.key: metric.of for metric in METRICS}


@dataclass(frozen=True)
class Difference:
    """In annualised return and in Sharpe ratio, each with a 95 % interval."""

    mean: float
    mean_low: float
    mean_high: float
    sharpe: float
    sharpe_low: float
    sharpe_high: float


def against(panel: Panel, weights: Any, other: Any) -> Difference:
    """The held-out figures of one portfolio less those of another, both on the same resampled days."""
    one, two = panel.held_out(weights), panel.held_out(other)
    places = stationary_places(one.size, REPLICATES, BLOCK, np.random.default_rng(0))
    found: list[float] = []
    for key in ("annualized_mean", "annualized_sharpe_ratio"):
        of = _MEASURES[key]
        drawn = of(one[places]) - of(two[places])
        found.append(float((of(one[None, :]) - of(two[None, :]))[0]))
        found += [float(end) for end in np.quantile(drawn, [0.025, 0.975])]
    return Difference(*found)
