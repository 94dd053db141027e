"""When a claim is reproduced, and what its verdict rests on: paired differences, ranks, slopes, resampled days.

There is one rule for each kind of claim, applied here and printed on every report. The kinds are told apart by what was
found, not by what one would like to read: a figure without randomness, a figure of one unknown seed, a direction, a
likeness, a rate. Tests of directions and likenesses are judged together, and so are the rows of a table, so that many
of them do not make one false.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from certeq.data import TRADING_DAYS
from certeq.paper._experiment import Claim, Series, Verdict
from certeq.paper._markets import ReturnsPanel
from certeq.report import METRICS
from certeq.report.metrics import BLOCK, stationary_indices

ROUNDING = 5.0001e-5  # half of the last printed digit
REACH = 2.0  # of the standard error of a slope
MARGIN = 0.02  # accuracy, F1, AUROC: three of 171 patients, two of 90
SHARPE_MARGIN = 0.1
SLOPE = 0.1
SIGNIFICANT = 0.05
TESTED = 7  # experiments with tests: three markets, the solver, two tables of patients, uncertainty
LEVEL = SIGNIFICANT / TESTED
# Runs that rank a row which none of the first is as far out as: seven rows of a table at 1/141 each are below 5 %.
RANKING_RUNS = 140
FIXED, ROW, BETTER, LIKE, RATE, STATEMENT = (
    "A figure without randomness",
    "A row that depends on a seed or a start the paper does not state",
    "Better than",
    "Comparable",
    "A rate",
    "A bound or a statement",
)
RULES = (
    (
        FIXED,
        "Reproduced if ours rounds to every printed digit (maximum Sharpe: to within 1e-4, its solver's tolerance), "
        "otherwise not reproduced.",
    ),
    (
        ROW,
        "Reproduced if our mean over runs, or the run whose seed is known, rounds to the printed digits. Else the "
        "printed row is ranked among our runs by its largest distance from the median of them all, in median absolute "
        "deviations, p = (1 + runs as far out)/(1 + runs). Where none of the first runs of a portfolio or a classifier "
        f"is as far out, {RANKING_RUNS} are made, as fewer cannot tell one row in many from chance. Not reproduced if "
        "p is at most 5 % by Holm's procedure over the rows of the table, and otherwise within noise: the chance of "
        "one false verdict in a table is at most 5 %. Fewer than 19 runs cannot tell, and that is not checked. Half of "
        "the last printed digit is granted for rounding. The row of MVE with OCE is ranked by MACE itself, as its "
        "three figures measure one thing and a long tail above must not excuse a figure below all runs: p = 2 (1 + the "
        "fewer of the runs that are at most and at least as large)/(1 + runs); fewer than 39 runs cannot tell.",
    ),
    (
        BETTER,
        "The difference is taken in pairs (same seed, split, data set or days). Reproduced if it has the claimed sign "
        "and is significant, not reproduced if it has the other sign and is significant (or is 0 by construction), and "
        "otherwise within noise. Where several differences carry one claim, over seeds and over "
        "splits for instance, all must have the sign and the weakest decides; against it speaks the strongest, its p "
        "times their number.",
    ),
    (
        LIKE,
        f"Two one-sided tests with a margin of {MARGIN:g} (Sharpe ratio: {SHARPE_MARGIN:g}). Reproduced if every "
        "difference is significantly above minus the margin (being better is not held against it); not reproduced if "
        "one is significantly below it; otherwise undecided, and that is called within noise.",
    ),
    (
        "Significant",
        f"Holm's procedure over all such claims of the paper in an experiment, at 5 % divided by {TESTED}, the number "
        "of experiments that test anything: the chance of one false verdict among all of them is at most 5 %. Claims "
        "of ours and repeated ones are a family of their own in each experiment, at 5 %. Intervals are shown at 95 % "
        "for reading.",
    ),
    (
        "Arithmetic",
        "Networks are trained in single precision, which rounds differently with and without vector instructions. What "
        "carries a claim of the paper is run both ways; a verdict that differs is within noise, and says so.",
    ),
    (
        RATE,
        f"The slope on logarithmic axes. Where theory gives a limit only: reproduced within {SLOPE:g} of it. Where "
        "theory predicts the slope on the very range that was fitted: within 2 standard errors. Where the theorem is "
        "an upper bound: no shallower than promised by more than 2 standard errors. A constant that theory gives: "
        "within 2 standard errors.",
    ),
    (
        STATEMENT,
        "Reproduced if it holds in every case tried, within the tolerance it names; one counterexample is enough "
        "against it. Corrected if it is false or misprinted as it stands and the corrected one passed its check.",
    ),
    (
        "Not checked",
        "The data were synthetic or not to be had, the run was too short to judge, or the runs too few. Outside the "
        "tally of the others.",
    ),
)
Floats = NDArray[np.float64]
REPLICATES = 500
MEASURES = {metric.key: metric for metric in METRICS}


@dataclass(frozen=True)
class Ranked:
    """A printed row among so many runs: its p, which figures lie outside their range, and what is known before Holm."""

    verdict: Verdict
    p: float
    outside: NDArray[np.bool_]
    runs: int

    @property
    def words(self) -> str:
        """For the reason of a claim."""
        if self.verdict == "not checked":
            return f"{self.runs} runs cannot tell."
        mean = "Our mean rounds to the printed digits; " if self.verdict == "reproduced" else ""
        return f"{mean}p = {self.p:.3f} by rank among {self.runs} runs."


def of_row(printed: Any, values: Any) -> Ranked:
    """A printed row against values of (runs, figures)."""
    target, found = np.asarray(printed, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if len(found) < 2:
        raise ValueError(f"a spread needs at least 2 runs, found {len(found)}.")
    every = np.vstack([target, found])
    away = np.abs(every - np.median(every, axis=0))
    away[0] = np.maximum(away[0] - ROUNDING, 0.0)
    scale = np.median(away, axis=0)
    scale = np.where(scale > 0.0, scale, away.std(axis=0))  # figures that most runs share: accuracy of few patients
    distance = np.where(scale > 0.0, away / np.where(scale > 0.0, scale, 1.0), 0.0).max(axis=1)
    return _ranked(target, found, float(np.mean(distance >= distance[0])), least=1.0)


def needs_more_runs(printed: Any, values: Any) -> bool:
    """Whether no run is as far out as the printed row, and only more of them can tell that from chance.

    The rank among all runs keeps its meaning: that none of the first was as far out can only make it rarer.
    """
    ranked = of_row(printed, values)
    return ranked.verdict == "within noise" and ranked.p * (1 + ranked.runs) < 1.5 and ranked.runs < RANKING_RUNS


def with_more_runs(printed: Any, values: Any, more: Any) -> Floats:
    """The values (runs, figures) that a row is ranked among: the further ones only where they are needed."""
    first = np.asarray(values, dtype=np.float64)
    return first if more is None or not needs_more_runs(printed, first) else np.concatenate([first, more])


def of_first_figure(printed: Any, values: Any) -> Ranked:
    """A printed row against values of (runs, figures) that measure one thing, by the rank of the first figure.

    Distances from the median would let a long tail on one side excuse a figure on the other that no run reaches.
    """
    target, found = np.asarray(printed, dtype=np.float64), np.asarray(values, dtype=np.float64)
    below, above = (found[:, 0] <= target[0] + ROUNDING).sum(), (found[:, 0] >= target[0] - ROUNDING).sum()
    return _ranked(target, found, min(1.0, 2.0 * (1.0 + float(min(below, above))) / (1.0 + len(found))), least=2.0)


def _ranked(target: Floats, found: Floats, p: float, least: float) -> Ranked:
    """With p a multiple of 1/(1 + runs), of which ``least`` is the smallest there can be."""
    outside = (target < found.min(axis=0) - ROUNDING) | (target > found.max(axis=0) + ROUNDING)
    verdict: Verdict = "within noise"
    if np.all(np.abs(found.mean(axis=0) - target) <= ROUNDING):
        verdict = "reproduced"
    elif (len(found) + 1) * SIGNIFICANT < least:
        verdict = "not checked"
    return Ranked(verdict, p, outside, len(found))


def with_rank(claim: Claim, ranked: Ranked) -> Claim:
    """The claim of a row, whose verdict waits for those of the other rows unless it is known."""
    waits = ranked.verdict == "within noise"
    why = f"{ranked.words} {claim.why}".strip()
    return replace(claim, verdict=ranked.verdict, why=why, p=ranked.p if waits else None, favors=False)


def verdict_of(holds: bool) -> Verdict:
    """Of a statement that was seen to hold, or not to."""
    return "reproduced" if holds else "not reproduced"


@dataclass(frozen=True)
class ClaimEvidence:
    """A test of one claim: its p, and whether it speaks for the claim."""

    p: float
    favors: bool


def of_differences(differences: Iterable[tuple[DifferenceInterval, float]]) -> ClaimEvidence:
    """Of differences that carry one claim, each with its claimed sign: 1 for more, -1 for less."""
    every = list(differences)
    against = [d.p for d, sign in every if sign * d.value <= 0.0]
    if not against:
        return ClaimEvidence(max(d.p for d, _ in every), True)
    if all(d.value == 0.0 == d.error for d, _ in every):
        return ClaimEvidence(0.0, False)  # no difference at all, which is known and not estimated
    return ClaimEvidence(min(1.0, len(every) * min(against)), False)


def of_likeness(differences: Iterable[DifferenceInterval], margin: float) -> ClaimEvidence:
    """Of differences none of which may lie below minus the margin."""
    above = [d.p_above(-margin) for d in differences]
    against = min(1.0, len(above) * (1.0 - max(above)))
    return ClaimEvidence(max(above), True) if max(above) <= against else ClaimEvidence(against, False)


def likeness(entries: Mapping[str, DifferenceInterval], margin: float) -> tuple[int, ClaimEvidence, str]:
    """How many lie above minus the margin with 95 % confidence, the evidence on all of them, and the lowest."""
    least = min(entries, key=lambda name: entries[name].floor)
    words = f"lowest: {least} {entries[least]}, 90 % {entries[least].floor:+.4f} to {entries[least].ceiling:+.4f}"
    return sum(part.floor > -margin for part in entries.values()), of_likeness(entries.values(), margin), words


def with_evidence(claim: Claim, evidence: ClaimEvidence) -> Claim:
    """A claim whose verdict waits for those of the other claims."""
    return replace(claim, p=evidence.p, favors=evidence.favors)


def controlled(claims: Iterable[Claim]) -> list[Claim]:
    """Verdicts of the claims that were tested, by Holm's procedure (1979).

    Those of the paper and the others are apart, and of both the rows of tables, which are told from chance by rank.
    """
    every = list(claims)
    families = [
        (whose, rows, LEVEL if whose == ("paper",) and not rows else SIGNIFICANT)
        for whose in (("paper",), ("again", "ours")) for rows in (False, True)
    ]  # fmt: skip
    for whose, rows, level in families:
        chosen = [
            k
            for k, c in enumerate(every)
            if c.p is not None and c.whose in whose and (c.rule == ROW) == rows and c.verdict != "not checked"
        ]
        adjusted, order = 0.0, sorted(chosen, key=lambda k: every[k].p or 0.0)
        for rank, k in enumerate(order):
            claim = every[k]
            adjusted = min(1.0, max(adjusted, (len(order) - rank) * (claim.p or 0.0)))
            sure = adjusted <= level
            verdict: Verdict = verdict_of(claim.favors) if sure else "within noise"
            words = f"p = {claim.p:.2g}, by Holm over {len(order)} {'rows' if rows else 'claims'} {adjusted:.2g}"
            words += f" {'<=' if sure else '>'} {level:.2g}."
            every[k] = replace(claim, verdict=verdict, why=f"{claim.why} {words}".strip())
    return every


def agreed(with_vectors: Sequence[Claim], without: Sequence[Claim]) -> list[Claim]:
    """The claims of two runs of one experiment; where their verdicts differ neither holds."""
    found = []
    for one, two in zip(with_vectors, without, strict=True):
        if one.verdict != two.verdict:
            why = f"It moves: {one.verdict} with vector instructions, {two.verdict} ({two.ours}) without. {one.why}"
            one = replace(one, verdict="within noise", why=why)
        found.append(one)
    return found


def digits(values: Iterable[float]) -> str:
    """Figures as the paper prints them."""
    return " ".join(f"{value:.4f}" for value in values)


def scatter(values: Floats, over: str) -> str:
    """Least and most of values of (runs, figures), and over how many runs they were taken."""
    return f"over {len(values)} {over} from {digits(values.min(axis=0))} to {digits(values.max(axis=0))}"


def unchecked(claim: Claim, why: str) -> Claim:
    """The claim with its figures, without a verdict, and the reason."""
    return replace(claim, verdict="not checked", why=why)


@dataclass(frozen=True)
class DifferenceInterval:
    """A difference with its standard error, of so many degrees of freedom."""

    value: float
    error: float
    freedom: float

    def __str__(self) -> str:
        return f"{self.value:+.4f}"

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval."""
        return self.value - self._reach(0.025)

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval."""
        return self.value + self._reach(0.025)

    @property
    def floor(self) -> float:
        """Lower end of the 90 % interval, that of two one-sided tests."""
        return self.value - self._reach(0.05)

    @property
    def ceiling(self) -> float:
        """Upper end of the 90 % interval."""
        return self.value + self._reach(0.05)

    @property
    def interval(self) -> str:
        """The 95 % one, in words."""
        return f"95 % {self.low:+.4f} to {self.high:+.4f}"

    @property
    def p(self) -> float:
        """Of a difference as large if there were none, two-sided."""
        if self.error == 0.0:
            return 1.0 if self.value == 0.0 else 0.0
        return float(2.0 * student.sf(abs(self.value) / self.error, self.freedom))

    def p_above(self, limit: float) -> float:
        """Of a difference as large if it were the limit, one-sided."""
        if self.error == 0.0:
            return float(self.value <= limit)
        return float(student.sf((self.value - limit) / self.error, self.freedom))

    def _reach(self, tail: float) -> float:
        return self.error * float(student.isf(tail, self.freedom))


@dataclass(frozen=True)
class Paired(DifferenceInterval):
    """The mean of ``count`` paired differences, with their standard deviation."""

    deviation: float
    count: int


def paired(difference: Floats, overlap: float = 0.0) -> Paired:
    """The t-test that paired differences are 0 on average.

    Over random splits the test sets overlap; ``overlap`` = n_test/n_train widens the error accordingly (Nadeau and
    Bengio, 2003, doi:10.1023/A:1024068626366).
    """
    k = len(difference)
    if k < 2:
        raise ValueError(f"a paired test needs at least 2 differences, found {k}.")
    deviation = float(np.std(difference, ddof=1))
    return Paired(float(np.mean(difference)), deviation * math.sqrt(1.0 / k + overlap), k - 1, deviation, k)


class HeldOut:
    """Portfolios of one panel on its held-out days, all resampled alike, so that any two can be compared in pairs.

    By the stationary bootstrap (Politis and Romano, 1994, doi:10.1080/01621459.1994.10476870).
    """

    def __init__(self, panel: ReturnsPanel, keys: tuple[str, ...]) -> None:
        self._panel, self._keys = panel, keys
        self._days = stationary_indices(len(panel.test), REPLICATES, BLOCK, np.random.default_rng(0))
        self._drawn: dict[bytes, dict[str, tuple[float, Floats]]] = {}

    def less(self, one: Any, two: Any) -> dict[str, DifferenceInterval]:
        """The figures of one portfolio less those of another, by key."""
        mine, theirs = self._figures(one), self._figures(two)
        found = {}
        for key in self._keys:
            error = float(np.std(mine[key][1] - theirs[key][1], ddof=1))
            found[key] = DifferenceInterval(mine[key][0] - theirs[key][0], error, math.inf)
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
