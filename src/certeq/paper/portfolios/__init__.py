"""Portfolios of three markets: every printed row beside the paper's protocol and the true optimum, on held-out days.

The benchmarks are deterministic and must come out as printed. The OCE rows depend on what the paper does not state
(alpha, beta, the start), so they are run from equal weights and again from random starts, and the exact solver shows
where 15,000 steps were heading.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from certeq.paper._comparisons import HeldOut
from certeq.paper._experiment import Claim, Experiment, Job, Outcome
from certeq.paper._fits import ROWS, STEPS, fit_benchmark, fit_exact, fit_printed_weights, fit_sg
from certeq.paper._panels import MARKETS, UNCHECKED, Panel, find_panel
from certeq.paper._portfolio_figures import composition, convergence, cumulative_returns
from certeq.paper._printed import PORTFOLIOS
from certeq.paper._verdicts import unchecked
from certeq.paper.portfolios._claims import (
    RETURN,
    SHARPE,
    benchmarks_claim,
    comparable_claims,
    cvar_claim,
    optimum_claim,
    outperform_claims,
    row_claim,
)
from certeq.paper.portfolios._protocol import BENCHMARKS, OCES, Fit, Fits, figures_of, is_large, start_items, steps_of
from certeq.paper.portfolios._tables import difference_table, main_table, starts_table


def run(market: str, job: Job) -> Outcome:
    """One market."""
    panel, quick = find_panel(market), job.quick
    benchmarks = ("equal",) if quick and is_large(panel) else BENCHMARKS
    where = {"panel": panel.key, "digest": panel.digest}
    fitted: Fits = dict(
        zip(benchmarks, job.map(fit_benchmark, [{**where, "row": row} for row in benchmarks]), strict=True)
    )
    rows = (*OCES, "mean")
    best: Fits = dict(zip(rows, job.map(fit_exact, [{**where, "row": row} for row in rows]), strict=True))
    plain = [{**where, "row": r, "steps": steps_of(r, quick), "start": None, "snapshots": True} for r in rows]
    ours: Fits = dict(zip(rows, job.map(fit_sg, plain), strict=True))
    (unweighted,) = job.map(fit_printed_weights, [{**where, "steps": steps_of("cvar", quick)}])
    drawn = start_items(panel, OCES, job)
    scattered = job.map(fit_sg, drawn)
    spread = {
        row: np.array([figures_of(fit) for fit, item in zip(scattered, drawn, strict=True) if item["row"] == row])
        for row in OCES
    }
    starts = len(spread["cvar"])
    held_out = HeldOut(panel, (RETURN, SHARPE))
    differences = {
        (row, which, other): held_out.less(fits[row]["weights"], fitted[other]["weights"])
        for which, fits in (("protocol", ours), ("optimum", best)) for other in benchmarks for row in OCES
    }  # fmt: skip
    early = [row_claim(market, row, spread[row], ours[row], best[row], quick) for row in OCES]
    if quick:
        early = [
            unchecked(claim, f"A quick run: fewer steps than the {STEPS:,} of the printed row.") for claim in early
        ]
    claims: list[Claim] = [
        benchmarks_claim(PORTFOLIOS[market], fitted),
        *early,
        cvar_claim(fitted, ours),
        *outperform_claims(market, differences, benchmarks),
        *comparable_claims(differences, benchmarks),
        optimum_claim(ours, best, quick),
    ]
    if panel.synthetic:
        claims = [unchecked(claim, UNCHECKED) for claim in claims]
    return Outcome(
        tables=(
            main_table(market, PORTFOLIOS[market], fitted, ours, best, unweighted, quick),
            starts_table(spread),
            difference_table(differences),
        ),
        figures=(
            cumulative_returns(panel, fitted, ours, best),
            composition(panel, {**fitted, **{row: ours[row] for row in OCES}}, {row: best[row] for row in OCES}),
            convergence(panel, {row: ours[row] for row in OCES}, best),
        ),
        claims=tuple(claims),
        notes=_notes(panel, quick, benchmarks, starts, ours["cvar"], unweighted),
        numbers={
            "benchmarks": {row: fit["metrics"] for row, fit in fitted.items()},
            "oce_sg": {row: {**fit["metrics"], "oce": fit["value"]} for row, fit in ours.items()},
            "oce_sg_printed_weights": {**unweighted["metrics"], "oce": unweighted["value"]},
            "optimum": {row: {**fit["metrics"], "oce": fit["value"], "gap": fit["gap"]} for row, fit in best.items()},
            "days": [len(panel.train), len(panel.test)],
            "assets": panel.train.shape[1],
            "steps": {row: steps_of(row, quick) for row in OCES},
            "starts": starts,
        },
        seeds=tuple(range(starts)),
        synthetic=panel.synthetic,
    )


def _notes(
    panel: Panel, quick: bool, benchmarks: tuple[str, ...], starts: int, cvar: Fit, unweighted: Fit
) -> tuple[str, ...]:
    days, assets = panel.train.shape
    notes = [panel.note] if panel.note else []
    notes.append(
        f"{assets} assets, fitted on {days} days to {panel.train.index[-1]:%Y-%m-%d}, judged on the "
        f"{len(panel.test)} days that follow."
    )
    notes.append(
        "The paper states neither alpha nor beta nor the start. Here alpha = 0.05, beta = 1, a = 2; a row is judged by "
        f"its mean and spread over {starts} random starts, and shown from equal weights too. Smooth CVaR is the "
        "corrected one: as printed, its slope never exceeds 1 and its OCE is the mean, so its printed row is to be "
        "compared with the risk-neutral one."
    )
    notes.append(
        "Our CVaR row uses corrected weights, which sum to 1: the mass left on the quantile goes to the losses there. "
        f"With the weights as printed return and Sharpe ratio are {_pair(unweighted)} instead of {_pair(cvar)}, from "
        "equal weights."
    )
    if quick:
        notes.append(
            f"Quick run: {steps_of('mmv', True):,} steps ({steps_of('cvar', True):,} for CVaR) instead of {STEPS:,}."
        )
    left_out = [ROWS[row].title for row in BENCHMARKS if row not in benchmarks]
    if left_out:
        notes.append(f"Left out of a quick run, because each takes a minute on so many assets: {', '.join(left_out)}.")
    return tuple(notes)


def _pair(fit: Fit) -> str:
    return f"{fit['metrics'][RETURN]:.4f} / {fit['metrics'][SHARPE]:.4f}"


EXPERIMENTS = tuple(
    Experiment(
        f"portfolio-{key}",
        f"Portfolios, {market.title}",
        f"Portfolio table and figure of the {market.title} panel",
        partial(run, key),
    )
    for key, market in MARKETS.items()
)
