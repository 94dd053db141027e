"""Paths of optimal portfolios: the frontier between risk and return, and the effect of the risk parameter."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from certeq.report._study import Sweep
from certeq.utilities import Utility

if TYPE_CHECKING:
    import pandas as pd

Tick = Callable[[], None]


def _silent() -> None:
    """No progress to show."""


def frontier(estimator: Any, returns: pd.DataFrame, *, points: int = 20) -> Sweep:
    """Portfolios of least OCE for rising mean returns, from the least risk of all to the largest return."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of points that are not quite optimal; the gap says how far
        found = estimator.efficient_frontier(returns, n=points)
    gap = float(np.max(found.gaps))
    return Sweep("mean return", np.asarray(found.expected_returns), np.asarray(found.weights), gap=gap)


def sensitivity(
    estimator: Any,
    returns: pd.DataFrame,
    cases: Sequence[tuple[float, Utility]],
    *,
    label: str,
    current: float | None = None,
    tick: Tick = _silent,
) -> Sweep:
    """The optimal weights for each value of a risk parameter: ``cases`` pairs the value with its utility."""
    from sklearn.base import clone

    rows, gaps = [], []
    for _, utility in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = clone(estimator).set_params(utility=utility).fit(returns)
        rows.append(np.asarray(fitted.weights_, dtype=np.float64))
        gaps.append(float(fitted.gap_))
        tick()
    places = np.array([place for place, _ in cases], dtype=np.float64)
    return Sweep(label, places, np.array(rows), current, max(gaps))
