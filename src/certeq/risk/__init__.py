"""Estimates of risk from samples: OCE, shortfall, tilt, their error bars and bounds."""

from certeq.risk import bounds
from certeq.risk._estimate import Estimate, ReliabilityWarning, estimate
from certeq.risk._oce import oce, shortfall, tilt
from certeq.risk._ubsr import ubsr

__all__ = ["Estimate", "ReliabilityWarning", "bounds", "estimate", "oce", "shortfall", "tilt", "ubsr"]
