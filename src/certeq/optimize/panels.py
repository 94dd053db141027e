"""A panel of scenarios too large to copy: what the solvers ask of wherever the rows of a linear loss live.

`Panel` is the whole contract: a summary of every block of rows, joined. A memory-mapped file is `ArrayPanel` here; a
cluster is another, found by the package its object comes from, so that nothing here imports it.
"""

from __future__ import annotations

import importlib
import mmap
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from certeq.risk._threads import run_all

Vector = NDArray[np.float64]
Index = NDArray[np.int64]
Part = TypeVar("Part")

LARGE = 1 << 28  # bytes: a memory-mapped table below this is read into memory like any other array
_PIECE = 1 << 18  # numbers a kernel sees at a time: a few of them fit the caches
_SPAN = 1 << 20  # numbers of one task
_TAKEN = 256  # rows that are fetched before their pages are released
_PLACES = {"dask": "certeq.scale._linear", "dask_expr": "certeq.scale._linear"}


class Kernel(Protocol[Part]):
    """A summary of rows, and how two summaries become one. Kernels are sent to workers: they are plain data."""

    def __call__(self, ids: Index, rows: Vector, weights: Vector | None) -> Part:
        """Summarize rows with the given positions in the panel and weights."""
        ...

    def join(self, parts: Sequence[Part]) -> Part:
        """Make one summary of several, in order."""
        ...


class Panel(ABC):
    """Rows of losses (scenarios x assets) with optional weights, read in blocks as often as needed."""

    shape: tuple[int, int]
    weighted: bool = False

    @abstractmethod
    def reduce(self, kernel: Kernel[Part], every: bool = False) -> Part:
        """The joined summaries of all blocks; rows of weight 0 are left out unless ``every``."""

    @abstractmethod
    def take(self, places: Index) -> Vector:
        """The rows at the given positions, in that order, as float64."""

    @abstractmethod
    def with_weights(self, weights: Any) -> Panel:
        """The same rows with one weight each."""

    def bring_weights(self, weights: Any) -> NDArray[Any]:
        """Weights of the rows, wherever they live, as a vector here: eight bytes a row, where all have to be known."""
        return weight_vector(weights, self.shape[0])

    def where(self, row: int) -> str:
        """How a caller finds a row."""
        return f"scenario {row}"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, places: Index) -> Vector:
        return self.take(np.asarray(places, dtype=np.int64))


