"""`oce`, `threshold` and `tilt` of tensors, and the choice of how to compute them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from certeq.torch._autograd import reduce_on_host
from certeq.torch._checks import (
    Dim,
    as_weights,
    check_losses,
    check_utility,
    check_values,
    check_weights,
    normalize_dim,
)
from certeq.torch._risks import reduce_risk
from certeq.torch._tensor import from_rows, is_traced, reduce_tensor
from certeq.utilities import Risk, Utility


def oce(
    losses: Tensor,
    utility: Risk,
    *,
    weight: Tensor | None = None,
    dim: Dim = None,
    keepdim: bool = False,
    allow_inf: bool = False,
    validate: bool = True,
    process_group: Any = None,
) -> Tensor:
    r"""Optimized certainty equivalent of losses: :math:`\min_t\, t + \sum_i w_i u(x_i - t)`.

    Write it where ``losses.mean()`` stands. The minimizer t* is found exactly, and the gradient with respect to the
    losses is the tilt :math:`q_i = w_i u'(x_i - t^*)`, non-negative (except for mean-variance) and of sum 1.

    Parameters
    ----------
    losses : Tensor
        Losses, lower is better, of any sign; floating. Not changed.
    utility : Risk
        Risk measure: a `certeq.Utility`, for instance ``CVaR(0.05)``, whose parameters may be tensors, which get
        gradients too; or a risk with more inner variables, ``EVaR(0.05)``, whose parameters are numbers.
    weight : Tensor, optional
        Non-negative weights, or a bool mask of the samples that count, of the shape of ``losses`` or, with one
        ``dim``, one per sample; normalized to sum 1. A loss of weight 0 is no sample: it may be NaN or infinite, and
        its gradient and that of its weight are 0.
    dim : int or tuple of int, optional
        Where the samples run. None, the default, takes all entries together, as ``torch.mean`` does.
    keepdim : bool
        Keep the reduced dimensions, with size 1.
    allow_inf : bool
        Let losses of +inf and NaN through, so that a GradScaler can skip the step: the value is +inf or NaN then, and
        the gradient is not finite. -inf never is.
    validate : bool
        Look for NaN, infinite losses, bad weights and learned parameters that have left their range. On an accelerator
        this makes the host wait; without it they give a value that means nothing, often NaN. Inside ``torch.compile``
        and ``torch.func`` transforms there is no such check.
    process_group : ProcessGroup or "world", optional
        The ranks whose losses make one batch, ``"world"`` for all of them; None, the default, is this process alone.

    Returns
    -------
    Tensor
        OCE in the units of the losses, of their dtype and on their device. Half precision is computed in float32.
        With a ``process_group``: OCE of the batch of all ranks, the same number on every one.

    See Also
    --------
    OCELoss
        OCE as a criterion for training.
    tilt
        The worst-case weights of a tensor of losses.
    threshold
        The minimizer t* of OCE of a tensor.
    certeq.oce
        OCE of losses, without its error.

    Notes
    -----
    **Shapes.** Losses :math:`(*)`; weights :math:`(*)`, or :math:`(N)` with N the size of ``dim``; output scalar, or
    :math:`(*)` without ``dim``.

    First and second derivatives are exact; third ones are not offered. At a tie on a kink (CVaR) the losses that tie
    share the mass that is left in proportion to their weights. With a learned utility the function cannot be part of
    a ``fullgraph`` compilation: compile the network and leave the loss outside. A sum of utilities can, once its
    anchor is known: `OCELoss` looks for it when it is made, this function when it is first called outside a graph.
    Risks with more inner variables (balls, `certeq.EVaR`, mixtures) break the graph of compiled code here, and raise
    an error inside ``torch.func``. Errors are also raised for second derivatives of a ball of a utility with kinks, for
    those in weights where the scale of a ball is 0, and for any derivative in the weights of `certeq.Distortion`.

    With a ``process_group`` every rank must call, with shards of any size, none at all included; t* is that of all
    losses together. Backward gives the local losses their part of the global tilt **times the number of ranks**, so
    that the average over the ranks which DistributedDataParallel takes is the gradient of one process on the
    concatenated batch (where gradients are summed instead, divide the value by the number of ranks). Parameters of the
    utility, and the value, are complete on every rank and need no averaging, which does not change them. An average
    of per-rank OCEs is something else: weighted by the shards' sizes it is too low, as every rank fits a t of its own,
    and without such weights it may be anything. An error on one rank (NaN,
    a bad weight) is raised on all; a rank that does not answer is an error after the group's timeout (with NCCL
    PyTorch's own watchdog ends the process). Second derivatives are not offered then, and compiled code breaks its
    graph here. The detached losses of all ranks are gathered, in one communication round up to 7 kB a rank and in two
    above.

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
    every = _batch("oce", losses, utility, weight, dim, allow_inf, validate, process_group)
    found = _reduce("oce", every, utility, allow_inf)
    return _shaped(found, losses, dim) if keepdim else found


