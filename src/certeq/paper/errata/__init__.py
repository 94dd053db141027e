"""What the paper prints and what is right: every erratum as a check that runs.

A check is a small function without arguments; it computes, and comes back with a `Finding`. Here are those of
applications, batches, the tables of portfolios and the last day of the data, and the experiment that runs all of them.

A data file says itself when it ends. Without one there are two other witnesses, independent of each other: skfolio's
own description of the data set, and the printed number of days, which a calendar of trading days turns into a date.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np

import certeq as ce
from certeq.paper._experiment import Claim, Experiment, Job, Outcome, ResultTable, Verdict, Whose
from certeq.paper._quotes import ERRATA
from certeq.paper._statistics import STATEMENT
from certeq.paper.errata import _measures, _optimization
from certeq.paper.errata._measures import Finding

STEPS = 15_000
LAST, PRINTED_LAST = "2023-05-31", "2026-05-26"
FIRST = {"ftse100": "2000-01-04", "nasdaq": "2018-01-02"}
# A day of mourning on which New York did not trade, which no rule of the calendar knows.
_CLOSED = (date(2018, 12, 5),)


def uncertainty() -> Finding:
    """The entropic risk of a Gaussian log-likelihood is infinite where the model is too sure."""
    beta, y = 0.5, np.linspace(-200.0, 200.0, 400_001)
    base = -0.5 * y * y - 0.5 * math.log(2.0 * math.pi)

    def log_mean(variance: float, reach: float) -> float:
        """ln E exp(beta y^2/(2 v)) over |y| <= reach, y standard normal."""
        near = np.abs(y) <= reach
        power = base[near] + 0.5 * beta * y[near] ** 2 / variance
        top = power.max()
        return float(top + math.log(np.exp(power - top).sum() * (y[1] - y[0])))

    sure = [log_mean(0.8 * beta, reach) for reach in (20.0, 100.0, 200.0)]
    wide = [log_mean(2.0 * beta, reach) for reach in (20.0, 100.0, 200.0)]
    exact = -0.5 * math.log(0.5)
    return Finding(
        "Examples of regression and uncertainty",
        "y must be bounded too: the risk is +inf where sigma_theta^2 <= beta sigma^2",
        "bounded x and theta suffice",
        f"v = 0.8 beta sigma^2: the log of the mean grows as {sure[0]:.0f}, {sure[1]:.0f}, {sure[2]:.0f}; v = 2 beta "
        f"sigma^2: {wide[-1]:.6f}, in closed form {exact:.6f}",
        sure[0] < sure[1] < sure[2] and sure[2] > 1e3 and abs(wide[-1] - exact) < 1e-6,
    )


def small_batches() -> Finding:
    """One sample is risk neutral; printed CVaR weights vanish below 1/alpha samples and never quite sum to 1."""
    alpha, rng, printed, ours = 0.05, np.random.default_rng(4), {}, 0.0
    for m in (1, 10, 19, 64, 175):
        z = rng.normal(size=m)
        t = float(ce.threshold(z, ce.CVaR(alpha)))
        printed[m] = float(np.sum(z > t)) / (m * alpha)
        ours = max(ours, abs(float(np.sum(ce.tilt(z, ce.CVaR(alpha)))) - 1.0))
    alone = [
        float(ce.oce([2.5], u)) - float(ce.oce([0.0], u)) for u in (ce.Entropic(3.0), ce.Quartic(), ce.CVaR(alpha))
    ]
    return Finding(
        "Batches of k samples",
        "a batch of one is risk neutral; the mass that is left goes to the losses on the quantile",
        "m_k = k from k = 1, weights u'(z - t)",
        f"printed CVaR 0.05 weights sum to {', '.join(f'{v:.4f} at m = {m}' for m, v in printed.items())}; ours to 1 "
        f"within {ours:.0e}",
        printed[1] == printed[10] == printed[19] == 0.0
        and abs(printed[64] - 0.9375) < 1e-12
        and abs(printed[175] - 8 / 8.75) < 1e-12
        and ours < 1e-12
        and max(abs(x - 2.5) for x in alone) < 1e-12,
        seeded=True,
    )


def portfolio_tables() -> Finding:
    """How much of the way from equal weights to the optimum 15,000 full-batch steps of 1/sqrt(8312) go."""
    from certeq.paper._markets import load_panel, paper_step

    panel = load_panel("sp500")
    losses, share = ce.LinearLoss(panel.losses), {}
    n = losses.samples.shape[1]
    start = np.full(n, 1.0 / n)
    for utility in (ce.CVaR(0.05), ce.MonotoneMeanVariance(2)):
        best = ce.minimize(losses, utility, domain=ce.Simplex())
        walk = ce.minimize(
            losses, utility, domain=ce.Simplex(), method="sg", theta0=start, batch="full", step=paper_step(panel),
            average="last", iterations=STEPS, log_every=STEPS, progress=False,
        )  # fmt: skip
        first = float(ce.oce(losses.samples @ start, utility))
        share[utility] = (first - walk.value) / (first - best.value)
    cvar, mmv = share.values()
    return Finding(
        "Tables of portfolios",
        "from equal weights only CVaR is near its optimum after 15,000 steps; other rows are early iterates",
        "OCE-SG converges",
        f"share of the possible gain: CVaR {100 * cvar:.2f} %, MMV {100 * mmv:.1f} %",
        cvar > 0.99 and mmv < 0.9,
    )


def data_sets() -> Finding:
    """FTSE 100 and Nasdaq, each by the strongest evidence there is."""
    from certeq.paper._markets import MARKETS, find_panel

    said, agree = [], []
    for key in FIRST:
        market, panel = MARKETS[key], find_panel(key)
        days, assets = market.shape
        if not panel.synthetic:
            shape, last = (len(panel.train) + len(panel.test), panel.train.shape[1]), str(panel.test.index[-1].date())
            said.append(f"{market.title}, by its file: {shape[0]} x {shape[1]}, last day {last}")
            agree.append(shape == market.shape and last == LAST)
            continue
        described = description(market.loader)
        words = (
            f"{market.title}, without its file: skfolio describes {described[2]} prices of {described[3]} assets to "
        )
        words += described[1]
        fits = described == (FIRST[key], LAST, days + 1, assets)
        if key == "nasdaq":
            right, printed = (len(trading_days(FIRST[key], end)) for end in (LAST, PRINTED_LAST))
            words += f"; New York traded on {right} days up to then and on {printed} up to {PRINTED_LAST}"
            fits = fits and right == days + 1 and printed > days + 1
        said.append(words)
        agree.append(fits)
    return Finding(
        "Data sets",
        f"skfolio's FTSE and Nasdaq data end on {LAST}; their shapes agree",
        f"FTSE and Nasdaq up to {PRINTED_LAST}",
        "; ".join(said),
        all(agree),
    )


def description(loader: str) -> tuple[str, str, int, int]:
    """First and last day, number of days and of assets, as the loader's documentation states them."""
    import skfolio.datasets

    text = getattr(skfolio.datasets, loader).__doc__ or ""
    span = re.search(r"from\s+(\d{4}-\d{2}-\d{2})\s+(?:up\s+)?to\s+(\d{4}-\d{2}-\d{2})", text)
    sizes = [re.search(rf"{word}\s+(\d+)", text) for word in ("Observations", "Assets")]
    if span is None or sizes[0] is None or sizes[1] is None:
        raise ValueError(f"skfolio's {loader} no longer states the span and the size of its data.")
    return span[1], span[2], int(sizes[0][1]), int(sizes[1][1])


