"""Solve a segmented, or one for many target returns, and say of the answer what the caller wants to know."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from skfolio.exceptions import OptimizationError
from sklearn.exceptions import ConvergenceWarning

from certeq.optimize.cuts import solver_for
from certeq.optimize.domains import InfeasibleError, UnboundedError
from certeq.optimize.exact import ExactResult
from certeq.optimize.gaps import proved_gap, violation_cost
from certeq.optimize.losses import LinearLoss
from certeq.optimize.sg import minimize_sg
from certeq.portfolio._feasibility import check_weights, explain_infeasible, in_words
from certeq.portfolio._limits import needs_limits, solve_with_limits
from certeq.portfolio._problem import PortfolioProblem, SegmentedProblem, Segments, to_segments
from certeq.risk import oce, threshold, tilt
from certeq.risk.solvers import needs_sorting, solve_risk
from certeq.utilities import Risk, Utility

Floats = NDArray[np.float64]
_USELESS = 1e-4  # a gap of this fraction of the objective is no solution
_NODES = (4, 8, 16, 32, 64, 128)


def solve(
    segmented: SegmentedProblem, settings: Settings, start: Floats | None = None, prices: Floats | None = None
) -> Allocation:
    """Weights that minimize the segmented, from weights and multipliers of the limits to start with, if any."""
    theta0 = None if start is None else segmented.segments.unfold(start)
    try:
        if settings.solver == "sg":
            return _stochastic(segmented, theta0, settings.params, settings.rng)
        if needs_limits(segmented):
            return _limited(segmented, theta0, prices, settings)
        return _exact(segmented, theta0, settings)
    except InfeasibleError as error:
        raise OptimizationError(explain_infeasible(segmented, error)) from error
    except UnboundedError as error:
        raise OptimizationError(in_words(str(error), segmented)) from error


@dataclass(frozen=True)
class Settings:
    """Which solver, its tolerance and its own parameters."""

    solver: str
    tol: float
    params: dict[str, Any]
    rng: Any = None


@dataclass(frozen=True)
class Allocation:
    """A portfolio with its value, its certificate and where its risk lies."""

    weights: Floats
    objective: float
    gap: float
    risk: float
    expected_return: float
    regularization: float
    threshold: float | Floats
    tilt: Floats
    iterations: int
    solution: Any
    limit_levels: Floats
    limit_values: Floats
    limit_multipliers: Floats


def _exact(segmented: SegmentedProblem, theta0: Floats | None, settings: Settings) -> Allocation:
    p, s = segmented, segmented.segments
    tol = max(settings.tol, 1e-7) if needs_sorting(p.problem.utility) else settings.tol
    found = solver_for(p.problem.utility)(
        p.A,
        p.problem.utility,
        weights=p.problem.weights,
        linear=p.linear,
        quadratic=p.quadratic(),
        lower=s.lower,
        upper=s.upper,
        C=p.C,
        c=p.c,
        G=p.G,
        b=p.b,
        theta0=theta0,
        tol=tol,
        **settings.params,
    )
    w = np.clip(s.fold(found.theta), p.problem.lower, p.problem.upper)
    answer = _allocation(p, w, found.lower_bound + p.constant, _outside(p, w, found), found.tilt, found)
    return _accepted(p, answer, found.status, tol)


def _accepted(segmented: SegmentedProblem, answer: Allocation, status: str, tol: float) -> Allocation:
    """The answer, with a warning where its gap is above the tolerance; far above it, an error."""
    if answer.gap <= tol * abs(answer.objective):
        return answer
    A = segmented.problem.A
    # Where everything is in an asset that never moves, the portfolio's own spread is 0; that of the market is not.
    scale = max(abs(answer.objective), float(np.std(A @ answer.weights)), 1e-2 * float(np.std(A)))
    if segmented.problem.hurdle is not None:
        scale = abs(answer.objective)  # a ratio has no unit
    if not answer.gap <= max(_USELESS, tol) * scale:
        raise OptimizationError(
            f"The exact solver stopped ({status}) with a gap of {answer.gap:.3g} at an objective of "
            f"{answer.objective:.6g}; give it more with solver_params={{'max_iter': ...}} or scale the utility."
        )
    if answer.gap > tol * scale:
        warnings.warn(
            f"The gap {answer.gap:.3g} exceeds tol={tol:g} of the objective {answer.objective:.6g} ({status}).",
            ConvergenceWarning,
            stacklevel=2,
        )
    return answer


def _limited(
    segmented: SegmentedProblem, theta0: Floats | None, prices: Floats | None, settings: Settings
) -> Allocation:
    p, problem = segmented, segmented.problem
    found = solve_with_limits(p, theta0, prices, settings.tol, settings.params)
    w = np.clip(p.segments.fold(found.theta), problem.lower, problem.upper)
    x = problem.A @ w
    q = tilt(x, problem.utility, problem.weights)
    # Of weights that keep their rows to rounding nothing tells the multipliers: what the slope gains by as much.
    slope = problem.counts_risk * p.segments.row(q @ problem.A) + p.linear
    v = p.segments.unfold(w)
    sizes = [np.abs(rows) @ np.abs(v) + np.abs(side) for rows, side in ((p.C, p.c), (p.G, p.b))]
    sizes = [np.where(size > 0.0, size, 1.0) for size in sizes]  # a row of 0 whose assets are all 0 is kept
    apart = np.concatenate([np.abs(p.C @ v - p.c) / sizes[0], np.maximum(p.G @ v - p.b, 0.0) / sizes[1]])
    outside = float(apart.max(initial=0.0)) * len(v) * float(np.abs(slope) @ np.abs(v))
    answer = _allocation(p, w, found.lower_bound, outside, q, found.result, problem.scale * found.multipliers)
    return _accepted(p, answer, found.result.status, settings.tol)


def _stochastic(segmented: SegmentedProblem, theta0: Floats | None, params: dict[str, Any], rng: Any) -> Allocation:
    problem, domain = segmented.problem, segmented.domain()
    loss = RidgeLoss(segmented.A + segmented.linear, problem.l2, segmented.segments)
    if theta0 is not None:
        theta0 = domain.project(theta0)
    settings = {"batch": "full", "iterations": 2000, "progress": False, "rng": rng, "regime": "convex", **params}
    if isinstance(problem.utility, Utility) and not problem.utility.is_monotone and problem.l2 > 0.0:
        # The penalty is outside OCE, so their curvatures add up even where u decreases somewhere.
        settings.setdefault("step", 1.0 / (loss.smoothness() + problem.utility.kappa * loss.spread() ** 2))
    found = minimize_sg(loss, problem.utility, domain=domain, theta0=theta0, weights=problem.weights, **settings)
    losses, product = loss.evaluate(found.theta)
    q = tilt(losses, problem.utility, problem.weights)
    # The objective is convex in the weights for every utility, so its gradient bounds how far down it can go.
    slope = product(q)
    gap = domain.support_gap(found.theta, slope)
    value = problem.objective(segmented.segments.fold(found.theta))
    w = np.clip(segmented.segments.fold(found.theta), problem.lower, problem.upper)
    # What the iterates' distance from the rows, which is rounding, can gain: nothing says more of its multipliers.
    outside = 1e-10 * float(np.abs(slope) @ np.abs(found.theta))
    return _allocation(segmented, w, value - gap, outside, q, found)


class RidgeLoss(LinearLoss):
    r"""Losses :math:`a_i^\top v + l_2 \|w(v)\|^2`: what every scenario loses alike passes through OCE unchanged."""

    def __init__(self, A: Any, l2: float, segments: Segments) -> None:
        super().__init__(A)
        self.l2, self.segments = l2, segments
        self.linear = l2 == 0.0

    def evaluate(self, theta: Floats, batch: Any = None) -> tuple[Floats, Any]:
        """Return the losses, and q -> A^T q + (sum q) 2 l2 w."""
        losses, product = super().evaluate(theta, batch)
        if self.l2 == 0.0:
            return losses, product
        w = self.segments.fold(theta)
        slope = 2.0 * self.l2 * self.segments.row(w)
        return losses + self.l2 * float(w @ w), lambda q: product(q) + float(q.sum()) * slope

    def smoothness(self, batch: Any = None) -> float:
        """2 l2 times the most segments an asset has."""
        return 2.0 * self.l2 * int(np.bincount(self.segments.asset).max())

    def lipschitz(self, batch: Any = None, theta: Floats | None = None, diameter: float = float("inf")) -> float:
        """Largest norm(a_i), and of the penalty within the diameter."""
        steep = super().lipschitz(batch)
        if self.l2 == 0.0 or theta is None:
            return steep if self.l2 == 0.0 else float("inf")
        return steep + self.smoothness() * (float(np.linalg.norm(theta)) + diameter)


def _outside(segmented: SegmentedProblem, w: Floats, found: ExactResult) -> float:
    """By how much weights that keep the rows to rounding can be better than any that keep them exactly."""
    p = segmented
    v = p.segments.unfold(w)
    return violation_cost(found.multipliers["C"], found.multipliers["G"], p.C @ v - p.c, p.G @ v - p.b)


def _rounding(problem: PortfolioProblem, w: Floats, x: Floats, q: Floats, v: Floats) -> float:
    """A bound on the rounding errors of the objective at w, where the losses are x and the inner variables v."""
    # Cauchy and Schwarz on the rows: |a_i|.|w| <= |a_i| |w|, in one pass without a copy.
    lengths = np.sqrt(np.vecdot(problem.A, problem.A))
    losses = float(np.abs(q) @ lengths) * float(np.sqrt(w @ w))
    if needs_sorting(problem.utility):  # the losses times their weights, and nothing else
        inner, mean = None, float(np.abs(q) @ np.abs(x))
    else:
        inner, mean = problem.utility.inner(), 0.0
    for term in () if inner is None else inner.terms:
        s = 1.0 if term.s is None else float(v[term.s])
        if s > 0.0:  # at 0 there is nothing but t
            u = term.form.utility if term.s is None else term.form.utility.scaled(s)
            with np.errstate(all="ignore"):
                mean += term.weight * float(np.average(np.abs(u.value(x - v[term.t])), weights=problem.weights))
    costs, size = problem.costs, np.abs(w)
    beside = float(np.abs(costs.fees) @ size + costs.trading @ (size + np.abs(costs.previous))) + costs.liquidation
    sums = (1.0 + problem.reward) * beside + problem.reward * float(np.abs(problem.mu) @ size)
    short = np.finfo(np.float64).eps * (len(w) + 8.0)
    mean += 0.0 if inner is None else float(np.abs(inner.cost) @ np.abs(v))
    return short * (losses + sums + problem.regularization(w)) + 32.0 * np.finfo(np.float64).eps * mean


def _inner_at(problem: PortfolioProblem, x: Floats) -> Floats:
    """The inner variables of the risk of losses x: t, and others where it has more; none of a distortion."""
    risk, weights = problem.utility, problem.weights
    if needs_sorting(risk):
        return np.empty(0)
    if isinstance(risk, Utility):
        return np.array([float(threshold(x, risk, weights))])
    found = solve_risk(x, None if weights is None else weights / float(weights.sum()), risk)
    assert found is not None, "losses are finite"
    return found.inner


def _allocation(
    segmented: SegmentedProblem,
    w: Floats,
    lower: float,
    outside: float,
    q: Floats,
    solution: Any,
    multipliers: Floats | None = None,
) -> Allocation:
    """What there is to say of weights, from a lower bound of the objective and what leaving the rows can gain.

    For a ratio the bound is an upper one.

    Segments filled out of order cost more than the weights they make up, so the gap is that of the weights.
    """
    problem = segmented.problem
    check_weights(problem, w, segmented.target)
    x = problem.A @ w
    v = _inner_at(problem, x)
    t = v[[term.t for term in problem.utility.inner().terms]] if v.size else np.array([np.nan])
    risk = problem.risk(w, x)
    rounding, earned = _rounding(problem, w, x, q, v) + outside, problem.expected_return(w)
    if problem.hurdle is not None:
        objective = (earned - problem.hurdle) / risk
        gap = proved_gap(-objective, -lower, 2.0 * rounding * (1.0 + abs(objective)) / risk)
    else:
        at_w = problem.objective(w, risk)
        objective = (-1.0 if problem.reward > 0.0 else 1.0) * problem.scale * at_w
        gap = problem.scale * proved_gap(at_w, lower, rounding)
    return Allocation(
        weights=w,
        objective=objective,
        gap=gap,
        risk=risk,
        expected_return=earned,
        regularization=problem.scale * problem.regularization(w),
        threshold=(float(t[0]) if len(t) == 1 else t) + problem.costs.at(w),
        tilt=q,
        iterations=solution.iterations,
        solution=solution,
        limit_levels=np.array([limit.level for limit in problem.limits]),
        limit_values=np.array([limit.value(w, problem.costs) for limit in problem.limits]),
        limit_multipliers=np.zeros(0) if multipliers is None else multipliers,
    )


# -- one problem for many target returns or levels: each solution is the start of the next ---------------------------


def frontier_targets(
    segmented: SegmentedProblem, least: Allocation, size: int, settings: Settings
) -> tuple[Floats, Floats]:
    """Evenly spaced returns from that of the least risk to the largest there is, and the portfolio that has that."""
    problem = segmented.problem
    if problem.limits:
        greedy = replace(problem, counts_risk=False, reward=1.0, l1=0.0, l2=0.0)
        richest = solve(to_segments(greedy), settings, least.weights).weights
    else:
        richest = segmented.segments.fold(segmented.domain().minimize_linear(segmented.minus_return()[0]))
    top = max(problem.expected_return(richest), least.expected_return)
    targets = np.linspace(least.expected_return, top, size)
    # The last target is met with nothing to spare; a hair's breadth keeps rounding from calling it infeasible. At
    # the top of a curved boundary the multiplier of the target is infinite: under limits more is left.
    targets[-1] -= (1e-4 if problem.limits else 1e-9) * (top - least.expected_return)
    return targets, richest


@dataclass(frozen=True)
class Case:
    """One problem of several: a least expected return, and levels of the limits on risks."""

    target: float | None
    levels: tuple[float, ...]

    def of(self, segmented: SegmentedProblem) -> SegmentedProblem:
        """The problem with these."""
        segmented = segmented.with_levels(self.levels)
        return segmented if self.target is None else segmented.with_target(self.target)


def sweep(segmented: SegmentedProblem, cases: list[Case], settings: Settings, start: Floats | None) -> list[Allocation]:
    """An allocation per case, in the order given.

    Targets are taken from the highest down, where each solution is feasible for the next.
    """
    found: dict[int, Allocation] = {}
    for i in sorted(range(len(cases)), key=lambda k: (-(cases[k].target or 0.0), cases[k].levels)):
        found[i] = solve(cases[i].of(segmented), settings, start)
        start = found[i].weights
    return [found[i] for i in range(len(cases))]


# -- who carries the risk: a share for each asset, and the shares add up ----------------------------------------------


def risk_contributions(A: Floats, w: Floats, utility: Risk, weights: Floats | None, at_w: Floats) -> Floats:
    r"""Aumann-Shapley shares of the assets in OCE(A w) - OCE(0).

    .. math:: \mathrm{RC}_j = w_j \int_0^1 \partial_j\,\mathrm{OCE}(A\,s w)\,ds
                            = w_j \int_0^1 \sum_t q_t(s) A_{tj}\,ds, \qquad
              \sum_j \mathrm{RC}_j = \mathrm{OCE}(A w) - \mathrm{OCE}(0)

    with q(s) the tilt at s w. A coherent risk has the same tilt all along the ray, and then this is Euler's
    :math:`w_j \partial_j \mathrm{OCE}`; for it ``at_w``, a tilt at w, says which of the subgradients is meant.

    The integral is taken by Gauss-Legendre rules until the shares add up to 1e-12 of their size; what a rule leaves
    over, because q(s) has kinks, is spread in proportion to the shares' size.
    """
    losses = A @ w
    zero = utility.oce_of_zero if isinstance(utility, Utility) else float(oce(np.zeros(1), utility))
    total = float(oce(losses, utility, weights)) - zero
    if utility.is_coherent:
        shares = w * (at_w @ A)
    else:
        for count in _NODES:
            node, mass = np.polynomial.legendre.leggauss(count)
            mean_tilt = np.zeros(len(losses))
            for s, m in zip(0.5 * (node + 1.0), 0.5 * mass, strict=True):
                mean_tilt += m * tilt(s * losses, utility, weights)
            shares = w * (mean_tilt @ A)
            if abs(total - shares.sum()) <= 1e-12 * np.abs(shares).sum():
                break
    size = np.abs(shares).sum()
    return shares + (total - shares.sum()) * np.abs(shares) / size if size > 0.0 else shares
