"""What may come in: losses, weights, dimensions. Each complaint names the argument, what was found and what is right.

Looking at values makes an accelerator wait, so those checks can be switched off and are off in traced code; types
and shapes are always checked.
"""

from __future__ import annotations

import torch
from torch import Tensor

from certeq._checks import check_instance, shown
from certeq.utilities import Risk, Utility

Dim = int | tuple[int, ...] | None


def check_utility(utility: object) -> None:
    """A Utility, or a risk with more inner variables; not its class and not its name."""
    if isinstance(utility, Utility):
        return
    check_instance("utility", utility, Risk, "a certeq Utility such as CVaR(alpha=0.05)")
    if isinstance(utility, Risk) and utility._learned_parameter() is not None:
        raise TypeError(
            f"parameters of {type(utility).__name__} cannot be learned, only those of a Utility; found a tensor in "
            f"{utility!r}. Pass its number."
        )


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
        raise TypeError(f"dim must be a whole number, a tuple of them, or None; found {shown(dim)}.")
    dims = _each(dim)
    for d in dims:
        if not -max(ndim, 1) <= d < max(ndim, 1):
            raise IndexError(f"dim must name dimensions of losses, which have {ndim}; found {shown(dim)}.")
    axes = tuple(d % max(ndim, 1) for d in dims)
    if len(set(axes)) < len(axes):
        raise ValueError(f"dim must not name a dimension twice; found {shown(dim)}.")
    return axes[:ndim]


def check_values(losses: Tensor, allow_inf: bool, weight: Tensor | None = None) -> None:
    """Raise for NaN and infinite losses that count, with the first index. Makes an accelerator wait."""
    fixed = losses.detach()
    good = torch.isfinite(fixed)
    if weight is not None:
        good |= weight.detach() == 0
    if allow_inf and not bool(good.all()):
        good |= fixed != -torch.inf
    if bool(good.all()):
        return
    index = tuple(int(i) for i in (~good).nonzero()[0])
    found = float(fixed[index])
    where = f"index {index[0]}" if len(index) == 1 else f"index {index}"
    if found != found:
        text = f"losses holds NaN at {where}; find where the model or its input produced it."
    elif found > 0:
        text = f"losses holds +inf at {where}: the OCE is +inf and has no gradient."
    else:
        raise ValueError(f"losses holds -inf at {where}. Replace it by a finite loss, or give it the weight 0.")
    advice = "Pass allow_inf=True to get it all the same, for instance under a GradScaler that then skips the step."
    raise ValueError(f"{text} {advice}")


def as_weights(weight: object, losses: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Weights in the shape of the losses, not yet looked at nor normalized; those of a mask are 0 and 1."""
    if not isinstance(weight, Tensor):
        raise TypeError(f"weight must be a torch tensor; found {type(weight).__name__}.")
    if weight.is_complex():
        raise TypeError(f"weight must hold real numbers or be a mask; found dtype {weight.dtype}.")
    if weight.device != losses.device:
        raise ValueError(f"weight must be on the device of losses, {losses.device}; found {weight.device}.")
    if weight.shape != losses.shape:
        alone = len(dims) == 1 and losses.ndim > 1  # one dimension of several holds the samples
        if not (alone and weight.shape == (losses.shape[dims[0]],)):
            one = f" or, one per sample, {(losses.shape[dims[0]],)}" if alone else ""
            raise ValueError(
                f"weight must have the shape of losses, {tuple(losses.shape)}{one}; found {tuple(weight.shape)}."
            )
        shape = [1] * losses.ndim
        shape[dims[0]] = -1
        weight = weight.reshape(shape).expand_as(losses)
    return weight


def normalized(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Weights of any size that sum to 1 along the last dimension, in a dtype that may be too short for them."""
    if weight.dtype != torch.float64:  # nothing else has a wider range than what is computed in
        weight = weight.to(dtype)
    weight = torch.where(weight == 0, 0.0, weight)  # no sample: not even a gradient
    weight = (weight / weight.detach().amax(-1, keepdim=True)).to(dtype)
    return weight / weight.sum(-1, keepdim=True)


def check_weights(weight: Tensor, dims: tuple[int, ...] | None) -> None:
    """Finite, not negative and, along ``dims`` if there are any, not all 0. Makes an accelerator wait."""
    fixed = weight.detach()
    bad = ~torch.isfinite(fixed) | (fixed < 0)
    if bool(bad.any()):
        index = tuple(int(i) for i in bad.nonzero()[0])
        where = index[0] if len(index) == 1 else index
        raise ValueError(f"weight must be finite and not negative; found {float(fixed[index])!r} at index {where}.")
    if dims is None:
        return
    empty = ~((fixed > 0).any(dim=dims) if dims else fixed > 0)
    if bool(empty.any()):
        at = tuple(int(i) for i in empty.nonzero()[0]) if empty.ndim else ()
        row = f" at index {at[0] if len(at) == 1 else at} of the other dimensions" if at else ""
        raise ValueError(
            f"weight sums to 0{row}; at least one sample must have a weight above 0, and a target that is not ignored."
        )
