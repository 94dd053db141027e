"""The difference of two risks on the same periods: is A riskier than B?"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from certeq._checks import check_weight_sums
from certeq._table import BLOCK, ArrayTable, is_remote
from certeq.risk._api import oce, threshold, tilt
from certeq.risk._dependence import (
    ErrorBars,
    Memory,
    check_dependence,
    cosine_sums,
    cosines_for,
    error_bars,
    join_lags,
    lags_for,
    lags_of,
    lifetime_of_overlap,
    long_run_variances,
    memory_of,
)
from certeq.risk._estimate import ReliabilityWarning
from certeq.risk._inference import (
    NO_WIDTH,
    ON_ONE_VALUE,
    ON_ONE_VALUE_SHARE,
    assumptions_of,
    check_order,
    lower_threshold,
    memory_warnings,
    much_larger,
    too_few,
)
from certeq.risk._influence import influence_of, solve_for_estimate
from certeq.risk._input import (
    Floats,
    as_array,
    as_weights,
    check_aligned,
    check_risk,
    free_to_overflow,
    not_finite,
    span_of,
)
from certeq.risk._sketch import centered
from certeq.utilities import Risk, Utility
from certeq.utilities.forms import form

_ROUNDING = 1e-13  # of the largest loss: influence values below that are 0


@dataclass(frozen=True)
class Difference:
    """How much riskier x is than y, and what is known of the error; made by `difference`.

    Attributes
    ----------
    value : float
        OCE of x less OCE of y.
    stderr : float
        Standard error of ``value``. Losses of the same period are compared, so what both have in common drops out.
    df : float
        Degrees of freedom of the t quantile; 0 where the samples say nothing of the error.
    n : int
        Number of periods.
    dependence : None, "auto" or int
        How the order of the periods was understood.
    memory : float
        How many periods the series remember, as the interval takes into account; 0 for independent ones.
    assumptions : str
        Which moments the interval needs, where the slope of u is unbounded; else empty.
    warnings : tuple of str
        Reasons, if any, why the interval cannot be trusted.

    See Also
    --------
    difference
        Difference of two risks over the same periods, with its error.
    Estimate
        What `certeq.estimate` returns.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> rng = np.random.default_rng(0)
    >>> market = rng.normal(size=1000)
    >>> fund = 1.1 * market + 0.1 * rng.normal(size=1000)
    >>> found = ce.difference(fund, market, ce.CVaR(0.05))
    >>> round(found.value, 2), [round(end, 2) for end in found.interval()]
    (0.22, [0.19, 0.26])
    >>> found.pvalue < 0.001
    True
    """

    value: float
    stderr: float
    df: float
    n: int
    dependence: int | str | None
    memory: float
    assumptions: str
    warnings: tuple[str, ...]
    _bars: ErrorBars = field(repr=False)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """A confidence interval for the true difference: value -+ t quantile * stderr.

        Parameters
        ----------
        level : float
            Nominal coverage.

        Returns
        -------
        low : float
            Lower end.
        high : float
            Upper end.

        Warns
        -----
        ReliabilityWarning
            Where ``warnings`` is not empty.
        """
        down, up = self._bars.reach(level)
        for reason in self.warnings:
            warnings.warn(reason, ReliabilityWarning, stacklevel=2)
        return self.value - down, self.value + up

    @property
    def pvalue(self) -> float:
        """How often a difference at least this large, of either sign, would come about if the risks were equal.

        1 where the samples say nothing of the error of the difference.

        Warns
        -----
        ReliabilityWarning
            Where ``warnings`` is not empty.
        """
        for reason in self.warnings:
            warnings.warn(reason, ReliabilityWarning, stacklevel=2)
        if self.value == 0.0 or self.df == 0.0:
            return 1.0
        if self.stderr == 0.0:
            return 0.0
        from scipy.special import stdtr

        return float(2.0 * stdtr(self.df, -abs(self.value) / self.stderr))


class _SeriesRisk(NamedTuple):
    """A risk of one series: its value, influence values, and how many losses carry it."""

    value: float
    losses: Floats
    influence: Floats
    ess: float
    is_on_one_value: bool  # most of its tail; the influence values are then those of a lower threshold
    moments: Utility  # one that needs the same of them

    @property
    def is_known(self) -> bool:
        """Whether the losses say anything of its error."""
        return bool(np.abs(self.influence).max() > _ROUNDING * self.largest)

    @property
    def largest(self) -> float:
        """The size of the largest loss."""
        return float(np.abs(self.losses[np.isfinite(self.losses)]).max(initial=0.0))


@free_to_overflow
def difference(
    x: ArrayLike,
    y: ArrayLike,
    utility: Risk,
    other: Risk | None = None,
    *,
    weights: ArrayLike | None = None,
    dependence: int | str | None = None,
) -> Difference:
    r"""OCE of x less OCE of y, losses of the same periods, with standard error, interval and p-value.

    The influence values of a difference are the differences of influence values, period by period:

    .. math:: \psi_i = [t_x + u(x_i - t_x) - \mathrm{OCE}(x)] - [t_y + u(y_i - t_y) - \mathrm{OCE}(y)].

    Parameters
    ----------
    x, y : array_like
        Losses of two decisions, one-dimensional, over the same periods in the same order.
    utility : Risk
        Risk measure: a `Utility`, or another risk such as ``EVaR(0.05)``.
    other : Risk, optional
        Risk measure for y, where that is another; ``difference(x, x, u, v)`` compares two risks of one sample.
    weights : array_like, optional
        Non-negative weights of the periods.
    dependence : None, "auto" or int
        As for `estimate`: None for independent periods, "auto" for a time series, an int for overlapping ones.

    Returns
    -------
    Difference
        The difference with its standard error, interval and p-value.

    See Also
    --------
    estimate
        OCE of losses with standard error and confidence interval.
    Difference
        What `certeq.difference` returns.

    Notes
    -----
    Not for samples that are not paired: of two separate samples the squared standard errors of two estimates add up.
    Both series are held in memory; Dask collections are not taken.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> losses = np.random.default_rng(0).normal(size=500)
    >>> ce.difference(losses, losses, ce.CVaR(0.05), ce.CVaR(0.1)).value > 0
    True
    """
    check_risk(utility)
    other = utility if other is None else check_risk(other)
    first, second = _paired(x, y)
    total = first.size
    dependence = check_dependence(dependence, total)
    reasons = check_order(x, dependence) or check_order(y, dependence)
    w = None
    if weights is not None:
        (w,) = as_weights(weights, first, -1)  # type: ignore[misc]
        check_weight_sums(float(w.min()), float(w.sum()), float(w.max()))
        w = np.asarray(w, dtype=np.float64) / w.sum()
    _check_finite("x", first)
    _check_finite("y", second)
    span = span_of(w, total)
    first, second, w = first[span], second[span], None if w is None else w[span]
    if w is not None:  # a loss that does not count may be any number: one of the others, then
        first, second = (np.where(w > 0, losses, losses[w > 0][0]) for losses in (first, second))
    risks = _risk(first, utility, w), _risk(second, other, w)
    size = span.stop - span.start
    found = _memory(risks, w)
    remembered = 0.0
    if dependence is not None:
        remembered = lifetime_of_overlap(dependence) if isinstance(dependence, int) else found.lifetime

    psi = risks[0].influence - risks[1].influence
    if w is not None:
        psi = psi * (size * w)
    unit = float(np.abs(psi).max())
    if not unit > _ROUNDING * max(risk.largest for risk in risks):
        psi, unit = np.zeros(size), 1.0
    psi = psi / unit
    variance = float(np.mean(psi * psi))
    kurtosis = float(np.mean(psi**4)) / variance**2 if variance > 0.0 else 0.0
    effective = float(size) if w is None else 1.0 / float((w * w).sum())
    ess = min(risk.ess for risk in risks)
    carriers = 1.0 / max(1.0 / ess - 1.0 / effective, 1e-12)
    long_run, cosines = None, 0
    if remembered > 0.0 and size > 1:
        cosines = cosines_for(effective, remembered)
        parts = [cosine_sums(psi[None, part], part.start, size, cosines) for part in _blocks(size)]
        (long_run,) = long_run_variances(np.sum(parts, axis=0), size)
    # The difference of two similar risks is hardly skewed, and the bias of one is that of the other.
    bars = error_bars(size, effective, variance, 0.0, kurtosis, carriers, long_run, cosines)
    bars = ErrorBars(bars.stderr * unit, bars.df, 0.0)
    if variance == 0.0 and all(risk.is_known for risk in risks):  # the same errors in both: the difference has none
        bars = ErrorBars(0.0, max(effective - 1.0, 1.0), 0.0)
    bounded = bool(np.isfinite(max(risk.moments.lipschitz for risk in risks)))
    reasons = [*too_few(size, effective, ess, carriers, bounded), *reasons]
    if any(risk.is_on_one_value for risk in risks):
        reasons.append(ON_ONE_VALUE)
    if size > 1 and not all(risk.is_known for risk in risks):
        reasons.append(NO_WIDTH)
    reasons += memory_warnings(dependence, found, effective)
    return Difference(
        value=risks[0].value - risks[1].value,
        stderr=bars.stderr,
        df=bars.df,
        n=total,
        dependence=dependence,
        memory=remembered,
        assumptions=assumptions_of(risks[0].moments) or assumptions_of(risks[1].moments),
        warnings=tuple(reasons),
        _bars=bars,
    )


def _paired(x: Any, y: Any) -> tuple[Floats, Floats]:
    """Both series as vectors of the same periods."""
    if is_remote(x, y):
        raise TypeError("x and y must be arrays in memory; found a Dask collection. Pass x.compute() and y.compute().")
    arrays = as_array("x", x), as_array("y", y)
    for name, array in zip("xy", arrays, strict=True):
        if array.ndim != 1:
            raise ValueError(f"{name} must be one-dimensional; found shape {array.shape}.")
    if arrays[0].size != arrays[1].size or arrays[0].size == 0:
        raise ValueError(
            f"x and y must be losses of the same periods, at least one; found {arrays[0].size} and {arrays[1].size}."
        )
    check_aligned(x, y, "y")
    return np.asarray(arrays[0], dtype=np.float64), np.asarray(arrays[1], dtype=np.float64)


def _check_finite(name: str, x: Floats) -> None:
    """Refuse a loss that is NaN or infinite, with its name."""
    bad = ~np.isfinite(x)
    if bad.any():
        index = int(np.argmax(bad))
        raise not_finite(float(x[index]), f"at index {index}", name)


def _risk(x: Floats, utility: Risk, w: Floats | None) -> _SeriesRisk:
    if not isinstance(utility, Utility):
        solved = solve_for_estimate(ArrayTable(x, w), utility)
        influence, q = influence_of(solved, _ROUNDING), tilt(x, utility, w)
        psi = influence.unit * influence.values(centered(x, influence.center))
        psi = psi if w is None else np.where(w > 0, psi, 0.0)
        return _SeriesRisk(solved.value, x, psi, 1.0 / float((q * q).sum()), False, influence.utility)
    value, t, q = float(oce(x, utility, w)), float(threshold(x, utility, w)), tilt(x, utility, w)
    share = np.full(x.size, 1.0 / x.size) if w is None else w
    psi = np.where(share > 0, np.asarray(utility.value(x - t)) - (value - t), 0.0)
    ess = 1.0 / float((q * q).sum())
    on_kink = np.zeros(x.size, dtype=bool)
    for kink in form(utility).kinks:
        on_kink |= x - kink.at == t
    is_at_threshold = float(q[on_kink].sum()) > ON_ONE_VALUE_SHARE
    is_largest = bool(utility.kinks) and float(q[x == x.max()].sum()) > ON_ONE_VALUE_SHARE
    if is_at_threshold or (is_largest and np.isfinite(utility.lipschitz)):  # as in an estimate
        least = 1.0 if is_at_threshold else much_larger(float(np.linalg.norm(q - share)))
        order = np.argsort(x)
        order = order[share[order] > 0]
        lower = lower_threshold(x[order], share[order], 1.0 / float((share * share).sum()), utility, t)
        values = np.asarray(utility.value(x - lower))
        larger = np.where(share > 0, values - float(share @ values), 0.0)
        if float(share**2 @ larger**2) > least * float(share**2 @ psi**2):
            return _SeriesRisk(value, x, larger, ess, True, utility)
    return _SeriesRisk(value, x, psi, ess, False, utility)


def _memory(risks: tuple[_SeriesRisk, _SeriesRisk], w: Floats | None) -> Memory:
    """What the difference of influence values, or either series, remembers."""
    size = risks[0].losses.size
    count = lags_for(size)
    if count == 0:
        return Memory()
    series = [risks[0].influence - risks[1].influence]
    for risk in risks:
        away = risk.losses - np.median(risk.losses if w is None else risk.losses[w > 0])
        distance = np.abs(away)
        if w is not None:  # a loss that does not count may be any number
            for row in (away, distance):
                row[w == 0] = float(w[w > 0] @ row[w > 0])
        if np.isfinite(away).all():
            series += [away, distance]
    units = [float(np.abs(row).max()) or 1.0 for row in series]
    parts = [np.stack([row[part] / unit for row, unit in zip(series, units, strict=True)]) for part in _blocks(size)]
    return memory_of(join_lags([lags_of(part, count) for part in parts]))


def _blocks(size: int) -> Iterator[slice]:
    return (slice(start, start + BLOCK) for start in range(0, size, BLOCK))
