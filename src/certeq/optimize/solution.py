"""What an optimizer returns: the answer, its certificate, and the way to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.domains import Domain
from certeq.optimize.exact._certificate import certify_at
from certeq.optimize.losses import Evaluation, LinearLoss, Loss, Objective
from certeq.utilities import Risk, Utility
from certeq.utilities.forms import form

Floats = NDArray[np.float64]
_CHUNK = 2**20  # numbers of a table read at a time


def _nothing() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Trace:
    """The course of a run: one entry per logged iteration in each array.

    Attributes
    ----------
    iteration : array of int
        Number of the iteration, from 1.
    value : array of float
        OCE there; an estimate from the batch where samples are a stream.
    gap : array of float
        The optimality gap; NaN where there is no certificate.
    step : array of float
        Length of the step; NaN for a method without one.
    batch : array of int
        Number of samples used.
    seconds : array of float
        Time since the start.

    See Also
    --------
    certeq.Solution
        What `certeq.minimize` returns.
    certeq.minimize
        Minimize the OCE of losses over a feasible set.

    Examples
    --------
    >>> import certeq as ce
    >>> losses = ce.LinearLoss([[1.0, 2.0], [2.0, 0.0]])
    >>> found = ce.minimize(losses, ce.CVaR(0.5), domain=ce.Simplex())
    >>> len(found.trace) >= 1
    True
    """

    iteration: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    value: Floats = field(default_factory=_nothing)
    gap: Floats = field(default_factory=_nothing)
    step: Floats = field(default_factory=_nothing)
    batch: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    seconds: Floats = field(default_factory=_nothing)

    def __len__(self) -> int:
        return len(self.iteration)

    def __repr__(self) -> str:
        if not len(self):
            return "Trace(empty)"
        first, last = self.value[0], self.value[-1]
        return f"Trace({len(self)} entries to iteration {self.iteration[-1]}, value {first:.6g} -> {last:.6g})"


@dataclass(frozen=True, eq=False)
class Solution:
    r"""A point of the feasible set with what is known about it.

    Attributes
    ----------
    theta : array (d,)
        The point.
    value : float
        OCE there: over all samples, or over the last batch where samples are a stream.
    gap : float or None
        A proved bound on ``value - minimum``: g.theta - min over v in the set of g.v with g the OCE gradient at theta.
        +inf on an unbounded set, but from "exact", whose bound holds within ``radius`` there. None where it would prove
        nothing: a stream, or an objective not known to be convex.
        From "sg" on a kinked utility (CVaR) it is valid but need not go to 0: g is one subgradient of many.
    status : str
        "converged", "iteration limit", "time limit", "stopped by callback"; from "exact" also "stalled", where no step
        helps any more and the gap is still above the tolerance; from L-BFGS "no further progress".
    trace : Trace
        value, gap, step, batch and seconds along the way.
    iterations : int
        Steps made.
    residual : float or None
        norm(theta - project(theta - g)), 0 at a stationary point whether the problem is convex or not.
    threshold, tilt : float, array (n,) or None
        t* and the worst-case distribution over the samples at theta; None for a stream, and the tilt of samples that
        are read in blocks, which is as long as they are (`certeq.tilt` makes it). Of a mixture one t* per part.
    inner : array or None
        All inner variables of the risk at theta, in the order of its ``inner()``, where it has more than t*.
    seed : int or None
        What reproduces the run; None where nothing was random or a generator was passed in.
    seconds : float
        Wall-clock time.
    method : str
        Which algorithm it was: "exact", "lbfgs" or "sg".
    reason : str or None
        Why it was this one, where ``method="auto"`` chose it.
    radius : float
        From "exact" on a set that nothing bounds: the gap is proved against every point whose entries are that near.
    limit_values, limit_multipliers : array or None
        Where there were limits: their risks at theta, and by how much the minimum falls for each unit by which a level
        is raised, at first.
    binding : tuple of int or None
        Which limits have a positive multiplier, one by which the minimum changes by more than the tolerance.
    promise : str or None
        What theory promises for the run that was made; None where a step, batch or average of the caller's own
        replaced the regime's, and no theorem covers them.
    warnings : tuple of str
        What speaks against the point, from "sg": batches in which too few samples carry the risk, or a run that has not
        settled. `certeq.minimize` issues each as a `certeq.ReliabilityWarning`. Empty where nothing was found; that a
        run has come to the minimum is what ``gap`` and ``status`` say.

    See Also
    --------
    minimize
        Minimize the OCE of losses over a feasible set.
    certeq.optimize.Trace
        The course of a run.
    RatioSolution
        What `certeq.maximize_ratio` returns.

    Notes
    -----
    Not a statement about other samples: value and gap are those of the samples it was found on.

    Examples
    --------
    >>> import certeq as ce
    >>> losses = ce.LinearLoss([[1.0, 2.0], [2.0, 0.0]])
    >>> found = ce.minimize(losses, ce.CVaR(0.5), domain=ce.Simplex())
    >>> found.status, round(found.value, 9), bool(found.gap < 1e-9)
    ('converged', 1.333333333, True)
    """

    theta: Floats
    value: float
    gap: float | None
    status: str
    trace: Trace = field(default_factory=Trace)
    iterations: int = 0
    residual: float | None = None
    threshold: float | Floats | None = None
    tilt: Floats | None = None
    seed: int | None = None
    seconds: float = 0.0
    method: str = ""
    promise: str | None = None
    radius: float = float("inf")
    reason: str | None = None
    inner: Floats | None = None
    limit_values: Floats | None = None
    limit_multipliers: Floats | None = None
    binding: tuple[int, ...] | None = None
    warnings: tuple[str, ...] = ()

    @property
    def converged(self) -> bool:
        """Whether the tolerance that was asked for is met."""
        return self.status == "converged"

    def __repr__(self) -> str:
        lines = [f"Solution: {self.status} after {self.iterations} iterations, {self.seconds:.3g} s ({self.method})"]
        for entry in fields(self):
            found = getattr(self, entry.name)
            if found is None or entry.name in ("status", "iterations", "seconds", "method"):
                continue
            if entry.name == "warnings":
                lines += [f"  {'warning':>9}: {warning}" for warning in self.warnings]
                continue
            if entry.name == "radius" and found == math.inf:
                continue
            lines.append(f"  {entry.name:>9}: {_show(found)}")
        return "\n".join(lines)


def _show(found: object) -> str:
    if isinstance(found, np.ndarray):
        with np.printoptions(precision=4, threshold=8, edgeitems=3, suppress=True):
            return f"{found} (size {found.size})" if found.size > 8 else str(found)
    return f"{found:.10g}" if isinstance(found, float) else str(found)


def solution_at(at: Evaluation, theta: Floats, objective: Objective, domain: Domain, **rest: Any) -> Solution:
    """Return theta as a solution, with its certificate; ``rest`` says how it was found."""
    return Solution(
        theta=theta,
        value=at.value,
        gap=certified_gap(at, theta, objective, domain),
        residual=stationarity(at, theta, domain),
        threshold=None if np.ndim(at.threshold) == 0 and np.isnan(at.threshold) else at.threshold,
        tilt=at.tilt if at.tilt.size else None,  # of samples in blocks it is as long as they are, and not kept
        **rest,
    )


def frank_wolfe_gap(at: Evaluation, theta: Floats, loss: Loss, utility: Risk, domain: Domain) -> float | None:
    """Return g.theta - min over v in the set of g.v, or None where OCE of the loss is not known to be convex.

    OCE of a convex loss is convex when u is monotone; of a linear loss, always. Where OCE has a kink at theta, g is one
    subgradient of many and the bound need not vanish at the minimum. Roundings of g are not allowed for.
    """
    if loss.linear or (loss.convex and utility.is_monotone):
        return domain.support_gap(theta, at.gradient)
    return None


def certified_gap(at: Evaluation, theta: Floats, objective: Objective, domain: Domain) -> float | None:
    """Return the gap of `frank_wolfe_gap`; of a linear loss in memory as the certificate proves it, roundings and all.

    Of samples in blocks and of other losses the gradient is that of exact arithmetic but for rounding.
    """
    loss, utility, table = objective.loss, objective.utility, objective.samples
    if not (loss.linear and isinstance(table, np.ndarray) and isinstance(utility, Utility)):
        return frank_wolfe_gap(at, theta, loss, utility, domain)
    weights = np.full(len(table), 1.0 / len(table)) if objective.weights is None else objective.weights
    kept: Any = slice(None)
    if not weights.all():  # a row that cannot happen may lose so much that u overflows, and 0 * inf is not 0
        kept = np.flatnonzero(weights)
        table, weights = table[kept], weights[kept]
    step, count = max(1, _CHUNK // table.shape[1]), len(table)
    rows = (slice(start, min(start + step, count)) for start in range(0, count, step))
    blocks = ((part, np.asarray(table[part], dtype=np.float64)) for part in rows)
    longer = loss.extended(theta) if isinstance(loss, LinearLoss) else theta
    fixed = longer.size - theta.size
    return certify_at(blocks, weights, form(utility), domain, longer, float(at.threshold), at.tilt[kept], fixed)[1]


def stationarity(at: Evaluation, theta: Floats, domain: Domain) -> float:
    """Return norm(theta - project(theta - g)), the length of the gradient mapping at unit step."""
    return float(np.linalg.norm(theta - domain.project(theta - at.gradient)))
