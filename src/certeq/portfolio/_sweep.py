"""One problem for many target returns: each solution is the start of the next."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.portfolio._programme import Programme
from certeq.portfolio._solve import Allocation, solve

Floats = NDArray[np.float64]


def frontier_targets(programme: Programme, least: Allocation, size: int) -> tuple[Floats, Floats]:
    """Evenly spaced returns from that of the least risk to the largest there is, and the portfolio that has that."""
    row, _ = programme.minus_return()
    richest = programme.segments.fold(programme.domain().minimize_linear(row))
    top = max(programme.problem.expected_return(richest), least.expected_return)
    targets = np.linspace(least.expected_return, top, size)
    # The last target is met with nothing to spare; a hair's breadth keeps rounding from calling it infeasible.
    targets[-1] -= 1e-9 * (top - least.expected_return)
    return targets, richest


def sweep(programme: Programme, targets: Floats, settings: tuple[Any, ...], start: Floats | None) -> list[Allocation]:
    """An allocation per target, in the order given.

    Targets are taken from the highest down, where each solution is feasible for the next.
    """
    solver, tol, params, rng = settings
    found: dict[int, Allocation] = {}
    for i in np.argsort(-targets, kind="stable"):
        each = solve(programme.with_target(float(targets[i])), solver, start, tol, params, rng)
        found[int(i)] = each
        start = each.weights
    return [found[i] for i in range(len(targets))]
