"""Estimates of one long sample and of many short ones, against SciPy, skfolio, Riskfolio-Lib and plain NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import elementwise
from scipy.special import logsumexp

import certeq as ce
from benchmarks.timing import interleaved

BLOCK = 16000


def slope_pass(x: np.ndarray, utility: ce.Utility) -> float:
    """One cache-blocked pass of a utility's own slope: the yardstick for everything that has no closed form."""
    return float(sum(utility.slope(x[i : i + BLOCK]).sum() for i in range(0, x.size, BLOCK)))


def run(quick: bool = False) -> list[dict[str, Any]]:
    n = 10**6 if quick else 10**7
    x = np.random.default_rng(0).standard_normal(n)
    return [*_entropic(x), *_cvar(x), *_others(x), *_rows(x, quick)]


def _row(case: str, n: int, peer: str, ours: float, theirs: float, wanted: str) -> dict[str, Any]:
    return {
        "case": case,
        "n": n,
        "ms": 1e3 * ours,
        "peer": peer,
        "peer ms": 1e3 * theirs,
        "ratio": theirs / ours,
        "wanted": wanted,
    }


def _entropic(x: np.ndarray) -> list[dict[str, Any]]:
    from skfolio.measures import entropic_risk_measure

    times = interleaved(
        {
            "ours": lambda: ce.oce(x, ce.Entropic(1.0)),
            "scipy logsumexp": lambda: logsumexp(x),
            "skfolio entropic": lambda: entropic_risk_measure(-x),
        }
    )
    ours = times.pop("ours")
    return [_row("Entropic(1)", x.size, peer, ours, theirs, ">= 5") for peer, theirs in times.items()]


def _cvar(x: np.ndarray) -> list[dict[str, Any]]:
    from skfolio.measures import cvar

    place = int(0.95 * x.size)
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: ce.oce(x, ce.CVaR(0.05)),
        "np.partition": lambda: np.partition(x, place),
        "skfolio cvar": lambda: cvar(-x),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import riskfolio

            calls["riskfolio CVaR"] = lambda: riskfolio.RiskFunctions.CVaR_Hist(-x, 0.05)
        except ImportError:
            print("riskfolio-lib is not installed: not measured")
        times = interleaved(calls)
    ours = times.pop("ours")
    wanted = {"np.partition": ">= 0.77 (1/1.3)"}
    return [_row("CVaR(.05)", x.size, peer, ours, theirs, wanted.get(peer, "> 1")) for peer, theirs in times.items()]


def _others(x: np.ndarray) -> list[dict[str, Any]]:
    rows = []
    for utility in (
        ce.MeanVariance(1.0),
        ce.MonotoneMeanVariance(2),
        ce.MonotoneMeanVariance(3),
        ce.MonotoneMeanVariance(2.5),
        ce.Quartic(),
        ce.LeakyCVaR(0.05),
        ce.SmoothCVaR(0.05),
    ):
        times = interleaved({"ours": lambda u=utility: ce.oce(x, u), "pass": lambda u=utility: slope_pass(x, u)})
        rows.append(_row(repr(utility), x.size, "one slope pass", times["ours"], times["pass"], ">= 0.125 (1/8)"))
    return rows


def _rows(x: np.ndarray, quick: bool) -> list[dict[str, Any]]:
    many = x.reshape(-1, 100)
    rows = []
    for utility in (
        ce.Entropic(1.0),
        ce.MonotoneMeanVariance(3),
        ce.Quartic(),
        ce.CVaR(0.05),
        ce.LeakyCVaR(0.05),
        ce.SmoothCVaR(0.05),
    ):
        share = many[:: len(many) // 500]
        times = interleaved(
            {
                "ours": lambda u=utility: ce.oce(many, u, axis=1),
                "loop": lambda u=utility, z=share: [ce.oce(row, u) for row in z],
                **({} if utility.kinks else {"find_root": lambda u=utility: _find_root(many, u)}),
            },
            repeats=2,
        )
        case = f"{utility!r}, rows of 100"
        rows.append(
            _row(case, many.size, "Python loop", times["ours"], times["loop"] * len(many) / len(share), ">= 10")
        )
        if "find_root" in times:
            rows.append(_row(case, many.size, "scipy find_root", times["ours"], times["find_root"], "> 1"))
    return rows


def _find_root(z: np.ndarray, utility: ce.Utility) -> np.ndarray:
    """What a careful SciPy user would write: one vectorized call, in blocks that stay in the cache."""
    found = np.empty(len(z))
    for start in range(0, len(z), 1000):
        part = z[start : start + 1000]
        bracket = (part.min(axis=1) - utility.anchor - 1e-9, part.max(axis=1) - utility.anchor + 1e-9)
        index = np.arange(len(part))
        result = elementwise.find_root(
            lambda t, i, part=part: np.mean(utility.slope(part[i] - t[:, None]), axis=1) - 1.0, bracket, args=(index,)
        )
        t = result.x
        found[start : start + 1000] = t + np.mean(utility.value(part - t[:, None]), axis=1)
    return found


if __name__ == "__main__":
    from benchmarks.timing import table

    print(table(run()))
