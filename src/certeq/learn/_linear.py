"""What the linear classifier and the linear regressor share: parameters, the fit, and what it reports."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from certeq.learn._checks import as_utility, check_count, check_number
from certeq.learn._objective import LinearObjective
from certeq.learn._scores import Floats, ScoreLoss
from certeq.learn._solve import solve_linear


class LinearOCE(BaseEstimator):  # type: ignore[misc]
    """A linear model whose losses are judged by an OCE. Not for use by itself."""

    utility: Any
    fit_intercept: bool
    tol: float
    max_iter: int
    warm_start: bool
    random_state: Any
    coef_: Floats
    intercept_: Any

    def _solve(
        self, X: Floats, loss: ScoreLoss, weight: Floats | None, penalty: float, middle: float, relative: bool
    ) -> Floats:
        """Fit, store what is known of the fit, and return theta (outputs, columns and the intercept).

        ``penalty`` is per unit of total weight; ``middle`` is where the intercept starts.
        """
        utility = as_utility(self.utility)
        tol, max_iter = check_number("tol", self.tol, above=0.0), check_count("max_iter", self.max_iter)
        shares, total = None, float(len(X))
        if weight is not None:
            total = float(weight.sum())
            held = weight > 0.0
            if not held.all():  # a sample without weight is no sample
                X, loss, weight = X[held], loss.take(np.flatnonzero(held)), weight[held]
            if float(weight.min()) < float(weight.max()):
                shares = weight / total
        objective = LinearObjective(X, loss, shares, utility, penalty / total, bool(self.fit_intercept))
        cold = np.zeros(objective.shape)
        if self.fit_intercept:
            cold[:, -1] = middle
        start = self._previous(objective) if self.warm_start and hasattr(self, "coef_") else None
        scale = float(np.abs(objective.evaluate(cold).gradient).max()) if relative else 1.0
        rng = check_random_state(self.random_state)
        warm = start is not None
        fitted = solve_linear(objective, cold if start is None else start, tol, max_iter, scale, rng, warm)
        if not fitted.converged:
            what = f"gap {fitted.gap:.2g}" if utility.kinks else f"gradient norm {fitted.gradient_norm:.2g}"
            warnings.warn(
                f"{type(self).__name__} stopped after {fitted.iterations} iterations with {what}, above tol. Scale the "
                "features, raise max_iter or tol, or soften the utility (utility.scaled).",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.n_iter_ = fitted.iterations
        self.gradient_norm_ = fitted.gradient_norm
        self.gap_ = fitted.gap
        self.converged_ = fitted.converged
        self.objective_ = fitted.value
        self.shortfall_ = fitted.shortfall
        return fitted.theta

    def _previous(self, objective: LinearObjective) -> Floats | None:
        coef = np.atleast_2d(self.coef_)
        intercept = np.atleast_1d(self.intercept_)[:, None]
        theta = np.hstack([coef, intercept]) if self.fit_intercept else coef
        return np.array(theta, dtype=np.float64) if theta.shape == objective.shape else None

    def _split(self, theta: Floats, columns: int) -> tuple[Floats, Floats]:
        intercept = theta[:, columns] if self.fit_intercept else np.zeros(len(theta))
        return theta[:, :columns].copy(), intercept.copy()

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(X @ np.atleast_2d(self.coef_).T + np.atleast_1d(self.intercept_))
