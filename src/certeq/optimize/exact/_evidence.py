"""Sums over scenarios from which a lower bound and its rounding errors follow, as kernels over tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from certeq._table import ArrayTable, Block, Table, as_block
from certeq._table import Index as Ids
from certeq.optimize.exact._problem import Problem
from certeq.optimize.exact._risk import TermAt
from certeq.utilities.forms import Form, Inner, Term

Vector = NDArray[np.float64]
Index = NDArray[np.intp]
EPS = float(np.finfo(np.float64).eps) / 2.0  # the rounding error of one operation
SLOPE = 4.0  # roundings of a slope of u as computed; q_i may lie that far outside the slopes at its point
_SMALL = 1 << 20  # numbers of a table that is looked at as a whole
_NOWHERE = np.zeros(0, dtype=np.intp)
_EVEN = 4.0  # sqrt(sum q^2/w), which is 1 where the tilt is even and sqrt(M) where one scenario carries it


@dataclass(frozen=True)
class Evidence:
    """Sums over scenarios, and the same of absolute values, from which the bound and its error follow."""

    value: float  # sum w u(x - t)
    constant: float  # K = sum w u(y) - q y
    slope: np.longdouble  # sum q
    gradient: Vector  # A^T q
    size: float  # sum w (|u(x - t)| + |u(y)|) + |q y|
    slope_size: float  # sum |q|
    gradient_size: Vector  # |A|^T |q|
    largest: float  # max |a|
    run: float  # longest run of additions
    moved: tuple[float, float]  # sums of w and of |q| over rows that are not supported where they lie


def evidence(
    form: Form,
    rows: Vector,
    w: Vector,
    theta: Vector,
    t: float,
    support: Vector | None,
    tilt: Vector | None,
    sizes: Vector | None = None,
    largest: float | None = None,
) -> Evidence:
    """The sums over the rows at hand; supported at ``support`` with weights ``tilt``, each moved to where it may be.

    Where both are None a row is supported where it lies, with its left slope. ``sizes`` are bounds of |rows|^T |q| that
    are known without a pass over them.
    """
    x = rows @ theta
    with np.errstate(all="ignore"):
        own = x - t
        at_theta = w * form.utility.value(own)
        q, at_support, moved = w * form.left_slope(x, t), at_theta, _NOWHERE
        if support is None or tilt is None:
            support = own
        else:
            size = np.abs(x) + abs(t)
            others = np.flatnonzero(~_where_it_lies(form, support, own, size))
            given, support = support[others], own.copy()
            support[others], q[others] = as_subgradients(form, w[others], given, tilt[others], size[others])
            moved = others[support[others] != own[others]]
            at_support = at_theta.copy()
            at_support[moved] = w[moved] * form.utility.value(support[moved])
        product, absolute = q * support, np.abs(q)
        values = float(np.abs(at_theta).sum())
        values += values if at_support is at_theta else float(np.abs(at_support).sum())
        run = _run(len(rows))
        # Where most scenarios carry nothing, as in a tail, the others are all that counts.
        few = 2 * np.count_nonzero(q) < len(q)
        carrying = np.flatnonzero(q) if few else slice(None)
        some = q[carrying], rows[carrying]
        return Evidence(
            float(at_theta.sum()),
            float((at_support - product).sum()),
            some[0].sum(dtype=np.longdouble),
            _by_runs(*some, run),
            float(np.abs(product).sum()) + values,
            float(absolute.sum()),
            _by_runs(np.abs(some[0]), np.abs(some[1]), run) if sizes is None else sizes,
            float(np.abs(rows).max(initial=0.0)) if largest is None else largest,
            min(run, len(rows)) + len(rows) / run + 2.0,
            (float(w[moved].sum()), float(absolute[moved].sum())) if len(moved) else (0.0, 0.0),
        )


def _where_it_lies(form: Form, support: Vector, own: Vector, size: Vector) -> NDArray[np.bool_]:
    """Whether a support point is ``own`` but for rounding, with no kink near: then the slope there is the tilt."""
    same = np.abs(support - own) <= 64.0 * EPS * size
    for kink in form.kinks:  # twice as far from a kink as from each other: they lie on one side of it
        same &= np.abs(own - kink.at) > 192.0 * EPS * (size + abs(kink.at))
    return same


def as_subgradients(form: Form, w: Vector, support: Vector, tilt: Vector, size: Vector) -> tuple[Vector, Vector]:
    """Support points y_i, and q_i moved to w_i times the nearest slope of u there, but for the rounding of that slope.

    A point within rounding of a kink, for losses and threshold of the given ``size``, is put on the kink: every choice
    of y_i is allowed, and there both slopes are.
    """
    support = on_kinks(form, support, size)
    left, right = form.slopes(support)
    left, right = w * left, w * right
    slack = SLOPE * EPS
    return support, np.minimum(np.maximum(tilt, left - slack * np.abs(left)), right + slack * np.abs(right))


def on_kinks(form: Form, support: Vector, size: Vector) -> Vector:
    """Support points, those within rounding of a kink moved there; losses and threshold have the given ``size``."""
    for kink in form.kinks:
        near = np.abs(support - kink.at) <= 8.0 * EPS * (size + abs(kink.at))
        support = np.where(near, kink.at, support)
    return support


def join(parts: Sequence[Evidence]) -> Evidence:
    """Sums over all, each rounded once."""
    if len(parts) == 1:
        return parts[0]
    return Evidence(
        math.fsum(part.value for part in parts),
        math.fsum(part.constant for part in parts),
        sum((part.slope for part in parts), np.longdouble(0.0)),
        _exactly([part.gradient for part in parts]),
        math.fsum(part.size for part in parts),
        math.fsum(part.slope_size for part in parts),
        _exactly([part.gradient_size for part in parts]),
        max(part.largest for part in parts),
        max(part.run for part in parts) + 1.0,
        (math.fsum(part.moved[0] for part in parts), math.fsum(part.moved[1] for part in parts)),
    )


def _exactly(vectors: list[Vector]) -> Vector:
    """Their sum, rounded once where the machine has extended precision."""
    return np.asarray(np.sum(np.array(vectors, dtype=np.longdouble), axis=0), dtype=np.float64)


def _run(count: int) -> int:
    """Rows added up at a time: the error of a sum grows with its longest run, and short runs cost time."""
    return int(min(1024, max(128, math.sqrt(count))))


def _by_runs(q: Vector, block: Vector, run: int) -> Vector:
    """q @ block, in runs of rows and then over the runs, so that its rounding error grows with sqrt(rows)."""
    whole = len(block) // run * run
    total = q[whole:] @ block[whole:]
    if whole:
        rows = block[:whole].reshape(-1, run, block.shape[1])
        total += np.matmul(q[:whole].reshape(-1, 1, run), rows).sum(axis=(0, 1))
    return np.asarray(total)


@dataclass(frozen=True)
class Prove:
    """The kernel of a proof: evidence of all rows, at ``support`` with weights ``tilt`` where these are given.

    They are given for all rows in order, or for those at the sorted positions ``ids``. Every other row is supported
    where it lies, with q_i = w_i u'(a_i.theta - t): a subgradient whatever the solver did; or, with ``lines``, where it
    lies at another theta and t, in units of another scale.
    """

    theta: Vector
    t: float
    form: Form
    mass: float
    support: Vector
    tilt: Vector
    ids: Ids | None = None
    sizes: Vector | None = None
    largest: float | None = None
    lines: tuple[Vector, float, float] | None = None  # theta, t, and by what y is multiplied
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> Evidence:
        """Evidence of a block."""
        rows, w = block.rows, _probabilities(block, self.mass)
        if self.ids is None:
            at = slice(block.first, block.first + len(rows)) if block.kept is None else block.ids
            return self._evidence(rows, w, at)
        if not len(self.ids):
            return self._others(rows, w)
        position = np.minimum(np.searchsorted(self.ids, block.ids), len(self.ids) - 1)
        given = self.ids[position] == block.ids
        if not given.any():
            return self._others(rows, w)
        others = self._others(rows[~given], w[~given])
        return join([others, self._evidence(rows[given], w[given], position[given])])

    def _others(self, rows: Vector, w: Vector) -> Evidence:
        support = tilt = None
        if self.lines is not None:
            theta, t, factor = self.lines
            with np.errstate(all="ignore"):
                support = factor * (rows @ theta - t)
                tilt = w * self.form.left_slope(support)
        return evidence(self.form, rows, w, self.theta, self.t, support, tilt, self.sizes, self.largest)

    def _evidence(self, rows: Vector, w: Vector, at: slice | Ids) -> Evidence:
        return evidence(
            self.form, rows, w, self.theta, self.t, self.support[at], self.tilt[at], self.sizes, self.largest
        )

    def join(self, parts: Sequence[Evidence]) -> Evidence:
        """Add up."""
        return join(parts)


@dataclass(frozen=True)
class Together:
    """Several proofs of the same rows in one read."""

    kernels: Sequence[Prove]
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> list[Evidence]:
        """Evidence of a block for each."""
        return [kernel(block) for kernel in self.kernels]

    def join(self, parts: Sequence[list[Evidence]]) -> list[Evidence]:
        """Add up."""
        return [join(own) for own in zip(*parts, strict=True)]


@dataclass(frozen=True)
class Tilt:
    """The tilt of the losses at theta, as a kernel: ties at a kink get ``share`` of what is between its two slopes."""

    theta: Vector
    t: float
    form: Form
    mass: float
    share: float = 0.0
    wide: ClassVar[bool] = False

    def slopes(self, block: Block) -> tuple[Vector, Vector, Vector, Vector]:
        """Support points, weights, and w times the left and right slopes there."""
        x, w = block.rows @ self.theta, _probabilities(block, self.mass)
        with np.errstate(all="ignore"):
            support = on_kinks(self.form, x - self.t, np.abs(x) + abs(self.t))
            left, right = self.form.slopes(support)
        return support, w, w * left, w * right

    def __call__(self, block: Block) -> Vector:
        """The tilt of a block."""
        _, _, left, right = self.slopes(block)
        return np.asarray(left + self.share * (right - left))


class TiltSums(Tilt):
    """The kernel that finds the share: sums of the left and of the right slopes."""

    def __call__(self, block: Block) -> tuple[float, float]:  # type: ignore[override]
        """Those of a block."""
        _, _, left, right = self.slopes(block)
        return float(left.sum()), float(right.sum())

    def join(self, parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
        """Add up."""
        return math.fsum(part[0] for part in parts), math.fsum(part[1] for part in parts)


class ProveTilt(Tilt):
    """The kernel of a proof by the tilt of theta alone."""

    def __call__(self, block: Block) -> Evidence:  # type: ignore[override]
        """Evidence of a block."""
        support, w, left, right = self.slopes(block)
        tilt = left + self.share * (right - left)
        return evidence(self.form, block.rows, w, self.theta, self.t, support, tilt)

    def join(self, parts: Sequence[Evidence]) -> Evidence:
        """Add up."""
        return join(parts)


def _probabilities(block: Block, mass: float) -> Vector:
    if block.weights is None:
        return np.full(len(block.rows), 1.0 / mass)
    return block.weights if mass == 1.0 else block.weights / mass


def evidence_in_memory(
    problem: Problem,
    term: Term,
    form: Form,
    theta: Vector,
    t: float,
    support: Vector,
    tilt: Vector,
    root_mean_square: Vector,
    moved: bool = False,
) -> Evidence:
    """`evidence` of a term's scenarios in a matrix.

    ``root_mean_square`` of every asset's losses, or more, is used for the errors alone. Where u has no kink every
    scenario is supported where it lies, and the slope there is its tilt, unless the supports are said to be ``moved``.
    """
    # Cauchy and Schwarz: sum |q_i a_ij| <= sqrt(sum q_i^2/w_i) sqrt(sum w_i a_ij^2), loose where a few scenarios
    # carry the tilt; only then does a pass over absolute values pay.
    table, weights = problem.samples.of(problem.table, term), problem.samples.of(problem.weights, term)
    with np.errstate(all="ignore"):
        spike = float(np.sqrt(tilt @ (tilt / weights)))
    sizes = 1.01 * spike * root_mean_square if spike <= _EVEN else None  # the tilt may be moved a little
    given = None if form.kinks or moved else _NOWHERE
    kernel = Prove(theta, t, form, 1.0, support, tilt, given, sizes, problem.largest)
    if table.size <= _SMALL:
        return kernel(as_block(0, table, weights))
    sums = ArrayTable(table, weights).reduce(kernel)
    return sums if sizes is None else replace(sums, gradient_size=sizes)  # of all blocks, not of each


def tilt_of(table: Table, inner: Inner, part: TermAt, mass: float, theta: Vector) -> Tilt:
    """The tilt of a term for the losses at theta, of which its t is the threshold: one read."""
    below, above = table.reduce(TiltSums(theta, part.t, part.form, mass))
    even = float(inner.cost[part.term.t]) / part.weight  # what the tilt sums to
    share = min(max((even - below) / (above - below), 0.0), 1.0) if above > below else 0.0
    return Tilt(theta, part.t, part.form, mass, share)
