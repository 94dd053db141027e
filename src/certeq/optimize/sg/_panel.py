"""OCE-SG on samples that are read in blocks: batches by row, everything over all samples by sums of blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from certeq.optimize.exact.blocks.losses import PanelLosses
from certeq.optimize.exact.blocks.scan import scan
from certeq.optimize.losses import Evaluation, Loss, Objective
from certeq.optimize.losses._base import Floats
from certeq.optimize.panels import Index, Panel, Vector
from certeq.risk._long import solve_sample, tilting
from certeq.risk._sample import Kernel as LossKernel
from certeq.utilities import Utility


class PanelObjective(Objective):
    """OCE of a linear loss over a panel: value and gradient, by a few passes over the blocks.

    The tilt and the losses, as long as the panel, are not kept: both are empty in what `evaluate` returns.
    """

    def __init__(self, loss: Loss, utility: Utility, panel: Panel, weights: Floats | None) -> None:
        self.loss, self.utility, self.samples, self.count = loss, utility, panel, len(panel)
        self.weights = weights
        self.panel = panel if weights is None else panel.with_weights(weights)
        scan(self.panel, 1)  # complains of what is not finite, by its place

    def evaluate(self, theta: Floats) -> Evaluation:
        """Return value, gradient and shortfall at theta."""
        solved = solve_sample(PanelLosses(self.panel, theta), self.utility)
        pull, mass = self.panel.reduce(_Pull(theta, tilting(solved, self.utility)))
        nothing = np.zeros(0)
        return Evaluation(float(solved.value), pull / mass, nothing, float(solved.shortfall), nothing)


@dataclass(frozen=True)
class _Pull:
    """Sums of q_i a_i and of q_i."""

    theta: Vector
    tilt: LossKernel

    def __call__(self, ids: Index, rows: Vector, weights: Vector | None) -> tuple[Vector, float]:
        q = self.tilt(rows @ self.theta, weights)
        return q @ rows, float(q.sum())

    def join(self, parts: Sequence[tuple[Vector, float]]) -> tuple[Vector, float]:
        return np.sum([part[0] for part in parts], axis=0), float(np.sum([part[1] for part in parts]))


@dataclass(frozen=True)
class _Digest:
    """A fingerprint of pieces; that of a panel depends on its chunks as well."""

    def __call__(self, ids: Index, rows: Vector, weights: Vector | None) -> bytes:
        return hashlib.blake2b(rows.tobytes(), digest_size=8).digest()

    def join(self, parts: Sequence[bytes]) -> bytes:
        return hashlib.blake2b(b"".join(parts), digest_size=8).digest()


def panel_digest(panel: Panel) -> str:
    """Return a short fingerprint of a panel that changes when any number does."""
    rows, columns = panel.shape
    return f"{rows}x{columns} in blocks #{panel.reduce(_Digest(), every=True).hex()}"
