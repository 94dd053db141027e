"""Linear models as conic programs of cvxpy: the minimum that a gap must reach, found without the package."""

from __future__ import annotations

import math
import warnings
from typing import Any

import cvxpy as cp
import numpy as np

import certeq as ce
from tests.problems import cone

SLACK = 3e-7  # accuracy of Clarabel's answers relative to objectives of size 1
KL = ce.Entropic(1.0).ball(0.3)


def risk_of(risk: Any, F: cp.Expression, w: np.ndarray) -> tuple[cp.Expression, list[Any]]:
    """Return a risk of convex losses F and its constraints."""
    match risk:
        case ce.Entropic():
            return cp.log_sum_exp(risk.beta * F + np.log(w)) / risk.beta, []
        case ce.Utility() if hasattr(risk, "terms"):  # of a mean and a CVaR, which share one t
            t = cp.Variable()
            (mean, tail), (_, cvar) = risk.weights, risk.terms
            return t + mean * (w @ (F - t)) + tail * (w @ cp.pos(F - t)) / cvar.alpha, []
        case ce.DivergenceBall() if risk == KL:
            risk = ce.EVaR(math.exp(-risk.radius))
    above = cp.Variable(len(w))
    value, rows = cone(risk, above, w)
    return value, [above >= F, *rows]


def minimum(risk: Any, X: np.ndarray, y: np.ndarray, penalty: float, w: np.ndarray, outputs: int) -> float:
    """Return the minimal objective: squared errors for 0 outputs, else cross-entropies of as many classes."""
    n, d = X.shape
    c, b = (cp.Variable((d, outputs)), cp.Variable(outputs)) if outputs > 2 else (cp.Variable(d), cp.Variable())
    if outputs == 0:
        F = cp.square(X @ c + b - y)
    elif outputs == 2:
        F = cp.logistic(cp.multiply(np.where(y == 1, -1.0, 1.0), X @ c + b))
    else:
        F = cp.hstack([cp.log_sum_exp(X[i] @ c + b) - (X[i] @ c[:, int(y[i])] + b[int(y[i])]) for i in range(n)])
    value, constraints = risk_of(risk, F, w)
    problem = cp.Problem(cp.Minimize(value + 0.5 * penalty * cp.sum_squares(c)), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL)
    assert problem.status in ("optimal", "optimal_inaccurate")
    return float(problem.value)


def data(outputs: int = 0, n: int = 60, d: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return samples, targets or that many classes, and weights."""
    rng = np.random.default_rng(n + d)
    X = rng.normal(size=(n, d))
    y = X @ np.linspace(1.0, -0.5, d) + 0.3 + 0.5 * rng.standard_t(5, size=n)
    if outputs:
        y = np.digitize(y, np.quantile(y, np.arange(1, outputs) / outputs))
    return X, y, rng.uniform(0.5, 2.0, n)
