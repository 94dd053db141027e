"""`MinimumOCE`: the portfolio of least OCE, as a skfolio optimizer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skfolio.prior import BasePrior
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from certeq._checks import check_number
from certeq.portfolio._base import BaseOCE, Last
from certeq.portfolio._hints import with_hints
from certeq.portfolio._inputs import (
    Assets,
    check_settings,
    read_problem,
    warn_of_covariance,
)
from certeq.portfolio._limits import read_levels
from certeq.portfolio._problem import PortfolioProblem, to_segments
from certeq.portfolio._results import Frontier
from certeq.portfolio._solve import (
    Allocation,
    Case,
    Settings,
    frontier_targets,
    risk_contributions,
    solve,
    sweep,
)
from certeq.risk import tilt as tilt_of
from certeq.risk.solvers import blindness_at, warn_of_few_samples, warn_of_unit
from certeq.utilities import Risk, Utility

Floats = NDArray[np.float64]


class MinimumOCE(BaseOCE):
    r"""Minimize the optimized certainty equivalent (OCE) of a portfolio's losses.

    .. math:: \min_w\ \mathrm{OCE}_u\big(-r_t \cdot w + f \cdot w + \textstyle\sum_j c_j |w_j - w^0_j|\big)
              + l_1 \|w\|_1 + l_2 \|w\|_2^2,

    .. math:: \mathrm{OCE}_u(X) = \min_t\, t + E\,u(X - t)

    or, with ``objective_function=MAXIMIZE_UTILITY``, maximize :math:`\mu \cdot w - \kappa(w) - \lambda\,\mathrm{OCE}_u
    - l_1\|w\|_1 - l_2\|w\|_2^2`, with :math:`\kappa(w)` the fees and costs above and :math:`\lambda` the risk aversion;
    with ``MAXIMIZE_RETURN`` the same without OCE, and with ``MAXIMIZE_RATIO`` :math:`(\mu \cdot w - \kappa(w) -
    r_f)/\mathrm{OCE}_u`. Any of them under limits on risks, of the losses or of what is lost against a benchmark.
    Fees f and transaction costs c lie inside the risk and are taken off the expected return, as in skfolio's
    ``MeanRisk`` for CVaR; both are per period, like the returns. Absolute values are split exactly, not relaxed.

    Parameters
    ----------
    utility : Utility or Risk, optional
        Risk measure, a utility or a risk such as ``EVaR(0.05)``; ``CVaR(0.05)`` if None. Its parameters are this
        estimator's, as ``utility__alpha``.
    objective_function : str or ObjectiveFunction
        "minimize_risk", "maximize_utility", "maximize_return" or "maximize_ratio", or skfolio's ``ObjectiveFunction``.
    risk_aversion : float
        The factor lambda, for ``MAXIMIZE_UTILITY``.
    risk_free_rate : float
        Rate r_f per period, for ``MAXIMIZE_RATIO``.
    efficient_frontier_size : int, optional
        Find so many portfolios, of least risk for expected returns from that of the least risk to the largest. Then
        ``weights_`` has one row per portfolio and ``predict`` returns a Population.
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
        Costs c and fees f of the formula above.
    previous_weights : float, dict by asset or array, optional
        Weights w0 of the formula above, 0 if None. Positions in a dict that X no longer has are sold, at their cost.
    groups : dict by asset or array (groups, assets), optional
        Groups of each asset, as in skfolio: ``{"AAPL": ["tech", "US"], ...}``.
    linear_constraints : list of str, optional
        Constraints on assets and groups, as in skfolio: ``["tech <= 0.3", "AAPL >= 0.5 * MSFT"]``.
    left_inequality, right_inequality : array (n, assets), array (n,)
        Constraints ``left_inequality @ w <= right_inequality``.
    l1_coef, l2_coef : float
        Factors l1 and l2 of the formula above.
    min_return : float or array, optional
        Least expected return per period, net of costs and fees; an array gives one portfolio per entry.
    max_turnover : float, optional
        Largest change of each weight from the previous one, as in skfolio.
    risk_limits : list of (Risk, float), optional
        Limits on risks of the losses, net of fees and costs: ``[(CVaR(0.05), 0.02), (EVaR(0.05), 0.04)]``. A level may
        be an array, which gives one portfolio per entry.
    benchmark_limits : list of (Risk, float), optional
        The same for what is lost against the benchmark y of ``fit(X, y)``, the losses y - X w net of fees and costs.
    max_tracking_error : float or array, optional
        Limit on the root of the sum of (X w - y)^2 over n - 1, before costs: skfolio's own constraint, so that both
        keep the same portfolios out. Where the prior gives weights it is the root of their weighted mean, as that of
        `certeq.RootMeanSquare` always is.
    unknown_names : "raise" or "ignore"
        Whether asset and group names that X does not have are refused or passed over. Cross-validation that
        leaves out assets (``MultipleRandomizedCV``) needs "ignore" with parameters by name.
    solver : "exact" or "sg"
        The exact solver, or full-batch OCE-SG.
    solver_params : dict, optional
        Further options of `certeq.minimize`: ``max_iter`` and ``time_limit`` of "exact"; ``iterations``, ``step``,
        ``batch`` and others of "sg".
    tol : float
        The gap, relative to the objective, at which the exact solver's answer counts as optimal. Above it a
        ConvergenceWarning is given, far above it an OptimizationError. Of a distortion such as ``Wang(0.5)``, which is
        solved by cuts and has no threshold, 1e-7 if it is less.
    warm_start : bool
        Start ``fit`` from the weights fitted before; ``partial_fit`` always does.
    random_state : int, Generator or None
        For "sg" with batches that are drawn.
    portfolio_params : dict, optional
        Keywords of the portfolios that ``predict`` makes, as in skfolio.
    fallback : estimator, "previous_weights" or a list of them, optional
        What to use where the fit fails, as in skfolio.
    raise_on_failure : bool
        Whether a fit that fails raises, or warns and leaves ``weights_`` None, as in skfolio.

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
        Steps of the solver; where there are limits or a ratio, the exact problems solved.
    limit_names_ : list of str
        The limits on risks, in the order of the parameters above.
    limit_levels_, limit_values_, limit_multipliers_ : array (limits,)
        Their levels, their values at the weights, and by how much the objective improves for each unit by which a
        level is raised, at first; 0 where a limit does not bind.
    solution_ : ExactResult or Solution
        What the solver returned, in its own variables.
    problem_values_ : dict
        objective, risk, expected_return and regularization, under skfolio's names.
    utility_, prior_estimator_ : Risk, BasePrior
        What was used.

    See Also
    --------
    RiskBudgetingOCE
        Portfolios whose risk contributions follow a budget.
    ScenarioPrior
        The returns as equally likely scenarios.
    OCEMeasure
        OCE as a measure of skfolio portfolios.
    certeq.minimize
        Minimize the OCE of losses over a feasible set.

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

    The largest return under a limit, and what one more unit of the limit would earn:

    >>> greedy = MinimumOCE(
    ...     objective_function="maximize_return", risk_limits=[(ce.CVaR(0.05), 0.02)]
    ... ).fit(X)
    >>> greedy.limit_values_.round(9), greedy.limit_multipliers_.round(4)
    (array([0.02]), array([0.1446]))
    """

    _problem: PortfolioProblem
    _covariance_said: bool = False
    _contributions: Floats | None

    @with_hints("MinimumOCE")
    def __init__(
        self,
        utility: Risk | None = None,
        objective_function: Any = "minimize_risk",
        risk_aversion: float = 1.0,
        risk_free_rate: float = 0.0,
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
        risk_limits: Any = None,
        benchmark_limits: Any = None,
        max_tracking_error: Any = None,
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
        self.risk_free_rate = risk_free_rate
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
        self.risk_limits = risk_limits
        self.benchmark_limits = benchmark_limits
        self.max_tracking_error = max_tracking_error
        self.unknown_names = unknown_names
        self.solver = solver
        self.solver_params = solver_params
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state

    # -- fitting --------------------------------------------------------------------------------------------------

    def _check_settings(self, method: str) -> None:
        check_settings(self, method)

    def _optimize(self, distribution: Any, assets: Assets, y: Any, last: Last) -> None:
        self._problem = read_problem(self, distribution, assets, self.utility_, y)
        self._record(self._allocate(assets, *last))
        self._caution(distribution)

    def _caution(self, distribution: Any) -> None:
        """Warn of what an exact answer does not show: a utility that sees no risk, a covariance that plays no part."""
        problem, weights, tilt = self._problem, np.atleast_2d(self.weights_)[0], np.atleast_2d(self.tilt_)[0]
        if self.investable_mask_ is not None:
            weights = weights[self.investable_mask_]
        used = [(self.utility_, problem.A)] if problem.counts_risk else []
        for utility, A in [*used, *((limit.risk, limit.A) for limit in problem.limits if limit.y is None)]:
            if isinstance(utility, Risk):
                warn_of_few_samples(A @ weights, utility, problem.weights, type(self).__name__, stacklevel=6)
            if not isinstance(utility, Utility):  # a scale s takes the units of the losses
                continue
            at_w = tilt if utility is self.utility_ else tilt_of(A @ weights, utility, problem.weights)
            warn_of_unit(blindness_at(A, weights, problem.weights, utility, at_w), stacklevel=6)
        if self.prior_estimator is not None and not self._covariance_said:
            self._covariance_said = warn_of_covariance(distribution, self.recenter)

    def _allocate(self, assets: Assets, start: Floats | None, prices: Floats | None) -> Allocation | list[Allocation]:
        segmented = to_segments(self._problem)
        if start is not None and len(start) == assets.size and assets.mask is not None:
            start = start[assets.mask]
        if start is not None and len(start) != assets.count:
            start = None
        if start is None or prices is None or prices.shape != (len(self._problem.limits),) or not prices.any():
            prices = None  # without any that bind there is nothing to begin with
        settings = Settings(self.solver, self.tol, self.solver_params or {}, self.random_state)
        levels = read_levels(self)
        first = tuple(each[0] for each in levels)
        if self.efficient_frontier_size is not None:
            least = solve(segmented, settings, start, prices)
            size = int(self.efficient_frontier_size)
            targets, largest = frontier_targets(segmented, least, size, settings)
            return [least, *sweep(segmented, [Case(float(each), first) for each in targets[1:]], settings, largest)]
        targets_given = self._targets()
        counts = {len(each) for each in (*levels, targets_given) if len(each) > 1}
        if len(counts) > 1:
            raise ValueError(
                f"min_return and limits with several values must have equally many; found {sorted(counts)}."
            )
        count = max(counts, default=1)
        if count == 1 and np.ndim(self.min_return) == 0 and not any(np.ndim(each) for each in self._level_inputs()):
            return solve(Case(targets_given[0], first).of(segmented), settings, start, prices)
        spread = [each * count if len(each) == 1 else each for each in (targets_given, *levels)]
        return sweep(segmented, [Case(each[0], each[1:]) for each in zip(*spread, strict=True)], settings, start)

    def _targets(self) -> tuple[float | None, ...]:
        """The least expected returns, as many as there are problems to solve."""
        if self.min_return is None:
            return (None,)
        if np.ndim(self.min_return) == 0:
            return (check_number("min_return", self.min_return, "a number or an array"),)
        if not len(self.min_return):
            raise ValueError("min_return must not be empty.")
        return tuple(check_number("min_return", each, "a number") for each in self.min_return)

    def _level_inputs(self) -> list[Any]:
        """The levels of the limits as they were given."""
        pairs = [*(self.risk_limits or ()), *(self.benchmark_limits or ())]
        return [*(level for _, level in pairs), 0.0 if self.max_tracking_error is None else self.max_tracking_error]

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
        self.limit_names_ = [limit.name for limit in self._problem.limits]
        self.limit_levels_ = gather("limit_levels")
        self.limit_values_ = gather("limit_values")
        self.limit_multipliers_ = gather("limit_multipliers")
        names = ("objective", "risk", "expected_return", "regularization")
        values = [{name: getattr(each, name) for name in names} for each in several]
        self.problem_values_ = values if isinstance(found, list) else values[0]
        self._contributions = None
        self.weights_ = self._expand_weights_to_full_universe(gather("weights"))

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

        Parameters
        ----------
        X : array-like (n, assets)
            Returns.
        n : int
            Number of portfolios.
        y : array-like (n,), optional
            Returns of the benchmark, as in ``fit(X, y)``.
        **fit_params : Any
            Further keywords of ``fit``.

        Returns
        -------
        Frontier
            The portfolios, from the least risk to the largest return.

        Examples
        --------
        >>> import numpy as np, certeq as ce
        >>> X = np.random.default_rng(0).normal(
        ...     [0.001, 0.002, 0.003], [0.01, 0.02, 0.03], size=(500, 3)
        ... )
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
