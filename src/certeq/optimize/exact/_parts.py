"""solve_parts: several risks, each of losses of its own, added up and minimized as one problem with one proof."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import check_array, check_instance, check_number
from certeq._table import ArrayTable, Table, as_table
from certeq.optimize.domains import UnboundedError
from certeq.optimize.domains._rows import Constraints
from certeq.optimize.exact._panel import PanelResult, solve_tables
from certeq.optimize.exact._problem import (
    ExactResult,
    PartResult,
    Problem,
    Share,
    Squares,
    read_polyhedron,
    read_squares,
    read_start,
    read_table,
    read_weights,
)
from certeq.optimize.exact._risk import SampleRows, read_inner, thresholds_of
from certeq.optimize.exact._solve import check_limits, solve_problem
from certeq.risk.solvers import solve_long_inner, solve_risk
from certeq.utilities import Risk
from certeq.utilities.forms import Inner, Term

Vector = NDArray[np.float64]
_DRAWN = 4096  # rows of a table in blocks, by which its unit is chosen
_NEAR = 2.0  # powers of 2 by which losses of two parts may differ before they are counted in units of their own


@dataclass(frozen=True, eq=False)
class RiskPart:
    """One of the risks that `solve_parts` adds up: ``weight * risk(A theta + offset)``.

    Parameters
    ----------
    A : array, shape (M, d)
        Losses of M scenarios, d assets. Parts may have different scenarios, and different numbers of them. What
        `LinearLoss` reads in blocks (a Dask array, a large mapped file) is read in blocks here too.
    risk : Utility or Risk
        Risk measure, as in `solve_exact`.
    weight : float
        The factor of the risk, not negative. A part of weight 0 is reported and otherwise ignored.
    offset : float or array, shape (M,), optional
        Losses that theta has no part in, such as those of a benchmark; 0 if not given.
    scenario_weights : array, shape (M,), optional
        Probabilities of the scenarios, up to a factor; equal if not given.

    Examples
    --------
    >>> from certeq.optimize.exact import RiskPart
    >>> from certeq.utilities import CVaR
    >>> RiskPart([[1.0, 0.0], [0.0, 1.0]], CVaR(0.5), weight=2.0, offset=[0.5, 0.0]).weight
    2.0
    """

    A: Any
    risk: Risk
    weight: float = 1.0
    offset: Any = None
    scenario_weights: Any = None


def solve_parts(
    parts: Sequence[RiskPart],
    *,
    linear: Any = None,
    quadratic: Any = None,
    lower: Any = None,
    upper: Any = None,
    C: Any = None,
    c: Any = None,
    G: Any = None,
    b: Any = None,
    theta0: Any = None,
    tol: float = 1e-9,
    max_iter: int = 200,
    time_limit: float | None = None,
) -> ExactResult | PanelResult:
    r"""Minimize  sum_k weight_k risk_k(A_k theta + offset_k) + linear.theta  over a polyhedron.

    Parameters
    ----------
    parts : sequence of RiskPart
        The risks, at least one of them with a positive weight; all tables have the same assets. Parts that are given
        the same objects A, offset and scenario_weights share their scenarios, and are no dearer than a `Mixture`.
    linear, quadratic, lower, upper, C, c, G, b, tol, max_iter, time_limit
        As in `solve_exact`.
    theta0 : array, shape (d,), optional
        A point to start from; from the solution of a similar problem one to three steps lead to this one's.

    Returns
    -------
    ExactResult or PanelResult
        The latter where a table is read in blocks, then without tilts, but with the slope of every part.
        Value, gap and bound are those of the whole sum, and so is the proof. ``parts`` has for every part, in the order
        given, the value of its risk (not yet times its weight), its threshold, inner variables and tilt. Those of the
        result itself are these one after the other.

    Raises
    ------
    InfeasibleError, UnboundedError
        As `solve_exact`.

    See Also
    --------
    solve_exact : the same for one risk.

    Notes
    -----
    All parts are one problem: the scenarios of all tables are rows of one, the terms of all risks add up, and the
    certificate is that of the sum. Losses of parts that differ much in size are counted in units that are powers of 2,
    so that nothing is rounded; an offset is a column of losses with a variable that is fixed.

    Examples
    --------
    The average of two risks, one of them relative to a benchmark:

    >>> import numpy as np
    >>> from certeq.optimize.exact import RiskPart, solve_parts
    >>> from certeq.utilities import CVaR, Entropic
    >>> losses = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [-1.0, -1.0]])
    >>> benchmark = losses @ [0.9, 0.1]
    >>> found = solve_parts(
    ...     [
    ...         RiskPart(losses, CVaR(0.5), 0.5),
    ...         RiskPart(losses, Entropic(1.0), 0.5, offset=-benchmark),
    ...     ],
    ...     lower=0,
    ...     C=[1, 1],
    ...     c=1,
    ... )
    >>> found.theta.round(4), [round(part.value, 4) for part in found.parts]
    (array([0.5, 0.5]), [0.5, 0.0397])
    """
    began = time.perf_counter()
    check_limits(tol, max_iter, time_limit)
    joined = _join(parts)
    assets = joined.assets
    polyhedron = read_polyhedron(assets, lower, upper, C, c, G, b)
    slope = np.zeros(assets) if linear is None else check_array("linear", linear, size=assets)
    problem = joined.problem(slope, polyhedron, read_squares(quadratic, assets))
    given = read_start(theta0, assets)
    if given is not None and joined.unit is not None:
        given = np.append(given, joined.unit)
    deadline = np.inf if time_limit is None else began + time_limit
    found: ExactResult | PanelResult
    try:
        if joined.in_blocks:
            found = solve_tables(joined.tables(), problem, given, tol, max_iter, deadline)
        else:
            found = solve_problem(problem, given, tol, max_iter, deadline)
    except UnboundedError as error:
        raise UnboundedError(str(error), error.direction[:assets]) from None
    return joined.result(found)


@dataclass(frozen=True)
class _Read:
    """A part that was checked, in units of its own: losses of the caller times ``power``."""

    part: RiskPart
    inner: Inner
    weight: float
    sample: int
    count: int
    kept: NDArray[np.intp] | None


@dataclass(frozen=True)
class _Sample:
    """Scenarios of positive weight, their probabilities, their offset, and the largest of their losses in size."""

    table: Any  # an array, or a Table with its weights
    mass: Vector
    offset: Vector | None
    largest: float

    def spread(self) -> float:
        """A typical deviation of the losses of an asset; their size where they do not vary."""
        rows, mass = self.table, self.mass
        if isinstance(rows, Table):  # some of them will do
            rows = rows.draw(_DRAWN).rows
            mass = np.full(len(rows), 1.0 / len(rows))
        with np.errstate(all="ignore"):
            deviation = float(np.sqrt(np.mean(mass @ np.square(rows - mass @ rows))))
        return deviation if 1e-13 * self.largest < deviation < np.inf else self.largest or 1.0


@dataclass(frozen=True)
class _Joined:
    """All parts; ``powers`` are the units of the samples, ``unit`` is the variable of the offsets where there are any.

    The objective is divided by ``factor``.
    """

    parts: list[_Read]
    samples: list[_Sample]
    powers: list[float]
    unit: float | None
    factor: float

    @property
    def assets(self) -> int:
        """How many variables the caller has."""
        return int(self.samples[0].table.shape[1])

    @property
    def used(self) -> list[int]:
        """The samples of parts that count."""
        return sorted({one.sample for one in self.parts if one.weight > 0.0})

    @property
    def in_blocks(self) -> bool:
        """Whether the scenarios are read in blocks."""
        return isinstance(self.samples[0].table, Table)

    def tables(self) -> list[Table]:
        """Those that are read in blocks, offsets as a column."""
        return [self._longer(self.samples[k]) for k in self.used]

    def _longer(self, sample: _Sample) -> Table:
        table: Table = sample.table
        if self.unit is None:
            return table
        return table.with_column(np.zeros(len(table)) if sample.offset is None else sample.offset / self.unit)

    def problem(self, linear: Vector, q: Constraints, squares: Squares | None) -> Problem:
        """The problem that is solved; of tables that are read in blocks a row stands for all."""
        inner, shares = self._terms()
        used = self.used
        tables: list[NDArray[np.floating]]
        if self.in_blocks:
            tables = [np.zeros((1, self.assets + (self.unit is not None))) for _ in used]
            masses = [np.ones(1) for _ in used]
        else:
            tables = [self._table(self.samples[k], self.powers[k]) for k in used]
            masses = [self.samples[k].mass for k in used]
        ends = np.cumsum([0, *[len(table) for table in tables]]).tolist()
        rows = tuple([slice(first, end) for first, end in pairwise(ends)])
        if len(tables) == 1:
            table, samples, largest = tables[0], SampleRows(masses[0]), self.samples[used[0]].largest
        else:
            table = np.concatenate(tables)
            samples = SampleRows(np.concatenate(masses), rows)
        if self.unit is not None or len(tables) > 1:
            largest = float(np.abs(table).max())
        linear, squares = linear / self.factor, None if squares is None else squares.scaled(1.0 / self.factor)
        if self.unit is not None:
            lower, upper = np.append(q.lower, self.unit), np.append(q.upper, self.unit)
            C, G = (np.column_stack([side, np.zeros(len(side))]) for side in (q.C, q.G))
            q, linear = Constraints(lower, upper, C, q.c, G, q.b), np.append(linear, 0.0)
            if squares is not None:
                more = np.zeros((*squares.rows.shape[:-1], 1))
                squares = Squares(np.concatenate([squares.rows, more], axis=-1))
        return Problem(table, samples, tuple(shares), inner, linear, q, largest, squares)

    def _table(self, sample: _Sample, power: float) -> NDArray[np.floating]:
        table: NDArray[np.floating] = sample.table if power == 1.0 else sample.table.astype(np.float64) * power
        if self.unit is None:
            return table
        offset = np.zeros(len(table)) if sample.offset is None else sample.offset * (power / self.unit)
        return np.column_stack([table, offset])

    def _terms(self) -> tuple[Inner, list[Share]]:
        """The terms of all risks, with inner variables one after the other; and whose they are."""
        terms: list[Term] = []
        costs, lows, highs, shares, first, used = [], [], [], [], 0, self.used
        for one in self.parts:
            if one.weight == 0.0:
                continue
            power = self.powers[one.sample]
            factor = one.weight / power / self.factor
            begin = len(terms)
            for term in one.inner.terms:
                form = term.form if term.s is not None else term.form.scaled(power)
                s = None if term.s is None else first + term.s
                terms.append(Term(factor * term.weight, form, first + term.t, s, used.index(one.sample)))
            own = slice(first, first := first + len(one.inner.cost))
            costs.append(factor * one.inner.cost)
            lows.append(one.inner.low)
            highs.append(one.inner.high)
            shares.append(Share(one.part.risk, factor, range(begin, len(terms)), own, one.count, one.kept))
        return Inner(np.concatenate(costs), np.concatenate(lows), np.concatenate(highs), tuple(terms)), shares

    def result(self, found: ExactResult | PanelResult) -> ExactResult | PanelResult:
        """The result in the caller's units, for the caller's variables and parts."""
        theta, factor, solved = found.theta[: self.assets], self.factor, iter(found.parts)
        parts = [self._alone(one, theta) if one.weight == 0.0 else self._back(one, next(solved)) for one in self.parts]
        thresholds = np.concatenate([np.atleast_1d(part.threshold) for part in parts])
        multipliers = {name: factor * prices for name, prices in found.multipliers.items()}
        for name in ("lower", "upper"):
            multipliers[name] = multipliers[name][: self.assets]
        changed: dict[str, Any] = {}
        if isinstance(found, ExactResult):
            changed["tilt"] = np.concatenate([part.tilt for part in parts if part.tilt is not None])
        return replace(
            found,
            **changed,
            theta=theta,
            value=factor * found.value,
            gap=factor * found.gap,
            lower_bound=factor * found.lower_bound,
            threshold=float(thresholds[0]) if len(thresholds) == 1 else thresholds,
            inner=np.concatenate([part.inner for part in parts]),
            trace=[(factor * value, factor * gap, seconds, size) for value, gap, seconds, size in found.trace],
            multipliers=multipliers,
            parts=tuple(parts),
        )

    def _back(self, one: _Read, found: PartResult) -> PartResult:
        power = self.powers[one.sample]
        if found.slope is not None:
            found = replace(found, slope=found.slope[: self.assets])
        return replace(found, value=found.value / power, threshold=found.threshold / power, inner=found.inner / power)

    def _alone(self, one: _Read, theta: Vector) -> PartResult:
        """A part that the problem has not: its risk at theta."""
        sample = self.samples[one.sample]
        if self.in_blocks:
            longer = theta if self.unit is None else np.append(theta, self.unit)
            value, inner, *_ = solve_long_inner(self._longer(sample).losses(longer), one.inner)
            thresholds = inner[thresholds_of(one.inner)]
            return PartResult(value, float(thresholds[0]) if len(thresholds) == 1 else thresholds, inner)
        losses = np.asarray(sample.table @ theta, dtype=np.float64)
        solved = solve_risk(losses if sample.offset is None else losses + sample.offset, sample.mass, one.part.risk)
        assert solved is not None  # losses are finite
        tilt = solved.tilt
        if one.kept is not None:
            tilt = np.zeros(one.count)
            tilt[one.kept] = solved.tilt
        thresholds = solved.inner[thresholds_of(one.inner)]
        return PartResult(
            solved.value, float(thresholds[0]) if len(thresholds) == 1 else thresholds, solved.inner, tilt
        )


def _join(parts: Sequence[RiskPart]) -> _Joined:
    """Check all parts; scenarios given by the same objects are one sample."""
    if not isinstance(parts, (list, tuple)) or not parts:
        raise TypeError(f"parts must be a list of RiskPart, at least one; found {parts!r}.")
    samples: list[_Sample] = []
    known: dict[tuple[int, int, int], tuple[int, int, NDArray[np.intp] | None]] = {}
    read: list[_Read] = []
    for i, part in enumerate(parts):
        name = f"parts[{i}]"
        check_instance(name, part, RiskPart, "a RiskPart")
        check_instance(f"{name}.risk", part.risk, Risk, "a certeq utility or risk such as CVaR(0.05)")
        weight = check_number(f"{name}.weight", part.weight, least=0.0)
        key = (id(part.A), id(part.offset), id(part.scenario_weights))
        if key not in known:
            sample, count, kept = _read_sample(name, part)
            if samples and sample.table.shape[1] != samples[0].table.shape[1]:
                wanted, found = samples[0].table.shape[1], sample.table.shape[1]
                raise ValueError(f"{name}.A must have {wanted} columns, as those before it; found {found}.")
            known[key] = (len(samples), count, kept)
            samples.append(sample)
        read.append(_Read(part, read_inner(part.risk), weight, *known[key]))
    total = sum(one.weight for one in read)
    if total == 0.0:
        raise ValueError("parts must have a positive weight, at least one of them; found only weights of 0.")
    if any(isinstance(sample.table, Table) for sample in samples):
        samples = [_in_blocks(sample) for sample in samples]
        read = [replace(one, kept=None) for one in read]
    spreads = [sample.spread() for sample in samples]
    in_blocks = isinstance(samples[0].table, Table)
    unit = next(spreads[one.sample] for one in read if one.weight > 0.0)
    powers = [1.0 if in_blocks else _power(unit / spread) for spread in spreads]
    # The risk of a part in its own units has the factor weight/power; a power of 4 has a root that is a power of 2.
    total = sum(one.weight / powers[one.sample] for one in read)
    factor = 4.0 ** math.floor(math.log(total, 4.0))
    return _Joined(read, samples, powers, _unit_of_offsets(samples, powers, unit), factor)


def _in_blocks(sample: _Sample) -> _Sample:
    """A sample in memory as a table beside others that are not."""
    if isinstance(sample.table, Table):
        return sample
    return replace(sample, table=ArrayTable(sample.table, sample.mass))


def _power(ratio: float) -> float:
    """The power of 2 nearest a ratio; 1 where it is about that."""
    exponent = math.log2(ratio)
    return 1.0 if abs(exponent) <= _NEAR else 2.0 ** round(exponent)


def _unit_of_offsets(samples: list[_Sample], powers: list[float], spread: float) -> float | None:
    """The variable that multiplies the column of offsets: one that makes it as large as the losses of an asset."""
    deviations = [
        power * (one.offset.std() if isinstance(one.table, Table) else math.sqrt(_variance(one.offset, one.mass)))
        for one, power in zip(samples, powers, strict=True)
        if one.offset is not None and one.offset.any()
    ]
    if not deviations:
        return None
    largest = max(deviations)
    return 2.0 ** round(math.log2(largest / spread)) if largest > 0.0 else 2.0**-40


def _variance(x: Vector, mass: Vector) -> float:
    return float(mass @ np.square(x - mass @ x))


def _read_offset(name: str, offset: Any, count: int) -> Vector | None:
    if offset is None:
        return None
    if np.ndim(offset) == 0:
        return np.full(count, check_number(f"{name}.offset", offset))
    return check_array(f"{name}.offset", offset, size=count)


def _read_sample(name: str, part: RiskPart) -> tuple[_Sample, int, NDArray[np.intp] | None]:
    panel, weights = as_table(part.A), part.scenario_weights
    if panel is not None:
        offset = _read_offset(name, part.offset, len(panel))
        panel = panel if weights is None else panel.with_weights(weights)
        return _Sample(panel, np.zeros(0), offset, 1.0), len(panel), None
    table, largest = read_table(f"{name}.A", part.A)
    count = len(table)
    offset = _read_offset(name, part.offset, count)
    table, mass, kept = read_weights(f"{name}.scenario_weights", weights, table)
    return _Sample(table, mass, offset if kept is None or offset is None else offset[kept], largest), count, kept
