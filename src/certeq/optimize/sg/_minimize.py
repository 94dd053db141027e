"""`minimize_sg`: OCE-SG with its arguments checked, from the first iterate to the certificate."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from certeq.optimize.domains import Domain
from certeq.optimize.losses import Loss, Objective
from certeq.optimize.losses._base import Floats, check_weights, count_samples
from certeq.optimize.panels import Panel
from certeq.optimize.sg._arguments import (
    check_count,
    check_limit,
    check_problem,
    check_rng,
    check_start,
    choose_plan,
)
from certeq.optimize.sg._checkpoint import check_writable, exists, resolve
from certeq.optimize.sg._log import Snapshot
from certeq.optimize.sg._panel import PanelObjective
from certeq.optimize.sg._probes import identify
from certeq.optimize.sg._run import Limits, Run
from certeq.optimize.sg._schedules import full_batch
from certeq.optimize.sg._sources import ArraySource, make_source
from certeq.optimize.solution import Solution
from certeq.utilities import Pieces, Utility


def minimize_sg(
    loss: Loss,
    utility: Utility,
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
    r"""Minimise OCE(F(theta, xi)) over a feasible set by stochastic gradients (OCE-SG).

    .. math:: \theta_k = \Pi_\Theta\Big(\theta_{k-1} - \alpha_k \sum_{i=1}^{m_k} q_i \nabla F(\theta_{k-1}, \xi_i)\Big),
              \qquad q_i = \tfrac{1}{m_k} u'(F(\theta_{k-1}, \xi_i) - t^*)

    with t* the shortfall of the batch, solved exactly, so that q sums to 1; for CVaR ties share what is left.

    Parameters
    ----------
    loss, utility, domain
        F, u and the feasible set.
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
    step : float, Schedule or function of k, optional
        A number is a constant step; see `constant`, `inverse`, `inverse_sqrt`.
    batch : int, "full", "growing", Schedule or function of k, optional
        Batch sizes; from the size of a fixed set on, the whole set is used. A single sample is risk neutral.
    average : "last", "mean" or "weighted", optional
        What is returned: theta_n, or the (step-weighted) mean of theta_0 ... theta_{n-1}.
    replace : bool
        Whether a batch drawn from a fixed set may hold a sample twice.
    iterations : int
        At most so many.
    tol : float, optional
        Stop when a logged gap is at most tol * max(1, abs(value)). By default the run goes to its limit.
    time_limit : float, optional
        Seconds that this call may take.
    rng : int, Generator or None
        Seed or generator. The same seed gives the same bits.
    log_every : int, optional
        Value and gap over all samples are computed so often only; by default a hundred times in a run.
    callback : callable, optional
        Called with a `Snapshot` at each logged iteration; returning True stops the run.
    progress : bool, optional
        Progress bar (tqdm); by default on a terminal only.
    checkpoint : path, optional
        File to keep the state in. If it exists and ``resume`` is true, the run continues from it, bit for bit as if
        it had never stopped; the same call is thus the way to start and to restart. Raising ``iterations`` continues
        a finished run. A checkpoint of a different problem is refused; see Notes. The file is replaced as a whole,
        through a draft beside it; a symbolic link is followed, so that what it points to is replaced.
    checkpoint_every : int, optional
        Iterations between checkpoints; by default as ``log_every``.

    Returns
    -------
    Solution
        ``gap`` bounds value - minimum over the samples, at the theta returned. It is None for streams and where OCE
        is not known to be convex, +inf on an unbounded set. For a stream ``value`` is that of the last logged batch,
        which is low by O(1/m) on average, at the iterate the batch was drawn at.

    Notes
    -----
    To tell whether a checkpoint belongs to the problem, data, weights and parameters are compared to the last bit.
    Functions are compared by what they answer, to nine digits: the utility and its slope on a grid; the loss and its
    gradient on at most 128 samples, at theta0 and two points near it; the projection of two points; step and batch at
    some 200 iterations, and the step at those that were logged; a sampler's samples from a generator with a fixed
    seed. An iterator is not read ahead of the run: its first eight samples are compared when it has passed over those
    used. Two functions that differ elsewhere only are not told apart.

    The functions are called twice for this, before the run, and random states, variables and small arrays within
    their reach are put back. One that answers differently the second time (a sampler with a generator of its own), or
    reads an iterator or a file, is known by its name alone; a checkpoint does not hold its state, so that such a run
    does not resume to the same bits.

    Builds with and without the compiled file read each other's checkpoints; the results then agree to rounding.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> from certeq.optimize.domains import Simplex
    >>> from certeq.optimize.losses import LinearLoss
    >>> A = np.random.default_rng(0).normal(size=(500, 3)) * [1.0, 2.0, 3.0]
    >>> found = minimize_sg(LinearLoss(A), ce.CVaR(0.1), domain=Simplex(), batch="full", iterations=2000, rng=0)
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
    place = "" if checkpoint is None else resolve(checkpoint)
    found = checkpoint is not None and resume and exists(place)
    if checkpoint is not None and not found:
        check_writable(place)
    shares = None if weights is None else _weights(weights, loss, samples)
    source = make_source(samples, loss, generator, replace, shares)
    fixed = source.samples if isinstance(source, ArraySource) else None
    objective: Objective | None = None
    if isinstance(fixed, Panel):  # looks at every row, before any constant is taken from them
        objective = PanelObjective(loss, utility, fixed, shares)
    theta = check_start(theta0, loss, fixed, domain)
    plan = choose_plan(loss, utility, domain, source, theta, regime, step, batch, average)
    # The gradient under two pieces is that of the tail's rows, which are at hand where A is kept by rows.
    by_rows = isinstance(utility.shape, Pieces)
    if isinstance(source, ArraySource) and plan.batch == full_batch() and not by_rows:
        fixed = source.samples = loss.lay_out(source.samples)
    if fixed is not None and objective is None:
        objective = Objective(loss, utility, fixed, shares)
    run = Run(loss, utility, domain, source, objective, theta, plan, seed)

    keep = None
    if checkpoint is not None:
        given = None if rng is None else seed
        identity = identify(loss, utility, domain, source, theta, shares, plan, iterations, given)
        if found:
            run.resume(place, identity)
        keep = lambda state: state.save(place, identity)
    # Whoever calls again without the callback that stopped the run wants it to go on.
    stopped = run.status == "stopped by callback" and callback is not None
    finished = run.iteration > 0 and (run.status == "converged" or stopped)
    if not finished and run.iteration < iterations:
        if found:  # a finished run may be read from where nothing can be written
            check_writable(place)
        run.go(limits, callback, progress, keep)
    return run.solution()


def _weights(weights: Any, loss: Loss, samples: Any) -> Floats:
    data = loss.samples if samples is None else samples
    if data is None or callable(data) or hasattr(data, "__next__"):
        raise ValueError("weights belong to a fixed set of samples; a sampler or an iterator cannot have them.")
    data = data if samples is None else loss.check_samples(data)
    if isinstance(data, Panel):
        weights = data.bring_weights(weights)
    return check_weights(weights, count_samples(data))
