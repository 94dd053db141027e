"""Tables in the chunks of Dask arrays: every pass is one map-reduce, and only summaries reach the client.

`DaskTable` holds rows of one or two dimensions; `DaskSample` is one of losses, which may be short enough to be kept.
What a task does with its chunk follows: kernels block by block, rows at some positions, the weights at a first look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from certeq._checks import no_weight
from certeq._table import (
    Array,
    ArrayTable,
    Block,
    Index,
    Kernel,
    Part,
    Table,
    blocks_of,
    drawn_index,
    joined_if_any,
    only_of,
    walk,
)
from certeq.scale._compute import ClusterLost, DaskArray, Scheduler, da, dask

_JOINED = 16  # summaries joined by one task
_DRAWS = (1 << 15, 1 << 18)  # losses drawn at random: the first for every start that can do with it, the second for all
Chunk = tuple[int, tuple[int, ...], Any, Any]  # first row, shape, keys of rows and weights


class DaskTable(Table):
    """Rows in the chunks of a Dask array, chunked along its first axis, with weights in chunks of the same length."""

    _how_to_move = " Make a new LinearLoss of the array to run it with another scheduler."

    def __init__(self, values: DaskArray, weights: DaskArray | None = None, scheduler: Scheduler | None = None) -> None:
        self.values, self.weights = values, weights
        self.shape, self.weighted = tuple(map(int, values.shape)), weights is not None
        self.starts = np.concatenate([[0], np.cumsum(values.chunks[0])]).astype(np.int64)
        self.passes = 0  # how often the data have been read
        self._scheduler = scheduler
        self._sources: tuple[DaskArray, ...] | None = None

    @property
    def scheduler(self) -> Scheduler:
        """Where the first pass ran, and all others do."""
        if self._scheduler is None:
            self._scheduler = Scheduler()
        return self._scheduler

    def reduce(self, kernel: Kernel[Part], every: bool = False) -> Part:
        """One pass, joined within chunks first and then in a tree."""
        found: list[Part] = self._pass(
            [(summarize, kernel, first, shape, rows, weights, every) for first, shape, rows, weights in self._chunks()],
            kernel,
        )
        return only_of(found)

    def elementwise(self, kernel: Callable[[Block], Array]) -> DaskArray:
        """One number per row: a Dask array in the same chunks, computed when asked for."""
        return da.map_blocks(elementwise_of, *self._arrays(), kernel=kernel, dtype=np.float64, meta=np.empty(0))

    def take(self, index: Index, matrix: Array | None = None) -> Array:
        """The rows at the given positions; only those travel."""
        pairs = [(chunk, part) for chunk, part in self._by_chunk(index) if len(part)]
        tasks = [(rows_at, shape, rows, index[part] - first, matrix) for (first, shape, rows, _), part in pairs]
        found = np.empty((len(index), *(self.shape[1:] if matrix is None else matrix.shape[1:])))
        for (_, part), taken in zip(pairs, self._pass(tasks), strict=True):
            found[part] = taken
        return found

    def take_weights(self, index: Index) -> Array | None:
        """The weights at the given positions."""
        if self.weights is None:
            return None
        return DaskTable(self.weights, None, self.scheduler).take(index)

    def with_weights(self, weights: Any) -> Table:
        """The same rows with one weight each, a Dask or an ordinary vector."""
        w, chunks = self._as_weights(weights), (self.values.chunks[0],)
        return DaskTable(self.values, w if w.chunks == chunks else w.rechunk(chunks), self._scheduler)

    def bring_weights(self, weights: Any) -> NDArray[Any]:
        """Weights of the rows as a vector here."""
        w = self._as_weights(weights)
        return np.concatenate(self.scheduler.run({}, _keys_of(w), (w,)))

    def _as_weights(self, weights: Any) -> DaskArray:
        from certeq.scale._collections import as_vector

        w = as_vector("weights", weights, (self.values.chunks[0],))
        if w.shape[0] != len(self):
            raise ValueError(f"weights must have one entry per sample, {len(self)}; found {w.shape[0]}.")
        return w

    def where(self, row: int) -> str:
        """The position of a row, and where it is among the chunks."""
        chunk = int(np.searchsorted(self.starts, row, side="right")) - 1
        offset = row - int(self.starts[chunk])
        if len(self.shape) == 1:
            return f"in partition {chunk} of {len(self.starts) - 1} (counted from 0), at its row {offset}"
        return f"at scenario {row} (row {offset} of chunk {chunk})"

    def _arrays(self) -> tuple[DaskArray, ...]:
        return (self.values,) if self.weights is None else (self.values, self.weights)

    def _chunks(self) -> list[Chunk]:
        """First row, shape and keys of rows and weights of each chunk, in a graph optimized once for all passes."""
        if self._sources is None:
            arrays = self._arrays()
            optimized = dask.optimize(*arrays)
            # Chunks that a cluster holds already are no longer part of an optimized graph; theirs needs none.
            whole = all(_keys_of(array)[0] in array.dask for array in optimized)
            self._sources = optimized if whole else arrays
        keys = [_keys_of(array) for array in self._sources]
        weights = keys[1] if self.weighted else [None] * len(keys[0])
        shapes = [(int(size), *self.shape[1:]) for size in self.values.chunks[0]]
        return list(zip(self.starts[:-1].tolist(), shapes, keys[0], weights, strict=True))

    def _by_chunk(self, index: Index) -> list[tuple[Chunk, Index]]:
        """The chunks, each with where the positions are that lie in it."""
        order = np.argsort(index, kind="stable")
        cuts = np.searchsorted(index[order], self.starts)
        return [(chunk, order[cuts[k] : cuts[k + 1]]) for k, chunk in enumerate(self._chunks())]

    def _pass(self, tasks: list[tuple[Any, ...]], kernel: Kernel[Any] | None = None) -> Any:
        """Run one task per chunk: the list of their results, or with a kernel their joined summary."""
        assert self._sources is not None
        if self.scheduler.closed:
            raise ClusterLost(f"{self.scheduler.lost('its client is closed')}{self._how_to_move}")
        self.passes += 1
        name = f"certeq-{uuid4().hex}"
        layer: dict[Any, Any] = {(name, 0, i): task for i, task in enumerate(tasks)}
        keys, depth = list(layer), 0
        while kernel is not None and len(keys) > 1:
            depth += 1
            groups = [keys[i : i + _JOINED] for i in range(0, len(keys), _JOINED)]
            joined = {(name, depth, i): (join, kernel, group) for i, group in enumerate(groups)}
            layer |= joined
            keys = list(joined)
        if kernel is None:
            layer[(name, "all")] = (list, keys)
            keys = [(name, "all")]
        return self.scheduler.run(layer, keys[0], self._sources)


class DaskSample(DaskTable):
    """Losses in a one-dimensional Dask array with optional weights in the same chunks; see `certeq.scale.as_sample`.

    Not made by hand: `as_sample` checks what it is given and fits the chunks of losses and weights together.

    Parameters
    ----------
    z : dask.array.Array
        Losses, one-dimensional.
    weights : dask.array.Array, optional
        Weights in the same chunks.
    scheduler : Scheduler, optional
        Where the passes run; found out if None.
    shape : tuple of int, optional
        Shape of the losses as they were given, where that is not one dimension.

    See Also
    --------
    as_sample
        Losses in Dask as a sample.

    Examples
    --------
    >>> import dask.array as da
    >>> from certeq.scale import as_sample
    >>> sample = as_sample(da.arange(6.0, chunks=3))
    >>> type(sample).__name__, sample.size
    ('DaskSample', 6)
    """

    near = 1 << 22  # up to so many losses are read once and kept, where the tasks run in this process anyway
    _how_to_move = ""

    def __init__(
        self,
        z: DaskArray,
        weights: DaskArray | None = None,
        scheduler: Scheduler | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(z, weights, scheduler or Scheduler())
        self.given_shape = shape  # of the losses as they were passed in, where that is not one dimension
        # 4 MB of losses around a quantile is what a pass may send to the client.
        self.keep = Table.keep if self.scheduler.here else 1 << 19
        self._drawn: tuple[Index, Array, Array | None] | None = None
        self._kept: ArrayTable | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_kept": None}

    @property
    def size(self) -> int:
        """How many losses there are."""
        return len(self)

    def reduce(self, kernel: Kernel[Part], every: bool = False) -> Part:
        """One pass over the chunks, or over what is kept of them.

        Parameters
        ----------
        kernel : Kernel
            What is computed from a block and how two answers are joined.
        every : bool
            Whether the kernel sees losses of weight 0, too.

        Returns
        -------
        Any
            The joined answer of all blocks.
        """
        copy = self._in_memory()
        return super().reduce(kernel, every) if copy is None else copy.reduce(kernel, every)

    def draw(self, count: int) -> Block:
        """The losses that estimates draw from the same array in memory; kept from then on.

        Parameters
        ----------
        count : int
            How many, at most all.

        Returns
        -------
        Block
            Losses, weights and positions, in order.
        """
        if (copy := self._in_memory()) is not None:
            return copy.draw(count)
        wanted = min(count, len(self))
        if self._drawn is None or len(self._drawn[0]) < wanted:
            self._drawn = self._draw_all(min(_DRAWS[wanted > _DRAWS[0]], len(self)))
        index, z, w = self._drawn
        order = np.argsort(index[:wanted], kind="stable")
        return Block(0, z[order], None if w is None else w[order], index[order])

    def elementwise(self, kernel: Callable[[Block], Array]) -> DaskArray:
        """One number per loss, in the shape they were given in.

        Parameters
        ----------
        kernel : callable
            Takes a block and returns one number per loss.

        Returns
        -------
        dask.array.Array
            The numbers, computed when asked for.
        """
        found = super().elementwise(kernel)
        return found if self.given_shape is None else found.reshape(self.given_shape)

    def _in_memory(self) -> ArrayTable | None:
        """The whole of a short sample, where its tasks run in this process."""
        if self._kept is None and self.scheduler.here and len(self) <= self.near:
            self._kept = self._read()
        return self._kept

    def _read(self) -> ArrayTable:
        self.passes += 1
        arrays = self._arrays()
        z, *weights = (
            _joined_chunks(chunks, self.values.chunks[0])
            for chunks in self.scheduler.run({}, [_keys_of(array) for array in arrays], arrays)
        )
        if not weights:
            return ArrayTable(z)
        w = weights[0]
        unit = self._check_weights([weigh(part) for part in np.split(w, self.starts[1:-1])])
        return ArrayTable(z, w if unit == 1.0 else w / unit)

    def _draw_all(self, count: int) -> tuple[Index, Array, Array | None]:
        """A draw, and at the first one a look at all weights."""
        index = drawn_index(len(self), count)
        pairs = self._by_chunk(index)
        found = self._pass(
            [
                (pick, shape, rows, weights, index[part] - first, self._drawn is None)
                for (first, shape, rows, weights), part in pairs
            ]
        )
        z, w = np.empty(len(index)), np.empty(len(index)) if self.weighted else None
        for (_, part), (losses, weights, _) in zip(pairs, found, strict=True):
            z[part] = losses
            if w is not None:
                w[part] = weights
        if w is not None and self._drawn is None:
            w /= self._check_weights([weighed for _, _, weighed in found])
        return index, z, w

    def _check_weights(self, weighed: list[tuple[float, tuple[int, float] | None]]) -> float:
        """Refuse a weight that is none; else the number that weights are divided by from now on, 1 as a rule."""
        for number, (_, bad) in enumerate(weighed):
            if bad is not None:
                raise ValueError(_bad_weight(bad[1], self.where(int(self.starts[number]) + bad[0])))
        heaviest = max((top for top, _ in weighed), default=0.0)
        if heaviest == 0.0:
            raise no_weight()
        if 1e-100 < heaviest < 1e100:
            return 1.0
        # Squares and sums of weights must neither overflow nor vanish.
        assert self.weights is not None
        self.weights, self._sources = self.weights / heaviest, None
        return heaviest


def _keys_of(array: DaskArray) -> list[tuple[Any, ...]]:
    return [(array.name, i, *(0,) * (array.ndim - 1)) for i in range(array.numblocks[0])]


def _joined_chunks(chunks: Sequence[Any], sizes: Sequence[int]) -> NDArray[Any]:
    """Chunks end to end; one alone is not copied, so that a mapped file stays one."""
    checked = [as_declared(chunk, (int(size),)) for chunk, size in zip(chunks, sizes, strict=True)]
    filled = [chunk for chunk in checked if len(chunk)]
    return filled[0] if len(filled) == 1 else np.concatenate(filled)


def _bad_weight(found: float, where: str) -> str:
    if found < 0.0 and np.isfinite(found):
        return f"weights must not be negative; found {found:g} {where}."
    shown = "NaN" if np.isnan(found) else f"{found:+g}"
    return f"weights must be finite; found {shown} {where}."


# -- what a task does with its chunk ----------------------------------------------------------------------------------


def as_declared(chunk: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """The chunk as an array, if it is what a Dask array of real numbers says of it; None is any length.

    Dask believes what it is told: ``from_delayed`` and ``map_blocks`` may deliver something else.
    """
    found: NDArray[Any] = np.asanyarray(chunk)
    if found.dtype.kind == "O":  # numbers in boxes, as pandas has them where one is missing
        with suppress(TypeError, ValueError):
            found = found.astype(np.float64)
    masked = isinstance(found, np.ma.MaskedArray)
    fits = found.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, found.shape, strict=True))
    if masked or not fits or found.dtype.kind not in "fiub":
        lengths = ", ".join("n" if n is None else str(n) for n in shape)
        raise TypeError(
            f"A chunk must hold real numbers in the shape ({lengths}{',' * (len(shape) == 1)}), as its Dask array "
            f"declares; found {'a masked array' if masked else 'an array'} of shape {found.shape} and dtype "
            f"{found.dtype}. Mend the function that makes the chunks."
        )
    return found


def summarize(
    kernel: Kernel[Part], first: int, shape: tuple[int, ...], rows: Any, weights: Any, every: bool
) -> list[Part]:
    """The summary of a chunk, in a list that is empty where no row of it counts."""
    w = None if weights is None else as_declared(weights, shape[:1])
    return walk(kernel, first, as_declared(rows, shape), w, every)


def join(kernel: Kernel[Part], parts: list[list[Part]]) -> list[Part]:
    """What neighboring tasks returned, as one."""
    return joined_if_any(kernel, [part for one in parts for part in one])


def elementwise_of(rows: Any, weights: Any = None, *, kernel: Callable[[Block], Array]) -> Array:
    """One number per row."""
    rows = as_declared(rows, (None,) * np.ndim(rows))
    w = None if weights is None else as_declared(weights, rows.shape[:1])
    parts = [kernel(block) for block in blocks_of(0, rows, w)]
    return np.concatenate(parts) if parts else np.empty(0)


def rows_at(shape: tuple[int, ...], rows: Any, index: Index, matrix: Array | None) -> Array:
    """Rows at some positions of a chunk, times a matrix."""
    return ArrayTable(as_declared(rows, shape)).take(index, matrix)


def pick(
    shape: tuple[int, ...], z: Any, w: Any, index: Index, check: bool
) -> tuple[Array, Array | None, tuple[float, tuple[int, float] | None]]:
    """Losses and weights at some positions, and with ``check`` what `weigh` says of all weights."""
    losses = rows_at(shape, z, index, None)
    if w is None:
        return losses, None, (0.0, None)
    return losses, rows_at(shape, w, index, None), weigh(w) if check else (0.0, None)


def weigh(w: Any) -> tuple[float, tuple[int, float] | None]:
    """The greatest weight, and position and content of the first that is negative or not finite."""
    heaviest, bad = 0.0, None
    for block in blocks_of(0, as_declared(w, (None,)), None):
        wrong = ~(np.isfinite(block.rows) & (block.rows >= 0))
        if bad is None and wrong.any():
            bad = int(block.ids[np.argmax(wrong)]), float(block.rows[np.argmax(wrong)])
        heaviest = max(heaviest, float(np.max(block.rows)))
    return heaviest, bad
