"""A small panel of prices, files made from it, and a way to run the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer", reason="the command needs the extra [cli]")
pytest.importorskip("skfolio", reason="portfolios need the extra [portfolio]")

from typer.testing import CliRunner

from certeq.cli._app import app


@pytest.fixture(scope="session")
def prices() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    days = pd.bdate_range("2020-01-01", periods=401, name="Date")
    market = rng.standard_t(5, size=(400, 1)) * 0.006
    returns = 0.0004 + market * np.linspace(0.4, 1.4, 6) + rng.standard_t(5, size=(400, 6)) * 0.005
    levels = np.vstack([np.ones(6), np.cumprod(1.0 + returns, axis=0)]) * [10, 20, 50, 1, 300, 1e8]
    return pd.DataFrame(levels, index=days, columns=list("ABCDEF"))


class Command:
    """Runs ``certeq`` in this process; standard output and standard error apart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: object, code: int = 0) -> Any:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, f"exit {result.exit_code}\n{result.stdout}\n{result.stderr}"
        return result

    def json(self, *arguments: object) -> Any:
        return json.loads(self(*arguments, "--json").stdout)

    def refused(self, *arguments: object, code: int = 1) -> str:
        """What the user is told when something is wrong: one line, nothing on standard output."""
        result = self(*arguments, code=code)
        assert result.stdout == ""
        last = result.stderr.strip().splitlines()[-1] if code == 1 else result.stderr
        assert code != 1 or last.startswith("error: ")
        return last


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
