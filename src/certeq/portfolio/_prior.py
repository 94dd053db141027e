"""The default prior: the scenarios themselves, also when they arrive a few at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from skfolio.prior import EmpiricalPrior


class ScenarioPrior(EmpiricalPrior):  # type: ignore[misc]  # skfolio ships no types
    """skfolio's `EmpiricalPrior` with a `partial_fit` for every moment estimator.

    OCE is a function of all scenarios held, so an update has to look at all of them again in any case; this prior
    keeps them and fits its moments on what it keeps. (`EmpiricalPrior` itself takes updates only with moments that are
    exponentially weighted.) `fit` is that of `EmpiricalPrior`; so are the parameters.

    Parameters
    ----------
    mu_estimator, covariance_estimator, is_log_normal, investment_horizon, max_history
        As in `EmpiricalPrior`. With ``max_history=n`` the last n observations are kept.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> prior = ScenarioPrior(max_history=50).partial_fit(X[:40]).partial_fit(X[40:])
    >>> np.array_equal(prior.return_distribution_.returns, X[10:])
    True
    """

    _kept: tuple[Any, Any]

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> ScenarioPrior:
        """Fit the moments on X; what `partial_fit` kept is forgotten."""
        super().fit(X, y, **fit_params)
        self._kept = X, y
        return self

    def partial_fit(self, X: Any, y: Any = None, **fit_params: Any) -> ScenarioPrior:
        """Add observations, forget those beyond ``max_history``, and fit the moments again."""
        kept, targets = getattr(self, "_kept", (None, None))
        if kept is not None:
            if (y is None) != (targets is None):
                raise ValueError("y must be given in every call of partial_fit or in none.")
            X, y = _append("X", kept, X), None if y is None else _append("y", targets, y)
        if self.max_history is not None:
            X, y = X[-self.max_history :], None if y is None else y[-self.max_history :]
        return self.fit(X, y, **fit_params)


def _append(name: str, kept: Any, new: Any) -> Any:
    if isinstance(kept, pd.DataFrame) and isinstance(new, pd.DataFrame):
        if list(kept.columns) != list(new.columns):
            raise ValueError(f"{name} must have the columns {list(kept.columns)} as before; found {list(new.columns)}.")
        return pd.concat([kept, new])
    kept, new = np.asarray(kept), np.asarray(new)
    if kept.shape[1:] != new.shape[1:]:
        raise ValueError(f"{name} must have rows of shape {kept.shape[1:]} as before; found {new.shape[1:]}.")
    return np.concatenate([kept, new])
