"""CVaR by OCE-SG beside CVaR by a solver: the value, the composition, and the held-out metrics.

There are two solvers: skfolio's conic one, as in the paper, and the exact one of certeq, whose gap proves the optimum
to rounding. The paper makes its statements for the S&P 500; it prints the same tables for the other markets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

import certeq as ce
from experiments import markets
from experiments.common import Cell, Claim, Experiment, Job, Outcome, Picture, Table, Whose, printed, quoted
from experiments.markets import MARKETS, ROWS, STEPS, Fit, Floats, Returns, judge_of, steps_of, title_of
from experiments.verdicts import (
    BETTER,
    FIXED,
    ROUNDING,
    ROW,
    STATEMENT,
    HeldOut,
    controlled,
    digits,
    of_differences,
    of_table,
    scatter,
    unchecked,
    undecided_at,
    verdict_of,
    wanted_sign,
    with_evidence,
    with_rank,
)

VARIANTS = ("cvar", "leaky", "smooth")
KEYS = ("annualized_mean", "cvar", "cdar", "annualized_sharpe_ratio")
SHORT = tuple(markets.SHORT[key] for key in KEYS)
OTHERS = tuple(key for key in KEYS if key != "cvar")
CLOSE = 1e-4


@dataclass(frozen=True, eq=False)
class Solved:
    """One market: OCE-SG by row, the two solvers, and metrics of random starts by row."""

    key: str
    data: Returns
    ours: dict[str, Fit]
    unweighted: Fit
    exact: Fit
    solver: Fit
    spread: dict[str, Floats]
    quick: bool

    @property
    def name(self) -> str:
        """Title of the market."""
        return MARKETS[self.key].title

    @property
    def whose(self) -> Whose:
        """Whether the paper's statements are about this market or only repeated for it."""
        return "paper" if self.key == "sp500" else "again"

    def training_cvar(self, fit: Fit) -> float:
        """Return the CVaR of the losses that the portfolio was fitted on."""
        return float(ce.oce(self.data.losses @ fit.weights, ce.CVaR(0.05)))


def run(job: Job) -> Outcome:
    """Run the markets whose prices are at hand; the rows of the others are not checked."""
    solved, missing = [], {"nasdaq": ("Nasdaq", markets.NO_NASDAQ)}
    for key, market in MARKETS.items():
        try:
            markets.load(key)
        except OSError as error:
            missing[key] = (market.title, f"Not run: {error}")
        else:
            solved.append(solve(key, job))
    not_run = [claim for key, (title, why) in missing.items() for claim in unchecked_rows(key, title, why)]
    by_steps = controlled(claim for market in solved for claim in claims(market))
    by_steps = [undecided_at(claim, "alpha") if claim.rule == BETTER else claim for claim in by_steps]
    if job.quick:
        by_steps = [unchecked(claim, f"A quick run: fewer steps than the paper's {STEPS:,}.") for claim in by_steps]
    head = ("Market", "Portfolio", "Row", *SHORT, "CVaR (train)", "Above exact CVaR", "Distance of weights")
    rows = tuple(row for market in solved for row in table_rows(market))
    bare = "; ".join(f"{market.name} {digits(market.unweighted.figures(KEYS)[::3])}" for market in solved)
    return Outcome(
        tables=(Table("cvar", "CVaR and its variants against solvers", head, rows),),
        pictures=(value_picture(solved), *map(composition_picture, solved)),
        claims=(*map(solver_row, solved), *by_steps, *not_run),
        notes=(
            "Our CVaR rows use corrected weights, which sum to 1. With the weights as printed, from equal weights, "
            f"return and Sharpe ratio are: {bare}.",
            *(f"{title}: {why}" for title, why in missing.values()),
        ),
        numbers={
            market.key: {
                "exact_cvar": market.exact.value,
                "certified_gap": market.exact.gap,
                "oce_sg_cvar": market.ours["cvar"].value,
                "solver_cvar": market.training_cvar(market.solver),
                "within_1e-4_from_step": steps_until_close(market.ours["cvar"], market.exact.value),
                "starts": len(market.spread["cvar"]),
            }
            for market in solved
        },
        seeds=tuple(range(len(solved[0].spread["cvar"]))),
    )


