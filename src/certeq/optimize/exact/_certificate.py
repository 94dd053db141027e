r"""A lower bound on the optimum that holds in float64, from supporting lines and multipliers.

**The theorem.** Minimize  t + sum_i w_i u(a_i.v - t) + l.v  over t and  P = {v : low <= v <= high, C v = c, G v <= b},
w_i >= 0 with sum 1, u convex. Take any points y_i, any q_i with q_i/w_i in [u'(y_i-), u'(y_i+)], any y and any z >= 0.
Write

    K = sum_i w_i u(y_i) - q_i y_i,    g = A^T q + l,    r = g - C^T y + G^T z,    e = 1 - sum_i q_i.

Then for every v in P and the t that is best for it

    t + sum_i w_i u(a_i.v - t) + l.v  >=  K + y.c - z.b + sum_j min(r_j low_j, r_j high_j) - |e| T,

where T bounds |t| over P.

*Proof.* u lies above its supporting line of slope q_i/w_i at y_i:  w_i u(x) >= w_i u(y_i) + q_i (x - y_i). At
x = a_i.v - t, summed, that gives  t + sum_i w_i u(a_i.v - t) + l.v >= K + g.v + e t. Next
g.v = r.v + y.(C v) - z.(G v) >= r.v + y.c - z.b  on P, and r.v is least at a corner of the box. Finally e t >= -|e| T;
and t*, a threshold of losses between min_i a_i.v and max_i a_i.v, is within the anchor of u of one of them, so that
T = max |a_ij| max_P |v|_1 + |anchor| will do.

**In float64.** Every sum is rounded. A sum of n products in runs of length m has an error of at most
eps (m + n/m) sum |terms|; the six terms of `_allowance`, each a bound on sums of absolute values, are taken off the
bound. They hold for the numbers q_i, y_i, y and z *as they are*, wherever they came from: nothing of the solver is
trusted, not even that q_i is a subgradient. It is moved into [w_i u'(y_i-), w_i u'(y_i+)] first, and the bound is made
of what comes out; a solver that errs makes the bound loose, never false.

**Several terms, and scales.** Of a sum of terms  weight E[s u((x - t)/s)], each with its own t and perhaps s >= 0, the
supporting lines add up, and nothing asks that they be of the same losses: each term may have scenarios a_i and weights
w_i of its own, and K, A^T q and the rounding errors are sums over terms. Losses a_i.v + b_i with an offset are those of
one variable more, whose bounds are both 1. With s a variable the same line, at (x - t)/s and times s, has K as the
coefficient of s: the term contributes  weight q.(A v - t) + s weight K  at every s, so that with the costs c_t and c_s
of the inner variables

    e_t = c_t - weight sum_i q_i   and   e_s = c_s + weight K

take the place of e, and K leaves the constant: s e_s >= 0 for every s >= 0 as soon as e_s >= 0, which says that the
divergence of the tilt is within the radius of the ball. Where e_s < 0, or not above its own rounding, the lines are
mixed with those of the even tilt, of slope z0 = c_t/weight everywhere: a share lambda of them, whose own e_s is
c_s - weight u*(z0) > 0, makes up for it, and g becomes (1 - lambda) g + lambda c_t (mean of A). As lambda is a rounding
error, a mean of a few digits is good enough.

A value below the bound is a contradiction and is raised as one (`certeq.optimize.gaps`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from certeq._table import Table
from certeq.optimize.domains import Domain, UnboundedError
from certeq.optimize.domains._rows import Constraints, minimize_over
from certeq.optimize.exact._evidence import EPS, SLOPE, Evidence, ProveTilt, Tilt, evidence, join, tilt_of
from certeq.optimize.exact._problem import Problem
from certeq.optimize.exact._risk import TermAt, bounds_of_inner, furthest_inner, parts_at, times
from certeq.optimize.gaps import proved_gap, violation_cost
from certeq.utilities.forms import Form, Inner

Vector = NDArray[np.float64]
_PAIRS = 48.0  # roundings of a sum over scenarios: NumPy adds by pairs of short runs
_WIDE = float(np.finfo(np.longdouble).eps) / 2.0  # of one operation in extended precision, where the machine has it
_SHIFTED = 8.0  # roundings of u(x + x0) - u(x0), relative to its parts
_KEPT = 1e-9  # of the size of its terms: a row broken by more is not kept, and nothing is proved


@dataclass(frozen=True)
class Certificate:
    """value - lower_bound = gap >= 0 bounds the suboptimality of theta; valid for points within ``radius``.

    ``terms`` are the terms of the risk at theta, by weight, without the costs of inner variables; ``slopes`` are those
    that the bound was made of, by weight, which with the linear term add up to ``slope``. ``rounding`` is the part of
    the gap that allows for it.
    """

    value: float
    lower_bound: float
    gap: float
    radius: float
    slope: Vector  # g
    y: Vector
    z: Vector
    terms: tuple[float, ...]
    slopes: tuple[Vector, ...]
    rounding: float = 0.0


def prove_alone(
    tables: Sequence[Table],
    inner: Inner,
    linear: Vector,
    q: Constraints,
    box: tuple[Vector, Vector],
    masses: Sequence[float],
    theta: Vector,
    v: Vector,
    unit: float,
    means: Vector,
) -> tuple[Certificate, list[Tilt]]:
    """The proof that theta and its best inner variables v admit, whatever the solver did; and the terms' tilts.

    The gap is that of Frank and Wolfe, with the best multipliers there are for those tilts. Two reads a term; of each
    sample there is a table, the sum of its weights, and the mean losses.
    """
    parts = parts_at(inner, v)
    which = [part.term.sample for part in parts]
    tilts = [tilt_of(tables[k], inner, part, masses[k], theta) for k, part in zip(which, parts, strict=True)]
    sums = [
        tables[k].reduce(ProveTilt(theta, tilt.t, tilt.form, tilt.mass, tilt.share))
        for k, tilt in zip(which, tilts, strict=True)
    ]
    g, y, z = _weighted_sum(parts, [one.gradient for one in sums]) + linear, np.zeros(len(q.c)), np.zeros(len(q.b))
    if np.isfinite(g).all():
        y, z = best_multipliers(g, q, *closed_box(box, theta, unit, g)[:2])
    return conclude(sums, inner, linear, q, box, theta, v, y, z, unit, means), tilts


def _weighted_sum(parts: Sequence[TermAt], vectors: Sequence[Vector]) -> Vector:
    """The terms' vectors by weight."""
    total = times(parts[0].weight, vectors[0])
    for part, vector in zip(parts[1:], vectors[1:], strict=True):
        total = total + part.weight * vector
    return total


