"""The weights keep what the caller asked for, in the caller's own units, or there are none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cvxpy import SolverError
from skfolio.exceptions import OptimizationError
from sklearn.base import clone

import certeq as ce
from certeq.portfolio import MinimumOCE
from certeq.portfolio._feasibility import check_weights
from tests.portfolio import reference

UTILITIES = [ce.CVaR(0.05), ce.CVaR(0.3), ce.Entropic(20.0), ce.MeanVariance(5.0)]
LIMITED = [ce.CVaR(0.05), ce.Entropic(10.0), ce.CVaR(0.3)]
TIGHT = 1e-12  # of the size of the numbers in a constraint: a little more than the solver attains


def case(rng: np.random.Generator) -> tuple[np.ndarray, dict[str, Any], dict[str, Any]]:
    """Return returns, parameters of ours and those of the reference."""
    n, d = int(rng.choice([20, 100, 400])), int(rng.choice([2, 5, 12]))
    X = rng.normal(rng.normal(0.0005, 0.0005, d), rng.uniform(0.005, 0.03, d), (n, d))
    ours: dict[str, Any] = {"l2_coef": 10.0 ** rng.uniform(-6.0, 0.0)}
    theirs: dict[str, Any] = {"l2": ours["l2_coef"]}
    short = rng.random() < 0.4
    if short:
        ours["min_weights"] = theirs["lower"] = -float(rng.uniform(0.1, 1.0))
    if rng.random() < 0.3:
        ours["l1_coef"] = theirs["l1"] = 10.0 ** rng.uniform(-5.0, -2.0)
    if rng.random() < 0.3:
        before = rng.dirichlet(np.ones(d))
        ours.update(transaction_costs=1e-4, previous_weights=before)
        theirs.update(costs=1e-4, previous=before)
    mean = X.mean(axis=0)
    if rng.random() < 0.7:
        ours["min_return"] = theirs["min_return"] = float(
            rng.uniform(mean.mean(), 0.2 * mean.mean() + 0.8 * mean.max())
        )
    if rng.random() < 0.3:
        ours.update(budget=None, min_budget=0.5, max_budget=1.0)
        theirs.update(budget=None, min_budget=0.5, max_budget=1.0)
    if short and rng.random() < 0.5:
        ours["max_short"] = theirs["max_short"] = 0.3
    if rng.random() < 0.5:  # rows of every length
        rows = rng.normal(size=(2, d))
        sides = rows.mean(axis=1) + rng.uniform(0.0, 0.2, 2)
        length = 10.0 ** rng.uniform(-6.0, 4.0, 2)
        ours.update(left_inequality=rows * length[:, None], right_inequality=sides * length)
        theirs.update(left=rows, right=sides)
    return X, ours, theirs


def excesses(X: np.ndarray, w: np.ndarray, kw: dict[str, Any]) -> list[tuple[float, float]]:
    """Return every constraint as (excess, size), from the parameters alone."""
    gross = np.abs(w).sum()
    least = kw.get("min_weights", 0.0)
    found = [(float(np.max(least - w)), 1.0), (float(np.max(w - 1.0)), 1.0)]
    if kw.get("budget", 1.0) is None:
        found += [(kw["min_budget"] - w.sum(), gross), (w.sum() - kw["max_budget"], gross)]
    else:
        found.append((abs(w.sum() - 1.0), gross))
    if "max_short" in kw:
        found.append((float(np.maximum(-w, 0.0).sum()) - kw["max_short"], gross))
    if "min_return" in kw:
        mean = X.mean(axis=0)
        paid = kw.get("transaction_costs", 0.0) * np.abs(w - kw.get("previous_weights", 0.0)).sum()
        found.append((kw["min_return"] - (mean @ w - paid), float(np.abs(mean).max()) * gross + 1e-4 * 2.0))
    for row, side in zip(kw.get("left_inequality", ()), kw.get("right_inequality", ()), strict=True):
        found.append((float(row @ w - side), float(np.abs(row).max()) * gross + abs(side)))
    return found


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.filterwarnings("ignore::certeq.UnitWarning")
def test_random_problems_keep_their_constraints_and_agree_with_cvxpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, ours, theirs = case(rng)
    utility = UTILITIES[seed % len(UTILITIES)]
    try:
        model = MinimumOCE(utility, **ours).fit(X)
    except OptimizationError:
        with pytest.raises(AssertionError):  # the reference finds nothing either
            reference.solve(X, utility, **theirs)
        return
    for by, size in excesses(X, model.weights_, ours):
        assert by <= TIGHT * size
    best, _ = reference.solve(X, utility, **theirs)
    assert model.objective_ == pytest.approx(best, abs=1e-8 + 1e-6 * abs(best))
    assert 0.0 <= model.gap_ <= 1e-9 * max(abs(model.objective_), 1e-3)
    assert model.objective_ - best <= model.gap_ + 1e-8 + 1e-6 * abs(best)


def limited(seed: int) -> bool:
    """Check a random problem with one to three limits, costs and perhaps a benchmark; return whether it is solved."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(60, 400)), int(rng.integers(2, 15))
    X = 0.01 * rng.standard_t(4, size=(n, d)) * rng.uniform(0.3, 3.0, d) + rng.normal(0.0, 1e-3, d)
    X = np.round(X, 3) if rng.random() < 0.2 else X
    y = X.mean(axis=1) + 1e-3 * rng.normal(size=n)
    goal = str(rng.choice(["minimize_risk", "maximize_return", "maximize_ratio"]))
    cost, previous = 1e-3 * (rng.random() < 0.5), rng.dirichlet(np.ones(d))
    base = {"transaction_costs": cost, "previous_weights": previous, "min_weights": -0.3 * (rng.random() < 0.3)}
    tail = ce.CVaR(0.1)
    try:
        free = MinimumOCE(tail, goal, **base).fit(X)
        pairs = []
        for k in rng.permutation(3)[: rng.integers(1, 4)]:
            least = MinimumOCE(LIMITED[k], **base).fit(X).risk_
            there = float(ce.oce(-(X @ free.weights_), LIMITED[k])) + cost * np.abs(free.weights_ - previous).sum()
            pairs.append((LIMITED[k], least + rng.uniform(0.2, 0.9) * max(there - least, 1e-4)))
        near = 0.9 * float(np.std(X @ free.weights_ - y)) if rng.random() < 0.3 else None
        model = MinimumOCE(tail, goal, risk_limits=pairs, max_tracking_error=near, **base).fit(X, y)
    except (ValueError, OptimizationError) as error:  # no ratio means anything, or no weights keep the limits
        if any(words in str(error) for words in ("must be positive", "out of reach", "not together")):
            return False
        raise

    def values(w: np.ndarray) -> np.ndarray:
        """What is limited, at weights w."""
        spent = cost * np.abs(w - previous).sum()
        apart = [] if near is None else [np.sqrt(np.sum((X @ w - y) ** 2) / (n - 1.0))]
        return np.array([*(float(ce.oce(-(X @ w), risk)) + spent for risk, _ in pairs), *apart])

    levels = np.array([*(level for _, level in pairs), *([] if near is None else [near])])
    spread = np.array([float(np.std(X @ model.weights_)), float(np.std(X @ model.weights_ - y))])
    spread = np.repeat(spread, [len(pairs), near is not None])
    assert np.all(values(model.weights_) <= levels + 1e-9 * np.maximum(np.abs(levels), spread))
    # A ratio is at its maximum r where the mean minus r times the risk has the maximum 0.
    aim, aversion = (goal, 1.0) if goal != "maximize_ratio" else ("maximize_utility", model.objective_)
    same = {"costs": cost, "previous": previous, "lower": base["min_weights"], "tracking": near, "y": y}
    try:
        _, theirs = reference.solve(X, tail, goal=aim, risk_aversion=aversion, limits=pairs, **same)
    except (AssertionError, SolverError):
        return False

    def reached(w: np.ndarray) -> float:
        """The objective at weights w; the more the better."""
        spent = cost * np.abs(w - previous).sum()
        lost, earned = float(ce.oce(-(X @ w), tail)) + spent, float(X.mean(axis=0) @ w) - spent
        return {"minimize_risk": -lost, "maximize_return": earned, "maximize_ratio": earned / lost}[goal]

    mine = -model.objective_ if goal == "minimize_risk" else model.objective_
    unit = abs(mine) if goal == "maximize_ratio" else max(abs(mine), spread[0])
    assert mine == pytest.approx(reached(model.weights_), abs=1e-12 * unit)
    # Where their weights break limits or the budget, what that gains is the multiplier times the excess.
    gained = float(model.limit_multipliers_ @ np.maximum(values(theirs) - levels, 0.0))
    assert mine >= reached(theirs) - gained - 1e-9 * (unit + abs(float(theirs.sum()) - 1.0))
    assert model.gap_ <= 1e-9 * unit
    return True


