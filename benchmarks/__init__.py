"""Measurements: ratios of this library to its peers, taken side by side in one run on one machine."""
