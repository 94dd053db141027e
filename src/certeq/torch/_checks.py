"""What may come in: losses, weights, dimensions. Each complaint names the argument, what was found and what is right.

Looking at values makes an accelerator wait, so those checks can be switched off and are off in traced code; types
and shapes are always checked.
"""

from __future__ import annotations

import torch
from torch import Tensor

from certeq._checks import check_instance
from certeq.utilities import Exponential, Utility

Dim = int | tuple[int, ...] | None


def check_utility(utility: object) -> None:
    """A Utility, not its class and not its name."""
    if not isinstance(utility, Utility):
        check_instance("utility", utility, Utility, "a certeq Utility such as CVaR(alpha=0.05)")


def check_losses(losses: object, name: str = "losses", may_be_empty: bool = False) -> None:
    """A floating tensor with at least one entry, unless it is one shard of several."""
    if not isinstance(losses, Tensor):
        raise TypeError(f"{name} must be a torch tensor; found {type(losses).__name__}. For NumPy there is certeq.oce.")
    if not losses.is_floating_point():
        raise TypeError(f"{name} must be floating; found dtype {losses.dtype}. Convert it, for instance with .float().")
    if losses.layout is not torch.strided:
        raise TypeError(f"{name} must be a dense tensor; found layout {losses.layout}. Convert it with .to_dense().")
    if losses.numel() == 0 and not may_be_empty:
        raise ValueError(f"{name} is empty, with shape {tuple(losses.shape)}: no OCE of no losses exists.")


def _each(dim: int | tuple[int, ...] | list[int]) -> tuple[int, ...]:
    return (dim,) if isinstance(dim, int) else tuple(dim)


def normalize_dim(dim: Dim, ndim: int) -> tuple[int, ...]:
    """The dimensions the samples run along, from 0; all of them for None."""
    if dim is None:
        return tuple(range(ndim))
    whole = isinstance(dim, (int, tuple, list)) and all(isinstance(d, int) for d in _each(dim))
    if not whole or isinstance(dim, bool):
        raise TypeError(f"dim must be a whole number, a tuple of them, or None; found {dim!r}.")
    dims = _each(dim)
    for d in dims:
        if not -max(ndim, 1) <= d < max(ndim, 1):
            raise IndexError(f"dim must name dimensions of losses, which have {ndim}; found {dim!r}.")
    axes = tuple(d % max(ndim, 1) for d in dims)
    if len(set(axes)) < len(axes):
        raise ValueError(f"dim must not name a dimension twice; found {dim!r}.")
    return axes[:ndim]


def check_values(losses: Tensor, utility: Utility, allow_inf: bool) -> None:
    """NaN and infinite losses, with the first index. Makes an accelerator wait."""
    complaint = complaint_of(losses, utility, allow_inf)
    if complaint:
        advice = (
            " Pass allow_inf=True to get it all the same, for instance under a GradScaler that then skips the step."
        )
        raise ValueError(complaint + (advice if "+inf" in complaint else ""))


def complaint_of(losses: Tensor, utility: Utility, allow_inf: bool) -> str:
    """What is wrong with the losses' values, if anything."""
    fixed = losses.detach()
    if bool(torch.isfinite(fixed).all()):
        return ""
    bad = torch.isnan(fixed)
    if not allow_inf:
        bad |= fixed == torch.inf
    if not isinstance(utility.shape, Exponential):
        bad |= fixed == -torch.inf
    if not bool(bad.any()):
        return ""
    index = tuple(int(i) for i in bad.nonzero()[0])
    found = float(fixed[index])
    where = f"index {index[0]}" if len(index) == 1 else f"index {index}"
    if found != found:
        return f"losses holds NaN at {where}; find where the model or its input produced it."
    if found > 0:
        return f"losses holds +inf at {where}: the OCE is +inf and has no gradient."
    return f"losses holds -inf at {where}; only Entropic can take it. Replace it by a finite loss."


def as_weights(weight: object, losses: Tensor, dims: tuple[int, ...], dim: Dim, validate: bool) -> Tensor:
    """Weights in the shape of the losses, not yet normalized."""
    if not isinstance(weight, Tensor):
        raise TypeError(f"weight must be a torch tensor; found {type(weight).__name__}.")
    if weight.dtype == torch.bool or weight.is_complex():
        raise TypeError(f"weight must hold real numbers; found dtype {weight.dtype}.")
    if weight.device != losses.device:
        raise ValueError(f"weight must be on the device of losses, {losses.device}; found {weight.device}.")
    if weight.shape != losses.shape:
        if not (dim is not None and len(dims) == 1 and weight.shape == (losses.shape[dims[0]],)):
            one = f" or, one per sample, {(losses.shape[dims[0]],)}" if dim is not None and len(dims) == 1 else ""
            raise ValueError(
                f"weight must have the shape of losses, {tuple(losses.shape)}{one}; found {tuple(weight.shape)}."
            )
        shape = [1] * losses.ndim
        shape[dims[0]] = -1
        weight = weight.reshape(shape).expand_as(losses)
    if validate:
        check_weights(weight)
        if not bool((weight.detach().sum(dims if dims else None) > 0).all()):
            raise ValueError("weight sums to 0; at least one sample must have a weight above 0.")
    return weight


def normalized(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Weights of any size that sum to 1 along the last dimension, in a dtype that may be too short for them."""
    if weight.dtype != torch.float64:  # nothing else has a wider range than what is computed in
        weight = weight.to(dtype)
    weight = (weight / weight.detach().amax(-1, keepdim=True)).to(dtype)
    return weight / weight.sum(-1, keepdim=True)


def check_weights(weight: Tensor) -> None:
    """Finite and not negative, or the first index where not. Makes an accelerator wait."""
    fixed = weight.detach()
    if bool((torch.isfinite(fixed) & (fixed >= 0)).all()):
        return
    index = tuple(int(i) for i in (~torch.isfinite(fixed) | (fixed < 0)).nonzero()[0])
    where = index[0] if len(index) == 1 else index
    raise ValueError(f"weight must be finite and not negative; found {float(fixed[index])!r} at index {where}.")
