"""Objectives agree with skfolio's MeanRisk and with cvxpy, under every kind of constraint in turn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from skfolio import RiskMeasure
from skfolio.optimization import MeanRisk

import certeq as ce
from certeq.portfolio import MinimumOCE
from tests.portfolio import reference

Pair = tuple[dict[str, Any], dict[str, Any]]


def constraints(names: list[str]) -> dict[str, Pair]:
    """Return parameters of ours (and skfolio's), and the same for the reference, by their kind."""
    n = len(names)
    unit = np.eye(n)
    before = {names[0]: 0.3, names[1]: 0.2, names[2]: 0.5}
    previous = np.array([before.get(name, 0.0) for name in names])
    moved = {"previous_weights": before, "transaction_costs": 0.0005}
    moved_too = {"previous": previous, "costs": 0.0005}
    half = np.arange(n) % 2 == 0
    return {
        "none": ({}, {}),
        "max weight": ({"max_weights": 0.2}, {"upper": 0.2}),
        "bounds by name": (
            {"min_weights": {names[3]: 0.05}, "max_weights": {names[0]: 0.02}},
            {"lower": 0.05 * unit[3], "upper": 1.0 - 0.98 * unit[0]},
        ),
        "bounds as arrays": (
            {"min_weights": 0.1 * unit[1], "max_weights": np.full(n, 0.3)},
            {"lower": 0.1 * unit[1], "upper": 0.3},
        ),
        "budget": ({"budget": 0.7}, {"budget": 0.7}),
        "budget range": (
            {"budget": None, "min_budget": 0.4, "max_budget": 0.6},
            {"budget": None, "min_budget": 0.4, "max_budget": 0.6},
        ),
        "long and short": (
            {"min_weights": -0.2, "max_long": 1.2, "max_short": 0.2},
            {"lower": -0.2, "max_long": 1.2, "max_short": 0.2},
        ),
        "linear": (
            {"linear_constraints": [f"{names[4]} >= 0.05", f"{names[5]} == 0.1", f"{names[6]} <= 0.5 * {names[5]}"]},
            {"left": [-unit[4], unit[6] - 0.5 * unit[5]], "right": [-0.05, 0.0], "equal": (unit[5:6], [0.1])},
        ),
        "groups": (
            {
                "groups": {name: ["even" if i % 2 == 0 else "odd"] for i, name in enumerate(names)},
                "linear_constraints": ["even <= 0.3"],
            },
            {"left": [half.astype(float)], "right": [0.3]},
        ),
        "inequality": (
            {"left_inequality": unit[[0, 3]] + unit[[1, 4]], "right_inequality": np.array([0.01, 0.02])},
            {"left": unit[[0, 3]] + unit[[1, 4]], "right": [0.01, 0.02]},
        ),
        "target return": ({"min_return": 0.0007}, {"min_return": 0.0007}),
        "costs": (moved, moved_too),
        "costs without bounds": (
            {**moved, "min_weights": None, "max_weights": None}, {**moved_too, "lower": None, "upper": None},
        ),
        "costs and target": ({**moved, "min_return": 0.0002}, {**moved_too, "min_return": 0.0002}),
        "fees": (
            {"management_fees": {names[-1]: 0.001, names[-2]: 0.002}},
            {"fees": 0.001 * unit[-1] + 0.002 * unit[-2]},
        ),
        "L1": ({"l1_coef": 0.0005, "min_weights": -1.0}, {"l1": 0.0005, "lower": -1.0}),
        "L2": ({"l2_coef": 0.01}, {"l2": 0.01}),
        "turnover": (
            {"max_turnover": 0.25, "previous_weights": before},
            {"max_turnover": 0.25, "previous": previous},
        ),
        "everything": (
            {**moved, "min_weights": -0.1, "max_weights": 0.5, "max_short": 0.3, "l1_coef": 1e-4, "l2_coef": 1e-3,
             "management_fees": 1e-5, "max_turnover": 0.4, "linear_constraints": [f"{names[0]} + {names[1]} <= 0.3"]},
            {**moved_too, "lower": -0.1, "upper": 0.5, "max_short": 0.3, "l1": 1e-4, "l2": 1e-3, "fees": 1e-5,
             "max_turnover": 0.4, "left": [unit[0] + unit[1]], "right": [0.3]},
        ),
    }  # fmt: skip


KINDS = list(constraints([f"a{i}" for i in range(7)]))
PANELS = ("sp500", "ftse")
# Each kind on one of the panels, and three of them on both.
ON_PANELS = {(PANELS[i % 2], kind) for i, kind in enumerate(KINDS)} | {
    (name, kind) for name in PANELS for kind in ("none", "long and short", "everything")
}


@pytest.mark.parametrize(("name", "kind"), sorted(ON_PANELS))
def test_cvar_agrees_with_skfolio_and_cvxpy(name: str, kind: str, request: pytest.FixtureRequest) -> None:
    X = request.getfixturevalue(name).iloc[-500:]
    params, same = constraints(list(X.columns))[kind]
    model = MinimumOCE(ce.CVaR(0.05), **params).fit(X)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        skfolio = MeanRisk(risk_measure=RiskMeasure.CVAR, **params).fit(X).problem_values_["objective"]
    value, weights = reference.solve(X.to_numpy(), ce.CVaR(0.05), **same)
    doubtful = any("inaccurate" in str(each.message) for each in said)  # Clarabel gave up before its tolerance
    assert model.objective_ == pytest.approx(skfolio, abs=1e-6 if doubtful else 1e-8)
    assert model.objective_ <= skfolio + 1e-9
    assert model.objective_ == pytest.approx(value, abs=1e-8)
    assert 0.0 <= model.gap_ < 1e-9
    np.testing.assert_allclose(model.weights_, weights, atol=2e-4)


SMOOTH = (
    ce.Entropic(30.0), ce.MeanVariance(15.0), ce.MonotoneMeanVariance(2), ce.EVaR(0.1), ce.HMCR(2, 0.1),
    ce.MonotoneMeanVariance(2).ball(0.5), ce.Mixture([0.5, 0.5], [ce.CVaR(0.05), ce.Entropic(20.0)]),
)  # fmt: skip
GOALS = [(risk, "minimize_risk", kind) for risk in SMOOTH for kind in ("none", "costs and target", "everything")]
GOALS += [
    (risk, "maximize_utility", kind)
    for risk in (ce.CVaR(0.1), ce.Entropic(20.0))
    for kind in ("none", "costs", "L1", "L2", "everything")
]
GOALS += [(risk, "maximize_utility", KINDS[i]) for i, risk in enumerate(SMOOTH)]


@pytest.mark.parametrize(("risk", "goal", "kind"), GOALS, ids=str)
@pytest.mark.filterwarnings("ignore::certeq.UnitWarning", "ignore::certeq.ReliabilityWarning")
def test_every_risk_agrees_with_cvxpy(risk: Any, goal: str, kind: str, sp500: pd.DataFrame) -> None:
    X = sp500.iloc[-250:, :9]
    params, same = constraints(list(X.columns))[kind]
    model = MinimumOCE(risk, goal, risk_aversion=0.3, **params).fit(X)
    value, _ = reference.solve(X.to_numpy(), risk, goal=goal, risk_aversion=0.3, **same)
    assert model.objective_ == pytest.approx(value, abs=1e-7)  # cvxpy's cones are good to about that
    worse = model.objective_ - value if goal == "minimize_risk" else value - model.objective_
    assert worse <= 1e-8 + model.gap_
    assert 0.0 <= model.gap_ < 1e-10
    found = model.problem_values_
    again = found["risk"] if goal == "minimize_risk" else 0.3 * found["risk"] - found["expected_return"]
    again += found["regularization"]
    assert again == pytest.approx(model.objective_ if goal == "minimize_risk" else -model.objective_, abs=1e-12)
