"""OCE-SG: stochastic gradients for OCE, with exact tilts, schedules from the corrected theory, and checkpoints."""

from certeq.optimize.sg._log import Snapshot
from certeq.optimize.sg._minimize import minimize_sg
from certeq.optimize.sg._schedules import (
    Schedule,
    constant,
    constant_batch,
    full_batch,
    growing_batch,
    inverse,
    inverse_sqrt,
    oce_smoothness,
)

__all__ = [
    "Schedule",
    "Snapshot",
    "constant",
    "constant_batch",
    "full_batch",
    "growing_batch",
    "inverse",
    "inverse_sqrt",
    "minimize_sg",
    "oce_smoothness",
]

# Pickles and tracebacks name this package, not the file that a class happens to be written in.
for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__
