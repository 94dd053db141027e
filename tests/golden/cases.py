"""What the record holds: 25 hostile samples under 20 utilities, long and short, and 60 exact problems.

Each case is a name and a function that answers with plain numbers. Only this file touches the inside of the library:
where samples or panels are read by another class one day, the two counting classes here follow, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any
from unittest import mock

import numpy as np

import certeq as ce
from certeq._table import ArrayTable
from certeq.optimize.exact import _panel as blocks
from certeq.risk._long import solve_long
from tests.blocks import Counted, reads_of
from tests.conftest import UTILITIES
from tests.problems import HARD, hostile_samples

Entry = dict[str, Any]

LENGTH = 70_000  # more than the 2**16 from which on a sample is read in blocks
EVERY = 70  # of the losses, one in so many is solved in memory, rows at once

_ONE = 0.5 * ce.LeakyCVaR(0.1) + 0.5 * ce.CVaR(0.1)  # its kink is off 0 once it is normalized
_THREE = ce.utility(
    lambda x: 0.3 * x + 0.5 * np.maximum(x + 1.75, 0) + 0.7 * np.maximum(x + 1, 0) + 1.5 * np.maximum(x - 0.5, 0),
    name="three_kinks",
)
_NOT = ("entropic_leaky", "smooth", "entropic_mean", "steep_quartic", "variance_mmv", "custom", "leaky.05", "mmv10")
RISKS: dict[str, ce.Utility] = {name: utility for name, utility in HARD.items() if name not in _NOT} | {
    "cvar": ce.CVaR(0.05),
    "entropic": ce.Entropic(1.0),
    "mean_variance": ce.MeanVariance(0.5),
    "mmv": ce.MonotoneMeanVariance(2.5),
    "nested": _ONE.normalized().scaled(0.16344793837667065),
    "nested_sum": (0.5 * _THREE.scaled(1.18).normalized() + 0.3 * ce.Entropic(0.5) + 0.2 * _ONE)
    .normalized()
    .scaled(3.7),
}


# -- samples -----------------------------------------------------------------------------------------------------------


@cache
def samples() -> dict[str, np.ndarray]:
    return hostile_samples(LENGTH)


def weights_of(utility: str) -> np.ndarray | None:
    """Whole numbers from 0 to 3 for every third utility."""
    return (
        np.random.default_rng(4).integers(0, 4, LENGTH).astype(float) if list(RISKS).index(utility) % 3 == 0 else None
    )


def long_sample(sample: str, utility: str) -> Entry:
    """Value and reads of one long sample; the scale is the size of what is averaged, wherever the losses lie."""
    z, w, u = samples()[sample], weights_of(utility), RISKS[utility]
    solved, reads = reads_of(lambda: solve_long(Counted(z, w), u))
    counted = slice(None) if w is None else w > 0
    with np.errstate(over="ignore", under="ignore"):
        parts = np.abs(u.value(z[counted] - solved.center - solved.s))
    scale = float(np.average(parts, weights=None if w is None else w[counted]))
    return {"value": solved.value, "reads": reads, "scale": scale}


def short_samples(utility: str) -> dict[str, Entry]:
    """Values of 1,000 losses of every sample, as rows of one array."""
    u, rows = RISKS[utility], np.stack([z[::EVERY] for z in samples().values()])
    w = weights_of(utility)
    w = None if w is None else w[::EVERY]
    values, at = ce.oce(rows, u, w, axis=1), ce.threshold(rows, u, w, axis=1)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        parts = np.abs(u.value(rows - at[:, None]))
    scales = np.average(parts, axis=1) if w is None else np.average(parts[:, w > 0], axis=1, weights=w[w > 0])
    return {
        name: {"value": float(value), "scale": float(scale)}
        for name, value, scale in zip(samples(), values, scales, strict=True)
    }


# -- exact problems ----------------------------------------------------------------------------------------------------

DOMAINS: dict[str, Callable[[int], ce.Domain]] = {
    "simplex": lambda d: ce.Simplex(),
    "long_short": lambda d: ce.LongShort(0.5),
    "capped": lambda d: ce.CappedSimplex(upper=2.5 / d),
    "rows": lambda d: ce.Polyhedron(
        lower=0.0,
        C=np.ones((1, d)),
        c=[1.0],
        A=np.stack([np.arange(d) < d // 2, -(np.arange(d) % 2)]).astype(float),
        b=[0.4, -0.1],
    ),
    "box": lambda d: ce.Box(np.linspace(-0.2, 0.3, d), np.linspace(0.4, 1.0, d)),
    "l1_ball": lambda d: ce.L1Ball(0.8, center=np.full(d, 1.0 / d)),
}
PROBLEM_RISKS: dict[str, ce.Utility] = {
    "cvar": ce.CVaR(0.05),
    "entropic": ce.Entropic(0.5),
    "two_cvars": 0.5 * ce.CVaR(0.02) + 0.5 * ce.CVaR(0.3),
    "nested": _ONE.normalized().scaled(0.16344793837667065),
    "three_kinks": _THREE.normalized().scaled(0.37),
    "two_kinks": UTILITIES["two_kinks"],
    "two_kinks_scaled": UTILITIES["two_kinks"].scaled(0.43),
    "entropic_cvar": 0.5 * ce.Entropic(0.5) + 0.5 * ce.CVaR(0.2),
    "nested_sum": (0.5 * ce.Entropic(0.5) + 0.3 * ce.CVaR(0.1) + 0.2 * _THREE.scaled(0.6)).normalized().scaled(1.7),
    "mmv_cvar": 0.3 * ce.MonotoneMeanVariance(3) + 0.7 * ce.CVaR(0.05),
    "smooth": ce.SmoothCVaR(0.1),
    "sharp": ce.SmoothCVaR(0.05, 0.01),
    "quartic_scaled": ce.Quartic().scaled(2.0),
    "mean_variance": ce.MeanVariance(0.5),
    "mmv2.5": ce.MonotoneMeanVariance(2.5),
}
TABLES: dict[str, dict[str, tuple[int, int]]] = {
    "memory": {"normal": (200, 5), "tails": (1500, 20), "cents": (300, 6), "wide": (80, 150), "weighted": (800, 8)},
    "panel": {"normal": (3000, 5), "tails": (40_000, 8), "cents": (2500, 6), "wide": (1200, 40), "weighted": (4000, 8)},
}


def names() -> list[str]:
    """60 problems: every table with every domain, the utilities in turn."""
    found = []
    for storage, tables in TABLES.items():
        for i in range(len(tables) * len(DOMAINS)):
            parts = (
                list(tables)[i % 5],
                list(DOMAINS)[i % 6],
                list(PROBLEM_RISKS)[(i + 7 * (storage == "panel")) % 15],
            )
            found.append(" ".join((storage, *parts)))
    return found


def table_of(kind: str, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray | None]:
    """Losses of the named kind, deviations about 1, and the weights of the rows."""
    rng = np.random.default_rng([shape[0], shape[1]])
    losses = rng.standard_normal(shape)
    if kind == "tails":
        losses = rng.standard_t(4, size=shape) + 0.7 * rng.standard_t(4, size=(shape[0], 1))
    elif kind == "cents":
        losses = np.round(losses, 1)
    losses = losses * rng.uniform(0.5, 1.5, shape[1]) + rng.normal(0.0, 0.2, shape[1])
    if kind != "weighted":
        return losses, None
    w = rng.uniform(0.0, 1.0, shape[0])
    w[::7] = 0.0
    return losses, w


class CountedPanel(ArrayTable):
    """Counts how often it is read."""

    reads = 0

    def reduce(self, *args, **kwargs):
        type(self).reads += 1
        return super().reduce(*args, **kwargs)

    def with_weights(self, weights):
        return type(self)(self.values, np.asarray(weights))


def exact_problem(name: str) -> Entry:
    """Value, certificate and cost of one of the 60 problems."""
    storage, kind, domain, utility = name.split()
    losses, w = table_of(kind, TABLES[storage][kind])
    CountedPanel.reads = 0
    loss = ce.LinearLoss(CountedPanel(losses) if storage == "panel" else losses)
    with mock.patch.object(blocks, "_WHOLE", 0):  # else panels of this size would be read as a whole
        found = ce.minimize(loss, PROBLEM_RISKS[utility], domain=DOMAINS[domain](losses.shape[1]), weights=w)
    scale = max(abs(found.value), float(np.abs(found.theta) @ losses.std(axis=0)))
    entry: Entry = {"value": found.value, "scale": scale, "gap": found.gap / scale}
    entry |= {"iterations": found.iterations, "status": found.status}
    return entry | {"reads": CountedPanel.reads} if storage == "panel" else entry
