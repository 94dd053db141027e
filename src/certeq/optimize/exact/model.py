"""The problem in units where losses, holdings and slopes are of size 1, and its local models."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.exact.problem import Polyhedron, Problem
from certeq.optimize.exact.scenarios import Scenarios
from certeq.optimize.exact.shortfall import shortfall
from certeq.optimize.exact.squares import Squares
from certeq.optimize.exact.subproblem import Subproblem
from certeq.utilities import Quadratic, Utility

Vector = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class Point:
    """A feasible theta with its losses, shortfall and value."""

    theta: Vector
    losses: Vector
    t: float
    value: float


@dataclass(frozen=True)
class Hinges:
    """Kinks that a model treats exactly: pairs (scenario, kink); every other one keeps the side it is on.

    ``above`` has one row per kink: whether a scenario outside the pairs counts as above that kink.
    """

    scenario: Index
    which: Index
    above: NDArray[np.bool_]


@dataclass(frozen=True)
class Model:
    """Minimise OCE(scenarios @ theta) + linear.theta + squares over the polyhedron, all of size about 1."""

    scenarios: Scenarios
    utility: Utility
    linear: Vector
    polyhedron: Polyhedron
    low: Vector  # the box that the rows imply
    high: Vector
    holding: float  # theta in the caller's units = holding * theta here
    loss: float  # and losses likewise
    squares: Squares | None = None

    @property
    def weights(self) -> Vector:
        """The scenarios' probabilities."""
        return self.scenarios.weights

    def with_utility(self, utility: Utility) -> Model:
        """The same problem under another utility."""
        return replace(self, utility=utility)

    def evaluate(self, theta: Vector, guess: float | None = None) -> Point:
        """Losses, shortfall and value at theta."""
        return self.at(theta, self.scenarios.losses(theta), guess)

    def at(self, theta: Vector, losses: Vector, guess: float | None = None) -> Point:
        """The same where the losses are known already."""
        with np.errstate(all="ignore"):
            t = shortfall(losses, self.weights, self.utility, guess)
            value = t + float(self.weights @ self.utility.value(losses - t)) + float(self.linear @ theta)
            if self.squares is not None:
                value += self.squares.value(theta)
        return Point(theta, losses, t, value)

    def costs(self, theta: Vector) -> Vector:
        """The slope in theta of all but the risk."""
        return self.linear if self.squares is None else self.linear + self.squares.slope(theta)

    def slopes(self, at: Vector, hinges: Hinges) -> tuple[Vector, Vector, Vector]:
        """Slope and curvature of u at the given points, less the kinks in ``hinges``; and w times the slope."""
        with np.errstate(all="ignore"):
            slope, curvature = self.utility.derivatives(at)
        for k, (kink, jump) in enumerate(self.utility.kinks):
            chosen = np.zeros(len(at), dtype=bool)
            chosen[hinges.scenario[hinges.which == k]] = True
            wanted = hinges.above[k] & ~chosen
            slope = slope + jump * (wanted.astype(float) - (at > kink))
        return slope, curvature, self.weights * slope

    def caps(self, hinges: Hinges) -> Vector:
        """The largest multiplier of each hinge: w times the jump."""
        jumps = np.array([jump for _, jump in self.utility.kinks])
        return self.weights[hinges.scenario] * jumps[hinges.which] if len(jumps) else np.zeros(0)

    def as_subproblem(self) -> Subproblem | None:
        """The whole problem, where u is quadratic and every asset bounded; None elsewhere.

        The losses are centred, so that  E u(x - t) + t + linear.theta  has the slope bend*Cov theta + linear in theta
        and bend*(t + anchor) in t: one product of the table with itself says it all.
        """
        q, shape = self.polyhedron, self.utility.shape
        if not isinstance(shape, Quadratic) or not np.isfinite(self.high - self.low).all():
            return None
        H = self.scenarios.gram(shape.bend * self.weights, np.arange(len(self.linear)))
        if self.squares is not None:
            self.squares.add_hessian(H, np.arange(len(self.linear)))
        g = np.append(self.linear, shape.bend * self.utility.anchor)
        return _in_theta_and_t(g, H, q, None)

    def subproblem(self, point: Point, assets: Index, hinges: Hinges, radius: float) -> Subproblem:
        """The second-order model at a point in the variables (theta[assets], t), kinks kept as hinges."""
        q = self.polyhedron
        _, curvature, tilt = self.slopes(point.losses - point.t, hinges)
        g = np.append((self.scenarios.pull(tilt) + self.costs(point.theta))[assets], 1.0 - float(tilt.sum()))
        at = np.append(point.theta[assets], point.t)
        H = None
        if np.any(curvature):
            H = self.scenarios.gram(self.weights * curvature, assets)
        if self.squares is not None:
            H = np.zeros((len(at), len(at))) if H is None else H
            self.squares.add_hessian(H, assets)
        if H is not None:
            g = g - H @ at
        rest = point.theta.copy()
        rest[assets] = 0.0
        bent = None
        if len(hinges.scenario):
            B = self.scenarios.rows(hinges.scenario, assets)
            place = np.array([kink for kink, _ in self.utility.kinks])
            kink = place[hinges.which]
            if np.any(rest):
                kink = kink - self.scenarios.losses(rest)[hinges.scenario]
            bent = B, kink, self.caps(hinges)
        lower, upper = q.lower[assets], q.upper[assets]
        lower = np.where(np.isneginf(lower) & np.isneginf(self.low[assets]), at[:-1] - radius, lower)
        upper = np.where(np.isposinf(upper) & np.isposinf(self.high[assets]), at[:-1] + radius, upper)
        C, G = q.C[:, assets], q.G[:, assets]
        chosen = Polyhedron(lower, upper, C, q.c - q.C @ rest, G, q.b - q.G @ rest)
        return _in_theta_and_t(g, H, chosen, bent)


def _in_theta_and_t(
    g: Vector, H: Vector | None, q: Polyhedron, hinges: tuple[Vector, Vector, Vector] | None
) -> Subproblem:
    """A subproblem in (theta, t) from constraints on theta alone."""
    C, G = (np.hstack([rows, np.zeros((len(rows), 1))]) for rows in (q.C, q.G))
    lower, upper = np.append(q.lower, -np.inf), np.append(q.upper, np.inf)
    B, kink, cap = hinges or (np.zeros((0, len(g))), np.zeros(0), np.zeros(0))
    return Subproblem(g, H, lower, upper, C, q.c, G, q.b, B, kink, cap)


def normalise(problem: Problem, scenarios: Scenarios, start: Vector, low: Vector, high: Vector) -> Model:
    """Divide losses by their spread and holdings by the size of a feasible point, and rows by their length."""
    q = problem.polyhedron
    holding = float(np.abs(start).sum())
    if holding == 0.0:
        corner = 0.5 * float(np.maximum(np.abs(low), np.abs(high)).sum())
        holding = corner if 0.0 < corner < np.inf else 1.0
    loss = scenarios.scale * holding
    c_norm, g_norm = q.lengths()
    inner = Polyhedron(
        q.lower / holding,
        q.upper / holding,
        q.C / c_norm[:, None],
        q.c / c_norm / holding,
        q.G / g_norm[:, None],
        q.b / g_norm / holding,
    )
    linear = (problem.linear + scenarios.centre) / scenarios.scale
    utility = problem.utility if loss == 1.0 else problem.utility.scaled(1.0 / loss)
    squares = None if problem.squares is None else problem.squares.scaled(holding / scenarios.scale)
    return Model(scenarios, utility, linear, inner, low / holding, high / holding, holding, loss, squares)
