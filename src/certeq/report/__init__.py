"""Reports: one HTML file per study, with charts, tables, intervals and certificates, that opens without a network."""

from certeq.report._intervals import intervals
from certeq.report._metrics import METRICS, Metric, measure
from certeq.report._report import render, save
from certeq.report._study import Strategy, Study, Sweep, fit_strategy
from certeq.report._sweep import frontier, sensitivity
from certeq.report._tables import figures
from certeq.report._write import check_writable, write_text

__all__ = [
    "METRICS",
    "Metric",
    "Strategy",
    "Study",
    "Sweep",
    "check_writable",
    "figures",
    "fit_strategy",
    "frontier",
    "intervals",
    "measure",
    "render",
    "save",
    "sensitivity",
    "write_text",
]
