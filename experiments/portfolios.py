"""Portfolios: each printed row beside the paper's protocol and the true optimum, on held-out days.

The benchmarks have no randomness and must come out as printed. The OCE rows depend on what the paper does not state
(alpha, beta, the start): they run from equal weights and from random starts, and the exact solver shows where the
15,000 steps lead. S-CVaR as printed is risk neutral, and its printed rows are judged by the risk-neutral portfolio.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments import markets
from experiments.common import Cell, Claim, Experiment, Job, Outcome, Picture, Table, printed, quoted
from experiments.markets import KEYS, MARKETS, ROWS, SHORT, STEPS, Fit, Returns, judge_of, steps_of, title_of
from experiments.verdicts import (
    BETTER,
    FIXED,
    LIKE,
    ROUNDING,
    ROW,
    SHARPE_MARGIN,
    STATEMENT,
    HeldOut,
    controlled,
    digits,
    likeness,
    of_differences,
    of_table,
    scatter,
    unchecked,
    verdict_of,
    with_evidence,
    with_rank,
)

BENCHMARKS = ("hrp", "equal", "sharpe")
OCES = ("entropic", "cvar", "leaky", "smooth", "mv", "mmv", "quartic")
RISING = ("entropic", "mv", "mmv", "smooth", "quartic")  # the risks that the paper names for rising markets
RETURN, SHARPE, SORTINO = "annualized_mean", "annualized_sharpe_ratio", "annualized_sortino_ratio"
NAMES = {RETURN: "return", SHARPE: "Sharpe ratio", SORTINO: "Sortino ratio"}
Differences = dict[tuple[str, str], dict[str, Any]]  # of (OCE row, benchmark), by metric


def run(market: str, job: Job) -> Outcome:
    """Run one market."""
    data, rows = markets.load(market), (*OCES, "mean")
    fitted = markets.by_row(job, markets.fit_benchmark, market, BENCHMARKS)
    best = markets.by_row(job, markets.fit_exact, market, rows)
    ours = markets.walks(job, market, rows)
    (unweighted,) = markets.fits(
        job, markets.fit_printed_weights, [{"market": market, "steps": steps_of("cvar", job.quick)}]
    )
    spread = markets.spread(job, market, [judge_of(row) for row in OCES])
    held_out = HeldOut(data, tuple(NAMES))
    differences = {
        (row, other): held_out.less(ours[judge_of(row)].weights, fitted[other].weights)
        for other in BENCHMARKS for row in OCES
    }  # fmt: skip
    claims = [
        *row_claims(market, spread, ours),
        cvar_claim(fitted, ours),
        *(outperform_claims(differences) if market == "sp500" else []),
        *rising_claims(market, differences),
        *comparable_claims(differences),
        optimum_claim(ours, best),
    ]
    claims = controlled(claims)
    if job.quick:
        claims = [unchecked(claim, f"A quick run: fewer steps than the paper's {STEPS:,}.") for claim in claims]
    starts = len(spread["cvar"])
    return Outcome(
        tables=(
            main_table(market, fitted, ours, best, unweighted, job.quick),
            starts_table(spread),
            difference_table(differences),
        ),
        pictures=(
            returns_picture(market, data, fitted, ours, best),
            composition_picture(market, data, fitted, ours, best),
            convergence_picture(market, data, ours, best),
        ),
        claims=(benchmarks_claim(market, fitted), *claims),
        notes=_notes(data, job.quick, starts, ours["cvar"], unweighted),
        numbers={
            "optimum": {row: {"oce": fit.value, "gap": fit.gap} for row, fit in best.items()},
            "oce_sg": {row: fit.value for row, fit in ours.items()},
            "days": [len(data.train), len(data.test)],
            "starts": starts,
        },
        seeds=tuple(range(starts)),
    )


def _notes(data: Returns, quick: bool, starts: int, cvar: Fit, unweighted: Fit) -> tuple[str, ...]:
    days, assets = data.train.shape
    pairs = [f"{fit.metrics[RETURN]:.4f} / {fit.metrics[SHARPE]:.4f}" for fit in (unweighted, cvar)]
    notes = [
        f"{assets} assets, fitted on {days} days to {data.train.index[-1]:%Y-%m-%d}, judged on the {len(data.test)} "
        "days that follow.",
        "The paper states neither alpha nor beta nor the start. Here alpha = 0.05, beta = 1, a = 2; the rows are "
        f"judged by {starts} random starts and shown from equal weights too. S-CVaR as printed has slopes below 1, and "
        "its OCE is the mean: the claims on it are judged by the risk-neutral portfolio. The corrected Smooth CVaR "
        "stands beside it in the table without a claim.",
        f"The step is 1/sqrt(M) = {data.step:.5f} with M the {days + len(data.test)} days of the data set, as the "
        "paper defines M (line 1154), though a step can only have used the training days.",
        "Our CVaR row uses corrected weights, which sum to 1: the losses at the quantile share the missing weight. "
        f"With the weights as printed, return and Sharpe ratio are {pairs[0]} instead of {pairs[1]}.",
    ]
    if quick:
        notes.append(
            f"A quick run: {steps_of('mmv', True):,} steps ({steps_of('cvar', True):,} for CVaR) instead of {STEPS:,}."
        )
    return tuple(notes)


# -- claims -----------------------------------------------------------------------------------------------------------


def benchmarks_claim(market: str, fitted: dict[str, Fit]) -> Claim:
    """Compare the benchmarks with print; they have no randomness."""
    table = printed(market)
    off = np.array([np.abs(np.subtract(fitted[row].figures(), table[row])) for row in BENCHMARKS])
    loose = np.array([[1e-4 if row == "sharpe" else 0.0] for row in BENCHMARKS])  # the tolerance of its solver
    same, holds = int((off <= ROUNDING).sum()), bool(np.all(off <= loose + ROUNDING))
    why = "Half of the last printed digit is 5e-05."
    if holds and same < off.size:
        why = "The cells that differ are of maximum Sharpe, where the conic solver's own tolerance reaches that digit."
    return Claim(
        f"Benchmarks: {', '.join(ROWS[row].title for row in BENCHMARKS)}, seven figures each",
        "as in the table",
        f"{same} of {off.size} cells agree to four digits; the furthest is {off.max():.1e} away",
        verdict_of(holds),
        spread="deterministic",
        why=why,
        rule=FIXED,
        **quoted(f"{market}/hrp"),
    )


def row_claims(market: str, spread: dict[str, Any], ours: dict[str, Fit]) -> list[Claim]:
    """Compare the printed OCE rows with OCE-SG from random starts, by one test of the table."""
    table, other = printed(market), printed(f"solver, {market}")
    unstated = [row for row in OCES if ROWS[judge_of(row)].parameter]
    ranked = of_table({row: table[row] for row in OCES}, {row: spread[judge_of(row)] for row in OCES}, unstated)
    claims = []
    for row in OCES:
        values, fit = spread[judge_of(row)], ours[judge_of(row)]
        why = ["The printed utility is risk neutral for every alpha."] if row == "smooth" else []
        if row in other:
            pairs = zip(("annualized_mean", "cvar", "cdar", SHARPE), other[row], strict=True)
            apart = {key: (table[row][KEYS.index(key)], again) for key, again in pairs}
            key = max(apart, key=lambda key: abs(apart[key][1] - apart[key][0]))
            one, again = apart[key]
            if one != again:
                why.append(f"The paper's other printing of this row has {SHORT[key]} {again:.4f} instead of {one:.4f}.")
        claim = Claim(
            f"{title_of(row)} row by OCE-SG ({', '.join(SHORT.values())})",
            digits(table[row]),
            digits(values.mean(axis=0)),
            "undecided",
            spread=f"{scatter(values, 'starts')}; from equal weights {digits(fit.figures())}",
            why=" ".join(why),
            **quoted(f"{market}/{row}"),
        )
        claims.append(with_rank(claim, ranked[row]))
    return claims


def cvar_claim(fitted: dict[str, Fit], ours: dict[str, Fit]) -> Claim:
    """Check that minimizing CVaR shows in the held-out CVaR, as the paper observes in all markets."""
    fits = {**fitted, **{row: ours[judge_of(row)] for row in OCES}}
    table = {ROWS[row].title: fit.metrics["cvar"] for row, fit in fits.items()}
    order = sorted(table, key=lambda name: table[name])
    first = order[0] == "CVaR"
    return Claim(
        "The CVaR portfolio has the smallest CVaR on the held-out days",
        "smallest of the ten",
        f"{table['CVaR']:.4f}, rank {order.index('CVaR') + 1} of {len(order)}; least: {order[0]} {table[order[0]]:.4f}",
        verdict_of(first),
        spread="deterministic, from equal weights",
        why="The convergence theorem it is said to validate excludes CVaR, whose utility is not differentiable."
        if first
        else f"{order[0]} is lower on these days.",
        rule=STATEMENT,
        **quoted("cvar metric"),
    )


def outperform_claims(differences: Differences) -> list[Claim]:
    """Test that OCE portfolios outperform each benchmark in return, Sharpe and Sortino ratio, said of the S&P 500.

    Only rows that the paper's own table has above the benchmark are tested; where it has none, it refutes the claim.
    """
    claims, table = [], printed("sp500")
    for other in BENCHMARKS:
        for key, name in NAMES.items():
            text, column = f"OCE portfolios outperform {ROWS[other].title} in {name}", KEYS.index(key)
            pairs = [(row, other) for row in OCES if table[row][column] > table[other][column]]
            if pairs:
                claim = _above("sp500", differences, pairs, key)
            else:
                higher = sum(differences[row, other][key].value > 0 for row in OCES)
                why = "The paper's own table refutes it: no OCE row is above the benchmark."
                claim = Claim(
                    text, "0 of 7 higher", f"{higher} of 7 higher here", "not reproduced", "deterministic", why,
                    STATEMENT,
                )  # fmt: skip
            claims.append(replace(claim, text=text, **quoted("outperform")))
    return claims


def rising_claims(market: str, differences: Differences) -> list[Claim]:
    """Test that the five risks named for rising markets are better, for the pairs that the paper's table has so."""
    claims, table = [], printed(market)
    for key, name in NAMES.items():
        column, pairs = KEYS.index(key), [(row, other) for row in RISING for other in BENCHMARKS]
        stated = [(row, other) for row, other in pairs if table[row][column] > table[other][column]]
        claim = _above(market, differences, stated, key)
        refuted = len(pairs) - len(stated)
        why = f"The paper's own table has the opposite in {refuted} of {len(pairs)} pairs. " if refuted else ""
        text = f"Rising market: Entropic, MV, MMV, S-CVaR and quartic risk are better in {name}"
        claims.append(replace(claim, text=text, why=f"{why}{claim.why}".strip(), **quoted("rising")))
    return claims