@pytest.mark.filterwarnings("ignore::certeq.UnitWarning")
def test_random_problems_under_limits_agree_with_cvxpy() -> None:
    assert sum(map(limited, range(12))) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.filterwarnings("ignore")
def test_three_hundred_random_problems_under_limits(part: int) -> None:
    assert sum(map(limited, range(75 * part, 75 * part + 75))) >= 30


@pytest.mark.parametrize("l2", [0.0, 1e-3])
def test_a_frontier_keeps_its_targets(l2: float) -> None:
    X = np.random.default_rng(2).normal([0.0002, 0.0006, 0.001, 0.0015], [0.01, 0.012, 0.02, 0.03], (300, 4))
    model = MinimumOCE(ce.CVaR(0.05), l2_coef=l2, efficient_frontier_size=8).fit(X)
    returns = model.weights_ @ X.mean(axis=0)
    assert np.all(np.diff(returns) > 0.0)
    assert np.all((model.gap_ >= 0.0) & (model.gap_ <= 1e-11))
    targets = np.linspace(returns[0], X.mean(axis=0).max(), 8)
    assert np.all(returns[1:-1] >= targets[1:-1] * (1.0 - 1e-12))


@pytest.mark.parametrize("objective", ["maximize_return", "maximize_ratio", "minimize_risk"])
@pytest.mark.parametrize("limits", [None, [(ce.CVaR(0.1), 0.02)]], ids=["free", "limited"])
def test_rows_of_assets_that_are_not_held(objective: str, limits: Any) -> None:
    X = np.random.default_rng(0).normal([0.001, 0.001, 0.001, 0.004], 0.01, size=(60, 4))
    excluded = {"left_inequality": np.array([[0.0, 1.0, 1.0, 0.0]]), "right_inequality": [0.0]}  # w_1 + w_2 <= 0
    model = MinimumOCE(ce.CVaR(0.1), objective, risk_limits=limits)
    found, same = clone(model).set_params(**excluded).fit(X), model.fit(X[:, [0, 3]])
    assert found.objective_ == pytest.approx(same.objective_, rel=1e-9)
    assert found.gap_ <= 1e-9 * abs(found.objective_)
    assert found.weights_[1] == found.weights_[2] == 0.0


