"""Scenarios near a kink are kept as they are: their part of a step's model, and the tilt it gives them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certeq._table import Array as Vector
from certeq.optimize.exact.blocks.sums import Rows, Sums, Units
from certeq.optimize.exact.model import Model
from certeq.optimize.qp import Subproblem
from certeq.utilities.forms import Form

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Hinges:
    """Pairs (kept row, kink) that the model treats exactly; every other row has u's second-order expansion."""

    row: Places
    which: Places
    place: Vector  # of the kink
    cap: Vector  # w times the jump: the largest multiplier


def pair_up(kept: Rows, form: Form, widths: tuple[float, ...]) -> Hinges:
    """Every kept row with the kinks it is within a width of."""
    row, which = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
    for k, (kink, width) in enumerate(zip(form.kinks, widths, strict=True)):
        near = np.flatnonzero(np.abs(kept.at - kink.at) <= width)
        row.append(near)
        which.append(np.full(len(near), k, dtype=np.intp))
    rows, kinks = np.concatenate(row), np.concatenate(which)
    return Hinges(rows, kinks, form.places[kinks], kept.weights[rows] * form.jumps[kinks])


def subproblem(
    model: Model,
    units: Units,
    v: Vector,
    sums: Sums,
    kept: Rows,
    hinges: Hinges,
    assets: Places,
    radius: float,
) -> Subproblem:
    """The second-order model at v = (theta, t) in the variables (theta[assets], t).

    ``sums`` are over all rows, kept or not; hinges are taken out of them and stand beside.
    """
    q, theta = model.polyhedron, v[:-1]
    columns = np.append(assets, len(theta))
    # The slope of a hinge above its kink is in the sums; only what is left without it belongs to the quadratic.
    above = hinges.cap * (kept.at[hinges.row] > hinges.place)
    scaled = units.rows(kept.raw[hinges.row])
    g = np.append(sums.pull - above @ scaled + model.linear, 1.0 - (sums.slope - float(above.sum())))[columns]
    at = v[columns]
    H = None
    if sums.gram is not None and np.any(sums.gram):
        H = sums.gram[np.ix_(columns, columns)]
        g = g - H @ at
    rest = theta.copy()
    rest[assets] = 0.0
    B = np.empty((len(hinges.row), len(columns)))
    B[:, :-1], B[:, -1] = scaled[:, assets], -1.0
    kink = hinges.place - scaled @ rest if np.any(rest) else hinges.place
    lower, upper = q.lower[assets], q.upper[assets]
    lower = np.where(np.isneginf(lower) & np.isneginf(model.low[assets]), at[:-1] - radius, lower)
    upper = np.where(np.isposinf(upper) & np.isposinf(model.high[assets]), at[:-1] + radius, upper)
    return Subproblem(
        g,
        H,
        np.append(lower, -np.inf),
        np.append(upper, np.inf),
        np.hstack([q.C[:, assets], np.zeros((len(q.c), 1))]),
        q.c - q.C @ rest,
        np.hstack([q.G[:, assets], np.zeros((len(q.b), 1))]),
        q.b - q.G @ rest,
        B,
        kink,
        hinges.cap,
    )


def dual_pairs(at: Vector, hinges: Hinges, share: Vector, form: Form) -> tuple[Vector, Vector]:
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
