"""The tables of a market: every row three ways, the spread over starts, the differences to the benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np

from certeq.paper._comparisons import Difference
from certeq.paper._experiment import Table
from certeq.paper._fits import ROWS
from certeq.paper._panels import MARKETS
from certeq.paper.portfolios._protocol import BENCHMARKS, KEYS, OCES, SHORT, Fit, Fits, figures_of, steps_of

Printed = dict[str, tuple[float, ...]]


def main_table(
    market: str, printed: Printed, fitted: Fits, ours: Fits, best: Fits, unweighted: Fit, quick: bool
) -> Table:
    """Each row as printed, by the paper's protocol, and at the true optimum."""
    rows: list[tuple[Any, ...]] = []
    for row in BENCHMARKS:
        rows.append((ROWS[row].title, "printed", *printed[row], None, None, None, None))
        if row in fitted:
            found = figures_of(fitted[row])
            rows.append((ROWS[row].title, "here", *found, None, None, None, _furthest(found, printed[row])))
    for row in (*OCES, "mean"):
        title, far = ROWS[row].title, None
        found, optimal = figures_of(ours[row]), figures_of(best[row])
        if row in printed:
            rows.append((title, "printed", *printed[row], None, None, None, None))
            far = (_furthest(found, printed[row]), _furthest(optimal, printed[row]))
        above = max(0.0, ours[row]["value"] - best[row]["value"])
        steps = f"OCE-SG, {steps_of(row, quick):,} steps"
        rows.append((title, steps, *found, ours[row]["value"], above, ours[row]["gap"], far and far[0]))
        if row == "cvar":
            bare = figures_of(unweighted)
            excess = max(0.0, unweighted["value"] - best[row]["value"])
            rows.append(
                (title, f"{steps}, weights as printed", *bare, unweighted["value"], excess, None,
                 _furthest(bare, printed[row]))
            )  # fmt: skip
        rows.append((title, "true optimum", *optimal, best[row]["value"], 0.0, best[row]["gap"], far and far[1]))
    head = ("Portfolio", "Row", *SHORT, "OCE (train)", "Above optimum", "Certified gap", "Furthest from print")
    title = f"{MARKETS[market].title}: each row as printed, by the paper's protocol, and at the true optimum"
    return Table("portfolios", title, head, tuple(rows))


def starts_table(spread: dict[str, Any]) -> Table:
    """OCE-SG over random starts."""
    rows: list[tuple[Any, ...]] = []
    for row, found in spread.items():
        for name, values in (
            ("mean", found.mean(axis=0)),
            ("standard deviation", found.std(axis=0, ddof=1)),
            ("least", found.min(axis=0)),
            ("most", found.max(axis=0)),
        ):
            rows.append((ROWS[row].title, name, *map(float, values)))
    title = f"OCE-SG from {len(next(iter(spread.values())))} random starts"
    return Table("starts", title, ("Portfolio", "Over the starts", *SHORT), tuple(rows))


def difference_table(differences: dict[tuple[str, str, str], dict[str, Difference]]) -> Table:
    """OCE portfolios less benchmarks on the held-out days; keys are (row, "protocol" or "optimum", benchmark)."""
    rows: list[tuple[Any, ...]] = []
    for (row, which, other), by_key in differences.items():
        cells = [x for d in by_key.values() for x in (d.value, d.low, d.high)]
        rows.append((ROWS[row].title, which, ROWS[other].title, *cells))
    keys = list(next(iter(differences.values())))
    names = [SHORT[KEYS.index(key)] for key in keys]
    head = ("Portfolio", "By", "Less", *(f"{name}{tail}" for name in names for tail in ("", ", low", ", high")))
    title = "OCE portfolios less benchmarks, held out, with paired 95 % bootstrap intervals"
    return Table("differences", title, head, tuple(rows))


def _furthest(found: Any, printed: tuple[float, ...]) -> float:
    return float(np.max(np.abs(np.asarray(found) - printed)))
