"""The paper, reproduced: every table and figure by one call.

`certeq.paper.reproduce` runs the experiments named in `certeq.paper.EXPERIMENTS` and writes, for each, its tables,
its figures and a verdict on every claim, and one page that joins them.
"""

from certeq.paper._experiment import Claim, Experiment, Figure, Outcome, Panel, ResultTable, Series
from certeq.paper._run import EXPERIMENTS, Result, check_names, reproduce

__all__ = [
    "EXPERIMENTS",
    "Claim",
    "Experiment",
    "Figure",
    "Outcome",
    "Panel",
    "Result",
    "ResultTable",
    "Series",
    "check_names",
    "reproduce",
]

for _kind in (Claim, Experiment, Figure, Outcome, Panel, Result, Series, ResultTable):
    _kind.__module__ = __name__  # pickles name the package, whose modules may move
del _kind
