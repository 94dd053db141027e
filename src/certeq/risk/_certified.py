"""Bounds that hold at every sample size: no asymptotics, no moments, only a known range of the losses.

For any t fixed before a loss is seen, E[t + u(X - t)] is at least OCE. So let t_i come from the losses before i alone,
and bet that the mean of L_i = t_i + u(x_i - t_i) is below m (Waudby-Smith and Ramdas, 2024). If OCE >= m, no bet is
favorable, and by Markov's inequality a wealth of 1/(1 - level) is reached with probability 1 - level at most. The bound
is the least m against which the bets reach that wealth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from certeq._checks import check_number, shown
from certeq._table import is_remote
from certeq.risk._api import columns_of, is_frame, threshold
from certeq.risk._input import Floats, as_array, as_vector, check_level, check_utility, free_to_overflow, not_finite
from certeq.utilities import Risk, Utility

_FIRST = 0.05  # share of the losses that only say where t is
_GROWTH = 1.1  # t is found anew when the past has grown by so much
_ORDERS = 4  # orders of the losses whose wealth is averaged: less luck in one
_MOST = 0.99  # share of the wealth that may be lost in one bet
_SPREAD = 0.025  # of the range: the standard deviation assumed before any loss was seen
_HALVINGS = 44
_SEED = 20260201


@free_to_overflow
def upper_bound(x: ArrayLike, utility: Utility, level: float = 0.95, *, support: tuple[float, float]) -> float:
    r"""A number that OCE of the source of the losses exceeds with probability 1 - level at most, whatever n.

    With :math:`L_i = t_i + u(x_i - t_i)`, :math:`t_i` the threshold of the losses before i, and stakes
    :math:`\lambda_i(m)` that depend on these alone, the bound is the least m with

    .. math:: \prod_i [1 + \lambda_i(m) (m - L_i)] \ge 1/(1 - \mathrm{level}),

    the product averaged over four orders of the losses.

    Parameters
    ----------
    x : array_like
        Losses, one-dimensional: independent draws from one distribution.
    utility : Utility
        The risk measure; increasing, such as CVaR, Entropic or monotone mean-variance.
    level : float
        Probability that the bound holds.
    support : tuple of float
        Bounds of the losses, low and high, that are known for other reasons than these samples: the largest loss seen
        bounds nothing.

    Returns
    -------
    float
        The bound, in the units of the losses; at most OCE of the largest possible loss.

    See Also
    --------
    estimate
        OCE of losses with standard error and confidence interval.
    control
        The last of several decisions whose risk is certified to lie below a limit.

    Notes
    -----
    Not for time series: the losses must be independent. The interval of `estimate` is much narrower, and holds for
    large n and finite moments only.

    References
    ----------
    Waudby-Smith and Ramdas (2024), Estimating means of bounded random variables by betting,
    doi:10.1093/jrsssb/qkad009.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> losses = np.random.default_rng(0).beta(2, 5, size=5000)  # between 0 and 1
    >>> bound = ce.upper_bound(losses, ce.CVaR(0.1), support=(0, 1))
    >>> round(ce.oce(losses, ce.CVaR(0.1)), 3), round(bound, 3)
    (0.6, 0.615)
    """
    level = _check(utility, level)
    low, high = _check_support(support)
    losses = np.asarray(as_vector("x", _in_memory("x", x)), dtype=np.float64)
    _check_inside("x", losses, low, high)
    return _bound(losses, utility, level, low, high)


@dataclass(frozen=True)
class Control:
    """What `control` chose.

    Attributes
    ----------
    candidate : object or None
        The last candidate that passed, None where the first one failed.
    index : int or None
        Its position.
    bounds : tuple of float
        Upper bounds of the risks of those tested, in order; all but the last of them lie below the limit, and the last
        one too where every candidate passed.
    limit, level : float
        As they were asked for.

    See Also
    --------
    control
        The last of several decisions whose risk is certified to lie below a limit.
    upper_bound
        A bound on OCE that holds for every sample size.

    Examples
    --------
    >>> import certeq as ce
    >>> losses, decisions = [[0.0, 1.0]] * 500, ["careful", "bold"]
    >>> found = ce.control(losses, decisions, ce.CVaR(0.1), limit=0.5, support=(0, 1))
    >>> found.candidate, found.index, len(found.bounds)
    ('careful', 0, 2)
    """

    candidate: Any
    index: int | None
    bounds: tuple[float, ...]
    limit: float
    level: float


@free_to_overflow
def control(
    losses: ArrayLike,
    candidates: Iterable[Any],
    utility: Utility,
    limit: float,
    level: float = 0.95,
    *,
    support: tuple[float, float],
) -> Control:
    """The last of several decisions, tested in order, whose risk is certified to lie below a limit.

    It is the largest j with upper_bound(losses under i) <= limit for all i = 1 .. j. The probability that its risk
    exceeds the limit is 1 - level at most, however many candidates there are: testing stops at the first that fails, so
    the first one whose risk is too high would have to pass.

    Parameters
    ----------
    losses : array_like
        Of shape (n, k): column j holds the losses under the j-th candidate. Rows are independent of each other.
    candidates : iterable
        The k decisions in the order in which they are to be tested, fixed before the losses are seen: from the most
        cautious on, for instance the thresholds of a classifier.
    utility : Utility
        The risk measure; increasing.
    limit : float
        The risk that is allowed.
    level : float
        Probability that the promise holds.
    support : tuple of float
        Bounds of the losses, low and high, known beforehand.

    Returns
    -------
    Control
        With ``candidate`` None where not even the first one passes.

    See Also
    --------
    upper_bound
        A bound on OCE that holds for every sample size.
    Control
        What `certeq.control` returns.

    Notes
    -----
    Not for an order chosen by looking at the losses, which voids the promise.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> rng = np.random.default_rng(0)
    >>> scores, harm = rng.uniform(size=4000), rng.uniform(size=4000)
    >>> cuts = [0.1, 0.2, 0.3, 0.4, 0.5]  # act on scores below: more harm at every step
    >>> losses = np.stack([np.where(scores < cut, harm, 0.0) for cut in cuts], axis=1)
    >>> ce.control(losses, cuts, ce.CVaR(0.2), limit=0.75, support=(0, 1)).candidate
    0.3
    """
    level = _check(utility, level)
    limit = check_number("limit", limit, finite=False)
    low, high = _check_support(support)
    candidates = _check_candidates(candidates, losses)
    table = as_array("losses", _in_memory("losses", losses))
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            f"losses must be a matrix, one row per sample and one column per candidate; found shape {table.shape}."
        )
    if len(candidates) != table.shape[1]:
        raise ValueError(
            f"candidates must be as many as losses has columns, {table.shape[1]}; found {len(candidates)}."
        )
    table = np.asarray(table, dtype=np.float64)
    _check_inside("losses", table, low, high)
    bounds: list[float] = []
    for column in table.T:
        bounds.append(_bound(np.ascontiguousarray(column), utility, level, low, high))
        if not bounds[-1] <= limit:
            break
    passed = len(bounds) - (not bounds[-1] <= limit)
    index = passed - 1 if passed else None
    return Control(None if index is None else candidates[index], index, tuple(bounds), limit, level)


def _in_memory(name: str, array: Any) -> Any:
    if is_remote(array):
        raise TypeError(
            f"{name} must be an array in memory; found a Dask collection. Pass {name}.compute() if it fits."
        )
    return array


def _check(utility: Utility, level: Any) -> float:
    if isinstance(utility, Risk) and not isinstance(utility, Utility):
        raise TypeError(
            f"utility must be a Utility such as certeq.CVaR(0.05) for a certified bound; found {utility!r}. The bound "
            "bets on the mean of t + u(x - t) with one t chosen before the loss is seen; no such bet is made here for "
            "a scale s, and a distortion is no mean of a function of one loss."
        )
    check_utility(utility)
    if not utility.is_monotone:
        raise ValueError(
            f"utility must be increasing for a certified bound; found {utility!r}, whose slope falls to "
            f"{utility.slope_range[0]:g}. MonotoneMeanVariance(2) is the increasing relative of MeanVariance."
        )
    return check_level(level)


def _check_candidates(candidates: Any, losses: Any) -> Sequence[Any]:
    """The candidates in the order of testing; labels of the columns of losses must not be in another one."""
    if isinstance(candidates, (dict, set, frozenset)) or not isinstance(candidates, Iterable):
        raise TypeError(
            "candidates must be a list of decisions, in the order in which they are to be tested; found a "
            f"{type(candidates).__name__}."
        )
    listed = list(candidates)
    if is_frame(losses):
        labels = list(losses.columns)
        if labels != listed and sorted(map(str, labels)) == sorted(map(str, listed)):
            raise ValueError(
                "candidates must be in the order of the columns of losses, which are their names; found "
                f"{columns_of(losses)}. Pass losses[candidates] to test them in the order of the candidates."
            )
    return listed


def _check_support(support: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in support)
    except (TypeError, ValueError):
        raise TypeError(f"support must be two numbers (a, b) that bound every loss; found {shown(support)}.") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"support must be finite with a below b; found {shown(support)}.")
    return low, high


def _check_inside(name: str, losses: Floats, low: float, high: float) -> None:
    outside = ~((losses >= low) & (losses <= high))
    if outside.any():
        index = np.unravel_index(int(np.argmax(outside)), losses.shape)
        where = int(index[0]) if losses.ndim == 1 else tuple(int(i) for i in index)
        if np.isnan(losses[index]):
            raise not_finite(float(losses[index]), f"at index {where}", name)
        raise ValueError(
            f"{name} must lie in the support, between {low:g} and {high:g}; found {float(losses[index])!r} at index "
            f"{where}. A loss outside says that the support is wrong: widen it, rather than drop the loss."
        )


def _bound(x: Floats, utility: Utility, level: float, low: float, high: float) -> float:
    """The bound of losses within the support."""
    size = x.size
    sure = utility.oce_of_zero
    least, most = low + sure, high + sure  # OCE of the smallest and of the largest possible loss
    if size < 2:
        return float(most)
    needed = -np.log1p(-level)
    rng = np.random.default_rng(_SEED)
    orders = [x, *(x[rng.permutation(size)] for _ in range(_ORDERS - 1))]
    games = [_game(order, utility, needed, low, high) for order in orders]
    values, worst, bets = (np.stack(column) for column in zip(*games, strict=True))

    def log_wealth(m: float) -> float:
        stake = np.minimum(bets, _MOST / np.maximum(worst - m, 1e-300))
        rounds = np.log1p(stake * (m - values)).sum(axis=1)
        return float(np.logaddexp.reduce(rounds) - np.log(_ORDERS))

    for _ in range(_HALVINGS):  # wealth rises with m
        middle = 0.5 * (least + most)
        if log_wealth(middle) >= needed:
            most = middle
        else:
            least = middle
    return float(most)


def _game(x: Floats, utility: Utility, needed: float, low: float, high: float) -> tuple[Floats, Floats, Floats]:
    """L_i, the most it could have been, and the share of wealth bet on it; the last two from the past alone."""
    size = x.size
    begin = min(size - 1, max(5, int(_FIRST * size)))
    values, worst = np.empty(size - begin), np.empty(size - begin)
    start = begin
    while start < size:
        stop = min(size, max(start + 1, int(start * _GROWTH)))
        t = float(threshold(x[:start], utility))
        if start == begin:
            known = t + np.asarray(utility.value(x[:begin] - t))
        values[start - begin : stop - begin] = t + np.asarray(utility.value(x[start:stop] - t))
        worst[start - begin : stop - begin] = t + float(utility.value(high - t))
        start = stop
    seen = np.arange(begin, size)
    center = float(known.mean())  # sums of squares about it do not cancel
    away, first = values - center, known - center
    totals = first.sum() + np.cumsum(away) - away
    squares = (first * first).sum() + np.cumsum(away * away) - away * away
    spread = np.maximum(squares - totals * totals / seen, 0.0) + (_SPREAD * (worst - low)) ** 2
    return values, worst, np.sqrt(2.0 * needed * (seen + 1.0) / (size * spread))
