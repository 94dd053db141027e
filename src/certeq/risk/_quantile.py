"""The exact upper quantile of a long sample, and the mean excess over it, in one pass as a rule.

A random draw predicts a window around the quantile; a pass counts what lies above the window, keeps what lies inside,
and so either proves that the window holds the quantile or says on which side it lies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from certeq._table import BLOCK, Block, Table
from certeq.risk import _compiled
from certeq.risk._sketch import Floats, floats_between

_EPS = float(np.finfo(np.float64).eps)
_PER_BLOCK = BLOCK // 4  # losses a single block may bring back
_BINS = 4096


@dataclass
class Quantile:
    """The least loss q with mass above it at most the tail, E (X - q)^+, and how many passes it took."""

    value: float
    excess: float
    passes: int


@dataclass
class _Window:
    """What one pass found: mass and excess over b of the losses above b, mass of and losses in [a, b] with weights.

    ``inside`` is None where the window holds too many to list, or a single value that needs no list.
    """

    least: float
    greatest: float
    above: float
    excess: float
    mass: float
    inside: Floats | None
    weights: Floats | None


def upper_quantile(sample: Table, tail: float, mass: float, drawn: Floats, drawn_weights: Floats | None) -> Quantile:
    """min { q : P(X > q) <= tail }, exactly; NaN where a loss is NaN or +inf. ``mass`` is the sample's total weight."""
    target = tail * mass * (1.0 + 4.0 * _EPS)
    a, b = _predict(drawn, drawn_weights, tail)
    crowded, passes = False, 0
    while True:
        # A window that is sure to hold too many is not listed but counted in bins, one of which is the next window.
        inside = drawn[(drawn >= a) & (drawn <= b)]
        crowded |= inside.size > 0.8 * min(sample.keep / len(sample), _PER_BLOCK / BLOCK) * drawn.size
        if crowded and -np.inf < a < b < np.inf:
            passes += 1
            a, b = _narrow(sample, a, b, target, inside)
        found = sample.reduce(_List(a, b, sample.keep))
        passes += 1
        crowded = False
        if not (np.isfinite(found.greatest) and np.isfinite(found.least)):
            return Quantile(np.nan, np.nan, passes)
        if found.above > target:  # the quantile lies above the window
            a, b = float(np.nextafter(b, np.inf)), found.greatest
        elif found.above + found.mass <= target and a > found.least:
            a, b = found.least, float(np.nextafter(a, -np.inf))
        elif a == b:
            return Quantile(b, found.excess / mass, passes)
        elif found.inside is None:
            a, b, crowded = max(a, found.least), min(b, found.greatest), True
        else:
            return _finish(found, b, target, mass, passes)


def _finish(found: _Window, b: float, target: float, mass: float, passes: int) -> Quantile:
    assert found.inside is not None
    if found.weights is None:
        # Rank k+1 from the top, of which those above the window are counted already.
        rank = min(int(target - found.above), found.inside.size - 1)
        split = found.inside.size - 1 - rank
        part = np.partition(found.inside, split)
        q = float(part[split])
        within = float((part[split + 1 :] - q).sum())
    else:
        order = np.argsort(-found.inside, kind="stable")
        ranked, weights = found.inside[order], found.weights[order]
        before = found.above + np.concatenate([[0.0], np.cumsum(weights)[:-1]])
        rank = int(np.flatnonzero((before <= target) & (weights > 0))[-1])
        q = float(ranked[rank])
        within = float((weights[:rank] * (ranked[:rank] - q)).sum())
    high = b if np.isfinite(b) else q
    return Quantile(q, (found.excess + found.above * (high - q) + within) / mass, passes)


def _predict(drawn: Floats, weights: Floats | None, tail: float) -> tuple[float, float]:
    """A window that holds the quantile with near certainty."""
    if drawn.size < 64:
        return -np.inf, np.inf
    if weights is None:
        ranked, size = np.sort(drawn), float(drawn.size)
        upper = np.arange(drawn.size, 0, -1.0) / size
    else:
        order = np.argsort(drawn)
        ranked, ranked_weights = drawn[order], weights[order]
        size = float(ranked_weights.sum() ** 2 / (ranked_weights * ranked_weights).sum())
        upper = np.cumsum(ranked_weights[::-1])[::-1] / ranked_weights.sum()
    slack = 5.0 * np.sqrt(tail * (1.0 - tail) / size) + 2.0 / size
    # ``upper``, the mass at or above each drawn loss, falls along the ranks.
    left = int(np.searchsorted(-upper, -(tail + slack))) - 1
    right = int(np.searchsorted(-upper, -(tail - slack)))
    return (
        float(ranked[left]) if left >= 0 else -np.inf,
        float(ranked[right]) if right < len(ranked) else np.inf,
    )


