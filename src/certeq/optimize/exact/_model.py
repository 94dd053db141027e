"""The problem in units where losses, holdings and slopes are of size 1, and its local models."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.domains._rows import Constraints
from certeq.optimize.exact._certificate import Certificate, l1_reach
from certeq.optimize.exact._problem import Problem, Squares
from certeq.optimize.exact._risk import (
    SampleRows,
    TermAt,
    best_inner,
    cost_of_constants,
    parts_at,
    quadratic_curvature,
    scales_of,
    times,
    with_least,
)
from certeq.optimize.exact._scenarios import Scenarios
from certeq.optimize.qp import Subproblem
from certeq.utilities import Utility
from certeq.utilities.forms import Form, Inner, Term

Vector = NDArray[np.float64]
Index = NDArray[np.intp]
_SMALL = 1e-2  # of the losses' spread: a value below it is small
_ROUNDED = 1e-4  # of losses far from 0: times a tolerance of 1e-9, the roundings of a few hundred sums
_ROUNDINGS = 2e9  # a gap of twice its own roundings is one of 1e-9
_DUST = 2e-12  # a start so small beside the furthest point of the set holds nothing but rounding
_BESIDE = 2.0**-10  # of everything that is held: so little is what can move, beside what is fixed
LEAST_SCALE = 1e-13  # of a scale s, where losses have size 1: it adds that times its cost to the minimum


@dataclass(frozen=True)
class Point:
    """A feasible theta with its losses, the best inner variables, the risk's terms there, and its value."""

    theta: Vector
    losses: Vector
    inner: Vector
    parts: tuple[TermAt, ...]
    value: float

    @property
    def units(self) -> Vector:
        """Of the inner variables in the model of a step."""
        return scale_units(self.parts, len(self.inner))


def scale_units(parts: tuple[TermAt, ...], count: int) -> Vector:
    """Units of the inner variables in the model of a step: a scale s is counted in multiples of itself."""
    units = np.ones(count)
    for part in parts:
        if part.term.s is not None:
            units[part.term.s] = part.s
    return units


@dataclass(frozen=True)
class Hinges:
    """Kinks that a model treats exactly: pairs (scenario, kink); every other one keeps the side it is on.

    Kinks are those of all terms, one after the other. ``above`` has one row per kink: whether a scenario outside the
    pairs counts as above that kink; False for those that are not of its sample.
    """

    scenario: Index
    which: Index
    above: NDArray[np.bool_]