def _above(market: str, differences: Differences, pairs: list[tuple[str, str]], key: str) -> Claim:
    """Test that each row is above the benchmark in a metric."""
    table, column = printed(market), KEYS.index(key)
    found = {pair: differences[pair][key] for pair in sorted(pairs)}
    less = [f"{ROWS[row].title} / {ROWS[other].title}" for (row, other), d in found.items() if d.value <= 0]
    weakest = min(found, key=lambda pair: found[pair].value)
    gains = [table[row][column] - table[other][column] for row, other in found]
    values = [d.value for d in found.values()]
    claim = Claim(
        "",
        f"{len(found)} pairs higher, by {min(gains):+.4f} to {max(gains):+.4f}",
        f"{len(found) - len(less)} of those {len(found)} higher, by {min(values):+.4f} to {max(values):+.4f}",
        "undecided",
        spread=f"the weakest, {ROWS[weakest[0]].title} less {ROWS[weakest[1]].title}: {found[weakest]}, "
        f"{found[weakest].interval}",
        why=f"Not higher: {', '.join(less)}." if less else "",
        rule=BETTER,
    )
    return with_evidence(claim, of_differences((d, 1.0) for d in found.values()))


def comparable_claims(differences: Differences) -> list[Claim]:
    """Test that OCE portfolios are comparable to each benchmark in Sharpe ratio, or better, by one-sided tests."""
    claims = []
    for other in BENCHMARKS:
        found = {ROWS[row].title: differences[row, other][SHARPE] for row in OCES}
        sure, evidence, lowest = likeness(found, SHARPE_MARGIN)
        claim = Claim(
            f"OCE portfolios are comparable to {ROWS[other].title} in Sharpe ratio, or better",
            "comparable, or better",
            f"{sure} of 7 are above -{SHARPE_MARGIN:g} with 95% confidence; "
            f"higher: {sum(d.value > 0 for d in found.values())} of 7",
            "undecided",
            spread=lowest,
            rule=LIKE,
            **quoted("comparable"),
        )
        claims.append(with_evidence(claim, evidence))
    return claims


