"""Scales s that tend to 0: bounds under which the risk stays smooth, and the risk without s where it is 0.

Where s tends to 0 on the way to the minimum a risk tends to one with kinks, such as the largest loss, and no
second-order model is good near them. Under a bound s >= least the risk is smooth, at most ``least`` times the cost of s
too large, and its tilt is one of the risk itself. At s = 0 the risk is linear in pieces and solved as such; its tilt
proves the solution if its divergence is within the ball, and that of a small s does where several tilts are possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.exact._memory_oracle import Answer, MemoryOracle, Supported
from certeq.optimize.exact._model import LEAST_SCALE, Model, Point
from certeq.optimize.exact._risk import TermAt, scales_of, with_least
from certeq.utilities import CVaR, Mean
from certeq.utilities.forms import Form, Inner, Term
from certeq.utilities.forms import form as form_of

Vector = NDArray[np.float64]
Index = NDArray[np.intp]

FALL = 8.0  # by which a scale may fall below that of a start, and then from bound to bound
FIRST_SCALE = 1e-3  # the least first bound, where losses have size 1
_ON_A_BOUND = 1e-9  # so near a bound, where holdings have size 1, a limit is on it
ASIDE = 10.0  # scales by which t is moved off the largest loss, so that no support is taken for a loss


def bounded_scales(model: Model, point: Point) -> tuple[Model, Point]:
    """The model with scales not much below those of a point; itself where s is no variable."""
    which = scales_of(model.inner)
    if not which:
        return model, point
    return _with_least(model, point, np.maximum(point.inner[which] / FALL, FIRST_SCALE))


def _with_least(model: Model, point: Point, least: Vector) -> tuple[Model, Point]:
    model = model.with_inner(with_least(model.inner, least))
    return model, model.at(point.theta, point.losses, point.inner)


def with_smaller_scales(oracle: MemoryOracle, answer: Answer, tolerance: float, max_iter: int) -> Iterator[Answer]:
    """Answers nearer the minimum, for as long as a scale is at its bound: at s = 0, then under lower and lower bounds.

    ``oracle`` is that of the answer, and goes on.
    """
    at_zero: Answer | None = None
    before: Answer | None = None
    while True:
        model, which = oracle.model, scales_of(oracle.model.inner)
        least = model.inner.low[which]
        at_bound = (answer.point.inner[which] <= least) & (least > LEAST_SCALE)
        if not at_bound.any() or oracle.iterations >= max_iter:
            return
        if before is not None:
            yield _where_it_leads(oracle, before, answer)
        before = answer
        if at_zero is None:
            ended = {term.s for term, ends in zip(_scaled_terms(model.inner), at_bound, strict=True) if ends}
            at_zero = _at_zero(oracle, answer, ended, tolerance, max_iter)
            if at_zero is not None:
                yield at_zero
        oracle.restart(*_with_least(model, answer.point, np.maximum(least / FALL, LEAST_SCALE)))
        answer = oracle.run(tolerance, max_iter - oracle.iterations, answer.assets, warm=True)
        yield answer
        if at_zero is not None:  # its point with the tilt of a small s: several tilts may be possible at s = 0
            lines = tuple(replace(one, moved=True) for one in answer.supported)
            yield replace(at_zero, supported=lines, y=answer.y, z=answer.z, iterations=answer.iterations)


def _where_it_leads(oracle: MemoryOracle, before: Answer, answer: Answer) -> Answer:
    """The point where two minima under falling bounds on s lead, as s tends to 0, with the lines of the second.

    Where all losses are one number at the minimum, the way there is a straight line, along which no tilt changes.
    """
    model, here = oracle.model, answer.point.theta
    end = past_two(model, before.point.theta, here)
    free = model.with_inner(with_least(model.inner, LEAST_SCALE))
    lines = tuple(replace(one, moved=True) for one in answer.supported)
    return replace(answer, point=free.evaluate(oracle.feasible(end), answer.point.inner), supported=lines)


def past_two(model: Model, before: Vector, theta: Vector) -> Vector:
    """Where two minima under bounds on s, each `FALL` times the next, lead as s tends to 0; near a bound, on it."""
    end = theta + (theta - before) / (FALL - 1.0)
    for bound in (model.polyhedron.lower, model.polyhedron.upper):
        end = np.where(np.abs(end - bound) <= _ON_A_BOUND, bound, end)
    return end


def _scaled_terms(inner: Inner) -> list[Term]:
    return [term for term in inner.terms if term.s is not None]


def _at_zero(
    oracle: MemoryOracle, answer: Answer, ended: set[int | None], tolerance: float, max_iter: int
) -> Answer | None:
    """The minimum with the given scales at 0, as an answer of the model itself; None where u grows too fast for it."""
    model = oracle.model
    terms = []
    kept = [j for j in range(len(model.inner.cost)) if j not in ended]
    for term in model.inner.terms:
        ends = term.s in ended and term.s is not None
        limit = _limit(model, term) if ends else term.form
        if limit is None:
            return None
        s = None if term.s is None or ends else kept.index(term.s)
        weight = float(model.inner.cost[term.t]) if ends else term.weight
        terms.append(Term(weight, limit, kept.index(term.t), s, term.sample))
    inner = model.inner
    limited = model.with_inner(Inner(inner.cost[kept], inner.low[kept], inner.high[kept], tuple(terms)))
    start = limited.at(answer.point.theta, answer.point.losses)
    steps = MemoryOracle(limited, start, oracle.movable, oracle.deadline)
    found = steps.run(tolerance, max(max_iter - oracle.iterations, 1), answer.assets)
    oracle.iterations += found.iterations
    oracle.trace += found.trace
    found = replace(found, iterations=oracle.iterations, trace=oracle.trace)
    return _with_scales(model, found, kept, ended)


def _limit(model: Model, term: Term) -> Form | None:
    """The form of s u(x/s) at s = 0, as an OCE: x times the greatest slope above 0 and times the least below."""
    even = float(model.inner.cost[term.t]) / term.weight
    low, high = (slope / even for slope in term.form.utility.slope_range)
    if not low > -np.inf:
        return None
    # The largest loss is the mean of the worst losses that no scenario outweighs.
    least = float(model.samples.of(model.weights, term).min())
    tail = (1.0 - low) / (high - low) if high < np.inf else 0.5 * least
    worst = CVaR._of(tail)
    return form_of(worst if low == 0.0 else low * Mean() + (1.0 - low) * worst)


def _with_scales(model: Model, found: Answer, kept: list[int], ended: set[int | None]) -> Answer:
    """An answer at s = 0 as one of the model with the least s there is, and supports of the same slopes."""
    inner = np.full(len(model.inner.cost), LEAST_SCALE)
    inner[kept] = found.point.inner
    supported, parts = [], []
    for term, one in zip(model.inner.terms, found.supported, strict=True):
        if term.s is None or term.s not in ended:
            supported.append(replace(one, part=one.part._replace(term=term)))
            parts.append(supported[-1].part)
            continue
        inner[term.t] += ASIDE * LEAST_SCALE
        part = TermAt(term, term.weight, term.form.scaled(LEAST_SCALE), float(inner[term.t]), LEAST_SCALE)
        tilt = one.tilt * (float(model.inner.cost[term.t]) / term.weight)
        support = model.samples.of(found.point.losses, term) - part.t
        slopes, which = np.unique(tilt / model.samples.of(model.weights, term), return_inverse=True)
        # A slope of 0 is that of every loss far below t; another is best supported where it is reached.
        points = LEAST_SCALE * _points_of_slope(term.form, slopes)
        support = np.where(slopes[which] == 0.0, support, points[which])
        supported.append(Supported(part, support, None, tilt, moved=True))
        parts.append(part)
    point = replace(found.point, inner=inner, parts=tuple(parts))
    return replace(found, point=point, supported=tuple(supported))


def _points_of_slope(form: Form, slopes: Vector) -> Vector:
    """Points x with u'(x-) <= slope <= u'(x+), by bisection; next to the greatest slope, the least that has it."""
    low, high = np.full(len(slopes), -1.0), np.full(len(slopes), 1.0)
    wanted = np.minimum(slopes, form.utility.slope_range[1] * (1.0 - 4.0 * float(np.finfo(float).eps)))
    with np.errstate(all="ignore"):
        for _ in range(60):
            low = np.where(form.left_slope(low) > wanted, 4.0 * low, low)
            high = np.where(form.left_slope(high) < wanted, 4.0 * high, high)
        for _ in range(200):
            middle = 0.5 * (low + high)
            below = form.left_slope(middle) < wanted
            low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high
