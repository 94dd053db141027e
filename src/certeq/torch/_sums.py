"""OCE of a process group; of a very long batch by sums, without sending every loss to every rank.

The solvers of ``_vector`` ask the losses for nothing but means. With a mean over all ranks in place of one over an
array they run unchanged, in step on every rank, each on its own shard: a round of talk per mean, and the arithmetic
divided by the number of ranks. CVaR needs a quantile besides: no loss below the least of the ranks' own quantiles can
be it, so that the tail alone is sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from certeq.risk._vector import (
    Floats,
    Mean,
    by_newton,
    facts_of,
    log_mean_exp,
    mean_and_variance,
    solve_vector,
    two_pieces,
    upper_quantile,
)
from certeq.torch._checks import Dim
from certeq.torch._group import Ranks
from certeq.torch._pool import Meeting, for_average, gather, meet, uncompiled
from certeq.utilities import Exponential, Pieces, Quadratic, Utility
from certeq.utilities.forms import form

LONG = 1 << 18  # losses of all ranks together from which on the rounds cost less than gathering and solving them all
_DRAW = 4096  # losses of each rank that tell where to start


@uncompiled
def oce_of_group(
    losses: Tensor,
    utility: Utility,
    weight: Tensor | None,
    dim: Dim,
    allow_inf: bool,
    validate: bool,
    process_group: Any,
    gathered: Callable[[Tensor, Tensor | None], Tensor],
) -> Tensor:
    """OCE of the batch of all ranks: from sums where that is cheaper, else ``gathered`` of all losses and weights."""
    meeting = meet(losses, utility, weight, dim, allow_inf, validate, process_group, "oce")
    if pays(meeting, utility):
        return oce_by_sums(meeting, utility)
    every, w, _ = gather(meeting)
    return gathered(every, w)


def pays(meeting: Meeting, utility: Utility) -> bool:
    """Whether sums are the cheaper way, and open; every rank comes to the same answer."""
    _, found, ranks, _ = meeting
    if ranks.count == 1 or sum(one.samples for one in found) < LONG or not all(one.summable for one in found):
        return False
    if meeting.shard.losses.ndim > 1 or not utility.has_curvature:
        return False
    return utility.shape is not None or not utility.kinks


def oce_by_sums(meeting: Meeting, utility: Utility) -> Tensor:
    """OCE of the batch of all ranks; backward gives the local tilt times the number of ranks."""
    losses = meeting.shard.losses
    value, tilt = _Shards(meeting).solve(utility)
    fixed = torch.from_numpy(tilt).to(losses)
    answer: Tensor = _Known.apply(for_average(losses, meeting.ranks.count), fixed, value)  # type: ignore[no-untyped-call]
    return answer


class _Shards:
    """The losses of this rank, with means over those of all ranks."""

    def __init__(self, meeting: Meeting) -> None:
        losses, weight = meeting.shard
        self.ranks: Ranks = meeting.ranks
        self.x: Floats = losses.detach().double().cpu().numpy()
        self.weights: Floats | None = None
        if any(one.weighted for one in meeting.found):
            self.weights = np.zeros(0) if weight is None else weight.detach().cpu().numpy()
        # Slopes of a float32 batch need no more digits than its gradient will keep.
        self.tolerance = 1e-14 if losses.dtype == torch.float64 else 1e-6
        held = self.x if self.weights is None else self.x[self.weights > 0]
        own = float(held.size) if self.weights is None else float(self.weights.sum())
        high, low = (float(held.max()), float(held.min())) if held.size else (-math.inf, math.inf)
        rows = self._rows([own, high, low])
        self.mass = math.fsum(rows[:, 0])
        if not self.mass > 0.0:
            raise ValueError("weight sums to 0 over all ranks; at least one sample must have a weight above 0.")
        self.high, self.low = float(rows[:, 1].max()), float(rows[:, 2].min())

    def solve(self, utility: Utility) -> tuple[float, Floats]:
        """OCE, and this rank's part of the tilt."""
        shape, anchor, facts = utility.shape, utility.anchor, facts_of(form(utility))
        fine = self.high - self.low < math.inf or (isinstance(shape, Exponential) and -math.inf < self.high < math.inf)
        if not fine:  # allowed or unchecked: as for one process, infinity or NaN
            return float(self._rows([float(self.x.sum())]).sum()), np.full(self.x.shape, math.nan)
        closed = isinstance(shape, Exponential | Quadratic) or (isinstance(shape, Pieces) and shape.low == shape.high)
        # Losses are taken less a center near the threshold, whose digits they keep however far the greatest one is.
        center = self.high
        if not closed:
            center = self._upper_quantile(self.x, shape.tail) if isinstance(shape, Pieces) else self._start(utility)
        z = self.x - center
        if self.weights is not None:
            z = np.where(self.weights > 0, z, 0.0)  # a loss without weight must not overflow anything
        mean: Mean = lambda a: math.fsum(self._rows([self._sum(a)])[:, 0]) / self.mass
        if isinstance(shape, Exponential):
            answer = log_mean_exp(z, mean, shape.rate, facts)
        elif isinstance(shape, Quadratic):
            answer = mean_and_variance(z, mean, shape.bend, facts)
        elif isinstance(shape, Pieces) and shape.low == shape.high:
            answer = mean_and_variance(z, mean, 0.0, facts)
        elif isinstance(shape, Pieces):
            answer = two_pieces(z, mean, form(utility), facts)
        else:
            bracket = self.low - center - anchor, self.high - center - anchor
            with np.errstate(all="ignore"):
                answer = by_newton(z, mean, form(utility), *bracket, 0.0, self.tolerance)
        tilt = answer.density / (self.mass * answer.total)
        return center + answer.value, tilt if self.weights is None else tilt * self.weights

    def _sum(self, a: Floats) -> float:
        return float(a.sum()) if self.weights is None else float(a.dot(self.weights))

    def _rows(self, numbers: list[float]) -> Floats:
        """The same few numbers of every rank, one row each."""
        return torch.stack(self.ranks.gather(torch.tensor(numbers, dtype=torch.float64))).numpy()

    def _start(self, utility: Utility) -> float:
        """The mean of the thresholds of a few losses of each rank."""
        step = -(-self.x.size // _DRAW) or 1
        drawn, w = self.x[::step], None if self.weights is None else self.weights[::step]
        mass = float(drawn.size) if w is None else float(w.sum())
        solved = solve_vector(drawn, None if w is None else w / mass, form(utility), 1e-3) if mass > 0.0 else None
        rows = self._rows([0.0, 0.0] if solved is None else [mass, mass * solved.threshold])
        return math.fsum(rows[:, 1]) / max(math.fsum(rows[:, 0]), 1e-300)

    def _upper_quantile(self, z: Floats, tail: float) -> float:
        """The least loss with mass above it at most ``tail``, exactly.

        Below every rank's own such loss each shard has more than that share of its mass above, and so have all.
        """
        w, own = np.ones_like(z) if self.weights is None else self.weights, math.inf
        lower = tail * (1.0 + 1e-9)  # a little further down: shares of weights are rounded
        if self.weights is not None and w.sum() > 0.0:
            own = upper_quantile(z, w / w.sum(), lower)
        elif self.weights is None and z.size:
            place = z.size - 1 - min(int(z.size * lower), z.size - 1)
            own = float(np.partition(z, place)[place])
        near = (z >= self._rows([own])[:, 0].min()) & (w > 0)
        count = int(near.sum())
        counts = self._rows([float(count)])[:, 0].astype(int)
        padded = torch.zeros((2, int(counts.max())), dtype=torch.float64)
        padded[0, :count], padded[1, :count] = torch.from_numpy(z[near]), torch.from_numpy(w[near])
        parts = [part[:, :size] for part, size in zip(self.ranks.gather(padded), counts, strict=True)]
        candidates = torch.cat(parts, dim=1).numpy()
        return upper_quantile(candidates[0], candidates[1], tail * self.mass)


class _Known(torch.autograd.Function):
    """A value whose gradient is already known."""

    @staticmethod
    def forward(ctx: Any, losses: Tensor, tilt: Tensor, value: float) -> Tensor:
        ctx.save_for_backward(tilt)
        return torch.tensor(value, dtype=losses.dtype, device=losses.device)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (tilt,) = ctx.saved_tensors
        return grads[0] * tilt, None, None
