"""Distortions of one vector of losses: sorted, each is weighed by its rank."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from certeq._backend import FloatArray
from certeq.utilities import Mixture, Risk, SortedRisk


class SolvedInner(NamedTuple):
    """The risk, its inner variables in the order of `Inner`, and the tilt."""

    value: float
    inner: FloatArray
    tilt: FloatArray


def needs_sorting(risk: Risk) -> bool:
    """Whether the losses must be sorted in memory: for a distortion, or a mixture with one in it."""
    return isinstance(risk, SortedRisk) or (isinstance(risk, Mixture) and any(map(needs_sorting, risk.risks)))


def solve_sorted(x: FloatArray, weights: FloatArray | None, risk: SortedRisk) -> SolvedInner | None:
    """Distorted weights of the losses from the largest down; those that tie share theirs."""
    order = np.argsort(-x, kind="stable")
    ranked = x[order]
    size = x.shape[0]
    greatest = float(ranked[0])
    if not math.isfinite(greatest) or not math.isfinite(float(ranked[-1])):
        return None
    last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), size - 1)  # of each value
    if weights is None:
        above = (last + 1.0) / size
        masses = np.diff(above, prepend=0.0)
    else:
        above = np.minimum(np.cumsum(weights[order])[last], 1.0)
        above[-1] = 1.0
        masses = np.add.reduceat(weights[order], np.append(0, last[:-1] + 1))
    gained = np.diff(risk.distorted(above), prepend=0.0)
    gained[-1] += 1.0 - gained.sum()
    density = np.divide(gained, masses, out=np.zeros_like(gained), where=masses > 0.0)
    per_loss = np.repeat(density, np.diff(last, prepend=-1))
    tilt = np.empty(size)
    tilt[order] = per_loss / size if weights is None else per_loss * weights[order]
    counts = masses > 0.0
    top = float(ranked[last][counts][0])
    value = top + float(gained[counts] @ (ranked[last][counts] - top))
    return SolvedInner(value, np.empty(0), tilt)
