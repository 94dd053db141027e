"""The portfolio problem in weights: scenarios, costs, and constraints that know their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from skfolio.exceptions import OptimizationError

from certeq.portfolio._assets import Assets
from certeq.risk import oce
from certeq.utilities import Utility

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """One linear constraint, row.w = side or row.w <= side, under the name the caller knows it by."""

    name: str
    row: Floats
    side: float
    equal: bool = False


@dataclass(frozen=True)
class Costs:
    r"""What a portfolio pays per period whatever the scenario.

    .. math:: \kappa(w) = f \cdot w + \sum_j c_j |w_j - w^0_j| + \ell

    with fees f, transaction costs c, previous weights w0 and the cost l of selling what can no longer be held.
    """

    fees: Floats
    trading: Floats
    previous: Floats
    liquidation: float = 0.0

    def at(self, w: Floats) -> float:
        """The total at w."""
        moved = float(self.trading @ np.abs(w - self.previous))
        return float(self.fees @ w) + moved + self.liquidation

    def by_asset(self, w: Floats) -> Floats:
        """The change of each asset's own costs from holding nothing to holding w."""
        moved = np.abs(w - self.previous) - np.abs(self.previous)
        return np.asarray(self.fees * w + self.trading * moved)


@dataclass(frozen=True)
class Problem:
    r"""What is minimised over the weights w, with A minus the returns:

    .. math:: \mathrm{OCE}_u\big(A w + \kappa(w)\big) - \rho\,\big(\mu \cdot w - \kappa(w)\big)
              + l_1 \|w\|_1 + l_2 \|w\|_2^2

    over bounds, rows, limits on the long and the short side and on the expected return mu.w - kappa(w).

    OCE moves with a sure loss, OCE(A w + k) = OCE(A w) + k, so costs inside the risk are a cost beside it, exactly.
    ``reward`` is rho: 0 to minimise risk, 1/risk_aversion to weigh it against the mean.
    """

    assets: Assets
    A: Floats
    weights: Floats | None
    utility: Utility
    mu: Floats
    costs: Costs
    lower: Floats
    upper: Floats
    rows: tuple[Row, ...] = ()
    max_long: float | None = None
    max_short: float | None = None
    reward: float = 0.0
    l1: float = 0.0
    l2: float = 0.0
    scale: float = 1.0  # objective in the caller's units = scale * this one
    turnover: float | None = None  # already in the bounds; kept to name it

    def expected_return(self, w: Floats) -> float:
        """mu.w less costs and fees."""
        return float(self.mu @ w) - self.costs.at(w)

    def risk(self, w: Floats, losses: Floats | None = None) -> float:
        """OCE of the losses net of costs and fees; ``losses`` are A w, where they are known."""
        losses = self.A @ w if losses is None else losses
        return float(oce(losses, self.utility, self.weights)) + self.costs.at(w)

    def regularization(self, w: Floats) -> float:
        """The two penalties."""
        return self.l1 * float(np.abs(w).sum()) + self.l2 * float(w @ w)

    def objective(self, w: Floats, risk: float | None = None) -> float:
        """What is minimised; ``risk`` is that of w, where it is known."""
        risk = self.risk(w) if risk is None else risk
        return risk - self.reward * self.expected_return(w) + self.regularization(w)


def check_bounds(problem: Problem, budget: float | None) -> None:
    """Say which bounds leave no portfolio, where adding them up is enough to see it."""
    if budget is None:
        return
    lower, upper = problem.lower, problem.upper
    slack = 64.0 * np.finfo(float).eps * len(lower)
    least, most = float(lower.sum()), float(upper.sum())
    within = "" if problem.turnover is None else f" (with max_turnover={problem.turnover:g})"
    if least > budget + slack * max(1.0, abs(least)):
        raise OptimizationError(f"min_weights{within} add up to {least:.6g}, more than budget={budget:g}.")
    if most < budget - slack * max(1.0, abs(most)):
        raise OptimizationError(f"max_weights{within} add up to {most:.6g}, less than budget={budget:g}.")


def narrowed(lower: Floats, upper: Floats, previous: Floats, turnover: float | None, assets: Assets) -> None:
    """Put a limit on each asset's change into its bounds, in place, and refuse bounds that cross."""
    broken = lower > upper
    if broken.any():
        j, label = assets.worst(broken)
        raise ValueError(f"min_weights must not exceed max_weights; found {lower[j]:g} > {upper[j]:g} for {label}.")
    if turnover is None:
        return
    low, high = previous - turnover, previous + turnover
    broken = (low > upper) | (high < lower)
    if broken.any():
        j, label = assets.worst(broken)
        raise OptimizationError(
            f"max_turnover={turnover:g} keeps {label} within [{low[j]:g}, {high[j]:g}], but its weight must lie in "
            f"[{lower[j]:g}, {upper[j]:g}]."
        )
    np.maximum(lower, low, out=lower)
    np.minimum(upper, high, out=upper)


def recentred(returns: Floats, mu: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """Scenarios moved so that their mean is mu, and by how much each asset moved."""
    shift = mu - np.average(returns, axis=0, weights=weights)
    return returns + shift, shift


def moves(shift: Floats, returns: Floats) -> bool:
    """Whether a shift is more than the rounding of a mean."""
    size: Any = np.abs(returns).mean(axis=0) + np.abs(returns).max()
    return bool(np.any(np.abs(shift) > 1e-10 * size))