def certify_at(
    blocks: Iterable[tuple[slice, Vector]],
    weights: Vector,
    form: Form,
    domain: Domain,
    theta: Vector,
    t: float,
    tilt: Vector,
    fixed: int = 0,
) -> tuple[float, float]:
    """The value at theta and its gap over any feasible set, from the tilt of the losses there: no multipliers needed.

    The least value of g.v over the set is g.theta - ``domain.support_gap(theta, g)``; the rest is the theorem. The
    last entries of theta, as many as are ``fixed``, are no variables.
    """
    parts = []
    with np.errstate(all="ignore"):
        for rows, block in blocks:
            parts.append(evidence(form, block, weights[rows], theta, t, block @ theta - t, tilt[rows]))
    sums = [join(parts)]
    size = len(theta) - fixed
    away = domain.support_gap(theta[:size], sums[0].gradient[:size])
    none = np.zeros(0)
    far = domain.diameter(size)
    low, high = (np.append(theta[:size] + sign * far, theta[size:]) for sign in (-1.0, 1.0))
    nothing = Constraints(low, high, np.zeros((0, len(theta))), none, np.zeros((0, len(theta))), none)
    reach = float(np.abs(theta).sum()) + math.sqrt(size) * far
    inner, v = form.utility.inner(), np.array([t])
    terms = parts_at(inner, v)
    constant, furthest = _constant(inner, terms, sums, v, reach)
    g, linear = sums[0].gradient, np.zeros(len(theta))
    errors = _allowance(sums, terms, inner, linear, nothing, low, high, reach, furthest, theta, v, none, none, g)
    value = _value(inner, terms, sums, v)
    lower = constant + (float(g @ theta) - away) - errors
    return value, proved_gap(value, lower) if np.isfinite(lower) else np.inf


# -- from the sums to the bound -----------------------------------------------------------------------------------


