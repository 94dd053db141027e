"""CVaR by OCE-SG against CVaR by a solver, on all three markets: the value, the composition, the held-out figures.

Two solvers stand beside OCE-SG: skfolio's conic one, as in the paper, and the exact one of `certeq.optimize`, whose
certified gap says what "the optimum" is to within rounding. The variants of CVaR run beside it; S-CVaR as printed is
risk neutral, and its printed figures are judged by the risk-neutral portfolio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.paper import _markets
from certeq.paper._experiment import Claim, Experiment, Figure, Job, Outcome, Panel, ResultTable, Series
from certeq.paper._markets import MARKETS, ROWS, STEPS, Fit, Fits, ReturnsPanel, figures_of, steps_of
from certeq.paper._portfolio_figures import distance_lines, largest_assets, stacks
from certeq.paper._printed import CVAR_TABLES
from certeq.paper._quotes import quoted, row_of
from certeq.paper._statistics import (
    BETTER,
    FIXED,
    RANKING_RUNS,
    ROUNDING,
    ROW,
    STATEMENT,
    HeldOut,
    controlled,
    digits,
    needs_more_runs,
    of_differences,
    of_row,
    scatter,
    unchecked,
    verdict_of,
    wanted_sign,
    with_evidence,
    with_more_runs,
    with_rank,
)
from certeq.risk import oce
from certeq.utilities import CVaR

Floats = NDArray[np.float64]
VARIANTS = ("cvar", "leaky", "smooth")
AS_PRINTED = {"cvar": "cvar", "leaky": "leaky", "smooth": "mean"}  # the printed S-CVaR has slopes below 1
KEYS = ("annualized_mean", "cvar", "cdar", "annualized_sharpe_ratio")
SHORT = ("Return", "CVaR", "CDaR", "Sharpe")
OTHERS = tuple(key for key in KEYS if key != "cvar")
CLOSE = 1e-4


@dataclass(frozen=True)
class SolvedMarket:
    """All that was found for one market; ``solver`` is None where a quick run leaves it out."""

    key: str
    panel: ReturnsPanel
    ours: Fits
    exact: Fit
    solver: Fit | None
    spread: dict[str, Floats]
    more: dict[str, Floats]
    steps: int
    quick: bool

    @property
    def name(self) -> str:
        """As in the report."""
        return MARKETS[self.key].title + (" (synthetic)" if self.panel.synthetic else "")

    @property
    def reference(self) -> tuple[Fit, str]:
        """The solver to compare with, and whose it is."""
        return (self.exact, "the exact solver") if self.solver is None else (self.solver, "skfolio's solver")


def run(job: Job) -> Outcome:
    """All three markets."""
    panels = {key: _markets.find_panel(key) for key in MARKETS}
    solved = {key: panel for key, panel in panels.items() if not (job.quick and _markets.is_large(panel))}
    solver = _markets.fits_of(job, _markets.fit_benchmark, solved, ("solver",))
    exact = _markets.fits_of(job, _markets.fit_exact, panels, ("cvar",))
    walked = _markets.walks_of(job, panels, (*VARIANTS, "mean"))
    unweighted = _markets.printed_walks_of(job, panels)
    markets, judges = [], tuple(AS_PRINTED.values())
    for key, panel in panels.items():
        short = _markets.is_short(job, panel)
        # A short run has too few steps to judge the rows, so it needs no starts.
        spread = {row: np.empty((0, 0)) for row in judges} if short else _markets.spread_of(job, panel, judges, KEYS)
        far = {} if short else {
            judge: None for row, judge in AS_PRINTED.items() if needs_more_runs(CVAR_TABLES[key][row], spread[judge])
        }  # fmt: skip
        more = _markets.more_starts_of(job, panel, far, KEYS, RANKING_RUNS)
        conic, steps = solver[key]["solver"] if key in solver else None, steps_of("cvar", short)
        markets.append(SolvedMarket(key, panel, walked[key], exact[key]["cvar"], conic, spread, more, steps, short))
    head = ("Market", "Portfolio", "Row", *SHORT, "CVaR (train)", "Above exact CVaR", "Distance of weights")
    rows = [row for market in markets for row in _rows(market, unweighted[market.key])]
    return Outcome(
        tables=(ResultTable("cvar", "CVaR and its variants against solvers", head, tuple(rows)),),
        figures=(values_figure(markets), *map(composition_figure, markets)),
        claims=tuple(controlled(claim for market in markets for claim in _judged(market))),
        notes=_notes(markets, unweighted, job.quick),
        numbers={market.key: _numbers(market) for market in markets},
        seeds=tuple(range(max(len(market.spread["cvar"]) for market in markets))),
        synthetic=any(panel.synthetic for panel in panels.values()),
    )


def training_cvar(panel: ReturnsPanel, fit: Fit) -> float:
    """CVaR of the daily losses the portfolio was fitted on."""
    return float(oce(panel.losses @ np.asarray(fit["weights"]), CVaR(0.05)))


def _judged(market: SolvedMarket) -> list[Claim]:
    """The claims of one market; of a short run those on the solver alone, without its file none."""
    by_steps = claims(market)
    if market.quick:
        by_steps = [unchecked(claim, f"A quick run: fewer steps than the paper's {STEPS:,}.") for claim in by_steps]
    found = [*_solver_row(market), *by_steps]
    return [unchecked(claim, _markets.UNCHECKED) for claim in found] if market.panel.synthetic else found


def _rows(market: SolvedMarket, unweighted: Fit) -> list[tuple[Any, ...]]:
    printed, name, exact = CVAR_TABLES[market.key], market.name, market.exact

    def judged(title: str, row: str, fit: Fit) -> tuple[Any, ...]:
        risk = training_cvar(market.panel, fit)
        return (name, title, row, *figures_of(fit, KEYS), risk, risk - exact["value"], _markets.distance(fit, exact))

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
        if row == "smooth":
            rows.append(judged(title, f"as printed, which is risk neutral: {steps}", market.ours["mean"]))
        values = market.spread[AS_PRINTED[row]]
        if len(values):
            mean = values.mean(axis=0).tolist()
            as_printed = "as printed, " if row == "smooth" else ""
            rows.append((name, title, f"{as_printed}mean over {len(values)} random starts", *mean, None, None, None))
    return rows


def _numbers(market: SolvedMarket) -> dict[str, Any]:
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


def _notes(markets: list[SolvedMarket], unweighted: dict[str, Fit], quick: bool) -> tuple[str, ...]:
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


def steps_until_close(fit: Fit, exact: float) -> int | None:
    """The logged step from which on every logged iterate has its CVaR within 1e-4 of the exact one; None if never."""
    away = np.flatnonzero(np.asarray(fit["values"]) - exact > CLOSE)
    if away.size == 0:
        return int(fit["steps"][0])
    return int(fit["steps"][away[-1] + 1]) if away[-1] + 1 < len(fit["steps"]) else None


def claims(market: SolvedMarket) -> list[Claim]:
    """Value, held-out CVaR, the other metrics, the composition, the printed rows, and the variants against CVaR."""
    held_out = HeldOut(market.panel, OTHERS)
    rows = [] if market.quick else [_row(market, row) for row in VARIANTS]
    return [
        _value(market), _same_cvar(market), _slightly_better(market, held_out), _composition(market), *rows,
        *_variants(market, held_out),
    ]  # fmt: skip


def _solver_row(market: SolvedMarket) -> list[Claim]:
    """The solver's printed row, which has no randomness."""
    if market.solver is None:
        return []
    printed, found = CVAR_TABLES[market.key]["solver"], figures_of(market.solver, KEYS)
    off = max(abs(a - b) for a, b in zip(found, printed, strict=True))
    claim = Claim(
        f"{market.name}: the row of skfolio's CVaR solver ({', '.join(SHORT)})",
        digits(printed),
        digits(found),
        verdict_of(off <= ROUNDING),
        "deterministic",
        f"The largest distance from a printed figure is {off:.1e}; half of the last digit is 5e-05.",
        rule=FIXED,
        **row_of(f"solver, {market.key}", "solver"),
    )
    return [claim]


