"""The table of scenario losses, centered and scaled, read in blocks of rows so that a large one is never copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from certeq._threads import run_all

Vector = NDArray[np.float64]
Index = NDArray[np.intp]
Result = TypeVar("Result")

_COPY_LIMIT = 2**28  # bytes: a smaller table is copied once, transposed, so that BLAS sees contiguous assets
_BLOCK = 2**20  # numbers read at a time from a larger one
_TINY = 1e-100  # losses of this size have squares that float64 cannot hold


class Scenarios:
    """Losses ``(A - center) / scale`` of M scenarios and d assets, with probabilities that sum to 1.

    OCE moves with a constant, OCE(A v) = center.v + OCE((A - center) v), so centering costs nothing and spares the
    Hessian the cancellation of a large common offset.
    """

    def __init__(self, table: NDArray[np.floating], weights: Vector) -> None:
        self.table = table
        self.weights = weights
        self.count, self.assets = table.shape
        self._turned: Vector | None = None
        self._cached: tuple[Index, Vector] | None = None
        if table.size * 8 <= _COPY_LIMIT:
            raw = np.asarray(table.T, dtype=np.float64)
            self.center = raw @ weights
            turned = self._turned = np.subtract(raw, self.center[:, None], order="C")
            even = bool((weights == weights[0]).all())
            with np.errstate(over="ignore"):
                square: Vector = weights[0] * np.vecdot(turned, turned) if even else np.square(turned) @ weights
        else:
            self.center = sum(self._by_block(lambda rows, block: weights[rows] @ block), np.zeros(self.assets))
            spreads = self._by_block(lambda rows, block: weights[rows] @ np.square(block - self.center))
            square = sum(spreads, np.zeros(self.assets))
        if not np.isfinite(square).all():
            raise OverflowError(
                f"A holds losses as large as {np.abs(table).max():g}, whose squares are beyond float64; give them in a "
                "larger unit, for instance A / 1e100."
            )
        self.deviation = np.sqrt(square)
        spread = float(np.sqrt(square.sum() / self.assets))
        biggest = float(np.abs(self.center).max())
        # A table of constants has no spread but rounding; its size is then the only scale there is.
        self.scale = spread if spread > 1e-13 * biggest else (biggest or 1.0)
        self._unit = self.scale  # of the copy: its products are divided, which is cheaper than to divide the copy
        if self._turned is not None and self.scale < _TINY:
            self._turned /= self.scale
            self._unit = 1.0

    def root_mean_square(self) -> Vector:
        """At least sqrt(sum w a^2) of every asset: Minkowski's inequality, with room for rounding and underflow."""
        return 1.001 * (self.deviation + np.abs(self.center)) + 1e-150

    def _by_block(self, task: Callable[[slice, Vector], Result]) -> list[Result]:
        """The task on every block of raw rows, in parallel; results in order, so that sums have the same bits."""
        step = max(1, _BLOCK // max(1, self.assets))
        starts = range(0, self.count, step)

        def work(start: int) -> Result:
            rows = slice(start, min(start + step, self.count))
            return task(rows, np.asarray(self.table[rows], dtype=np.float64))

        return run_all(work, starts, parallel=len(starts) > 1)

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
            held = theta.nonzero()[0]
            if 3 * len(held) < self.assets:
                return theta[held] @ self._turned[held]
            return theta @ self._turned
        shift = float(self.center @ theta)
        return np.concatenate(self._by_block(lambda _, block: (block @ theta - shift) / self.scale))

    def pull(self, tilt: Vector) -> Vector:
        """The tilted mean of every asset: (A - center)^T tilt / scale."""
        if self._turned is not None:
            return (self._turned @ tilt) / self._unit
        parts = self._by_block(lambda rows, block: tilt[rows] @ block)
        return np.asarray(sum(parts, -float(tilt.sum()) * self.center) / self.scale)

    def gram(self, diagonal: Vector, assets: Index) -> Vector:
        """B^T diag B with rows B_i = (losses of the chosen assets, -1): the Hessian in (theta, t)."""
        size = len(assets)
        out = np.zeros((size + 1, size + 1))
        if self._turned is not None:
            chosen = self._columns(assets)
            if (diagonal == diagonal[0]).all():  # a constant curvature: nothing to weigh
                out[:size, :size] = (diagonal[0] / self._unit**2) * (chosen @ chosen.T)
                out[:size, size] = (chosen @ diagonal) / -self._unit
            else:
                root = np.sqrt(diagonal) / self._unit
                live = diagonal.nonzero()[0]
                if 2 * len(live) < self.count:
                    chosen, root = chosen[:, live], root[live]
                half = chosen * root
                out[:size, :size] = half @ half.T
                out[:size, size] = (half @ root) * -self._unit
        else:

            def part(rows: slice, block: Vector) -> tuple[Vector, Vector]:
                root = np.sqrt(diagonal[rows])
                some = block if size == self.assets else block[:, assets]
                half = (some - self.center[assets]) * (root / self.scale)[:, None]
                return half.T @ half, root @ half

            for square, cross in self._by_block(part):
                out[:size, :size] += square
                out[:size, size] -= cross
        out[size, :size] = out[:size, size]
        out[size, size] = diagonal.sum()
        return out

    def rows(self, scenarios: Index, assets: Index) -> Vector:
        """The rows B_i = (losses of the chosen assets, -1) of the chosen scenarios."""
        out = np.empty((len(scenarios), len(assets) + 1))
        if self._turned is not None:
            out[:, :-1] = self._columns(assets)[:, scenarios].T
            out[:, :-1] /= self._unit
        else:
            some = np.asarray(self.table[scenarios][:, assets], dtype=np.float64)
            out[:, :-1] = (some - self.center[assets]) / self.scale
        out[:, -1] = -1.0
        return out
