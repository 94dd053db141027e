"""`oce`, `shortfall` and `tilt` of tensors, and the choice of how to compute them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from certeq.torch._checks import Dim, as_weights, check_losses, check_utility, check_values, normalize_dim
from certeq.torch._rows import oce_rows, shortfall_rows, tilt_rows
from certeq.torch._search import is_traced
from certeq.torch._vector import SMALL, solve_vector
from certeq.utilities import Pieces, Utility


def oce(
    losses: Tensor,
    utility: Utility,
    *,
    weight: Tensor | None = None,
    dim: Dim = None,
    keepdim: bool = False,
    allow_inf: bool = False,
    validate: bool = True,
) -> Tensor:
    r"""Optimized certainty equivalent of losses: :math:`\min_t\, t + \sum_i w_i u(x_i - t)`.

    Write it where ``losses.mean()`` stands. The minimiser t* is found exactly, and the gradient with respect to the
    losses is the tilt :math:`q_i = w_i u'(x_i - t^*)`, non-negative (except for mean-variance) and of sum 1.

    Parameters
    ----------
    losses : Tensor
        Losses, lower is better, of any sign; floating. Not changed.
    utility : Utility
        What risk means, for instance ``CVaR(0.05)``. Its parameters may be tensors: they get gradients too.
    weight : Tensor, optional
        Non-negative weights, of the shape of ``losses`` or, with one ``dim``, one per sample; normalised to sum 1.
    dim : int or tuple of int, optional
        Where the samples run. None, the default, takes all entries together, as ``torch.mean`` does.
    keepdim : bool
        Keep the reduced dimensions, with size 1.
    allow_inf : bool
        Let +inf losses through: the value is +inf then, and the gradient is not finite. NaN is never let through.
    validate : bool
        Look for NaN, infinite losses and bad weights. On an accelerator this makes the host wait; without it they
        come out as NaN. Inside `torch.compile` and `torch.func` transforms there is no such check.

    Returns
    -------
    Tensor
        OCE in the units of the losses, of their dtype and on their device. Half precision is computed in float32.

    Shape:
        - losses: :math:`(*)`, any shape
        - weight: :math:`(*)`, or :math:`(N)` with N the size of ``dim``
        - output: scalar, or :math:`(*)` without ``dim``

    Notes
    -----
    First and second derivatives are exact; third ones are not offered. At a tie on a kink (CVaR) the losses that tie
    share the mass that is left in proportion to their weights. With a learned utility the function cannot be part of
    a ``fullgraph`` compilation: compile the network and leave the loss outside.

    Examples
    --------
    >>> import torch, certeq as ce
    >>> from certeq.torch import oce
    >>> x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    >>> value = oce(x, ce.CVaR(alpha=0.5))
    >>> value.item()
    3.5
    >>> value.backward()
    >>> x.grad
    tensor([0.0000, 0.0000, 0.5000, 0.5000])
    """
    check_utility(utility)
    check_losses(losses)
    vector = _as_vector(losses, weight, dim, keepdim, utility)
    if vector is None:
        found = _by_rows(oce_rows, losses, utility, weight, dim, allow_inf, validate)
        return found if not keepdim else _with_ones(found, losses, dim)
    if vector == "f8" and weight is None and utility.kinks and losses.dtype in (torch.float32, torch.float64):
        shape = utility.shape
        tail = _tail_mean(losses, shape, utility) if isinstance(shape, Pieces) and shape.low == 0.0 else None
        if tail is not None:
            return tail
    if losses.requires_grad and torch.is_grad_enabled():
        return _apply(losses, (weight, utility, vector, allow_inf, validate))
    value, _ = _reduce(losses, weight, utility, vector, allow_inf, validate)
    return _as_tensor(value, losses.dtype)


def shortfall(
    losses: Tensor,
    utility: Utility,
    *,
    weight: Tensor | None = None,
    dim: Dim = None,
    keepdim: bool = False,
    validate: bool = True,
) -> Tensor:
    r"""The minimiser t* of :math:`t + E[u(X - t)]`: the least t with :math:`E[u'(X - t)] \le 1`.

    For CVaR it is the value at risk. Differentiable once, by the implicit function theorem. Parameters and shapes are
    those of `oce`. Where the mean curvature nearly vanishes t* is ill-conditioned although OCE is not.

    Examples
    --------
    >>> import torch, certeq as ce
    >>> from certeq.torch import shortfall
    >>> shortfall(torch.tensor([1.0, 2.0, 3.0, 4.0]), ce.CVaR(0.5))
    tensor(2.)
    """
    check_utility(utility)
    check_losses(losses)
    found = _by_rows(shortfall_rows, losses, utility, weight, dim, False, validate)
    return found if not keepdim else _with_ones(found, losses, dim)


def tilt(
    losses: Tensor,
    utility: Utility,
    *,
    weight: Tensor | None = None,
    dim: Dim = None,
    validate: bool = True,
) -> Tensor:
    r"""The worst-case weights :math:`q_i = w_i u'(x_i - t^*)`, in the shape of the losses; they sum to 1.

    The tilt is the gradient of `oce` with respect to the losses, and itself differentiable once. Parameters and
    shapes are those of `oce`.

    Examples
    --------
    >>> import torch, certeq as ce
    >>> from certeq.torch import tilt
    >>> tilt(torch.tensor([1.0, 2.0, 2.0, 4.0]), ce.CVaR(0.5))
    tensor([0.0000, 0.2500, 0.2500, 0.5000])
    """
    check_utility(utility)
    check_losses(losses)
    rows = _by_rows(tilt_rows, losses, utility, weight, dim, False, validate)
    dims = normalize_dim(dim, losses.ndim)
    rest = [d for d in range(losses.ndim) if d not in dims]
    sizes = [losses.shape[d] for d in (*rest, *dims)]
    order = (*rest, *dims)
    return rows.reshape(sizes).permute([order.index(d) for d in range(losses.ndim)])


# -- rows: any dimension, any device, any derivative -------------------------------------------------------------------


def _by_rows(
    of_rows: Callable[[Tensor, Tensor | None, Utility], Tensor],
    losses: Tensor,
    utility: Utility,
    weight: Tensor | None,
    dim: Dim,
    allow_inf: bool,
    validate: bool,
) -> Tensor:
    dims = normalize_dim(dim, losses.ndim)
    validate = validate and not is_traced()
    if validate:
        check_values(losses, utility, allow_inf)
    dtype = losses.dtype if losses.dtype in (torch.float32, torch.float64) else torch.float32
    x = _last(losses, dims).to(dtype)
    w = None
    if weight is not None:
        w = _last(as_weights(weight, losses, dims, dim, validate), dims).to(dtype)
        w = w / w.sum(-1, keepdim=True)
    if not allow_inf:
        return of_rows(x, w, utility).to(losses.dtype)
    hit = (x == torch.inf).any(-1, keepdim=True)
    found = of_rows(torch.where(hit, 0.0, x), w, utility)
    # exp(inf) carries a gradient that is not finite either, which is what a GradScaler looks for.
    return torch.where(hit.squeeze(-1), torch.where(hit, x, 0.0).amax(-1).exp(), found).to(losses.dtype)


def _last(losses: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The samples in one last dimension."""
    if len(dims) == losses.ndim:
        return losses.reshape(-1)
    rest = [d for d in range(losses.ndim) if d not in dims]
    return losses.permute(*rest, *dims).flatten(len(rest)) if len(dims) else losses.unsqueeze(-1)


