"""What the paper says of CVaR and its variants beside a solver's CVaR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from certeq.paper._comparisons import HeldOut, wanted_sign
from certeq.paper._experiment import Claim
from certeq.paper._fits import LOG_EVERY, ROWS
from certeq.paper._panels import MARKETS, Panel
from certeq.paper._printed import CVAR_TABLES
from certeq.paper._verdicts import of_difference, of_row, weakest
from certeq.paper.portfolios._protocol import Fit, Fits, figures_of

VARIANTS = ("cvar", "leaky", "smooth")
KEYS = ("annualized_mean", "cvar", "cdar", "annualized_sharpe_ratio")
SHORT = ("Return", "CVaR", "CDaR", "Sharpe")
OTHERS = tuple(key for key in KEYS if key != "cvar")
CLOSE = 1e-4


@dataclass(frozen=True)
class Market:
    """All that was found for one market; ``solver`` is None where a quick run leaves it out."""

    key: str
    panel: Panel
    ours: Fits
    exact: Fit
    solver: Fit | None
    spread: dict[str, Any]
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


def steps_until_close(fit: Fit, exact: float) -> int | None:
    """The logged step from which on every logged iterate has its CVaR within 1e-4 of the exact one; None if never."""
    away = np.flatnonzero(np.asarray(fit["values"]) - exact > CLOSE)
    if away.size == 0:
        return int(fit["steps"][0])
    return int(fit["steps"][away[-1] + 1]) if away[-1] + 1 < len(fit["steps"]) else None


def distance(one: Fit, two: Fit) -> float:
    """Sum of absolute differences of the weights."""
    return float(np.abs(np.subtract(one["weights"], two["weights"])).sum())


def claims(market: Market) -> list[Claim]:
    """Value, held-out CVaR, the other metrics, the composition, the printed rows, and the variants against CVaR."""
    held_out = HeldOut(market.panel, OTHERS)
    rows = [] if market.quick else [_row(market, row) for row in VARIANTS]
    return [
        _value(market), _same_cvar(market), _slightly_better(market, held_out), _composition(market), *rows,
        *_variants(market, held_out),
    ]  # fmt: skip


def _value(market: Market) -> Claim:
    fit, exact = market.ours["cvar"], market.exact
    first = steps_until_close(fit, exact["value"])
    return Claim(
        f"{market.name}: OCE-SG converges to the solver's CVaR on the training days (within 1e-4)",
        "converges",
        f"{fit['value']:.6f} against {exact['value']:.6f}; {fit['value'] - exact['value']:.1e} above after "
        f"{market.steps:,} steps",
        "reproduced" if first is not None else "not reproduced",
        f"certified gap of the exact CVaR {exact['gap']:.0e}",
        f"Within 1e-4 from step {first:,} on (looked at every {LOG_EVERY} steps)." if first is not None
        else f"Not within 1e-4 after {market.steps:,} steps.",
    )  # fmt: skip


def _same_cvar(market: Market) -> Claim:
    printed, (reference, whose) = CVAR_TABLES[market.key], market.reference
    mine, theirs = (f"{fit['metrics']['cvar']:.4f}" for fit in (market.ours["cvar"], reference))
    return Claim(
        f"{market.name}: the same CVaR as {whose} on the held-out days, to four digits",
        f"{printed['cvar'][1]:.4f} against {printed['solver'][1]:.4f}",
        f"{mine} against {theirs}",
        "reproduced" if mine == theirs else "not reproduced",
    )


def _slightly_better(market: Market, held_out: HeldOut) -> Claim:
    printed, (reference, whose) = CVAR_TABLES[market.key], market.reference
    fit = market.ours["cvar"]
    found = held_out.less(fit["weights"], reference["weights"])
    verdict = weakest(of_difference(d.value, d.low, d.high, wanted_sign(key)) for key, d in found.items())
    return Claim(
        f"{market.name}: CVaR by OCE-SG is marginally better than {whose} on return, CDaR and Sharpe",
        " / ".join(" ".join(f"{printed[row][place]:.4f}" for place in (0, 2, 3)) for row in ("cvar", "solver")),
        " / ".join(" ".join(f"{x:.4f}" for x in figures_of(each, OTHERS)) for each in (fit, reference)),
        verdict,
        "; ".join(
            f"{SHORT[KEYS.index(key)]} {d.value:+.4f}, 95 % {d.low:+.4f} to {d.high:+.4f}" for key, d in found.items()
        ),
        "Both aim at one optimum; what is left between them is the distance not yet gone.",
    )


def _composition(market: Market) -> Claim:
    fit, exact = market.ours["cvar"], market.exact
    begun, ended = distance({"weights": fit["snapshots"][0]}, exact), distance(fit, exact)
    near = ended <= 0.1 * begun
    return Claim(
        f"{market.name}: the composition converges to the solver's (a tenth of the way, or less, is left)",
        "converges (figure)",
        f"sum of absolute differences {begun:.2f} at the start, {ended:.3f} after {market.steps:,} steps",
        "reproduced" if near else "not reproduced",
        "" if market.solver is None else f"skfolio's solver is {distance(market.solver, exact):.1e} from the exact one",
        "" if near else f"More than a tenth of the way is left after {market.steps:,} steps.",
    )


def _row(market: Market, row: str) -> Claim:
    printed, values = CVAR_TABLES[market.key][row], market.spread[row]
    verdict, beyond = of_row(printed, values)
    why = ""
    if beyond.any():
        why = f"Further off than 2 sd over the starts: {', '.join(SHORT[k] for k in np.flatnonzero(beyond))}."
    if row == "smooth":
        why += " The printed utility is risk neutral by mistake; ours is the corrected one."
    return Claim(
        f"{market.name}: {ROWS[row].title} row by OCE-SG ({', '.join(SHORT)})",
        " ".join(f"{x:.4f}" for x in printed),
        " ".join(f"{x:.4f}" for x in values.mean(axis=0)),
        verdict,
        "sd " + " ".join(f"{x:.4f}" for x in values.std(axis=0, ddof=1)) + f" over {len(values)} random starts",
        why.strip(),
    )


def _variants(market: Market, held_out: HeldOut) -> list[Claim]:
    """That L-CVaR and S-CVaR outperform CVaR on some metrics: on those where the paper's own table says so."""
    found, printed = [], CVAR_TABLES[market.key]
    for row in ("leaky", "smooth"):
        less = held_out.less(market.ours[row]["weights"], market.ours["cvar"]["weights"])
        better = []
        for key, d in less.items():
            place, sign = KEYS.index(key), wanted_sign(key)
            if sign * d.value > 0:
                better.append(SHORT[place])
            gain = printed[row][place] - printed["cvar"][place]
            if sign * gain <= 0:
                continue
            mine, theirs = (market.ours[each]["metrics"][key] for each in (row, "cvar"))
            found.append(
                Claim(
                    f"{market.name}: {ROWS[row].title} outperforms CVaR on {SHORT[place]} (both by OCE-SG)",
                    f"{printed[row][place]:.4f} against {printed['cvar'][place]:.4f}",
                    f"{mine:.4f} against {theirs:.4f}",
                    of_difference(d.value, d.low, d.high, sign),
                    f"difference {d.value:+.4f}, 95 % {d.low:+.4f} to {d.high:+.4f}",
                    "The printed S-CVaR is risk neutral by mistake; ours is the corrected one."
                    if row == "smooth"
                    else "",
                )
            )
        if not any(ROWS[row].title in claim.text for claim in found):
            found.append(
                Claim(
                    f"{market.name}: {ROWS[row].title} outperforms CVaR on some metric",
                    "on none of return, CVaR, CDaR and Sharpe",
                    f"better on {', '.join(better) or 'none'} here",
                    "not checked",
                    why="The paper claims it on some metrics, and its own table of this market has none.",
                )
            )
    return found
