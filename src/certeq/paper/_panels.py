"""The three panels of daily returns, by skfolio's own loaders, and a synthetic one where a file is not to be had."""

from __future__ import annotations

import hashlib
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
SYNTHETIC = "-synthetic"
UNCHECKED = "Synthetic data: the market's file was not to be had, so there is nothing to compare with."
_PATIENCE = 20.0  # seconds a server may keep silent


@dataclass(frozen=True)
class Market:
    """A panel of the paper: the loader's name, what the paper calls it, its size there and the seed of its stand-in."""

    key: str
    title: str
    loader: str
    shape: tuple[int, int]
    seed: int


MARKETS = {
    market.key: market
    for market in (
        Market("sp500", "S&P 500", "load_sp500_dataset", (8312, 20), 500),
        Market("ftse100", "FTSE 100", "load_ftse100_dataset", (5959, 64), 100),
        Market("nasdaq", "Nasdaq", "load_nasdaq_dataset", (1361, 1455), 1455),
    )
}


@dataclass(frozen=True, eq=False)
class Panel:
    """Daily returns split in time, the last quarter held out, and what must be said about where they came from."""

    key: str
    train: pd.DataFrame
    test: pd.DataFrame
    digest: str
    synthetic: bool = False
    note: str = ""

    @property
    def losses(self) -> Floats:
        """Of the training days: returns are negated here and nowhere else."""
        return np.ascontiguousarray(-self.train.to_numpy(dtype=np.float64))

    def held_out(self, weights: Any) -> Floats:
        """The daily returns of a portfolio on the days it was not fitted on."""
        return np.asarray(self.test.to_numpy(dtype=np.float64) @ np.asarray(weights, dtype=np.float64))


@cache
def find_panel(market: str) -> Panel:
    """The real panel, cached or downloaded by skfolio; if it cannot be had, a synthetic one of its size and a note."""
    try:
        return load_panel(market)
    except OSError as error:
        reason = " ".join(str(error).split())
    stand_in = load_panel(market + SYNTHETIC)
    rows, columns = MARKETS[market].shape
    note = (
        f"SYNTHETIC DATA: skfolio's {MARKETS[market].title} file is not cached and could not be downloaded ({reason}). "
        f"What follows is computed on a seeded synthetic panel of its size ({rows} x {columns}, a factor model with "
        f"heavy tails) and cannot be compared with the printed figures. With the file where SKFOLIO_DATA points to, "
        f"the same command runs the real one."
    )
    return Panel(stand_in.key, stand_in.train, stand_in.test, stand_in.digest, True, note)


@cache
def load_panel(key: str) -> Panel:
    """The panel of that key; ``-synthetic`` at its end asks for the stand-in. OSError where a file is not to be had."""
    market = MARKETS[key.removesuffix(SYNTHETIC)]
    synthetic = key.endswith(SYNTHETIC)
    returns = synthetic_returns(*market.shape, seed=market.seed) if synthetic else _real_returns(market)
    held = int(np.ceil(0.25 * len(returns)))  # as scikit-learn's train_test_split rounds it
    digest = hashlib.sha256(np.ascontiguousarray(returns.to_numpy(dtype=np.float64)).tobytes()).hexdigest()[:16]
    return Panel(key, returns.iloc[:-held], returns.iloc[-held:], digest, synthetic)


def synthetic_returns(days: int, assets: int, *, seed: int) -> pd.DataFrame:
    """A market, a dozen sectors and own noise, all Student's t, with spells of volatility that they share."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    sectors = 12
    spells = np.empty(days)
    level = 0.0
    for day, shock in enumerate(rng.standard_normal(days)):
        level = 0.97 * level + 0.1 * shock
        spells[day] = np.exp(level)
    market = 0.006 * spells * rng.standard_t(4, size=days)
    sector = 0.005 * spells[:, None] * rng.standard_t(5, size=(days, sectors))
    exposure = np.clip(rng.normal(1.0, 0.35, assets), 0.1, None)
    belongs = rng.normal(0.0, 0.6, (assets, sectors)) * (rng.random((assets, sectors)) < 0.25)
    own = np.exp(rng.normal(np.log(0.014), 0.45, assets)) * rng.standard_t(4, size=(days, assets))
    drift = rng.normal(3e-4, 4e-4, assets)
    # einsum and not @: a matrix product's last bits depend on the number of threads.
    sectors_of = np.einsum("ts,as->ta", sector, belongs)
    returns = np.maximum(drift + np.outer(market, exposure) + sectors_of + own, -0.9)
    names = [f"S{number:04d}" for number in range(1, assets + 1)]
    return pd.DataFrame(returns, index=pd.bdate_range("2018-01-03", periods=days), columns=names)


def _real_returns(market: Market) -> pd.DataFrame:
    try:
        import skfolio.datasets
        from skfolio.preprocessing import prices_to_returns
    except ImportError as error:
        raise ImportError(f"portfolios need {error.name or 'skfolio'}: pip install 'certeq[paper]'.") from None
    with _patient(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        returns: pd.DataFrame = prices_to_returns(getattr(skfolio.datasets, market.loader)())
    if returns.shape != market.shape:
        raise ValueError(f"skfolio's {market.title} panel is {returns.shape}; the paper's is {market.shape}.")
    return returns


@contextmanager
def _patient() -> Iterator[None]:
    """A download that hears nothing for a while gives up instead of waiting for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_PATIENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