def solve(market: str, job: Job) -> Solved:
    """Fit all portfolios of one market."""
    judges, columns = [judge_of(row) for row in VARIANTS], [markets.KEYS.index(key) for key in KEYS]
    steps = steps_of("cvar", job.quick)
    return Solved(
        market,
        markets.load(market),
        markets.walks(job, market, (*VARIANTS, "mean")),
        markets.fits(job, markets.fit_printed_weights, [{"market": market, "steps": steps}])[0],
        markets.by_row(job, markets.fit_exact, market, ("cvar",))["cvar"],
        markets.by_row(job, markets.fit_benchmark, market, ("solver",))["solver"],
        {row: values[:, columns] for row, values in markets.spread(job, market, judges).items()},
        job.quick,
    )


def steps_until_close(fit: Fit, exact: float) -> int | None:
    """Return the first logged step from which on the CVaR stays within 1e-4 of the exact one; None if there is none."""
    away = [k for k, (_, value) in enumerate(fit.values) if value - exact > CLOSE]
    first = away[-1] + 1 if away else 0
    return fit.values[first][0] if first < len(fit.values) else None


# -- claims -----------------------------------------------------------------------------------------------------------


def claims(market: Solved) -> list[Claim]:
    """Return the claims that depend on OCE-SG."""
    held_out = HeldOut(market.data, OTHERS)
    return [
        value_claim(market), same_cvar(market), slightly_better(market, held_out), composition_claim(market),
        *row_claims(market), *variant_claims(market, held_out),
    ]  # fmt: skip


def solver_row(market: Solved) -> Claim:
    """Compare the solver's row with print; it has no randomness."""
    table, found = printed(f"solver, {market.key}")["solver"], market.solver.figures(KEYS)
    off = max(abs(a - b) for a, b in zip(found, table, strict=True))
    return Claim(
        f"{market.name}: the row of skfolio's CVaR solver ({', '.join(SHORT)})",
        digits(table),
        digits(found),
        verdict_of(off <= ROUNDING),
        spread="deterministic",
        why=f"The largest distance from a printed figure is {off:.1e}; half of the last digit is 5e-05.",
        rule=FIXED,
        **quoted(f"solver, {market.key}/solver"),
    )


def value_claim(market: Solved) -> Claim:
    """Check that OCE-SG reaches the solver's CVaR on the training days."""
    fit, exact = market.ours["cvar"], market.exact
    first, steps = steps_until_close(fit, exact.value), steps_of("cvar", market.quick)
    within = f"Within 1e-4 from step {first:,} on (looked at every {markets.LOG_EVERY} steps)." if first else ""
    return Claim(
        f"{market.name}: OCE-SG converges to the solver's CVaR on the training days (within 1e-4)",
        "converges",
        f"{fit.value:.6f} against {exact.value:.6f}; {fit.value - exact.value:.1e} above after {steps:,} steps",
        verdict_of(first is not None),
        spread=f"certified gap of the exact CVaR {exact.gap:.0e}",
        why=within or f"Not within 1e-4 after {steps:,} steps.",
        rule=STATEMENT,
        whose=market.whose,
        **quoted("value"),
    )


def same_cvar(market: Solved) -> Claim:
    """Check that the held-out CVaR of OCE-SG is the solver's."""
    table = printed(f"solver, {market.key}")
    mine, theirs = (f"{fit.metrics['cvar']:.4f}" for fit in (market.ours["cvar"], market.solver))
    return Claim(
        f"{market.name}: the same CVaR as skfolio's solver on the held-out days, to four digits",
        f"{table['cvar'][1]:.4f} against {table['solver'][1]:.4f}",
        f"{mine} against {theirs}",
        verdict_of(mine == theirs),
        spread="deterministic, from equal weights",
        why="The four digits are the same." if mine == theirs else "The four digits differ.",
        rule=STATEMENT,
        whose=market.whose,
        **quoted("identical"),
    )


