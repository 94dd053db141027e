"""What studies and walks are refused for: the argument, the column and date, what is there, and what to do."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.messages import messages
from tests.report.conftest import study

pytest.importorskip("skfolio", reason="walks need the extra [portfolio]")
from skfolio import Portfolio
from skfolio.optimization import EqualWeighted

from certeq.report import Strategy, WalkStudy, walk_forward, walk_of

WHOLE = study(["A", "B", "C"], days=300)
MINE, JUDGED = WHOLE.strategies[0], WHOLE.judged_on
EVERYTHING = pd.concat([WHOLE.fitted_on, JUDGED])
X = EVERYTHING
HALF, ALL = Portfolio(X[:150], [0.2, 0.3, 0.5]), Portfolio(X, [0.2, 0.3, 0.5])
WALK = walk_of("w", [ALL])


def changed(table, column, value):
    table = table.copy()
    table.iloc[5, column] = value
    return table


def tables(name):
    """Return the messages about one of the two tables of returns."""
    table = getattr(WHOLE, name)
    fifth = f"{table.index[5]:%Y-%m-%d}"
    cases = {
        "nan": (changed(table, 2, np.nan), ValueError, "must be finite", f"nan in column 'C' on {fifth}", "1 such"),
        "inf": (changed(table, 1, np.inf), ValueError, "must be finite", f"inf in column 'B' on {fifth}"),
        "no rows": (table.iloc[:0], ValueError, "at least one row"),
        "no dates": (table.reset_index(drop=True), ValueError, "DatetimeIndex; found RangeIndex, first 0"),
        "texts": (table.set_axis(table.index.astype(str)), ValueError, "DatetimeIndex; found Index"),
        "backwards": (table.iloc[::-1], ValueError, "in the order of time, each date once"),
        "twice": (table.iloc[[0, 1, 1, 2]], ValueError, "in row 2", "sort_index"),
        "an array": (table.to_numpy(), TypeError, "pandas DataFrame of returns", "found ndarray"),
        "words": (table.assign(B="x"), TypeError, "must hold numbers", "in column 'B'"),
    }
    return {
        f"{name}: {case}": (lambda bad=bad: replace(WHOLE, **{name: bad}), kind, name, *parts)
        for case, (bad, kind, *parts) in cases.items()
    }


test_message = messages({
    **tables("fitted_on"),
    **tables("judged_on"),
    "other columns": (
        lambda: replace(WHOLE, judged_on=JUDGED[["C", "A", "B"]]), ValueError, "same assets", "'A' and 'C' in column 0",
    ),
    "fewer columns": (lambda: replace(WHOLE, judged_on=JUDGED[["A", "B"]]), ValueError, "found 3 and 2 columns"),
    "a time zone": (
        lambda: replace(WHOLE, judged_on=JUDGED.tz_localize("UTC")), ValueError, "dates of one kind", "None", "UTC",
    ),
    "a partial overlap": (
        lambda: replace(WHOLE, judged_on=EVERYTHING.iloc[140:]), ValueError,
        "found 10 of 160", f"{EVERYTHING.index[140]:%Y-%m-%d} to {EVERYTHING.index[149]:%Y-%m-%d}", "Leave those out",
    ),
    "an overlap": (lambda: replace(WHOLE, judged_on=EVERYTHING), ValueError, "found 150 of 300"),
    "focus": (lambda: replace(WHOLE, focus="Nobody"), ValueError, "focus must name"),
    "a focus without a utility": (lambda: replace(WHOLE, focus="Equal weights"), ValueError, "weights and a utility"),
    "one name twice": (lambda: replace(WHOLE, strategies=(MINE, MINE)), ValueError, "distinct"),
    "weights of another shape": (
        lambda: replace(WHOLE, strategies=(replace(MINE, weights=np.ones(2)),)), ValueError,
        "weights of 'CVaR'", "shape (3,)", "found (2,)",
    ),
    "weights of NaN": (
        lambda: replace(WHOLE, strategies=(replace(MINE, weights=np.array([1.0, np.nan, 0.0])),)), ValueError,
        "weights of 'CVaR' must be finite", "nan at 1",
    ),
    "endless returns": (
        lambda: replace(WHOLE, strategies=(MINE, Strategy("IDX", None, returns=np.full(len(JUDGED), np.inf)))),
        ValueError, "returns of 'IDX' must be finite", "inf at 0",
    ),
    "periods that overlap": (lambda: walk_of("w", [HALF, HALF]), ValueError, "without overlap", "2020-01-01 after"),
    "no dates of a walk": (lambda: walk_of("w", [Portfolio(X.to_numpy(), [0.2, 0.3, 0.5])]), ValueError, "have dates"),
    "no portfolios": (lambda: walk_of("w", [1.0]), TypeError, "Portfolios or pairs (fitted estimator, returns)"),
    "nothing": (lambda: walk_of("w", []), ValueError, "at least one portfolio; found none"),
    "too long a window": (
        lambda: walk_forward("w", EqualWeighted(), X, train_size=300, test_size=1), ValueError,
        "train_size must be less than the 300 rows",
    ),
    "other dates": (
        lambda: WalkStudy("t", "s", (WALK, walk_of("other", [HALF]))), ValueError, "same dates; those of 'other'",
    ),
    "a short benchmark": (
        lambda: WalkStudy("t", "s", (WALK,), benchmark=X["A"][:200]), ValueError, "100 are missing, the first of",
    ),
    "a benchmark without dates": (
        lambda: WalkStudy("t", "s", (WALK,), benchmark=[0.1]), TypeError, "a Walk or a pandas Series",
    ),
    "focus of a walk": (lambda: WalkStudy("t", "s", (WALK,), focus="A"), ValueError, "focus must name a walk"),
    "too long a rolling window": (
        lambda: WalkStudy("t", "s", (WALK,), window=301), ValueError, "window must be at most the 300 dates",
    ),
})  # fmt: skip
