"""Sums over scenarios that a step asks for: of a matrix in memory, and of a table read in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from certeq._table import Block
from certeq._table import Index as Ids
from certeq._threads import run_all
from certeq.optimize.exact._risk import SampleRows, TermAt, times
from certeq.utilities import Pieces
from certeq.utilities.forms import Form

Vector = NDArray[np.float64]
Index = NDArray[np.intp]
Result = TypeVar("Result")

_COPY_LIMIT = 2**28  # bytes: a smaller table is copied once, transposed, so that BLAS sees contiguous assets
_BLOCK = 2**20  # numbers read at a time from a larger one
_TINY = 1e-100  # losses of this size have squares that float64 cannot hold


class Scenarios:
    """Losses ``(A - center) / scale`` of M scenarios and d assets, with probabilities that sum to 1 in each sample.

    OCE moves with a constant, OCE(A v) = center.v + OCE((A - center) v), so centering costs nothing and spares the
    Hessian the cancellation of a large common offset; ``centers`` has one row for each sample. Where the ``covariance``
    is all that will be asked for and no asset's mean is above its deviation, there is no copy: the products of the
    losses as they are lose nothing. ``taken_off`` says how large the offsets were that the losses had before, and how
    far apart.
    """

    def __init__(
        self,
        table: NDArray[np.floating],
        samples: SampleRows,
        covariance: bool = False,
        taken_off: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self.table, self.samples = table, samples
        self.weights = samples.weights
        self.count, self.assets = table.shape
        self._turned: Vector | None = None
        self._cached: tuple[Index, Vector] | None = None
        self._covariance: Vector | None = None  # of even scenarios, in the caller's units
        small = table.size * 8 <= _COPY_LIMIT
        square = self._read_covariance() if covariance and small and samples.even and len(samples) == 1 else None
        if square is None:
            square = self._read_copy() if small else self._read_blocks()
        if not np.isfinite(square).all():
            raise OverflowError(
                f"A holds losses as large as {np.abs(table).max():g}, whose squares are beyond float64; give them in a "
                "larger unit, for instance A / 1e100."
            )
        self.deviation = np.sqrt(square / len(samples))
        spread = float(np.sqrt(square.sum() / (self.assets * len(samples))))
        biggest = max(float(np.abs(self.centers).max()), taken_off[0])
        # A table of constants has no spread but rounding; its size is then the only scale there is.
        self.scale = spread if spread > 1e-13 * biggest else (taken_off[1] or biggest or 1.0)
        self._unit = self.scale  # of the copy: its products are divided, which is cheaper than to divide the copy
        if self._turned is not None and self.scale < _TINY:
            self._turned /= self.scale
            self._unit = 1.0

    def _read_copy(self) -> Vector:
        """Means, a centered copy with one row for each asset, and the squares by asset."""
        raw, weights, samples = np.asarray(self.table.T, dtype=np.float64), self.weights, self.samples
        self.centers = np.array([raw[:, rows] @ weights[rows] for rows in samples.rows])
        if len(samples) == 1:
            turned = np.subtract(raw, self.centers[0][:, None], order="C")
        else:
            turned = np.array(raw, order="C")
            for rows, center in zip(samples.rows, self.centers, strict=True):
                turned[:, rows] -= center[:, None]
        self._turned = turned
        with np.errstate(over="ignore"):
            squares: Vector = weights[0] * np.vecdot(turned, turned) if samples.even else np.square(turned) @ weights
        return squares

    def _read_blocks(self) -> Vector:
        """Means and the squares by asset, without a copy."""
        weights = self.weights
        self.centers = np.zeros((len(self.samples), self.assets))
        for which, mean in self._by_block(lambda rows, block, which: (which, weights[rows] @ block)):
            self.centers[which] += mean
        squares = self._by_block(lambda rows, block, which: weights[rows] @ np.square(block - self.centers[which]))
        return np.asarray(sum(squares, np.zeros(self.assets)))

    def _read_covariance(self) -> Vector | None:
        """The variances, once means and covariance are known; None where centered losses would give other digits."""
        raw, p = np.asarray(self.table, dtype=np.float64), self.weights[0]
        with np.errstate(all="ignore"):
            self.centers = (self.weights @ raw)[None]
            moments, offsets = p * (raw.T @ raw), np.square(self.centers[0])
            square: Vector = moments.diagonal() - offsets
            if not ((square >= offsets) & (square > _TINY**2) & np.isfinite(square)).all():
                return None
        self._covariance = moments - self.centers.T @ self.centers
        return square

    def root_mean_square(self) -> Vector:
        """At least sqrt(sum w a^2) of every asset: Minkowski's inequality, and more for rounding and underflow."""
        many = math.sqrt(len(self.samples))
        return np.asarray(1.001 * (many * self.deviation + np.abs(self.centers).max(axis=0)) + 1e-150)

    def _by_block(self, task: Callable[[slice, Vector, int], Result]) -> list[Result]:
        """The task on every block of raw rows, in parallel; results in order, so that sums have the same bits.

        It is told which sample the rows are of.
        """
        step = max(1, _BLOCK // max(1, self.assets))
        blocks = [
            (slice(first, min(first + step, end)), which)
            for which, (start, end, _) in enumerate(rows.indices(self.count) for rows in self.samples.rows)
            for first in range(start, end, step)
        ]

        def work(block: tuple[slice, int]) -> Result:
            rows, which = block
            return task(rows, np.asarray(self.table[rows], dtype=np.float64), which)

        return run_all(work, blocks, parallel=len(blocks) > 1)

    def _columns(self, assets: Index) -> Vector:
        """The chosen assets' losses, one row per asset, not yet scaled; kept until other assets are asked for."""
        assert self._turned is not None
        if len(assets) == self.assets:
            return self._turned
        if self._cached is None or not np.array_equal(self._cached[0], assets):
            self._cached = (assets, self._turned[assets])
        return self._cached[1]

    def losses(self, theta: Vector) -> Vector:
        """(A - center) theta / scale."""
        if self._turned is not None:
            theta = theta / self._unit
            nonzero = theta.nonzero()[0]
            if 3 * len(nonzero) < self.assets:
                return theta[nonzero] @ self._turned[nonzero]
            return theta @ self._turned
        shift = self.centers @ theta
        return np.concatenate(self._by_block(lambda _, block, which: (block @ theta - shift[which]) / self.scale))

    def column_sums(self, tilt: Vector) -> Vector:
        """The tilted mean of every asset: (A - center)^T tilt / scale."""
        if self._turned is not None:
            return (self._turned @ tilt) / self._unit
        parts = self._by_block(lambda rows, block, _: tilt[rows] @ block)
        totals = np.array([tilt[rows].sum() for rows in self.samples.rows])
        return np.asarray(sum(parts, -totals @ self.centers) / self.scale)

    def gram(self, diagonal: Vector, assets: Index, columns: dict[int, Vector], inner: int) -> Vector:
        """The Hessian in (theta, inner) but for the block of the ``inner`` variables, which is 0.

        That of theta is B^T diag B, B the losses of the chosen assets; beside it -B^T c for each of the ``columns`` c,
        by its inner variable, with an entry for each scenario that is 0 where the diagonal is.
        """
        size = len(assets)
        out = np.zeros((size + inner, size + inner))
        if self._covariance is not None and size == self.assets and (diagonal == diagonal[0]).all():
            # A constant curvature: losses that are centered have no product with it.
            out[:size, :size] = (diagonal[0] / self.weights[0] / self.scale**2) * self._covariance
            return out
        if self._turned is not None:
            chosen = self._columns(assets)
            if (diagonal == diagonal[0]).all():  # nothing to weigh
                out[:size, :size] = (diagonal[0] / self._unit**2) * (chosen @ chosen.T)
            else:
                root = np.sqrt(diagonal) / self._unit
                live = diagonal.nonzero()[0]
                if 2 * len(live) < self.count:
                    chosen, root = chosen.take(live, axis=1), root[live]
                    columns = {j: column[live] for j, column in columns.items()}
                half = chosen * root
                out[:size, :size] = half @ half.T
            for j, column in columns.items():
                out[:size, size + j] = (chosen @ column) / -self._unit
        else:

            def part(rows: slice, block: Vector, which: int) -> tuple[Vector, dict[int, Vector]]:
                some = block if size == self.assets else block[:, assets]
                some = (some - self.centers[which, assets]) / self.scale
                half = some * np.sqrt(diagonal[rows])[:, None]
                return half.T @ half, {j: column[rows] @ some for j, column in columns.items()}

            for square, cross in self._by_block(part):
                out[:size, :size] += square
                for j, product in cross.items():
                    out[:size, size + j] -= product
        out[size:, :size] = out[:size, size:].T
        return out

    def rows(self, scenarios: Index, assets: Index) -> Vector:
        """Losses of the chosen scenarios and assets."""
        if self._turned is not None:
            return np.asarray(self._columns(assets).take(scenarios, axis=1).T / self._unit)
        some = np.asarray(self.table[scenarios][:, assets], dtype=np.float64)
        which = np.searchsorted([rows.start or 0 for rows in self.samples.rows], scenarios, side="right") - 1
        return np.asarray((some - self.centers[which][:, assets]) / self.scale)


@dataclass(frozen=True)
class Units:
    """Losses of a sample in units of size 1:  (A - center) / scale, weights over their sum."""

    center: Vector
    scale: float
    mass: float

    def rows(self, raw: Vector) -> Vector:
        """Rows in these units."""
        return (raw - self.center) / self.scale

    def weights(self, raw: Vector | None, count: int) -> Vector:
        """Probabilities."""
        return np.full(count, 1.0 / self.mass) if raw is None else raw / self.mass


@dataclass(frozen=True)
class KeptRows:
    """Scenarios that are kept: where they are in their table, their losses as given, probabilities, and a_i.theta."""

    ids: Ids
    raw: Vector
    weights: Vector
    x: Vector

    def __len__(self) -> int:
        return len(self.ids)

    def pick(self, chosen: Any) -> KeptRows:
        """Some of them."""
        return KeptRows(self.ids[chosen], self.raw[chosen], self.weights[chosen], self.x[chosen])


def join_rows(parts: Sequence[KeptRows]) -> KeptRows:
    """One after the other."""
    return KeptRows(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.raw for part in parts]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.x for part in parts]),
    )


