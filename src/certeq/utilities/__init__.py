"""Utilities and risks made of them: each says what risk means. Everything else asks them, never for their names."""

from certeq.utilities._algebra import Normalized, Scaled, Sum
from certeq.utilities._balls import HMCR, DivergenceBall, EVaR, PositivePower
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
from certeq.utilities._mixtures import (
    Distortion,
    Mixture,
    PowerDistortion,
    ProportionalHazard,
    SortedRisk,
    Wang,
)
from certeq.utilities._numeric import find_anchor
from certeq.utilities._risk import Risk
from certeq.utilities.forms import Arctangent, Exponential, Logistic, Pieces, Power, Quadratic, Shape

__all__ = [
    "HMCR",
    "Arctangent",
    "CVaR",
    "CustomUtility",
    "Distortion",
    "DivergenceBall",
    "EVaR",
    "Entropic",
    "Exponential",
    "LeakyCVaR",
    "Logistic",
    "Mean",
    "MeanVariance",
    "Mixture",
    "MonotoneMeanVariance",
    "Normalized",
    "Pieces",
    "PositivePower",
    "Power",
    "PowerDistortion",
    "ProportionalHazard",
    "Quadratic",
    "Quartic",
    "Risk",
    "Scaled",
    "Shape",
    "SmoothCVaR",
    "SortedRisk",
    "Sum",
    "Utility",
    "Wang",
    "find_anchor",
    "utility",
]

for _kind in list(globals().values()):
    if isinstance(_kind, type):
        _kind.__module__ = __name__  # pickles name the package, whose modules may move
del _kind
