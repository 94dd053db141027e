"""Losses F(theta, xi): what is minimized. Each gives per-sample losses and their vector-Jacobian product."""

from certeq.optimize.losses._base import Evaluation, Loss, Objective
from certeq.optimize.losses._functions import CallableLoss, TorchLoss
from certeq.optimize.losses._linear import LinearLoss
from certeq.optimize.losses._predictor import LogisticLoss, SquaredLoss

__all__ = [
    "CallableLoss",
    "Evaluation",
    "LinearLoss",
    "LogisticLoss",
    "Loss",
    "Objective",
    "SquaredLoss",
    "TorchLoss",
]

# Pickles and tracebacks name this package, not the file that a class happens to be written in.
for _name in __all__:
    globals()[_name].__module__ = __name__
