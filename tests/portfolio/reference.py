"""The same problems written for cvxpy, independently of the code under test."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

import certeq as ce


def oce_expression(losses: cp.Expression, utility: ce.Utility, p: np.ndarray, t: cp.Variable) -> cp.Expression:
    """t + E u(losses - t)."""
    x = losses - t
    if isinstance(utility, ce.CVaR):
        return t + p @ cp.pos(x) / utility.alpha
    if isinstance(utility, ce.Entropic):
        return cp.log_sum_exp(utility.beta * losses + np.log(p)) / utility.beta + 0 * t
    if isinstance(utility, ce.MeanVariance):
        return t + p @ (x + utility.beta * cp.square(x))
    if isinstance(utility, ce.MonotoneMeanVariance):
        return t + p @ (cp.power(cp.pos(x + 1), utility.a) - 1) / utility.a
    raise NotImplementedError(repr(utility))


def solve(
    returns: np.ndarray,
    utility: ce.Utility,
    *,
    mu: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    risk_aversion: float | None = None,
    lower: Any = 0.0,
    upper: Any = 1.0,
    budget: float | None = 1.0,
    min_budget: float | None = None,
    max_budget: float | None = None,
    max_long: float | None = None,
    max_short: float | None = None,
    fees: Any = 0.0,
    costs: Any = 0.0,
    previous: Any = 0.0,
    l1: float = 0.0,
    l2: float = 0.0,
    min_return: float | None = None,
    max_turnover: float | None = None,
    left: Any = None,
    right: Any = None,
    equal: Any = None,
) -> tuple[float, np.ndarray]:
    """Objective and weights by Clarabel at tight tolerances."""
    count, n = returns.shape
    p = np.full(count, 1.0 / count) if weights is None else weights
    mu = p @ returns if mu is None else mu
    fees, costs, previous = (np.broadcast_to(each, n) for each in (fees, costs, previous))
    w, t = cp.Variable(n), cp.Variable()
    paid = fees @ w + costs @ cp.abs(w - previous)
    if utility.is_monotone:
        risk = oce_expression(-returns @ w + paid, utility, p, t)
    else:  # cvxpy will not square a cost; a sure loss may be taken out of OCE
        risk = oce_expression(-returns @ w, utility, p, t) + paid
    mean = mu @ w - paid
    penalty = l1 * cp.norm1(w) + l2 * cp.sum_squares(w)
    rules = []
    if lower is not None:
        rules.append(w >= lower)
    if upper is not None:
        rules.append(w <= upper)
    if budget is not None:
        rules.append(cp.sum(w) == budget)
    if min_budget is not None:
        rules.append(cp.sum(w) >= min_budget)
    if max_budget is not None:
        rules.append(cp.sum(w) <= max_budget)
    if max_long is not None:
        rules.append(cp.sum(cp.pos(w)) <= max_long)
    if max_short is not None:
        rules.append(cp.sum(cp.neg(w)) <= max_short)
    if min_return is not None:
        rules.append(mean >= min_return)
    if max_turnover is not None:
        rules.append(cp.abs(w - previous) <= max_turnover)
    if left is not None:
        rules.append(np.asarray(left) @ w <= right)
    if equal is not None:
        rules.append(equal[0] @ w == equal[1])
    goal = risk + penalty if risk_aversion is None else risk_aversion * risk - mean + penalty
    problem = cp.Problem(cp.Minimize(goal), rules)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert problem.status in ("optimal", "optimal_inaccurate")
    value = float(problem.value)
    return (value if risk_aversion is None else -value), np.asarray(w.value)
