"""A long sample, read in blocks: what the solver asks of wherever the losses live.

`Sample` is the whole contract. An array or memory-mapped file is `ArraySample` here; a cluster is another
(`certeq.scale`). Kernels may run in other processes, so they are pure: what they know they were given, what they find
they return, and it is small.
"""

from __future__ import annotations

import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.risk._input import complain_not_finite
from certeq.risk._threads import run_all

Floats = NDArray[np.float64]
# (losses, weights or None) of one block -> partial results; see Sample.fold and Sample.total
Kernel = Callable[[Floats, Floats | None], Any]
# Several partial results -> one of the same kind; associative, so that neighbors can be merged wherever they are
Combine = Callable[[list[Any]], Any]

BLOCK = 64_000  # losses per block: long enough for threads to run undisturbed, short enough for the caches
# Per block of a kernel with few temporaries: to hand over the interpreter lock costs more than they do.
WIDE = 3 * BLOCK
LONG = 1 << 16  # a row at least this long is read in blocks rather than copied
_SMALL_FILE = 1 << 25  # bytes that may be resident for a while
_WAVE = 64  # tasks whose results are merged before the next are begun: bounds what waits in memory


def _keep_pages() -> None:
    """Teach the C library's allocator to keep the memory of temporaries instead of handing it back each time.

    glibc raises its thresholds to the largest block it has seen freed; without this, every temporary of a block is
    mapped, zeroed and unmapped again, which costs several times the arithmetic. Nothing is touched, so it is free.
    """
    np.empty(3 << 20)


_keep_pages()


class Sample(ABC):
    """Losses with optional weights, too many to copy."""

    size: int
    weighted: bool
    keep = 1 << 22  # losses a pass may bring back at most

    @abstractmethod
    def map(self, kernel: Kernel, every: bool = False) -> list[Any]:
        """kernel(losses, weights) of every block, in order; losses of weight 0 are left out unless ``every``."""

    def fold(self, kernel: Kernel, combine: Combine, every: bool = False, wide: bool = False) -> Any:
        """The results of `map` merged into one by ``combine``, which sees neighbors in order and at least one.

        A kernel that makes two temporaries at most may ask for ``wide`` blocks.
        """
        return combine(self.map(kernel, every))

    @abstractmethod
    def draw(self, count: int) -> tuple[Floats, Floats | None]:
        """About ``count`` losses (and their weights) spread over the sample, the same ones every time."""

    def in_order(self, visit: Kernel) -> None:
        """Call visit(losses, weights) on every block, one after the other, losses of weight 0 included."""
        raise TypeError(f"{type(self).__name__} cannot be walked through in order.")

    def total(self, kernel: Kernel) -> Floats:
        """The sum over blocks of what the kernel returns (a tuple of numbers), added without rounding."""
        return np.array(self.fold(kernel, add_columns))

    @abstractmethod
    def complain(self, allow_low: bool) -> None:
        """Raise a ValueError that says which loss is NaN or infinite, if any is; ``allow_low`` lets -inf pass."""

    def elementwise(self, kernel: Kernel) -> Any:
        """kernel(losses, weights), one number per loss, as an array that lives where the losses do."""
        raise TypeError(f"{type(self).__name__} has no array of its own kind.")


def add_columns(parts: list[tuple[float, ...]]) -> tuple[float, ...]:
    """Sums of the first, second, ... numbers, each rounded once."""
    return tuple(_rounded_once(column) for column in zip(*parts, strict=True))


def _rounded_once(numbers: tuple[float, ...]) -> float:
    try:
        return math.fsum(numbers)
    except (ValueError, OverflowError):  # infinities of both signs, or more than a float holds on the way
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.sum(numbers))


def weighted_sum(part: Floats, w: Floats | None) -> float:
    """Sum of w * part, or of the part alone."""
    # Not np.dot: a threaded BLAS inside our own threads would fight for the same cores.
    return float(part.sum()) if w is None else float((w * part).sum())


def centered(z: Floats, center: float) -> Floats:
    """z - center, without a copy where there is nothing to subtract."""
    return z if center == 0.0 else z - center


def shifted(z: Floats, center: float, s: float) -> Floats:
    """(z - center) - s, in two roundings only where the offset of the losses would cost digits."""
    if center == 0.0:
        return z - s
    x = z - center
    x -= s
    return x


def read_block(kernel: Kernel, z: NDArray[Any], w: NDArray[Any] | None, every: bool) -> list[Any]:
    """[kernel(losses, weights)] of one block, or nothing where no loss of it carries weight."""
    z, w = _floats(z), None if w is None else _floats(w)
    if w is not None and not every:
        held = w > 0
        if not held.any():
            return []
        # Such a loss may be so large that u overflows, and 0 * inf is not 0.
        z, w = (z, w) if held.all() else (z[held], w[held])
    return [kernel(z, w)]


