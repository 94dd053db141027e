"""What samples may be: one array, or several arrays that share their first axis. Each refusal says what would do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def as_floats(name: str, value: Any, ndim: int) -> Floats:
    """Return value as a finite float64 array of ``ndim`` dimensions, copied only where it must be."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of numbers; NumPy says: {error}.") from None
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers; found dtype {array.dtype}.")
    if array.ndim != ndim:
        wanted = "a vector" if ndim == 1 else "a matrix, one row per sample"
        raise ValueError(f"{name} must be {wanted}; found an array of shape {array.shape}.")
    if array.size == 0:
        raise ValueError(f"{name} is empty (shape {array.shape}); at least one sample and one column are needed.")
    floats: Floats = array.astype(np.float64, copy=False)
    refuse_not_finite(name, floats)
    return floats


def refuse_not_finite(name: str, array: Floats) -> None:
    """Name the first entry that is NaN or infinite."""
    # A sum is finite only if every entry is, so one reduction settles the usual case without a mask of the same size.
    with np.errstate(over="ignore", invalid="ignore"):
        settled = np.isfinite(array.sum())
    if settled:
        return
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = ", ".join(str(i) for i in bad[0])
        raise ValueError(f"{name} must be finite; found {array[tuple(bad[0])]} at [{where}]. Drop or fill it first.")


def count_samples(samples: Any, name: str = "samples") -> int:
    """Return how many samples there are: the common length of the first axis.

    >>> count_samples((np.zeros((3, 2)), np.zeros(3)))
    3
    """
    parts = samples if isinstance(samples, tuple) else (samples,)
    lengths = []
    for part in parts:
        shape = getattr(part, "shape", None)
        if shape is None:
            raise TypeError(f"{name} must be an array or a tuple of arrays; found {type(part).__name__}.")
        if len(shape) == 0:
            raise ValueError(f"{name} must have one entry per sample on its first axis; found a single number.")
        lengths.append(int(shape[0]))
    if not lengths:
        raise ValueError(f"{name} is an empty tuple; pass at least one array.")
    if len(set(lengths)) > 1:
        raise ValueError(f"{name} must share the length of their first axis; found {', '.join(map(str, lengths))}.")
    return lengths[0]


def refuse_width(name: str, matrix: Floats, theta: Floats) -> None:
    """Refuse a matrix whose rows are not as long as theta."""
    if matrix.shape[1] != theta.size:
        raise ValueError(
            f"{name} must have {theta.size} columns, one per entry of theta; found shape {matrix.shape}. "
            "A sampler or an iterator passed as samples must give rows as long as theta0."
        )


def take_samples(samples: Any, index: Any) -> Any:
    """Return the samples at ``index`` (whole numbers or a slice), of every array where there are several."""
    if isinstance(samples, tuple):
        return tuple(part[index] for part in samples)
    return samples[index]


def join_samples(chunks: list[Any]) -> Any:
    """Return chunks of samples as one, in order."""
    if len(chunks) == 1:
        return chunks[0]
    shapes = [_row_shapes(chunk) for chunk in chunks]
    for shape in shapes:
        if shape != shapes[0]:
            raise ValueError(f"chunks of the iterator must have rows of one shape; found {shapes[0]} and then {shape}.")
    if isinstance(chunks[0], tuple):
        return tuple(np.concatenate([np.asarray(chunk[i]) for chunk in chunks]) for i in range(len(chunks[0])))
    return np.concatenate([np.asarray(chunk) for chunk in chunks])


def _row_shapes(chunk: Any) -> Any:
    if isinstance(chunk, tuple):
        return tuple(tuple(part.shape[1:]) for part in chunk)
    return tuple(chunk.shape[1:])
