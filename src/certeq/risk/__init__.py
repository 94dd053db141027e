"""Estimates of risk from samples: OCE, threshold, tilt, their error bars and bounds."""

from certeq.risk import bounds
from certeq.risk._estimate import Estimate, ReliabilityWarning, estimate
from certeq.risk._oce import oce, threshold, tilt
from certeq.risk._ubsr import ubsr

__all__ = ["Estimate", "ReliabilityWarning", "bounds", "estimate", "oce", "threshold", "tilt", "ubsr"]
