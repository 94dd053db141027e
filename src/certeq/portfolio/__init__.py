"""Portfolios: a skfolio optimizer for any OCE, its efficient frontier, and scorers for any portfolio."""

try:
    import skfolio as _skfolio  # noqa: F401
except ImportError as error:
    raise ImportError("certeq.portfolio needs skfolio: pip install certeq[portfolio]") from error

from certeq.portfolio._frontier import Frontier
from certeq.portfolio._measure import OCEMeasure, oce_scorer, portfolio_oce
from certeq.portfolio._minimum_oce import MinimumOCE
from certeq.portfolio._prior import ScenarioPrior

__all__ = ["Frontier", "MinimumOCE", "OCEMeasure", "ScenarioPrior", "oce_scorer", "portfolio_oce"]
