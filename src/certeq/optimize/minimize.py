"""`minimize`: the one way in. It checks the problem and hands it to the algorithm that was asked for."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from certeq._checks import check_choice, probabilities
from certeq._table import Table
from certeq.optimize.domains import Domain
from certeq.optimize.domains._polyhedron import bounds_alone, extended_form
from certeq.optimize.exact import ExactResult, PanelResult, solve_exact
from certeq.optimize.extended import solve, solve_extended
from certeq.optimize.lbfgs import minimize_lbfgs
from certeq.optimize.losses import LinearLoss, Loss
from certeq.optimize.losses._linear import split_offset
from certeq.optimize.sg import minimize_sg
from certeq.optimize.sg._minimize import check_problem, check_start
from certeq.optimize.solution import Solution, Trace
from certeq.optimize.terms import Limit, RiskTerm, minimize_terms
from certeq.risk import UnitWarning
from certeq.risk.solvers import blindness_at, blindness_of, depends_on_unit, tilt_is_steep, warn_of_unit
from certeq.utilities import Risk, Utility


def minimize(
    loss: Loss | Sequence[RiskTerm],
    utility: Risk | None = None,
    *,
    domain: Domain,
    samples: Any = None,
    theta0: Any = None,
    weights: Any = None,
    limits: Sequence[Limit] = (),
    method: str = "auto",
    **options: Any,
) -> Solution:
    r"""Minimize :math:`\mathrm{OCE}_u(F(\theta, \xi))` over theta in a feasible set.

    Parameters
    ----------
    loss : Loss or sequence of RiskTerm
        F: `LinearLoss`, `SquaredLoss`, `LogisticLoss`, `CallableLoss` or `TorchLoss`. Several `RiskTerm`, each a risk
        of linear losses of its own, are added up.
    utility : Risk, optional
        Risk measure: a utility, a risk with more inner variables such as ``EVaR(0.05)``, a `Mixture`, or a
        distortion such as ``Wang(0.5)``, which "exact" solves by cuts, in memory, to a relative gap of 1e-7.
        Left out beside several terms.
    domain : Domain
        The feasible set, such as ``Simplex()`` or ``Free()``.
    samples : array, tuple of arrays, callable or iterator, optional
        Samples of xi, if not those the loss holds; also a sampler ``f(rng, m)`` or an endless iterator, for OCE-SG.
    theta0 : array (d,), optional
        Start; a point of the feasible set. An earlier solution is a warm start.
    weights : array (n,), optional
        Sample weights; they are scaled to sum to 1. Terms and limits that have none of their own have these.
    limits : sequence of Limit
        Limits on risks of linear losses, such as ``Limit(loss, CVaR(0.05), 0.02)``; for "exact" alone.
    method : {"auto", "exact", "lbfgs", "sg"}
        "exact": linear losses over polyhedra, to rounding, any utility or risk. "lbfgs": smooth losses and utilities,
        all samples, bounds at most. "sg": OCE-SG, for streams, for losses and sets that the others cannot take. "auto"
        takes the first of these that can take the problem and knows the options; ``method`` of the result says which
        it was, ``reason`` why.
    **options : Any
        Options of the method, listed in the Notes. An unknown one is refused.

    Returns
    -------
    Solution
        The point with its value, gap, status, trace and more. The gap is a proved bound on how far the value is above
        the minimum over these samples; it says nothing of other samples.

    Warns
    -----
    UnitWarning
        Where the losses are so small that the utility hardly tells them from their mean. Streams, and samples that
        are read in blocks, are not looked at.
    ReliabilityWarning
        From "sg", where too few samples of a batch carry the risk, or the run has not settled; see ``warnings`` of the
        result.

    See Also
    --------
    maximize_ratio
        Maximize a ratio of reward to risk.
    risk_budgeting
        Weights whose risk contributions follow a budget.
    certeq.optimize.solve_exact
        The exact solver on arrays.
    certeq.portfolio.MinimumOCE
        Portfolios of least OCE, and of largest return or ratio.
    certeq.torch.OCELoss
        OCE as a criterion for training.

    Notes
    -----
    Not for training networks, for which `certeq.torch.OCELoss` goes into any training loop; and not for gains, which
    must change their sign first.

    Options of "exact", beside ``time_limit`` in seconds, which every method takes:

    linear : array (d,)
        Costs added to the risk.
    tol : float, 1e-9 by default
        Relative gap at which the answer counts as converged.
    max_iter : int
        Limit on second-order steps.

    Options of "lbfgs":

    tol : float, 1e-8 by default
        The run has converged when no entry of the projected gradient exceeds it.
    iterations : int, 1000 by default
        Limit on steps.
    memory : int, 20 by default
        Pairs of vectors that approximate the Hessian.

    Options of "sg":

    iterations : int, 1000 by default
        Number of steps.
    tol : float
        Stop when a logged gap is at most ``tol * max(1, abs(value))``; by default the run goes to its limit.
    regime : {"strongly_convex", "convex", "nonconvex"}
        Chooses what step, batch and average are left open: "convex" where OCE is known to be, else "nonconvex".
    step : {"adaptive", "theory"}, float or callable
        Step lengths: adaptive ones (the default), those of the regime's theorem, a constant, or a schedule such as
        `certeq.optimize.inverse_sqrt`.
    batch : {"full", "growing"}, int or callable
        Batch sizes: a number, a word, or a schedule such as `certeq.optimize.growing_batch`.
    average : {"last", "mean", "weighted"}
        Which mean of the iterates is returned.
    replace : bool, True by default
        Whether a batch that is drawn from a fixed set may hold a sample twice.
    rng : int or numpy.random.Generator
        Seed or generator; with a seed the run is bitwise reproducible.
    log_every : int
        Iterations between computations of value and gap over all samples; by default a hundred times in a run.
    callback : callable
        Called at each logged iteration; returning True stops the run.
    progress : bool
        Whether to show a progress bar; by default on a terminal only.
    checkpoint, checkpoint_every, resume : path, int, bool
        File for the state of the run, iterations between two checkpoints, and whether to continue from an existing
        file, bit for bit as if the run had never stopped. A checkpoint of a different problem raises ValueError.

    References
    ----------
    Cutkosky (2019), Anytime online-to-batch, optimism and acceleration.

    Ivgi, Hinder and Carmon (2023), DoG is SGD's best friend: a parameter-free dynamic step size schedule.

    Johnson and Zhang (2013), Accelerating stochastic gradient descent using predictive variance reduction.

    Robinson (1972), A quadratically-convergent algorithm for general nonlinear programming problems.

    Examples
    --------
    The portfolio of least CVaR of three scenarios (rows) and two assets, to rounding:

    >>> import certeq as ce
    >>> loss = ce.LinearLoss([[0.0, 1.0], [1.0, 0.0], [2.0, -1.0]])
    >>> found = ce.minimize(loss, ce.CVaR(0.5), domain=ce.Simplex())
    >>> found.theta.round(6), round(found.value, 6), found.method
    (array([0.5, 0.5]), 0.5, 'exact')

    The same by stochastic gradients with a mean-variance objective:

    >>> options = {"batch": "full", "step": 0.1, "average": "last", "iterations": 500}
    >>> found = ce.minimize(
    ...     loss, ce.MeanVariance(1.0), domain=ce.Simplex(), method="sg", **options
    ... )
    >>> found.theta.round(6), round(found.value, 6)
    (array([0.3125, 0.6875]), 0.40625)

    The least mean loss where CVaR is at most 0.6, and what each unit of a higher limit would save:

    >>> limit = ce.Limit(loss, ce.CVaR(0.5), 0.6)
    >>> found = ce.minimize(loss, ce.Mean(), domain=ce.Simplex(), limits=[limit])
    >>> found.theta.round(6), round(found.value, 6), found.limit_multipliers.round(6)
    (array([0.2, 0.8]), 0.2, array([3.]))
    """
    if limits or isinstance(loss, (RiskTerm, Sequence)):
        return _minimize_terms(loss, utility, domain, samples, theta0, weights, limits, method, options)
    check_problem(loss, utility, domain)
    assert utility is not None
    reason: str | None = None
    if check_choice("method", method, (AUTO, *_ALGORITHMS)) == AUTO:
        method, reason = _choose(loss, utility, domain, samples, theta0, options)
    _refuse_unknown(method, options)
    algorithm = _ALGORITHMS[method]
    found = algorithm(loss, utility, domain=domain, samples=samples, theta0=theta0, weights=weights, **options)
    if reason is not None:
        found = replace(found, reason=f"method='auto': {reason}")
    if isinstance(utility, Utility) and depends_on_unit(utility):
        warn_of_unit(_blindness(loss, utility, samples, weights, found), stacklevel=2)
    return found


def _minimize_terms(
    loss: Any,
    utility: Any,
    domain: Domain,
    samples: Any,
    theta0: Any,
    weights: Any,
    limits: Sequence[Limit],
    method: str,
    options: dict[str, Any],
) -> Solution:
    """Several terms, or limits: for the exact method alone."""
    if check_choice("method", method, (AUTO, *_ALGORITHMS)) in ("sg", "lbfgs"):
        raise ValueError(
            f"limits and several terms need method='exact'; found {method!r}, which would have to project on the "
            "points that keep the limits at every step."
        )
    if samples is not None:
        if not isinstance(loss, Loss) or not loss.linear or callable(samples) or hasattr(samples, "__next__"):
            raise ValueError("samples must be an array beside one linear loss; terms and limits hold their own.")
        loss = LinearLoss(*split_offset(loss.check_samples(samples))) if has_offset(loss) else LinearLoss(samples)
    known = tuple(
        name for name in inspect.signature(minimize_terms).parameters if name not in (*_SHARED, "risk", "limits")
    )
    for name in options:
        if name not in known:
            check_choice("an option of method='exact' with limits", name, known)
    found = minimize_terms(loss, utility, domain=domain, limits=limits, weights=weights, theta0=theta0, **options)
    if method == AUTO:
        what = "limits on risks" if limits else "an objective of terms"
        found = replace(found, reason=f"method='auto': no other method takes {what}")
    return found


def _choose(
    loss: Loss, utility: Risk, domain: Domain, samples: Any, theta0: Any, options: dict[str, Any]
) -> tuple[str, str]:
    """Return the first method that can take the problem and knows the options, and what spoke for it."""
    if callable(samples) or hasattr(samples, "__next__"):
        return "sg", "samples are a stream"
    data = loss.samples if samples is None else loss.check_samples(samples)
    if data is None:
        raise ValueError(f"samples is missing: {loss!r} holds none.")
    passed_over = ""
    if loss.linear:
        if not _is_polyhedron(domain, int(data.shape[1]) - has_offset(loss)):
            passed_over = "the feasible set is no polyhedron"
        elif not set(options) <= set(_options_of("exact")) and set(options) <= set(_options_of("sg")):
            passed_over = f"{_first_unknown('exact', options)} is an option of OCE-SG"
        else:
            return "exact", "the loss is linear, the feasible set a polyhedron"
    elif not utility.is_smooth:
        passed_over = "the utility has kinks"
    elif not math.isfinite(loss.smoothness(data)):
        passed_over = "the loss is not known to be smooth"
    else:
        size = loss.dimension(data) if theta0 is None else np.size(theta0)
        if size is None or bounds_alone(domain, size) is None:
            passed_over = "the feasible set is more than bounds"
        elif not set(options) <= set(_options_of("lbfgs")) and set(options) <= set(_options_of("sg")):
            passed_over = f"{_first_unknown('lbfgs', options)} is an option of OCE-SG"
        else:
            return "lbfgs", "the loss and the utility are smooth, the feasible set bounds at most"
    return "sg", passed_over


def has_offset(loss: Loss) -> bool:
    """Whether the last column of a linear loss's samples is an offset."""
    return isinstance(loss, LinearLoss) and loss.has_offset


