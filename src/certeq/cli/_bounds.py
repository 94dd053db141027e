"""Bounds on weights as one types them: a number for all assets, or NAME=NUMBER for one."""

from __future__ import annotations

from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from certeq.cli._console import BadData


def read_bounds(option: str, entries: list[str], default: float, assets: list[str]) -> NDArray[np.float64]:
    """One number per asset from entries such as ``0.2`` and ``AAPL=0.1``; a named one wins, wherever it stands."""
    everywhere, single = default, {}
    for entry in entries:
        name, equals, number = entry.rpartition("=")
        value = _number(option, number, entry)
        if not equals:
            everywhere = value
        elif name in assets:
            single[name] = value
        else:
            close = get_close_matches(name, assets, n=1, cutoff=0.5)
            shown = ", ".join(assets[:8]) + (", ..." if len(assets) > 8 else "")
            hint = f"Did you mean {close[0]!r}?" if close else f"The assets are {shown}."
            raise BadData(f"{option}: there is no asset {name!r}. {hint}")
    return np.array([single.get(asset, everywhere) for asset in assets])


def check_bounds(low: NDArray[np.float64], high: NDArray[np.float64], budget: float, assets: list[str]) -> None:
    """Refuse bounds that no weights can meet, and say which and what would do."""
    if (low > high).any():
        place = int(np.argmax(low > high))
        raise BadData(
            f"infeasible bounds: --min-weight {low[place]:g} exceeds --max-weight {high[place]:g} for "
            f"{assets[place]!r}."
        )
    n, slack = low.size, 1e-12 * max(1.0, abs(budget))
    if high.sum() < budget - slack:
        raise BadData(
            f"infeasible bounds: with --max-weight the {n} assets hold at most {high.sum():g} together, less "
            "than the budget "
            f"{budget:g}; one maximum for all must be at least {budget / n:.4g}."
        )
    if low.sum() > budget + slack:
        raise BadData(
            f"infeasible bounds: with --min-weight the {n} assets hold at least {low.sum():g} together, more "
            "than the budget "
            f"{budget:g}; one minimum for all must be at most {budget / n:.4g}."
        )


def _number(option: str, text: str, entry: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise BadData(f"{option} must be a number or NAME=NUMBER; found {entry!r}.") from None
    if not np.isfinite(value):
        raise BadData(f"{option} must be finite; found {entry!r}.")
    return value
