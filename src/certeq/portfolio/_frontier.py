"""The efficient frontier: what a sweep over target returns found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from skfolio import Population, Portfolio

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Frontier:
    """Portfolios of least risk for rising target returns, from the least risk of all to the largest return.

    Attributes
    ----------
    weights : array (n, assets)
        One portfolio per row.
    expected_returns, risks : array (n,)
        Per period, net of costs and fees; the risk is OCE.
    gaps : array (n,)
        A proved bound on how far each risk is above the least possible at its target.
    names : array of str or None
        The assets.

    Notes
    -----
    Not a promise for other days: returns and risks are those of the days it was fitted on.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> X = np.random.default_rng(0).normal([0.0004, 0.0008], [0.01, 0.02], size=(300, 2))
    >>> found = MinimumOCE(ce.CVaR(0.05)).efficient_frontier(X, n=5)
    >>> len(found), bool(np.all(np.diff(found.risks) >= 0)), bool(found.gaps.max() < 1e-9)
    (5, True, True)
    """

    weights: Floats
    expected_returns: Floats
    risks: Floats
    gaps: Floats
    names: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.risks)

    def population(self, X: Any, **portfolio_params: Any) -> Population:
        """The portfolios on returns X, as a skfolio Population; keywords go to each `Portfolio`."""
        return Population(
            [Portfolio(X=X, weights=w, name=f"frontier {i}", **portfolio_params) for i, w in enumerate(self.weights)]
        )

    def __repr__(self) -> str:
        if not len(self):
            return "Frontier(empty)"
        r, x = self.expected_returns, self.risks
        return (
            f"Frontier({len(self)} portfolios, return {r[0]:.4g} to {r[-1]:.4g}, risk {x[0]:.4g} to {x[-1]:.4g}, "
            f"largest gap {self.gaps.max():.2g})"
        )
