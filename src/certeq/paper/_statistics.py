"""When a claim is reproduced, and what its verdict rests on: paired differences, slopes, resampled held-out days.

There is one rule for each kind of claim, applied here and printed on every report. The kinds are told apart by what was
found, not by what one would like to read: a figure without randomness, a figure of one unknown seed, a direction, a
likeness, a rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from certeq.data import TRADING_DAYS
from certeq.paper._experiment import Claim, Series, Verdict
from certeq.paper._markets import ReturnsPanel
from certeq.report import METRICS
from certeq.report.metrics import BLOCK, stationary_indices

ROUNDING = 5.0001e-5  # half of the last printed digit
REACH = 2.0  # over seeds, and of the standard error of a slope
MARGIN = 0.02  # accuracy, F1, AUROC: three of 171 patients, two of 90
SHARPE_MARGIN = 0.1
SLOPE = 0.1
STRENGTH: tuple[Verdict, ...] = ("not reproduced", "within noise", "reproduced")
RULES = (
    (
        "A figure without randomness",
        "Reproduced if ours rounds to every printed digit (maximum Sharpe: to within 1e-4, its solver's tolerance), "
        "otherwise not reproduced.",
    ),
    (
        "A row that depends on a seed or a start the paper does not state",
        "Reproduced if our mean over seeds, or the seed that is known, rounds to the printed digits; within noise if "
        "|printed - mean over seeds| is at most 2 standard deviations over the seeds for every figure of the row; "
        "otherwise not reproduced. Half of the last printed digit, 5e-5, is granted for rounding.",
    ),
    (
        "Better than",
        "The difference is taken in pairs (same seed, split, data set or days). Reproduced if it has the claimed sign "
        "and its 95 % interval excludes 0; within noise if it has the claimed sign and the interval contains 0; not "
        "reproduced if it has the other sign. Where several differences carry one claim the weakest decides: over "
        "seeds and over splits, or in every metric named.",
    ),
    (
        "Comparable",
        f"Two one-sided tests at 5 % with a margin of {MARGIN:g} (Sharpe ratio: {SHARPE_MARGIN:g}). Reproduced if "
        "every 90 % interval lies above minus the margin (being better is not held against it); not reproduced if "
        "one lies below it as a whole; otherwise undecided, and that is called within noise.",
    ),
    (
        "A rate",
        f"The slope on logarithmic axes. Where theory gives a limit only: reproduced within {SLOPE:g} of it. Where "
        "theory predicts the slope on the very range that was fitted: within 2 standard errors. Where the theorem is "
        "an upper bound: no shallower than promised by more than 2 standard errors. A constant that theory gives: "
        "within 2 standard errors.",
    ),
    (
        "A bound or a statement",
        "Reproduced if it holds in every case tried, within the tolerance it names; one counterexample is enough "
        "against it.",
    ),
    (
        "Not checked",
        "The data were synthetic or not to be had, the run was too short to judge, or the paper's own table has no "
        "figure for it. Outside the tally of the other three.",
    ),
)
Floats = NDArray[np.float64]
REPLICATES = 500
MEASURES = {metric.key: metric for metric in METRICS}


def of_row(printed: Any, values: Any) -> tuple[Verdict, NDArray[np.bool_]]:
    """A printed row against values of (seeds, figures), and which of its figures noise does not explain."""
    target, found = np.asarray(printed, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if len(found) < 2:
        raise ValueError(f"a spread needs at least 2 seeds, found {len(found)}.")
    away = np.abs(found.mean(axis=0) - target)
    beyond = away > REACH * found.std(axis=0, ddof=1) + ROUNDING
    if np.all(away <= ROUNDING):
        return "reproduced", beyond
    return ("not reproduced" if beyond.any() else "within noise"), beyond


def of_difference(mean: float, low: float, high: float, sign: float = 1.0) -> Verdict:
    """A claimed direction (``sign`` 1 for more, -1 for less) against a difference and its 95 % interval."""
    if sign * mean <= 0.0:
        return "not reproduced"
    return "reproduced" if min(sign * low, sign * high) > 0.0 else "within noise"


def verdict_of(holds: bool) -> Verdict:
    """Of a statement that was seen to hold, or not to."""
    return "reproduced" if holds else "not reproduced"


def weakest(verdicts: Iterable[Verdict]) -> Verdict:
    """Of several differences that carry one claim."""
    return min(verdicts, key=STRENGTH.index)


def of_likeness(intervals: Sequence[tuple[float, float]], margin: float) -> Verdict:
    """Comparable or better: 90 % intervals of the differences against minus the margin."""
    if any(high < -margin for _, high in intervals):
        return "not reproduced"
    return "reproduced" if all(low > -margin for low, _ in intervals) else "within noise"


def likeness(entries: Mapping[str, DifferenceInterval], margin: float) -> tuple[int, Verdict, str]:
    """How many of the named differences are surely above minus the margin, the verdict, and which is the lowest."""
    verdict = of_likeness([(part.floor, part.ceiling) for part in entries.values()], margin)
    lowest = min(entries, key=lambda name: entries[name].floor)
    part = entries[lowest]
    words = f"lowest: {lowest} {part}, 90 % {part.floor:+.4f} to {part.ceiling:+.4f}"
    return sum(part.floor > -margin for part in entries.values()), verdict, words


def digits(values: Iterable[float]) -> str:
    """Figures as the paper prints them."""
    return " ".join(f"{value:.4f}" for value in values)


def scatter(values: Floats, over: str) -> str:
    """Standard deviations of values of (runs, figures), and over how many runs they were taken."""
    return f"sd {digits(values.std(axis=0, ddof=1))} over {len(values)} {over}"


def unchecked(claim: Claim, why: str) -> Claim:
    """The claim with its figures, without a verdict, and the reason."""
    return replace(claim, verdict="not checked", why=why)


@dataclass(frozen=True)
class DifferenceInterval:
    """With its 95 % interval, and the 90 % one (``floor`` to ``ceiling``) of two one-sided tests."""

    value: float
    low: float
    high: float
    floor: float
    ceiling: float

    def __str__(self) -> str:
        return f"{self.value:+.4f}"

    @property
    def interval(self) -> str:
        """The 95 % one, in words."""
        return f"95 % {self.low:+.4f} to {self.high:+.4f}"

    def verdict(self, sign: float = 1.0) -> Verdict:
        """On a claimed direction: ``sign`` 1 for more, -1 for less."""
        return of_difference(self.value, self.low, self.high, sign)


@dataclass(frozen=True)
class Paired(DifferenceInterval):
    """The mean of ``count`` paired differences, with their standard deviation; ``p`` is two-sided."""

    deviation: float
    p: float
    count: int


def paired(difference: Floats, overlap: float = 0.0) -> Paired:
    """The t-test that paired differences are 0 on average.

    Over random splits the test sets overlap; ``overlap`` = n_test/n_train widens the error accordingly (Nadeau and
    Bengio, 2003).
    """
    from scipy.stats import t

    k = len(difference)
    if k < 2:
        raise ValueError(f"a paired test needs at least 2 differences, found {k}.")
    mean, deviation = float(np.mean(difference)), float(np.std(difference, ddof=1))
    error = deviation * math.sqrt(1.0 / k + overlap)
    if error == 0.0:
        return Paired(mean, mean, mean, mean, mean, 0.0, 1.0 if mean == 0.0 else 0.0, k)
    wide, narrow = (error * float(t.isf(tail, k - 1)) for tail in (0.025, 0.05))
    p = float(2.0 * t.sf(abs(mean) / error, k - 1))
    return Paired(mean, mean - wide, mean + wide, mean - narrow, mean + narrow, deviation, p, k)


class HeldOut:
    """Portfolios of one panel on its held-out days, all resampled alike, so that any two can be compared in pairs."""

    def __init__(self, panel: ReturnsPanel, keys: tuple[str, ...]) -> None:
        self._panel, self._keys = panel, keys
        self._days = stationary_indices(len(panel.test), REPLICATES, BLOCK, np.random.default_rng(0))
        self._drawn: dict[bytes, dict[str, tuple[float, Floats]]] = {}

    def less(self, one: Any, two: Any) -> dict[str, DifferenceInterval]:
        """The figures of one portfolio less those of another, by key."""
        mine, theirs = self._figures(one), self._figures(two)
        found = {}
        for key in self._keys:
            ends = np.quantile(mine[key][1] - theirs[key][1], [0.025, 0.975, 0.05, 0.95])
            found[key] = DifferenceInterval(mine[key][0] - theirs[key][0], *map(float, ends))
        return found

    def _figures(self, weights: Any) -> dict[str, tuple[float, Floats]]:
        name = np.asarray(weights, dtype=np.float64).tobytes()
        if name not in self._drawn:
            days = self._panel.held_out(weights)
            rows = days[self._days]
            self._drawn[name] = {
                key: (float(MEASURES[key].of(days[None, :], TRADING_DAYS)[0]), MEASURES[key].of(rows, TRADING_DAYS))
                for key in self._keys
            }
        return self._drawn[name]


def wanted_sign(key: str) -> float:
    """1 where more is better, -1 where less is."""
    return 1.0 if MEASURES[key].more_is_better else -1.0


def band(
    label: str, x: Any, mean: Any, reach: Any, kind: Literal["band", "errorbars"] = "band", floor: Any = None
) -> Series:
    """A curve with its mean plus and minus ``reach``; ``floor`` keeps the lower end above 0 on logarithmic axes."""
    low = np.subtract(mean, reach) if floor is None else np.maximum(np.subtract(mean, reach), floor)
    y, high = np.asarray(mean, dtype=np.float64), np.add(mean, reach)
    return Series(label, list(x), y.tolist(), kind, low.tolist(), high.tolist())


def slope(x: Any, y: Any) -> float:
    """Slope of a straight line through the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def jackknife(x: Any, runs: NDArray[np.float64]) -> float:
    """Standard error of the slope of the mean over runs (runs, points): leave out one run at a time."""
    count = len(runs)
    if count < 2:
        raise ValueError(f"a standard error needs at least 2 runs, found {count}.")
    total = runs.sum(axis=0)
    slopes = np.array([slope(x, (total - one) / (count - 1)) for one in runs])
    return float(math.sqrt((count - 1) * slopes.var()))
