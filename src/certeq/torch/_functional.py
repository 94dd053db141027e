"""`oce`, `shortfall` and `tilt` of tensors, and the choice of how to compute them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from certeq.torch._batch import by_vector
from certeq.torch._checks import Dim, as_weights, check_losses, check_utility, check_values, normalize_dim
from certeq.torch._rows import oce_rows, shortfall_rows, tilt_rows
from certeq.torch._search import is_traced
from certeq.utilities import Utility


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
    found = by_vector(losses, utility, weight, dim, keepdim, allow_inf, validate)
    if found is None:
        found = _by_rows(oce_rows, losses, utility, weight, dim, allow_inf, validate)
    return found if not keepdim else _with_ones(found, losses, dim)


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
