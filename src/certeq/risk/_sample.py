"""A long sample, read in blocks: what the solver asks of wherever the losses live.

`Sample` is the whole contract. An array or memory-mapped file is `ArraySample` here; a cluster can be another.
"""

from __future__ import annotations

import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.risk._threads import run_all, thread_count

Floats = NDArray[np.float64]
# (losses, weights or None) of one block -> partial results; see Sample.total and Sample.collect
Kernel = Callable[[Floats, Floats | None], Any]

BLOCK = 64_000  # losses per block: long enough for threads to run undisturbed, short enough for the caches
LONG = 1 << 16  # a row at least this long is read in blocks rather than copied


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

    @abstractmethod
    def map(self, kernel: Kernel, every: bool = False) -> list[Any]:
        """kernel(losses, weights) of every block, in order; losses of weight 0 are left out unless ``every``."""

    @abstractmethod
    def draw(self, count: int) -> tuple[Floats, Floats | None]:
        """About ``count`` losses (and their weights) spread over the sample, the same ones every time."""

    def in_order(self, visit: Kernel) -> None:
        """Call visit(losses, weights) on every block, one after the other, losses of weight 0 included."""
        raise TypeError(f"{type(self).__name__} cannot be walked through in order.")

    def total(self, kernel: Kernel) -> Floats:
        """The sum over blocks of what the kernel returns (a tuple of numbers), added without rounding."""
        parts = self.map(kernel)
        return np.array([math.fsum(column) for column in zip(*parts, strict=True)])


class ArraySample(Sample):
    """A one-dimensional array of any real dtype, possibly on disk, read in blocks on all cores."""

    def __init__(self, z: NDArray[Any], weights: NDArray[Any] | None = None) -> None:
        self.z, self.weights = z, weights
        self.size, self.weighted = int(z.shape[0]), weights is not None

    def map(self, kernel: Kernel, every: bool = False) -> list[Any]:
        """kernel(losses, weights) of every block, in order; losses of weight 0 are left out unless ``every``."""
        blocks = -(-self.size // BLOCK)
        per_task = max(1, min(16, blocks // (16 * thread_count())))
        starts = range(0, blocks, per_task)

        def task(first: int) -> list[Any]:
            results = []
            for block in range(first, min(first + per_task, blocks)):
                part = slice(block * BLOCK, (block + 1) * BLOCK)
                z, w = _floats(self.z[part]), None if self.weights is None else _floats(self.weights[part])
                if w is not None and not every:
                    held = w > 0
                    if not held.any():
                        continue
                    # Such a loss may be so large that u overflows, and 0 * inf is not 0.
                    z, w = (z, w) if held.all() else (z[held], w[held])
                results.append(kernel(z, w))
            span = (first * BLOCK, min((first + per_task) * BLOCK, self.size))
            _release(self.z, *span)
            if self.weights is not None:
                _release(self.weights, *span)
            return results

        return [result for results in run_all(task, starts, blocks >= 4) for result in results]

    def in_order(self, visit: Kernel) -> None:
        """Call visit(losses, weights) on every block, one after the other, losses of weight 0 included."""
        for start in range(0, self.size, BLOCK):
            part = slice(start, start + BLOCK)
            visit(_floats(self.z[part]), None if self.weights is None else _floats(self.weights[part]))
            _release(self.z, start, min(start + BLOCK, self.size))

    def draw(self, count: int) -> tuple[Floats, Floats | None]:
        """Losses at random places, from a fixed seed: a pattern in the order must not bias them."""
        places = np.random.default_rng(20260101).integers(0, self.size, size=min(count, self.size))
        places.sort()  # memory and disks are read forwards
        w = None if self.weights is None else np.array(self.weights[places], dtype=np.float64)
        drawn = np.array(self.z[places], dtype=np.float64)
        _release(self.z, 0, self.size)
        return drawn, w


def _floats(block: NDArray[Any]) -> Floats:
    return np.ascontiguousarray(block, dtype=np.float64)


def _release(array: NDArray[Any], start: int, stop: int) -> None:
    """Let go of the pages of a memory-mapped stretch, so that resident memory stays flat however long the file.

    Only for shared mappings: a copy-on-write mapping would lose what was written to it.
    """
    source = getattr(array, "_mmap", None)
    if source is None or getattr(array, "mode", "c") == "c" or not hasattr(source, "madvise"):
        return
    if array.ndim != 1 or array.strides[0] <= 0:
        return
    origin = np.frombuffer(source, dtype=np.uint8).__array_interface__["data"][0]
    begin = array.__array_interface__["data"][0] - origin
    page = mmap.PAGESIZE
    first = -(-(begin + start * array.strides[0]) // page) * page
    last = (begin + stop * array.strides[0]) // page * page
    if last > first:
        source.madvise(mmap.MADV_DONTNEED, first, last - first)
