"""Estimates of risk from samples: OCE, shortfall, tilt, their error bars and bounds."""

from certeq.risk._oce import oce, shortfall, tilt

__all__ = ["oce", "shortfall", "tilt"]
