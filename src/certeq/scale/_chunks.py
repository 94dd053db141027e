"""What a task does with its chunk of a sample: kernels block by block, losses at some places, the first bad number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.risk._sample import BLOCK, WIDE, Combine, Floats, Kernel, picked, read_block, release

_TOGETHER = 16  # blocks whose results are merged, and whose pages are released, together


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
    """What neighbouring tasks returned, as one."""
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