def _value(market: SolvedMarket) -> Claim:
    fit, exact = market.ours["cvar"], market.exact
    first = steps_until_close(fit, exact["value"])
    return Claim(
        f"{market.name}: OCE-SG converges to the solver's CVaR on the training days (within 1e-4)",
        "converges",
        f"{fit['value']:.6f} against {exact['value']:.6f}; {fit['value'] - exact['value']:.1e} above after "
        f"{market.steps:,} steps",
        verdict_of(first is not None),
        f"certified gap of the exact CVaR {exact['gap']:.0e}",
        f"Within 1e-4 from step {first:,} on (looked at every {_markets.LOG_EVERY} steps)." if first is not None
        else f"Not within 1e-4 after {market.steps:,} steps.",
        STATEMENT,
        "paper" if market.key == "sp500" else "again",  # said of the S&P 500; "a similar comparison" for the others
        **quoted("value"),
    )  # fmt: skip


def _same_cvar(market: SolvedMarket) -> Claim:
    printed, (reference, whose) = CVAR_TABLES[market.key], market.reference
    mine, theirs = (f"{fit['metrics']['cvar']:.4f}" for fit in (market.ours["cvar"], reference))
    return Claim(
        f"{market.name}: the same CVaR as {whose} on the held-out days, to four digits",
        f"{printed['cvar'][1]:.4f} against {printed['solver'][1]:.4f}",
        f"{mine} against {theirs}",
        verdict_of(mine == theirs),
        "deterministic, from equal weights",
        "The four digits are the same." if mine == theirs else "The four digits differ.",
        STATEMENT,
        "paper" if market.key == "sp500" else "again",
        **quoted("identical"),
    )


