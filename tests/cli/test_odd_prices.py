"""Files that are nearly prices: assets that stop, gross returns, percentages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("skfolio")
pytest.importorskip("typer")

from certeq.cli._console import BadData  # noqa: E402
from certeq.cli._inputs import load_panel  # noqa: E402


@pytest.fixture
def returns() -> pd.DataFrame:
    days = pd.bdate_range("2020-01-01", periods=200)
    return pd.DataFrame(0.01 * np.random.default_rng(0).normal(size=(200, 3)), index=days, columns=list("ABC"))


def _written(table: pd.DataFrame, folder: Path) -> Path:
    path = folder / "table.csv"
    table.to_csv(path, index_label="date")
    return path


def test_an_asset_that_stops_is_named_and_left_out(returns: pd.DataFrame, tmp_path: Path) -> None:
    prices = 100.0 * (1.0 + returns).cumprod()
    prices.loc[prices.index[120] :, "B"] = np.nan
    panel = load_panel(_written(prices, tmp_path), returns=False)
    assert list(panel.returns.columns) == ["A", "C"]
    assert any("'B' has no price after 2020-06-16" in note for note in panel.notes)


def test_a_short_halt_at_the_end_is_filled(returns: pd.DataFrame, tmp_path: Path) -> None:
    prices = 100.0 * (1.0 + returns).cumprod()
    prices.loc[prices.index[-4] :, "B"] = np.nan
    assert list(load_panel(_written(prices, tmp_path), returns=False).returns.columns) == ["A", "B", "C"]


@pytest.mark.parametrize("make, words", [(lambda r: 1.0 + r, "gross returns"), (lambda r: 100.0 * r, "per cent")])
def test_returns_in_disguise_are_refused(returns: pd.DataFrame, tmp_path: Path, make, words: str) -> None:
    with pytest.raises(BadData, match=words):
        load_panel(_written(make(returns), tmp_path), returns=False)


def test_an_index_that_starts_at_one_is_a_price(returns: pd.DataFrame, tmp_path: Path) -> None:
    prices = (1.0 + 0.1 * returns).cumprod()
    assert load_panel(_written(prices, tmp_path), returns=False).returns.shape == (199, 3)


def test_a_gap_on_the_first_day_of_the_youngest_asset_has_its_last_price(returns: pd.DataFrame, tmp_path: Path) -> None:
    prices = 100.0 * (1.0 + returns).cumprod()
    prices.iloc[0, 0] = prices.iloc[1, 1] = np.nan  # A begins on the second day, on which B has a gap
    panel = load_panel(_written(prices, tmp_path), returns=False)
    assert len(panel.returns) == 198
    assert not panel.returns.isna().any(axis=None)
    assert panel.returns["B"].iloc[0] == pytest.approx(prices["B"].iloc[2] / prices["B"].iloc[0] - 1.0)
    assert any("1 missing price(s)" in note for note in panel.notes)


def test_prices_with_scattered_gaps_are_read(returns: pd.DataFrame, tmp_path: Path) -> None:
    prices = 100.0 * (1.0 + returns).cumprod()
    for seed in range(30):
        gaps = np.random.default_rng(seed).random(prices.shape) < 0.3
        panel = load_panel(_written(prices.mask(gaps), tmp_path), returns=False)
        assert np.isfinite(panel.returns.to_numpy()).all()


def test_an_asset_that_stops_before_another_begins_is_dated(returns: pd.DataFrame, tmp_path: Path) -> None:
    prices = 100.0 * (1.0 + returns).cumprod()
    prices.loc[prices.index[60] :, "A"] = np.nan
    prices.loc[: prices.index[99], "B"] = np.nan
    panel = load_panel(_written(prices, tmp_path), returns=False)
    assert list(panel.returns.columns) == ["B", "C"]
    assert "'A' has no price after 2020-03-24 and is left out: it cannot be held any more." in panel.notes
