"""Losses on the CPU, the case of the training step: solved by `certeq.risk` as arrays, differentiable all the same.

Value, threshold and tilt come from one solve. The tilt is the gradient of OCE; every other derivative (second ones,
those of threshold and tilt) is taken by ``_tensor``, when it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from certeq.risk import oce as risk_oce
from certeq.risk import threshold as risk_threshold
from certeq.risk import tilt as risk_tilt
from certeq.risk.solvers import SMALL, Solved, solve_each, solve_rows, solve_vector
from certeq.torch._checks import check_values, check_weights
from certeq.torch._risks import reduce_risk, solve_row, threshold_of
from certeq.torch._tensor import as_rows, from_rows, is_traced, reduce_tensor
from certeq.utilities import Pieces, Risk, Utility
from certeq.utilities.forms import form

_TOGETHER = 1 << 16  # losses of as many rows as fit the cache are solved together


class _BatchQuery(NamedTuple):
    """What was asked of some losses."""

    want: str  # "oce", "threshold" or "tilt"
    utility: Risk
    weight: Tensor | None
    dims: tuple[int, ...]
    allow_inf: bool
    validate: bool


def reduce_on_host(
    want: str,
    losses: Tensor,
    utility: Risk,
    weight: Tensor | None,
    dims: tuple[int, ...],
    allow_inf: bool,
    validate: bool,
) -> Tensor | None:
    """What `reduce_tensor` returns; None where that is to be asked: devices, traced code, learned utilities."""
    if is_traced() or not losses.is_cpu or forward_ad._current_level >= 0 or utility._learned_parameter() is not None:
        return None
    if weight is not None and weight.requires_grad:
        return None
    problem = _BatchQuery(want, utility, weight, dims, allow_inf, validate)
    if len(dims) == losses.ndim:
        solved: Any = _solve_vector(losses, problem)
    elif dims:
        rows = None if weight is None else as_rows(weight, dims)
        solved = _solve_rows(as_rows(losses.detach(), dims), rows, utility, want == "tilt" or losses.requires_grad)
        if solved is None:
            return None
    else:
        return None
    answer = solved.value if want == "oce" else solved.threshold if want == "threshold" else solved.tilt
    if not (losses.requires_grad and torch.is_grad_enabled()):
        return _as_tensor(answer, losses.dtype)
    if want == "oce" and len(dims) == losses.ndim and _is_linear(utility) and losses.dtype in _EXACT:
        return _linear(losses, solved)
    return _apply(losses, (problem, answer, solved.tilt))


_EXACT = (torch.float32, torch.float64)


def _is_linear(utility: Risk) -> bool:
    """Whether the OCE is linear in the losses near almost all of them, so that its tilt has no derivative."""
    return isinstance(utility, Utility) and isinstance(form(utility).shape, Pieces)


def _linear(losses: Tensor, solved: Solved) -> Tensor:
    """The sum of tilt times losses, which PyTorch differentiates in less time than a function of ours takes."""
    found = torch.dot(losses if losses.ndim == 1 else losses.reshape(-1), _as_tensor(solved.tilt, losses.dtype))
    found.detach().fill_(solved.value)  # the sum is rounded as often as there are losses, the value once
    return found


def _solve_vector(losses: Tensor, problem: _BatchQuery) -> Solved:
    """OCE and threshold as numbers and the tilt as a flat array; a loss without weight is no sample of it."""
    _, _, weight, dims, _, validate = problem
    x = _as_array(losses).reshape(-1)
    if weight is None:
        return _solve_array(x, None, losses, problem)
    w = _as_array(weight).reshape(-1)
    is_mask = weight.dtype is torch.bool
    counts = w if is_mask else w > 0.0
    if is_mask and counts.all():  # the usual mask of a batch without padding
        return _solve_array(x, None, losses, problem)
    if not (counts.any() if is_mask else w.min() >= 0.0 and 0.0 < w.max() < math.inf):
        if validate:
            check_weights(weight, dims)
        return Solved(math.nan, math.nan, x * math.nan)
    w = w[counts]
    solved = _solve_array(x[counts], None if is_mask or w.min() == w.max() else _normalized(w), losses, problem)
    tilt = np.zeros(x.shape, solved.tilt.dtype)
    tilt[counts] = solved.tilt
    return Solved(solved.value, solved.threshold, tilt)


def _normalized(w: Any) -> Any:
    w = np.divide(w, w.max(axis=-1, keepdims=True), dtype=np.float64)  # sums of weights must not overflow
    return w / w.sum(axis=-1, keepdims=True)


def _solve_array(x: Any, w: Any, losses: Tensor, problem: _BatchQuery) -> Solved:
    """Solve the samples x among the losses, of weights w above 0 that sum to 1, or alike for None."""
    _, utility, weight, _, allow_inf, validate = problem
    dtype = losses.dtype
    kept = np.float64 if dtype is torch.float64 else np.float32  # of the tilt
    if not isinstance(utility, Utility):
        found = _solve_risk(x, w, problem, kept)
        if validate and not math.isfinite(found.value):
            check_values(losses, allow_inf, weight)
        return found
    # Slopes of a float32 batch need no more digits than its gradient will keep.
    tolerance = 1e-14 if dtype is torch.float64 else 1e-6
    shape = form(utility)
    kinds: Any = (x.dtype,) if x.size <= SMALL else (kept, np.float64)  # differences may be too large for float32
    for kind in kinds:
        w_kind: Any = w if w is None or x.size <= SMALL else w.astype(kind, copy=False)
        solved = solve_vector(x.astype(kind, copy=False), w_kind, shape, tolerance, kept)
        if solved is not None:
            return solved
    if validate:
        check_values(losses, allow_inf, weight)
    if np.isfinite(x).all():  # so large that their differences are not: the core scales, or says what is wrong
        value, t = (float(solve(x, utility, weights=w)) for solve in (risk_oce, risk_threshold))
        return Solved(value, t, risk_tilt(x, utility, weights=w).astype(kept))
    value = math.inf if (x == math.inf).any() else math.nan
    return Solved(value, value, x * math.nan)


def _solve_risk(x: Any, w: Any, problem: _BatchQuery, kept: Any) -> Solved:
    """`Solved` of a risk with more inner variables; the threshold, where it is asked for, may be several."""
    # As digits of slopes below; the value has twice as many as the tilt.
    found = solve_row(x, w, problem.utility, 0.0 if kept is np.float64 else 1e-6)
    t: Any = threshold_of(found, problem.utility) if problem.want == "threshold" else math.nan
    return Solved(found.value, t, found.tilt.astype(kept, copy=False))


class _SolvedBatch(NamedTuple):
    """`Solved` of rows: one value and threshold for each."""

    value: Any
    threshold: Any
    tilt: Any


def _solve_rows(rows: Tensor, weights: Tensor | None, utility: Risk, with_tilt: bool) -> _SolvedBatch | None:
    """Each row by itself, samples last; None where a loss that counts is not finite, or a weight is none."""
    x = np.ascontiguousarray(_as_array(rows))
    size, shape = x.shape[-1], x.shape[:-1]
    x, w = x.reshape(-1, size), None
    if weights is not None:
        w = np.ascontiguousarray(_as_array(weights)).reshape(-1, size)
        if not (w.min() >= 0.0 and float(w.max(axis=1).min()) > 0.0 and w.max() < math.inf):
            return None
        x = np.where(w > 0.0, x, 0.0)  # such a loss may be anything
        w = None if (w == w[:, :1]).all() else _normalized(w)
    if not isinstance(utility, Utility):
        return None
    tilts = np.empty(x.shape, x.dtype)
    found = solve_each(x, form(utility), tilts) if w is None else None
    if found is None:
        if not np.isfinite(x.sum()):
            return None
        values, thresholds = np.empty(len(x)), np.empty(len(x))
        step = max(1, _TOGETHER // size)
        for first in range(0, len(x), step):
            part = slice(first, first + step)
            solved = solve_rows(x[part].astype(np.float64, copy=False), None if w is None else w[part], utility)
            values[part], thresholds[part] = solved.value, solved.threshold
            if with_tilt:
                tilts[part] = solved.tilt()
        found = values, thresholds
    return _SolvedBatch(found[0].reshape(shape), found[1].reshape(shape), tilts.reshape(*shape, size))


def _as_array(x: Tensor) -> Any:
    fixed = x.detach()
    if x.dtype is torch.bfloat16:  # which NumPy does not know
        fixed = fixed.float()
    found = (fixed.resolve_neg() if fixed.is_neg() else fixed).numpy()
    return found.astype(np.float32) if found.dtype == np.float16 else found


def _as_tensor(a: Any, dtype: torch.dtype) -> Tensor:
    if dtype is torch.float32:
        return torch.from_numpy(np.asarray(a, np.float32))
    found = torch.from_numpy(np.asarray(a, np.float64))
    return found if dtype is torch.float64 else found.to(dtype)


def _reduced(
    want: str, losses: Tensor, utility: Risk, weight: Tensor | None, dims: tuple[int, ...], allow_inf: bool
) -> Tensor:
    """The same as a function of the losses that can be differentiated."""
    if isinstance(utility, Utility):
        return reduce_tensor(want, losses, utility, weight, dims, allow_inf)
    return reduce_risk(want, losses, utility, weight, dims, allow_inf)


class _KnownAnswer(torch.autograd.Function):
    """An answer that is known, of losses."""

    @staticmethod
    def forward(ctx: Any, losses: Tensor, known: tuple[_BatchQuery, Any, Any]) -> Tensor:
        problem, answer, tilt = known
        # Made here, as a tensor that is handed in and returned would be copied.
        if problem.want == "oce" and len(problem.dims) == losses.ndim:
            ctx.save_for_backward(losses, _as_tensor(tilt.reshape(losses.shape), losses.dtype))
        else:
            ctx.save_for_backward(losses)
            ctx.tilt = tilt
        ctx.problem = problem
        return _as_tensor(answer, losses.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (losses, *kept), (grad,) = ctx.saved_tensors, grads
        again = torch.is_grad_enabled()  # with create_graph=True: the gradient is to be differentiated
        if kept and not again:  # the training step: nothing to be put in order
            return grad * kept[0], None
        want, utility, weight, dims, allow_inf, _ = ctx.problem
        if want == "oce":
            q = _reduced("tilt", losses, utility, weight, dims, False) if again else _as_tensor(ctx.tilt, losses.dtype)
            return from_rows(grad.unsqueeze(-1) * q, losses.shape, dims), None
        with torch.enable_grad():
            x = losses if again else losses.detach().requires_grad_()
            found = _reduced(want, x, utility, weight, dims, allow_inf)
            if not found.requires_grad:  # the tilt of linear pieces
                return torch.zeros_like(losses), None
            (slope,) = torch.autograd.grad(found, x, grad.reshape(found.shape), create_graph=again)
        return slope, None


# Function.apply less its search for functorch wrappers, which cannot be here and would cost a few per cent of a step.
_apply: Callable[..., Tensor] = super(torch.autograd.Function, _KnownAnswer).apply
