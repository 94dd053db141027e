"""Risk budgeting: the portfolio in which every asset carries its share of the risk, with a proof."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import check_array, check_instance, check_number, check_weights, probabilities
from certeq._table import Table
from certeq.optimize.domains import InfeasibleError
from certeq.optimize.exact import solve_exact
from certeq.optimize.exact._solve import check_limits, status_of
from certeq.optimize.functions import time_left
from certeq.optimize.gaps import proved_gap
from certeq.optimize.losses import LinearLoss, Loss
from certeq.risk.solvers import solve_risk
from certeq.utilities import Risk

Vector = NDArray[np.float64]
_SETTLED = 1e-10  # relative change of a weight after which another step would change rounding alone
_WIDE = 10.0  # the model of a step is trusted within this factor of every weight
_HALVINGS = 40
# log(1 + x) <= x - _CURVED x^2/2 for -1/2 <= x <= 1: (x - log(1 + x))/x^2 falls, and is 1 - log 2 at the upper end.
_CURVED = 2.0 * (1.0 - np.log(2.0))
_ESCAPE = _CURVED / 32.0  # per unit of budget: a smaller gap keeps the minimum inside the box [w/2, 2w]; see Notes


@dataclass(frozen=True)
class BudgetingResult:
    """Weights whose risk contributions are proportional to a budget.

    Attributes
    ----------
    theta : array
        The weights, all positive; they sum to the total that was asked for.
    value : float
        The risk of theta.
    contributions : array
        theta_j times the derivative of the risk in theta_j; they sum to ``value`` and are proportional to the budget.
    deviation : float
        The largest relative difference of a contribution from ``value`` times its budget.
    gap : float
        Proved distance, all rounding included, of risk(w) - sum_j b_j log w_j from its minimum, at the multiple w of
        theta whose risk is 1.
    tilt : array
        Worst-case probabilities of the scenarios, which give the derivatives. Where losses tie at a kink they are
        those for which the contributions match.
    status : str
        "optimal" where gap and deviation are within the tolerance, else "iteration limit", "time limit" or "stalled".
    iterations : int
        Exact solves.

    See Also
    --------
    risk_budgeting
        Weights whose risk contributions follow a budget.
    certeq.portfolio.RiskBudgetingOCE
        Portfolios whose risk contributions follow a budget.

    Examples
    --------
    >>> import certeq as ce
    >>> losses = ce.LinearLoss([[1.0, 0.0], [0.0, 2.0], [-1.0, -1.0]])
    >>> found = ce.risk_budgeting(losses, ce.CVaR(0.5))
    >>> found.theta.round(6), found.contributions.round(6)
    (array([0.666667, 0.333333]), array([0.333333, 0.333333]))
    """

    theta: Vector
    value: float
    contributions: Vector
    deviation: float
    gap: float
    tilt: Vector = field(repr=False)
    status: str
    iterations: int


def risk_budgeting(
    loss: Loss,
    risk: Risk,
    budget: Any = None,
    *,
    weights: Any = None,
    total: float = 1.0,
    theta0: Any = None,
    tol: float = 1e-9,
    max_iter: int = 100,
    time_limit: float | None = None,
) -> BudgetingResult:
    r"""Find positive weights whose risk contributions are proportional to a budget; equal ones by default.

    Parameters
    ----------
    loss : LinearLoss
        Losses of the assets, scenarios x assets, in memory and without an offset.
    risk : Risk
        A coherent risk measure: `CVaR`, `EVaR`, a divergence ball, `HMCR`, or a `Mixture` of any of them.
    budget : array (d,), optional
        Positive shares of the risk, scaled to sum to 1; equal ones if not given.
    weights : array (n,), optional
        Probabilities of the scenarios, up to a factor.
    total : float
        What the weights sum to.
    theta0 : array (d,), optional
        Positive weights to start from, such as those of a similar problem.
    tol : float
        Tolerance of the gap, and of the contributions relative to the budget.
    max_iter, time_limit : int, float, optional
        Limits on exact solves and seconds.

    Returns
    -------
    BudgetingResult
        The weights, their contributions and the gap.

    Raises
    ------
    InfeasibleError
        Where some portfolio has no positive risk, so that no contributions match; the message names it.

    See Also
    --------
    minimize
        Minimize the OCE of losses over a feasible set.
    BudgetingResult
        What `certeq.risk_budgeting` returns.
    certeq.portfolio.RiskBudgetingOCE
        Portfolios whose risk contributions follow a budget.

    Notes
    -----
    The weights minimize :math:`\rho(A w) - \sum_j b_j \log w_j` over w > 0 and are scaled afterwards, as a coherent
    risk of a multiple is the multiple of the risk. Every step replaces the logarithm by its second-order model and
    keeps the risk as it is, kinks included: an exact problem with squares, whose solutions converge quadratically. The
    contributions are :math:`w_j (A^\top q)_j` with q the tilt that the dual problem,
    :math:`\max_q \sum_j b_j \log (A^\top q)_j`, chooses.

    The gap is proved by one more exact problem. For ratios 1 + x between 1/2 and 2,
    :math:`-\log(1 + x) \ge -x + (1 - \log 2) x^2`, so that the risk plus these squares, bounded from below over the box
    from w/2 to 2w, bounds the objective there. The squares keep the minimum inside the box where the gap is small
    beside the smallest budget; otherwise the gap is infinite.

    Not for bounds or groups: with them contributions cannot follow a budget.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> draws = np.random.default_rng(0).standard_t(5, size=(1000, 4))
    >>> returns = 0.01 * draws * [1.0, 2.0, 3.0, 4.0]
    >>> found = ce.risk_budgeting(ce.LinearLoss(-returns), ce.EVaR(0.05))
    >>> found.status, bool(found.deviation < 1e-8), bool(found.theta[0] > found.theta[3])
    ('optimal', True, True)
    """
    began = time.perf_counter()
    check_instance("loss", loss, LinearLoss, "a LinearLoss: contributions are those of linear losses")
    check_instance("risk", risk, Risk, "a coherent risk such as CVaR(0.05)")
    if not risk.is_coherent:
        raise ValueError(
            f"risk must be coherent, so that contributions add up to it; found {risk!r}. Use CVaR, EVaR, HMCR, a ball "
            "such as Entropic().ball(r), or a Mixture of them."
        )
    check_limits(tol, max_iter, time_limit)
    A = loss.samples
    if A is None:
        raise ValueError(f"loss must hold its samples; found {loss!r}.")
    if isinstance(A, Table):
        raise TypeError(
            f"loss must hold its samples in memory for a risk budget; found {loss!r}, which is read in blocks: the "
            "result has the tilt of every scenario. Budget a sample of its rows."
        )
    if getattr(loss, "has_offset", False):
        raise ValueError("loss must have no offset: the risk of a multiple must be the multiple of the risk.")
    count, d = A.shape
    b = np.full(d, 1.0 / d) if budget is None else check_array("budget", budget, size=d)
    if b.min() <= 0.0:
        raise ValueError(f"budget must be positive; found {b.min():g} for asset {int(np.argmin(b))}.")
    b = b / b.sum()
    check_number("total", total, above=0.0)
    p = None if weights is None else probabilities(check_weights("weights", weights, count))
    problem = _Budgeting(A, risk, p, b)
    deadline = np.inf if time_limit is None else began + time_limit
    return problem.solve(None if theta0 is None else _start(theta0, d), total, tol, max_iter, deadline)


def _start(theta0: Any, d: int) -> Vector:
    w = check_array("theta0", theta0, size=d)
    if w.min() <= 0.0:
        raise ValueError(f"theta0 must be positive; found {w.min():g} for asset {int(np.argmin(w))}.")
    return w


class _Budgeting:
    """Minimize risk(A w) - sum b log w over w > 0."""

    def __init__(self, A: Vector, risk: Risk, p: Vector | None, b: Vector) -> None:
        self.A, self.risk, self.p, self.b = A, risk, p, b

    def risk_at(self, w: Vector) -> float:
        """The risk of w."""
        found = solve_risk(np.ascontiguousarray(self.A @ w), self.p, self.risk)
        return np.inf if found is None else found.value

    def solve(self, start: Vector | None, total: float, tol: float, max_iter: int, deadline: float) -> BudgetingResult:
        """Steps until the weights settle, and the proof."""
        w = self._scaled(self._guess() if start is None else start)
        value, steps, moved, found = self._objective(w), 0, np.inf, None
        while steps < max_iter and moved > _SETTLED and time.perf_counter() < deadline:
            found = self._model(w, 1.0, w / _WIDE, w * _WIDE, tol, deadline)
            steps += 1
            step = found.theta - w
            moved, length = float(np.abs(step / w).max()), 1.0
            for _ in range(_HALVINGS):
                trial = w + length * step
                at = self._objective(trial)
                if at <= value + 1e-13 * (1.0 + abs(value)):
                    break
                length *= 0.5
            else:  # nothing but rounding is left
                break
            w, value = trial, at
            if steps == 12 or w.max() > 1e12 * w.min():
                self._refuse_riskless()
        if found is None:
            found = self._model(w, 1.0, w / _WIDE, w * _WIDE, tol, deadline)
        w = self._scaled(w)
        proof = self._model(w, _CURVED, 0.5 * w, 2.0 * w, tol, deadline)
        at_w = self._model_value(w, _CURVED)
        # The value at w has roundings of its own, of losses and of the sum over them.
        size = float(np.abs(self.A).max()) * float(w.sum())
        allowance = float(np.finfo(np.float64).eps) * (len(w) + 64.0) * (2.0 + size)
        gap = proved_gap(at_w, proof.lower_bound, allowance)
        gap = gap if gap < _ESCAPE * float(self.b.min()) else np.inf
        deviation, tilt = min(
            [(self._deviation(w, one.tilt), one.tilt) for one in (found, proof)], key=lambda pair: pair[0]
        )
        slopes = tilt @ self.A
        theta = w * (total / float(w.sum()))
        return BudgetingResult(
            theta=theta,
            value=self.risk_at(theta),
            contributions=theta * slopes,
            deviation=deviation,
            gap=gap,
            tilt=tilt,
            status=status_of(max(gap, deviation) <= tol, steps >= max_iter, time.perf_counter() > deadline),
            iterations=steps + 1,
        )

    def _guess(self) -> Vector:
        """Budgets over deviations, which are the weights where all assets move together and alike."""
        p = np.full(len(self.A), 1.0 / len(self.A)) if self.p is None else self.p
        apart = self.A - p @ self.A
        deviation = np.sqrt(p @ (apart * apart))
        typical = float(np.median(deviation)) or 1.0
        return self.b / np.maximum(deviation, 1e-6 * typical)

    def _scaled(self, w: Vector) -> Vector:
        """The multiple of w whose risk is 1, as that of the minimizer is."""
        risk = self.risk_at(w)
        if not risk > 0.0:
            self._refuse_riskless(w)
        return w / risk

    def _objective(self, w: Vector) -> float:
        return self.risk_at(w) - float(self.b @ np.log(w)) if w.min() > 0.0 else np.inf

    def _model(self, w: Vector, curved: float, low: Vector, high: Vector, tol: float, deadline: float) -> Any:
        """The risk plus the second-order model of -sum b log at w, its squares times a factor."""
        slope, square = self._coefficients(w, curved)
        limits: dict[str, Any] = {"lower": low, "upper": high, "theta0": w, "time_limit": time_left(deadline)}
        return solve_exact(self.A, self.risk, weights=self.p, linear=slope, quadratic=square, tol=tol, **limits)

    def _coefficients(self, w: Vector, curved: float) -> tuple[Vector, Vector]:
        """l and D of  l.v + v.D v/2 = sum_j b_j (-x_j + curved x_j^2/2) but for a constant, v = w (1 + x)."""
        return -(1.0 + curved) * self.b / w, curved * self.b / (w * w)

    def _model_value(self, w: Vector, curved: float) -> float:
        slope, square = self._coefficients(w, curved)
        return self.risk_at(w) + float(slope @ w) + 0.5 * float(square @ (w * w))

    def _deviation(self, w: Vector, tilt: Vector) -> float:
        """The largest relative difference of a contribution from its share of their sum."""
        each = w * (tilt @ self.A)
        return float(np.abs(each / (float(each.sum()) * self.b) - 1.0).max())

    def _refuse_riskless(self, w: Vector | None = None) -> None:
        """Raise where some portfolio has no positive risk: the objective falls for ever along it."""
        if w is None:
            d = self.A.shape[1]
            found = solve_exact(self.A, self.risk, weights=self.p, lower=0.0, C=np.ones(d), c=1.0)
            w = found.theta
        value = self.risk_at(w / w.sum())
        if value > 1e-12 * float(np.abs(self.A).max()):
            return
        order = np.argsort(-w, kind="stable")[:3]
        shares = ", ".join(f"{w[j] / w.sum():.3g} of asset {j}" for j in order if w[j] > 0.0)
        raise InfeasibleError(
            f"No weights have contributions to {self.risk!r} in these proportions: the portfolio of {shares}"
            f"{', ...' if np.count_nonzero(w) > 3 else ''} has the risk {value:.6g}, which is not positive, so that "
            "more of it would lower the risk for ever. Leave out assets without risk, or use a smaller tail mass."
        )
