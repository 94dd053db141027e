"""A sample in the chunks of a Dask array: every pass is one map-reduce, and only summaries reach the client.

What a task does with its chunk follows: kernels block by block, losses at some places, the first bad number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from certeq.risk._input import not_finite
from certeq.risk._sample import BLOCK, WIDE, ArraySample, Combine, Floats, Kernel, Sample, picked, read_block, release
from certeq.scale._compute import DaskArray, Scheduler, da, dask

_FAN_IN = 16  # summaries merged by one task
_DRAWS = (1 << 15, 1 << 18)  # losses drawn at random: the first for every start that can do with it, the second for all
_TOGETHER = 16  # blocks whose results are merged, and whose pages are released, together


class DaskSample(Sample):
    """Losses in a one-dimensional Dask array with optional weights in the same chunks; see `certeq.scale.as_sample`.

    Not made by hand: `as_sample` checks what it is given and fits the chunks of losses and weights together.

    Examples
    --------
    >>> import dask.array as da
    >>> from certeq.scale import as_sample
    >>> sample = as_sample(da.arange(6.0, chunks=3))
    >>> type(sample).__name__, sample.size
    ('DaskSample', 6)
    """

    near = 1 << 22  # up to so many losses are read once and kept, where the tasks run in this process anyway

    def __init__(
        self,
        z: DaskArray,
        weights: DaskArray | None = None,
        scheduler: Scheduler | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        self.shape = shape  # of the losses as they were passed in, where that is not one dimension
        self.z, self.weights = z, weights
        self.size, self.weighted = int(z.shape[0]), weights is not None
        self.scheduler = scheduler or Scheduler()
        # 4 MB of losses around a quantile is what a pass may send to the client.
        self.keep = Sample.keep if self.scheduler.here else 1 << 19
        self.passes = 0  # how often the data have been read
        self._drawn: tuple[NDArray[np.int64], Floats, Floats | None] | None = None
        self._kept: ArraySample | None = None
        self._sources: tuple[DaskArray, ...] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_kept": None}

    def map(self, kernel: Kernel, every: bool = False) -> list[Any]:
        """kernel(losses, weights) of every block of every chunk, in order."""
        if (near := self._nearby()) is not None:
            return near.map(kernel, every)
        chunks = self._pass([(map_chunk, *chunk, kernel, None, every, False) for chunk in self._chunks()])
        return [result for results in chunks for result in results]

    def fold(self, kernel: Kernel, combine: Combine, every: bool = False, wide: bool = False) -> Any:
        """The results of all blocks merged into one, within chunks first and then in a tree."""
        if (near := self._nearby()) is not None:
            return near.fold(kernel, combine, every, wide)
        found = self._pass([(map_chunk, *chunk, kernel, combine, every, wide) for chunk in self._chunks()], combine)
        if not found:
            raise ValueError("weights sum to 0; at least one must be above 0.")
        return found[0]

    def draw(self, count: int) -> tuple[Floats, Floats | None]:
        """The losses that `certeq.risk` would draw from the same array in memory; kept from then on."""
        if (near := self._nearby()) is not None:
            return near.draw(count)
        wanted = min(count, self.size)
        if self._drawn is None or self._drawn[0].size < wanted:
            self._drawn = self._draw_all(min(_DRAWS[wanted > _DRAWS[0]], self.size))
        places, z, w = self._drawn
        order = np.argsort(places[:wanted], kind="stable")
        return z[order], None if w is None else w[order]

    def complain(self, allow_low: bool) -> None:
        """Raise a ValueError that names the partition and the row in it of a loss that is not finite, if one is."""
        if (near := self._nearby()) is not None:
            chunks = [first_bad(part, allow_low) for part in self._parts(near.z)]
        else:
            chunks = self._pass([(first_bad, z, allow_low) for z, _, _ in self._chunks()])
        for number, bad in enumerate(chunks):
            if bad is not None:
                place, found = bad
                raise not_finite(found, f"in partition {number} of {len(chunks)} (counted from 0), at its row {place}")

    def elementwise(self, kernel: Kernel) -> DaskArray:
        """kernel(losses, weights), one number per loss: a Dask array in the same chunks, computed when asked for."""
        found = da.map_blocks(elementwise_of, *self._arrays(), kernel=kernel, dtype=np.float64, meta=np.empty(0))
        return found if self.shape is None else found.reshape(self.shape)

    def _arrays(self) -> tuple[DaskArray, ...]:
        return (self.z,) if self.weights is None else (self.z, self.weights)

    def _chunks(self) -> list[tuple[Any, Any, int]]:
        """Keys of the chunks of losses and weights, in a graph that is optimized once for all passes; their length."""
        if self._sources is None:
            arrays = self._arrays()
            optimized = dask.optimize(*arrays)
            # Chunks that a cluster holds already are no longer part of an optimized graph; theirs needs none.
            whole = all(_keys_of(array)[0] in array.dask for array in optimized)
            self._sources = optimized if whole else arrays
        keys = [_keys_of(array) for array in self._sources]
        loads = keys[1] if self.weighted else [None] * len(keys[0])
        return list(zip(keys[0], loads, (int(size) for size in self.z.chunks[0]), strict=True))

    def _pass(self, tasks: list[tuple[Any, ...]], combine: Combine | None = None) -> Any:
        """Run one task per chunk: the list of their results, or with ``combine`` their merger."""
        assert self._sources is not None
        self.passes += 1
        name = f"certeq-{uuid4().hex}"
        layer: dict[Any, Any] = {(name, 0, i): task for i, task in enumerate(tasks)}
        keys, depth = list(layer), 0
        while combine is not None and len(keys) > 1:
            depth += 1
            groups = [keys[i : i + _FAN_IN] for i in range(0, len(keys), _FAN_IN)]
            merged = {(name, depth, i): (merge, group, combine) for i, group in enumerate(groups)}
            layer |= merged
            keys = list(merged)
        if combine is None:
            layer[(name, "all")] = (list, keys)
            keys = [(name, "all")]
        return self.scheduler.run(layer, keys[0], self._sources)

    def _nearby(self) -> ArraySample | None:
        """The whole of a short sample that has not far to go."""
        if self._kept is None and self.scheduler.here and self.size <= self.near:
            self._kept = self._read()
        return self._kept

    def _read(self) -> ArraySample:
        self.passes += 1
        arrays = self._arrays()
        z, *loads = (
            _joined(chunks, self.z.chunks[0])
            for chunks in self.scheduler.run({}, [_keys_of(array) for array in arrays], arrays)
        )
        if not loads:
            return ArraySample(z)
        w = loads[0]
        unit = self._check_weights([weigh(part) for part in self._parts(w)])
        return ArraySample(z, w if unit == 1.0 else w / unit)

    def _parts(self, array: NDArray[Any]) -> list[NDArray[Any]]:
        return np.split(array, np.cumsum(self.z.chunks[0])[:-1].astype(np.int64))

    def _draw_all(self, count: int) -> tuple[NDArray[np.int64], Floats, Floats | None]:
        # A shorter draw is the beginning of a longer one; the seed is that of arrays in memory.
        places = np.random.default_rng(20260101).integers(0, self.size, size=count)
        order = np.argsort(places, kind="stable")
        chunks = self._chunks()
        ends = np.concatenate([[0], np.cumsum(self.z.chunks[0])]).astype(np.int64)
        cuts = np.searchsorted(places[order], ends)
        parts = [order[cuts[i] : cuts[i + 1]] for i in range(len(chunks))]
        here = [places[part] - ends[i] for i, part in enumerate(parts)]
        found = self._pass([(pick, *chunk, at, self._drawn is None) for chunk, at in zip(chunks, here, strict=True)])
        z, w = np.empty(places.size), np.empty(places.size) if self.weighted else None
        for part, (losses, loads, _) in zip(parts, found, strict=True):
            z[part] = losses
            if w is not None:
                w[part] = loads
        if w is not None and self._drawn is None:
            w /= self._check_weights([weighed for _, _, weighed in found])
        return places, z, w

    def _check_weights(self, weighed: list[tuple[float, tuple[int, float] | None]]) -> float:
        """Complain of a weight that is none; else the number that weights are divided by from now on, 1 as a rule."""
        for number, (_, bad) in enumerate(weighed):
            if bad is not None:
                raise ValueError(_bad_weight(bad, number, len(weighed)))
        heaviest = max((top for top, _ in weighed), default=0.0)
        if heaviest == 0.0:
            raise ValueError("weights sum to 0; at least one must be above 0.")
        if 1e-100 < heaviest < 1e100:
            return 1.0
        # Squares and sums of weights must neither overflow nor vanish.
        assert self.weights is not None
        self.weights, self._sources = self.weights / heaviest, None
        return heaviest


def _keys_of(array: DaskArray) -> list[tuple[str, int]]:
    return [(array.name, i) for i in range(array.numblocks[0])]


def _joined(chunks: Sequence[Any], sizes: Sequence[int]) -> NDArray[Any]:
    """Chunks end to end; one alone is not copied, so that a mapped file stays one."""
    checked = [as_declared(chunk, (int(size),)) for chunk, size in zip(chunks, sizes, strict=True)]
    held = [chunk for chunk in checked if len(chunk)]
    return held[0] if len(held) == 1 else np.concatenate(held)


def _bad_weight(bad: tuple[int, float], number: int, count: int) -> str:
    place, found = bad
    where = f"in partition {number} of {count} (counted from 0), at its row {place}"
    if found < 0.0 and np.isfinite(found):
        return f"weights must not be negative; found {found:g} {where}."
    spelt = "NaN" if np.isnan(found) else f"{found:+g}"
    return f"weights must be finite; found {spelt} {where}."


# -- what a task does with its chunk ----------------------------------------------------------------------------------


def as_declared(chunk: Any, shape: tuple[int | None, ...] = (None,)) -> NDArray[Any]:
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


def map_chunk(z: Any, w: Any, size: int, kernel: Kernel, combine: Combine | None, every: bool, wide: bool) -> list[Any]:
    """kernel(losses, weights) of every block of a chunk of ``size``, or with ``combine`` their merger, in a list."""
    z = as_declared(z, (size,))
    results: list[Any] = []
    for losses, loads in _pieces(z, w, wide):
        results += read_block(kernel, losses, loads, every)
        if combine is not None and len(results) > _TOGETHER:
            results = [combine(results)]
    return [combine(results)] if combine is not None and results else results


def merge(parts: list[list[Any]], combine: Combine) -> list[Any]:
    """What neighboring tasks returned, as one."""
    results = [result for part in parts for result in part]
    return [combine(results)] if results else results


def elementwise_of(z: Any, w: Any = None, *, kernel: Kernel) -> Floats:
    """One number per loss."""
    parts = [read_block(kernel, losses, loads, True)[0] for losses, loads in _pieces(z, w)]
    return np.concatenate(parts) if parts else np.empty(0)


def first_bad(z: Any, allow_low: bool) -> tuple[int, float] | None:
    """Place and value of the first loss that is not finite."""
    return _first(z, lambda part: ~np.isfinite(part) & ~(allow_low & (part == -np.inf)))


def pick(
    z: Any, w: Any, size: int, places: NDArray[np.int64], check: bool
) -> tuple[Floats, Floats | None, tuple[float, tuple[int, float] | None]]:
    """Losses and weights at some places, and with ``check`` what `weigh` says of all weights."""
    z = as_declared(z, (size,))
    if w is None:
        return picked(z, places), None, (0.0, None)
    w = as_declared(w, (size,))
    return picked(z, places), picked(w, places), weigh(w) if check else (0.0, None)


def weigh(w: Any) -> tuple[float, tuple[int, float] | None]:
    """The greatest weight, and the first that is negative or not finite."""
    bad = _first(w, lambda part: ~(np.isfinite(part) & (part >= 0)))
    return max((float(np.max(part)) for part, _ in _pieces(w, None)), default=0.0), bad


def _first(chunk: Any, wrong: Callable[[Any], NDArray[np.bool_]]) -> tuple[int, float] | None:
    """Place and value of the first number of a chunk that is wrong."""
    start = 0
    for part, _ in _pieces(chunk, None):
        found = wrong(np.asarray(part))
        if found.any():
            place = int(np.argmax(found))
            return start + place, float(part[place])
        start += len(part)
    return None


def _pieces(z: Any, w: Any, wide: bool = False) -> Iterator[tuple[Any, Any]]:
    """A chunk in blocks that fit the caches; pages of a mapped file are let go of behind."""
    z, w = as_declared(z), None if w is None else as_declared(w, (len(z),))
    length = WIDE if wide else BLOCK
    for first in range(0, len(z), length * _TOGETHER):
        last = min(first + length * _TOGETHER, len(z))
        for start in range(first, last, length):
            part = slice(start, min(start + length, last))
            yield z[part], None if w is None else w[part]
        release(z, first, last)
        if w is not None:
            release(w, first, last)
