"""The default prior: the scenarios themselves, also when they arrive a few at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from skfolio.prior import BasePrior, ReturnDistribution
from sklearn.utils.validation import validate_data

from certeq._checks import check_count


class ScenarioPrior(BasePrior):  # type: ignore[misc]  # skfolio ships no types
    """The returns as they are, each day as likely as the next.

    OCE is a function of the scenarios, so nothing else is estimated: mu is their mean, and the covariance holds their
    variances alone, which costs nothing however many assets there are.

    Not where a full covariance or other moments are needed: use skfolio's ``EmpiricalPrior``.

    Parameters
    ----------
    max_history : int, optional
        Keep the last so many observations; all of them if None.

    Attributes
    ----------
    return_distribution_ : ReturnDistribution
        Returns, their mean and their variances (as a diagonal matrix).

    See Also
    --------
    MinimumOCE
        Portfolios of least OCE, and of largest return or ratio.

    Examples
    --------
    >>> from certeq.portfolio import ScenarioPrior
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> prior = ScenarioPrior(max_history=50).partial_fit(X[:40]).partial_fit(X[40:])
    >>> np.array_equal(prior.return_distribution_.returns, X[10:])
    True
    """

    def __init__(self, max_history: int | None = None) -> None:
        self.max_history = max_history

    def fit(self, X: Any, y: Any = None) -> ScenarioPrior:
        """Take the returns X.

        Parameters
        ----------
        X : array-like (n, assets)
            Returns.
        y : Any
            Ignored.

        Returns
        -------
        ScenarioPrior
            The prior itself.
        """
        return self._take(validate_data(self, X, dtype=np.float64))

    def partial_fit(self, X: Any, y: Any = None) -> ScenarioPrior:
        """Add the returns X to those held, and forget those beyond ``max_history``.

        Parameters
        ----------
        X : array-like (n, assets)
            Returns.
        y : Any
            Ignored.

        Returns
        -------
        ScenarioPrior
            The prior itself.
        """
        if not hasattr(self, "return_distribution_"):
            return self.fit(X)
        fresh = validate_data(self, X, reset=False, dtype=np.float64)
        return self._take(np.concatenate([self.return_distribution_.returns, fresh]))

    def _take(self, returns: Any) -> ScenarioPrior:
        if self.max_history is not None:
            returns = returns[-check_count("max_history", self.max_history) :]
        variances = returns.var(axis=0, ddof=min(1, len(returns) - 1))
        self.return_distribution_ = ReturnDistribution(
            mu=returns.mean(axis=0), covariance=np.diag(variances), returns=returns
        )
        return self
