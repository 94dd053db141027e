"""What the corrected theory says: step, batch and average for each regime, and the rate it promises.

The printed theorems need a vanishing gradient at the optimum and a smoothness constant L_F; neither holds. Here
L_OCE = L_F + kappa M**2, and a projection is allowed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from certeq.optimize.losses import Loss
from certeq.optimize.losses._base import Floats
from certeq.optimize.sg._schedules import Schedule, choose, constant, growing_batch, inverse_sqrt
from certeq.utilities import Utility

ANY_STEP = "E OCE(mean) - min OCE <= [D^2/2 + D sum a_k E norm(zeta_k) + M^2/2 sum a_k^2]/sum a_k"  # and any batches
REGIMES = ("strongly_convex", "convex", "nonconvex")


@dataclass(frozen=True)
class Constants:
    """What the step sizes depend on: L_OCE, M and the diameter D of the feasible set; +inf where there is none."""

    smoothness: float
    lipschitz: float
    diameter: float


@dataclass(frozen=True)
class Plan:
    """Schedules, the iterate to return, and the rate that is promised for it; None where theory has none to offer."""

    step: Schedule
    batch: Schedule
    average: str
    promise: str | None


def oce_smoothness(
    loss: Loss,
    utility: Utility,
    samples: object = None,
    theta: Floats | None = None,
    diameter: float = math.inf,
) -> float:
    r"""L_OCE, a Lipschitz constant of the gradient of OCE; +inf where none is known.

    .. math:: L_{OCE} = L_F + \kappa_u M^2, \qquad
              \kappa_u = \sup\{E\,u''(X - t^*)\}, \quad M \ge \|\nabla F_i - c\| \text{ for one common } c

    because the Hessian is E[u'F''] + E[u''] Cov_w(grad F) and the tilt sums to 1. A utility that is not monotone
    has E abs(u') > 1, so it has a constant here only for linear losses.

    Not of use for CVaR and other kinked utilities, where it is +inf: take steps that fall, such as `inverse_sqrt`.

    Examples
    --------
    >>> from certeq.optimize import oce_smoothness
    >>> import certeq as ce
    >>> from certeq.optimize.losses import LinearLoss
    >>> oce_smoothness(LinearLoss([[1.0, 0.0], [-1.0, 0.0]]), ce.Entropic(beta=3.0))
    3.0
    >>> oce_smoothness(LinearLoss([[1.0, 0.0], [-1.0, 0.0]]), ce.CVaR(0.05))
    inf
    """
    bend = loss.smoothness(samples)
    if bend > 0.0 and not utility.is_monotone:
        return math.inf
    kappa = utility.kappa
    if kappa == 0.0:
        return bend
    spread = loss.spread(samples, theta, diameter)
    return bend if spread == 0.0 else bend + kappa * spread**2


def plan(regime: str, constants: Constants, step: Schedule | None = None) -> Plan:
    """Return the schedules and the promise of a regime; ``step`` replaces the step the theory would choose.

    The rates belong to the theory's own steps. Of the promises only the bound of the convex regime holds for any.
    """
    own = step is None
    match choose("regime", regime, REGIMES):
        case "strongly_convex":
            return Plan(
                step or constant(1.0 / _need_smoothness(regime, constants)),
                growing_batch(),
                "last",
                "E norm(theta_n - theta*)^2 = O(1/n), by r_n <= (1 - mu/L) r_{n-1} + sqrt(C2/n)/L" if own else None,
            )
        case "convex":
            return _convex(constants, step)
        case _:
            return Plan(
                step or constant(1.0 / _need_smoothness(regime, constants)),
                growing_batch(),
                "last",
                "E min_k norm(G_k)^2 <= (2 L (OCE(theta_0) - inf) + C2 (1 + ln n))/n, G the gradient (mapping)"
                if own
                else None,
            )


def _convex(constants: Constants, step: Schedule | None) -> Plan:
    L, M, D = constants.smoothness, constants.lipschitz, constants.diameter
    if step is not None:
        return Plan(step, growing_batch(), "weighted", ANY_STEP)
    if 0.0 < D < math.inf and 0.0 < M < math.inf:
        return Plan(inverse_sqrt(D / M), growing_batch(), "weighted", f"{ANY_STEP} = O(ln n/sqrt n)")
    if 0.0 < L < math.inf:
        promise = "E OCE(mean) - min OCE = O(ln^2 n/sqrt n)"
        return Plan(inverse_sqrt(1.0 / L), growing_batch(), "mean", promise)
    raise ValueError(
        "step is missing: regime='convex' takes D/(M sqrt(k)) on a bounded feasible set with bounded gradients, else "
        f"1/(L sqrt(k)), but D = {D:g}, M = {M:g}, L = {L:g} here. Pass step=, for instance inverse_sqrt(0.1)."
    )


def _need_smoothness(regime: str, constants: Constants) -> float:
    L = constants.smoothness
    if 0.0 < L < math.inf:
        return L
    why = "OCE has no smoothness constant that is known here" if L > 0.0 else "OCE is linear here"
    raise ValueError(f"step is missing: regime={regime!r} takes 1/L_OCE, but {why}. Pass step=.")
