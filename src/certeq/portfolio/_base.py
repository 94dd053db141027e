"""What the optimizers here share: parameters of their utility, fitting a prior, predictions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import numpy as np
import sklearn.utils.metadata_routing as skm
from numpy.typing import ArrayLike, NDArray
from skfolio.optimization import BaseOptimization
from sklearn.base import clone

from certeq._checks import check_choice
from certeq.portfolio._inputs import Assets, align_target, check_scenarios, check_table, has_names, make_prior
from certeq.portfolio._results import annualize
from certeq.risk.solvers import check_risk
from certeq.utilities import CVaR, Risk

Floats = NDArray[np.float64]
Last = tuple[Floats | None, Floats | None]  # weights and multipliers of an earlier fit
_UTILITY = "utility__"
_DIAGNOSTICS = ("error_", "fallback_", "fallback_chain_")  # skfolio's own, which it resets itself


class BaseOCE(BaseOptimization):  # type: ignore[misc]  # skfolio ships no types
    """A skfolio optimizer whose risk is a utility or risk of this library; CVaR(0.05) if None."""

    utility: Risk | None
    prior_estimator: Any
    unknown_names: str
    warm_start: bool
    _dates: Any = None  # of the observations last fitted on

    # -- parameters of the utility --------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with ``deep`` also those of the utility, the default one included."""
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep and self.utility is None:
            params.update({_UTILITY + key: value for key, value in CVaR(0.05).get_params().items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``utility__alpha`` changes a copy, never the utility that was passed in."""
        inner = {key[len(_UTILITY) :]: params.pop(key) for key in list(params) if key.startswith(_UTILITY)}
        super().set_params(**params)
        if inner:
            utility = CVaR(0.05) if self.utility is None else clone(check_risk(self.utility))
            self.utility = utility.set_params(**inner)
        return self

    # -- fitting --------------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **fit_params: Any) -> Self:
        """Fit the prior on the returns X and find the portfolio.

        Parameters
        ----------
        X : array-like (observations, assets)
            Linear returns, one row per period, not prices.
        y : array-like, optional
            Returns of the benchmark, where there are limits against one. Passed to the prior (factors, for a factor
            model). If X and y are pandas objects, rows are matched by index: y must have every label of X, and
            its other rows are ignored. Otherwise rows are matched by position, and the lengths must agree.
        **fit_params
            Metadata routed to the prior.

        Returns
        -------
        Self
        """
        last = (self._last_weights(), getattr(self, "limit_multipliers_", None)) if self.warm_start else (None, None)
        self._forget(())
        return self._fit(X, y, "fit", last, fit_params)

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None, **fit_params: Any) -> Self:
        """Add the observations X to the prior and find the portfolio again, from the last one.

        Each call receives new observations only. The default prior takes updates; one passed in must have a
        ``partial_fit`` of its own. Parameters are those of `fit`.
        """
        last = (self._last_weights(), getattr(self, "limit_multipliers_", None))
        return self._fit(X, y, "partial_fit", last, fit_params)

    def _fit(self, X: Any, y: Any, method: str, last: Last, fit_params: dict[str, Any]) -> Self:
        routed = skm.process_routing(self, method, **fit_params)
        first = not hasattr(self, "prior_estimator_")
        seen = check_table(self, X, first)
        y = align_target(X, y)
        self._dates = getattr(X, "index", None)
        self._check_settings(method)
        if first:
            self.prior_estimator_ = make_prior(self.prior_estimator)
        fit_prior = getattr(self.prior_estimator_, method, None)
        if fit_prior is None:
            raise TypeError(f"{method} needs a prior that has it; {type(self.prior_estimator_).__name__} does not.")
        fit_prior(seen, y, **routed.prior_estimator[method])
        self._forget(("prior_estimator_", "n_features_in_", "feature_names_in_"))
        self.utility_ = CVaR(0.05) if self.utility is None else self.utility
        distribution = self._prepare_investable_distribution(self.prior_estimator_.return_distribution_, slim=True)
        check_scenarios(distribution)
        assets = Assets(
            getattr(self, "feature_names_in_", None),
            self.n_features_in_,
            self.investable_mask_,
            strict=check_choice("unknown_names", self.unknown_names, ("raise", "ignore")) == "raise",
        )
        # Errors of a batch fit reach skfolio's wrapper around `fit`; those of an update are dealt with here.
        with self._handle_optimization_errors(X, y, method=method, enabled=method == "partial_fit"):
            self._optimize(distribution, assets, y, last)
        return self

    @abstractmethod
    def _check_settings(self, method: str) -> None:
        """Refuse parameters that are wrong whatever the returns are."""

    @abstractmethod
    def _optimize(self, distribution: Any, assets: Assets, y: Any, last: Last) -> None:
        """Find the weights and record them; ``last`` are weights and multipliers to start with."""

    def _forget(self, kept: tuple[str, ...]) -> None:
        """Drop what an earlier fit found, so that a failure leaves nothing that looks like its result."""
        for name in list(vars(self)):
            if name.endswith("_") and not name.startswith("_") and name not in (*kept, *_DIAGNOSTICS):
                delattr(self, name)

    def _last_weights(self) -> Floats | None:
        weights = getattr(self, "weights_", None)
        return None if weights is None or np.ndim(weights) != 1 else np.asarray(weights)

    def predict(self, X: Any) -> Any:
        """The portfolio on returns X, or a Population where there are several.

        Its annualized figures follow the dates of X, or of what was fitted on where X is too short to tell; without
        dates they are skfolio's, of 252 days. ``portfolio_params={"annualization_factor": 12}`` overrides that.
        """
        found = super(BaseOCE, self._as_skfolio_reads()).predict(X)
        if not {"annualization_factor", "annualized_factor"} & set(self.portfolio_params or {}):
            annualize(found, X, self._dates)
        return found

    def _as_skfolio_reads(self) -> Self:
        """This model, with weights, costs and fees as skfolio's portfolios take them.

        They read a Series by position, where `fit` reads it by name, and take no single number as previous weights.
        """
        given: dict[str, Any] = {
            name: getattr(self, name, None) for name in ("previous_weights", "transaction_costs", "management_fees")
        }
        read: dict[str, Any] = {name: found.to_dict() for name, found in given.items() if has_names(found)}
        previous = given["previous_weights"]
        if previous is not None and not isinstance(previous, Mapping) and np.ndim(previous) == 0:
            read["previous_weights"] = np.full(self.n_features_in_, float(previous))
        if not read:
            return self
        model = copy(self)
        for name, value in read.items():
            setattr(model, name, value)
        return model

    def get_metadata_routing(self) -> skm.MetadataRouter:
        """Metadata of `fit` and `partial_fit` go to the prior's method of the same name."""
        mapping = skm.MethodMapping().add(caller="fit", callee="fit").add(caller="partial_fit", callee="partial_fit")
        router = skm.MetadataRouter(owner=type(self).__name__)
        return router.add(prior_estimator=self.prior_estimator, method_mapping=mapping)
