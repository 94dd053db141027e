"""What the paper says of its portfolios: the rows, against the benchmarks, and that the compositions converge."""

from __future__ import annotations

from typing import Any

import numpy as np

from certeq.paper._comparisons import Difference
from certeq.paper._experiment import Claim
from certeq.paper._fits import ROWS, STEPS
from certeq.paper._printed import CVAR_TABLES, PORTFOLIOS
from certeq.paper._verdicts import ROUNDING, SHARPE_MARGIN, of_difference, of_likeness, of_row, weakest
from certeq.paper.portfolios._protocol import KEYS, OCES, SHORT, Fit, Fits, figures_of, steps_of

RETURN, SHARPE = "annualized_mean", "annualized_sharpe_ratio"
Printed = dict[str, tuple[float, ...]]
Differences = dict[tuple[str, str, str], dict[str, Difference]]


def benchmarks_claim(printed: Printed, fitted: Fits) -> Claim:
    """What has no randomness."""
    off = np.concatenate([np.abs(np.subtract(figures_of(fit), printed[row])) for row, fit in fitted.items()])
    loose = np.repeat([row == "sharpe" for row in fitted], len(KEYS))
    same, worst = int((off <= ROUNDING).sum()), float(off.max())
    reproduced = bool(np.all(off <= np.where(loose, 1e-4 + ROUNDING, ROUNDING)))
    why = ""
    if reproduced and same < off.size:
        why = "The cells that differ are of maximum Sharpe, where the conic solver's own tolerance reaches that digit."
    return Claim(
        f"Benchmarks: {', '.join(ROWS[row].title for row in fitted)}, seven figures each",
        "as in the table",
        f"{same} of {off.size} cells agree to four digits; the furthest is {worst:.1e} away",
        "reproduced" if reproduced else "not reproduced",
        "deterministic",
        why,
    )


def row_claim(market: str, row: str, spread: Any, fit: Fit, best: Fit, quick: bool) -> Claim:
    """A printed row against OCE-SG over random starts."""
    printed = PORTFOLIOS[market][row]
    verdict, beyond = of_row(printed, spread)
    why = []
    if beyond.any():
        missed = ", ".join(SHORT[place] for place in np.flatnonzero(beyond))
        above = fit["value"] - best["value"]
        why.append(
            f"Further off than 2 sd over the starts: {missed}. No parameter is stated, and after "
            f"{steps_of(row, quick):,} steps the OCE is still {above:.1e} above its optimum."
        )
    other = CVAR_TABLES[market].get(row)
    if other is not None:
        pairs = zip(("Return", "CVaR", "CDaR", "Sharpe"), other, strict=True)
        apart = max(pairs, key=lambda pair: abs(pair[1] - printed[SHORT.index(pair[0])]))
        if apart[1] != printed[SHORT.index(apart[0])]:
            mine = printed[SHORT.index(apart[0])]
            why.append(f"The paper's other printing of this row has {apart[0]} {apart[1]:.4f} instead of {mine:.4f}.")
    if row == "smooth":
        why.append("The printed utility is risk neutral by mistake; ours is the corrected one (see the last rows).")
    return Claim(
        f"{ROWS[row].title} row by OCE-SG ({', '.join(SHORT)})",
        " ".join(f"{value:.4f}" for value in printed),
        " ".join(f"{value:.4f}" for value in spread.mean(axis=0)),
        verdict,
        "sd " + " ".join(f"{value:.4f}" for value in spread.std(axis=0, ddof=1)) + f" over {len(spread)} starts; "
        "from equal weights " + " ".join(f"{value:.4f}" for value in figures_of(fit)),
        " ".join(why),
    )  # fmt: skip


def cvar_claim(fitted: Fits, ours: Fits) -> Claim:
    """That minimising CVaR shows in the held-out CVaR, as the paper observes in all three markets."""
    table = {ROWS[row].title: fit["metrics"]["cvar"] for row, fit in {**fitted, **{r: ours[r] for r in OCES}}.items()}
    order = sorted(table, key=lambda name: table[name])
    return Claim(
        "The CVaR portfolio has the smallest CVaR on the held-out days",
        "smallest of the ten",
        f"{table['CVaR']:.4f}, rank {order.index('CVaR') + 1} of {len(order)}; least: {order[0]} {table[order[0]]:.4f}",
        "reproduced" if order[0] == "CVaR" else "not reproduced",
        "",
        "" if order[0] == "CVaR" else f"{order[0]} is lower on these days.",
    )


