"""Estimates of risk from samples: OCE, threshold, tilt, their error bars and bounds."""

from certeq.risk import bounds
from certeq.risk._api import oce, threshold, tilt, ubsr
from certeq.risk._certified import Control, control, upper_bound
from certeq.risk._difference import Difference, difference
from certeq.risk._estimate import Estimate, ReliabilityWarning, estimate

__all__ = [
    "Control",
    "Difference",
    "Estimate",
    "ReliabilityWarning",
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
