"""Deep ensembles: several mean-variance networks, read as one mixture of Gaussians."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from certeq.learn._checks import check_count
from certeq.learn._mve import MVERegressor


class DeepEnsembleRegressor(RegressorMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Networks that differ in their seeds; their mixture has

    .. math:: m = \frac1K \sum_k m_k, \qquad \sigma^2 = \frac1K \sum_k (\sigma_k^2 + m_k^2) - m^2.

    Parameters
    ----------
    estimator : MVERegressor, optional
        One member, with the utility it is trained on; by default tanh (50, 50), Adam 1e-2, 150 epochs, burn-in 20 and
        batches of 100, the paper's benchmark.
    n_members : int
        How many.
    random_state : int, RandomState or None
        Gives each member its own seed.

    Attributes
    ----------
    members_ : list of MVERegressor
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    Not for a first look: it costs as many fits as it has members.

    Examples
    --------
    >>> from certeq.learn import DeepEnsembleRegressor, MVERegressor, toy_heteroscedastic
    >>> data = toy_heteroscedastic()
    >>> model = DeepEnsembleRegressor(MVERegressor(epochs=10), n_members=2, random_state=0)
    >>> mean, std = model.fit(data.X_train, data.y_train).predict(data.X_test, return_std=True)
    >>> mean.shape, std.shape
    ((50,), (50,))
    """

    def __init__(self, estimator: Any = None, *, n_members: int = 5, random_state: Any = None) -> None:
        self.estimator = estimator
        self.n_members = n_members
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> DeepEnsembleRegressor:
        """Fit every member on all of X (n, d) and y (n,)."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        member = self.estimator
        if member is None:
            member = MVERegressor(hidden_sizes=(50, 50), learning_rate=1e-2, epochs=150, burn_in=20)
        if not isinstance(member, MVERegressor):
            raise TypeError(f"estimator must be an MVERegressor, which predicts deviations too; found {member!r}.")
        rng = check_random_state(self.random_state)
        self.members_ = []
        for _ in range(check_count("n_members", self.n_members)):
            one = clone(member).set_params(random_state=int(rng.randint(2**31 - 1)))
            self.members_.append(one.fit(X, y, sample_weight))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mixture's mean, and with ``return_std`` its standard deviation too."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        pairs = [member.predict(X, return_std=True) for member in self.members_]
        means, stds = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
        mean = means.mean(axis=0)
        if not return_std:
            return mean
        # The spread of the means about their own mean: no cancellation where they nearly agree.
        return mean, np.sqrt(np.square(stds).mean(axis=0) + means.var(axis=0))