def conclude(
    sums: Sequence[Evidence],
    inner: Inner,
    linear: Vector,
    q: Constraints,
    box: tuple[Vector, Vector],
    theta: Vector,
    v: Vector,
    y: Vector,
    z: Vector,
    unit: float,
    means: Vector,
) -> Certificate:
    """The theorem, line by line: value, K, g, r, the corner of the box, |e| T, and the allowance for rounding.

    ``sums`` has the evidence of every term at the inner variables v; ``means`` are those of the losses of every asset,
    one row for each sample.
    """
    parts = parts_at(inner, v)
    value = _value(inner, parts, sums, v) + float(linear @ theta)
    shares = [_even_share(inner, part, one) for part, one in zip(parts, sums, strict=True)]
    slopes = [times(part.weight, one.gradient) for part, one in zip(parts, sums, strict=True)]
    for k, (part, share) in enumerate(zip(parts, shares, strict=True)):
        if share > 0.0:
            slopes[k] = slopes[k] + share * (float(inner.cost[part.term.t]) * means[part.term.sample] - slopes[k])
    g = sum(slopes[1:], slopes[0]) + linear
    z = np.maximum(z, 0.0)
    low, high, radius = *box, np.inf
    if not np.isfinite(high - low).all():
        low, high, radius = closed_box(box, theta, unit, g - y @ q.C + z @ q.G)
    bound, y, r = linear_minimum(g, q, low, high, y, z)
    reach = l1_reach(q, low, high)
    constant, furthest = _constant(inner, parts, sums, v, reach)
    constant -= (
        1e-6 * sum(shares) * max([one.largest for one in sums]) * reach
    )  # the digits that the mean may lack, and lambda itself
    errors = _allowance(sums, parts, inner, linear, q, low, high, reach, furthest, theta, v, y, z, r)
    outside = violation_cost(y, z, q.C @ theta - q.c, q.G @ theta - q.b)  # theta keeps the rows to rounding only
    lower = constant + bound - errors - outside if is_feasible(q, theta) else -np.inf
    terms = tuple([part.weight * one.value for part, one in zip(parts, sums, strict=True)])
    if not np.isfinite(lower) or not np.isfinite(value):  # an overflow on the way: nothing is proved
        return Certificate(value, -np.inf, np.inf, radius, g, y, z, terms, tuple(slopes))
    return Certificate(value, lower, proved_gap(value, lower), radius, g, y, z, terms, tuple(slopes), errors)


def _value(inner: Inner, parts: Sequence[TermAt], sums: Sequence[Evidence], v: Vector) -> float:
    """The risk at inner variables v."""
    return float(inner.cost @ v) + math.fsum([part.weight * one.value for part, one in zip(parts, sums, strict=True)])


def _even_share(inner: Inner, part: TermAt, one: Evidence) -> float:
    """lambda, the share of the even tilt that brings e_s above 0; 0 where it is, or s is no variable."""
    if part.term.s is None:
        return 0.0
    cost, even = float(inner.cost[part.term.s]), float(inner.cost[part.term.t]) / part.weight
    rounding = (_PAIRS + 4.0) * EPS * (part.weight * one.size / part.s + cost)
    rounding += part.weight * _shifted(part, one) / part.s
    missing = rounding - (cost + part.weight * one.constant / part.s)
    if missing <= 0.0:
        return 0.0
    spare = (1.0 - 1e-9) * cost - part.weight * float(part.term.form.utility.conjugate(even))
    return missing / (missing + spare) if spare > 0.0 else math.nan


def _constant(
    inner: Inner, parts: Sequence[TermAt], sums: Sequence[Evidence], v: Vector, reach: float
) -> tuple[float, list[float]]:
    """K of the terms without a scale, less |e| T; and the bounds T, with v itself added."""
    furthest = furthest_inner(bounds_of_inner(inner), max([one.largest for one in sums]) * reach, v)
    cost, total = inner.cost.tolist(), []
    for part, one in zip(parts, sums, strict=True):
        t = part.term.t
        total.append(-float(abs(cost[t] - part.weight * one.slope)) * furthest[t])
        if part.term.s is None:
            total.append(part.weight * one.constant)
    return math.fsum(total), furthest


