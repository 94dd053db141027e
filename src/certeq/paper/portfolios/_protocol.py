"""What is run for a market: which rows, how long, from how many starts; and the figures they are judged by."""

from __future__ import annotations

from typing import Any

from certeq.paper._experiment import Job
from certeq.paper._fits import STEPS
from certeq.paper._panels import Panel
from certeq.report import METRICS

BENCHMARKS = ("hrp", "equal", "sharpe")
OCES = ("entropic", "cvar", "leaky", "smooth", "mv", "mmv", "quartic")
QUICK_STEPS = {"cvar": 5_000}
KEYS = tuple(metric.key for metric in METRICS)
SHORT = ("Return", "Gini MD", "CVaR", "EVaR", "CDaR", "Sharpe", "Sortino")
LARGE = 500  # assets
Fit = dict[str, Any]
Fits = dict[str, Fit]


def steps_of(row: str, quick: bool) -> int:
    """How long OCE-SG runs for a row; a quick run stops early, and says so."""
    return QUICK_STEPS.get(row, 1_000) if quick else STEPS


def is_large(panel: Panel) -> bool:
    """Whether a start takes half a minute rather than a second."""
    return bool(panel.train.shape[1] > LARGE)


def starts_of(panel: Panel, job: Job) -> int:
    """Random starts: one for each seed; two at least, for a spread, and fewer where each takes half a minute."""
    wanted = max(2, job.seeds)
    if not is_large(panel):
        return wanted
    return min(wanted, 2 if job.quick or panel.synthetic else 5)


def start_items(panel: Panel, rows: tuple[str, ...], job: Job) -> list[dict[str, Any]]:
    """OCE-SG from random starts, as arguments of `fit_sg`; the same for every experiment, so that each is run once."""
    where = {"panel": panel.key, "digest": panel.digest, "snapshots": False}
    return [
        {**where, "row": row, "steps": steps_of(row, job.quick), "start": seed}
        for row in rows for seed in range(starts_of(panel, job))
    ]  # fmt: skip


def figures_of(fit: Fit, keys: tuple[str, ...] = KEYS) -> list[float]:
    """The held-out figures of a fit in the order of the tables."""
    return [float(fit["metrics"][key]) for key in keys]
