"""`RiskBudgetingOCE`: the portfolio in which every asset carries its share of the risk, as a skfolio optimizer."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from skfolio.exceptions import OptimizationError
from skfolio.prior import BasePrior
from sklearn.exceptions import ConvergenceWarning

from certeq._checks import check_choice, check_number, shown
from certeq.optimize import InfeasibleError, LinearLoss, risk_budgeting
from certeq.portfolio._base import BaseOCE, Last
from certeq.portfolio._hints import with_hints
from certeq.portfolio._inputs import (
    SOLVER_PARAMS,
    Assets,
    read_fees,
    read_scenarios,
    refuse_sorting,
    warn_of_covariance,
)
from certeq.risk import threshold
from certeq.risk.solvers import check_risk
from certeq.utilities import Risk

Floats = NDArray[np.float64]
_USELESS = 1e-4  # contributions this far from their budgets, relative to them, are no solution


class RiskBudgetingOCE(BaseOCE):
    r"""Weights whose contributions to a coherent risk are proportional to a budget; equal contributions by default.

    .. math:: w_j\,\frac{\partial \rho(A w)}{\partial w_j} = b_j\,\rho(A w), \qquad w > 0,\ \sum_j w_j = B

    with A minus the returns plus the fees, and B the budget. They minimize :math:`\rho(A w) - \sum_j b_j \log w_j`, up
    to a factor.

    Parameters
    ----------
    utility : Risk, optional
        A coherent risk: ``CVaR``, ``EVaR``, a ball, ``HMCR``, or a ``Mixture`` of them; ``CVaR(0.05)`` if None. Its
        parameters are this estimator's, as ``utility__alpha``.
    risk_budget : dict by asset or array, optional
        Positive shares of the risk, up to a factor; equal if None. An asset missing from a dict gets 1.
    prior_estimator : skfolio.prior.BasePrior, optional
        Supplies scenarios, their weights and mu; `ScenarioPrior`, the scenarios as they are, if None.
    recenter : bool or "auto"
        What to do where mu is not the mean of the scenarios: move them so that it is and say so by a warning ("auto"),
        move them without, or leave them.
    budget : float
        The sum of the weights.
    management_fees : float, dict by asset or array
        Fees per period; they are part of the losses.
    previous_weights : float, dict by asset or array, optional
        For ``fallback="previous_weights"`` and the turnover of predicted portfolios.
    unknown_names : {"raise", "ignore"}
        Whether asset names that X does not have are refused or passed over.
    solver_params : dict, optional
        ``max_iter`` and ``time_limit`` of `certeq.risk_budgeting`.
    tol : float
        Tolerance of the gap, and of the contributions relative to the budget. Above it a ConvergenceWarning is given,
        far above it an OptimizationError.
    warm_start : bool
        Start ``fit`` from the weights fitted before; ``partial_fit`` always does.
    portfolio_params : dict, optional
        Keywords of the portfolios that ``predict`` makes, as in skfolio.
    fallback : estimator, "previous_weights" or a list of them, optional
        What to use where the fit fails, as in skfolio.
    raise_on_failure : bool
        Whether a fit that fails raises, or warns and leaves ``weights_`` None, as in skfolio.

    Attributes
    ----------
    weights_ : array (assets,)
        The weights, all positive.
    risk_ : float
        The risk of the losses net of fees.
    risk_contributions_ : array (assets,)
        Contributions; they sum to ``risk_``.
    deviation_ : float
        The largest relative difference of a contribution from its share of the risk.
    gap_ : float
        Proved distance of :math:`\rho(A w) - \sum_j b_j \log w_j` from its minimum, where the risk of w is 1.
    threshold_ : float or array
        t* of the losses; for CVaR the value at risk. One for each part of a mixture.
    tilt_ : array (scenarios,)
        The worst-case probability of each scenario, by which the contributions are reckoned.
    n_iter_, solution_ : int, BudgetingResult
        Exact problems solved, and what `certeq.risk_budgeting` returned.
    problem_values_ : dict
        objective (the risk), risk and expected_return, under skfolio's names.
    utility_, prior_estimator_ : Risk, BasePrior
        What was used.

    See Also
    --------
    MinimumOCE
        Portfolios of least OCE, and of largest return or ratio.
    certeq.risk_budgeting
        Weights whose risk contributions follow a budget.

    Notes
    -----
    Not for bounds, groups, transaction costs or short positions: with them contributions cannot follow a budget.
    skfolio's ``RiskBudgeting`` takes some of them, and its contributions then follow the budget no more.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> from certeq.portfolio import RiskBudgetingOCE
    >>> X = np.random.default_rng(0).normal(0.0005, [0.01, 0.02, 0.04], size=(500, 3))
    >>> model = RiskBudgetingOCE(ce.CVaR(0.05), risk_budget=[1.0, 1.0, 2.0]).fit(X)
    >>> (model.risk_contributions_ / model.risk_).round(9)
    array([0.25, 0.25, 0.5 ])
    >>> model.weights_.round(3), bool(model.gap_ < 1e-9)
    (array([0.54, 0.27, 0.19]), True)
    """

    @with_hints("RiskBudgetingOCE")
    def __init__(
        self,
        utility: Risk | None = None,
        risk_budget: Any = None,
        prior_estimator: BasePrior | None = None,
        recenter: bool | str = "auto",
        budget: float = 1.0,
        management_fees: Any = 0.0,
        previous_weights: Any = None,
        unknown_names: str = "raise",
        solver_params: dict[str, Any] | None = None,
        tol: float = 1e-9,
        warm_start: bool = False,
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
        self.risk_budget = risk_budget
        self.prior_estimator = prior_estimator
        self.recenter = recenter
        self.budget = budget
        self.management_fees = management_fees
        self.unknown_names = unknown_names
        self.solver_params = solver_params
        self.tol = tol
        self.warm_start = warm_start

    def _check_settings(self, method: str) -> None:
        if self.utility is not None and not check_risk(self.utility).is_coherent:
            raise ValueError(
                f"utility must be coherent: of {self.utility!r} the contributions at w are not half of those at 2 w, "
                "so that no budget is theirs. Use CVaR, EVaR, HMCR, a ball such as Entropic().ball(r), or a Mixture of "
                "them."
            )
        refuse_sorting("utility", self.utility, "for risk budgets")
        check_number("budget", self.budget, "a number above 0", above=0.0)
        check_number("tol", self.tol, "a number above 0", above=0.0)
        if not (self.solver_params is None or isinstance(self.solver_params, dict)):
            raise TypeError(f"solver_params must be a dict or None; found {shown(self.solver_params)}.")
        for name in self.solver_params or {}:
            check_choice("a key of solver_params", name, SOLVER_PARAMS["exact"])
        if method == "partial_fit":
            self._validate_partial_fit_fallback()

    def _optimize(self, distribution: Any, assets: Assets, y: Any, last: Last) -> None:
        returns, mu, weights = read_scenarios(self.recenter, distribution)
        fees = read_fees(self.management_fees, assets)
        shares = assets.values("risk_budget", self.risk_budget, 1.0, 1.0)
        if not (np.isfinite(shares) & (shares > 0.0)).all():
            j, label = assets.worst(~(np.isfinite(shares) & (shares > 0.0)))
            raise ValueError(f"risk_budget must be positive and finite; found {shares[j]:g} for {label}.")
        A = fees - returns
        start = last[0]
        if start is not None and assets.mask is not None and len(start) == assets.size:
            start = start[assets.mask]
        if start is not None and (len(start) != assets.count or not (start > 0.0).all()):
            start = None
        settings = {"theta0": start, "tol": self.tol, **(self.solver_params or {})}
        try:
            found = risk_budgeting(
                LinearLoss(A), self.utility_, shares, weights=weights, total=float(self.budget), **settings
            )
        except InfeasibleError as error:
            named = re.sub(r"\basset (\d+)", lambda match: assets.label(int(match[1])), str(error))
            raise OptimizationError(named) from error
        self._accept(found)
        self.risk_ = found.value
        self.deviation_, self.gap_, self.tilt_ = found.deviation, found.gap, found.tilt
        self.threshold_ = threshold(A @ found.theta, self.utility_, weights)
        self.n_iter_, self.solution_ = found.iterations, found
        earned = float((mu - fees) @ found.theta)
        self.problem_values_ = {"objective": self.risk_, "risk": self.risk_, "expected_return": earned}
        self.risk_contributions_ = self._expand_weights_to_full_universe(found.contributions)
        self.weights_ = self._expand_weights_to_full_universe(found.theta)
        if self.prior_estimator is not None:
            warn_of_covariance(distribution, self.recenter)

    def _accept(self, found: Any) -> None:
        """Refuse contributions far from their budget, and warn of those that are not quite theirs."""
        if max(found.deviation, found.gap) <= self.tol:
            return
        said = f"contributions within {found.deviation:.3g} of their budgets and a gap of {found.gap:.3g}"
        if not found.deviation <= max(_USELESS, self.tol):
            raise OptimizationError(
                f"Risk budgeting stopped ({found.status}) with {said}; give it more with solver_params="
                "{'max_iter': ...}."
            )
        warnings.warn(f"Risk budgeting ended ({found.status}) with {said}.", ConvergenceWarning, stacklevel=5)