def _slightly_better(market: SolvedMarket, held_out: HeldOut) -> Claim:
    printed, (reference, whose) = CVAR_TABLES[market.key], market.reference
    fit = market.ours["cvar"]
    found = held_out.less(fit["weights"], reference["weights"])
    claim = Claim(
        f"{market.name}: CVaR by OCE-SG is marginally better than {whose} on return, CDaR and Sharpe",
        " / ".join(digits(printed[row][k] for k in (0, 2, 3)) for row in ("cvar", "solver")),
        " / ".join(digits(figures_of(each, OTHERS)) for each in (fit, reference)),
        "within noise",
        "; ".join(f"{SHORT[KEYS.index(key)]} {d}, {d.interval}" for key, d in found.items()),
        "Both aim at one optimum; what is left between them is the distance not yet gone.",
        BETTER,
        "paper" if market.key == "sp500" else "again",
        **quoted("identical"),
    )
    return with_evidence(claim, of_differences((d, wanted_sign(key)) for key, d in found.items()))


def _composition(market: SolvedMarket) -> Claim:
    fit, exact = market.ours["cvar"], market.exact
    begun, ended = _markets.distance({"weights": fit["snapshots"][0]}, exact), _markets.distance(fit, exact)
    near = ended <= 0.1 * begun
    return Claim(
        f"{market.name}: the composition converges to the solver's (a tenth of the way, or less, is left)",
        "converges (figure)",
        f"sum of absolute differences {begun:.2f} at the start, {ended:.3f} after {market.steps:,} steps",
        verdict_of(near),
        ""
        if market.solver is None
        else f"skfolio's solver is {_markets.distance(market.solver, exact):.1e} from the exact one",
        f"{ended / begun:.1%} of the way {'is' if near else 'is still'} left after {market.steps:,} steps.",
        STATEMENT,
        "paper" if market.key == "sp500" else "again",
        **quoted("composition"),
    )


def _row(market: SolvedMarket, row: str) -> Claim:
    printed, judge = CVAR_TABLES[market.key][row], AS_PRINTED[row]
    values = with_more_runs(printed, market.spread[judge], market.more.get(judge))
    ranked, why = of_row(printed, values), ""
    if ranked.outside.any():
        why += f" Outside the range of all starts: {', '.join(SHORT[k] for k in np.flatnonzero(ranked.outside))}."
    if row == "smooth":
        why += " The printed utility is risk neutral, and the row is judged as such."
    claim = Claim(
        f"{market.name}: {'S-CVaR, risk neutral as printed,' if row == 'smooth' else ROWS[row].title} row by OCE-SG "
        f"({', '.join(SHORT)})",
        digits(printed),
        digits(values.mean(axis=0)),
        ranked.verdict,
        scatter(values, "random starts"),
        why.strip(),
        ROW,
        **row_of(f"solver, {market.key}", row),
    )
    return with_rank(claim, ranked)


