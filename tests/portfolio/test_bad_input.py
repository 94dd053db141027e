"""What is refused, and that the message names the argument, what was found and what would be right."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import sys

import numpy as np
import pandas as pd
import pytest
from skfolio.exceptions import OptimizationError
from skfolio.optimization import ObjectiveFunction
from skfolio.prior import EmpiricalPrior

import certeq as ce
from certeq.portfolio import MinimumOCE, RiskBudgetingOCE, ScenarioPrior

WRONG = [
    ({"utility": ce.CVaR}, TypeError, r"utility must be an instance; write CVaR\(\)"),
    ({"utility": "cvar"}, TypeError, "utility must be a Utility"),
    ({"utility": 0.5 * ce.CVaR(0.5)}, ValueError, "slope"),
    ({"prior_estimator": EmpiricalPrior}, TypeError, r"write EmpiricalPrior\(\)"),
    ({"prior_estimator": 3}, TypeError, "prior_estimator must be a skfolio prior"),
    ({"objective_function": "minimise_risk"}, ValueError, "Did you mean 'minimize_risk'"),
    ({"objective_function": ObjectiveFunction.MAXIMIZE_RATIO, "l2_coef": 1.0}, ValueError, "takes no l2_coef"),
    ({"objective_function": "maximize_return", "solver": "sg"}, ValueError, "use solver='exact'"),
    ({"risk_limits": [(ce.CVaR(0.05), 0.02)], "solver": "sg"}, ValueError, "takes no limits on risks"),
    ({"risk_limits": (ce.CVaR(0.05), 0.02)}, TypeError, r"found one pair: write \[\(CVaR"),
    ({"risk_limits": [(0.02, ce.CVaR(0.05))]}, TypeError, "pairs such as"),
    ({"risk_limits": 0.02}, TypeError, "pairs such as"),
    ({"risk_limits": [(ce.CVaR(0.05), "a")]}, TypeError, r"the level of risk_limits\[0\]"),
    ({"risk_limits": [(ce.CVaR(0.05), [0.1, 0.2]), (ce.EVaR(0.1), [0.1] * 3)]}, ValueError, "equally many"),
    ({"risk_limits": [(ce.CVaR(0.05), [0.1, 0.2])], "efficient_frontier_size": 3}, ValueError, "one level each"),
    ({"risk_limits": [(ce.Wang(0.5), 0.1)]}, ValueError, r"risk_limits\[0\].*Wang.*not taken as a limit"),
    ({"utility": ce.Wang(0.5), "objective_function": "maximize_ratio"}, ValueError, "not taken beside limits"),
    ({"max_tracking_error": 0.01}, ValueError, r"pass its returns as y, as in fit\(X, y\)"),
    ({"max_tracking_error": 0.0}, ValueError, "max_tracking_error"),
    ({"risk_free_rate": "a", "objective_function": "maximize_ratio"}, TypeError, "risk_free_rate"),
    ({"objective_function": 3}, ValueError, "objective_function must be one of"),
    ({"risk_aversion": 0.0}, ValueError, "risk_aversion must be a number above 0; found 0.0"),
    ({"risk_aversion": "high"}, TypeError, "risk_aversion must be a number above 0; found 'high'"),
    ({"recenter": "always"}, ValueError, "recenter must be one of"),
    ({"recenter": 1}, ValueError, "recenter must be one of"),
    ({"solver": "CLARABEL"}, ValueError, "solver must be one of 'exact', 'sg'"),
    ({"solver_params": 5}, TypeError, "solver_params must be a dict"),
    ({"tol": -1.0}, ValueError, "tol must be a number above 0"),
    ({"unknown_names": "drop"}, ValueError, "unknown_names must be one of"),
    ({"min_weights": "0.1"}, TypeError, "min_weights must be a number, 5 numbers"),
    ({"min_weights": True}, TypeError, "min_weights"),
    ({"min_weights": [0.1, 0.2]}, ValueError, r"min_weights must be .*; found an array of shape \(2,\)"),
    ({"min_weights": [0.1, np.nan, 0, 0, 0]}, ValueError, "min_weights must not be NaN; found NaN for 'GOLD'"),
    ({"min_weights": np.inf}, ValueError, "min_weights must not be inf"),
    ({"max_weights": -np.inf}, ValueError, "max_weights must not be -inf"),
    ({"max_weights": {"GOLDD": 0.1}}, ValueError, "max_weights names 'GOLDD'.*Did you mean 'GOLD'"),
    ({"max_weights": {"GOLD": "a"}}, TypeError, r"max_weights\['GOLD'\] must be a number; found 'a'"),
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
    ({"management_fees": {"X": 0.1}}, ValueError, "management_fees names 'X'"),
    ({"previous_weights": [1.0]}, ValueError, "previous_weights must be"),
    ({"l1_coef": -1.0}, ValueError, "l1_coef must be a number not below 0"),
    ({"l2_coef": None}, TypeError, "l2_coef must be a number not below 0; found None"),
    ({"min_return": "big"}, TypeError, "min_return"),
    ({"min_return": np.nan}, ValueError, "min_return must be a number"),
    ({"groups": {"NOPE": ["a"]}}, ValueError, "groups names 'NOPE'"),
    ({"groups": [["a", "b"]], "linear_constraints": ["a <= 1"]}, ValueError, r"groups must have shape \(levels, 5\)"),
    ({"linear_constraints": "GOLD <= 0.5"}, TypeError, r"write \['GOLD <= 0.5'\]"),
    ({"linear_constraints": [5]}, TypeError, "list of strings"),
    ({"linear_constraints": ["SILVER <= 0.5"]}, ValueError, "linear_constraints: .*'SILVER'.*in 'SILVER <= 0.5'"),
    ({"left_inequality": np.eye(5)}, ValueError, "right_inequality is None"),
    ({"left_inequality": np.eye(4), "right_inequality": np.ones(4)}, ValueError, r"shape \(n, 5\); found \(4, 4\)"),
    ({"left_inequality": np.eye(5), "right_inequality": np.ones(4)}, ValueError, r"shape \(5,\)"),
]
IMPOSSIBLE = [
    ({"max_weights": 0.1}, "max_weights add up to 0.5, less than budget=1"),
    ({"min_weights": 0.3}, "min_weights add up to 1.5, more than budget=1"),
    ({"max_turnover": 0.1}, r"max_weights \(with max_turnover=0.1\) add up to 0.5"),
    ({"max_turnover": 0.1, "previous_weights": {"GOLD": 1.0}, "max_weights": 0.5}, r"keeps 'GOLD' within \[0.9, 1.1\]"),
    ({"min_return": 0.5}, "min_return=0.5 is out of reach: .* at most"),
    ({"linear_constraints": ["GOLD >= 0.6", "GOLD + BOND <= 0.4"]}, "cannot hold together .*GOLD >= 0.6.*GOLD . BOND"),
    ({"linear_constraints": ["GOLD >= 1.5"]}, "'GOLD >= 1.5' cannot hold within"),
    ({"linear_constraints": ["GOLD + TECH == 0.5", "GOLD + TECH == 0.6"]}, "GOLD . TECH == 0.5"),
    ({"left_inequality": -np.eye(5)[:1], "right_inequality": [-2.0]}, r"left_inequality\[0\] cannot hold"),
    ({"min_weights": -1.0, "max_long": 0.5}, "budget=1; max_long=0.5|max_long=0.5"),
]


@pytest.mark.parametrize("params, kind, text", WRONG, ids=[str(each[0])[:60] for each in WRONG])
def test_wrong_parameters(params: dict, kind: type[Exception], text: str, small: pd.DataFrame) -> None:
    with pytest.raises(kind, match=text):
        MinimumOCE(**params).fit(small)


@pytest.mark.parametrize("params, text", IMPOSSIBLE, ids=[str(each[0])[:60] for each in IMPOSSIBLE])
@pytest.mark.parametrize("solver", ["exact", "sg"])
def test_impossible_constraints_are_named(params: dict, text: str, solver: str, small: pd.DataFrame) -> None:
    with pytest.raises(OptimizationError, match=text):
        MinimumOCE(solver=solver, **params).fit(small)


def test_names_without_a_data_frame(small: pd.DataFrame) -> None:
    X = small.to_numpy()
    for params in ({"min_weights": {"GOLD": 0.1}}, {"groups": {"GOLD": ["a"]}}, {"linear_constraints": ["GOLD <= 1"]}):
        with pytest.raises(ValueError, match="DataFrame"):
            MinimumOCE(**params).fit(X)
    with pytest.raises(OptimizationError, match="asset 1"):
        MinimumOCE(max_turnover=0.1, previous_weights=[0, 1, 0, 0, 0], max_weights=0.5).fit(X)


def test_unbounded(small: pd.DataFrame) -> None:
    model = MinimumOCE(ce.Mean(), min_weights=None, max_weights=None)
    with pytest.raises(OptimizationError, match="unbounded"):
        model.fit(small)


def test_tables(small: pd.DataFrame) -> None:
    X = small.copy()
    X.iloc[7, 2] = np.nan
    X.iloc[9, 3] = np.nan
    with pytest.raises(ValueError, match=r"found NaN for UTIL at 2020-01-10 .*\(2 such entries"):
        MinimumOCE().fit(X)
    with pytest.raises(ValueError, match=r"found inf for column 0 at row 0"):
        MinimumOCE().fit(np.full((5, 2), np.inf))
    with pytest.raises(ValueError, match="at least 2 rows.*n_samples=1"):
        MinimumOCE().fit(small.iloc[:1])
    with pytest.raises(ValueError, match="0 sample"):
        MinimumOCE().fit(small.iloc[:0])
    with pytest.raises(ValueError, match=r"2-dimensional|2D array"):
        MinimumOCE().fit(small["GOLD"])
    with pytest.raises(ValueError, match="could not convert"):
        MinimumOCE().fit(pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]}))
    model = MinimumOCE().fit(small)
    with pytest.raises(ValueError, match=r"feature names|features"):
        model.partial_fit(small.iloc[:, :3])


@pytest.mark.parametrize("start", [0.8, 1.0, 60.0, 1e5])
@pytest.mark.parametrize("rows", [2, 5, 500])
@pytest.mark.parametrize("prior", [None, EmpiricalPrior()], ids=["scenarios", "empirical"])
def test_prices_in_place_of_returns(start: float, rows: int, prior: object, small: pd.DataFrame) -> None:
    prices = start * (1.0 + small).cumprod().iloc[:rows]
    with pytest.warns(UserWarning, match=r"X looks like prices.*prices_to_returns\(X\)") as caught:
        MinimumOCE(prior_estimator=prior).fit(prices)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match=r"from gross returns 1 \+ r subtract 1"):
        MinimumOCE(prior_estimator=prior).fit(1.0 + small.iloc[:rows])
    with pytest.warns(UserWarning, match="X looks like prices"), contextlib.suppress(OptimizationError):
        RiskBudgetingOCE(prior_estimator=prior).fit(prices)


def test_returns_in_per_cent(small: pd.DataFrame) -> None:
    with pytest.warns(UserWarning, match=r"returns in per cent.*Fit on X / 100") as caught:
        MinimumOCE(ce.CVaR(0.05)).fit(100.0 * small)
    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("error")
def test_a_few_total_losses_are_no_percentages(small: pd.DataFrame) -> None:
    leveraged = small.copy()
    leveraged.iloc[3, 0] = -1.5
    MinimumOCE(ce.CVaR(0.05)).fit(leveraged)


@pytest.mark.filterwarnings("error")
def test_returns_that_never_lose_are_taken_in_silence(small: pd.DataFrame) -> None:
    rng = np.random.default_rng(0)
    MinimumOCE().fit(1e-4 * (1.0 + 0.1 * rng.random((100, 3))))  # rates of interest
    MinimumOCE().fit(rng.exponential(3.0, (100, 3)))  # large gains, as unlike each other as such gains are
    MinimumOCE().fit(np.abs(100.0 * small))  # per cent


def test_one_asset_and_two_rows(small: pd.DataFrame) -> None:
    one = MinimumOCE().fit(small[["GOLD"]])
    assert one.weights_.tolist() == [1.0]
    assert one.gap_ < 1e-12
    assert MinimumOCE().fit(small.iloc[:2]).weights_.sum() == pytest.approx(1.0)
    assert MinimumOCE().fit(np.zeros((10, 3))).objective_ == 0.0


def test_names_that_would_be_formulas_are_only_names(small: pd.DataFrame) -> None:
    X = small.set_axis(["=cmd()", "<b>", "a\nb", "'q\"", "+1"], axis=1)
    model = MinimumOCE(max_weights={"<b>": 0.1}).fit(X)
    assert model.weights_[1] <= 0.1 + 1e-12
    with pytest.raises(ValueError, match="names '<i>'"):
        MinimumOCE(max_weights={"<i>": 0.1}).fit(X)


def test_series_are_read_by_name_and_by_position(small: pd.DataFrame) -> None:
    by_name = pd.Series({"TECH": 0.1, "GOLD": 0.2})
    one = MinimumOCE(max_weights=by_name).fit(small)
    two = MinimumOCE(max_weights={"TECH": 0.1, "GOLD": 0.2}).fit(small)
    three = MinimumOCE(max_weights=pd.Series([1.0, 0.2, 1.0, 1.0, 0.1])).fit(small)
    assert np.array_equal(one.weights_, two.weights_)
    assert np.array_equal(one.weights_, three.weights_)


def test_prior_refuses_a_bad_history(small: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="max_history must be a whole number of at least 1"):
        ScenarioPrior(max_history=0).fit(small)


def test_without_skfolio_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def no_skfolio(name: str, *args: object, **kwargs: object) -> object:
        if name.partition(".")[0] == "skfolio":
            raise ImportError("No module named 'skfolio'")
        return real(name, *args, **kwargs)  # type: ignore[arg-type]

    for name in [each for each in sys.modules if each.startswith("certeq.portfolio")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", no_skfolio)
    with pytest.raises(ImportError, match=r"pip install 'certeq\[portfolio\]'"):
        importlib.import_module("certeq.portfolio")


def test_solver_params_are_known_by_name(small: pd.DataFrame) -> None:
    with pytest.raises(
        ValueError, match=r"a key of solver_params for solver='exact' must be one of .*Did you mean 'max_iter'"
    ):
        MinimumOCE(solver_params={"max_iters": 5}).fit(small)
    with pytest.raises(ValueError, match="Did you mean 'iterations'"):
        MinimumOCE(solver="sg", solver_params={"iteration": 5}).fit(small)


def test_every_parameter_of_the_solvers_is_offered() -> None:
    import inspect

    from certeq.optimize.exact import solve_exact
    from certeq.optimize.sg import minimize_sg
    from certeq.portfolio._inputs import SOLVER_PARAMS

    ours = {"A", "utility", "weights", "linear", "quadratic", "lower", "upper", "C", "c", "G", "b", "theta0", "tol"}
    assert set(SOLVER_PARAMS["exact"]) == set(inspect.signature(solve_exact).parameters) - ours
    ours = {"loss", "utility", "domain", "samples", "theta0", "weights"}
    assert set(SOLVER_PARAMS["sg"]) == set(inspect.signature(minimize_sg).parameters) - ours


def test_an_asset_named_twice(small: pd.DataFrame) -> None:
    frame = pd.DataFrame(np.asarray(small)[:, [0, 0, 1]], columns=["A", "A", "B"])
    with pytest.raises(ValueError, match="X must name each asset once; found 'A' more than once"):
        MinimumOCE().fit(frame)


def test_a_constraint_that_cannot_be_read(small: pd.DataFrame) -> None:
    name = small.columns[0]
    with pytest.raises(ValueError, match=rf"linear_constraints: .*in '{name} >> 0.5'\. A constraint reads like"):
        MinimumOCE(linear_constraints=[f"{name} >> 0.5"]).fit(small)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Foo <= 0.5", "there is no asset or group 'Foo', in 'Foo <= 0.5'."),
        ("AAPL <= 0.5 * aple", "there is no asset or group 'aple', in .* Did you mean 'AAPL'?"),
        ("AAPL <= 30%", "linear_constraints: write 0.3 for 30 %, in"),
        ("AAPL <= 0,3", "linear_constraints: write 0.3 for 0,3, in"),
        ("BRK-B + 1e-3 <= 0.5 <= AAPL", "one of <=, >= and ==, with terms on both sides, must be in"),
    ],
)
def test_a_constraint_that_cannot_be_read_says_why(text, said):
    X = pd.DataFrame(np.random.default_rng(0).normal(0.0, 0.01, (50, 2)), columns=["AAPL", "BRK-B"])
    with pytest.raises(ValueError, match=said) as caught:
        MinimumOCE(linear_constraints=[text]).fit(X)
    assert "Wrong pattern" not in str(caught.value)
