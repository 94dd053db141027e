"""Risks with more inner variables than t, of tensors: found as arrays, then made to move.

The inner variables v of detached losses come from `certeq.risk`. To first order in the losses

    v = v* - H^-1 (g - g*),

g the gradient of the inner objective in v at v*, and H its second derivative: the value is v*, the derivative the
implicit function theorem's. With it the objective has the right first derivatives (the tilt) and the right second ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from certeq.risk.solvers import SolvedInner, needs_sorting, solve_risk
from certeq.torch._checks import check_values, check_weights
from certeq.torch._tensor import OF_ROWS, TORCH, mean, weighted_rows
from certeq.utilities import Mixture, Risk, SortedRisk, Utility
from certeq.utilities.forms import Inner


def solve_row(x: Any, w: Any, risk: Risk, tolerance: float = 0.0) -> SolvedInner:
    """The answer for one row of finite losses as an array; NaN where they are not finite, or too far apart."""
    found = solve_risk(
        np.asarray(x, np.float64), None if w is None else np.asarray(w, np.float64), risk, None, tolerance
    )
    if found is not None:
        return found
    value = math.inf if (x == math.inf).any() else math.nan
    inner = np.empty(0) if needs_sorting(risk) else np.full(len(risk.inner().cost), value)
    return SolvedInner(value, inner, np.full(x.shape, math.nan))


def threshold_of(found: SolvedInner, risk: Risk) -> Any:
    """t, or one for each part of a mixture."""
    which = [term.t for term in risk.inner().terms]
    return found.inner[which] if isinstance(risk, Mixture) else found.inner[which[0]]


def reduce_risk(
    want: str,
    losses: Tensor,
    risk: Risk,
    weight: Tensor | None,
    dims: tuple[int, ...],
    allow_inf: bool,
    validate: bool = False,
) -> Tensor:
    """What `reduce_tensor` returns, of a risk with more inner variables: on any device, with second derivatives."""
    if torch._C._are_functorch_transforms_active():  # refused for good: a transform has no numbers to solve for
        raise NotImplementedError(
            f"{risk!r} cannot be used inside a transform of torch.func: its inner variables are found outside of the "
            "graph. Transform the network and leave the loss outside, or use a utility."
        )
    if validate:
        if weight is not None:
            check_weights(weight, dims)
        check_values(losses, allow_inf, weight)
    x, w = weighted_rows(losses, weight, dims)
    if want == "tilt" and torch.is_grad_enabled() and x.requires_grad:
        refuse_second(risk)
    flat = x.reshape(-1, x.shape[-1])
    found: Tensor = _moving(flat, None if w is None else w.reshape(flat.shape), risk, want)
    return found.reshape((*x.shape[:-1], *found.shape[1:])).to(losses.dtype)


def _moving(x: Tensor, weights: Tensor | None, risk: Risk, want: str) -> Any:
    """What is wanted of every row, as a function of the losses."""
    if isinstance(risk, Utility):
        return OF_ROWS[want](x, weights, risk)
    if isinstance(risk, Mixture):
        if want == "threshold":
            risk.inner()  # says why there is none, where there is none
        parts = [_moving(x, weights, part, want) for part in risk.risks]
        if want == "threshold":
            return torch.stack(parts, -1)
        return sum(weight * part for weight, part in zip(risk.weights, parts, strict=True))
    if not isinstance(risk, SortedRisk) and risk.inner().terms[0].s is None:  # a ball that needs no scale
        return _moving(x, weights, risk.inner().terms[0].form.utility, want)
    solved = _solve_rows(x, weights, risk)
    tilt = torch.from_numpy(np.array([one.tilt for one in solved])).to(x)
    if isinstance(risk, SortedRisk):
        if want == "threshold":
            risk.inner()
        return tilt if want == "tilt" else _at_fixed_tilt(x, tilt, solved)
    return _moving_ball(x, weights, risk.inner(), solved, tilt, want)


def _solve_rows(x: Tensor, weights: Tensor | None, risk: Risk) -> list[SolvedInner]:
    w: Any = None
    if weights is not None:
        w = weights.detach().cpu().double()
        w = (w / w.sum(-1, keepdim=True)).numpy()
    return [solve_row(z, None if w is None else w[i], risk) for i, z in enumerate(x.detach().cpu().double().numpy())]


def _at_fixed_tilt(x: Tensor, tilt: Tensor, solved: list[SolvedInner]) -> Tensor:
    """The value with the tilt as its first derivative, and no second one."""
    value = torch.tensor([one.value for one in solved], dtype=torch.float64, device=x.device).to(x.dtype)
    return value + (tilt * (x - x.detach())).sum(-1)


def _moving_ball(
    x: Tensor, weights: Tensor | None, inner: Inner, solved: list[SolvedInner], tilt: Tensor, want: str
) -> Tensor:
    """What is wanted of a ball; at s = 0 it is linear in the losses that count, the largest or those of CVaR."""
    (term,), cost = inner.terms, float(inner.cost[1])
    u, k = term.form, term.weight
    center = x.detach().amax(-1, keepdim=True)
    z = x - center
    at = torch.from_numpy(np.array([one.inner for one in solved])).to(x.device)
    t, s = (at[:, :1] - center.double()).to(x.dtype), at[:, 1:].to(x.dtype)
    vanishes = s <= 0.0
    s = torch.where(vanishes, 1.0, s)
    away = (z - t) / s
    slope = u.left_slope(z / s, t / s, TORCH)
    gradient_t = -k * mean(slope, weights)
    gradient_s = k * mean(u.utility._value(away, TORCH) - away * slope, weights)
    curvature, away = k * u.curvature(z.detach() / s, t / s, TORCH) / s, away.detach()
    h_tt, h_ts = mean(curvature, weights).detach(), mean(curvature * away, weights).detach()
    h_ss = mean(curvature * away * away, weights).detach()
    determinant = h_tt * h_ss - h_ts * h_ts
    curved = (determinant > 0.0) & ~vanishes
    determinant = torch.where(curved, determinant, 1.0)
    move_t, move_s = gradient_t - gradient_t.detach(), gradient_s - gradient_s.detach()
    t = t - torch.where(curved, (h_ss * move_t - h_ts * move_s) / determinant, 0.0)
    s = s - torch.where(curved, (h_tt * move_s - h_ts * move_t) / determinant, 0.0)
    linear = vanishes.squeeze(-1)
    if u.kinks:  # derivatives of t and s jump there: the first one of the value is the tilt all the same
        linear = torch.ones_like(linear)
    if want == "threshold":
        on_top = torch.where(z == z.amax(-1, keepdim=True), 1.0, 0.0)
        follow = (on_top / on_top.sum(-1, keepdim=True) * (z - z.detach())).sum(-1, keepdim=True)
        return (center + torch.where(vanishes, t.detach() + follow, t)).squeeze(-1)
    if want == "tilt":
        q = u.left_slope(z / s, t / s, TORCH)
        q = q if weights is None else q * weights
        return torch.where(linear.unsqueeze(-1), tilt, q / q.sum(-1, keepdim=True))
    value = center + t + cost * s + k * s * mean(u.utility._value((z - t) / s, TORCH), weights)
    return torch.where(linear, _at_fixed_tilt(x, tilt, solved), value.squeeze(-1))


def refuse_second(risk: Risk) -> None:
    """Say why there is no second derivative, where there is none."""
    for part in risk.risks if isinstance(risk, Mixture) else (risk,):
        terms = () if isinstance(part, SortedRisk) else part.inner().terms
        if any(term.s is not None and term.form.kinks for term in terms):  # refused: it would be a wrong one
            raise NotImplementedError(
                f"{part!r} has no second derivatives here: its utility has kinks, along which the scale moves too. "
                "Take the ball of a smooth utility, or first derivatives alone."
            )
