"""Rows of numbers that may live anywhere and are too many to copy: a table, read in blocks by kernels.

`Table` is the whole contract. An array or a memory-mapped file is `ArrayTable` here; other packages register theirs
(`certeq.scale` does for Dask). One-dimensional rows are losses; two-dimensional ones are scenarios x assets, and become
losses by ``table.losses(theta)``. Kernels may run in other processes, so they are plain data: what they know they were
given, what they find they return, and it is small.
"""

from __future__ import annotations

import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from certeq._checks import no_weight
from certeq._threads import keep_pages, run_all

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Part = TypeVar("Part")

BLOCK = 64_000  # losses per block: long enough for threads to run undisturbed, short enough for the caches
_WIDE = 3  # times longer for a kernel with few temporaries: to hand over the interpreter lock costs more than they do
_PIECE = 1 << 18  # numbers per block of several columns
LARGE = 1 << 28  # bytes: a memory-mapped matrix below this is read into memory like any other array
_SMALL_FILE = 1 << 25  # bytes that may be resident for a while
_TAKEN = 256  # rows that are fetched before their pages are released
_WAVE = 64  # tasks whose results are joined before the next are begun: bounds what waits in memory
_SEED = 20260101

keep_pages()


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a table from ``first`` on, as float64, or those of them ``kept``; (m,) or (m, d)."""

    first: int
    rows: Array
    weights: Array | None = None
    kept: Index | None = None

    @property
    def ids(self) -> Index:
        """Positions of the rows in the table."""
        return np.arange(self.first, self.first + len(self.rows)) if self.kept is None else self.first + self.kept

    def positive(self) -> Block:
        """The rows of positive weight.

        One that cannot happen may lose so much that u overflows, and 0 * inf is not 0.
        """
        if self.weights is None:
            return self
        counts = self.weights > 0.0
        return self if counts.all() else self.pick(counts)

    def pick(self, chosen: Any) -> Block:
        """Some of the rows, by a mask or by positions in the block."""
        kept = np.arange(len(self.rows)) if self.kept is None else self.kept
        weights = None if self.weights is None else self.weights[chosen]
        return Block(self.first, self.rows[chosen], weights, kept[chosen])


class Kernel(Protocol[Part]):
    """A summary of a block, and how several summaries become one."""

    @property
    def wide(self) -> bool:
        """Whether it makes few temporaries, so that its blocks may be longer."""
        ...

    def __call__(self, block: Block) -> Part:
        """Summarize a block."""
        ...

    def join(self, parts: Sequence[Part]) -> Part:
        """One summary of several neighbors, in order; associative, for they are joined wherever they are."""
        ...


@dataclass(frozen=True)
class SumKernel:
    """The kernel that adds up what a function of (rows, weights) returns, a tuple of numbers, without rounding."""

    function: Callable[[Array, Array | None], tuple[float, ...]]
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> tuple[float, ...]:
        """The numbers of one block."""
        return self.function(block.rows, block.weights)

    def join(self, parts: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
        """Sums of the first, second, ... numbers, each rounded once."""
        return tuple(map(_rounded_once, zip(*parts, strict=True)))


@dataclass(frozen=True)
class WideSumKernel(SumKernel):
    """`SumKernel` of a function with two temporaries at most."""

    wide: ClassVar[bool] = True


@dataclass(frozen=True)
class Both:
    """Two kernels in one pass."""

    one: Kernel[Any]
    other: Kernel[Any]
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> tuple[Any, Any]:
        """Both summaries of a block."""
        return self.one(block), self.other(block)

    def join(self, parts: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
        """Each with its own kind."""
        ones, others = zip(*parts, strict=True)
        return self.one.join(ones), self.other.join(others)


def _rounded_once(numbers: tuple[float, ...]) -> float:
    try:
        return math.fsum(numbers)
    except (ValueError, OverflowError):  # infinities of both signs, or more than a float holds on the way
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.sum(numbers))


class Table(ABC):
    """Rows with optional weights, read in blocks as often as needed."""

    shape: tuple[int, ...]
    weighted: bool = False
    keep: int = 1 << 22  # rows a pass may bring back at most

    @abstractmethod
    def reduce(self, kernel: Kernel[Part], every: bool = False) -> Part:
        """One pass: the joined summaries of all blocks; rows of weight 0 are left out unless ``every``."""

    @abstractmethod
    def take(self, index: Index, matrix: Array | None = None) -> Array:
        """The rows at the given positions, in that order, as float64; times a matrix or vector, if one is given."""

    @abstractmethod
    def take_weights(self, index: Index) -> Array | None:
        """The weights at the given positions, None where the table has none."""

    @abstractmethod
    def with_weights(self, weights: Any) -> Table:
        """The same rows with one weight each."""

    def elementwise(self, kernel: Callable[[Block], Array]) -> Any:
        """kernel(block), one number per row, as an array that lives where the rows do; rows of weight 0 included."""
        raise TypeError(f"{type(self).__name__} has no array of its own kind.")

    def bring_weights(self, weights: Any) -> NDArray[Any]:
        """Weights of the rows, wherever they live, as a vector here: eight bytes a row, where all have to be known."""
        return weight_vector(weights, len(self))

    def draw(self, count: int) -> Block:
        """About ``count`` rows at random, from a fixed seed: the same every time, whatever the pattern of the rows."""
        index = drawn_index(len(self), count)
        index.sort()  # memory and disks are read forwards
        return Block(0, self.take(index), self.take_weights(index), index)

    def losses(self, theta: Array) -> Table:
        """rows @ theta, computed block by block whenever they are asked for."""
        return _ProductTable(self, theta)

    def mapped(self, matrix: Array) -> Table:
        """Rows @ matrix: long and short parts of the same assets, for instance."""
        return _ProductTable(self, matrix)

    def with_column(self, column: Array) -> Table:
        """The rows with one number more each, the last: losses that nothing multiplies, for instance."""
        return _ColumnTable(self, column)

    def without_column(self) -> tuple[Table, Array]:
        """The rows without their last number, and those numbers, which are brought into memory."""
        chosen = np.eye(self.shape[1])
        return self.mapped(chosen[:, :-1]), self.take(np.arange(len(self)), chosen[:, -1])

    def where(self, row: int) -> str:
        """How a caller finds a row, for a message."""
        return f"at index {row}" if len(self.shape) == 1 else f"at scenario {row}"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Index) -> Array:
        return self.take(np.asarray(index, dtype=np.int64))


def drawn_index(size: int, count: int) -> Index:
    """Positions of a random draw; a shorter draw is the beginning of a longer one."""
    return np.random.default_rng(_SEED).integers(0, size, size=min(count, size))


class ArrayTable(Table):
    """An array of one or two dimensions and any real dtype, possibly on disk, read in blocks on all cores."""

    def __init__(self, values: NDArray[Any], weights: NDArray[Any] | None = None) -> None:
        if values.ndim != 1:
            check_matrix(values.shape, values.dtype)
        self.values, self.weights = values, weights
        self.shape, self.weighted = tuple(map(int, values.shape)), weights is not None

    def reduce(self, kernel: Kernel[Part], every: bool = False) -> Part:
        """One pass, joined in the same order whatever the threads: that decides the last bits."""

        def summarize(blocks: Sequence[slice]) -> list[Part]:
            parts = [part for rows in blocks for part in summaries(kernel, self._block(rows), every)]
            self._release(blocks[0].start, blocks[-1].stop, at_once=True)
            return [kernel.join(parts)] if len(parts) > 1 else parts

        if len(self) <= block_length(self.shape, kernel.wide):
            found = only_of(joined_if_any(kernel, summarize([slice(0, len(self))])))
            self._release(0, len(self), at_once=False)
            return found
        tasks, parallel = self._tasks(kernel.wide)
        joined: list[Part] = []
        for first in range(0, len(tasks), _WAVE):
            wave = run_all(summarize, tasks[first : first + _WAVE], parallel)
            joined = joined_if_any(kernel, joined + [part for parts in wave for part in parts])
        self._release(0, len(self), at_once=False)
        return only_of(joined)

    def elementwise(self, kernel: Callable[[Block], Array], out: Array | None = None) -> Array:
        """One number per row, into ``out`` if it is given."""
        found = np.empty(len(self)) if out is None else out

        def write(blocks: Sequence[slice]) -> None:
            for rows in blocks:
                found[rows] = kernel(self._block(rows))
            self._release(blocks[0].start, blocks[-1].stop, at_once=True)

        tasks, parallel = self._tasks(False)
        run_all(write, tasks, parallel)
        self._release(0, len(self), at_once=False)
        return found

    def take(self, index: Index, matrix: Array | None = None) -> Array:
        """Rows at the given positions, in that order; of a mapped file few are resident at a time."""
        return _taken(self.values, np.asarray(index), matrix)

    def take_weights(self, index: Index) -> Array | None:
        """The weights at the given positions."""
        return None if self.weights is None else _taken(self.weights, np.asarray(index), None)

    def with_weights(self, weights: Any) -> Table:
        """The same rows with one weight each."""
        return type(self)(self.values, weight_vector(weights, len(self)))

    def _tasks(self, wide: bool) -> tuple[list[list[slice]], bool]:
        """Blocks, a few for each task, and whether to share them out."""
        length = block_length(self.shape, wide)
        blocks = [slice(start, min(start + length, len(self))) for start in range(0, len(self), length)]
        per_task = max(1, min(16, len(blocks) // 32))
        return [blocks[i : i + per_task] for i in range(0, len(blocks), per_task)], len(blocks) >= 4

    def _block(self, rows: slice) -> Block:
        return as_block(rows.start, self.values[rows], None if self.weights is None else self.weights[rows])

    def _release(self, start: int, stop: int, at_once: bool) -> None:
        """Large files are released as they are read; small ones once a pass: each time, other threads are stopped."""
        for array in (self.values, self.weights):
            if array is not None and (array.nbytes > _SMALL_FILE) == at_once:
                release(array, start, stop)


class _ProductTable(Table):
    """The rows of another table times a matrix, or times a vector: losses."""

    def __init__(self, table: Table, matrix: Array) -> None:
        self.table, self.matrix = table, matrix
        self.shape, self.weighted, self.keep = (len(table), *matrix.shape[1:]), table.weighted, table.keep

    def reduce(self, kernel: Kernel[Part], every: bool = False) -> Part:
        """The kernel sees the products."""
        through: Kernel[Part] = _Through(kernel, self.matrix)
        return self.table.reduce(through, every)

    def elementwise(self, kernel: Callable[[Block], Array]) -> Any:
        """Where the rows are."""
        return self.table.elementwise(_Through(kernel, self.matrix))

    def take(self, index: Index, matrix: Array | None = None) -> Array:
        """Products at the given positions: they are what travels."""
        return self.table.take(index, self.matrix if matrix is None else self.matrix @ matrix)

    def take_weights(self, index: Index) -> Array | None:
        """As the table inside."""
        return self.table.take_weights(index)

    def with_weights(self, weights: Any) -> Table:
        """The same with one weight per row."""
        return _ProductTable(self.table.with_weights(weights), self.matrix)

    def where(self, row: int) -> str:
        """As the table inside."""
        return self.table.where(row)


@dataclass(frozen=True)
class _Through:
    """A kernel that sees rows @ matrix."""

    kernel: Any
    matrix: Array
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> Any:
        with np.errstate(invalid="ignore", over="ignore"):
            return self.kernel(replace(block, rows=block.rows @ self.matrix))

    def join(self, parts: Sequence[Any]) -> Any:
        return self.kernel.join(parts)


class _ColumnTable(Table):
    """The rows of another table with a column, which is in memory, after their last."""

    def __init__(self, table: Table, column: Array) -> None:
        self.table, self.column = table, column
        self.shape, self.weighted, self.keep = (len(table), table.shape[1] + 1), table.weighted, table.keep

    def reduce(self, kernel: Kernel[Part], every: bool = False) -> Part:
        """The kernel sees longer rows."""
        longer: Kernel[Part] = _Longer(kernel, self.column)
        return self.table.reduce(longer, every)

    def elementwise(self, kernel: Callable[[Block], Array]) -> Any:
        """Where the rows are."""
        return self.table.elementwise(_Longer(kernel, self.column))

    def take(self, index: Index, matrix: Array | None = None) -> Array:
        """Longer rows at the given positions."""
        rows = np.column_stack([self.table.take(index), self.column[np.asarray(index)]])
        return rows if matrix is None else rows @ matrix

    def take_weights(self, index: Index) -> Array | None:
        """As the table inside."""
        return self.table.take_weights(index)

    def with_weights(self, weights: Any) -> Table:
        """The same with one weight per row."""
        return _ColumnTable(self.table.with_weights(weights), self.column)

    def without_column(self) -> tuple[Table, Array]:
        """The two as they were joined."""
        return self.table, self.column

    def where(self, row: int) -> str:
        """As the table inside."""
        return self.table.where(row)


@dataclass(frozen=True)
class _Longer:
    """A kernel that sees rows with a number more."""

    kernel: Any
    column: Array

    @property
    def wide(self) -> bool:
        return bool(self.kernel.wide)

    def __call__(self, block: Block) -> Any:
        return self.kernel(replace(block, rows=np.column_stack([block.rows, self.column[block.ids]])))

    def join(self, parts: Sequence[Any]) -> Any:
        return self.kernel.join(parts)


# -- what every kind of table does with its blocks --------------------------------------------------------------------


def block_length(shape: tuple[int, ...], wide: bool) -> int:
    """How many rows make a block."""
    return max(1, _PIECE // shape[1]) if len(shape) > 1 else BLOCK * (_WIDE if wide else 1)


def as_block(first: int, rows: NDArray[Any], weights: NDArray[Any] | None) -> Block:
    """Rows and weights in double precision."""
    w = None if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
    return Block(first, np.ascontiguousarray(rows, dtype=np.float64), w)


def summaries(kernel: Kernel[Part], block: Block, every: bool) -> list[Part]:
    """[kernel(block)], or nothing where no row of it counts."""
    block = block if every else block.positive()
    return [kernel(block)] if len(block.rows) else []


def walk(kernel: Kernel[Part], first: int, rows: NDArray[Any], weights: Any, every: bool) -> list[Part]:
    """The kernel on all blocks of rows that begin at ``first`` in their table; a list of at most one joined summary."""
    parts: list[Part] = []
    for block in blocks_of(first, rows, weights, kernel.wide):
        parts += summaries(kernel, block, every)
        if len(parts) >= 16:
            parts = [kernel.join(parts)]
    return joined_if_any(kernel, parts)


def blocks_of(first: int, rows: NDArray[Any], weights: Any, wide: bool = False) -> Iterator[Block]:
    """Rows in blocks that fit the caches; pages of a mapped file are released behind."""
    length = block_length(rows.shape, wide)
    for start in range(0, len(rows), length):
        stop = min(start + length, len(rows))
        yield as_block(first + start, rows[start:stop], None if weights is None else weights[start:stop])
        if start // length % 16 == 15 or stop == len(rows):
            release(rows, start // length // 16 * 16 * length, stop)
            if weights is not None:
                release(weights, start // length // 16 * 16 * length, stop)


def joined_if_any(kernel: Kernel[Part], parts: Sequence[Part]) -> list[Part]:
    """[the joined summary], or nothing."""
    return [kernel.join(parts)] if parts else []


def only_of(parts: Sequence[Part]) -> Part:
    """The summary of a whole pass."""
    if not parts:
        raise no_weight()
    return parts[0]


def _taken(array: NDArray[Any], index: Index, matrix: Array | None) -> Array:
    """array[index], times a matrix, with no more than a few pages of a mapped file resident at a time.

    To touch one number may map some hundred KB around it, so that a thousand of them are as much as 250 MB.
    """
    if matrix is None and (array.nbytes <= _SMALL_FILE or _mapping_of(array) is None):
        found = np.asarray(array[index], dtype=np.float64)
        release(array, 0, len(array))
        return found
    order = np.argsort(index, kind="stable")  # a disk is read forwards
    rows = np.empty((len(index), *(array.shape[1:] if matrix is None else matrix.shape[1:])))
    for start in range(0, len(index), _TAKEN):
        part = order[start : start + _TAKEN]
        picked = np.asarray(array[index[part]], dtype=np.float64)
        rows[part] = picked if matrix is None else picked @ matrix
        release(array, 0, len(array))
    return rows


def release(array: NDArray[Any], start: int, stop: int) -> None:
    """Let go of the pages under rows of a memory-mapped array, so that resident memory stays flat.

    Only for shared mappings: a copy-on-write mapping would lose what was written to it.
    """
    source = _mapping_of(array)
    if source is None:
        return
    # Rows must be stretches of the file.
    if array.size == 0 or not (array.flags.c_contiguous or (array.ndim == 1 and array.strides[0] > 0)):
        return
    origin = np.frombuffer(source, dtype=np.uint8).__array_interface__["data"][0]
    begin = array.__array_interface__["data"][0] - origin
    page = mmap.PAGESIZE
    first = -(-(begin + start * array.strides[0]) // page) * page
    last = (begin + stop * array.strides[0]) // page * page
    if last > first:
        source.madvise(mmap.MADV_DONTNEED, first, last - first)


def _mapping_of(array: NDArray[Any]) -> Any:
    """The shared mapping behind an array, whose pages can be let go of; None where there is none."""
    file: Any = array
    while file is not None and not hasattr(file, "_mmap"):  # a plain view of a mapped file, as np.asarray makes it
        file = getattr(file, "base", None)
    source = getattr(file, "_mmap", None)
    if source is None or getattr(file, "mode", "c") == "c" or not hasattr(source, "madvise"):
        return None
    return source


# -- the first pass ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """What one pass says of a table.

    ``low`` and ``high`` are the range of rows of positive weight, NaN or infinite where a row of any weight is;
    ``square`` is the sum of squared weights over the squared total; of a matrix, ``mean`` and ``deviation`` are those
    of its columns, weighted.
    """

    low: float
    high: float
    mass: float
    squares: float = 0.0  # sum of squared weights
    lightest: float = 1.0
    heaviest: float = 1.0
    mean: Array | None = None
    deviations: Array | None = None  # weighted sums of squared deviations
    extra: Any = None

    @property
    def square(self) -> float:
        """The sum of squared weights over the squared total: one over the effective number of rows."""
        return self.squares / self.mass**2

    @property
    def deviation(self) -> Array:
        """Standard deviation of every column."""
        assert self.deviations is not None
        return np.sqrt(self.deviations / self.mass)

    @property
    def finite(self) -> bool:
        """Whether all entries are."""
        return math.isfinite(self.low) and math.isfinite(self.high)


@dataclass(frozen=True)
class _Summarize:
    """The kernel of `summary`."""

    extra: Kernel[Any] | None

    @property
    def wide(self) -> bool:
        return self.extra is None or self.extra.wide

    def __call__(self, block: Block) -> Summary:
        with np.errstate(invalid="ignore", over="ignore"):
            counted = block.positive()
            low, high = _range(counted.rows)
            extra = [self.extra(counted)] if self.extra is not None and len(counted.rows) else []
            found = Summary(low, high, float(len(block.rows)), float(len(block.rows)), extra=extra)
            w = block.weights
            if w is not None:
                if counted is not block and not np.isfinite(block.rows.sum()):
                    low, high = _range(block.rows)  # NaN and infinities are refused whatever their weight
                limits = float(w.min()), float(w.max())
                found = Summary(low, high, float(w.sum()), float((w * w).sum()), *limits, extra=extra)
            if block.rows.ndim == 1:
                return found
            mean, deviations = _moments(counted)
            return replace(found, mean=mean, deviations=deviations)

    def join(self, parts: Sequence[Summary]) -> Summary:
        with np.errstate(invalid="ignore", over="ignore"):
            extras = [one for part in parts for one in part.extra]
            found = Summary(
                float(np.min([part.low for part in parts])),
                float(np.max([part.high for part in parts])),
                float(np.sum([part.mass for part in parts])),
                float(np.sum([part.squares for part in parts])),
                float(np.min([part.lightest for part in parts])),
                float(np.max([part.heaviest for part in parts])),
                extra=[self.extra.join(extras)] if self.extra is not None and extras else [],
            )
            if parts[0].mean is None:
                return found
            masses, means = np.array([part.mass for part in parts]), np.array([part.mean for part in parts])
            mean = masses @ means / found.mass if found.mass > 0.0 else means[0]
            within = np.sum(np.array([part.deviations for part in parts]), axis=0)
            return replace(found, mean=mean, deviations=within + masses @ np.square(means - mean))


def _range(rows: Array) -> tuple[float, float]:
    return (float(rows.min()), float(rows.max())) if rows.size else (np.inf, -np.inf)


def _moments(block: Block) -> tuple[Array, Array]:
    """Mean of every column, and weighted sum of squared deviations from it."""
    rows, w = block.rows, block.weights
    if not len(rows):
        return np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    if w is None:
        mean = rows.mean(axis=0)
        return mean, np.square(rows - mean).sum(axis=0)
    mean = w @ rows / w.sum()
    return mean, w @ np.square(rows - mean)


def summary(table: Table, extra: Kernel[Any] | None = None) -> Summary:
    """One pass: range, weights and moments, and what ``extra`` makes of the rows of positive weight alongside.

    What to say of weights or rows that are not finite is the caller's, who knows which are allowed: see `first_bad`.
    """
    found = table.reduce(_Summarize(extra), every=True)
    return replace(found, extra=found.extra[0] if found.extra else None)


@dataclass(frozen=True)
class _FirstBad:
    """Position, column and content of the first entry that is not finite."""

    wide: ClassVar[bool] = True

    def __call__(self, block: Block) -> tuple[int, int, float] | None:
        bad = ~np.isfinite(block.rows)
        if not bad.any():
            return None
        row, *column = np.unravel_index(int(np.argmax(bad)), bad.shape)
        return int(block.ids[row]), int(column[0]) if column else 0, float(block.rows[(row, *column)])

    def join(self, parts: Sequence[tuple[int, int, float] | None]) -> tuple[int, int, float] | None:
        return next((part for part in parts if part is not None), None)


def first_bad(table: Table) -> tuple[int, int, float] | None:
    """Row, column and content of the first entry that is NaN or infinite."""
    return table.reduce(_FirstBad(), every=True)


# -- which module reads an array --------------------------------------------------------------------------------------

# The package an array's type comes from, and the module that reads it. Dask's is known without an import of it, so that
# `import certeq` imports nothing, NumPy included, until a name is asked for.
_READERS: dict[str, str] = {"dask": "certeq.scale", "dask_expr": "certeq.scale"}


def register(package: str, module: str) -> None:
    """From now on ``module.as_sample(x, weights, axis)`` and ``module.as_table(A)`` read arrays of ``package``.

    Known by name only, and imported when such an array turns up: the package need not be installed.
    """
    _READERS[package] = module


def is_remote(*arrays: Any) -> bool:
    """Whether one of these is no array in memory or on disk, but one that a registered module reads."""
    return any(_reader_of(array) is not None for array in arrays)


def as_sample(x: Any, weights: Any = None, axis: Any = None) -> Table | None:
    """Losses and weights as a one-dimensional table where either is remote; None where both are arrays."""
    module = _reader_of(x) or _reader_of(weights)
    if module is None:
        return None
    sample: Table = import_module(module).as_sample(x, weights, axis)
    return sample


def as_table(A: Any) -> Table | None:
    """The table that a matrix is, or should be read as; None for what is an ordinary array."""
    if isinstance(A, Table):
        return A
    module = _reader_of(A)
    if module is not None:
        table: Table = import_module(module).as_table(A)
        return table
    if isinstance(A, np.memmap) and A.ndim == 2 and A.size * 8 >= LARGE:
        return ArrayTable(A)
    return None


def refuse_table(A: Any) -> None:
    """Where an array in memory is wanted, a remote one would be fetched as a whole without a word."""
    if isinstance(A, Table) or is_remote(A):
        raise TypeError(
            f"A must be an array in memory; found a {type(A).__module__} object. minimize(LinearLoss(A), ...) "
            "reads it in blocks."
        )


def _reader_of(array: Any) -> str | None:
    for kind in type(array).__mro__:
        module = _READERS.get(kind.__module__.partition(".")[0])
        if module is not None:
            return module
    return None


def check_matrix(shape: tuple[Any, ...], dtype: Any) -> None:
    """Refuse what is not a matrix of real numbers."""
    if np.dtype(dtype).kind not in "fiub":
        raise TypeError(f"A must hold real numbers; found dtype {dtype}.")
    if len(shape) != 2:
        raise ValueError(f"A must be a matrix, one row per sample; found an array of shape {shape}.")
    if 0 in shape:
        raise ValueError(f"A is empty (shape {shape}); at least one sample and one column are needed.")


def weight_vector(weights: Any, count: int) -> NDArray[Any]:
    """Weights as a vector with one entry per row; their signs and sum are looked at when they are read."""
    if is_remote(weights):
        raise TypeError(
            f"weights must be an array in memory or on disk, as A is; found a {type(weights).__module__} object."
        )
    w = weights if isinstance(weights, np.memmap) else np.asarray(weights)
    if w.dtype.kind not in "fiub":
        raise TypeError(f"weights must hold real numbers; found dtype {w.dtype}.")
    if w.shape != (count,):
        raise ValueError(f"weights must have one entry per sample, {count}; found shape {w.shape}.")
    return w