def optimum_claim(ours: dict[str, Fit], best: dict[str, Fit]) -> Claim:
    """Check that OCE-SG has converged: how far its weights are from the optimum."""
    above = [max(0.0, ours[row].value - best[row].value) for row in OCES]
    away = {row: ours[row].distance(best[row]) for row in OCES}
    near = [ROWS[row].title for row in OCES if away[row] <= 0.1]
    all_near = len(near) == len(OCES)
    why = (
        f"Gradients of daily returns are of order 0.001, so {STEPS:,} steps of 1/sqrt(M) are an early iterate for the "
        "rest; the picture shows all of them on their way."
    )
    return Claim(
        f"OCE-SG ends at the optimum: {STEPS:,} steps from equal weights",
        "portfolio allocations are called OCE-optimal",
        f"weights within 0.1 of the optimum (sum of absolute differences): {', '.join(near) or 'none'}; "
        f"furthest {max(away.values()):.2f}",
        verdict_of(all_near),
        spread=f"OCE above its optimum by {min(above):.0e} to {max(above):.0e}",
        why="" if all_near else why,
        rule=STATEMENT,
        **quoted("outperform"),
    )


# -- tables -----------------------------------------------------------------------------------------------------------


def main_table(
    market: str, fitted: dict[str, Fit], ours: dict[str, Fit], best: dict[str, Fit], unweighted: Fit, quick: bool
) -> Table:
    """Return each row as printed, by the paper's protocol, and at the true optimum."""
    table, nothing = printed(market), (None, None, None, None)
    rows: list[tuple[Cell, ...]] = []

    def add(row: str, which: str, fit: Fit, optimum: Fit | None) -> None:
        above = None if optimum is None else max(0.0, fit.value - optimum.value)
        oce = None if optimum is None else fit.value
        off = None if row not in table else float(np.max(np.abs(np.subtract(fit.figures(), table[row]))))
        rows.append((ROWS[row].title, which, *fit.figures(), oce, above, fit.gap, off))

    for row in (*BENCHMARKS, *OCES, "mean"):
        if row in table:
            rows.append((ROWS[row].title, "printed", *table[row], *nothing))
        if row in fitted:
            add(row, "here", fitted[row], None)
            continue
        steps = f"OCE-SG, {steps_of(row, quick):,} steps"
        add(row, steps, ours[row], best[row])
        if row == "cvar":
            add(row, f"{steps}, weights as printed", unweighted, best[row])
        add(row, "true optimum", best[row], best[row])
    head = ("Portfolio", "Row", *SHORT.values(), "OCE (train)", "Above optimum", "Certified gap", "Furthest from print")
    title = f"{MARKETS[market].title}: each row as printed, by the paper's protocol, and at the true optimum"
    return Table("portfolios", title, head, tuple(rows))


