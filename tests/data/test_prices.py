"""Prices that can be mended are, with a note: gaps, late starts, assets that stop, dates out of order."""

import numpy as np
import pandas as pd
import pytest

from certeq.data import read_prices
from tests.data.files import PRICES, read

MOVES = pd.DataFrame(
    0.01 * np.random.default_rng(0).normal(size=(200, 3)), pd.bdate_range("2020-01-01", periods=200), list("ABC")
)
TABLE = 100.0 * (1.0 + MOVES).cumprod()
RETURNS = TABLE.pct_change().iloc[1:]


def changed(rows, column, value, table=TABLE):
    table = table.copy()
    table.iloc[rows, column] = value
    return table


def test_sound_prices_have_no_notes():
    found = read(TABLE)
    assert found.notes == []
    np.testing.assert_allclose(found.returns, RETURNS, rtol=1e-12)
    assert (found.returns.index == TABLE.index[1:]).all()


def test_gaps_are_filled_with_the_price_before():
    found = read(changed(slice(50, 53), 2, np.nan))
    assert (found.returns.iloc[49:52, 2] == 0.0).all()
    assert found.returns.iloc[52, 2] == pytest.approx(TABLE.iloc[53, 2] / TABLE.iloc[49, 2] - 1.0)
    assert found.notes == ["3 missing price(s) (0.50%) filled with the last price before: returns of 0 on those dates."]


@pytest.mark.parametrize("seed", range(5))
def test_scattered_gaps(seed):
    found = read(TABLE.mask(np.random.default_rng(seed).random(TABLE.shape) < 0.3))
    assert np.isfinite(found.returns.to_numpy()).all()


def test_late_starts_and_empty_columns():
    found = read(changed(slice(0, 100), 1, np.nan).assign(Z=np.nan, Y=np.nan))
    assert found.returns.shape == (99, 3)
    assert found.notes[0] == "column(s) 'Z', 'Y' without any number left out."
    assert found.notes[1] == "100 row(s) before 2020-05-20 left out: 'B' has no data before."
    many = read(TABLE.assign(**dict.fromkeys("STUVW", np.nan)))
    assert many.notes[0] == "column(s) 'S', 'T', 'U' and 2 more without any number left out."


def test_rows_without_any_price_are_left_out():
    found = read(changed(slice(70, 72), slice(None), np.nan))
    assert len(found.returns) == 197
    assert found.notes == []


def test_the_least_number_of_rows():
    assert len(read(TABLE[:11]).returns) == 10
    assert len(read(changed(slice(0, -11), 0, np.nan)).returns) == 10
    assert len(read(RETURNS[:10], returns=True).returns) == 10
    assert read(TABLE[["A", "B"]], least_assets=2).returns.shape[1] == 2


@pytest.mark.parametrize(("halt", "kept"), [(10, "ABC"), (11, "AC")])
def test_an_asset_that_stops_is_named_and_left_out(halt, kept):
    """Ten days without a price may be holidays; an asset without one for longer cannot be held any more."""
    found = read(changed(slice(-halt, None), 1, np.nan))
    assert list(found.returns.columns) == list(kept)
    if halt == 11:
        assert found.notes == ["'B' has no price after 2020-09-21 and is left out: it cannot be held any more."]


def test_an_asset_that_stops_before_another_begins():
    found = read(changed(slice(0, 100), 1, np.nan, changed(slice(60, None), 0, np.nan)))
    assert list(found.returns.columns) == ["B", "C"]
    assert len(found.returns) == 99
    assert "'A' has no price after 2020-03-24 and is left out: it cannot be held any more." in found.notes


def test_a_halt_of_months_is_counted_in_months():
    months = TABLE.set_axis(pd.date_range("2004-01-31", periods=200, freq="ME"))
    assert list(read(changed(slice(-1, None), 1, np.nan, months)).returns.columns) == ["A", "B", "C"]
    assert list(read(changed(slice(-2, None), 1, np.nan, months)).returns.columns) == ["A", "C"]


