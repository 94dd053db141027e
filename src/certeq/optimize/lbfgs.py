"""Full-batch L-BFGS for smooth losses without constraints, or with bounds alone."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from scipy.optimize import minimize as scipy_minimize

from certeq._checks import check_count
from certeq.optimize.domains import Domain
from certeq.optimize.domains._polyhedron import bounds_alone
from certeq.optimize.losses import Evaluation, Loss, Objective
from certeq.optimize.losses._base import Floats
from certeq.optimize.sg._log import Log, Snapshot
from certeq.optimize.sg._minimize import check_limit, check_problem, check_start
from certeq.optimize.solution import Solution, solution_at
from certeq.utilities import Mean, Risk, Utility


def minimize_lbfgs(
    loss: Loss,
    utility: Risk,
    *,
    domain: Domain,
    samples: Any = None,
    theta0: Any = None,
    weights: Any = None,
    tol: float = 1e-8,
    iterations: int = 1000,
    time_limit: float | None = None,
    memory: int = 20,
) -> Solution:
    """Minimize OCE over all samples by L-BFGS-B, with t eliminated: its gradient is sum_i q_i grad F_i.

    Parameters
    ----------
    loss, utility
        A smooth F (convex or not) and a risk without kinks: a utility, ``EVaR(0.05)``, a ball, ``HMCR(2, 0.05)``. A
        ball still has a kink where its scale is 0: where all losses are equal, and at radii so large that its risk is
        the largest loss. A minimum there ends with the status "no further progress".
    domain
        Free(), or bounds alone (Box, NonNegative). Other sets are refused: L-BFGS-B cannot project onto them.
    samples, theta0, weights
        As for `minimize`.
    tol : float
        The run has converged when no entry of the projected gradient exceeds tol.
    iterations, time_limit : int, float
        Limits.
    memory : int
        Pairs of vectors that approximate the Hessian.

    Returns
    -------
    Solution
        With status "no further progress" the line search failed before ``tol``, usually by rounding: look at
        ``residual``. The gap is None unless OCE is known to be convex, and +inf on an unbounded set.

    Examples
    --------
    >>> import certeq as ce
    >>> from certeq.optimize.domains import Free
    >>> from certeq.optimize.losses import SquaredLoss
    >>> loss = SquaredLoss([[1.0], [1.0], [1.0]], [0.0, 0.0, 3.0])
    >>> minimize_lbfgs(loss, ce.Entropic(beta=1.0), domain=Free()).theta.round(4)
    array([1.4055])
    """
    check_problem(loss, utility, domain)
    if not utility.is_smooth:
        raise ValueError(
            f"utility must be smooth for method='lbfgs'; {utility!r} has kinks. Use method='sg', or SmoothCVaR."
        )
    objective = Objective(loss, utility, samples, weights)
    theta = check_start(theta0, loss, objective.samples, domain)
    lower, upper = _bounds(domain, theta.size)
    if not isinstance(utility, Utility):
        theta = _off_constants(objective, theta, lower, upper)
    limit, deadline = check_limit("tol", tol), time.perf_counter() + check_limit("time_limit", time_limit)
    start = time.perf_counter()
    log, latest = Log(), _Latest(objective)

    def note(at: Floats) -> None:
        # A gap costs a linear program on some sets; along the way the value says enough.
        value = latest.evaluate(at).value
        log.add(Snapshot(len(log.rows) + 1, at, value, None, 1.0, objective.count, time.perf_counter() - start))
        if time.perf_counter() >= deadline:
            raise StopIteration

    bounds, memory = list(zip(lower, upper, strict=True)), check_count("memory", memory)
    options = {"maxfun": 20 * check_count("iterations", iterations), "maxcor": memory, "gtol": limit, "ftol": 0.0}
    found, taken, before = theta, 0, math.inf
    while True:
        options["maxiter"] = iterations - taken
        answer = scipy_minimize(
            latest.value_and_gradient,
            found,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            callback=note,
            options=options,
        )
        found = np.clip(np.asarray(answer.x, dtype=np.float64), lower, upper)
        at, taken = objective.evaluate(found), taken + int(answer.nit)
        projected = float(np.abs(found - np.clip(found - at.gradient, lower, upper)).max())
        # A line search may fail for what the memory says of the curvature: without it the method goes on.
        over = projected <= limit or taken >= iterations or time.perf_counter() >= deadline
        if over or not at.value < before:
            break
        before = at.value
    if projected <= limit:
        status = "converged"
    elif time.perf_counter() >= deadline:
        status = "time limit"
    elif taken >= iterations:
        status = "iteration limit"
    else:
        status = "no further progress"
    return solution_at(
        at,
        found,
        objective,
        domain,
        status=status,
        trace=log.trace(),
        iterations=taken,
        seconds=time.perf_counter() - start,
        method="lbfgs",
    )


class _Latest:
    """The objective, remembering its last evaluation: the callback asks for the point just computed."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.theta: Floats = np.zeros(0)
        self.evaluation: Evaluation | None = None

    def evaluate(self, theta: Floats) -> Evaluation:
        if self.evaluation is None or not np.array_equal(theta, self.theta):
            self.theta, self.evaluation = theta.copy(), self.objective.evaluate(theta)
        return self.evaluation

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        at = self.evaluate(theta)
        return at.value, at.gradient


def _off_constants(objective: Objective, theta: Floats, lower: Floats, upper: Floats) -> Floats:
    """A start whose losses differ, by a few steps that lower their mean: a coherent risk has a kink at a constant."""
    losses = objective.evaluate(theta).losses
    if float(np.ptp(losses)) > 1e-9 * float(np.abs(losses).max()):
        return theta
    mean = _Latest(Objective(objective.loss, Mean(), objective.samples, objective.weights))
    bounds = list(zip(lower, upper, strict=True))
    options = {"maxiter": 3}
    found = scipy_minimize(mean.value_and_gradient, theta, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.clip(np.asarray(found.x, dtype=np.float64), lower, upper)


def _bounds(domain: Domain, d: int) -> tuple[Floats, Floats]:
    """Return the bounds of a set that consists of nothing else."""
    bounds = bounds_alone(domain, d)
    if bounds is None:
        raise ValueError(
            f"domain must be Free() or bounds alone for method='lbfgs'; found {domain!r}. Use 'exact' or 'sg'."
        )
    return bounds