def threshold(
    losses: Tensor,
    utility: Risk,
    *,
    weight: Tensor | None = None,
    dim: Dim = None,
    keepdim: bool = False,
    validate: bool = True,
    process_group: Any = None,
) -> Tensor:
    r"""The minimizer t* of :math:`t + E[u(X - t)]`: the least t with :math:`E[u'(X - t)] \le 1`.

    For CVaR it is the value at risk. Differentiable once, by the implicit function theorem.

    Parameters
    ----------
    losses : Tensor
        Losses, lower is better, of any sign and shape; floating. Not changed.
    utility : Risk
        Risk measure: a `certeq.Utility` such as ``CVaR(0.05)``, whose parameters may be tensors, or a risk with more
        inner variables, ``EVaR(0.05)``.
    weight : Tensor, optional
        Non-negative weights, or a bool mask of the samples that count, of the shape of ``losses`` or, with one
        ``dim``, one per sample; normalized to sum 1.
    dim : int or tuple of int, optional
        Where the samples run. None, the default, takes all entries together, as ``torch.mean`` does.
    keepdim : bool
        Keep the reduced dimensions, with size 1.
    validate : bool
        Look for NaN, infinite losses, bad weights and learned parameters that have left their range; on an
        accelerator this makes the host wait.
    process_group : ProcessGroup or "world", optional
        The ranks whose losses make one batch, ``"world"`` for all of them; None, the default, is this process alone.

    Returns
    -------
    Tensor
        The threshold, scalar or of the shape of ``losses`` without ``dim``, in their units.

    See Also
    --------
    oce
        OCE of a tensor of losses, with gradients.
    tilt
        The worst-case weights of a tensor of losses.
    certeq.threshold
        The minimizer t* of OCE; the value at risk for CVaR.

    Notes
    -----
    Not as a loss to train on: minimize `oce`. Where the mean curvature nearly vanishes t* is ill-conditioned although
    OCE is not.

    Examples
    --------
    >>> import torch, certeq as ce
    >>> from certeq.torch import threshold
    >>> threshold(torch.tensor([1.0, 2.0, 3.0, 4.0]), ce.CVaR(0.5))
    tensor(2.)
    """
    every = _batch("threshold", losses, utility, weight, dim, False, validate, process_group)
    found = _reduce("threshold", every, utility)
    return _shaped(found, losses, dim) if keepdim else found


def tilt(
    losses: Tensor,
    utility: Risk,
    *,
    weight: Tensor | None = None,
    dim: Dim = None,
    validate: bool = True,
    process_group: Any = None,
) -> Tensor:
    r"""The worst-case weights :math:`q_i = w_i u'(x_i - t^*)`, in the shape of the losses; they sum to 1.

    The tilt is the gradient of `oce` with respect to the losses, and itself differentiable once.

    Parameters
    ----------
    losses : Tensor
        Losses, lower is better, of any sign and shape; floating. Not changed.
    utility : Risk
        Risk measure: a `certeq.Utility` such as ``CVaR(0.05)``, whose parameters may be tensors, or a risk with more
        inner variables, ``EVaR(0.05)``.
    weight : Tensor, optional
        Non-negative weights, or a bool mask of the samples that count, of the shape of ``losses`` or, with one
        ``dim``, one per sample; normalized to sum 1.
    dim : int or tuple of int, optional
        Where the samples run. None, the default, takes all entries together, as ``torch.mean`` does.
    validate : bool
        Look for NaN, infinite losses, bad weights and learned parameters that have left their range; on an
        accelerator this makes the host wait.
    process_group : ProcessGroup or "world", optional
        The ranks whose losses make one batch, ``"world"`` for all of them; None, the default, is this process alone.

    Returns
    -------
    Tensor
        Of the shape of ``losses``. With a ``process_group`` these are this rank's entries of the tilt of all ranks'
        losses (they sum to 1 over the ranks), without a gradient.

    See Also
    --------
    oce
        OCE of a tensor of losses, with gradients.
    threshold
        The minimizer t* of OCE of a tensor.
    certeq.tilt
        The worst-case weights of the losses.

    Notes
    -----
    Not needed for the gradient of a risk, which ``backward`` of `oce` gives.

    Examples
    --------
    >>> import torch, certeq as ce
    >>> from certeq.torch import tilt
    >>> tilt(torch.tensor([1.0, 2.0, 2.0, 4.0]), ce.CVaR(0.5))
    tensor([0.0000, 0.2500, 0.2500, 0.5000])
    """
    every = _batch("tilt", losses, utility, weight, dim, False, validate, process_group)
    if process_group is None:
        return from_rows(_reduce("tilt", every, utility), losses.shape, every.dims)
    with torch.no_grad():
        own = _reduce("tilt", every, utility)[..., every.own]
    return from_rows(own, losses.shape, normalize_dim(dim, losses.ndim))


