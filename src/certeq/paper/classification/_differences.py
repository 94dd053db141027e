"""Every network less the risk-neutral one and less each benchmark, in pairs: over seeds, and over splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.paper._paired import Paired, paired
from certeq.paper.classification._data import METRICS, NEUTRAL

OVERLAP = 3.0 / 7.0  # test over training patients: random splits share both
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """Over seeds on the paper's split, over other splits with a seed each, and the share of seeds above 0."""

    seeds: Paired
    splits: Paired
    above: float


def differences(
    last: dict[tuple[str, str], Floats], benchmarks: dict[str, Floats], seeds: int
) -> dict[tuple[str, str, str, str], Difference]:
    """By activation, loss, what it is compared with, and metric.

    ``last`` holds scores of (seeds, then splits) for each network; ``benchmarks`` those of (the paper's split, then the
    same splits): without randomness of their own, one row serves all seeds.
    """
    found = {}
    for (bend, loss), values in last.items():
        if loss == NEUTRAL:
            continue
        others: dict[str, Any] = {NEUTRAL: last[bend, NEUTRAL]}
        for name, scores in benchmarks.items():
            others[name] = np.vstack([np.repeat(scores[:1], seeds, axis=0), scores[1:]])
        for other, theirs in others.items():
            for column, metric in enumerate(METRICS):
                part = values[:, column] - theirs[:, column]
                found[bend, loss, other, metric] = Difference(
                    paired(part[:seeds]), paired(part[seeds:], OVERLAP), float((part[:seeds] > 0).mean())
                )
    return found
