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
from torch.nn.functional import pad

from certeq.risk.solvers import SolvedInner, needs_sorting, solve_risk
from certeq.torch._checks import check_values, check_weights
from certeq.torch._tensor import OF_ROWS, TORCH, let_through, mean, weighted_rows
from certeq.utilities import Mixture, Risk, SortedRisk, Utility


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
    return found.inner[which] if len(which) > 1 or isinstance(risk, Mixture) else found.inner[which[0]]


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
    if want != "oce" and torch.is_grad_enabled() and (x.requires_grad or (w is not None and w.requires_grad)):
        refuse_second(risk)
    flat = x.reshape(-1, x.shape[-1])
    weights = None if w is None else w.reshape(flat.shape)
    found = let_through(flat, allow_inf, lambda x: _moving(x, weights, risk, want))
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
    terms = () if isinstance(risk, SortedRisk) else risk.inner().terms
    if len(terms) > 1:
        raise NotImplementedError(f"{risk!r} must be a certeq.Mixture for this; found {len(terms)} terms.")
    if terms and terms[0].s is None:  # a ball that needs no scale
        return _moving(x, weights, terms[0].form.utility, want)
    solved = _solve_rows(x, weights, risk)
    tilt = torch.from_numpy(np.array([one.tilt for one in solved])).to(x)
    if not isinstance(risk, SortedRisk):
        return _moving_ball(x, weights, risk, solved, tilt, want)
    if want == "threshold":
        risk.inner()
    if weights is not None and weights.requires_grad:
        tilt = tilt + _without_value(_distorted_tilt(x, weights, risk))
    return tilt if want == "tilt" else _value_at(x, tilt, solved)


def _solve_rows(x: Tensor, weights: Tensor | None, risk: Risk) -> list[SolvedInner]:
    w: Any = None
    if weights is not None:
        w = weights.detach().cpu().double()
        w = (w / w.sum(-1, keepdim=True)).numpy()
    return [solve_row(z, None if w is None else w[i], risk) for i, z in enumerate(x.detach().cpu().double().numpy())]


def _without_value(moving: Tensor) -> Tensor:
    """Return zeros with the derivatives of a tensor."""
    return moving - moving.detach()


def _value_at(x: Tensor, tilt: Tensor, solved: list[SolvedInner]) -> Tensor:
    """Return the value with the derivatives of the sum of tilt times losses."""
    value = torch.tensor([one.value for one in solved], dtype=torch.float64, device=x.device).to(x.dtype)
    return value + _without_value((tilt * (x - x.detach().amax(-1, keepdim=True))).sum(-1))


def _distorted_tilt(x: Tensor, weights: Tensor, risk: SortedRisk) -> Tensor:
    """Return the tilt as a function of the weights, which has the derivatives of g."""
    ranked, order = (-x.detach().cpu().double()).sort(-1)
    w = weights.cpu().double().gather(-1, order)
    inside = w.cumsum(-1)[..., :-1].clamp(1e-200, 1.0 - 1e-16)  # g may have no slope at 0 or 1
    g, above = (pad(pad(one, (1, 0)), (0, 1), value=1.0) for one in (risk._distorted(inside, TORCH), inside))
    first, last = (torch.searchsorted(ranked, ranked, right=right) for right in (False, True))  # of losses that tie
    gained, mass = (one.gather(-1, last) - one.gather(-1, first) for one in (g, above))
    tilt = w * gained / torch.where(mass > 0.0, mass, 1.0)
    return torch.zeros_like(tilt).scatter(-1, order, tilt).to(x)


def _moving_ball(
    x: Tensor, weights: Tensor | None, risk: Risk, solved: list[SolvedInner], tilt: Tensor, want: str
) -> Tensor:
    """What is wanted of a ball; at s = 0 it is linear in the losses that count, the largest or those of CVaR."""
    (term,), cost = risk.inner().terms, float(risk.inner().cost[1])
    u, k = term.form, term.weight
    center = x.detach().amax(-1, keepdim=True)
    z = x - center
    at = torch.from_numpy(np.array([one.inner for one in solved])).to(x.device)
    t, s = (at[:, :1] - center.double()).to(x.dtype), at[:, 1:].to(x.dtype)
    vanishes = s <= 0.0
    s = torch.where(vanishes, 1.0, s)
    y = torch.where(vanishes, t + 1.0, z)  # there u may have no derivatives at the losses, and they do not count
    away = (y - t) / s
    slope = u.left_slope(y / s, t / s, TORCH)
    gradient_t = -k * mean(slope, weights)
    gradient_s = k * mean(u.utility._value(away, TORCH) - away * slope, weights)
    curvature, away = k * u.curvature(y.detach() / s, t / s, TORCH) / s, away.detach()
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
    low, high = u.utility.slope_range
    counts = bool(u.kinks) or (low, high) != (0.0, math.inf)  # else it is the largest loss, whatever the weights
    of_weights = weights is not None and weights.requires_grad and counts and bool(linear.any())
    if of_weights and want == "tilt":
        refuse_second(risk, of_weights)
    if want == "threshold":  # at s = 0 it is a loss, the largest or a quantile
        far = (z - t).detach().abs()
        far = far if weights is None else far.masked_fill(weights == 0.0, math.inf)
        on_top = torch.where(far == far.amin(-1, keepdim=True), 1.0, 0.0)
        follow = (on_top / on_top.sum(-1, keepdim=True) * (z - z.detach())).sum(-1, keepdim=True)
        return (center + torch.where(vanishes, t.detach() + follow, t)).squeeze(-1)
    if want == "tilt":
        q = u.left_slope(y / s, t / s, TORCH)
        q = q if weights is None else q * weights
        return torch.where(linear.unsqueeze(-1), tilt, q / q.sum(-1, keepdim=True))
    value = center + t + cost * s + k * s * mean(u.utility._value((y - t) / s, TORCH), weights)
    fixed = _value_at(x, tilt, solved)
    if of_weights:
        each = s * u.utility._value((z - t) / s, TORCH)
        limit = low * (z - t) + (torch.relu(z - t) * (high - low) if high < math.inf else 0.0)
        fixed = fixed + _without_value(mean(k * torch.where(vanishes, limit, each).detach(), weights).squeeze(-1))
    found = torch.where(linear, fixed, value.squeeze(-1))
    if found.requires_grad and (u.kinks or of_weights):
        found.register_hook(  # type: ignore[no-untyped-call]
            lambda _: refuse_second(risk, of_weights) if torch.is_grad_enabled() else None
        )
    return found


def refuse_second(risk: Risk, of_weights: bool = False) -> None:
    """Raise NotImplementedError where second derivatives are not known, those in weights at a scale of 0 included."""
    for part in risk.risks if isinstance(risk, Mixture) else (risk,):
        terms = () if isinstance(part, SortedRisk) else part.inner().terms
        if any(term.s is not None and term.form.kinks for term in terms):  # refused: it would be a wrong one
            raise NotImplementedError(
                f"{part!r} has no second derivatives here: its utility has kinks, along which the scale moves too. "
                "Take the ball of a smooth utility, or first derivatives alone."
            )
    if of_weights:
        raise NotImplementedError(f"{risk!r} has no second derivatives in weight here: its scale s is 0.")
