"""Reports: one HTML file per study, with charts, tables, intervals and certificates, that opens without a network."""

from certeq._files import check_writable, write_text
from certeq.report._report import render, save
from certeq.report._study import HeldLimit, Strategy, Study, Sweep, fit_strategy, frontier, sensitivity
from certeq.report._tables import differences, differences_sentence, figures, gain_in_words, why_not_compared
from certeq.report._walk import Walk, WalkStudy, walk_forward, walk_of
from certeq.report.metrics import METRICS, Metric, intervals, measure

__all__ = [
    "METRICS",
    "HeldLimit",
    "Metric",
    "Strategy",
    "Study",
    "Sweep",
    "Walk",
    "WalkStudy",
    "check_writable",
    "differences",
    "differences_sentence",
    "figures",
    "fit_strategy",
    "frontier",
    "gain_in_words",
    "intervals",
    "measure",
    "render",
    "save",
    "sensitivity",
    "walk_forward",
    "walk_of",
    "why_not_compared",
    "write_text",
]

for _kind in (HeldLimit, Metric, Strategy, Study, Sweep, Walk, WalkStudy):
    _kind.__module__ = __name__  # pickles name the package, whose modules may move
del _kind