@dataclass(frozen=True)
class Model:
    """Minimize risk(scenarios @ theta) + linear.theta + squares over the polyhedron, all of size about 1."""

    scenarios: Scenarios
    inner: Inner
    linear: Vector
    polyhedron: Constraints
    low: Vector  # the box that the rows imply
    high: Vector
    holding: float  # theta in the caller's units = holding * theta here
    loss: float  # and losses likewise
    squares: Squares | None = None
    far: float = 0.0  # how far from 0 the losses of one asset lie, in the caller's units

    def relative(self, found: Certificate) -> float:
        """The gap beside the value; where that is about 0, beside the losses.

        No step makes a gap less than the roundings that it allows for, which are large where losses lie far from 0.
        """
        rounded = min(_ROUNDINGS * found.rounding, _ROUNDED * self.far * self.holding)
        return found.gap / max(abs(found.value), _SMALL * self.loss, rounded)

    @property
    def weights(self) -> Vector:
        """The scenarios' probabilities."""
        return self.scenarios.weights

    @property
    def samples(self) -> SampleRows:
        """The scenarios' probabilities, and which of them are of one sample."""
        return self.scenarios.samples

    @property
    def form(self) -> Form:
        """The form of u where the risk is a plain OCE, in these units."""
        return self.inner.terms[0].form

    @property
    def utility(self) -> Utility:
        """u of a plain OCE, in these units."""
        return self.form.utility

    def with_inner(self, inner: Inner) -> Model:
        """The same problem under another risk."""
        return replace(self, inner=inner)

    def evaluate(self, theta: Vector, guess: Vector | None = None) -> Point:
        """Losses, inner variables and value at theta."""
        return self.at(theta, self.scenarios.losses(theta), guess)

    def at(self, theta: Vector, losses: Vector, guess: Vector | None = None) -> Point:
        """The same where the losses are known already."""
        with np.errstate(all="ignore"):
            value, inner = best_inner(losses, self.samples, self.inner, guess)
            value += float(self.linear @ theta)
            if self.squares is not None:
                value += self.squares.value(theta)
        return Point(theta, losses, inner, parts_at(self.inner, inner), value)

    def costs(self, theta: Vector) -> Vector:
        """The slope in theta of all but the risk."""
        return self.linear if self.squares is None else self.linear + self.squares.slope(theta)

    def caps(self, hinges: Hinges) -> Vector:
        """The largest multiplier of each hinge: w times the jump."""
        jumps = [term.weight * term.form.jumps for term in self.inner.terms if term.form.kinks]
        if not jumps:
            return np.zeros(0)
        return np.asarray(self.weights[hinges.scenario] * np.concatenate(jumps)[hinges.which])

    def as_subproblem(self) -> Subproblem | None:
        """The whole problem, where u is quadratic and every asset bounded; None otherwise.

        The losses are centered, so that  E u(x - t) + t + linear.theta  has the slope c*Cov theta + linear in theta
        and c*(t + anchor) in t, with c the constant curvature: one product of the table with itself says it all.
        """
        if not np.isfinite(self.high - self.low).all():
            return None
        slope, curved, columns = np.zeros(len(self.inner.cost)), [], {}
        for term in self.inner.terms:
            curvature = quadratic_curvature(term)
            if curvature is None:
                return None
            diagonal = times(term.weight, curvature * self.samples.of(self.weights, term))
            curved.append((term, diagonal))
            columns[term.t] = self.samples.total([(term, diagonal)])
            slope[term.t] = term.weight * curvature * term.form.utility.anchor
        size = len(self.linear)
        H = self.scenarios.gram(self.samples.total(curved), np.arange(size), columns, len(slope))
        for j, column in columns.items():
            H[size + j, size + j] = column.sum()
        if self.squares is not None:
            self.squares.add_hessian(H, np.arange(size))
        return self._in_theta_and_inner(np.append(self.linear, slope), H, self.polyhedron, None)

    def subproblem(self, point: Point, assets: Index, hinges: Hinges, radius: float) -> Subproblem:
        """The second-order model at a point in the variables (theta[assets], inner), kinks kept as hinges.

        A term in t and s has the row (losses, -1, -(x-t)/s) for each scenario: curvature times that row's square. Here
        s is counted in units of its present value, so that the last entry is t - x.
        """
        samples, count = self.samples, len(assets)
        slope = self.inner.cost.copy()
        block = np.zeros((len(slope), len(slope)))
        columns: dict[int, Vector] = {}
        tilts: list[tuple[Term, Vector]] = []
        curved: list[tuple[Term, Vector]] = []
        first = 0
        for part in point.parts:
            weight, t, s = part.weight, part.term.t, part.term.s
            losses, w = samples.of(point.losses, part.term), samples.of(self.weights, part.term)
            with np.errstate(all="ignore"):
                tilt, curvature = part.form.derivatives(losses, part.t)
                if s is not None:
                    y = losses - part.t
                    slope[s] = slope[s] * part.s + weight * float(w @ (part.form.utility.value(y) - tilt * y))
            for k, kink in enumerate(part.form.kinks, first):
                wanted = hinges.above[k].copy()
                wanted[hinges.scenario[hinges.which == k]] = False
                wanted = samples.of(wanted, part.term)
                moved = kink.jump * (wanted.astype(float) - (losses - kink.at > part.t))
                tilt = tilt + moved
                if s is not None:
                    slope[s] -= weight * kink.at * float(w @ moved)
            first += len(part.form.kinks)
            tilt = times(weight, w * tilt)
            slope[t] -= float(tilt.sum())
            tilts.append((part.term, tilt))
            if curvature.any():
                diagonal = times(weight, w * curvature)
                curved.append((part.term, diagonal))
                columns[t] = samples.total([(part.term, diagonal)])
                block[t, t] = diagonal.sum()
                if s is not None:
                    columns[s] = samples.total([(part.term, diagonal * y)])
                    block[t, s] = block[s, t] = float(diagonal @ y)
                    block[s, s] = float(diagonal @ (y * y))
        sums = self.scenarios.column_sums(samples.total(tilts))
        g = np.concatenate([(sums + self.costs(point.theta))[assets], slope])
        H = None
        if curved:
            H = self.scenarios.gram(samples.total(curved), assets, columns, len(slope))
            H[count:, count:] = block
        if self.squares is not None:
            H = np.zeros((len(g), len(g))) if H is None else H
            self.squares.add_hessian(H, assets)
        kinked = self._hinge_rows(point, assets, hinges) if len(hinges.scenario) else None
        units = point.units
        v = np.concatenate([point.theta, point.inner / units])
        return self.around(v, assets, g, H, kinked, radius, self.inner.low / units)

    def _hinge_rows(self, point: Point, assets: Index, hinges: Hinges) -> tuple[Vector, Vector, Vector]:
        """B, kink and cap of the hinges: where s is a variable, the location of a kink is its multiple."""
        size = len(assets)
        B = np.zeros((len(hinges.scenario), size + len(self.inner.cost)))
        B[:, :size] = self.scenarios.rows(hinges.scenario, assets)
        kink, first = np.zeros(len(hinges.scenario)), 0
        for part in point.parts:
            locations = part.form.kink_locations
            mine = (hinges.which >= first) & (hinges.which < first + len(locations))
            at = locations[hinges.which[mine] - first]
            B[mine, size + part.term.t] = -1.0
            if part.term.s is None:
                kink[mine] = at
            else:
                B[mine, size + part.term.s] = -at
            first += len(locations)
        rest = without_assets(point.theta, assets)
        if np.any(rest):
            kink = kink - self.scenarios.losses(rest)[hinges.scenario]
        return B, kink, self.caps(hinges)

    def around(
        self,
        v: Vector,
        assets: Index,
        g: Vector,
        H: Vector | None,
        hinges: tuple[Vector, Vector, Vector] | None,
        radius: float,
        least: Vector | None = None,
    ) -> Subproblem:
        """The quadratic with slope g and Hessian H at v = (theta, inner) in (theta[assets], inner), others as they are.

        A variable that nothing bounds is given bounds at the ``radius``; ``least`` are bounds of inner variables.
        """
        count = len(self.linear)
        q, rest = self.polyhedron, without_assets(v[:count], assets)
        at = v[np.append(assets, np.arange(count, len(v)))]
        if H is not None:
            g = g - H @ at
        own = at[: len(assets)]
        lower, upper = q.lower[assets], q.upper[assets]
        lower = np.where(np.isneginf(lower) & np.isneginf(self.low[assets]), own - radius, lower)
        upper = np.where(np.isposinf(upper) & np.isposinf(self.high[assets]), own + radius, upper)
        C, G = q.C[:, assets], q.G[:, assets]
        chosen = Constraints(lower, upper, C, q.c - q.C @ rest, G, q.b - q.G @ rest)
        if H is not None and len(C) and len(assets) and scales_of(self.inner):
            # A risk with a scale is as much larger as its losses are: no curvature along (theta, inner) itself. A
            # multiple of |C v - c|^2, which is 0, gives it some.
            size = len(assets)
            unit = float(H.diagonal()[:size].max())
            H[:size, :size] += unit * (C.T @ C)
            g[:size] -= unit * (chosen.c @ C)
        return self._in_theta_and_inner(g, H, chosen, hinges, least)

    def _in_theta_and_inner(
        self,
        g: Vector,
        H: Vector | None,
        q: Constraints,
        hinges: tuple[Vector, Vector, Vector] | None,
        least: Vector | None = None,
    ) -> Subproblem:
        """A subproblem in (theta, inner) from constraints on theta alone."""
        inner = self.inner
        C, G = (np.hstack([rows, np.zeros((len(rows), len(inner.cost)))]) for rows in (q.C, q.G))
        lower = np.append(q.lower, inner.low if least is None else least)
        upper = np.append(q.upper, inner.high)
        B, kink, cap = hinges or (np.zeros((0, len(g))), np.zeros(0), np.zeros(0))
        return Subproblem(g, H, lower, upper, C, q.c, G, q.b, B, kink, cap, len(inner.cost))


