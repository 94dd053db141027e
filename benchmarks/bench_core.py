"""Estimates of one sample, from 20 losses to ten million, and of many short ones, against SciPy, skfolio, Riskfolio-Lib
and plain NumPy.

The curves over n have bars made of NumPy's own times, taken in a process of its own with and without AVX-512: where
NumPy has it, ``np.exp`` is five times faster and ``np.partition`` on some processors seven times slower, so that the
bars mean something without it only; beside them stands the same process with all that NumPy has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
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
    return [*curves(quick), *_entropic(x), *_cvar(x), *_others(x), *_rows(x, quick)]


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


# -- curves over n -----------------------------------------------------------------------------------------------------

WITHOUT_AVX512 = {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL"}
ONE_VECTOR = {
    "CVaR(.05)": ce.CVaR(0.05),
    "Entropic(1)": ce.Entropic(1.0),
    "SmoothCVaR(.05)": ce.SmoothCVaR(0.05),
    "LeakyCVaR(.05)": ce.LeakyCVaR(0.05),
    "MonotoneMeanVariance(2)": ce.MonotoneMeanVariance(2),
    "Quartic()": ce.Quartic(),
}


def curves(quick: bool = False) -> list[dict[str, Any]]:
    """`ce.oce` of one vector over n, with and without AVX-512."""
    found = []
    for name, settings in (("no AVX-512", WITHOUT_AVX512), ("native", {})):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.bench_core", "--curves", "--quick" if quick else "--all"],
            env=os.environ | settings, capture_output=True, text=True, check=True,
        )  # fmt: skip
        found += [row | {"case": f"{row['case']}, {name}"} for row in json.loads(done.stdout)]
    return found


def _best(calls: dict[str, Callable[[], Any]], seconds: float = 0.6) -> dict[str, float]:
    """Best time of each call, the calls taking turns: one call at a time, so that a busy machine leaves some alone."""
    best = dict.fromkeys(calls, float("inf"))
    began, turns = time.perf_counter(), 0
    while turns < 5 or (time.perf_counter() - began < seconds and turns < 2000):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
        turns += 1
    return best


def _curves(quick: bool) -> list[dict[str, Any]]:
    from skfolio.measures import cvar

    rows, twenty = [], np.random.default_rng(1).standard_normal(20)
    for n in (20, 10**3, 10**4, 10**5, 10**6, 10**7)[: 5 if quick else 6]:
        x = np.random.default_rng(0).standard_normal(n)
        rank = int(0.95 * n)
        times = _best(
            {
                "mean of 20": lambda: np.mean(twenty),
                "partition": lambda x=x, rank=rank: np.partition(x, rank),
                "exp": lambda x=x: np.exp(x),
                "sum": lambda x=x: x.sum(),
                "logsumexp": lambda x=x: logsumexp(x),
                "skfolio": lambda x=x: cvar(-x),
                **{name: lambda x=x, u=u: ce.oce(x, u) for name, u in ONE_VECTOR.items()},
            },
            seconds=0.6 if n < 10**6 else 3.0,
        )
        least = max(15e-6, 5.0 * times["mean of 20"])
        for name in ONE_VECTOR:
            bars = {"15 us + 5 exp": 5 * times["exp"]} if n <= 10**5 else {"15 us + 2 exp": 2 * times["exp"]}
            if name == "CVaR(.05)":
                bars = {"15 us + 1.3 partition": 1.3 * times["partition"]}
            elif name == "Entropic(1)":
                bars = {"15 us + exp": times["exp"]} if n <= 10**5 else {"15 us + exp / 2": 0.5 * times["exp"]}
            elif name != "SmoothCVaR(.05)" and n >= 10**4 and "NPY_DISABLE_CPU_FEATURES" not in os.environ:
                bars["15 us + 30 sum"] = 30 * times["sum"]
            for bar, seconds in bars.items():
                wanted = ">= 1" if "sum" in bar or "NPY_DISABLE_CPU_FEATURES" in os.environ else ""
                rows.append(_row(name, n, bar, times[name], least + seconds, wanted))
        rows.append(_row("CVaR(.05)", n, "skfolio cvar", times["CVaR(.05)"], times["skfolio"], "> 1"))
        wanted = ">= 12" if n == 10**7 and "NPY_DISABLE_CPU_FEATURES" in os.environ else ""
        rows.append(_row("Entropic(1)", n, "scipy logsumexp", times["Entropic(1)"], times["logsumexp"], wanted))
    return rows


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

    rank = int(0.95 * x.size)
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: ce.oce(x, ce.CVaR(0.05)),
        "np.partition": lambda: np.partition(x, rank),
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
            # A call for one row takes 5 us since it is compiled; when it took 60 the bar was 10.
            _row(case, many.size, "Python loop", times["ours"], times["loop"] * len(many) / len(share), "> 1")
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
    if "--curves" in sys.argv:
        print(json.dumps(_curves("--quick" in sys.argv)))
    else:
        from benchmarks.timing import table

        print(table(run()))