def _variants(market: SolvedMarket, held_out: HeldOut) -> list[Claim]:
    """That L-CVaR and S-CVaR outperform CVaR on some metrics: on those where the paper's own table says so."""
    found, printed = [], CVAR_TABLES[market.key]
    for row in ("leaky", "smooth"):
        title = "S-CVaR, risk neutral as printed," if row == "smooth" else ROWS[row].title
        fit = market.ours[AS_PRINTED[row]]
        less = held_out.less(fit["weights"], market.ours["cvar"]["weights"])
        stated = []
        for key, d in less.items():
            column, sign = KEYS.index(key), wanted_sign(key)
            if sign * (printed[row][column] - printed["cvar"][column]) <= 0:
                continue
            claim = Claim(
                f"{market.name}: {title} outperforms CVaR on {SHORT[column]} (both by OCE-SG)",
                f"{printed[row][column]:.4f} against {printed['cvar'][column]:.4f}",
                f"{fit['metrics'][key]:.4f} against {market.ours['cvar']['metrics'][key]:.4f}",
                "within noise",
                f"difference {d}, {d.interval}",
                "",
                BETTER,
                "paper" if market.key == "sp500" else "again",
                **quoted("variants"),
            )
            stated.append(with_evidence(claim, of_differences([(d, sign)])))
        if not stated:
            text, none = f"{market.name}: {title} outperforms CVaR on some metric", "on none of return, CDaR and Sharpe"
            why = "It is said of the S&P 500; the paper's own table of this market has no such metric."
            stated.append(
                Claim(text, none, "not judged", "not checked", "none", why, BETTER, "again", **quoted("variants"))
            )
        found += stated
    return found


def values_figure(markets: list[SolvedMarket]) -> Figure:
    """How far CVaR is above the exact one, step by step."""
    curves, ends, longest = [], [], 0
    for market in markets:
        fit = market.ours["cvar"]
        away = np.maximum(np.asarray(fit["values"]) - market.exact["value"], 1e-12)
        curves.append(Series(market.name, fit["steps"], away.tolist()))
        ends.append(f"{market.name} {away[-1]:.0e}")
        longest = max(longest, fit["steps"][-1])
    curves.append(Series("1e-4", [_markets.LOG_EVERY, longest], [CLOSE, CLOSE], "dashed"))
    return Figure(
        "value",
        "CVaR of OCE-SG above the exact CVaR, training days",
        f"The excess falls below 1e-4 and ends at {', '.join(ends)}.",
        (Panel(tuple(curves), "", "Step", "CVaR above the optimum", log_x=True, log_y=True),),
    )


def composition_figure(market: SolvedMarket) -> Figure:
    """The solver's weights beside ours, and the distance between them along the steps."""
    shown = {row: market.ours[row] for row in VARIANTS}
    bars = {"solver": market.solver or market.exact, **shown}
    names = largest_assets(market.panel, [bars[row]["weights"] for row in ("solver", "cvar")])
    lines = distance_lines(shown, dict.fromkeys(shown, market.exact))
    return Figure(
        f"composition-{market.key}",
        f"Composition against the solver, {market.name}",
        f"The weights of CVaR by OCE-SG end {lines[0].y[-1]:.3f} from the exact solver's in sum of absolute "
        f"differences; the variants choose other weights.",
        (
            Panel(stacks(market.panel, bars, names), "Compositions", "", "Weight"),
            Panel(lines, "Distance to the exact optimum", "Step", "Sum of |differences|", True, True),
        ),
    )


EXPERIMENTS = (
    Experiment("cvar-solver", "CVaR against a solver", "CVaR tables and composition figure, all three markets", run),
)
