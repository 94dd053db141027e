"""The proof on the whole panel: one pass in the caller's own units, with the bound of the certificate in memory.

Rows that were kept are supported as the multipliers of their hinges say, all others where they lie, with
q_i = w_i u'(a_i.theta - t): a subgradient whatever the solver did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from certeq._table import Array as Vector
from certeq._table import Block, Index, Table
from certeq.optimize.exact.blocks.hinges import Hinges, dual_pairs
from certeq.optimize.exact.blocks.sums import Rows, Units
from certeq.optimize.exact.certificate import Certificate, Evidence, conclude, evidence, join
from certeq.optimize.exact.problem import Polyhedron
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
    q: Polyhedron,
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
