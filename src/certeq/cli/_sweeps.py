"""The paths a report draws, computed where they can be: a report without one is better than no report."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from certeq.cli._choices import Choice
from certeq.cli._console import BadData
from certeq.cli._strategies import MANY_ASSETS, in_one_line

if TYPE_CHECKING:
    import pandas as pd

    from certeq.report import Sweep

Tick = Callable[[], None]


def steps(choice: Choice, given: dict[str, float]) -> int:
    """How often `swept` ticks."""
    return len(choice.cases(given)) + 1


def swept(
    estimator: Any, choice: Choice, given: dict[str, float], returns: pd.DataFrame, *, normalized: bool, tick: Tick
) -> tuple[Sweep | None, Sweep | None, list[str]]:
    """Frontier, sensitivity to the risk parameter, and notes on what was left out."""
    from certeq.report import frontier, sensitivity

    if returns.shape[1] > MANY_ASSETS:
        return None, None, [f"no frontier or sensitivity: {returns.shape[1]} assets are more than {MANY_ASSETS}."]
    path = turned = None
    notes = []
    if estimator.min_return is None:
        try:
            with in_one_line("frontier"):
                path = frontier(estimator, returns)
        except BadData as error:
            notes.append(f"no {error}")
    tick()
    built = [(place, choice.build(changed, normalized=normalized)) for place, changed in choice.cases(given)]
    try:
        with in_one_line("sensitivity"):
            turned = sensitivity(
                estimator, returns, built, label=choice.turned, current=given[choice.turned], tick=tick
            )
    except BadData as error:
        notes.append(f"no {error}")
    return path, turned, notes