def no_rows(columns: int) -> KeptRows:
    """None at all."""
    return KeptRows(np.zeros(0, dtype=np.int64), np.zeros((0, columns)), np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class Sums:
    """Sums over scenarios at (theta, inner), with x the losses and, of every term, y = x - t and q = w f'(y).

    ``values`` are sum w f(y), ``constants`` sum w f(y) - q y and ``slopes`` sum q, one entry for each term of the risk;
    ``column_sums`` is sum q x' by asset and ``gram`` sum w f''(y) B^T B in (theta, inner), both over all terms by
    weight. A row of B is (losses, -1) in theta and t; beside a scale s, which is counted in multiples of itself, -y.
    """

    values: Vector
    constants: Vector
    slopes: Vector
    column_sums: Vector
    gram: Vector | None
    reach: float  # greatest |x|

    def plus(self, other: Sums) -> Sums:
        """Add the sums over other scenarios."""
        return add_sums([self, other])


def add_sums(parts: Sequence[Sums]) -> Sums:
    """The sums over all scenarios."""
    grams = [one.gram for one in parts if one.gram is not None]
    with np.errstate(all="ignore"):  # far from the minimum u may overflow; what comes of it is no better point
        return Sums(
            np.sum([one.values for one in parts], axis=0),
            np.sum([one.constants for one in parts], axis=0),
            np.sum([one.slopes for one in parts], axis=0),
            np.sum([one.column_sums for one in parts], axis=0),
            np.sum(grams, axis=0) if grams else None,
            max(one.reach for one in parts),
        )


Curved = tuple[TermAt, Vector, Vector]  # a term, weight * w * f''(y), and y


def add_up(rows: Vector, weights: Vector, x: Vector, parts: Sequence[TermAt], mine: Sequence[int], inner: int) -> Sums:
    """The sums over the rows at hand, of those terms that are of their sample."""
    values, constants, slopes = np.zeros((3, len(parts)))
    total: Vector | None = None
    curved: list[Curved] = []
    with np.errstate(all="ignore"):
        for k in mine:
            part = parts[k]
            y = x - part.t
            if is_piecewise(part.form):
                slope = part.form.left_slope(y)
            else:
                slope, curvature = part.form.derivatives(y)
                curved.append((part, times(part.weight, weights * curvature), y))
            q = weights * slope
            values[k] = np.sum(weights * part.form.utility.value(y))
            constants[k] = values[k] - np.sum(q * y)
            slopes[k] = np.sum(q)
            q = times(part.weight, q)
            total = q if total is None else total + q
        assert total is not None
        gram = _gram(rows, curved, inner) if curved else None
        return Sums(values, constants, slopes, total @ rows, gram, float(np.max(np.abs(x), initial=0.0)))


def is_piecewise(form: Form) -> bool:
    """Whether a form has no curvature anywhere."""
    return isinstance(form.shape, Pieces)


def _gram(rows: Vector, curved: Sequence[Curved], inner: int) -> Vector:
    size = rows.shape[1]
    total = curved[0][1] if len(curved) == 1 else np.sum([diagonal for _, diagonal, _ in curved], axis=0)
    live = np.flatnonzero(total)
    if 2 * len(live) < len(total):
        rows, total = rows[live], total[live]
        curved = [(part, diagonal[live], y[live]) for part, diagonal, y in curved]
    half = rows * np.sqrt(total)[:, None]
    out = np.zeros((size + inner, size + inner))
    out[:size, :size] = half.T @ half
    for part, diagonal, y in curved:
        t, s = size + part.term.t, part.term.s
        out[:size, t] = -(diagonal @ rows)
        out[t, t] = diagonal.sum()
        if s is not None:
            s += size
            moved = diagonal * y
            out[:size, s] = -(moved @ rows)
            out[t, s] = out[s, t] = moved.sum()
            out[s, s] = moved @ y
    out[size:, :size] = out[:size, size:].T
    return out


@dataclass(frozen=True)
class Look:
    """The kernel of a step: sums at (theta, inner) over all rows but those ``kept``, and which others are near a kink.

    It is for one sample, whose terms are ``mine``.
    """

    theta: Vector
    parts: tuple[TermAt, ...]
    mine: tuple[int, ...]
    inner: int
    units: Units
    kept: Ids  # sorted
    ends: tuple[tuple[float, float], ...]  # of every kink of these terms the loss that is on it, and how near is near
    share: float  # at most this part of the rows
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> tuple[Sums, KeptRows]:
        """Summarize a piece."""
        ids, raw, w = block.ids, block.rows, self.units.weights(block.weights, len(block.rows))
        if len(self.kept):
            position = np.minimum(np.searchsorted(self.kept, ids), len(self.kept) - 1)
            free = self.kept[position] != ids
            if not free.all():
                ids, raw, w = ids[free], raw[free], w[free]
        scaled = self.units.rows(raw)
        x = scaled @ self.theta
        sums = add_up(scaled, w, x, self.parts, self.mine, self.inner)
        chosen = np.flatnonzero(self._near(x) <= 1.0) if self.ends else np.zeros(0, dtype=np.intp)
        most = 16 + int(self.share * len(ids))
        if len(chosen) > most:
            chosen = chosen[np.argpartition(self._near(x[chosen]), most)[:most]]
        return sums, KeptRows(ids[chosen], raw[chosen], w[chosen], x[chosen])

    def _near(self, x: Vector) -> Vector:
        """Distance to the nearest kink, in widths."""
        far = np.full(len(x), np.inf)
        for at, width in self.ends:
            if width > 0.0:
                far = np.minimum(far, np.abs(x - at) / width)
        return far

    def join(self, parts: Sequence[tuple[Sums, KeptRows]]) -> tuple[Sums, KeptRows]:
        """Add up, and put rows one after the other."""
        return add_sums([part[0] for part in parts]), join_rows([part[1] for part in parts])


@dataclass(frozen=True)
class Along:
    """The kernel of a line search: the terms of a sample at points between two, by weight, all in one pass."""

    theta: Vector
    to: Vector
    lengths: tuple[float, ...]
    parts: tuple[tuple[TermAt, ...], ...]  # at each length
    mine: tuple[int, ...]
    units: Units
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> Vector:
        """Values of a piece."""
        scaled, w = self.units.rows(block.rows), self.units.weights(block.weights, len(block.rows))
        here, there = scaled @ self.theta, scaled @ self.to
        found = np.zeros(len(self.lengths))
        with np.errstate(all="ignore"):
            for i, (length, parts) in enumerate(zip(self.lengths, self.parts, strict=True)):
                x = here + length * (there - here)
                for k in self.mine:
                    found[i] += parts[k].weight * np.sum(w * parts[k].form.utility.value(x - parts[k].t))
        return found

    def join(self, parts: Sequence[Vector]) -> Vector:
        """Add up."""
        return np.asarray(np.sum(parts, axis=0))
