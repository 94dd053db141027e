"""The L2 penalty, exactly: Newton steps with the square in their model, and a certificate from its tangent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.exact import ExactResult, solve_exact
from certeq.optimize.exact.solver import solve_subproblem
from certeq.optimize.exact.subproblem import Subproblem, SubSolution
from certeq.optimize.losses import LinearLoss
from certeq.portfolio._programme import Programme
from certeq.portfolio._segments import Segments
from certeq.risk import shortfall
from certeq.utilities import Utility

Floats = NDArray[np.float64]
_STEPS = 100


def solve_ridge(programme: Programme, theta0: Floats | None, tol: float, params: dict[str, Any]) -> ExactResult:
    r"""Minimise OCE(A v) + linear.v + l2 |w|^2, with w the weights that the segments v make up.

    At the solution w* the square may be replaced by its tangent there: for every v

    .. math:: l_2 |w|^2 \ge 2 l_2\, w^* \cdot w - l_2 |w^*|^2,

    so a lower bound for the problem with that linear term in place of the square, which the exact solver proves,
    is one for this problem, whatever w* is; and it is tight where w* is the solution.
    """

    def exact(linear: Floats, start: Floats | None) -> ExactResult:
        s, p = programme.segments, programme
        return solve_exact(
            p.A, p.problem.utility, weights=p.problem.weights, linear=linear, lower=s.lower, upper=s.upper,
            C=p.C, c=p.c, G=p.G, b=p.b, theta0=start, tol=tol, **params,
        )  # fmt: skip

    segments, l2 = programme.segments, programme.problem.l2
    v, steps = _newton(programme, exact(programme.linear, theta0).theta)
    w = segments.fold(v)
    tangent = exact(programme.linear + 2.0 * l2 * segments.row(w), v)
    value = _Scaled.of(programme).value_of(v)
    lower_bound = tangent.value - tangent.gap - l2 * float(w @ w)
    gap = max(value - lower_bound, 0.0)
    relative = gap / max(abs(value), 1e-300)
    return replace(
        tangent,
        theta=v,
        value=value,
        gap=gap,
        lower_bound=lower_bound,
        relative_gap=relative,
        iterations=steps + tangent.iterations,
        status="optimal" if relative <= tol else "stalled",
    )


@dataclass(frozen=True)
class _Scaled:
    """The problem in units where losses are of size 1; its variables are the segments and, last, the shortfall."""

    B: Floats  # rows (a_i, -1)
    weights: Floats
    utility: Utility
    linear: Floats  # with a 1 for the shortfall
    ridge: Floats  # the Hessian of the penalty
    unit: float

    @classmethod
    def of(cls, programme: Programme) -> _Scaled:
        problem, asset = programme.problem, programme.segments.asset
        count = len(problem.A)
        unit = float(np.std(programme.A)) or 1.0
        weights = np.full(count, 1.0 / count) if problem.weights is None else problem.weights / problem.weights.sum()
        ridge = np.zeros((len(asset) + 1, len(asset) + 1))
        ridge[:-1, :-1] = 2.0 * problem.l2 / unit * (asset[:, None] == asset)
        return cls(
            np.column_stack([programme.A / unit, np.full(count, -1.0)]),
            weights,
            problem.utility.scaled(1.0 / unit),
            np.append(programme.linear / unit, 1.0),
            ridge,
            unit,
        )

    def value(self, x: Floats) -> float:
        """The objective in (v, t)."""
        with np.errstate(all="ignore"):
            risk = float(self.weights @ self.utility.value(self.B @ x))
        return risk + float(self.linear @ x) + 0.5 * float(x @ self.ridge @ x)

    def with_shortfall(self, v: Floats) -> Floats:
        """The variables at v: itself and the best t."""
        return np.append(v, shortfall(self.B[:, :-1] @ v, self.utility, self.weights))

    def value_of(self, v: Floats) -> float:
        """The objective at v, in the caller's units."""
        return self.unit * self.value(self.with_shortfall(v))

    def model(self, x: Floats, programme: Programme) -> Subproblem:
        """The second-order model at x, with every kink of the utility kept as a hinge of every scenario."""
        excess = self.B @ x
        with np.errstate(all="ignore"):
            slope, curvature = self.utility.derivatives(excess)
        kinks = self.utility.kinks
        for kink, jump in kinks:
            slope = slope - jump * (excess > kink)
        H = self.ridge + (self.B.T * (self.weights * curvature)) @ self.B
        s, p = programme.segments, programme
        nothing = np.zeros(0)
        return Subproblem(
            self.linear + (self.weights * slope) @ self.B + self.ridge @ x - H @ x,
            H,
            np.append(s.lower, -np.inf),
            np.append(s.upper, np.inf),
            np.hstack([p.C, np.zeros((len(p.c), 1))]),
            p.c,
            np.hstack([p.G, np.zeros((len(p.b), 1))]),
            p.b,
            np.vstack([self.B] * len(kinks)) if kinks else np.zeros((0, len(x))),
            np.repeat([kink for kink, _ in kinks], len(excess)) if kinks else nothing,
            np.concatenate([self.weights * jump for _, jump in kinks]) if kinks else nothing,
        )


def _newton(programme: Programme, v: Floats) -> tuple[Floats, int]:
    """Steps to the minimum of the model, halved until the objective falls; quadratic convergence near the end."""
    scaled = _Scaled.of(programme)
    x = scaled.with_shortfall(v)
    value = scaled.value(x)
    last: SubSolution | None = None
    with np.errstate(all="ignore"):
        single = bool(scaled.utility.kinks) and not np.any(scaled.utility.curvature(scaled.B @ x))
    for step in range(1, _STEPS + 1):
        last = solve_subproblem(scaled.model(x, programme), x, last)
        length = 1.0
        while length > 1e-10:
            trial = x + length * (last.v - x)
            fresh = scaled.value(trial)
            if fresh <= value:
                break
            length *= 0.5
        else:
            return x[:-1], step
        fallen, x, value = value - fresh, trial, fresh
        if single or fallen <= 1e-15 * (1.0 + abs(value)):
            return x[:-1], step
    return x[:-1], _STEPS


class RidgeLoss(LinearLoss):
    r"""Losses :math:`a_i^\top v + l_2 \|w(v)\|^2`: what every scenario loses alike passes through OCE unchanged."""

    def __init__(self, A: Any, l2: float, segments: Segments) -> None:
        super().__init__(A)
        self.l2, self.segments = l2, segments
        self.linear = l2 == 0.0

    def evaluate(self, theta: Floats, batch: Any = None) -> tuple[Floats, Any]:
        """Return the losses, and q -> A^T q + (sum q) 2 l2 w."""
        losses, product = super().evaluate(theta, batch)
        if self.l2 == 0.0:
            return losses, product
        w = self.segments.fold(theta)
        slope = 2.0 * self.l2 * self.segments.row(w)
        return losses + self.l2 * float(w @ w), lambda q: product(q) + float(q.sum()) * slope

    def smoothness(self, batch: Any = None) -> float:
        """2 l2 times the most segments an asset has."""
        return 2.0 * self.l2 * int(np.bincount(self.segments.asset).max())

    def lipschitz(self, batch: Any = None, theta: Floats | None = None, diameter: float = float("inf")) -> float:
        """Largest norm(a_i), and of the penalty within the diameter."""
        steep = super().lipschitz(batch)
        if self.l2 == 0.0 or theta is None:
            return steep if self.l2 == 0.0 else float("inf")
        return steep + self.smoothness() * (float(np.linalg.norm(theta)) + diameter)
