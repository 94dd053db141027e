"""OCE, threshold and tilt of rows of losses as differentiable tensors, on any device, compiled or not.

t* is found on detached values and then made to move: to first order in everything it depends on,

    t = t* + (mean u'(x - t*) - 1) / mean u''(x - t*),

whose value is t* and whose derivative is the implicit function theorem's. With it t + mean u(x - t) has the right
first derivatives (the tilt; the envelope theorem for learned parameters) and the right second derivatives.

In plain eager code Newton's method runs until every row has converged. In compiled code and under `torch.func` asking
a tensor for a number would break the graph or make the device wait, so a fixed number of rounds looks at many trial
points at once: a few large steps make a small graph, and a device is glad of wide work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from certeq._backend import torch_backend
from certeq.torch._checks import normalized
from certeq.utilities import Exponential, Pieces, Quadratic, Utility
from certeq.utilities.forms import Form, form

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


class Found(NamedTuple):
    """t* of centered losses, and which losses sit on a kink there, with the height of its jump (0 for the others)."""

    t: Tensor
    jump: Tensor | None = None


class Located(NamedTuple):
    """Centered losses and the t that each is compared with, t moving; one on a kink is where that is, compared with 0.

    ``share`` says how t follows the losses on a kink, 0 rows where none is.
    """

    center: Tensor
    t: Tensor
    z: Tensor
    against: Tensor
    share: Tensor | None


def weighted_rows(losses: Tensor, weight: Tensor | None, dims: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
    """Samples last, in float32 at least, and weights that sum to 1; a loss without weight is the least of the rest."""
    dtype = losses.dtype if losses.dtype in (torch.float32, torch.float64) else torch.float32
    x = as_rows(losses, dims).to(dtype)
    if weight is None:
        return x, None
    w = normalized(as_rows(weight, dims), dtype)
    return with_least_for_zero_weight(x, w), w


def reduce_tensor(
    want: str, losses: Tensor, utility: Utility, weight: Tensor | None, dims: tuple[int, ...], allow_inf: bool
) -> Tensor:
    """OCE, threshold or tilt (see `OF_ROWS`) over some dimensions; a tilt has its samples in one last dimension."""
    x, w = weighted_rows(losses, weight, dims)
    return let_through(x, allow_inf, lambda x: OF_ROWS[want](x, w, utility)).to(losses.dtype)


def let_through(x: Tensor, allow_inf: bool, solve: Callable[[Tensor], Tensor]) -> Tensor:
    """Solve rows; with ``allow_inf``, those that hold +inf or NaN have that value."""
    if not allow_inf:
        return solve(x)
    hit = ((x == torch.inf) | x.isnan()).any(-1, keepdim=True)
    found = solve(torch.where(hit, 0.0, x))
    # exp of inf or NaN carries a gradient that is not finite either, which is what a GradScaler looks for.
    return torch.where(hit.squeeze(-1), torch.where(hit, x, 0.0).amax(-1).exp(), found)


def with_least_for_zero_weight(x: Tensor, weights: Tensor) -> Tensor:
    """Rows of x with the least loss that counts in place of those without weight, which get no gradient.

    Such a loss may be anything, NaN too, and must not overflow anything; the least has the least slope.
    """
    counts = weights.detach() > 0
    least = torch.where(counts, x.detach(), torch.inf).amin(-1, keepdim=True)
    return torch.where(counts, x, torch.where(torch.isfinite(least), least, 0.0))


def as_rows(losses: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The samples in one last dimension."""
    if len(dims) == losses.ndim:
        return losses.reshape(-1)
    rest = [d for d in range(losses.ndim) if d not in dims]
    return losses.permute(*rest, *dims).flatten(len(rest)) if len(dims) else losses.unsqueeze(-1)


def from_rows(rows: Tensor, shape: torch.Size, dims: tuple[int, ...]) -> Tensor:
    """What `as_rows` has taken apart, in its first shape."""
    if len(dims) == len(shape):
        return rows.reshape(shape)
    order = (*(d for d in range(len(shape)) if d not in dims), *dims)
    return rows.reshape([shape[d] for d in order]).permute([order.index(d) for d in range(len(shape))])


