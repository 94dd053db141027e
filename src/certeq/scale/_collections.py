"""What may be passed as Dask losses and weights, and what is said when it is something else."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from certeq._checks import shown
from certeq._table import check_matrix
from certeq.scale._compute import DaskArray, Scheduler, da, dask, delayed
from certeq.scale._dask_table import DaskSample, DaskTable


def as_sample(x: Any, weights: Any = None, axis: Any = None) -> DaskSample:
    """Losses, and weights if any, as a sample whose passes run on Dask.

    Parameters
    ----------
    x : dask.array.Array or dask.dataframe.Series
        Losses. Chunk sizes that are not known are counted first, which is a pass over the data.
    weights : dask.array.Array, dask.dataframe.Series or array_like, optional
        Non-negative weights, one per loss; they are given the chunks of x.
    axis : int, tuple of int or None
        None takes all losses as one sample, whatever the number of dimensions, as ``x.ravel()``: chunks that divide an
        axis other than the first are merged for it. A whole number must name the only dimension there is: one sample
        for each column or row is not offered, ask for ``x[:, j]``.

    Returns
    -------
    DaskSample
        The sample, which reductions take in place of an array.

    See Also
    --------
    DaskSample
        Losses in a Dask array.
    open_npy
        A ``.npy`` file as a Dask array.

    Notes
    -----
    The passes run where Dask would run them when the sample is made: a client that is opened later does not draw them
    away, and once the client that it began with is closed they raise `ClusterLost`. Make a new sample to move it.

    ``dask.array.from_array`` copies a memory-mapped array into memory; open such a file with `certeq.scale.open_npy`.
    Not needed for the functions of ``certeq``, which take Dask collections as they are.

    Examples
    --------
    >>> import dask.array as da, numpy as np, certeq as ce
    >>> from certeq.scale import as_sample
    >>> as_sample(da.from_array(np.arange(10.0), chunks=4)).size
    10
    """
    scheduler = Scheduler()
    shape: tuple[int, ...] | None = None
    if axis is None and _dimensions(x) > 1:
        x, shape = _flat(x, scheduler)
        if _dimensions(weights) > 1:
            weights, weighed = _flat(weights, scheduler)
            if weighed != shape:
                raise ValueError(f"weights must have the shape of x, {shape}, or one weight per loss; found {weighed}.")
    others = weights if isinstance(weights, da.Array) else None
    z = as_vector("x", x, None if others is None else others.chunks, scheduler)
    if axis not in (None, 0, -1, (0,), (-1,), [0], [-1]):
        raise ValueError(f"axis must be None, 0 or -1 for one-dimensional Dask losses; found {shown(axis)}.")
    if z.shape[0] == 0:
        raise ValueError("x is empty: at least one sample is needed.")
    if weights is None:
        return DaskSample(z, scheduler=scheduler, shape=shape)
    w = as_vector("weights", weights, z.chunks, scheduler)
    if w.shape != z.shape:
        raise ValueError(f"weights must have one weight per sample, {z.shape}; found {w.shape}.")
    return DaskSample(z, w if w.chunks == z.chunks else w.rechunk(z.chunks), scheduler, shape)


def as_table(A: Any) -> DaskTable:
    """A Dask array (or DataFrame), scenarios x assets, as a table; sizes of chunks are counted where not known."""
    if hasattr(A, "to_dask_array"):
        A = in_partitions(A)
    if not isinstance(A, da.Array):
        raise TypeError(f"A must be a two-dimensional Dask array; found a Dask {type(A).__name__}.")
    if A.ndim != 2:
        raise ValueError(f"A must be a matrix, one row per sample; found a Dask array of {A.ndim} dimensions.")
    if isinstance(A._meta, np.ma.MaskedArray):
        raise TypeError(
            "A is a masked Dask array; fill what is masked, dask.array.ma.filled(A, 0), or drop those scenarios first."
        )
    if any(math.isnan(size) for size in A.chunks[1]):
        raise ValueError("A must have a known number of columns; call A.compute_chunk_sizes() first.")
    if len(A.chunks[1]) > 1:
        if any(math.isnan(size) for size in A.chunks[0]):
            raise ValueError(
                "A is chunked along its columns and its row chunks have unknown sizes; call A.compute_chunk_sizes(), "
                "or chunk it by rows only."
            )
        A = A.rechunk({1: -1})
    A = counted(A, Scheduler())
    check_matrix(A.shape, A.dtype)
    return DaskTable(A)


def _dimensions(x: Any) -> int:
    """How many dimensions an array has, in memory or not; 1 for columns, and for what is refused later."""
    if type(x).__module__.partition(".")[0] == "dask" and not isinstance(x, da.Array):
        return 1
    return x.ndim if isinstance(x, da.Array) else np.ndim(x)


def _flat(x: Any, scheduler: Scheduler) -> tuple[Any, tuple[int, ...]]:
    """All entries of an array as a vector, and the shape it had."""
    array = counted(x, scheduler) if isinstance(x, da.Array) else np.asarray(x)
    return array.ravel(), array.shape


def as_vector(name: str, x: Any, chunks: Any = None, scheduler: Scheduler | None = None) -> DaskArray:
    """A one-dimensional Dask array of numbers with known chunks; an array in memory is cut into ``chunks``."""
    kind = type(x).__module__
    if kind.startswith("dask.dataframe"):
        array = _of_column(name, x)
    elif isinstance(x, da.Array):
        array = x
    elif kind.partition(".")[0] == "dask":
        raise TypeError(
            f"{name} must be a Dask array or a column of a Dask DataFrame; found a Dask {type(x).__name__}."
        )
    else:
        found = np.asarray(x)
        fits = found.ndim == 1 and chunks is not None and sum(chunks[0]) == found.size
        array = da.from_array(found, chunks=chunks if fits else "auto")
    if array.ndim != 1:
        column = f"take one column, {name}[:, j], or " if array.ndim == 2 else ""
        raise ValueError(
            f"{name} must be one-dimensional where it is a Dask array; found {array.ndim} dimensions: {column}pass "
            f"{name}.ravel() for all of them."
        )
    if isinstance(array._meta, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked Dask array; {_unmasked(name)}")
    if array.dtype.kind == "c":
        raise TypeError(f"{name} must be real; found complex numbers ({array.dtype}).")
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} must hold numbers; found dtype {array.dtype}. Convert it first, for instance {name}.astype(float)."
        )
    return counted(array, scheduler or Scheduler())


def _unmasked(name: str) -> str:
    if name == "weights":
        return "a masked weight is a weight of 0: pass dask.array.ma.filled(weights, 0)."
    return (
        f"fill the masked entries and give them weight 0: dask.array.ma.filled({name}, 0) with "
        f"weights=~dask.array.ma.getmaskarray({name})."
    )


def _of_column(name: str, x: Any) -> DaskArray:
    if x.ndim == 0:
        raise TypeError(f"{name} must be a Dask array or a column of a Dask DataFrame; found a single number.")
    if x.ndim != 1:
        columns = ", ".join(repr(column) for column in list(x.columns)[:8])
        raise TypeError(
            f"{name} must be a column; found a Dask {type(x).__name__}. Pick one, {name}[...], of {columns}."
        )
    dtype = x.dtype
    if not isinstance(dtype, np.dtype) and getattr(dtype, "kind", "O") in "fiub":
        # Pandas' own nullable numbers; a missing one becomes NaN, which is refused with its index.
        x = x.astype("float64")
    elif getattr(dtype, "kind", "O") not in "fiubc":
        raise TypeError(f"{name} must hold numbers; found a column of dtype {dtype}. Convert it, {name}.astype(float).")
    return in_partitions(x)


def in_partitions(frame: Any) -> DaskArray:
    """The array behind a column or a table, in the caller's partitions.

    Left alone, Dask reads several small files at once, and a bad number would be named by a partition nobody made.
    """
    with dask.config.set({"optimization.tune.active": False}):
        return frame.to_dask_array()


def counted(array: DaskArray, scheduler: Scheduler) -> DaskArray:
    """The array with the sizes of its chunks along the first axis filled in; the caller's own stays as it is."""
    if not any(math.isnan(size) for size in array.chunks[0]):
        return array
    blocks = array.to_delayed().reshape(array.numblocks[0], -1)[:, 0]
    sizes = scheduler.compute(delayed([delayed(len)(block) for block in blocks]))
    return da.Array(array.dask, array.name, (tuple(sizes), *array.chunks[1:]), meta=array._meta)
