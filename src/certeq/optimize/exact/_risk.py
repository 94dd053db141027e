"""The risk as the solver reads it: its terms at given inner variables, the best of these, and how large they can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from certeq.risk.solvers import solve_inner, value_near
from certeq.utilities import Quadratic
from certeq.utilities.forms import Form, Inner, Kink, Term

Vector = NDArray[np.float64]
Entries = TypeVar("Entries", bound=NDArray[Any])
ALL = slice(None)
_HALVINGS = 40  # of a distance from the even tilt, before nothing is left of it


class TermAt(NamedTuple):
    """A term at given inner variables: weight * E[f(X - t)], with f(x) = s u(x/s) and ``form`` that of f."""

    term: Term
    weight: float
    form: Form
    t: float
    s: float  # 1 where it is no variable


def parts_at(inner: Inner, v: Vector) -> tuple[TermAt, ...]:
    """The terms at inner variables v."""
    at = v.tolist()
    return tuple(
        [
            TermAt(term, term.weight, term.form, at[term.t], 1.0)
            if term.s is None
            else TermAt(term, term.weight, term.form.scaled(at[term.s]), at[term.t], at[term.s])
            for term in inner.terms
        ]
    )


class SampleRows:
    """Probabilities of the scenarios of one or more samples, one after the other; those of each sum to 1."""

    def __init__(self, weights: Vector, rows: tuple[slice, ...] = (ALL,)) -> None:
        self.weights, self.rows = weights, rows
        each = [weights[own] for own in rows]
        self.uneven = tuple([None if (own == own[0]).all() else own for own in each])  # None where all are equal

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def even(self) -> bool:
        """Whether there is one sample, of equal weights."""
        return len(self.rows) == 1 and self.uneven[0] is None

    def of(self, vector: Entries, term: Term) -> Entries:
        """What belongs to the scenarios of a term, of a vector or table with one entry for every scenario."""
        return vector if len(self.rows) == 1 else cast(Entries, vector[self.rows[term.sample]])

    def first(self, term: Term) -> int:
        """The first scenario of a term's sample."""
        return self.rows[term.sample].start or 0

    def total(self, vectors: Sequence[tuple[Term, NDArray[Any]]]) -> NDArray[Any]:
        """The sum of vectors of single terms, as one with an entry for every scenario."""
        if len(self.rows) == 1:
            total = vectors[0][1]
            for _, vector in vectors[1:]:
                total = total + vector
            return total
        total = np.zeros(len(self.weights))
        for term, vector in vectors:
            total[self.rows[term.sample]] += vector
        return total


def times(weight: float, vector: Vector) -> Vector:
    """Their product, without arithmetic where the weight is 1."""
    return vector if weight == 1.0 else weight * vector


def all_kinks(parts: tuple[TermAt, ...]) -> list[tuple[TermAt, Kink]]:
    """The kinks of all terms, one after the other."""
    return [(part, kink) for part in parts for kink in part.form.kinks]


def has_kinks(inner: Inner) -> bool:
    """Whether any term has a kink."""
    return any(term.form.kinks for term in inner.terms)


def scales_of(inner: Inner) -> list[int]:
    """Which inner variables are scales s."""
    return [term.s for term in inner.terms if term.s is not None]


def thresholds_of(inner: Inner) -> list[int]:
    """Which inner variables are thresholds t, in the order of the terms."""
    return [term.t for term in inner.terms]


def with_least(inner: Inner, least: float | Vector) -> Inner:
    """The risk with scales s that are at least so large; itself where it has none."""
    which = scales_of(inner)
    if not which:
        return inner
    low = inner.low.copy()
    low[which] = least
    return Inner(inner.cost, low, inner.high, inner.terms)


def cost_of_constants(inner: Inner, constants: Vector) -> Vector:
    """What the risk adds for constant losses, of which ``constants`` has one row for each sample."""
    total = times(float(inner.cost[inner.terms[0].t]), constants[inner.terms[0].sample])
    for term in inner.terms[1:]:
        total = total + float(inner.cost[term.t]) * constants[term.sample]
    return total


def quadratic_curvature(term: Term) -> float | None:
    """The curvature of a term whose utility is quadratic; None for every other."""
    shape = None if term.s is not None else term.form.shape
    return shape.bend if isinstance(shape, Quadratic) else None


def is_quadratic(inner: Inner) -> bool:
    """Whether the risk is quadratic in the losses and the inner variables: one second-order model says it all."""
    return all(quadratic_curvature(term) is not None for term in inner.terms)


