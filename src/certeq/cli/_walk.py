"""``certeq portfolio --refit-every``: fitted again and again, judged on what came after."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from certeq.cli._console import (
    BadData,
    cell,
    in_order,
    percent,
    print_json,
    print_sentence,
    print_table,
    safe_text,
    write_weights,
)
from certeq.cli._mandate import benchmark_figures, benchmark_sentence
from certeq.cli._options import Choice, described
from certeq.data import LEAST_ROWS, PriceData

if TYPE_CHECKING:
    import pandas as pd

    from certeq.report import WalkStudy


EQUAL = "Equal weights"


@dataclass(frozen=True)
class WalkRun:
    """A walk-forward that was run, and how it is shown."""

    study: WalkStudy
    utility: dict[str, Any]
    key: str  # of the portfolio's metrics in JSON: the risk, whatever the goal is

    def deliver(self, output: Path | None, report: Path | None, force: bool, as_json: bool) -> None:
        """Write what was asked for; print a table, or JSON."""
        from certeq.report import figures, save

        study, walk = self.study, self.study.focused
        found = figures(study)
        rows = walk.weights.to_dict("records")
        about: dict[str, Any] = {
            "data": study.source,
            "periods_per_year": study.frequency.periods_per_year,
            "period": study.frequency.period,
            "judged_on": [str(study.dates[0])[:10], str(study.dates[-1])[:10], len(study.dates)],
            "utility": self.utility,
            "gap": None if walk.gaps is None else float(walk.gaps.max()),
            "metrics": {
                self.key if name == study.focus else name: {key: each[0] for key, each in values.items()}
                for name, values in found.items()
            },
            "portfolios": [
                {
                    "from": str(study.dates[start])[:10],
                    "to": str(study.dates[end])[:10],
                    "turnover": None if np.isnan(walk.turnover[k]) else float(walk.turnover[k]),
                    "costs": float(walk.costs[k]),
                    "weights": {str(name): float(weight) for name, weight in rows[k].items()},
                }
                for k, (start, end) in enumerate(zip(walk.starts, walk.ends, strict=True))
            ],
            "notes": list(study.notes),
        }
        index = benchmark_figures(study, found)
        if index is not None:
            about["benchmark"] = index
        if report is not None:
            save(study, report, force=force, found=found)
            about["report"] = str(report)
        if output is not None:  # the portfolio to hold now
            write_weights(output, about["portfolios"][-1]["weights"], {"data": study.source}, force=force)
            about["output"] = str(output)
        if as_json:
            print_json(about)
            return
        print_table(self._table(found), "" if report is None else "in the report")
        year = study.frequency.periods_per_year / len(study.dates)
        traded, paid = percent(year * float(np.nansum(walk.turnover)), 0), percent(year * float(walk.costs.sum()))
        print_sentence(
            f"{len(rows)} portfolio{'s' if len(rows) > 1 else ''} from {str(study.dates[0])[:10]}; turnover {traded} "
            f"and costs {paid} a year ({study.frequency})."
        )
        if index is not None:
            print_sentence(benchmark_sentence(index, study.frequency.period))
        if walk.gaps is not None:
            print_sentence(f"Optimality gap of every fit: at most {walk.gaps.max():.1e}.")
        for what, path in (("last weights", output), ("report", report)):
            if path is not None:
                print(f"{what} written to {safe_text(path)}")

    def _table(self, found: Any) -> Table:
        from certeq.report import METRICS
        from certeq.report.page import plain

        title = f"{plain(self.study.title, 80)}: {len(self.study.dates)} {self.study.frequency.plural}"
        table = Table(title=cell(title))
        table.add_column("Strategy")
        metrics = in_order(METRICS)
        for metric in metrics:
            table.add_column(metric.label, justify="right")
        for name, values in found.items():
            table.add_row(cell(plain(name, 40)), *(cell(metric.show(values[metric.key][0])) for metric in metrics))
        return table


def walked(
    panel: PriceData,
    name: str,
    estimator: Any,
    choice: Choice,
    given: dict[str, float],
    index: pd.Series | None,
    parameters: dict[str, str],
    refit_every: int,
    train_size: int | None,
    periods_per_year: float | None,
) -> WalkRun:
    """Run the walk, and equal weights beside it."""
    from skfolio.optimization import EqualWeighted

    from certeq.report import WalkStudy, walk_forward

    rows = len(panel.returns)
    train = train_size or round(2 * panel.frequency.periods_per_year)
    if not LEAST_ROWS <= train < rows:
        raise BadData(
            f"--train-size must be at least {LEAST_ROWS} and less than the {rows} {panel.frequency.plural} there are; "
            f"found {train}."
        )
    entry = {} if estimator.previous_weights is not None else {"max_turnover": None}
    sizes: dict[str, Any] = {"train_size": train, "test_size": refit_every}
    mine = walk_forward(name, estimator, panel.returns, entry_rebalancing_params=entry, benchmark=index, **sizes)
    equal = walk_forward(EQUAL, EqualWeighted(), panel.returns, **sizes)
    periods = panel.frequency.plural
    study = WalkStudy(
        f"{name}, walking forward: {panel.source}",
        panel.source,
        (mine, equal),
        name,
        index,
        estimator.utility,
        None,
        {**parameters, "Walk": f"fitted on {train} {periods}, held for {refit_every}"},
        tuple(panel.notes),
        periods_per_year,
    )
    return WalkRun(study, described(choice, given) | {"expression": repr(estimator.utility)}, choice.title)
