"""Data: the S&P panel inside skfolio's wheel, the FTSE panel where it is to be had, and a small panel of our own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("skfolio", reason="portfolios need the extra [portfolio]")

from skfolio.datasets import load_ftse100_dataset, load_sp500_dataset
from skfolio.preprocessing import prices_to_returns

from tests.conftest import ftse_folder


@pytest.fixture(scope="session")
def sp500() -> pd.DataFrame:
    return prices_to_returns(load_sp500_dataset())


@pytest.fixture(scope="session")
def ftse() -> pd.DataFrame:
    folder = ftse_folder()
    if folder is None:
        pytest.skip("the FTSE 100 panel is not here: set SKFOLIO_DATA to a folder with ftse100_dataset.csv.gz")
    return prices_to_returns(load_ftse100_dataset(data_home=folder))


def panel() -> pd.DataFrame:
    """Return two years of five assets: a market, heavy tails, different means."""
    rng = np.random.default_rng(7)
    market = rng.standard_t(4, size=(500, 1)) * 0.006
    own = rng.standard_t(5, size=(500, 5)) * [0.004, 0.006, 0.008, 0.010, 0.012]
    returns = market * [0.5, 0.8, 1.0, 1.2, 1.5] + own
    returns += [0.0002, 0.0003, 0.0005, 0.0007, 0.0010] - returns.mean(axis=0)
    dates = pd.date_range("2020-01-01", periods=500, freq="B")
    return pd.DataFrame(returns, columns=["BOND", "GOLD", "UTIL", "BANK", "TECH"], index=dates)


@pytest.fixture(scope="session")
def small() -> pd.DataFrame:
    return panel()