def plain_form(inner: Inner) -> Form | None:
    """The form of the utility where the risk is a plain OCE, with the threshold as its only inner variable."""
    only = inner.terms[0]
    return only.form if len(inner.terms) == 1 and only.s is None and only.weight == inner.cost[only.t] == 1.0 else None


def read_inner(risk: Any) -> Inner:
    """The inner variables of a risk that the solver can minimize; others are refused with the reason."""
    inner: Inner = risk.inner()
    for term in inner.terms:
        if not getattr(term.form.utility, "has_curvature", True):
            raise TypeError(f"The exact solver needs the curvature of {term.form.utility!r}: pass d2u= when making it.")
        if term.s is None:
            term.form.utility.anchor  # noqa: B018 - a sum whose slope never passes 1 is refused here, with its reason
    return inner


def alone(inner: Inner, term: Term) -> Inner:
    """One term with its own inner variables."""
    own = [term.t] if term.s is None else [term.t, term.s]
    return Inner(
        inner.cost[own],
        inner.low[own],
        inner.high[own],
        (replace(term, t=0, s=None if term.s is None else 1, sample=0),),
    )


def best_inner(losses: Vector, samples: SampleRows, inner: Inner, guess: Vector | None = None) -> tuple[float, Vector]:
    """The risk of losses, and the inner variables that attain it; ``guess`` are those of similar losses."""
    total, v = 0.0, np.empty(len(inner.cost))
    for term in inner.terms:
        x, weights = samples.of(losses, term), samples.uneven[term.sample]
        if term.s is None:
            start = None if guess is None else float(guess[term.t])
            value, v[term.t] = value_near(x, weights, term.form, start)
            total += term.weight * value
        else:
            own = [term.t, term.s]
            solved = solve_inner(x, weights, alone(inner, term), None if guess is None else guess[own])
            value, v[own] = (np.inf, np.nan) if solved is None else (solved.value, solved.inner)
            total += value
    return total, v


def bounds_of_inner(inner: Inner) -> list[tuple[float, float]]:
    r"""Of every inner variable a and b: its best value for losses of size M at most is a M + b at most in size.

    A threshold of a plain OCE lies within the anchor of u of a loss. For weight * E[s u((X-t)/s)] with costs c_t and
    c_s any even tilt z, with z0 = c_t/weight the right one, proves  rho(X) >= weight z (E X - t) + c_t t + s slack(z),
    slack(z) = c_s - weight u*(z), and rho(X) is at most U M, its value at t = 0 and a multiple s of M. At z0 that
    bounds s, at z0 (1 +- delta), where the slack is not negative either, it bounds t.
    """
    bounds = [(1.0, 0.0)] * len(inner.cost)
    for term in inner.terms:
        if term.s is None:
            bounds[term.t] = (1.0, abs(term.form.utility.anchor))
        else:
            bounds[term.t], bounds[term.s] = _bounds_of_ball(inner, term, term.s)
    return bounds


def _bounds_of_ball(inner: Inner, term: Term, s: int) -> tuple[tuple[float, float], tuple[float, float]]:
    u, c_t, c_s = term.form.utility, float(inner.cost[term.t]), float(inner.cost[s])
    even, units = c_t / term.weight, 4.0 ** np.arange(-20.0, 21.0)
    with np.errstate(all="ignore"):
        most = np.maximum(np.maximum(u.value(1.0 / units), u.value(-1.0 / units)), 0.0)
        highest = float(np.nanmin(units * (c_s + term.weight * most)))
        deltas = 0.5 ** np.arange(_HALVINGS)
        slack = c_s - term.weight * np.asarray(u.conjugate(even * np.concatenate([[1.0], 1.0 + deltas, 1.0 - deltas])))
        reached = np.minimum(slack[1 : 1 + _HALVINGS], slack[1 + _HALVINGS :]) >= 0.25 * slack[0]
    if not slack[0] > 0.0 or not reached.any():
        return (np.inf, 0.0), (np.inf, 0.0)
    delta = float(deltas[np.argmax(reached)])
    return (1.01 * (highest / c_t + 1.0 + delta) / delta, 0.0), (1.01 * (highest + c_t) / float(slack[0]), 0.0)


def furthest_inner(bounds: list[tuple[float, float]], most: float, v: Vector) -> list[float]:
    """How large the inner variables of any losses of size ``most`` can be, with the size of v itself added."""
    return [a * most + b + abs(x) for (a, b), x in zip(bounds, v.tolist(), strict=True)]
