"""The proof on the whole panel: one pass in the caller's own units, with the bound of the certificate in memory.

Rows that were kept are supported as the multipliers of their hinges say, all others where they lie, with
q_i = w_i u'(a_i.theta - t): a subgradient whatever the solver did. Where the solver did not converge the tilt of
theta's own losses takes their place, and the best multipliers for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from certeq._table import Array as Vector
from certeq._table import Block, Index, Table
from certeq.optimize.domains._rows import Constraints
from certeq.optimize.exact.blocks.hinges import Hinges, dual_pairs
from certeq.optimize.exact.blocks.sums import Rows, Units
from certeq.optimize.exact.certificate import (
    Certificate,
    Evidence,
    best_multipliers,
    closed_box,
    conclude,
    evidence,
    join,
    on_kinks,
)
from certeq.utilities.forms import Form


@dataclass(frozen=True)
class Prove:
    """The kernel: evidence of all rows but those ``held``."""

    theta: Vector
    t: float
    form: Form
    mass: float
    held: Index  # sorted
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> Evidence:
        """Evidence of a piece."""
        rows, weights = block.rows, block.weights
        w = np.full(len(rows), 1.0 / self.mass) if weights is None else weights / self.mass
        if len(self.held):
            place = np.minimum(np.searchsorted(self.held, block.ids), len(self.held) - 1)
            free = self.held[place] != block.ids
            rows, w = (rows, w) if free.all() else (rows[free], w[free])
        return evidence(self.form, rows, w, self.theta, self.t, None, None)

    def join(self, parts: Sequence[Evidence]) -> Evidence:
        """Add up."""
        return join(parts)


def prove(
    panel: Table,
    form: Form,
    linear: Vector,
    q: Constraints,
    box: tuple[Vector, Vector],
    units: Units,
    theta: Vector,
    t: float,
    kept: Rows,
    hinges: Hinges,
    share: Vector,
    y: Vector,
    z: Vector,
    unit: float,
) -> Certificate:
    """The value at theta and a proved lower bound, in the caller's units."""
    found = panel.reduce(Prove(theta, t, form, units.mass, np.sort(kept.ids)))
    if len(kept):
        support, slope = dual_pairs(kept.raw @ theta - t, hinges, share, form)
        found = join([found, evidence(form, kept.raw, kept.weights, theta, t, support, kept.weights * slope)])
    return conclude(found, form, linear, q, box, theta, t, y, z, unit)


@dataclass(frozen=True)
class Tilt:
    """The tilt of the losses at theta: ties at a kink get ``share`` of what lies between its two slopes."""

    theta: Vector
    t: float
    form: Form
    mass: float
    share: float = 0.0
    wide: ClassVar[bool] = False

    def slopes(self, block: Block) -> tuple[Vector, Vector, Vector, Vector]:
        """Support points, weights, and w times the left and right slopes there."""
        rows, weights = block.rows, block.weights
        w = np.full(len(rows), 1.0 / self.mass) if weights is None else weights / self.mass
        x = rows @ self.theta
        with np.errstate(all="ignore"):
            support = on_kinks(self.form, x - self.t, np.abs(x) + abs(self.t))
            left, right = self.form.slopes(support)
        return support, w, w * left, w * right


class TiltSums(Tilt):
    """The kernel that finds the share: sums of the left and of the right slopes."""

    def __call__(self, block: Block) -> tuple[float, float]:
        """Those of a piece."""
        _, _, left, right = self.slopes(block)
        return float(left.sum()), float(right.sum())

    def join(self, parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
        """Add up."""
        return math.fsum(part[0] for part in parts), math.fsum(part[1] for part in parts)


class ProveTilt(Tilt):
    """The kernel of the proof: evidence of all rows, each with its part of the tilt."""

    def __call__(self, block: Block) -> Evidence:
        """Evidence of a piece."""
        support, w, left, right = self.slopes(block)
        return evidence(self.form, block.rows, w, self.theta, self.t, support, left + self.share * (right - left))

    def join(self, parts: Sequence[Evidence]) -> Evidence:
        """Add up."""
        return join(parts)


def prove_alone(
    panel: Table,
    form: Form,
    linear: Vector,
    q: Constraints,
    box: tuple[Vector, Vector],
    mass: float,
    theta: Vector,
    t: float,
    unit: float,
) -> Certificate:
    """The proof that theta and its threshold t admit, whatever the solver did: a gap of Frank and Wolfe.

    The tilt sums to 1, and the multipliers are the best there are for it.
    """
    below, above = panel.reduce(TiltSums(theta, t, form, mass))
    share = min(max((1.0 - below) / (above - below), 0.0), 1.0) if above > below else 0.0
    found = panel.reduce(ProveTilt(theta, t, form, mass, share))
    g = found.gradient + linear
    if not np.isfinite(g).all():
        return conclude(found, form, linear, q, box, theta, t, np.zeros(len(q.c)), np.zeros(len(q.b)), unit)
    y, z = best_multipliers(g, q, *closed_box(box, theta, unit, g)[:2])
    return conclude(found, form, linear, q, box, theta, t, y, z, unit)
