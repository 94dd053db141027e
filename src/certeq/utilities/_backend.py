"""The few elementwise functions the formulas need, once for NumPy and once for torch.

A formula of a utility is written against ``xp`` and never asks which library it is running on. Only functions
whose gradients are right at the awkward points are offered: ``softplus`` and ``relu`` are here because composing
them from ``abs`` and ``maximum`` gives torch a wrong derivative at 0.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import expit

Array = Any  # a NumPy array or a torch tensor: the formulas accept both


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


NUMPY = SimpleNamespace(
    exp=np.exp,
    expm1=np.expm1,
    log=np.log,
    log1p=np.log1p,
    sqrt=np.sqrt,
    atan=np.arctan,
    abs=np.abs,
    where=np.where,
    relu=lambda x: np.maximum(x, 0),
    clip=lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi),
    sigmoid=expit,
    softplus=_softplus,
    indicator=lambda mask, like: mask.astype(like.dtype) if like.ndim else like.dtype.type(mask),
    zeros_like=np.zeros_like,
    ones_like=np.ones_like,
)


def _torch_namespace() -> SimpleNamespace:
    import torch

    return SimpleNamespace(
        exp=torch.exp,
        expm1=torch.expm1,
        log=torch.log,
        log1p=torch.log1p,
        sqrt=torch.sqrt,
        atan=torch.atan,
        abs=torch.abs,
        where=torch.where,
        relu=torch.relu,
        clip=torch.clamp,
        sigmoid=torch.sigmoid,
        # torch's softplus switches to x above a threshold of 20, an error of 2e-9 in float64; above 40 there is none.
        # (logaddexp would do for the value, but its second derivative is NaN far to the left.)
        softplus=lambda x: torch.nn.functional.softplus(x, threshold=40.0),
        indicator=lambda mask, like: mask.to(like.dtype),
        zeros_like=torch.zeros_like,
        ones_like=torch.ones_like,
    )


_torch: list[SimpleNamespace] = []


def is_tensor(x: object) -> bool:
    """Whether x is a torch tensor, without importing torch to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_compiling() -> bool:
    """Whether `torch.compile` is tracing this very code."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def as_float(x: Any) -> float:
    """A parameter as a plain number; one that is being learned, a tensor, gives its value without its gradient."""
    return float(x.detach()) if is_tensor(x) else float(x)


def torch_backend() -> SimpleNamespace:
    """The torch twin of `NUMPY`, made on first use."""
    if not _torch:
        _torch.append(_torch_namespace())
    return _torch[0]


def backend(x: Array) -> tuple[SimpleNamespace, Array]:
    """The namespace for x, and x as a floating array of that library."""
    if is_tensor(x):
        return torch_backend(), x
    x = np.asarray(x)
    if x.dtype.kind in "iub":
        x = x.astype(np.float64)
    elif x.dtype.kind != "f":
        raise TypeError(f"x must hold real numbers; found an array of dtype {x.dtype}.")
    return NUMPY, x
