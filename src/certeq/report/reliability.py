"""Which intervals of a study are unreliable, and why: a page marks them wherever they stand, and says why once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from certeq.report._study import Strategy, Study
from certeq.report._walk import AnyStudy
from certeq.report.metrics import METRICS, block_length, estimates, least_returns
from certeq.risk import Estimate, estimate

if TYPE_CHECKING:
    from certeq.report._tables import Pair

MARK = " (unreliable)"
HELD_OUT = "OCE, held out"
DIFFERENCE = "Difference in CVaR 95 %"
_MOST_NAMES = 4  # listed one by one; of more the number is told
_NUMBER = re.compile(r"(?<= )\d+(?:\.\d+)?(?= )")  # in words: not one of a formula, such as X**4


@dataclass(frozen=True)
class Doubt:
    """A reason why the interval of a figure cannot be relied on; ``whose`` is a strategy, or a pair of them."""

    whose: str
    figure: str
    reason: str

    def __str__(self) -> str:
        return f"{self.whose}, {self.figure}: {self.reason}"


def doubts(study: AnyStudy, pairs: Iterable[Pair] = (), *, held_out: bool = True) -> tuple[Doubt, ...]:
    """All that speaks against intervals of the study: of the metrics, of these differences, and of held-out risks."""
    if not has_intervals(study):
        return ()
    labels = {metric.key: metric.label for metric in METRICS}
    found = []
    for strategy in study.judged:
        returns = study.judged_returns(strategy)  # type: ignore[arg-type]  # of the study's own kind
        sources = {labels[key]: each for key, (_, each) in estimates(returns).items()}
        if held_out and isinstance(study, Study) and isinstance(strategy, Strategy) and not study.in_sample:
            own = held_out_estimate(study, strategy)
            sources |= {} if own is None else {HELD_OUT: own}
        found += [Doubt(strategy.name, label, why) for label, each in sources.items() for why in each.warnings]
    for pair in pairs:
        found += [Doubt(pair_name(pair), DIFFERENCE, reason) for reason in pair.found.warnings]
    return tuple(found)


def mark(found: Iterable[Doubt], whose: str, figure: str) -> str:
    """What follows an interval: nothing where there is no doubt."""
    return MARK if any(doubt.whose == whose and doubt.figure == figure for doubt in found) else ""


def pair_name(pair: Pair) -> str:
    """What a difference is the difference of."""
    return f"{pair.riskier} less {pair.other}"


def reasons(found: Iterable[Doubt], strategies: Collection[str]) -> list[tuple[str, str]]:
    """Each reason once, behind the intervals that it speaks of; numbers that differ become a range.

    >>> why = "Only about {} samples carry the risk."
    >>> found = [
    ...     Doubt(name, "CVaR 95 %", why.format(count))
    ...     for name, count in (("A", 3.7), ("B", 4.1))
    ... ]
    >>> reasons(found, ["A", "B", "C"])
    [('CVaR 95 %: A, B', 'Only about 3.7 to 4.1 samples carry the risk.')]
    """
    groups: dict[str, list[Doubt]] = {}
    for doubt in found:
        groups.setdefault(_NUMBER.sub("#", doubt.reason), []).append(doubt)
    return [(_which(group, strategies), _in_common([doubt.reason for doubt in group])) for group in groups.values()]


def held_out_estimate(study: Study, strategy: Strategy) -> Estimate | None:
    """The risk that a strategy was fitted for, on the data it is judged on; None for a benchmark."""
    if strategy.weights is None or strategy.utility is None:
        return None
    return estimate(-study.judged_returns(strategy), strategy.utility, dependence="auto")


def has_intervals(study: AnyStudy) -> bool:
    """Whether there are returns enough for intervals, which are then on the whole page or nowhere on it."""
    return len(study.dates) >= least_periods(study)


def least_periods(study: AnyStudy) -> float:
    """How many returns the intervals and comparisons of a study need."""
    return least_returns(block_length(study.frequency.periods_per_year))


def _which(group: list[Doubt], strategies: Collection[str]) -> str:
    """The figures, each with its strategies."""
    figures: dict[str, list[str]] = {}
    for doubt in group:
        figures.setdefault(doubt.figure, []).append(doubt.whose)
    said = []
    for figure, names in figures.items():
        whose = ", ".join(names)
        if figure == DIFFERENCE:
            whose = whose if len(names) <= _MOST_NAMES else f"{len(names)} pairs"
        elif len(names) == len(strategies) > 1:
            whose = "all strategies"
        elif len(names) > _MOST_NAMES:
            whose = f"{len(names)} of {len(strategies)} strategies"
        said.append(f"{figure}: {whose}")
    return "; ".join(said)


def _in_common(texts: list[str]) -> str:
    """One sentence for several that differ in their numbers only."""
    columns = iter(zip(*(_NUMBER.findall(text) for text in texts), strict=True))

    def span(_: re.Match[str]) -> str:
        numbers = sorted(next(columns), key=float)
        return numbers[0] if float(numbers[0]) == float(numbers[-1]) else f"{numbers[0]} to {numbers[-1]}"

    return _NUMBER.sub(span, texts[0])
