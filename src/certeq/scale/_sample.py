"""A sample in the chunks of a Dask array: every pass is one map-reduce, and only summaries reach the client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from certeq.risk._input import not_finite
from certeq.risk._sample import BLOCK, Combine, Floats, Kernel, Sample, picked, read_block, release
from certeq.scale._compute import Scheduler
from certeq.scale._dask import DaskArray, Delayed, HighLevelGraph, da, dask

_FAN_IN = 16  # summaries merged by one task
_DRAW = 1 << 18  # losses drawn at random, once, for every start and density that is asked for
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

    keep = 1 << 19  # 4 MB of losses around a quantile is what a pass may send to the client

    def __init__(self, z: DaskArray, weights: DaskArray | None = None, scheduler: Scheduler | None = None) -> None:
        self.z, self.weights = z, weights
        self.size, self.weighted = int(z.shape[0]), weights is not None
        self.scheduler = scheduler or Scheduler()
        self.passes = 0  # how often the data have been read
        self._drawn: tuple[NDArray[np.int64], Floats, Floats | None] | None = None
        self._prepare()

    def _prepare(self) -> None:
        arrays = (self.z,) if self.weights is None else (self.z, self.weights)
        self._sources = dask.optimize(*arrays)
        keys = [[(array.name, i) for i in range(array.numblocks[0])] for array in self._sources]
        loads = keys[1] if self.weighted else [None] * len(keys[0])
        self._chunks: list[tuple[Any, Any]] = list(zip(keys[0], loads, strict=True))

    def map(self, kernel: Kernel, every: bool = False) -> list[Any]:
        """kernel(losses, weights) of every block of every chunk, in order."""
        chunks = self._pass([(_map_chunk, z, w, kernel, None, every) for z, w in self._chunks])
        return [result for results in chunks for result in results]

    def fold(self, kernel: Kernel, combine: Combine, every: bool = False, wide: bool = False) -> Any:
        """The results of all blocks merged into one, within chunks first and then in a tree."""
        found = self._pass([(_map_chunk, z, w, kernel, combine, every) for z, w in self._chunks], combine)
        if not found:
            raise ValueError("weights sum to 0; at least one must be above 0.")
        return found[0]

    def _pass(self, tasks: list[tuple[Any, ...]], combine: Combine | None = None) -> Any:
        """Run one task per chunk: the list of their results, or with ``combine`` their merger."""
        self.passes += 1
        name = f"certeq-{uuid4().hex}"
        layer: dict[Any, Any] = {(name, 0, i): task for i, task in enumerate(tasks)}
        keys, depth = list(layer), 0
        while combine is not None and len(keys) > 1:
            depth += 1
            groups = [keys[i : i + _FAN_IN] for i in range(0, len(keys), _FAN_IN)]
            merged = {(name, depth, i): (_merge, group, combine) for i, group in enumerate(groups)}
            layer |= merged
            keys = list(merged)
        if combine is None:
            layer[(name, "all")] = (list, keys)
            keys = [(name, "all")]
        graph = HighLevelGraph.from_collections(name, layer, dependencies=self._sources)
        return self.scheduler.compute(Delayed(keys[0], graph, layer=name))

    def draw(self, count: int) -> tuple[Floats, Floats | None]:
        """The losses that `certeq.risk` would draw from the same array in memory; read once, kept from then on."""
        if self._drawn is None:
            self._drawn = self._draw_all()
        places, z, w = self._drawn
        order = np.argsort(places[: min(count, self.size)], kind="stable")
        return z[order], None if w is None else w[order]

    def complain(self, allow_low: bool) -> None:
        """Raise a ValueError that names the partition and the row in it of a loss that is not finite, if one is."""
        chunks = self._pass([(_first_bad, z, allow_low) for z, _ in self._chunks])
        for number, bad in enumerate(chunks):
            if bad is not None:
                place, found = bad
                raise not_finite(found, f"in partition {number} of {len(chunks)} (counted from 0), at its row {place}")

    def elementwise(self, kernel: Kernel) -> DaskArray:
        """kernel(losses, weights), one number per loss: a Dask array in the same chunks, computed when asked for."""
        arrays = (self.z,) if self.weights is None else (self.z, self.weights)
        return da.map_blocks(_elementwise, *arrays, kernel=kernel, dtype=np.float64, meta=np.empty(0))

    def _draw_all(self) -> tuple[NDArray[np.int64], Floats, Floats | None]:
        # A shorter draw is the beginning of a longer one; the seed is that of arrays in memory.
        places = np.random.default_rng(20260101).integers(0, self.size, size=min(_DRAW, self.size))
        order = np.argsort(places, kind="stable")
        ends = np.concatenate([[0], np.cumsum(self.z.chunks[0])]).astype(np.int64)
        cuts = np.searchsorted(places[order], ends)
        parts = [order[cuts[i] : cuts[i + 1]] for i in range(len(self._chunks))]
        here = [places[part] - ends[i] for i, part in enumerate(parts)]
        found = self._pass([(_pick, z, w, at) for (z, w), at in zip(self._chunks, here, strict=True)])
        z, w, heaviest = np.empty(places.size), np.empty(places.size) if self.weighted else None, 0.0
        for number, (part, (losses, loads, top, bad)) in enumerate(zip(parts, found, strict=True)):
            if bad is not None:
                raise ValueError(_bad_weight(bad, number, len(parts)))
            z[part], heaviest = losses, max(heaviest, top)
            if w is not None:
                w[part] = loads
        if w is not None and np.isfinite(heaviest) and heaviest > 0.0 and not 1e-100 < heaviest < 1e100:
            # Squares and sums of weights must neither overflow nor vanish.
            assert self.weights is not None
            self.weights, w = self.weights / heaviest, w / heaviest
            self._prepare()
        return places, z, w


def _pick(z: Any, w: Any, places: NDArray[np.int64]) -> tuple[Floats, Floats | None, float, tuple[int, float] | None]:
    """Losses, and weights, at some places of a chunk, the greatest weight of all and the first that is none, if any."""
    losses, loads, top, bad = picked(z, places), None, 0.0, None
    if w is not None:
        loads = picked(w, places)
        bad = _first(w, lambda part: ~(np.isfinite(part) & (part >= 0)))
        top = max((float(np.max(part)) for part, _ in _pieces(w, None)), default=0.0)
    return losses, loads, top, bad


def _bad_weight(bad: tuple[int, float], number: int, count: int) -> str:
    place, found = bad
    where = f"in partition {number} of {count} (counted from 0), at its row {place}"
    if found < 0.0 and np.isfinite(found):
        return f"weights must not be negative; found {found:g} {where}."
    spelt = "NaN" if np.isnan(found) else f"{found:+g}"
    return f"weights must be finite; found {spelt} {where}."


def _pieces(z: Any, w: Any) -> Iterator[tuple[Any, Any]]:
    """A chunk in blocks that fit the caches; pages of a mapped file are let go of behind."""
    for first in range(0, len(z), BLOCK * _TOGETHER):
        last = min(first + BLOCK * _TOGETHER, len(z))
        for start in range(first, last, BLOCK):
            part = slice(start, min(start + BLOCK, last))
            yield z[part], None if w is None else w[part]
        release(z, first, last)
        if w is not None:
            release(w, first, last)


def _map_chunk(z: Any, w: Any, kernel: Kernel, combine: Combine | None, every: bool) -> list[Any]:
    results: list[Any] = []
    for losses, loads in _pieces(z, w):
        results += read_block(kernel, losses, loads, every)
        if combine is not None and len(results) > _TOGETHER:
            results = [combine(results)]
    return [combine(results)] if combine is not None and results else results


def _merge(parts: list[list[Any]], combine: Combine) -> list[Any]:
    results = [result for part in parts for result in part]
    return [combine(results)] if results else results


def _elementwise(z: Any, w: Any = None, *, kernel: Kernel) -> Floats:
    parts = [read_block(kernel, losses, loads, True)[0] for losses, loads in _pieces(z, w)]
    return np.concatenate(parts) if parts else np.empty(0)


def _first_bad(z: Any, allow_low: bool) -> tuple[int, float] | None:
    return _first(z, lambda part: ~np.isfinite(part) & ~(allow_low & (part == -np.inf)))


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
