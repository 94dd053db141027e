"""Risks with more inner variables than t, against skfolio, cvxpy and bisection, each pair in turns in one run.

``ratio`` is the other's time over ours; for rows of "plain" and "one CVaR" ours over theirs. ``excess`` is our
objective less the other's, relative: below 0 ours is the better one.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import torch
from skfolio import RiskMeasure
from skfolio.optimization import MeanRisk

import certeq as ce
from benchmarks.bench_exact import ftse100, sp500
from benchmarks.timing import interleaved
from certeq.optimize import solve_exact
from certeq.portfolio import MinimumOCE
from certeq.torch import OCELoss

Row = dict[str, Any]
EVAR, CHI = ce.EVaR(0.05), ce.MonotoneMeanVariance(2).ball(0.5)
TAILS = ce.Mixture([0.5, 0.3, 0.2], [ce.CVaR(0.1), ce.CVaR(0.05), ce.CVaR(0.02)])


def _simplex(size: int) -> dict[str, Any]:
    return {"lower": 0.0, "C": np.ones(size), "c": 1.0}


def against_skfolio(case: str, losses: np.ndarray) -> Row:
    """EVaR, estimator against estimator."""
    X = -losses
    ours = MinimumOCE(EVAR)
    theirs = MeanRisk(risk_measure=RiskMeasure.EVAR, evar_beta=0.95)
    seconds = interleaved({"ours": lambda: ours.fit(X), "theirs": lambda: theirs.fit(X)}, repeats=2)
    mine, other = (float(ce.oce(losses @ model.weights_, EVAR)) for model in (ours, theirs))
    return _row(f"EVaR against skfolio, {case}", seconds, (mine - other) / abs(other))


def against_cvxpy(case: str, losses: np.ndarray) -> Row:
    """The chi-square ball as a second-order cone, compilation included: it is HMCR(2)."""
    n, d = losses.shape
    alpha = 1.0 / np.sqrt(1.0 + 2.0 * CHI.radius)

    def conic() -> np.ndarray:
        w, t, over = cp.Variable(d, nonneg=True), cp.Variable(), cp.Variable(n, nonneg=True)
        objective = cp.Minimize(t + cp.norm(over, 2) / (alpha * np.sqrt(n)))
        cp.Problem(objective, [cp.sum(w) == 1, over >= losses @ w - t]).solve(solver=cp.CLARABEL)
        return np.asarray(w.value)

    found: dict[str, np.ndarray] = {}
    calls = {
        "ours": lambda: found.update(ours=solve_exact(losses, CHI, **_simplex(d)).theta),
        "theirs": lambda: found.update(theirs=conic()),
    }
    seconds = interleaved(calls, repeats=2)
    projected = np.maximum(found["theirs"], 0.0) / np.maximum(found["theirs"], 0.0).sum()
    mine, other = float(ce.oce(losses @ found["ours"], CHI)), float(ce.oce(losses @ projected, CHI))
    return _row(f"chi-square against cvxpy and Clarabel, {case}", seconds, (mine - other) / abs(other))


def against_plain(case: str, losses: np.ndarray) -> list[Row]:
    """The same solver with s fixed at its best, and one CVaR beside three."""
    limits, rows = _simplex(losses.shape[1]), []
    for risk, utility in ((EVAR, ce.Entropic()), (CHI, ce.MonotoneMeanVariance(2))):
        s = float(solve_exact(losses, risk, **limits).inner[1])
        plain = utility.scaled(s)
        calls = {
            "ours": lambda risk=risk: solve_exact(losses, risk, **limits),
            "theirs": lambda plain=plain: solve_exact(losses, plain, **limits),
        }
        rows.append(_times(f"{risk!r} over {plain!r}, {case}", interleaved(calls, repeats=7)))
    calls = {
        "ours": lambda: solve_exact(losses, TAILS, **limits),
        "theirs": lambda: solve_exact(losses, ce.CVaR(0.05), **limits),
    }
    return [*rows, _times(f"three CVaRs over one, {case}", interleaved(calls, repeats=7))]


def bisected_chi_square(losses: torch.Tensor, radius: float, tolerance: float = 1e-8) -> torch.Tensor:
    """The chi-square ball by bisection on its scale, an inner one on its threshold, as papers on training do it."""
    z, n = losses.detach(), losses.numel()

    def weights(s: float) -> torch.Tensor:
        low, high = float(z.min()) - s, float(z.max())
        while high - low > tolerance:
            t = 0.5 * (low + high)
            low, high = (t, high) if float(torch.relu((z - t) / s).sum()) > n else (low, t)
        return torch.relu((z - high) / s) / n

    low, high = 1e-8, 1e3
    while high - low > tolerance * high:
        s = (low * high) ** 0.5
        q = weights(s) * n
        low, high = (s, high) if float(0.5 * ((q - 1.0) ** 2).mean()) > radius else (low, s)
    return weights(high) @ losses


def training(n: int = 1024) -> list[Row]:
    """Forward and backward of a batch."""
    torch.set_num_threads(1)
    base = torch.randn(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def step(loss: Any) -> Any:
        def call() -> None:
            for _ in range(20):
                x = base.clone().requires_grad_()
                loss(x).backward()

        return call

    rows = []
    for risk, utility in ((EVAR, ce.Entropic()), (CHI, ce.MonotoneMeanVariance(2))):
        calls = {"ours": step(OCELoss(risk)), "theirs": step(OCELoss(utility))}
        rows.append(_times(f"torch, n = {n}: {risk!r} over {utility!r}", interleaved(calls, repeats=7)))
    bisection = step(lambda x: bisected_chi_square(x, float(CHI.radius)))
    seconds = interleaved({"ours": step(OCELoss(CHI)), "theirs": bisection}, repeats=3)
    x = base.clone()
    excess = (float(OCELoss(CHI)(x)) - float(bisected_chi_square(x, float(CHI.radius)))) / abs(float(OCELoss(CHI)(x)))
    return [*rows, _row(f"torch, n = {n}: chi-square against bisection", seconds, excess)]


def _row(case: str, seconds: dict[str, float], excess: float) -> Row:
    ours, theirs = seconds["ours"], seconds["theirs"]
    return {"case": case, "ours": ours, "theirs": theirs, "ratio": theirs / ours, "excess": excess}


def _times(case: str, seconds: dict[str, float]) -> Row:
    ours, theirs = seconds["ours"], seconds["theirs"]
    return {"case": case, "ours": ours, "theirs": theirs, "ratio": ours / theirs, "excess": float("nan")}


def run(quick: bool = False) -> list[Row]:
    """All rows; with ``quick`` the small panel alone."""
    rng = np.random.default_rng(0)
    panels = {"1000 x 20": 0.01 * (rng.standard_t(4, (1000, 20)) + rng.standard_t(4, (1000, 1)))}
    if not quick:
        panels |= {"S&P 500": sp500(), "FTSE 100": ftse100()}
    rows: list[Row] = []
    for case, losses in panels.items():
        rows += [against_skfolio(case, losses), against_cvxpy(case, losses), *against_plain(case, losses)]
    return rows + training()