def starts_table(spread: dict[str, Any]) -> Table:
    """Return OCE-SG over random starts."""
    rows: list[tuple[Cell, ...]] = [
        (ROWS[row].title, name, *map(float, values))
        for row, found in spread.items()
        for name, values in (
            ("mean", found.mean(axis=0)), ("standard deviation", found.std(axis=0, ddof=1)),
            ("least", found.min(axis=0)), ("most", found.max(axis=0)),
        )
    ]  # fmt: skip
    title = f"OCE-SG from {len(spread['cvar'])} random starts"
    return Table("starts", title, ("Portfolio", "Over the starts", *SHORT.values()), tuple(rows))


def difference_table(differences: Differences) -> Table:
    """Return OCE portfolios minus benchmarks on the held-out days."""
    rows: list[tuple[Cell, ...]] = [
        (ROWS[row].title, ROWS[other].title, *(x for d in by_key.values() for x in (d.value, d.low, d.high)))
        for (row, other), by_key in differences.items()
    ]
    head = ("Portfolio", "Less", *(f"{SHORT[key]}{tail}" for key in NAMES for tail in ("", ", low", ", high")))
    title = "OCE portfolios less benchmarks, held out, with paired 95% bootstrap intervals"
    return Table("differences", title, head, tuple(rows))


# -- pictures ---------------------------------------------------------------------------------------------------------


