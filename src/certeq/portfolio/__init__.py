"""Portfolios: skfolio optimizers for any OCE, risk budgets, an efficient frontier, and scorers for any portfolio."""

try:
    import skfolio as _skfolio  # noqa: F401
except ImportError as error:
    raise ImportError("certeq.portfolio needs skfolio: pip install 'certeq[portfolio]'") from error

from certeq.data import read_prices as read_prices
from certeq.portfolio._budgeting import RiskBudgetingOCE
from certeq.portfolio._minimum_oce import MinimumOCE
from certeq.portfolio._prior import ScenarioPrior
from certeq.portfolio._results import Frontier, OCEMeasure, oce_scorer, portfolio_oce

__all__ = ["Frontier", "MinimumOCE", "OCEMeasure", "RiskBudgetingOCE", "ScenarioPrior", "oce_scorer", "portfolio_oce"]

# Pickles name this package, not the file that a class happens to be written in.
for _class in (Frontier, MinimumOCE, OCEMeasure, RiskBudgetingOCE, ScenarioPrior):
    _class.__module__ = __name__