class ArrayPanel(Panel):
    """A table of any real dtype, possibly on disk, read in blocks of rows on all cores."""

    def __init__(self, table: NDArray[Any], weights: NDArray[Any] | None = None) -> None:
        check_table(table.shape, table.dtype)
        self.table, self.weights = table, weights
        self.shape, self.weighted = (int(table.shape[0]), int(table.shape[1])), weights is not None

    def reduce(self, kernel: Kernel[Part], every: bool = False) -> Part:
        """The joined summaries of all blocks, added in the same order every time."""
        count, columns = self.shape
        step = max(1, _SPAN // columns)

        def task(start: int) -> list[Part]:
            stop = min(start + step, count)
            w = None if self.weights is None else self.weights[start:stop]
            part = walk(kernel, start, self.table[start:stop], w, every)
            release(self.table, start, stop)
            return part

        parts = run_all(task, range(0, count, step), count > step)
        return kernel.join([part for one in parts for part in one])

    def take(self, places: Index) -> Vector:
        """The rows at the given positions, in that order; of a mapped file few are resident at a time."""
        order = np.argsort(places, kind="stable")  # a disk is read forwards
        rows = np.empty((len(places), self.shape[1]))
        for start in range(0, len(places), _TAKEN):
            part = order[start : start + _TAKEN]
            rows[part] = self.table[places[part]]
            # To touch one row maps some pages on either side of it as well.
            release(self.table, 0, self.shape[0])
        return rows

    def with_weights(self, weights: Any) -> Panel:
        """The same rows with one weight each."""
        return ArrayPanel(self.table, weight_vector(weights, self.shape[0]))


class MappedPanel(Panel):
    """The rows of another panel times a matrix: long and short parts of the same assets, for instance."""

    def __init__(self, panel: Panel, matrix: Vector) -> None:
        self.panel, self.matrix = panel, matrix
        self.shape, self.weighted = (panel.shape[0], matrix.shape[1]), panel.weighted

    def reduce(self, kernel: Kernel[Part], every: bool = False) -> Part:
        """The kernel sees the products."""
        through: Kernel[Part] = _Through(kernel, self.matrix)
        return self.panel.reduce(through, every)

    def take(self, places: Index) -> Vector:
        """Rows, multiplied."""
        return np.asarray(self.panel.take(places) @ self.matrix)

    def with_weights(self, weights: Any) -> Panel:
        """The same with one weight per row."""
        return MappedPanel(self.panel.with_weights(weights), self.matrix)

    def where(self, row: int) -> str:
        """As the panel inside."""
        return self.panel.where(row)


class _Through:
    """A kernel that sees rows @ matrix."""

    def __init__(self, kernel: Kernel[Any], matrix: Vector) -> None:
        self.kernel, self.matrix = kernel, matrix

    def __call__(self, ids: Index, rows: Vector, weights: Vector | None) -> Any:
        with np.errstate(invalid="ignore", over="ignore"):
            return self.kernel(ids, rows @ self.matrix, weights)

    def join(self, parts: Sequence[Any]) -> Any:
        return self.kernel.join(parts)


def as_panel(samples: Any) -> Panel | None:
    """The panel that ``samples`` is or should be read as; None for what is an ordinary array."""
    if isinstance(samples, Panel):
        return samples
    place = _place_of(samples)
    if place is not None:
        panel: Panel = importlib.import_module(place).as_panel(samples)
        return panel
    if isinstance(samples, np.memmap) and samples.ndim == 2 and samples.size * 8 >= LARGE:
        return ArrayPanel(samples)
    return None


def _place_of(samples: Any) -> str | None:
    """The module that reads such samples, if they are no array in memory."""
    return _PLACES.get(type(samples).__module__.partition(".")[0])


def refuse_elsewhere(table: Any) -> None:
    """Where an array in memory is wanted, one of another package would be fetched as a whole without a word."""
    if isinstance(table, Panel) or _place_of(table) is not None:
        raise TypeError(
            f"A must be an array in memory; found a {type(table).__module__} object. minimize(LinearLoss(A), ...) "
            "reads it in blocks."
        )


def walk(kernel: Kernel[Part], first: int, rows: Any, weights: Any, every: bool) -> list[Part]:
    """The kernel on pieces of a block that starts at row ``first``; a list of at most one joined summary."""
    step = max(1, _PIECE // max(1, rows.shape[1]))
    parts = []
    for start in range(0, len(rows), step):
        piece = np.ascontiguousarray(rows[start : start + step], dtype=np.float64)
        ids = np.arange(first + start, first + start + len(piece))
        w = None if weights is None else np.ascontiguousarray(weights[start : start + step], dtype=np.float64)
        if w is not None and not every:
            held = w > 0.0
            if not held.all():
                # A scenario that cannot happen may lose so much that u overflows, and 0 * inf is not 0.
                piece, ids, w = piece[held], ids[held], w[held]
        if len(ids):
            parts.append(kernel(ids, piece, w))
    return [kernel.join(parts)] if parts else []


def check_table(shape: tuple[Any, ...], dtype: Any) -> None:
    """Refuse what is not a table of real numbers."""
    if np.dtype(dtype).kind not in "fiub":
        raise TypeError(f"A must hold real numbers; found dtype {dtype}.")
    if len(shape) != 2:
        raise ValueError(f"A must be a matrix, one row per sample; found an array of shape {shape}.")
    if 0 in shape:
        raise ValueError(f"A is empty (shape {shape}); at least one sample and one column are needed.")


def weight_vector(weights: Any, count: int) -> NDArray[Any]:
    """Weights as a vector with one entry per row; their signs and sum are looked at when they are read."""
    if _place_of(weights) is not None:
        raise TypeError(
            f"weights must be an array in memory or on disk, as A is; found a {type(weights).__module__} object."
        )
    w = weights if isinstance(weights, np.memmap) else np.asarray(weights)
    if w.dtype.kind not in "fiub":
        raise TypeError(f"weights must hold real numbers; found dtype {w.dtype}.")
    if w.shape != (count,):
        raise ValueError(f"weights must have one entry per sample, {count}; found shape {w.shape}.")
    return w


def release(block: NDArray[Any], start: int, stop: int) -> None:
    """Let go of the pages under rows of a memory-mapped table, so that resident memory stays flat.

    Only for shared mappings: a copy-on-write mapping would lose what was written to it.
    """
    source: Any = block
    while source is not None and not isinstance(source, np.memmap):
        source = getattr(source, "base", None)
    mapped: Any = getattr(source, "_mmap", None)
    if mapped is None or getattr(source, "mode", "c") == "c" or not hasattr(mapped, "madvise"):
        return
    if not block.flags.c_contiguous:  # rows are then not stretches of the file
        return
    origin = np.frombuffer(mapped, dtype=np.uint8).__array_interface__["data"][0]
    begin = block.__array_interface__["data"][0] - origin
    page = mmap.PAGESIZE
    first = -(-(begin + start * block.strides[0]) // page) * page
    last = (begin + stop * block.strides[0]) // page * page
    if last > first:
        mapped.madvise(mmap.MADV_DONTNEED, first, last - first)
