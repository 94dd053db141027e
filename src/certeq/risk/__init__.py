"""Estimates of risk from samples: OCE, threshold, tilt, their confidence intervals and bounds."""

from certeq.risk import bounds
from certeq.risk._api import oce, threshold, tilt, ubsr
from certeq.risk._certified import Control, control, upper_bound
from certeq.risk._difference import Difference, difference
from certeq.risk._estimate import Estimate, ReliabilityWarning, estimate
from certeq.risk._units import UnitWarning

__all__ = [
    "Control",
    "Difference",
    "Estimate",
    "ReliabilityWarning",
    "UnitWarning",
    "bounds",
    "control",
    "difference",
    "estimate",
    "oce",
    "threshold",
    "tilt",
    "ubsr",
    "upper_bound",
]
