"""Utilities: each says what risk means. Everything else asks them and never branches on their names."""

from certeq.utilities._algebra import Normalized, Scaled, Sum
from certeq.utilities._base import Utility
from certeq.utilities._custom import CustomUtility, utility
from certeq.utilities._families import (
    CVaR,
    Entropic,
    LeakyCVaR,
    Mean,
    MeanVariance,
    MonotoneMeanVariance,
    Quartic,
    SmoothCVaR,
)
from certeq.utilities._numeric import find_anchor
from certeq.utilities.forms import Arctangent, Exponential, Logistic, Pieces, Power, Quadratic, Shape

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
    "find_anchor",
    "utility",
]

for _kind in list(globals().values()):
    if isinstance(_kind, type):
        _kind.__module__ = __name__  # pickles name the package, whose modules may move
del _kind
