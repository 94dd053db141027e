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
    """Portfolios of least OCE for rising mean returns, from the least risk of all to the largest return.

    Not judged on days held out: every point is optimal on the days it was fitted on, and flattered by them.

    Examples
    --------
    >>> import numpy as np, pandas as pd, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> from certeq.report import frontier
    >>> days = pd.bdate_range("2024-01-01", periods=120)
    >>> returns = pd.DataFrame(np.random.default_rng(0).normal(0.0005, [0.01, 0.02], (120, 2)), days, ["A", "B"])
    >>> path = frontier(MinimumOCE(ce.CVaR(0.1)), returns, points=4)
    >>> path.weights.shape, bool(path.gap < 1e-9)
    ((4, 2), True)
    """
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
    """The optimal weights for each value of a risk parameter: ``cases`` pairs the value with its utility.

    Not a way to choose the parameter: the weights are drawn, not judged.

    Examples
    --------
    >>> import numpy as np, pandas as pd, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> from certeq.report import sensitivity
    >>> days = pd.bdate_range("2024-01-01", periods=120)
    >>> returns = pd.DataFrame(np.random.default_rng(0).normal(0.0005, [0.01, 0.02], (120, 2)), days, ["A", "B"])
    >>> cases = [(alpha, ce.CVaR(alpha)) for alpha in (0.05, 0.1, 0.2)]
    >>> sensitivity(MinimumOCE(ce.CVaR(0.1)), returns, cases, label="alpha").weights.shape
    (3, 2)
    """
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
