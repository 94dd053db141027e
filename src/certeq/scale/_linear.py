"""Scenarios of a linear loss as a Dask array: the exact solver and OCE-SG send kernels to the rows, not rows to them.

``ce.minimize(ce.LinearLoss(A), utility, domain=...)`` finds its way here by itself where A is a Dask array (or a Dask
DataFrame of numbers). Each pass is one map over the chunks of rows and a tree of joins; what comes back is a summary.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from certeq.optimize.panels import Index, Kernel, Panel, Part, Vector, check_table, release, walk
from certeq.scale._collections import as_vector, counted, in_partitions
from certeq.scale._compute import ClusterLost, DaskArray, Scheduler, da, delayed
from certeq.scale._sample import as_declared

_FAN = 8  # summaries joined at a time


def as_panel(A: Any) -> DaskPanel:
    """A Dask array (or DataFrame), scenarios x assets, as a panel; sizes of chunks are counted where not known."""
    if hasattr(A, "to_dask_array"):
        A = in_partitions(A)
    if not isinstance(A, da.Array):
        raise TypeError(f"A must be a two-dimensional Dask array; found a Dask {type(A).__name__}.")
    if A.ndim != 2:
        raise ValueError(f"A must be a matrix, one row per sample; found a Dask array of {A.ndim} dimensions.")
    if isinstance(A._meta, np.ma.MaskedArray):
        raise TypeError(
            "A is a masked Dask array; fill what is masked, dask.array.ma.filled(A, 0), or drop those scenarios first."
        )
    if any(math.isnan(size) for size in A.chunks[1]):
        raise ValueError("A must have a known number of columns; call A.compute_chunk_sizes() first.")
    if len(A.chunks[1]) > 1:
        if any(math.isnan(size) for size in A.chunks[0]):
            raise ValueError(
                "A is chunked along its columns and its row chunks have unknown sizes; call A.compute_chunk_sizes(), "
                "or chunk it by rows only."
            )
        A = A.rechunk({1: -1})
    A = counted(A, Scheduler())
    check_table(A.shape, A.dtype)
    return DaskPanel(A)


class DaskPanel(Panel):
    """Rows in the chunks of a Dask array, with weights in chunks of the same length."""

    def __init__(self, table: DaskArray, weights: DaskArray | None = None) -> None:
        self.table, self.weights = table, weights
        self.shape, self.weighted = (int(table.shape[0]), int(table.shape[1])), weights is not None
        self.starts = np.concatenate([[0], np.cumsum(table.chunks[0])]).astype(np.int64)
        self._blocks = list(table.to_delayed()[:, 0])
        self._loads = [None] * len(self._blocks) if weights is None else list(weights.to_delayed())
        self._scheduler: Scheduler | None = None

    def reduce(self, kernel: Kernel[Part], every: bool = False) -> Part:
        """The joined summaries of all chunks."""
        sent = delayed(kernel, traverse=False)  # one object in the graph, however many chunks
        parts = [
            delayed(_summary)(sent, int(first), (int(count), self.shape[1]), block, load, every)
            for first, count, block, load in zip(
                self.starts[:-1], self.table.chunks[0], self._blocks, self._loads, strict=True
            )
        ]
        while len(parts) > 1:
            parts = [delayed(_join)(sent, parts[i : i + _FAN]) for i in range(0, len(parts), _FAN)]
        found: list[Part] = self._compute(parts[0])
        return found[0]

    def _compute(self, task: Any) -> Any:
        """The value of a task; all run where the first did, and never elsewhere without a word."""
        if self._scheduler is not None and self._scheduler.closed:
            lost = self._scheduler.lost("its client is closed")
            raise ClusterLost(f"{lost} Make a new LinearLoss of the array to run elsewhere.")
        if self._scheduler is None:
            self._scheduler = Scheduler()
        return self._scheduler.compute(task)

    def take(self, places: Index) -> Vector:
        """The rows at the given positions; only those travel."""
        order = np.argsort(places, kind="stable")
        ranked = places[order]
        cuts = np.searchsorted(ranked, self.starts)
        touched = np.flatnonzero(np.diff(cuts))
        parts = [delayed(_rows)(self._blocks[k], ranked[cuts[k] : cuts[k + 1]] - self.starts[k]) for k in touched]
        rows = np.empty((len(places), self.shape[1]))
        rows[order] = np.concatenate(self._compute(delayed(list)(parts)))
        return rows

    def with_weights(self, weights: Any) -> Panel:
        """The same rows with one weight each, a Dask or an ordinary vector."""
        w, chunks = self._as_loads(weights), (self.table.chunks[0],)
        return DaskPanel(self.table, w if w.chunks == chunks else w.rechunk(chunks))

    def bring_weights(self, weights: Any) -> Vector:
        """Weights of the rows as a vector here."""
        parts = list(self._as_loads(weights).to_delayed())
        return np.concatenate(self._compute(delayed(list)(parts)))

    def _as_loads(self, weights: Any) -> DaskArray:
        w = as_vector("weights", weights, (self.table.chunks[0],))
        if w.shape[0] != self.shape[0]:
            raise ValueError(f"weights must have one entry per sample, {self.shape[0]}; found {w.shape[0]}.")
        return w

    def where(self, row: int) -> str:
        """The scenario, and its place among the chunks."""
        chunk = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"scenario {row} (row {row - int(self.starts[chunk])} of chunk {chunk})"


def _summary(
    kernel: Kernel[Part], first: int, shape: tuple[int, int], block: Any, weights: Any, every: bool
) -> list[Part]:
    rows = as_declared(block, shape)
    part = walk(kernel, first, rows, None if weights is None else as_declared(weights, shape[:1]), every)
    release(rows, 0, len(rows))
    return part


def _join(kernel: Kernel[Part], lists: list[list[Part]]) -> list[Part]:
    parts = [part for one in lists for part in one]
    return [kernel.join(parts)] if parts else []


def _rows(block: Any, places: Index) -> Vector:
    return np.asarray(block[places], dtype=np.float64)
