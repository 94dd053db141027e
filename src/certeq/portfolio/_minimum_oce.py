"""`MinimumOCE`: the portfolio of least OCE, as a skfolio optimizer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import sklearn.utils.metadata_routing as skm
from numpy.typing import ArrayLike, NDArray
from skfolio.optimization import BaseOptimization
from skfolio.prior import BasePrior
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from certeq._checks import check_choice, check_number
from certeq.portfolio._inputs import (
    Assets,
    check_scenarios,
    check_settings,
    check_table,
    make_prior,
    read_objective,
    read_problem,
    warn_of_covariance,
)
from certeq.portfolio._problem import PortfolioProblem, to_segments
from certeq.portfolio._results import Frontier, annualize
from certeq.portfolio._solve import Allocation, frontier_targets, risk_contributions, solve, sweep
from certeq.risk import UnitWarning
from certeq.risk.solvers import blindness_at, check_risk
from certeq.utilities import CVaR, Risk, Utility

Floats = NDArray[np.float64]
_UTILITY = "utility__"
_DIAGNOSTICS = ("error_", "fallback_", "fallback_chain_")  # skfolio's own, which it resets itself


def _with_hints(init: Callable[..., None]) -> Callable[..., None]:
    """A constructor that says what to write instead of parameters that skfolio's `MeanRisk` has."""

    @wraps(init)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        for name, value in given.items():
            if name == "risk_measure":
                raise TypeError(
                    f"MinimumOCE has no parameter 'risk_measure'; found {value!r}. What risk means is its utility: "
                    "MinimumOCE(ce.CVaR(0.05)), MinimumOCE(ce.Entropic(50.0)), ..."
                )
            if name in ("cvar_beta", "evar_beta", "cdar_beta", "edar_beta"):
                alpha = 1.0 - value if isinstance(value, float) and 0.0 < value < 1.0 else 0.05
                raise TypeError(
                    f"MinimumOCE has no parameter {name!r}; found {value!r}. The tail is a parameter of the utility, "
                    f"as the mass alpha = 1 - beta of the worst cases: MinimumOCE(ce.CVaR({alpha:.6g}))."
                )
        init(self, *args, **given)

    return checked