class ArraySample(Sample):
    """A one-dimensional array of any real dtype, possibly on disk, read in blocks on all cores."""

    def __init__(self, z: NDArray[Any], weights: NDArray[Any] | None = None) -> None:
        self.z, self.weights = z, weights
        self.size, self.weighted = int(z.shape[0]), weights is not None

    def map(self, kernel: Kernel, every: bool = False) -> list[Any]:
        """kernel(losses, weights) of every block, in order; losses of weight 0 are left out unless ``every``."""
        starts, task, parallel = self._tasks(kernel, every)
        found = run_all(task, starts, parallel)
        self._release_small()
        return [result for results in found for result in results]

    def fold(self, kernel: Kernel, combine: Combine, every: bool = False, wide: bool = False) -> Any:
        """The results of `map` merged into one, a wave of tasks at a time."""
        starts, task, parallel = self._tasks(kernel, every, wide)
        merged: list[Any] = []

        def of_task(first: int) -> list[Any]:
            found = task(first)
            return [combine(found)] if len(found) > 1 else found

        for first in range(0, len(starts), _WAVE):
            wave = run_all(of_task, starts[first : first + _WAVE], parallel)
            merged = [combine(merged + [result for results in wave for result in results])]
        self._release_small()
        return merged[0]

    def _tasks(self, kernel: Kernel, every: bool, wide: bool = False) -> tuple[range, Callable[[int], list[Any]], bool]:
        # Whatever the threads: what is merged with what decides the last bits.
        length = WIDE if wide else BLOCK
        blocks = -(-self.size // length)
        per_task = max(1, min(16, blocks // 32))

        def task(first: int) -> list[Any]:
            results: list[Any] = []
            for block in range(first, min(first + per_task, blocks)):
                part = slice(block * length, (block + 1) * length)
                results += read_block(kernel, self.z[part], None if self.weights is None else self.weights[part], every)
            span = (first * length, min((first + per_task) * length, self.size))
            for array in self._arrays():
                if array.nbytes > _SMALL_FILE:
                    release(array, *span)
            return results

        return range(0, blocks, per_task), task, blocks >= 4

    def _arrays(self) -> list[NDArray[Any]]:
        return [self.z] if self.weights is None else [self.z, self.weights]

    def _release_small(self) -> None:
        """Small files are released once a pass: each time, the other threads are interrupted."""
        for array in self._arrays():
            if array.nbytes <= _SMALL_FILE:
                release(array, 0, self.size)

    def complain(self, allow_low: bool) -> None:
        """Raise a ValueError that says which loss is NaN or infinite, if any is."""
        complain_not_finite(self.z[None, :], allow_low)

    def in_order(self, visit: Kernel) -> None:
        """Call visit(losses, weights) on every block, one after the other, losses of weight 0 included."""
        for start in range(0, self.size, BLOCK):
            part = slice(start, start + BLOCK)
            visit(_floats(self.z[part]), None if self.weights is None else _floats(self.weights[part]))
            for array in self._arrays():
                release(array, start, min(start + BLOCK, self.size))

    def draw(self, count: int) -> tuple[Floats, Floats | None]:
        """Losses at random places, from a fixed seed: a pattern in the order must not bias them."""
        places = np.random.default_rng(20260101).integers(0, self.size, size=min(count, self.size))
        places.sort()  # memory and disks are read forwards
        return picked(self.z, places), None if self.weights is None else picked(self.weights, places)


def picked(array: NDArray[Any], places: NDArray[np.int64]) -> Floats:
    """array[places] for rising places; of a mapped file no more than a few pages at a time are ever resident.

    To touch one number may map some hundred KB around it, so that a thousand of them are as much as 250 MB.
    """
    if array.nbytes <= _SMALL_FILE:
        return np.asarray(array[places], dtype=np.float64)
    found = np.empty(places.size)
    for start in range(0, places.size, 256):
        part = places[start : start + 256]
        found[start : start + 256] = array[part]
        release(array, int(part[0]), int(part[-1]) + 1)
    return found


def _floats(block: NDArray[Any]) -> Floats:
    return np.ascontiguousarray(block, dtype=np.float64)


def release(array: NDArray[Any], start: int, stop: int) -> None:
    """Let go of the pages of a memory-mapped stretch, so that resident memory stays flat however long the file.

    Only for shared mappings: a copy-on-write mapping would lose what was written to it.
    """
    file: Any = array
    while file is not None and not hasattr(file, "_mmap"):  # a plain view of a mapped file, as np.asarray makes it
        file = getattr(file, "base", None)
    source = getattr(file, "_mmap", None)
    if source is None or getattr(file, "mode", "c") == "c" or not hasattr(source, "madvise"):
        return
    if array.ndim != 1 or array.size == 0 or array.strides[0] <= 0:
        return
    origin = np.frombuffer(source, dtype=np.uint8).__array_interface__["data"][0]
    begin = array.__array_interface__["data"][0] - origin
    page = mmap.PAGESIZE
    first = -(-(begin + start * array.strides[0]) // page) * page
    last = (begin + stop * array.strides[0]) // page * page
    if last > first:
        source.madvise(mmap.MADV_DONTNEED, first, last - first)
