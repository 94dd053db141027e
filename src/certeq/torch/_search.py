"""Where does the mean slope pass 1? The root finders for rows of a tensor.

In plain eager code Newton's method runs until every row has converged. In compiled code and under `torch.func` asking
a tensor for a number would break the graph or make the device wait, so a fixed number of rounds looks at many trial
points at once: a few large steps make a small graph, and a device is glad of wide work.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from certeq._backend import torch_backend
from certeq.utilities import Utility
from certeq.utilities.forms import form

TORCH = torch_backend()  # made here, because compiled code cannot make it
POINTS = 32  # trial points of one round of a traced search
_STEPS = 1000  # bisection of the widest float interval ends well before


def is_traced() -> bool:
    """Whether values may not be looked at: while a graph is recorded, by whatever tool, or under `torch.func`."""
    return (
        torch.compiler.is_compiling()
        or bool(torch._C._are_functorch_transforms_active())
        or torch._C._len_torch_dispatch_stack() > 0  # make_fx, fake tensors
        or torch._C._get_tracing_state() is not None  # torch.jit.trace
    )


def mean(a: Tensor, weights: Tensor | None) -> Tensor:
    """Mean along the last dimension, kept; weights sum to 1."""
    return a.mean(-1, keepdim=True) if weights is None else (a * weights).sum(-1, keepdim=True)


def upper_quantile(z: Tensor, weights: Tensor | None, tail: float) -> Tensor:
    """The least loss of positive weight with mass above it at most ``tail`` (and 1e-15, as n * tail rounds)."""
    size = z.shape[-1]
    if weights is None:
        k = min(int(size * tail * (1.0 + 1e-15)), size - 1)
        return z.topk(k + 1, dim=-1).values[..., k:]
    ranked, order = z.sort(dim=-1, descending=True)
    mass = weights.expand_as(z).gather(-1, order)
    within = ((mass.cumsum(-1) - mass <= tail * (1.0 + 1e-15)) & (mass > 0)).to(torch.int64)
    # The last place that is within the tail, as a position.
    last = (within * torch.arange(1, size + 1, device=z.device)).amax(-1, keepdim=True) - 1
    return ranked.gather(-1, last)


def bracket(z: Tensor, weights: Tensor | None, utility: Utility) -> tuple[Tensor, Tensor, Tensor]:
    """(low, high, start) for t. A bounded slope acts like CVaR's: its losses are centered where its search starts."""
    anchor = utility.anchor
    least, most = utility.slope_range
    low, high = z.amin(-1, keepdim=True) - anchor, z.amax(-1, keepdim=True) - anchor
    if most - least < math.inf and least < 1.0 < most:
        start = torch.zeros_like(low) - 0.5 * anchor
    else:
        start = mean(z, weights) - anchor
    return low, high, torch.minimum(torch.maximum(start, low), high)


def find_root(z: Tensor, weights: Tensor | None, utility: Utility, low: Tensor, high: Tensor, start: Tensor) -> Tensor:
    """t in [low, high] with mean slope 1; the mean slope is continuous in between."""
    search = _multisection if is_traced() else _newton
    return search(z, weights, utility, low, high, start)


def newton_step(m: Tensor, h: Tensor, utility: Utility) -> Tensor:
    """Newton's step on a function of the mean slope that is nearly a straight line in t.

    That is the p-th root where the slope grows like a power p, and the log-odds where it is bounded.
    """
    power, (least, most) = utility.growth, utility.slope_range
    if most - least < math.inf:
        odds = math.log((1.0 - least) / (most - 1.0))
        room = (m - least) * (most - m) / (most - least)
        return (torch.log((m - least) / (most - m)) - odds) * room / h
    if power == 1.0:
        return (m - 1.0) / h
    return power * m * (1.0 - m ** (-1.0 / power)) / h


def _newton(z: Tensor, weights: Tensor | None, utility: Utility, low: Tensor, high: Tensor, start: Tensor) -> Tensor:
    """A step out of the bracket, or a residual that does not halve, is replaced by bisection. The best t seen is it."""
    shape, noise = form(utility), torch.finfo(z.dtype).eps
    t = best = start
    least_residual: Any = math.inf
    last: Any = math.inf
    for _ in range(_STEPS):
        slope, curvature = shape.derivatives(z, t, TORCH)
        m, h = mean(slope, weights), mean(curvature, weights)
        residual = (m - 1.0).abs()
        closer = residual < least_residual
        best = torch.where(closer, t, best)
        least_residual = torch.where(closer, residual, least_residual)
        low, high = torch.where(m > 1.0, t, low), torch.where(m > 1.0, high, t)
        trial, middle = t + newton_step(m, h, utility), 0.5 * (low + high)
        slow = residual > 0.5 * last
        good = (trial > low) & (trial < high) & ~slow
        done = (residual <= 4.0 * noise) | (slow & (residual <= 64.0 * noise)) | (middle <= low) | (middle >= high)
        if bool(done.all()):
            break
        last = torch.where(good, residual, math.inf)
        t = torch.where(done, t, torch.where(good, trial, middle))
    # Between neighboring floats the mean slope may pass 1 in a jump; it may be as close to 1 far from there.
    jumps = ((middle <= low) | (middle >= high)) & (least_residual > 64.0 * noise)
    return torch.where(jumps, high, best)


def _multisection(
    z: Tensor, weights: Tensor | None, utility: Utility, low: Tensor, high: Tensor, start: Tensor
) -> Tensor:
    """One round of trial points at geometric distances from the start, four of even ones, four Newton steps.

    The rounds leave a bracket of 1e-6 of the distance from start to root (or 1e-14 of the range), whatever the
    utility; Newton squares its width, in units of the bend of the slope, four times.
    """
    shape, far = form(utility), high - low
    half = torch.arange(POINTS // 2, device=z.device, dtype=z.dtype)
    away = torch.exp2(-1.75 * half)
    offsets = torch.cat([-away, torch.zeros_like(away[:1]), away.flip(0)])
    trial = torch.minimum(torch.maximum(start + far * offsets, low), high)
    ends = torch.cat([low, trial, high], dim=-1)
    place = (mean_slopes(z, weights, utility, trial) > 1.0).sum(-1, keepdim=True)
    low, high = ends.gather(-1, place), ends.gather(-1, place + 1)
    even = torch.arange(1, POINTS, device=z.device, dtype=z.dtype)
    for _ in range(4):
        step = (high - low) / POINTS
        place = (mean_slopes(z, weights, utility, low + step * even) > 1.0).sum(-1, keepdim=True)
        low, high = low + step * place, torch.minimum(low + step * (place + 1), high)
    t = 0.5 * (low + high)
    for _ in range(4):
        slope, curvature = shape.derivatives(z, t, TORCH)
        trial = t + newton_step(mean(slope, weights), mean(curvature, weights), utility)
        t = torch.where((trial >= low) & (trial <= high), trial, t)
    return t


def mean_slopes(z: Tensor, weights: Tensor | None, utility: Utility, t: Tensor) -> Tensor:
    """The mean slope at each of several t, given along the last dimension."""
    slope = form(utility).left_slope(z.unsqueeze(-2), t.unsqueeze(-1), TORCH)
    return mean(slope, None if weights is None else weights.unsqueeze(-2)).squeeze(-1)
