"""Losses F(theta, xi): what is minimised. Each gives per-sample losses and their vector-Jacobian product."""

from certeq.optimize.losses._base import Loss
from certeq.optimize.losses._callable import CallableLoss
from certeq.optimize.losses._linear import LinearLoss
from certeq.optimize.losses._logistic import LogisticLoss
from certeq.optimize.losses._objective import Evaluation, Objective
from certeq.optimize.losses._squared import SquaredLoss
from certeq.optimize.losses._torch import TorchLoss

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
