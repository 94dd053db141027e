"""OCE, shortfall and tilt of rows of losses as differentiable tensors, on any device, compiled or not.

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

from certeq.torch._search import POINTS, TORCH, bracket, find_root, mean, upper_quantile
from certeq.utilities import Exponential, Pieces, Quadratic, Utility


class Found(NamedTuple):
    """t* of centred losses, and which losses sit on a kink there, with the height of its jump (0 elsewhere)."""

    t: Tensor
    jump: Tensor | None = None
    kink: Tensor | float = 0.0


class Placed(NamedTuple):
    """Losses less t, with t moving; ``share`` says how t follows the losses on a kink, 0 rows where none is."""

    centre: Tensor
    t: Tensor
    y: Tensor
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
    value = placed.t + mean(utility._value(placed.y, TORCH), weights)
    return (placed.centre + value).squeeze(-1)


def shortfall_rows(x: Tensor, weights: Tensor | None, utility: Utility) -> Tensor:
    """t* along the last dimension."""
    placed = place(x, weights, utility)
    return (placed.centre + placed.t).squeeze(-1)


def tilt_rows(x: Tensor, weights: Tensor | None, utility: Utility) -> Tensor:
    """q = w u'(x - t*); what is missing from a sum of 1 goes to the losses on a kink."""
    placed = place(x, weights, utility)
    q: Tensor = utility._slope(placed.y, TORCH)
    q = q / x.shape[-1] if weights is None else q * weights
    if placed.share is None:
        return q / q.sum(-1, keepdim=True)
    q = q + placed.share * (1.0 - q.sum(-1, keepdim=True))
    return q / q.sum(-1, keepdim=True).detach()  # rows where nothing sits on a kink


def place(x: Tensor, weights: Tensor | None, utility: Utility) -> Placed:
    """Solve on detached values, then let t move."""
    fixed = x.detach()
    centre = fixed.amax(-1, keepdim=True)
    held = None
    if weights is not None:
        held = weights.detach() > 0
        centre = torch.where(held, fixed, -torch.inf).amax(-1, keepdim=True)
    z = x - centre
    if held is not None:  # a loss without weight may lie anywhere, and must not overflow anything: the least does not
        least = torch.where(held, z.detach(), 0.0).amin(-1, keepdim=True)
        z = torch.where(held, z, torch.where(torch.isfinite(least), least, 0.0))
    with torch.no_grad():
        found = find(z.detach(), None if weights is None else weights.detach(), utility)
    t = found.t.detach()
    m = mean(utility._slope(z - t, TORCH), weights)
    h = mean(utility._curvature(z.detach() - t, TORCH), weights).detach()
    bends = h > 0.0
    # Where u is straight at every loss any t near t* is as good; moving with the mean keeps t + c for losses + c.
    drift = torch.where(bends, (m - m.detach()) / torch.where(bends, h, 1.0), mean(z - z.detach(), weights))
    if found.jump is None:
        return Placed(centre, t + drift, z - (t + drift), None)
    # t follows the losses on a kink: share > 0 there, summing to 1 over the row, or 0 in rows that have none.
    weight = found.jump if weights is None else found.jump * weights.detach()
    total = weight.sum(-1, keepdim=True)
    pinned = total > 0.0
    share = weight / torch.where(pinned, total, 1.0)
    follow = (share * (z - z.detach())).sum(-1, keepdim=True)
    t = t + torch.where(pinned, follow, drift)
    return Placed(centre, t, torch.where(found.jump > 0.0, found.kink, z - t), share)


def find(z: Tensor, weights: Tensor | None, utility: Utility) -> Found:
    """t* of centred, detached losses."""
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
        quantile = upper_quantile(z, weights, shape.tail)
        on_kink = z == quantile if weights is None else (z == quantile) & (weights > 0)
        return Found(quantile - shape.kink, on_kink.to(z.dtype) * (shape.high - shape.low), shape.kink)
    low, high, start = bracket(z, weights, utility)
    if utility.kinks:
        return _between_kinks(z, weights, utility, low, high)
    return Found(find_root(z, weights, utility, low, high, start))


def _between_kinks(z: Tensor, weights: Tensor | None, utility: Utility, low: Tensor, high: Tensor) -> Found:
    """Where the slope jumps, t* either puts a loss on a kink or lies between two such places, where it is continuous.

    The least place where the mean left slope is at most 1 is found by looking at POINTS places at once.
    """
    places = torch.cat([z - kink for kink, _ in utility.kinks], dim=-1).sort(dim=-1).values
    count = places.shape[-1]

    def on_kinks(t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Losses less t, exact on the kinks (t + kink may round away from the loss), the jumps and kinks there."""
        every = z.unsqueeze(-2)
        jump = torch.zeros_like(every - t.unsqueeze(-1))
        at = torch.zeros_like(jump)
        for kink, height in utility.kinks:
            sits = every - kink == t.unsqueeze(-1)
            jump, at = torch.where(sits, height, jump), torch.where(sits, kink, at)
        return torch.where(jump > 0.0, at, every - t.unsqueeze(-1)), jump, at

    def means(a: Tensor) -> Tensor:
        return mean(a, None if weights is None else weights.unsqueeze(-2)).squeeze(-1)

    first = torch.zeros_like(low, dtype=torch.int64)  # the answer lies in [first, beyond]
    beyond = torch.full_like(first, count)
    part = torch.arange(POINTS, device=z.device)
    for _ in range(math.ceil(math.log(count + 1, POINTS)) + 1):
        trial = first + (beyond - first) * part // POINTS
        slope = means(utility._slope(on_kinks(places.gather(-1, trial.clamp(max=count - 1)))[0], TORCH))
        passed = ((slope > 1.0) & (trial < beyond)).sum(-1, keepdim=True)  # so many trials lie before the answer
        ends = torch.cat([first, trial + 1, beyond], dim=-1)
        later = torch.cat([trial, beyond], dim=-1)
        first, beyond = ends.gather(-1, passed), later.gather(-1, passed)
    right = torch.where(first < count, places.gather(-1, first.clamp(max=count - 1)), high)
    left = torch.where(first > 0, places.gather(-1, (first - 1).clamp(min=0)), low)
    y, jump, kink = (a.squeeze(-2) for a in on_kinks(right))
    settled = (first < count) & (mean(utility._slope(y, TORCH) + jump, weights) >= 1.0)
    left = torch.where(settled, right, left)  # nothing is left to be found in such rows
    t = find_root(z, weights, utility, left, right, 0.5 * (left + right))
    return Found(torch.where(settled, right, t), torch.where(settled, jump, 0.0), kink)
