"""The problem in units where losses, holdings and slopes are of size 1, and its local models."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.domains._rows import Constraints
from certeq.optimize.exact._certificate import l1_reach
from certeq.optimize.exact._oracle import KeptRows, Scenarios, Sums, Units
from certeq.optimize.exact._problem import Problem, Squares
from certeq.optimize.qp import Subproblem
from certeq.risk.solvers import value_near
from certeq.utilities import Quadratic, Utility
from certeq.utilities.forms import Form
from certeq.utilities.forms import form as form_of

Vector = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class Point:
    """A feasible theta with its losses, threshold and value."""

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
    """Minimize OCE(scenarios @ theta) + linear.theta + squares over the polyhedron, all of size about 1."""

    scenarios: Scenarios
    form: Form
    linear: Vector
    polyhedron: Constraints
    low: Vector  # the box that the rows imply
    high: Vector
    holding: float  # theta in the caller's units = holding * theta here
    loss: float  # and losses likewise
    squares: Squares | None = None

    @property
    def weights(self) -> Vector:
        """The scenarios' probabilities."""
        return self.scenarios.weights

    @property
    def utility(self) -> Utility:
        """u, in these units."""
        return self.form.utility

    def with_form(self, form: Form) -> Model:
        """The same problem under another utility."""
        return replace(self, form=form)

    def evaluate(self, theta: Vector, guess: float | None = None) -> Point:
        """Losses, threshold and value at theta."""
        return self.at(theta, self.scenarios.losses(theta), guess)

    def at(self, theta: Vector, losses: Vector, guess: float | None = None) -> Point:
        """The same where the losses are known already."""
        with np.errstate(all="ignore"):
            value, t = value_near(losses, None if self.scenarios.even else self.weights, self.form, guess)
            value += float(self.linear @ theta)
            if self.squares is not None:
                value += self.squares.value(theta)
        return Point(theta, losses, t, value)

    def costs(self, theta: Vector) -> Vector:
        """The slope in theta of all but the risk."""
        return self.linear if self.squares is None else self.linear + self.squares.slope(theta)

    def slopes(self, losses: Vector, t: float, hinges: Hinges) -> tuple[Vector, Vector, Vector]:
        """Slope and curvature of u at losses less t, without the kinks in ``hinges``; and w times the slope."""
        with np.errstate(all="ignore"):
            slope, curvature = self.form.derivatives(losses, t)
        for k, kink in enumerate(self.form.kinks):
            chosen = np.zeros(len(losses), dtype=bool)
            chosen[hinges.scenario[hinges.which == k]] = True
            wanted = hinges.above[k] & ~chosen
            slope = slope + kink.jump * (wanted.astype(float) - (losses - kink.at > t))
        return slope, curvature, self.weights * slope

    def caps(self, hinges: Hinges) -> Vector:
        """The largest multiplier of each hinge: w times the jump."""
        if not self.form.kinks:
            return np.zeros(0)
        return np.asarray(self.weights[hinges.scenario] * self.form.jumps[hinges.which])

    def as_subproblem(self) -> Subproblem | None:
        """The whole problem, where u is quadratic and every asset bounded; None otherwise.

        The losses are centered, so that  E u(x - t) + t + linear.theta  has the slope c*Cov theta + linear in theta
        and c*(t + anchor) in t, with c the constant curvature: one product of the table with itself says it all.
        """
        q, shape = self.polyhedron, self.form.shape
        if not isinstance(shape, Quadratic) or not np.isfinite(self.high - self.low).all():
            return None
        H = self.scenarios.gram(shape.bend * self.weights, np.arange(len(self.linear)))
        if self.squares is not None:
            self.squares.add_hessian(H, np.arange(len(self.linear)))
        g = np.append(self.linear, shape.bend * self.utility.anchor)
        return _in_theta_and_t(g, H, q, None)

    def subproblem(self, point: Point, assets: Index, hinges: Hinges, radius: float) -> Subproblem:
        """The second-order model at a point in the variables (theta[assets], t), kinks kept as hinges."""
        _, curvature, tilt = self.slopes(point.losses, point.t, hinges)
        g = np.append((self.scenarios.column_sums(tilt) + self.costs(point.theta))[assets], 1.0 - float(tilt.sum()))
        H = None
        if np.any(curvature):
            H = self.scenarios.gram(self.weights * curvature, assets)
        if self.squares is not None:
            H = np.zeros((len(g), len(g))) if H is None else H
            self.squares.add_hessian(H, assets)
        v = np.append(point.theta, point.t)
        kinked = None
        if len(hinges.scenario):
            B, kink = self.scenarios.rows(hinges.scenario, assets), self.form.kink_locations[hinges.which]
            rest = _without(point.theta, assets)
            if np.any(rest):
                kink = kink - self.scenarios.losses(rest)[hinges.scenario]
            kinked = B, kink, self.caps(hinges)
        return self.around(v, assets, g, H, kinked, radius)

    def around(
        self,
        v: Vector,
        assets: Index,
        g: Vector,
        H: Vector | None,
        hinges: tuple[Vector, Vector, Vector] | None,
        radius: float,
    ) -> Subproblem:
        """The quadratic with slope g and Hessian H at v = (theta, t) in (theta[assets], t), all others as they are.

        A variable that nothing bounds is given bounds at the ``radius``.
        """
        q, rest = self.polyhedron, _without(v[:-1], assets)
        at = v[np.append(assets, len(v) - 1)]
        if H is not None:
            g = g - H @ at
        lower, upper = q.lower[assets], q.upper[assets]
        lower = np.where(np.isneginf(lower) & np.isneginf(self.low[assets]), at[:-1] - radius, lower)
        upper = np.where(np.isposinf(upper) & np.isposinf(self.high[assets]), at[:-1] + radius, upper)
        C, G = q.C[:, assets], q.G[:, assets]
        chosen = Constraints(lower, upper, C, q.c - q.C @ rest, G, q.b - q.G @ rest)
        return _in_theta_and_t(g, H, chosen, hinges)


