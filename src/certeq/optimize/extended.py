"""Exact solutions over sets that are polyhedra in other variables, with a gap that holds in the caller's own.

A budget of absolute values is linear in long and short parts v, and theta = center + S v. The solver proves its gap for
the table A (S, center), whose last column was rounded, and theta is rounded on its way back: at a center of 1e8 either
exceeds the gap. So the value is taken again at theta, and the bound is lowered by what rounding may have moved it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from certeq._table import ArrayTable, Block, Table
from certeq.optimize.cuts import solve_by_cuts, solver_for
from certeq.optimize.domains._polyhedron import ExtendedForm
from certeq.optimize.exact import ExactResult, PanelResult, RiskPart, solve_panel, solve_parts
from certeq.optimize.exact._risk import parts_at
from certeq.optimize.gaps import proved_gap, violation_cost
from certeq.risk import oce
from certeq.risk.solvers import needs_sorting
from certeq.utilities import Risk, Utility

Vector = NDArray[np.float64]
_EPS = float(np.finfo(np.float64).eps)


def solve(
    data: Any,
    utility: Risk,
    weights: Any,
    start: Any,
    limits: dict[str, Any],
    options: dict[str, Any],
    offset: Any = None,
) -> ExactResult | PanelResult:
    """The exact solver for wherever the data are; an offset in memory only."""
    if isinstance(data, Table):
        if needs_sorting(utility):
            raise TypeError(
                f"utility must not be {utility!r} for scenarios that are read in blocks: a distortion needs all losses "
                "sorted, in memory. A certeq.Mixture of a few CVaRs comes near it."
            )
        return solve_panel(data, utility, weights=weights, theta0=start, **limits, **options)
    if offset is None:
        return solver_for(utility)(data, utility, weights=weights, theta0=start, **limits, **options)
    if not needs_sorting(utility):
        return solve_parts([RiskPart(data, utility, 1.0, offset, weights)], theta0=start, **limits, **options)
    # A column whose weight is fixed at 1.
    limits, options = with_fixed_column(limits), dict(options)
    if "linear" in options:
        options["linear"] = np.append(options["linear"], 0.0)
    start = None if start is None else np.append(start, 1.0)
    found = solve_by_cuts(np.column_stack([data, offset]), utility, weights=weights, theta0=start, **limits, **options)
    multipliers = {name: m[:-1] if name in ("lower", "upper") else m for name, m in found.multipliers.items()}
    return replace(found, theta=found.theta[:-1], multipliers=multipliers)


def with_fixed_column(limits: dict[str, Any]) -> dict[str, Any]:
    """Bounds and rows with one more variable, which is 1 and in no row."""
    limits = dict(limits)
    for name in ("lower", "upper"):
        limits[name] = np.append(limits[name], 1.0)
    for name in ("C", "G"):
        limits[name] = np.column_stack([limits[name], np.zeros(len(limits[name]))])
    return limits


def solve_extended(
    data: Any,
    utility: Risk,
    extended: ExtendedForm,
    start: Any,
    weights: Any,
    limits: dict[str, Any],
    options: dict[str, Any],
    offset: bool = False,
) -> tuple[ExactResult | PanelResult, Vector]:
    """The result, with value and gap of the theta beside it; ``offset`` says that the last column of data is one."""
    S, center, count = extended.matrix(), extended.center, extended.index.size
    limits, options = dict(limits), dict(options)
    linear = options.pop("linear", None)
    costs = np.zeros_like(center) if linear is None else np.asarray(linear, dtype=np.float64)
    if costs.shape != center.shape:
        raise ValueError(f"linear must have shape {center.shape}; found {costs.shape}.")
    if offset:  # of its column 1 is held, whatever v
        S, center, costs = np.vstack([S, np.zeros(count)]), np.append(center, 1.0), np.append(costs, 0.0)
    if linear is not None:
        options["linear"] = costs @ S
    if start is not None:
        start = extended.parts(start)
    fixed = bool(np.any(center))  # the losses at the center
    if not isinstance(data, Table):
        columns = data[:, extended.index] * extended.sign
        found = solve(columns, utility, weights, start, limits, options, data @ center if fixed else None)
        if fixed and linear is not None:
            found = _raised(found, float(costs @ center))
    else:
        if fixed:  # a column whose weight is fixed at 1
            S, limits = np.column_stack([S, center]), with_fixed_column(limits)
            start = None if start is None else np.append(start, 1.0)
            if linear is not None:
                options["linear"] = costs @ S
        found = solve(data.mapped(S), utility, weights, start, limits, options)
    theta = extended.theta(found.theta[:count])
    C, c, G, b = (np.asarray(limits[name]) for name in ("C", "c", "G", "b"))
    finite = b < np.inf  # the other rows ask nothing
    y, z = found.multipliers["C"], found.multipliers["G"][finite]
    outside = violation_cost(y, z, C @ found.theta - c, (G @ found.theta - b)[finite])
    longer = np.append(theta, 1.0) if offset else theta
    tol = float(options.get("tol", 1e-7 if needs_sorting(utility) else 1e-9))
    return _at(found, data, utility, weights, longer, center, costs, outside, tol), theta


def _raised(found: ExactResult | PanelResult, constant: float) -> ExactResult | PanelResult:
    """A result whose objective is a constant more."""
    return replace(found, value=found.value + constant, lower_bound=found.lower_bound + constant)


def _at(
    found: ExactResult | PanelResult,
    data: Any,
    utility: Risk,
    weights: Any,
    theta: Vector,
    center: Vector,
    linear: Vector,
    outside: float,
    tol: float,
) -> ExactResult | PanelResult:
    size = np.abs(theta) + np.abs(center)
    if needs_sorting(utility):
        value = float(oce(data @ theta, utility, weights)) + float(linear @ theta)
        reach = float((np.abs(data) @ size).max()) + float(np.abs(linear) @ size)
        moved = _EPS * (len(theta) + 64.0) * reach
        return _moved_to(found, value, 2.0 * moved + outside, tol)
    inner = utility.inner()
    panel = data if isinstance(data, Table) else ArrayTable(np.asarray(data))
    if weights is not None:
        panel = panel.with_weights(weights)
    value = float(inner.cost @ found.inner) + float(linear @ theta)
    moved = _EPS * (len(theta) + 8.0) * float(np.abs(linear) @ size)
    for part in parts_at(inner, found.inner):
        mass, total, sizes, slopes, reach = panel.reduce(_ValuePass(theta, size, part.t, part.form.utility))
        value += part.weight * total / mass
        # Roundings of a loss, times the tilt that weighs it: its sizes sum to the cost of t where u is monotone, and
        # else to what the slopes at theta sum to, or little more. Then those of the sum over scenarios.
        cost = float(inner.cost[part.term.t])
        tilted = cost if utility.is_monotone else cost + 2.0 * part.weight * slopes / mass
        moved += _EPS * (len(theta) + 8.0) * tilted * (reach + abs(part.t))
        moved += 64.0 * _EPS * (cost * abs(part.t) + part.weight * sizes / mass)
    return _moved_to(found, value, 2.0 * moved + outside, tol)


def _moved_to(
    found: ExactResult | PanelResult, value: float, allowance: float, tol: float
) -> ExactResult | PanelResult:
    """The result with the value at theta itself, and the gap that its bound proves there."""
    gap = proved_gap(value, found.lower_bound, allowance)
    unit = found.gap / found.relative_gap if found.gap > 0.0 < found.relative_gap else max(abs(value), 1e-300)
    relative = gap / unit
    status = "stalled" if found.status == "optimal" and relative > tol else found.status
    return replace(found, value=value, gap=gap, lower_bound=value - gap, relative_gap=relative, status=status)


@dataclass(frozen=True)
class _ValuePass:
    """The kernel of sums at theta and t: of weights, of u(x - t), of its sizes and those of u'; and max |a_i|.size."""

    theta: Vector
    size: Vector
    t: float
    utility: Utility
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> tuple[float, ...]:
        """Those of a block."""
        rows, w = block.rows, np.ones(len(block.rows)) if block.weights is None else block.weights
        y = rows @ self.theta - self.t
        with np.errstate(all="ignore"):
            value, slope = w * self.utility.value(y), w * np.abs(self.utility.slope(y))
        reach = float((np.abs(rows) @ self.size).max(initial=0.0))
        return float(w.sum()), float(value.sum()), float(np.abs(value).sum()), float(slope.sum()), reach

    def join(self, parts: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
        """The sums added up, and the largest of the last."""
        *sums, reaches = zip(*parts, strict=True)
        return *map(math.fsum, sums), max(reaches)
