"""The one place where NumPy arrays and torch tensors differ.

A projection is written once, in the few operations below, and runs on either. All act on the last axis. PyTorch is
imported only when a tensor comes in, so the NumPy path never pays for it.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Backend", "FloatArray", "HostSolver", "NumPyBackend", "backend_of", "is_tensor", "to_numpy"]

FloatArray = NDArray[np.float64]
# Points (n, d) to their values (n, d) and to a function that computes the Jacobians (n, d, d) if they are wanted.
HostSolver = Callable[[FloatArray], tuple[FloatArray, Callable[[], FloatArray]]]


class Backend(ABC):
    """The operations a projection needs; `Any` stands for the backend's own array type."""

    @abstractmethod
    def constant(self, value: ArrayLike, like: Any) -> Any:
        """Return `value` as float64 beside `like` (same device), carrying no gradient."""

    @abstractmethod
    def detach(self, x: Any) -> Any:
        """Return the values of `x` without their gradient."""

    @abstractmethod
    def attach(self, value: Any, x: Any, tangent: Callable[[Any], Any]) -> Any:
        """Return `value`, whose derivative with respect to `x` is the linear map `tangent`."""

    @abstractmethod
    def on_host(self, solve: HostSolver, x: Any) -> Any:
        """Return the values of a solver written for NumPy alone, with the Jacobians it offers attached."""

    @abstractmethod
    def sort(self, x: Any) -> Any:
        """Sort upwards."""

    @abstractmethod
    def cumsum(self, x: Any) -> Any:
        """Sum cumulatively."""

    @abstractmethod
    def sum(self, x: Any) -> Any:
        """Sum (or count, for a mask), keeping the axis, in float64."""

    @abstractmethod
    def max(self, x: Any) -> Any:
        """Return the largest entry, keeping the axis."""

    @abstractmethod
    def take(self, x: Any, index: Any) -> Any:
        """Return `x` at one index per row."""

    @abstractmethod
    def floats(self, mask: Any) -> Any:
        """Return 1.0 where the mask holds and 0.0 elsewhere."""

    @abstractmethod
    def integers(self, x: Any) -> Any:
        """Return whole numbers held as floats as an index."""

    @abstractmethod
    def where(self, mask: Any, x: Any, y: Any) -> Any:
        """Choose entrywise."""

    @abstractmethod
    def clip(self, x: Any, lower: Any, upper: Any) -> Any:
        """Return min(max(x, lower), upper)."""

    @abstractmethod
    def sqrt(self, x: Any) -> Any:
        """Return the square root."""

    @abstractmethod
    def concatenate(self, parts: Sequence[Any]) -> Any:
        """Join along the last axis."""


class NumPyBackend(Backend):
    """NumPy: nothing to differentiate, so `attach` hands back the value."""

    def constant(self, value: ArrayLike, like: Any) -> Any:
        return np.asarray(value, dtype=np.float64)

    def detach(self, x: Any) -> Any:
        return x

    def attach(self, value: Any, x: Any, tangent: Callable[[Any], Any]) -> Any:
        return value

    def on_host(self, solve: HostSolver, x: Any) -> Any:
        return solve(x.reshape(-1, x.shape[-1]))[0].reshape(x.shape)

    def sort(self, x: Any) -> Any:
        return np.sort(x, axis=-1)

    def cumsum(self, x: Any) -> Any:
        return np.cumsum(x, axis=-1)

    def sum(self, x: Any) -> Any:
        # np.add.reduce sums pairwise along the last axis of a contiguous array, which is what keeps a million
        # weights to a few ulps of their budget.
        return np.add.reduce(x, axis=-1, keepdims=True, dtype=np.float64)

    def max(self, x: Any) -> Any:
        return np.maximum.reduce(x, axis=-1, keepdims=True)

    def take(self, x: Any, index: Any) -> Any:
        return x[index] if x.ndim == 1 else np.take_along_axis(x, index, axis=-1)

    def floats(self, mask: Any) -> Any:
        return mask.astype(np.float64)

    def integers(self, x: Any) -> Any:
        return x.astype(np.intp)

    def where(self, mask: Any, x: Any, y: Any) -> Any:
        return np.where(mask, x, y)

    def clip(self, x: Any, lower: Any, upper: Any) -> Any:
        return np.minimum(np.maximum(x, lower), upper)

    def sqrt(self, x: Any) -> Any:
        return np.sqrt(x)

    def concatenate(self, parts: Sequence[Any]) -> Any:
        return np.concatenate(parts, axis=-1)


_NUMPY = NumPyBackend()


def is_tensor(x: object) -> bool:
    """Say whether `x` is a torch tensor, without importing torch: nobody holds a tensor before torch is loaded."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def backend_of(x: object) -> Backend:
    """Return the backend that owns `x`."""
    if type(x) is np.ndarray or not is_tensor(x):
        return _NUMPY
    from ._torch import TORCH

    return TORCH


def to_numpy(x: Any) -> Any:
    """Return a tensor's values as an array; anything else unchanged."""
    return x.detach().cpu().numpy() if is_tensor(x) else x
