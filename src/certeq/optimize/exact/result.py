"""What solve_exact returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class ExactResult:
    """A feasible point with a proved bound on how far its value is from the optimum.

    Attributes
    ----------
    theta : array
        The point: within its bounds exactly, on the equality rows to rounding.
    value : float
        OCE(A theta) + linear.theta.
    gap, lower_bound : float
        No feasible point has a value below ``lower_bound = value - gap``. Found from theta, a tilt and multipliers
        by weak duality, with every rounding error allowed for; not a solver's residual.
    relative_gap : float
        gap over the larger of |value| and a hundredth of the losses' spread (one asset's, times what is held).
    threshold : float
        t* of the losses at theta.
    tilt : array
        Worst-case probabilities, one per scenario: they sum to 1 and prove the bound. Ties at a kink carry the
        shares that the dual problem gives them.
    status : str
        "optimal" where relative_gap <= tol, else "iteration limit", "time limit" or "stalled"; the gap is valid
        whatever the status.
    iterations : int
        Second-order steps.
    trace : list of (value, gap, seconds, working set size)
        One entry per step, on the way, with gaps not yet corrected for rounding; of a problem that was solved at
        once, the proof itself.
    multipliers : dict
        "C" and "G" (non-negative) of the rows and "lower" and "upper" (non-negative) of the bounds.
    radius : float
        Infinite, unless a variable has no bound at all: the lower bound then holds for points whose unbounded
        entries are within this distance of theta's.

    Notes
    -----
    Not a statement about other scenarios: value, gap and bound are those of the scenarios that were solved.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> from certeq.optimize import solve_exact
    >>> A = np.array([[1.0, 2.0], [2.0, 0.0]])
    >>> found = solve_exact(A, ce.CVaR(0.5), lower=0.0, C=np.ones(2), c=1.0)
    >>> found.status, round(float(found.value), 9)
    ('optimal', 1.333333333)
    """

    theta: Vector
    value: float
    gap: float
    lower_bound: float
    relative_gap: float
    threshold: float
    tilt: Vector = field(repr=False)
    status: str
    iterations: int
    trace: list[tuple[float, float, float, int]] = field(repr=False)
    multipliers: dict[str, Vector] = field(repr=False)
    radius: float = np.inf