def _shifted(part: TermAt, one: Evidence) -> float:
    """Values of a shifted utility are differences, and rounded as such.

    Where a row is supported where it lies, that of the value and that of the bound are one number, and its rounding
    cancels.
    """
    level, shift = part.form.offsets
    return 2.0 * _SHIFTED * EPS * (level * one.moved[0] + shift * one.moved[1])


def _allowance(
    sums: Sequence[Evidence],
    parts: Sequence[TermAt],
    inner: Inner,
    linear: Vector,
    q: Constraints,
    low: Vector,
    high: Vector,
    reach: float,
    furthest: list[float],
    theta: Vector,
    v: Vector,
    y: Vector,
    z: Vector,
    r: Vector,
) -> float:
    """What rounding may have added to value - bound."""
    short = EPS * (len(theta) + 8.0)
    rows_size = np.abs(y) @ np.abs(q.C) + z @ np.abs(q.G)
    gradient_size = _weighted_sum(parts, [one.gradient_size for one in sums])
    run = max([one.run for one in sums]) + len(sums) - 1.0
    # Of every entry of r, times the largest v_j at which it may be least: where its sign is certain, that is one end.
    slack = EPS * (run + 8.0) * gradient_size + short * (gradient_size + np.abs(linear) + rows_size)
    ends = np.where(r > slack, np.abs(low), np.where(r < -slack, np.abs(high), np.maximum(np.abs(low), np.abs(high))))
    with np.errstate(invalid="ignore"):
        at_corner = float(slack @ ends)
    sides = np.abs(y) @ np.abs(q.c) + z @ np.abs(q.b)
    errors = [
        short * (float(inner.cost @ np.abs(v)) + float(np.abs(linear) @ np.abs(theta) + sides)),
        # Losses x_i, each a product of d terms, times their weights: sum |q_i| |a_i|.|theta|.
        short * float(gradient_size @ np.abs(theta)),
        min(at_corner, float(slack.max(initial=0.0)) * reach),
    ]
    for part, one in zip(parts, sums, strict=True):
        errors += [
            part.weight * _PAIRS * EPS * one.size,
            part.weight * _shifted(part, one),
            short * part.weight * one.slope_size * abs(part.t),
            # The sum of q, and slopes of u that are rounded themselves.
            part.weight * (_PAIRS * _WIDE + 2.0 * SLOPE * EPS) * one.slope_size * furthest[part.term.t],
        ]
    return math.fsum(errors)


def is_feasible(q: Constraints, theta: Vector) -> bool:
    """Whether theta is within its bounds, and breaks no row by more than a share of the terms that it is made of."""
    size = np.abs(theta)
    apart, over = np.abs(q.C @ theta - q.c), q.G @ theta - q.b
    return bool(
        (theta >= q.lower).all()
        and (theta <= q.upper).all()
        and (apart <= _KEPT * (np.abs(q.C) @ size + np.abs(q.c))).all()
        and (over <= _KEPT * (np.abs(q.G) @ size + np.abs(q.b))).all()
    )


def linear_minimum(
    g: Vector, q: Constraints, low: Vector, high: Vector, y: Vector, z: Vector
) -> tuple[float, Vector, Vector]:
    """A lower bound of g.v over the polyhedron, the y it uses, and r = g - C^T y + G^T z."""
    if len(q.c) == 1 and not len(q.b):
        y = _best_price(g, q.C[0], float(q.c[0]), low, high, y)
    r = g - y @ q.C + z @ q.G
    with np.errstate(invalid="ignore"):
        terms = np.where(r == 0.0, 0.0, r * np.where(r > 0.0, low, high))
    return float(y @ q.c - z @ q.b + terms.sum()), y, r


def _best_price(g: Vector, row: Vector, right: float, low: Vector, high: Vector, y: Vector) -> Vector:
    """The multiplier of the budget that makes the bound best: a fractional knapsack, by sorting g_j/row_j."""
    nonzero = row.nonzero()[0]
    if len(nonzero) < len(row):
        g, row, low, high = g[nonzero], row[nonzero], low[nonzero], high[nonzero]
    width = high - low
    if not len(nonzero) or not np.isfinite(width).all():
        return y
    price = g / row
    order = price.argsort(kind="stable")
    # As the price rises past g_j/row_j asset j moves from the end that lowers row.v to the one that raises it.
    base = float((row * np.where(row > 0.0, low, high)).sum())
    raised = base + (np.abs(row) * width)[order].cumsum()
    position = min(int(raised.searchsorted(right)), len(nonzero) - 1)
    return np.array([price[order[position]]])


