"""The paper's two algorithms, written to be read and built on; `certeq.oce` and `certeq.minimize` are the fast ways.

Both follow the printed listings line by line with ``corrected=False``. The corrections are the default; the page on
errata gives a counterexample for each line that they replace. A sample is a loss, and a lower loss is better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from certeq.utilities import Utility

__all__ = ["Iteration", "oce_sb", "oce_sg"]

Array = np.ndarray[Any, np.dtype[np.float64]]


def oce_sb(
    samples: Any, utility: Utility, delta: float = 1e-6, epsilon: float = 1e-6, *, corrected: bool = True
) -> tuple[float, float]:
    r"""Return the OCE of samples and its minimizer t by Algorithm 1, OCE-SB (search and bisect).

    The root of :math:`g(t) = \frac1m \sum_i u'(z_i - t) - 1` is bisected until the bracket has width ``2 * delta`` and
    :math:`|g(t)|` is at most ``epsilon``; the estimate is :math:`s = t + \frac1m \sum_i u(z_i - t)`.

    Parameters
    ----------
    samples : array_like
        Losses, a finite vector.
    utility : Utility
        A utility such as ``CVaR(0.05)``.
    delta, epsilon : float
        Tolerances for t and for g(t). Zero asks for the smallest t with g(t) <= 0 among the floats.
    corrected : bool
        Whether to replace what the paper prints: the sign of the samples in g, the search for a bracket, which doubles
        0, and the stopping rule, which for a jump of g is never met. The corrected rule also stops between two
        neighboring floats.

    Returns
    -------
    s : float
        The estimate. With the correction it exceeds the OCE of the samples by at most the width of the bracket times
        :math:`|g(t)|`.
    t : float
        The approximate minimizer.

    Raises
    ------
    RuntimeError
        If a printed line never ends.

    See Also
    --------
    certeq.oce
        The OCE to rounding, much faster.

    Examples
    --------
    >>> import certeq as ce
    >>> from certeq.reference import oce_sb
    >>> s, t = oce_sb([1.0, 2.0, 3.0, 4.0], ce.CVaR(0.5))
    >>> round(s, 6), round(t, 4)
    (3.5, 2.0)
    """
    z = np.asarray(samples, dtype=float)
    if not np.isfinite(z).all():  # the search would not end
        raise ValueError(f"samples must be finite; found {z[~np.isfinite(z)][0]}.")

    def g(t: float) -> float:
        return float(np.mean(utility.slope((z if corrected else -z) - t))) - 1.0

    if corrected:  # this bracket holds t for every utility; the float below it makes g(low) > 0
        low, high = float(np.nextafter(z.min() - utility.anchor, -np.inf)), float(z.max() - utility.anchor)
    else:
        low, high = (-1.0, 0.0) if g(0.0) > 0.0 else (0.0, 1.0)  # line 1
        while g(high) > 0.0:
            high = _doubled(high, line=2)
        while g(low) < 0.0:
            low = _doubled(low, line=3)
    t = 0.5 * (low + high)  # line 4
    while high - low > 2.0 * delta or abs(g(t)) > epsilon:  # line 5
        if corrected and t in (low, high):  # no float lies between them
            t = high
            break
        low, high = (t, high) if g(t) > 0.0 else (low, t)  # line 6
        t = 0.5 * (low + high)  # line 7
    return t + float(np.mean(utility.value(z - t))), t  # line 8


def _doubled(end: float, line: int) -> float:
    """Return twice the end of a bracket; raise RuntimeError if it is 0."""
    if end == 0.0:
        raise RuntimeError(f"line {line} never ends: 2 * 0 = 0. Use corrected=True.")
    return 2.0 * end


class Iteration(NamedTuple):
    """One iteration of `oce_sg`.

    Attributes
    ----------
    k : int
        Number of the iteration, from 1.
    theta : array of shape (d,)
        The point after the step.
    t : float
        The minimizer t of the batch at the point before the step.
    q : array of shape (m,)
        Worst-case weights of the batch; their sum is 1 with the correction.
    m : int
        Size of the batch.

    See Also
    --------
    oce_sg
        The generator of iterates.

    Examples
    --------
    >>> from certeq.reference import Iteration
    >>> Iteration._fields
    ('k', 'theta', 't', 'q', 'm')
    """

    k: int
    theta: Array
    t: float
    q: Array
    m: int


def oce_sg(
    theta: Any,
    sample: Callable[[int], Any],
    loss: Callable[[Array, Any], Any],
    gradient: Callable[[Array, Any], Any],
    utility: Utility,
    step: Callable[[int], float],
    batch: Callable[[int], int],
    iterations: int,
    project: Callable[[Array], Any] = np.asarray,
    *,
    corrected: bool = True,
) -> Iterator[Iteration]:
    r"""Minimize the OCE of a loss over theta by Algorithm 2, OCE-SG, and yield each iteration.

    Parameters
    ----------
    theta : array_like of shape (d,)
        The first point.
    sample : callable
        ``sample(m)`` returns m samples Z, of any type that the next two functions take.
    loss, gradient : callable
        ``loss(theta, Z)`` returns the m losses; ``gradient(theta, Z)`` their gradients, of shape (m, d).
    utility : Utility
        A utility such as ``CVaR(0.05)``.
    step, batch : callable
        ``step(k)`` is the step size and ``batch(k)`` the batch size of iteration k = 1, 2, ...
    iterations : int
        Number of iterations.
    project : callable
        ``project(theta)`` returns the nearest point of the feasible set; by default every point is feasible.
    corrected : bool
        Whether losses at a kink of the utility share the weight that makes the sum of q equal to 1. As printed, the
        weights of CVaR(alpha) sum to floor(m * alpha)/(m * alpha), which is 0 for small batches.

    Yields
    ------
    Iteration
        (k, theta, t, q, m).

    See Also
    --------
    certeq.minimize
        Exact minimization of linear losses, and OCE-SG with schedules, averaging and checkpoints.

    Examples
    --------
    Minimize the CVaR of (theta - Z)^2:

    >>> import numpy as np, certeq as ce
    >>> from certeq.reference import oce_sg
    >>> rng = np.random.default_rng(0)
    >>> run = oce_sg(
    ...     theta=[3.0],
    ...     sample=lambda m: rng.normal(size=m),
    ...     loss=lambda theta, Z: (theta - Z) ** 2,
    ...     gradient=lambda theta, Z: 2.0 * (theta - Z)[:, None],
    ...     utility=ce.CVaR(0.5),
    ...     step=lambda k: 0.5 / k,
    ...     batch=lambda k: 10 * k,
    ...     iterations=100,
    ... )
    >>> *_, last = run
    >>> bool(abs(last.theta[0]) < 0.1)
    True
    """
    theta = np.asarray(theta, dtype=float)
    for k in range(1, iterations + 1):  # line 1
        m = batch(k)
        Z = sample(m)  # line 2
        x = np.asarray(loss(theta, Z), dtype=float)
        _, t = oce_sb(x, utility, 0.0, 0.0)  # line 3: the smallest t with mean u'(x - t) <= 1
        q = np.asarray(utility.slope(x - t)) / m
        if corrected:  # between the slopes at t and at the float below it, so that the weights sum to 1
            more = np.asarray(utility.slope(x - np.nextafter(t, -np.inf))) / m
            missing, most = 1.0 - q.sum(), more.sum() - q.sum()
            q = q + (more - q) * (missing / most if most > 0.0 else 0.0)
        theta = np.asarray(project(theta - step(k) * (q @ gradient(theta, Z))))  # lines 4 and 5
        yield Iteration(k, theta, t, q, m)
