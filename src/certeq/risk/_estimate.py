"""An estimate with its error bars: how far can OCE of these samples be from OCE of their source?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from certeq._checks import check_choice, check_count, check_number
from certeq._table import ArrayTable, Sums, Table, as_sample, is_remote
from certeq.risk._api import columns_of, is_frame, is_series, oce, tilt
from certeq.risk._inference import densities_at, reliability
from certeq.risk._input import (
    Floats,
    as_array,
    as_weights,
    check_aligned,
    check_answer,
    check_not_empty,
    check_utility,
    free_to_overflow,
)
from certeq.risk._long import LongSolved, NotFinite, raise_not_finite, solve_table, survey
from certeq.risk._rows import slope_and_curvature
from certeq.risk._sketch import centered, shifted, weighted_sum
from certeq.utilities import Exponential, Utility
from certeq.utilities.forms import form


class ReliabilityWarning(UserWarning):
    """An interval was asked for that the sample cannot support.

    Not to be silenced and forgotten: the interval is the one that was asked for, and is not to be believed.

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


@dataclass(frozen=True)
class Estimate:
    """OCE of a sample, and what is known of its error.

    Attributes
    ----------
    value : float
        OCE of the sample.
    threshold : float
        t*, the minimizer.
    stderr : float
        Standard error of ``value`` by the central limit theorem: the standard deviation of u(X - t*) over sqrt(n).
    bias : float
        Estimate of E[value] - OCE, which is never positive; capped at half a standard error, beyond which its own
        noise is larger than what it corrects.
    ess : float
        Effective sample size of the tilt, 1 / sum q_i**2: how many samples carry the risk.
    n : int
        Number of samples.
    utility : Utility
        What risk meant.
    warnings : tuple of str
        Reasons, if any, why the error bars cannot be trusted.

    Notes
    -----
    Not for dependent samples, such as overlapping windows: the error bars then come out too narrow.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> found = ce.estimate(np.arange(1000.0), ce.CVaR(alpha=0.1))
    >>> found.value, found.threshold, round(float(found.tilt.sum()), 12), found.warnings
    (949.5, 899.0, 1.0, ())
    >>> low, high = found.interval(0.95)
    >>> bool(low < found.value < high)
    True
    """

    value: float
    threshold: float
    stderr: float
    bias: float
    ess: float
    n: int
    utility: Utility
    warnings: tuple[str, ...]
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
        self, level: float = 0.95, method: str = "normal", *, replicates: int = 999, rng: Any = None
    ) -> tuple[float, float]:
        """A confidence interval for the true OCE.

        Parameters
        ----------
        level : float
            Nominal coverage.
        method : {"normal", "bootstrap"}
            value -+ z * stderr, or the basic bootstrap, which needs no formula for the variance and centers on the
            bias-corrected value. Neither mends a small tail: with fewer than about 15 losses beyond the quantile both
            cover less than they say, the bootstrap least.
        replicates : int
            Bootstrap samples.
        rng : None, int or numpy.random.Generator
            Seed of the bootstrap.

        Warns
        -----
        ReliabilityWarning
            Where ``warnings`` is not empty.
        """
        reach = self.interval_reach(level)
        for reason in self.warnings:
            warnings.warn(reason, ReliabilityWarning, stacklevel=2)
        if method == "normal":
            return self.value - reach, self.value + reach
        check_choice("method", method, ("normal", "bootstrap"))
        check_count("replicates", replicates, least=2)
        if is_remote(self._x, self._weights):
            raise TypeError(
                'method "bootstrap" resamples the losses in memory; these live elsewhere. Use method="normal", or '
                "estimate from x.compute() where that fits."
            )
        values = self._bootstrap(replicates, np.random.default_rng(rng))
        low, high = np.quantile(values, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
        return float(2.0 * self.value - high), float(2.0 * self.value - low)

    def _bootstrap(self, replicates: int, rng: np.random.Generator) -> Floats:
        z = np.asarray(self._x, dtype=np.float64)
        w = None if self._weights is None else np.asarray(self._weights, dtype=np.float64)
        batch = max(1, (1 << 20) // self.n)
        values: list[Floats] = []
        for start in range(0, replicates, batch):
            places = rng.integers(0, self.n, size=(min(batch, replicates - start), self.n))
            picked = None
            if w is not None:  # a draw without any weight says nothing; take the sample itself
                picked = np.where(w[places].sum(axis=1, keepdims=True) > 0, w[places], w)
            values.append(np.atleast_1d(oce(z[places], self.utility, picked, axis=-1)))
        return np.concatenate(values)

    def samples_for(self, halfwidth: float, level: float = 0.95) -> int:
        """How many samples like these would bring the normal interval down to +- ``halfwidth``."""
        check_number("halfwidth", halfwidth, above=0.0, finite=False)
        return max(1, int(np.ceil(self.n * (self.interval_reach(level) / halfwidth) ** 2)))

    def interval_reach(self, level: float) -> float:
        """Half the width of the normal interval, without its warnings."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must lie strictly between 0 and 1 (0.95 for 95 %); found {level!r}.")
        from scipy.special import ndtri

        return float(ndtri(0.5 + 0.5 * level)) * self.stderr

    def __repr__(self) -> str:
        reach = self.interval_reach(0.95)
        head = (
            f"Estimate({self.value:.6g} +- {reach:.2g} (95 %), threshold={self.threshold:.6g}, bias={self.bias:.2g}, "
        )
        tail = f"ess={self.ess:.4g} of n={self.n}, utility={self.utility!r}"
        return head + tail + (f", warnings={list(self.warnings)!r})" if self.warnings else ")")


@free_to_overflow
def estimate(x: ArrayLike, utility: Utility, weights: ArrayLike | None = None) -> Estimate:
    r"""OCE of a sample with its threshold, tilt, standard error, bias and intervals.

    .. math:: \mathrm{OCE}_n \pm z\, \mathrm{sd}(u(X - t^*))/\sqrt{n}, \qquad
              \mathrm{bias} \approx -\mathrm{Var}(u')/(2 n\, \mathrm{E}\, u'')

    Parameters
    ----------
    x : array_like
        Losses, one-dimensional; a memory-mapped array is read in blocks, a Dask array or column where its chunks live.
    utility : Utility
        What risk means.
    weights : array_like, optional
        Non-negative weights, one per loss, understood as importance weights: the standard error is that of a weighted
        mean, sqrt(sum w_i**2 (u_i - mean u)**2). Weights that count repetitions should be repeated instead.

    Returns
    -------
    Estimate

    Notes
    -----
    The standard error assumes independent samples and a finite variance of u(X - t*); ``warnings`` says where the
    sample speaks against the second.

    Not for dependent samples, such as overlapping windows: nothing here can see dependence.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> losses = np.random.default_rng(0).normal(size=2000)
    >>> result = ce.estimate(losses, ce.CVaR(0.05))
    >>> low, high = result.interval(0.95)
    >>> low < 2.0627 < high  # the true CVaR of a standard normal
    True
    """
    check_utility(utility)
    sample, losses, held = _as_sample(x, weights)
    takes_low = isinstance(utility.shape, Exponential)
    solved = solve_table(sample, utility)
    if not np.isfinite(solved.summary.low):  # a closed form may not have needed the range
        try:
            solved.summary = survey(sample, allow_low=takes_low)[0]
        except NotFinite:
            raise_not_finite(sample, takes_low)
            raise
    facts = _moments(solved, utility)
    check_answer("OCE", solved.value, utility)
    check_answer("standard error", facts["stderr"], utility)
    reasons = reliability(sample, solved, utility, facts["ess"])
    return Estimate(
        solved.value,
        solved.threshold,
        facts["stderr"],
        facts["bias"],
        facts["ess"],
        len(sample),
        utility,
        reasons,
        losses,
        held,
    )


def _as_sample(x: Any, weights: Any) -> tuple[Table, Any, Any]:
    """The losses as a sample, and as what a tilt or a bootstrap starts from later."""
    if is_frame(x):
        first = repr(x.columns[0]) if len(x.columns) else "..."
        raise ValueError(
            f"x must be one-dimensional; found a DataFrame with the columns {columns_of(x)}. Estimate one column at a "
            f"time, for instance x[{first}]."
        )
    far = as_sample(x, weights, axis=0)
    if far is not None:
        return far, x, weights
    array = as_array("x", x)
    if array.ndim != 1:
        raise ValueError(f"x must be one-dimensional; found shape {array.shape}. Estimate one column at a time.")
    check_not_empty(array[None, :])
    check_aligned(x, weights)
    rows = as_weights(weights, array, -1)
    held = None if rows is None else rows[0]
    return ArrayTable(array, held), x if is_series(x) else array, held


def _moments(solved: LongSolved, utility: Utility) -> dict[str, float]:
    """Standard error, bias and effective sample size, from one more pass at the threshold."""
    level = solved.value - solved.threshold  # the mean of u(X - t*)
    center, s, shape = solved.center, solved.s, form(utility)  # what the kernel takes along wherever it runs

    def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
        w2 = None if w is None else w * w
        mixed = jumps = jumps2 = 0.0
        y = centered(z, center)
        with np.errstate(over="ignore", under="ignore"):
            # Each array is summed up before the next is made: a pass is to need a few MB.
            slope, curvature = slope_and_curvature(shape, y, s)
            bend = weighted_sum(curvature, w)
            del curvature
            if shape.kinks:
                slope, right = shape.slopes(y, s)
                jump = right - slope
                mixed, jumps, jumps2 = weighted_sum(slope * jump, w2), weighted_sum(jump, w), weighted_sum(jump**2, w2)
                del right, jump
            slopes, slopes2 = weighted_sum(slope, w), weighted_sum(slope * slope, w2)
            spread = weighted_sum((slope - 1.0) ** 2, w2)
            del slope
            away = np.asarray(utility.value(y - s)) - level
            return weighted_sum(away * away, w2), spread, slopes2, mixed, jumps2, slopes, jumps, bend

    away, spread, slope2, mixed, jump2, slope, jump, curvature = solved.table.reduce(Sums(kernel))
    mass, square = solved.summary.mass, solved.summary.square
    # With equal weights of 1 these are the usual formulas; ``square`` is 1/n then.
    k = 1.0 / square
    correction = k / (k - 1.0) if k > 1.0 else 1.0
    stderr = float(np.sqrt(away / mass**2 * correction))
    # The tilt is w (left slope + share * jump), with the share that makes it sum to 1.
    share = min(max((mass - slope) / jump, 0.0), 1.0) if jump > 0.0 else 0.0
    ess = mass**2 / (slope2 + 2.0 * share * mixed + share**2 * jump2)
    if not utility.has_curvature:
        curvature = mass * _curvature_by_difference(solved, utility)
    places, jumps = zip(*utility.kinks, strict=True) if utility.kinks else ((), ())
    densities = densities_at(solved.table, [solved.threshold + kink for kink in places])
    bend = curvature / mass + sum(size * density for size, density in zip(jumps, densities, strict=True))
    bias = 0.0
    if spread > 0.0:
        bias = -0.5 * (spread / mass**2) / bend if bend > 0.0 else -np.inf
    bias = max(bias, -0.5 * stderr)
    return {"stderr": stderr, "bias": float(bias) + 0.0, "ess": float(ess)}


def _curvature_by_difference(solved: LongSolved, utility: Utility) -> float:
    """Mean curvature as the drop of the mean slope across a short step in t: good to a few digits."""
    step = 1e-4 * (solved.summary.high - solved.summary.low)
    if step == 0.0:
        return 0.0
    center, s = solved.center, solved.s

    def sums(z: Floats, w: Floats | None) -> tuple[float, ...]:
        x = shifted(z, center, s)
        return tuple(weighted_sum(np.asarray(utility.slope(x + away)), w) for away in (step, -step))

    left, right = solved.table.reduce(Sums(sums))
    return float((left - right) / (2.0 * step)) / solved.summary.mass