def _with_ones(found: Tensor, losses: Tensor, dim: Dim) -> Tensor:
    dims = normalize_dim(dim, losses.ndim)
    return found.reshape([1 if d in dims else size for d, size in enumerate(losses.shape)])


# -- one vector on the CPU: the training step --------------------------------------------------------------------------


def _as_vector(losses: Tensor, weight: Tensor | None, dim: Dim, keepdim: bool, utility: Utility) -> str | None:
    """The dtype to compute in where the short way is open, else None."""
    if is_traced() or keepdim or not losses.is_cpu or forward_ad._current_level >= 0 or _has_tensors(utility):
        return None
    if dim is not None and len(normalize_dim(dim, losses.ndim)) < losses.ndim:
        return None
    if weight is not None and (not isinstance(weight, Tensor) or weight.requires_grad):
        return None
    return "f8" if losses.numel() <= SMALL or losses.dtype == torch.float64 else "f4"


def _has_tensors(utility: Utility) -> bool:
    for item in vars(utility).values():
        if item.__class__ is float or item.__class__ is int:  # the common case first: this runs on every step
            continue
        for part in item if isinstance(item, tuple) else (item,):
            if isinstance(part, Tensor) or (isinstance(part, Utility) and _has_tensors(part)):
                return True
    return False


