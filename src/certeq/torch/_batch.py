"""A batch of losses on the CPU, the case of the training step: from a tensor to OCE and gradient the short way."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from certeq.risk import oce as risk_oce
from certeq.risk import tilt as risk_tilt
from certeq.risk.solvers import SMALL, solve_vector
from certeq.torch._checks import Dim, as_weights, check_values, normalize_dim, normalized
from certeq.torch._rows import tilt_rows
from certeq.torch._search import is_traced
from certeq.utilities import Pieces, Utility
from certeq.utilities.forms import form


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
    if (
        is_traced()
        or keepdim
        or not losses.is_cpu
        or forward_ad._current_level >= 0
        or utility._learned_parameter() is not None
    ):
        return None
    if dim is not None and len(normalize_dim(dim, losses.ndim)) < losses.ndim:
        return None
    if weight is not None and (not isinstance(weight, Tensor) or weight.requires_grad):
        return None
    if weight is None and losses.numel() <= SMALL and losses.dtype in (torch.float32, torch.float64):
        tail = _tail_mean(losses, utility)
        if tail is not None:
            return tail
    if losses.requires_grad and torch.is_grad_enabled():
        return _apply(losses, (weight, utility, allow_inf, validate))
    value, _ = _reduce(losses, weight, utility, allow_inf, validate)
    return _as_tensor(value, losses.dtype)


class _Tail(NamedTuple):
    """CVaR of n losses: so many whole ones, a share of the next, and what is added at the end."""

    whole: int
    looked_at: int
    share: Tensor
    shift: float


def _tail_mean(losses: Tensor, utility: Utility) -> Tensor | None:
    """CVaR where no loss ties at the quantile: a weighted sum of the largest losses, and linear near them.

    None where u is something else, where there is a tie (which must be shared) or the greatest loss is not finite.
    """
    tail = _tail_of(utility, losses.numel(), losses.dtype)
    if tail is None:
        return None
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


def _tail_of(utility: Utility, size: int, dtype: torch.dtype) -> _Tail | None:
    """How to average the tail of a short batch, kept with the utility's form; None where u is no plain CVaR."""
    shape = form(utility)
    key = ("tail", size, dtype)
    if key not in shape.facts:
        shape.facts[key] = _make_tail(utility, size, dtype)
    found: _Tail | None = shape.facts[key]
    return found


def _make_tail(utility: Utility, size: int, dtype: torch.dtype) -> _Tail | None:
    pieces = utility.shape
    if not (isinstance(pieces, Pieces) and pieces.low == 0.0):
        return None
    mass = size * pieces.tail
    whole = min(int(mass * (1.0 + 1e-15)), size - 1)
    count = min(whole + 2, size)  # one more than CVaR needs: the next loss tells whether the last one ties
    parts = [1.0 / mass] * whole + [max(1.0 - whole / mass, 0.0)] + [0.0] * (count - whole - 1)
    with torch.inference_mode(False):  # it outlives this call, and may be part of a graph later
        share = torch.tensor(parts, dtype=dtype, device="cpu")
    return _Tail(whole, count, share, float(utility.value(pieces.kink)) - pieces.kink)


def _reduce(
    losses: Tensor, weight: Tensor | None, utility: Utility, allow_inf: bool, validate: bool
) -> tuple[float, Any]:
    """OCE as a number and the tilt as a flat array."""
    dtype = losses.dtype
    fixed = losses.detach() if dtype is torch.float32 or dtype is torch.float64 else losses.detach().float()
    x = (fixed.resolve_neg() if fixed.is_neg() else fixed).numpy().reshape(-1)
    w = None
    if weight is not None:
        dims = tuple(range(losses.ndim))
        found = as_weights(weight, losses, dims, None, validate).detach().reshape(-1)
        w = normalized(found.resolve_neg(), torch.float64).numpy()
        if not w.sum() > 0.0:  # refused, unless the caller wants no checks
            return math.nan, x * math.nan
        if validate and not np.isfinite(x).all():
            check_values(losses, utility, allow_inf)  # refused whatever their weight, as in the core
        if allow_inf and (x == math.inf).any():
            return math.inf, x * math.nan
    kept = np.float64 if dtype is torch.float64 else np.float32  # of the tilt
    # Slopes of a float32 batch need no more digits than its gradient will keep.
    tolerance = 1e-14 if dtype is torch.float64 else 1e-6
    shape = form(utility)
    for kind in (np.float64,) if x.size <= SMALL else (kept, np.float64):  # differences may be too large for float32
        w_kind: Any = None if w is None else w.astype(kind, copy=False)
        solved = solve_vector(x.astype(kind, copy=False), w_kind, shape, tolerance, kept)
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
            w = None if weight is None else normalized(weight.reshape(-1), dtype)
            rows = tilt_rows(losses.reshape(-1).to(dtype), w, utility)
            q = rows.to(losses.dtype).reshape(losses.shape)
        return grads[0] * q, None


# Function.apply less its search for functorch wrappers, which cannot be here and would cost a few per cent of a step.
_apply: Callable[..., Tensor] = super(torch.autograd.Function, _Oce).apply
