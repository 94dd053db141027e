"""The table of docs/guide/conversions.rst, row by row: against the library itself, or its definition solved anew."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

import certeq as ce

N = 64
RETURNS = np.random.default_rng(5).standard_t(5, size=N)
LOSSES = -RETURNS
WEIGHTS = np.random.default_rng(2).dirichlet(np.ones(N))
NORMAL = np.random.default_rng(1).standard_normal(101)  # 0.9 * (101 - 1) is whole
MMV = ce.MonotoneMeanVariance(2)


def library(name: str) -> Any:
    """Return a module, or skip the test where it is not installed."""
    return pytest.importorskip(name, reason=f"{name} is no dependency of the tests")


def minimum(price: Any, low: float, high: float) -> float:
    """Return the minimum of a function of the logarithm of a positive number."""
    found = minimize_scalar(lambda log_s: price(math.exp(log_s)), bounds=(low, high), method="bounded",
                            options={"xatol": 1e-9})  # fmt: skip
    return float(found.fun)


def kl_cvar(size: float, reg: float) -> ce.Utility:
    """Relative entropy at price ``reg``, weights capped at 1/size."""
    bound = reg * np.log(1 / size)
    return ce.utility(
        lambda x: reg * np.expm1(np.minimum(x, bound) / reg) + np.maximum(x - bound, 0.0) / size,
        lambda x: np.exp(np.minimum(x, bound) / reg),
        lambda x: np.where(x < bound, np.exp(np.minimum(x, bound) / reg) / reg, 0.0),
    )


def worst(*, price: tuple[str, float] | None = None, **limits: float) -> float:
    """Return the largest mean loss under probabilities near to equal ones, by a conic solver.

    ``price`` is a divergence and what it costs; ``limits`` are of the largest probability times n, the divergences of
    chi-square and Kullback and Leibler, and the total variation.
    """
    cp = library("cvxpy")
    p = cp.Variable(N, nonneg=True)
    found = {
        "largest": cp.max(N * p),
        "chi2": cp.sum_squares(N * p - 1) / (2 * N),
        "kl": math.log(N) - cp.sum(cp.entr(p)),
        "tv": 0.5 * cp.norm1(p - 1 / N),
    }
    gain = LOSSES @ p - (0.0 if price is None else price[1] * found[price[0]])
    rules = [cp.sum(p) == 1, *(found[name] <= limit for name, limit in limits.items())]
    return cp.Problem(cp.Maximize(gain), rules).solve(solver=cp.CLARABEL)


def skfolio(name: str, *arguments: float) -> Any:
    return getattr(library("skfolio.measures"), name)(RETURNS, *arguments)


def riskfolio(name: str, *arguments: float) -> Any:
    return getattr(library("riskfolio").RiskFunctions, name)(*arguments)


def pfhedge(name: str, *arguments: float) -> float:
    """A function of pfhedge, which asks for NumPy 1 and is installed on its own."""
    function = getattr(library("pfhedge.nn").functional, name)
    return function(library("torch").tensor(RETURNS), *arguments).item()


def evar_by_definition(alpha: float) -> float:
    """EVaR_Hist of Riskfolio-Lib: the minimum over z of z ln(M(1/z)/alpha), M the moment generating function."""
    return minimum(lambda z: z * (logsumexp(LOSSES / z) - math.log(N * alpha)), -9.0, 6.0)


# Name: (what certeq gives, what the other library gives, tolerance).
CONVERSIONS: dict[str, tuple[Any, Any, float]] = {
    "skfolio: cvar": (ce.CVaR(0.1), lambda: skfolio("cvar", 0.9), 1e-12),
    "skfolio: cvar 95%": (ce.CVaR(0.05), lambda: skfolio("cvar", 0.95), 1e-12),
    "skfolio: value at risk": (
        lambda: ce.threshold(LOSSES, ce.CVaR(0.1)), lambda: skfolio("value_at_risk", 0.9), 1e-12,
    ),
    "skfolio: entropic": (
        lambda: ce.oce(LOSSES, ce.Entropic(1 / 0.7)) - 0.7 * math.log(0.2),
        lambda: skfolio("entropic_risk_measure", 0.7, 0.8), 1e-12,
    ),
    "skfolio: evar": (ce.EVaR(0.1), lambda: skfolio("evar", 0.9), 1e-7),
    "evar as a ball": (
        ce.EVaR(0.1),
        lambda: minimum(lambda s: s * math.log(10.0) + ce.oce(LOSSES, ce.Entropic(1.0).scaled(s)), -12.0, 7.0), 1e-9,
    ),
    "Riskfolio: cvar": (ce.CVaR(0.05), lambda: riskfolio("CVaR_Hist", RETURNS, 0.05), 1e-12),
    "Riskfolio: evar": (ce.EVaR(0.3), lambda: riskfolio("EVaR_Hist", RETURNS, 0.3)[0], 1e-6),
    "Riskfolio: entropic": (
        lambda: ce.oce(LOSSES, ce.Entropic(1 / 0.7)) - 0.7 * math.log(0.1),
        lambda: riskfolio("Entropic_RM", RETURNS[:, None], 0.7, 0.1), 1e-10,
    ),
    "Riskfolio: evar by definition": (ce.EVaR(0.05), lambda: evar_by_definition(0.05), 1e-9),
    "Riskfolio: larger evar by definition": (ce.EVaR(0.3), lambda: evar_by_definition(0.3), 1e-9),
    "pfhedge: entropic": (ce.Entropic(0.5), lambda: pfhedge("entropic_risk_measure", 0.5), 1e-12),
    "pfhedge: entropic loss": (
        lambda: math.exp(0.5 * ce.oce(LOSSES, ce.Entropic(0.5))),
        lambda: library("pfhedge.nn").EntropicLoss(0.5)(library("torch").tensor(RETURNS)).item(), 1e-11,
    ),
    "pfhedge: expected shortfall, rounded up": (
        ce.CVaR(math.ceil(0.05 * N) / N), lambda: pfhedge("expected_shortfall", 0.05), 1e-12,
    ),
    "pfhedge: quadratic cvar": (
        lambda: ce.oce(LOSSES, MMV.scaled(1 / 20)) - 1 / 40, lambda: pfhedge("quadratic_cvar", 10.0), 1e-9,
    ),
    "sqwash: superquantile": (
        lambda: ce.oce(NORMAL, ce.CVaR(0.1)),
        lambda: library("sqwash").reduce_superquantile(library("torch").tensor(NORMAL), 0.1).item(), 1e-6,
    ),
    # fast-dro and dro by their published definitions
    "fast-dro: cvar": (ce.CVaR(0.1), lambda: worst(largest=10.0), 1e-6),
    "fast-dro: cvar with entropy": (kl_cvar(0.1, 0.1), lambda: worst(largest=10.0, price=("kl", 0.1)), 1e-5),
    "fast-dro: cvar with more entropy": (kl_cvar(0.1, 1.0), lambda: worst(largest=10.0, price=("kl", 1.0)), 1e-5),
    "fast-dro: chi-square penalty": (MMV.scaled(0.3), lambda: worst(price=("chi2", 0.3)), 1e-6),
    "fast-dro: chi-square ball": (MMV.ball(1.0), lambda: worst(chi2=1.0), 1e-5),
    "dro: kl": (ce.Entropic(1.0).ball(0.4), lambda: worst(kl=0.4), 1e-6),
    "dro: kl is evar": (ce.Entropic(1.0).ball(0.4), lambda: ce.oce(LOSSES, ce.EVaR(math.exp(-0.4))), 1e-13),
    "dro: chi2": (MMV.ball(0.2), lambda: worst(chi2=0.2), 1e-6),
    "dro: cvar": (ce.CVaR(0.4), lambda: worst(largest=2.5), 1e-6),
    "dro: total variation": (ce.Mixture([0.3, 0.7], [ce.CVaR(0.3), ce.CVaR(1.0 / N)]), lambda: worst(tv=0.7), 1e-6),
    "cvxpy: log_sum_exp": (
        lambda: 0.8 * ce.oce(LOSSES, ce.Entropic(0.8)) + math.log(N),
        lambda: library("cvxpy").log_sum_exp(0.8 * LOSSES).value, 1e-12,
    ),
    "cvxpy: sum_largest": (
        lambda: 7 * ce.oce(LOSSES, ce.CVaR(7 / N)), lambda: library("cvxpy").sum_largest(LOSSES, 7).value, 1e-12,
    ),
    "SciPy: logsumexp": (
        lambda: ce.oce(LOSSES, ce.Entropic(1.0), weights=WEIGHTS), lambda: logsumexp(LOSSES, b=WEIGHTS), 1e-12,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVERSIONS)
def test_the_same_number(name):
    ours, theirs, tolerance = CONVERSIONS[name]
    found = ce.oce(LOSSES, ours) if isinstance(ours, ce.Risk) else ours()
    assert found == pytest.approx(float(theirs()), abs=tolerance)


def test_pfhedge_oce_with_its_w_optimized():
    """Their v takes gains and is concave; ours takes losses and is convex: u(x) = -v(-x)."""
    torch = library("torch")
    measure = library("pfhedge.nn.modules.loss").OCE(lambda x: 1 - torch.exp(-x))

    def at(w):
        measure.w.data.fill_(w)
        return measure(torch.tensor(RETURNS)).item()

    theirs = minimize_scalar(at, bounds=(-10, 10), method="bounded", options={"xatol": 1e-8}).fun
    ours = ce.oce(LOSSES, ce.utility(lambda x: -(1 - np.exp(x))))
    assert ours == pytest.approx(theirs, abs=1e-6)
    assert ours <= theirs + 1e-6  # a t left to the optimizer is never better than the solved one


def test_skfolio_optimizers():
    optimization, RiskMeasure = library("skfolio.optimization"), library("skfolio").RiskMeasure
    portfolio = library("certeq.portfolio")
    X = np.random.default_rng(0).normal([0.0005, 0.0008, 0.001], [0.01, 0.015, 0.02], size=(800, 3))
    theirs = optimization.MeanRisk(risk_measure=RiskMeasure.CVAR, cvar_beta=0.95).fit(X)
    ours = portfolio.MinimumOCE(ce.CVaR(0.05)).fit(X)
    assert ours.risk_ == pytest.approx(portfolio.portfolio_oce(theirs.predict(X), ce.CVaR(0.05)), abs=1e-7)
    theirs = optimization.MeanRisk(
        risk_measure=RiskMeasure.VARIANCE,
        objective_function=optimization.ObjectiveFunction.MAXIMIZE_UTILITY,
        risk_aversion=4.0,
    ).fit(X)
    utility = ce.MeanVariance(4.0 * 800 / 799)  # their variance divides by n - 1
    ours = portfolio.MinimumOCE(utility).fit(X)
    assert ours.weights_ == pytest.approx(theirs.weights_, abs=1e-3)
    excess = ce.oce(-X @ theirs.weights_, utility) - ours.objective_
    assert -1e-12 <= excess < 1e-9  # the same minimum, to their solver's tolerance


def test_every_row_of_the_table_names_a_library_tested_here():
    page = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "conversions.rst").read_text()
    rows = [line.strip()[4:].split()[0] for line in page.splitlines() if line.strip().startswith("* - ")][1:]
    assert set(rows) == {"skfolio", "Riskfolio-Lib", "pfhedge", "sqwash", "fast-dro", "dro", "cvxpy", "SciPy"}
    assert len(rows) == 25
