"""CVaR by OCE-SG against CVaR by a solver, on all three markets: the value, the composition, the held-out figures.

Two solvers stand beside OCE-SG: skfolio's conic one, as in the paper, and the exact one of `certeq.optimize`, whose
certified gap says what "the optimum" is to within rounding. The variants of CVaR run beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from certeq.paper._experiment import Claim, Experiment, Job, Outcome, Table
from certeq.paper._fits import ROWS, STEPS, fit_benchmark, fit_exact, fit_printed_weights, fit_sg
from certeq.paper._panels import MARKETS, UNCHECKED, Panel, find_panel
from certeq.paper._printed import CVAR_TABLES
from certeq.paper._verdicts import unchecked
from certeq.paper.cvar_solver._claims import KEYS, SHORT, VARIANTS, Market, claims, distance, steps_until_close
from certeq.paper.cvar_solver._figures import composition_figure, values_figure
from certeq.paper.portfolios._protocol import Fit, figures_of, is_large, start_items, starts_of, steps_of
from certeq.risk import oce
from certeq.utilities import CVaR


def run(job: Job) -> Outcome:
    """All three markets."""
    panels = {key: find_panel(key) for key in MARKETS}
    solved = [key for key, panel in panels.items() if not (job.quick and is_large(panel))]
    where = {key: {"panel": panel.key, "digest": panel.digest} for key, panel in panels.items()}
    solver = dict(zip(solved, job.map(fit_benchmark, [{**where[key], "row": "solver"} for key in solved]), strict=True))
    exact = dict(zip(panels, job.map(fit_exact, [{**where[key], "row": "cvar"} for key in panels]), strict=True))
    walks = [
        {**where[key], "row": row, "steps": steps_of(row, job.quick), "start": None, "snapshots": True}
        for key in panels for row in VARIANTS
    ]  # fmt: skip
    walked = iter(job.map(fit_sg, walks))
    bare = job.map(fit_printed_weights, [{**where[key], "steps": steps_of("cvar", job.quick)} for key in panels])
    markets = []
    for key, panel in panels.items():
        ours = {row: next(walked) for row in VARIANTS}
        # A quick run has too few steps to judge the rows, so it needs no starts.
        drawn = [] if job.quick else start_items(panel, VARIANTS, job)
        scattered = job.map(fit_sg, drawn)
        spread = {
            row: np.array([figures_of(f, KEYS) for f, item in zip(scattered, drawn, strict=True) if item["row"] == row])
            for row in VARIANTS
        }
        steps = steps_of("cvar", job.quick)
        markets.append(Market(key, panel, ours, exact[key], solver.get(key), spread, steps, job.quick))
    unweighted = dict(zip(panels, bare, strict=True))
    head = ("Market", "Portfolio", "Row", *SHORT, "CVaR (train)", "Above exact CVaR", "Distance of weights")
    rows = [row for market in markets for row in _rows(market, unweighted[market.key])]
    return Outcome(
        tables=(Table("cvar", "CVaR and its variants against solvers", head, tuple(rows)),),
        figures=(values_figure(markets), *map(composition_figure, markets)),
        claims=tuple(claim for market in markets for claim in _judged(market)),
        notes=_notes(markets, unweighted, job.quick),
        numbers={market.key: _numbers(market) for market in markets},
        seeds=() if job.quick else tuple(range(max(starts_of(panel, job) for panel in panels.values()))),
        synthetic=any(panel.synthetic for panel in panels.values()),
    )


def training_cvar(panel: Panel, fit: Fit) -> float:
    """CVaR of the daily losses the portfolio was fitted on."""
    return float(oce(panel.losses @ np.asarray(fit["weights"]), CVaR(0.05)))


def _judged(market: Market) -> list[Claim]:
    found = claims(market)
    return [unchecked(claim, UNCHECKED) for claim in found] if market.panel.synthetic else found


def _rows(market: Market, unweighted: Fit) -> list[tuple[Any, ...]]:
    printed, name, exact = CVAR_TABLES[market.key], market.name, market.exact

    def judged(title: str, row: str, fit: Fit) -> tuple[Any, ...]:
        risk = training_cvar(market.panel, fit)
        return (name, title, row, *figures_of(fit, KEYS), risk, risk - exact["value"], distance(fit, exact))

    rows: list[tuple[Any, ...]] = [(name, "CVaR solver", "printed", *printed["solver"], None, None, None)]
    if market.solver is not None:
        rows.append(judged("CVaR solver", "skfolio, conic", market.solver))
    rows.append(judged("CVaR solver", f"certeq, exact, gap {exact['gap']:.0e}", exact))
    for row in VARIANTS:
        title, steps = ROWS[row].title, f"OCE-SG, {steps_of(row, market.quick):,} steps"
        rows.append((name, title, "printed", *printed[row], None, None, None))
        rows.append(judged(title, steps, market.ours[row]))
        if row == "cvar":
            rows.append(judged(title, f"{steps}, weights as printed", unweighted))
        if len(market.spread[row]):
            mean = market.spread[row].mean(axis=0).tolist()
            rows.append((name, title, f"mean over {len(market.spread[row])} random starts", *mean, None, None, None))
    return rows


def _numbers(market: Market) -> dict[str, Any]:
    return {
        "exact_cvar": market.exact["value"],
        "certified_gap": market.exact["gap"],
        "oce_sg_cvar": market.ours["cvar"]["value"],
        "solver_cvar": None if market.solver is None else training_cvar(market.panel, market.solver),
        "steps": market.steps,
        "within_1e-4_from_step": steps_until_close(market.ours["cvar"], market.exact["value"]),
        "starts": len(market.spread["cvar"]),
        "synthetic": market.panel.synthetic,
    }


def _notes(markets: list[Market], unweighted: dict[str, Fit], quick: bool) -> tuple[str, ...]:
    notes = [market.panel.note for market in markets if market.panel.note]
    bare = "; ".join(
        f"{market.name} {fit['metrics']['annualized_mean']:.4f} / {fit['metrics']['annualized_sharpe_ratio']:.4f}"
        for market, fit in zip(markets, unweighted.values(), strict=True)
    )
    notes.append(
        "Our CVaR rows use corrected weights, which sum to 1. With the weights as printed, from equal weights, return "
        f"and Sharpe ratio are: {bare}."
    )
    if quick:
        notes.append(f"Quick run: {steps_of('cvar', True):,} steps for CVaR instead of {STEPS:,}; rows are not judged.")
    for market in markets:
        if market.solver is None:
            notes.append(
                f"{MARKETS[market.key].title}: skfolio's conic solver is left out of a quick run, as it takes minutes "
                "on so many assets; the exact solver stands in."
            )
    return tuple(notes)


EXPERIMENTS = (
    Experiment("cvar-solver", "CVaR against a solver", "CVaR tables and composition figure, all three markets", run),
)

__all__ = ["EXPERIMENTS", "run", "steps_until_close", "training_cvar"]