def without_assets(theta: Vector, assets: Index) -> Vector:
    """Theta with 0 for the chosen assets."""
    rest = theta.copy()
    rest[assets] = 0.0
    return rest


def normalize(
    problem: Problem, scenarios: Scenarios, start: Vector, low: Vector, high: Vector, far: float = 0.0
) -> Model:
    """Divide losses by their spread and holdings by the size of a feasible point, and rows by their length."""
    q = problem.polyhedron
    holding, corner = float(np.abs(start).sum()), 0.5 * l1_reach(q, low, high)
    moving = high > low
    own = float(np.abs(start[moving]).sum())
    if 0.0 < own < _BESIDE * holding:  # what is fixed far away is no measure of the others
        holding = own
    if holding <= _DUST * corner < np.inf or holding == 0.0:
        holding = corner if 0.0 < corner < np.inf else 1.0
    loss = scenarios.scale * holding
    c_norm, g_norm = q.lengths()
    rows = Constraints(
        q.lower / holding,
        q.upper / holding,
        q.C / c_norm[:, None],
        q.c / c_norm / holding,
        q.G / g_norm[:, None],
        q.b / g_norm / holding,
    )
    linear = (problem.linear + cost_of_constants(problem.inner, scenarios.centers)) / scenarios.scale
    squares = None if problem.squares is None else problem.squares.scaled(holding / scenarios.scale)
    inner = _in_units(problem.inner, loss)
    return Model(scenarios, inner, linear, rows, low / holding, high / holding, holding, loss, squares, far)


def _in_units(inner: Inner, loss: float) -> Inner:
    """The risk of losses divided by ``loss``, kink by kink, as the certificate will ask for them."""
    terms = [  # s u(x/s) has the same form in every unit
        replace(term, form=term.form.scaled(1.0 / loss)) if term.s is None else term for term in inner.terms
    ]
    return with_least(Inner(inner.cost, inner.low, inner.high, tuple(terms)), LEAST_SCALE)