def slightly_better(market: Solved, held_out: HeldOut) -> Claim:
    """Test that OCE-SG is better than the solver in the other metrics."""
    table, pair = printed(f"solver, {market.key}"), (market.ours["cvar"], market.solver)
    found = held_out.less(pair[0].weights, pair[1].weights)
    claim = Claim(
        f"{market.name}: CVaR by OCE-SG is marginally better than skfolio's solver on return, CDaR and Sharpe",
        " / ".join(digits(table[row][k] for k in (0, 2, 3)) for row in ("cvar", "solver")),
        " / ".join(digits(fit.figures(OTHERS)) for fit in pair),
        "undecided",
        spread="; ".join(f"{markets.SHORT[key]} {d}, {d.interval}" for key, d in found.items()),
        why="Both aim at one optimum; what is left between them is the distance not yet gone.",
        rule=BETTER,
        whose=market.whose,
        **quoted("identical"),
    )
    return with_evidence(claim, of_differences((d, wanted_sign(key)) for key, d in found.items()))


def composition_claim(market: Solved) -> Claim:
    """Check that the weights of OCE-SG converge to the solver's."""
    fit, exact, steps = market.ours["cvar"], market.exact, steps_of("cvar", market.quick)
    begun, ended = float(np.abs(fit.path[0][1] - exact.weights).sum()), fit.distance(exact)
    near = ended <= 0.1 * begun
    return Claim(
        f"{market.name}: the composition converges to the solver's (a tenth of the way, or less, is left)",
        "converges (figure)",
        f"sum of absolute differences {begun:.2f} at the start, {ended:.3f} after {steps:,} steps",
        verdict_of(near),
        spread=f"skfolio's solver is {market.solver.distance(exact):.1e} from the exact one",
        why=f"{ended / begun:.1%} of the way {'is' if near else 'is still'} left after {steps:,} steps.",
        rule=STATEMENT,
        whose=market.whose,
        **quoted("composition"),
    )


def row_claims(market: Solved) -> list[Claim]:
    """Compare the printed rows with OCE-SG from random starts, by one test of the table."""
    table = printed(f"solver, {market.key}")
    spread = {row: market.spread[judge_of(row)] for row in VARIANTS}
    unstated = [row for row in VARIANTS if ROWS[judge_of(row)].parameter]
    ranked = of_table({row: table[row] for row in VARIANTS}, spread, unstated)
    return [
        with_rank(
            Claim(
                f"{market.name}: {title_of(row)} row by OCE-SG ({', '.join(SHORT)})",
                digits(table[row]),
                digits(values.mean(axis=0)),
                "undecided",
                spread=scatter(values, "random starts"),
                why="The printed utility is risk neutral for every alpha." if row == "smooth" else "",
                **quoted(f"solver, {market.key}/{row}"),
            ),
            ranked[row],
        )
        for row, values in spread.items()
    ]


def variant_claims(market: Solved, held_out: HeldOut) -> list[Claim]:
    """Test that L-CVaR and S-CVaR outperform CVaR in the metrics in which the paper's own table says so."""
    found, table = [], printed(f"solver, {market.key}")
    for row in ("leaky", "smooth"):
        fit, cvar = market.ours[judge_of(row)], market.ours["cvar"]
        for key, d in held_out.less(fit.weights, cvar.weights).items():
            column, sign = KEYS.index(key), wanted_sign(key)
            if sign * (table[row][column] - table["cvar"][column]) <= 0:
                continue
            claim = Claim(
                f"{market.name}: {title_of(row)} outperforms CVaR on {SHORT[column]} (both by OCE-SG)",
                f"{table[row][column]:.4f} against {table['cvar'][column]:.4f}",
                f"{fit.metrics[key]:.4f} against {cvar.metrics[key]:.4f}",
                "undecided",
                spread=f"difference {d}, {d.interval}",
                rule=BETTER,
                whose=market.whose,
                **quoted("variants"),
            )
            found.append(with_evidence(claim, of_differences([(d, sign)])))
    return found