def distance(theta: Vector, unit: float) -> float:
    """How far the bound reaches where nothing bounds a variable: ten times the size of theta, at least one unit."""
    return 10.0 * max(float(np.abs(theta).sum()), 0.1 * unit)


def closed_box(box: tuple[Vector, Vector], theta: Vector, unit: float, r: Vector) -> tuple[Vector, Vector, float]:
    """The implied box, closed at a stated distance where nothing bounds a variable on the side that matters."""
    low, high = box
    open_low, open_high = np.isneginf(low), np.isposinf(high)
    if not (open_low | open_high).any():
        return low, high, np.inf
    radius = distance(theta, unit)
    # An r of 0 has been rounded like any other: beyond the distance nothing is proved of it.
    needed = bool(np.any((r >= 0.0) & open_low) or np.any((r <= 0.0) & open_high))
    low = np.where(open_low, theta - radius, low)
    high = np.where(open_high, theta + radius, high)
    return low, high, radius if needed else np.inf


def l1_reach(q: Constraints, low: Vector, high: Vector) -> float:
    """A bound on sum |v_j| over the set."""
    best = float(np.maximum(np.abs(low), np.abs(high)).sum())
    if (low >= 0.0).all():
        for rows, sides in ((q.C, q.c), (q.G, q.b)):
            least = rows.min(axis=1, initial=np.inf) if len(sides) else sides
            positive = least > 0.0
            if positive.any():
                best = min(best, float((np.abs(sides[positive]) / least[positive]).min()))
    return best


def best_multipliers(g: Vector, q: Constraints, low: Vector, high: Vector) -> tuple[Vector, Vector]:
    """y and z that make the bound of g.v over the polyhedron best: the dual of a linear program."""
    try:
        _, y, z = minimize_over(replace(q, lower=low, upper=high), g)
    except (RuntimeError, UnboundedError):  # not solved: multipliers of 0 prove a bound, too
        return np.zeros(len(q.c)), np.zeros(len(q.b))
    return y, z


def tangent_problem(problem: Problem, theta: Vector) -> Problem:
    """The problem with the tangent of its squares at theta, less a constant, as part of its linear term."""
    if problem.squares is None:
        return problem
    return replace(problem, linear=problem.linear + problem.squares.slope(theta), squares=None)


def with_squares(
    found: Certificate, problem: Problem, box: tuple[Vector, Vector], theta: Vector, z: Vector, unit: float
) -> Certificate:
    r"""The certificate of the problem itself, from the one of `tangent_problem` at the same theta.

    With s = F theta and h = F^T s the tangent problem has the value  OCE + l.theta + h.theta  at theta and a lower
    bound of  OCE + l.v + h.v  over the set. Since  |F v|^2/2 >= h.v - |s|^2/2  (see `squares`), that bound less
    |s|^2/2 is one for  OCE + l.v + |F v|^2/2. In exact arithmetic both differ from the tangent problem's by the same
    |s|^2/2, so that the gap is unchanged; the roundings of h and of l + h, times the largest v_j of the set, and those
    of the sums here come on top. So does what theta's distance from the rows, which is rounding, costs at the
    multipliers: a theta just outside the set may lie below the bound by that much.
    """
    if problem.squares is None:
        return found
    s = problem.squares.image(theta)
    h = problem.squares.back(s)
    half, along = 0.5 * float(s @ s), float(h @ theta)
    low, high, _ = closed_box(box, theta, unit, h)
    slack = problem.squares.rounding(s) + EPS * (np.abs(problem.linear) + np.abs(h))
    corner = np.maximum(np.abs(low), np.abs(high))
    moved = min(float(slack @ corner), float(slack.max()) * l1_reach(problem.polyhedron, low, high))
    moved += EPS * (len(theta) + len(s) + 8.0) * (half + float(np.abs(h) @ np.abs(theta)))
    moved += 4.0 * EPS * (abs(found.value) + abs(found.lower_bound))
    q = problem.polyhedron
    moved += violation_cost(found.y, z, q.C @ theta - q.c, q.G @ theta - q.b)
    value, lower = found.value - along + half, found.lower_bound - half - moved
    return replace(found, value=value, lower_bound=lower, gap=proved_gap(value, lower))
