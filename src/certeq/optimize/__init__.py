"""Minimize OCE(F(theta, xi)) over a feasible set: OCE-SG, an exact solver, L-BFGS; every answer with a certificate."""

from certeq.optimize.budgeting import BudgetingResult, risk_budgeting
from certeq.optimize.domains import (
    Ball,
    Box,
    CappedSimplex,
    Domain,
    Free,
    InfeasibleError,
    L1Ball,
    LongShort,
    NonNegative,
    Polyhedron,
    Product,
    Simplex,
    UnboundedError,
)
from certeq.optimize.exact import ExactResult, solve_exact
from certeq.optimize.hessian import hessian, hessian_product
from certeq.optimize.limited import InfeasibleLimitsError
from certeq.optimize.losses import CallableLoss, LinearLoss, LogisticLoss, Loss, SquaredLoss, TorchLoss
from certeq.optimize.minimize import minimize
from certeq.optimize.ratio import RatioSolution, maximize_ratio
from certeq.optimize.sg import (
    constant,
    constant_batch,
    full_batch,
    growing_batch,
    inverse,
    inverse_sqrt,
    oce_smoothness,
)
from certeq.optimize.solution import Solution, Trace
from certeq.optimize.terms import Limit, RiskTerm, RootMeanSquare

__all__ = [
    "Ball",
    "Box",
    "BudgetingResult",
    "CallableLoss",
    "CappedSimplex",
    "Domain",
    "ExactResult",
    "Free",
    "InfeasibleError",
    "InfeasibleLimitsError",
    "L1Ball",
    "Limit",
    "LinearLoss",
    "LogisticLoss",
    "LongShort",
    "Loss",
    "NonNegative",
    "Polyhedron",
    "Product",
    "RatioSolution",
    "RiskTerm",
    "RootMeanSquare",
    "Simplex",
    "Solution",
    "SquaredLoss",
    "TorchLoss",
    "Trace",
    "UnboundedError",
    "constant",
    "constant_batch",
    "full_batch",
    "growing_batch",
    "hessian",
    "hessian_product",
    "inverse",
    "inverse_sqrt",
    "maximize_ratio",
    "minimize",
    "oce_smoothness",
    "risk_budgeting",
    "solve_exact",
]
