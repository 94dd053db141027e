"""The projection of one step, lean: it knows where the last iterate was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.domains import Domain, Simplex
from certeq.optimize.losses._base import Floats

# (last iterate, point to project) -> projection
StepProjection = Callable[[Floats, Floats], Floats]


def step_projection(domain: Domain, d: int) -> StepProjection:
    """Return the projection onto ``domain`` without the checks of each argument, which the loop makes once."""
    domain.validate(d)
    if isinstance(domain, Simplex) and domain.total > 0.0:
        return _simplex(domain.total)
    return lambda before, x: np.asarray(domain._project(x))


def _simplex(total: float) -> StepProjection:
    r"""Newton's method for :math:`\sum_i (x_i - \tau)_+ = s`, begun at the support of the last iterate.

    The sum is convex and piecewise linear in tau, so after its first step Newton rises to the root and ends there in
    finitely many; when the support does not change, which is the rule, the first step is the last. No sort is
    needed. The result depends on (before, x) only: what is remembered saves time and changes no bit.
    """
    known = b""
    mask: Floats = np.zeros(0)
    count = 0.0
    last: Floats | None = None  # what was returned last time, whose support is the known one

    def learn(support: NDArray[np.bool_]) -> None:
        nonlocal known, mask, count
        found = support.tobytes()
        if found != known:
            known, mask = found, support.astype(np.float64)
            count = float(np.count_nonzero(support))

    def project(before: Floats, x: Floats) -> Floats:
        nonlocal last
        if before is not last:
            learn(before > 0.0)
        while True:
            tau = (float(np.dot(x, mask)) - total) / count
            support = x > tau
            if support.tobytes() == known:
                break
            if not support.any():  # total is lost in the rounding of x, or x is not finite
                last = None
                return _of_far(x, total)
            learn(support)
        v: Floats = x - tau
        np.maximum(v, 0.0, out=v)
        last = v
        return v

    return project


def _of_far(x: Floats, total: float) -> Floats:
    """The projection of an x so large that total is lost beside it: what lies further below the largest gets nothing.

    Differences from the largest entry are exact where they matter, and the sum is theirs.
    """
    y = x - x.max()
    y = np.where(y > -2.0 * total, y, -2.0 * total)
    ranked = np.sort(y)[::-1]
    level = (np.cumsum(ranked) - total) / np.arange(1, x.size + 1)
    held = int(np.flatnonzero(ranked > level)[-1]) if (ranked > level).any() else 0
    v: Floats = np.maximum(y - level[held], 0.0)
    return v