def _without(theta: Vector, assets: Index) -> Vector:
    """Theta with 0 for the chosen assets."""
    rest = theta.copy()
    rest[assets] = 0.0
    return rest


def _in_theta_and_t(
    g: Vector, H: Vector | None, q: Constraints, hinges: tuple[Vector, Vector, Vector] | None
) -> Subproblem:
    """A subproblem in (theta, t) from constraints on theta alone."""
    C, G = (np.hstack([rows, np.zeros((len(rows), 1))]) for rows in (q.C, q.G))
    lower, upper = np.append(q.lower, -np.inf), np.append(q.upper, np.inf)
    B, kink, cap = hinges or (np.zeros((0, len(g))), np.zeros(0), np.zeros(0))
    return Subproblem(g, H, lower, upper, C, q.c, G, q.b, B, kink, cap)


def normalize(problem: Problem, scenarios: Scenarios, start: Vector, low: Vector, high: Vector) -> Model:
    """Divide losses by their spread and holdings by the size of a feasible point, and rows by their length."""
    q = problem.polyhedron
    holding = float(np.abs(start).sum())
    if holding == 0.0:
        corner = 0.5 * l1_reach(q, low, high)
        holding = corner if 0.0 < corner < np.inf else 1.0
    loss = scenarios.scale * holding
    c_norm, g_norm = q.lengths()
    inner = Constraints(
        q.lower / holding,
        q.upper / holding,
        q.C / c_norm[:, None],
        q.c / c_norm / holding,
        q.G / g_norm[:, None],
        q.b / g_norm / holding,
    )
    linear = (problem.linear + scenarios.center) / scenarios.scale
    form = form_of(problem.utility).scaled(1.0 / loss)  # kink by kink, as the certificate will ask for them
    squares = None if problem.squares is None else problem.squares.scaled(holding / scenarios.scale)
    return Model(scenarios, form, linear, inner, low / holding, high / holding, holding, loss, squares)


@dataclass(frozen=True)
class KeptHinges:
    """Pairs (kept row, kink) that the model treats exactly; every other row has u's second-order expansion."""

    row: Index
    which: Index
    location: Vector  # of the kink
    cap: Vector  # w times the jump: the largest multiplier


def pair_up(kept: KeptRows, form: Form, widths: tuple[float, ...]) -> KeptHinges:
    """Every kept row with the kinks it is within a width of."""
    row, which = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
    for k, (kink, width) in enumerate(zip(form.kinks, widths, strict=True)):
        near = np.flatnonzero(np.abs(kept.at - kink.at) <= width)
        row.append(near)
        which.append(np.full(len(near), k, dtype=np.intp))
    rows, kinks = np.concatenate(row), np.concatenate(which)
    return KeptHinges(rows, kinks, form.kink_locations[kinks], kept.weights[rows] * form.jumps[kinks])


def block_subproblem(
    model: Model,
    units: Units,
    v: Vector,
    sums: Sums,
    kept: KeptRows,
    hinges: KeptHinges,
    assets: Index,
    radius: float,
) -> Subproblem:
    """The second-order model at v = (theta, t) in the variables (theta[assets], t).

    ``sums`` are over all rows, kept or not; hinges are taken out of them and stand beside.
    """
    columns = np.append(assets, len(v) - 1)
    # The slope of a hinge above its kink is in the sums; only what is left without it belongs to the quadratic.
    above = hinges.cap * (kept.at[hinges.row] > hinges.location)
    scaled = units.rows(kept.raw[hinges.row])
    g = np.append(sums.column_sums - above @ scaled + model.linear, 1.0 - (sums.slope - float(above.sum())))[columns]
    H = sums.gram[np.ix_(columns, columns)] if sums.gram is not None and np.any(sums.gram) else None
    B = np.empty((len(hinges.row), len(columns)))
    B[:, :-1], B[:, -1] = scaled[:, assets], -1.0
    rest = _without(v[:-1], assets)
    kink = hinges.location - scaled @ rest if np.any(rest) else hinges.location
    return model.around(v, assets, g, H, (B, kink, hinges.cap), radius)


def dual_pairs(at: Vector, hinges: KeptHinges, share: Vector, form: Form) -> tuple[Vector, Vector]:
    """Points y and slopes of u there, one per kept row, that follow the hinges' multipliers.

    A slope between the two at a kink is a subgradient at the kink only, so such a row is supported there; so is one
    whose multiplier and position disagree. Every other row is supported where it is. Whatever ``share`` is, the
    slopes are subgradients at y.
    """
    with np.errstate(all="ignore"):
        support, slope = at.copy(), np.array(form.left_slope(at), dtype=np.float64)
    part = np.clip(share, 0.0, 1.0)
    for k, kink in enumerate(form.kinks):
        mine = hinges.which == k
        rows, shares = hinges.row[mine], part[mine]
        tied = np.where(at[rows] > kink.at, shares < 1.0, shares > 0.0)
        support[rows[tied]], slope[rows[tied]] = kink.at, kink.left + kink.jump * shares[tied]
    return support, slope
