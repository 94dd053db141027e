"""Do the weights keep every constraint the caller gave, and which are to blame where no weights can?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from skfolio.exceptions import OptimizationError

from certeq.optimize.domains import InfeasibleError, UnboundedError
from certeq.portfolio._problem import PortfolioProblem, SegmentedProblem

Floats = NDArray[np.float64]
ALLOWANCE = 1e-10  # of the largest coefficient of a constraint times the sum of |w_j|, plus its right side
_DUST = 1e-3  # the least sum of |w_j| that this is measured by: where all is sold, what is left is rounding
_FEW = 60  # rows; above it the search for the conflict would take too many linear programs


def check_weights(problem: PortfolioProblem, w: Floats, target: float | None = None) -> None:
    """Refuse weights that break a constraint by more than rounding, and say which and by how much."""
    broken = [each for each in excesses(problem, w, target) if each.is_violation]
    if broken:
        found = "; ".join(f"{each.name} by {each.by:.3g}" for each in broken[:5])
        more = f" and {len(broken) - 5} more" if len(broken) > 5 else ""
        raise OptimizationError(
            f"The solver's weights break constraints by more than rounding: {found}{more}. They are not returned. Try "
            "solver_params={'max_iter': ...}, or write the constraints with coefficients of similar size."
        )


def excesses(problem: PortfolioProblem, w: Floats, target: float | None = None) -> Iterator[Excess]:
    """Every constraint at the weights w, in the caller's own units; ``target`` is the least expected return."""
    gross = max(float(np.abs(w).sum()), _DUST)
    yield from _bounds(problem, w)
    for row in problem.rows:
        value = float(row.row @ w)
        by = abs(value - row.side) if row.equal else value - row.side
        yield Excess(row.name, by, float(np.abs(row.row).max(initial=0.0)) * gross + abs(row.side))
    for name, limit, part in (("max_long", problem.max_long, w), ("max_short", problem.max_short, -w)):
        if limit is not None:
            yield Excess(f"{name}={limit:g}", float(np.maximum(part, 0.0).sum()) - limit, gross + limit)
    for each in problem.limits:  # kept to 1e-9 of their unit: a level that only the least risk reaches is taken as that
        size = 1e-9 / ALLOWANCE * max(abs(each.level), float(np.std(each.losses(w))))
        yield Excess(each.name, each.value(w, problem.costs) - each.level, size)
    if target is not None:
        costs = problem.costs
        most = float(np.abs(problem.mu).max() + np.abs(costs.fees).max() + costs.trading.max())
        size = most * (gross + float(np.abs(costs.previous).sum())) + costs.liquidation + abs(target)
        yield Excess(f"min_return={target:g}", target - problem.expected_return(w), size)


@dataclass(frozen=True)
class Excess:
    """By how much a constraint is exceeded (0 or less where it holds), and the size of the numbers in it."""

    name: str
    by: float
    size: float

    @property
    def is_violation(self) -> bool:
        """Whether that is more than rounding; NaN counts as such."""
        return not self.by <= ALLOWANCE * self.size


def _bounds(problem: PortfolioProblem, w: Floats) -> Iterator[Excess]:
    """The asset furthest outside its bounds, on either side."""
    within = "" if problem.turnover is None else f" (with max_turnover={problem.turnover:g})"
    for name, bound, over in (
        ("min_weights", problem.lower, problem.lower - w),
        ("max_weights", problem.upper, w - problem.upper),
    ):
        j = int(np.argmax(over))
        size = abs(float(bound[j])) if np.isfinite(bound[j]) else 0.0
        yield Excess(f"{name}{within} of {problem.assets.label(j)}", float(over[j]), size + abs(float(w[j])))


# -- where no weights can ---------------------------------------------------------------------------------------------


def explain_infeasible(segmented: SegmentedProblem, error: InfeasibleError) -> str:
    """The smallest set of constraints that exclude each other; for a target return, what could be had instead."""
    if len(segmented.c) + len(segmented.b) > _FEW:
        return in_words(str(error), segmented)
    equal, below = segmented.polyhedron().conflict()
    names = [*(segmented.equalities[i] for i in equal), *(segmented.inequalities[i] for i in below)]
    if not names:
        return in_words(str(error), segmented)
    for k in below:
        name = segmented.inequalities[k]
        if name.startswith("min_return"):
            others = replace(segmented, G=np.delete(segmented.G, k, axis=0), b=np.delete(segmented.b, k))
            try:
                least = float(segmented.G[k] @ others.domain().minimize_linear(segmented.G[k]))
            except (InfeasibleError, UnboundedError):
                continue
            best = -(least + segmented.minus_return()[1])
            return f"{name} is out of reach: the other constraints allow an expected return of {best:.6g} at most."
    within = "within min_weights and max_weights" + (" (and max_turnover)" if segmented.problem.turnover else "")
    if len(names) == 1:
        return f"{names[0]} cannot hold {within}."
    return f"These cannot hold together {within}: {'; '.join(names)}."


def in_words(message: str, segmented: SegmentedProblem) -> str:
    """A solver's message with the caller's names in place of the solver's indices."""

    def constraint(match: re.Match[str]) -> str:
        names = segmented.equalities if match[1] == "C" else segmented.inequalities
        position = int(match[2])
        return names[position] if position < len(names) else match[0]

    def asset(match: re.Match[str]) -> str:
        position = int(match[1])
        if position >= len(segmented.segments.asset):
            return match[0]
        return segmented.problem.assets.label(int(segmented.segments.asset[position]))

    message = re.sub(r"\basset (\d+)", asset, message)
    return re.sub(r"\b([CGA])\[(\d+)\](?: theta)?(?: <?= [bc]\[\d+\])?", constraint, message)