_shares: dict[str, Any] = {}  # the last shares made: every batch of a training run has the same


def _tail_mean(losses: Tensor, pieces: Pieces, utility: Utility) -> Tensor | None:
    """CVaR where no loss ties at the quantile: a weighted sum of the largest losses, and linear near them.

    None where there is a tie (which must be shared) or the greatest loss is not finite.
    """
    x = losses if losses.ndim == 1 else losses.reshape(-1)
    size = x.shape[0]
    mass = size * pieces.tail
    whole = min(int(mass * (1.0 + 1e-15)), size - 1)
    # One more than CVaR needs: the next loss tells whether the last one ties.
    ranked = x.topk(min(whole + 2, size))[0]
    seen = ranked.tolist()
    ties = any(a == b for a, b in itertools.pairwise(seen[max(whole - 1, 0) :]))
    if ties or not -math.inf < seen[0] < math.inf or seen[-1] == -math.inf:
        return None
    key = (whole, ranked.shape[0], mass, losses.dtype)
    if _shares.get("key") != key:
        share = torch.zeros(ranked.shape[0], dtype=torch.float64)
        share[:whole], share[whole] = 1.0 / mass, 1.0 - whole / mass
        _shares.update(key=key, share=share.to(losses.dtype))
    value = torch.dot(ranked, _shares["share"])
    shift = float(utility.value(pieces.kink)) - pieces.kink
    return value + shift if shift else value


def _reduce(
    losses: Tensor, weight: Tensor | None, utility: Utility, kind: str, allow_inf: bool, validate: bool
) -> tuple[float, Any]:
    """OCE as a number and the tilt as a flat array."""
    dtype = losses.dtype
    exact = dtype is torch.float32 or dtype is torch.float64
    x = (losses.detach() if exact else losses.detach().float()).numpy().reshape(-1).astype(kind, copy=False)
    w = None
    if weight is not None:
        dims = tuple(range(losses.ndim))
        w = as_weights(weight, losses, dims, None, validate).detach().double().numpy().reshape(-1)
        w = (w / w.sum()).astype(kind, copy=False)
    # Slopes of a float32 batch need no more digits than its gradient will keep.
    tolerance = 1e-14 if dtype is torch.float64 else 1e-6
    solved = solve_vector(x, w, utility, tolerance, np.float64 if dtype is torch.float64 else np.float32)
    if solved is not None:
        return solved.value, solved.tilt
    if validate:
        check_values(losses, utility, allow_inf)
    return float(x.sum()), x * math.nan


def _as_tensor(a: Any, dtype: torch.dtype) -> Tensor:
    if dtype is torch.float32:
        return torch.from_numpy(np.asarray(a, np.float32))
    found = torch.from_numpy(np.asarray(a, np.float64))
    return found if dtype is torch.float64 else found.to(dtype)


class _Oce(torch.autograd.Function):
    """The short way: value and tilt at once; a second derivative goes the long way."""

    @staticmethod
    def forward(ctx: Any, losses: Tensor, problem: Any) -> Tensor:
        value, density = _reduce(losses, *problem)
        ctx.save_for_backward(losses, _as_tensor(density.reshape(losses.shape), losses.dtype))
        ctx.problem = problem
        return _as_tensor(value, losses.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        losses, q = ctx.saved_tensors
        if torch.is_grad_enabled():
            weight, utility = ctx.problem[:2]
            q = tilt(losses, utility, weight=weight, validate=False)
        return grads[0] * q, None


# Function.apply less its search for functorch wrappers, which cannot be here: a tenth of the whole cost of the loss.
_apply: Callable[..., Tensor] = super(torch.autograd.Function, _Oce).apply
