"""What a caller is handed beside weights: the efficient frontier, and any portfolio scored by any OCE."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from skfolio import Population, Portfolio
from skfolio.metrics import make_scorer
from skfolio.portfolio import BasePortfolio, FailedPortfolio

from certeq.data import frequency_of
from certeq.risk import oce
from certeq.risk.solvers import check_risk
from certeq.utilities import Risk

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

    See Also
    --------
    MinimumOCE
        Portfolios of least OCE, and of largest return or ratio.
    certeq.report.frontier
        Portfolios of least OCE for rising returns.

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
        """The portfolios on returns X, as a skfolio Population.

        Annualized figures follow the dates of X unless ``annualization_factor`` is among the keywords.

        Parameters
        ----------
        X : array or DataFrame (n, assets)
            Returns.
        **portfolio_params : Any
            Keywords of each ``skfolio.Portfolio``.

        Returns
        -------
        skfolio.Population
            One portfolio per point.
        """
        found = Population(
            [Portfolio(X=X, weights=w, name=f"frontier {i}", **portfolio_params) for i, w in enumerate(self.weights)]
        )
        if "annualization_factor" not in portfolio_params:
            annualize(found, X)
        return found

    def __repr__(self) -> str:
        if not len(self):
            return "Frontier(empty)"
        r, x = self.expected_returns, self.risks
        return (
            f"Frontier({len(self)} portfolios, return {r[0]:.4g} to {r[-1]:.4g}, risk {x[0]:.4g} to {x[-1]:.4g}, "
            f"largest gap {self.gaps.max():.2g})"
        )


def annualize(found: Any, X: Any, dates: Any = None) -> None:
    """Give portfolios the number of periods in a year that the dates of X, or else further dates, tell.

    Without dates it stays as it is; where there are dates that do not tell it, a warning says so.
    """
    reason = ""
    for known in (getattr(X, "index", None), dates):
        if not str(getattr(known, "dtype", "")).startswith(("datetime64", "period")):
            continue
        try:
            year = frequency_of(known, name="annualization_factor").periods_per_year
        except ValueError as error:
            reason = reason or str(error)
            continue
        for portfolio in found if isinstance(found, Population) else [found]:
            portfolio.annualization_factor = year
        return
    if reason:
        warnings.warn(
            f"{reason} Annualized figures of this portfolio reckon with 252; pass "
            'portfolio_params={"annualization_factor": ...}.',
            UserWarning,
            stacklevel=3,
        )


def portfolio_oce(portfolio: BasePortfolio, utility: Risk) -> float:
    r"""OCE of a skfolio portfolio's losses, net of its costs and fees: :math:`\mathrm{OCE}_u(-r_t)`.

    Parameters
    ----------
    portfolio : skfolio.Portfolio or skfolio.MultiPeriodPortfolio
        Its ``returns`` and ``sample_weight`` are used. A ``FailedPortfolio`` has no losses: the answer is NaN.
    utility : Risk
        Risk measure.

    Returns
    -------
    float
        OCE per period.

    See Also
    --------
    OCEMeasure
        OCE as a measure of skfolio portfolios.
    certeq.oce
        OCE of losses, without its error.

    Notes
    -----
    Not for comparing portfolios of different periods: daily and monthly losses have different units.

    Examples
    --------
    >>> from certeq.portfolio import portfolio_oce
    >>> import certeq as ce, numpy as np
    >>> from skfolio import Portfolio
    >>> X = np.array([[0.01, 0.02], [-0.04, 0.00], [0.03, -0.01], [0.00, 0.01]])
    >>> float(portfolio_oce(Portfolio(X, [0.5, 0.5]), ce.CVaR(0.25)))
    0.02
    """
    check_risk(utility)
    if not isinstance(portfolio, BasePortfolio):
        hint = "; measure each of its portfolios" if isinstance(portfolio, Population) else ""
        raise TypeError(f"portfolio must be a skfolio Portfolio; found {type(portfolio).__name__}{hint}.")
    if isinstance(portfolio, FailedPortfolio):
        return float("nan")
    return float(oce(-np.asarray(portfolio.returns), utility, portfolio.sample_weight))


@dataclass(frozen=True)
class OCEMeasure:
    r"""A measure of skfolio portfolios: call it with one, or with a Population for the mean over its portfolios.

    For a portfolio with returns r it is :math:`\mathrm{OCE}_u(-r)`. As ``scoring=`` of a search or of cross-validation
    it is `oce_scorer`: minus the OCE of what the estimator predicts, so that larger is better.

    Parameters
    ----------
    utility : Risk
        Risk measure.

    See Also
    --------
    portfolio_oce
        OCE of a portfolio's losses.
    oce_scorer
        Minus OCE of a predicted portfolio as a scorer.

    Notes
    -----
    Not one of skfolio's own measures: where those are chosen by name (``RiskBudgeting``, ``plot_measures``) it is
    refused. To plot it, call it with each portfolio. skfolio's ``make_scorer`` takes a function for a score: use
    `oce_scorer`, which knows that less risk is better.

    Examples
    --------
    >>> from certeq.portfolio import OCEMeasure
    >>> import certeq as ce, numpy as np
    >>> from skfolio import Portfolio
    >>> measure = OCEMeasure(ce.Entropic(beta=10.0))
    >>> measure
    OCEMeasure(utility=Entropic(beta=10.0))
    >>> round(measure(Portfolio(np.array([[0.1], [-0.1]]), [1.0])), 6)
    0.043378
    """

    utility: Risk

    def __post_init__(self) -> None:
        check_risk(self.utility)

    def __call__(self, portfolio: Any, X: Any = None, y: Any = None) -> float:
        """OCE of the losses of a portfolio; of a Population, the mean over its portfolios.

        Of an estimator and returns X, minus the OCE of what it predicts: its score.
        """
        if X is not None:
            if not hasattr(portfolio, "predict"):
                raise TypeError(f"a score needs an estimator that predicts portfolios; found {portfolio!r}.")
            return -self(portfolio.predict(X))
        if isinstance(portfolio, Population):
            return float(np.mean([self(each) for each in portfolio]))
        return portfolio_oce(portfolio, self.utility)

    def __hash__(self) -> int:
        # The first thing that plot_measures does to its axes; what comes after says nothing of measures.
        raise TypeError(
            "OCEMeasure is not one of skfolio's measures, which plot_measures and the like want, and cannot be a key: "
            "pass for instance RiskMeasure.CVAR. To plot OCE, call the measure with each portfolio."
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"OCEMeasure is not one of skfolio's measures and has no {name!r}. Where one of those is chosen, as in "
            "RiskBudgeting or plot_measures, pass for instance RiskMeasure.CVAR; OCE is minimized by MinimumOCE."
        )


def oce_scorer(utility: Risk) -> Callable[..., float]:
    r"""A scorer for scikit-learn's searches and cross-validation: minus the OCE of the predicted portfolio.

    The score is :math:`-\mathrm{OCE}_u(-r)` of the returns r, so that larger is better, as scikit-learn wants it.

    Parameters
    ----------
    utility : Risk
        Risk measure. It is that of the score, whatever the estimator minimizes.

    Returns
    -------
    callable
        Called as ``scorer(estimator, X)``; greater is better.

    See Also
    --------
    OCEMeasure
        OCE as a measure of skfolio portfolios.
    certeq.learn.oce_scorer
        Minus OCE of held-out losses as a scorer.

    Notes
    -----
    Not comparable between utilities: scores of two utilities differ in what they measure, not in quality.

    Examples
    --------
    >>> from certeq.portfolio import oce_scorer
    >>> import certeq as ce, numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from skfolio.optimization import EqualWeighted
    >>> X = np.random.default_rng(0).normal(0.0, 0.01, size=(300, 4))
    >>> scorer = oce_scorer(ce.CVaR(0.05))
    >>> cross_val_score(EqualWeighted(), X, scoring=scorer, cv=3).round(4)
    array([-0.0117, -0.0103, -0.0104])
    """
    scorer: Callable[..., float] = make_scorer(OCEMeasure(utility), greater_is_better=False)
    return scorer
