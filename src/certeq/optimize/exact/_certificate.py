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

A value below the bound is a contradiction and is raised as one (`certeq.optimize.gaps`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from certeq._table import Block, Table, as_block
from certeq._table import Index as Ids
from certeq.optimize.domains import Domain, UnboundedError
from certeq.optimize.domains._rows import Constraints, minimize_over
from certeq.optimize.exact._problem import Problem
from certeq.optimize.gaps import proved_gap, violation_cost
from certeq.utilities.forms import Form

Vector = NDArray[np.float64]
Index = NDArray[np.intp]
_EPS = float(np.finfo(np.float64).eps) / 2.0  # the rounding error of one operation
_PAIRS = 48.0  # roundings of a sum over scenarios: NumPy adds by pairs of short runs
_WIDE = float(np.finfo(np.longdouble).eps) / 2.0  # of one operation in extended precision, where the machine has it
_SLOPE = 4.0  # roundings of a slope of u as computed; q_i may lie that far outside the slopes at its point
_SHIFTED = 8.0  # roundings of u(x + x0) - u(x0), relative to its parts
_SMALL = 1 << 20  # numbers of a table that is looked at as a whole
_NOWHERE = np.zeros(0, dtype=np.intp)
_EVEN = 4.0  # sqrt(sum q^2/w), which is 1 where the tilt is even and sqrt(M) where one scenario carries it


@dataclass(frozen=True)
class Certificate:
    """value - lower_bound = gap >= 0 bounds the suboptimality of theta; valid for points within ``radius``."""

    value: float
    lower_bound: float
    gap: float
    radius: float
    slope: Vector  # g
    y: Vector
    z: Vector


# -- sums over scenarios ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    """Sums over scenarios, and the same of absolute values, from which the bound and its error follow."""

    value: float  # sum w u(x - t)
    constant: float  # K = sum w u(y) - q y
    slope: np.longdouble  # sum q
    gradient: Vector  # A^T q
    size: float  # sum w (|u(x - t)| + |u(y)|) + |q y|
    slope_size: float  # sum |q|
    gradient_size: Vector  # |A|^T |q|
    largest: float  # max |a|
    run: float  # longest run of additions
    moved: tuple[float, float]  # sums of w and of |q| over rows that are not supported where they lie


def evidence(
    form: Form,
    rows: Vector,
    w: Vector,
    theta: Vector,
    t: float,
    support: Vector | None,
    tilt: Vector | None,
    sizes: bool = True,
    largest: float | None = None,
) -> Evidence:
    """The sums over the rows at hand; supported at ``support`` with weights ``tilt``, each moved to where it may be.

    Where both are None a row is supported where it lies, with its left slope. Without ``sizes`` the bounds that need a
    pass over |rows| are left out.
    """
    x = rows @ theta
    with np.errstate(all="ignore"):
        own = x - t
        at_theta = w * form.utility.value(own)
        q, at_support, moved = w * form.left_slope(x, t), at_theta, _NOWHERE
        if support is None or tilt is None:
            support = own
        else:
            size = np.abs(x) + abs(t)
            others = np.flatnonzero(~_where_it_lies(form, support, own, size))
            given, support = support[others], own.copy()
            support[others], q[others] = as_subgradients(form, w[others], given, tilt[others], size[others])
            moved = others[support[others] != own[others]]
            at_support = at_theta.copy()
            at_support[moved] = w[moved] * form.utility.value(support[moved])
        product, absolute = q * support, np.abs(q)
        values = float(np.abs(at_theta).sum())
        values += values if at_support is at_theta else float(np.abs(at_support).sum())
        run = _run(len(rows))
        # Where most scenarios carry nothing, as in a tail, the others are all that counts.
        few = 2 * np.count_nonzero(q) < len(q)
        carrying = np.flatnonzero(q) if few else slice(None)
        some = q[carrying], rows[carrying]
        return Evidence(
            float(at_theta.sum()),
            float((at_support - product).sum()),
            some[0].sum(dtype=np.longdouble),
            _by_runs(*some, run),
            float(np.abs(product).sum()) + values,
            float(absolute.sum()),
            _by_runs(np.abs(some[0]), np.abs(some[1]), run) if sizes else np.zeros(rows.shape[1]),
            float(np.abs(rows).max(initial=0.0)) if largest is None else largest,
            min(run, len(rows)) + len(rows) / run + 2.0,
            (float(w[moved].sum()), float(absolute[moved].sum())) if len(moved) else (0.0, 0.0),
        )


def _where_it_lies(form: Form, support: Vector, own: Vector, size: Vector) -> NDArray[np.bool_]:
    """Whether a support point is ``own`` but for rounding, with no kink near: then the slope there is the tilt."""
    same = np.abs(support - own) <= 64.0 * _EPS * size
    for kink in form.kinks:  # twice as far from a kink as from each other: they lie on one side of it
        same &= np.abs(own - kink.at) > 192.0 * _EPS * (size + abs(kink.at))
    return same


def as_subgradients(form: Form, w: Vector, support: Vector, tilt: Vector, size: Vector) -> tuple[Vector, Vector]:
    """Support points y_i, and q_i moved to w_i times the nearest slope of u there, but for the rounding of that slope.

    A point within rounding of a kink, for losses and threshold of the given ``size``, is put on the kink: every choice
    of y_i is allowed, and there both slopes are.
    """
    support = on_kinks(form, support, size)
    left, right = form.slopes(support)
    left, right = w * left, w * right
    slack = _SLOPE * _EPS
    return support, np.minimum(np.maximum(tilt, left - slack * np.abs(left)), right + slack * np.abs(right))


def on_kinks(form: Form, support: Vector, size: Vector) -> Vector:
    """Support points, those within rounding of a kink moved there; losses and threshold have the given ``size``."""
    for kink in form.kinks:
        near = np.abs(support - kink.at) <= 8.0 * _EPS * (size + abs(kink.at))
        support = np.where(near, kink.at, support)
    return support


def join(parts: Sequence[Evidence]) -> Evidence:
    """Sums over all, each rounded once."""
    if len(parts) == 1:
        return parts[0]
    return Evidence(
        math.fsum(part.value for part in parts),
        math.fsum(part.constant for part in parts),
        sum((part.slope for part in parts), np.longdouble(0.0)),
        _exactly([part.gradient for part in parts]),
        math.fsum(part.size for part in parts),
        math.fsum(part.slope_size for part in parts),
        _exactly([part.gradient_size for part in parts]),
        max(part.largest for part in parts),
        max(part.run for part in parts) + 1.0,
        (math.fsum(part.moved[0] for part in parts), math.fsum(part.moved[1] for part in parts)),
    )


def _exactly(vectors: list[Vector]) -> Vector:
    """Their sum, rounded once where the machine has extended precision."""
    return np.asarray(np.sum(np.array(vectors, dtype=np.longdouble), axis=0), dtype=np.float64)


def _run(count: int) -> int:
    """Rows added up at a time: the error of a sum grows with its longest run, and short runs cost time."""
    return int(min(1024, max(128, math.sqrt(count))))


def _by_runs(q: Vector, block: Vector, run: int) -> Vector:
    """q @ block, in runs of rows and then over the runs, so that its rounding error grows with sqrt(rows)."""
    whole = len(block) // run * run
    total = q[whole:] @ block[whole:]
    if whole:
        rows = block[:whole].reshape(-1, run, block.shape[1])
        total += np.matmul(q[:whole].reshape(-1, 1, run), rows).sum(axis=(0, 1))
    return np.asarray(total)


@dataclass(frozen=True)
class Prove:
    """The kernel of a proof: evidence of all rows, at ``support`` with weights ``tilt`` where these are given.

    They are given for all rows in order, or for those at the sorted positions ``ids``. Every other row is supported
    where it lies, with q_i = w_i u'(a_i.theta - t): a subgradient whatever the solver did.
    """

    theta: Vector
    t: float
    form: Form
    mass: float
    support: Vector
    tilt: Vector
    ids: Ids | None = None
    sizes: bool = True
    largest: float | None = None
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> Evidence:
        """Evidence of a block."""
        rows, w = block.rows, _probabilities(block, self.mass)
        if self.ids is None:
            at = slice(block.first, block.first + len(rows)) if block.kept is None else block.ids
            return self._evidence(rows, w, at)
        if not len(self.ids):
            return evidence(self.form, rows, w, self.theta, self.t, None, None, self.sizes, self.largest)
        position = np.minimum(np.searchsorted(self.ids, block.ids), len(self.ids) - 1)
        given = self.ids[position] == block.ids
        if not given.any():
            return evidence(self.form, rows, w, self.theta, self.t, None, None, self.sizes, self.largest)
        others = evidence(self.form, rows[~given], w[~given], self.theta, self.t, None, None, self.sizes, self.largest)
        return join([others, self._evidence(rows[given], w[given], position[given])])

    def _evidence(self, rows: Vector, w: Vector, at: slice | Ids) -> Evidence:
        return evidence(
            self.form, rows, w, self.theta, self.t, self.support[at], self.tilt[at], self.sizes, self.largest
        )

    def join(self, parts: Sequence[Evidence]) -> Evidence:
        """Add up."""
        return join(parts)


@dataclass(frozen=True)
class Tilt:
    """The tilt of the losses at theta, as a kernel: ties at a kink get ``share`` of what is between its two slopes."""

    theta: Vector
    t: float
    form: Form
    mass: float
    share: float = 0.0
    wide: ClassVar[bool] = False

    def slopes(self, block: Block) -> tuple[Vector, Vector, Vector, Vector]:
        """Support points, weights, and w times the left and right slopes there."""
        x, w = block.rows @ self.theta, _probabilities(block, self.mass)
        with np.errstate(all="ignore"):
            support = on_kinks(self.form, x - self.t, np.abs(x) + abs(self.t))
            left, right = self.form.slopes(support)
        return support, w, w * left, w * right

    def __call__(self, block: Block) -> Vector:
        """The tilt of a block."""
        _, _, left, right = self.slopes(block)
        return np.asarray(left + self.share * (right - left))


class TiltSums(Tilt):
    """The kernel that finds the share: sums of the left and of the right slopes."""

    def __call__(self, block: Block) -> tuple[float, float]:  # type: ignore[override]
        """Those of a block."""
        _, _, left, right = self.slopes(block)
        return float(left.sum()), float(right.sum())

    def join(self, parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
        """Add up."""
        return math.fsum(part[0] for part in parts), math.fsum(part[1] for part in parts)


class ProveTilt(Tilt):
    """The kernel of a proof by the tilt of theta alone."""

    def __call__(self, block: Block) -> Evidence:  # type: ignore[override]
        """Evidence of a block."""
        support, w, left, right = self.slopes(block)
        tilt = left + self.share * (right - left)
        return evidence(self.form, block.rows, w, self.theta, self.t, support, tilt)

    def join(self, parts: Sequence[Evidence]) -> Evidence:
        """Add up."""
        return join(parts)


def _probabilities(block: Block, mass: float) -> Vector:
    return np.full(len(block.rows), 1.0 / mass) if block.weights is None else block.weights / mass


def evidence_in_memory(
    problem: Problem, form: Form, theta: Vector, t: float, support: Vector, tilt: Vector, root_mean_square: Vector
) -> Evidence:
    """`evidence` of a matrix; ``root_mean_square`` of every asset's losses, or more, is used for the errors alone."""
    # Cauchy and Schwarz: sum |q_i a_ij| <= sqrt(sum q_i^2/w_i) sqrt(sum w_i a_ij^2), loose where a few scenarios
    # carry the tilt; only then does a pass over absolute values pay.
    with np.errstate(all="ignore"):
        spike = float(np.sqrt(tilt @ (tilt / problem.weights)))
    direct = not spike <= _EVEN
    # Where u has no kink every scenario is supported where it lies, and the slope there is its tilt.
    given = None if form.kinks else _NOWHERE
    kernel = Prove(theta, t, form, 1.0, support, tilt, given, direct, problem.largest)
    if problem.table.size <= _SMALL:
        sums = kernel(as_block(0, problem.table, problem.weights))
    else:
        sums = problem.as_table().reduce(kernel)
    if direct:
        return sums
    return replace(sums, gradient_size=1.01 * spike * root_mean_square)  # the tilt may have been moved a little


def prove_alone(
    table: Table,
    form: Form,
    linear: Vector,
    q: Constraints,
    box: tuple[Vector, Vector],
    mass: float,
    theta: Vector,
    t: float,
    unit: float,
) -> tuple[Certificate, Tilt]:
    """The proof that theta and its threshold t admit, whatever the solver did; and the tilt, which sums to 1.

    The gap is that of Frank and Wolfe, with the best multipliers there are for that tilt. Two reads.
    """
    tilt = tilt_of(table, form, mass, theta, t)
    found = table.reduce(ProveTilt(theta, t, form, mass, tilt.share))
    g, y, z = found.gradient + linear, np.zeros(len(q.c)), np.zeros(len(q.b))
    if np.isfinite(g).all():
        y, z = best_multipliers(g, q, *closed_box(box, theta, unit, g)[:2])
    return conclude(found, form, linear, q, box, theta, t, y, z, unit), tilt


def tilt_of(table: Table, form: Form, mass: float, theta: Vector, t: float) -> Tilt:
    """The tilt of the losses at theta, of which t is the threshold: one read."""
    below, above = table.reduce(TiltSums(theta, t, form, mass))
    share = min(max((1.0 - below) / (above - below), 0.0), 1.0) if above > below else 0.0
    return Tilt(theta, t, form, mass, share)


def certify_at(
    blocks: Iterable[tuple[slice, Vector]],
    weights: Vector,
    form: Form,
    domain: Domain,
    theta: Vector,
    t: float,
    tilt: Vector,
) -> tuple[float, float]:
    """The value at theta and its gap over any feasible set, from the tilt of the losses there: no multipliers needed.

    The least value of g.v over the set is g.theta - ``domain.support_gap(theta, g)``; the rest is the theorem.
    """
    parts = []
    with np.errstate(all="ignore"):
        for rows, block in blocks:
            parts.append(evidence(form, block, weights[rows], theta, t, block @ theta - t, tilt[rows]))
    sums = join(parts)
    away = domain.support_gap(theta, sums.gradient)
    none = np.zeros(0)
    far = domain.diameter(len(theta))
    low, high = theta - far, theta + far
    nothing = Constraints(low, high, np.zeros((0, len(theta))), none, np.zeros((0, len(theta))), none)
    reach = float(np.abs(theta).sum()) + math.sqrt(len(theta)) * far
    furthest = sums.largest * reach + abs(form.utility.anchor) + abs(t)
    drift = float(abs(1.0 - sums.slope)) * furthest
    g, linear = sums.gradient, np.zeros(len(theta))
    errors = _allowance(sums, form, linear, nothing, low, high, reach, furthest, theta, t, none, none, g)
    value = t + sums.value
    lower = sums.constant + (float(sums.gradient @ theta) - away) - drift - errors
    return value, proved_gap(value, lower) if np.isfinite(lower) else np.inf


# -- from the sums to the bound -----------------------------------------------------------------------------------


def conclude(
    sums: Evidence,
    form: Form,
    linear: Vector,
    q: Constraints,
    box: tuple[Vector, Vector],
    theta: Vector,
    t: float,
    y: Vector,
    z: Vector,
    unit: float,
) -> Certificate:
    """The theorem, line by line: value, K, g, r, the corner of the box, |e| T, and the allowance for rounding."""
    value = t + sums.value + float(linear @ theta)
    g = sums.gradient + linear
    z = np.maximum(z, 0.0)
    low, high, radius = *box, np.inf
    if not np.isfinite(high - low).all():
        low, high, radius = closed_box(box, theta, unit, g - y @ q.C + z @ q.G)
    bound, y, r = linear_minimum(g, q, low, high, y, z)
    reach = l1_reach(q, low, high)
    furthest = sums.largest * reach + abs(form.utility.anchor) + abs(t)  # T, and the t of the value
    drift = float(abs(1.0 - sums.slope)) * furthest
    errors = _allowance(sums, form, linear, q, low, high, reach, furthest, theta, t, y, z, r)
    outside = violation_cost(y, z, q.C @ theta - q.c, q.G @ theta - q.b)  # theta keeps the rows to rounding only
    lower = sums.constant + bound - drift - errors - outside
    if not np.isfinite(lower) or not np.isfinite(value):  # an overflow on the way: nothing is proved
        return Certificate(value, -np.inf, np.inf, radius, g, y, z)
    return Certificate(value, lower, proved_gap(value, lower), radius, g, y, z)


def _allowance(
    sums: Evidence,
    form: Form,
    linear: Vector,
    q: Constraints,
    low: Vector,
    high: Vector,
    reach: float,
    furthest: float,
    theta: Vector,
    t: float,
    y: Vector,
    z: Vector,
    r: Vector,
) -> float:
    """What rounding may have added to value - bound."""
    short = _EPS * (len(theta) + 8.0)
    rows_size = np.abs(y) @ np.abs(q.C) + z @ np.abs(q.G)
    # Of every entry of r, times the largest v_j at which it may be least: where its sign is certain, that is one end.
    slack = _EPS * (sums.run + 8.0) * sums.gradient_size + short * (sums.gradient_size + np.abs(linear) + rows_size)
    ends = np.where(r > slack, np.abs(low), np.where(r < -slack, np.abs(high), np.maximum(np.abs(low), np.abs(high))))
    with np.errstate(invalid="ignore"):
        at_corner = float(slack @ ends)
    sides = np.abs(y) @ np.abs(q.c) + z @ np.abs(q.b)
    level, shift = form.offsets
    return math.fsum(
        (
            short * (abs(t) + float(np.abs(linear) @ np.abs(theta) + sides)),
            _PAIRS * _EPS * sums.size,
            # Values of a shifted utility are differences. Where a row is supported where it lies, that of the value
            # and that of the bound are one number, and its rounding cancels.
            2.0 * _SHIFTED * _EPS * (level * sums.moved[0] + shift * sums.moved[1]),
            # Losses x_i, each a product of d terms, times their weights: sum |q_i| |a_i|.|theta|.
            short * (float(sums.gradient_size @ np.abs(theta)) + sums.slope_size * abs(t)),
            # The sum of q, and slopes of u that are rounded themselves.
            (_PAIRS * _WIDE + 2.0 * _SLOPE * _EPS) * sums.slope_size * furthest,
            min(at_corner, float(slack.max(initial=0.0)) * reach),
        )
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
    needed = bool(np.any((r > 0.0) & open_low) or np.any((r < 0.0) & open_high))
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
    slack = problem.squares.rounding(s) + _EPS * (np.abs(problem.linear) + np.abs(h))
    corner = np.maximum(np.abs(low), np.abs(high))
    moved = min(float(slack @ corner), float(slack.max()) * l1_reach(problem.polyhedron, low, high))
    moved += _EPS * (len(theta) + len(s) + 8.0) * (half + float(np.abs(h) @ np.abs(theta)))
    moved += 4.0 * _EPS * (abs(found.value) + abs(found.lower_bound))
    q = problem.polyhedron
    moved += violation_cost(found.y, z, q.C @ theta - q.c, q.G @ theta - q.b)
    value, lower = found.value - along + half, found.lower_bound - half - moved
    return replace(found, value=value, lower_bound=lower, gap=proved_gap(value, lower))
