"""The paper's finite-sample bounds, corrected where the printed ones are false or loose (see the page on errata)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from certeq._checks import check_number, shown
from certeq.risk._input import as_vector, raise_not_finite_rows

__all__ = [
    "bisect_bound",
    "central_moment",
    "dispersion",
    "dispersion_bound",
    "gradient_mse_bound",
    "mae_bound",
    "mse_bound",
    "mse_bound_lipschitz",
    "samples_needed",
    "wasserstein_bound",
]


def dispersion(x: ArrayLike) -> float:
    r"""J1 = :math:`\int \sqrt{F(1 - F)}` of the empirical distribution of x, which the sharp Lipschitz bounds use.

    Not itself a bound unless J1 of the distribution is known: of a sample it is an estimate, too low for heavy tails.

    Parameters
    ----------
    x : array_like
        Losses, one-dimensional.

    Returns
    -------
    float
        J1 of the sample, in the units of x.

    See Also
    --------
    dispersion_bound
        Bound on J1 by a moment.
    mae_bound
        Bound on the mean absolute error, Lipschitz utilities.

    Examples
    --------
    >>> from certeq.risk import bounds
    >>> bounds.dispersion([0.0, 1.0])
    0.5
    """
    array = as_vector("x", x)
    raise_not_finite_rows(array[None, :])
    ranked = np.sort(np.asarray(array, dtype=np.float64))
    share = np.arange(1, ranked.size) / ranked.size
    return float(np.sum(np.diff(ranked) * np.sqrt(share * (1.0 - share))))


def central_moment(x: ArrayLike, q: float = 5.0) -> float:
    r"""T = :math:`\inf_c \|X - c\|_q` of the empirical distribution of x: the moment that the corrected bounds ask for.

    It does not change when a constant is added to all losses, and neither does the error of an OCE; for q = 2 it is the
    standard deviation.

    Not itself a bound unless T of the distribution is known: of a sample it is an estimate, too low for heavy tails.

    Parameters
    ----------
    x : array_like
        Losses, one-dimensional.
    q : float
        Order of the norm, above 1.

    Returns
    -------
    float
        The moment T, in the units of x.

    See Also
    --------
    dispersion_bound
        Bound on J1 by a moment.
    mse_bound
        Bound on the mean squared error, any utility.

    Examples
    --------
    >>> from certeq.risk import bounds
    >>> bounds.central_moment([99.0, 101.0])
    1.0
    >>> round(bounds.central_moment([1.0, 2.0, 6.0], q=2) ** 2, 9)  # the variance
    4.666666667
    """
    from scipy.optimize import brentq

    if not 1.0 < q < math.inf:
        raise ValueError(f"q must exceed 1 and be finite; found {shown(q)}.")
    array = as_vector("x", x)
    raise_not_finite_rows(array[None, :])
    z = np.asarray(array, dtype=np.float64)
    middle, half = 0.5 * z.min() + 0.5 * z.max(), 0.5 * z.max() - 0.5 * z.min()
    if half == 0.0:
        return 0.0
    y = (z - middle) / half  # between -1 and 1: no power of it overflows

    def residual(c: float) -> float:
        """The derivative in c, up to a factor; it rises, from the least loss to the largest."""
        away = y - c
        return -float(np.mean(np.sign(away) * np.abs(away) ** (q - 1.0)))

    c = brentq(residual, -1.0, 1.0, xtol=1e-14)
    return float(half * np.mean(np.abs(y - c) ** q) ** (1.0 / q))


def dispersion_bound(moment: float, q: float = 3.0) -> float:
    r"""Bound on J1 by a moment: J1 <= sqrt(2) q/(q-2) T for every q > 2.

    T = inf_c of the L_q norm of X - c is what `central_moment` computes. Not when the samples are at hand:
    `dispersion` is several times smaller.

    Parameters
    ----------
    moment : float
        The moment T of order q.
    q : float
        Order of the moment, above 2.

    Returns
    -------
    float
        The bound.

    See Also
    --------
    dispersion
        J1 of a sample.
    central_moment
        Centered moment of a sample.

    Examples
    --------
    >>> from certeq.risk import bounds
    >>> round(bounds.dispersion_bound(1.0, q=3), 3)
    4.243
    """
    _positive(moment=moment)
    if not q > 2:
        raise ValueError(f"q must exceed 2; found {shown(q)}.")
    return math.sqrt(2.0) * q / (q - 2.0) * moment


def mae_bound(
    m: int,
    lipschitz: float,
    moment: float | None = None,
    *,
    q: float = 3.0,
    j1: float | None = None,
) -> float:
    r"""Mean absolute error of OCE_m for a K-Lipschitz utility.

    K J1 / sqrt(m), with J1 from `dispersion` or bounded by the moment T. The paper has the looser 39 K T / sqrt(m).

    Not for utilities that are not Lipschitz (entropic, mean-variance, powers): see `mse_bound`.

    Parameters
    ----------
    m : int
        Number of samples.
    lipschitz : float
        Lipschitz constant K of the utility: 1/alpha for CVaR.
    moment : float, optional
        The moment T of order q; required if ``j1`` is None.
    q : float
        Order of the moment, above 2.
    j1 : float, optional
        What `dispersion` returns; bounded by the moment if None.

    Returns
    -------
    float
        The bound, in the units of the losses.

    See Also
    --------
    mse_bound_lipschitz
        Bound on the mean squared error, Lipschitz utilities.
    mse_bound
        Bound on the mean squared error, any utility.
    dispersion
        J1 of a sample.

    References
    ----------
    Gupte, Prashanth L. A. and Bhat (manuscript), Optimized Certainty Equivalent Risk Minimization Using Samples:
    Algorithms, Convergence Rates, and Applications.

    Examples
    --------
    >>> from certeq.risk import bounds
    >>> round(bounds.mae_bound(10_000, lipschitz=20, j1=3.23), 3)
    0.646
    """
    _positive(m=m, lipschitz=lipschitz)
    return lipschitz * _j1(j1, moment, q) / math.sqrt(m)


def mse_bound_lipschitz(
    m: int,
    lipschitz: float,
    moment: float | None = None,
    *,
    q: float = 3.0,
    j1: float | None = None,
) -> float:
    r"""Mean squared error of OCE_m for a K-Lipschitz utility.

    K^2 J1^2 / m. The paper has 108 K^2 T^2 / sqrt(m), which is of a larger order.

    Not for utilities that are not Lipschitz; as a confidence interval it is loose, and `certeq.estimate` is sharper.

    Parameters
    ----------
    m : int
        Number of samples.
    lipschitz : float
        Lipschitz constant K of the utility: 1/alpha for CVaR.
    moment : float, optional
        The moment T of order q; required if ``j1`` is None.
    q : float
        Order of the moment, above 2.
    j1 : float, optional
        What `dispersion` returns; bounded by the moment if None.

    Returns
    -------
    float
        The bound, in squared units of the losses.

    See Also
    --------
    mae_bound
        Bound on the mean absolute error, Lipschitz utilities.
    mse_bound
        Bound on the mean squared error, any utility.
    dispersion
        J1 of a sample.

    References
    ----------
    Gupte, Prashanth L. A. and Bhat (manuscript), Optimized Certainty Equivalent Risk Minimization Using Samples:
    Algorithms, Convergence Rates, and Applications.

    Examples
    --------
    >>> from certeq.risk import bounds
    >>> bounds.mse_bound_lipschitz(100, lipschitz=2, j1=1.5)
    0.09
    """
    _positive(m=m, lipschitz=lipschitz)
    return lipschitz**2 * _j1(j1, moment, q) ** 2 / m


def mse_bound(
    m: int,
    slope_variance: float,
    moment: float | None = None,
    *,
    value_variance: float,
    q: float = 5.0,
    width: float | None = None,
) -> float:
    r"""Mean squared error of OCE_m for a utility that need not be Lipschitz.

    Var(u(X - t*))/m + (1 + sigma1^2) * 2 sqrt(2) q/(q-4) T^2 / sqrt(m), q > 4, with T = inf_c of the L_q norm of X - c
    (`central_moment`); and for losses in an interval of length ``width``: 2 (Var u(X - t*) + width^2 sigma1^2) / m.
    The paper's bound is false: a rare large loss breaks it.

    Not for Lipschitz utilities, where `mse_bound_lipschitz` falls as 1/m; not a confidence interval, which
    `certeq.estimate` gives.

    Parameters
    ----------
    m : int
        Number of samples.
    slope_variance : float
        The variance sigma1^2 of u'(X - t*).
    moment : float, optional
        The moment T of order q; not needed with ``width``.
    value_variance : float
        The variance of u(X - t*).
    q : float
        Order of the moment, above 4.
    width : float, optional
        Length of an interval that holds all losses.

    Returns
    -------
    float
        The bound, in squared units of the losses.

    See Also
    --------
    mse_bound_lipschitz
        Bound on the mean squared error, Lipschitz utilities.
    central_moment
        Centered moment of a sample.
    certeq.estimate
        OCE of losses with standard error and confidence interval.

    Notes
    -----
    Why T may be centered: with F_m the empirical distribution function and any c,

    .. math:: W_2^2 \le 4 \int |x - c|\,|F_m(x) - F(x)|\,dx, \qquad
              \mathbb{E}|F_m - F| \le \sqrt{F(1 - F)/m}

    (the first is the well-known inequality for c = 0, applied to the losses less c, which are as far apart as the
    losses). By Markov's inequality, and as :math:`\sqrt a + \sqrt b \le \sqrt{2(a + b)}`, the two tails together have
    :math:`\sqrt{F(1 - F)}(c + s) + \sqrt{F(1 - F)}(c - s) \le \sqrt2 \min(1, (T_c/s)^{q/2})` with
    :math:`T_c = \|X - c\|_q`, and
    :math:`\int_0^\infty s \min(1, (T_c/s)^{q/2})\,ds = T_c^2 \left(\frac12 + \frac{2}{q - 4}\right) =
    \frac{q}{2(q - 4)} T_c^2`. Hence E W2^2 is at most :math:`2\sqrt2\,\frac{q}{q-4}\,T_c^2/\sqrt m` for every c. The
    rest of the bound does not feel c either: OCE and t* move with the losses, so u(X - t*) and u'(X - t*) stay.

    The form with ``width``: :math:`G_m(t) = t + \frac1m \sum u(X_i - t)` is convex and minimal at t_m, so that
    :math:`A - |t_m - t^*|\,|B| \le \mathrm{OCE}_m - \mathrm{OCE} \le A` with :math:`A = G_m(t^*) - G(t^*)` and
    :math:`B = G_m'(t^*)`. Both thresholds lie in an interval of length ``width``, the means of A and B are 0 and their
    variances Var(u(X - t*))/m and sigma1^2/m, and :math:`(a + b)^2 \le 2 a^2 + 2 b^2`.

    References
    ----------
    Gupte, Prashanth L. A. and Bhat (manuscript), Optimized Certainty Equivalent Risk Minimization Using Samples:
    Algorithms, Convergence Rates, and Applications.

    Examples
    --------
    >>> from certeq.risk import bounds
    >>> bounds.mse_bound(1000, slope_variance=1.0, value_variance=2.0, width=3.0)
    0.022
    """
    _positive(m=m)
    if width is not None:
        return 2.0 * (value_variance + width**2 * slope_variance) / m
    if not q > 4:
        raise ValueError(f"q must exceed 4; found {shown(q)}.")
    if moment is None:
        raise TypeError("moment or width is required.")
    wasserstein = 2.0 * math.sqrt(2.0) * q / (q - 4.0) * moment**2 / math.sqrt(m)
    return value_variance / m + (1.0 + slope_variance) * wasserstein


def wasserstein_bound(w2: float, slope_variance_x: float, slope_variance_y: float) -> float:
    r"""|OCE(X) - OCE(Y)| in terms of the 2-Wasserstein distance of their distributions.

    W2 sqrt(sigma1^2 + 1), with sigma1^2 the larger of the variances of u'(X - t*) and u'(Y - t*). The paper takes the
    variance of X alone, which is not enough (X = 0, Y = +-s).

    Parameters
    ----------
    w2 : float
        The 2-Wasserstein distance of the two distributions.
    slope_variance_x : float
        The variance of u'(X - t*).
    slope_variance_y : float
        The variance of u'(Y - t*), with the threshold of Y.

    Returns
    -------
    float
        The bound, in the units of the losses.

    See Also
    --------
    mse_bound
        Bound on the mean squared error, any utility.

    References
    ----------
    Gupte, Prashanth L. A. and Bhat (manuscript), Optimized Certainty Equivalent Risk Minimization Using Samples:
    Algorithms, Convergence Rates, and Applications.

    Examples
    --------
    >>> from certeq.risk import bounds
    >>> round(bounds.wasserstein_bound(3.0, 0.0, 9.0), 4)
    9.4868
    """
    return w2 * math.sqrt(max(slope_variance_x, slope_variance_y) + 1.0)


def gradient_mse_bound(m: int, gradient_bound: float, slope_variance: float, gradient_deviation: float) -> float:
    r"""Mean squared error of the gradient estimate from m samples.

    2 (M^2 sigma1^2 + T^2)/m. The paper has M in place of M^2, which is too small if M > 1.

    Not for gradients without a bound: M is the largest norm of a sample's gradient, sigma1^2 the variance of u'(X - t*)
    and T the root of the mean squared distance of u' grad F from its mean. Not a confidence interval either,
    but a worst case.

    Parameters
    ----------
    m : int
        Number of samples.
    gradient_bound : float
        The largest norm M of a sample's gradient.
    slope_variance : float
        The variance sigma1^2 of u'(X - t*).
    gradient_deviation : float
        The root T of the mean squared distance of u' grad F from its mean.

    Returns
    -------
    float
        The bound.

    See Also
    --------
    mse_bound
        Bound on the mean squared error, any utility.

    References
    ----------
    Gupte, Prashanth L. A. and Bhat (manuscript), Optimized Certainty Equivalent Risk Minimization Using Samples:
    Algorithms, Convergence Rates, and Applications.

    Examples
    --------
    >>> from certeq.risk import bounds
    >>> round(bounds.gradient_mse_bound(50, 100.0, 1 / 3, 0.0), 2)
    133.33
    """
    _positive(m=m)
    return 2.0 * (gradient_bound**2 * slope_variance + gradient_deviation**2) / m


def bisect_bound(delta: float, epsilon: float, *, squared: bool = False) -> float:
    r"""How far OCE-SB's answer is above OCE_m: at most delta * |g(t)|, for every convex utility.

    OCE-SB is `certeq.reference.oce_sb`. Not needed for `certeq.oce`, which is exact.

    Parameters
    ----------
    delta : float
        Half the width of the final bracket, as in `certeq.reference.oce_sb`.
    epsilon : float
        The residual |g| there.
    squared : bool
        Whether to return the term 2 delta^2 epsilon^2 that adds to the mean squared error.

    Returns
    -------
    float
        The bound, in the units of the losses, or squared units.

    See Also
    --------
    certeq.oce
        OCE of losses, without its error.
    mse_bound
        Bound on the mean squared error, any utility.

    References
    ----------
    Gupte, Prashanth L. A. and Bhat (manuscript), Optimized Certainty Equivalent Risk Minimization Using Samples:
    Algorithms, Convergence Rates, and Applications.

    Examples
    --------
    >>> from certeq.risk import bounds
    >>> bounds.bisect_bound(1e-3, 1e-3)
    1e-06
    """
    product = delta * abs(epsilon)
    return 2.0 * product**2 if squared else product


def samples_needed(bound: Callable[[int], float], accuracy: float) -> int:
    """The least number of samples m with ``bound(m) <= accuracy``.

    Parameters
    ----------
    bound : callable
        A decreasing function of m, such as ``lambda m: mae_bound(m, lipschitz=20, j1=0.02)``.
    accuracy : float
        What it is to come down to.

    Returns
    -------
    int
        The number of samples.

    See Also
    --------
    mae_bound
        Bound on the mean absolute error, Lipschitz utilities.
    mse_bound
        Bound on the mean squared error, any utility.
    certeq.estimate
        OCE of losses with standard error and confidence interval.

    Notes
    -----
    Not a forecast but a guarantee: `certeq.Estimate.samples_for` says how many would do in all likelihood.

    Examples
    --------
    >>> from certeq.risk import bounds
    >>> bounds.samples_needed(lambda m: bounds.mae_bound(m, lipschitz=20, j1=0.05), 0.01)
    10000
    """
    _positive(accuracy=accuracy)
    high = 1
    while not bound(high) <= accuracy:
        if math.isnan(bound(high)):
            raise ValueError(f"bound must return a number; found NaN for m = {high}.")
        high *= 2
        if high > 1 << 200:
            raise ValueError("bound does not fall to the accuracy asked for, however many samples.")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bound(middle) <= accuracy else (middle, high)
    return high


def _j1(j1: float | None, moment: float | None, q: float) -> float:
    if j1 is not None:
        return j1
    if moment is None:
        raise TypeError("Either j1 (see dispersion) or moment is needed.")
    return dispersion_bound(moment, q)


def _positive(**numbers: float) -> None:
    for name, number in numbers.items():
        check_number(name, number, above=0.0, finite=False)