def oce_rows(x: Tensor, weights: Tensor | None, utility: Utility) -> Tensor:
    """OCE along the last dimension."""
    located = locate(x, weights, utility)
    value = located.t + mean(utility._value(located.z - located.against, TORCH), weights)
    return (located.center + value).squeeze(-1)


def threshold_rows(x: Tensor, weights: Tensor | None, utility: Utility) -> Tensor:
    """t* along the last dimension."""
    located = locate(x, weights, utility)
    return (located.center + located.t).squeeze(-1)


def tilt_rows(x: Tensor, weights: Tensor | None, utility: Utility) -> Tensor:
    """q = w u'(x - t*); what is missing from a sum of 1 goes to the losses on a kink."""
    located = locate(x, weights, utility)
    q: Tensor = form(utility).left_slope(located.z, located.against, TORCH)
    q = q / x.shape[-1] if weights is None else q * weights
    if located.share is None:
        return q / q.sum(-1, keepdim=True)
    q = q + located.share * (1.0 - q.sum(-1, keepdim=True))
    return q / q.sum(-1, keepdim=True).detach()  # rows where nothing sits on a kink


OF_ROWS: dict[str, Callable[[Tensor, Tensor | None, Utility], Tensor]] = {
    "oce": oce_rows,
    "threshold": threshold_rows,
    "tilt": tilt_rows,
}


def locate(x: Tensor, weights: Tensor | None, utility: Utility) -> Located:
    """Solve on detached values, then let t move."""
    fixed = x.detach()
    center = _center(fixed, None if weights is None else weights.detach(), utility)
    z = x - center
    shape = form(utility)
    plain = shape.plain.utility  # all that is searched for is a number
    with torch.no_grad():
        found = find(z.detach(), None if weights is None else weights.detach(), plain)
    t = found.t.detach()
    m = mean(shape.left_slope(z, t, TORCH), weights)
    h = mean(shape.plain.curvature(z.detach(), t, TORCH), weights).detach()
    curved = h > 0.0
    # Where u is straight at every loss any t near t* is as good; moving with the mean keeps t + c for losses + c.
    drift = mean(z, weights) - mean(z, weights).detach()
    drift = torch.where(curved, (m - m.detach()) / torch.where(curved, h, 1.0), drift)
    if found.jump is None:
        return Located(center, t + drift, z, t + drift, None)
    # t follows the losses on a kink, and the kink: share > 0 there, summing to 1 over the row, or 0 in rows without.
    weight = found.jump if weights is None else found.jump * weights.detach()
    total = weight.sum(-1, keepdim=True)
    pinned = total > 0.0
    share = weight / torch.where(pinned, total, 1.0)
    on_kink = found.jump > 0.0
    at = _kinks_met(z, t, shape)
    follow = (share * torch.where(on_kink, (z - z.detach()) - (at - at.detach()), 0.0)).sum(-1, keepdim=True)
    t = t + torch.where(pinned, follow, drift)
    return Located(center, t, torch.where(on_kink, at, z), torch.where(on_kink, 0.0, t), share)


def _kinks_met(z: Tensor, t: Tensor, shape: Form) -> Tensor:
    """Where the kink is that each loss sits on, moving with the parameters that are learned; 0 for the others."""
    at = torch.zeros_like(z.detach())
    for which, kink in enumerate(shape.kinks):
        location = shape.kink_location(which, at) if shape.is_learned else kink.at
        at = torch.where(z.detach() - kink.at == t, location, at)
    return at


def _center(x: Tensor, weights: Tensor | None, utility: Utility) -> Tensor:
    """A loss near t*, whose digits the losses less it keep: a quantile where slopes are bounded, else the greatest."""
    least, most = utility.slope_range
    closed = isinstance(utility.shape, Exponential | Quadratic)
    if not closed and most - least < math.inf and least < 1.0 < most:
        return upper_quantile(x, weights, (1.0 - least) / (most - least))
    if weights is None:
        return x.amax(-1, keepdim=True)
    return torch.where(weights > 0, x, -torch.inf).amax(-1, keepdim=True)


