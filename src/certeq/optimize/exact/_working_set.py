"""Which assets and which scenarios a step looks at, and which ones the others prove to be missing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.exact._model import Hinges, Model, Point
from certeq.optimize.exact._risk import SampleRows, TermAt, all_kinks

Vector = NDArray[np.float64]
Index = NDArray[np.intp]

_TIE = 1e-9  # losses of size 1 that differ by less are taken to be equal
FEW = 100  # up to this many assets all of them are in the working set
_WORK = 1e7  # products in a model's hinges: an iteration of the interior point method, a few milliseconds


def first_assets(model: Model, theta: Vector, movable: Index) -> Index:
    """All assets where they are few, else those off their bounds and those of least mean and spread on their own."""
    if len(movable) <= FEW:
        return movable
    active = movable[off_bounds(model, theta)[movable]]
    return np.union1d(active, movable[np.argsort(promise(model)[movable], kind="stable")[:FEW]])


def promise(model: Model) -> Vector:
    """How an asset looks on its own: mean loss plus one deviation, lower is better."""
    return model.linear + model.scenarios.deviation / model.scenarios.scale


def off_bounds(model: Model, theta: Vector) -> NDArray[np.bool_]:
    """Assets strictly between their bounds."""
    q = model.polyhedron
    return (theta > q.lower) & (theta < q.upper)


def missing_assets(reduced: Vector, model: Model, theta: Vector, assets: Index, movable: Index, slack: float) -> Index:
    """Assets outside the working set whose reduced cost says that holding more, or less, would pay."""
    outside = np.setdiff1d(movable, assets, assume_unique=True)
    q = model.polyhedron
    r = reduced[outside]
    gain = np.where(theta[outside] < q.upper[outside], -r, 0.0)
    gain = np.maximum(gain, np.where(theta[outside] > q.lower[outside], r, 0.0))
    paying = np.flatnonzero(gain > slack)
    limit = max(40, len(assets) // 2)
    order = np.argsort(-gain[paying], kind="stable")[:limit]
    return outside[paying[order]]


def no_hinges(model: Model) -> Hinges:
    """For a utility without kinks."""
    empty = np.zeros(0, dtype=np.intp)
    return Hinges(empty, empty, np.zeros((0, model.scenarios.count), dtype=bool))


def near_hinges(model: Model, point: Point, assets: int, share: float = 1.0) -> Hinges:
    """The scenarios nearest each kink: about twice the tail below it and two thirds of it above.

    ``share`` of that is enough where the point is close to the solution already. Of many kinks and assets only the
    nearest are taken, whichever kink it is: all losses move alike, and a solution ties no more than it has variables.
    """
    scenario, which, above, far = [], [], [], []
    samples = model.samples
    for k, (part, kink) in enumerate(all_kinks(point.parts)):
        excess = samples.of(point.losses, part.term) - kink.at - part.t
        over = excess > 0.0
        tail = int(over.sum())
        chosen = np.concatenate(
            [
                np.flatnonzero(np.abs(excess) <= _TIE),  # all of them: which side a tie is on is for the model to say
                _nearest(excess, ~over, int(max(2.0 * share * tail, 3.0 * assets + 50.0))),
                _nearest(-excess, over, int(max(0.67 * share * tail, 1.5 * assets + 50.0))),
            ]
        )
        chosen = np.unique(chosen)
        scenario.append(chosen + samples.first(part.term))
        which.append(np.full(len(chosen), k, dtype=np.intp))
        above.append(samples.total([(part.term, over)]) > 0)
        far.append(np.abs(excess[chosen]))
    hinges = Hinges(np.concatenate(scenario), np.concatenate(which), np.array(above))
    most = max(int(share * _WORK / (assets + len(model.inner.cost)) ** 2), 8 * assets + 200)
    if len(hinges.scenario) <= most:
        return hinges
    distance = np.concatenate(far)
    limit = max(float(np.partition(distance, most)[most]), _TIE)
    near = distance <= limit
    return Hinges(hinges.scenario[near], hinges.which[near], hinges.above)


def _nearest(excess: Vector, among: NDArray[np.bool_], count: int) -> Index:
    """The ``count`` largest entries among those marked."""
    candidates = np.flatnonzero(among)
    if len(candidates) <= count:
        return candidates
    values = excess[candidates]
    return candidates[np.argpartition(-values, count)[:count]]


def grown_hinges(
    hinges: Hinges, losses: Vector, samples: SampleRows, parts: tuple[TermAt, ...], margin: float
) -> Hinges | None:
    """Add the scenarios that are not on the side the model took them to be; None where there are none."""
    scenario, which = [hinges.scenario], [hinges.which]
    found = False
    for k, (part, kink) in enumerate(all_kinks(parts)):
        excess = samples.of(losses, part.term) - kink.at - part.t
        above, first = samples.of(hinges.above[k], part.term), samples.first(part.term)
        known = hinges.scenario[hinges.which == k] - first
        wrong = np.where(above, excess < 0.0, excess > 0.0)
        wrong[known] = False
        if not wrong.any():
            continue
        found = True
        close = np.where(above, excess < margin, excess > -margin)
        close[known] = False
        fresh = np.flatnonzero(close) + first
        scenario.append(fresh)
        which.append(np.full(len(fresh), k, dtype=np.intp))
    return Hinges(np.concatenate(scenario), np.concatenate(which), hinges.above) if found else None
