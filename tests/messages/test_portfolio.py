"""Errors and warnings of portfolios: the argument, what was found, and the remedy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.messages import messages
from tests.portfolio.conftest import panel

from skfolio import Population, RatioMeasure, RiskMeasure  # isort: skip - the import above skips the tests without it
from skfolio.exceptions import OptimizationError
from skfolio.optimization import EqualWeighted, ObjectiveFunction, RiskBudgeting
from skfolio.prior import EmpiricalPrior, SyntheticData

import certeq as ce
from certeq.portfolio import MinimumOCE, OCEMeasure, RiskBudgetingOCE, ScenarioPrior, oce_scorer, portfolio_oce

X = panel()
ARRAY, INDEX = X.to_numpy(), X.mean(axis=1)
TAIL, EYE = ce.CVaR(0.05), np.eye(5)
LEAST = MinimumOCE(TAIL).fit(X).risk_
PRICES = 60.0 * (1.0 + X).cumprod()
PORTFOLIO = EqualWeighted().fit(X).predict(X)
TWO = pd.DataFrame(np.random.default_rng(0).normal(0.0, 0.01, (50, 2)), columns=["AAPL", "BRK-B"])

# Parameters of MinimumOCE, by the value found.
PARAMETERS = [
    ({"utility": ce.CVaR}, TypeError, "utility must be an instance", "write CVaR()"),
    ({"utility": "cvar"}, TypeError, "utility must be a Utility"),
    ({"utility": 0.5 * ce.CVaR(0.5)}, ValueError, "slope"),
    ({"utility": ce.Wang(0.5), "objective_function": "maximize_ratio"}, ValueError, "not taken beside limits"),
    ({"prior_estimator": EmpiricalPrior}, TypeError, "write EmpiricalPrior()"),
    ({"prior_estimator": 3}, TypeError, "prior_estimator must be a skfolio prior"),
    ({"objective_function": "minimise_risk"}, ValueError, "Did you mean 'minimize_risk'"),
    ({"objective_function": 3}, ValueError, "objective_function must be one of"),
    ({"objective_function": ObjectiveFunction.MAXIMIZE_RATIO, "l2_coef": 1.0}, ValueError, "takes no l2_coef"),
    ({"objective_function": "maximize_return", "solver": "sg"}, ValueError, "use solver='exact'"),
    ({"objective_function": "maximize_ratio", "risk_free_rate": 1.0}, ValueError, "reward must be positive"),
    ({"objective_function": "maximize_ratio", "risk_free_rate": "a"}, TypeError, "risk_free_rate"),
    ({"risk_limits": [(TAIL, 0.02)], "solver": "sg"}, ValueError, "takes no limits on risks"),
    ({"risk_limits": (TAIL, 0.02)}, TypeError, "found one pair", "write [(CVaR"),
    ({"risk_limits": [(0.02, TAIL)]}, TypeError, "pairs such as"),
    ({"risk_limits": 0.02}, TypeError, "pairs such as"),
    ({"risk_limits": [(TAIL, "a")]}, TypeError, "the level of risk_limits[0]"),
    ({"risk_limits": [(TAIL, [0.1, 0.2]), (ce.EVaR(0.1), [0.1] * 3)]}, ValueError, "equally many"),
    ({"risk_limits": [(TAIL, [0.1, 0.2])], "efficient_frontier_size": 3}, ValueError, "one level each"),
    ({"risk_limits": [(ce.Wang(0.5), 0.1)]}, ValueError, "risk_limits[0]", "Wang", "not taken as a limit"),
    ({"max_tracking_error": 0.01}, ValueError, "pass its returns as y", "fit(X, y)"),
    ({"max_tracking_error": 0.0}, ValueError, "max_tracking_error"),
    ({"risk_aversion": 0.0}, ValueError, "risk_aversion must be a number above 0; found 0.0"),
    ({"risk_aversion": "high"}, TypeError, "risk_aversion must be a number above 0; found 'high'"),
    ({"recenter": "always"}, ValueError, "recenter must be one of"),
    ({"recenter": 1}, ValueError, "recenter must be one of"),
    ({"solver": "CLARABEL"}, ValueError, "solver must be one of 'exact', 'sg'"),
    ({"solver_params": 5}, TypeError, "solver_params must be a dict"),
    ({"solver_params": {"max_iters": 5}}, ValueError, "key of solver_params", "'exact'", "Did you mean 'max_iter'"),
    ({"solver_params": {"iteration": 5}, "solver": "sg"}, ValueError, "Did you mean 'iterations'"),
    ({"solver_params": {"max_iter": 1}, "utility": ce.Entropic(2e3)}, OptimizationError, "gap of", "solver_params"),
    ({"tol": -1.0}, ValueError, "tol must be a number above 0"),
    ({"unknown_names": "drop"}, ValueError, "unknown_names must be one of"),
    ({"min_weights": "0.1"}, TypeError, "min_weights must be a number, 5 numbers"),
    ({"min_weights": True}, TypeError, "min_weights"),
    ({"min_weights": [0.1, 0.2]}, ValueError, "min_weights must be", "found an array of shape (2,)"),
    ({"min_weights": [0.1, np.nan, 0, 0, 0]}, ValueError, "min_weights must not be NaN; found NaN for 'GOLD'"),
    ({"min_weights": np.inf}, ValueError, "min_weights must not be inf"),
    ({"max_weights": -np.inf}, ValueError, "max_weights must not be -inf"),
    ({"max_weights": {"GOLDD": 0.1}}, ValueError, "max_weights names 'GOLDD'", "Did you mean 'GOLD'"),
    ({"max_weights": {"GOLD": "a"}}, TypeError, "max_weights['GOLD'] must be a number; found 'a'"),
    ({"min_weights": {"GOLD": 0.5}, "max_weights": 0.3}, ValueError, "found 0.5 > 0.3 for 'GOLD'"),
    ({"budget": "1"}, TypeError, "budget must be a number or None; found '1'"),
    ({"budget": np.nan}, ValueError, "budget must be a number"),
    ({"min_budget": 0.5}, ValueError, "min_budget needs budget=None"),
    ({"budget": None, "min_budget": 0.9, "max_budget": 0.5}, ValueError, "found 0.9 > 0.5"),
    ({"max_long": 0.0}, ValueError, "max_long must be a number above 0"),
    ({"max_short": -1.0}, ValueError, "max_short must be a number above 0"),
    ({"max_turnover": -0.1}, ValueError, "max_turnover must be a number not below 0"),
    ({"max_turnover": [0.1, 0.2]}, TypeError, "max_turnover"),
    ({"transaction_costs": -0.01}, ValueError, "transaction_costs must not be negative; found -0.01 for 'BOND'"),
    ({"transaction_costs": np.inf}, ValueError, "transaction_costs must be finite"),
    (
        {"transaction_costs": np.full(5, 0.001), "previous_weights": {"GONE": 0.5}}, ValueError,
        "transaction_costs must be one number or a dict",
    ),
    ({"management_fees": {"X": 0.1}}, ValueError, "management_fees names 'X'"),
    ({"previous_weights": [1.0]}, ValueError, "previous_weights must be"),
    ({"l1_coef": -1.0}, ValueError, "l1_coef must be a number not below 0"),
    ({"l2_coef": None}, TypeError, "l2_coef must be a number not below 0; found None"),
    ({"min_return": "big"}, TypeError, "min_return"),
    ({"min_return": np.nan}, ValueError, "min_return must be a number"),
    ({"min_return": []}, ValueError, "empty"),
    ({"min_return": ["a"]}, TypeError, "min_return must be a number"),
    ({"efficient_frontier_size": 1}, ValueError, "at least 2"),
    ({"efficient_frontier_size": 2.5}, TypeError, "whole number"),
    ({"efficient_frontier_size": 5, "min_return": 0.1}, ValueError, "min_return=None"),
    ({"efficient_frontier_size": 5, "objective_function": "maximize_utility"}, ValueError, "MINIMIZE_RISK"),
    ({"groups": {"NOPE": ["a"]}}, ValueError, "groups names 'NOPE'"),
    ({"groups": [["a", "b"]], "linear_constraints": ["a <= 1"]}, ValueError, "groups must have shape (levels, 5)"),
    ({"linear_constraints": "GOLD <= 0.5"}, TypeError, "write ['GOLD <= 0.5']"),
    ({"linear_constraints": [5]}, TypeError, "list of strings"),
    ({"linear_constraints": ["GOLD >> 1"]}, ValueError, "linear_constraints:", "'GOLD >> 1'", "A constraint reads"),
    ({"linear_constraints": ["SILVER <= 0.5"]}, ValueError, "no asset or group 'SILVER', in 'SILVER <= 0.5'"),
    ({"linear_constraints": ["GOLD <= 0.5 * tehc"]}, ValueError, "no asset or group 'tehc'", "Did you mean 'TECH'?"),
    ({"linear_constraints": ["GOLD <= 30%"]}, ValueError, "linear_constraints: write 0.3 for 30 %"),
    ({"linear_constraints": ["GOLD <= 0,3"]}, ValueError, "linear_constraints: write 0.3 for 0,3"),
    ({"left_inequality": EYE}, ValueError, "right_inequality is None"),
    ({"left_inequality": np.eye(4), "right_inequality": np.ones(4)}, ValueError, "shape (n, 5); found (4, 4)"),
    ({"left_inequality": EYE, "right_inequality": np.ones(4)}, ValueError, "shape (5,)"),
    # constraints that no weights keep
    ({"max_weights": 0.1}, OptimizationError, "max_weights add up to 0.5, less than budget=1"),
    ({"min_weights": 0.3}, OptimizationError, "min_weights add up to 1.5, more than budget=1"),
    ({"max_turnover": 0.1}, OptimizationError, "max_weights (with max_turnover=0.1) add up to 0.5"),
    (
        {"max_turnover": 0.1, "previous_weights": {"GOLD": 1.0}, "max_weights": 0.5}, OptimizationError,
        "keeps 'GOLD' within [0.9, 1.1]",
    ),
    ({"min_return": 0.5}, OptimizationError, "min_return=0.5 is out of reach", f"{X.mean().max():.6g} at most"),
    ({"min_return": 0.5, "solver": "sg"}, OptimizationError, "min_return=0.5 is out of reach", "at most"),
    (
        {"linear_constraints": ["GOLD >= 0.6", "GOLD + BOND <= 0.4"]}, OptimizationError,
        "cannot hold together", "GOLD >= 0.6", "GOLD + BOND <= 0.4",
    ),
    ({"linear_constraints": ["GOLD >= 1.5"]}, OptimizationError, "'GOLD >= 1.5' cannot hold within"),
    ({"linear_constraints": ["GOLD >= 1.5"], "solver": "sg"}, OptimizationError, "'GOLD >= 1.5' cannot hold within"),
    ({"linear_constraints": ["GOLD + TECH == 0.5", "GOLD + TECH == 0.6"]}, OptimizationError, "GOLD + TECH == 0.5"),
    ({"left_inequality": -EYE[:1], "right_inequality": [-2.0]}, OptimizationError, "left_inequality[0] cannot hold"),
    ({"min_weights": -1.0, "max_long": 0.5}, OptimizationError, "max_long=0.5"),
    ({"utility": ce.Mean(), "min_weights": None, "max_weights": None}, OptimizationError, "unbounded"),
    ({"risk_limits": [(TAIL, 0.5 * LEAST)]}, OptimizationError, "risk_limits[0], CVaR", "out of reach", f"{LEAST:.6g}"),
]  # fmt: skip
BUDGETS = [
    ({"utility": ce.Entropic(10.0)}, ValueError, "must be coherent: of Entropic(beta=10.0)"),
    ({"utility": ce.MeanVariance(1.0)}, ValueError, "must be coherent"),
    ({"utility": ce.Wang(0.5)}, ValueError, "Wang", "not taken for risk budgets"),
    ({"utility": "cvar"}, TypeError, "utility must be a Utility"),
    ({"risk_budget": {"GOLDD": 1.0}}, ValueError, "risk_budget names 'GOLDD'", "Did you mean 'GOLD'"),
    ({"risk_budget": [1.0, 0.0, 1, 1, 1]}, ValueError, "positive and finite; found 0 for 'GOLD'"),
    ({"risk_budget": [1.0, 2.0]}, ValueError, "risk_budget must be a number, 5 numbers"),
    ({"budget": 0.0}, ValueError, "budget must be a number above 0"),
    ({"solver_params": {"iterations": 3}}, ValueError, "a key of solver_params"),
    ({"solver_params": {"max_iter": 1}}, OptimizationError, "give it more"),
    ({"management_fees": np.inf}, ValueError, "management_fees must be finite"),
    ({"min_weights": 0.1}, TypeError, "contributions cannot follow a budget"),
    ({"transaction_costs": 0.1}, TypeError, "contributions cannot follow a budget"),
    ({"linear_constraints": 0.1}, TypeError, "contributions cannot follow a budget"),
    ({"risk_measure": RiskMeasure.EVAR}, TypeError, "RiskBudgetingOCE(ce.EVaR(0.05))"),
    ({"risk_measure": RiskMeasure.VARIANCE}, TypeError, "coherent", "variance is not", "skfolio's RiskBudgeting"),
]
# Parameters of skfolio's MeanRisk that MinimumOCE does not have.
HINTS = [
    ({"risk_measure": RiskMeasure.CVAR}, "no parameter 'risk_measure'", "utility: MinimumOCE(ce.CVaR"),
    ({"risk_measure": RiskMeasure.EVAR}, "MinimumOCE(ce.EVaR(0.05))"),
    ({"risk_measure": RiskMeasure.CDAR}, "cdar is none of them", "skfolio's optimizers have it"),
    ({"cvar_beta": 0.99}, "no parameter 'cvar_beta'; found 0.99", "MinimumOCE(ce.CVaR(0.01))"),
    ({"max_cvar": 0.03}, "found 0.03. Limits on risks are pairs: risk_limits=[(ce.CVaR(0.05), 0.03)"),
    ({"cardinality": 5}, "integer programming, which skfolio's MeanRisk has"),
    ({"min_weight": 0.1}, "no parameter 'min_weight'; found 0.1. Did you mean 'min_weights'?"),
    ({"alpha": 0.1}, "no parameter 'alpha'; found 0.1", "MinimumOCE(ce.CVaR(alpha=0.1))"),
    ({"risk_budget": [1.0]}, "Risk budgets are those of RiskBudgetingOCE"),
]


def changed(**cells):
    table = X.copy()
    for name, value in cells.items():
        table.loc[table.index[7 + list(cells).index(name)], name] = value
    return table


def fit(y=None, x=X, kind=MinimumOCE, **params):
    return lambda: kind(**params).fit(x, y)


TRACKING = {"max_tracking_error": 0.01}
MESSAGES = {
    f"{', '.join(params)} {number}": (fit(**params), *expected) for number, (params, *expected) in enumerate(PARAMETERS)
}
MESSAGES |= {
    f"budgets: {', '.join(params)} {number}": (fit(kind=RiskBudgetingOCE, **params), *expected)
    for number, (params, *expected) in enumerate(BUDGETS)
}
MESSAGES |= {
    f"hint: {', '.join(params)} {number}": (lambda params=params: MinimumOCE(**params), TypeError, *parts)
    for number, (params, *parts) in enumerate(HINTS)
}
test_message = messages(MESSAGES | {
    # tables
    "NaN": (fit(x=changed(UTIL=np.nan, BANK=np.nan)), ValueError, "NaN for UTIL at 2020-01-10", "(2 such entries"),
    "inf": (fit(x=np.full((5, 2), np.inf)), ValueError, "found inf for column 0 at row 0"),
    "one row": (fit(x=X.iloc[:1]), ValueError, "at least 2 rows", "n_samples=1"),
    "no rows": (fit(x=X.iloc[:0]), ValueError, "0 sample"),
    "one dimension": (fit(x=X["GOLD"]), ValueError, "2"),
    "words": (fit(x=pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]})), ValueError, "could not convert"),
    "one name twice": (fit(x=X.set_axis(list("AABCD"), axis=1)), ValueError, "X must name each asset once", "'A'"),
    "other assets": (lambda: MinimumOCE().fit(X).partial_fit(X.iloc[:, :3]), ValueError, "feature"),
    "names of an array": (fit(x=ARRAY, min_weights={"GOLD": 0.1}), ValueError, "DataFrame"),
    "groups of an array": (fit(x=ARRAY, groups={"GOLD": ["a"]}), ValueError, "DataFrame"),
    "constraints of an array": (fit(x=ARRAY, linear_constraints=["GOLD <= 1"]), ValueError, "DataFrame"),
    "a place in an array": (
        fit(x=ARRAY, max_turnover=0.1, previous_weights=[0, 1, 0, 0, 0], max_weights=0.5), OptimizationError, "asset 1",
    ),
    "a hyphen in a name": (
        fit(x=TWO, linear_constraints=["BRK-B + 1e-3 <= 0.5 <= AAPL"]), ValueError, "one of <=, >= and ==",
    ),
    "cash": (
        fit(x=X.assign(CASH=1e-4), kind=RiskBudgetingOCE), OptimizationError, "of 'CASH'", "not positive",
    ),
    # warnings about units
    "prices": (fit(x=PRICES), UserWarning, "X looks like prices", "prices_to_returns(X)"),
    "gross returns": (fit(x=1.0 + X), UserWarning, "from gross returns 1 + r subtract 1"),
    "per cent": (fit(x=100.0 * X), UserWarning, "returns in per cent", "Fit on X / 100"),
    "small losses": (fit(utility=ce.Entropic()), ce.UnitWarning, "hardly sees", "scaled(s) with s = "),
    "small losses of a frontier": (
        fit(utility=ce.Quartic(), efficient_frontier_size=3), ce.UnitWarning, "hardly sees", "scaled(s) with s = ",
    ),
    # benchmarks
    "a short benchmark": (fit(ARRAY[:400, 0], **TRACKING), ValueError, "one row for each of the 500 rows of X"),
    "one number": (fit(0.01, **TRACKING), ValueError, "y must have one row for each of the 500 rows of X; found shape"),
    "two benchmarks": (fit(X[["TECH", "BANK"]], **TRACKING), ValueError, "one return of the benchmark for each"),
    "a gap": (fit(X["TECH"].where(np.arange(500) > 0), **TRACKING), ValueError, "y must be finite; found 1"),
    "online": (lambda: MinimumOCE(**TRACKING).partial_fit(X, X["TECH"]), ValueError, "need fit: partial_fit"),
    **{
        f"{name} of {kind.__name__}": (fit(y, x, kind), ValueError, *parts)
        for kind in (MinimumOCE, RiskBudgetingOCE)
        for name, (x, y, *parts) in {
            "other dates": (X[-200:], INDEX[:200], "no date in common: 2021-02-24 00:00:00, ", ", ..."),
            "a missing date": (X, INDEX.drop(X.index[5]), "every date of X", "1 of 500", "2020-01-08 00:00:00."),
            "no dates": (X, INDEX.reset_index(drop=True), "in its index, int64; found no date in common"),
            "a date twice": (X, pd.concat([INDEX, INDEX[:1]]), "y must have each date once", "2020-01-01", "to_numpy"),
            "a date of X twice": (pd.concat([X, X[:1]]), INDEX, "X must have each date once"),
        }.items()
    },
    "synthetic scenarios": (
        fit(INDEX, prior_estimator=SyntheticData(n_samples=300), **TRACKING), ValueError,
        "A prior that makes scenarios of its own",
    ),
    "tracking out of reach": (
        fit(X["TECH"], max_weights=0.5, max_tracking_error=1e-5), OptimizationError, "max_tracking_error=1e-05 is out",
    ),
    "limits that clash": (
        fit(X["TECH"], transaction_costs=1e-3, max_tracking_error=1e-3, risk_limits=[(TAIL, 1.05 * LEAST + 1e-3)]),
        OptimizationError, "one by one but not together", "risk_limits[0]", "max_tracking_error",
    ),
    # measures and priors
    "a class to score by": (lambda: oce_scorer(ce.CVaR), TypeError, "write CVaR"),
    "a number to measure by": (lambda: portfolio_oce(PORTFOLIO, 0.05), TypeError, "utility must be"),
    "a population": (lambda: portfolio_oce(Population([PORTFOLIO]), TAIL), TypeError, "measure each"),
    "an array": (lambda: portfolio_oce(ARRAY, TAIL), TypeError, "ndarray"),
    "a measure of a portfolio": (lambda: OCEMeasure(TAIL)(PORTFOLIO, X), TypeError, "estimator that predicts"),
    "a measure for skfolio": (
        lambda: RiskBudgeting(risk_measure=OCEMeasure(TAIL)).fit(X), AttributeError, "not one of skfolio's measures",
    ),
    "a measure to plot": (
        lambda: Population([PORTFOLIO]).plot_measures(x=OCEMeasure(TAIL), y=RatioMeasure.SHARPE_RATIO), TypeError,
        "not one of skfolio's measures",
    ),
    "a history": (lambda: ScenarioPrior(max_history=0).fit(X), ValueError, "max_history", "whole number of at least 1"),
    "a prior for partial_fit": (
        lambda: MinimumOCE(prior_estimator=EmpiricalPrior()).partial_fit(X), TypeError, "partial_fit",
    ),
    "a fallback of partial_fit": (
        lambda: MinimumOCE(fallback=EqualWeighted()).partial_fit(X), ValueError, "only supports",
    ),
    "a parameter of another utility": (lambda: MinimumOCE().set_params(utility__beta=1.0), ValueError, "beta"),
    "a bad parameter of a utility": (lambda: MinimumOCE().set_params(utility__alpha=5.0), ValueError, "alpha"),
})  # fmt: skip


@pytest.mark.parametrize("start", [0.8, 1.0, 1e5])
@pytest.mark.parametrize("rows", [2, 500])
@pytest.mark.parametrize("prior", [None, EmpiricalPrior()], ids=["scenarios", "empirical"])
@pytest.mark.filterwarnings("ignore:The covariance matrix is not positive", "ignore::certeq.ReliabilityWarning")
def test_prices_of_every_size_and_length(start, rows, prior):
    prices = start / 60.0 * PRICES[:rows]
    with pytest.warns(UserWarning, match="X looks like prices") as caught:
        MinimumOCE(prior_estimator=prior).fit(prices)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="from gross returns"):
        MinimumOCE(prior_estimator=prior).fit(1.0 + X[:rows])
