"""The exact upper quantile of a long sample, and the mean excess over it, in one pass as a rule.

A random draw predicts a window around the quantile; a pass counts what lies above the window, keeps what lies inside,
and so either proves that the window holds the quantile or says on which side it lies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from certeq.risk._sample import Floats, Sample

_EPS = float(np.finfo(np.float64).eps)
_LIMIT = 1 << 20  # losses kept at once: 8 MB


@dataclass
class Quantile:
    """The least loss q with mass above it at most the tail, E (X - q)^+, and how many passes it took."""

    value: float
    excess: float
    passes: int


@dataclass
class _Window:
    """What one pass found: mass and excess over b of the losses above b, and the losses in [a, b] with weights."""

    greatest: float
    above: float
    excess: float
    mass: float
    inside: Floats | None
    weights: Floats | None


def upper_quantile(sample: Sample, tail: float, mass: float, drawn: Floats, drawn_weights: Floats | None) -> Quantile:
    """min { q : P(X > q) <= tail }, exactly; NaN where a loss is NaN or +inf. ``mass`` is the sample's total weight."""
    target = tail * mass * (1.0 + 4.0 * _EPS)
    a, b = _predict(drawn, drawn_weights, tail)
    passes = 0
    while True:
        found = _pass(sample, a, b)
        passes += 1
        if not np.isfinite(found.greatest):
            return Quantile(np.nan, np.nan, passes)
        if found.above > target:  # the quantile lies above the window
            a, b = b, found.greatest
        elif found.above + found.mass <= target and a > -np.inf:
            a, b = _further_down(a, b), a
        elif found.inside is None and a == b:  # a single value with a million ties
            return Quantile(b, found.excess / mass, passes)
        elif found.inside is None:
            a, b = _narrow(sample, a, b, found.greatest, target)
        else:
            return _finish(found, b, target, mass, passes)


def _finish(found: _Window, b: float, target: float, mass: float, passes: int) -> Quantile:
    assert found.inside is not None
    if found.weights is None:
        # Rank k+1 from the top, of which those above the window are counted already.
        place = min(int(target - found.above), found.inside.size - 1)
        split = found.inside.size - 1 - place
        part = np.partition(found.inside, split)
        q = float(part[split])
        within = float((part[split + 1 :] - q).sum())
    else:
        order = np.argsort(-found.inside, kind="stable")
        ranked, weights = found.inside[order], found.weights[order]
        before = found.above + np.concatenate([[0.0], np.cumsum(weights)[:-1]])
        place = int(np.flatnonzero((before <= target) & (weights > 0))[-1])
        q = float(ranked[place])
        within = float((weights[:place] * (ranked[:place] - q)).sum())
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
        ranked, held = drawn[order], weights[order]
        size = float(held.sum() ** 2 / (held * held).sum())
        upper = np.cumsum(held[::-1])[::-1] / held.sum()
    slack = 5.0 * np.sqrt(tail * (1.0 - tail) / size) + 2.0 / size
    # ``upper``, the mass at or above each drawn loss, falls along the ranks.
    left = int(np.searchsorted(-upper, -(tail + slack))) - 1
    right = int(np.searchsorted(-upper, -(tail - slack)))
    return (
        float(ranked[left]) if left >= 0 else -np.inf,
        float(ranked[right]) if right < len(ranked) else np.inf,
    )


def _further_down(a: float, b: float) -> float:
    return a - 64.0 * (b - a) if np.isfinite(b - a) and b > a else -np.inf


def _pass(sample: Sample, a: float, b: float) -> _Window:
    kept = [0]  # a window that turns out to hold too many is counted, not kept
    finite = np.isfinite(b)

    def kernel(z: Floats, w: Floats | None) -> tuple[float, float, float, float, Floats, Floats | None]:
        greatest = float(z.max())  # NaN, if there is one
        if float(z.min()) == -np.inf:
            greatest = np.nan
        chosen = z >= a
        top = z[chosen]
        over = top > b
        high, inside = top[over], top[~over]
        kept[0] += inside.size
        if kept[0] > _LIMIT:
            inside = inside[:0].copy()
        if w is None:
            excess = float((high - b).sum()) if finite else 0.0
            return greatest, float(high.size), excess, float(top.size - high.size), inside, None
        heavy = w[chosen]
        loads = heavy[over]
        excess = float((loads * (high - b)).sum()) if finite else 0.0
        return greatest, float(loads.sum()), excess, float(heavy[~over].sum()), inside, heavy[~over][: inside.size]

    parts = sample.map(kernel)
    greatest, above, excess, mass = np.array([part[:4] for part in parts]).T
    many = kept[0] > _LIMIT
    return _Window(
        float(greatest.max()),
        float(above.sum()),
        float(excess.sum()),
        float(mass.sum()),
        None if many else np.concatenate([part[4] for part in parts]),
        np.concatenate([part[5] for part in parts]) if sample.weighted and not many else None,
    )


def _narrow(sample: Sample, a: float, b: float, greatest: float, target: float) -> tuple[float, float]:
    """Halve a window that holds too many losses, keeping the half with the quantile.

    Ties may fill any window; a window of one value is kept as [q, q] and then needs no list.
    """
    if not np.isfinite(a):
        a = float(min(sample.map(lambda z, w: float(z.min()))))
    b = min(b, greatest)
    middle = a + 0.5 * (b - a)
    if not a < middle < b:
        middle = a

    def kernel(z: Floats, w: Floats | None) -> tuple[float]:
        over = z > middle
        return (float(np.count_nonzero(over)) if w is None else float(w[over].sum()),)

    beyond = float(sample.total(kernel)[0])
    return (np.nextafter(middle, np.inf), b) if beyond > target else (a, middle)