def outperform_claims(market: str, differences: Differences, benchmarks: tuple[str, ...]) -> list[Claim]:
    """That OCE portfolios outperform each benchmark, in return and in Sharpe ratio.

    On trial are the rows that the paper's own table has above the benchmark.
    """
    claims, printed = [], PORTFOLIOS[market]
    for other in benchmarks:
        for key in (RETURN, SHARPE):
            place = KEYS.index(key)
            rows = [row for row in OCES if printed[row][place] > printed[other][place]]
            text = f"OCE portfolios outperform {ROWS[other].title} in {'return' if key == RETURN else 'Sharpe ratio'}"
            if not rows:
                higher = sum(differences[row, "protocol", other][key].value > 0 for row in OCES)
                why = "The paper says that they outperform the benchmarks, and its own table has no row that does here."
                claims.append(Claim(text, "0 of 7 higher", f"{higher} of 7 higher", "not checked", why=why))
                continue
            found = {row: differences[row, "protocol", other][key] for row in rows}
            sure = [ROWS[row].title for row, d in found.items() if d.low > 0]
            less = [ROWS[row].title for row, d in found.items() if d.value <= 0]
            least = min(found, key=lambda row: found[row].value)
            claims.append(
                Claim(
                    text,
                    f"{len(rows)} of 7 higher: "
                    + ", ".join(f"{ROWS[r].title} {printed[r][place] - printed[other][place]:+.4f}" for r in rows),
                    f"{len(rows) - len(less)} of those {len(rows)} higher: "
                    + ", ".join(f"{ROWS[r].title} {d.value:+.4f}" for r, d in found.items()),
                    weakest(of_difference(d.value, d.low, d.high) for d in found.values()),
                    f"95 % of the weakest ({ROWS[least].title}) {found[least].low:+.4f} to {found[least].high:+.4f}",
                    f"Beyond the luck of the days: {', '.join(sure) or 'none'}."
                    + (f" Not higher: {', '.join(less)}." if less else ""),
                )
            )
    return claims


def comparable_claims(differences: Differences, benchmarks: tuple[str, ...]) -> list[Claim]:
    """That OCE portfolios are comparable to each benchmark or better: two one-sided tests on the Sharpe ratio."""
    claims = []
    for which, name in (("protocol", "OCE-SG"), ("optimum", "true optima")):
        for other in benchmarks:
            found = {row: differences[row, which, other][SHARPE] for row in OCES}
            ends = [(d.floor, d.ceiling) for d in found.values()]
            lowest = min(found, key=lambda row: found[row].floor)
            sure = sum(floor > -SHARPE_MARGIN for floor, _ in ends)
            claims.append(
                Claim(
                    f"OCE portfolios ({name}) are comparable to {ROWS[other].title} in Sharpe ratio, or better",
                    "comparable, or better",
                    f"{sure} of 7 are above -{SHARPE_MARGIN:g} with 95 % confidence; "
                    f"higher: {sum(d.value > 0 for d in found.values())} of 7",
                    of_likeness(ends, SHARPE_MARGIN),
                    f"lowest: {ROWS[lowest].title} {found[lowest].value:+.4f}, 90 % {found[lowest].floor:+.4f} to "
                    f"{found[lowest].ceiling:+.4f}",
                    "" if sure == len(OCES) else f"{7 - sure} of 7 cannot be told: the days are too few.",
                )
            )
    return claims


def optimum_claim(ours: Fits, best: Fits, quick: bool) -> Claim:
    """That OCE-SG has converged: how much of the way from equal weights to the optimum it has gone."""
    far = {row: max(0.0, ours[row]["value"] - best[row]["value"]) for row in OCES}
    moved = {row: float(np.abs(np.subtract(ours[row]["weights"], best[row]["weights"])).sum()) for row in OCES}
    near = [ROWS[row].title for row in OCES if moved[row] <= 0.1]
    all_near = len(near) == len(OCES)
    steps = f"{STEPS:,}" if not quick else "these"
    why = (
        f"Gradients of daily returns are of order 0.001, so {steps} steps of 1/sqrt(M) are an early iterate for the "
        "rest; the figure shows all of them on their way."
    )
    return Claim(
        "The portfolio compositions converge: OCE-SG ends at the optimum",
        f"converges in {STEPS:,} steps",
        f"weights within 0.1 of the optimum (sum of absolute differences): {', '.join(near) or 'none'}; "
        f"furthest {max(moved.values()):.2f}",
        "reproduced" if all_near else "not reproduced",
        f"OCE above its optimum by {min(far.values()):.0e} to {max(far.values()):.0e}",
        "" if all_near else why,
    )