def _is_polyhedron(domain: Domain, d: int) -> bool:
    try:
        extended_form(domain, d)
    except TypeError:
        return False
    return True


def _blindness(loss: Loss, utility: Utility, samples: Any, weights: Any, found: Solution) -> UnitWarning | None:
    """That the losses are too small for the utility, if they are; of streams and data in blocks nothing is said."""
    data = loss.samples if samples is None else samples
    if found.tilt is None or isinstance(data, Table):
        return None
    p = None if weights is None else probabilities(np.asarray(weights, dtype=np.float64))
    if loss.linear:
        theta = np.append(found.theta, 1.0) if has_offset(loss) else found.theta
        return blindness_at(np.asarray(data), theta, p, utility, found.tilt)
    if tilt_is_steep(utility, found.tilt, p):
        return None
    return blindness_of(loss.losses(found.theta, data), p, utility, found.value)


def minimize_exact(
    loss: Loss,
    utility: Risk,
    *,
    domain: Domain,
    samples: Any = None,
    theta0: Any = None,
    weights: Any = None,
    **options: Any,
) -> Solution:
    """Minimize OCE of linear losses over a polyhedron to rounding; see `certeq.optimize.exact`.

    Of scenarios that are read in blocks (a Dask array, a large memory-mapped one) the tilt is not returned: it is as
    long as they are.
    """
    if not loss.linear:
        raise ValueError(f"loss must be linear for method='exact'; found {loss!r}. Use method='lbfgs' or 'sg'.")
    if callable(samples) or hasattr(samples, "__next__"):
        raise ValueError("samples must be an array for method='exact'; a sampler or an iterator needs method='sg'.")
    data = loss.samples if samples is None else loss.check_samples(samples)
    if data is None:
        raise ValueError(f"samples is missing: {loss!r} holds none.")
    start = None if theta0 is None else check_start(theta0, loss, data, domain)
    fixed = has_offset(loss)
    d = int(data.shape[1]) - fixed
    begin = time.perf_counter()
    found: ExactResult | PanelResult
    try:
        extended = extended_form(domain, d)
    except TypeError as error:
        raise ValueError(f"domain must be a polyhedron for method='exact'; found {error}. Use 'sg'.") from None
    limits = extended.rows._constraints().as_arguments()
    if extended.is_plain and not (fixed and isinstance(data, Table)):
        A, offset = (data[:, :-1], data[:, -1]) if fixed else (data, None)
        found = solve(A, utility, weights, start, limits, options, offset)
        theta = found.theta
    else:
        found, theta = solve_extended(data, utility, extended, start, weights, limits, options, fixed)
    return Solution(
        theta=theta,
        value=float(found.value),
        gap=float(found.gap),
        status="converged" if found.status == "optimal" else str(found.status),
        trace=_trace(found.trace, len(data)),
        iterations=int(found.iterations),
        threshold=found.threshold if found.inner.size else None,  # a distortion has none
        inner=found.inner if found.inner.size > 1 else None,
        tilt=found.tilt,
        seconds=time.perf_counter() - begin,
        method="exact",
        radius=float(getattr(found, "radius", math.inf)),
    )


