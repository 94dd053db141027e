"""An estimate with its confidence interval: how far can OCE of these samples be from OCE of their source?"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from certeq._checks import check_choice, check_count, check_number
from certeq._table import ArrayTable, Block, SumKernel, Table, as_sample, is_remote
from certeq.risk._api import columns_of, is_frame, is_series, oce, tilt
from certeq.risk._dependence import (
    ErrorBars,
    Lags,
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
from certeq.risk._inference import (
    ENOUGH,
    NO_WIDTH,
    ON_ONE_VALUE,
    ON_ONE_VALUE_SHARE,
    ErrorEvidence,
    Order,
    assumptions_of,
    check_order,
    lower_threshold,
    memory_warnings,
    much_larger,
    normal_quantile,
    power_sums,
    reliability,
    standardized,
)
from certeq.risk._influence import RiskInfluence, influence_of, solve_for_estimate, sums_of
from certeq.risk._input import (
    Floats,
    as_vector,
    as_weights,
    check_aligned,
    check_answer,
    check_risk,
    free_to_overflow,
    span_of,
)
from certeq.risk._long import LongSolved, NotFinite, raise_not_finite, solve_table, summarize
from certeq.risk._long_inner import LongRisk
from certeq.risk._rows import slope_and_curvature
from certeq.risk._sketch import centered, shifted, weighted_sum
from certeq.risk._units import blindness_of, depends_on_unit, sharpness_of
from certeq.utilities import Mixture, Risk, Utility
from certeq.utilities.forms import form

_STRETCH = 0.25  # share of the standard error that OCE may change by along a stretch of thresholds
_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)  # of OCE: influence values below that are 0
_FIRST_PART = 1 << 16  # losses of a long sample in which dependence that was not asked for is looked for


class ReliabilityWarning(UserWarning):
    """Too few samples determine an interval or a minimizer, or a run of OCE-SG may have missed the minimum.

    Not to be silenced and forgotten: the answer is the one that was asked for, and is not to be believed.

    See Also
    --------
    estimate
        OCE of losses with standard error and confidence interval.
    Estimate
        What `certeq.estimate` returns.
    UnitWarning
        Warning about a utility that is blind at the scale of the losses.
    Solution
        Its ``warnings`` are what speaks against a point.

    Examples
    --------
    >>> import warnings, numpy as np, certeq as ce
    >>> heavy = np.random.default_rng(0).pareto(1.5, size=500)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = ce.estimate(heavy, ce.Quartic()).interval()
    >>> caught[0].category is ce.ReliabilityWarning
    True
    """


def warn_of_few_samples(losses: Floats, risk: Risk, weights: Floats | None, what: str, stacklevel: int) -> None:
    """Warn that a minimizer, named ``what``, was chosen by too few samples to be good on others.

    The effective sample size 1 / sum(q**2) of the worst-case weights q of its losses is compared with the one that
    `estimate` needs. ``stacklevel`` counts from the caller, as in `warnings.warn`.
    """
    # Minimization makes losses equal, and equal losses share the weight of the tail. Separate them first.
    size = float(np.ptp(losses)) or float(np.abs(losses).max()) or 1.0
    q = tilt(losses + np.linspace(0.0, 1e-9 * size, len(losses)), risk, weights)
    if 1.0 / float(np.square(q).sum()) < (1.0 - 1e-9) * ENOUGH:
        warnings.warn(
            f"{what} depends on too few samples: the effective sample size of its worst-case weights is below "
            f"{ENOUGH:g}. Use more samples, or a milder risk such as a CVaR of a larger tail.",
            ReliabilityWarning,
            stacklevel=stacklevel + 1,
        )


@dataclass(frozen=True)
class Estimate:
    """OCE of a sample, and what is known of its error.

    Attributes
    ----------
    value : float
        OCE of the sample.
    threshold : float
        t*, the minimizer; of a mixture one for each part, of a distortion NaN.
    stderr : float
        Standard error of ``value`` by the central limit theorem: the standard deviation of u(X - t*) over sqrt(n), or
        with ``dependence`` the root of its long-run variance over n.
    bias : float
        Estimate of E[value] - OCE, which is never positive; capped at half a standard error, beyond which its own
        noise is larger than what it corrects.
    ess : float
        Effective sample size of the tilt, 1 / sum q_i**2: how many samples carry the risk.
    n : int
        Number of samples.
    utility : Risk
        The risk measure.
    inner : tuple of float
        All inner variables: the threshold, a ball's scale s after it, those of a mixture part by part.
    dependence : None, "auto" or int
        How the order of the samples was understood.
    memory : float
        How long the series remembers, in periods: the lifetime that the interval takes into account, 0 for independent
        samples. What ``dependence=None`` leaves out of account is in ``warnings``.
    df : float
        Degrees of freedom of the interval's t quantile; 0 where the sample says nothing of its error.
    assumptions : str
        The moments that must be finite for the interval, where the slope of u is unbounded; else empty. No sample can
        show whether they are.
    warnings : tuple of str
        Reasons, if any, why the interval cannot be trusted, or why the utility does not see losses of this size.

    See Also
    --------
    estimate
        OCE of losses with standard error and confidence interval.
    Difference
        What `certeq.difference` returns.
    ReliabilityWarning
        Warning about an interval that the sample cannot support.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> losses = np.random.default_rng(1).normal(size=1000)
    >>> found = ce.estimate(losses, ce.CVaR(alpha=0.1))
    >>> round(found.value, 2), round(found.threshold, 2), found.warnings
    (1.68, 1.14, ())
    >>> round(float(found.tilt.sum()), 12)
    1.0
    >>> low, high = found.interval(0.95)
    >>> bool(low < found.value < high)
    True
    """

    value: float
    threshold: Any
    stderr: float
    bias: float
    ess: float
    n: int
    utility: Risk
    inner: tuple[float, ...]
    dependence: int | str | None
    memory: float
    df: float
    assumptions: str
    warnings: tuple[str, ...]
    _bars: ErrorBars = field(repr=False)
    _x: Any = field(repr=False, compare=False)
    _weights: Any = field(repr=False, compare=False)

    @property
    def debiased(self) -> float:
        """``value`` less the estimated bias."""
        return self.value - self.bias

    @property
    def tilt(self) -> Any:
        """The worst-case weights, one per sample; they sum to 1. A Series for a Series, a Dask array for Dask losses.

        Computed on demand from the losses that were passed in, which are not copied: do not change them in between.
        """
        return tilt(self._x, self.utility, self._weights)

    def interval(
        self, level: float = 0.95, method: str = "student", *, replicates: int = 999, rng: Any = None
    ) -> tuple[float, float]:
        """A confidence interval for the true OCE.

        Parameters
        ----------
        level : float
            Nominal coverage.
        method : {"student", "normal", "bootstrap"}
            "student" starts from the bias-corrected value, takes a t quantile with ``df`` degrees of freedom and
            stretches the side that the influence values are skewed to. "normal" is the textbook's value -+ z * stderr,
            too narrow in small samples. "bootstrap" is the basic bootstrap of independent losses.
        replicates : int
            Bootstrap samples.
        rng : None, int or numpy.random.Generator
            Seed of the bootstrap.

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
        low, high = self._ends(level)
        for reason in self.warnings:
            warnings.warn(reason, ReliabilityWarning, stacklevel=2)
        if method == "student":
            return low, high
        if method == "normal":
            reach = normal_quantile(0.5 + 0.5 * level) * self.stderr
            return self.value - reach, self.value + reach
        check_choice("method", method, ("student", "normal", "bootstrap"))
        check_count("replicates", replicates, least=2)
        if self.memory > 0.0:
            raise ValueError(
                'method "bootstrap" draws losses one by one, as if they were independent; these are not '
                f'(dependence={self.dependence!r}, memory of {self.memory:.3g} periods). Use method="student".'
            )
        if is_remote(self._x, self._weights):
            raise TypeError(
                'method "bootstrap" resamples the losses in memory; these are remote. Use method="student", or '
                "estimate from x.compute() where that fits."
            )
        values = self._bootstrap(replicates, np.random.default_rng(rng))
        low, high = np.quantile(values, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
        return float(2.0 * self.value - high), float(2.0 * self.value - low)

    def _ends(self, level: float) -> tuple[float, float]:
        down, up = self._bars.reach(level)
        return float(self.debiased - down), float(self.debiased + up)

    def _bootstrap(self, replicates: int, rng: np.random.Generator) -> Floats:
        z = np.asarray(self._x, dtype=np.float64)
        w = None if self._weights is None else np.asarray(self._weights, dtype=np.float64)
        batch = max(1, (1 << 20) // self.n)
        values: list[Floats] = []
        for start in range(0, replicates, batch):
            indices = rng.integers(0, self.n, size=(min(batch, replicates - start), self.n))
            picked = None
            if w is not None:  # a draw without any weight says nothing; take the sample itself
                picked = np.where(w[indices].sum(axis=1, keepdims=True) > 0, w[indices], w)
            values.append(np.atleast_1d(oce(z[indices], self.utility, picked, axis=-1)))
        return np.concatenate(values)

    def samples_for(self, halfwidth: float, level: float = 0.95) -> int:
        """How many samples like these would bring the interval down to +- ``halfwidth``.

        Not for samples whose interval has no width, which is refused.

        Parameters
        ----------
        halfwidth : float
            Half the width that the interval should have, above 0.
        level : float
            Nominal coverage.

        Returns
        -------
        int
            The number of samples.
        """
        check_number("halfwidth", halfwidth, above=0.0, finite=False)
        reach = self.interval_reach(level)
        if reach == 0.0:
            raise ValueError(f"samples_for must start from an interval of some width; found none. {NO_WIDTH}")
        return max(1, int(np.ceil(self.n * (reach / halfwidth) ** 2)))

    def interval_reach(self, level: float) -> float:
        """Half the width of the interval, without its warnings.

        Parameters
        ----------
        level : float
            Nominal coverage.

        Returns
        -------
        float
            Half the width.
        """
        low, high = self._ends(level)
        return 0.5 * (high - low)

    def __repr__(self) -> str:
        low, high = self._ends(0.95)
        digits = interval_digits(low, high)
        parts = [
            f"{self.value:.6g}, 95 % interval {low:.{digits}g} to {high:.{digits}g}",
            f"threshold={_short(self.threshold)}",
            f"bias={self.bias:.2g}",
            f"ess={self.ess:.4g} of n={self.n}",
        ]
        if self.dependence is not None:
            parts.append(f"memory={self.memory:.3g} periods (dependence={self.dependence!r})")
        parts.append(f"utility={self.utility!r}")
        if self.assumptions:
            parts.append(f"assumptions={self.assumptions!r}")
        if self.warnings:
            parts.append(f"warnings={list(self.warnings)!r}")
        return f"Estimate({', '.join(parts)})"


def _short(threshold: Any) -> str:
    """One threshold or several in few digits."""
    if np.ndim(threshold) == 0:
        return f"{threshold:.6g}"
    return "(" + ", ".join(f"{one:.6g}" for one in threshold) + ")"


def interval_digits(low: float, high: float) -> int:
    """Significant digits that show an interval's ends to a hundredth of its width."""
    size, width = max(abs(low), abs(high)), high - low
    return 6 if not 0.0 < width < np.inf else int(np.clip(np.ceil(np.log10(size / width)) + 2, 3, 15))


@free_to_overflow
def estimate(
    x: ArrayLike, utility: Risk, weights: ArrayLike | None = None, dependence: int | str | None = None
) -> Estimate:
    r"""OCE of a sample with its threshold, tilt, standard error, bias and intervals.

    With influence values :math:`\psi_i = t^* + u(x_i - t^*) - \mathrm{OCE}_n`, whose long-run variance
    :math:`\Omega` is their variance where losses are independent,

    .. math:: \mathrm{stderr} = \sqrt{\Omega(\psi)/n}, \qquad
              \mathrm{bias} \approx -\Omega(u')/(2 n\, \mathrm{E}\, u'').

    Parameters
    ----------
    x : array_like
        Losses, one-dimensional, in the order of time where that matters; a memory-mapped array is read in blocks, a
        Dask array or column where its chunks live.
    utility : Risk
        Risk measure: a `Utility`, or a risk with more inner variables such as ``EVaR(0.05)``, whose influence
        values are those of its utilities at the best scales.
    weights : array_like, optional
        Non-negative weights, one per loss, understood as importance weights: the standard error is that of a weighted
        mean, sqrt(sum w_i**2 (u_i - mean u)**2). Weights that count repetitions should be repeated instead. With
        ``dependence`` they are weights of the periods, in the order of the losses: periods of weight 0 before the
        first that counts and after the last are as if never seen, those in between are gaps in the series.
    dependence : None, "auto" or int
        None: the losses are independent. "auto": they are a time series; what it remembers, by autocorrelation of the
        losses or of their size (volatility clustering), is found out and reckoned with. An int k, below the number of
        losses: every loss covers k periods and shares k - 1 of them with the next. For a Series whose dates are not
        in order the last two are refused.

    Returns
    -------
    Estimate
        OCE with its standard error, bias, intervals and warnings.

    See Also
    --------
    oce
        OCE of losses, without its error.
    difference
        Difference of two risks over the same periods, with its error.
    upper_bound
        A bound on OCE that holds for every sample size.
    Estimate
        What `certeq.estimate` returns.

    Notes
    -----
    The interval needs a finite variance of u(X - t*): ``assumptions`` says what that means for X. ``warnings`` says
    where the sample speaks against the interval, and where ``dependence=None`` or k is plainly wrong for it (in a long
    sample, for its first 65,536 losses; not looked at for Dask), or the series too short for what it remembers.

    "auto" looks for a memory of up to 250 periods and a tenth of the sample. It costs two more reads of a long sample,
    in order, from memory, a mapped file or the chunks of a Dask array alike. The user guide has a table of how often
    the intervals cover.

    References
    ----------
    Lazarus, Lewis, Stock and Watson (2018), HAR inference: recommendations for practice,
    doi:10.1080/07350015.2018.1506926.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> losses = np.random.default_rng(0).normal(size=2000)
    >>> result = ce.estimate(losses, ce.CVaR(0.05))
    >>> low, high = result.interval(0.95)
    >>> bool(low < 2.0627 < high)  # the true CVaR of a standard normal
    True
    >>> monthly = np.convolve(losses, np.ones(21), "valid")  # sums over 21 days
    >>> series = ce.estimate(monthly, ce.CVaR(0.05), dependence="auto")
    >>> bool(series.stderr > 3 * ce.estimate(monthly, ce.CVaR(0.05)).stderr)
    True
    """
    known = check_risk(utility)
    if not isinstance(known, Utility):
        return _estimate_risk(x, known, weights, dependence)
    utility = known
    sample, losses, given_weights, size = _as_sample(x, weights)
    dependence = check_dependence(dependence, size)
    reasons = [] if is_remote(losses, given_weights) else check_order(x, dependence)
    solved = solve_table(sample, utility)
    if not np.isfinite(solved.summary.low):  # a closed form may not have needed the range
        try:
            solved.summary = summarize(sample)[0]
        except NotFinite:
            raise_not_finite(sample)
            raise
    order = Order(sample, fine=bool(utility.kinks))
    influence = _influence(solved, utility)
    moments = _moments(solved, influence, order)
    if (lower := _lower_influence(solved, influence, moments, order)) is not None:
        influence, moments = lower
        reasons.append(ON_ONE_VALUE)
    found, remembered = Memory(), 0.0
    if dependence == "auto" or not is_remote(losses, given_weights):
        found = _memory(sample if dependence == "auto" else _first_part(sample), influence, order)
    if dependence is not None:
        remembered = lifetime_of_overlap(dependence) if isinstance(dependence, int) else found.lifetime
    bars, bias = _error_bars(solved, influence, moments, remembered)
    check_answer("OCE", solved.value, utility)
    check_answer("standard error", bars.stderr, utility)
    if bars.stderr == 0.0 and size > 1:
        reasons.append(NO_WIDTH)
    evidence = ErrorEvidence(moments.ess, moments.carriers, moments.kurtosis, moments.nearly_flat, moments.effective)
    reasons = [*reliability(order, utility, evidence, utility), *reasons]
    reasons += memory_warnings(dependence, found, moments.effective)
    return Estimate(
        value=solved.value,
        threshold=solved.threshold,
        stderr=bars.stderr,
        bias=bias,
        ess=moments.ess,
        n=size,
        utility=utility,
        inner=(solved.threshold,),
        dependence=dependence,
        memory=remembered,
        df=bars.df,
        assumptions=assumptions_of(utility, utility),
        warnings=(*_unit(solved, utility, order), *reasons),
        _bars=bars,
        _x=losses,
        _weights=given_weights,
    )


def _estimate_risk(x: Any, risk: Risk, weights: Any, dependence: int | str | None) -> Estimate:
    """`estimate` of a risk with more inner variables than the threshold."""
    sample, losses, given_weights, size = _as_sample(x, weights)
    dependence = check_dependence(dependence, size)
    reasons = [] if is_remote(losses, given_weights) else check_order(x, dependence)
    solved = solve_for_estimate(sample, risk)
    order = Order(sample, fine=not risk.is_smooth)
    influence = influence_of(solved, _ROUNDING)
    powers, density_square, bias = sums_of(solved, influence, order)
    effective = 1.0 / solved.summary.square
    variance, skewness, kurtosis = standardized(*powers, len(sample), solved.summary.mass)
    moments = _Moments(
        variance, skewness, kurtosis, 0.0, 0.0, 1.0 / density_square, 0.0, effective, 1.0, nearly_flat=np.inf
    )
    found, remembered = Memory(), 0.0
    if dependence == "auto" or not is_remote(losses, given_weights):
        found = _memory(sample if dependence == "auto" else _first_part(sample), influence, order)
    if dependence is not None:
        remembered = lifetime_of_overlap(dependence) if isinstance(dependence, int) else found.lifetime
    alone = _error_bars(solved, influence, moments, 0.0)[0].stderr
    bars = _error_bars(solved, influence, moments, remembered)[0]
    bias *= (bars.stderr / alone) ** 2 if alone > 0.0 else 1.0  # as long a memory as that of the influence values
    check_answer("risk", solved.value, risk)
    check_answer("standard error", bars.stderr, risk)
    if bars.stderr == 0.0 and size > 1:
        reasons.append(NO_WIDTH)
    evidence = ErrorEvidence(moments.ess, moments.carriers, moments.kurtosis, moments.nearly_flat, moments.effective)
    reasons = [*reliability(order, influence.utility, evidence, risk), *reasons]
    reasons += memory_warnings(dependence, found, moments.effective)
    threshold: Any = np.nan
    if solved.parts:
        thresholds = tuple(float(solved.inner[term.t]) for term in risk.inner().terms)
        threshold = thresholds if len(thresholds) > 1 or isinstance(risk, Mixture) else thresholds[0]
    return Estimate(
        value=solved.value,
        threshold=threshold,
        stderr=bars.stderr,
        bias=float(max(bias, -0.5 * bars.stderr)) + 0.0,
        ess=moments.ess,
        n=size,
        utility=risk,
        inner=tuple(map(float, solved.inner)),
        dependence=dependence,
        memory=remembered,
        df=bars.df,
        assumptions=assumptions_of(influence.utility) if solved.parts else "",
        warnings=tuple(reasons),
        _bars=bars,
        _x=losses,
        _weights=given_weights,
    )


def _unit(solved: LongSolved, utility: Utility, order: Order) -> tuple[str, ...]:
    """Return a warning that the losses are too small or too large for the utility, if they are."""
    if not depends_on_unit(utility):
        return ()
    sample, value = (order.z, order.share, utility), solved.value
    reason = blindness_of(*sample, value) or sharpness_of(*sample, value, solved.summary.high)
    return () if reason is None else (reason.with_scale(),)


class _CountedLosses(ArrayTable):
    """Some of the losses of an array; messages name their position in all of it."""

    def __init__(self, values: Floats, weights: Floats | None, span: slice) -> None:
        super().__init__(values[span], None if weights is None else weights[span])
        self.start = int(span.start)

    def where(self, row: int) -> str:
        """How a caller finds a loss."""
        return super().where(self.start + row)


def _as_sample(x: Any, weights: Any) -> tuple[Table, Any, Any, int]:
    """The losses as a sample, as what a tilt or a bootstrap starts from later, and their number.

    The sample reaches from the first loss to the last that count.
    """
    if is_frame(x):
        first = repr(x.columns[0]) if len(x.columns) else "..."
        raise ValueError(
            f"x must be one-dimensional; found a DataFrame with the columns {columns_of(x)}. Estimate one column at a "
            f"time, for instance x[{first}]."
        )
    remote = as_sample(x, weights, axis=0)
    if remote is not None:
        return remote, x, weights, len(remote)
    array = as_vector("x", x, " Estimate one column at a time.")
    check_aligned(x, weights)
    rows = as_weights(weights, array, -1)
    own_weights = None if rows is None else rows[0]
    sample = _CountedLosses(array, own_weights, span_of(own_weights, array.size))
    if len(sample) < array.size:  # NaN is refused whatever its weight
        raise_not_finite(ArrayTable(array))
    return sample, x if is_series(x) else array, own_weights, array.size


@dataclass(frozen=True)
class _Influence:
    """Influence values of losses, at the threshold of the whole sample; small, as it travels with kernels."""

    utility: Utility
    center: float
    t: float  # the threshold less the center
    level: float  # the mean of u(X - t*)
    unit: float  # of influence values: no power of them overflows; 0 where they are all 0, up to rounding
    width: float  # of the losses, 0 where it is beyond the floats

    def values(self, y: Floats) -> Floats:
        """psi of centered losses, in its unit."""
        if self.unit == 0.0:
            return np.zeros(np.shape(y))
        return np.asarray((np.asarray(self.utility.value(y - self.t)) - self.level) / self.unit)

    def density(self, y: Floats, share: float) -> Floats:
        """The tilt of centered losses over their weights; a loss on a kink counts for a share of its jump."""
        left, right = form(self.utility).slopes(y, self.t)
        return np.asarray(left + share * (right - left))


def _influence(solved: LongSolved, utility: Utility) -> _Influence:
    level, low, high = solved.value - solved.threshold, solved.summary.low, solved.summary.high
    # u is convex: its largest values are at the ends.
    ends = np.asarray(utility.value(np.array([low, high]) - solved.center - solved.s)) - level
    unit = float(np.abs(ends[np.isfinite(ends)]).max(initial=0.0))
    width = high - low if np.isfinite(high - low) else 0.0
    if unit <= _ROUNDING * max(abs(solved.value), abs(solved.threshold)):
        unit = 0.0
    return _Influence(utility, solved.center, solved.s, level, unit, width)


class _Moments(NamedTuple):
    """What one pass at the threshold tells of influence values (in their unit) and slopes."""

    variance: float
    skewness: float
    kurtosis: float
    slope_variance: float
    share: float  # of its jump that a loss on a kink counts for
    ess: float
    on_one_value: float  # share of the tilt that lies on the losses at t*
    effective: float  # number of equally weighted losses that are as good as these
    curvature: float  # E u''
    nearly_flat: float  # how far the mean slope is from 1 on a stretch beside t*, in standard errors; inf without one

    @property
    def carriers(self) -> float:
        """Losses that carry the risk, beyond what equal weights make of it."""
        return 1.0 / max(1.0 / self.ess - 1.0 / self.effective, 1e-12)


def _moments(solved: LongSolved, influence: _Influence, order: Order) -> _Moments:
    """Variance, skewness and kurtosis of psi, and sums of slopes, from one more pass at the threshold."""
    shape, center, t = form(influence.utility), influence.center, influence.t
    values = influence.values  # what the kernel takes along wherever it runs

    def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
        w2 = None if w is None else w * w
        mixed = jumps = jumps2 = jumps_w2 = 0.0
        y = centered(z, center)
        with np.errstate(over="ignore", under="ignore"):
            # Each array is summed up before the next is made: a pass is to need a few MB.
            slope, curvature = slope_and_curvature(shape, y, t)
            curvatures = weighted_sum(curvature, w)
            del curvature
            if shape.kinks:
                slope, right = shape.slopes(y, t)
                jump = right - slope
                mixed, jumps, jumps2 = weighted_sum(slope * jump, w2), weighted_sum(jump, w), weighted_sum(jump**2, w2)
                jumps_w2 = weighted_sum(jump, w2)
                del right, jump
            slopes, slopes2 = weighted_sum(slope, w), weighted_sum(slope * slope, w2)
            spread = weighted_sum((slope - 1.0) ** 2, w2)
            del slope
            return *power_sums(values(y), w), spread, slopes2, mixed, jumps2, jumps_w2, slopes, jumps, curvatures

    sums = solved.table.reduce(SumKernel(kernel))
    square, cube, fourth, spread, slope2, mixed, jump2, jump_w2, slope, jump, curvature = sums
    utility, mass = influence.utility, solved.summary.mass
    size, effective = len(solved.table), 1.0 / solved.summary.square
    # The tilt is w (left slope + share * jump), with the share that makes it sum to 1.
    share = min(max((mass - slope) / jump, 0.0), 1.0) if jump > 0.0 else 0.0
    ess = mass**2 / (slope2 + 2.0 * share * mixed + share**2 * jump2)
    spread += 2.0 * share * (mixed - jump_w2) + share**2 * jump2
    if not utility.has_curvature:
        curvature = mass * _curvature_by_difference(solved, utility)
    nearly_flat = np.inf
    if shape.kinks:
        below, above = slope / mass, (slope + jump) / mass
        error = np.sqrt(max(slope2 / mass**2 - below**2 / effective, 1e-300))
        gaps = np.max([order.gaps_at(solved.threshold + kink.at, tie=jump > 0.0) for kink in shape.kinks], axis=0)
        if jump > 0.0:  # the mean slope jumps here, and hardly changes until the next loss
            stretches, distances = gaps, np.array([above - 1.0, 1.0 - below])
        else:
            stretches, distances = np.full(2, gaps.sum()), curvature / mass * gaps
        # Short stretches, as between rounded losses, do not matter: along them OCE changes by less than its error.
        matters = stretches * error > _STRETCH * np.sqrt(square) / mass * influence.unit
        nearly_flat = np.min(np.where(matters, distances, np.inf)) / error
    for kink in shape.kinks:
        curvature += mass * kink.jump * order.density_at(solved.threshold + kink.at)
    variance, skewness, kurtosis = standardized(square, cube, fourth, size, mass)
    return _Moments(
        variance=variance,
        skewness=skewness,
        kurtosis=kurtosis,
        slope_variance=max(size * spread / mass**2, 0.0),
        share=share,
        ess=float(ess),
        on_one_value=share * jump / mass,
        effective=effective,
        curvature=float(curvature / mass),
        nearly_flat=float(nearly_flat),
    )


def _may_be_on_one_value(order: Order, influence: _Influence) -> bool:
    """Whether most of the tail may lie on one value other than t*, for a utility of bounded slope.

    With kinks it is the largest loss, which a cap makes of many; without them any of few values will do.
    """
    utility, z = influence.utility, order.z
    if not np.isfinite(utility.lipschitz):
        return False
    if not utility.kinks:
        return order.is_discrete
    slope = float(np.asarray(utility.slope(z[-1:] - influence.center - influence.t))[0])
    return slope * float(order.shares[np.searchsorted(z, z[-1]) :].sum()) > ON_ONE_VALUE_SHARE


def _lower_influence(
    solved: LongSolved, influence: _Influence, moments: _Moments, order: Order
) -> tuple[_Influence, _Moments] | None:
    """Influence values at the least threshold that may well be the true one, and their moments; None if not needed.

    Where the tail of a sample is one value, those at t* are constant or nearly so, and would say that the risk is known
    exactly. Where that value is not t* itself, `much_larger` says when they are too small.
    """
    utility, center, mass = influence.utility, influence.center, solved.summary.mass
    is_at_threshold = bool(utility.kinks) and moments.on_one_value > ON_ONE_VALUE_SHARE
    if not is_at_threshold and not (moments.variance > 0.0 and _may_be_on_one_value(order, influence)):
        return None
    least = 1.0 if is_at_threshold else much_larger(float(np.sqrt(moments.slope_variance / len(solved.table))))
    t = lower_threshold(order.z - center, order.shares, order.effective, utility, influence.t)

    def total(z: Floats, w: Floats | None) -> tuple[float, ...]:
        return (weighted_sum(np.asarray(utility.value(shifted(z, center, t))), w),)

    lower = replace(influence, t=t, level=solved.table.reduce(SumKernel(total))[0] / mass, unit=1.0)
    top = float(np.abs(lower.values(np.array([solved.summary.low, solved.summary.high]) - center)).max())
    lower = replace(lower, unit=top)
    kernel = SumKernel(lambda z, w: power_sums(lower.values(centered(z, center)), w))
    square, cube, fourth = solved.table.reduce(kernel)
    variance, skewness, kurtosis = standardized(square, cube, fourth, len(solved.table), mass)
    if not variance * lower.unit**2 > least * moments.variance * influence.unit**2:
        return None
    return lower, moments._replace(variance=variance, skewness=skewness, kurtosis=kurtosis)


@dataclass(frozen=True)
class _Remembered:
    """The kernel for the memory of a series: of influence values, of losses, and of their distance from the median."""

    influence: _Influence | RiskInfluence
    median: float
    typical: tuple[float, float]  # mean of the losses less the median, and of their distance from it
    lags: int
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> Lags:
        series = [self.influence.values(centered(block.rows, self.influence.center))]
        if self.influence.width > 0.0:
            away = (block.rows - self.median) / self.influence.width
            series += [away, np.abs(away)]
        if block.weights is not None:  # a loss that does not count may be any number
            for row, mean in zip(series, (0.0, *self.typical), strict=False):
                row[block.weights == 0] = mean / (self.influence.width or 1.0)
        return lags_of(np.stack(series), self.lags)

    def join(self, parts: Sequence[Lags]) -> Lags:
        return join_lags(parts)


def _memory(sample: Table, influence: _Influence | RiskInfluence, order: Order) -> Memory:
    """What the series remembers."""
    count = lags_for(len(sample))
    if count == 0:
        return Memory()
    return memory_of(sample.reduce(_Remembered(influence, order.median, order.typical, count), every=True))


def _first_part(sample: Table) -> Table:
    """The beginning of a long sample, where dependence would show as well."""
    if len(sample) <= _FIRST_PART:
        return sample
    index = np.arange(_FIRST_PART)
    return ArrayTable(sample.take(index), sample.take_weights(index))


def _error_bars(
    solved: LongSolved | LongRisk, influence: _Influence | RiskInfluence, moments: _Moments, remembered: float
) -> tuple[ErrorBars, float]:
    """Standard error and bias, for a series that remembers its last periods."""
    size = len(solved.table)
    long_run, slope_long_run, cosines = None, moments.slope_variance, 0
    if remembered > 0.0 and size > 1:
        cosines = cosines_for(moments.effective, remembered)
        waves = _CosineSums(influence, moments.share, size, solved.summary.mass, cosines)
        long_run, of_slopes = long_run_variances(solved.table.reduce(waves, every=True), size)
        slope_long_run = max(of_slopes, slope_long_run)
    bars = error_bars(
        size,
        moments.effective,
        moments.variance,
        moments.skewness,
        moments.kurtosis,
        moments.carriers,
        long_run,
        cosines,
    )
    bars = ErrorBars(bars.stderr * influence.unit, bars.df, bars.rate)
    bias = 0.0
    if slope_long_run > 0.0:
        bias = -0.5 * (slope_long_run / size) / moments.curvature if moments.curvature > 0.0 else -np.inf
    return bars, float(max(bias, -0.5 * bars.stderr)) + 0.0


@dataclass(frozen=True)
class _CosineSums:
    """The kernel for the lowest frequencies of influence values, in their unit, and of slopes, times their weights."""

    influence: _Influence | RiskInfluence
    share: float  # of its jump that a loss on a kink counts for
    size: int
    mass: float
    cosines: int
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> Floats:
        y = centered(block.rows, self.influence.center)
        series = np.stack([self.influence.values(y), self.influence.density(y, self.share) - 1.0])
        if block.weights is not None:
            series = np.where(block.weights > 0, series, 0.0) * (block.weights * (self.size / self.mass))
        return cosine_sums(series, block.first, self.size, self.cosines)

    def join(self, parts: Sequence[Floats]) -> Floats:
        return np.asarray(np.sum(parts, axis=0))


def _curvature_by_difference(solved: LongSolved, utility: Utility) -> float:
    """Mean curvature as the drop of the mean slope across a short step in t: good to a few digits."""
    step = 1e-4 * (solved.summary.high - solved.summary.low)
    if step == 0.0:
        return 0.0
    center, s = solved.center, solved.s

    def sums(z: Floats, w: Floats | None) -> tuple[float, ...]:
        x = shifted(z, center, s)
        return tuple(weighted_sum(np.asarray(utility.slope(x + away)), w) for away in (step, -step))

    left, right = solved.table.reduce(SumKernel(sums))
    return float((left - right) / (2.0 * step)) / solved.summary.mass
