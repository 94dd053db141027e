"""CVaR by OCE-SG against CVaR by a solver, on all three markets: the value, the composition, the held-out figures.

Two solvers stand beside OCE-SG: skfolio's conic one, as in the paper, and the exact one of `certeq.optimize`, whose
certified gap says what "the optimum" is to within rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from certeq.paper._comparisons import against
from certeq.paper._experiment import Claim, Experiment, Figure, Job, Outcome, Panel, Series, Table
from certeq.paper._fits import LOG_EVERY, ROWS, STEPS, fit_benchmark, fit_exact, fit_sg
from certeq.paper._panels import MARKETS, find_panel
from certeq.paper._panels import Panel as Returns
from certeq.paper._portfolio_figures import largest_assets, stacks
from certeq.paper._printed import CVAR_TABLES
from certeq.paper.portfolios import steps_of
from certeq.risk import oce
from certeq.utilities import CVaR

VARIANTS = ("cvar", "leaky", "smooth")
KEYS = ("annualized_mean", "cvar", "cdar", "annualized_sharpe_ratio")
SHORT = ("Return", "CVaR", "CDaR", "Sharpe")
CLOSE = 1e-4
Fit = dict[str, Any]


def run(job: Job) -> Outcome:
    """All three markets."""
    markets = {key: find_panel(key) for key in MARKETS}
    solved_by = [key for key, panel in markets.items() if not (job.quick and panel.train.shape[1] > 500)]
    exact_items, sg_items, solver_items = [], [], []
    for key, panel in markets.items():
        where = {"panel": panel.key, "digest": panel.digest}
        exact_items.append({**where, "row": "cvar"})
        sg_items += [
            {**where, "row": row, "steps": steps_of(row, job.quick), "start": None, "snapshots": True}
            for row in VARIANTS
        ]
        if key in solved_by:
            solver_items.append({**where, "row": "solver"})
    solver = dict(zip(solved_by, job.map(fit_benchmark, solver_items), strict=True))
    exact = dict(zip(markets, job.map(fit_exact, exact_items), strict=True))
    found = iter(job.map(fit_sg, sg_items))
    ours = {key: {row: next(found) for row in VARIANTS} for key in markets}

    rows: list[tuple[Any, ...]] = []
    claims: list[Claim] = []
    numbers: dict[str, Any] = {}
    for key, panel in markets.items():
        rows += _rows(key, panel, ours[key], exact[key], solver.get(key), job.quick)
        first = steps_until_close(ours[key]["cvar"], exact[key]["value"])
        claims += _claims(key, panel, ours[key], exact[key], solver.get(key), first, job.quick)
        numbers[key] = {
            "exact_cvar": exact[key]["value"],
            "certified_gap": exact[key]["gap"],
            "oce_sg_cvar": ours[key]["cvar"]["value"],
            "solver_cvar": None if key not in solver else training_cvar(panel, solver[key]),
            "steps": steps_of("cvar", job.quick),
            "within_1e-4_from_step": first,
            "synthetic": panel.synthetic,
        }
    head = ("Market", "Portfolio", "Row", *SHORT, "CVaR (train)", "Above exact CVaR", "Distance of weights")
    return Outcome(
        tables=(Table("cvar", "CVaR and its variants against solvers", head, tuple(rows)),),
        figures=(_values_figure(markets, ours, exact), *_compositions(markets, ours, exact, solver)),
        claims=tuple(claims),
        notes=_notes(markets, solved_by, job.quick),
        numbers=numbers,
        synthetic=any(panel.synthetic for panel in markets.values()),
    )


def steps_until_close(fit: Fit, exact: float) -> int | None:
    """The logged step from which on every logged iterate has its CVaR within 1e-4 of the exact one; None if never."""
    away = np.flatnonzero(np.asarray(fit["values"]) - exact > CLOSE)
    if away.size == 0:
        return int(fit["steps"][0])
    return int(fit["steps"][away[-1] + 1]) if away[-1] + 1 < len(fit["steps"]) else None


def training_cvar(panel: Returns, fit: Fit) -> float:
    """CVaR of the daily losses the portfolio was fitted on."""
    return float(oce(panel.losses @ np.asarray(fit["weights"]), CVaR(0.05)))


def _name(panel: Returns, market: str) -> str:
    return MARKETS[market].title + (" (synthetic)" if panel.synthetic else "")


def _figures(fit: Fit) -> list[float]:
    return [float(fit["metrics"][key]) for key in KEYS]


def _distance(one: Fit, two: Fit) -> float:
    return float(np.abs(np.subtract(one["weights"], two["weights"])).sum())


def _rows(
    market: str, panel: Returns, ours: dict[str, Fit], exact: Fit, solver: Fit | None, quick: bool
) -> list[tuple[Any, ...]]:
    printed, name = CVAR_TABLES[market], _name(panel, market)

    def judged(title: str, row: str, fit: Fit) -> tuple[Any, ...]:
        risk = training_cvar(panel, fit)
        return (name, title, row, *_figures(fit), risk, risk - exact["value"], _distance(fit, exact))

    rows: list[tuple[Any, ...]] = [(name, "CVaR solver", "printed", *printed["solver"], None, None, None)]
    if solver is not None:
        rows.append(judged("CVaR solver", "skfolio, conic", solver))
    rows.append(judged("CVaR solver", f"certeq, exact, gap {exact['gap']:.0e}", exact))
    for row in VARIANTS:
        rows.append((name, ROWS[row].title, "printed", *printed[row], None, None, None))
        rows.append(judged(ROWS[row].title, f"OCE-SG, {steps_of(row, quick):,} steps", ours[row]))
    return rows


def _claims(
    market: str, panel: Returns, ours: dict[str, Fit], exact: Fit, solver: Fit | None, first: int | None, quick: bool
) -> list[Claim]:
    title, printed = _name(panel, market), CVAR_TABLES[market]
    synthetic = "On a synthetic panel: the market's file was not to be had." if panel.synthetic else ""
    fit, steps = ours["cvar"], steps_of("cvar", quick)
    above = fit["value"] - exact["value"]
    value = Claim(
        f"{title}: OCE-SG converges to the solver's CVaR on the training days (within 1e-4)",
        "converges",
        f"{fit['value']:.6f} against {exact['value']:.6f}; {above:.1e} above after {steps:,} steps",
        "reproduced" if first is not None else "not reproduced",
        f"certified gap of the exact CVaR {exact['gap']:.0e}",
        " ".join(filter(None, [
            f"Within 1e-4 from step {first:,} on (looked at every {LOG_EVERY} steps)." if first is not None
            else f"Not within 1e-4 after {steps:,} steps.", synthetic,
        ])),
    )  # fmt: skip
    reference, whose = (solver, "skfolio's solver") if solver is not None else (exact, "the exact solver")
    mine, theirs = _figures(fit), _figures(reference)
    same = f"{mine[1]:.4f}" == f"{theirs[1]:.4f}"
    difference = against(panel, fit["weights"], reference["weights"])
    held_out = Claim(
        f"{title}: the same CVaR as {whose} on the held-out days, to four digits",
        f"{printed['cvar'][1]:.4f} against {printed['solver'][1]:.4f}",
        f"{mine[1]:.4f} against {theirs[1]:.4f}",
        "reproduced" if same else "not reproduced",
        "",
        synthetic,
    )
    better = mine[0] > theirs[0] and mine[2] < theirs[2] and mine[3] > theirs[3]
    sure = difference.mean_low > 0 and difference.sharpe_low > 0
    others = Claim(
        f"{title}: slightly better than {whose} on return, CDaR and Sharpe",
        " / ".join(" ".join(f"{printed[row][place]:.4f}" for place in (0, 2, 3)) for row in ("cvar", "solver")),
        " / ".join(" ".join(f"{row[place]:.4f}" for place in (0, 2, 3)) for row in (mine, theirs)),
        "reproduced" if better and sure else "within noise" if not difference.sharpe_high < 0 else "not reproduced",
        f"Sharpe {difference.sharpe:+.4f}, 95 % {difference.sharpe_low:+.4f} to {difference.sharpe_high:+.4f}",
        f"Both aim at one optimum; what is left between them is the distance not yet gone. {synthetic}".strip(),
    )
    begun = _distance({"weights": fit["snapshots"][0]}, exact)
    ended = _distance(fit, exact)
    composed = Claim(
        f"{title}: the composition converges to the solver's",
        "converges (figure)",
        f"sum of absolute differences {begun:.2f} at the start, {ended:.3f} after {steps:,} steps",
        "reproduced" if ended <= 0.1 * begun else "not reproduced",
        "" if solver is None else f"skfolio's solver is {_distance(solver, exact):.1e} from the exact one",
        ("" if ended <= 0.1 * begun else f"More than a tenth of the way is left after {steps:,} steps. ") + synthetic,
    )
    return [value, held_out, others, composed]


def _values_figure(markets: dict[str, Returns], ours: dict[str, dict[str, Fit]], exact: dict[str, Fit]) -> Figure:
    curves, ends, longest = [], [], 0
    for key, panel in markets.items():
        fit = ours[key]["cvar"]
        title = _name(panel, key)
        away = np.maximum(np.asarray(fit["values"]) - exact[key]["value"], 1e-12)
        curves.append(Series(title, fit["steps"], away.tolist()))
        ends.append(f"{title} {away[-1]:.0e}")
        longest = max(longest, fit["steps"][-1])
    curves.append(Series("1e-4", [LOG_EVERY, longest], [CLOSE, CLOSE], "dashed"))
    return Figure(
        "value",
        "CVaR of OCE-SG above the exact CVaR, training days",
        f"The excess falls below 1e-4 and ends at {', '.join(ends)}.",
        (Panel(tuple(curves), "", "Step", "CVaR above the optimum", log_x=True, log_y=True),),
    )


def _compositions(
    markets: dict[str, Returns], ours: dict[str, dict[str, Fit]], exact: dict[str, Fit], solver: dict[str, Fit]
) -> list[Figure]:
    figures = []
    for key, panel in markets.items():
        bars = {"solver": solver.get(key, exact[key]), **ours[key]}
        names = largest_assets(panel, [fit["weights"] for row, fit in bars.items() if row in ("solver", "cvar")])
        tracks = {row: fit["snapshots"] for row, fit in ours[key].items()}
        lines = [
            Series(
                ROWS[row].title,
                ours[key][row]["snapshot_steps"][1:],
                np.abs(np.asarray(track)[1:] - np.asarray(exact[key]["weights"])).sum(axis=1).tolist(),
            )
            for row, track in tracks.items()
        ]
        title = _name(panel, key)
        figures.append(
            Figure(
                f"composition-{key}",
                f"Composition against the solver, {title}",
                f"The weights of CVaR by OCE-SG end {lines[0].y[-1]:.3f} from the exact solver's in sum of absolute "
                f"differences; the variants go elsewhere.",
                (
                    Panel(stacks(panel, bars, names), "Compositions", "", "Weight"),
                    Panel(tuple(lines), "Distance to the exact optimum", "Step", "Sum of |differences|", True, True),
                ),
            )
        )
    return figures


def _notes(markets: dict[str, Returns], solved_by: list[str], quick: bool) -> tuple[str, ...]:
    notes = [panel.note for panel in markets.values() if panel.note]
    if quick:
        notes.append(f"Quick run: {steps_of('cvar', True):,} steps for CVaR instead of {STEPS:,}.")
    for key in markets:
        if key not in solved_by:
            notes.append(
                f"{MARKETS[key].title}: skfolio's conic solver is left out of a quick run, as it takes minutes on so "
                "many assets; the exact solver stands in."
            )
    return tuple(notes)


EXPERIMENTS = (
    Experiment("cvar-solver", "CVaR against a solver", "CVaR tables and composition figure, all three markets", run),
)