class MinimumOCE(BaseOptimization):  # type: ignore[misc]  # skfolio ships no types
    r"""Minimize the optimized certainty equivalent (OCE) of a portfolio's losses.

    .. math:: \min_w\ \mathrm{OCE}_u\big(-r_t \cdot w + f \cdot w + \textstyle\sum_j c_j |w_j - w^0_j|\big)
              + l_1 \|w\|_1 + l_2 \|w\|_2^2, \qquad
              \mathrm{OCE}_u(X) = \min_t\, t + E\,u(X - t)

    or, with ``objective_function=MAXIMIZE_UTILITY``, maximize :math:`\mu \cdot w - \kappa(w) - \lambda\,\mathrm{OCE}_u
    - l_1\|w\|_1 - l_2\|w\|_2^2`, with :math:`\kappa(w)` the fees and costs above and :math:`\lambda` the risk aversion.
    Fees f and transaction costs c lie inside the risk and are taken off the expected return, as in skfolio's
    `MeanRisk` for CVaR; both are per period, like the returns. Absolute values are split exactly, not relaxed.

    Parameters
    ----------
    utility : Utility or Risk, optional
        What risk means, a utility or a risk such as ``EVaR(0.05)``; ``CVaR(0.05)`` if None. Its parameters are this
        estimator's, as ``utility__alpha``.
    objective_function : str or ObjectiveFunction
        "minimize_risk" or "maximize_utility", or skfolio's ``ObjectiveFunction.MINIMIZE_RISK``, ``MAXIMIZE_UTILITY``.
    risk_aversion : float
        lambda, for ``MAXIMIZE_UTILITY``.
    efficient_frontier_size : int, optional
        Find so many portfolios, of least risk for expected returns from that of the least risk to the largest. Then
        ``weights_`` has one row per portfolio and `predict` returns a Population.
    prior_estimator : BasePrior, optional
        Supplies scenarios, their weights and mu; `ScenarioPrior`, the scenarios as they are, if None.
    recenter : "auto", True or False
        What to do where mu is not the mean of the scenarios (Black-Litterman, shrunk or weighted means): move the
        scenarios so that it is and say so by a warning, move them without, or leave them.
    min_weights, max_weights : float, dict by asset, array or None
        Bounds on each weight; None for none. An asset missing from a dict gets 0 and 1.
    budget, min_budget, max_budget : float or None
        The sum of the weights, or (with ``budget=None``) its limits.
    max_short, max_long : float, optional
        Limits on the sum of the short and of the long positions.
    transaction_costs, management_fees : float, dict by asset or array
        c and f above.
    previous_weights : float, dict by asset or array, optional
        w0 above, 0 if None. Positions in a dict that X no longer has are sold, at their cost.
    groups, linear_constraints
        As in skfolio: ``groups={"AAPL": ["tech", "US"], ...}`` and ``["tech <= 0.3", "AAPL >= 0.5 * MSFT"]``.
    left_inequality, right_inequality : array (n, assets), array (n,)
        Constraints ``left_inequality @ w <= right_inequality``.
    l1_coef, l2_coef : float
        l1 and l2 above.
    min_return : float or array, optional
        Least expected return per period, net of costs and fees; an array gives one portfolio per entry.
    max_turnover : float, optional
        Largest change of each weight from the previous one, as in skfolio.
    unknown_names : "raise" or "ignore"
        Whether asset and group names that X does not have are refused or passed over. Cross-validation that
        leaves out assets (`MultipleRandomizedCV`) needs "ignore" with parameters by name.
    solver : "exact" or "sg"
        The exact solver, or full-batch OCE-SG.
    solver_params : dict, optional
        Further keywords of `solve_exact` (``max_iter``, ``time_limit``) or of `minimize_sg` (``iterations``, ``step``,
        ``batch``, ...).
    tol : float
        The gap, relative to the objective, at which the exact solver's answer counts as optimal. Above it a
        ConvergenceWarning is given, far above it an OptimizationError. Of a distortion such as ``Wang(0.5)``, which is
        solved by cuts and has no threshold, 1e-7 if it is less.
    warm_start : bool
        Start `fit` from the weights fitted before; `partial_fit` always does.
    random_state : int, Generator or None
        For "sg" with batches that are drawn.
    portfolio_params, fallback, raise_on_failure
        As in skfolio.

    Attributes
    ----------
    weights_ : array (assets,) or (portfolios, assets)
        The weights. Where there are several portfolios, what follows has one entry or row for each.
    objective_ : float
        What was minimized (or maximized), at the weights.
    gap_ : float
        A proved bound on how far that is from the best value.
    risk_ : float
        OCE of the losses net of fees and costs.
    threshold_ : float
        t* of those losses; for CVaR the value at risk.
    tilt_ : array (scenarios,)
        The worst-case probability of each day: which days drive the risk. Sums to 1.
    risk_contributions_ : array (assets,)
        Shares that add up to OCE at the weights less OCE of holding nothing (see Notes). Computed when asked for.
    n_iter_ : int
        Steps of the solver.
    solution_ : ExactResult or Solution
        What the solver returned, in its own variables.
    problem_values_ : dict
        objective, risk, expected_return and regularization, under skfolio's names.
    utility_, prior_estimator_ : Risk, BasePrior
        What was used.

    Notes
    -----
    The contribution of asset j is :math:`w_j \int_0^1 \partial_j R(s w)\,ds` (Aumann-Shapley) for the risk R of the
    scenarios, plus its own fees and the change of its own transaction costs. For coherent utilities that is Euler's
    :math:`w_j \partial_j R(w)`.

    Not for cardinality constraints, hierarchical methods or a risk that is not an OCE, such as drawdowns: skfolio has
    optimizers for those.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> X = np.random.default_rng(0).normal(0.0005, [0.01, 0.02, 0.03], size=(500, 3))
    >>> model = MinimumOCE(ce.CVaR(0.05), max_weights=0.6).fit(X)
    >>> model.weights_.round(3)
    array([0.6 , 0.27, 0.13])
    >>> bool(model.gap_ < 1e-10)
    True
    >>> bool(np.isclose(model.risk_contributions_.sum(), model.risk_))
    True
    """

    _problem: PortfolioProblem
    _dates: Any = None  # of the observations last fitted on
    _covariance_said: bool = False
    _contributions: Floats | None

    @_with_hints
    def __init__(
        self,
        utility: Risk | None = None,
        objective_function: Any = "minimize_risk",
        risk_aversion: float = 1.0,
        efficient_frontier_size: int | None = None,
        prior_estimator: BasePrior | None = None,
        recenter: bool | str = "auto",
        min_weights: Any = 0.0,
        max_weights: Any = 1.0,
        budget: float | None = 1.0,
        min_budget: float | None = None,
        max_budget: float | None = None,
        max_short: float | None = None,
        max_long: float | None = None,
        transaction_costs: Any = 0.0,
        management_fees: Any = 0.0,
        previous_weights: Any = None,
        groups: Any = None,
        linear_constraints: Any = None,
        left_inequality: Any = None,
        right_inequality: Any = None,
        l1_coef: float = 0.0,
        l2_coef: float = 0.0,
        min_return: Any = None,
        max_turnover: float | None = None,
        unknown_names: str = "raise",
        solver: str = "exact",
        solver_params: dict[str, Any] | None = None,
        tol: float = 1e-9,
        warm_start: bool = False,
        random_state: Any = None,
        portfolio_params: dict[str, Any] | None = None,
        fallback: Any = None,
        raise_on_failure: bool = True,
    ) -> None:
        super().__init__(
            portfolio_params=portfolio_params,
            fallback=fallback,
            previous_weights=previous_weights,
            raise_on_failure=raise_on_failure,
        )
        self.utility = utility
        self.objective_function = objective_function
        self.risk_aversion = risk_aversion
        self.efficient_frontier_size = efficient_frontier_size
        self.prior_estimator = prior_estimator
        self.recenter = recenter
        self.min_weights = min_weights
        self.max_weights = max_weights
        self.budget = budget
        self.min_budget = min_budget
        self.max_budget = max_budget
        self.max_short = max_short
        self.max_long = max_long
        self.transaction_costs = transaction_costs
        self.management_fees = management_fees
        self.groups = groups
        self.linear_constraints = linear_constraints
        self.left_inequality = left_inequality
        self.right_inequality = right_inequality
        self.l1_coef = l1_coef
        self.l2_coef = l2_coef
        self.min_return = min_return
        self.max_turnover = max_turnover
        self.unknown_names = unknown_names
        self.solver = solver
        self.solver_params = solver_params
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state

    # -- parameters of the utility --------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with ``deep`` also those of the utility, the default one included."""
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep and self.utility is None:
            params.update({_UTILITY + key: value for key, value in CVaR(0.05).get_params().items()})
        return params

    def set_params(self, **params: Any) -> MinimumOCE:
        """Set parameters by name; ``utility__alpha`` changes a copy, never the utility that was passed in."""
        inner = {key[len(_UTILITY) :]: params.pop(key) for key in list(params) if key.startswith(_UTILITY)}
        super().set_params(**params)
        if inner:
            utility = CVaR(0.05) if self.utility is None else clone(check_risk(self.utility))
            self.utility = utility.set_params(**inner)
        return self

    @property
    def maximizes_utility(self) -> bool:
        """Whether the mean counts beside the risk."""
        return read_objective(self.objective_function) == "maximize_utility"

    # -- fitting --------------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **fit_params: Any) -> MinimumOCE:
        """Fit the prior on the returns X and find the portfolio.

        Parameters
        ----------
        X : array-like (observations, assets)
            Linear returns, one row per period.
        y : array-like, optional
            Passed to the prior (factors, for a factor model).
        **fit_params
            Metadata routed to the prior.

        Returns
        -------
        MinimumOCE
        """
        start = self._last_weights() if self.warm_start else None
        self._forget(())
        return self._fit(X, y, "fit", start, fit_params)

    def partial_fit(self, X: ArrayLike, y: ArrayLike | None = None, **fit_params: Any) -> MinimumOCE:
        """Add the observations X to the prior and find the portfolio again, from the last one.

        Each call receives new observations only. The default prior takes updates; one passed in must have a
        ``partial_fit`` of its own. Parameters are those of `fit`.
        """
        return self._fit(X, y, "partial_fit", self._last_weights(), fit_params)

    def _fit(self, X: Any, y: Any, method: str, start: Floats | None, fit_params: dict[str, Any]) -> MinimumOCE:
        routed = skm.process_routing(self, method, **fit_params)
        first = not hasattr(self, "prior_estimator_")
        seen = check_table(self, X, first)
        self._dates = getattr(X, "index", None)
        check_settings(self, method)
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
            self._problem = read_problem(self, distribution, assets, self.utility_)
            self._record(self._allocate(assets, start))
            self._caution(distribution)
        return self

    def _caution(self, distribution: Any) -> None:
        """Warn of what an exact answer does not show: a utility that sees no risk, a covariance that plays no part."""
        problem, weights, tilt = self._problem, np.atleast_2d(self.weights_)[0], np.atleast_2d(self.tilt_)[0]
        if self.investable_mask_ is not None:
            weights = weights[self.investable_mask_]
        reason = None
        if isinstance(self.utility_, Utility):  # a scale s takes the units of the losses
            reason = blindness_at(problem.A, weights, problem.weights, self.utility_, tilt)
        if reason is not None:
            warnings.warn(reason, UnitWarning, stacklevel=5)
        if self.prior_estimator is not None and not self._covariance_said:
            self._covariance_said = warn_of_covariance(distribution, self.recenter)

    def _forget(self, kept: tuple[str, ...]) -> None:
        """Drop what an earlier fit found, so that a failure leaves nothing that looks like its result."""
        for name in list(vars(self)):
            if name.endswith("_") and not name.startswith("_") and name not in (*kept, *_DIAGNOSTICS):
                delattr(self, name)

    def _allocate(self, assets: Assets, start: Floats | None) -> Allocation | list[Allocation]:
        segmented = to_segments(self._problem)
        params = self.solver_params or {}
        if start is not None and len(start) == assets.size and assets.mask is not None:
            start = start[assets.mask]
        if start is not None and len(start) != assets.count:
            start = None
        settings = (self.solver, self.tol, params, self.random_state)
        if self.efficient_frontier_size is not None:
            least = solve(segmented, self.solver, start, self.tol, params, self.random_state)
            targets, largest = frontier_targets(segmented, least, int(self.efficient_frontier_size))
            return [least, *sweep(segmented, targets[1:], settings, largest)]
        if np.ndim(self.min_return) == 1:
            values = [check_number("min_return", each, "a number") for each in self.min_return]
            if not values:
                raise ValueError("min_return must not be empty.")
            return sweep(segmented, np.array(values), settings, start)
        if self.min_return is not None:
            segmented = segmented.with_target(check_number("min_return", self.min_return, "a number or an array"))
        return solve(segmented, self.solver, start, self.tol, params, self.random_state)

    def _record(self, found: Allocation | list[Allocation]) -> None:
        several = found if isinstance(found, list) else [found]

        def gather(name: str) -> Any:
            values = [getattr(each, name) for each in several]
            if not isinstance(found, list):
                return values[0]
            return np.array(values) if name != "solution" else values

        self.objective_ = gather("objective")
        self.gap_ = gather("gap")
        self.risk_ = gather("risk")
        self.threshold_ = gather("threshold")
        self.tilt_ = gather("tilt")
        self.n_iter_ = gather("iterations")
        self.solution_ = gather("solution")
        names = ("objective", "risk", "expected_return", "regularization")
        values = [{name: getattr(each, name) for name in names} for each in several]
        self.problem_values_ = values if isinstance(found, list) else values[0]
        self._contributions = None
        self.weights_ = self._expand_weights_to_full_universe(gather("weights"))

    def _last_weights(self) -> Floats | None:
        weights = getattr(self, "weights_", None)
        return None if weights is None or np.ndim(weights) != 1 else np.asarray(weights)

    def predict(self, X: Any) -> Any:
        """The portfolio on returns X, or a Population where there are several.

        Its annualized figures follow the dates of X, or of what was fitted on where X is too short to tell; without
        dates they are skfolio's, of 252 days. ``portfolio_params={"annualization_factor": 12}`` overrides that.
        """
        found = super().predict(X)
        if not {"annualization_factor", "annualized_factor"} & set(self.portfolio_params or {}):
            annualize(found, X, self._dates)
        return found

    # -- what the fit says ----------------------------------------------------------------------------------------

    @property
    def risk_contributions_(self) -> Floats:
        """Shares of the assets in the risk; see Notes of the class."""
        check_is_fitted(self, "tilt_")
        if self._contributions is None:
            problem, mask = self._problem, getattr(self, "investable_mask_", None)
            weights = np.atleast_2d(self.weights_)
            weights = weights if mask is None else weights[:, mask]
            shares = [
                risk_contributions(problem.A, w, self.utility_, problem.weights, q) + problem.costs.by_asset(w)
                for w, q in zip(weights, np.atleast_2d(self.tilt_), strict=True)
            ]
            every = self._expand_weights_to_full_universe(np.array(shares))
            self._contributions = every if np.ndim(self.weights_) == 2 else every[0]
        return self._contributions

    def efficient_frontier(self, X: ArrayLike, n: int = 30, y: Any = None, **fit_params: Any) -> Frontier:
        """The portfolios of least risk for n expected returns, in one sweep in which each starts from the last.

        This estimator itself is not changed. With ``efficient_frontier_size`` a fit gives the same portfolios.

        Examples
        --------
        >>> import numpy as np, certeq as ce
        >>> X = np.random.default_rng(0).normal([0.001, 0.002, 0.003], [0.01, 0.02, 0.03], size=(500, 3))
        >>> frontier = MinimumOCE(ce.Entropic(20.0)).efficient_frontier(X, n=5)
        >>> frontier.weights.shape, bool((np.diff(frontier.expected_returns) > 0).all())
        ((5, 3), True)
        """
        model = clone(self).set_params(
            efficient_frontier_size=n,
            min_return=None,
            objective_function="minimize_risk",
            fallback=None,
            raise_on_failure=True,
        )
        model.fit(X, y, **fit_params)
        returns = np.array([each["expected_return"] for each in model.problem_values_])
        names = getattr(model, "feature_names_in_", None)
        return Frontier(model.weights_, returns, model.risk_, model.gap_, names)

    def get_metadata_routing(self) -> skm.MetadataRouter:
        """Metadata of `fit` and `partial_fit` go to the prior's method of the same name."""
        mapping = skm.MethodMapping().add(caller="fit", callee="fit").add(caller="partial_fit", callee="partial_fit")
        router = skm.MetadataRouter(owner=type(self).__name__)
        return router.add(prior_estimator=self.prior_estimator, method_mapping=mapping)
