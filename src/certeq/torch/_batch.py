"""A batch of losses on the CPU, the case of the training step: from a tensor to OCE and gradient the short way."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from certeq.risk import oce as risk_oce
from certeq.risk import tilt as risk_tilt
from certeq.risk._compiled import solve
from certeq.torch._checks import Dim, as_weights, check_values, normalised, normalize_dim
from certeq.torch._plans import Plan, Tail, plan_for
from certeq.torch._rows import tilt_rows
from certeq.torch._search import is_traced
from certeq.torch._vector import SMALL, solve_vector
from certeq.utilities import Utility


def by_vector(
    losses: Tensor,
    utility: Utility,
    weight: Tensor | None,
    dim: Dim,
    keepdim: bool,
    allow_inf: bool,
    validate: bool,
) -> Tensor | None:
    """OCE of all entries, or None where the short way is closed: rows, devices, traced code, learned utilities."""
    if is_traced() or keepdim or not losses.is_cpu or forward_ad._current_level >= 0 or has_tensors(utility):
        return None
    if dim is not None and len(normalize_dim(dim, losses.ndim)) < losses.ndim:
        return None
    if weight is not None and (not isinstance(weight, Tensor) or weight.requires_grad):
        return None
    plan = plan_for(utility, losses.numel(), losses.dtype)
    if plan.tail is not None and weight is None and losses.dtype in (torch.float32, torch.float64):
        tail = _tail_mean(losses, plan.tail)
        if tail is not None:
            return tail
    if losses.requires_grad and torch.is_grad_enabled():
        return _apply(losses, (weight, utility, plan, allow_inf, validate))
    value, _ = _reduce(losses, weight, utility, plan, allow_inf, validate)
    return _as_tensor(value, losses.dtype)


def has_tensors(utility: Utility) -> bool:
    """Whether a parameter of the utility, or of one inside it, is a tensor."""
    for item in vars(utility).values():
        if item.__class__ is float or item.__class__ is int:  # the common case first: this runs on every step
            continue
        for part in item if isinstance(item, tuple) else (item,):
            if isinstance(part, Tensor) or (isinstance(part, Utility) and has_tensors(part)):
                return True
    return False


def _tail_mean(losses: Tensor, tail: Tail) -> Tensor | None:
    """CVaR where no loss ties at the quantile: a weighted sum of the largest losses, and linear near them.

    None where there is a tie (which must be shared) or the greatest loss is not finite.
    """
    whole, count, share, shift = tail
    ranked = (losses if losses.ndim == 1 else losses.reshape(-1)).topk(count)[0]
    seen = ranked.tolist()
    at = seen[whole]
    if (whole > 0 and seen[whole - 1] == at) or (whole + 1 < count and seen[whole + 1] == at):
        return None
    if not seen[0] < math.inf or seen[-1] == -math.inf:
        return None
    value = torch.dot(ranked, share)
    return value + shift if shift else value


def _reduce(
    losses: Tensor, weight: Tensor | None, utility: Utility, plan: Plan, allow_inf: bool, validate: bool
) -> tuple[float, Any]:
    """OCE as a number and the tilt as a flat array."""
    dtype = losses.dtype
    fixed = losses.detach() if dtype is torch.float32 or dtype is torch.float64 else losses.detach().float()
    x = (fixed.resolve_neg() if fixed.is_neg() else fixed).numpy().reshape(-1)
    w = None
    if weight is not None:
        dims = tuple(range(losses.ndim))
        found = as_weights(weight, losses, dims, None, validate).detach().reshape(-1)
        w = normalised(found.resolve_neg(), torch.float64).numpy()
        if not w.sum() > 0.0:  # refused, unless the caller wants no checks
            return math.nan, x * math.nan
        if validate and not np.isfinite(x).all():
            check_values(losses, utility, allow_inf)  # refused whatever their weight, as in the core
        if allow_inf and (x == math.inf).any():
            return math.inf, x * math.nan
    kept = np.float64 if dtype is torch.float64 else np.float32  # of the tilt
    if plan.code is not None and (plan.any_length or x.size <= SMALL):
        tilt = np.empty(x.shape, kept)
        answer = solve(plan.code, np.ascontiguousarray(x), w, tilt)
        if answer is not None:
            return answer[0] + plan.of_zero, tilt
    # Slopes of a float32 batch need no more digits than its gradient will keep.
    tolerance = 1e-14 if dtype is torch.float64 else 1e-6
    for kind in (np.float64,) if x.size <= SMALL else (kept, np.float64):  # differences may be too large for float32
        loads: Any = None if w is None else w.astype(kind, copy=False)
        solved = solve_vector(x.astype(kind, copy=False), loads, utility, tolerance, kept)
        if solved is not None:
            return solved.value, solved.tilt
    if validate:
        check_values(losses, utility, allow_inf)
    if np.isfinite(x).all():  # so large that their differences are not: the core scales, or says what is wrong
        return float(risk_oce(x, utility, weights=w)), risk_tilt(x, utility, weights=w).astype(kept)
    return math.inf if (x == math.inf).any() else math.nan, x * math.nan


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
            dtype = losses.dtype if losses.dtype == torch.float64 else torch.float32
            w = None if weight is None else normalised(weight.reshape(-1), dtype)
            rows = tilt_rows(losses.reshape(-1).to(dtype), w, utility)
            q = rows.to(losses.dtype).reshape(losses.shape)
        return grads[0] * q, None


# Function.apply less its search for functorch wrappers, which cannot be here and would cost a few per cent of a step.
_apply: Callable[..., Tensor] = super(torch.autograd.Function, _Oce).apply
