"""OCE-SG: stochastic gradients for OCE, with exact tilts, schedules from the corrected theory, and checkpoints."""

from certeq.optimize.sg._log import Snapshot
from certeq.optimize.sg._minimize import minimize_sg
from certeq.optimize.sg._regimes import oce_smoothness
from certeq.optimize.sg._schedules import (
    Schedule,
    constant,
    constant_batch,
    full_batch,
    growing_batch,
    inverse,
    inverse_sqrt,
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
