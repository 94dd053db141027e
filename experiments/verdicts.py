"""The rules of the verdicts, and their tests: joint ranks of a table, paired differences, slopes.

Each kind of claim has one rule, which the report prints. Claims that are tested as directions are judged together, so
that many tests do not make one of them false.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from certeq.data import TRADING_DAYS
from certeq.report import METRICS
from certeq.report.metrics import BLOCK, stationary_indices
from experiments.common import Claim, Verdict

Floats = NDArray[np.float64]
ROUNDING = 5.0001e-5  # half of the last printed digit
REACH = 2.0  # standard errors of a slope
MARGIN = 0.02  # accuracy, F1, AUROC: three of 171 patients, two of 90
SHARPE_MARGIN = 0.1
SLOPE = 0.1
SIGNIFICANT = 0.05
TESTED = 6  # experiments with tests of directions: two markets, the solver, two tables of patients, uncertainty
LEVEL = SIGNIFICANT / TESTED
DRAWS = 20_000  # of the joint test of a table
REPLICATES = 500
MEASURES = {metric.key: metric for metric in METRICS}
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
        "Reproduced if the figure found here rounds to every printed digit (maximum Sharpe ratio: to within 1e-4, the "
        "tolerance of its solver), otherwise not reproduced.",
    ),
    (
        ROW,
        "Reproduced if the mean over runs, or the run of a known seed, rounds to the printed digits. All rows of a "
        "table share one test. Each printed figure is ranked among the runs from both sides, p = 2 (1 + the fewer of "
        "the runs that are at most and at least as large)/(1 + runs); half of the last printed digit is granted for "
        "rounding. The score of a row is the mean of -ln p over its figures, that of the table the sum over its rows. "
        "If the paper's protocol is the one run here, the printed row and the runs are exchangeable, which gives the "
        "distribution of the scores if rows are independent; for rows that share seeds the joint p is too small. If "
        "the joint p is at most 5%, a row is not reproduced if no run reaches one of its figures and its own p is at "
        "most 5% (if there is no such row, the row with the highest score). Any other row with a figure that no run "
        "reaches is undecided, the rest are within noise. All rows are undecided if no outcome could give a joint p "
        "of 5%. A row for which the paper states no alpha or beta is undecided unless reproduced, and takes no part "
        "in the test.",
    ),
    (
        BETTER,
        "The difference is taken in pairs (equal seed, split, data set or days). Reproduced if it has the claimed sign "
        "and is significant; not reproduced if it has the other sign and is significant, or is 0 by construction; "
        "otherwise undecided. If several differences carry one claim (over seeds and over splits), all must have the "
        "sign and the weakest decides; evidence against the claim is the strongest, its p times their number. Evidence "
        "against a claim on a risk whose alpha or beta the paper does not state leaves it undecided.",
    ),
    (
        LIKE,
        f"Two one-sided tests with a margin of {MARGIN:g} (Sharpe ratio: {SHARPE_MARGIN:g}). Reproduced if every "
        "difference is significantly above minus the margin; not reproduced if one is significantly below it; "
        "otherwise undecided.",
    ),
    (
        "Significant",
        f"Holm's procedure over all such claims of an experiment, at 5% divided by {TESTED}, the number of "
        "experiments with such tests: the chance of one false verdict among all of them is at most 5%. Repeated claims "
        "are a family of their own in each experiment, at 5%. Intervals are shown at 95%.",
    ),
    (
        RATE,
        f"The slope on logarithmic axes. If theory gives a limit: reproduced within {SLOPE:g} of it. If theory "
        "predicts the slope on the fitted range: within 2 standard errors. If the theorem is an upper bound: no "
        "shallower than promised by more than 2 standard errors, and a run without risk aversion on the same problem "
        "must fail the rule; otherwise undecided. A constant of the theory: within 2 standard errors.",
    ),
    (
        STATEMENT,
        "Reproduced if it holds in every case tried, within the tolerance it names; one counterexample is enough "
        "against it. Corrected if it is false or misprinted as it stands and the corrected statement passed its check. "
        "Undecided if the cases tried neither show that it holds nor that it fails.",
    ),
    (
        "Not checked",
        "The data are not public, the run was too short, or there were too few runs.",
    ),
)


@dataclass(frozen=True)
class Ranked:
    """The verdict on a printed row, the p-values of its table and its own, and which figures no run reaches."""

    verdict: Verdict
    p: float
    own: float
    outside: NDArray[np.bool_]
    runs: int
    stated: bool = True

    @property
    def words(self) -> str:
        """Reason of the verdict."""
        if self.verdict == "reproduced":
            return "The mean rounds to the printed digits."
        count = int(self.outside.sum())
        figures = f"{count} of {len(self.outside)} figures reached by none of {self.runs} runs."
        if not self.stated:
            return f"The paper does not state alpha or beta. {figures}"
        return f"{figures} Joint test of the table: p = {self.p:.2g}; of this row: {self.own:.2g}."


def of_table(
    printed_rows: Mapping[str, Any], runs_of_rows: Mapping[str, Any], unstated: Collection[str] = ()
) -> dict[str, Ranked]:
    """Judge the printed rows of a table against values of (runs, figures) for each row, by one joint, two-sided test.

    ``unstated`` names the rows for which the paper states no alpha or beta.
    """
    targets = {row: np.asarray(printed_rows[row], dtype=np.float64) for row in printed_rows}
    found = {row: np.asarray(runs_of_rows[row], dtype=np.float64) for row in printed_rows}
    for row, values in found.items():
        if values.ndim != 2 or len(values) < 2 or values.shape[1] != len(targets[row]):
            raise ValueError(
                f"row {row!r} needs values of at least 2 runs x {len(targets[row])} figures, found {values.shape}."
            )
    scores = {row: _scores(targets[row], found[row]) for row in found}
    tested = [row for row in found if row not in unstated]
    generator, drawn = np.random.default_rng(0), np.zeros(DRAWS)
    for row in tested:
        drawn += generator.choice(scores[row], DRAWS)
    total = sum(scores[row][0] for row in tested)
    p = (1.0 + float(np.sum(drawn >= total - 1e-9))) / (1.0 + DRAWS)
    power = math.prod(1.0 / (1.0 + len(found[row])) for row in tested) <= SIGNIFICANT if tested else False
    outside = {row: _outside(targets[row], found[row]) for row in found}
    own = {row: float(np.mean(scores[row] >= scores[row][0] - 1e-9)) for row in found}
    rejected: set[str] = set()
    if power and p <= SIGNIFICANT:
        rejected = {row for row in tested if outside[row].any() and own[row] <= SIGNIFICANT}
        rejected = rejected or {max(tested, key=lambda row: float(scores[row][0]))}
    judged = {}
    for row in found:
        verdict: Verdict = "within noise"
        if np.all(np.abs(found[row].mean(axis=0) - targets[row]) <= ROUNDING):
            verdict = "reproduced"
        elif row in rejected:
            verdict = "not reproduced"
        elif row in unstated or not power or outside[row].any():
            verdict = "undecided"
        judged[row] = Ranked(verdict, p, own[row], outside[row], len(found[row]), stated=row not in unstated)
    return judged


def _scores(target: Floats, found: Floats) -> Floats:
    """Mean of -ln p over the figures, of the printed row and of each run among all of them."""
    every = np.vstack([target, found])
    below = (every[None, :, :] <= every[:, None, :] + ROUNDING).sum(axis=1)
    above = (every[None, :, :] >= every[:, None, :] - ROUNDING).sum(axis=1)
    p = np.minimum(1.0, 2.0 * np.minimum(below, above) / len(every))
    return np.asarray(-np.log(p).mean(axis=1))


def _outside(target: Floats, found: Floats) -> NDArray[np.bool_]:
    return np.asarray((target < found.min(axis=0) - ROUNDING) | (target > found.max(axis=0) + ROUNDING))


def with_rank(claim: Claim, ranked: Ranked) -> Claim:
    """Return the claim of a row with its verdict and reason."""
    return replace(claim, verdict=ranked.verdict, why=f"{ranked.words} {claim.why}".strip(), rule=claim.rule or ROW)


def verdict_of(holds: bool) -> Verdict:
    """Return the verdict on a statement that was found to hold, or not to."""
    return "reproduced" if holds else "not reproduced"


@dataclass(frozen=True)
class ClaimEvidence:
    """A test of one claim: its p, and whether it speaks for the claim."""

    p: float
    favors: bool


def of_differences(differences: Iterable[tuple[DifferenceInterval, float]]) -> ClaimEvidence:
    """Test differences that carry one claim, each with its claimed sign: 1 for more, -1 for less."""
    every = list(differences)
    against = [d.p for d, sign in every if sign * d.value <= 0.0]
    if not against:
        return ClaimEvidence(max(d.p for d, _ in every), True)
    if all(d.value == 0.0 == d.error for d, _ in every):
        return ClaimEvidence(0.0, False)  # no difference at all, which is known and not estimated
    return ClaimEvidence(min(1.0, len(every) * min(against)), False)


def of_likeness(differences: Iterable[DifferenceInterval], margin: float) -> ClaimEvidence:
    """Test that no difference lies below minus the margin."""
    above = [d.p_above(-margin) for d in differences]
    against = min(1.0, len(above) * (1.0 - max(above)))
    return ClaimEvidence(max(above), True) if max(above) <= against else ClaimEvidence(against, False)


def likeness(entries: Mapping[str, DifferenceInterval], margin: float) -> tuple[int, ClaimEvidence, str]:
    """Count the differences above minus the margin with 95% confidence; test all; describe the lowest in words."""
    least = min(entries, key=lambda name: entries[name].floor)
    words = f"lowest: {least} {entries[least]}, 90% {entries[least].floor:+.4f} to {entries[least].ceiling:+.4f}"
    return sum(part.floor > -margin for part in entries.values()), of_likeness(entries.values(), margin), words


def with_evidence(claim: Claim, evidence: ClaimEvidence) -> Claim:
    """Return the claim with the test that `controlled` will judge."""
    return replace(claim, p=evidence.p, favors=evidence.favors)


def controlled(claims: Iterable[Claim]) -> list[Claim]:
    """Return the claims with verdicts of those that have a p, by Holm's procedure (1979).

    The paper's claims and the repeated ones are separate families.
    """
    every = list(claims)
    for whose, level in (("paper", LEVEL), ("again", SIGNIFICANT)):
        tested = [k for k, c in enumerate(every) if c.p is not None and c.whose == whose and c.verdict != "not checked"]
        order, adjusted = sorted(tested, key=lambda k: every[k].p or 0.0), 0.0
        for rank, k in enumerate(order):
            claim = every[k]
            adjusted = min(1.0, max(adjusted, (len(order) - rank) * (claim.p or 0.0)))
            sure = adjusted <= level
            words = f"p = {claim.p:.2g}, by Holm over {len(order)} claims {adjusted:.2g}"
            words += f" {'<=' if sure else '>'} {level:.2g}."
            verdict: Verdict = verdict_of(claim.favors) if sure else "undecided"
            every[k] = replace(claim, verdict=verdict, why=f"{claim.why} {words}".strip())
    return every


def digits(values: Iterable[float]) -> str:
    """Return figures as the paper prints them."""
    return " ".join(f"{value:.4f}" for value in values)


def scatter(values: Floats, over: str) -> str:
    """Describe the range of values of (runs, figures)."""
    return f"over {len(values)} {over} from {digits(values.min(axis=0))} to {digits(values.max(axis=0))}"


def unchecked(claim: Claim, why: str) -> Claim:
    """Return the claim with its figures, the verdict "not checked" and the reason."""
    return replace(claim, verdict="not checked", why=why)


def undecided_at(claim: Claim, *parameters: str) -> Claim:
    """Return a claim on a risk whose parameters the paper does not state, undecided if a test speaks against it."""
    if claim.verdict != "not reproduced" or not parameters:
        return claim
    why = f"{claim.why} The paper does not state {' and '.join(parameters)}; at another value the claim may hold."
    return replace(claim, verdict="undecided", why=why)


@dataclass(frozen=True)
class DifferenceInterval:
    """A difference, its standard error and the degrees of freedom of that."""

    value: float
    error: float
    freedom: float

    def __str__(self) -> str:
        return f"{self.value:+.4f}"

    @property
    def low(self) -> float:
        """Lower end of the 95% interval."""
        return self.value - self._reach(0.025)

    @property
    def high(self) -> float:
        """Upper end of the 95% interval."""
        return self.value + self._reach(0.025)

    @property
    def floor(self) -> float:
        """Lower end of the 90% interval, which two one-sided tests use."""
        return self.value - self._reach(0.05)

    @property
    def ceiling(self) -> float:
        """Upper end of the 90% interval."""
        return self.value + self._reach(0.05)

    @property
    def interval(self) -> str:
        """The 95% interval in words."""
        return f"95% {self.low:+.4f} to {self.high:+.4f}"

    @property
    def p(self) -> float:
        """Two-sided p-value of no difference."""
        if self.error == 0.0:
            return 1.0 if self.value == 0.0 else 0.0
        return float(2.0 * student.sf(abs(self.value) / self.error, self.freedom))

    def p_above(self, limit: float) -> float:
        """Return the one-sided p-value of a difference of at most ``limit``."""
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
    """Test that paired differences are 0 on average, by Student's t.

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

    The stationary bootstrap (Politis and Romano, 1994, doi:10.1080/01621459.1994.10476870). ``panel`` has the held-out
    returns as ``test``, and those of a portfolio as ``held_out(weights)``.
    """

    def __init__(self, panel: Any, keys: tuple[str, ...]) -> None:
        self._panel, self._keys = panel, keys
        self._days = stationary_indices(len(panel.test), REPLICATES, BLOCK, np.random.default_rng(0))
        self._drawn: dict[bytes, dict[str, tuple[float, Floats]]] = {}

    def less(self, one: Any, two: Any) -> dict[str, DifferenceInterval]:
        """Return the figures of one portfolio minus those of another, by key."""
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
    """Return 1 if more is better, -1 if less is."""
    return 1.0 if MEASURES[key].more_is_better else -1.0


def slope(x: Any, y: Any) -> float:
    """Return the slope of a straight line through the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def jackknife(x: Any, runs: NDArray[np.float64]) -> float:
    """Return the standard error of the slope of the mean over runs (runs, points), leaving out one run at a time."""
    count = len(runs)
    if count < 2:
        raise ValueError(f"a standard error needs at least 2 runs, found {count}.")
    total = runs.sum(axis=0)
    slopes = np.array([slope(x, (total - one) / (count - 1)) for one in runs])
    return float(math.sqrt((count - 1) * slopes.var()))
