"""Whether one portfolio did better than another by more than the luck of the days: a paired bootstrap of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.paper._panels import Panel
from certeq.report import METRICS
from certeq.report._metrics import BLOCK, stationary_places

REPLICATES = 500
MEASURES = {metric.key: metric for metric in METRICS}
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """In one figure on the held-out days, with the 95 % interval and the 90 % one (of two one-sided tests)."""

    value: float
    low: float
    high: float
    floor: float
    ceiling: float


class HeldOut:
    """Portfolios of one panel on its held-out days, all resampled alike, so that any two can be compared in pairs."""

    def __init__(self, panel: Panel, keys: tuple[str, ...]) -> None:
        self._panel, self._keys = panel, keys
        self._places = stationary_places(len(panel.test), REPLICATES, BLOCK, np.random.default_rng(0))
        self._drawn: dict[bytes, dict[str, tuple[float, Floats]]] = {}

    def less(self, one: Any, two: Any) -> dict[str, Difference]:
        """The figures of one portfolio less those of another, by key."""
        mine, theirs = self._figures(one), self._figures(two)
        found = {}
        for key in self._keys:
            ends = np.quantile(mine[key][1] - theirs[key][1], [0.025, 0.975, 0.05, 0.95])
            found[key] = Difference(mine[key][0] - theirs[key][0], *map(float, ends))
        return found

    def _figures(self, weights: Any) -> dict[str, tuple[float, Floats]]:
        name = np.asarray(weights, dtype=np.float64).tobytes()
        if name not in self._drawn:
            days = self._panel.held_out(weights)
            rows = days[self._places]
            self._drawn[name] = {
                key: (float(MEASURES[key].of(days[None, :])[0]), MEASURES[key].of(rows)) for key in self._keys
            }
        return self._drawn[name]


def wanted_sign(key: str) -> float:
    """1 where more is better, -1 where less is."""
    return 1.0 if MEASURES[key].more_is_better else -1.0
