"""Input that is odd but sound, and parameters that come from elsewhere. Refusals are in `tests/messages`."""

from __future__ import annotations

import contextlib
import inspect
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from skfolio.exceptions import OptimizationError
from skfolio.optimization import MeanRisk
from sklearn.base import clone

import certeq as ce
from certeq.optimize.exact import solve_exact
from certeq.optimize.sg import minimize_sg
from certeq.portfolio import MinimumOCE, RiskBudgetingOCE


def test_warnings_point_at_the_call(small: pd.DataFrame) -> None:
    for model, X, words in (
        (MinimumOCE(ce.CVaR(0.05)), 100.0 * small, "per cent"),
        (MinimumOCE(ce.Entropic()), small, "hardly sees"),
        (RiskBudgetingOCE(), 60.0 * (1.0 + small).cumprod(), "X looks like prices"),
    ):
        with pytest.warns(UserWarning, match=words) as caught, contextlib.suppress(OptimizationError):
            model.fit(X)
        assert caught[0].filename == __file__


@pytest.mark.filterwarnings("error")
def test_what_is_taken_in_silence(small: pd.DataFrame) -> None:
    rng = np.random.default_rng(0)
    leveraged = small.copy()
    leveraged.iloc[3, 0] = -1.5  # a few total losses are no percentages
    MinimumOCE().fit(leveraged)
    MinimumOCE().fit(1e-4 * (1.0 + 0.1 * rng.random((100, 3))))  # rates of interest
    MinimumOCE().fit(rng.exponential(3.0, (100, 3)))  # large gains, as unlike each other as such gains are
    MinimumOCE().fit(np.abs(100.0 * small))  # per cent that never lose


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_one_asset_and_two_rows(small: pd.DataFrame) -> None:
    one = MinimumOCE().fit(small[["GOLD"]])
    assert one.weights_.tolist() == [1.0]
    assert one.gap_ < 1e-12
    assert MinimumOCE().fit(small.iloc[:2]).weights_.sum() == pytest.approx(1.0)
    assert MinimumOCE().fit(np.zeros((10, 3))).objective_ == 0.0


def test_series_are_read_by_name_and_by_position(small: pd.DataFrame) -> None:
    ways = ({"TECH": 0.1, "GOLD": 0.2}, pd.Series({"TECH": 0.1, "GOLD": 0.2}), pd.Series([1.0, 0.2, 1.0, 1.0, 0.1]))
    one, two, three = (MinimumOCE(max_weights=each).fit(small).weights_ for each in ways)
    assert np.array_equal(one, two)
    assert np.array_equal(one, three)


def test_without_skfolio_one_line_names_the_extra() -> None:
    code = "import sys; sys.modules['skfolio'] = None; import certeq.portfolio"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "pip install 'certeq[portfolio]'" in done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("solver", "function", "ours"),
    [
        ("exact", solve_exact, "A utility weights linear quadratic lower upper C c G b theta0 tol"),
        ("sg", minimize_sg, "loss utility domain samples theta0 weights"),
    ],
)
def test_every_parameter_of_the_solvers_is_offered(small: pd.DataFrame, solver: str, function: Any, ours: str) -> None:
    with pytest.raises(ValueError, match="a key of solver_params") as raised:
        MinimumOCE(solver=solver, solver_params={"?": 1}).fit(small)
    offered = set(re.findall(r"'(\w+)'", str(raised.value).partition("must be one of")[2]))
    assert offered == set(inspect.signature(function).parameters) - set(ours.split())


def test_every_parameter_of_mean_risk_leads_somewhere() -> None:
    theirs, mine = (set(inspect.signature(kind).parameters) for kind in (MeanRisk, MinimumOCE))
    for name in theirs - mine:
        with pytest.raises(TypeError, match=f"MinimumOCE has no parameter '{name}'; found 1.0. .*"):
            MinimumOCE(**{name: 1.0})
    assert not {"args", "kwargs", "given"} & mine
    assert clone(MinimumOCE(ce.CVaR(0.1), max_weights=0.4)).get_params()["utility__alpha"] == 0.1