def returns_picture(
    market: str, data: Returns, fitted: dict[str, Fit], ours: dict[str, Fit], best: dict[str, Fit]
) -> Picture:
    """Draw sums of daily returns on the held-out days: the paper's protocol, and the true optima."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, fits, title in zip(panels, (ours, best), ("OCE-SG, the paper's protocol", "True optima"), strict=True):
        for row in (*OCES, *BENCHMARKS):
            fit = fitted.get(row) or fits[row]
            path = np.cumsum(data.held_out(fit.weights))
            axes.plot(data.test.index, path, "--" if row in fitted else "-", label=ROWS[row].title, linewidth=1)
        axes.set(title=title, ylabel="Cumulative return")
        axes.legend(ncols=2)
    final = {ROWS[row].title: float(data.held_out(ours[row].weights).sum()) for row in OCES}
    top, low = max(final, key=lambda name: final[name]), min(final, key=lambda name: final[name])
    alt = (
        f"Uncompounded sums of daily returns from {data.test.index[0]:%Y-%m-%d} to {data.test.index[-1]:%Y-%m-%d}. By "
        f"the paper's protocol {top} ends highest ({final[top]:.2f}) and {low} lowest ({final[low]:.2f}); benchmarks "
        "are dashed."
    )
    return Picture("cumulative-returns", f"Cumulative returns, {MARKETS[market].title}, held out", alt, figure)


def composition_picture(
    market: str, data: Returns, fitted: dict[str, Fit], ours: dict[str, Fit], best: dict[str, Fit]
) -> Picture:
    """Draw the weights of all portfolios."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    optima = {row: best[row] for row in OCES}
    protocol = {**fitted, **{row: ours[row] for row in OCES}}
    columns = markets.largest([*protocol.values(), *optima.values()])
    markets.draw_weights(left, data, protocol, columns, "OCE-SG and benchmarks")
    markets.draw_weights(right, data, optima, columns, "True optima")
    held = ", ".join(f"{int((fit.weights > 1e-6).sum())} ({ROWS[row].title})" for row, fit in optima.items())
    alt = f"Stacked weights. At the true optima the number of assets held is {held}."
    return Picture("composition", f"Portfolio composition, {MARKETS[market].title}", alt, figure)


def convergence_picture(market: str, data: Returns, ours: dict[str, Fit], best: dict[str, Fit]) -> Picture:
    """Draw the weights of CVaR over the steps, and how far each portfolio is from its optimum."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    markets.draw_path(left, data, ours["cvar"], "Weights of CVaR by OCE-SG")
    markets.draw_distances(right, {row: ours[row] for row in OCES}, best)
    ends = ", ".join(f"{ROWS[row].title} {ours[row].distance(best[row]):.2f}" for row in OCES)
    alt = f"Left, the weights of the CVaR portfolio settle. Right, the distance to the true optimum; it ends at {ends}."
    return Picture("convergence", f"Compositions over the iterations, {MARKETS[market].title}", alt, figure)


# -- Nasdaq -----------------------------------------------------------------------------------------------------------


def run_nasdaq(job: Job) -> Outcome:
    """Return the claims on the Nasdaq panel, none of which is checked."""
    texts = {
        "nasdaq/hrp": ("Benchmarks: HRP, Equal weights, Maximum Sharpe, seven figures each", FIXED),
        **{f"nasdaq/{row}": (f"{title_of(row)} row by OCE-SG", ROW) for row in OCES},
        "cvar metric": ("The CVaR portfolio has the smallest CVaR on the held-out days", STATEMENT),
        "falling": ("Falling market: CVaR outperforms the benchmarks in return, Sharpe and Sortino ratio", BETTER),
        "comparable": ("OCE portfolios are comparable to the benchmarks in Sharpe ratio, or better", LIKE),
    }
    claims = (
        Claim(text, "as in the table", "not run", "not checked", why=markets.NO_NASDAQ, rule=rule, **quoted(key))
        for key, (text, rule) in texts.items()
    )
    return Outcome(claims=tuple(claims), notes=(markets.NO_NASDAQ,))


EXPERIMENTS = (
    *(
        Experiment(
            f"portfolio-{key}",
            f"Portfolios, {market.title}",
            f"Portfolio table and figure of the {market.title} panel",
            partial(run, key),
        )
        for key, market in MARKETS.items()
    ),
    Experiment("portfolio-nasdaq", "Portfolios, Nasdaq", "Portfolio table and figure of the Nasdaq panel", run_nasdaq),
)
