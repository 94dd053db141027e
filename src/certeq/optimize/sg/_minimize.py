"""`minimize_sg`: OCE-SG with its arguments checked, from the first iterate to the certificate."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from certeq._checks import (
    check_array,
    check_choice,
    check_count,
    check_instance,
    check_number,
    check_weights,
    probabilities,
    shown,
)
from certeq._files import check_folder
from certeq._table import Array, Block, Table
from certeq.optimize.domains import Domain
from certeq.optimize.exact._start import scan
from certeq.optimize.losses import Evaluation, LinearLoss, Loss, Objective
from certeq.optimize.losses._base import Floats, count_samples
from certeq.optimize.sg._checkpoint import describe_problem, exists, resolve
from certeq.optimize.sg._log import Snapshot
from certeq.optimize.sg._run import Limits, Run
from certeq.optimize.sg._schedules import (
    ANY_STEP,
    AVERAGES,
    Constants,
    FeasibleSet,
    ScheduleChoice,
    adaptive,
    as_batch,
    as_step,
    for_regime,
    full_batch,
    oce_smoothness,
)
from certeq.optimize.sg._sources import ArraySource, Source, make_source
from certeq.optimize.solution import Solution
from certeq.risk import ReliabilityWarning
from certeq.risk.solvers import RiskTiltKernel, TiltKernel, solve_long_risk, solve_table
from certeq.utilities import Pieces, Risk, Utility


def minimize_sg(
    loss: Loss,
    utility: Risk,
    *,
    domain: Domain,
    samples: Any = None,
    theta0: Any = None,
    weights: Any = None,
    regime: str | None = None,
    step: Any = None,
    batch: Any = None,
    average: str | None = None,
    replace: bool = True,
    iterations: int = 1000,
    tol: float | None = None,
    time_limit: float | None = None,
    rng: Any = None,
    log_every: int | None = None,
    callback: Callable[[Snapshot], Any] | None = None,
    progress: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    resume: bool = True,
) -> Solution:
    r"""Minimize OCE(F(theta, xi)) over a feasible set by stochastic gradients (OCE-SG).

    .. math:: \theta_k = \Pi_\Theta\Big(\theta_{k-1} - \alpha_k \sum_{i=1}^{m_k} q_i \nabla F(\theta_{k-1}, \xi_i)\Big),
              \qquad q_i = \tfrac{1}{m_k} u'(F(\theta_{k-1}, \xi_i) - t^*)

    with t* the threshold of the batch, solved exactly, so that q sums to 1; for CVaR ties share what is left. Of any
    other risk q is the tilt of the batch.

    Parameters
    ----------
    loss, utility, domain
        F, u (or a risk such as ``EVaR(0.05)``) and the feasible set.
    samples : array, tuple of arrays, callable or iterator, optional
        Where batches come from: a fixed set (default: the loss's own), a sampler ``f(rng, m)`` that returns m fresh
        samples, or an endless iterator of chunks of any length. Of a stream one batch is held at a time. From a Dask
        array, or a large memory-mapped one, the rows of a batch are fetched; full batches, values and gaps are sums
        over its blocks.
    theta0 : array (d,), optional
        Start; the domain's own by default. Needed when the samples do not tell the size of theta.
    weights : array (n,), optional
        Sample weights, for a fixed set: exact on full batches, the odds of being drawn otherwise.
    regime : "strongly_convex", "convex" or "nonconvex", optional
        Chooses what step, batch and average are left open. By default "convex" where OCE is known to be, else
        "nonconvex". The rate is ``promise`` in the result.
    step : "adaptive", "theory", float, Schedule or function of k, optional
        By default "adaptive": lengths that follow from the distance covered and the gradients met, and need no
        constants; see Notes. "theory" takes those of the regime from constants of the samples, 1/L_OCE or
        D/(M sqrt(k)). A number is a constant step; see `constant`, `inverse`, `inverse_sqrt`, the printed ones.
    batch : int, "full", "growing", Schedule or function of k, optional
        Batch sizes; from the size of a fixed set on, the whole set is used. A single sample is risk neutral.
    average : "last", "mean" or "weighted", optional
        What is returned: theta_n, or the (weighted) mean of theta_0 ... theta_{n-1}. Weights are the steps of a
        schedule; with adaptive steps they grow as k^1.5, or k^2 where OCE is not known to be convex.
    replace : bool
        Whether a batch drawn from a fixed set may hold a sample twice.
    iterations : int
        At most so many.
    tol : float, optional
        Stop when a logged gap is at most tol * max(1, abs(value)). By default the run goes to its limit.
    time_limit : float, optional
        Seconds that this call may take.
    rng : int, Generator or None
        Seed or generator. With a seed the run is bitwise reproducible.
    log_every : int, optional
        Value and gap over all samples are computed so often only; by default a hundred times in a run.
    callback : callable, optional
        Called with a `Snapshot` at each logged iteration; returning True stops the run.
    progress : bool, optional
        Progress bar (tqdm); by default on a terminal only.
    checkpoint : path, optional
        File for the state of the run. If the file exists and ``resume`` is true, the run continues, bit for bit as if
        it had never stopped; the same call thus starts and restarts a run. Raising ``iterations`` continues a finished
        run. A checkpoint of a different problem raises ValueError; see Notes. Each checkpoint is written to a new file
        that then replaces the earlier one; of a symbolic link the target is replaced.
    checkpoint_every : int, optional
        Iterations between checkpoints, equal to ``log_every`` by default. A killed run loses at most as many.

    Returns
    -------
    Solution
        ``gap`` bounds value - minimum over the samples, at the theta returned. It is None for streams and where OCE
        is not known to be convex, +inf on an unbounded set. For a stream ``value`` is that of the last logged batch,
        which is low by O(1/m) on average, at the iterate the batch was drawn at.

    Warns
    -----
    ReliabilityWarning
        Where too few samples of a batch carry the risk, or a run with corrected batches has not settled: the values at
        its last passes are more than 1 % above the best. ``warnings`` of the result has the same words.

    Notes
    -----
    Adaptive steps have the length r_k w_k / sqrt(sum_{i<k} w_i^2 norm(g_i)^2), and do not move theta by more than r_k:
    r_k is the largest distance from theta0 so far, bounded by the diameter of the feasible set, and w_k is k^1.5 where
    OCE is convex, else 1. On a fixed set of samples of which a hundred batches make a pass, and convex OCE, one
    iteration in as many as a pass has batches reads all samples, to correct the gradients of the batches for noise and
    bias, and steps are accelerated. Where less than a quarter of the samples carry the risk, batches are then drawn by
    odds that follow the tilt at these passes, and weighted accordingly, unless ``replace`` is false. Without bounds
    each principal axis of the features has a length of its own. Pass ``average`` for plain steps. Theorems and proofs
    are on the page on rates.

    A checkpoint belongs to one problem: samples, weights, theta0, seed, and all parameters of the loss, the utility,
    the feasible set and the schedules are compared to the last bit, and a ValueError names the parts that differ.
    Functions (samplers, schedules, losses and utilities given by a function) are compared by their names alone: a
    function that has changed continues the run with its new values. Of random states only that of ``rng`` is stored.
    An iterator must return the same chunks from the beginning; the samples already used are skipped.

    Builds with and without the compiled file read each other's checkpoints; the results then agree to rounding.

    References
    ----------
    Cutkosky (2019), Anytime online-to-batch, optimism and acceleration.

    Ivgi, Hinder and Carmon (2023), DoG is SGD's best friend.

    Johnson and Zhang (2013), Accelerating stochastic gradient descent using predictive variance reduction.

    Levy, Carmon, Duchi and Sidford (2020), Large-scale methods for distributionally robust optimization,
    arXiv:2010.05893.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> from certeq.optimize.domains import Simplex
    >>> from certeq.optimize.losses import LinearLoss
    >>> A = np.random.default_rng(0).normal(size=(500, 3)) * [1.0, 2.0, 3.0]
    >>> found = minimize_sg(
    ...     LinearLoss(A),
    ...     ce.CVaR(0.1),
    ...     domain=Simplex(),
    ...     batch="full",
    ...     iterations=2000,
    ...     rng=0,
    ... )
    >>> found.gap < 0.05
    True
    """
    check_problem(loss, utility, domain)
    generator, seed = check_rng(rng)
    iterations = check_count("iterations", iterations)
    log_every = max(1, iterations // 100) if log_every is None else check_count("log_every", log_every)
    every = log_every if checkpoint_every is None else check_count("checkpoint_every", checkpoint_every)
    if checkpoint_every is not None and checkpoint is None:
        raise ValueError("checkpoint_every is given but checkpoint is not; pass checkpoint=, the file to write.")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable as callback(snapshot); found {callback!r}.")
    limits = Limits(
        iterations,
        check_limit("time_limit", time_limit),
        -1.0 if tol is None else check_limit("tol", tol),
        log_every,
        every,
    )
    path = "" if checkpoint is None else resolve(checkpoint)
    found = checkpoint is not None and exists(path) and resume
    if checkpoint is not None and not found:
        check_folder(path)
    shares = None if weights is None else _weights(weights, loss, samples)
    source = make_source(samples, loss, generator, replace, shares)
    fixed = source.samples if isinstance(source, ArraySource) else None
    objective: Objective | None = None
    if isinstance(fixed, Table):  # looks at every row, before any constant is taken from them
        objective = TableObjective(loss, utility, fixed, shares)
    theta = check_start(theta0, loss, fixed, domain)
    choice = choose_schedules(loss, utility, domain, source, theta, regime, step, batch, average)
    # The gradient under two pieces is that of the tail's rows, which are at hand where A is kept by rows.
    by_rows = isinstance(utility, Utility) and isinstance(utility.shape, Pieces)
    if isinstance(source, ArraySource) and choice.batch == full_batch() and not by_rows:
        fixed = source.samples = loss.lay_out(source.samples)
    if fixed is not None and objective is None:
        objective = Objective(loss, utility, fixed, shares)
    run = Run(loss, utility, domain, source, objective, theta, choice, seed)

    keep = None
    if checkpoint is not None:
        given = None if rng is None else seed
        start = None if theta0 is None else theta
        problem = describe_problem(loss, utility, domain, source, start, shares, choice, given)
        if found:
            run.resume(path, problem)
        keep = lambda state: state.save(path, problem)
    # Whoever calls again without the callback that stopped the run wants it to go on.
    stopped = run.status == "stopped by callback" and callback is not None
    finished = run.iteration > 0 and (run.status == "converged" or stopped)
    if not finished and run.iteration < iterations:
        if found:  # a finished run may be read from where nothing can be written
            check_folder(path)
        run.go(limits, callback, progress, keep)
    solution = run.solution()
    for doubt in solution.warnings:
        warnings.warn(doubt, ReliabilityWarning, stacklevel=3)  # whoever called `minimize`
    return solution


def _weights(weights: Any, loss: Loss, samples: Any) -> Floats:
    data = loss.samples if samples is None else samples
    if data is None or callable(data) or hasattr(data, "__next__"):
        raise ValueError("weights belong to a fixed set of samples; a sampler or an iterator cannot have them.")
    data = data if samples is None else loss.check_samples(data)
    if isinstance(data, Table):
        weights = data.bring_weights(weights)
    return probabilities(check_weights("weights", weights, count_samples(data)))


# -- what it may be given, checked once before the first iteration ----------------------------------------------------


def check_problem(loss: Any, utility: Any, domain: Any) -> None:
    """Refuse what is not a loss, a utility or another risk, and a feasible set."""
    if not isinstance(loss, Loss):
        hint = "; wrap it: LinearLoss(A), or CallableLoss(function)"
        raise TypeError(f"loss must be a Loss; found {type(loss).__name__}{hint}.")
    check_instance("utility", utility, Risk, "a utility such as CVaR(0.05) or another risk such as EVaR(0.05)")
    check_instance("domain", domain, Domain, "a feasible set such as Simplex() or Free()")


def check_start(theta0: Any, loss: Loss, samples: Any, domain: Domain) -> Floats:
    """Return a starting point in the feasible set: the one given, which must lie in it, or the domain's own."""
    d = loss.dimension(samples)
    if theta0 is None:
        if d is None:
            raise ValueError(f"theta0 is missing: {loss!r} does not tell the size of theta.")
        return domain.start(d)
    theta = check_array("theta0", theta0).copy()
    if d is not None and theta.size != d:
        raise ValueError(f"theta0 must have {d} entries, one per column of the samples; found {theta.size}.")
    if not domain.contains(theta):
        raise ValueError(f"theta0 must lie in {domain!r}, but {domain.explain(theta)}. Use domain.project(theta0).")
    return theta


def check_rng(rng: Any) -> tuple[np.random.Generator, int | None]:
    """Return a generator and the seed that reproduces it (None when a generator was passed in)."""
    if isinstance(rng, np.random.Generator):
        return rng, None
    if rng is None:
        entropy = np.random.SeedSequence().entropy
        assert isinstance(entropy, int)
        return np.random.default_rng(entropy), entropy
    if isinstance(rng, bool) or not hasattr(rng, "__index__"):
        raise TypeError(f"rng must be a seed, a numpy Generator or None; found {shown(rng)}.")
    if int(rng) < 0:
        raise ValueError(f"rng must be a seed not below 0; found {rng}.")
    return np.random.default_rng(int(rng)), int(rng)


def check_limit(name: str, found: Any) -> float:
    """Return a number above 0, infinite for None."""
    return math.inf if found is None else check_number(name, found, "a number above 0 or None", above=0.0, finite=False)


def choose_schedules(
    loss: Loss,
    utility: Risk,
    domain: Domain,
    source: Source,
    theta: Floats,
    regime: str | None,
    step: Any,
    batch: Any,
    average: str | None,
) -> ScheduleChoice:
    """Return schedules and average: those given, the rest from the regime."""
    if regime is None:
        regime = "convex" if loss.linear or (loss.convex and utility.is_monotone) else "nonconvex"
    given = as_step(step)
    sizes = None if batch is None else as_batch(batch)
    if average is not None:
        check_choice("average", average, AVERAGES)
    feasible = FeasibleSet.of(domain, theta.size)
    if given is None and step != "theory":
        return adaptive(regime, source.size if isinstance(source, ArraySource) else math.inf, sizes, average, feasible)
    smoothness = lipschitz = math.inf
    diameter = feasible.diameter
    if given is None and isinstance(source, ArraySource):
        if isinstance(utility, Utility):  # the curvature of a ball has no bound: it grows as its scale falls
            smoothness = oce_smoothness(loss, utility, source.samples, theta, diameter)
        lipschitz = loss.lipschitz(source.samples, theta, diameter) if utility.is_monotone else math.inf
    chosen = for_regime(regime, Constants(smoothness, lipschitz, feasible), given, utility.is_monotone)
    if sizes is None and average is None:
        return chosen
    which = average or chosen.average
    promise = chosen.promise
    if sizes is not None:  # the rates count on batches that grow
        promise = ANY_STEP if promise is not None and promise.startswith(ANY_STEP) else None
    return ScheduleChoice(chosen.step, sizes or chosen.batch, which, promise if which == chosen.average else None)


# -- samples that are read in blocks: everything over all of them by sums of blocks -----------------------------------


class TableObjective(Objective):
    """OCE of a linear loss over a table: value and gradient, by a few passes over the blocks.

    The tilt and the losses, as long as the table, are not kept: both are empty in what `evaluate` returns.
    """

    def __init__(self, loss: Loss, utility: Risk, table: Table, weights: Floats | None) -> None:
        self.loss, self.utility, self.samples, self.count = loss, utility, table, len(table)
        self.weights = weights
        self.table = table if weights is None else table.with_weights(weights)
        scan(self.table, 1)  # refuses what is not finite, naming the row

    def evaluate(self, theta: Floats) -> Evaluation:
        """Return value, gradient and threshold at theta."""
        assert isinstance(self.loss, LinearLoss)
        longer = self.loss.extended(theta)
        losses, nothing = self.table.losses(longer), np.zeros(0)
        threshold: float | Floats
        tilt: TiltKernel | RiskTiltKernel
        if isinstance(self.utility, Utility):
            solved = solve_table(losses, self.utility)
            value, threshold, tilt = float(solved.value), float(solved.threshold), solved.tilt(normalized=False)
        else:
            found = solve_long_risk(losses, self.utility)
            value, threshold, tilt = found.value, found.thresholds, found.tilt()
        gradient, mass = self.table.reduce(_TiltedSum(longer, tilt))
        return Evaluation(value, gradient[: theta.size] / mass, nothing, threshold, nothing)


@dataclass(frozen=True)
class _TiltedSum:
    """Sums of q_i a_i and of q_i."""

    theta: Array
    tilt: TiltKernel | RiskTiltKernel
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> tuple[Array, float]:
        q = self.tilt(replace(block, rows=block.rows @ self.theta))
        return q @ block.rows, float(q.sum())

    def join(self, parts: Sequence[tuple[Array, float]]) -> tuple[Array, float]:
        return np.sum([part[0] for part in parts], axis=0), float(np.sum([part[1] for part in parts]))
