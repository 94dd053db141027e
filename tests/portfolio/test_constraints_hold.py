"""The weights keep what the caller asked for, in the caller's own units, or there are none."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from skfolio.exceptions import OptimizationError

import certeq as ce
import certeq.portfolio._solve as solving
from certeq.portfolio import MinimumOCE
from certeq.portfolio._feasibility import excesses
from tests.portfolio import reference

KINKED = [ce.CVaR(0.05), ce.CVaR(0.3)]
UTILITIES = [*KINKED, ce.Entropic(20.0), ce.MeanVariance(5.0)]
TIGHT = 1e-12  # of the size of the numbers in a constraint: a little more than the solver attains


def _case(rng: np.random.Generator) -> tuple[np.ndarray, dict[str, Any], dict[str, Any]]:
    """Returns, parameters of ours and those of the reference."""
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


def _rows(X: np.ndarray, w: np.ndarray, kw: dict[str, Any]) -> list[tuple[float, float]]:
    """Every constraint as (excess, size), from the parameters alone."""
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


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.filterwarnings("ignore::certeq.UnitWarning")
def test_random_problems_keep_their_constraints_and_agree_with_cvxpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, ours, theirs = _case(rng)
    utility = UTILITIES[seed % len(UTILITIES)]
    try:
        model = MinimumOCE(utility, **ours).fit(X)
    except OptimizationError:
        with pytest.raises(AssertionError):  # the reference finds nothing either
            reference.solve(X, utility, **theirs)
        return
    for by, size in _rows(X, model.weights_, ours):
        assert by <= TIGHT * size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Clarabel's own
        best, _ = reference.solve(X, utility, **theirs)
    assert model.objective_ == pytest.approx(best, abs=1e-8 + 1e-6 * abs(best))
    assert 0.0 <= model.gap_ <= 1e-9 * max(abs(model.objective_), 1e-3)
    assert model.objective_ - best <= model.gap_ + 1e-8 + 1e-6 * abs(best)


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
def test_the_expected_return_is_met_beside_an_l2_penalty(utility: ce.Utility) -> None:
    X = np.random.default_rng(0).normal(0.0005, 0.01, (500, 5))
    model = MinimumOCE(utility, l2_coef=1e-3, min_return=0.0007).fit(X)
    assert X.mean(axis=0) @ model.weights_ >= 0.0007 * (1.0 - 1e-13)
    best, _ = reference.solve(X, utility, l2=1e-3, min_return=0.0007)
    assert model.objective_ == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("length", [1e-6, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
def test_the_length_of_a_row_does_not_matter(utility: ce.Utility, length: float) -> None:
    X = np.random.default_rng(1).normal(0.0005, 0.01, (300, 4))
    row, side = np.array([[1.0, -2.0, 0.5, 0.3]]), np.array([-0.4])
    model = MinimumOCE(utility, l2_coef=1e-3, left_inequality=length * row, right_inequality=length * side).fit(X)
    assert row[0] @ model.weights_ <= -0.4 + 1e-13
    best, _ = reference.solve(X, utility, l2=1e-3, left=row, right=side)
    assert model.objective_ == pytest.approx(best, abs=1e-8)


def test_a_frontier_keeps_its_targets() -> None:
    X = np.random.default_rng(2).normal([0.0002, 0.0006, 0.001, 0.0015], [0.01, 0.012, 0.02, 0.03], (300, 4))
    for l2 in (0.0, 1e-3):
        model = MinimumOCE(ce.CVaR(0.05), l2_coef=l2, efficient_frontier_size=8).fit(X)
        returns = model.weights_ @ X.mean(axis=0)
        assert np.all(np.diff(returns) > 0.0)
        assert np.all(model.gap_ >= 0.0)
        assert np.all(model.gap_ <= 1e-11)
        targets = np.linspace(returns[0], X.mean(axis=0).max(), 8)
        assert np.all(returns[1:-1] >= targets[1:-1] * (1.0 - 1e-12))


def test_weights_that_break_a_constraint_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that answers for another problem is caught: the check is of the weights alone."""
    X = np.random.default_rng(0).normal(0.0005, 0.01, (200, 5))
    real = solving.solver_for(ce.CVaR(0.05))

    def careless(A: Any, utility: Any, **given: Any) -> Any:
        return real(A, utility, **{**given, "b": given["b"] + 1.0})

    monkeypatch.setattr(solving, "solver_for", lambda utility: careless)
    limit = np.eye(5)[:1]
    with pytest.raises(OptimizationError, match=r"by more than rounding: left_inequality\[0\] by 0\.\d+"):
        MinimumOCE(ce.CVaR(0.05), left_inequality=limit, right_inequality=[0.01]).fit(X)
    with pytest.raises(OptimizationError, match=r"min_return=0.0009 by"):
        MinimumOCE(ce.CVaR(0.05), min_return=0.0009).fit(X)


def test_a_value_below_its_bound_is_a_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    X = np.random.default_rng(0).normal(0.0005, 0.01, (200, 5))
    real = solving.solver_for(ce.CVaR(0.05))

    def boastful(*args: Any, **given: Any) -> Any:
        found = real(*args, **given)
        return replace(found, lower_bound=found.value + 1e-9)

    monkeypatch.setattr(solving, "solver_for", lambda utility: boastful)
    with pytest.raises(RuntimeError, match="internal contradiction"):
        MinimumOCE(ce.CVaR(0.05)).fit(X)


def test_every_constraint_is_looked_at() -> None:
    X = np.random.default_rng(3).normal(0.0005, 0.01, (100, 4))
    before = np.full(4, 0.25)
    model = MinimumOCE(
        ce.CVaR(0.1),
        min_weights=-0.2,
        max_weights=0.6,
        max_long=1.1,
        max_short=0.1,
        previous_weights=before,
        transaction_costs=1e-4,
        max_turnover=0.3,
        left_inequality=[[1.0, 1.0, 0.0, 0.0]],
        right_inequality=[0.7],
        groups=[["a", "b", "c", "d"], ["x", "x", "y", "y"]],
        linear_constraints=["x <= 0.65", "a == 0.2"],
        min_return=-1.0,
    ).fit(X)
    names = [each.name for each in excesses(model._problem, model.weights_, -1.0)]
    assert names[2:] == [
        "budget=1",
        "linear_constraints 'x <= 0.65'",
        "linear_constraints 'a == 0.2'",
        "left_inequality[0]",
        "max_long=1.1",
        "max_short=0.1",
        "min_return=-1",
    ]
    assert names[0].startswith("min_weights (with max_turnover=0.3) of ")
    assert names[1].startswith("max_weights (with max_turnover=0.3) of ")
    moved = model.weights_ + np.array([1e-6, 0.0, 0.0, -1e-6])
    broken = [each.name for each in excesses(model._problem, moved, -1.0) if each.is_violation]
    assert "linear_constraints 'a == 0.2'" in broken
    assert "budget=1" not in broken
