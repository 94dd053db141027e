"""What the record holds: 25 hostile samples under 20 utilities, long and short, and 60 exact problems.

Each case is a name and a function that returns plain numbers: value, gap and status, which are judged, the cost in
reads and iterations, which is shown, and the largest loss, which sets how much rounding is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import certeq as ce
from tests.blocks import Counted, reads_of, small_tables_in_blocks
from tests.problems import HARD, UTILITIES, hostile_samples

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
    """Return whole numbers from 0 to 3 for every third utility, else None."""
    return (
        np.random.default_rng(4).integers(0, 4, LENGTH).astype(float) if list(RISKS).index(utility) % 3 == 0 else None
    )


def long_sample(sample: str, utility: str) -> Entry:
    """Return value and reads of a sample that is read in blocks."""
    z, w = samples()[sample], weights_of(utility)
    value, reads = reads_of(lambda: float(ce.oce(z, RISKS[utility], w)))
    return {"value": value, "reads": reads, "largest": largest(z, w)}


def short_samples(utility: str) -> dict[str, Entry]:
    """Return the values of 1,000 losses of every sample, computed as rows of one array."""
    rows, w = np.stack([z[::EVERY] for z in samples().values()]), weights_of(utility)
    w = None if w is None else w[::EVERY]
    values = ce.oce(rows, RISKS[utility], w, axis=1)
    return {
        name: {"value": float(value), "largest": largest(z, w)}
        for name, value, z in zip(samples(), values, rows, strict=True)
    }


def largest(z: np.ndarray, w: np.ndarray | None) -> float:
    """Return the largest absolute loss of positive weight."""
    return float(np.abs(z if w is None else z[w > 0]).max())


def scale(z: np.ndarray, w: np.ndarray | None, u: ce.Utility) -> float:
    """Return the mean absolute value of u at the losses less the threshold, for a new entry of the record."""
    z, w = (z, None) if w is None else (z[w > 0], w[w > 0])
    with np.errstate(all="ignore"):
        return float(np.average(np.abs(u.value(z - ce.threshold(z, u, w))), weights=w))


def with_scale(entry: Entry, part: str, case: str) -> Entry:
    """Return an entry as the record holds it."""
    if part != "exact":
        sample, utility = case.split()
        z, w, step = samples()[sample], weights_of(utility), EVERY if part == "short" else 1
        entry = entry | {"scale": scale(z[::step], None if w is None else w[::step], RISKS[utility])}
    return {key: value for key, value in entry.items() if key != "largest"}


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
    """Return the names of 60 problems: every table with every domain, the utilities in turn."""
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
    """Return losses of the named kind, with deviations about 1, and the weights of the rows."""
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


def exact_problem(name: str) -> Entry:
    """Return value, certificate and cost of one of the 60 problems."""
    storage, kind, domain, utility = name.split()
    losses, w = table_of(kind, TABLES[storage][kind])
    loss = ce.LinearLoss(Counted(losses) if storage == "panel" else losses)
    feasible = DOMAINS[domain](losses.shape[1])
    with small_tables_in_blocks(numbers=1 << 20):
        found, reads = reads_of(lambda: ce.minimize(loss, PROBLEM_RISKS[utility], domain=feasible, weights=w))
    scale = max(abs(found.value), float(np.abs(found.theta) @ losses.std(axis=0)))
    entry: Entry = {"value": found.value, "scale": scale, "gap": found.gap / scale}
    entry |= {"iterations": found.iterations, "status": found.status, "largest": float(np.abs(losses).max())}
    return entry | {"reads": reads} if storage == "panel" else entry
