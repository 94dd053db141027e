"""Schedules: how long the step and how large the batch at iteration k = 1, 2, ..., and which iterate is returned.

Each is one small function that returns a `Schedule`: a pure function of k with a name, by which checkpoints compare
schedules. `for_regime` chooses batch, average and the rate that is promised, beside steps that need
no constants (see `_adaptive`) or, on demand, steps from constants of the samples. The printed theorems need a vanishing
gradient at the optimum and a smoothness constant L_F; neither holds. Here L_OCE = L_F + kappa M**2, and a projection is
allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from certeq._checks import check_choice, check_count, check_number
from certeq.optimize.domains import Domain
from certeq.optimize.losses import Loss
from certeq.optimize.losses._base import Floats
from certeq.optimize.sg._adaptive import POWER
from certeq.utilities import Utility

FULL = -1  # a batch size that means all samples
ANY_STEP = "E OCE(mean) - min OCE <= [D^2/2 + D sum a_k E norm(zeta_k) + M^2/2 sum a_k^2]/sum a_k"  # and any batches
REGIMES = ("strongly_convex", "convex", "nonconvex")
AVERAGES = ("last", "mean", "weighted")
STEPS = ("adaptive", "theory")
_PASSES = 100  # batches in a pass over all samples, up to which passes are made to correct the gradients of batches


@dataclass(frozen=True)
class Schedule:
    """A named function of the iteration; equal to another when the names are."""

    name: str
    at: Callable[[int], float]

    def __call__(self, k: int) -> float:
        """Return the schedule at iteration k >= 1."""
        return self.at(k)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


# -- steps ------------------------------------------------------------------------------------------------------------


def constant(c: float) -> Schedule:
    """Constant steps alpha_k = c.

    Not for CVaR or another risk that is not smooth: the iterates then hover instead of settling.

    Parameters
    ----------
    c : float
        The step, above 0.

    Returns
    -------
    callable
        A function of the iteration k = 1, 2, ... that `certeq.minimize` takes as ``step``.

    See Also
    --------
    inverse
        Steps c / (k + k0).
    inverse_sqrt
        Steps c / sqrt(k).
    certeq.minimize
        Minimize the OCE of losses over a feasible set.

    Examples
    --------
    >>> from certeq.optimize import constant
    >>> [constant(0.5)(k) for k in (1, 2, 4)]
    [0.5, 0.5, 0.5]
    """
    c = check_number("c", c, above=0.0)
    return Schedule(f"constant({c!r})", lambda k: c)


def inverse(c: float, k0: float = 0.0) -> Schedule:
    """Steps alpha_k = c / (k + k0).

    With strong convexity mu, smoothness L, c > 1/mu and k0 >= c L the squared distance falls as 1/samples when batches
    grow as k. Not without strong convexity, nor with a guess of c: if it is below 1/(2 mu) convergence is arbitrarily
    slow.

    Parameters
    ----------
    c : float
        The factor, above 0.
    k0 : float
        Shift of the iteration, at least 0.

    Returns
    -------
    callable
        A function of the iteration k = 1, 2, ... that `certeq.minimize` takes as ``step``.

    See Also
    --------
    constant
        Constant steps.
    inverse_sqrt
        Steps c / sqrt(k).
    certeq.minimize
        Minimize the OCE of losses over a feasible set.

    Examples
    --------
    >>> from certeq.optimize import inverse
    >>> [inverse(1.0)(k) for k in (1, 2, 4)], inverse(1.0, k0=2.0)(2)
    ([1.0, 0.5, 0.25], 0.25)
    """
    c, k0 = check_number("c", c, above=0.0), check_number("k0", k0, least=0.0)
    return Schedule(f"inverse({c!r}, {k0!r})" if k0 else f"inverse({c!r})", lambda k: c / (k + k0))


def inverse_sqrt(c: float) -> Schedule:
    """Steps alpha_k = c / sqrt(k).

    Not for smooth problems with full batches, where a constant step is much faster.

    Parameters
    ----------
    c : float
        The factor, above 0.

    Returns
    -------
    callable
        A function of the iteration k = 1, 2, ... that `certeq.minimize` takes as ``step``.

    See Also
    --------
    constant
        Constant steps.
    inverse
        Steps c / (k + k0).
    certeq.minimize
        Minimize the OCE of losses over a feasible set.

    Examples
    --------
    >>> from certeq.optimize import inverse_sqrt
    >>> [inverse_sqrt(1.0)(k) for k in (1, 4, 16)]
    [1.0, 0.5, 0.25]
    """
    c = check_number("c", c, above=0.0)
    return Schedule(f"inverse_sqrt({c!r})", lambda k: c / math.sqrt(k))


# -- batches ----------------------------------------------------------------------------------------------------------


def growing_batch(first: int = 1) -> Schedule:
    """Batch sizes m_k = first + k - 1, so m_k = k by default: what the any-time rates ask for.

    Not with few samples and many steps: beyond their number a larger batch only repeats them.

    Parameters
    ----------
    first : int
        Size of the first batch, at least 1.

    Returns
    -------
    callable
        A function of the iteration k = 1, 2, ... that `certeq.minimize` takes as ``batch``.

    See Also
    --------
    constant_batch
        Batches of constant size.
    full_batch
        All samples at every step.
    certeq.minimize
        Minimize the OCE of losses over a feasible set.

    Examples
    --------
    >>> from certeq.optimize import growing_batch
    >>> [growing_batch()(k) for k in (1, 2, 3)]
    [1, 2, 3]
    """
    first = check_count("first", first)
    return Schedule(f"growing_batch({first})", lambda k: first + k - 1)


def constant_batch(m: int) -> Schedule:
    """Constant batch sizes m_k = m.

    Not where the last digits matter: the bias of the gradient estimate, of order 1/m, then never goes away.

    Parameters
    ----------
    m : int
        Batch size, at least 1.

    Returns
    -------
    callable
        A function of the iteration k = 1, 2, ... that `certeq.minimize` takes as ``batch``.

    See Also
    --------
    growing_batch
        Batches that grow by one at every step.
    full_batch
        All samples at every step.
    certeq.minimize
        Minimize the OCE of losses over a feasible set.

    Examples
    --------
    >>> from certeq.optimize import constant_batch
    >>> constant_batch(64)(1000)
    64
    """
    m = check_count("m", m)
    return Schedule(f"constant_batch({m})", lambda k: m)


def full_batch() -> Schedule:
    """All samples at every iteration, m_k = n; needs a fixed set of samples.

    Returns
    -------
    callable
        A function of the iteration k = 1, 2, ... that `certeq.minimize` takes as ``batch``.

    See Also
    --------
    constant_batch
        Batches of constant size.
    growing_batch
        Batches that grow by one at every step.
    certeq.minimize
        Minimize the OCE of losses over a feasible set.

    Examples
    --------
    >>> from certeq.optimize import full_batch
    >>> full_batch()
    full_batch()
    """
    return Schedule("full_batch()", lambda k: FULL)


# -- what a caller may write ------------------------------------------------------------------------------------------


def as_step(step: Any) -> Schedule | None:
    """Return a step schedule from a number, a schedule or a function of k; None for the name of a choice."""
    if step is None or isinstance(step, str):
        check_choice("step", STEPS[0] if step is None else step, STEPS)
        return None
    if isinstance(step, Schedule):
        return step
    if callable(step):
        return Schedule(_name(step), step)
    return constant(check_number("step", step, above=0.0))


def as_batch(batch: Any) -> Schedule:
    """Return a batch schedule from a whole number, "full", "growing", a schedule or a function of k."""
    if isinstance(batch, Schedule):
        return batch
    if callable(batch):
        return Schedule(_name(batch), batch)
    if isinstance(batch, str):
        named = {"full": full_batch, "growing": growing_batch}
        return named[check_choice("batch", batch, named)]()
    return constant_batch(check_count("batch", batch))


def _name(function: Any) -> str:
    return f"<function {getattr(function, '__qualname__', type(function).__name__)}>"


# -- what the theory chooses ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FeasibleSet:
    """What the theorems ask of the feasible set: its diameter, +inf where there is none, and its shape."""

    diameter: float
    free: bool  # all of R^d, so that no step is projected and gradients vanish at a minimizer
    flat: bool  # within a plane, such as that of a budget, so that they need not vanish there

    @classmethod
    def of(cls, domain: Domain, d: int) -> FeasibleSet:
        """Look at a feasible set of vectors of d entries; a set that is no polyhedron is neither free nor flat."""
        diameter = domain.diameter(d)
        try:
            rows = domain.as_polyhedron(d)
        except TypeError:
            return cls(diameter, False, False)
        bounds = np.isfinite(rows.lower).any() or np.isfinite(rows.upper).any()
        return cls(diameter, not (bounds or len(rows.c) or len(rows.b)), len(rows.c) > 0)

    @property
    def proviso(self) -> str:
        """What a rate for convex OCE is subject to: theorems 2 and 5 of docs/theory/rates.rst need a diameter."""
        return "" if self.diameter < math.inf else " as long as the iterates stay bounded,"


@dataclass(frozen=True)
class Constants:
    """What the step sizes depend on: L_OCE and M, +inf where there is none, and the feasible set."""

    smoothness: float
    lipschitz: float
    feasible: FeasibleSet


@dataclass(frozen=True)
class ScheduleChoice:
    """Schedules, the iterate to return, and the rate that is promised for it; None where theory has none to offer.

    A step of None is adaptive: accelerated, or plain with weights k^power.
    """

    step: Schedule | None
    batch: Schedule
    average: str
    promise: str | None
    power: float = 0.0
    accelerated: bool = False


def oce_smoothness(
    loss: Loss,
    utility: Utility,
    samples: object = None,
    theta: Floats | None = None,
    diameter: float = math.inf,
) -> float:
    r"""The constant L_OCE, a Lipschitz constant of the gradient of OCE; +inf where none is known.

    .. math:: L_{OCE} = L_F + \kappa_u M^2, \qquad
              \kappa_u = \sup\{E\,u''(X - t^*)\}, \quad M \ge \|\nabla F_i - c\| \text{ for one common } c

    because the Hessian is E[u'F''] + E[u''] Cov_w(grad F) and the tilt sums to 1. A utility that is not monotone
    has E abs(u') > 1, so it has a constant here only for linear losses.

    Not of use for CVaR and other kinked utilities, where it is +inf: take steps that fall, such as `inverse_sqrt`.

    Parameters
    ----------
    loss : Loss
        The losses F.
    utility : Utility
        The utility u.
    samples : array or tuple of arrays, optional
        Other samples than the loss's own.
    theta : array (d,), optional
        Center of the region in which the constant holds.
    diameter : float
        Largest distance from theta.

    Returns
    -------
    float
        The constant.

    See Also
    --------
    constant
        Constant steps.
    certeq.hessian
        Hessian of OCE, as a matrix.

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
    smoothness = loss.smoothness(samples)
    if smoothness > 0.0 and not utility.is_monotone:
        return math.inf
    kappa = utility.kappa
    if kappa == 0.0:
        return smoothness
    spread = loss.spread(samples, theta, diameter)
    return smoothness if spread == 0.0 else smoothness + kappa * spread**2


def for_regime(
    regime: str, constants: Constants, step: Schedule | None = None, monotone: bool = True
) -> ScheduleChoice:
    """Return the schedules and the promise of a regime; ``step`` replaces the step the theory would choose.

    The rates belong to the theory's own steps. Of the promises only the bound of the convex regime holds for any, on a
    bounded set and under a utility that is ``monotone``.
    """
    own = step is None
    match check_choice("regime", regime, REGIMES):
        case "strongly_convex":
            return ScheduleChoice(
                step or constant(1.0 / _need_smoothness(regime, constants)),
                growing_batch(),
                "last",
                "E norm(theta_n - theta*)^2 = O(1/n), by r_n <= (1 - mu/L) r_{n-1} + sqrt(C2/n)/L" if own else None,
            )
        case "convex":
            return _convex(constants, step, monotone)
        case _:
            # A projection costs factors: theorem 8 of docs/theory/proofs.rst, with a_k = 1/L in its last part.
            promise = "E min_k norm(grad OCE(theta_k))^2 <= (2 L (OCE(theta_0) - inf) + C2 (1 + ln n))/n"
            if not constants.feasible.free:
                promise = (
                    "E min_k norm(G_k)^2 <= (8 L (OCE(theta_0) - inf) + 10 C2 (1 + ln n))/n, "
                    "G the gradient mapping of step 1/L"
                )
            return ScheduleChoice(
                step or constant(1.0 / _need_smoothness(regime, constants)),
                growing_batch(),
                "last",
                promise if own else None,
            )


def adaptive(
    regime: str, size: float, batch: Schedule | None, average: str | None, feasible: FeasibleSet
) -> ScheduleChoice:
    """Return the choice with steps that need no constants; ``size`` is the number of samples, +inf of a stream.

    Gradients are corrected by passes over all samples, and steps accelerated, where OCE is convex and a hundred batches
    (those of iteration 1000) make a pass; a stream has no last sample, and averages take the noise out. The promises
    are those of docs/theory/rates.rst: None where it has no theorem for the feasible set.
    """
    sizes = batch or growing_batch()
    promise: str | None
    if check_choice("regime", regime, REGIMES) == "nonconvex":
        promise = "E min_k norm(grad OCE(theta_k)) = O(ln n/sqrt n) as long as distances and gradients stay bounded"
        kept = average or ("last" if sizes == full_batch() else "weighted")
        return ScheduleChoice(None, sizes, kept, promise if batch is None and feasible.free else None)
    count = sizes(1000) if sizes == full_batch() or size < math.inf else 1.0
    if average is None and (count == FULL or size <= _PASSES * count):
        promise = f"E OCE - min OCE = O(1/sqrt n),{feasible.proviso} n counted from the last return"
        if count == FULL:
            promise = (
                f"OCE - min OCE = O(1/sqrt n), and O(1/n^(3/2)) where OCE is smooth,{feasible.proviso}"
                " n counted from the last return"
            )
        kept_promise = promise if batch is None or count == FULL else None
        return ScheduleChoice(None, sizes, "last", kept_promise, accelerated=True)
    promise = "E OCE(mean) - min OCE = O(1/sqrt n) where gradients" + (
        " are bounded" if feasible.diameter < math.inf else " and iterates stay bounded"
    )
    if regime == "strongly_convex" and not feasible.flat:
        promise = "E norm(mean - theta*)^2 = O(1/n) where OCE and u are smooth and grad OCE(theta*) = 0"
        promise += "" if feasible.diameter < math.inf else ", as long as the iterates stay bounded"
    elif regime == "strongly_convex":
        promise = (
            "E norm(mean - theta*) = O(1/n) where OCE and u are smooth, no bound is touched, and gradients are bounded "
            "and stay away from 0"
        )
    kept = average or "weighted"
    return ScheduleChoice(None, sizes, kept, promise if batch is None and kept == "weighted" else None, POWER)


def _convex(constants: Constants, step: Schedule | None, monotone: bool) -> ScheduleChoice:
    L, M, feasible = constants.smoothness, constants.lipschitz, constants.feasible
    D = feasible.diameter
    if step is not None:
        covered = monotone and math.isfinite(D)
        return ScheduleChoice(step, growing_batch(), "weighted", ANY_STEP if covered else None)
    if 0.0 < D < math.inf and 0.0 < M < math.inf:
        return ScheduleChoice(inverse_sqrt(D / M), growing_batch(), "weighted", f"{ANY_STEP} = O(ln n/sqrt n)")
    if 0.0 < L < math.inf:
        promise = "E OCE(mean) - min OCE = O(ln^2 n/sqrt n)"
        if not feasible.free:
            promise += " where grad OCE = 0 at the minimizer"
        return ScheduleChoice(inverse_sqrt(1.0 / L), growing_batch(), "mean", promise)
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


# -- which iterate is returned ----------------------------------------------------------------------------------------


class Average:
    """The iterate that is returned: the last, or a running mean of those before each step.

    "mean" is (1/n) sum_k theta_{k-1} and "weighted" sum_k a_k theta_{k-1} / sum_k a_k, the one with a guarantee for
    kinked utilities: a_k is the step of a schedule; with adaptive steps r_k k^1.5, or k^2 where OCE is not convex. The
    theory averages the points where gradients were taken, theta_0 ... theta_{n-1}, not the ones the steps led to.
    """

    STATE = ("mean", "weight")

    def __init__(self, kind: str, d: int) -> None:
        self.kind = check_choice("average", kind, AVERAGES)
        self.mean: Floats = np.zeros(d)
        self.weight = 0.0

    def add(self, theta: Floats, weight: float) -> None:
        """Take in theta_{k-1}, with the weight it has where they are weighted."""
        weight = weight if self.kind == "weighted" else 1.0
        self.weight += weight
        self.mean += (weight / self.weight) * (theta - self.mean)

    def pick(self, theta: Floats) -> Floats:
        """Return the iterate to report when the current one is ``theta``."""
        return self.mean if self.weight > 0.0 else theta
