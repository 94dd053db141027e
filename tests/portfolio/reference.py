"""The same problems written for cvxpy, independently of the code under test."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np

import certeq as ce
from tests.problems import cone


def expression(risk: Any, losses: cp.Expression, p: np.ndarray) -> tuple[cp.Expression, list[Any]]:
    """Return a risk of losses with probabilities p and the constraints that go with it."""
    t = cp.Variable()
    x = losses - t
    match risk:
        case ce.Entropic():
            return cp.log_sum_exp(risk.beta * losses + np.log(p)) / risk.beta, []
        case ce.MeanVariance():
            return t + p @ (x + risk.beta * cp.square(x)), []
        case ce.MonotoneMeanVariance():
            return t + p @ (cp.power(cp.pos(x + 1), risk.a) - 1) / risk.a, []
        case ce.Mixture():
            parts = [expression(part, losses, p) for part in risk.risks]
            total = sum(weight * value for weight, (value, _) in zip(risk.weights, parts, strict=True))
            return total, [row for _, rows in parts for row in rows]
    return cone(risk, losses, p)


def solve(
    returns: np.ndarray,
    risk: Any,
    *,
    goal: str = "minimize_risk",
    risk_aversion: float = 1.0,
    mu: np.ndarray | None = None,
    weights: np.ndarray | None = None,
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
    limits: Any = (),
    benchmark_limits: Any = (),
    tracking: float | None = None,
    y: np.ndarray | None = None,
) -> tuple[float, np.ndarray]:
    """Return objective and weights by Clarabel at tight tolerances.

    Every risk here moves with a sure loss, so that costs and fees stand beside it.
    """
    count, n = returns.shape
    p = np.full(count, 1.0 / count) if weights is None else weights
    mu = p @ returns if mu is None else mu
    fees, costs, previous = (np.broadcast_to(each, n) for each in (fees, costs, previous))
    w = cp.Variable(n)
    paid = fees @ w + costs @ cp.abs(w - previous)
    value, rules = expression(risk, -returns @ w, p)
    for each, level, against in [*((*pair, 0.0) for pair in limits), *((*pair, y) for pair in benchmark_limits)]:
        limited, rows = expression(each, against - returns @ w, p)
        rules += [*rows, limited + paid <= level]
    if tracking is not None:
        rules.append(cp.norm2(returns @ w - y) / np.sqrt(count - 1.0) <= tracking)
    mean = mu @ w - paid
    bounds = [
        (lower, lambda limit: w >= limit),
        (upper, lambda limit: w <= limit),
        (budget, lambda limit: cp.sum(w) == limit),
        (min_budget, lambda limit: cp.sum(w) >= limit),
        (max_budget, lambda limit: cp.sum(w) <= limit),
        (max_long, lambda limit: cp.sum(cp.pos(w)) <= limit),
        (max_short, lambda limit: cp.sum(cp.neg(w)) <= limit),
        (min_return, lambda limit: mean >= limit),
        (max_turnover, lambda limit: cp.abs(w - previous) <= limit),
        (left, lambda rows: np.asarray(rows) @ w <= right),
        (equal, lambda rows: rows[0] @ w == rows[1]),
    ]
    rules += [rule(limit) for limit, rule in bounds if limit is not None]
    penalty = l1 * cp.norm1(w) + l2 * cp.sum_squares(w)
    aims = {"minimize_risk": value + paid, "maximize_return": -mean}
    aim = aims.get(goal, risk_aversion * (value + paid) - mean) + penalty
    problem = cp.Problem(cp.Minimize(aim), rules)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Clarabel's own
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert problem.status in ("optimal", "optimal_inaccurate")
    return (1.0 if goal == "minimize_risk" else -1.0) * float(problem.value), np.asarray(w.value)
