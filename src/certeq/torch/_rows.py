"""OCE, threshold and tilt of rows of losses as differentiable tensors, on any device, compiled or not.

t* is found on detached values and then made to move: to first order in everything it depends on,

    t = t* + (mean u'(x - t*) - 1) / mean u''(x - t*),

whose value is t* and whose derivative is the implicit function theorem's. With it t + mean u(x - t) has the right
first derivatives (the tilt; the envelope theorem for learned parameters) and the right second derivatives.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from certeq.torch._search import POINTS, TORCH, bracket, find_root, mean, mean_slopes, upper_quantile
from certeq.utilities import Exponential, Pieces, Quadratic, Utility
from certeq.utilities.forms import Form, form


class Found(NamedTuple):
    """t* of centered losses, and which losses sit on a kink there, with the height of its jump (0 for the others)."""

    t: Tensor
    jump: Tensor | None = None


class Placed(NamedTuple):
    """Centered losses and the t that each is compared with, t moving; a loss on a kink is its place, compared with 0.

    ``share`` says how t follows the losses on a kink, 0 rows where none is.
    """

    center: Tensor
    t: Tensor
    z: Tensor
    against: Tensor
    share: Tensor | None


def as_rows(losses: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The samples in one last dimension."""
    if len(dims) == losses.ndim:
        return losses.reshape(-1)
    rest = [d for d in range(losses.ndim) if d not in dims]
    return losses.permute(*rest, *dims).flatten(len(rest)) if len(dims) else losses.unsqueeze(-1)


def oce_rows(x: Tensor, weights: Tensor | None, utility: Utility) -> Tensor:
    """OCE along the last dimension."""
    placed = place(x, weights, utility)
    value = placed.t + mean(utility._value(placed.z - placed.against, TORCH), weights)
    return (placed.center + value).squeeze(-1)


def threshold_rows(x: Tensor, weights: Tensor | None, utility: Utility) -> Tensor:
    """t* along the last dimension."""
    placed = place(x, weights, utility)
    return (placed.center + placed.t).squeeze(-1)


def tilt_rows(x: Tensor, weights: Tensor | None, utility: Utility) -> Tensor:
    """q = w u'(x - t*); what is missing from a sum of 1 goes to the losses on a kink."""
    placed = place(x, weights, utility)
    q: Tensor = form(utility).left_slope(placed.z, placed.against, TORCH)
    q = q / x.shape[-1] if weights is None else q * weights
    if placed.share is None:
        return q / q.sum(-1, keepdim=True)
    q = q + placed.share * (1.0 - q.sum(-1, keepdim=True))
    return q / q.sum(-1, keepdim=True).detach()  # rows where nothing sits on a kink


def place(x: Tensor, weights: Tensor | None, utility: Utility) -> Placed:
    """Solve on detached values, then let t move."""
    fixed = x.detach()
    held = None if weights is None else weights.detach() > 0
    center = _center(fixed, None if weights is None else weights.detach(), utility)
    z = x - center
    if held is not None:  # a loss without weight may lie anywhere, and must not overflow anything: the least does not
        least = torch.where(held, z.detach(), 0.0).amin(-1, keepdim=True)
        z = torch.where(held, z, torch.where(torch.isfinite(least), least, 0.0))
    shape = form(utility)
    plain = shape.plain.utility  # all that is searched for is a number
    with torch.no_grad():
        found = find(z.detach(), None if weights is None else weights.detach(), plain)
    t = found.t.detach()
    m = mean(shape.left_slope(z, t, TORCH), weights)
    h = mean(shape.plain.curvature(z.detach(), t, TORCH), weights).detach()
    curved = h > 0.0
    # Where u is straight at every loss any t near t* is as good; moving with the mean keeps t + c for losses + c.
    drift = torch.where(curved, (m - m.detach()) / torch.where(curved, h, 1.0), mean(z - z.detach(), weights))
    if found.jump is None:
        return Placed(center, t + drift, z, t + drift, None)
    # t follows the losses on a kink, and the kink: share > 0 there, summing to 1 over the row, or 0 in rows without.
    weight = found.jump if weights is None else found.jump * weights.detach()
    total = weight.sum(-1, keepdim=True)
    pinned = total > 0.0
    share = weight / torch.where(pinned, total, 1.0)
    on_kink = found.jump > 0.0
    at = _kinks_met(z, t, shape)
    follow = (share * torch.where(on_kink, (z - z.detach()) - (at - at.detach()), 0.0)).sum(-1, keepdim=True)
    t = t + torch.where(pinned, follow, drift)
    return Placed(center, t, torch.where(on_kink, at, z), torch.where(on_kink, 0.0, t), share)


def _kinks_met(z: Tensor, t: Tensor, shape: Form) -> Tensor:
    """The place of the kink that each loss sits on, moving with the parameters that are learned; 0 for the others."""
    at = torch.zeros_like(z.detach())
    for which, kink in enumerate(shape.kinks):
        place = shape.kink_place(which, at) if shape.is_learned else kink.at
        at = torch.where(z.detach() - kink.at == t, place, at)
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
    """Where the slope jumps, t* either puts a loss on a kink or lies between two such places, where it is continuous.

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
