"""What may be passed in: real, finite, of the right shape. Each refusal names the argument, the find and the cure."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from certeq._backend import FloatArray, is_tensor, to_numpy

__all__ = ["bounds_argument", "dimension_argument", "points_argument", "scalar_argument", "vector_argument"]


def _real_array(value: Any, name: str) -> FloatArray:
    """Return a float64 array, refusing what would lose meaning on the way."""
    try:
        array = np.asarray(to_numpy(value))
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of real numbers: {error}") from None
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}; pass floats")
    return array.astype(np.float64, copy=False)


def _refuse_not_finite(array: FloatArray, name: str) -> None:
    # One reduction decides the usual case: a sum is finite only if every entry is. The slow look follows only when
    # it is not, which also covers a sum of finite entries that overflowed.
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduce(array, axis=None)
    if not np.isfinite(total):
        bad = np.argwhere(~np.isfinite(array))
        if bad.size:
            where = ", ".join(map(str, bad[0]))
            raise ValueError(f"{name} must be finite, got {array[tuple(bad[0])]} at [{where}]; drop or replace it")


def points_argument(x: Any, name: str = "x") -> Any:
    """Return points (..., d) as float64 of their own backend, checked finite."""
    if is_tensor(x):
        return _tensor_points(x, name)
    array = _real_array(x, name)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., d) with d >= 1, got shape {array.shape}")
    _refuse_not_finite(array, name)
    return array


def _tensor_points(x: Any, name: str) -> Any:
    import torch

    if x.is_complex() or x.dtype == torch.bool:
        raise TypeError(f"{name} must hold real numbers, got dtype {x.dtype}; pass floats")
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., d) with d >= 1, got shape {tuple(x.shape)}")
    try:
        finite = bool(torch.isfinite(x.detach()).all())
    except RuntimeError:
        # Inside vmap a value cannot be looked at. NaN and infinity then come out as NaN, through the attached
        # derivative term x - detach(x).
        finite = True
    if not finite:
        _refuse_not_finite(np.asarray(x.detach().double().cpu().numpy()), name)
    return x.to(torch.float64)


def vector_argument(x: Any, name: str, d: int | None = None) -> FloatArray:
    """Return one finite vector (d,) as a float64 array."""
    array = _real_array(x, name)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be one vector of shape (d,) with d >= 1, got shape {array.shape}")
    if d is not None and array.size != d:
        raise ValueError(f"{name} must have {d} entries, got {array.size}")
    _refuse_not_finite(array, name)
    return array


def scalar_argument(value: Any, name: str, *, minimum: float | None = None) -> float:
    """Return one finite real number, at least `minimum`."""
    array = _real_array(value, name)
    if array.ndim != 0:
        raise ValueError(f"{name} must be one number, got an array of shape {array.shape}")
    number = float(array)
    if not np.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    if minimum is not None and number < minimum:
        raise ValueError(f"{name} must be at least {minimum:g}, got {number:g}")
    return number


def bounds_argument(value: ArrayLike, name: str, *, infinite: float | None = None) -> float | FloatArray:
    """Return a number, or a private read-only vector; `infinite` is the one infinity allowed (-inf or inf)."""
    array = _real_array(value, name)
    if array.ndim > 1 or array.size == 0:
        raise ValueError(f"{name} must be a number or a vector of shape (d,), got shape {array.shape}")
    bad = ~np.isfinite(array) if infinite is None else ~(np.isfinite(array) | (array == infinite))
    if bad.any():
        index = int(np.argmax(bad))
        allowed = "finite" if infinite is None else f"finite or {infinite}"
        raise ValueError(f"{name} must be {allowed}, got {array.flat[index]} at index {index}")
    if array.ndim == 0:
        return float(array)
    copy = np.array(array, dtype=np.float64)
    copy.flags.writeable = False
    return copy


def dimension_argument(d: Any) -> int:
    """Return a dimension, a whole number of at least 1."""
    if isinstance(d, bool) or not isinstance(d, (int, np.integer)):
        raise TypeError(f"d must be a whole number, got {d!r}")
    if d < 1:
        raise ValueError(f"d must be at least 1, got {d}")
    return int(d)
