"""NumPy and torch behind one namespace ``xp``: the functions that formulas and projections are written in.

A formula of a utility or a projection onto a feasible set is written once, against ``xp``, and never asks which library
it is running on. Only functions whose gradients are right at the awkward points are offered: ``softplus`` and ``relu``
are here because composing them from ``abs`` and ``maximum`` gives torch a wrong derivative at 0. PyTorch is imported
when a tensor comes in, not before.

What acts on an axis acts on the last one: ``sort`` upwards, ``cumsum``, ``concatenate``; ``sum`` (in float64; it counts
a mask) and ``max`` keep the axis, and ``take(x, index)`` takes one entry per row.

A projection is differentiable almost everywhere and its Jacobian J is known in closed form once the active constraints
are, so the search for them (a sort, a bisection) runs on detached values and ``attach(value, x, J)`` returns

    value + J (x - detach(x)),

whose second term is exactly zero and carries the exact Jacobian through backward, forward mode, vmap and jacrev. For
NumPy, where there is nothing to differentiate, it is the value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any  # a NumPy array or a torch tensor: the formulas accept both
FloatArray = NDArray[np.float64]
# Points (n, d) to their values (n, d) and to a function that computes the Jacobians (n, d, d) if they are wanted.
HostSolver = Callable[[FloatArray], tuple[FloatArray, Callable[[], FloatArray]]]


def _sigmoid(x: Array) -> Array:  # scipy.special.expit, without the 0.2 s that its import takes
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


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
    clip=lambda x, lower, upper: np.minimum(np.maximum(x, lower), upper),
    sigmoid=_sigmoid,
    softplus=_softplus,
    indicator=lambda mask, like: mask.astype(like.dtype) if like.ndim else like.dtype.type(mask),
    zeros_like=np.zeros_like,
    ones_like=np.ones_like,
    sort=lambda x: np.sort(x, axis=-1),
    cumsum=lambda x: np.cumsum(x, axis=-1),
    # np.add.reduce sums pairwise along the last axis of a contiguous array, which is what keeps a million weights to a
    # few ulps of their budget.
    sum=lambda x: np.add.reduce(x, axis=-1, keepdims=True, dtype=np.float64),
    max=lambda x: np.maximum.reduce(x, axis=-1, keepdims=True),
    take=lambda x, index: x[index] if x.ndim == 1 else np.take_along_axis(x, index, axis=-1),
    concatenate=lambda parts: np.concatenate(parts, axis=-1),
    floats=lambda mask: mask.astype(np.float64),
    integers=lambda x: x.astype(np.intp),
    constant=lambda value, like: np.asarray(value, dtype=np.float64),
    detach=lambda x: x,
    attach=lambda value, x, jacobian: value,
    on_host=lambda solve, x: solve(x.reshape(-1, x.shape[-1]))[0].reshape(x.shape),
)


def _torch_namespace() -> SimpleNamespace:
    import torch

    class OnHost(torch.autograd.Function):
        """Run a NumPy solver row by row; its own vmap rule lets it run under `torch.func.vmap`."""

        @staticmethod
        def forward(x: Any, solve: HostSolver) -> Any:
            d = x.shape[-1]
            values, jacobians = solve(x.detach().cpu().numpy().reshape(-1, d))
            return (
                torch.as_tensor(values, device=x.device).reshape(x.shape),
                torch.as_tensor(jacobians(), device=x.device).reshape(*x.shape, d),
            )

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_non_differentiable(*output)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return None, None

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, solve: Any) -> Any:
            return apply(x.movedim(in_dims[0], 0), solve), (0, 0)

    apply: Callable[[Any, HostSolver], Any] = OnHost.apply

    def attach(value: Any, x: Any, jacobian: Callable[[Any], Any]) -> Any:
        return value + jacobian(x - x.detach())

    def on_host(solve: HostSolver, x: Any) -> Any:
        value, jacobian = apply(x.detach(), solve)
        return attach(value, x, lambda v: (jacobian @ v.unsqueeze(-1)).squeeze(-1))

    def clip(x: Any, lower: Any, upper: Any) -> Any:
        if isinstance(lower, torch.Tensor) == isinstance(upper, torch.Tensor):
            return torch.clamp(x, lower, upper)
        return torch.clamp(torch.clamp(x, min=lower), max=upper)  # one clamp does not take one of each

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
        clip=clip,
        sigmoid=torch.sigmoid,
        ndtr=torch.special.ndtr,
        ndtri=torch.special.ndtri,
        # torch's softplus switches to x above a threshold of 20, an error of 2e-9 in float64; above 40 there is none.
        # (logaddexp would do for the value, but its second derivative is NaN far to the left.)
        softplus=lambda x: torch.nn.functional.softplus(x, threshold=40.0),
        indicator=lambda mask, like: mask.to(like.dtype),
        zeros_like=torch.zeros_like,
        ones_like=torch.ones_like,
        sort=lambda x: torch.sort(x, dim=-1).values,
        cumsum=lambda x: torch.cumsum(x, dim=-1),
        sum=lambda x: torch.sum(x, dim=-1, keepdim=True, dtype=torch.float64),
        max=lambda x: torch.amax(x, dim=-1, keepdim=True),
        take=lambda x, index: torch.gather(x, -1, index),
        concatenate=lambda parts: torch.cat(list(parts), dim=-1),
        floats=lambda mask: mask.to(torch.float64),
        integers=lambda x: x.to(torch.int64),
        # The copy keeps torch from warning about the read-only arrays that the sets hold.
        constant=lambda value, like: torch.as_tensor(np.array(value, dtype=np.float64), device=like.device),
        detach=lambda x: x.detach(),
        attach=attach,
        on_host=on_host,
    )


_torch: list[SimpleNamespace] = []


def torch_backend() -> SimpleNamespace:
    """The torch twin of `NUMPY`, made on first use."""
    if not _torch:
        _torch.append(_torch_namespace())
    return _torch[0]


def backend_of(x: object) -> SimpleNamespace:
    """The namespace of the library that owns x."""
    return torch_backend() if type(x) is not np.ndarray and is_tensor(x) else NUMPY


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


def is_tensor(x: object) -> bool:
    """Whether x is a torch tensor, without importing torch: nobody has a tensor before torch is loaded."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_compiling() -> bool:
    """Whether `torch.compile` is tracing this very code."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def as_float(x: Any) -> float:
    """A parameter as a plain number; one that is being learned, a tensor, gives its value without its gradient."""
    return float(x.detach()) if is_tensor(x) else float(x)


def to_numpy(x: Any) -> Any:
    """A tensor's values as an array; anything else unchanged."""
    return x.detach().cpu().numpy() if is_tensor(x) else x
