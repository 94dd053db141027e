"""The largest ratio of reward to risk: a sequence of exact problems, the last of which bounds every ratio."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import check_array, check_number
from certeq.optimize.domains import Domain, UnboundedError
from certeq.optimize.domains._rows import Constraints, minimize_over, onto_rows
from certeq.optimize.exact._solve import check_limits, status_of
from certeq.optimize.functions import RiskFunction, SquareFunction, WeightedSum, minimize_objective, time_left
from certeq.optimize.gaps import proved_gap
from certeq.optimize.limited import LimitedResult, solve_limited
from certeq.optimize.losses import Loss
from certeq.optimize.terms import Limit, RiskTerm, read_decision
from certeq.utilities import Risk

Vector = NDArray[np.float64]
_EPS = float(np.finfo(np.float64).eps)
_NEAR = 0.05  # a relative change of the ratio after which the next point is near
_FEW_DIGITS = 1e-4  # enough of a step that another will follow
_ROUNDED = 1e-13  # relative, by which a point may break the rows
_LITTLE = 1e-6  # relative: far more than the tolerance of a linear program
_STEPS = 50  # Dinkelbach's method takes four or five


@dataclass(frozen=True, eq=False)
class RatioSolution:
    """The point of the largest ratio of reward to risk that was found, and a bound on all others.

    Attributes
    ----------
    theta : array
        The point.
    ratio : float
        reward / risk there.
    gap : float
        No point of the feasible set has a ratio above ``ratio + gap``; rounding is allowed for.
    reward, risk : float
        Numerator and denominator.
    limit_values, limit_multipliers : array
        Of the limits, if there are any: their values, and by how much the *risk less reward/ratio* falls for each unit
        of their levels.
    status : str
        "converged" where gap <= tol * ratio, else "iteration limit", "time limit" or "stalled".
    iterations : int
        Exact solves.
    seconds : float
        Wall-clock time.
    radius : float
        On a set that nothing bounds: the gap is proved against every point whose entries are that near.

    See Also
    --------
    maximize_ratio
        Maximize a ratio of reward to risk.
    Solution
        What `certeq.minimize` returns.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> draws = np.random.default_rng(0).normal([0.05, 0.1], [1.0, 2.0], size=(1000, 2))
    >>> returns = 0.01 * draws
    >>> reward, losses = returns.mean(axis=0), ce.LinearLoss(-returns)
    >>> found = ce.maximize_ratio(reward, losses, ce.CVaR(0.05), domain=ce.Simplex())
    >>> found.status, bool(found.gap < 1e-9 * found.ratio)
    ('converged', True)
    """

    theta: Vector
    ratio: float
    gap: float
    reward: float
    risk: float
    limit_values: Vector
    limit_multipliers: Vector
    status: str
    iterations: int
    seconds: float
    radius: float = np.inf


def maximize_ratio(
    reward: Any,
    loss: Loss | Sequence[RiskTerm],
    risk: Risk | None = None,
    *,
    domain: Domain,
    reward_offset: float = 0.0,
    limits: Sequence[Limit] = (),
    weights: Any = None,
    theta0: Any = None,
    tol: float = 1e-9,
    max_iter: int = _STEPS,
    time_limit: float | None = None,
) -> RatioSolution:
    r"""Maximize :math:`(r^\top\theta + r_0) / \rho(A\theta)` over a polyhedron.

    Parameters
    ----------
    reward : array (d,)
        The vector r, such as the expected returns of assets.
    loss : LinearLoss or sequence of RiskTerm
        The losses; or several terms, whose weighted sum is the risk.
    risk : Risk, optional
        The risk measure; not beside several terms. It need not be coherent, but must be positive on the whole set.
    domain : Domain
        A feasible set that is a polyhedron, such as ``Simplex()``.
    reward_offset : float
        The number r_0, such as minus a rate without risk.
    limits : sequence of Limit
        Limits on other risks.
    weights : array (n,), optional
        Probabilities of the samples, up to a factor, also of terms and limits that have none of their own.
    theta0 : array (d,), optional
        Start, such as an earlier solution.
    tol : float
        Tolerance of the gap, relative to the ratio.
    max_iter : int
        Limit on steps, each of them an exact solve.
    time_limit : float, optional
        Limit in seconds.

    Returns
    -------
    RatioSolution
        The point of the largest ratio that was found, and a bound on all others.

    Raises
    ------
    ValueError
        Where the risk is not positive on the set, or the reward never is: the ratio has no largest value then, or none
        that means anything.

    See Also
    --------
    minimize
        Minimize the OCE of losses over a feasible set.
    RatioSolution
        What `certeq.maximize_ratio` returns.
    certeq.portfolio.MinimumOCE
        Portfolios of least OCE, and of largest return or ratio.

    Notes
    -----
    Dinkelbach's method: with m the best ratio so far, minimize :math:`\rho - (r^\top\theta + r_0)/m`. Where the proved
    minimum is :math:`-\varepsilon` and no risk on the set is below :math:`\rho_0`, no ratio is above
    :math:`m (1 + \varepsilon/\rho_0)`. It converges superlinearly, and every solve starts from the last one. From a
    ``theta0`` that keeps the limits, on a set where every reward is at least :math:`r_{\min} > 0`, the problem of the
    least risk is spared: there :math:`\rho_0 = r_{\min}/m - \varepsilon`.

    Where the risk is coherent, :math:`\rho(A\theta)/(r^\top\theta + r_0)` is the risk of a multiple of :math:`\theta`
    whose reward is 1. Without limits and constant terms the least risk of such multiples, one exact solve, is where the
    method begins (Charnes and Cooper 1962); its first step then proves the ratio.

    References
    ----------
    Charnes and Cooper (1962), Programming with linear fractional functionals, doi:10.1002/nav.3800090303.
    Dinkelbach (1967), On nonlinear fractional programming, doi:10.1287/mnsc.13.7.492.

    Examples
    --------
    >>> import certeq as ce
    >>> losses = ce.LinearLoss([[1.0, 2.0], [0.5, -1.0], [-1.0, 0.5]])
    >>> found = ce.maximize_ratio([0.1, 0.2], losses, ce.CVaR(0.5), domain=ce.Simplex())
    >>> found.theta.round(6), round(found.ratio, 6)
    (array([0.5, 0.5]), 0.163636)
    """
    began = time.perf_counter()
    check_limits(tol, max_iter, time_limit)
    read = read_decision(loss, risk, limits, domain, weights, theta0)
    r = check_array("reward", reward, size=read.size)
    r0 = check_number("reward_offset", reward_offset)
    deadline = np.inf if time_limit is None else began + time_limit
    slope, constant = read.lifted(r)
    found = solve_ratio(
        read.objective, slope, r0 + constant, read.limits, read.rows, names=read.names, theta0=read.start,
        tol=tol, max_iter=max_iter, deadline=deadline,
    )  # fmt: skip
    return replace(found, theta=read.theta(found.theta), seconds=time.perf_counter() - began)


def solve_ratio(
    risk: WeightedSum,
    reward: Vector,
    reward_offset: float,
    limits: Sequence[tuple[RiskFunction | SquareFunction, float]],
    q: Constraints,
    *,
    names: Sequence[str] = (),
    theta0: Vector | None = None,
    tol: float = 1e-9,
    max_iter: int = _STEPS,
    deadline: float = np.inf,
) -> RatioSolution:
    """Maximize (reward.v + reward_offset)/risk(v) over the polyhedron, within the limits."""

    def least(
        objective: WeightedSum, start: Vector | None, prices: Vector | None, digits: float = tol
    ) -> LimitedResult:
        settings: dict[str, Any] = {"tol": digits, "time_limit": time_left(deadline), "names": names}
        return solve_limited(objective, limits, q, theta0=start, multipliers0=prices, **settings)

    def reward_at(v: Vector) -> float:
        return float(reward @ v) + reward_offset

    def refuse(least_risk: float) -> ValueError:
        return ValueError(
            f"the risk must be positive on the whole feasible set for a ratio; found {least_risk:.6g} at a point of "
            "it. Leave out what has no risk, or minimize the risk under a limit on the reward."
        )

    iterations, lowest, floor, radius = 0, -np.inf, 0.0, np.inf
    known = theta0 if theta0 is not None and _keeps(q, limits, theta0) and reward_at(theta0) > 0.0 else None
    if known is not None and not limits and risk.at(known).value > 0.0:
        lowest = _least_reward(reward, reward_offset, q)
    if known is not None and lowest > 0.0:  # a step then bounds the risk from below by itself
        v = known
    else:
        first = least(risk, theta0, None, max(tol, _FEW_DIGITS))  # a bound, and where to start: both need few digits
        if not first.lower_bound > 0.0:
            first = least(risk, first.theta, first.limit_multipliers)
        iterations, floor, radius, v = first.iterations, first.lower_bound, first.radius, first.theta
        if not floor > 0.0:
            raise refuse(first.value)
        if reward_at(v) <= 0.0:  # from where the reward is largest
            try:
                richest = least(WeightedSum([], -reward, constant=-reward_offset), v, None)
                iterations, v, most = iterations + richest.iterations, richest.theta, -richest.lower_bound
            except UnboundedError as error:  # somewhere on that way it is positive
                gain = float(reward @ error.direction)
                v, most = v + (1.0 - 2.0 * reward_at(v) / gain) * error.direction, np.inf
            if most <= 0.0 or reward_at(v) <= 0.0:
                raise ValueError(
                    f"the reward must be positive somewhere on the feasible set; found {reward_at(v):.6g} at most."
                )
        start = known
        if start is None and not limits:
            start = _homogeneous_start(risk, reward, reward_offset, q, v, floor, tol, deadline)
            iterations += start is not None
        if start is not None and reward_at(start) * risk.at(v).value > reward_at(v) * risk.at(start).value:
            v, known = start, start
    near, within = known is not None, radius
    best, upper, prices = v, np.inf, None
    ratio = reward_at(v) / risk.at(v).value
    stalled = 0
    for _ in range(max_iter):
        linear, constant = risk.linear - reward / ratio, risk.constant - reward_offset / ratio
        # From a point far away the exact solver takes longer than from one of its own.
        digits = tol if near else max(tol, _FEW_DIGITS)
        try:
            found = least(replace(risk, linear=linear, constant=constant), v if near else None, prices, digits)
        except UnboundedError as error:
            way = ", ".join(f"{step:+.3g} of asset {i}" for i, step in enumerate(error.direction) if step)
            raise UnboundedError(
                f"no point of the feasible set has the largest ratio: it rises above {ratio:.6g} as theta goes on for "
                f"ever along {way}. Add bounds.",
                error.direction,
            ) from error
        iterations, v, prices = iterations + found.iterations, found.theta, found.limit_multipliers
        rounding = 4.0 * _EPS * (float(np.abs(reward) @ np.abs(v)) + abs(reward_offset)) / ratio
        short = max(0.0, rounding - found.lower_bound)  # the value is 0 at the point that m belongs to
        if lowest > 0.0:
            floor = max(floor, lowest / ratio - short)
        bound = ratio * (1.0 + short / floor) if floor > 0.0 else np.inf
        if bound < upper:
            upper, radius = bound, min(within, found.radius)
        at = risk.at(v)
        if not at.value > 0.0:
            raise refuse(at.value)
        new = reward_at(v) / at.value
        near = abs(new - ratio) <= _NEAR * ratio
        stalled = 0 if new > ratio * (1.0 + 0.01 * tol) else stalled + 1
        if new > ratio:
            ratio, best = new, v
        if upper - ratio <= tol * ratio or stalled == 2 or time.perf_counter() > deadline:
            break
    at = risk.at(best)
    rounding = ratio * (at.error / at.value + 4.0 * _EPS * (len(best) + 2.0))
    gap = proved_gap(upper, ratio, rounding)
    status = status_of(gap <= tol * ratio, not stalled, time.perf_counter() > deadline)
    return RatioSolution(
        theta=best,
        ratio=ratio,
        gap=gap,
        reward=reward_at(best),
        risk=at.value,
        limit_values=found.limit_values,
        limit_multipliers=found.limit_multipliers,
        status="converged" if status == "optimal" else status,
        iterations=iterations,
        seconds=0.0,
        radius=radius,
    )


def _keeps(q: Constraints, limits: Sequence[tuple[RiskFunction | SquareFunction, float]], v: Vector) -> bool:
    """Whether v is a point of the set that keeps the limits, to rounding."""
    equal = np.abs(q.C @ v - q.c) <= _ROUNDED * (np.abs(q.C) @ np.abs(v) + np.abs(q.c))
    below = q.G @ v <= q.b + _ROUNDED * (np.abs(q.G) @ np.abs(v) + np.abs(q.b))
    inside = (v >= q.lower - _ROUNDED * np.abs(v)) & (v <= q.upper + _ROUNDED * np.abs(v))
    if not (equal.all() and below.all() and inside.all()):
        return False
    return all(at.value <= level + at.error for at, level in ((one.at(v), level) for one, level in limits))


def _least_reward(reward: Vector, reward_offset: float, q: Constraints) -> float:
    """The least reward on the set, or somewhat less."""
    try:
        v = minimize_over(q, reward)[0]
    except UnboundedError:
        return -np.inf
    size = float(np.abs(reward) @ np.abs(v)) + abs(reward_offset)
    return float(reward @ v) + reward_offset - _LITTLE * size


def _homogeneous_start(
    risk: WeightedSum,
    reward: Vector,
    reward_offset: float,
    q: Constraints,
    known: Vector,
    floor: float,
    tol: float,
    deadline: float,
) -> Vector | None:
    """The point of largest ratio, found as the multiple y of a point v whose reward is 1 and whose risk is least.

    None where the risk of a multiple is not that multiple of the risk, and where no row of the set says which multiple
    y is. No proof rests on it. A ``known`` point and a ``floor`` of the risk say how large a multiple can be.
    """
    homogeneous = risk.squares is None and risk.constant == 0.0
    homogeneous &= all(
        isinstance(one, RiskFunction) and one.offset is None and one.risk.is_coherent for _, one in risk.terms
    )
    sized = np.flatnonzero(q.c)
    if not homogeneous or not len(sized):
        return None
    multiple = q.C[sized[0]] / q.c[sized[0]]  # times y: how many times v it is
    most = risk.at(known).value / (floor * (float(reward @ known) + reward_offset))
    others = np.delete(np.arange(len(q.c)), sized[0])
    C = np.vstack([q.C[others] - np.outer(q.c[others], multiple), reward + reward_offset * multiple])
    c = np.append(np.zeros(len(others)), 1.0)
    unit = np.eye(len(reward))
    below = (q.lower != 0.0) & (q.lower > -np.inf)
    # Shares of a whole that cannot be negative cannot be more than the whole either.
    shares = bool(np.all(q.lower >= 0.0)) and bool(np.all(multiple >= 0.0))
    above = (q.upper != 0.0) & (q.upper < np.inf) & ~(shares & (multiple * q.upper >= 1.0))
    finite = q.b < np.inf
    G = np.vstack([
        q.G[finite] - np.outer(q.b[finite], multiple),
        np.outer(q.lower[below], multiple) - unit[below],
        unit[above] - np.outer(q.upper[above], multiple),
    ])  # fmt: skip
    cone = Constraints(most * np.minimum(q.lower, 0.0), most * np.maximum(q.upper, 0.0), C, c, G, np.zeros(len(G)))
    # The solver's own start is better than the known point, which is far from the largest ratio.
    y = minimize_objective(risk, cone, None, tol, time_left(deadline)).v
    v = onto_rows(q, y / float(multiple @ y))
    allowed = 4.0 * _EPS * len(v) * (np.abs(q.G) @ np.abs(v) + np.abs(q.b))
    return v if np.all(q.G @ v <= q.b + allowed) else None