def trading_days(first: str, last: str) -> Any:
    """Days on which the New York exchanges traded, both ends included, from the rules of their holidays."""
    import pandas as pd
    from pandas.tseries import holiday as rules

    calendar = rules.AbstractHolidayCalendar(
        "New York",
        rules=[
            # A New Year's Day on a Saturday is not made up for: the Friday before belongs to the old year.
            rules.Holiday("New Year", month=1, day=1, observance=rules.sunday_to_monday),
            rules.USMartinLutherKingJr,
            rules.USPresidentsDay,
            rules.GoodFriday,
            rules.USMemorialDay,
            rules.Holiday("Juneteenth", month=6, day=19, start_date="2022-01-01", observance=rules.nearest_workday),
            rules.Holiday("Independence Day", month=7, day=4, observance=rules.nearest_workday),
            rules.USLaborDay,
            rules.USThanksgivingDay,
            rules.Holiday("Christmas", month=12, day=25, observance=rules.nearest_workday),
        ],
    )
    closed = calendar.holidays(first, last).union(pd.DatetimeIndex(_CLOSED))
    return pd.bdate_range(first, last).difference(closed)


CHECKS: dict[str, Callable[[], Finding]] = {
    check.__name__.replace("_", "-"): check
    for check in (
        *_measures.CHECKS,
        *_optimization.CHECKS,
        uncertainty,
        small_batches,
        data_sets,
        portfolio_tables,
    )
}


def run(job: Job) -> Outcome:
    """All checks, each as a claim: the printed statement, what was found, what is right."""
    findings = {name: check() for name, check in CHECKS.items()}
    columns = ("Check", "Line", "Where", "Printed", "Right", "Found", "Correction holds")
    rows = tuple(
        (name, ERRATA[name][0], f.where, f.printed, f.right, f.found,
         "not checked" if f.holds is None else "yes" if f.holds else "no")
        for name, f in findings.items()
    )  # fmt: skip
    right = sum(bool(f.holds) for f in findings.values())
    return Outcome(
        tables=(ResultTable("errata", "What is printed, what is right", columns, rows),),
        claims=tuple(_claim(f, *ERRATA[name]) for name, f in findings.items()),
        notes=(
            f"{len(findings)} statements, each with a check that computes the printed form and the corrected one. A "
            "statement that is false or misprinted is 'corrected' if its correction passed the check; one that is true "
            "but loose or silent is 'reproduced'. Remarks on what the paper does not state are counted as ours.",
        ),
        numbers={"checks": len(findings), "corrections that hold": right},
    )


def _claim(finding: Finding, line: int, quote: str) -> Claim:
    verdict: Verdict = "not checked"
    why = f"The data were not to be had. Right: {finding.right}."
    if finding.holds is not None:
        why = f"Right: {finding.right}." if finding.holds else f"THE CORRECTION FAILS ITS CHECK: {finding.right}."
        if finding.holds and finding.stands:
            said = "The paper does not say it" if finding.remark else "True as it stands, and not all that can be said"
            why = f"{said}: {finding.right}."
        verdict = "not reproduced" if not finding.holds else "reproduced" if finding.stands else "corrected"
    whose: Whose = "ours" if finding.remark else "paper"
    text = f"{finding.where}: {finding.printed}"
    spread = "none: one fixed seed" if finding.seeded else "none: the check is exact"
    return Claim(text, "as stated", finding.found, verdict, spread, why, STATEMENT, whose, line, quote)


EXPERIMENTS = (Experiment(name="errata", title="Errata, each with a check", where="The whole paper", run=run),)

__all__ = ["CHECKS", "EXPERIMENTS", "Finding", "run"]