def test_a_gap_on_the_first_day_of_the_youngest_asset_has_its_last_price():
    found = read(changed(1, 1, np.nan, changed(0, 0, np.nan)))  # A begins on the second day, on which B has a gap
    assert len(found.returns) == 198
    assert not found.returns.isna().any(axis=None)
    assert found.returns["B"].iloc[0] == pytest.approx(TABLE["B"].iloc[2] / TABLE["B"].iloc[0] - 1.0)
    assert any("1 missing price(s)" in note for note in found.notes)


@pytest.mark.parametrize(("order", "word"), [(slice(None, None, -1), "in reverse"), ([5, 3, *range(6, 200)], "not in")])
def test_dates_out_of_order_are_sorted(order, word):
    found = read(TABLE.iloc[order])
    assert found.notes == [f"the dates were {word} order; they have been sorted."]
    assert found.returns.index.is_monotonic_increasing
    np.testing.assert_allclose(found.returns, TABLE.iloc[order].sort_index().pct_change().iloc[1:], rtol=1e-12)


def test_returns_are_taken_as_they_are():
    found = read(RETURNS, returns=True)
    np.testing.assert_allclose(found.returns, RETURNS, rtol=1e-12)
    assert found.prices is None
    late = read(changed(slice(0, 20), 0, np.nan, RETURNS), returns=True)
    assert len(late.returns) == 179
    assert "'A' has no data before" in late.notes[0]
    total = read(changed(5, 0, -1.0, RETURNS), returns=True)  # a loss of all is a loss
    assert total.returns.iloc[5, 0] == -1.0


def test_an_index_that_starts_at_one_is_a_price():
    assert read((1.0 + 0.1 * MOVES).cumprod()).returns.shape == (199, 3)


def test_magnitudes_may_differ():
    table = TABLE * [1.0, 1e8, 1e-3]
    np.testing.assert_allclose(read(table).returns, RETURNS, rtol=1e-8)
    assert read(changed(slice(100, None), 0, TABLE["A"].iloc[100:] * 90.0)).returns["A"].max() > 80.0


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (0.1, "a split, perhaps 1 for 10, that"),
        (0.5, "a split, perhaps 1 for 2, that"),
        (0.4, "falls by 60% on 2020-05-20: a split that"),  # 1 for 2.5
        (0.58, ""),
        (3.0, "the largest return is +202%, 'C' on 2020-05-20: an error in the data?"),
        (1.9, ""),
    ],
)
def test_jumps_are_noted(factor, said):
    notes = " ".join(read(changed(slice(100, None), 2, factor * TABLE["C"].iloc[100:])).notes)
    assert said in notes
    assert bool(said) == bool(notes)


def test_a_fall_of_a_month_may_be_larger():
    months = TABLE.set_axis(pd.date_range("2004-01-31", periods=200, freq="ME"))
    for factor, noted in ((0.3, False), (0.2, True)):
        notes = read(changed(slice(100, None), 2, factor * months["C"].iloc[100:], months)).notes
        assert notes[0] == "monthly data, 12 months a year: told by the dates; --periods-per-year overrides it."
        assert any("falls by" in note for note in notes) == noted


def test_what_never_moves_is_noted():
    assert read(TABLE.assign(cash=1.0)).notes == [
        "column(s) 'cash' never moved: a minimizer of risk will treat it as cash."
    ]


def test_the_frequency_that_is_given_wins():
    assert read(PRICES, periods_per_year=250).notes == []
    found = read(PRICES, periods_per_year=12)
    assert found.frequency.periods_per_year == 12
    assert found.notes == ["the dates look daily (252 days a year), but 12 a year were asked for."]


def test_a_path_may_be_a_text(tmp_path):
    TABLE.to_csv(tmp_path / "prices.csv")
    assert read_prices(str(tmp_path / "prices.csv")).source == "prices.csv"
