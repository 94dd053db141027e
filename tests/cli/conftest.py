"""A small panel of prices, files made from it, and a way to run the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer", reason="the command needs the extra [cli]")
pytest.importorskip("skfolio", reason="portfolios need the extra [portfolio]")

from tests.command import Ended
from tests.command import certeq as run


def panel() -> pd.DataFrame:
    """Return 401 daily prices of six assets."""
    rng = np.random.default_rng(7)
    days = pd.bdate_range("2020-01-01", periods=401, name="Date")
    market = rng.standard_t(5, size=(400, 1)) * 0.006
    returns = 0.0004 + market * np.linspace(0.4, 1.4, 6) + rng.standard_t(5, size=(400, 6)) * 0.005
    levels = np.vstack([np.ones(6), np.cumprod(1.0 + returns, axis=0)]) * [10, 20, 50, 1, 300, 1e8]
    return pd.DataFrame(levels, index=days, columns=list("ABCDEF"))


@pytest.fixture(scope="session")
def prices() -> pd.DataFrame:
    return panel()


@pytest.fixture(scope="session")
def returns(prices: pd.DataFrame) -> pd.DataFrame:
    return prices.pct_change().dropna()


class Command:
    """Runs ``certeq`` in this process and in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: object, code: int = 0) -> Ended:
        return run(*arguments, code=code)

    def json(self, *arguments: object) -> Any:
        return run(*arguments, "--json").json()

    def refused(self, *arguments: object, code: int = 1) -> str:
        """Return the message: one line about bad data, more about bad usage; nothing is on standard output."""
        ended = run(*arguments, code=code)
        assert ended.out == ""
        last = ended.err.strip().splitlines()[-1]
        assert code != 1 or last.startswith("error: ")
        return last if code == 1 else " ".join(ended.err.replace("│", " ").split())


@pytest.fixture
def certeq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)  # reports are written here by default
    monkeypatch.setenv("COLUMNS", "160")
    return Command(tmp_path)


@pytest.fixture
def csv(tmp_path: Path) -> Callable[..., Path]:
    def write(table: pd.DataFrame, name: str = "prices.csv", **more: Any) -> Path:
        path = tmp_path / name
        table.to_csv(path, **more)
        return path

    return write
