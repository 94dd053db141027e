"""Prices from files: mended with a note, or refused with the row at fault."""

import numpy as np
import pandas as pd
import pytest

from certeq.cli._console import BadData
from certeq.cli._inputs import load_panel


@pytest.fixture
def refused(csv):
    def check(table, match, **more):
        with pytest.raises(BadData, match=match):
            load_panel(csv(table), **more)

    return check


def test_returns_are_those_of_skfolio(prices, csv, tmp_path):
    from skfolio.preprocessing import prices_to_returns

    wanted = prices_to_returns(prices)
    prices.to_parquet(tmp_path / "p.parquet")
    prices.reset_index().to_parquet(tmp_path / "q.parquet")
    for path in (csv(prices), csv(prices, "semi.csv", sep=";"), tmp_path / "p.parquet", tmp_path / "q.parquet"):
        panel = load_panel(path)
        np.testing.assert_allclose(panel.returns, wanted, rtol=1e-9)
        assert panel.notes == []
        assert list(panel.returns.index) == list(wanted.index)


def test_no_file_is_the_panel_in_the_wheel():
    assert load_panel(None).returns.shape == (8312, 20)


def test_gaps_are_filled_and_said(prices, csv):
    table = prices.copy()
    table.iloc[50:53, 2] = np.nan
    panel = load_panel(csv(table))
    assert (panel.returns.iloc[49:52, 2] == 0).all()
    assert "3 missing price(s)" in panel.notes[0]


def test_late_starts_and_empty_columns_are_said(prices, csv):
    table = prices.copy()
    table.iloc[:100, 1] = np.nan
    table["Z"] = np.nan
    panel = load_panel(csv(table))
    assert panel.returns.shape == (300, 6)
    assert "'Z'" in panel.notes[0]
    assert "'B' has no data before" in panel.notes[1]


def test_order_of_dates(prices, csv):
    for shuffled, word in ((prices.iloc[::-1], "reverse"), (prices.sample(frac=1, random_state=0), "not in order")):
        panel = load_panel(csv(shuffled))
        assert word in panel.notes[0]
        np.testing.assert_allclose(panel.returns, load_panel(csv(prices)).returns)


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y%m%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y-%m-%d 16:00:00+01:00"])
def test_forms_of_dates(prices, csv, form):
    found = load_panel(csv(prices.set_axis(prices.index.strftime(form)))).returns.index
    assert [day.date() for day in found] == [day.date() for day in prices.index[1:]]


def test_bad_dates_are_refused(prices, refused):
    twice = prices.copy()
    twice.index = [*twice.index[:5], twice.index[4], *twice.index[6:]]
    refused(twice, "occurs more than once")
    refused(prices.set_axis([*prices.index.strftime("%Y-%m-%d")[:-1], "soon"]), "'soon', which is not a date")
    refused(prices.reset_index(drop=True), "found numbers")
    refused(prices.set_axis([*prices.index.strftime("%d/%m/%Y")[:-1], "31/02/2021"]), "31/02/2021")
    few = prices.iloc[:12].set_axis(
        [f"0{month}/01/2020" for month in range(1, 10)] + [f"{m}/01/2020" for m in (10, 11, 12)]
    )
    refused(few, "the day or the month in front")


def test_bad_prices_are_refused(prices, refused):
    for value, word in ((0.0, "is 0 on"), (-3.0, "is -3 on"), (np.inf, "is infinite on")):
        table = prices.copy()
        table.iloc[10, 3] = value
        refused(table, f"'D' {word} {table.index[10].date()}")


def test_strings_that_are_no_numbers_are_refused(prices, refused):
    table = prices.astype(object)
    table.iloc[3, 0] = "n.v."
    refused(table, "'A' holds 'n.v.'")


def test_too_little_is_refused(prices, refused):
    refused(prices[["A"]], "found 1 asset")
    refused(prices.iloc[:1], "found 1 row")
    refused(prices.iloc[:0], "no rows")
    refused(prices.iloc[:8], "only 7 returns")
    late = prices.copy()
    late.iloc[:-3, 0] = np.nan
    refused(late, "only 3 row.*'A' has its first value")


def test_returns_and_prices_are_told_apart(prices, refused, csv):
    returns = prices.pct_change().dropna()
    refused(returns, "pass --returns")
    refused(100 * returns, "divide|Divide", returns=True)
    refused(prices, "look like prices", returns=True)
    np.testing.assert_allclose(load_panel(csv(returns), returns=True).returns, returns, rtol=1e-12)
    returns.iloc[5, 0] = np.nan
    refused(returns, "'A' is missing on", returns=True)


def test_magnitudes_may_differ_but_not_jump(prices, refused, csv):
    table = prices.copy()
    table["F"] *= 1e8
    np.testing.assert_allclose(load_panel(csv(table)).returns, load_panel(csv(prices)).returns, rtol=1e-8)
    table.iloc[200:, 0] *= 1e8
    refused(table, "'A' went from .* change of currency")


def test_large_and_flat_are_noted(prices, csv):
    table = prices.copy()
    table.iloc[200:, 0] *= 3.0
    table["cash"] = 1.0
    notes = " ".join(load_panel(csv(table)).notes)
    assert "largest return" in notes
    assert "'cash' never moved" in notes


def test_timestamps_with_zones_that_change(prices, csv):
    table = prices.copy()
    table.index = table.index.tz_localize("Europe/Berlin").map(lambda stamp: stamp.isoformat())
    assert len(load_panel(csv(table)).returns) == 400


def test_header_only_and_one_column(tmp_path):
    (tmp_path / "a.csv").write_text("Date\n2020-01-01\n")
    with pytest.raises(BadData, match="one column only"):
        load_panel(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("Date,A,A\n2020-01-01,1,2\n")
    with pytest.raises(BadData, match="'A' occurs twice"):
        load_panel(tmp_path / "b.csv")


def test_column_names_that_are_numbers(prices, csv):
    table = prices.set_axis(range(6), axis=1)
    assert list(load_panel(csv(table)).returns.columns) == list("012345")
    assert pd.api.types.is_float_dtype(load_panel(csv(table)).returns.dtypes.iloc[0])
