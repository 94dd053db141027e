"""The paper, reproduced: every table and figure by one call.

`reproduce` runs the experiments named in `EXPERIMENTS` and writes, for each, its tables, its figures and a verdict on
every claim, and one page that joins them.
"""

from certeq.paper._experiment import Claim, Experiment, Figure, Outcome, Panel, Series, Table
from certeq.paper._registry import EXPERIMENTS
from certeq.paper._reproduce import Result, reproduce

__all__ = [
    "EXPERIMENTS",
    "Claim",
    "Experiment",
    "Figure",
    "Outcome",
    "Panel",
    "Result",
    "Series",
    "Table",
    "reproduce",
]