def find(z: Tensor, weights: Tensor | None, utility: Utility) -> Found:
    """t* of centered, detached losses."""
    shape, anchor = utility.shape, utility.anchor
    if isinstance(shape, Exponential):
        total = mean(torch.exp(shape.rate * z), weights)
        small = mean(torch.expm1(shape.rate * z), weights)
        # Nearly constant losses: 1 + a small mean would round the answer away.
        return Found(torch.where(total > 0.5, torch.log1p(small), torch.log(total)) / shape.rate - anchor)
    if isinstance(shape, Quadratic):
        return Found(mean(z, weights) - anchor)
    if isinstance(shape, Pieces):
        if shape.low == shape.high:
            return Found(mean(z, weights) - anchor)
        # The losses are centered at their quantile.
        on_kink = z == 0.0 if weights is None else (z == 0.0) & (weights > 0)
        t = torch.zeros_like(z[..., :1]) - shape.kink
        return Found(t, on_kink.to(z.dtype) * (shape.high - shape.low))
    low, high, start = bracket(z, weights, utility)
    if form(utility).kinks:
        return _with_kinks(z, weights, utility, low, high)
    return Found(find_root(z, weights, utility, low, high, start))


def _with_kinks(z: Tensor, weights: Tensor | None, utility: Utility, low: Tensor, high: Tensor) -> Found:
    """Where the slope jumps, t* either puts a loss on a kink or lies between two such points, where it is continuous.

    The least breakpoint where the mean left slope is at most 1 is found by looking at POINTS of them at once.
    """
    shape = form(utility)
    points = torch.cat([z - kink.at for kink in shape.kinks], dim=-1).sort(dim=-1).values
    count = points.shape[-1]
    noise = 4.0 * torch.finfo(z.dtype).eps

    first = torch.zeros_like(low, dtype=torch.int64)  # the answer lies in [first, beyond]
    beyond = torch.full_like(first, count)
    part = torch.arange(POINTS, device=z.device)
    for _ in range(math.ceil(math.log(count + 1, POINTS)) + 1):
        trial = first + (beyond - first) * part // POINTS
        slope = mean_slopes(z, weights, utility, points.gather(-1, trial.clamp(max=count - 1)))
        passed = ((slope > 1.0 + noise) & (trial < beyond)).sum(-1, keepdim=True)  # so many lie before the answer
        ends = torch.cat([first, trial + 1, beyond], dim=-1)
        later = torch.cat([trial, beyond], dim=-1)
        first, beyond = ends.gather(-1, passed), later.gather(-1, passed)
    right = torch.where(first < count, points.gather(-1, first.clamp(max=count - 1)), high)
    left = torch.where(first > 0, points.gather(-1, (first - 1).clamp(min=0)), low)
    below, above = shape.slopes(z, right, TORCH)
    settled = (first < count) & (mean(above, weights) >= 1.0 - noise)
    left = torch.where(settled, right, left)  # nothing is left to be found in such rows
    t = find_root(z, weights, utility, left, right, 0.5 * (left + right))
    return Found(torch.where(settled, right, t), torch.where(settled, above - below, 0.0))


# -- where does the mean slope pass 1? -------------------------------------------------------------------------------


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
    # The last rank that is within the tail; the first where no sample has a weight.
    last = (within * torch.arange(1, size + 1, device=z.device)).amax(-1, keepdim=True).clamp(min=1) - 1
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
        width = (m - least) * (most - m) / (most - least)
        return (torch.log((m - least) / (most - m)) - odds) * width / h
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
    utility; Newton squares its width, in units of the width over which the slope changes, four times.
    """
    shape, far = form(utility), high - low
    half = torch.arange(POINTS // 2, device=z.device, dtype=z.dtype)
    away = torch.exp2(-1.75 * half)
    offsets = torch.cat([-away, torch.zeros_like(away[:1]), away.flip(0)])
    trial = torch.minimum(torch.maximum(start + far * offsets, low), high)
    ends = torch.cat([low, trial, high], dim=-1)
    index = (mean_slopes(z, weights, utility, trial) > 1.0).sum(-1, keepdim=True)
    low, high = ends.gather(-1, index), ends.gather(-1, index + 1)
    even = torch.arange(1, POINTS, device=z.device, dtype=z.dtype)
    for _ in range(4):
        step = (high - low) / POINTS
        index = (mean_slopes(z, weights, utility, low + step * even) > 1.0).sum(-1, keepdim=True)
        low, high = low + step * index, torch.minimum(low + step * (index + 1), high)
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
