"""A .npy file as a Dask array whose chunks are mapped, not read, where they are needed."""

from __future__ import annotations

import os
from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import shown
from certeq.scale._compute import DaskArray, da, tokenize

CHUNK = 2_000_000  # losses per chunk: 16 MB in double precision


def open_npy(path: str | PathLike[str], chunk: int = CHUNK) -> DaskArray:
    """The rows of a ``.npy`` file as a Dask array of ``chunk`` rows per chunk.

    ``dask.array.from_array`` copies a memory-mapped array into memory before it cuts it up; here each task maps the
    file itself, so that the memory needed is that of a few blocks. On a cluster every worker must see the same path.
    Not for a file that fits in memory or on one machine's disk alone: ``np.load(path, mmap_mode="r")`` is faster there.

    Parameters
    ----------
    path : str or path-like
        The file.
    chunk : int
        Rows per chunk, at least 1.

    Returns
    -------
    dask.array.Array
        The rows, read when they are needed.

    See Also
    --------
    as_sample
        Losses in Dask as a sample.
    certeq.oce
        OCE of losses, without its error.

    Examples
    --------
    >>> import tempfile, numpy as np, certeq as ce
    >>> from certeq.scale import open_npy
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/losses.npy", np.arange(1.0, 101.0))
    ...     float(ce.oce(open_npy(f"{folder}/losses.npy", chunk=30), ce.CVaR(0.1)))
    95.5
    """
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1 row; found {shown(chunk)}.")
    name = fspath(path)
    array = np.load(name, mmap_mode="r")
    if array.ndim == 0:
        raise ValueError(f"{name} must hold an array of samples; found a single number.")
    rows = array.shape[0]
    sizes = tuple(min(chunk, rows - start) for start in range(0, rows, chunk)) or (0,)
    chunks = (sizes, *((size,) for size in array.shape[1:]))
    meta = np.empty((0,) * array.ndim, dtype=array.dtype)
    layer = f"open_npy-{tokenize(name, os.stat(name).st_mtime_ns, chunks)}"
    rest = (0,) * (array.ndim - 1)
    tasks = {(layer, i, *rest): (_mapped, name, i * chunk, size) for i, size in enumerate(sizes)}
    return da.Array(tasks, layer, chunks, meta=meta)


def _mapped(path: str, first: int, size: int) -> NDArray[Any]:
    rows: NDArray[Any] = np.load(path, mmap_mode="r")[first : first + size]
    return rows
