"""Estimates of risk from samples: OCE, threshold, tilt, their error bars and bounds."""

from certeq.risk import bounds
from certeq.risk._api import oce, threshold, tilt, ubsr
from certeq.risk._estimate import Estimate, ReliabilityWarning, estimate

__all__ = ["Estimate", "ReliabilityWarning", "bounds", "estimate", "oce", "threshold", "tilt", "ubsr"]
