"""Limits on risks: as callers write them, and with the largest return and ratio as the exact method takes them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from skfolio.exceptions import OptimizationError

from certeq._checks import check_number, shown
from certeq.optimize.functions import RiskFunction, SquareFunction, WeightedSum, root_mean_square
from certeq.optimize.limited import InfeasibleLimitsError, LimitedResult, solve_limited
from certeq.optimize.ratio import RatioSolution, solve_ratio
from certeq.portfolio._problem import RiskLimit, SegmentedProblem
from certeq.utilities import Mean, Risk

if TYPE_CHECKING:
    from certeq.portfolio._minimum_oce import MinimumOCE

Floats = NDArray[np.float64]
Levels = tuple[float, ...]


def read_levels(model: MinimumOCE) -> list[Levels]:
    """The levels of every limit on a risk, in order; of each as many as there are problems to solve, or one."""
    found = [levels for _, _, levels in (*risk_limits(model), *benchmark_limits(model))]
    several = {len(levels) for levels in found if len(levels) > 1}
    if len(several) > 1:
        raise ValueError(f"limits with several levels must have equally many; found {sorted(several)}.")
    return found


def risk_limits(model: MinimumOCE) -> list[tuple[str, Risk | None, Levels]]:
    """Names, risks and levels of the limits on losses."""
    return _pairs("risk_limits", model.risk_limits, "{risk!r} <= {level}")


def benchmark_limits(model: MinimumOCE) -> list[tuple[str, Risk | None, Levels]]:
    """The same of what is lost against the benchmark; the risk of a tracking error is None."""
    found = _pairs("benchmark_limits", model.benchmark_limits, "{risk!r} of what is lost against y <= {level}")
    if model.max_tracking_error is not None:
        levels = _levels("max_tracking_error", model.max_tracking_error, above=0.0)
        found.append((f"max_tracking_error={_shown(levels)}", None, levels))
    return found


def _pairs(name: str, found: Any, words: str) -> list[tuple[str, Risk | None, Levels]]:
    """Pairs of a risk and its level, or levels, each with what a message calls it."""
    wanted = f"{name} must be a list of pairs such as (CVaR(0.05), 0.02)"
    if found is None:
        return []
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], Risk):
        raise TypeError(f"{wanted}; found one pair: write {shown([found])}.")
    if not isinstance(found, (list, tuple)):
        raise TypeError(f"{wanted}; found {shown(found)}.")
    pairs: list[tuple[str, Risk | None, Levels]] = []
    for k, pair in enumerate(found):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], Risk):
            raise TypeError(f"{wanted}; found {shown(pair)} at position {k}.")
        levels = _levels(f"the level of {name}[{k}]", pair[1])
        pairs.append((f"{name}[{k}], {words.format(risk=pair[0], level=_shown(levels))}", pair[0], levels))
    return pairs


def _levels(name: str, found: Any, above: float = -np.inf) -> Levels:
    if np.ndim(found) == 0:
        return (check_number(name, found, "a number, or an array of them", above=above),)
    if np.ndim(found) != 1 or not len(found):
        raise ValueError(f"{name} must be a number or an array of at least one; found shape {np.shape(found)}.")
    return tuple(check_number(name, each, "a number, or an array of them", above=above) for each in found)


def _shown(levels: Levels) -> str:
    return ", ".join(f"{level:g}" for level in levels[:3]) + (", ..." if len(levels) > 3 else "")


# -- as the exact method takes them ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LimitedAnswer:
    """Segments that keep the limits, a lower bound of what is minimized, and the multipliers of the limits."""

    theta: Floats
    lower_bound: float
    multipliers: Floats
    result: LimitedResult | RatioSolution


def needs_limits(segmented: SegmentedProblem) -> bool:
    """Whether the problem is more than one risk over a polyhedron."""
    problem = segmented.problem
    return bool(problem.limits) or not problem.counts_risk or problem.hurdle is not None


def solve_with_limits(
    segmented: SegmentedProblem, theta0: Floats | None, prices: Floats | None, tol: float, params: dict[str, Any]
) -> LimitedAnswer:
    """The exact method on a problem with limits; for a ratio, the bound is an upper one of the ratio."""
    problem = segmented.problem
    functions = [_function(segmented, limit) for limit in problem.limits]
    q = segmented.polyhedron()._constraints()
    names = [limit.name for limit in problem.limits]
    try:
        if problem.hurdle is not None:
            slopes, constant = segmented.minus_return()
            limit = params.get("time_limit")
            more = {} if limit is None else {"deadline": time.perf_counter() + limit}
            more |= {key: value for key, value in params.items() if key != "time_limit"}
            ratio = solve_ratio(
                _objective(segmented), -slopes, -constant - problem.hurdle, functions, q, names=names, theta0=theta0,
                tol=tol, **more,
            )  # fmt: skip
            # What lowers risk - return/ratio by one raises the ratio by ratio/risk.
            multipliers = ratio.limit_multipliers * (ratio.ratio / ratio.risk)
            return LimitedAnswer(ratio.theta, ratio.ratio + ratio.gap, multipliers, ratio)
        settings: dict[str, Any] = {"names": names, "theta0": theta0, "multipliers0": prices, "tol": tol, **params}
        found = solve_limited(_objective(segmented), functions, q, **settings)
    except InfeasibleLimitsError as error:
        raise OptimizationError(_explain(segmented, error)) from error
    return LimitedAnswer(found.theta, found.lower_bound, found.limit_multipliers, found)


def _objective(segmented: SegmentedProblem) -> WeightedSum:
    problem = segmented.problem
    p = None if problem.weights is None else problem.weights / float(problem.weights.sum())
    terms = [(1.0, RiskFunction(segmented.A, problem.utility, p))] if problem.counts_risk else []
    squares = segmented.quadratic()
    if squares is not None and squares.ndim == 1:
        squares = np.diag(np.sqrt(squares))
    return WeightedSum(terms, segmented.linear, squares, segmented.constant)


def _function(segmented: SegmentedProblem, limit: RiskLimit) -> tuple[RiskFunction | SquareFunction, float]:
    """The limit as a function of the segments, and its level."""
    problem, asset = segmented.problem, segmented.segments.asset
    if limit.A is problem.A:
        A = segmented.A  # terms that share their losses are solved together
    else:
        A = limit.A if len(asset) == problem.assets.count else limit.A[:, asset]
    p = None if limit.weights is None else limit.weights / float(limit.weights.sum())
    if limit.risk is None:
        level = limit.level / limit.unit
        return root_mean_square(RiskFunction(A, Mean(), p, limit.y), level), level
    slopes, constant = segmented.cost_slopes()
    linear = slopes if slopes.any() else None
    return RiskFunction(A, limit.risk, p, limit.y, linear), limit.level - constant


def _explain(segmented: SegmentedProblem, error: InfeasibleLimitsError) -> str:
    """Which limits cannot be kept, in the caller's words and units."""
    limits = [segmented.problem.limits[j] for j in error.limits]
    paid = segmented.cost_slopes()[1]
    least = [
        limit.unit * level if limit.risk is None else level + paid
        for limit, level in zip(limits, error.least, strict=True)
    ]
    if len(limits) == 1:
        return f"{limits[0].name} is out of reach: the other constraints allow {least[0]:.6g} at least."
    shown = ", ".join(f"{level:.6g}" for level in least)
    return (
        f"These limits can be kept one by one but not together: {'; '.join(limit.name for limit in limits)}. Levels of "
        f"{shown} can."
    )