@dataclass(frozen=True)
class _List:
    """The kernel of a `_Window`; more than ``most`` losses are counted and not kept."""

    a: float
    b: float
    most: int
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> _Window:
        z, w = block.rows, block.weights
        if w is None:
            compiled = _compiled.window(z, self.a, self.b, 0 if self.a == self.b else _PER_BLOCK)
            if compiled is not None:
                return _Window(*compiled, None)
        finite, single = bool(np.isfinite(self.b)), self.a == self.b
        least, greatest = float(z.min()), float(z.max())  # NaN, if there is one
        chosen = z >= self.a
        top = z[chosen]
        over = top > self.b
        high = top[over]
        listed = not single and top.size - high.size <= _PER_BLOCK
        inside = top[~over] if listed else None
        if w is None:
            excess = float((high - self.b).sum()) if finite else 0.0
            return _Window(least, greatest, float(high.size), excess, float(top.size - high.size), inside, None)
        heavy = w[chosen]
        above, within = heavy[over], heavy[~over]
        excess = float((above * (high - self.b)).sum()) if finite else 0.0
        mass = float(within.sum())
        return _Window(least, greatest, float(above.sum()), excess, mass, inside, within if listed else None)

    def join(self, parts: Sequence[_Window]) -> _Window:
        inside = [part.inside for part in parts if part.inside is not None]
        weights = [part.weights for part in parts if part.weights is not None]
        few = len(inside) == len(parts) and sum(part.size for part in inside) <= self.most
        return _Window(
            float(np.min([part.least for part in parts])),
            float(np.max([part.greatest for part in parts])),
            math.fsum(part.above for part in parts),
            math.fsum(part.excess for part in parts),
            math.fsum(part.mass for part in parts),
            np.concatenate(inside) if few else None,
            np.concatenate(weights) if few and weights else None,
        )


def _narrow(sample: Table, a: float, b: float, target: float, drawn: Floats) -> tuple[float, float]:
    """The part of a crowded window that holds the quantile, from one pass that counts it in bins.

    Bins of about equal numbers, as far as the draw can tell; where it cannot, of equal width, and of equally many
    floats, so that losses over any range of sizes come apart. Ties may fill any window: the bins know their
    least and greatest loss, and one of a single value is kept as [q, q].
    """
    ranked = np.sort(drawn)
    edges = np.unique(
        np.concatenate(
            [
                ranked[:: -(-ranked.size // (_BINS // 2))] if ranked.size else ranked,
                a + (b - a) * (np.arange(1, _BINS // 4) / (_BINS // 4)) if np.isfinite(b - a) else ranked[:0],
                floats_between(a, b, _BINS // 4),
            ]
        )
    )
    above, mass, least, greatest = sample.reduce(_Count(a, b, edges))
    # Mass above each bin, and with it.
    beyond = above + np.concatenate([np.cumsum(mass[::-1])[::-1][1:], [0.0]])
    holds = np.flatnonzero((beyond <= target) & (mass > 0))
    if holds.size == 0:  # the draw misled: the quantile lies outside, as the next pass will say
        return a, b
    return float(least[holds[0]]), float(greatest[holds[0]])


@dataclass(frozen=True)
class _Count:
    """The kernel that counts a window in bins: mass above it; mass, least and greatest loss of each bin."""

    a: float
    b: float
    edges: Floats
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> tuple[float, Floats, Floats, Floats]:
        z, w = block.rows, block.weights
        chosen = (z >= self.a) & (z <= self.b)
        over = z > self.b
        order = np.argsort(z[chosen], kind="stable")
        ranked = z[chosen][order]
        cuts = np.concatenate([[0], np.searchsorted(ranked, self.edges, side="right"), [ranked.size]])
        filled = np.diff(cuts) > 0
        least, greatest = np.full(filled.size, np.inf), np.full(filled.size, -np.inf)
        least[filled], greatest[filled] = ranked[cuts[:-1][filled]], ranked[cuts[1:][filled] - 1]
        if w is None:
            return float(np.count_nonzero(over)), np.diff(cuts).astype(np.float64), least, greatest
        mass = np.zeros(filled.size)
        if filled.any():
            mass[filled] = np.add.reduceat(w[chosen][order], cuts[:-1][filled])
        return float(w[over].sum()), mass, least, greatest

    def join(self, parts: Sequence[tuple[float, Floats, Floats, Floats]]) -> tuple[float, Floats, Floats, Floats]:
        above, mass, least, greatest = zip(*parts, strict=True)
        return math.fsum(above), np.sum(mass, axis=0), np.min(least, axis=0), np.max(greatest, axis=0)