def _trace(rows: Any, count: int) -> Trace:
    """Return the exact solver's rows (value, gap, seconds, ...) in our columns; it has no step length."""
    table = np.array([row[:3] for row in rows], dtype=np.float64).reshape(-1, 3)
    length = len(table)
    batch = np.full(length, count, dtype=np.int64)
    return Trace(np.arange(1, length + 1), table[:, 0], table[:, 1], np.full(length, np.nan), batch, table[:, 2])


AUTO = "auto"
_ALGORITHMS: dict[str, Callable[..., Solution]] = {
    "exact": minimize_exact,
    "sg": minimize_sg,
    "lbfgs": minimize_lbfgs,
}
_SHARED = ("loss", "utility", "domain", "samples", "theta0", "weights")


@cache  # a signature takes as long to read as a tenth of a small solve
def _options_of(method: str) -> tuple[str, ...]:
    """Names of the options that a method has beside the problem."""
    target: Callable[..., Any] = solve_exact if method == "exact" else _ALGORITHMS[method]
    known = [name for name in inspect.signature(target).parameters if name not in _SHARED]
    if method == "exact":  # the feasible set comes from the domain
        # Squares are of the solver's own variables, which are not theta for every set; panels do not take them.
        known = [name for name in known if name not in ("A", "quadratic", "lower", "upper", "C", "c", "G", "b")]
    return tuple(known)


def _first_unknown(method: str, options: dict[str, Any]) -> str:
    return next(name for name in options if name not in _options_of(method))


def _refuse_unknown(method: str, options: dict[str, Any]) -> None:
    known = _options_of(method)
    for name in options:
        if name not in known:
            check_choice(f"an option of method={method!r}", name, known)