# -- the check of the weights, which does not trust the solver ---------------------------------------------------------


def problem(**more: Any) -> Any:
    """Return four assets with every kind of constraint, kept by equal weights."""
    fields = {
        "assets": SimpleNamespace(label="asset {}".format),
        "lower": np.full(4, -0.2), "upper": np.full(4, 0.6), "turnover": None,
        "rows": (
            SimpleNamespace(name="budget=1", row=np.ones(4), side=1.0, equal=True),
            SimpleNamespace(name="a <= 0.25", row=np.eye(4)[0], side=0.25, equal=False),
        ),
        "max_long": 1.1, "max_short": 0.1, "mu": np.arange(4.0),
        "costs": SimpleNamespace(fees=np.zeros(4), trading=np.zeros(4), previous=np.zeros(4), liquidation=0.0),
        "limits": (
            SimpleNamespace(name="CVaR <= 1", level=1.0, losses=lambda w: w, value=lambda w, _: 4.0 * np.abs(w).max()),
        ),
        "expected_return": lambda w: float(np.arange(4.0) @ w),
    }  # fmt: skip
    return SimpleNamespace(**(fields | more))


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        ([-0.21, 0.41, 0.4, 0.4], "min_weights of asset 0 by 0.01"),
        ([0.1, 0.1, 0.1, 0.7], "max_weights of asset 3 by 0.1"),
        ([0.25, 0.25, 0.25, 0.26], "budget=1 by 0.01"),
        ([0.25, 0.25, 0.25, 0.24], "budget=1 by 0.01"),
        ([0.251, 0.25, 0.25, 0.249], "a <= 0.25 by 0.001"),
        ([-0.15, 0.0, 0.55, 0.6], "max_long=1.1 by 0.05; max_short=0.1 by 0.05"),
        ([0.2, 0.2, 0.3, 0.3], "CVaR <= 1 by 0.2"),
        ([0.25, 0.35, 0.2, 0.2], "min_return=1.4 by 0.05"),
        ([np.nan, 0.25, 0.25, 0.25], "by nan"),
    ],
)
def test_weights_that_break_a_constraint_are_refused(weights: list[float], named: str) -> None:
    check_weights(problem(), np.full(4, 0.25), 1.5)
    check_weights(problem(), np.full(4, 0.25) + [1e-12, -1e-12, 0.0, 0.0], 1.5)  # rounding
    with pytest.raises(OptimizationError, match="by more than rounding") as raised:
        check_weights(problem(), np.array(weights), 1.4)
    assert named in str(raised.value)


def test_bounds_by_turnover_are_named_so() -> None:
    with pytest.raises(OptimizationError, match=r"max_weights \(with max_turnover=0.3\) of asset 3 by 0.1"):
        check_weights(problem(turnover=0.3), np.array([0.1, 0.1, 0.1, 0.7]))
