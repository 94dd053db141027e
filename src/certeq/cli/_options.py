"""Options that several commands share, described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from certeq.cli._choices import Choice, UnknownChoice, complete, find, settle

UTILITY_PANEL = "What risk means"

UtilityName = Annotated[
    str, typer.Option("--utility", "-u", help="A utility; `certeq utilities` lists them.", autocompletion=complete)
]
Alpha = Annotated[float | None, typer.Option(help="Tail mass: 0.05 is the worst 5 % (cvar, leaky-cvar, smooth-cvar).")]
Beta = Annotated[float | None, typer.Option(help="Risk aversion per unit of loss (entropic, mean-variance).")]
Power = Annotated[float | None, typer.Option("--a", help="Power, at least 2 (monotone-mean-variance).")]
Tau = Annotated[float | None, typer.Option(help="Width of the smoothing, in units of the loss (smooth-cvar).")]
Scale = Annotated[float | None, typer.Option(help="The size of a loss that matters, in units of the loss.")]
Normalized = Annotated[bool, typer.Option("--normalized", help="Shift the utility so that a loss of 0 has OCE 0.")]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output, and nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Replace output files that exist.")]
Prices = Annotated[
    Path | None,
    typer.Argument(
        help="CSV or Parquet: dates first, then a column of prices per asset. skfolio's S&P 500 panel if left out.",
        show_default=False,
    ),
]
AreReturns = Annotated[bool, typer.Option("--returns", help="The file holds returns (0.01 is +1 %), not prices.")]


def chosen(
    name: str, alpha: float | None, beta: float | None, a: float | None, tau: float | None, scale: float | None,
    *, daily: bool,
) -> tuple[Choice, dict[str, float]]:  # fmt: skip
    """The utility asked for and its parameters; a bad name, parameter or value is bad usage (exit code 2)."""
    try:
        choice = find(name)
        asked = {"alpha": alpha, "beta": beta, "a": a, "tau": tau, "scale": scale}
        given = settle(choice, asked, daily=daily)
        choice.build(given)
    except UnknownChoice as error:
        raise typer.BadParameter(str(error), param_hint="--utility") from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return choice, given


def described(choice: Choice, given: dict[str, float]) -> dict[str, Any]:
    """The utility for a JSON result."""
    return {"name": choice.key, **given}