class _Batch(NamedTuple):
    """Losses of this process, or of all ranks in rows, and their weights; ``own`` are this rank's among its samples."""

    losses: Tensor
    weight: Tensor | None
    dims: tuple[int, ...]
    validate: bool
    own: slice = slice(None)


def _batch(
    asked: str,
    losses: Tensor,
    utility: Risk,
    weight: Tensor | None,
    dim: Dim,
    allow_inf: bool,
    validate: bool,
    process_group: Any,
) -> _Batch:
    check_utility(utility)
    if process_group is None:
        check_losses(losses)
        dims = normalize_dim(dim, losses.ndim)
        return _Batch(losses, None if weight is None else as_weights(weight, losses, dims), dims, validate)
    from certeq.torch._ranks import pool  # most people have one process

    every, weight, own = pool(losses, utility, weight, dim, allow_inf, validate, process_group, asked)
    return _Batch(every, weight, (every.ndim - 1,), False, own)


def pool_losses(
    losses: Tensor, utility: Risk, weight: Tensor | None, allow_inf: bool, validate: bool, process_group: Any
) -> tuple[Tensor, Tensor | None]:
    """Losses and weights of this process, or those of all ranks in vectors, for whoever makes a batch of them."""
    return _batch("memory", losses, utility, weight, None, allow_inf, validate, process_group)[:2]


def _reduce(want: str, batch: _Batch, utility: Risk, allow_inf: bool = False) -> Tensor:
    losses, weight, dims, validate, _ = batch
    if not isinstance(utility, Utility) and torch.compiler.is_compiling():
        return _risk_outside_the_graph(want, batch, utility, allow_inf)
    found = reduce_on_host(want, losses, utility, weight, dims, allow_inf, validate)
    return _reduce_tensor(want, batch, utility, allow_inf) if found is None else found


def _reduce_tensor(want: str, batch: _Batch, utility: Risk, allow_inf: bool) -> Tensor:
    losses, weight, dims, validate, _ = batch
    if not isinstance(utility, Utility):
        return reduce_risk(want, losses, utility, weight, dims, allow_inf, validate and not is_traced())
    learned = utility._learned_parameter() is not None
    if learned and torch.compiler.is_compiling():
        # A graph would hold the thresholds and kinks of the parameters' present values for good.
        return _outside_the_graph(want, batch, utility, allow_inf)
    if validate and not is_traced():
        if learned:
            utility._without_gradients()  # a learned parameter may have left its range since it was checked
        if weight is not None:
            check_weights(weight, dims)
        check_values(losses, allow_inf, weight)
    return reduce_tensor(want, losses, utility, weight, dims, allow_inf)


# Its inner variables are found as numbers, of which a graph knows nothing.
_risk_outside_the_graph: Callable[..., Tensor] = torch.compiler.disable(_reduce)  # type: ignore[no-untyped-call]
_outside_the_graph: Callable[..., Tensor] = torch.compiler.disable(_reduce_tensor)  # type: ignore[no-untyped-call]


def _shaped(found: Tensor, losses: Tensor, dim: Dim) -> Tensor:
    dims = normalize_dim(dim, losses.ndim)
    return found.reshape([1 if d in dims else size for d, size in enumerate(losses.shape)])