def unchecked_rows(key: str, title: str, why: str) -> list[Claim]:
    """Return the printed rows of a market that was not run, none of which is checked."""
    return [
        Claim(
            f"{title}: {title_of(row)} row", digits(values), "not run", "not checked", why=why,
            rule=FIXED if row == "solver" else ROW, **quoted(f"solver, {key}/{row}"),
        )
        for row, values in printed(f"solver, {key}").items()
    ]  # fmt: skip


# -- table and pictures -----------------------------------------------------------------------------------------------


def table_rows(market: Solved) -> list[tuple[Cell, ...]]:
    """Return each row as printed, by OCE-SG, and over random starts."""
    table, name, exact = printed(f"solver, {market.key}"), market.name, market.exact

    def found(title: str, which: str, fit: Fit) -> tuple[Cell, ...]:
        cvar = market.training_cvar(fit)
        return (name, title, which, *fit.figures(KEYS), cvar, cvar - exact.value, fit.distance(exact))

    rows: list[tuple[Cell, ...]] = [
        (name, "CVaR solver", "printed", *table["solver"], None, None, None),
        found("CVaR solver", "skfolio, conic", market.solver),
        found("CVaR solver", f"certeq, exact, gap {exact.gap:.0e}", exact),
    ]
    for row in VARIANTS:
        title, steps, values = ROWS[row].title, f"OCE-SG, {steps_of(row, market.quick):,} steps", market.spread
        rows.append((name, title, "printed", *table[row], None, None, None))
        rows.append(found(title, steps, market.ours[row]))
        if row == "cvar":
            rows.append(found(title, f"{steps}, weights as printed", market.unweighted))
        if row == "smooth":
            rows.append(found(title, f"as printed, which is risk neutral: {steps}", market.ours["mean"]))
        starts = f"{'as printed, ' if row == 'smooth' else ''}mean over {len(values['cvar'])} random starts"
        rows.append((name, title, starts, *map(float, values[judge_of(row)].mean(axis=0)), None, None, None))
    return rows


def value_picture(solved: list[Solved]) -> Picture:
    """Draw how far CVaR is above the exact one, step by step."""
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes, ends = figure.subplots(), []
    for market in solved:
        steps, values = zip(*market.ours["cvar"].values, strict=True)
        away = np.maximum(np.array(values) - market.exact.value, 1e-12)
        axes.plot(steps, away, label=market.name)
        ends.append(f"{market.name} {away[-1]:.0e}")
    axes.axhline(CLOSE, linestyle="--", color="gray", label="1e-4")
    axes.set(xlabel="Step", ylabel="CVaR above the optimum", xscale="log", yscale="log")
    axes.legend()
    alt = f"The excess falls below 1e-4 and ends at {', '.join(ends)}."
    return Picture("value", "CVaR of OCE-SG above the exact CVaR, training days", alt, figure)


def composition_picture(market: Solved) -> Picture:
    """Draw the solver's weights beside ours, and the distance between them over the steps."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    shown = {row: market.ours[row] for row in VARIANTS}
    bars = {"solver": market.solver, **shown}
    markets.draw_weights(left, market.data, bars, markets.largest(list(bars.values())), "Compositions")
    markets.draw_distances(right, shown, dict.fromkeys(shown, market.exact))
    right.set(title="Distance to the exact optimum of CVaR")
    alt = (
        f"The weights of CVaR by OCE-SG end {market.ours['cvar'].distance(market.exact):.3f} from the exact solver's "
        "in sum of absolute differences; the variants choose other weights."
    )
    return Picture(f"composition-{market.key}", f"Composition against the solver, {market.name}", alt, figure)


EXPERIMENTS = (
    Experiment("cvar-solver", "CVaR against a solver", "CVaR tables and composition figure, all three markets", run),
)
