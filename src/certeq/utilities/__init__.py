"""Utilities: each says what risk means. Everything else asks them and never branches on their names."""

from certeq.utilities._algebra import Normalized, Scaled, Sum
from certeq.utilities._base import Utility
from certeq.utilities._custom import CustomUtility, utility
from certeq.utilities._cvar import CVaR, LeakyCVaR, SmoothCVaR
from certeq.utilities._entropic import Entropic
from certeq.utilities._mean import Mean
from certeq.utilities._mean_variance import MeanVariance
from certeq.utilities._power import MonotoneMeanVariance, Quartic
from certeq.utilities._shapes import Arctangent, Exponential, Logistic, Pieces, Power, Quadratic, Shape

__all__ = [
    "Arctangent",
    "CVaR",
    "CustomUtility",
    "Entropic",
    "Exponential",
    "LeakyCVaR",
    "Logistic",
    "Mean",
    "MeanVariance",
    "MonotoneMeanVariance",
    "Normalized",
    "Pieces",
    "Power",
    "Quadratic",
    "Quartic",
    "Scaled",
    "Shape",
    "SmoothCVaR",
    "Sum",
    "Utility",
    "utility",
]
